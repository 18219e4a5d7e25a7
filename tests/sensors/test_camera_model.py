"""Lens models against OpenCV's, and each against its own inverse."""

from dataclasses import replace

import cv2
import numpy as np
import pytest

from maci2.sensors import Camera
from maci2.sensors.camera_model import central_focal, directions, pixel_grid, project
from maci2.simulation.recording import MEMS_NOISE, simulated_rig


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


def lens(camera_model, parameters, distortion_model="none", distortion=(0.0,) * 4):
    focal = {"omni": 800.0, "ds": 160.0, "eucm": 190.0}.get(camera_model, 400.0)
    return Camera(
        T_b_c=np.eye(4),
        intrinsics=np.array([focal, 1.01 * focal, 321.5, 238.25]),
        distortion=np.array(distortion),
        distortion_model=distortion_model,
        resolution=(640, 480),
        rate_hz=20.0,
        camera_model=camera_model,
        model_parameters=np.array(parameters),
    )


MODELS = {
    "radtan with five": lens("pinhole", (), "radtan", (-0.28, 0.07, 2e-4, 2e-5, 0.01)),
    "radtan with eight": lens(
        "pinhole", (), "radtan", (0.4, -0.1, 1e-4, -2e-4, 0.02, 0.6, -0.05, 0.01)
    ),
    "omni": lens("omni", (1.0,)),
    "omni with radtan": lens("omni", (1.44,), "radtan", (-0.34, 0.062, 1.2e-3, -2e-4)),
    "omni below one": lens("omni", (0.8,), "radtan", (-0.05, 0.01, 1e-3, -2e-4)),
    "double sphere": lens("ds", (-0.172, 0.593)),
    "extended unified": lens("eucm", (0.62, 1.1)),
    "fov": lens("pinhole", (), "fov", (0.93,)),
    "fov of nothing": lens("pinhole", (), "fov", (1e-9,)),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_its_own_inverse(name):
    camera = MODELS[name]
    uv = pixel_grid(camera.resolution)[::997]
    rays = directions(camera, uv)
    assert np.isfinite(rays).mean() > 0.95
    seen = np.isfinite(rays).all(axis=1)
    np.testing.assert_allclose(np.linalg.norm(rays[seen], axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(project(camera, 3.0 * rays[seen]), uv[seen], atol=1e-5)


@pytest.mark.parametrize("name", ["radtan with five", "radtan with eight"])
def test_longer_radtan_is_opencv_s(name):
    camera = MODELS[name]
    rng = np.random.default_rng(0)
    p_c = np.column_stack([rng.uniform(-1.0, 1.0, (200, 2)), rng.uniform(1.5, 5.0, 200)])
    fx, fy, cx, cy = camera.intrinsics
    K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
    expected = cv2.projectPoints(p_c, np.zeros(3), np.zeros(3), K, camera.distortion)[0]
    np.testing.assert_allclose(project(camera, p_c), expected.reshape(-1, 2), atol=1e-8)


def test_omni_is_a_point_on_a_sphere_seen_from_xi_above_its_centre():
    """By hand: the point goes to the unit sphere, the pinhole sits at -xi on the axis."""
    camera = MODELS["omni"]
    on_sphere = np.array([[0.6, 0.0, 0.8], [0.0, 0.8, -0.6]])
    plane = on_sphere[:, :2] / (on_sphere[:, 2:] + 1.0)
    expected = plane * camera.intrinsics[:2] + camera.intrinsics[2:]
    np.testing.assert_allclose(project(camera, 7.0 * on_sphere), expected, atol=1e-10)


def test_models_become_each_other_where_their_parameters_say_so():
    p_c = np.random.default_rng(3).uniform([-1, -1, 0.5], [1, 1, 3], (50, 3))
    pinhole = lens("pinhole", ())
    for camera in (lens("omni", (0.0,)), lens("ds", (0.0, 0.0)), lens("eucm", (0.0, 1.0))):
        same = replace(camera, intrinsics=pinhole.intrinsics)
        np.testing.assert_allclose(project(same, p_c), project(pinhole, p_c), atol=1e-9)
    # The second sphere of ds at xi = 0 is the unified model with xi = alpha / (1 - alpha).
    ds, omni = lens("ds", (0.0, 0.6)), lens("omni", (1.5,))
    focal = omni.intrinsics * [2.5 * 0.4, 2.5 * 0.4, 1, 1]
    ds = replace(ds, intrinsics=focal * [0.4, 0.4, 1, 1])
    np.testing.assert_allclose(project(ds, p_c), project(omni, p_c), atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_central_focal_length_is_the_slope_at_the_axis(name):
    camera = MODELS[name]
    angle = 1e-5
    p_c = np.array([[0.0, 0.0, 1.0], [np.sin(angle), 0.0, np.cos(angle)]])
    slope = np.diff(project(camera, p_c)[:, 0])[0] / angle
    np.testing.assert_allclose(central_focal(camera)[0], slope, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["omni below one", "omni with radtan", "double sphere", "extended unified"]
)
def test_points_behind_what_a_model_sees_have_no_pixel(name):
    assert np.isnan(project(MODELS[name], np.array([[0.01, 0.0, -1.0]]))).all()
    wide = project(MODELS["double sphere"], np.array([[1.0, 0.0, -0.1]]))
    assert np.isfinite(wide).all()
