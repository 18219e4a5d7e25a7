"""Configuration and status of an initialization while the sensors run."""

from dataclasses import dataclass

from maci2.boundary import as_number, require_type
from maci2.errors import OptionError
from maci2.field_docs import document_fields

TURN_DEG = 5.0
"""Rotation about an axis that starts to tell an accelerometer bias from a tilt."""


@dataclass(frozen=True)
class OnlineConfig:
    """What to initialize on."""

    window_s: float = 2.5
    """Length of the window [s]."""

    keyframes: int = 10
    """Keyframes in a window."""

    imu: str = "raw"
    """raw, datasheet, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""

    def __post_init__(self) -> None:
        as_number(self.window_s, "OnlineConfig.window_s", 0.1, 1e3, OptionError)
        for name, least in (("keyframes", 4), ("waiting_pairs", 1)):
            if as_number(getattr(self, name), f"OnlineConfig.{name}", least, 1e4, OptionError) % 1:
                raise OptionError(f"OnlineConfig.{name} must be a whole number.")
        require_type(self.imu, str, "OnlineConfig.imu", "the name of an IMU model")


@dataclass(frozen=True)
class OnlineStatus:
    """Where things stand, at any moment."""

    collected_s: float
    """Length of the window so far [s]."""

    needed_s: float
    """Length of a whole window [s]."""

    turned_deg: tuple[float, float, float]
    """Rotation about the body's axes in the window so far, peak to peak [deg]."""

    standing_still: bool
    """Whether the device does not move."""

    late_imu: int
    """Samples that came too late to be used."""

    late_pairs: int
    """Stereo pairs that came too late to be used."""

    dropped_pairs: int
    """Stereo pairs dropped because too many waited."""

    restarts: int
    """How often collecting began anew."""

    trouble: str
    """What went wrong last: a jump of the clock, a step without points, an error."""

    def __str__(self) -> str:
        parts = [f"{min(self.collected_s, self.needed_s):.1f} s of {self.needed_s:.1f} s"]
        if self.standing_still:
            parts.append("standing still: gravity and gyroscope bias, nothing else, can be known")
        else:
            little = [
                f"rotation about {axis} {turned:.0f} deg of about {TURN_DEG:.0f}"
                for axis, turned in zip("xyz", self.turned_deg, strict=True)
                if turned < TURN_DEG
            ]
            parts += little
        counted = (
            (self.late_imu, "samples too late"),
            (self.late_pairs, "stereo pairs too late"),
            (self.dropped_pairs, "stereo pairs dropped"),
        )
        parts += [f"{number} {what}" for number, what in counted if number]
        return "; ".join([*parts, self.trouble] if self.trouble else parts)


document_fields(__name__)
