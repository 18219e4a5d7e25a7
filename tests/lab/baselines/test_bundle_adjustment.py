"""The bundle adjustment: derivatives, another solver's minimum, and covariances that hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares
from track_cases import exact_tracks, noisy_tracks

from helpers import chi_square_band, numerical_jacobian
from maci2.feature_tracks.track_adjustment import triangulate
from maci2.geometry import so3_exp
from maci2.geometry.gaussian import nees
from maci2.metrics.init_errors import angle_deg, pose_errors
from maci2_lab.baselines.alignment import raw_motion
from maci2_lab.baselines.bundle_adjustment import (
    SIZE,
    Bundle,
    adjust,
    cauchy,
    first_state_prior,
    from_vi_state,
    gauge_information,
    huber,
    inertial,
    longest,
    observations,
    reprojection,
    squares,
    to_posterior,
    to_vi_state,
    upright,
)
from maci2_lab.baselines.openvins import VAR_WALK

G = 9.81
GRAVITY_W = np.array([0.0, 0.0, -G])


def bundle_of(segment, window, features=12, stereo=True, loss=squares, pixel_std=1.0):
    """A problem over a few points, started at the true motion."""
    chosen = longest(segment.tracks, features, 3)
    seen = observations(segment.tracks, segment.T_b_c, chosen, stereo)
    start = from_vi_state(window.truth)
    tracks = segment.tracks
    R_w_c = start.Rs_w_b @ segment.T_b_c[:3, :3]
    rays_w = np.einsum("kij,pkj->pki", R_w_c, np.nan_to_num(tracks.bearings[chosen]))
    centers_w = start.p_w_b + start.Rs_w_b @ segment.T_b_c[:3, 3]
    points_w, fine = triangulate(rays_w, centers_w, tracks.seen[chosen])
    assert fine.all()
    info = gauge_information(0.05, 0.1)
    mean = replace(start, gyro_bias=0 * start.gyro_bias, acc_bias=0 * start.acc_bias)
    bundle = Bundle(
        seen, pixel_std / tracks.focal_px, loss, mean, info, raw_motion(segment), G, VAR_WALK
    )
    return bundle, start.with_points(points_w)


def shaken(x, seed=0, size=0.02):
    """A state off the minimum, so that no derivative vanishes."""
    rng = np.random.default_rng(seed)
    steps = size * rng.standard_normal((len(x.p_w_b), SIZE))
    return x.moved(steps, size * rng.standard_normal(x.points_w.shape))


def test_derivatives_of_reprojection():
    bundle, x = bundle_of(*noisy_tracks(1), features=3)
    x = shaken(x)
    r, by_pose, by_point = reprojection(bundle.seen, x)
    n, p = len(x.p_w_b), len(x.points_w)

    def of_poses(step):
        steps = np.zeros((n, SIZE))
        steps[:, :6] = step
        return reprojection(bundle.seen, x.moved(steps, np.zeros((p, 3))))[0]

    def of_points(step):
        return reprojection(bundle.seen, x.moved(np.zeros((n, SIZE)), np.tile(step, (p, 1))))[0]

    # All keyframes move alike: every residual depends on its own pose only.
    np.testing.assert_allclose(by_pose, numerical_jacobian(of_poses, 6), atol=1e-7)
    np.testing.assert_allclose(by_point, numerical_jacobian(of_points, 3), atol=1e-7)
    assert (r[~bundle.seen.seen] == 0.0).all()


@pytest.mark.parametrize("which", [0, 1])
def test_derivatives_of_the_inertial_residual(which):
    segment, window = noisy_tracks(2, "handheld")
    x, pre = shaken(from_vi_state(window.truth), size=0.05), raw_motion(segment)
    _, J = inertial(pre, GRAVITY_W, x)
    for k in (0, 4):

        def moved(step, k=k):
            steps = np.zeros((len(x.p_w_b), SIZE))
            steps[k + which] = step
            return inertial(pre, GRAVITY_W, x.moved(steps, x.points_w))[0][k]

        numeric = numerical_jacobian(moved, SIZE)
        np.testing.assert_allclose(J[k, :, SIZE * which : SIZE * (which + 1)], numeric, atol=1e-7)


def test_derivative_of_the_prior():
    _, window = exact_tracks()
    mean = from_vi_state(window.truth)
    x = shaken(mean, size=0.3)
    _, J = first_state_prior(mean, x)

    def moved(step):
        steps = np.zeros((len(x.p_w_b), SIZE))
        steps[0] = step
        return first_state_prior(mean, x.moved(steps, x.points_w))[0]

    np.testing.assert_allclose(J, numerical_jacobian(moved, SIZE), atol=1e-7)


@pytest.mark.parametrize("loss", [huber(1.3), cauchy(0.7), squares])
def test_weight_is_the_derivative_of_the_loss(loss):
    s = np.array([0.1, 1.0, 1.69, 3.0, 50.0])
    h = 1e-6
    numeric = (loss(s + h)[0] - loss(s - h)[0]) / (2.0 * h)
    np.testing.assert_allclose(loss(s)[1][[0, 1, 3, 4]], numeric[[0, 1, 3, 4]], rtol=1e-6)


def test_minimum_is_where_scipy_finds_it():
    """Least squares over all unknowns at once, nothing eliminated, derivatives numeric."""
    bundle, x = bundle_of(*noisy_tracks(3, steps=3), features=8, stereo=True)
    found = adjust(bundle, shaken(x, size=0.005), 100)
    n, p = len(x.p_w_b), len(x.points_w)
    L = np.linalg.cholesky(np.linalg.inv(bundle.pre.cov))

    def residuals(step):
        at = x.moved(step[: n * SIZE].reshape(n, SIZE), step[n * SIZE :].reshape(p, 3))
        r = reprojection(bundle.seen, at)[0][bundle.seen.seen] / bundle.std
        imu = np.einsum("kji,kj->ki", L, inertial(bundle.pre, GRAVITY_W, at)[0])
        biases = np.diff(np.hstack([at.gyro_bias, at.acc_bias]), axis=0)
        walk = biases / np.sqrt(VAR_WALK * bundle.pre.dt[:, None])
        prior = np.sqrt(bundle.info_prior) * first_state_prior(bundle.prior, at)[0]
        return np.concatenate([r.ravel(), imu.ravel(), walk.ravel(), prior])

    other = least_squares(residuals, np.zeros(n * SIZE + 3 * p), x_scale="jac", xtol=1e-14)
    assert found.converged
    np.testing.assert_allclose(found.cost, 2.0 * other.cost, rtol=1e-4)


def test_exact_input_stays_at_the_truth():
    segment, window = exact_tracks("handheld", seed=1)
    bundle, x = bundle_of(segment, window, features=30)
    state = to_vi_state(segment, adjust(bundle, x, 20).state)
    assert angle_deg(state.gravity_c0, window.truth.gravity_c0) < 1e-4
    np.testing.assert_allclose(state.velocity_b, window.truth.velocity_b, atol=1e-5)
    np.testing.assert_allclose(state.Ts_c0_b, window.truth.Ts_c0_b, atol=1e-5)


def test_a_common_bias_stays_common_and_what_is_held_stays():
    segment, window = noisy_tracks(4)
    bundle, x = bundle_of(segment, window, features=20)
    fixed = np.zeros((len(x.p_w_b), SIZE), dtype=bool)
    fixed[0, :6] = True
    found = adjust(replace(bundle, var_walk=np.zeros(6), fixed=fixed), x, 30).state
    np.testing.assert_array_equal(found.gyro_bias, np.tile(found.gyro_bias[0], (10, 1)))
    assert np.abs(found.acc_bias[0]).max() > 1e-4
    np.testing.assert_array_equal(found.Rs_w_b[0], x.Rs_w_b[0])
    np.testing.assert_array_equal(found.p_w_b[0], x.p_w_b[0])


def test_covariance_is_that_of_the_errors():
    """Gravity, velocities and poses of twenty windows, biases drawn from their prior."""
    scores = {"gravity": [], "velocity": [], "pose": []}
    for seed in range(100, 120):
        noise = {"bias_gyro_std": 0.05, "bias_acc_std": 0.1}
        segment, window = noisy_tracks(seed, "handheld", pixel_std=1.0, **noise)
        bundle, x = bundle_of(segment, window, features=40)
        result = adjust(replace(bundle, var_walk=np.zeros(6)), x, 30)
        state = to_vi_state(segment, result.state)
        posterior = to_posterior(segment, result.state, result.cov)
        truth = window.truth
        across = np.linalg.svd(state.gravity_c0[None])[2][1:]
        error = across @ (state.gravity_c0 - truth.gravity_c0)
        scores["gravity"].append(nees(error, across @ posterior.gravity_c0 @ across.T))
        k = 4
        scores["velocity"].append(
            nees(state.velocity_b[k] - truth.velocity_b[k], posterior.velocity_b[k])
        )
        scores["pose"].append(nees(pose_errors(state, truth.Ts_c0_b)[k], posterior.Ts_c0_b[k]))
    for name, dof in (("gravity", 2), ("velocity", 3), ("pose", 6)):
        low, high = chi_square_band(dof, len(scores[name]))
        assert low < np.mean(scores[name]) < high, name


def test_upright_puts_gravity_down():
    for gravity in (
        np.array([0.0, 0.0, 9.81]),
        np.array([0.0, 0.0, -9.81]),
        np.array([3, -8, 4.0]),
    ):
        turned = upright(gravity) @ gravity
        np.testing.assert_allclose(turned, [0.0, 0.0, -np.linalg.norm(gravity)], atol=1e-12)


def test_triangulation_finds_the_point_and_refuses_parallel_rays_and_points_behind():
    centers = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    point = np.array([0.3, 0.2, 4.0])
    rays = point - centers
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    seen = np.ones((3, 3), dtype=bool)
    parallel = np.tile([0.0, 0.0, 1.0], (3, 1))
    found, fine = triangulate(np.array([rays, parallel, -rays]), centers, seen)
    np.testing.assert_allclose(found[0], point, atol=1e-12)
    np.testing.assert_array_equal(fine, [True, False, False])


def test_exponential_of_a_step_turns_on_the_right():
    x = from_vi_state(exact_tracks()[1].truth)
    steps = np.zeros((10, SIZE))
    steps[3, :3] = [0.1, -0.2, 0.3]
    turned = x.moved(steps, x.points_w)
    np.testing.assert_allclose(
        turned.Rs_w_b[3], x.Rs_w_b[3] @ so3_exp(np.array([0.1, -0.2, 0.3])), atol=1e-12
    )
