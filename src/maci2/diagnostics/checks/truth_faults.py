"""Faults of a ground truth as a whole, named as its audit names them."""

from dataclasses import replace

import numpy as np

from maci2.diagnostics.checks.axes import OF_BOTH, Forces
from maci2.diagnostics.checks.camera_imu import SERIOUS_OFFSET_S
from maci2.diagnostics.checks.gravity_axes import compare_with_gravity
from maci2.errors import DatasetError
from maci2.findings import Finding, fault
from maci2.ground_truth.accelerations import fit_accelerations
from maci2.ground_truth.capture import capture_of
from maci2.ground_truth.findings import velocity_finding
from maci2.ground_truth.registration import (
    MIN_COMMON_S,
    lost_rows_in_words,
    register,
    without_lost_rows,
)
from maci2.imu.rotation_rates import SEARCH_S
from maci2.sensors import GroundTruth, ImuSamples, with_velocity
from maci2.types import NS

UPRIGHT = np.cos(np.deg2rad(30.0))
"""Least z component of the direction up in a world whose z axis is meant to be up."""


def truth_fault(
    name: str, truth: GroundTruth, imu: ImuSamples, axes: list[Finding], forces: Forces | None
) -> list[Finding]:
    """What makes a ground truth useless: unit, order of quaternions, inverse poses, clock, axes.

    `axes` are findings about the IMU's axes compared with this truth. Only where both sensors
    contradict it, and gyroscope and accelerometer each other through it, but not without it, the
    truth is at fault; axes in which both differ alike may be either's.
    """
    lengths_s = [(stamps[-1] - stamps[0]) / NS for stamps in (truth.stamps_ns, imu.stamps_ns)]
    if min(lengths_s) < MIN_COMMON_S or (axes and not _imu_is_sound(imu, axes, forces)):
        return []
    capture = capture_of(name, truth)
    try:
        found = register(capture, imu)
        capture = without_lost_rows(capture, found, imu)
        fit = fit_accelerations(capture, found, found.R_b_m, imu)
    except DatasetError as error:
        text = str(error).removeprefix(f"{truth.source}: ")
        return [Finding("error", name, text[0].upper() + text[1:], "the truth is wrong")]
    if abs(found.offset_s) > SEARCH_S:
        numbers = f"{found.offset_s:+.2f} s"
        return [
            fault(
                "error", name, "Wrong clock: the truth's time offset", numbers,
                f"within {SERIOUS_OFFSET_S} s", f"Add {numbers} to its timestamps.",
            )
        ]  # fmt: skip
    lost = lost_rows_in_words(capture)
    if lost:
        text = f"{lost}. Remove these rows, or score against --truth audited, which does."
        return [Finding("error", name, text, "lost rows")]
    if fit is None or np.isnan(fit.scale) or fit.up_w[2] > UPRIGHT:
        return _velocity_columns(name, truth)
    x, y, z = fit.up_w
    return [
        fault(
            "error", name, "its world is not level", f"up along ({x:.2f}, {y:.2f}, {z:.2f})",
            "(0, 0, 1)", "Rotate its world, or score against --truth audited, which is level.",
        )
    ]  # fmt: skip


def _velocity_columns(name: str, truth: GroundTruth) -> list[Finding]:
    """Velocities that are not those of the truth's own positions."""
    if not np.isfinite(truth.v_w).any():
        return []
    moved = with_velocity(replace(truth, v_w=np.full_like(truth.v_w, np.nan)))
    found = velocity_finding(name, truth, moved, np.eye(3))
    return [replace(one, level="error", text=f"{one.text}.") for one in found]


def _imu_is_sound(imu: ImuSamples, axes: list[Finding], forces: Forces | None) -> bool:
    """Gyroscope and accelerometer agree without any truth, and neither of them with this one."""
    if axes[0].fault in OF_BOTH or (forces is not None and forces.fit):
        return False
    gravity = compare_with_gravity(imu)
    return gravity is not None and not gravity.disagree
