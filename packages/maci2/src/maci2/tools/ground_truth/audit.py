"""Ground truth audited: states at every IMU sample in a level world, each with its covariance."""

from dataclasses import dataclass, field, replace

import numpy as np

from maci2.estimator.measurements import integrate_spans, walking_covariance
from maci2.estimator.problem import GRAVITY, POSITION, ROTATION, STATE, VELOCITY, States
from maci2.estimator.solver import Solution
from maci2.field_docs import document_fields
from maci2.findings import Finding
from maci2.geometry.gaussian import symmetrize
from maci2.geometry.se3 import skew_stack, so3_exp_stack, so3_log_stack, stack_poses
from maci2.imu import ImuMeasurements, datasheet_model
from maci2.imu.measurements import with_vibration
from maci2.sensors import GroundTruth, Recording, TruthCovariance
from maci2.tools.ground_truth.audit_problem import (
    AuditFit,
    ImuFactors,
    NoiseLevel,
    audit_problem,
    fit_audit,
)
from maci2.tools.ground_truth.capture import Capture, open_capture
from maci2.tools.ground_truth.findings import Constant, audit_findings, find_jumps, measure
from maci2.tools.ground_truth.registration import register, without_lost_rows
from maci2.types import NS, Array, Stamps
from maci2.validation import require_type

FARTHEST_S = 0.15
"""Rows are given between states at most so far apart."""


@dataclass(frozen=True)
class RowResiduals:
    """Residuals of one kind of the source's rows after the audit."""

    stamps_ns: Stamps
    """(m,) of the rows used, on the source's own clock."""

    residuals: Array
    """(m, 3) [m] or [rad]: the audited marker less the row."""


@dataclass(frozen=True)
class AuditedTruth:
    """Audited ground truth: on the IMU's clock, in a world with z up, with covariances."""

    name: str
    """Source that was audited."""

    truth: GroundTruth
    """States at IMU samples: poses of the IMU, velocity, and biases, with their covariance."""

    constants: dict[str, Constant]
    """Estimated constants of the source, by name."""

    findings: tuple[Finding, ...]
    """Errors found in the source."""

    position_noise: NoiseLevel
    """Noise of the source's positions."""

    orientation_noise: NoiseLevel | None
    """Noise of its orientations; None where only positions were tracked."""

    imu_factors: ImuFactors
    """Factors on the IMU's stated variances that the residuals ask for."""

    chi_square: float
    """Sum of all squared whitened residuals."""

    dof: int
    """Degrees of freedom of `chi_square`."""

    jumps_ns: Stamps = field(default_factory=lambda: np.zeros(0, np.int64))
    """(m,) rows of the source that contradict the IMU."""

    position_residuals: RowResiduals | None = None
    """Residuals of positions; None if the audit comes from the cache."""

    orientation_residuals: RowResiduals | None = None
    """Likewise, and where only positions were tracked."""

    @property
    def cov_states(self) -> Array:
        """(n, 15, 15) of each row, order [phi, v, p, bg, ba]; uncertainty of the level included."""
        assert self.truth.covariance is not None
        return self.truth.covariance.at(self.truth.stamps_ns)


def audited_rows(fit: AuditFit, source: str) -> GroundTruth:
    """States at all IMU samples between neighbouring states, with their covariance."""
    problem = fit.solution.problem
    states_ns, samples_ns = problem.stamps_ns, problem.imu.stamps_ns
    samples_ns = samples_ns[(samples_ns >= states_ns[0]) & (samples_ns < states_ns[-1])]
    k = np.searchsorted(states_ns, samples_ns, side="right") - 1
    near = np.diff(states_ns)[k] < FARTHEST_S * NS
    stamps_ns = samples_ns[near]
    states = _states_at(fit.solution, stamps_ns, k[near])
    R_g_w = fit.solution.shared.R_w_g.T
    Rs_g_b = R_g_w @ states.Ts_w_b[:, :3, :3]
    # Levelled about the mean position, so that the world stays where it was.
    middle = states.Ts_w_b[:, :3, 3].mean(axis=0)
    p_g = (states.Ts_w_b[:, :3, 3] - middle) @ R_g_w.T + middle
    poses, v_g, cov = stack_poses(Rs_g_b, p_g), states.v_w @ R_g_w.T, _covariance(fit, middle)
    return GroundTruth(stamps_ns, poses, v_g, states.bias_gyro, states.bias_acc, source, cov)


def _states_at(solution: Solution, stamps_ns: Stamps, k: Stamps) -> States:
    """States carried along the IMU, with a share of what is missing at the next state."""
    x, states_ns, g_w = solution.states, solution.problem.stamps_ns, solution.shared.gravity_w
    bias = np.hstack([x.bias_gyro, x.bias_acc])
    ends_ns = np.concatenate([stamps_ns, states_ns[1:]])
    starts = np.concatenate([k, np.arange(len(states_ns) - 1)])
    spans = integrate_spans(solution.problem.imu, states_ns[starts], ends_ns, bias[starts])
    R, v, p = x.Ts_w_b[starts, :3, :3], x.v_w[starts], x.Ts_w_b[starts, :3, 3]
    dt = spans.dt[:, None]
    R_end = R @ spans.gamma
    v_end = v + g_w * dt + np.einsum("nij,nj->ni", R, spans.beta)
    p_end = p + v * dt + 0.5 * g_w * dt**2 + np.einsum("nij,nj->ni", R, spans.alpha)
    n = len(stamps_ns)
    missing_R = so3_log_stack(np.swapaxes(R_end[n:], 1, 2) @ x.Ts_w_b[1:, :3, :3])
    missing_v, missing_p = x.v_w[1:] - v_end[n:], x.Ts_w_b[1:, :3, 3] - p_end[n:]
    share = spans.dt[:n] / spans.dt[n:][k]
    u = share[:, None]
    Rs = R_end[:n] @ so3_exp_stack(u * missing_R[k])
    return States(
        stack_poses(Rs, p_end[:n] + u * missing_p[k]),
        v_end[:n] + u * missing_v[k],
        (1.0 - u) * x.bias_gyro[k] + u * x.bias_gyro[k + 1],
        (1.0 - u) * x.bias_acc[k] + u * x.bias_acc[k + 1],
    )


def _covariance(fit: AuditFit, middle: Array) -> TruthCovariance:
    """Covariance of the states in the level world: rotated, and with the level's own uncertainty.

    Levelling by another tilt rotates the body back, R_g_b Exp(-R_b_g tilt), and velocity and
    position about the middle with it.
    """
    x, posterior, R_g_w = fit.solution.states, fit.posterior, fit.solution.shared.R_w_g.T
    n = len(x.v_w)
    J = np.zeros((n, STATE, STATE))
    J[:, range(STATE), range(STATE)] = 1.0
    J[:, VELOCITY, VELOCITY] = J[:, POSITION, POSITION] = R_g_w
    J_tilt, tilt = np.zeros((n, STATE, len(posterior.free))), fit.solution.columns[6:][GRAVITY]
    J_tilt[:, ROTATION, tilt] = -np.swapaxes(R_g_w @ x.Ts_w_b[:, :3, :3], 1, 2)[:, :, :2]
    J_tilt[:, VELOCITY, tilt] = skew_stack(x.v_w @ R_g_w.T)[:, :, :2]
    J_tilt[:, POSITION, tilt] = skew_stack((x.Ts_w_b[:, :3, 3] - middle) @ R_g_w.T)[:, :, :2]
    seen = J @ posterior.with_shared
    with_constants = seen + J_tilt @ posterior.free
    # Cov(J x + K b, J' x' + K' b), with b's own part inside with_constants.
    states = J @ posterior.states @ _T(J) + seen @ _T(J_tilt) + J_tilt @ _T(with_constants)
    neighbours = (
        J[:-1] @ posterior.neighbours @ _T(J[1:])
        + seen[:-1] @ _T(J_tilt[1:])
        + J_tilt[:-1] @ _T(with_constants[1:])
    )
    problem, states = fit.solution.problem, symmetrize(states)
    noise = walking_covariance(fit.solution.measurements.spans, *problem.walks)[:, :9, :9]
    return TruthCovariance(
        problem.stamps_ns, states, neighbours, with_constants, posterior.free, noise
    )


def _T(matrices: Array) -> Array:
    return np.swapaxes(matrices, 1, 2)


def audit_ground_truth(recording: Recording, source_name: str = "") -> AuditedTruth:
    """Estimate states of the IMU with covariances and the errors of a ground truth, as `maci2
    truth` does.

    Clock, axes and gravity are estimated over the whole recording together with the states; biases
    wander, and noise levels come from the residuals.

    Args:
        recording: what `open_recording` gives.
        source_name: what to audit: "vicon0" (raw poses), "leica0" (raw positions), a ground
            truth's name or "trajectory:FILE"; by default the recording's first ground truth.

    Returns:
        States at every IMU sample in a level world on the IMU's clock, and findings.

    Raises:
        DatasetError: there is no such source, or it cannot be put onto the IMU.
        MeasurementError: an argument has the wrong type.
    """
    require_type(recording, Recording, "recording", "open_recording(path) gives one")
    require_type(source_name, str, "source_name", "the name of a ground truth")
    return audit_capture(recording, open_capture(recording, source_name))


def audit_capture(
    recording: Recording, capture: Capture, rows_hz: float | None = None
) -> AuditedTruth:
    """The audit of a capture that has been read already; `rows_hz` overrides how many rows a second
    are used."""
    found = register(capture, recording.imu)
    capture = without_lost_rows(capture, found, recording.imu)
    imu = _expected_noise(recording, capture)
    fit = fit_audit(audit_problem(capture, found, imu, recording, rows_hz))
    truth = audited_rows(fit, f"audited {capture.source}")
    constants, jumps = measure(fit, truth), find_jumps(fit, truth)
    return AuditedTruth(
        name=capture.name,
        truth=truth,
        constants=constants,
        findings=audit_findings(fit, truth, constants, jumps),
        position_noise=fit.position,
        orientation_noise=fit.orientation,
        imu_factors=fit.imu_factors,
        chi_square=fit.solution.cost,
        dof=fit.solution.dof,
        jumps_ns=np.unique(np.concatenate([each.stamps_ns for each in jumps])),
        position_residuals=_residuals(fit, "positions", fit.position),
        orientation_residuals=_residuals(fit, "orientations", fit.orientation),
    )


def _expected_noise(recording: Recording, capture: Capture) -> ImuMeasurements:
    """The IMU's samples with the noise to begin with.

    Vibration adds to the accelerometer's, and to the gyroscope's as far as the rows show it: over a
    fiftieth of a second, as raw capture does, not over the second between rows of a smoothed truth,
    where it has averaged out. Taken for noise there, it would be ten times what the data sheet
    says, and audited orientations would follow the source instead of the gyroscope.
    """
    samples, noise = recording.imu, recording.rig.imu
    sheet = datasheet_model(samples, noise)
    if noise.exact:
        # A simulated IMU has no vibration to be read off its samples.
        return sheet
    var_gyro, var_acc, rate_hz = sheet.var_gyro, sheet.var_acc, samples.rate_hz
    if not capture.smoothed:
        var_gyro = with_vibration(samples.gyro, var_gyro, rate_hz)
    return replace(sheet, var_gyro=var_gyro, var_acc=with_vibration(samples.acc, var_acc, rate_hz))


def _residuals(fit: AuditFit, kind: str, noise: NoiseLevel | None) -> RowResiduals | None:
    """Residuals of the rows that were used, with their timestamps."""
    elapsed, white = getattr(fit.solution.markers, kind).elapsed, getattr(fit.residuals, kind).white
    if noise is None or len(white) != len(elapsed):
        return None
    stamps_ns = fit.start.problem.clock_origin_ns + np.rint(elapsed * NS).astype(np.int64)
    return RowResiduals(stamps_ns, noise.std * white)


document_fields(__name__)
