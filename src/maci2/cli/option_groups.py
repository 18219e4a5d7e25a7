"""Groups of options that a command takes as one parameter.

`spread` turns each field of such a group into an option of its own.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from maci2.cli import options as opt

if TYPE_CHECKING:
    from maci2.pipeline.options import RunOptions
    from maci2.rigs import Given
    from maci2.sensors import Recording

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Opening:
    """How to open a recording: calibration or parts of it, topics of a bag, columns of a table."""

    rig: opt.RigFile = None
    imu_rate: opt.ImuRate = None
    imu_noise: opt.ImuNoiseText = ""
    t_b_c: opt.Extrinsics = ""
    topics: opt.Topics = ""
    columns: opt.Columns = ""

    def given(self) -> "Given":
        """Parts of the calibration given by options."""
        return opt.given(self.imu_rate, self.imu_noise, self.t_b_c)

    def open(self, path: Path) -> "Recording":
        """Open the recording."""
        from maci2.datasets import open_recording

        return open_recording(path, self.rig, self.topics, self.given(), columns=self.columns)


@dataclass(frozen=True)
class Measuring:
    """Sources of camera motion, IMU noise and ground truth."""

    vision: opt.Vision = ""
    imu: opt.Imu = "raw"
    vision_frame: opt.VisionFrame = "camera"
    vision_std: opt.VisionStd = None
    vision_scale_std: opt.VisionScaleStd = None
    truth: opt.Truth = ""
    acc_bias_prior: opt.AccBiasPrior = None
    acc_bias_std: opt.AccBiasStd = None
    seed: opt.Seed = 0


def run_options(measuring: Measuring, opening: Opening, **rest: Any) -> "RunOptions":
    """Parse both groups and add the other options of a command."""
    from maci2.pipeline.options import RunOptions, parse_numbers, parse_truth, parse_vision

    prior = None
    if measuring.acc_bias_prior is not None:
        x, y, z = parse_numbers(measuring.acc_bias_prior, 3, "--acc-bias-prior")
        prior = (x, y, z)
    return RunOptions(
        vision=parse_vision(
            measuring.vision,
            measuring.vision_frame,
            measuring.vision_std,
            measuring.vision_scale_std,
        ),
        imu=measuring.imu,
        truth=parse_truth(measuring.truth),
        acc_bias_prior=prior,
        acc_bias_std=measuring.acc_bias_std,
        seed=measuring.seed,
        rig=opening.rig,
        given=opening.given(),
        topics=opening.topics,
        columns=opening.columns,
        **rest,
    )


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that each field of its groups is an option."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters = [
        parameter
        for name, own in inspect.signature(command).parameters.items()
        for parameter in (
            _parameters(hints[name]) if name in groups else [own.replace(kind=KEYWORD_ONLY)]
        )
    ]

    @wraps(command)
    def call(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        command(**values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: hints.get(one.name, one.annotation) for one in parameters}
    return call


def _parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            one.name,
            KEYWORD_ONLY,
            default=one.default,
            annotation=hints[one.name],
        )
        for one in fields(group)
    ]
