"""Difficulty of images, as one record of choices."""

from dataclasses import dataclass, fields, replace

import numpy as np

from maci2.errors import OptionError

SHARES = (
    "vignetting",
    "plain_walls",
    "repetition",
    "blackout",
    "covered",
    "darkness",
    "exposure_jumps",
)
"""Choices that are at most 1."""

EXPOSURE_JUMP = 1.5
"""Factor by which a frame that jumps is exposed longer or shorter."""


@dataclass(frozen=True)
class Difficulty:
    """Degradation of images; the default is a good camera in a well-lit room."""

    light: float = 1.0
    """Photons reaching the sensor, 1 in a well-lit room; noise grows as it falls."""

    read_noise: float = 0.8
    """Read noise of one pixel [grey levels of 255]."""

    pattern_noise: float = 0.4
    """Noise that stays on the sensor while the scene moves [grey levels]."""

    lens_blur_px: float = 0.6
    """Standard deviation of the lens' point spread [px]."""

    exposure_s: float = 0.0
    """Time for which the shutter is open [s]: motion within it blurs."""

    exposure_change: float = 0.0
    """Spread of brightness from frame to frame, in natural logarithm."""

    vignetting: float = 0.1
    """Darkening of the corners, 0..1."""

    plain_walls: float = 0.0
    """Share of surfaces without texture."""

    repetition: float = 0.0
    """Share of surfaces with a repeating texture."""

    moving_boxes: int = 0
    """Number of boxes that move by themselves."""

    blackout: float = 0.0
    """Share of frames that are black."""

    covered: float = 0.0
    """Share of the time in which a thing before the camera, moving along with it, hides the rest:
    so much of every 2.5 s, at a stretch."""

    darkness: float = 0.0
    """Darkening against well exposed images, 0..1; read noise stays."""

    exposure_jumps: float = 0.0
    """Share of frames exposed 1.5 times as long or as short as the others."""

    rain: float = 0.0
    """Bright streaks in each image on average, elsewhere in every one."""

    readout_s: float = 0.0
    """Time from the exposure of the first row to that of the last: a rolling shutter. The middle
    row is exposed at the image's timestamp."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if not 0.0 <= value < 1e6:
                raise OptionError(f"{one.name} is {value}, needed 0 or more and finite.")
            if one.name in SHARES and value > 1.0:
                raise OptionError(f"{one.name} is {value}, needed at most 1.")
        if not self.light > 0.0:
            raise OptionError(f"light is {self.light}, needed above 0.")

    @property
    def shutter_s(self) -> float:
        """Time during which the camera's motion changes the image."""
        return max(self.exposure_s, self.readout_s)


def exposure_gain(difficulty: Difficulty, rng: np.random.Generator) -> float:
    """Brightness of the next frame, 1 if well exposed."""
    gain = float(np.exp(difficulty.exposure_change * rng.standard_normal()))
    if difficulty.exposure_jumps > 0.0 and rng.random() < difficulty.exposure_jumps:
        gain *= EXPOSURE_JUMP if rng.random() < 0.5 else 1.0 / EXPOSURE_JUMP
    return gain * (1.0 - difficulty.darkness)


EASY = Difficulty()
HARD = Difficulty(
    light=0.15,
    read_noise=2.0,
    pattern_noise=0.8,
    lens_blur_px=0.8,
    exposure_s=0.012,
    exposure_change=0.1,
    vignetting=0.4,
    plain_walls=0.3,
    repetition=0.15,
    moving_boxes=4,
)
"""Dim light, long exposure, plain and repeating walls, things that move."""


def difficulty_of(level: str) -> Difficulty:
    """`easy` or `hard`."""
    levels = {"easy": EASY, "hard": HARD}
    if level not in levels:
        raise OptionError(f"difficulty is '{level}'; choose one of {', '.join(levels)}.")
    return levels[level]


def degraded(difficulty: Difficulty, text: str) -> Difficulty:
    """`name=value,...` put in place of single choices."""
    changes: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        names = [one.name for one in fields(Difficulty)]
        if name not in names:
            raise OptionError(f"'{name}' is no difficulty; choose from {', '.join(names)}.")
        try:
            changes[name] = int(value) if name == "moving_boxes" else float(value)
        except ValueError as error:
            raise OptionError(f"{name} is '{value}', needed a number.") from error
    return replace(difficulty, **changes)  # type: ignore[arg-type]
