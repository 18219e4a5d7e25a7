"""Options of the commands and of their Python calls, written once: name, type, default, range and
help. A command or call takes some of these groups; `RunOptions` has the checked values of all.

Nothing heavy is imported here: `maci2 --help` reads it.
"""
# ruff: noqa: RUF009, the default of a field is a function call that makes the field.

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maci2.rigs import Given
    from maci2.sensors import Recording

LONGEST_S = 1e6
"""Upper limit of every option in seconds: eleven days, far from the overflow of nanoseconds."""


KEYFRAMES = (4, 100_000)
"""Fewest and most keyframes in a window."""

WINDOW_S = (0.1, LONGEST_S)
"""Shortest and longest window."""

SEEDS = (0, 2**63 - 1)
"""Smallest and largest random seed."""


@dataclass(frozen=True)
class Option:
    """Metadata of a field of a group: help, spelling, type on the command line, range."""

    help: str
    """Help of the command, and description in the docstring of the call."""

    flags: tuple[str, ...]
    """Spelling on the command line, where it is not that of `flag_of`."""

    typed: Any
    """Type on the command line, where Python takes more; None: the same."""

    typed_default: Any
    """Default on the command line, where Python's differs; None: the same."""

    within: tuple[float, float] | None
    """Smallest and largest value."""


def option(
    default: Any,
    text: str,
    *flags: str,
    typed: Any = None,
    typed_default: Any = None,
    within: tuple[float, float] | None = None,
) -> Any:
    """A field of a group, with its `Option`; `MISSING` as default makes it a required argument."""
    about = Option(text, flags, typed, typed_default, within)
    return field(default=default, metadata={"option": about}, kw_only=default is not MISSING)


def flag_of(name: str) -> str:
    """Spelling of an option on the command line: its name without the unit of seconds."""
    return f"--{name.removesuffix('_s').replace('_', '-')}"


def vision_frame() -> Any:
    """Field for the frame of a trajectory."""
    return option("camera", "camera frame of a trajectory: camera or rectified")


def imu_model() -> Any:
    """Field for the IMU model."""
    return option(
        "raw",
        "IMU model: raw (data-sheet noise and vibration), datasheet (data-sheet noise alone), "
        "noise:FILE (noise measured by `maci2 noise --json`), euroc or tumvi (learned models, "
        "listed by `maci2 model`), or a weight file of train-imu",
    )


def vision_scale_std() -> Any:
    """Field for the noise of a trajectory's scale."""
    return option(
        None,
        "relative scale error of a trajectory (1 sigma)  [default: 0.04]",
        "--vision-scale-std",
    )


def interval(within: tuple[float, float] | None = None) -> Any:
    """Field for the time between keyframes."""
    return option(0.2, "time between keyframes [s]", within=within)


def time_offset(default: bool) -> Any:
    """Field for estimating the clock of the camera."""
    return option(
        default,
        "also estimate the time offset between camera and IMU (within 0.1 s)",
        "--time-offset/--no-time-offset",
    )


@dataclass(frozen=True, kw_only=True)
class Opening:
    """Opening a recording: calibration or parts of it, topics of a bag, columns of a table."""

    rig: str | Path | None = option(
        None,
        "calibration to use instead of the recording's own: file or folder of Kalibr, "
        "OpenVINS, VINS, ORB-SLAM, MSCKF-VIO, Basalt, RealSense, OAK, ZED or `maci2 convert`",
        typed=Path | None,
    )
    imu_rate: float | None = option(
        None, "sampling rate of the IMU, if the calibration lacks it [Hz]"
    )
    imu_noise: str | Path = option(
        "",
        "IMU noise to use instead of the calibration's: Kalibr's imu.yaml, or the densities "
        "GYRO,ACC,GYRO_WALK,ACC_WALK in SI units",
        typed=str,
    )
    T_b_c: str | Path = option(
        "",
        "pose of the left camera in the IMU frame, to use instead of the calibration's: YAML "
        "with T_b_c or T_cam_imu, or 16 comma-separated numbers row by row",
        typed=str,
    )
    topics: str = option(
        "",
        "topics of a bag: ROLE=/topic[,...] with the roles imu (or gyro and acc), left, "
        "right, truth; roles not named are found by message type, except truth",
    )
    columns: str = option(
        "",
        "columns of a table of IMU samples: t, gx, gy, gz, ax, ay, az, or - to skip one, with "
        "units other than s, rad/s and m/s^2 in brackets: t[us],gx[deg/s],gy,gz,ax[g],ay,az",
    )

    @cached_property
    def given(self) -> "Given":
        """Single parts that take the place of the calibration's."""
        from maci2.rigs import given_by

        return given_by(self.imu_rate, str(self.imu_noise), str(self.T_b_c))

    def open(self, path: Path) -> "Recording":
        """Open a recording."""
        from maci2.datasets import open_recording

        return open_recording(path, self.rig, self.topics, self.given, columns=self.columns)


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Sources of camera motion, IMU noise and ground truth."""

    vision: str = option(
        "images",
        "camera motion: images (stereo visual odometry; images:fixed, images:structure or "
        "images:chi2 select a baseline's match covariance), truth:ROT_DEG,TRANS_M (ground truth "
        "with noise added to each relative pose), trajectory:FILE (TUM format), measurements:FILE "
        "(.npz with covariances), tracks:PIXEL_SIGMA[,NEAR_M,FAR_M] (feature tracks simulated "
        "along the ground truth), tracks:FILE.npz (feature tracks of your own)  [default: images, "
        "if the recording has them]",
        typed_default="",
    )
    imu: str = imu_model()
    vision_frame: str = vision_frame()
    vision_std: str | None = option(
        None,
        "ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of the relative poses of a trajectory; "
        "SHARE of their length is added  [default: 0.05,0.003,0.015, with less rotation if the "
        "gyroscope shows it]",
    )
    vision_scale_std: float | None = vision_scale_std()
    truth: Sequence[str] = option(
        (),
        "ground truth to use. NAME[,NAME]: the first of these that a recording has; "
        "audited: the recording's ground truth (or the first of the other names) after an audit "
        "against the IMU, as by `maci2 truth`; audited:SOURCE: the same from a source such as "
        "vicon0 or leica0; or a folder written by `maci2 truth -o`",
        typed=str,
        typed_default="",
    )
    acc_bias_prior: Sequence[float] | str | None = option(
        None, "X,Y,Z: known accelerometer bias of this sensor [m/s^2]", typed=str | None
    )
    acc_bias_std: float | None = option(
        None, "standard deviation of that bias [m/s^2]  [default: 0.1]"
    )
    seed: int = option(0, "random seed", within=SEEDS)


@dataclass(frozen=True, kw_only=True)
class Starting:
    """Start of a window."""

    start_s: float = option(
        0.0,
        "start of the window, from the first usable timestamp [s]",
        within=(0.0, LONGEST_S),
    )


@dataclass(frozen=True, kw_only=True)
class Windows:
    """The window of an initialization."""

    keyframes: int = option(10, "keyframes in a window", within=KEYFRAMES)
    window_s: float = option(2.5, "length of a window [s]", within=WINDOW_S)


@dataclass(frozen=True, kw_only=True)
class Strides:
    """The windows of an evaluation."""

    stride_s: float = option(
        2.5, "time from one window's start to the next [s]", within=(0.01, LONGEST_S)
    )


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Assumptions of an initialization."""

    paper: bool = option(
        False,
        "the paper's choices exactly: free gravity vector, no accelerometer bias, "
        "block-diagonal IMU weights, data-sheet noise",
    )
    trust_rig: bool = option(
        False,
        "accept the stated extrinsics and scale even if nothing in the recording confirms "
        "them; without this option such a result is weak",
    )


@dataclass(frozen=True, kw_only=True)
class TimeOffset:
    """The clock of the camera."""

    time_offset: bool = time_offset(False)


@dataclass(frozen=True, kw_only=True)
class Mounting:
    """Prior knowledge of a calibration, and its cameras."""

    prior: str | Path = option(
        "",
        "prior of the pose of the left camera in the IMU frame, for motion that does not "
        "determine all of it (cars): YAML with T_b_c or T_cam_imu, or 16 numbers",
        typed=str,
    )
    prior_std: str = option("", "standard deviation of --prior on each axis, as in 2deg,3cm")
    all_cameras: bool = option(
        False, "also refine the right camera's pose relative to the left from stereo matches"
    )


@dataclass(frozen=True, kw_only=True)
class CheckOptions(Opening):
    """Options of `check`."""

    vision: str = option(
        "",
        "camera motion to compare with the IMU: images (stereo visual odometry over the "
        "whole recording), trajectory:FILE (TUM format) or measurements:FILE (.npz); without "
        "it, ground truth only",
    )
    vision_frame: str = vision_frame()


@dataclass(frozen=True, kw_only=True)
class InitOptions(Opening, TimeOffset, Assumptions, Starting, Windows, Measuring):
    """Options of `init`."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Opening, Assumptions, Starting, Strides, Windows, Measuring):
    """Options of `evaluate`."""


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(Opening, Mounting, Starting, Measuring):
    """Options of `calibrate`."""

    keyframes: int | None = option(
        None, "keyframes in the window  [default: one every 0.3 s]", within=(0, 100_000)
    )
    window_s: float | None = option(
        None, "length of the window [s]  [default: 30, or the whole recording if shorter]"
    )
    time_offset: bool = time_offset(True)


@dataclass(frozen=True, kw_only=True)
class TrackOptions(Opening, Starting, Measuring):
    """Options of `track`."""

    interval_s: float = interval()
    lag_s: float = option(3.0, "length of the smoothed window [s]")
    batch: bool = option(False, "smooth the whole recording at once instead of tracking causally")
    adapt_noise: bool = option(
        True,
        "adapt the noise of vision to its innovations",
        "--adapt-noise/--no-adapt-noise",
    )
    at_imu_rate: bool = option(False, "also compute states at every IMU sample")


@dataclass(frozen=True, kw_only=True)
class WatchOptions(Opening):
    """Options of `watch`."""

    odometry: str | Path = option(
        MISSING, "trajectory of the odometry (TUM format), in any world frame", typed=str
    )
    frame: str = option("body", "frame of the poses: body (the IMU), camera or rectified")
    imu: str = imu_model()
    odometry_std: str | None = option(
        None,
        "ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of its relative poses; SHARE of their length is "
        "added  [default: 0.05,0.003,0.015]",
    )
    odometry_scale_std: float | None = vision_scale_std()
    interval_s: float = interval()
    sigmas: float = option(6.5, "alarm beyond this many standard deviations")


@dataclass(frozen=True, kw_only=True)
class VoOptions(Opening):
    """Options of `vo`."""

    interval_s: float = interval(within=(0.001, LONGEST_S))
    covariance: str = option("learned", "match covariance: learned, fixed, structure or chi2")
    weights: Path | None = option(None, ".onnx of `maci2 train-vision`, instead of the bundled one")
