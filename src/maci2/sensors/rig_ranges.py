"""Plausible ranges of all values of a calibration, in one table."""

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from maci2.errors import CalibrationError
from maci2.sensors.rig_types import Camera, ImuNoise, Rig

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Range:
    """Range of a value: no remark inside `usual`, a warning outside it, and the rig is refused
    outside `possible`."""

    name: str
    unit: str
    usual: tuple[float, float]
    possible: tuple[float, float]
    reason: str
    """Reason for these limits."""

    remedy: str
    """First thing to check if the value is outside."""

    def fault(self, value: float, source: str) -> "RigFault | None":
        """Fault of a value; an unknown one (NaN) is not judged."""
        if math.isnan(value) or self.usual[0] <= value <= self.usual[1]:
            return None
        serious = not self.possible[0] <= value <= self.possible[1]
        low, high = self.possible if serious else self.usual
        needed, word = f"{low:g} to {high:g}{self.unit}", "possible" if serious else "usual"
        text = (
            f"{source}: {self.name} is {value:.4g}{self.unit}, {word} are {needed} "
            f"({self.reason}). {self.remedy}"
        )
        return RigFault(text, serious, self.name, f"{value:.4g}{self.unit}", needed, self.remedy)


@dataclass(frozen=True)
class RigFault:
    """Unusual or impossible value of a rig."""

    text: str
    serious: bool
    """Whether the value is impossible and the calibration is refused."""

    name: str
    found: str
    needed: str
    remedy: str


_UNITS = "Check the unit: metres, pixels, rad/s and m/s^2 per sqrt(Hz)."
_NOISE = (
    "Give the density of the data sheet in SI units per sqrt(Hz), not the deviation of one sample "
    "and not deg/s or g (--imu-noise takes the place of a file's)."
)

RIG_RANGES: dict[str, Range] = {
    "lever_arm": Range(
        "the distance of a camera from the IMU", " m", (0.0, 3.0), (0.0, 50.0),
        "a hand or a robot carries both within 3 m, a lorry or an aircraft within 50 m", _UNITS,
    ),
    "baseline": Range(
        "the stereo baseline", " m", (0.005, 2.0), (0.0, 50.0),
        "endoscopes have 5 mm, cars 2 m", _UNITS,
    ),
    "focal_ratio": Range(
        "the focal length in image widths", "", (0.1, 5.0), (0.02, 100.0),
        "a fisheye lens of 220 deg has 0.2, a telephoto lens of 12 deg 5",
        "Check that intrinsics and resolution belong together, and their order fx, fy, cx, cy.",
    ),
    "principal_point": Range(
        "the principal point in image sizes", "", (0.25, 0.75), (0.0, 1.0),
        "lenses sit over the sensor's middle, and a cropped image still holds it",
        "Check that intrinsics and resolution belong together, and their order fx, fy, cx, cy.",
    ),
    "resolution": Range(
        "the side of the image", " px", (64.0, 8192.0), (2.0, 16_384.0),
        "sensors of cameras on robots have fewer pixels than 8192 on a side",
        "Check the order width, height.",
    ),
    "distortion": Range(
        "the largest distortion coefficient", "", (0.0, 100.0), (0.0, 1e4),
        "at the image's edge each multiplies a number near 1",
        "Copy the coefficients again, in the order of their model.",
    ),
    "camera_rate": Range(
        "the frame rate", " Hz", (1.0, 1000.0), (1e-3, 1e5),
        "below 1 Hz frames share little, above 1 kHz no camera of a rig works", "Check the unit.",
    ),
    "density_gyro": Range(
        "the gyroscope's noise density", " rad/s/sqrt(Hz)", (1e-7, 0.05), (1e-9, 0.5),
        "navigation grade has 1e-6, a poor MEMS 0.005; 0.5 is 400 deg/s of noise at 200 Hz", _NOISE,
    ),
    "density_acc": Range(
        "the accelerometer's noise density", " m/s^2/sqrt(Hz)", (1e-6, 0.5), (1e-8, 10.0),
        "navigation grade has 1e-5, a poor MEMS 0.01; 10 is 14 g of noise at 200 Hz", _NOISE,
    ),
    "walk_gyro": Range(
        "the gyroscope's random walk", " rad/s^2/sqrt(Hz)", (0.0, 0.02), (0.0, 0.5),
        "a MEMS has 1e-5; with 0.02 a bias wanders 9 deg/s in a minute", _NOISE,
    ),
    "walk_acc": Range(
        "the accelerometer's random walk", " m/s^3/sqrt(Hz)", (0.0, 0.2), (0.0, 10.0),
        "a MEMS has 1e-3; with 0.2 a bias wanders 1.5 m/s^2 in a minute", _NOISE,
    ),
    "imu_rate": Range(
        "the IMU's rate", " Hz", (50.0, 8000.0), (1.0, 50_000.0),
        "motion of hands and vehicles needs 50 Hz, and no IMU is read faster than 50 kHz",
        "Check the unit: samples a second.",
    ),
    "time_offset": Range(
        "the camera's time offset", " s", (-0.5, 0.5), (-math.inf, math.inf),
        "delays of exposure and transfer stay below half a second; clocks that were never set "
        "together may differ by any time", "Check the unit, seconds, and the sign.",
    ),
}  # fmt: skip
"""Ranges of all values of a rig."""


def rig_faults(rig: Rig) -> list[RigFault]:
    """Unusual and impossible values of a calibration; empty if there are none."""
    named = [*_camera_numbers(rig)]
    # Assumed values are nobody's statement.
    named += _imu_numbers(rig.imu, rig.source) if rig.noise_known else []
    named.append(("time_offset", rig.time_offset_s, rig.source))
    found = [RIG_RANGES[key].fault(float(value), source) for key, value, source in named]
    return [fault for fault in found if fault is not None]


def require_plausible_noise(noise: ImuNoise, source: str) -> None:
    """Raise CalibrationError for impossible IMU noise."""
    for key, value, place in _imu_numbers(noise, source):
        fault = RIG_RANGES[key].fault(value, place)
        if fault is not None and fault.serious:
            raise CalibrationError(fault.text)


def require_plausible_rig(rig: Rig) -> None:
    """Raise CalibrationError for an impossible rig; log what is unusual."""
    faults = rig_faults(rig)
    for fault in faults:
        if fault.serious:
            raise CalibrationError(fault.text)
    for fault in faults:
        _LOG.warning("%s", fault.text)


def _camera_numbers(rig: Rig) -> Iterator[tuple[str, float, str]]:
    """Key in RIG_RANGES, value and name of all values of the cameras."""
    for number, camera in enumerate(rig.cameras):
        place = f"{rig.source}, cam{number}"
        if rig.extrinsics_known:
            yield "lever_arm", math.hypot(*camera.T_b_c[:3, 3]), place
        yield from ((key, value, place) for key, value in _lens_numbers(camera))
    if len(rig.cameras) > 1:
        first, second = (camera.T_b_c[:3, 3] for camera in rig.cameras[:2])
        yield "baseline", math.dist(first, second), rig.source


def _lens_numbers(camera: Camera) -> Iterator[tuple[str, float]]:
    fx, fy, cx, cy = camera.intrinsics[:4]
    width, height = camera.resolution
    yield from (("resolution", width), ("resolution", height))
    yield from (("focal_ratio", fx / width), ("focal_ratio", fy / width))
    yield from (("principal_point", cx / width), ("principal_point", cy / height))
    yield "distortion", float(np.abs(camera.distortion).max(initial=0.0))
    yield "camera_rate", camera.rate_hz


def _imu_numbers(noise: ImuNoise, source: str) -> Iterator[tuple[str, float, str]]:
    for key in ("density_gyro", "density_acc", "walk_gyro", "walk_acc"):
        yield key, getattr(noise, key), source
    yield "imu_rate", noise.rate_hz, source
