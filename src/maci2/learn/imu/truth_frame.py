"""How far the truth's body is rotated against the IMU, constant over a recording.

Motion capture follows markers. The rotation from the marker frame to the IMU was calibrated once
and may be off: on EuRoC by 0.2 deg to 0.3 deg in both Vicon rooms. Left in, it rotates gravity in
the body and looks like an accelerometer bias of 0.01 to 0.04 m/s^2 that the IMU does not have.

The gyroscope shows it: rates about one axis appear on another. Only rotations are looked at, so
what is found does not lean on the accelerometer whose bias it corrects.
"""

from dataclasses import replace

import numpy as np

from maci2.evaluation.integration_errors import integration_errors
from maci2.ground_truth.states import TruthStates
from maci2.imu import GAMMA, ImuMeasurements
from maci2.lie import so3_exp
from maci2.types import Array

HORIZON_S = 2.5
"""A truth that was fused with the gyroscope follows it over short times: of a rotation of 4 mrad in
EuRoC's second Vicon room 2 show over 0.25 s, 3 over 1 s."""

STRIDE_S = 0.5

STD_TURN = 0.005
"""Prior of the rotation [rad], each axis: where motion says little, nothing is rotated."""

ITERATIONS = 10
FEWEST_WINDOWS = 20


def imu_in_truth_body(imu: ImuMeasurements, states: TruthStates) -> Array:
    """(3,) rotation vector [rad] that takes IMU coordinates to those of the truth's body."""
    turn, bias = np.zeros(3), np.zeros(3)
    for _ in range(3):
        unbiased = replace(imu, gyro=imu.gyro - bias)
        windows = integration_errors(unbiased, turned(states, turn), HORIZON_S, STRIDE_S)
        if len(windows.dt) < FEWEST_WINDOWS:
            return np.zeros(3)
        rows = np.concatenate([windows.e_D_turn, -windows.e_D_bias[:, :, :3]], axis=2)
        step = _solve(windows.e[:, GAMMA], rows[:, GAMMA], turn)
        turn, bias = turn + step[:3], bias + step[3:]
    return turn


def turned(states: TruthStates, turn: Array) -> TruthStates:
    """The truth of the IMU itself."""
    return replace(states, Rs_w_b=states.Rs_w_b @ so3_exp(turn))


def _solve(e: Array, rows: Array, turn: Array) -> Array:
    """Step of [turn, gyro bias]; windows count less the further they are off (Cauchy)."""
    x = np.zeros(6)
    # Windows overlap: only one in HORIZON_S / STRIDE_S is independent.
    overlap = HORIZON_S / STRIDE_S
    for _ in range(ITERATIONS):
        squared = ((e + rows @ x) ** 2).sum(1)
        weight = 1.0 / (1.0 + squared / np.median(squared))
        information = weight / (overlap * np.average(squared, weights=weight) / 3.0)
        normal = np.einsum("m,mij,mik->jk", information, rows, rows)
        right = -np.einsum("m,mij,mi->j", information, rows, e)
        normal[range(3), range(3)] += STD_TURN**-2
        right[:3] -= turn * STD_TURN**-2
        x = np.linalg.solve(normal, right)
    return x
