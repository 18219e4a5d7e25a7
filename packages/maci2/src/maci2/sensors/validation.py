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

from maci2.errors import CalibrationError, DatasetError, Maci2Error
from maci2.geometry.se3 import so3_exp_stack
from maci2.sensors.rig_types import ImuNoise, Rig
from maci2.sensors.types import GroundTruth, ImuSamples
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

GAP_PERIODS = 5.0
"""Multiple of the median period beyond which an interval is a gap with missing samples."""


MAX_DURATION_NS = 30 * 86_400 * NS
"""Longest recording, 30 days; more means a wrong timestamp."""


def require_short_enough(stamps_ns: Stamps, source: str) -> None:
    """Raise if timestamps cover more than the longest recording."""
    # Python's integers: the difference of two int64 may not be one.
    duration_ns = int(stamps_ns[-1]) - int(stamps_ns[0])
    if duration_ns > MAX_DURATION_NS or stamps_ns[0] < 0:
        raise DatasetError(
            f"{source}: timestamps run from {stamps_ns[0]} to {stamps_ns[-1]} ns, "
            f"{duration_ns / 86_400e9:.1f} days; needed 0 or later, and at most "
            f"{MAX_DURATION_NS / 86_400e9:.0f} days. Remove the lines with a wrong timestamp, or "
            "convert the timestamps to nanoseconds."
        )


def require_increasing(stamps_ns: Stamps, source: str, lines: Stamps) -> None:
    """Raise at the first timestamp that does not come after the one before it, and if they cover
    more than the longest recording."""
    steps = np.diff(stamps_ns)
    if (steps > 0).all():
        require_short_enough(stamps_ns, source)
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
class Fault:
    """Fault of IMU samples, or an unusual or impossible value of a rig."""

    name: str
    text: str
    serious: bool
    """True if the samples cannot be used without correction, or the rig not at all."""

    found: str = ""
    needed: str = ""
    remedy: str = ""
    """Parts of the text about a value of a rig."""


def _refuse(faults: Iterable[Fault], error: type[Maci2Error]) -> None:
    """Raise for the first serious fault."""
    for fault in faults:
        if fault.serious:
            raise error(fault.text)


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
    _refuse(imu_faults(samples), DatasetError)


def imu_faults(samples: ImuSamples) -> list[Fault]:
    """Faults of the samples, serious or not; empty for a sound IMU."""
    steps_s, before = np.diff(samples.stamps_ns) / NS, gaps(samples.stamps_ns)
    faults = [*_dead_channels(samples)]
    bursts = [*_bursts(samples.source, steps_s, len(before))]
    if bursts:
        return faults + bursts  # nothing can be integrated, so nothing else is known
    forces = average_forces(samples)
    # Forces are rotated back with the gyroscope, so they are judged only when it is sound.
    faults += [*_gyro_faults(samples, forces)] or [*_gravity_faults(samples.source, forces)]
    if len(before):
        longest = before[np.argmax(steps_s[before])]
        text = (
            f"{samples.source}: {len(before)} gaps, the longest {steps_s[longest]:.3f} s after "
            f"{samples.stamps_ns[longest]} ns; the median step is {np.median(steps_s):.4f} s. "
            "Windows that touch a gap cannot be used."
        )
        faults.append(Fault("gaps", text, serious=False))
    return faults


def _dead_channels(samples: ImuSamples) -> Iterator[Fault]:
    for sensor, values in (("gyroscope", samples.gyro), ("accelerometer", samples.acc)):
        for axis in np.flatnonzero(np.ptp(values, axis=0) == 0.0):
            text = (
                f"{samples.source}: {sensor} {'xyz'[axis]} reads {values[0, axis]:g} in all "
                f"{len(samples)} samples; a live channel shows noise. Check the sensor and the "
                "columns of the file."
            )
            yield Fault(f"{sensor} {'xyz'[axis]} is stuck", text, serious=False)


def _bursts(source: str, steps_s: Array, long: int) -> Iterator[Fault]:
    """Fault of timestamps of arriving packets: most intervals are short, and a few long ones
    contain all the time."""
    if (
        len(steps_s) < 2
        or steps_s.mean() < 2.0 * np.median(steps_s)
        or long < BURSTS * len(steps_s)
    ):
        return
    text = (
        f"{source}: IMU timestamps come in bursts: half of the steps are "
        f"{1e3 * np.median(steps_s):.2g} ms or less, their mean is {1e3 * steps_s.mean():.2g} ms; "
        f"needed one step from sample to sample. They look like arrival times of packets of "
        f"{len(steps_s) / long:.0f} samples: use the sensor's own timestamps, or spread each "
        "packet evenly."
    )
    yield Fault("timestamps come in bursts", text, serious=True)


def _gyro_faults(samples: ImuSamples, forces: Forces) -> Iterator[Fault]:
    rate = float(np.percentile(np.linalg.norm(samples.gyro, axis=1), 99))
    remedy = "It looks like deg/s: multiply the gyroscope columns by pi/180 = 0.017453."
    if rate > MAX_RATE:
        text = (
            f"{samples.source}: the gyroscope reads {rate:.1f} rad/s or more in 1 % of the "
            f"samples; needed rad/s, at most {MAX_RATE:.0f} for a recording with cameras. {remedy}"
        )
        yield Fault(IN_DEGREES, text, serious=True)
    # Norms are those of gravity, yet the directions, rotated back, do not agree.
    elif not forces.coherent and abs(forces.sample - GRAVITY_NORM) < 2.0 * GRAVITY_TOLERANCE:
        text = (
            f"{samples.source}: gyroscope and accelerometer disagree: rotated back with the "
            f"gyroscope, forces of {forces.sample:.2f} m/s^2 average to {forces.mean:.2f} over "
            f"{_WINDOW_S:.0f} s, needed {GRAVITY_NORM} within {GRAVITY_TOLERANCE}. {remedy}"
        )
        yield Fault(DISAGREE, text, serious=True)


def _gravity_faults(source: str, forces: Forces) -> Iterator[Fault]:
    if abs(forces.mean - GRAVITY_NORM) <= GRAVITY_TOLERANCE:
        return
    # Gravity of 1 g is steady; accelerations that happen to be 1 m/s^2 large are not.
    steady = forces.coherent and forces.spread < 0.35 * forces.mean
    if steady and 0.8 < forces.mean < 1.25:
        name = "the accelerometer is in g"
        reads = f"the accelerometer reads {forces.mean:.3f} on average"
        remedy = f"It looks like g: multiply the accelerometer columns by {GRAVITY_NORM}."
    elif not steady or forces.mean <= 0.8:
        name = "gravity is removed"
        reads = (
            f"the accelerometer's mean is {forces.mean:.2f} m/s^2 and its samples are "
            f"{forces.sample:.2f} m/s^2 long"
        )
        remedy = (
            "Gravity seems to be removed already: use the raw specific force, not linear "
            "acceleration."
        )
    else:
        name = "the accelerometer's scale is wrong"
        reads = f"the accelerometer reads {forces.mean:.2f} m/s^2 on average and when stationary"
        remedy = "Check its range setting, scale factor and units."
    text = (
        f"{source}: {reads}, needed {GRAVITY_NORM} within {GRAVITY_TOLERANCE} (bias and scale of a "
        f"poor accelerometer). {remedy}"
    )
    yield Fault(name, text, serious=True)


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
    smoothed = min(max(round(_SMOOTHING_S * samples.rate_hz), 1), len(samples))
    sums = np.cumsum(np.vstack([np.zeros(3), samples.acc]), axis=0)
    norms = np.linalg.norm((sums[smoothed:] - sums[:-smoothed]) / smoothed, axis=1)
    return Forces(
        mean=float(np.median(np.linalg.norm(total / length, axis=1))),
        sample=float(np.median(np.linalg.norm(samples.acc, axis=1))),
        spread=float(np.subtract(*np.percentile(norms, [75, 25]))),
    )


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

    def faults(self, value: float, source: str) -> Iterator[Fault]:
        """Fault of a value outside; an unknown one (NaN) is not judged."""
        if math.isnan(value) or self.usual[0] <= value <= self.usual[1]:
            return
        serious = not self.possible[0] <= value <= self.possible[1]
        low, high = self.possible if serious else self.usual
        needed, word = f"{low:g} to {high:g}{self.unit}", "possible" if serious else "usual"
        text = (
            f"{source}: {self.name} is {value:.4g}{self.unit}, {word} are {needed} "
            f"({self.reason}). {self.remedy}"
        )
        yield Fault(self.name, text, serious, f"{value:.4g}{self.unit}", needed, self.remedy)


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


def rig_faults(rig: Rig) -> list[Fault]:
    """Unusual and impossible values of a calibration; empty if there are none."""
    return _faults(_rig_numbers(rig))


def require_plausible_noise(noise: ImuNoise, source: str) -> None:
    """Raise CalibrationError for impossible IMU noise."""
    _refuse(_faults(_imu_numbers(noise, source)), CalibrationError)


def require_plausible_lens(
    source: str, intrinsics: Array, distortion: Array, resolution: tuple[int, int]
) -> None:
    """Raise CalibrationError for an impossible lens or image size."""
    _refuse(_faults(_lens_numbers(intrinsics, distortion, resolution, source)), CalibrationError)


def require_plausible_rig(rig: Rig) -> None:
    """Raise CalibrationError for an impossible rig; log what is unusual."""
    faults = rig_faults(rig)
    _refuse(faults, CalibrationError)
    for fault in faults:
        _LOG.warning("%s", fault.text)


def _faults(numbers: Iterable[tuple[str, float, str]]) -> list[Fault]:
    """Faults of values, each given with its key in RIG_RANGES and its place."""
    return [
        fault
        for key, value, place in numbers
        for fault in RIG_RANGES[key].faults(float(value), place)
    ]


def _rig_numbers(rig: Rig) -> Iterator[tuple[str, float, str]]:
    for number, camera in enumerate(rig.cameras):
        place = f"{rig.source}, cam{number}"
        if rig.extrinsics_known:
            yield "lever_arm", math.hypot(*camera.T_b_c[:3, 3]), place
        yield from _lens_numbers(camera.intrinsics, camera.distortion, camera.resolution, place)
        yield "camera_rate", camera.rate_hz, place
    if len(rig.cameras) > 1:
        first, second = (camera.T_b_c[:3, 3] for camera in rig.cameras[:2])
        yield "baseline", math.dist(first, second), rig.source
    # Assumed values are nobody's statement.
    if rig.noise_known:
        yield from _imu_numbers(rig.imu, rig.source)
    yield "time_offset", rig.time_offset_s, rig.source


def _lens_numbers(
    intrinsics: Array, distortion: Array, resolution: tuple[int, int], place: str
) -> Iterator[tuple[str, float, str]]:
    fx, fy, cx, cy = intrinsics
    width, height = resolution
    yield from (("resolution", side, place) for side in resolution)
    yield from (("focal_ratio", focal / width, place) for focal in (fx, fy))
    yield from (("principal_point", ratio, place) for ratio in (cx / width, cy / height))
    yield "distortion", np.abs(distortion).max(initial=0.0), place


def _imu_numbers(noise: ImuNoise, place: str) -> Iterator[tuple[str, float, str]]:
    for key in ("density_gyro", "density_acc", "walk_gyro", "walk_acc"):
        yield key, getattr(noise, key), place
    yield "imu_rate", noise.rate_hz, place
