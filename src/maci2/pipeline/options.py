"""What to run: one frozen record of every choice, written beside every result."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from maci2.errors import OptionError
from maci2.estimation import SolverConfig
from maci2.imu import BiasPrior
from maci2.rigs import NOTHING_GIVEN, Given
from maci2.vision import CameraFrame
from maci2.vision.covariance_models import ModelName

VisionKind = Literal["images", "truth", "trajectory", "measurements"]

VISION_FORMS = "images[:COVARIANCE] | truth:ROT_DEG,TRANS_M | trajectory:FILE | measurements:FILE"

DEFAULT_POSE_STD = (0.05, 0.003)
"""Of a trajectory's steps, per axis [deg, m], where nothing better is known."""

DEFAULT_POSE_SHARE = 0.015
"""Further translation noise of a step, as a share of its length."""

DEFAULT_SCALE_STD = 0.04
"""Of the scale that a trajectory's steps share. Both shares are what a learned stereo SLAM shows on
six EuRoC recordings (the IMU model's training and tuning ones)."""


@dataclass(frozen=True)
class VisionSource:
    """Where camera motion comes from."""

    kind: VisionKind
    file: str = ""
    """A relative path is looked up in each recording."""

    std: tuple[float, float] = DEFAULT_POSE_STD
    """Rotation [deg] and translation [m] of one step, per axis."""

    frame: CameraFrame = "camera"
    """Which camera frame a trajectory speaks of."""

    std_share: float = 0.0
    """Further translation noise of a step, as a share of its length."""

    std_scale: float = 0.0
    """Of a trajectory's common scale, as a share."""

    covariance: str = "learned"
    """Of the matches of images."""

    def __str__(self) -> str:
        if self.kind == "truth":
            return f"truth:{self.std[0]:g},{self.std[1]:g}"
        if self.kind == "images":
            return "images" if self.covariance == "learned" else f"images:{self.covariance}"
        return f"{self.kind}:{self.file}"


@dataclass(frozen=True)
class RunOptions:
    """Everything that decides a result, besides the recording."""

    vision: VisionSource
    imu: str = "raw"
    """raw, datasheet, the name of a bundled model, or a weight file."""

    keyframes: int = 10
    window_s: float = 2.5
    stride_s: float = 2.5
    start_s: float = 0.0
    """From the first usable stamp."""

    paper: bool = False
    """The paper's choices exactly: free gravity vector, no accelerometer bias, block-diagonal IMU
    weights, data-sheet noise."""

    truth: tuple[str, ...] = ()
    """Names of ground truths; the first that a recording has is used."""

    acc_bias_prior: tuple[float, float, float] | None = None
    """A sensor's known accelerometer bias [m/s^2]."""

    acc_bias_std: float | None = None
    """Its spread [m/s^2]; the IMU model's own where not given."""

    rig: Path | None = None
    """Kalibr file that takes the place of a recording's own calibration."""

    given: Given = NOTHING_GIVEN
    """Single parts that take the place of the calibration's."""

    time_offset: bool = False
    """Estimate the camera's time offset to the IMU too."""

    topics: str = ""
    """Which topic of a bag is what; what is not said is found by type."""

    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("keyframes", 4), ("window_s", 0.1), ("stride_s", 0.01), ("start_s", 0)):
            if getattr(self, name) < low:
                raise OptionError(
                    f"--{name.removesuffix('_s')} is {getattr(self, name)}, needed at least {low}."
                )
        if self.acc_bias_std is not None and not self.acc_bias_std > 0.0:
            raise OptionError(f"--acc-bias-std is {self.acc_bias_std}, needed above 0.")

    def solver(self) -> SolverConfig:
        """The solver's choices that `paper` and the IMU model imply."""
        if not self.paper:
            return SolverConfig(estimate_time_offset=self.time_offset)
        return SolverConfig(
            gravity_on_sphere=False,
            # The paper's workflow (a) leaves both biases to the learned model.
            estimate_gyro_bias=self.imu in ("raw", "datasheet"),
            estimate_acc_bias=False,
            imu_cross_terms=False,
            robust=False,
        )

    def with_known_bias(self, prior: BiasPrior) -> BiasPrior:
        """The IMU model's prior with what the user knows of the accelerometer bias put in."""
        mean = prior.mean_acc if self.acc_bias_prior is None else np.array(self.acc_bias_prior)
        std = prior.std_acc if self.acc_bias_std is None else np.full(3, self.acc_bias_std)
        return BiasPrior(prior.mean_gyro, prior.std_gyro, mean, std)

    def as_dict(self) -> dict[str, Any]:
        """For `protocol` in summary.json."""
        fields = asdict(self)
        fields["vision"] = str(self.vision)
        fields["vision_frame"] = self.vision.frame
        fields["vision_std"] = [*self.vision.std, self.vision.std_share]
        fields["vision_scale_std"] = self.vision.std_scale
        fields["rig"] = None if self.rig is None else str(self.rig)
        if self.given == NOTHING_GIVEN:
            del fields["given"]
        return fields


def parse_vision(
    text: str, frame: str, std: str | None, scale_std: float | None = None
) -> VisionSource:
    """`images[:fixed]`, `truth:0.05,0.003`, `trajectory:FILE` or `measurements:FILE`."""
    if frame not in ("camera", "rectified"):
        raise OptionError(f"--vision-frame is '{frame}'; choose camera or rectified.")
    camera_frame: CameraFrame = "rectified" if frame == "rectified" else "camera"
    step_std, share = _step_std(std)
    kind, _, rest = text.partition(":")
    if scale_std is not None and not 0.0 <= scale_std < 0.5:
        raise OptionError(f"--vision-scale-std is {scale_std}, needed a share from 0 to 0.5.")
    if kind == "images":
        return VisionSource("images", frame="rectified", covariance=_covariance(text, rest))
    if kind == "truth":
        return VisionSource("truth", std=_pair(rest, "--vision truth:"))
    if kind == "trajectory" and rest:
        std_scale = DEFAULT_SCALE_STD if scale_std is None else scale_std
        return VisionSource("trajectory", rest, step_std, camera_frame, share, std_scale)
    if kind == "measurements" and rest:
        return VisionSource("measurements", rest, step_std, camera_frame)
    raise OptionError(f"--vision is '{text}'; choose one of {VISION_FORMS}.")


def _covariance(text: str, name: str) -> str:
    if text == "images":
        return "learned"
    if name not in get_args(ModelName):
        raise OptionError(
            f"--vision is '{text}'; match covariances are {', '.join(get_args(ModelName))}."
        )
    return name


def _step_std(text: str | None) -> tuple[tuple[float, float], float]:
    """`ROT_DEG,TRANS_M[,SHARE]`; no share where none is given."""
    if text is None:
        return DEFAULT_POSE_STD, DEFAULT_POSE_SHARE
    if text.count(",") < 2:
        return _pair(text, "--vision-std"), 0.0
    *_, share = parse_numbers(text, 3, "--vision-std")
    if not 0.0 <= share < 0.5:
        raise OptionError(
            f"--vision-std has the share {share}, needed 0 to 0.5 of a step's length."
        )
    return _pair(text.rpartition(",")[0], "--vision-std"), share


def parse_numbers(text: str, count: int, name: str) -> tuple[float, ...]:
    """`count` finite numbers with commas between."""
    try:
        numbers = tuple(float(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if len(numbers) != count or not np.isfinite(numbers).all():
        raise OptionError(f"{name} is '{text}', needed {count} numbers with commas between.")
    return numbers


def _pair(text: str, name: str) -> tuple[float, float]:
    first, second = parse_numbers(text, 2, name)
    if not (first > 0.0 and second > 0.0):
        raise OptionError(
            f"{name} is '{text}', needed two standard deviations above 0: rotation [deg] and "
            "translation [m] of one keyframe step."
        )
    return first, second
