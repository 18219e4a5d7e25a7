"""Integration errors against an audited ground truth, with the covariance of the difference.

An audited truth was made with the very samples under test and follows them between what tracked the
body: part of their errors is in both and does not show. With m the error of what the IMU measured
over a window, x the error of the true states at its ends and b the bias left in the samples,

    e = m + J b - D x,    x = K m + (what tracked the body),

    Cov(e) = (I - D K) Q (I - D K)^T + D (P - K Q_truth K^T) D^T + J Cov(b) J^T,

where Q is what the model under test states of m, Q_truth what the audit took it for, and P the
audit's covariance of x. The nearer the ends, the less of m shows: an error over a quarter of a
second is mostly hidden, and one over a second mostly seen.
"""

from dataclasses import dataclass

import numpy as np

from maci2.evaluation.integration_errors import WindowErrors, errors_between
from maci2.evaluation.shared_noise import (
    composed_noise,
    gains_from,
    measured_derivatives,
    motion_derivatives,
)
from maci2.gaussian import symmetrize
from maci2.ground_truth.states import Indices, TruthStates, truth_states
from maci2.imu import BiasPrior, ImuMeasurements, datasheet_model
from maci2.sensors import GroundTruth, ImuNoise, ImuSamples, truth_at
from maci2.types import NS, Array, Stamps

STRIDE_S = 0.5
"""Time from one window's start to the next."""


@dataclass(frozen=True)
class AuditedStates:
    """The n states of an audited truth whose covariance it states, each at an IMU sample."""

    states: TruthStates
    chain: GroundTruth
    """The same states with their biases."""

    places: Stamps
    """(n,) of the states among those of the covariance."""

    imu: ImuMeasurements
    """The samples that the truth was made with."""

    def seen_and_own(self, first: Indices, last: Indices) -> tuple[Array, Array]:
        """(m, 9, 9) I - D K: how the samples' error shows in errors over windows between states;
        (m, 9, 9) covariance of what the truth adds that does not come from the samples."""
        cov = self.chain.covariance
        assert cov is not None
        assert cov.imu_noise is not None
        joint = cov.pairs(self.places[first], self.places[last])
        measured = measured_derivatives(self.chain, first, last, self.imu)
        steps = np.minimum(self.places, len(cov.imu_noise) - 1)
        Q = composed_noise(self.chain, cov.imu_noise[steps], first, last)
        K = gains_from(joint @ np.swapaxes(measured, 1, 2), Q)
        D = motion_derivatives(self.chain, first, last)
        own = D @ (joint - K @ Q @ np.swapaxes(K, 1, 2)) @ np.swapaxes(D, 1, 2)
        return np.eye(9) - D @ K, _not_negative(own)


def _not_negative(covs: Array) -> Array:
    """The covariances without negative eigenvalues. D takes biases as constant over a window, the
    audit lets them walk: over 2.5 s a direction may come out negative by a hundredth of the others.
    """
    values, vectors = np.linalg.eigh(symmetrize(covs))
    return np.asarray((vectors * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(vectors, 1, 2))


def audited_states(
    imu: ImuSamples, noise: ImuNoise, truth: GroundTruth, name: str
) -> AuditedStates:
    """The states of an audit of the recording `name` that windows may start and end at."""
    cov = truth.covariance
    assert cov is not None
    rows = truth_states(imu, truth, name)
    states = rows.at(np.isin(imu.stamps_ns[rows.samples], cov.stamps_ns))
    stamps_ns = imu.stamps_ns[states.samples]
    chain = truth_at(truth, stamps_ns, max_gap_s=np.inf)
    places = np.searchsorted(cov.stamps_ns, stamps_ns)
    return AuditedStates(states, chain, places, datasheet_model(imu, noise))


@dataclass(frozen=True)
class AuditedWindows:
    """m windows of one length between states of an audited truth."""

    states: TruthStates
    """The true states at which the audit states its covariance."""

    first: Indices
    """(m,) state at the start."""

    last: Indices
    """(m,) state at the end."""

    seen: Array
    """(m, 9, 9) I - D K: how the samples' error shows in e."""

    cov_truth: Array
    """(m, 9, 9) of what the truth adds that does not come from the samples."""

    left_out: int
    """Windows across a gap or a jump of the truth."""

    def errors(self, imu: ImuMeasurements) -> WindowErrors:
        """Errors of integrating samples as an IMU model hands them on."""
        return errors_between(imu, self.states, self.first, self.last, self.left_out)

    def cov(self, errors: WindowErrors, bias: BiasPrior | None) -> Array:
        """(m, 9, 9) covariance of the errors, as their model and the audit state it."""
        return np.asarray(self.shown(errors) + self.cov_truth + errors.cov_bias(bias))

    def shown(self, errors: WindowErrors) -> Array:
        """(m, 9, 9) what the stated noise of the samples adds to it."""
        return np.asarray(self.seen @ errors.cov_imu @ np.swapaxes(self.seen, 1, 2))


def audited_windows(audited: AuditedStates, horizon_s: float) -> AuditedWindows:
    """Windows of about `horizon_s` between states whose covariance the audit states.

    Where the horizon is no multiple of the time between them, shorter and longer windows alternate
    so that their mean has that length.
    """
    first, last, left_out = _planned(audited, horizon_s)
    seen, own = audited.seen_and_own(first, last)
    return AuditedWindows(audited.states, first, last, seen, own, left_out)


def _planned(audited: AuditedStates, horizon_s: float) -> tuple[Indices, Indices, int]:
    """First and last state of every window that is whole, and how many are not."""
    states, stamps_ns, places = audited.states, audited.chain.stamps_ns, audited.places
    period_s = float(np.median(np.diff(stamps_ns))) / NS
    stride = max(round(STRIDE_S / period_s), 1)
    # Lengths between two numbers of states alternate.
    ends = np.floor(horizon_s / period_s * np.arange(len(states) + 1) + 1e-6).astype(np.int64)
    lengths = np.maximum(np.diff(ends), 1)
    first = np.arange(0, len(states) - int(lengths.max()), stride)
    last = first + lengths[: len(first)]
    took_s = (stamps_ns[last] - stamps_ns[first]) / NS
    whole = (states.run[first] == states.run[last]) & (took_s < horizon_s + 1.5 * period_s)
    whole &= places[last] - places[first] == last - first
    return first[whole], last[whole], int((~whole).sum())
