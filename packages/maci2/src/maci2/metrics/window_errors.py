"""Errors of one window's estimate against the ground truth of its recording."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from maci2.errors import DatasetError
from maci2.estimator import Posterior, VIState
from maci2.metrics.init_errors import InitErrors, TruthNoise, initialization_errors, truth_noise
from maci2.pipeline.prepare import Inputs, Window
from maci2.sensors import GroundTruth, truth_at
from maci2.tools.ground_truth.clock import truth_jumps
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S

GROSS_JUMP_M = 0.025
"""A ground truth that moves by this much beyond its own velocity, from one timestamp to the next,
cannot judge 0.1 m/s over a quarter of a second."""

SharedNoise = Callable[[GroundTruth], TruthNoise | None]
"""Function from a ground truth to its noise less what the estimate shares with it."""


def truth_is_known(truth: GroundTruth, window: Window) -> bool:
    """True if the ground truth states a velocity at every keyframe and does not jump between."""
    try:
        states = truth_at(truth, window.stamps_ns, MAX_TRUTH_GAP_S)
    except DatasetError:
        return False
    inside = (truth.stamps_ns >= window.start_ns) & (truth.stamps_ns <= window.stamps_ns[-1])
    covered = truth.part(inside)
    return bool(np.isfinite(states.v_w).all() and not truth_jumps(covered, GROSS_JUMP_M).any())


def state_errors(
    inputs: Inputs,
    truth: GroundTruth | None,
    state: VIState | None,
    posterior: Posterior | None,
    shared: SharedNoise | None = None,
) -> InitErrors | None:
    """Errors of an estimate; None without a state or where its ground truth is not known.

    A truth that states its covariance is judged as another measurement: biases are those of the
    window, and NEES is that of the difference, less what both have from the IMU (`shared`).
    """
    if state is None or truth is None or not truth_is_known(truth, Window(0, state.stamps_ns)):
        return None
    at = truth_at(truth, state.stamps_ns, MAX_TRUTH_GAP_S)
    noise = truth_noise(at, inputs.T_b_c)
    if noise is not None and inputs.source.kind == "truth" and truth is inputs.truth:
        noise = _without_motion(noise)
    elif noise is not None and shared is not None:
        noise = shared(truth) or noise
    mean_bias = (truth if noise is None else at).bias_gyro.mean(axis=0)
    return initialization_errors(
        state, at, inputs.T_b_c, state.gyro_bias, mean_bias, posterior, noise
    )


def _without_motion(noise: TruthNoise) -> TruthNoise:
    """Noise without errors of motion, where camera motion was made from this very ground truth:
    they are in the estimate, too, and do not show in the difference."""
    zero = np.zeros_like
    return replace(noise, velocity_b=zero(noise.velocity_b), Ts_c0_b=zero(noise.Ts_c0_b))
