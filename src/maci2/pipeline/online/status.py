"""Configuration and status of what works while the sensors run."""

from dataclasses import dataclass, field
from typing import Protocol

from maci2.boundary import as_number, require_type
from maci2.errors import OptionError
from maci2.field_docs import document_fields
from maci2.pipeline.track_recording import KEYFRAME_INTERVAL_S
from maci2.tracking import Health, SmootherConfig

TURN_DEG = 5.0
"""Rotation about an axis that starts to tell an accelerometer bias from a tilt."""


class StreamConfig(Protocol):
    """What every stream asks of its configuration."""

    @property
    def imu(self) -> str: ...
    @property
    def waiting_pairs(self) -> int: ...
    @property
    def waiting_results(self) -> int: ...


@dataclass(frozen=True)
class OnlineConfig:
    """Choices of a live initialization."""

    window_s: float = 2.5
    """Length of the window [s]."""

    keyframes: int = 10
    """Keyframes in a window."""

    imu: str = "raw"
    """raw, datasheet, noise:FILE, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""

    waiting_results: int = 8
    """Results that may wait for a slow callback; when more come, the oldest is dropped and
    counted."""

    carry_biases: bool = True
    """Whether the biases estimated in earlier windows are the prior of the next. A learned IMU
    model tracks them itself."""

    def __post_init__(self) -> None:
        as_number(self.window_s, "OnlineConfig.window_s", 0.1, 1e3, OptionError)
        _whole(self.keyframes, "OnlineConfig.keyframes", 4)
        _require_stream(self, "OnlineConfig")
        require_type(self.carry_biases, bool, "OnlineConfig.carry_biases", "True or False")


@dataclass(frozen=True)
class OnlineTrackerConfig:
    """Choices of live tracking."""

    interval_s: float = KEYFRAME_INTERVAL_S
    """Time between keyframes [s]."""

    imu: str = "raw"
    """raw, datasheet, noise:FILE, the name of a bundled model, or a weight file."""

    waiting_pairs: int = 12
    """Stereo pairs that may wait; when more arrive, the oldest is dropped and counted."""

    waiting_results: int = 8
    """States that may wait for a slow callback; when more come, the oldest is dropped and
    counted."""

    smoother: SmootherConfig = field(default_factory=SmootherConfig)
    """Choices of the fixed-lag smoother."""

    def __post_init__(self) -> None:
        as_number(self.interval_s, "OnlineTrackerConfig.interval_s", 0.02, 0.5, OptionError)
        _require_stream(self, "OnlineTrackerConfig")
        require_type(
            self.smoother, SmootherConfig, "OnlineTrackerConfig.smoother", "SmootherConfig()"
        )


def _require_stream(config: StreamConfig, name: str) -> None:
    require_type(config.imu, str, f"{name}.imu", "the name of an IMU model")
    _whole(config.waiting_pairs, f"{name}.waiting_pairs", 1)
    _whole(config.waiting_results, f"{name}.waiting_results", 1)


def _whole(value: int, name: str, least: int) -> None:
    if as_number(value, name, least, 1e6, OptionError) % 1:
        raise OptionError(f"{name} is {value}, needed a whole number.")


@dataclass(frozen=True)
class StreamStatus:
    """What has happened to the streams so far."""

    late_imu: int = 0
    """Number of samples that arrived twice or too late."""

    late_pairs: int = 0
    """Number of stereo pairs that arrived twice, too late, or from before the IMU samples."""

    outlying_imu: int = 0
    """Samples stamped far ahead, with which no other agreed."""

    outlying_pairs: int = 0
    """Stereo pairs stamped far ahead of the IMU's samples."""

    dropped_pairs: int = 0
    """Stereo pairs dropped because too many waited, or no IMU sample came."""

    dropped_results: int = 0
    """Results that a slow callback missed."""

    restarts: int = 0
    """Number of times that the window was started over."""

    last_restart: str = ""
    """Reason of the last start-over."""

    callback_error: str = ""
    """Error that the callback raised in its last call."""

    trouble: str = ""
    """What is wrong now: timestamps that do not fit, a relative pose without points, an error."""

    def _words(self) -> list[str]:
        counted = (
            (self.late_imu, "samples too late"),
            (self.late_pairs, "stereo pairs too late"),
            (self.outlying_imu, "samples stamped far ahead"),
            (self.outlying_pairs, "stereo pairs stamped far ahead"),
            (self.dropped_pairs, "stereo pairs dropped"),
            (self.dropped_results, "results missed by the callback"),
        )
        words = [f"{number} {what}" for number, what in counted if number]
        if self.last_restart:
            words.append(f"started anew {self.restarts} times, the last time: {self.last_restart}")
        return [*words, *(text for text in (self.callback_error, self.trouble) if text)]


@dataclass(frozen=True)
class OnlineStatus(StreamStatus):
    """Progress of a live initialization."""

    collected_s: float = 0.0
    """Length of the window so far [s]."""

    needed_s: float = 0.0
    """Length of a whole window [s]."""

    turned_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Rotation about the body's axes in the window so far, peak to peak [deg]."""

    standing_still: bool = False
    """Whether the device does not move."""

    windows: int = 0
    """Number of windows, not overlapping, behind the bias prior of the next one."""

    def __str__(self) -> str:
        parts = [f"{min(self.collected_s, self.needed_s):.1f} s of {self.needed_s:.1f} s"]
        if self.standing_still:
            parts.append("standing still: gravity and gyroscope bias, nothing else, can be known")
        else:
            parts += [
                f"rotation about {axis} {turned:.0f} deg of about {TURN_DEG:.0f}"
                for axis, turned in zip("xyz", self.turned_deg, strict=True)
                if turned < TURN_DEG
            ]
        return "; ".join([*parts, *self._words()])


@dataclass(frozen=True)
class TrackerStatus(StreamStatus):
    """Progress of live tracking."""

    health: Health = "initializing"
    """initializing: no window was good enough yet; tracking; bridging: the IMU alone carries the
    state; lost: it has done so for too long."""

    segments: int = 0
    """Number of times that tracking has started; it is continuous within a segment."""

    def __str__(self) -> str:
        return "; ".join([self.health, *self._words()])


document_fields(__name__)
