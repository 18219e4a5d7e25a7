"""Lens models against OpenCV's, and each against its own inverse."""

import cv2
import numpy as np
import pytest

from maci2.sensors.camera_model import directions, pixel_grid, project
from maci2.simulation.recording import MEMS_NOISE
from maci2.simulation.rig import simulated_rig


@pytest.fixture(params=["pinhole", "fisheye"])
def camera(request):
    return simulated_rig(request.param, 20.0, MEMS_NOISE).cameras[0]


def test_projection_is_opencv_s(camera):
    rng = np.random.default_rng(0)
    p_c = np.column_stack([rng.uniform(-1.0, 1.0, (200, 2)), rng.uniform(1.5, 5.0, 200)])
    fx, fy, cx, cy = camera.intrinsics
    K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    opencv = cv2.fisheye.projectPoints if camera.distortion_model == "equidistant" else None
    if opencv is not None:
        expected = opencv(p_c[:, None], np.zeros(3), np.zeros(3), K, camera.distortion)[0]
    else:
        expected = cv2.projectPoints(p_c, np.zeros(3), np.zeros(3), K, camera.distortion)[0]
    np.testing.assert_allclose(project(camera, p_c), expected.reshape(-1, 2), atol=1e-8)


def test_pixels_look_along_directions_that_project_back_to_them(camera):
    uv = pixel_grid(camera.resolution)[::997]
    rays = directions(camera, uv)
    np.testing.assert_allclose(np.linalg.norm(rays, axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(project(camera, 3.0 * rays), uv, atol=1e-5)


def test_points_behind_a_pinhole_have_no_pixel():
    camera = simulated_rig("pinhole", 20.0, MEMS_NOISE).cameras[0]
    assert np.isnan(project(camera, np.array([[0.1, 0.0, -1.0]]))).all()
