"""Errors that a user can fix, and the check of numeric options.

Every message names the file or field, the line or timestamp, the number found, the number needed
and what to do. A solve that fails raises nothing: it returns a verdict with reasons.
"""

import math


class Maci2Error(Exception):
    """Base of all errors that a user can fix; commands print them and exit with code 2."""


class DatasetError(Maci2Error):
    """A recording, trajectory or ground truth cannot be used."""


class NoImuError(DatasetError):
    """A recording has no IMU samples at all; its images may still be usable."""


class ImageError(DatasetError):
    """One image cannot be used; the rest of the recording can."""


class CalibrationError(Maci2Error):
    """The calibration of a camera or IMU cannot be used."""


class MeasurementError(Maci2Error):
    """A measurement or covariance is invalid: not finite, or not positive definite."""


class OptionError(Maci2Error):
    """An option or argument has an invalid value."""


class OutputError(Maci2Error):
    """A result cannot be written to the requested place."""


def require_in_range(
    option: str, value: float, low: float, high: float = math.inf, above: bool = False
) -> None:
    """Raise an OptionError unless a numeric option is finite and from `low` to `high`.

    With `above` the value `low` itself is refused, too.
    """
    if math.isfinite(value) and low <= value <= high and not (above and value == low):
        return
    needed = f"above {low:g}" if above else f"at least {low:g}"
    most = "" if math.isinf(high) else f" and at most {high:g}"
    raise OptionError(f"{option} is {value}, needed {needed}{most}.")
