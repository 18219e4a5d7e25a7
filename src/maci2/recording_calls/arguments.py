"""Checks of the arguments of these functions, and their conversion to options."""

from collections.abc import Sequence
from pathlib import Path

from maci2.boundary import as_array, as_number, as_path
from maci2.errors import OptionError
from maci2.pipeline.options import RunOptions, parse_vision


def options_of(
    *,
    vision: str,
    imu: str,
    vision_frame: str,
    vision_std: str | None,
    vision_scale_std: float | None,
    rig: str | Path | None,
    topics: str,
    window_s: float = 2.5,
    keyframes: int = 10,
    start_s: float = 0.0,
    truth: Sequence[str] = (),
    acc_bias_prior: Sequence[float] | None = None,
    acc_bias_std: float | None = None,
    seed: int = 0,
) -> RunOptions:
    """Options from arguments, with types checked; `RunOptions` checks ranges."""
    for name, text in (("vision", vision), ("imu", str(imu)), ("vision_frame", vision_frame)):
        require_text(text, name)
    if not isinstance(truth, str | list | tuple):
        raise OptionError(f"truth is of the type {type(truth).__name__}, needed a list of names.")
    names = (truth,) if isinstance(truth, str) else tuple(truth)
    prior = None
    if acc_bias_prior is not None:
        x, y, z = as_array(acc_bias_prior, (3,), "acc_bias_prior", OptionError)
        prior = (float(x), float(y), float(z))
    for name in names:
        require_text(name, "truth")
    require_text(topics, "topics")
    if vision_std is not None:
        require_text(vision_std, "vision_std")
    scale_std = None if vision_scale_std is None else number(vision_scale_std, "vision_scale_std")
    return RunOptions(
        vision=parse_vision(vision, vision_frame, vision_std, scale_std),
        imu=str(imu),
        keyframes=whole(keyframes, "keyframes"),
        window_s=number(window_s, "window_s"),
        start_s=number(start_s, "start_s"),
        truth=names,
        acc_bias_prior=prior,
        acc_bias_std=None if acc_bias_std is None else number(acc_bias_std, "acc_bias_std"),
        rig=None if rig is None else as_path(rig, "rig"),
        topics=topics,
        seed=whole(seed, "seed"),
    )


def number(value: float, name: str) -> float:
    """Value as a finite number; raises an error that names it otherwise."""
    return as_number(value, name, error=OptionError)


def whole(value: int, name: str) -> int:
    """Value as a whole number of zero or more; raises an error that names it otherwise."""
    if as_number(value, name, 0, error=OptionError) != int(value):
        raise OptionError(f"{name} is {value}, needed a whole number.")
    return int(value)


def flag(value: bool, name: str) -> bool:
    """Value as a bool; raises an error that names it otherwise."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}, needed True or False.")
    return value


def require_text(value: str, name: str) -> None:
    """Raise unless the value is a string."""
    if not isinstance(value, str):
        raise OptionError(f"{name} is of the type {type(value).__name__}, needed a text.")
