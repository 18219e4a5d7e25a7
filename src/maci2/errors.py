"""What goes wrong, said so that the reader can fix it.

Every message names the file or field, the line or stamp, the number found, the number needed and
what to do. A solve that fails raises nothing: it returns a verdict with reasons.
"""


class Maci2Error(Exception):
    """Anything a user can fix; commands print it in one paragraph and exit with code 2."""


class DatasetError(Maci2Error):
    """A recording, a trajectory or a ground truth that cannot be used as it is."""


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
