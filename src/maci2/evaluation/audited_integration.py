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
from maci2.evaluation.shared_noise import motion_derivatives, truth_gains
from maci2.ground_truth.states import Indices, TruthStates, truth_states
from maci2.imu import BiasPrior, ImuMeasurements, datasheet_model
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.types import NS, Array, Stamps

STRIDE_S = 0.5
"""Time from one window's start to the next."""


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
        shown = self.seen @ errors.cov_imu @ np.swapaxes(self.seen, 1, 2)
        return np.asarray(shown + self.cov_truth + errors.cov_bias(bias))


def audited_windows(recording: Recording, truth: GroundTruth, horizon_s: float) -> AuditedWindows:
    """Windows of about `horizon_s` between states whose covariance the audit states.

    Where the horizon is no multiple of the time between them, shorter and longer windows alternate
    so that their mean has that length.
    """
    cov = truth.covariance
    assert cov is not None
    assert cov.imu_noise is not None
    rows = truth_states(recording.imu, truth, recording.name)
    states = rows.at(np.isin(recording.imu.stamps_ns[rows.samples], cov.stamps_ns))
    stamps_ns = recording.imu.stamps_ns[states.samples]
    places = np.searchsorted(cov.stamps_ns, stamps_ns)
    first, last, left_out = _planned(states, stamps_ns, places, horizon_s)
    chain = truth_at(truth, stamps_ns, max_gap_s=np.inf)
    samples, index = datasheet_model(recording.imu, recording.rig.imu), np.arange(len(chain))
    seen, cov_truth = np.empty((len(first), 9, 9)), np.empty((len(first), 9, 9))
    for k, (i, j) in enumerate(zip(first, last, strict=True)):
        ends = places[[i, j]]
        between = samples.between(*stamps_ns[[i, j]])
        within = chain.part((index >= i) & (index <= j))
        joint = cov.joint(ends)
        K, Q = (found[0] for found in truth_gains(within, ends, joint, cov.imu_noise, between))
        D = motion_derivatives(within, 0, len(within) - 1)
        seen[k] = np.eye(9) - D @ K
        cov_truth[k] = D @ (joint - K @ Q @ K.T) @ D.T
    return AuditedWindows(states, first, last, seen, cov_truth, left_out)


def _planned(
    states: TruthStates, stamps_ns: Stamps, places: Stamps, horizon_s: float
) -> tuple[Indices, Indices, int]:
    """First and last state of every window that is whole, and how many are not."""
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
