"""Checks of samples and calibrations; messages name place, value found, value needed and remedy.

Formal ones: order, finiteness, gaps, overlap. Of IMU samples: wrong units and missing gravity;
nothing is known of the motion, so every test allows what hand-held devices, drones and cars do.
Of calibrations: plausible ranges of all values, in one table.
"""

import logging
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from maci2.errors import CalibrationError, DatasetError
from maci2.geometry.se3 import so3_exp_stack
from maci2.sensors.rig_types import ImuNoise, Rig
from maci2.sensors.types import GroundTruth, ImuSamples
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

GAP_PERIODS = 5.0
"""Multiple of the median period beyond which an interval is a gap with missing samples."""


def require_increasing(stamps_ns: Stamps, source: str, lines: Stamps) -> None:
    """Raise at the first timestamp that does not come after the one before it."""
    steps = np.diff(stamps_ns)
    if (steps > 0).all():
        return
    at = int(np.argmax(steps <= 0)) + 1
    back_s = -steps[at - 1] / NS
    jumped = back_s > GAP_PERIODS * float(np.median(np.abs(steps))) / NS and (steps < 0).sum() == 1
    fault, by = ("a duplicate of", "") if back_s == 0 else ("earlier than", f", by {back_s:.4f} s")
    remedy = (
        "The clock was set back: cut the recording there, and stamp by a monotonic clock."
        if jumped
        else "Sort the file by timestamp and remove duplicates."
    )
    raise DatasetError(
        f"{source}, line {lines[at]}: timestamp {stamps_ns[at]} ns is {fault} timestamp "
        f"{stamps_ns[at - 1]} ns on the line before{by} ({int((steps <= 0).sum())} such places); "
        f"timestamps must increase strictly. {remedy}"
    )


def require_finite(values: Array, names: list[str], source: str, lines: Stamps) -> None:
    """Raise at the first row of `values` (n, k) with NaN or infinity."""
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    row = int(np.argmax(bad.any(axis=1)))
    column = int(np.argmax(bad[row]))
    raise DatasetError(
        f"{source}, line {lines[row]}: {names[column]} is {values[row, column]} "
        f"({int(bad.any(axis=1).sum())} of {len(values)} rows hold NaN or infinity); every entry "
        "must be finite. Remove these rows or repair the recording."
    )


def require_count(found: int, needed: int, source: str) -> None:
    """Raise if there are fewer than `needed` samples."""
    if found == 0:
        raise DatasetError(
            f"{source}: the file holds no samples, needed at least {needed}; "
            "the recording is empty. Record again or unpack it again."
        )
    if found < needed:
        raise DatasetError(
            f"{source}: found {found} samples, needed at least {needed}; use a longer recording."
        )


def gaps(stamps_ns: Stamps) -> Stamps:
    """Indices i such that samples are missing between timestamps i and i + 1."""
    steps = np.diff(stamps_ns)
    if len(steps) == 0:
        return np.empty(0, dtype=np.int64)
    return np.flatnonzero(steps > GAP_PERIODS * np.median(steps)).astype(np.int64)


def require_overlap(truth: GroundTruth, imu: ImuSamples) -> None:
    """Raise if ground truth and IMU do not overlap in time."""
    start_ns = max(int(truth.stamps_ns[0]), int(imu.stamps_ns[0]))
    end_ns = min(int(truth.stamps_ns[-1]), int(imu.stamps_ns[-1]))
    if end_ns > start_ns:
        return
    raise DatasetError(
        f"{truth.source}: ground truth covers {truth.stamps_ns[0]}..{truth.stamps_ns[-1]} ns but "
        f"the IMU ({imu.source}) covers {imu.stamps_ns[0]}..{imu.stamps_ns[-1]} ns: no overlap, "
        f"apart by {(start_ns - end_ns) / NS:.3f} s. Both must be on one clock: use the ground "
        "truth of this recording, or correct its time offset."
    )


GRAVITY_TOLERANCE = 1.5
"""Bias and scale error of a poor MEMS accelerometer, added to 9.81 [m/s^2]."""

MAX_RATE = 15.0
"""Angular rate [rad/s] that no recording with cameras exceeds for 1 % of its time: 860 deg/s."""

COHERENT = 0.6
"""Smallest ratio of the norm of the mean force, rotated to one frame, to the norm of single samples
for forces that are coherent, as gravity is."""

BURSTS = 0.01
"""Fraction of gaps from which on they are attributed to packets, not to losses."""

IN_DEGREES = "the gyroscope is in deg/s"
DISAGREE = "gyroscope and accelerometer disagree"

_WINDOW_S = 5.0
"""Length of a window [s]: a bias of 1 deg/s, read as 1 rad/s, rotates gravity away in it."""

_SMOOTHING_S = 0.2


@dataclass(frozen=True)
class ImuFault:
    """Fault of IMU samples."""

    text: str
    serious: bool
    """True if the samples cannot be used without correction."""

    name: str = ""
    """Short name of the fault."""


@dataclass(frozen=True)
class Forces:
    """Mean forces with the rotation removed by the gyroscope."""

    mean: float
    """Median over windows of the norm of the mean force, rotated to the window's start [m/s^2]:
    gravity, up to the change of velocity over the window's length."""

    sample: float
    """Median norm of single samples [m/s^2]."""

    spread: float
    """Quartile range of the norm of the smoothed force [m/s^2]."""

    @property
    def coherent(self) -> bool:
        return self.mean > COHERENT * self.sample


def require_plausible(samples: ImuSamples) -> None:
    """Raise DatasetError for the first fault that makes the samples useless."""
    for fault in imu_faults(samples):
        if fault.serious:
            raise DatasetError(fault.text)


def imu_faults(samples: ImuSamples) -> list[ImuFault]:
    """Faults of the samples, serious or not; empty for a sound IMU."""
    faults = _dead_channels(samples)
    bursts = _bursts(samples)
    if bursts is not None:
        return [*faults, bursts]  # nothing can be integrated, so nothing else is known
    forces = average_forces(samples)
    gyro_fault = _gyro_fault(samples, forces)
    # Forces are rotated back with the gyroscope, so they are judged only when it is sound.
    other = gyro_fault or _gravity_fault(samples.source, forces)
    return faults + ([other] if other else []) + _gap_faults(samples)


def _dead_channels(samples: ImuSamples) -> list[ImuFault]:
    faults = []
    for sensor, values in (("gyroscope", samples.gyro), ("accelerometer", samples.acc)):
        for axis in np.flatnonzero(np.ptp(values, axis=0) == 0.0):
            text = (
                f"{samples.source}: {sensor} {'xyz'[axis]} reads {values[0, axis]:g} in all "
                f"{len(samples)} samples; a live channel shows noise. Check the sensor and the "
                "columns of the file."
            )
            name = f"{sensor} {'xyz'[axis]} is stuck"
            faults.append(ImuFault(text, serious=False, name=name))
    return faults


def _gyro_fault(samples: ImuSamples, forces: Forces) -> ImuFault | None:
    rate = float(np.percentile(np.linalg.norm(samples.gyro, axis=1), 99))
    remedy = "It looks like deg/s: multiply the gyroscope columns by pi/180 = 0.017453."
    if rate > MAX_RATE:
        text = (
            f"{samples.source}: the gyroscope reads {rate:.1f} rad/s or more in 1 % of the "
            f"samples; needed rad/s, at most {MAX_RATE:.0f} for a recording with cameras. {remedy}"
        )
        return ImuFault(text, serious=True, name=IN_DEGREES)
    # Norms are those of gravity, yet the directions, rotated back, do not agree.
    if not forces.coherent and abs(forces.sample - GRAVITY_NORM) < 2.0 * GRAVITY_TOLERANCE:
        text = (
            f"{samples.source}: gyroscope and accelerometer disagree: rotated back with the "
            f"gyroscope, forces of {forces.sample:.2f} m/s^2 average to {forces.mean:.2f} over "
            f"{_WINDOW_S:.0f} s, needed {GRAVITY_NORM} within {GRAVITY_TOLERANCE}. {remedy}"
        )
        return ImuFault(text, serious=True, name=DISAGREE)
    return None


def _gravity_fault(source: str, forces: Forces) -> ImuFault | None:
    needed = (
        f"needed {GRAVITY_NORM} within {GRAVITY_TOLERANCE} (bias and scale of a poor accelerometer)"
    )
    if abs(forces.mean - GRAVITY_NORM) <= GRAVITY_TOLERANCE:
        return None
    # Gravity of 1 g is steady; accelerations that happen to be 1 m/s^2 large are not.
    steady = forces.coherent and forces.spread < 0.35 * forces.mean
    if steady and 0.8 < forces.mean < 1.25:
        name = "the accelerometer is in g"
        text = (
            f"{source}: the accelerometer reads {forces.mean:.3f} on average, {needed}. It looks "
            f"like g: multiply the accelerometer columns by {GRAVITY_NORM}."
        )
    elif not steady or forces.mean <= 0.8:
        name = "gravity is removed"
        text = (
            f"{source}: the accelerometer's mean is {forces.mean:.2f} m/s^2 and its samples are "
            f"{forces.sample:.2f} m/s^2 long, {needed}. Gravity seems to be removed already: "
            "use the raw specific force, not linear acceleration."
        )
    else:
        name = "the accelerometer's scale is wrong"
        text = (
            f"{source}: the accelerometer reads {forces.mean:.2f} m/s^2 on average and when "
            f"stationary, {needed}. Check its range setting, scale factor and units."
        )
    return ImuFault(text, serious=True, name=name)


def _bursts(samples: ImuSamples) -> ImuFault | None:
    """Fault of timestamps of arriving packets: most intervals are short, and a few contain
    all the time."""
    steps_s = np.diff(samples.stamps_ns) / NS
    if len(steps_s) < 2 or steps_s.mean() < 2.0 * np.median(steps_s):
        return None
    long = len(gaps(samples.stamps_ns))
    if long < BURSTS * len(steps_s):
        return None
    text = (
        f"{samples.source}: IMU timestamps come in bursts: half of the steps are "
        f"{1e3 * np.median(steps_s):.2g} ms or less, their mean is {1e3 * steps_s.mean():.2g} ms; "
        f"needed one step from sample to sample. They look like arrival times of packets of "
        f"{len(steps_s) / long:.0f} samples: use the sensor's own timestamps, or spread each "
        "packet evenly."
    )
    return ImuFault(text, serious=True, name="timestamps come in bursts")


def _gap_faults(samples: ImuSamples) -> list[ImuFault]:
    before = gaps(samples.stamps_ns)
    if len(before) == 0:
        return []
    steps_s = np.diff(samples.stamps_ns) / NS
    longest = before[np.argmax(steps_s[before])]
    text = (
        f"{samples.source}: {len(before)} gaps, the longest {steps_s[longest]:.3f} s after "
        f"{samples.stamps_ns[longest]} ns; the median step is {np.median(steps_s):.4f} s. Windows "
        "that touch a gap cannot be used."
    )
    return [ImuFault(text, serious=False, name="gaps")]


def average_forces(samples: ImuSamples) -> Forces:
    """Mean forces over windows of 5 s, rotated to the start of each window."""
    length = min(round(_WINDOW_S * samples.rate_hz), len(samples) - 1)
    starts = np.arange(0, len(samples) - length, max(length // 2, 1))
    angles = samples.gyro[:-1] * (np.diff(samples.stamps_ns) / NS)[:, None]
    R_start_now = np.broadcast_to(np.eye(3), (len(starts), 3, 3))
    total = np.zeros((len(starts), 3))
    for now in range(length):
        total += np.einsum("nij,nj->ni", R_start_now, samples.acc[starts + now])
        R_start_now = R_start_now @ so3_exp_stack(angles[starts + now])
    smooth = _moving_mean(samples.acc, max(round(_SMOOTHING_S * samples.rate_hz), 1))
    norms = np.linalg.norm(smooth, axis=1)
    return Forces(
        mean=float(np.median(np.linalg.norm(total / length, axis=1))),
        sample=float(np.median(np.linalg.norm(samples.acc, axis=1))),
        spread=float(np.subtract(*np.percentile(norms, [75, 25]))),
    )


def _moving_mean(values: Array, length: int) -> Array:
    """Mean of `length` consecutive samples, fewer if there are not as many."""
    length = min(length, len(values))
    sums = np.cumsum(np.vstack([np.zeros(3), values]), axis=0)
    return (sums[length:] - sums[:-length]) / length


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
    """True for an impossible value; the calibration is refused."""

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
    _require_possible(_imu_numbers(noise, source))


def require_plausible_lens(
    source: str, intrinsics: Array, distortion: Array, resolution: tuple[int, int]
) -> None:
    """Raise CalibrationError for an impossible lens or image size."""
    numbers = _lens_numbers(intrinsics, distortion, resolution)
    _require_possible((key, value, source) for key, value in numbers)


def _require_possible(numbers: Iterable[tuple[str, float, str]]) -> None:
    for key, value, source in numbers:
        fault = RIG_RANGES[key].fault(value, source)
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
        lens = _lens_numbers(camera.intrinsics, camera.distortion, camera.resolution)
        yield from ((key, value, place) for key, value in lens)
        yield "camera_rate", camera.rate_hz, place
    if len(rig.cameras) > 1:
        first, second = (camera.T_b_c[:3, 3] for camera in rig.cameras[:2])
        yield "baseline", math.dist(first, second), rig.source


def _lens_numbers(
    intrinsics: Array, distortion: Array, resolution: tuple[int, int]
) -> Iterator[tuple[str, float]]:
    fx, fy, cx, cy = intrinsics
    width, height = resolution
    yield from (("resolution", width), ("resolution", height))
    yield from (("focal_ratio", fx / width), ("focal_ratio", fy / width))
    yield from (("principal_point", cx / width), ("principal_point", cy / height))
    yield "distortion", float(np.abs(distortion).max(initial=0.0))


def _imu_numbers(noise: ImuNoise, source: str) -> Iterator[tuple[str, float, str]]:
    for key in ("density_gyro", "density_acc", "walk_gyro", "walk_acc"):
        yield key, getattr(noise, key), source
    yield "imu_rate", noise.rate_hz, source
