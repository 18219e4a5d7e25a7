"""Options of the commands and of their Python calls, written once: name, type, default, range and
help. A command or call takes some of these groups; `RunOptions` has those of all, and is written
beside every result.

Nothing heavy is imported here: `maci2 --help` reads it.
"""
# ruff: noqa: RUF009, the default of a field is a function call that makes the field.

import math
import re
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from maci2.errors import OptionError, require_in_range

if TYPE_CHECKING:
    from maci2.consistency import InitLimits
    from maci2.estimator import SolverConfig
    from maci2.rigs import Given
    from maci2.sensors import Recording
    from maci2.vision import CameraFrame

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

    use: Any
    """Use of the path that the option names (`maci2.cli.command.Use`); None if it names none."""


def option(
    default: Any,
    text: str,
    *flags: str,
    typed: Any = None,
    typed_default: Any = None,
    within: tuple[float, float] | None = None,
    use: Any = None,
) -> Any:
    """A field of a group, with its `Option`; `MISSING` as default makes it a required argument."""
    about = Option(text, flags, typed, typed_default, within, use)
    return field(default=default, metadata={"option": about}, kw_only=default is not MISSING)


def flag_of(name: str) -> str:
    """Spelling of an option on the command line: its name without the unit of seconds."""
    return f"--{name.removesuffix('_s').replace('_', '-')}"


def option_of(group: type, name: str, default: Any = None) -> Any:
    """An option of another group, with the same default unless one is given."""
    about = next(one for one in fields(group) if one.name == name)
    chosen = about.default if default is None else default
    return field(default=chosen, metadata=about.metadata, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A group of options whose values have their types and ranges."""

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for one in fields(self):
            value, kinds = getattr(self, one.name), types[one.name]
            if value is not None or type(None) not in get_args(kinds):
                value = _checked(value, one.name, kinds, one.metadata["option"].within)
            object.__setattr__(self, one.name, value)


@dataclass(frozen=True, kw_only=True)
class Opening(Checked):
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
        from maci2.rigs import NOTHING_GIVEN, given_by

        if self.imu_rate is None and not self.imu_noise and not self.T_b_c:
            return NOTHING_GIVEN
        return given_by(self.imu_rate, str(self.imu_noise), str(self.T_b_c))

    def open(self, path: Path) -> "Recording":
        """Open a recording."""
        from maci2.datasets import open_recording

        return open_recording(path, self.rig, self.topics, self.given, columns=self.columns)


@dataclass(frozen=True, kw_only=True)
class Measuring:
    """Sources of camera motion, IMU noise and ground truth, and where to start."""

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
    imu: str = option(
        "raw",
        "IMU model: raw (data-sheet noise and vibration), datasheet (data-sheet noise alone), "
        "noise:FILE (noise measured by `maci2 noise --json`), euroc or tumvi (learned models, "
        "listed by `maci2 model`), or a weight file of train-imu",
    )
    vision_frame: str = option("camera", "camera frame of a trajectory: camera or rectified")
    vision_std: str | None = option(
        None,
        "ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of the relative poses of a trajectory; "
        "SHARE of their length is added  [default: 0.05,0.003,0.015, with less rotation if the "
        "gyroscope shows it]",
    )
    vision_scale_std: float | None = option(
        None,
        "relative scale error of a trajectory (1 sigma)  [default: 0.04]",
        "--vision-scale-std",
    )
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

    time_offset: bool = option(
        False,
        "also estimate the time offset between camera and IMU (within 0.1 s)",
        "--time-offset/--no-time-offset",
    )


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
    vision_frame: str = option_of(Measuring, "vision_frame")


@dataclass(frozen=True, kw_only=True)
class InitOptions(Opening, TimeOffset, Assumptions, Windows, Measuring):
    """Options of `init`."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(Opening, Assumptions, Strides, Windows, Measuring):
    """Options of `evaluate`."""


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions(Opening, Mounting, Measuring):
    """Options of `calibrate`."""

    keyframes: int | None = option(
        None, "keyframes in the window  [default: one every 0.3 s]", within=(0, 100_000)
    )
    window_s: float | None = option(
        None, "length of the window [s]  [default: 30, or the whole recording if shorter]"
    )
    time_offset: bool = option_of(TimeOffset, "time_offset", default=True)


@dataclass(frozen=True, kw_only=True)
class TrackOptions(Opening, Measuring):
    """Options of `track`."""

    interval_s: float = option(0.2, "time between keyframes [s]")
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
    imu: str = option_of(Measuring, "imu")
    odometry_std: str | None = option(
        None,
        "ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of its relative poses; SHARE of their length is "
        "added  [default: 0.05,0.003,0.015]",
    )
    odometry_scale_std: float | None = option_of(Measuring, "vision_scale_std")
    interval_s: float = option_of(TrackOptions, "interval_s")
    sigmas: float = option(6.5, "alarm beyond this many standard deviations")


@dataclass(frozen=True, kw_only=True)
class VoOptions(Opening):
    """Options of `vo`."""

    interval_s: float = option(0.2, "time between keyframes [s]", within=(0.001, LONGEST_S))
    covariance: str = option("learned", "match covariance: learned, fixed, structure or chi2")
    weights: Path | None = option(None, ".onnx of `maci2 train-vision`, instead of the bundled one")


VisionKind = Literal["images", "truth", "trajectory", "measurements", "tracks"]

VISION_FORMS = (
    "images[:COVARIANCE] | truth:ROT_DEG,TRANS_M | trajectory:FILE | measurements:FILE | "
    "tracks:PIXEL_SIGMA[,NEAR_M,FAR_M] | tracks:FILE.npz"
)

DEFAULT_POSE_STD = (0.05, 0.003)
"""Noise of a trajectory's relative poses per axis [deg, m], where nothing better is known."""

DEFAULT_POSE_SHARE = 0.015
"""Further translation noise of a relative pose, as a share of its length."""

DEFAULT_FRAME_STD = (0.011, math.radians(0.13))
"""Error of a trajectory's camera frame [m, rad], 1 sigma of each axis: by what calibrations with a
learned stereo SLAM differ by from the rig's own extrinsics beyond their sigmas, on five of the same
six recordings (`tools/trajectory_frame.py`: 11.2 mm and 0.155 deg; 15.7 mm with MH_05, whose first
seconds that SLAM measured too long). It is much the same in all of them, so no length of recording
removes it."""

DEFAULT_SCALE_STD = 0.04
"""Standard deviation of the scale that a trajectory's relative poses share. Both shares are what a
learned stereo SLAM shows on six EuRoC recordings (the IMU model's training and tuning ones)."""

DEFAULT_DEPTHS = (1.5, 12.0)
"""Nearest and farthest depth of simulated points [m]: rooms and halls."""

LARGEST_PIXEL_STD = 50.0
"""Above this a point is anywhere [px]."""


@dataclass(frozen=True)
class VisionChoice:
    """Choice of a source of camera motion, as `--vision` names it."""

    kind: VisionKind
    """Source of the motion."""

    file: str = ""
    """File of a trajectory or of measurements; a relative path is looked up in each recording."""

    std: tuple[float, float] = DEFAULT_POSE_STD
    """Rotation [deg] and translation [m] noise of one relative pose, per axis."""

    frame: "CameraFrame" = "camera"
    """Camera frame of a trajectory."""

    std_share: float = 0.0
    """Further translation noise of a relative pose, as a share of its length."""

    std_scale: float = 0.0
    """Standard deviation of a trajectory's common scale, as a share."""

    std_frame: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of the camera frame of a trajectory [m, rad]."""

    std_windows: int | None = None
    """Windows that the noise was estimated from; None where it was specified, 0 where it is to be
    estimated."""

    metric: bool = False
    """Take the scale of all sources as exact, as the paper does."""

    covariance: str = "learned"
    """Name of the match covariance of images."""

    pixel_std: float = 0.0
    """Noise of every observation of simulated tracks [px]."""

    depths: tuple[float, float] = DEFAULT_DEPTHS
    """Nearest and farthest depth of their points [m]."""

    by_default: bool = False
    """True where the user named no source and the images of the recording are meant."""

    def pose_noise_record(self) -> dict[str, Any]:
        """Noise of a trajectory's relative poses as results have it in JSON; empty for other kinds,
        whose poses carry their covariances."""
        if self.kind != "trajectory":
            return {}
        noise = {
            "rotation_deg": self.std[0],
            "translation_m": self.std[1],
            "share_of_length": self.std_share,
            "estimated_from_windows": self.std_windows,
        }
        return {"relative_pose_noise": noise}

    @property
    def from_truth(self) -> bool:
        """True if the motion is made from ground truth, which must cover every window."""
        return self.kind == "truth" or (self.kind == "tracks" and not self.file)

    def __str__(self) -> str:
        if self.kind == "truth":
            return f"truth:{self.std[0]:g},{self.std[1]:g}"
        if self.kind == "images":
            return "images" if self.covariance == "learned" else f"images:{self.covariance}"
        if self.kind == "tracks" and not self.file:
            depths = "" if self.depths == DEFAULT_DEPTHS else ",{:g},{:g}".format(*self.depths)
            return f"tracks:{self.pixel_std:g}{depths}"
        return f"{self.kind}:{self.file}"


@dataclass(frozen=True)
class StatedMounting:
    """Pose of the left camera in the body as `--prior` and `--prior-std` state it."""

    T_b_c0: tuple[tuple[float, ...], ...]
    """(4, 4) [m]"""

    std_rotation: float
    """About each axis [rad]."""

    std_translation: float
    """Along each axis [m]."""


LARGEST_BIAS = 10.0
"""Largest bias of an accelerometer [m/s^2]: about gravity."""


@dataclass(frozen=True, kw_only=True)
class RunOptions(Opening, Mounting, TimeOffset, Assumptions, Strides, Windows, Measuring):
    """Everything that decides a result, besides the recording: all options, checked."""

    noise_as_stated: bool = option(
        False, "keep the specified or default noise of a trajectory instead of estimating it"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.acc_bias_std is not None:
            require_in_range("--acc-bias-std", self.acc_bias_std, 0.0, LARGEST_BIAS, above=True)
        for bias in self.acc_bias_prior or ():
            require_in_range("--acc-bias-prior", float(bias), -LARGEST_BIAS, LARGEST_BIAS)
        _ = self.source, self.given, self.mounting

    @classmethod
    def of(cls, options: Opening, **changes: Any) -> "RunOptions":
        """The options of a command that are those of a run, with changes."""
        own = {one.name for one in fields(cls)} & {one.name for one in fields(options)}
        return cls(**{name: getattr(options, name) for name in own} | changes)

    @cached_property
    def source(self) -> VisionChoice:
        """Source of camera motion."""
        choice = parse_vision(
            self.vision, self.vision_frame, self.vision_std, self.vision_scale_std
        )
        return replace(choice, std_windows=None) if self.noise_as_stated else choice

    @cached_property
    def mounting(self) -> StatedMounting | None:
        """Prior of the left camera's pose in a calibration; None without one."""
        return parse_mounting(str(self.prior), self.prior_std)

    def solver(self) -> "SolverConfig":
        """Choices of the solver that `paper` and the IMU model imply."""
        from maci2.estimator import SolverConfig
        from maci2.imu.model_choice import is_learned

        if not self.paper:
            return SolverConfig(estimate_time_offset=self.time_offset)
        return SolverConfig(
            gravity_on_sphere=False,
            # The paper's workflow (a) leaves both biases to the learned model.
            estimate_gyro_bias=not is_learned(self.imu),
            estimate_acc_bias=False,
            tracked_vertical=False,
            imu_cross_terms=False,
            robust=False,
        )

    def limits(self) -> "InitLimits":
        """Limits of an initialization; the paper takes the rig as given."""
        from maci2.consistency import InitLimits

        return InitLimits(trust_constants=self.trust_rig or self.paper)

    def as_dict(self) -> dict[str, Any]:
        """The options as `protocol` of summary.json has them."""
        record = asdict(self)
        for name in ("imu_rate", "imu_noise", "T_b_c", "prior", "prior_std", "noise_as_stated"):
            del record[name]
        for name in ("columns", "all_cameras"):
            if not record[name]:
                del record[name]
        record |= {
            "vision": str(self.source),
            "vision_frame": self.source.frame,
            "vision_std": [*self.source.std, self.source.std_share],
            "vision_scale_std": self.source.std_scale,
            "rig": None if self.rig is None else str(self.rig),
        }
        if any(asdict(self.given).values()):
            record["given"] = asdict(self.given)
        if self.mounting is not None:
            record["mounting"] = asdict(self.mounting)
        return record


def _checked(value: Any, name: str, kind: Any, within: tuple[float, float] | None) -> Any:
    """One value as its type; raises an error that names it otherwise."""
    from maci2.validation import as_array, as_flag, as_number, as_path, as_text, as_whole

    kinds = get_args(kind) or (kind,)
    low, high = within or (-math.inf, math.inf)
    if name == "truth":
        return as_names(value)
    if name == "acc_bias_prior":
        if isinstance(value, str):
            return parse_numbers(value, 3, "--acc-bias-prior")
        return tuple(as_array(value, (3,), name, OptionError).tolist())
    if Path in kinds and type(None) in kinds:
        return as_path(value, name)
    if Path in kinds or name == "imu":
        return as_text(value, name, (str, Path))
    if bool in kinds:
        return as_flag(value, name)
    if int in kinds:
        return as_whole(value, flag_of(name), low, high)
    if float in kinds:
        return as_number(value, flag_of(name), low, high, OptionError)
    return as_text(value, name)


def as_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of ground truths, in a list or with commas between."""
    from maci2.validation import as_text

    if not isinstance(names, str | list | tuple):
        raise OptionError(f"truth is of the type {type(names).__name__}, needed a list of names.")
    listed = names.split(",") if isinstance(names, str) else names
    return tuple(name for name in listed if as_text(name, "truth"))


def parse_vision(
    text: str, frame: str, std: str | None, scale_std: float | None = None
) -> VisionChoice:
    """`images[:fixed]`, `truth:0.05,0.003`, `trajectory:FILE`, `measurements:FILE`, `tracks:0.5`
    or `tracks:FILE.npz`; empty text means the images of the recording."""
    if frame not in ("camera", "rectified"):
        raise OptionError(f"--vision-frame is '{frame}'; choose camera or rectified.")
    camera_frame: CameraFrame = "rectified" if frame == "rectified" else "camera"
    pose_std, share = parse_pose_std(std)
    kind, _, rest = text.partition(":")
    if scale_std is not None and not 0.0 <= scale_std < 0.5:
        raise OptionError(f"--vision-scale-std is {scale_std}, needed a share from 0 to 0.5.")
    if not text:
        return VisionChoice("images", frame="rectified", by_default=True)
    if kind == "images":
        from maci2.vision.covariance import ModelName

        covariance = rest if ":" in text else "learned"
        if covariance not in get_args(ModelName):
            raise OptionError(
                f"--vision is '{text}'; match covariances are {', '.join(get_args(ModelName))}."
            )
        return VisionChoice("images", frame="rectified", covariance=covariance)
    if kind == "truth":
        return VisionChoice("truth", std=_std_pair(rest, "--vision truth:"))
    if kind == "trajectory" and rest:
        std_scale = DEFAULT_SCALE_STD if scale_std is None else scale_std
        return VisionChoice(
            "trajectory",
            rest,
            pose_std,
            camera_frame,
            std_share=share,
            std_scale=std_scale,
            std_frame=DEFAULT_FRAME_STD,
            std_windows=None if std is not None else 0,
        )
    if kind == "measurements" and rest:
        return VisionChoice("measurements", rest, pose_std, camera_frame)
    if kind == "tracks" and rest:
        return _tracks(rest)
    raise OptionError(f"--vision is '{text}'; choose one of {VISION_FORMS}.")


def _tracks(rest: str) -> VisionChoice:
    """A file of tracks, or noise in pixels with the depths of the points."""
    if rest.endswith(".npz"):
        return VisionChoice("tracks", rest, frame="rectified")
    name = "--vision tracks:"
    pixel_std, *depths = parse_numbers(rest, 3 if "," in rest else 1, name)
    near, far = depths or DEFAULT_DEPTHS
    if not (0.0 < pixel_std <= LARGEST_PIXEL_STD and 0.0 < near < far):
        raise OptionError(
            f"{name} is '{rest}', needed the noise of a point above 0 and up to "
            f"{LARGEST_PIXEL_STD:g} px, and a nearest depth below the farthest [m]; or a file "
            "whose name ends in .npz."
        )
    return VisionChoice("tracks", frame="rectified", pixel_std=pixel_std, depths=(near, far))


UNITS = {"deg": math.pi / 180.0, "rad": 1.0, "mm": 1e-3, "cm": 1e-2, "m": 1.0}
"""Units of standard deviations, in rad and m."""


def parse_mounting(prior: str, std: str) -> StatedMounting | None:
    """`--prior FILE --prior-std 2deg,3cm`; None where neither is given."""
    if not prior:
        if std:
            raise OptionError(f"--prior-std is '{std}', but no --prior says of what.")
        return None
    from maci2.rigs.convert import extrinsics_from

    T_b_c0 = extrinsics_from(prior, "--prior")
    parts = [re.fullmatch(r"([0-9.eE+-]+)(deg|rad|mm|cm|m)", part) for part in std.split(",")]
    units = [None if part is None else part[2] for part in parts]
    if len(parts) != 2 or units[0] not in ("deg", "rad") or units[1] not in ("mm", "cm", "m"):
        raise OptionError(
            f"--prior-std is '{std}', needed rotation and translation with units, as in 2deg,3cm."
        )
    values = [float(part[1]) * UNITS[part[2]] for part in parts if part is not None]
    require_in_range("--prior-std (rotation, in rad)", values[0], 0.0, 3.2, above=True)
    require_in_range("--prior-std (translation, in m)", values[1], 0.0, 100.0, above=True)
    return StatedMounting(T_b_c0, *values)


def parse_pose_std(
    text: str | None, name: str = "--vision-std"
) -> tuple[tuple[float, float], float]:
    """`ROT_DEG,TRANS_M[,SHARE]`; no share where none is given."""
    if text is None:
        return DEFAULT_POSE_STD, DEFAULT_POSE_SHARE
    if text.count(",") < 2:
        return _std_pair(text, name), 0.0
    *_, share = parse_numbers(text, 3, name)
    if not 0.0 <= share < 0.5:
        raise OptionError(
            f"{name} has the share {share}, needed 0 to 0.5 of a relative pose's length."
        )
    return _std_pair(text.rpartition(",")[0], name), share


def parse_numbers(text: str, count: int, name: str) -> tuple[float, ...]:
    """`count` finite numbers with commas between."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not all(map(math.isfinite, numbers)):
        raise OptionError(f"{name} is '{text}', needed {count} numbers with commas between.")
    return numbers


def _std_pair(text: str, name: str) -> tuple[float, float]:
    rotation_deg, translation_m = parse_numbers(text, 2, name)
    if not (rotation_deg > 0.0 and translation_m > 0.0):
        raise OptionError(
            f"{name} is '{text}', needed two standard deviations above 0: rotation [deg] and "
            "translation [m] of one relative pose between keyframes."
        )
    return rotation_deg, translation_m
