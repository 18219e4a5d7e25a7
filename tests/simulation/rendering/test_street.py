"""Streets: nothing stands or drives in the way, and sizes are those of a street."""

import numpy as np
import pytest

from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.difficulty import EASY
from maci2.simulation.rendering.images import RenderConfig, _in_scene, scene_for
from maci2.simulation.rendering.scene import CAMERA_HEIGHT, RATE, SCALE, street_scene
from maci2.types import NS
from maci2_lab.training.vision.data import look


def drive(seed):
    recording = simulate(SimulationConfig(kind="driving", duration_s=20.0, seed=seed))
    truth = recording.truth()
    times = (truth.stamps_ns - truth.stamps_ns[0]) / NS
    return recording, truth, times


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_driving_is_as_fast_as_cars_and_level(seed):
    _, truth, _ = drive(seed)
    speed = np.linalg.norm(truth.v_w, axis=1)
    assert speed.min() > 3.0
    assert 12.0 < speed.max() < 16.0
    assert np.ptp(truth.Ts_w_b[:, 2, 3]) < 0.5


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_in_the_way_and_some_of_it_moves(seed):
    _, truth, times = drive(seed)
    path = truth.Ts_w_b[:, :3, 3]
    scene = street_scene(times, path, EASY, np.random.default_rng(seed))
    assert scene.rate == RATE
    moving = np.linalg.norm(scene.velocities, axis=1) > 0.0
    assert 3 <= moving.sum() < len(moving) - 40
    assert (SCALE * np.linalg.norm(scene.velocities[moving], axis=1) > 4.0).all()
    for t, place in zip(times[::40], path[::40], strict=True):
        in_box = np.einsum("nji,nj->ni", scene.Rs_w_box, place / SCALE - scene.centers_at(t))
        outside = (np.abs(in_box[1:]) > scene.half_sizes[1:]).any(axis=1)
        assert outside.all()


def test_the_road_lies_where_the_camera_is_high():
    """Rays straight down end on the road: 1.6 m, in metres of the world."""
    recording, truth, _ = drive(1)
    scene, views = scene_for(recording, RenderConfig(scene="street"))
    T_w_c = truth.Ts_w_b[100] @ recording.rig.cameras[0].T_b_c
    down_c = T_w_c[:3, :3].T @ np.array([[0.0, 0.0, -1.0]]).T
    hits = look(views[0], _in_scene(T_w_c, scene), 0.5, np.ascontiguousarray(down_c.T))
    height = T_w_c[2, 3] - truth.Ts_w_b[:, 2, 3].mean() + CAMERA_HEIGHT
    np.testing.assert_allclose(SCALE * hits.distance[0], height, atol=0.02)
