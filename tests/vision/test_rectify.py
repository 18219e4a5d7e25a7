"""A rectified pair is an ideal one: same rows, one focal length, in the frame that is stated."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import CalibrationError
from maci2.geometry import se3, se3_inv
from maci2.sensors.camera_model import project
from maci2.simulation.recording import MEMS_NOISE, simulated_rig
from maci2.vision.rectify import rectified_extrinsics, rectify

OTHER_MODELS = {
    "omni": {"camera_model": "omni", "model_parameters": np.array([1.2])},
    "double sphere": {"camera_model": "ds", "model_parameters": np.array([-0.17, 0.59])},
    "extended unified": {"camera_model": "eucm", "model_parameters": np.array([0.6, 1.1])},
    "fov": {"distortion_model": "fov", "distortion": np.array([0.9])},
}


@pytest.fixture(params=["pinhole", "fisheye", *OTHER_MODELS])
def rig(request):
    if request.param not in OTHER_MODELS:
        return simulated_rig(request.param, 20.0, MEMS_NOISE)
    rig = simulated_rig("pinhole", 20.0, MEMS_NOISE)
    ideal = {"distortion_model": "none", "distortion": np.zeros(4)}
    cameras = [replace(c, **(ideal | OTHER_MODELS[request.param])) for c in rig.cameras]
    return replace(rig, cameras=tuple(cameras))


def test_an_ideal_pixel_is_taken_from_where_its_point_projects(rig):
    made = rectify(rig)
    rng = np.random.default_rng(0)
    width, height = made.resolution
    uv = rng.integers([100, 100], [width - 100, height - 100], size=(50, 2))
    disparity = rng.uniform(5.0, 40.0, size=50)
    z = made.focal * made.baseline / disparity
    p_cr = np.column_stack([(uv - np.array(made.center)) / made.focal * z[:, None], z])
    # Points with a whole disparity fall on pixels of the right image too.
    whole = np.column_stack([uv[:, 0] - np.rint(disparity).astype(int), uv[:, 1]])
    z = made.focal * made.baseline / np.rint(disparity)
    p_whole = np.column_stack([(uv - np.array(made.center)) / made.focal * z[:, None], z])
    for camera, maps, at, p in (
        (rig.cameras[0], made.maps_left, uv, p_cr),
        (rig.cameras[1], made.maps_right, whole, p_whole),
    ):
        T_c_cr = se3_inv(camera.T_b_c) @ made.T_b_cr
        expected = project(camera, p @ T_c_cr[:3, :3].T + T_c_cr[:3, 3])
        found = np.column_stack([maps[i][at[:, 1], at[:, 0]] for i in range(2)])
        np.testing.assert_allclose(found, expected, atol=2e-3)


def test_extrinsics_are_carried_into_the_rectified_frame(rig):
    made = rectify(rig)
    np.testing.assert_allclose(made.T_b_cr, rectified_extrinsics(rig))
    # The origin stays, the axes turn.
    np.testing.assert_allclose(made.T_b_cr[:3, 3], rig.cameras[0].T_b_c[:3, 3])
    p_cr_c1 = (se3_inv(made.T_b_cr) @ rig.cameras[1].T_b_c)[:3, 3]
    np.testing.assert_allclose(p_cr_c1, [made.baseline, 0.0, 0.0], atol=1e-9)


def test_swapped_cameras_are_called_so(rig):
    swapped = replace(rig, cameras=rig.cameras[::-1])
    with pytest.raises(CalibrationError, match="left and right look swapped"):
        rectify(swapped)


def test_cameras_of_different_size_are_refused(rig):
    other = replace(rig.cameras[1], resolution=(640, 400))
    with pytest.raises(CalibrationError, match="needed one size"):
        rectify(replace(rig, cameras=(rig.cameras[0], other)))


def test_two_cameras_at_one_place_are_refused(rig):
    with pytest.raises(CalibrationError, match="mm apart"):
        rectify(replace(rig, cameras=(rig.cameras[0], rig.cameras[0])))


def test_a_vertical_rig_is_refused(rig):
    T_c0_c1 = se3(np.eye(3), np.array([0.0, 0.1, 0.0]))
    below = replace(rig.cameras[0], T_b_c=rig.cameras[0].T_b_c @ T_c0_c1)
    with pytest.raises(CalibrationError, match="vertical"):
        rectify(replace(rig, cameras=(rig.cameras[0], below)))
