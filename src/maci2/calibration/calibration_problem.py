"""The chain that a calibration solves, in the frame of the first camera."""

from dataclasses import dataclass, replace

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.chain import (
    Border,
    BorderUnknowns,
    CameraMotions,
    ChainProblem,
    GaussianPrior,
    Loss,
    States,
    border_prior,
    make_border,
    state_prior,
)
from maci2.chain.chain_state import BORDER, CAMERA, CAMERA_CLOCK, SCALE, STATE
from maci2.estimation.solve import VISUAL_LIMIT
from maci2.estimation.time_offset import PRIOR as OFFSET_PRIOR
from maci2.imu import BiasPrior, ImuMeasurements
from maci2.lie import se3, se3_inv
from maci2.types import Array, Mat4, Stamps
from maci2.vision import RelativePoses

GAUGE_STD = 0.1
"""Prior of the first camera's pose in its own frame [m, rad], which nothing measures. The optimum
is the same for any: a wide one leaves room for steps that rotate the camera far."""

EXACT_GAUGE_STD = 1e-6
"""The same at the optimum, where covariances are those in the frame of the first camera."""

LEAST_WALK_GYRO, LEAST_WALK_ACC = 1e-7, 1e-5
"""Random walks where a bias is said to stay: over minutes below what can be measured, and not so
stiff that digits are lost."""


@dataclass(frozen=True)
class MountingPrior:
    """What is known of the extrinsics before any motion."""

    T_b_c: Mat4
    """Pose of the camera in the body [m]."""

    std: Array
    """(6,) standard deviations, left perturbation, order [rho, phi], [m, rad]; infinity where
    nothing is known."""


NOTHING_KNOWN = MountingPrior(np.eye(4), np.array([UNKNOWN.lever_m] * 3 + [np.inf] * 3))
"""A camera somewhere on the device, within a metre or so of its IMU."""


@dataclass(frozen=True)
class Guess:
    """Where a solution begins: states and constants in the frame of the first camera."""

    stamps_ns: Stamps
    """Timestamps of the keyframes on the IMU's clock, with the current time offset."""

    offset_s: float
    """What was added to the camera's timestamps so far [s]."""

    states: States
    border: Border


@dataclass(frozen=True)
class Choices:
    """What is free, and how measurements count."""

    clock: bool
    """Whether the camera's time offset is unknown."""

    std_scale: float
    """Spread of the scale that all translations share; 0 takes it as exact."""

    robust: bool
    """Whether a relative pose that noise does not explain counts linearly."""

    inflation: float = 1.0
    """Factor on the stated variances of camera and IMU."""


def calibration_problem(
    imu: ImuMeasurements,
    vision: RelativePoses,
    guess: Guess,
    choices: Choices,
    mounting: MountingPrior,
) -> ChainProblem:
    """All keyframes, tied by IMU and camera; extrinsics, gravity and what else is free shared."""
    measured = np.flatnonzero(vision.measured)
    factor = choices.inflation
    camera = CameraMotions(
        measured,
        vision.Ts_ck_ck1[measured],
        factor * vision.covs_T_ck_ck1[measured],
        Loss("huber", VISUAL_LIMIT) if choices.robust else Loss(),
    )
    scaled = replace(
        imu, var_gyro=factor * imu.var_gyro, var_acc=factor * imu.var_acc, cov_0=factor * imu.cov_0
    )
    return ChainProblem(
        scaled,
        guess.stamps_ns,
        np.sqrt(factor) * max(imu.walk_gyro, LEAST_WALK_GYRO),
        np.sqrt(factor) * max(imu.walk_acc, LEAST_WALK_ACC),
        BorderUnknowns(
            gravity=True,
            camera=True,
            scale=choices.std_scale > 0.0,
            camera_clock=choices.clock,
        ),
        camera,
        priors=(
            first_camera_prior(guess.states, guess.border),
            first_bias_prior(imu.bias_prior, guess.states, guess.border),
            _constants_prior(guess, choices, mounting),
        ),
    )


def first_camera_prior(states: States, border: Border, std: float = GAUGE_STD) -> GaussianPrior:
    """The first camera is the origin: its pose is the first body's and the extrinsics together.

    T_w_b Exp(tau) Exp(xi) T_b_c, with tau = [R' dp, phi] of the state and xi of the extrinsics.
    """
    A = np.zeros((6, STATE + BORDER))
    A[0:3, 6:9] = states.Ts_w_b[0, :3, :3].T
    A[3:6, 0:3] = np.eye(3)
    A[:, STATE + CAMERA.start : STATE + CAMERA.stop] = np.eye(6)
    first = States(*(values[:1] for values in states))
    return GaussianPrior(0, first, border, A.T @ A / std**2)


def first_bias_prior(prior: BiasPrior, states: States, border: Border) -> GaussianPrior:
    """What the IMU model knows of the biases that are left, at the first keyframe."""
    std = np.concatenate([np.full(9, np.inf), prior.std_gyro, prior.std_acc])
    first = States(states.Ts_w_b[:1], states.v_w[:1], prior.mean_gyro[None], prior.mean_acc[None])
    return state_prior(0, first, border, std)


def _constants_prior(guess: Guess, choices: Choices, mounting: MountingPrior) -> GaussianPrior:
    """Prior of extrinsics, scale and clock; the clock's counts from what was applied already."""
    std = np.full(BORDER, np.inf)
    std[CAMERA] = mounting.std
    if choices.std_scale > 0.0:
        std[SCALE] = choices.std_scale
    if choices.clock:
        std[CAMERA_CLOCK] = OFFSET_PRIOR.std
    T_b_c = mounting.T_b_c
    if not np.isfinite(mounting.std[3:]).any():
        # A twist from far away is no lever arm: count from the rotation at hand.
        T_b_c = se3(guess.border.T_b_c[:3, :3], T_b_c[:3, 3])
    mean = make_border(
        guess.border.R_w_g,
        T_b_c,
        gravity_norm=float(guess.border.scalars[0]),
        camera_clock_s=OFFSET_PRIOR.mean - guess.offset_s,
    )
    return border_prior(mean, std)


def in_first_camera(states: States, border: Border) -> tuple[States, Border]:
    """The same solution with the first camera as the origin to the last digit."""
    T_c0_w = se3_inv(states.Ts_w_b[0] @ border.T_b_c)
    R_c0_w = T_c0_w[:3, :3]
    moved = states._replace(
        Ts_w_b=np.ascontiguousarray(T_c0_w @ states.Ts_w_b), v_w=states.v_w @ R_c0_w.T
    )
    return moved, border._replace(R_w_g=np.ascontiguousarray(R_c0_w @ border.R_w_g))
