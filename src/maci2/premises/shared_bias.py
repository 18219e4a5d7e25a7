"""The accelerometer's bias that all windows share, with nothing stated of it.

A window of a few seconds hardly tells a bias from a tilt of gravity and believes its prior. Over
many windows the body turns, and a bias turns with it while gravity does not. Few windows do not
show their model errors (a late clock, a camera that drifts), which a bias takes up as readily.
"""

from typing import NamedTuple

import numpy as np

from maci2.gaussian import chi2_quantile
from maci2.premises.false_alarms import FALSE_ALARM
from maci2.premises.motion_errors import FREE_DELAY_STD_S, FREE_DRIFT_STD
from maci2.premises.robust_covariance import robust_covariance, shows_scatter
from maci2.premises.translation import DELAY, DRIFT, LEAST, A, M, P, TranslationSums
from maci2.premises.translation import UNKNOWNS as PARTS
from maci2.premises.wandering_bias import CONSTANTS, FASTER, SLOWER, BiasBlocks, WanderingBias
from maci2.types import NS, Array

BIAS, ONE = slice(PARTS, PARTS + 3), PARTS + 3
"""Places of the bias and of the constant behind z."""

UNKNOWNS = 7
"""One over the scale, lever arm, bias."""

WANDERS = chi2_quantile(1, 1.0 - 2.0 * FALSE_ALARM)
"""Twice the gain in log likelihood beyond which a bias wanders more than expected; that is asked to
one side, so that chance exceeds it half as often."""


class BiasAt(NamedTuple):
    """Bias that the IMU model left in the accelerometer's samples."""

    acc: Array
    """(3,) [m/s^2]"""

    cov: Array
    """(3, 3) [(m/s^2)^2], model errors included; wide along axes that motion does not show."""


class SharedBias(NamedTuple):
    """Accelerometer bias over time, estimated from all windows."""

    times_s: Array
    """(T,) times that it is known at; a single one for a bias that does not change."""

    biases: tuple[BiasAt, ...]

    @property
    def wanders(self) -> bool:
        """Whether it changes by more than that of a sound accelerometer."""
        return len(self.biases) > 1

    def at(self, stamp_ns: int) -> BiasAt:
        """The bias nearest to a time."""
        return self.biases[int(np.argmin(np.abs(self.times_s - stamp_ns / NS)))]


def estimate_shared_bias(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float
) -> SharedBias | None:
    """Fit scale, lever arm and bias at once; axes and signs are taken as stated. None where there
    are too few windows to say how far off that may be.

    A bias that wanders, by a random walk as strong as is most likely, is believed where that is
    likelier beyond chance than what sound recordings show.
    """
    if not shows_scatter(len(sums.dof), UNKNOWNS):
        return None
    wandering = _wandering(sums, R_b_c, p_b_c, std_lever)
    if wandering is not None:
        return wandering
    B, c = np.zeros((ONE + 1, UNKNOWNS)), _stated(R_b_c, p_b_c)
    B[A, 0], B[P, 1:4], B[BIAS, 4:7] = np.eye(3).ravel(), np.eye(3), np.eye(3)
    S = sums.shared_bias.sum(axis=0)
    information = B.T @ S @ B + np.diag([LEAST, *[std_lever**-2.0] * 3, *[LEAST] * 3])
    q = np.linalg.solve(information, -B.T @ S @ c)
    z = B @ q + c
    excess = max(float(z @ S @ z) / max(int(sums.dof.sum()), 1), 1.0)
    cov = robust_covariance(information, sums.shared_bias @ z @ B, excess)
    # Accelerations count as one over the scale, and so does their bias.
    inverse_scale = q[0] if abs(q[0]) > 1e-6 else 1e-6
    bias = BiasAt(q[4:7] / inverse_scale, cov[4:, 4:] / inverse_scale**2)
    return SharedBias(np.zeros(1), (bias,))


def _wandering(
    sums: TranslationSums, R_b_c: Array, p_b_c: Array, std_lever: float
) -> SharedBias | None:
    """The bias of each block, where it changes from one to the next by more than expected; None
    where it does not.

    Delay and drift are free beside scale and lever arm: they come and go with the motion, and a
    bias would follow them.
    """
    B, c = np.zeros((ONE + 1, CONSTANTS + 3)), _stated(R_b_c, p_b_c)
    B[A, 0], B[P, 1:4], B[DRIFT, 4:7], B[DELAY, 7] = np.eye(3).ravel(), np.eye(3), np.eye(3), 1.0
    B[BIAS, CONSTANTS:] = np.eye(3)
    stds = [LEAST**-0.5, *[std_lever] * 3, *[FREE_DRIFT_STD] * 3, FREE_DELAY_STD_S]
    prior = np.diag([*np.array(stds) ** -2.0, *[LEAST] * 3])
    S = sums.shared_bias
    blocks = BiasBlocks(
        B.T @ S @ B, S @ c @ B, float(c @ S.sum(axis=0) @ c), prior, int(sums.dof.sum())
    )
    times_s = sums.time_s / sums.windows
    slower, faster = (
        [WanderingBias(blocks, np.diff(times_s), walk) for walk in walks]
        for walks in (SLOWER, FASTER)
    )
    best = min(faster, key=lambda fit: fit.misfit)
    expected = min(blocks.misfit_of_constant_bias(), *(fit.misfit for fit in slower))
    if expected - best.misfit <= WANDERS:
        return None
    return SharedBias(times_s, tuple(map(BiasAt, best.biases, best.covariances)))


def _stated(R_b_c: Array, p_b_c: Array) -> Array:
    """(29,) the part of [z, bias, 1] that is taken as stated."""
    c = np.zeros(ONE + 1)
    c[M], c[P], c[ONE] = R_b_c.ravel(), p_b_c, 1.0
    return c
