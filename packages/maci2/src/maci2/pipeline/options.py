"""Options of a run: one frozen record of every choice, written beside every result."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_type_hints

import numpy as np

from maci2.consistency import InitLimits
from maci2.errors import OptionError, require_in_range
from maci2.estimator import SolverConfig
from maci2.imu import BiasPrior
from maci2.imu.model_choice import is_learned
from maci2.pipeline.option_list import (
    Assumptions,
    Measuring,
    Mounting,
    Opening,
    Option,
    Starting,
    Strides,
    TimeOffset,
    Windows,
    flag_of,
)
from maci2.rigs import NOTHING_GIVEN
from maci2.rigs.convert import extrinsics_from
from maci2.types import Array
from maci2.validation import as_array, as_flag, as_number, as_path, as_text, as_whole
from maci2.vision import CameraFrame
from maci2.vision.covariance import ModelName

VisionKind = Literal["images", "truth", "trajectory", "measurements", "tracks"]

VISION_FORMS = (
    "images[:COVARIANCE] | truth:ROT_DEG,TRANS_M | trajectory:FILE | measurements:FILE | "
    "tracks:PIXEL_SIGMA[,NEAR_M,FAR_M] | tracks:FILE.npz"
)

DEFAULT_POSE_STD = (0.05, 0.003)
"""Noise of a trajectory's relative poses per axis [deg, m], where nothing better is known."""

DEFAULT_POSE_SHARE = 0.015
"""Further translation noise of a relative pose, as a share of its length."""

DEFAULT_FRAME_STD = (0.011, np.deg2rad(0.13))
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

    frame: CameraFrame = "camera"
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
class RunOptions(Opening, Mounting, TimeOffset, Assumptions, Starting, Strides, Windows, Measuring):
    """Everything that decides a result, besides the recording: all options, checked."""

    noise_as_stated: bool = False
    """Keep the specified or default noise of a trajectory instead of estimating it."""

    def __post_init__(self) -> None:
        for name, value in checked_values(self).items():
            object.__setattr__(self, name, value)
        if self.acc_bias_std is not None:
            require_in_range("--acc-bias-std", self.acc_bias_std, 0.0, LARGEST_BIAS, above=True)
        for bias in self.acc_bias_prior or ():
            require_in_range("--acc-bias-prior", float(bias), -LARGEST_BIAS, LARGEST_BIAS)
        _ = self.source, self.given, self.mounting

    @classmethod
    def of(cls, options: Opening, **changes: Any) -> "RunOptions":
        """The options of a command that are those of a run, with changes."""
        own = {one.name for one in fields(cls)}
        return cls(
            **{name: value for name, value in vars(options).items() if name in own} | changes
        )

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

    def solver(self) -> SolverConfig:
        """Choices of the solver that `paper` and the IMU model imply."""
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

    def limits(self) -> InitLimits:
        """Limits of an initialization; the paper takes the rig as given."""
        return InitLimits(trust_constants=self.trust_rig or self.paper)

    def with_known_bias(self, prior: BiasPrior, removed_acc: Array) -> BiasPrior:
        """The IMU model's prior, with the user's accelerometer bias.

        The user gives the bias of the raw sensor; the prior is that of the bias that remains after
        the model has subtracted `removed_acc`.
        """
        mean, std = prior.mean_acc, prior.std_acc
        if self.acc_bias_prior is not None:
            mean = np.array(self.acc_bias_prior) - removed_acc
        if self.acc_bias_std is not None:
            std = np.full(3, self.acc_bias_std)
        return BiasPrior(prior.mean_gyro, prior.std_gyro, mean, std)

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
        if self.given != NOTHING_GIVEN:
            record["given"] = asdict(self.given)
        if self.mounting is not None:
            record["mounting"] = asdict(self.mounting)
        return record


def checked_values(options: Opening) -> dict[str, Any]:
    """Values of the options of a group, converted and checked for type and range."""
    values, types = {}, get_type_hints(type(options))
    for one in fields(options):
        if "option" not in one.metadata:
            continue
        about: Option = one.metadata["option"]
        value = getattr(options, one.name)
        if value is not None or type(None) not in get_args(types[one.name]):
            value = _checked(value, one.name, types[one.name])
        if about.within is not None and value is not None:
            require_in_range(flag_of(one.name), value, *about.within)
        values[one.name] = value
    return values


def _checked(value: Any, name: str, kind: Any) -> Any:
    """One value as its type; raises an error that names it otherwise."""
    if name == "truth":
        return as_names(value)
    if name == "acc_bias_prior":
        if isinstance(value, str):
            return parse_numbers(value, 3, "--acc-bias-prior")
        return tuple(as_array(value, (3,), name, OptionError).tolist())
    kinds = get_args(kind) or (kind,)
    if Path in kinds or name == "imu":
        return as_path(value, name) if name == "rig" else as_text(value, name, (str, Path))
    if bool in kinds:
        return as_flag(value, name)
    if int in kinds:
        return as_whole(value, flag_of(name))
    if float in kinds:
        return as_number(value, flag_of(name), error=OptionError)
    return as_text(value, name)


def as_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names of ground truths, in a list or with commas between."""
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
        return VisionChoice("images", frame="rectified", covariance=_covariance(text, rest))
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


def _covariance(text: str, name: str) -> str:
    if text == "images":
        return "learned"
    if name not in get_args(ModelName):
        raise OptionError(
            f"--vision is '{text}'; match covariances are {', '.join(get_args(ModelName))}."
        )
    return name


UNITS = {"deg": np.pi / 180.0, "rad": 1.0, "mm": 1e-3, "cm": 1e-2, "m": 1.0}
"""Units of standard deviations, in rad and m."""


def parse_mounting(prior: str, std: str) -> StatedMounting | None:
    """`--prior FILE --prior-std 2deg,3cm`; None where neither is given."""
    if not prior:
        if std:
            raise OptionError(f"--prior-std is '{std}', but no --prior says of what.")
        return None
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
    if len(numbers) != count or not np.isfinite(numbers).all():
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
