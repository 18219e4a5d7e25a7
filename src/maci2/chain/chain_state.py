"""Unknowns of a chain: one state per timestamp, and a border of constants that all states share.

State k, tangent order [phi, v, p, bg, ba] (as preintegration: rotation first, perturbed on the
right): R_w_b Exp(phi), and plain differences of velocity, position and biases, both vectors in w.
Border, tangent order [gravity, camera, scale, camera clock, marker, position clock, orientation
clock]; extrinsics are perturbed on the left, Exp([rho, phi]) T. A clock has an offset and a drift.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maci2.compile import kernel
from maci2.imu.preintegration import ALPHA, BETA, GAMMA
from maci2.lie import se3_exp, se3_mul, so3_exp
from maci2.types import Array

ROTATION, VELOCITY, POSITION = GAMMA, BETA, ALPHA
BIAS_GYRO, BIAS_ACC = slice(9, 12), slice(12, 15)
STATE = 15
"""Unknowns of one state."""

GRAVITY = slice(0, 2)
CAMERA = slice(2, 8)
SCALE = 8
CAMERA_CLOCK = 9
MARKER = slice(10, 16)
POSITION_CLOCK = slice(16, 18)
ORIENTATION_CLOCK = slice(18, 20)
BORDER = 20
"""Unknowns of the border where all of them are free."""

GRAVITY_NORM_AT, LOG_SCALE_AT, CAMERA_CLOCK_AT, POSITION_CLOCK_AT, ORIENTATION_CLOCK_AT = range(5)
"""Places in `Border.scalars`; drifts follow in the order position, orientation."""

Columns = NDArray[np.int64]


class States(NamedTuple):
    """n states on the IMU's clock."""

    Ts_w_b: Array
    """(n, 4, 4) pose of the body in the world."""
    v_w: Array
    """(n, 3) velocity in the world [m/s]."""
    bias_gyro: Array
    """(n, 3) [rad/s]"""
    bias_acc: Array
    """(n, 3) [m/s^2]"""


class Border(NamedTuple):
    """What all states share. Gravity in w is R_w_g (0, 0, -g): where R_w_g is the identity, the
    world's z axis points up."""

    R_w_g: Array
    """(3, 3) orientation of a level frame; its heading has no meaning."""
    T_b_c: Array
    """(4, 4) pose of the camera in the body."""
    T_b_m: Array
    """(4, 4) pose of the tracked marker in the body."""
    scalars: Array
    """(7,) gravity's norm [m/s^2]; logarithm of true length over vision's; clock offsets of
    camera, marker position and marker orientation [s]; drifts of the last two [s/s]. A clock's
    offset is to be added to its timestamps; a drift counts from `clock_origin_ns` of the
    problem."""


def make_border(
    R_w_g: Array | None = None,
    T_b_c: Array | None = None,
    T_b_m: Array | None = None,
    gravity_norm: float = 9.81,
    log_scale: float = 0.0,
    camera_clock_s: float = 0.0,
    position_clock_s: float = 0.0,
    orientation_clock_s: float = 0.0,
) -> Border:
    """A border from what is known; the rest is the identity or zero."""
    scalars = [gravity_norm, log_scale, camera_clock_s, position_clock_s, orientation_clock_s, 0, 0]
    return Border(
        np.eye(3) if R_w_g is None else np.ascontiguousarray(R_w_g, dtype=np.float64),
        np.eye(4) if T_b_c is None else np.ascontiguousarray(T_b_c, dtype=np.float64),
        np.eye(4) if T_b_m is None else np.ascontiguousarray(T_b_m, dtype=np.float64),
        np.array(scalars, dtype=np.float64),
    )


@dataclass(frozen=True)
class BorderUnknowns:
    """Constants that are free; all others stay at their initial guess."""

    gravity: bool = False
    """Direction of gravity in the world; its norm is given."""

    camera: bool = False
    """Pose of the camera in the body, T_b_c."""

    scale: bool = False
    """True length over vision's, as a logarithm."""

    camera_clock: bool = False
    """Offset of the camera's clock."""

    marker_rotation: bool = False
    """Rotation of T_b_m."""

    marker_translation: bool = False
    """Translation of T_b_m, the lever arm."""

    position_clock: bool = False
    """Offset of the clock of marker positions."""

    position_drift: bool = False
    """Drift of that clock."""

    orientation_clock: bool = False
    """Offset of the clock of marker orientations."""

    orientation_drift: bool = False
    """Drift of that clock."""

    shared_clock: bool = False
    """Positions and orientations come from one device: one clock, the position's."""

    def columns(self) -> Columns:
        """(20,) place of each border unknown among those that are free; -1 where it is not."""
        free = np.zeros(BORDER, dtype=bool)
        free[GRAVITY], free[CAMERA] = self.gravity, self.camera
        free[SCALE], free[CAMERA_CLOCK] = self.scale, self.camera_clock
        free[10:13], free[13:16] = self.marker_translation, self.marker_rotation
        free[16:18] = self.position_clock, self.position_drift
        if not self.shared_clock:
            free[18:20] = self.orientation_clock, self.orientation_drift
        columns = np.where(free, np.cumsum(free) - 1, -1)
        if self.shared_clock:
            columns[ORIENTATION_CLOCK] = columns[POSITION_CLOCK]
        return columns.astype(np.int64)


def retract(
    states: States, border: Border, columns: Columns, dx: Array, dx_border: Array
) -> tuple[States, Border]:
    """Unknowns after a step: dx (n, 15) of the states, dx_border of the free constants."""
    Ts_w_b = np.empty_like(states.Ts_w_b)
    moved = States(
        Ts_w_b,
        states.v_w + dx[:, VELOCITY],
        states.bias_gyro + dx[:, BIAS_GYRO],
        states.bias_acc + dx[:, BIAS_ACC],
    )
    _move_poses(states.Ts_w_b, dx, Ts_w_b)
    return moved, retract_border(border, columns, dx_border)


@kernel
def _move_poses(Ts_w_b: Array, dx: Array, out: Array) -> None:
    for k in range(len(dx)):
        turn = so3_exp(dx[k, 0:3])
        for i in range(3):
            for j in range(3):
                out[k, i, j] = (
                    Ts_w_b[k, i, 0] * turn[0, j]
                    + Ts_w_b[k, i, 1] * turn[1, j]
                    + Ts_w_b[k, i, 2] * turn[2, j]
                )
            out[k, i, 3] = Ts_w_b[k, i, 3] + dx[k, 6 + i]
            out[k, 3, i] = 0.0
        out[k, 3, 3] = 1.0


def retract_border(border: Border, columns: Columns, dx_border: Array) -> Border:
    """Constants after a step."""
    if not len(dx_border):
        return border
    full = np.where(columns >= 0, dx_border[np.maximum(columns, 0)], 0.0)
    tilt = np.array([full[0], full[1], 0.0])
    scalars = border.scalars + np.concatenate([[0.0], full[[8, 9, 16, 18, 17, 19]]])
    return Border(
        border.R_w_g @ so3_exp(tilt),
        se3_mul(se3_exp(full[CAMERA]), border.T_b_c),
        se3_mul(se3_exp(full[MARKER]), border.T_b_m),
        scalars,
    )
