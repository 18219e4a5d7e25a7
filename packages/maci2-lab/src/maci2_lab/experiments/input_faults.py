"""Plausible faults of the input, introduced into a sound recording one at a time."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from scipy.signal import butter, lfilter, lfilter_zi

from maci2.geometry import se3_inv, so3_exp
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import Inputs, apply_imu_model
from maci2.pipeline.vision_sources import VisionSource
from maci2.sensors import ImuSamples
from maci2.types import NS, Array, Mask, Stamps
from maci2.vision import RelativePoses

DIAGONAL = (1.0, 1.0, 1.0)
"""Default axis about which extrinsics and IMU are rotated."""


T = TypeVar("T")


def _same(value: T) -> T:
    return value


@dataclass(frozen=True)
class InputFault:
    """One fault of wiring, calibration or data."""

    name: str
    extrinsics: Callable[[Array], Array] = _same
    """Function from the true T_b_c to the stated one."""

    samples: Callable[[ImuSamples], ImuSamples] = _same
    """Function from the true IMU samples to the received ones."""

    motion: Callable[[RelativePoses], RelativePoses] = _same
    """Function from the true camera motion to the received one."""


NO_FAULT = InputFault("none")


@dataclass(frozen=True)
class FaultyVision(VisionSource):
    """A source of camera motion with the fault."""

    sound: VisionSource
    fault: InputFault

    @property
    def stamps_ns(self) -> Stamps:
        return self.sound.stamps_ns

    def keyframe_candidates(self, images_ns: Stamps | None) -> Stamps:
        return self.sound.keyframe_candidates(images_ns)

    def measurable(self, stamps_ns: Stamps) -> Mask:
        return self.sound.measurable(stamps_ns)

    def _motion(self, stamps_ns: Stamps, index: int) -> RelativePoses:
        return self.fault.motion(self.sound.with_choice(self.choice).motion(stamps_ns, index))


def with_fault(inputs: Inputs, fault: InputFault, options: RunOptions) -> Inputs:
    """Inputs of the recording with one fault."""
    recording = replace(inputs.recording, imu=fault.samples(inputs.recording.imu))
    # What was estimated of vision's noise is estimated again, beside the fault.
    stated = options.source
    choice = replace(inputs.source, std=stated.std, std_windows=stated.std_windows)
    faulty = replace(
        inputs,
        recording=recording,
        imu=apply_imu_model(recording, options),
        T_b_c=np.ascontiguousarray(fault.extrinsics(inputs.T_b_c)),
        vision=FaultyVision(choice, inputs.vision, fault),
    )
    return faulty.with_estimated_noise()


def _lengthened(scale: float) -> Callable[[RelativePoses], RelativePoses]:
    """Translations times a factor; covariances stay as stated."""

    def fault(motion: RelativePoses) -> RelativePoses:
        Ts_ck_ck1 = motion.Ts_ck_ck1.copy()
        Ts_ck_ck1[:, :3, 3] *= scale
        return replace(motion, Ts_ck_ck1=Ts_ck_ck1)

    return fault


def _drifting(motion: RelativePoses) -> RelativePoses:
    """Translations that drift by 0.2 m/s along the optical axis."""
    Ts = motion.Ts_ck_ck1.copy()
    Ts[:, 2, 3] += 0.2 * np.diff(motion.stamps_ns) / NS
    return replace(motion, Ts_ck_ck1=Ts)


def _poses_inverted(motion: RelativePoses) -> RelativePoses:
    """Motion of the world in the camera instead of the camera in the world."""
    return replace(motion, Ts_ck_ck1=np.array([se3_inv(T) for T in motion.Ts_ck_ck1]))


def _frozen(motion: RelativePoses) -> RelativePoses:
    """A camera that repeats its image for one second of five."""
    Ts = motion.Ts_ck_ck1.copy()
    Ts[motion.stamps_ns[1:] % (5 * NS) < NS] = np.eye(4)
    return replace(motion, Ts_ck_ck1=Ts)


def rotated(angle_deg: float, axis: tuple[float, ...] = DIAGONAL) -> Callable[[Array], Array]:
    """Extrinsics with a rotation that is off by an angle."""
    R = so3_exp(np.deg2rad(angle_deg) * np.array(axis) / np.linalg.norm(axis))

    def fault(T_b_c: Array) -> Array:
        wrong = T_b_c.copy()
        wrong[:3, :3] = R @ T_b_c[:3, :3]
        return wrong

    return fault


def _inverted(T_b_c: Array) -> Array:
    return np.asarray(se3_inv(T_b_c))


def axes_taken_as(gyro: Array, acc: Array) -> Callable[[ImuSamples], ImuSamples]:
    """Samples multiplied by matrices, as by an IMU that is mounted or wired differently."""

    def fault(samples: ImuSamples) -> ImuSamples:
        return replace(
            samples,
            gyro=np.ascontiguousarray(samples.gyro @ gyro.T),
            acc=np.ascontiguousarray(samples.acc @ acc.T),
        )

    return fault


def every_second(samples: ImuSamples) -> ImuSamples:
    """Half of the samples lost."""
    kept = {name: getattr(samples, name)[::2].copy() for name in ("stamps_ns", "gyro", "acc")}
    return replace(samples, **kept)


def held(samples: ImuSamples) -> ImuSamples:
    """A sensor read four times as fast as it measures, which repeats samples."""
    last = 4 * (np.arange(len(samples)) // 4)
    return replace(samples, gyro=samples.gyro[last], acc=samples.acc[last])


def saturated(field: str, limit: float) -> Callable[[ImuSamples], ImuSamples]:
    """A sensor whose range is too narrow."""

    def fault(samples: ImuSamples) -> ImuSamples:
        return replace(samples, **{field: np.clip(getattr(samples, field), -limit, limit)})

    return fault


def acc_y_biased(samples: ImuSamples) -> ImuSamples:
    """A bias of 30 mg on one axis, three times what the raw model expects."""
    return replace(samples, acc=samples.acc + np.array([0.0, 0.3, 0.0]))


def acc_in_steps(samples: ImuSamples) -> ImuSamples:
    """A resolution of 2 m/s^2."""
    return replace(samples, acc=2.0 * np.round(samples.acc / 2.0))


def low_passed(cutoff_hz: float, *names: str) -> Callable[[ImuSamples], ImuSamples]:
    """A low-pass filter that also delays the samples."""

    def fault(samples: ImuSamples) -> ImuSamples:
        numerator, denominator = butter(2, cutoff_hz, fs=samples.rate_hz)
        start = lfilter_zi(numerator, denominator)[:, None]

        def filtered(values: Array) -> Array:
            passed, _ = lfilter(numerator, denominator, values, axis=0, zi=start * values[0])
            return np.ascontiguousarray(passed)

        changed: dict[str, Any] = {name: filtered(getattr(samples, name)) for name in names}
        return replace(samples, **changed)

    return fault


def acc_late(samples: ImuSamples) -> ImuSamples:
    """An accelerometer delayed by 50 ms, without the gyroscope."""
    late = round(0.05 * samples.rate_hz)
    acc = np.vstack([np.repeat(samples.acc[:1], late, axis=0), samples.acc[:-late]])
    return replace(samples, acc=acc)


def fast_clock(samples: ImuSamples) -> ImuSamples:
    """A clock that gains a millisecond each second."""
    since_ns = samples.stamps_ns - samples.stamps_ns[0]
    return replace(samples, stamps_ns=samples.stamps_ns + since_ns // 1000)


def delayed(samples: ImuSamples) -> ImuSamples:
    """Timestamps of arrival, 20 ms after the measurement."""
    return replace(samples, stamps_ns=samples.stamps_ns + 20_000_000)


def lost_in_bursts(samples: ImuSamples) -> ImuSamples:
    """A tenth of each second lost at once, with the timestamps of the others spread over it."""
    length = round(samples.rate_hz)
    kept = np.flatnonzero(np.arange(len(samples)) % length >= length // 10)
    second, place = np.divmod(kept, length)
    evenly = second * length + (place - length // 10) * length / (length - length // 10)
    stamps_ns = np.interp(evenly, np.arange(len(samples)), samples.stamps_ns - samples.stamps_ns[0])
    stamps_ns = stamps_ns.astype(np.int64) + samples.stamps_ns[0]
    return replace(samples, stamps_ns=stamps_ns, gyro=samples.gyro[kept], acc=samples.acc[kept])


def stuck_acc_y(samples: ImuSamples) -> ImuSamples:
    """Accelerometer with a y axis stuck at its first value."""
    acc = samples.acc.copy()
    acc[:, 1] = acc[0, 1]
    return replace(samples, acc=acc)


def _lever_arm_off(by: float) -> Callable[[Array], Array]:
    def fault(T_b_c: Array) -> Array:
        wrong = T_b_c.copy()
        wrong[1, 3] += by
        return wrong

    return fault


_I = np.eye(3)
_MIRRORED_Z = np.diag([1.0, 1.0, -1.0])
_QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
_CYCLIC = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
_SWAPPED = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])

INIT_FAULTS = (
    NO_FAULT,
    InputFault("extrinsics off by 2 deg", rotated(2.0)),
    InputFault("extrinsics off by 2 deg about y", rotated(2.0, (0.0, 1.0, 0.0))),
    InputFault("extrinsics off by 5 deg", rotated(5.0)),
    InputFault("extrinsics off by 20 deg", rotated(20.0)),
    InputFault("extrinsics inverted", _inverted),
    InputFault("extrinsics 10 cm off", _lever_arm_off(0.1)),
    InputFault("extrinsics 30 cm off", _lever_arm_off(0.3)),
    InputFault("IMU rotated by 90 deg", samples=axes_taken_as(_QUARTER, _QUARTER)),
    InputFault("accelerometer x, y swapped", samples=axes_taken_as(_I, _SWAPPED)),
    InputFault("accelerometer z mirrored", samples=axes_taken_as(_I, _MIRRORED_Z)),
    InputFault("accelerometer negated", samples=axes_taken_as(_I, -_I)),
    InputFault("accelerometer turned by 5 deg", samples=axes_taken_as(_I, rotated(5.0)(_I))),
    InputFault("accelerometer 50 ms late", samples=acc_late),
    InputFault("accelerometer low-passed at 5 Hz", samples=low_passed(5.0, "acc")),
    InputFault("accelerometer y stuck", samples=stuck_acc_y),
    InputFault("accelerometer y biased by 0.3 m/s^2", samples=acc_y_biased),
    InputFault("accelerometer in steps of 2 m/s^2", samples=acc_in_steps),
    InputFault("accelerometer saturated at 11 m/s^2", samples=saturated("acc", 11.0)),
    InputFault("gyroscope x, y, z taken for y, z, x", samples=axes_taken_as(_CYCLIC, _I)),
    InputFault("gyroscope z mirrored", samples=axes_taken_as(_MIRRORED_Z, _I)),
    InputFault("gyroscope scale -10 %", samples=axes_taken_as(0.9 * _I, _I)),
    InputFault("gyroscope z scale +5 %", samples=axes_taken_as(np.diag([1.0, 1.0, 1.05]), _I)),
    InputFault("gyroscope saturated at 0.3 rad/s", samples=saturated("gyro", 0.3)),
    InputFault("gyroscope saturated at 1 rad/s", samples=saturated("gyro", 1.0)),
    InputFault("IMU delayed by 20 ms", samples=delayed),
    InputFault("IMU clock 0.1 % fast", samples=fast_clock),
    InputFault("IMU low-passed at 10 Hz", samples=low_passed(10.0, "gyro", "acc")),
    InputFault("camera scale +5 %", motion=_lengthened(1.05)),
    InputFault("camera scale +10 %", motion=_lengthened(1.1)),
    InputFault("camera scale -10 %", motion=_lengthened(0.9)),
    InputFault("camera scale x2", motion=_lengthened(2.0)),
    InputFault("camera poses inverted", motion=_poses_inverted),
    InputFault("camera drifts by 0.2 m/s", motion=_drifting),
    InputFault("camera frozen for 1 s of 5", motion=_frozen),
    InputFault("every second IMU sample lost", samples=every_second),
    InputFault("each IMU sample held four times", samples=held),
    InputFault("IMU samples lost in bursts, timestamps evened", samples=lost_in_bursts),
)
"""Faults for initialization with noisy ground truth as vision."""

TRAJECTORY_FAULTS = (
    NO_FAULT,
    InputFault("camera scale x2", motion=_lengthened(2.0)),
    InputFault("accelerometer y biased by 0.3 m/s^2", samples=acc_y_biased),
    InputFault("accelerometer saturated at 11 m/s^2", samples=saturated("acc", 11.0)),
    InputFault("accelerometer low-passed at 5 Hz", samples=low_passed(5.0, "acc")),
    InputFault("gyroscope scale -10 %", samples=axes_taken_as(0.9 * _I, _I)),
    InputFault("gyroscope saturated at 1 rad/s", samples=saturated("gyro", 1.0)),
    InputFault("camera drifts by 0.2 m/s", motion=_drifting),
)
"""Faults for a trajectory with a stated scale uncertainty."""

CALIBRATION_FAULTS = (
    NO_FAULT,
    InputFault("camera scale +2 %", motion=_lengthened(1.02)),
    InputFault("camera scale +5 %", motion=_lengthened(1.05)),
    InputFault("camera scale +10 %", motion=_lengthened(1.1)),
)
