"""The right camera from row errors: exact pairs, sampled noise, and real images."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.errors import MeasurementError
from maci2.geometry import se3_inv, so3_exp, so3_log
from maci2.vision.stereo_refinement import refine_right_camera, solve_pair

STD_ROW = 0.3 / 450.0


def matches(value, rng, noise=STD_ROW, shared=0.0, pairs=10, points=200):
    """Points seen by a right camera rotated and moved by `value` (5,), projected exactly."""
    R, direction = so3_exp(value[:3]), np.array([1.0, value[3], value[4]])
    out = []
    for _ in range(pairs):
        z = rng.uniform(1.0, 10.0, points)
        left = np.column_stack([rng.uniform(-0.7, 0.7, points), rng.uniform(-0.5, 0.5, points)])
        p_cr = np.column_stack([left * z[:, None], z]) - 0.11 * direction
        p_c1 = p_cr @ R
        right = p_c1[:, :2] / p_c1[:, 2:]
        right[:, 1] += noise * rng.standard_normal(points) + shared * rng.standard_normal()
        out.append((left, right))
    return out


def test_an_exact_pair_is_recovered_to_first_order():
    for size, atol in ((1.0, 5e-5), (0.1, 5e-7)):
        value = size * np.array([2e-4, -3e-4, 4e-4, 1e-3, -2e-3])
        found = solve_pair(matches(value, np.random.default_rng(1), noise=0.0, points=1000))
        np.testing.assert_allclose(found.value, value, atol=atol)


@pytest.mark.parametrize("shared", [0.0, 0.3 / 450.0], ids=["white", "errors shared in a pair"])
def test_the_covariance_is_that_of_sampled_errors(shared):
    value = np.array([1e-4, 2e-4, -1e-4, 5e-4, -5e-4])
    scores = []
    for seed in range(60):
        found = solve_pair(matches(value, np.random.default_rng(seed), shared=shared, pairs=20))
        e = found.value - value
        scores.append(e @ np.linalg.solve(found.cov, e) / 5.0)
    # Twenty pairs estimate five variances: scores have heavy tails above one.
    assert 0.7 < np.mean(scores) < 1.9, np.mean(scores)


def test_wrong_matches_do_not_decide():
    value = np.array([1e-3, 0.0, 1e-3, 0.0, 0.0])
    rng = np.random.default_rng(3)
    seen = matches(value, rng, points=1000)
    for left, _ in seen:
        left[::5, 1] += rng.uniform(-0.02, 0.02, len(left[::5]))
    found = solve_pair(seen)
    assert abs(found.value[0] - 1e-3) < 1e-4
    assert abs(found.value[2] - 1e-3) < 1e-4


def clip(data_root):
    return open_recording(data_root / "euroc" / "MH_01_clip")


@pytest.mark.dataset
def test_a_right_camera_stated_wrongly_is_put_back(data_root):
    recording = clip(data_root)
    frames, rig = stereo_frames(recording), recording.rig
    own = refine_right_camera(rig, frames)
    right = rig.cameras[1]
    turned = right.T_b_c.copy()
    turned[:3, :3] = turned[:3, :3] @ so3_exp(np.deg2rad([0.15, 0.0, -0.2]))
    wrong = replace(rig, cameras=(rig.cameras[0], replace(right, T_b_c=turned)))
    again = refine_right_camera(wrong, frames)
    T = se3_inv(own.rig.cameras[1].T_b_c) @ again.rig.cameras[1].T_b_c
    apart_deg = np.rad2deg(so3_log(T[:3, :3]))
    assert np.abs(apart_deg[[0, 2]]).max() < 0.02, apart_deg
    assert again.row_px < 0.5
    # The makers' calibration is a good one: what rows say of it stays within a tenth of a degree.
    assert np.abs(own.change[[0, 2]]).max() < 0.1, own.text()
    length = [
        np.linalg.norm(r.cameras[1].T_b_c[:3, 3] - r.cameras[0].T_b_c[:3, 3])
        for r in (rig, own.rig)
    ]
    assert length[0] == pytest.approx(length[1], abs=1e-9)


@pytest.mark.dataset
def test_images_at_rest_of_one_place_are_enough_and_blank_ones_are_not(data_root):
    frames = stereo_frames(clip(data_root))

    class Blank:
        source = "blank"

        def __len__(self):
            return len(frames)

        def pair(self, index):
            pair = frames.pair(index)
            return replace(pair, left=np.zeros_like(pair.left), right=np.zeros_like(pair.right))

    with pytest.raises(MeasurementError, match="stereo matches"):
        refine_right_camera(clip(data_root).rig, Blank())
