"""FF-VIO-Init's nonlinear stage: keyframes and nine scales of a point map, with the IMU.

Points stay where the map has them but for the scale of their region: three by three along the two
main axes of the map. Scales are softplus of the unknowns, with a prior (weight 5) about the linear
scale and neighbours that differ little (weight 30). Reprojection of 1 px under Cauchy's loss, IMU
factors and priors as in OpenVINS.
"""

from dataclasses import dataclass

import numpy as np

from maci2.baselines.alignment import raw_motion
from maci2.baselines.bundle_adjustment import (
    Bundle,
    add_inertial,
    add_priors,
    cauchy,
    gauge_information,
    inertial_infos,
)
from maci2.baselines.bundle_factors import observations
from maci2.baselines.bundle_state import ACC_BIAS, GYRO_BIAS, SIZE, BundleState
from maci2.baselines.openvins import PIXEL_STD, STD_ACC_BIAS, STD_GYRO_BIAS, VAR_WALK
from maci2.baselines.point_map import PointMap
from maci2.baselines.segment import Segment
from maci2.baselines.stages import stage
from maci2.lie.stacks import skew_stack
from maci2.types import Array

REGIONS = 3
"""Regions along each of two axes."""

PRIOR_WEIGHT, SMOOTHNESS_WEIGHT = 5.0, 30.0
ITERATIONS = 50
TOLERANCE = 1e-6
NEAREST = 1e-3


@dataclass(frozen=True)
class Refined:
    """Result of the refinement."""

    state: BundleState
    scales: Array
    """(9,) of the regions."""

    converged: bool
    cost_per_residual: float
    """Half the sum of all losses over the number of residuals, as Ceres counts."""

    cov: Array | None
    """(15 n, 15 n) of the keyframes; None where they are not determined."""


@dataclass(frozen=True)
class _Problem:
    points: PointMap
    region: Array
    """(m,) of each point."""

    T_b_c: Array
    std: float
    """Standard deviation of an observation, in normalized units."""

    bundle: Bundle
    """IMU factors and priors."""

    infos: Array
    scale: float
    """Prior mean of all scales."""


@stage("bundle adjustment")
def refine(segment: Segment, points: PointMap, x: BundleState, scale: float) -> Refined:
    """Minimize from a state without points and one scale for all regions."""
    info = gauge_information()
    info[GYRO_BIAS], info[ACC_BIAS] = STD_GYRO_BIAS**-2, STD_ACC_BIAS**-2
    nothing = observations(
        segment.tracks, segment.T_b_c, np.zeros(len(segment.tracks), dtype=bool), False
    )
    pre = raw_motion(segment, x.gyro_bias[0], x.acc_bias[0])
    std = PIXEL_STD / segment.tracks.focal_px
    bundle = Bundle(nothing, std, cauchy(1.0), pre, segment.gravity_norm, VAR_WALK, x, info)
    problem = _Problem(
        points, regions(points), segment.T_b_c, std, bundle, inertial_infos(bundle), scale
    )
    return _minimise(problem, x, np.full(REGIONS**2, _softplus_inverse(scale)))


def regions(points: PointMap) -> Array:
    """(m,) region of each point: thirds along the two main axes of the map."""
    centred = points.X_c0 - points.X_c0.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2][:2]
    along = centred @ axes.T
    thirds = np.quantile(along, [1.0 / 3.0, 2.0 / 3.0], axis=0)
    cell = (along[:, None, :] > thirds[None]).sum(axis=1)
    return np.asarray(REGIONS * cell[:, 0] + cell[:, 1])


def _minimise(problem: _Problem, x: BundleState, theta: Array) -> Refined:
    H, b, cost, count = _linearize(problem, x, theta)
    damping, converged = 1e-8, False
    for _ in range(ITERATIONS):
        damped = H + damping * np.diag(np.diag(H))
        step = np.asarray(np.linalg.solve(damped, b), np.float64)
        moved = x.moved(step[: -(REGIONS**2)].reshape(-1, SIZE), np.empty((0, 3)))
        tried = _linearize(problem, moved, theta + step[-(REGIONS**2) :])
        if not tried[2] < cost:
            # A step that hardly promises anything ends it as well as one that hardly gains.
            converged = float(b @ step) <= TOLERANCE * cost
            damping *= 10.0
            if converged or damping > 1e8:
                break
            continue
        converged = cost - tried[2] <= TOLERANCE * cost
        x, theta = moved, theta + step[-(REGIONS**2) :]
        H, b, cost, count = tried
        damping = max(damping / 10.0, 1e-12)
        if converged:
            break
    try:
        inverse = np.asarray(np.linalg.inv(H), np.float64)
    except np.linalg.LinAlgError:
        return Refined(x, _softplus(theta), converged, 0.5 * cost / count, None)
    cov = inverse[: -(REGIONS**2), : -(REGIONS**2)]
    return Refined(x, _softplus(theta), converged, 0.5 * cost / count, cov)


def _linearize(problem: _Problem, x: BundleState, theta: Array) -> tuple[Array, Array, float, int]:
    """Normal equations of [keyframes, scales], the cost and the number of residuals."""
    n, s = len(x.p_w_b), REGIONS**2
    H, b = np.zeros((n, SIZE, n, SIZE)), np.zeros((n, SIZE))
    bundle = problem.bundle
    assert bundle.pre is not None
    cost = add_inertial(bundle, bundle.pre, x, problem.infos, H, b) + add_priors(bundle, x, H, b)
    size = n * SIZE
    full, right = np.zeros((size + s, size + s)), np.zeros(size + s)
    full[:size, :size], right[:size] = H.reshape(size, size), b.ravel()
    r, J = reprojection_rows(problem.points, problem.region, problem.T_b_c, x, theta)
    r, J = r / problem.std, J / problem.std
    costs, weights = bundle.loss((r**2).sum(axis=1))
    root = np.sqrt(weights)
    r, J = r * root[:, None], J * root[:, None, None]
    flat = J.reshape(-1, size + s)
    full += flat.T @ flat
    right -= flat.T @ r.ravel()
    scale_rows, scale_r = _scale_rows(theta, problem.scale)
    full[size:, size:] += scale_rows.T @ scale_rows
    right[size:] -= scale_rows.T @ scale_r
    cost += float(costs.sum()) + float(scale_r @ scale_r)
    count = r.size + 15 * (n - 1) + SIZE + len(scale_r)
    return full, right, cost, count


def reprojection_rows(
    points: PointMap, region: Array, T_b_c: Array, x: BundleState, theta: Array
) -> tuple[Array, Array]:
    """Residuals (m, 2) in normalized units and derivatives (m, 2, 15 n + 9)."""
    R_b_c, p_b_c = T_b_c[:3, :3], T_b_c[:3, 3]
    k, every = points.keyframe, np.arange(len(points))
    n = len(x.p_w_b)
    by_scale_b0 = points.X_c0 @ R_b_c.T
    in_b0 = _softplus(theta)[region][:, None] * by_scale_b0 + p_b_c
    R_k, R_0 = x.Rs_w_b[k], x.Rs_w_b[0]
    to_k = np.swapaxes(R_k, 1, 2)
    q = (to_k @ (in_b0 @ R_0.T + x.p_w_b[0] - x.p_w_b[k])[:, :, None])[..., 0]
    c = (q - p_b_c) @ R_b_c
    inverse = 1.0 / np.maximum(c[:, 2], NEAREST)
    xy = c[:, :2] * inverse[:, None]
    by_q = (R_b_c.T[:2] - xy[:, :, None] * R_b_c.T[2]) * inverse[:, None, None]
    J = np.zeros((len(points), 2, n * SIZE + REGIONS**2))
    keyframes = J[:, :, : n * SIZE].reshape(len(points), 2, n, SIZE)
    first = to_k @ R_0
    keyframes[every, :, k, 0:3] = by_q @ skew_stack(q)
    keyframes[every, :, k, 3:6] = -by_q @ to_k
    keyframes[:, :, 0, 0:3] -= by_q @ first @ skew_stack(in_b0)
    keyframes[:, :, 0, 3:6] += by_q @ to_k
    J[:, :, : n * SIZE] = keyframes.reshape(len(points), 2, n * SIZE)
    slope = _softplus_slope(theta)[region]
    by_theta = (by_q @ first @ by_scale_b0[:, :, None])[..., 0] * slope[:, None]
    J[every, :, n * SIZE + region] = by_theta
    return xy - points.xy, J


def _scale_rows(theta: Array, mean: float) -> tuple[Array, Array]:
    """Prior of every scale and smoothness between neighbouring regions, with residuals."""
    slopes, scales = np.diag(_softplus_slope(theta)), _softplus(theta)
    grid = np.arange(REGIONS**2).reshape(REGIONS, REGIONS)
    pairs = [
        *zip(grid[:, :-1].ravel(), grid[:, 1:].ravel(), strict=True),
        *zip(grid[:-1].ravel(), grid[1:].ravel(), strict=True),
    ]
    differences = np.array([slopes[i] - slopes[j] for i, j in pairs])
    rows = np.vstack([PRIOR_WEIGHT * slopes, SMOOTHNESS_WEIGHT * differences])
    changes = np.array([scales[i] - scales[j] for i, j in pairs])
    return rows, np.concatenate([PRIOR_WEIGHT * (scales - mean), SMOOTHNESS_WEIGHT * changes])


def _softplus(theta: Array) -> Array:
    return np.logaddexp(0.0, theta)


def _softplus_slope(theta: Array) -> Array:
    return np.asarray(1.0 / (1.0 + np.exp(-theta)), np.float64)


def _softplus_inverse(scale: float) -> float:
    """Unknown of a scale; one that is not positive starts at a thousandth."""
    return float(np.log(np.expm1(max(scale, 1e-3))))
