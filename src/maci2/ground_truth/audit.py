"""Ground truth audited: what a tracker or a published truth says, together with the IMU."""

from dataclasses import replace
from typing import Literal

import numpy as np

from maci2.boundary import require_type
from maci2.ground_truth.audit_findings import audit_findings, measure
from maci2.ground_truth.audit_fit import AuditFit, NoiseLevel, fit_audit
from maci2.ground_truth.audit_problem import audit_problem
from maci2.ground_truth.audited import AuditedTruth, RowResiduals, audited_rows
from maci2.ground_truth.capture import Capture, open_capture
from maci2.ground_truth.jumps import find_jumps
from maci2.ground_truth.lost_rows import without_lost_rows
from maci2.ground_truth.registration import register
from maci2.imu import ImuMeasurements, datasheet_model
from maci2.imu.measurements import with_vibration
from maci2.sensors import Recording
from maci2.types import NS, Stamps

Kind = Literal["positions", "orientations"]


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
    fit = fit_audit(audit_problem(capture, found, imu, recording.imu, recording.rig, rows_hz))
    truth = audited_rows(fit, f"audited {capture.source}")
    constants = measure(fit, capture, truth)
    jumps = find_jumps(capture, fit, truth)
    return AuditedTruth(
        name=capture.name,
        truth=truth,
        constants=constants,
        findings=audit_findings(capture, fit, truth, constants, jumps),
        position_noise=fit.position,
        orientation_noise=fit.orientation,
        imu_factors=fit.imu_factors,
        chi_square=fit.solution.cost,
        dof=fit.solution.dof,
        jumps_ns=jumps.stamps_ns,
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


def _row_stamps(fit: AuditFit, kind: Kind) -> Stamps:
    """Timestamps of the rows that were used, in the order of their residuals."""
    elapsed = getattr(fit.solution.markers, kind).elapsed
    return np.asarray(fit.problem.clock_origin_ns + np.rint(elapsed * NS).astype(np.int64))


def _residuals(fit: AuditFit, kind: Kind, noise: NoiseLevel | None) -> RowResiduals | None:
    stamps_ns, white = _row_stamps(fit, kind), getattr(fit.residuals, kind).white
    if noise is None or len(white) != len(stamps_ns):
        return None
    return RowResiduals(stamps_ns, noise.std * white)
