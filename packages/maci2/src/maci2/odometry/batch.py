"""A track smoothed as a whole: every state with all measurements, those after it included."""

from dataclasses import replace

import numpy as np

from maci2.estimator.drift import smoothed_drift_covariance
from maci2.estimator.prediction import propagated
from maci2.estimator.problem import CameraMotions, Problem, States, shared_parameters
from maci2.estimator.smoother import SmootherConfig, bias_prior, gauge_prior
from maci2.estimator.solver import Covariance, Solution, SolverOptions, covariance, solve
from maci2.estimator.wandering_scale import solve_with_wandering_scale
from maci2.imu import ImuMeasurements
from maci2.odometry.tracked import Origin, Track, TrackedState
from maci2.types import Array, Mat4
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
    part = vision.part(int(inside[0]), int(inside[-1]))
    imu = imu.between(int(part.stamps_ns[0]), int(part.stamps_ns[-1]))
    guess = [by_stamp[int(stamp)] for stamp in part.stamps_ns]
    solution, posterior = _solved(imu, part, T_b_c, walks, causal, guess, config)
    covs = posterior.states
    if causal.slow_error_deg > 0.0:
        unit = smoothed_drift_covariance(solution, posterior, part.stamps_ns)
        covs = covs + np.deg2rad(causal.slow_error_deg) ** 2 * unit
    # The chain's world is fixed to its own first state.
    origins = list(causal.origins)
    origins[longest] = Origin(int(part.stamps_ns[0]), solution.states.Ts_w_b[0])
    found = _at_images(imu, part, walks, solution, covs, by_stamp)
    return replace(causal, states=found, origins=tuple(origins))


def _solved(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Mat4,
    walks: tuple[float, float],
    causal: Track,
    guess: list[TrackedState],
    config: SmootherConfig,
) -> tuple[Solution, Covariance]:
    """All keyframes in one chain."""
    states = States(
        np.ascontiguousarray([state.T_w_b for state in guess]),
        np.array([state.v_w for state in guess]),
        np.array([state.gyro_bias for state in guess]),
        np.array([state.acc_bias for state in guess]),
    )
    shared = shared_parameters(T_b_c=T_b_c, log_scale=causal.log_scale)
    calibration = config.calibration
    priors = (
        gauge_prior(states, shared),
        bias_prior(imu.bias_prior, states, shared),
        calibration.prior(T_b_c, vision.std_scale),
    )
    free = calibration.free(vision.std_scale)
    camera = _motions(vision, causal, config)
    problem = Problem(
        imu, vision.stamps_ns, *walks, free, camera, priors=priors, longest_span_s=np.inf
    )
    if free.scale and calibration.scale_walk > 0.0:
        return solve_with_wandering_scale(
            problem, states, shared, calibration.scale_walk, SolverOptions()
        )[:2]
    solution = solve(problem, states, shared, SolverOptions())
    return solution, covariance(solution)


def _motions(
    vision: RelativePoses, causal: Track, config: SmootherConfig
) -> tuple[CameraMotions, ...]:
    """Relative poses that the causal track did not reject."""
    after = {keyframe.stamp_ns: keyframe for keyframe in causal.keyframes}
    index, covs = [], []
    for k in np.flatnonzero(vision.measured):
        keyframe = after.get(int(vision.stamps_ns[k + 1]))
        if keyframe is not None and keyframe.rejected:
            continue
        known = None if keyframe is None else keyframe.cov_T_ck_ck1
        index.append(k)
        covs.append(vision.covs_T_ck_ck1[k] if known is None else known)
    used = np.array(index, dtype=np.int64)
    stack = np.array(covs).reshape(-1, 6, 6)
    return (CameraMotions(used, vision.Ts_ck_ck1[used], stack, config.loss),)


def _at_images(
    imu: ImuMeasurements,
    vision: RelativePoses,
    walks: tuple[float, float],
    solution: Solution,
    covs: Array,
    by_stamp: dict[int, TrackedState],
) -> list[TrackedState]:
    """States at all timestamps of the causal ones: those between keyframes are carried by the
    IMU."""
    images_ns, keyframes_ns = np.array(sorted(by_stamp)), vision.stamps_ns
    found: list[TrackedState] = []
    for k, stamp_ns in enumerate(keyframes_ns):
        state = States(*(values[k : k + 1] for values in solution.states))
        found.append(_replaced(by_stamp[int(stamp_ns)], state, 0, covs[k]))
        end_ns = keyframes_ns[k + 1] if k + 1 < len(keyframes_ns) else images_ns[-1] + 1
        between_ns = images_ns[(images_ns > stamp_ns) & (images_ns < end_ns)]
        if not len(between_ns):
            continue
        span_ns = np.concatenate([[stamp_ns], between_ns])
        carried, carried_covs = propagated(imu, span_ns, state, covs[k], solution.shared, walks)
        found += [
            _replaced(by_stamp[int(stamp)], carried, j, carried_covs[j])
            for j, stamp in enumerate(between_ns)
        ]
    return found


def _replaced(state: TrackedState, states: States, k: int, cov: Array) -> TrackedState:
    return replace(
        state,
        T_w_b=states.Ts_w_b[k],
        v_w=states.v_w[k],
        gyro_bias=states.bias_gyro[k],
        acc_bias=states.bias_acc[k],
        cov=cov,
    )
