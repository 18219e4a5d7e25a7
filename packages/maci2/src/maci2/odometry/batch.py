"""A track smoothed as a whole: every state with all measurements, those after it included."""

from dataclasses import replace

import numpy as np

from maci2.estimator.initialize import camera_motions
from maci2.estimator.outliers import without
from maci2.estimator.problem import States, shared_parameters
from maci2.estimator.smoother import SmootherConfig, chain_problem
from maci2.estimator.solver import covariance, solve
from maci2.estimator.visual_noise import smoothed_drift_covariance, solve_with_wandering_scale
from maci2.imu import ImuMeasurements
from maci2.odometry.tracked import Origin, Track, TrackedState
from maci2.types import Mat4
from maci2.vision import RelativePoses


def smoothed(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Mat4,
    walks: tuple[float, float],
    causal: Track,
    config: SmootherConfig,
) -> Track:
    """The longest continuous part of a causal track, every state smoothed with all measurements.

    Rejected relative poses stay rejected, and the others are used with the covariances that the
    causal track has found; its states are the initial guess.
    """
    segments = [state.segment for state in causal.states]
    longest = max(set(segments), key=segments.count)
    by_stamp = {state.stamp_ns: state for state in causal.states if state.segment == longest}
    inside = np.flatnonzero([int(stamp) in by_stamp for stamp in vision.stamps_ns])
    vision = _as_used(vision.part(int(inside[0]), int(inside[-1])), causal)
    stamps_ns = vision.stamps_ns
    imu = imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    guess = [by_stamp[int(stamp)] for stamp in stamps_ns]
    states = States(
        np.ascontiguousarray([state.T_w_b for state in guess]),
        np.array([state.v_w for state in guess]),
        np.array([state.gyro_bias for state in guess]),
        np.array([state.acc_bias for state in guess]),
    )
    shared = shared_parameters(T_b_c=T_b_c, log_scale=causal.log_scale)
    camera = camera_motions(vision, np.flatnonzero(vision.measured), config.loss)
    problem = chain_problem(imu, vision, camera, (states, shared), walks, config.calibration)
    if problem.free.scale and config.calibration.scale_walk > 0.0:
        walk = config.calibration.scale_walk
        solution, posterior, _ = solve_with_wandering_scale(problem, states, shared, walk)
    else:
        solution = solve(problem, states, shared)
        posterior = covariance(solution)
    covs = posterior.states
    if causal.slow_error_deg > 0.0:
        unit = smoothed_drift_covariance(solution, posterior, stamps_ns)
        covs = covs + np.deg2rad(causal.slow_error_deg) ** 2 * unit
    # The chain's world is fixed to its own first state.
    origins = list(causal.origins)
    origins[longest] = Origin(int(stamps_ns[0]), solution.states.Ts_w_b[0])
    # States between keyframes are carried by the IMU.
    images_ns, found = np.array(sorted(by_stamp)), list[TrackedState]()
    for k, stamp_ns in enumerate(map(int, stamps_ns)):
        found.append(by_stamp[stamp_ns].at(stamp_ns, solution.states, k, covs[k]))
        end_ns = stamps_ns[k + 1] if k + 1 < len(stamps_ns) else images_ns[-1] + 1
        between_ns = images_ns[(images_ns > stamp_ns) & (images_ns < end_ns)]
        for state in found[-1].carried(imu, between_ns, solution.shared, walks):
            found.append(replace(state, health=by_stamp[state.stamp_ns].health))
    return replace(causal, states=found, origins=tuple(origins))


def _as_used(vision: RelativePoses, causal: Track) -> RelativePoses:
    """Relative poses as the causal track has used them: without those that it rejected."""
    covs, kept = vision.covs_T_ck_ck1.copy(), vision.measured.copy()
    after = {keyframe.stamp_ns: keyframe for keyframe in causal.keyframes}
    for k, stamp_ns in enumerate(map(int, vision.stamps_ns[1:])):
        keyframe = after.get(stamp_ns)
        if keyframe is None:
            continue
        kept[k] &= not keyframe.rejected
        if kept[k] and keyframe.cov_T_ck_ck1 is not None:
            covs[k] = keyframe.cov_T_ck_ck1
    return without(replace(vision, covs_T_ck_ck1=covs), kept)
