"""What is constant over a recording: its biases, and how its truth's world is tilted.

Both are fitted to integration errors over one second, robustly, before any network is trained.

- The truth's world need not be level: in EuRoC's second Vicon room gravity is 0.5 deg off the z
  axis. Left in, that tilt would be learned as accelerometer noise.
- The biases of several recordings say how far a turn-on bias spreads: the prior for the estimator.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.evaluation.integration_errors import WindowErrors, integration_errors
from maci2.ground_truth.states import TruthStates
from maci2.imu import BETA, GAMMA, BiasPrior, ImuMeasurements
from maci2.types import GRAVITY_W, Array

HORIZON_S = 1.0
STRIDE_S = 0.25
CHUNK_S = 10.0
"""Stretches whose biases are fitted apart, to see how a bias wanders within a recording."""

ITERATIONS = 4

SCALE_ROTATION = 0.002
"""Rotation errors of this size [rad] weigh as much as velocity errors of `SCALE_VELOCITY`."""

SCALE_VELOCITY = 0.05
"""[m/s]"""


@dataclass(frozen=True)
class Alignment:
    """One recording's constants."""

    bias: Array
    """(6,) [gyro, acc] left in the samples [rad/s, m/s^2]."""

    chunk_biases: Array
    """(c, 6) the same over stretches of `CHUNK_S`."""

    gravity_w: Array
    """(3,) in the truth's world [m/s^2]."""

    @property
    def tilt_deg(self) -> float:
        """Angle of gravity from the truth's z axis."""
        return float(np.degrees(np.hypot(*self.gravity_w[:2]) / np.linalg.norm(self.gravity_w)))


def align(imu: ImuMeasurements, states: TruthStates) -> Alignment:
    """Fit biases and gravity direction of one recording."""
    bias, gravity_w = np.zeros(6), GRAVITY_W
    for _ in range(ITERATIONS):
        windows = _windows(imu, states, bias, gravity_w)
        step = _solve(windows, _rows(windows))
        bias = bias + step[:6]
        tilted = gravity_w + np.array([step[6], step[7], 0.0])
        gravity_w = tilted * (np.linalg.norm(GRAVITY_W) / np.linalg.norm(tilted))
    windows = _windows(imu, states, bias, gravity_w)
    return Alignment(bias, bias + _chunks(windows), gravity_w)


def _windows(
    imu: ImuMeasurements, states: TruthStates, bias: Array, gravity_w: Array
) -> WindowErrors:
    unbiased = replace(imu, gyro=imu.gyro - bias[:3], acc=imu.acc - bias[3:])
    return integration_errors(unbiased, states, HORIZON_S, STRIDE_S, gravity_w)


def _rows(windows: WindowErrors) -> Array:
    """(m, 6, 8) derivative of rotation and velocity error by [bias, gravity x, gravity y]."""
    return np.concatenate([-windows.e_D_bias[:, :6], windows.e_D_gravity[:, :6]], axis=2)


def _solve(windows: WindowErrors, rows: Array) -> Array:
    """Step that reduces the errors; windows count less the further they are off (Cauchy)."""
    scale = np.repeat([SCALE_ROTATION, SCALE_VELOCITY], 3)
    e = np.concatenate([windows.e[:, GAMMA], windows.e[:, BETA]], axis=1)
    A, b = rows / scale[:, None], -e / scale
    x = np.zeros(rows.shape[2])
    for _ in range(ITERATIONS):
        residual = np.einsum("mij,j->mi", A, x) - b
        squared = (residual**2).sum(1)
        weight = 1.0 / (1.0 + squared / np.median(squared))
        normal = np.einsum("m,mij,mik->jk", weight, A, A)
        x = np.linalg.solve(normal, np.einsum("m,mij,mi->j", weight, A, b))
    return x


def _chunks(windows: WindowErrors) -> Array:
    """(c, 6) what each stretch's bias adds to the recording's, gravity held."""
    chunk = (np.cumsum(np.full(len(windows.dt), STRIDE_S)) // CHUNK_S).astype(int)
    found = []
    for number in range(chunk.max() + 1):
        inside = np.flatnonzero(chunk == number)
        if len(inside) >= CHUNK_S / STRIDE_S / 2:
            part = replace(
                windows,
                dt=windows.dt[inside],
                e=windows.e[inside],
                e_D_bias=windows.e_D_bias[inside],
            )
            found.append(_solve(part, -part.e_D_bias[:, :6]))
    return np.array(found).reshape(-1, 6)


def bias_prior(remaining: list[Alignment], kinds: list[str]) -> BiasPrior:
    """What to expect of an unseen recording, from n seen ones and the kinds of their truths.

    The mean of n recordings is itself uncertain: the variance between recordings counts 1 + 1/n
    times. Wander within recordings adds to it, as the kind of truth shows it that shows least: a
    bias does not depend on the truth, so more than that is the truth's own wander.
    """
    n = len(remaining)
    means = np.array([alignment.bias for alignment in remaining])
    mean = means.mean(0)
    between = means.var(0, ddof=1) * (1.0 + 1.0 / n) if n > 1 else means[0] ** 2
    variances = np.array([alignment.chunk_biases.var(0) for alignment in remaining])
    wander = [variances[np.array(kinds) == kind].mean(0) for kind in sorted(set(kinds))]
    within = np.min(wander, axis=0)
    std = np.sqrt(between + within)
    return BiasPrior(mean[:3], std[:3], mean[3:], std[3:])
