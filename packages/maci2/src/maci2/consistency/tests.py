"""Table of the consistency tests: constants and samples that the measurements contradict, in words.

Each constant has a nominal value and the spread that a careful calibration leaves it
(`calibration_prior`). It is contradicted where the measured value lies farther away than spread and
covariance together explain, at a level that all tests together share. Other tests compare one
number with its limit. Causes come before effects: a test that finds something hides those that mean
nothing then, such as a scale where axes are wrong.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.consistency.significance import LEVEL, LONG_LEVEL, largest_square
from maci2.geometry.gaussian import squared_distance
from maci2.imu import ImuMeasurements
from maci2.imu.values import (
    LEAST_AT_END,
    MIN_STUCK_S,
    MOST_HELD,
    RESOLUTION,
    changed,
    held_share,
    saturation,
    stuck_axis,
)
from maci2.jit import kernel
from maci2.types import GRAVITY_NORM, NS, Array, Stamps

MOST_MISSING = 1.0 / 3.0
"""Share of measurements that may be missing or rejected in a result that is `ok`."""


class Statistic(NamedTuple):
    """Outcome of measuring one constant, for one test."""

    value: Array
    """(d,) measured less nominal value, or (1,) the number that has a limit."""

    cov: Array
    """(d, d) of it."""

    shown: tuple[Any, ...] = ()
    """Numbers and words that the text states."""


def number(value: float, variance: float = 0.0, shown: tuple[Any, ...] = ()) -> Statistic:
    """Statistic of a single number."""
    return Statistic(np.array([value]), np.array([[variance]]), shown)


@dataclass(frozen=True)
class ConsistencyTest:
    """One row of the table."""

    name: str
    statistic: str
    """The compared quantities, for the documentation."""

    text: str
    """Contradiction in words, a format of the statistic's shown numbers."""

    remedy: str = ""
    spread: float | None = None
    """Standard deviation that a careful calibration leaves the nominal value, along each axis; None
    for a number that has a limit instead."""

    dof: int = 1
    """Dimensions of the statistic."""

    level: float | None = LEVEL
    """Probability of a false alarm; None for a limit that noise does not reach."""

    limit: float = 0.0
    """Largest number without contradiction, where there is no spread."""

    by_axis: bool = False
    """Axes are tested one by one, each at its share of the level."""

    hides: tuple[str, ...] = ()
    """Names of the tests whose statistics mean nothing where this one finds a contradiction."""

    def is_significant(self, statistic: Statistic, dof: int) -> bool:
        """The statistic exceeds what noise and spread explain, its covariance estimated with `dof`
        degrees of freedom."""
        value, cov = statistic.value, statistic.cov
        if self.spread is None or self.level is None:
            return bool(value[0] > self.limit)
        if self.by_axis:
            limit = largest_square(1, dof, self.level / len(value))
            return bool((value**2 > (np.diag(cov) + self.spread**2) * limit).any())
        square = squared_distance(value, np.ascontiguousarray(cov), self.spread**2)
        return not square <= largest_square(len(value), dof, self.level)

    def reason(self, statistic: Statistic) -> str:
        """Contradiction and remedy."""
        text = self.text.format(*statistic.shown)
        # A sentence has one colon.
        joint = "; " if ": " in text else ": "
        return f"{text}{joint}{self.remedy}" if self.remedy else text


def contradicted(statistics: Mapping[str, Statistic], dof: int) -> dict[str, str]:
    """Reason of each test that finds a contradiction, by its name, causes first."""
    reasons: dict[str, str] = {}
    hidden: set[str] = set()
    for test in TESTS:
        if test.name in statistics and test.name not in hidden:
            statistic = statistics[test.name]
            if test.is_significant(statistic, dof):
                reasons[test.name] = test.reason(statistic)
                hidden |= set(test.hides)
    return reasons


LENGTHS = ("scale", "lever arm", "camera drift")
ACCELERATIONS = ("gravity norm", "accelerometer delay", *LENGTHS)
ROTATIONS = ("gyroscope axes", "camera rotation", "time offset", "gyroscope scale")
CONSTANTS = ("still camera", *ROTATIONS, "accelerometer axes", *ACCELERATIONS)

TESTS = (
    *(
        ConsistencyTest(
            f"{sensor} samples",
            "values at the end of the range, repeated by one axis or by all",
            "{}",
            level=LEVEL / 2.0,
            hides=CONSTANTS,
        )
        for sensor in ("gyroscope", "accelerometer")
    ),
    ConsistencyTest(
        "sample rate",
        "share of the samples at the nominal rate that is missing, a third or more",
        "the IMU should sample at {:.0f} Hz and has {:.0f} samples a second: {:.0f} % are missing, "
        "and vibration that they would have shown is taken for motion",
        "check the driver, or state the rate that is meant",
        level=None,
        limit=math.nextafter(MOST_MISSING, 0.0),
    ),
    ConsistencyTest(
        "still camera",
        "rotation rates of the camera, which are noise, and of the gyroscope, which are not",
        "the camera shows no rotation while the gyroscope does",
        "check that its images are new ones and show a scene that stands still, and the "
        "gyroscope's unit",
        level=None,
        hides=CONSTANTS,
    ),
    ConsistencyTest(
        "gyroscope axes",
        "likelihood of mirrored over rotated rates of the camera",
        "the gyroscope's rates fit the camera's only if one of them is mirrored",
        "check signs and order of the gyroscope's axes, and that the camera's poses are not their "
        "inverse",
        limit=math.log(1.0 / LEVEL - 1.0),
        hides=CONSTANTS,
    ),
    ConsistencyTest(
        "camera rotation",
        "rotation between the camera's and the gyroscope's rates, and the extrinsics",
        "camera and gyroscope rotate alike only if the camera is rotated by {:.1f} +- {:.2f} deg "
        "from the stated extrinsics",
        "check extrinsics and the IMU's axes, or calibrate",
        CALIBRATED.rotation,
        dof=3,
        hides=("gyroscope scale",),
    ),
    ConsistencyTest(
        "time offset",
        "time between the camera's and the gyroscope's rates",
        "camera and gyroscope rotate alike only if the camera's clock is moved by {:.0f} ms",
        "estimate the time offset",
        CALIBRATED.camera_clock_s,
        hides=("gyroscope scale",),  # where clocks disagree, rates differ by that already
    ),
    ConsistencyTest(
        "gyroscope scale",
        "the camera's rates over the gyroscope's; each axis has an amplifier of its own",
        "the gyroscope's axes read ({}) times the camera's rates",
        "check its range setting and scale factor, or the camera's focal length",
        CALIBRATED.gyro_scale,
        dof=3,
        by_axis=True,
    ),
    ConsistencyTest(
        "accelerometer axes",
        "probability of other axes or signs of the accelerometer, a priori 1 %, above a half",
        "accelerations fit the camera's motion if the accelerometer's axes are taken as {}, not as "
        "(x, y, z): probability of the stated axes {:.2g}",
        level=None,
        limit=0.5,
        hides=ACCELERATIONS,
    ),
    ConsistencyTest(
        "gravity norm",
        "norm of gravity, free in each window, and the known one",
        "gravity comes out as {:.2f} m/s^2, not {:.2f}",
        "check units and scale of the accelerometer",
        math.hypot(CALIBRATED.acc_bias, CALIBRATED.acc_scale * GRAVITY_NORM),
        hides=ACCELERATIONS,
    ),
    ConsistencyTest(
        "accelerometer delay",
        "time between the camera's and the accelerometer's accelerations",
        "accelerations fit the camera's motion if the accelerometer is {:.0f} +- {:.0f} ms {} "
        "against gyroscope and camera",
        "check its filter and timestamps, and that positions and orientations of the camera are of "
        "one time",
        CALIBRATED.camera_clock_s,
        level=LONG_LEVEL,
        hides=LENGTHS,
    ),
    ConsistencyTest(
        "scale",
        "accelerations over the camera's translations; vision's own spread comes on top",
        "accelerations fit the camera's motion if that is {:.3f} +- {:.3f} times as long",
        "check the stereo baseline or the trajectory's scale",
        CALIBRATED.acc_scale,
        hides=LENGTHS,
    ),
    ConsistencyTest(
        "lever arm",
        "position of the camera from accelerations, and the extrinsics",
        "accelerations fit the camera's motion if the camera sits at ({}) m on the IMU, {:.0f} cm "
        "from the stated place",
        "",
        CALIBRATED.lever_m,
        dof=3,
        hides=LENGTHS,
    ),
    ConsistencyTest(
        "camera drift",
        "velocity of the camera's translations in excess of the accelerometer's",
        "accelerations fit the camera's motion if that drifts by ({}) m/s along the camera's axes",
        "check what measures it, and that it sees nothing that moves along",
        CALIBRATED.camera_drift,
        dof=3,
        level=LONG_LEVEL,
    ),
)


def sample_rate(stamps_ns: Stamps, stated_hz: float | None) -> Statistic | None:
    """Statistic of the samples that are missing at the nominal rate; None where it is unknown."""
    if len(stamps_ns) < 2:
        return None
    return missing_samples((len(stamps_ns) - 1) * NS / int(stamps_ns[-1] - stamps_ns[0]), stated_hz)


def missing_samples(found_hz: float | None, stated_hz: float | None) -> Statistic | None:
    """Statistic of the measured rate, gaps included; None where a rate is unknown."""
    if found_hz is None or stated_hz is None or not 0.0 < stated_hz < math.inf:
        return None
    missing = max(1.0 - found_hz / stated_hz, 0.0)
    return number(missing, 0.0, (stated_hz, found_hz, 100.0 * missing))


def dead_channels(imu: ImuMeasurements) -> dict[str, Statistic]:
    """Sensors that do not measure: an axis that is stuck or saturated, repeated old values.

    Such samples fit some motion, and often a plausible one: chi-square alone does not find them,
    since biases and gravity take them up.
    """
    rate_hz = (len(imu.stamps_ns) - 1) * NS / int(imu.stamps_ns[-1] - imu.stamps_ns[0])
    gyro = imu.gyro if imu.removed_gyro is None else imu.gyro + imu.removed_gyro
    acc = imu.acc if imu.removed_acc is None else imu.acc + imu.removed_acc
    if shows_noise(gyro, rate_hz) and shows_noise(acc, rate_hz):
        return {}
    if not (changed(gyro).any() or changed(acc).any()):
        return {}  # a simulated device that stands still, without noise
    reasons = {
        "gyroscope samples": _dead("gyroscope", "rad/s", gyro, rate_hz),
        "accelerometer samples": _dead("accelerometer", "m/s^2", acc, rate_hz),
    }
    return {name: number(1.0, 0.0, (reason,)) for name, reason in reasons.items() if reason}


@kernel
def shows_noise(values: Array, rate_hz: float) -> bool:
    """True where nothing of a sensor, values (n, 3), can be stuck, held or saturated: most readings
    are new, no axis repeats one for `MIN_STUCK_S`, and few are at the ends of its range."""
    new, most = 0, MIN_STUCK_S * rate_hz
    for axis in range(3):
        low, high, equal = values[0, axis], values[0, axis], 1
        for k in range(1, len(values)):
            value = values[k, axis]
            low, high, equal = min(low, value), max(high, value), equal + 1
            if abs(value - values[k - 1, axis]) > RESOLUTION:
                new, equal = new + 1, 1
            elif equal > most:
                return False
        lowest, highest = 0, 0
        for k in range(len(values)):
            lowest += values[k, axis] <= low + RESOLUTION
            highest += values[k, axis] >= high - RESOLUTION
        if max(lowest, highest) >= LEAST_AT_END:
            return False
    return new > 3 * (1.0 - MOST_HELD) * (len(values) - 1)


def _dead(sensor: str, unit: str, values: Array, rate_hz: float) -> str:
    """Reason why a sensor's samples, values (n, 3), are no measurements; empty where they are."""
    for axis, name in enumerate("xyz"):
        met = saturation(values[:, axis], LEVEL / 6.0)
        if met is not None:
            return (
                f"the {sensor}'s {name} axis is saturated: {met.samples} samples read "
                f"{met.value:g} {unit}, {met.longest} of them in a row, and what was more was not "
                "measured; choose a wider range, or move more gently"
            )
    stuck = stuck_axis(values, rate_hz)
    if stuck is not None:
        return (
            f"the {sensor}'s {'xyz'[stuck.axis]} axis reads {values[stuck.start, stuck.axis]:g} "
            f"for {stuck.length / rate_hz:.1f} s while other axes change: it is stuck; check "
            "the sensor and the columns of the samples"
        )
    held = held_share(values)
    if held < MOST_HELD:
        return ""
    return (
        f"{100.0 * held:.0f} % of the {sensor}'s samples are copies of the one before: it measures "
        f"{(1.0 - held) * rate_hz:.0f} times a second, not {rate_hz:.0f}, and what it says is old; "
        "read it no faster than it measures, and leave copies out"
    )
