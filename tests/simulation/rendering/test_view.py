"""Drawn images: geometry against projected points, light, determinism, files."""

import hashlib
from dataclasses import replace

import cv2
import numpy as np
import pytest

from maci2.datasets import open_recording, write_euroc
from maci2.errors import DatasetError, OptionError
from maci2.geometry import se3_exp, se3_inv
from maci2.sensors.camera_model import pixel_grid, project
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.recording import MEMS_NOISE, simulated_rig
from maci2.simulation.rendering.difficulty import (
    EASY,
    HARD,
    Difficulty,
    degraded,
    difficulty_of,
    exposure_gain,
)
from maci2.simulation.rendering.images import RenderConfig, render_recording, rendered_pairs
from maci2.simulation.rendering.scene import random_scene
from maci2.simulation.rendering.view import View, streaks

CLEAN = Difficulty(read_noise=0.0, pattern_noise=0.0, light=1e5, vignetting=0.0)
T_W_C = se3_exp(np.array([0.3, 0.2, 0.1, 0.1, 0.3, -0.2]))
T_W_C1 = T_W_C @ se3_exp(np.array([0.05, -0.02, 0.03, 0.01, 0.02, -0.01]))


@pytest.fixture(scope="module", params=["pinhole", "fisheye"])
def view(request):
    rng = np.random.default_rng(3)
    scene = random_scene(np.zeros((5, 3)), replace(CLEAN, moving_boxes=3), rng)
    return View(scene, simulated_rig(request.param, 20.0, MEMS_NOISE).cameras[0], CLEAN, 0)


def depth_of(view, T_w_c, t):
    """(h, w) depth along the optical axis [m]."""
    rays = view._rays.reshape(-1, 3)
    hits = view.look(T_w_c, t, rays)
    return (hits.distance * rays[:, 2]).reshape(view._rays.shape[:2])


def flow_of(view, T_w_c, t, T_w_c1, t1):
    """(h, w, 2) motion of every pixel to another pose and time [px]."""
    hits = view.look(T_w_c, t, view._rays.reshape(-1, 3))
    uv1 = project(view.camera, view.carried(hits, t, T_w_c1, t1))
    return (uv1 - pixel_grid(view.camera.resolution)).reshape(*view._rays.shape[:2], 2)


def test_flow_is_where_the_points_of_the_scene_project(view):
    flow = flow_of(view, T_W_C, 0.0, T_W_C1, 0.1)
    depth = depth_of(view, T_W_C, 0.0)
    uv = pixel_grid(view.camera.resolution)
    hits = view.look(T_W_C, 0.0, view._rays.reshape(-1, 3))
    still = ~view.scene.velocities.any(axis=1)[hits.box]
    p_c = view._rays.reshape(-1, 3)
    p_c = p_c / p_c[:, 2:] * depth.reshape(-1, 1)
    T_c1_c = se3_inv(T_W_C1) @ T_W_C
    expected = project(view.camera, p_c @ T_c1_c[:3, :3].T + T_c1_c[:3, 3]) - uv
    both = still & np.isfinite(expected).all(axis=1) & np.isfinite(flow.reshape(-1, 2)).all(axis=1)
    assert both.sum() > 0.8 * len(uv)
    np.testing.assert_allclose(flow.reshape(-1, 2)[both], expected[both], atol=1e-6)


def test_every_ray_ends_where_plain_numpy_finds_the_nearest_box(view):
    rays = view._rays[::7, ::7].reshape(-1, 3)
    scene, t = view.scene, 0.4
    direction = np.einsum("nji,mj->nmi", scene.Rs_w_box, rays @ T_W_C[:3, :3].T)
    start = np.einsum("nji,nj->ni", scene.Rs_w_box, T_W_C[:3, 3] - scene.centers_at(t))
    planes = np.stack([-scene.half_sizes, scene.half_sizes]) - start
    at = planes[:, :, None] / direction
    enter, leave = at.min(axis=0).max(axis=2), at.max(axis=0).min(axis=2)
    enter[(enter > leave) | (enter < 0.0)] = np.inf
    enter[0] = leave[0]
    for shuffled in (np.arange(len(rays)), np.random.default_rng(0).permutation(len(rays))):
        hits = view.look(T_W_C, t, rays[shuffled])
        np.testing.assert_allclose(hits.distance, enter.min(axis=0)[shuffled], rtol=1e-12)
        np.testing.assert_array_equal(hits.box, enter.argmin(axis=0)[shuffled])
    depth = depth_of(view, T_W_C, t)[::7, ::7].ravel()
    np.testing.assert_allclose(depth, enter.min(axis=0) * rays[:, 2], rtol=1e-12)


def test_any_number_of_threads_draws_the_same_image(view, monkeypatch):
    hard = View(view.scene, view.camera, HARD, 0)
    images = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(
            "maci2.simulation.rendering.view.cores", lambda threads=threads: threads
        )
        images.append(hard.render(T_W_C, 0.0, 1.0, np.random.default_rng(0), T_W_C1))
    np.testing.assert_array_equal(images[0], images[1])
    np.testing.assert_array_equal(images[0], images[2])


def test_the_second_image_carried_back_along_the_flow_is_the_first(view):
    rng = np.random.default_rng(0)
    first = view.render(T_W_C, 0.0, 1.0, rng, T_W_C).astype(np.float32)
    second = view.render(T_W_C1, 0.0, 1.0, rng, T_W_C1).astype(np.float32)
    place = pixel_grid(view.camera.resolution).reshape(*first.shape, 2)
    uv1 = (place + flow_of(view, T_W_C, 0.0, T_W_C1, 0.0)).astype(np.float32)
    back = cv2.remap(second, np.nan_to_num(uv1[..., 0], nan=-9), uv1[..., 1], cv2.INTER_CUBIC)
    inside = (back > 0) & np.isfinite(uv1).all(axis=2)
    difference = np.abs(back - first)[inside]
    assert inside.mean() > 0.7
    assert np.median(difference) < 2.0
    # Without the flow the images do not agree.
    assert np.median(np.abs(second - first)[inside]) > 3.0 * np.median(difference)


def test_moving_boxes_move_in_the_flow_and_walls_do_not(view):
    flow = flow_of(view, T_W_C, 0.0, T_W_C, 0.5).reshape(-1, 2)
    hits = view.look(T_W_C, 0.0, view._rays.reshape(-1, 3))
    np.testing.assert_allclose(np.nan_to_num(flow[hits.box == 0]), 0.0, atol=1e-6)


def test_dim_light_is_noisier_but_as_bright(view):
    images = {}
    for light in (1.0, 0.05):
        one = View(view.scene, view.camera, replace(CLEAN, light=light), 0)
        images[light] = one.render(T_W_C, 0.0, 1.0, np.random.default_rng(0), T_W_C).astype(float)
    clean = view.render(T_W_C, 0.0, 1.0, np.random.default_rng(0), T_W_C).astype(float)
    noise = {light: (image - clean).std() for light, image in images.items()}
    # Shot noise goes with the square root of the light.
    assert noise[0.05] / noise[1.0] == pytest.approx(np.sqrt(20.0), rel=0.15)
    assert images[0.05].mean() == pytest.approx(clean.mean(), rel=0.02)


def test_a_moving_camera_blurs_only_with_an_open_shutter(view):
    blurred = View(view.scene, view.camera, replace(CLEAN, exposure_s=0.02), 0)
    T_later = T_W_C @ se3_exp(np.array([0.0, 0.0, 0.0, 0.02, 0.0, 0.0]))
    sharp = view.render(T_W_C, 0.0, 1.0, np.random.default_rng(0), T_later)
    smeared = blurred.render(T_W_C, 0.0, 1.0, np.random.default_rng(0), T_later)
    gradient = [np.abs(np.diff(one.astype(float), axis=0)).mean() for one in (sharp, smeared)]
    assert gradient[1] < 0.7 * gradient[0]


def test_a_rolling_shutter_exposes_each_row_at_a_time_of_its_own(view):
    rolling = View(view.scene, view.camera, replace(CLEAN, readout_s=0.02), 0)
    turn = np.array([0.0, 0.0, 0.0, 0.004, 0.01, -0.004])
    T_before, T_later = T_W_C @ se3_exp(-turn), T_W_C @ se3_exp(turn)

    def rendered(one, T_w_c):
        image = one.render(T_w_c, 0.0, 1.0, np.random.default_rng(0), T_later)
        return image.astype(float)

    image, middle = rendered(rolling, T_W_C), rendered(view, T_W_C)
    for rows, T_w_c in ((slice(5, 15), T_before), (slice(-15, -5), T_later)):
        inner = (rows, slice(20, -20))
        off = np.abs(image - rendered(view, T_w_c))[inner].mean()
        assert off < 0.3 * np.abs(middle - rendered(view, T_w_c))[inner].mean()
    half = len(image) // 2
    np.testing.assert_allclose(image[half - 2 : half + 2], middle[half - 2 : half + 2], atol=3.0)


def test_a_drawn_recording_reads_back_with_exact_calibration_and_the_same_bytes(tmp_path):
    recording = simulate(SimulationConfig(duration_s=0.4, seed=1))
    drawn = [
        render_recording(recording, tmp_path / name, RenderConfig(HARD, rate_hz=10.0, seed=5))
        for name in ("a", "b")
    ]
    opened = open_recording(tmp_path / "a")
    assert opened.rig.exact
    assert not open_recording_without_images_is_exact(recording, tmp_path)
    files = [sorted((one.path / "mav0" / "cam1" / "data").iterdir()) for one in drawn]
    assert [file.stem for file in files[0]] == [str(s) for s in opened.camera_stamps_ns[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))


def open_recording_without_images_is_exact(recording, tmp_path):
    measured = replace(recording, rig=replace(recording.rig, exact=False))
    write_euroc(measured, tmp_path / "measured")
    return open_recording(tmp_path / "measured").rig.exact


def test_drawing_without_a_truth_is_refused(tmp_path):
    recording = replace(simulate(SimulationConfig(duration_s=0.4)), truths={})
    with pytest.raises(DatasetError, match="needs a ground truth"):
        render_recording(recording, tmp_path / "x", RenderConfig())


def test_difficulties_are_named_and_bounded():
    assert difficulty_of("easy") == EASY
    assert degraded(EASY, "light=0.2,moving_boxes=3") == replace(EASY, light=0.2, moving_boxes=3)
    for text, message in (("fog=1", "'fog' is no difficulty"), ("light=x", "needed a number")):
        with pytest.raises(OptionError, match=message):
            degraded(EASY, text)
    with pytest.raises(OptionError, match="at most 1"):
        Difficulty(blackout=1.5)


@pytest.mark.parametrize(
    ("difficulty", "digest"),
    [
        (EASY, "896e72a2cafc323e"),
        (HARD, "46f64bcfcc0ef344"),
        (degraded(HARD, "covered=0.5,blackout=0.3"), "f9cbe301d735a902"),
    ],
    ids=["easy", "hard", "covered"],
)
def test_images_stay_those_that_other_systems_were_measured_on(difficulty, digest):
    """Bit for bit: new kinds of degradation leave the old ones as they were."""
    pairs = rendered_pairs(simulate(SimulationConfig(duration_s=1.0)), RenderConfig(difficulty, 3))
    content = hashlib.sha256()
    for _ in range(3):
        for image in next(pairs):
            content.update(image.tobytes())
    assert content.hexdigest()[:16] == digest


def test_darkness_jumps_and_rain_do_what_they_say():
    rng = np.random.default_rng(0)
    assert exposure_gain(degraded(CLEAN, "darkness=0.75"), rng) == 0.25
    jumps = degraded(CLEAN, "exposure_jumps=0.5")
    gains = np.array([exposure_gain(jumps, rng) for _ in range(400)])
    assert set(gains.round(6)) == {1.0, 1.5, round(1.0 / 1.5, 6)}
    assert np.mean(gains != 1.0) == pytest.approx(0.5, abs=0.1)
    drops, others = (streaks((200, 300), 100.0, rng) for _ in range(2))
    assert (drops >= 0.0).all()
    assert 0.02 < np.mean(drops > 0.05) < 0.5
    assert (drops != others).any()
    for wrong in ("darkness=1.5", "exposure_jumps=2", "rain=-1"):
        with pytest.raises(OptionError, match="needed"):
            degraded(EASY, wrong)


def test_rain_lies_over_the_image_and_elsewhere_in_the_next():
    rng = np.random.default_rng(3)
    scene = random_scene(np.zeros((5, 3)), CLEAN, rng)
    camera = simulated_rig("pinhole", 20.0, MEMS_NOISE).cameras[0]
    dry, wet = (
        [
            View(scene, camera, difficulty, 0).render(T_W_C, 0.0, 1.0, rng, T_W_C).astype(int)
            for _ in range(2)
        ]
        for difficulty in (CLEAN, degraded(CLEAN, "rain=300"))
    )
    assert np.mean(np.abs(dry[0] - dry[1]) > 8) == 0.0
    assert np.mean(wet[0] - dry[0] > 8) > 0.02
    assert np.mean(np.abs(wet[0] - wet[1]) > 8) > 0.02
