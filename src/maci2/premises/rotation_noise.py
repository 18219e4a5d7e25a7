"""Noise of relative rotations that came without covariances, estimated from all windows of a
recording.

No window's own luck decides how it is weighed. The gyroscope shows the noise at two time scales:
within windows, in what the best extrinsic rotation, time offset and each window's gyroscope bias
leave of the rates; and from window to window, where a bias that hardly changes seems to jump, which
slow errors of the rotations do more than white noise of the same size. The larger of the two
counts, and the gyroscope's own part is not taken off: it is the less well known one.

A gyroscope cannot tell noise from a fault of the mounting, the clock or its axes, which looks like
noise too. So nothing is found to be noisier than stated: what fits worse than that is left to the
tests of the premises and of chi-square. Translations are left as stated: what shows of a
trajectory's slow errors against the accelerometer is less than what velocities suffer from them
(`docs/research/vision.md`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from maci2.imu import GAMMA, ImuMeasurements, Rule, preintegrate
from maci2.premises.rotation import RotationSums, WindowBiases, estimate_rotation, rotation_sums
from maci2.premises.runs import Run, runs_of
from maci2.types import Array
from maci2.vision import RelativePoses

STATED_NUMBERS = 10
"""What is stated counts like so many measured numbers; a window has 24, and three more where it is
compared with the one before."""

LEAST_FACTOR = 0.1
"""Smallest factor on the variance: rotations count as at most three times as accurate as stated."""


class RotationNoise(NamedTuple):
    """Variance of relative rotations over the stated one, at most 1."""

    factor: float
    windows: int
    """Windows that it was found from."""


def estimate_rotation_noise(
    imu: ImuMeasurements, windows: Sequence[RelativePoses], T_b_c: Array, rule: Rule = "midpoint"
) -> RotationNoise | None:
    """Noise that all windows show together; None where nothing was measured.

    The extrinsic rotation is fitted meanwhile, so it need not be right.
    """
    runs = runs_of(list(windows))
    if not runs:
        return None
    sums, biases, _ = zip(*(rotation_sums(imu, run, rule) for run in runs), strict=True)
    joined = RotationSums(*(np.concatenate(parts) for parts in zip(*sums, strict=True)))
    rotation = estimate_rotation(joined, T_b_c[:3, :3])
    within = _with_stated(rotation.variance_ratio, float(joined.dof.sum()))
    jumps = np.concatenate([_squared_jumps(one, rotation.R_b_c) for one in biases])
    between = _with_stated(float(jumps.mean()) if jumps.size else 1.0, float(jumps.size))
    vision, gyro = np.sum([_stated_variances(imu, run, rule) for run in runs], axis=0)
    factor = max(within, between) * (vision + gyro) / vision
    count = sum(len(run.measured) for run in runs)
    return RotationNoise(float(np.clip(factor, LEAST_FACTOR, 1.0)), count)


def _squared_jumps(biases: WindowBiases, R_b_c: Array) -> Array:
    """(W - 1, 3) squared change of the bias from each window to the next, over its variance."""
    variances = biases.std[1:] ** 2 + biases.std[:-1] ** 2
    return np.asarray(np.diff(biases.biases(R_b_c), axis=0) ** 2 / variances[:, None])


def _with_stated(ratio: float, numbers: float) -> float:
    return (numbers * ratio + STATED_NUMBERS) / (numbers + STATED_NUMBERS)


def _stated_variances(imu: ImuMeasurements, run: Run, rule: Rule) -> Array:
    """(2,) sum over relative rotations of their variance, vision's and the gyroscope's."""
    prior = imu.bias_prior
    pre = preintegrate(imu, run.stamps_ns, prior.mean_gyro, prior.mean_acc, rule)
    gyro = run.stacked(pre.cov[:, GAMMA, GAMMA])
    traces = (np.trace(cov, axis1=2, axis2=3) for cov in (run.covs_T_ck_ck1[..., 3:, 3:], gyro))
    return np.array([trace[run.measured].sum() for trace in traces])
