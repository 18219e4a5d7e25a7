"""A recording with one thing changed, written to disk and diagnosed."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.spatial.transform import Rotation

from helpers import unchecked
from maci2.datasets import open_recording, write_euroc
from maci2.sensors import CameraTrajectory, ImuSamples, Recording, poses_at
from maci2.tools.diagnostics.diagnose import examine, examine_path
from maci2.tools.diagnostics.diagnosis import Diagnosis
from maci2.types import Array

Draw = np.random.Generator


@dataclass(frozen=True)
class Degraded:
    """A recording on its way to disk, with the camera motion somebody computed from it."""

    recording: Recording
    vision: CameraTrajectory | None = None
    edit: Callable[[Path], None] = lambda _: None
    """What is done to the files afterwards."""


Spoil = Callable[[Degraded, Draw], Degraded]


def camera_path(recording: Recording, seed: int = 0) -> CameraTrajectory:
    """What a good odometry would give: 0.03 deg and 1 mm of noise at every frame."""
    rng = np.random.default_rng(seed)
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0]
    Ts = poses_at(truth.stamps_ns, truth.Ts_w_b, stamps_ns, 0.06) @ T_b_c
    Ts[:, :3, :3] = (
        Ts[:, :3, :3]
        @ Rotation.from_rotvec(np.deg2rad(0.03) * rng.standard_normal((len(Ts), 3))).as_matrix()
    )
    Ts[:, :3, 3] += 0.001 * rng.standard_normal((len(Ts), 3))
    return CameraTrajectory(stamps_ns, Ts, "vision")


def diagnose(damaged: Degraded, folder: Path) -> Diagnosis:
    write_euroc(damaged.recording, folder)
    damaged.edit(folder / "mav0")
    if damaged.vision is None:
        return examine_path(folder)
    return examine(open_recording(folder), damaged.vision)


def with_imu(damaged: Degraded, **changes: Array) -> Degraded:
    imu = unchecked(damaged.recording.imu, **changes)
    return replace(damaged, recording=replace(damaged.recording, imu=imu))


def without_samples(damaged: Degraded, keep: Array) -> Degraded:
    imu = damaged.recording.imu
    kept = ImuSamples(imu.stamps_ns[keep], imu.gyro[keep], imu.acc[keep], imu.source)
    return replace(damaged, recording=replace(damaged.recording, imu=kept))


def with_cameras(damaged: Degraded, *stamps_ns: Array) -> Degraded:
    return replace(damaged, recording=replace(damaged.recording, camera_stamps_ns=stamps_ns))


def with_noise(damaged: Degraded, **changes: float) -> Degraded:
    rig = damaged.recording.rig
    rig = replace(rig, imu=replace(rig.imu, **changes))
    return replace(damaged, recording=replace(damaged.recording, rig=rig))


def with_extrinsics(damaged: Degraded, change: Callable[[Array], Array]) -> Degraded:
    """Calibration of both cameras changed; the camera motion stays what it was."""
    rig = damaged.recording.rig
    cameras = tuple(replace(camera, T_b_c=change(camera.T_b_c)) for camera in rig.cameras)
    recording = replace(damaged.recording, rig=replace(rig, cameras=cameras))
    return replace(damaged, vision=camera_path(damaged.recording), recording=recording)


def with_truth(damaged: Degraded, **changes: Array) -> Degraded:
    [(name, truth)] = damaged.recording.truths.items()
    truths = {name: unchecked(truth, **changes)}
    return replace(damaged, recording=replace(damaged.recording, truths=truths))


def without_truth(damage: Spoil) -> Spoil:
    def degrading(damaged: Degraded, rng: Draw) -> Degraded:
        damaged = damage(damaged, rng)
        return replace(damaged, recording=replace(damaged.recording, truths={}))

    return degrading


def seen_by_vision_only(damage: Spoil) -> Spoil:
    def degrading(damaged: Degraded, rng: Draw) -> Degraded:
        vision = camera_path(damaged.recording)
        return replace(without_truth(damage)(damaged, rng), vision=vision)

    return degrading


def lines_of(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *change(lines)]) + "\n")
