"""Channels that do not measure: an axis that is stuck or saturated, a sensor that repeats old
values.

What such a channel says fits some motion, and often a plausible one: chi-square alone does not find
it, since biases and gravity take it up.
"""

from maci2.compile import kernel
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
from maci2.premises.false_alarms import LEVEL
from maci2.types import NS, Array


def dead_channels(imu: ImuMeasurements) -> tuple[str, ...]:
    """Reasons not to trust samples of which some are no measurements; none for a sound IMU."""
    rate_hz = (len(imu.stamps_ns) - 1) * NS / int(imu.stamps_ns[-1] - imu.stamps_ns[0])
    gyro = imu.gyro if imu.removed_gyro is None else imu.gyro + imu.removed_gyro
    acc = imu.acc if imu.removed_acc is None else imu.acc + imu.removed_acc
    if shows_noise(gyro, rate_hz) and shows_noise(acc, rate_hz):
        return ()
    if not (changed(gyro).any() or changed(acc).any()):
        return ()  # a simulated device that stands still, without noise
    return _dead("gyroscope", "rad/s", gyro, rate_hz) + _dead(
        "accelerometer", "m/s^2", acc, rate_hz
    )


@kernel
def shows_noise(values: Array, rate_hz: float) -> bool:
    """Nothing of a sensor, values (n, 3), is stuck, held or saturated, as a glance tells: most
    readings are new, no axis repeats one for `MIN_STUCK_S`, and few are at the ends of its range.
    """
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


def _dead(sensor: str, unit: str, values: Array, rate_hz: float) -> tuple[str, ...]:
    for axis, name in enumerate("xyz"):
        met = saturation(values[:, axis], LEVEL / 6.0)
        if met is not None:
            return (
                f"the {sensor}'s {name} axis is saturated: {met.samples} samples read "
                f"{met.value:g} {unit}, {met.longest} of them in a row, and what was more was not "
                "measured; choose a wider range, or move more gently",
            )
    stuck = stuck_axis(values, rate_hz)
    if stuck is not None:
        return (
            f"the {sensor}'s {'xyz'[stuck.axis]} axis reads {values[stuck.start, stuck.axis]:g} "
            f"for {stuck.length / rate_hz:.1f} s while other axes change: it is stuck; check "
            "the sensor and the columns of the samples",
        )
    held = held_share(values)
    if held < MOST_HELD:
        return ()
    return (
        f"{100.0 * held:.0f} % of the {sensor}'s samples are copies of the one before: it measures "
        f"{(1.0 - held) * rate_hz:.0f} times a second, not {rate_hz:.0f}, and what it says is old; "
        "read it no faster than it measures, and leave copies out",
    )
