"""How far a rig's constants may be off: they are estimated along with the states.

Extrinsics from a calibration, a camera's clock and the scale of somebody's odometry are measured
values, too. Held fixed, an error of a few tenths of a degree turns up in the biases and in the
vertical, with a sigma that knows nothing of it.
"""

from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.chain import BorderUnknowns, GaussianPrior, border_prior, make_border
from maci2.chain.chain_state import BORDER, CAMERA, CAMERA_CLOCK, SCALE
from maci2.imu.model_choice import measured_walks
from maci2.sensors import Rig
from maci2.types import Array, Mat4

GYRO_WALK_FACTOR = 10.0
"""Random walk of the gyroscope bias that a tracker reckons with, over the data sheet's: what is
estimated as bias also carries what scale factor, misalignment and vibration leave, which change
with the motion. Chosen on the rooms and halls that the IMU model was trained on."""


@dataclass(frozen=True)
class CalibrationSpread:
    """Standard deviations of the rig's constants, which are estimated along; 0 takes one as
    known."""

    rotation_deg: float = 0.0
    """Rotation of the camera in the body, per axis."""

    lever_m: float = CALIBRATED.lever_m
    """Place of the camera in the body, per axis, where its rotation is estimated."""

    clock_s: float = 0.0
    """Offset of the camera's clock."""

    scale_walk: float = 0.0
    """Random walk of vision's scale where that is estimated [1/sqrt(s)]."""

    clock_walk_s: float = 0.0
    """Random walk of the camera's clock [s/sqrt(s)]."""

    slow_error_chance: float = 0.1
    """Probability that errors of visual orientation last for seconds (`slow_errors`)."""

    def unknowns(self, std_scale: float) -> BorderUnknowns:
        """Constants that are free."""
        return BorderUnknowns(
            camera=self.rotation_deg > 0.0, scale=std_scale > 0.0, camera_clock=self.clock_s > 0.0
        )

    def prior(self, T_b_c: Mat4, std_scale: float) -> GaussianPrior:
        """Prior about the calibration as it is stated."""
        std = np.full(BORDER, np.inf)
        if std_scale > 0.0:
            std[SCALE] = std_scale
        if self.rotation_deg > 0.0:
            std[CAMERA] = [self.lever_m] * 3 + [np.deg2rad(self.rotation_deg)] * 3
        if self.clock_s > 0.0:
            std[CAMERA_CLOCK] = self.clock_s
        return border_prior(make_border(T_b_c=T_b_c), std)

    def wandered(self, dt: float) -> Array:
        """(20,) variances by which the constants wander in `dt` seconds."""
        variances = np.zeros(BORDER)
        variances[SCALE] = self.scale_walk**2 * dt
        if self.clock_s > 0.0:
            variances[CAMERA_CLOCK] = self.clock_walk_s**2 * dt
        return variances


KNOWN = CalibrationSpread()
"""Nothing is in doubt, as in a simulation."""

MEASURED = CalibrationSpread(
    rotation_deg=float(np.rad2deg(CALIBRATED.rotation)),
    lever_m=CALIBRATED.lever_m,
    clock_s=CALIBRATED.camera_clock_s,
    clock_walk_s=0.0005,
    slow_error_chance=0.8,
)
"""A calibration as calibration tools leave it."""

TRAJECTORY_SCALE_WALK = 0.005
"""Random walk of the scale of a trajectory [1/sqrt(s)]; that of a stereo rig is constant."""


def calibration_spread(rig: Rig, scale_walk: float = 0.0) -> CalibrationSpread:
    """What to doubt of a rig: nothing where it is exact by construction."""
    if rig.exact and rig.imu.exact:
        return KNOWN
    return replace(MEASURED, scale_walk=scale_walk) if scale_walk else MEASURED


def bias_walks(rig: Rig, imu: str) -> tuple[float, float]:
    """Random walks of gyroscope and accelerometer bias that a tracker reckons with, given the name
    of the IMU model: as measured where they were measured in motion, else from the data sheet. A
    learned model's own walks are those of what it leaves in the samples."""
    measured = measured_walks(imu)
    if measured is not None:
        return measured
    factor = 1.0 if rig.imu.exact else GYRO_WALK_FACTOR
    return factor * rig.imu.walk_gyro, rig.imu.walk_acc
