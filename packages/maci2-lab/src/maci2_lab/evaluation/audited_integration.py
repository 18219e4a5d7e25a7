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

from maci2.estimator.problem import BIAS_ACC, BIAS_GYRO, POSITION, ROTATION, STATE, VELOCITY
from maci2.geometry.gaussian import symmetrize
from maci2.geometry.se3 import skew_stack
from maci2.imu import ALPHA, BETA, GAMMA, BiasPrior, ImuMeasurements, datasheet_model
from maci2.imu.preintegration import integrate_segments
from maci2.metrics.init_errors import TruthNoise, compared_derivatives
from maci2.sensors import GroundTruth, ImuNoise, ImuSamples, TruthCovariance, truth_at
from maci2.types import GRAVITY_W, NS, Array, Stamps
from maci2_lab.evaluation.imu_gains import ImuGains
from maci2_lab.evaluation.integration_errors import WindowErrors, errors_between
from maci2_lab.evaluation.truth_states import Indices, TruthStates, truth_states

GAP = 1.4
"""Steps of the truth's states longer than this many usual ones are gaps."""

FIRST, NEXT = slice(0, STATE), slice(STATE, 2 * STATE)


def shared_noise(
    truth: GroundTruth,
    stamps_ns: Stamps,
    T_b_c: Array,
    gains: ImuGains,
    imu: ImuMeasurements,
    max_gap_s: float,
) -> TruthNoise | None:
    """Noise that the ground truth adds to covariances at n keyframes; None where it was not made
    with an IMU, where keyframes are nearer to each other than its states, or across a gap of them.

    What an audited ground truth adds to the errors of an estimate that has used the same IMU.

    Both follow the same samples between what tracked the body and what the camera saw, so most of
    the errors that those samples make are in both and do not show in the difference. With m the
    errors of what the IMU measured between keyframes, truth and estimate are off by

        e_truth = K_truth m + (what tracked the body),    e_estimate = K m + (camera, priors)

    and the difference has covariance P_estimate + P_truth' - K_truth Q K' - K Q K_truth', where Q
    is what the *estimate* states of m: its claim is on trial, and P_truth' is the truth's
    covariance if the claim is right.

    Entries may be negative: they are to be added to the covariances of the estimate whose `gains`
    these are. `imu` has to reach a tenth of a second beyond the keyframes.
    """
    cov = truth.covariance
    if cov is None or cov.imu_noise is None:
        return None
    places = np.minimum(cov.nearest(stamps_ns), len(cov.stamps_ns) - 2)
    states_ns = cov.stamps_ns[places[0] : places[-1] + 1]
    longest_ns = GAP * float(np.median(np.diff(cov.stamps_ns)))
    if (np.diff(places) < 1).any() or np.diff(states_ns).max() > longest_ns:
        return None
    joint = joint_covariance(cov, places)
    chain = truth_at(truth, states_ns, max_gap_s)
    by_step, cov_step = truth_gains(chain, places, joint, cov.imu_noise, imu)
    # Q of the estimate in place of the audit's own.
    change = gains.cov_imu - cov_step
    joint = joint + np.einsum("kia,kab,kjb->ij", by_step, change, by_step)
    weighed = by_step @ gains.cov_imu
    seen = compared_derivatives(truth_at(truth, stamps_ns, max_gap_s), T_b_c)
    n = len(stamps_ns)
    velocity, poses = np.zeros((n, 3, n * STATE)), np.zeros((n, 6, n * STATE))
    for k in range(n):
        own = slice(STATE * k, STATE * (k + 1))
        velocity[k, :, own] = seen.velocity_b[k]
        poses[k, :, :STATE] = seen.Ts_c0_b[k, :, FIRST]
        poses[k, :, own] += seen.Ts_c0_b[k, :, NEXT]
    gravity, bias = np.zeros((3, n * STATE)), np.zeros((3, n, STATE))
    gravity[:, :STATE] = seen.gravity_c0
    bias[:, :, BIAS_GYRO] = np.eye(3)[:, None] / n

    def added(D: Array, K: Array) -> Array:
        """D are derivatives of the true value, K (m, d, 9) gains of the estimated one."""
        both = D @ np.einsum("kia,kda->id", weighed, K)
        return np.asarray(D @ joint @ D.T - both - both.T)

    noise_poses = np.stack([added(poses[k], gains.Ts_c0_b[:, k]) for k in range(n)])
    noise_poses[0] = 0.0
    return TruthNoise(
        added(gravity, gains.gravity_c0),
        np.stack([added(velocity[k], gains.velocity_b[:, k]) for k in range(n)]),
        noise_poses,
        added(bias.reshape(3, n * STATE), gains.gyro_bias),
    )


def joint_covariance(cov: TruthCovariance, places: Stamps) -> Array:
    """(15 m, 15 m) joint covariance of stored states, by increasing index."""
    m = len(places)
    a, b = np.triu_indices(m)
    blocks = np.empty((m, m, STATE, STATE))
    blocks[a, b] = cov.between(places[a], places[b])
    blocks[b, a] = np.swapaxes(blocks[a, b], 1, 2)
    return blocks.swapaxes(1, 2).reshape(m * STATE, m * STATE)


def truth_gains(
    chain: GroundTruth, places: Stamps, joint: Array, imu_noise: Array, imu: ImuMeasurements
) -> tuple[Array, Array]:
    """(m, 15 n, 9) derivatives of true states by the IMU's errors from keyframe to keyframe, and
    (m, 9, 9) covariance of those errors as the audit took it.

    `chain` holds all its states from the first keyframe to the last.
    """
    ends = places - places[0]
    D = measured_derivatives(chain, ends[:-1], ends[1:], imu)
    Q = composed_noise(chain, imu_noise[places[0] :], ends[:-1], ends[1:])
    columns = STATE * np.arange(len(ends) - 1)[:, None] + np.arange(2 * STATE)
    with_motion = joint[:, columns].swapaxes(0, 1) @ np.swapaxes(D, 1, 2)
    return gains_from(with_motion, Q), Q


def gains_from(with_motion: Array, Q: Array) -> Array:
    """(m, d, 9) derivatives of a best estimate by the noise m of the IMU's motion, of covariance Q.

    Of an error e of the estimate and m, only what is left unknown of m correlates with e, and that
    is a combination of errors of the two states it ties: Cov(e, m) = Cov(e, D e).
    """
    return np.asarray(np.swapaxes(np.linalg.solve(Q, np.swapaxes(with_motion, 1, 2)), 1, 2))


def _motion(chain: GroundTruth, i: Stamps, j: Stamps) -> tuple[Array, Array, Array, Array]:
    """Times [s], rotations and changes of velocity and position without gravity, as an IMU measures
    them from states i to states j."""
    dt = (chain.stamps_ns[j] - chain.stamps_ns[i])[:, None] / NS
    R_b_w, p = np.swapaxes(chain.Ts_w_b[i, :3, :3], 1, 2), chain.Ts_w_b[:, :3, 3]
    gained = chain.v_w[j] - chain.v_w[i] - dt * GRAVITY_W
    moved = p[j] - p[i] - dt * chain.v_w[i] - 0.5 * dt**2 * GRAVITY_W
    beta, alpha = (np.einsum("mij,mj->mi", R_b_w, one) for one in (gained, moved))
    return dt[:, :, None], R_b_w @ chain.Ts_w_b[j, :3, :3], beta, alpha


def motion_derivatives(chain: GroundTruth, i: Stamps, j: Stamps) -> Array:
    """(m, 9, 30) of that motion by the errors of both states."""
    dt, R_i_j, beta, alpha = _motion(chain, i, j)
    R_b_w = np.swapaxes(chain.Ts_w_b[i, :3, :3], 1, 2)
    D = np.zeros((len(i), 9, 2 * STATE))
    before, after = D[:, :, FIRST], D[:, :, NEXT]
    before[:, GAMMA, ROTATION] = -np.swapaxes(R_i_j, 1, 2)
    after[:, GAMMA, ROTATION] = np.eye(3)
    before[:, BETA, ROTATION], before[:, ALPHA, ROTATION] = skew_stack(beta), skew_stack(alpha)
    before[:, BETA, VELOCITY], after[:, BETA, VELOCITY] = -R_b_w, R_b_w
    before[:, ALPHA, VELOCITY] = -dt * R_b_w
    before[:, ALPHA, POSITION], after[:, ALPHA, POSITION] = -R_b_w, R_b_w
    return D


def measured_derivatives(chain: GroundTruth, i: Stamps, j: Stamps, imu: ImuMeasurements) -> Array:
    """(m, 9, 30) of the motion less what the IMU measures of it, whose samples carry the first
    state's biases."""
    D = motion_derivatives(chain, i, j)
    ends_ns = chain.stamps_ns[i], chain.stamps_ns[j]
    by_bias = integrate_segments(imu, *ends_ns, np.zeros((len(i), 6)), True)[5]
    D[:, :, BIAS_GYRO] -= by_bias[:, :, :3]
    D[:, :, BIAS_ACC] -= by_bias[:, :, 3:]
    return D


def composed_noise(chain: GroundTruth, imu_noise: Array, i: Stamps, j: Stamps) -> Array:
    """(m, 9, 9) noise of the motion from states i to states j, from that of the steps between."""
    states = np.arange(len(chain) - 1)
    dt, turn, beta, alpha = _motion(chain, states, states + 1)
    beta_x, alpha_x = skew_stack(beta), skew_stack(alpha)
    cov = np.zeros((len(i), 9, 9))
    for step in range(int(np.max(j - i, initial=0))):
        going = np.flatnonzero(i + step < j)
        k = i[going] + step
        R_i_k = np.swapaxes(chain.Ts_w_b[i[going], :3, :3], 1, 2) @ chain.Ts_w_b[k, :3, :3]
        F, L = (np.tile(np.eye(9), (len(k), 1, 1)) for _ in range(2))
        F[:, GAMMA, GAMMA] = np.swapaxes(turn[k], 1, 2)
        F[:, BETA, GAMMA], F[:, ALPHA, GAMMA] = -R_i_k @ beta_x[k], -R_i_k @ alpha_x[k]
        F[:, ALPHA, BETA] = dt[k] * np.eye(3)
        L[:, BETA, BETA] = L[:, ALPHA, ALPHA] = R_i_k
        cov[going] = F @ cov[going] @ np.swapaxes(F, 1, 2) + (
            L @ imu_noise[k] @ np.swapaxes(L, 1, 2)
        )
    return cov


STRIDE_S = 0.5
"""Time from one window's start to the next."""


@dataclass(frozen=True)
class AuditedStates:
    """The n states of an audited truth whose covariance it states, each at an IMU sample."""

    states: TruthStates
    chain: GroundTruth
    """States of the audit with their biases."""

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
        """(m, 9, 9) contribution of the samples' noise to it."""
        return np.asarray(self.seen @ errors.cov_imu @ np.swapaxes(self.seen, 1, 2))


def audited_windows(audited: AuditedStates, horizon_s: float) -> AuditedWindows:
    """Windows of about `horizon_s` between states whose covariance the audit states.

    Where the horizon is no multiple of the time between them, shorter and longer windows alternate
    so that their mean has that length.
    """
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
    first, last = first[whole], last[whole]
    seen, own = audited.seen_and_own(first, last)
    return AuditedWindows(states, first, last, seen, own, int((~whole).sum()))
