"""Ground truth audited: what a tracker or a published truth says, together with the IMU."""

from dataclasses import replace

import numpy as np

from maci2.ground_truth.audit_findings import audit_findings, measure
from maci2.ground_truth.audit_fit import AuditFit, fit_audit
from maci2.ground_truth.audit_problem import audit_problem
from maci2.ground_truth.audited import AuditedTruth, audited_rows
from maci2.ground_truth.capture import Capture, open_capture
from maci2.ground_truth.registration import register
from maci2.imu import ImuMeasurements, datasheet_model, raw_model
from maci2.sensors import Recording
from maci2.types import Stamps

JUMP_SIGMAS = 6.0
"""Whitened length of a position's residual that is a jump, not noise."""


def audit_ground_truth(recording: Recording, source_name: str = "") -> AuditedTruth:
    """States of the IMU with covariances, and what is wrong with the source.

    `source_name`: vicon0, leica0, a truth's name or trajectory:FILE; by default the recording's
    first ground truth. Clock, axes and gravity are estimated over the whole recording with the
    states, biases wander, and noise levels come from the residuals.
    """
    return audit_capture(recording, open_capture(recording, source_name))


def audit_capture(
    recording: Recording, capture: Capture, rows_hz: float | None = None
) -> AuditedTruth:
    """The audit of a capture that has been read already; `rows_hz` overrides how many rows a second
    are used."""
    found = register(capture, recording.imu)
    imu = _expected_noise(recording)
    fit = fit_audit(audit_problem(capture, found, imu, recording.imu, recording.rig, rows_hz))
    truth = audited_rows(fit, f"audited {capture.source}")
    constants = measure(fit, capture, truth)
    jumps_ns = _jumps(fit)
    return AuditedTruth(
        name=capture.name,
        truth=truth,
        constants=constants,
        findings=audit_findings(capture, fit, constants, jumps_ns),
        position_noise=fit.position,
        orientation_noise=fit.orientation,
        imu_factors=fit.imu_factors,
        chi_square=fit.solution.cost,
        dof=fit.solution.dof,
        jumps_ns=jumps_ns,
    )


def _expected_noise(recording: Recording) -> ImuMeasurements:
    """The IMU's samples with the noise to begin with.

    Vibration adds to the accelerometer's. What it makes of the gyroscope averages out over a tenth
    of a second: taken for noise (as one window has to, which cannot tell), it would be ten times
    what the data sheet says, and audited orientations would follow the capture instead.
    """
    samples, noise = recording.imu, recording.rig.imu
    sheet = datasheet_model(samples, noise)
    if noise.exact:
        # A simulated IMU has no vibration to be read off its samples.
        return sheet
    return replace(raw_model(samples, noise), var_gyro=sheet.var_gyro)


def _jumps(fit: AuditFit) -> Stamps:
    """Timestamps of positions that contradict the IMU beyond any noise."""
    assert fit.problem.positions is not None
    far = np.sqrt(fit.residuals.positions.squares) > JUMP_SIGMAS
    elapsed = fit.solution.factors.positions.elapsed
    if len(far) != len(elapsed):
        return np.zeros(0, np.int64)
    stamps_ns = fit.problem.clock_origin_ns + np.rint(elapsed[far] * 1e9).astype(np.int64)
    return np.asarray(stamps_ns)
