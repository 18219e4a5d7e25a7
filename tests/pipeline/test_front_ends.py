"""Trajectories that other systems wrote, carried to the camera as the how-to says, start init."""

import numpy as np
import pytest

from maci2.api import initialize_recording
from maci2.datasets import open_recording, read_trajectory

pytestmark = pytest.mark.dataset

BODY = ("basalt_Twb_tum.txt", "orbslam3_final_Twb_tum.txt", "openvins_Twb_tum.txt")


def write_tum(path, stamps_ns, Ts_w):
    from scipy.spatial.transform import Rotation

    quats = Rotation.from_matrix(Ts_w[:, :3, :3]).as_quat()
    lines = [
        " ".join([f"{s // 10**9}.{s % 10**9:09d}", *(f"{v:.9f}" for v in (*p, *q))])
        for s, p, q in zip(stamps_ns.tolist(), Ts_w[:, :3, 3], quats, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")


def gravity_error_deg(result):
    """Between the estimate and the ground truth, in the first keyframe's camera."""
    inputs = result.inputs
    truth, stamps_ns = inputs.recording.truth(), result.window.stamps_ns
    at = int(np.argmin(np.abs(truth.stamps_ns - stamps_ns[0])))
    down_c0 = inputs.T_b_c[:3, :3].T @ truth.Ts_w_b[at, :3, :3].T @ np.array([0.0, 0.0, -1.0])
    found = result.gravity_c0
    return np.rad2deg(np.arccos(np.clip(down_c0 @ found / np.linalg.norm(found), -1.0, 1.0)))


@pytest.mark.parametrize("file", BODY)
def test_poses_of_the_imu_carried_to_the_camera_start_init(data_root, tmp_path, file):
    recording = open_recording(data_root / "euroc" / "MH_01_easy")
    poses = read_trajectory(data_root / "rivals" / "MH_01_30s" / file)
    path = tmp_path / "camera_tum.txt"
    write_tum(path, poses.stamps_ns, poses.Ts_w_c @ recording.rig.cameras[0].T_b_c)
    vision = f"trajectory:{path}"
    options = {"vision": vision, "vision_std": "0.1,0.005", "window_s": 5.0, "start_s": 18.0}
    result = initialize_recording(recording.path, **options)
    assert result.verdict.status in ("ok", "weak")
    assert gravity_error_deg(result) < 2.0


def test_droids_poses_start_init_as_they_are(data_root):
    vision = "trajectory:visual/droid_stereo_Twc_tum.txt"
    options = {"vision": vision, "vision_frame": "rectified", "window_s": 5.0, "start_s": 30.0}
    result = initialize_recording(data_root / "euroc" / "MH_03_medium", **options)
    assert result.verdict.status == "ok"
    assert gravity_error_deg(result) < 2.0
