"""Physical plausibility of IMU samples: wrong units and missing gravity.

Nothing is known of the motion, so every test allows what hand-held devices, drones and cars do.
What a calibration can state is in `rig_ranges`.
"""

from dataclasses import dataclass

import numpy as np

from maci2.errors import DatasetError
from maci2.lie.stacks import so3_exp_stack
from maci2.sensors.types import ImuSamples
from maci2.sensors.validation import gaps
from maci2.types import GRAVITY_NORM, NS, Array

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
    """One fault of IMU samples."""

    text: str
    serious: bool
    """Whether the samples cannot be used without correction."""

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
    """Whether timestamps are those of arriving packets: most intervals are short, and a few contain
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
