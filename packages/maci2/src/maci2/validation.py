"""Checks and conversion of arguments from users, with errors that name what is needed.

Compiled kernels index arrays without looking at their bounds, so nothing may reach them that has
not passed here. What already has the right type is checked in microseconds and not copied.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maci2.errors import Maci2Error, MeasurementError, OptionError
from maci2.types import Array, Stamps

SHORTEST_IMU_PERIOD_NS = 20_000
"""Smallest plausible median interval of an IMU (50 kHz); less means another unit."""

SHORTEST_FRAME_PERIOD_NS = 400_000
"""Smallest plausible median interval of a camera (2500 Hz); less means another unit."""

LARGEST_STAMP_NS = 2**62
"""Largest timestamp: within 146 years of the clock's origin, differences do not overflow."""

ROTATION_TOLERANCE = 1e-4
"""Largest entry of R^T R - I: rounding of files and of float32, not scale or shear."""

Shape: TypeAlias = tuple[int | None, ...]
"""Shape of an array; None means any length of that axis."""

ErrorType: TypeAlias = type[Maci2Error]


def as_array(
    values: ArrayLike,
    shape: Shape,
    name: str,
    error: ErrorType = MeasurementError,
    finite: bool = True,
) -> Array:
    """Values as contiguous float64 of this shape; NaN and infinity are accepted unless `finite`."""
    array = _as_numbers(values, np.dtype(np.float64), "iuf", "numbers", name, error)
    if len(array.shape) != len(shape) or any(
        needed is not None and found != needed
        for found, needed in zip(array.shape, shape, strict=True)
    ):
        raise error(
            f"{name} has the shape {array.shape}, needed {_shape_text(shape)}{_hint(array, shape)}."
        )
    if finite and not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        bad = int((~np.isfinite(array)).sum())
        raise error(
            f"{name} is {array[place]} at index {place} ({bad} of {array.size} entries are NaN or "
            "infinite); every entry must be a finite number: remove those samples."
        )
    return array


def as_covariances(values: ArrayLike, count: int, size: int, name: str) -> Array:
    """(count, size, size) covariances, from as many or from one for all; SPD is not checked."""
    array = _as_numbers(values, np.dtype(np.float64), "iuf", "numbers", name, MeasurementError)
    if array.shape == (size, size):
        array = np.broadcast_to(array, (count, size, size))
    return as_array(array, (count, size, size), name)


def as_stamps(
    values: ArrayLike,
    name: str,
    shortest_ns: int = 0,
    least: int = 1,
    error: ErrorType = MeasurementError,
) -> Stamps:
    """(n,) strictly increasing int64 [ns], at least `least`, of a plausible median interval."""
    stamps = _as_numbers(values, np.dtype(np.int64), "iu", "integer nanoseconds", name, error)
    if stamps.ndim != 1 or len(stamps) < least:
        raise error(f"{name} has the shape {stamps.shape}, needed (n,) with n at least {least}.")
    if len(stamps) == 0:
        return stamps
    # Compared, not subtracted: differences of wrong timestamps may overflow.
    later = stamps[1:] > stamps[:-1]
    if not later.all():
        index = int(np.argmin(later)) + 1
        raise error(
            f"{name} is not strictly increasing: {stamps[index]} ns at index {index} follows "
            f"{stamps[index - 1]} ns ({int((~later).sum())} such places); sort by timestamp and "
            "remove duplicates."
        )
    if not -LARGEST_STAMP_NS < int(stamps[0]) <= int(stamps[-1]) < LARGEST_STAMP_NS:
        raise error(
            f"{name} reaches from {stamps[0]} to {stamps[-1]} ns, needed nanoseconds within 146 "
            "years of the clock's origin."
        )
    if shortest_ns and len(stamps) > 1:
        steps = stamps[1:] - stamps[:-1]
        # The least step decides alone in nearly every case, and is cheaper than the median.
        if steps.min() < shortest_ns and np.median(steps) < shortest_ns:
            raise _wrong_unit(float(np.median(steps)), shortest_ns, name, error)
    return stamps


def _wrong_unit(step: float, shortest_ns: int, name: str, error: ErrorType) -> Maci2Error:
    units = {1000: "microseconds", 10**6: "milliseconds", 10**9: "seconds"}
    factor = next((factor for factor in units if step * factor >= shortest_ns), 10**9)
    return error(
        f"{name} has a median step of {step:g} ns, needed at least {shortest_ns} ns; timestamps "
        f"look like {units[factor]}: multiply them by {factor}."
    )


def as_stamp(value: int, name: str, error: ErrorType = MeasurementError) -> int:
    """Timestamp as an integer of nanoseconds."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise error(f"{name} is {_short(value)}, needed an integer of nanoseconds.")
    if not -LARGEST_STAMP_NS < int(value) < LARGEST_STAMP_NS:
        raise error(
            f"{name} is {value} ns, needed nanoseconds within 146 years of the clock's origin."
        )
    return int(value)


def as_transform(values: ArrayLike, name: str, error: ErrorType = MeasurementError) -> Array:
    """(4, 4) rigid transform: a rotation, a translation, last row 0 0 0 1."""
    T = as_array(values, (4, 4), name, error)
    _require_rigid(T[None], name, error, stacked=False)
    return T


def as_transforms(
    values: ArrayLike, count: int, name: str, error: ErrorType = MeasurementError
) -> Array:
    """(count, 4, 4) rigid transforms."""
    Ts = as_array(values, (count, 4, 4), name, error)
    _require_rigid(Ts, name, error, stacked=True)
    return Ts


def as_number(
    value: float,
    name: str,
    low: float = -math.inf,
    high: float = math.inf,
    error: ErrorType = MeasurementError,
    exclusive: bool = False,
) -> float:
    """Finite number from `low` to `high`; above `low` if `exclusive`."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if is_number and not isinstance(value, bool) else math.nan
    except OverflowError:  # an int beyond all floats
        number = math.inf
    if not math.isfinite(number):
        raise error(f"{name} is {_short(value)}, needed a finite number.")
    if not low <= number <= high or (exclusive and number == low):
        above = "above" if exclusive else "at least"
        upper = "" if high == math.inf else f" and at most {high:g}"
        raise error(f"{name} is {value}, needed {above} {low:g}{upper}.")
    return number


def as_whole(value: float, name: str, low: float = -math.inf, high: float = math.inf) -> int:
    """Whole number from `low` to `high`."""
    if as_number(value, name, low, high, OptionError) % 1:
        raise OptionError(f"{name} is {value}, needed a whole number.")
    return int(value)


def as_flag(value: object, name: str) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}, needed True or False.")
    return value


def as_text(value: object, name: str, kinds: tuple[type, ...] = (str,)) -> str:
    """Text from a text, or from another of the types `kinds`."""
    if not isinstance(value, kinds):
        raise OptionError(f"{name} is of the type {type(value).__name__}, needed a text.")
    return str(value)


def as_image(
    image: object, resolution: tuple[int, int], name: str, error: ErrorType = MeasurementError
) -> NDArray[np.uint8]:
    """Contiguous 8-bit grey image, (height, width), of the calibrated size."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim != 2:
        if isinstance(image, np.ndarray):
            found = f"{image.dtype} of the shape {image.shape}"
        else:
            found = type(image).__name__
        raise error(f"{name} is {found}, needed a grey image: uint8 of the shape (height, width).")
    if image.shape[::-1] != tuple(resolution):
        raise error(
            f"{name} is {image.shape[::-1]}, the calibration is for {tuple(resolution)} (width, "
            "height): it is another rig's, or the image was resized."
        )
    return np.ascontiguousarray(image)


def as_path(path: str | Path, name: str, error: ErrorType = OptionError) -> Path:
    """Path from a string or a path."""
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise error(f"{name} is {_short(path)}, needed the path of a file or folder.")
    return Path(path)


def require_type(value: object, needed: type | tuple[type, ...], name: str, remedy: str) -> None:
    """Raise unless `value` has the type; `remedy` is how to obtain one."""
    if not isinstance(value, needed):
        types: Sequence[type] = needed if isinstance(needed, tuple) else (needed,)
        names = " or ".join(kind.__name__ for kind in types)
        raise MeasurementError(f"{name} is {_short(value)}, needed {names}: {remedy}.")


def require_choice(
    value: object, choices: Sequence[str], name: str, error: ErrorType = MeasurementError
) -> None:
    """Raise unless `value` is one of the words."""
    if not isinstance(value, str) or value not in choices:
        raise error(f"{name} is {_short(value)}, needed one of {', '.join(choices)}.")


def _as_numbers(
    values: ArrayLike, dtype: np.dtype, kinds: str, needed: str, name: str, error: ErrorType
) -> NDArray:
    """Values as one contiguous block of memory, as compiled kernels require."""
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.carray:
        return values
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise error(f"{name} is a masked array with entries missing, needed {needed} everywhere.")
    try:
        array = np.asarray(values)
    except Exception as failure:  # whatever an object's own __array__ may raise
        raise error(
            f"{name} is {_short(values)}, needed an array of {needed} ({failure})."
        ) from failure
    if array.size == 0 and array.dtype.kind == "f":
        kinds += "f"  # an empty list has no type of its own
    if array.dtype.kind not in kinds:
        example = f", such as {array.flat[0]}" if array.size else ""
        remedy = _UNITS if "f" not in kinds and array.dtype.kind == "f" else ""
        raise error(f"{name} holds {array.dtype}{_clip(example)}, needed {needed}{remedy}.")
    if array.dtype.kind == "u" and "f" not in kinds and array.size and array.max() >= 2**62:
        raise error(f"{name} reaches {array.max()} ns, beyond any clock; needed {needed}.")
    return np.array(array, dtype=dtype, order="C", ndmin=0)


_UNITS = "; from seconds: np.round(1e9 * seconds).astype(np.int64)"


def _require_rigid(Ts: Array, name: str, error: ErrorType, stacked: bool) -> None:
    R = Ts[:, :3, :3]
    gram = np.matmul(R.transpose(0, 2, 1), R)
    if np.abs(gram - _EYE).max(initial=0.0) > ROTATION_TOLERANCE:
        away = np.abs(gram - _EYE).max(axis=(1, 2))
        k = int(np.argmax(away > ROTATION_TOLERANCE))
        size = float(np.sqrt(np.trace(gram[k]) / 3.0))
        scaled = np.abs(gram[k] / size**2 - _EYE).max() <= ROTATION_TOLERANCE if size else False
        what = f"scaled by {size:.6g}" if scaled else f"off by {away[k]:.3g} in R^T R = I"
        raise error(
            f"{name}{f'[{k}]' if stacked else ''} is no rigid transform: its rotation is {what}, "
            f"allowed {ROTATION_TOLERANCE:g}. Give a rotation matrix without scale."
        )
    if np.linalg.det(R).min(initial=1.0) < 0.0:
        raise error(
            f"{name} mirrors: the determinant of its rotation is -1, needed 1. Check the "
            "signs of the axes."
        )
    if np.abs(Ts[:, 3] - _LAST_ROW).max(initial=0.0) > 1e-9:
        raise error(f"{name} has a last row other than 0 0 0 1; is the transform transposed?")


_EYE = np.eye(3)
_LAST_ROW = np.array([0.0, 0.0, 0.0, 1.0])


def _shape_text(shape: Shape) -> str:
    names = iter("nmkl")
    axes = [str(axis) if axis is not None else next(names) for axis in shape]
    return f"({', '.join(axes)}{',' if len(axes) == 1 else ''})"


def _hint(array: NDArray, shape: Shape) -> str:
    """Hint for a transposed array, the most common mistake."""
    turned = array.shape[::-1]
    fits = len(turned) == len(shape) and all(
        needed in (None, found) for found, needed in zip(turned, shape, strict=True)
    )
    return ": it is transposed" if fits and len(shape) > 1 else ""


def _short(value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} with the shape {value.shape}"
    if isinstance(value, str | int | float | type(None)):
        return _clip(repr(value))
    return f"of the type {type(value).__name__}"


def _clip(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
