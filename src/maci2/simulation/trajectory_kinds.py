"""Kinds of random motion for simulations."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from maci2.errors import OptionError
from maci2.simulation.trajectory import Follows, Trajectory, Waves
from maci2.types import Array

MotionKind = Literal["handheld", "drone", "car", "driving", "static", "straight", "planar_yaw"]


@dataclass(frozen=True)
class _Band:
    """Random sinusoids of three coordinates."""

    amplitudes: tuple[float, float, float]
    """Amplitudes of the slowest sinusoid [m] or [rad]."""

    low_hz: float
    high_hz: float

    falloff: float
    """Exponent of amplitude = frequency^-falloff: 1 for even speed, 2 for acceleration."""

    def sample(self, rng: np.random.Generator, offsets: Array, slopes: Array, count: int) -> Waves:
        """Sample `count` sinusoids per coordinate, one in each of as many parts of the band."""
        position_in_band = (np.arange(count) + rng.uniform(size=(3, count))) / count
        octaves = np.log2(self.high_hz / self.low_hz) * position_in_band
        return Waves(
            offsets=offsets,
            slopes=slopes,
            amplitudes=np.array(self.amplitudes)[:, None] * 2.0 ** (-self.falloff * octaves),
            rates=2.0 * np.pi * self.low_hz * 2.0**octaves,
            phases=rng.uniform(-np.pi, np.pi, size=(3, count)),
        )


@dataclass(frozen=True)
class _Recipe:
    """Distribution of a kind of motion."""

    position: _Band
    """Position along x, y, z of the world."""

    angles: _Band
    """Yaw, pitch, roll."""

    follows: Follows = "nothing"

    speed: float = 0.0
    """Constant speed along x of the world [m/s]."""

    yaw_range: float = 0.0
    """Bound of the uniformly distributed mean yaw [rad]."""

    tilt_std: float = 0.0
    """Spread of the mean pitch and roll [rad]."""


_HAND = _Band((0.3, 0.3, 0.2), 0.3, 2.0, falloff=2.0)
_DEG = np.pi / 180.0

_RECIPES: dict[MotionKind, _Recipe] = {
    "handheld": _Recipe(
        position=_HAND,
        angles=_Band((0.7, 0.6, 0.6), 0.2, 1.8, falloff=1.0),
        yaw_range=np.pi,
        tilt_std=0.1,
    ),
    "drone": _Recipe(
        position=_Band((1.4, 1.4, 0.6), 0.08, 0.4, falloff=1.2),
        angles=_Band((0.6, 0.03, 0.03), 0.1, 1.0, falloff=1.0),
        follows="thrust",
        yaw_range=np.pi,
    ),
    "car": _Recipe(
        position=_Band((3.0, 12.0, 0.03), 0.04, 0.8, falloff=2.0),
        angles=_Band((0.0, 0.01, 0.015), 0.5, 2.0, falloff=1.0),
        follows="heading",
        speed=6.0,
    ),
    "driving": _Recipe(
        position=_Band((16.0, 10.0, 0.04), 0.04, 0.8, falloff=2.0),
        angles=_Band((0.0, 0.01, 0.012), 0.5, 2.0, falloff=1.0),
        follows="heading",
        speed=10.0,
    ),
    "static": _Recipe(
        position=_Band((0.001, 0.001, 0.0005), 0.2, 1.0, falloff=1.0),
        angles=_Band((0.1 * _DEG, 0.1 * _DEG, 0.1 * _DEG), 0.2, 1.0, falloff=1.0),
        yaw_range=np.pi,
        tilt_std=0.1,
    ),
    "straight": _Recipe(
        position=_HAND,
        angles=_Band((0.0, 0.0, 0.0), 0.3, 2.0, falloff=1.0),
        yaw_range=np.pi,
        tilt_std=0.1,
    ),
    "planar_yaw": _Recipe(
        position=_HAND,
        angles=_Band((0.3, 0.0, 0.0), 0.3, 2.0, falloff=1.0),
        yaw_range=np.pi,
    ),
}

_SINUSOIDS = 4


def random_trajectory(kind: MotionKind, rng: np.random.Generator) -> Trajectory:
    """Random motion of one kind; each call takes new numbers from `rng`.

    handheld: all six degrees of freedom, decimetres, turning up to 3-5 rad/s. drone: 0.5-2 m/s,
    tilted by its accelerations. car: several m/s forward, mainly yaw. driving:
    the same at 5 to 15 m/s. static: millimetres and 0.1
    deg of sway. straight: accelerates but never rotates. planar_yaw: turns about the vertical only.
    """
    if kind not in _RECIPES:
        raise OptionError(f"motion is '{kind}'; choose one of {', '.join(get_args(MotionKind))}.")
    recipe = _RECIPES[kind]
    mean_yaw = rng.uniform(-recipe.yaw_range, recipe.yaw_range)
    mean_tilt = recipe.tilt_std * rng.standard_normal(2)
    return Trajectory(
        position=recipe.position.sample(
            rng, np.zeros(3), np.array([recipe.speed, 0.0, 0.0]), _SINUSOIDS
        ),
        angles=recipe.angles.sample(rng, np.array([mean_yaw, *mean_tilt]), np.zeros(3), _SINUSOIDS),
        follows=recipe.follows,
    )
