"""Smooth synthetic motions with exact position, velocity, acceleration, attitude and rate.

Coordinates are sums of sinusoids, so every derivative is a formula. The attitude is
R_w_b = Rz(yaw) Ry(pitch) Rx(roll); the world's z axis points up, the body's x axis forward.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from maci2.errors import OptionError
from maci2.types import GRAVITY_W, Array

Follows = Literal["nothing", "heading", "thrust"]


@dataclass(frozen=True)
class Motion:
    """States of a body at n instants."""

    p_w_b: Array
    """(n, 3) position of the body in the world [m]."""

    v_w: Array
    """(n, 3) velocity in the world [m/s]."""

    a_w: Array
    """(n, 3) acceleration in the world, gravity not included [m/s^2]."""

    Rs_w_b: Array
    """(n, 3, 3) attitude of the body in the world."""

    omega_b: Array
    """(n, 3) angular rate in the body frame [rad/s]."""

    @property
    def specific_force_b(self) -> Array:
        """(n, 3) specific force of an ideal accelerometer [m/s^2]: upwards while stationary."""
        return np.einsum("nji,nj->ni", self.Rs_w_b, self.a_w - GRAVITY_W)


@dataclass(frozen=True)
class Waves:
    """Three coordinates, each a straight line plus a sum of k sinusoids of time."""

    offsets: Array
    """(3,) [m] or [rad]."""

    slopes: Array
    """(3,) [1/s] times the coordinate's unit."""

    amplitudes: Array
    """(3, k) [m] or [rad]."""

    rates: Array
    """(3, k) angular frequencies [rad/s]."""

    phases: Array
    """(3, k) [rad]."""

    def derivative(self, t: Array, order: int) -> Array:
        """(n, 3) derivative of the given order (0: the value) at the times t [s]."""
        angles = t[:, None, None] * self.rates + self.phases + 0.5 * np.pi * order
        total = np.einsum("ck,nck->nc", self.amplitudes * self.rates**order, np.sin(angles))
        if order == 0:
            total += self.offsets + t[:, None] * self.slopes
        elif order == 1:
            total += self.slopes
        return total


@dataclass(frozen=True)
class Trajectory:
    """A motion that can be evaluated at any time."""

    position: Waves
    """Position of the body in the world."""

    angles: Waves
    """Yaw, pitch, roll, added to those that `follows` requires."""

    follows: Follows
    """heading: yaw is the direction of travel (car); thrust: the body's z axis tilts so that it
    pushes along the specific force (drone)."""

    def at(self, t: Array) -> Motion:
        """States at the times t [s], in any order."""
        angles, angle_rates = self.angles.derivative(t, 0), self.angles.derivative(t, 1)
        v_w, a_w = self.position.derivative(t, 1), self.position.derivative(t, 2)
        if self.follows == "heading":
            heading, heading_rate = _heading(v_w, a_w)
            angles[:, 0] += heading
            angle_rates[:, 0] += heading_rate
        elif self.follows == "thrust":
            jerk_w = self.position.derivative(t, 3)
            tilt, tilt_rate = _tilt(a_w - GRAVITY_W, jerk_w, angles[:, 0], angle_rates[:, 0])
            angles[:, 1:] += tilt
            angle_rates[:, 1:] += tilt_rate
        p_w_b = self.position.derivative(t, 0)
        return Motion(p_w_b, v_w, a_w, _attitude(angles), _body_rate(angles, angle_rates))


def _heading(v_w: Array, a_w: Array) -> tuple[Array, Array]:
    """Direction of travel in the plane [rad] and its rate [rad/s], each (n,)."""
    heading = np.arctan2(v_w[:, 1], v_w[:, 0])
    turning = v_w[:, 0] * a_w[:, 1] - v_w[:, 1] * a_w[:, 0]
    return heading, turning / (v_w[:, 0] ** 2 + v_w[:, 1] ** 2)


def _tilt(force_w: Array, jerk_w: Array, yaw: Array, yaw_rate: Array) -> tuple[Array, Array]:
    """Pitch and roll that rotate the body's z axis onto a force, and their rates, each (n, 2)."""
    cos, sin = np.cos(yaw), np.sin(yaw)
    # In the frame h that is rotated by the yaw only.
    x = cos * force_w[:, 0] + sin * force_w[:, 1]
    y = -sin * force_w[:, 0] + cos * force_w[:, 1]
    z = force_w[:, 2]
    x_rate = cos * jerk_w[:, 0] + sin * jerk_w[:, 1] + yaw_rate * y
    y_rate = -sin * jerk_w[:, 0] + cos * jerk_w[:, 1] - yaw_rate * x
    z_rate = jerk_w[:, 2]

    xz = np.hypot(x, z)
    xz_rate = (x * x_rate + z * z_rate) / xz
    pitch_rate = (x_rate * z - x * z_rate) / xz**2
    roll_rate = (y * xz_rate - y_rate * xz) / (xz**2 + y**2)
    tilt = np.stack([np.arctan2(x, z), np.arctan2(-y, xz)], axis=1)
    return tilt, np.stack([pitch_rate, roll_rate], axis=1)


def _attitude(angles: Array) -> Array:
    """(n, 3, 3) Rz(yaw) Ry(pitch) Rx(roll) of (n, 3) angles."""
    (cy, cp, cr), (sy, sp, sr) = np.cos(angles).T, np.sin(angles).T
    rows = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    return np.ascontiguousarray(np.moveaxis(np.array(rows), 2, 0))


def _body_rate(angles: Array, angle_rates: Array) -> Array:
    """(n, 3) angular rate in the body frame of yaw, pitch, roll and their rates."""
    (_, cp, cr), (_, sp, sr) = np.cos(angles).T, np.sin(angles).T
    yaw_rate, pitch_rate, roll_rate = angle_rates.T
    return np.stack(
        [
            roll_rate - sp * yaw_rate,
            cr * pitch_rate + sr * cp * yaw_rate,
            -sr * pitch_rate + cr * cp * yaw_rate,
        ],
        axis=1,
    )


MotionKind = Literal["handheld", "drone", "car", "driving", "static", "straight", "planar_yaw"]

_SINUSOIDS = 4
"""Sinusoids of each coordinate."""


@dataclass(frozen=True)
class _Band:
    """Random sinusoids of three coordinates."""

    amplitudes: tuple[float, float, float]
    """Amplitudes of the slowest sinusoid [m] or [rad]."""

    low_hz: float
    high_hz: float

    falloff: float = 1.0
    """Exponent of amplitude = frequency^-falloff: 1 for even speed, 2 for acceleration."""

    def sample(self, rng: np.random.Generator, offsets: Array, slopes: Array) -> Waves:
        """Sample sinusoids of each coordinate, one in each of as many parts of the band."""
        shape = (3, _SINUSOIDS)
        position_in_band = (np.arange(_SINUSOIDS) + rng.uniform(size=shape)) / _SINUSOIDS
        octaves = np.log2(self.high_hz / self.low_hz) * position_in_band
        return Waves(
            offsets=offsets,
            slopes=slopes,
            amplitudes=np.array(self.amplitudes)[:, None] * 2.0 ** (-self.falloff * octaves),
            rates=2.0 * np.pi * self.low_hz * 2.0**octaves,
            phases=rng.uniform(-np.pi, np.pi, size=shape),
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

    yaw_range: float = np.pi
    """Bound of the uniformly distributed mean yaw [rad]."""

    tilt_std: float = 0.0
    """Spread of the mean pitch and roll [rad]."""


_HAND = _Band((0.3, 0.3, 0.2), 0.3, 2.0, falloff=2.0)
_SWAY = 0.1 * np.pi / 180.0

_RECIPES: dict[MotionKind, _Recipe] = {
    "handheld": _Recipe(_HAND, _Band((0.7, 0.6, 0.6), 0.2, 1.8), tilt_std=0.1),
    "drone": _Recipe(
        _Band((1.4, 1.4, 0.6), 0.08, 0.4, falloff=1.2),
        _Band((0.6, 0.03, 0.03), 0.1, 1.0),
        follows="thrust",
    ),
    "car": _Recipe(
        _Band((3.0, 12.0, 0.03), 0.04, 0.8, falloff=2.0),
        _Band((0.0, 0.01, 0.015), 0.5, 2.0),
        follows="heading",
        speed=6.0,
        yaw_range=0.0,
    ),
    "driving": _Recipe(
        _Band((16.0, 10.0, 0.04), 0.04, 0.8, falloff=2.0),
        _Band((0.0, 0.01, 0.012), 0.5, 2.0),
        follows="heading",
        speed=10.0,
        yaw_range=0.0,
    ),
    "static": _Recipe(
        _Band((0.001, 0.001, 0.0005), 0.2, 1.0),
        _Band((_SWAY, _SWAY, _SWAY), 0.2, 1.0),
        tilt_std=0.1,
    ),
    "straight": _Recipe(_HAND, _Band((0.0, 0.0, 0.0), 0.3, 2.0), tilt_std=0.1),
    "planar_yaw": _Recipe(_HAND, _Band((0.3, 0.0, 0.0), 0.3, 2.0)),
}


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
    velocity = np.array([recipe.speed, 0.0, 0.0])
    return Trajectory(
        recipe.position.sample(rng, np.zeros(3), velocity),
        recipe.angles.sample(rng, np.array([mean_yaw, *mean_tilt]), np.zeros(3)),
        recipe.follows,
    )
