"""What to initialize on while the sensors run, and where things stand."""

from dataclasses import dataclass

TURN_DEG = 5.0
"""Rotation about an axis that starts to tell an accelerometer bias from a tilt."""


@dataclass(frozen=True)
class OnlineConfig:
    """What to initialize on."""

    window_s: float = 2.5
    keyframes: int = 10
    imu: str = "raw"
    """raw, datasheet, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""


@dataclass(frozen=True)
class OnlineStatus:
    """Where things stand, at any moment."""

    collected_s: float
    needed_s: float
    turned_deg: tuple[float, float, float]
    """Peak to peak about the body's axes, in the window so far."""

    standing_still: bool
    late_imu: int
    late_pairs: int
    dropped_pairs: int
    restarts: int
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
