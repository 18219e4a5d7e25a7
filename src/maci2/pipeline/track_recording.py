"""What `maci2 track` does: a recording and options to a track, causal or smoothed as a whole."""

from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time

import numpy as np

from maci2.chain import (
    CameraMotions,
    ChainConfig,
    ChainProblem,
    States,
    chain_posterior,
    make_border,
    solve_chain,
)
from maci2.errors import DatasetError
from maci2.estimation import SolverConfig
from maci2.estimation.motion_choice import choose_motions
from maci2.ground_truth.choose import require_known_truths
from maci2.imu.model_choice import is_learned
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.pipeline.rehearsals import warm_up
from maci2.tracking.calibration_spread import (
    TRAJECTORY_SCALE_WALK,
    bias_walks,
    calibration_spread,
)
from maci2.tracking.first_window import bias_prior, gauge_prior
from maci2.tracking.propagation import propagated
from maci2.tracking.smoothed_slow_errors import smoothed_slow_covariance
from maci2.tracking.smoother import SmootherConfig
from maci2.tracking.track import track
from maci2.tracking.tracked import Origin, Track, TrackedState
from maci2.types import NS, Stamps
from maci2.vision import RelativePoses
from maci2.vision.odometry_run import even_keyframes

KEYFRAME_INTERVAL_S = 0.2
"""Between keyframes: the odometry's own spacing, for which its covariances are calibrated."""


@dataclass(frozen=True)
class ProcessorTime:
    """What a track cost, all threads together."""

    per_image_ms: float
    """Of looking at images, over all images; that of interpolating where poses were given."""

    per_keyframe_ms: float
    """Of starting and smoothing, and of the states between, over all keyframes."""


@dataclass(frozen=True)
class TrackedRecording:
    """A track with what it was made from."""

    inputs: Inputs
    vision: RelativePoses
    track: Track
    batch: bool
    """Whether every state was smoothed with all measurements; otherwise they are causal."""

    spent: ProcessorTime

    at_imu_rate: tuple[TrackedState, ...] = ()
    """States at every IMU sample too, where they were asked for."""


def track_recording(
    path: Path,
    options: RunOptions,
    interval_s: float = KEYFRAME_INTERVAL_S,
    config: SmootherConfig | None = None,
    batch: bool = False,
    measured: RelativePoses | None = None,
    at_imu_rate: bool = False,
) -> TrackedRecording:
    """Track a recording from its first usable window on.

    `measured` are the relative poses of an earlier run with the same options. `at_imu_rate` gives
    states at every IMU sample beside those at images.
    """
    inputs = open_inputs(path, options)
    require_known_truths([inputs.recording], options.truth)
    warm_up("initialize", "chain")
    candidates_ns = inputs.measurable_ns()
    start_ns = round(options.start_s * NS)
    candidates_ns = candidates_ns[candidates_ns - candidates_ns[:1] >= start_ns]
    if len(candidates_ns) < 2:
        raise DatasetError(
            f"{path}: {len(candidates_ns)} usable images from {options.start_s:g} s on, needed two "
            "or more; choose an earlier --start, or camera motion that covers more of the images."
        )
    began_s = process_time()
    vision = measured or inputs.camera_motion(keyframes_of(inputs, candidates_ns, interval_s), 0)
    seen_s = process_time()
    images_ns = _images(inputs, vision.stamps_ns)
    rig = inputs.recording.rig
    walks = tracked_walks(inputs, options)
    scale_walk = TRAJECTORY_SCALE_WALK if inputs.source.kind == "trajectory" else 0.0
    calibration = calibration_spread(rig, scale_walk)
    config = replace(config or SmootherConfig(), calibration=calibration)
    wanted_ns = images_ns
    if at_imu_rate:
        samples_ns = inputs.imu.stamps_ns
        inside = (samples_ns >= images_ns[0]) & (samples_ns <= images_ns[-1])
        wanted_ns = np.union1d(images_ns, samples_ns[inside])
    found = track(inputs.imu, vision, inputs.T_b_c, walks, wanted_ns, config)
    if batch:
        vision = choose_motions(inputs.imu, vision, inputs.T_b_c, SolverConfig()).vision
        found = smoothed(inputs, vision, found, walks, config)
    spent = ProcessorTime(
        1e3 * (seen_s - began_s) / len(images_ns),
        1e3 * (process_time() - seen_s) / len(vision.stamps_ns),
    )
    dense = tuple(found.states) if at_imu_rate else ()
    at_images = set(images_ns.tolist())
    states = [state for state in found.states if state.stamp_ns in at_images]
    return TrackedRecording(inputs, vision, replace(found, states=states), batch, spent, dense)


def tracked_walks(inputs: Inputs, options: RunOptions) -> tuple[float, float]:
    """Random walks of the biases that a tracker reckons with."""
    rig = inputs.recording.rig
    # A learned model's own walks are those of what it leaves in the samples.
    noise = rig.imu if is_learned(options.imu) else inputs.imu
    return bias_walks(rig, (noise.walk_gyro, noise.walk_acc))


def keyframes_of(inputs: Inputs, candidates_ns: Stamps, interval_s: float) -> Stamps:
    """Even keyframes; those of a file of measurements are given."""
    if inputs.source.kind == "measurements":
        return candidates_ns
    return even_keyframes(candidates_ns, interval_s)


def _images(inputs: Inputs, keyframes_ns: Stamps) -> Stamps:
    """Timestamps of all images along the keyframes; the keyframes where there are no images."""
    if not inputs.recording.camera_stamps_ns:
        return keyframes_ns
    stamps_ns = inputs.recording.camera_stamps_ns[0]
    inside = (stamps_ns >= keyframes_ns[0]) & (stamps_ns <= keyframes_ns[-1])
    return np.union1d(stamps_ns[inside], keyframes_ns)


def smoothed(
    inputs: Inputs,
    vision: RelativePoses,
    causal: Track,
    walks: tuple[float, float],
    config: SmootherConfig,
) -> Track:
    """The longest continuous part of a causal track, every state smoothed with all measurements.

    Rejected relative poses stay rejected, and the others are used with the covariances that the
    causal track has found; its states are the initial guess.
    """
    segments = [state.segment for state in causal.states]
    longest = max(set(segments), key=segments.count)
    part = [state for state in causal.states if state.segment == longest]
    by_stamp = {state.stamp_ns: state for state in part}
    inside = [k for k, stamp in enumerate(vision.stamps_ns) if int(stamp) in by_stamp]
    keyframes_ns = vision.stamps_ns[inside]
    guess = [by_stamp[int(stamp)] for stamp in keyframes_ns]
    states = States(
        np.ascontiguousarray([state.T_w_b for state in guess]),
        np.array([state.v_w for state in guess]),
        np.array([state.gyro_bias for state in guess]),
        np.array([state.acc_bias for state in guess]),
    )
    border = make_border(T_b_c=inputs.T_b_c, log_scale=causal.log_scale)
    camera = _motions(vision, inside[0], inside[-1], causal, config)
    imu = inputs.imu.between(int(keyframes_ns[0]), int(keyframes_ns[-1]))
    priors = (
        gauge_prior(states, border),
        bias_prior(imu.bias_prior, states, border),
        config.calibration.prior(inputs.T_b_c, vision.std_scale),
    )
    unknowns = config.calibration.unknowns(vision.std_scale)
    problem = ChainProblem(
        imu, keyframes_ns, *walks, unknowns, camera, priors=priors, longest_tie_s=np.inf
    )
    solution = solve_chain(problem, states, border, ChainConfig())
    border = solution.border
    posterior = chain_posterior(solution)
    covs = posterior.states
    if causal.slow_error_deg > 0.0:
        unit = smoothed_slow_covariance(solution, posterior, keyframes_ns)
        covs = covs + np.deg2rad(causal.slow_error_deg) ** 2 * unit
    images_ns = np.array([state.stamp_ns for state in part])
    found: list[TrackedState] = []
    for k, stamp_ns in enumerate(keyframes_ns):
        one = States(*(values[k : k + 1] for values in solution.states))
        end_ns = keyframes_ns[k + 1] if k + 1 < len(keyframes_ns) else images_ns[-1] + 1
        between_ns = images_ns[(images_ns > stamp_ns) & (images_ns < end_ns)]
        found.append(_replaced(by_stamp[int(stamp_ns)], one, 0, covs[k]))
        if len(between_ns):
            span_ns = np.concatenate([[stamp_ns], between_ns])
            carried, carried_covs = propagated(imu, span_ns, one, covs[k], border, walks)
            found += [
                _replaced(by_stamp[int(stamp)], carried, j, carried_covs[j])
                for j, stamp in enumerate(between_ns)
            ]
    # The chain's world is fixed to its own first state.
    origins = list(causal.origins)
    origins[longest] = Origin(int(keyframes_ns[0]), solution.states.Ts_w_b[0])
    return replace(causal, states=found, origins=tuple(origins))


def _motions(
    vision: RelativePoses, first: int, last: int, causal: Track, config: SmootherConfig
) -> CameraMotions:
    """Relative poses of keyframes `first` to `last` that the causal track did not reject."""
    after = {keyframe.stamp_ns: keyframe for keyframe in causal.keyframes}
    index, covs = [], []
    for k in np.flatnonzero(vision.measured[first:last]):
        keyframe = after.get(int(vision.stamps_ns[first + k + 1]))
        if keyframe is not None and keyframe.rejected:
            continue
        known = None if keyframe is None else keyframe.cov_T_ck_ck1
        index.append(k)
        covs.append(vision.covs_T_ck_ck1[first + k] if known is None else known)
    used = np.array(index, dtype=np.int64)
    return CameraMotions(
        used, vision.Ts_ck_ck1[first + used], np.array(covs).reshape(-1, 6, 6), config.loss
    )


def _replaced(state: TrackedState, states: States, k: int, cov: np.ndarray) -> TrackedState:
    return replace(
        state,
        T_w_b=states.Ts_w_b[k],
        v_w=states.v_w[k],
        gyro_bias=states.bias_gyro[k],
        acc_bias=states.bias_acc[k],
        cov=cov,
    )
