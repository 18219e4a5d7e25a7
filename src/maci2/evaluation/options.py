"""What to run: one frozen record of every choice, written beside every result."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from maci2.errors import OptionError
from maci2.estimation import SolverConfig
from maci2.imu import BiasPrior
from maci2.vision import CameraFrame

VisionKind = Literal["truth", "trajectory", "measurements"]

VISION_FORMS = "truth:ROT_DEG,TRANS_M | trajectory:FILE | measurements:FILE"

DEFAULT_STEP_STD = (0.05, 0.003)
"""Of a trajectory's steps, per axis [deg, m], where nothing better is known."""


@dataclass(frozen=True)
class VisionSource:
    """Where camera motion comes from."""

    kind: VisionKind
    file: str = ""
    """A relative path is looked up in each recording."""

    std: tuple[float, float] = DEFAULT_STEP_STD
    """Rotation [deg] and translation [m] of one step, per axis."""

    frame: CameraFrame = "camera"
    """Which camera frame a trajectory speaks of."""

    def __str__(self) -> str:
        if self.kind == "truth":
            return f"truth:{self.std[0]:g},{self.std[1]:g}"
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
            return SolverConfig()
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
        fields["vision_std"] = list(self.vision.std)
        fields["rig"] = None if self.rig is None else str(self.rig)
        return fields


def parse_vision(text: str, frame: str, std: str | None) -> VisionSource:
    """`truth:0.05,0.003`, `trajectory:FILE` or `measurements:FILE`."""
    if frame not in ("camera", "rectified"):
        raise OptionError(f"--vision-frame is '{frame}'; choose camera or rectified.")
    camera_frame: CameraFrame = "rectified" if frame == "rectified" else "camera"
    step_std = DEFAULT_STEP_STD if std is None else _pair(std, "--vision-std")
    kind, _, rest = text.partition(":")
    if kind == "truth":
        return VisionSource("truth", std=_pair(rest, "--vision truth:"))
    if kind in ("trajectory", "measurements") and rest:
        known: VisionKind = "trajectory" if kind == "trajectory" else "measurements"
        return VisionSource(known, rest, step_std, camera_frame)
    raise OptionError(f"--vision is '{text}'; choose one of {VISION_FORMS}.")


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
