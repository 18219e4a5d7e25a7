"""Recordings as devices leave them: no place of the IMU, images for a part of the time only."""

import json
from dataclasses import replace

import numpy as np
import pytest

from maci2.api import calibrate_recording
from maci2.datasets import open_recording, write_euroc
from maci2.geometry import se3_inv, so3_log
from maci2.rigs import given_by, read_any_rig
from maci2.sensors import poses_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

DURATION_S = 16.0


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    """A recording in EuRoC layout, and the trajectory of its camera in a file beside it."""
    folder = tmp_path_factory.mktemp("device")
    recording = simulate(SimulationConfig(duration_s=DURATION_S, seed=21))
    write_euroc(recording, folder / "walk")
    opened = open_recording(folder / "walk")
    truth, T_b_c = opened.truth(), opened.rig.cameras[0].T_b_c
    stamps_ns = opened.camera_stamps_ns[0]
    inside = (stamps_ns > truth.stamps_ns[0]) & (stamps_ns < truth.stamps_ns[-1])
    stamps_ns = stamps_ns[inside]
    Ts_w_c = poses_at(truth.stamps_ns, truth.Ts_w_b, stamps_ns, 0.05) @ T_b_c
    write_tum(folder / "camera_tum.txt", stamps_ns, Ts_w_c)
    return folder, opened


def write_tum(path, stamps_ns, Ts_w):
    from scipy.spatial.transform import Rotation

    quats = Rotation.from_matrix(Ts_w[:, :3, :3]).as_quat()
    lines = [
        " ".join([f"{s // NS}.{s % NS:09d}", *(f"{v:.9f}" for v in (*p, *q))])
        for s, p, q in zip(stamps_ns.tolist(), Ts_w[:, :3, 3], quats, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def oak_file(folder, rig):
    """What an OAK keeps of such a rig: the stereo pair in cm, the place of its IMU all zeros."""
    T_c1_c0 = se3_inv(rig.cameras[1].T_b_c) @ rig.cameras[0].T_b_c
    zeros = {"x": 0.0, "y": 0.0, "z": 0.0}
    nowhere = {"rotationMatrix": [[0.0] * 3] * 3, "toCameraSocket": -1, "translation": zeros}
    beside = {
        "rotationMatrix": T_c1_c0[:3, :3].tolist(),
        "toCameraSocket": 2,
        "translation": dict(zip("xyz", (100.0 * T_c1_c0[:3, 3]).tolist(), strict=True)),
    }
    cameras = []
    for socket, camera in zip((1, 2), rig.cameras, strict=False):
        fx, fy, cx, cy = camera.intrinsics.tolist()
        cameras.append(
            [
                socket,
                {
                    "cameraType": 0,
                    "distortionCoeff": [*camera.distortion.tolist(), *[0.0] * 10],
                    "extrinsics": beside if socket == 1 else nowhere,
                    "intrinsicMatrix": [[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]],
                    "width": camera.resolution[0],
                    "height": camera.resolution[1],
                },
            ]
        )
    path = folder / "calib.json"
    imu = nowhere | {"toCameraSocket": 1}
    path.write_text(json.dumps({"cameraData": cameras, "imuExtrinsics": imu}))
    return path


def options(folder, **more):
    return {
        "vision": f"trajectory:{folder / 'camera_tum.txt'}",
        "vision_std": "0.02,0.002,0",
        "vision_scale_std": 0.0,
        "imu": "datasheet",
        **more,
    }


def errors(T_b_c, expected):
    T = se3_inv(expected) @ T_b_c
    return np.rad2deg(np.linalg.norm(so3_log(T[:3, :3]))), np.linalg.norm(T[:3, 3])


def test_an_oak_whose_memory_is_all_zeros_is_calibrated_from_nothing(device):
    folder, opened = device
    path = oak_file(folder, opened.rig)
    noise = opened.rig.imu
    densities = (noise.density_gyro, noise.density_acc, noise.walk_gyro, noise.walk_acc)
    text = ",".join(map(repr, map(float, densities)))
    chosen = options(folder, window_s=12.0, rig=path, imu_noise=text, imu_rate=noise.rate_hz)
    assert not read_any_rig(path, given_by(noise.rate_hz, text, "")).extrinsics_known
    result = calibrate_recording(folder / "walk", **chosen)
    assert result.verdict.status in ("ok", "weak"), result.verdict
    rotation_deg, distance = errors(result.state.T_b_c, opened.rig.cameras[0].T_b_c)
    assert rotation_deg < 0.5
    assert distance < 0.03
    calibrated = result.rig
    rotation_deg, distance = errors(calibrated.cameras[1].T_b_c, opened.rig.cameras[1].T_b_c)
    assert rotation_deg < 0.5
    assert distance < 0.03


@pytest.mark.parametrize(
    ("begin_s", "end_s"), [(3.0, 13.0), (-1.0, 11.0)], ids=["in the middle", "begun before the IMU"]
)
def test_images_for_a_part_of_the_time_are_enough(device, tmp_path, begin_s, end_s):
    """The IMU runs longer than the camera, or the camera was on first: what both saw is used."""
    folder, opened = device
    first_ns = int(opened.imu.stamps_ns[0])
    kept = (opened.camera_stamps_ns[0] >= first_ns + begin_s * NS) & (
        opened.camera_stamps_ns[0] <= first_ns + end_s * NS
    )
    partial = replace(
        opened, camera_stamps_ns=tuple(stamps[kept] for stamps in opened.camera_stamps_ns)
    )
    if begin_s < 0.0:
        late = opened.imu.stamps_ns >= first_ns + NS
        imu = replace(
            opened.imu,
            stamps_ns=opened.imu.stamps_ns[late],
            gyro=opened.imu.gyro[late],
            acc=opened.imu.acc[late],
        )
        partial = replace(partial, imu=imu)
    write_euroc(partial, tmp_path / "part")
    result = calibrate_recording(tmp_path / "part", **options(folder))
    assert result.verdict.status in ("ok", "weak"), result.verdict
    rotation_deg, distance = errors(result.state.T_b_c, opened.rig.cameras[0].T_b_c)
    assert rotation_deg < 0.5
    assert distance < 0.05
