"""Simulated streams: sensors that hand over what a simulated recording holds, camera motion drawn
from its own covariance."""

import json
import os
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from maci2.geometry import se3_exp, se3_inv
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.sensors.stereo import StereoPair
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS
from maci2.vision import RelativePoses, pose_noise
from maci2.vision.covariance import EXACT_CALIBRATION
from maci2.vision.relative_pose import RelativePose, stacked, unmeasured

RESOLUTION = (16, 8)
"""Images hold nothing but the number of their frame: small ones do."""

NOISE = (0.05, 0.003)
"""Noise of a relative pose [deg, m]."""

UNUSABLE = 255
"""Value of a pixel that marks a frame in which nothing can be seen."""


@dataclass(frozen=True)
class Simulated:
    """A simulated recording with the ground truth at its frames."""

    recording: Recording
    frames_ns: np.ndarray
    truth: GroundTruth

    def image(self, frame: int, usable: bool = True) -> np.ndarray:
        """An image that says which frame it is."""
        image = np.zeros(RESOLUTION[::-1], dtype=np.uint8)
        image.ravel()[:4] = np.frombuffer(np.uint32(frame).tobytes(), dtype=np.uint8)
        image.ravel()[4] = 0 if usable else UNUSABLE
        return image


def simulated(duration_s: float, seed: int, **choices) -> Simulated:
    config = SimulationConfig(duration_s=duration_s, seed=seed, **choices)
    recording = simulate(config)
    cameras = tuple(replace(camera, resolution=RESOLUTION) for camera in recording.rig.cameras)
    recording = replace(recording, rig=replace(recording.rig, cameras=cameras))
    truth, frames_ns = recording.truth(), recording.camera_stamps_ns[0]
    inside = (frames_ns > truth.stamps_ns[0]) & (frames_ns < truth.stamps_ns[-1])
    frames_ns = frames_ns[inside]
    return Simulated(recording, frames_ns, truth_at(truth, frames_ns, 0.1))


class SimulatedTracker:
    """Reads which frame an image is and hands out its motion, with noise of known covariance."""

    def __init__(self, source: Simulated, interval_s: float, count: int, seed: int = 0):
        self.T_b_c = source.recording.rig.cameras[0].T_b_c
        self._Ts_w_c = source.truth.Ts_w_b @ self.T_b_c
        self._cov = pose_noise(*NOISE)
        self._interval_ns, self._seed = interval_s * NS, seed
        self._poses: deque[RelativePose] = deque(maxlen=count - 1)
        self.frames: deque[tuple[int, int]] = deque(maxlen=200)
        """Timestamps of keyframes and which frames they are."""
        self.clear()

    def clear(self) -> None:
        self._poses.clear()
        self._last: tuple[int, int, bool] | None = None
        self._start_ns, self._number = 0, 0

    @property
    def first_ns(self) -> int | None:
        return self._poses[0].stamps_ns[0] if self._poses else self.last_ns

    @property
    def last_ns(self) -> int | None:
        return self._last[0] if self._last else None

    def add(self, pair: StereoPair) -> bool:
        values = pair.left.ravel()
        frame, usable = int(values[:4].copy().view(np.uint32)[0]), values[4] != UNUSABLE
        if self._last is None:
            self._start_ns, self._number = pair.stamp_ns, 0
        elif pair.stamp_ns < self._start_ns + self._interval_ns * (self._number + 1) - 1e6:
            return False
        else:
            self._number += 1
            self._poses.append(self._pose(self._last, (pair.stamp_ns, frame, usable)))
        self._last = (pair.stamp_ns, frame, usable)
        self.frames.append((pair.stamp_ns, frame))
        return True

    def _pose(self, one, other) -> RelativePose:
        stamps_ns = (one[0], other[0])
        if not (one[2] and other[2]):
            return unmeasured(stamps_ns, "dark")
        rng = np.random.default_rng((self._seed, one[1], other[1]))
        xi = np.sqrt(np.diag(self._cov)) * rng.standard_normal(6)
        T = se3_exp(xi) @ se3_inv(self._Ts_w_c[one[1]]) @ self._Ts_w_c[other[1]]
        return RelativePose(stamps_ns, T, self._cov, 100, 100, 0.0)

    def window(self) -> RelativePoses | None:
        return self.so_far() if len(self._poses) == self._poses.maxlen else None

    def so_far(self) -> RelativePoses | None:
        return stacked(self._poses, "camera", EXACT_CALIBRATION) if self._poses else None

    def reasons(self) -> list[str]:
        return [pose.reason for pose in self._poses if pose.reason]


@dataclass(frozen=True)
class Errors:
    """Errors of a result, and the same in units of their covariance, per degree of freedom."""

    gravity_deg: float
    velocity: float
    nees_gravity: float
    nees_velocity: float
    nees_gyro_bias: float
    nees_acc_bias: float

    @property
    def right(self) -> bool:
        """Within the limits that `ok` promises."""
        return self.gravity_deg < 2.0 and self.velocity < 0.1


def errors_of(result, truth: GroundTruth, T_b_c: np.ndarray) -> Errors:
    """Compare a result with the ground truth at its keyframes."""
    state, posterior = result.state, result.posterior
    R_w_c0 = truth.Ts_w_b[0, :3, :3] @ T_b_c[:3, :3]
    norm = np.linalg.norm(state.gravity_c0)
    gravity = R_w_c0.T @ np.array([0.0, 0.0, -norm])
    away = state.gravity_c0 - gravity
    velocity_b = np.einsum("kji,kj->ki", truth.Ts_w_b[:, :3, :3], truth.v_w)
    dv = state.velocity_b - velocity_b
    return Errors(
        float(np.rad2deg(2.0 * np.arcsin(0.5 * np.linalg.norm(away) / norm))),
        float(np.sqrt(np.mean(np.sum(dv**2, axis=1)))),
        _nees(away, posterior.gravity_c0),
        float(np.mean([_nees(d, cov) for d, cov in zip(dv, posterior.velocity_b, strict=True)])),
        _nees(state.gyro_bias - truth.bias_gyro.mean(axis=0), posterior.gyro_bias),
        _nees(state.acc_bias - truth.bias_acc.mean(axis=0), posterior.acc_bias),
    )


def _nees(error: np.ndarray, cov: np.ndarray) -> float:
    """Along the directions that the covariance has: gravity keeps its norm."""
    variances, directions = np.linalg.eigh(cov)
    seen = variances > 1e-9 * variances[-1]
    return float(np.mean((directions.T @ error)[seen] ** 2 / variances[seen]))


def noise_file(folder: Path) -> Path:
    """What `maci2 noise --json` writes, of an IMU noisier than its data sheet."""
    record = {
        "density_gyro": {"axes": [4e-4, 5e-4, 6e-4]},
        "density_acc": {"axes": [4e-3, 5e-3, 6e-3]},
        "walk_gyro": {"value": 1e-4},
        "walk_acc": {"value": 4e-3},
    }
    path = folder / "noise.json"
    path.write_text(json.dumps(record))
    return path


def resident_mb() -> float:
    """Memory of this process that is not swapped out [MB]."""
    with open("/proc/self/statm") as statm:
        pages = int(statm.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
