"""A gyroscope's turn-on bias, estimated from the accelerometer and from standstill, causally.

A gyroscope alone does not show its bias. But an attitude integrated with a wrong bias tilts, a
tilted attitude leaves a part of gravity over, and that part would accelerate the body for ever,
while hands, drones and robots keep their speed bounded. A Kalman filter over
[attitude, velocity, biases] with the measurement every half second "the velocity is zero, give or
take `STD_SPEED`" therefore finds the two horizontal components of the bias: on EuRoC to 4e-4 rad/s
after 20 s, a fifth of their spread between recordings. What stays vertical keeps its prior until
the device stands still for half a second: then the gyroscope shows all of it.

A stationary gyroscope reads otherwise than the same one in flight: on EuRoC's drone by 1e-3 rad/s
about z, in every recording to the same side (vibration is rectified). So what it reads then is the
bias in motion plus a shift, and what is known of the shift is learned like a turn-on bias.

A bias wanders, but about its mean (a Gauss-Markov process): where nothing shows it, its spread
stays the one that biases have at any moment of a recording, which the prior states. With a random
walk it would be less certain after two minutes than before the recording, and wandering would
count twice.

Of the biases only the gyroscope's is returned: the accelerometer's is hardly separable from the
tilt. The tilt is, with what both biases add to its error (`TrackedVertical`).
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from maci2.geometry import skew, so3_exp
from maci2.imu.measurements import BiasPrior, ImuMeasurements, TrackedVertical
from maci2.imu.preintegration import Preintegrated, preintegrate
from maci2.jit import kernel
from maci2.sensors import ImuSamples
from maci2.types import GRAVITY_W, NS, Array, Stamps

BLOCK_S = 0.5
"""Length of the blocks that are stationary or not [s]."""

MAX_STD = (0.015, 0.2)
"""Largest spread of a stationary block's samples on any axis [rad/s, m/s^2]: a MEMS sensor's noise
and people walking by, but neither rotors nor a hand."""

STD_INSTABILITY = 1e-4
"""Error that no averaging removes [rad/s]: the bias' own flicker, and the Earth's rotation."""

STD_UNKNOWN = 1e-3
"""Standard deviation of the shift while too few recordings show it [rad/s]."""


@dataclass(frozen=True)
class StationaryShift:
    """Reading of a stationary gyroscope beyond its bias in motion [rad/s]."""

    mean: Array = field(default_factory=lambda: np.zeros(3))
    std: Array = field(default_factory=lambda: np.full(3, STD_UNKNOWN))


@dataclass(frozen=True)
class StationaryBlocks:
    """A stream cut into m blocks."""

    still: Array
    """(m,) whether the device was stationary."""

    rate: Array
    """(m, 3) mean of the gyroscope [rad/s]."""

    std_rate: Array
    """(m, 3) standard deviation of that mean, if the device was stationary."""


def stationary_blocks(samples: ImuSamples) -> StationaryBlocks:
    """Half seconds, whether each is stationary, and what the gyroscope read."""
    period = block_length(samples)
    blocks = len(samples) // period
    gyro, acc = (
        values[: blocks * period].reshape(blocks, period, 3)
        for values in (samples.gyro, samples.acc)
    )
    std = gyro.std(axis=1)
    quiet = (std.max(axis=1) < MAX_STD[0]) & (acc.std(axis=1).max(axis=1) < MAX_STD[1])
    std_rate = np.sqrt(std**2 / period + STD_INSTABILITY**2)
    return StationaryBlocks(quiet, gyro.mean(axis=1), std_rate)


def block_length(samples: ImuSamples) -> int:
    """Length of a block in samples."""
    return max(round(BLOCK_S * samples.rate_hz), 1)


STD_SPEED = 2.5
"""Spread of the velocity about zero at the end of each block [m/s], one axis. Speeds are alike
over several blocks, so this is larger than the 1 m/s of a drone or a hand."""

STD_FIRST_TILT = 0.1
"""Standard deviation of the attitude that levels the first block's mean specific force [rad]."""

STD_FIRST_VELOCITY = 1.0
"""[m/s]"""

WALK_GYRO = 2.5e-5
"""Random walk of the gyroscope bias, as that it is over short times
[rad/s/sqrt(s)]. With it the spread that the filter states is consistent: held out one by one, the
training recordings of EuRoC have a NEES of 1.0 in their first 20 s and of 1.0 later."""

WALK_ACC = 1e-3
"""Random walk of the accelerometer bias [m/s^2/sqrt(s)]."""

STD_SAMPLE = (3e-3, 0.2)
"""Noise of one sample, vibration included [rad/s, m/s^2]."""

GATE = 5.0
"""Stationary rates that are further from what is expected, in spreads, come from steady
rotation."""

TILT = slice(0, 3)
VELOCITY = slice(3, 6)
BIAS_GYRO = slice(6, 9)
BIAS_ACC = slice(9, 12)
BIASES = slice(6, 12)
SHIFT = slice(12, 15)


class TrackedBias(NamedTuple):
    """The gyroscope's bias at each of n samples, from the samples before it."""

    gyro: Array
    """(n, 3) [rad/s]"""

    std_gyro: Array
    """(n, 3) its spread [rad/s]."""

    vertical: TrackedVertical | None
    """The vertical, tracked with it; None in a stream of two blocks or less."""


def track_gyro_bias(
    samples: ImuSamples, turn_on: BiasPrior, rest_shift: StationaryShift
) -> TrackedBias:
    """Gyroscope bias and vertical at each sample, from the samples before it.

    `turn_on` is what is known of the raw biases before the recording: mean and spread;
    `rest_shift` what the gyroscope reads beside its bias while the device stands still.
    """
    period = block_length(samples)
    bias = np.broadcast_to(turn_on.mean_gyro, samples.gyro.shape).copy()
    std = np.broadcast_to(turn_on.std_gyro, samples.gyro.shape).copy()
    if len(samples) <= 2 * period:
        return TrackedBias(bias, std, None)
    starts = np.arange(0, len(samples), period, dtype=np.int64)
    blocks = _preintegrated(samples, turn_on, starts)
    rests = stationary_blocks(samples)
    R_w_b, cov = _first(samples.acc[:period] - turn_on.mean_acc, turn_on, rest_shift)
    tracked, tracked_std, bias_acc, Rs_w_b, tilt_D_bias, cov_tilt = _track(
        R_w_b, cov, np.repeat([WALK_GYRO, WALK_ACC], 3), rest_shift.mean,
        rests.still, rests.rate - turn_on.mean_gyro, rests.std_rate,
        blocks.dt, blocks.gamma, blocks.beta, blocks.cov, blocks.D_bg, blocks.D_ba,
    )  # fmt: skip
    # What the blocks until k tell is used from the end of block k on.
    rest = len(samples) - starts[1]
    bias[starts[1] :] += np.repeat(tracked, period, axis=0)[:rest]
    std[starts[1] :] = np.repeat(tracked_std, period, axis=0)[:rest]
    block = np.full(len(samples), -1, np.int64)
    block[starts[1] :] = np.repeat(np.arange(len(tracked), dtype=np.int64), period)[:rest]
    dt = np.diff(samples.stamps_ns) / NS
    vertical = TrackedVertical(
        _attitudes(Rs_w_b, block, samples.gyro - bias, dt),
        block,
        np.hstack([turn_on.mean_gyro + tracked, turn_on.mean_acc + bias_acc]),
        tilt_D_bias,
        cov_tilt,
        std_lasting=0.0,
    )
    return TrackedBias(bias, std, vertical)


def _preintegrated(samples: ImuSamples, turn_on: BiasPrior, starts: Stamps) -> Preintegrated:
    shape = samples.gyro.shape
    measured = ImuMeasurements(
        samples.stamps_ns,
        samples.gyro - turn_on.mean_gyro,
        samples.acc - turn_on.mean_acc,
        np.full(shape, STD_SAMPLE[0] ** 2),
        np.full(shape, STD_SAMPLE[1] ** 2),
        np.zeros((9, 9)),
        BiasPrior(),
        samples.source,
    )
    return preintegrate(measured, samples.stamps_ns[starts])


def _first(acc: Array, turn_on: BiasPrior, rest_shift: StationaryShift) -> tuple[Array, Array]:
    """R_w_b that levels the mean specific force, heading arbitrary, and the first covariance."""
    up = acc.mean(0) / np.linalg.norm(acc.mean(0))
    # Any direction that is not up: from the axis on which `up` is smallest.
    aside = np.cross(up, np.eye(3)[np.argmin(np.abs(up))])
    aside = aside / np.linalg.norm(aside)
    first = [np.full(3, STD_FIRST_TILT), np.full(3, STD_FIRST_VELOCITY)]
    std = np.concatenate([*first, turn_on.std_gyro, turn_on.std_acc, rest_shift.std])
    return np.stack([aside, np.cross(up, aside), up]), np.diag(std**2)


@kernel
def _track(
    R_w_b: Array,
    cov: Array,
    walks: Array,
    shift: Array,
    still: Array,
    rest_rate: Array,
    std_rest_rate: Array,
    dt: Array,
    gammas: Array,
    betas: Array,
    covs: Array,
    D_bg: Array,
    D_ba: Array,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """(m, 3) gyroscope bias after each block, beside the prior's mean, its spread and the
    accelerometer's bias; (m, 3, 3) attitude, (m, 2, 6) derivative of its tilt by both biases and
    (m, 2, 2) covariance of the tilt where they are known.

    Errors are [tilt, velocity, gyro bias, accelerometer bias, stationary shift]; the tilt's is on
    the right. After a stationary block the device is taken to stay there. Biases wander by
    `walks` and return to their means as fast as keeps the spread that `cov` gives them.
    """
    found, std, found_acc = np.empty((len(dt), 3)), np.empty((len(dt), 3)), np.empty((len(dt), 3))
    Rs_w_b, tilt_D_bias = np.empty((len(dt), 3, 3)), np.empty((len(dt), 2, 6))
    cov_tilt = np.empty((len(dt), 2, 2))
    v_w, x = np.zeros(3), np.zeros(15)
    x[SHIFT] = shift
    G, walk = np.zeros((15, 6)), np.zeros((15, 15))
    spread = np.diag(cov)[BIASES].copy()
    speed, rate = np.zeros((3, 15)), np.zeros((3, 15))
    for i in range(3):
        speed[i, 3 + i] = 1.0
        rate[i, 6 + i] = 1.0
    for k in range(len(dt)):
        # The shift is part of what the gyroscope reads, while stationary.
        for i in range(3):
            rate[i, 12 + i] = 1.0 if still[k] else 0.0
        bias_gyro, bias_acc = rate @ x, np.ascontiguousarray(x[BIAS_ACC])
        gamma = gammas[k] @ so3_exp(D_bg[k, :3] @ bias_gyro)
        beta = betas[k] + D_bg[k, 3:6] @ bias_gyro + D_ba[k, 3:6] @ bias_acc
        kept = np.exp(-0.5 * walks**2 * dt[k] / spread)
        F = _transition(R_w_b, gamma, beta, rate, D_bg[k], D_ba[k], kept)
        G[TILT, 0:3] = np.eye(3)
        G[VELOCITY, 3:6] = R_w_b
        for i in range(6):
            walk[6 + i, 6 + i] = spread[i] * (1.0 - kept[i] ** 2)
        noise = np.ascontiguousarray(covs[k, 0:6, 0:6])
        cov = F @ cov @ F.T + G @ noise @ G.T + walk
        v_w = v_w + GRAVITY_W * dt[k] + R_w_b @ beta
        R_w_b = R_w_b @ gamma
        x[BIASES] *= kept

        # The pseudo-measurement: zero velocity, give or take STD_SPEED.
        step, cov = _updated(cov, speed, -v_w, np.full(3, STD_SPEED))
        if still[k]:
            misfit = rest_rate[k] - rate @ (x + step)
            expected = np.sqrt(np.diag(rate @ cov @ rate.T) + std_rest_rate[k] ** 2)
            if np.abs(misfit / expected).max() < GATE:
                more, cov = _updated(cov, rate, misfit, std_rest_rate[k])
                step = step + more
        R_w_b = R_w_b @ so3_exp(step[TILT])
        v_w = v_w + step[VELOCITY]
        x[6:] += step[6:]
        found[k], found_acc[k] = rate @ x, x[BIAS_ACC]
        std[k] = np.sqrt(np.diag(rate @ cov @ rate.T))
        Rs_w_b[k] = R_w_b
        tilt_D_bias[k], cov_tilt[k] = _tilt_where_biases_are_known(R_w_b, cov, rate)
    return found, std, found_acc, Rs_w_b, tilt_D_bias, cov_tilt


@kernel
def _tilt_where_biases_are_known(R_w_b: Array, cov: Array, rate: Array) -> tuple[Array, Array]:
    """(2, 6) derivative of the tilt about the level axes by [gyroscope's reading, accelerometer's
    bias], and (2, 2) covariance of the tilt where they are known: their priors are elsewhere."""
    biases = np.zeros((6, 15))
    biases[:3] = rate
    for i in range(3):
        biases[3 + i, 9 + i] = 1.0
    of_biases, R_h_b = biases @ cov, np.ascontiguousarray(R_w_b[:2])
    cov_biases_tilt = np.ascontiguousarray(of_biases[:, TILT])
    tilt_D_bias = np.linalg.solve(of_biases @ biases.T, cov_biases_tilt).T
    cov_tilt = np.ascontiguousarray(cov[TILT, TILT]) - tilt_D_bias @ cov_biases_tilt
    return R_h_b @ tilt_D_bias, R_h_b @ cov_tilt @ R_h_b.T


@kernel
def _attitudes(Rs_w_b: Array, block: Array, gyro: Array, dt: Array) -> Array:
    """(n, 3, 3) attitude at each sample: that after the last block, carried on by the gyroscope."""
    out = np.empty((len(block), 3, 3))
    for i in range(len(block)):
        if block[i] < 0:
            out[i] = np.eye(3)
        elif block[i] != block[i - 1]:
            out[i] = Rs_w_b[block[i]]
        else:
            out[i] = out[i - 1] @ so3_exp(0.5 * (gyro[i - 1] + gyro[i]) * dt[i - 1])
    return out


@kernel
def _transition(
    R_w_b: Array, gamma: Array, beta: Array, rate: Array, D_bg: Array, D_ba: Array, kept: Array
) -> Array:
    """(15, 15) derivative of the errors after a block by those before it.

    `rate` is that of the gyroscope's reading by the errors, `kept` the share that stays of biases.
    """
    F = np.eye(15)
    F[TILT] = D_bg[:3] @ rate
    F[TILT, TILT] = gamma.T
    F[VELOCITY] = F[VELOCITY] + R_w_b @ D_bg[3:6] @ rate
    F[VELOCITY, TILT] = -R_w_b @ skew(beta)
    F[VELOCITY, BIAS_ACC] = R_w_b @ D_ba[3:6]
    for i in range(6):
        F[6 + i, 6 + i] = kept[i]
    return F


@kernel
def _updated(cov: Array, rows: Array, misfit: Array, std: Array) -> tuple[Array, Array]:
    """Step and covariance after a measurement of `rows` of the state, `misfit` off."""
    seen = rows @ cov
    gain = np.linalg.solve(seen @ rows.T + np.diag(std**2), seen).T
    cov = cov - gain @ seen
    return gain @ misfit, 0.5 * (cov + cov.T)
