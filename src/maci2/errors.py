"""Errors that a user can fix, and the check of numeric options.

Every message names the file or field, the line or timestamp, the number found, the number needed
and what to do. A solve that fails raises nothing: it returns a verdict with reasons.
"""

import math


class Maci2Error(Exception):
    """Anything a user can fix; commands print it in one paragraph and exit with code 2."""


class DatasetError(Maci2Error):
    """A recording, a trajectory or a ground truth that cannot be used as it is."""


class NoImuError(DatasetError):
    """A recording holds no IMU samples at all; its images may be looked at."""


class ImageError(DatasetError):
    """One image that cannot be used; it costs that image, not the recording."""


class CalibrationError(Maci2Error):
    """A camera or IMU description that cannot be used as it is."""


class MeasurementError(Maci2Error):
    """A measurement or covariance that is not one: not finite, not positive definite."""


class OptionError(Maci2Error):
    """An option whose value has no meaning."""


class OutputError(Maci2Error):
    """A result that cannot be written where it was asked for."""


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
