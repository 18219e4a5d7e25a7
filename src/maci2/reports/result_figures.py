"""Pictures of a result: the path with gravity and velocity, residuals, excitation, biases."""

import numpy as np

from maci2.estimation import Posterior, VIState
from maci2.estimation.residuals import COLUMNS, imu_residual, visual_residual
from maci2.imu import ImuMeasurements, preintegrate
from maci2.reports.html import figure
from maci2.reports.svg import COLORS, Series, arrow, bars, chart, picture
from maci2.types import NS, Array, Stamps
from maci2.vision import RelativePoses

SIZE = 420
VELOCITY_S = 0.5
"""Velocity arrows reach where the device would be after so long [s]."""

AXES = "xyz"


def seconds(stamps_ns: Stamps, start_ns: int) -> Array:
    """Time since a start [s]."""
    return np.asarray((stamps_ns - start_ns) / NS, dtype=np.float64)


def path_figure(state: VIState) -> str:
    """The body's path seen from the side of gravity, with velocity and gravity as arrows."""
    down = state.gravity_c0 / np.linalg.norm(state.gravity_c0)
    # The picture's down is gravity; to its right is what of the camera's x axis is level.
    level = np.eye(3)[0] - down[0] * down
    if np.linalg.norm(level) < 0.3:
        level = np.eye(3)[2] - down[2] * down
    level = level / np.linalg.norm(level)
    ahead = np.cross(down, level)
    view = np.stack([level + 0.35 * ahead, down - 0.2 * ahead])
    positions = state.Ts_c0_b[:, :3, 3]
    velocity_c0 = np.einsum("kij,kj->ki", state.Ts_c0_b[:, :3, :3], state.velocity_b)
    ends = positions + VELOCITY_S * velocity_c0
    flat = np.concatenate([positions, ends]) @ view.T
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = 0.72 * SIZE / max(float((high - low).max()), 1e-3)
    centre = (low + high) / 2.0

    def at(points: Array) -> Array:
        return np.asarray(SIZE / 2.0 + scale * (points @ view.T - centre))

    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at(positions))
    body = [f'<polyline points="{path}" fill="none" stroke="var(--ink)" stroke-width="2"/>']
    body += [
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="var(--ink)"/>' for x, y in at(positions)
    ]
    body += [arrow(a, b, COLORS[0]) for a, b in zip(at(positions), at(ends), strict=True)]
    corner = np.array([34.0, 30.0])
    body.append(arrow(corner, corner + np.array([0.0, 46.0]), COLORS[1], "gravity"))
    body.append(_scale_bar(scale))
    return figure(
        picture(SIZE, SIZE, "".join(body)),
        f"Path of the IMU over the keyframes, gravity downwards. Blue arrows: velocity, as far as "
        f"it carries in {VELOCITY_S:g} s.",
    )


def _scale_bar(scale: float) -> str:
    length_m = 10.0 ** np.floor(np.log10(0.5 * SIZE / scale))
    length_m = next(length_m * f for f in (5.0, 2.0, 1.0) if length_m * f * scale < 0.4 * SIZE)
    start = np.array([20.0, SIZE - 18.0])
    label = f"{length_m:g} m" if length_m >= 0.1 else f"{1e3 * length_m:g} mm"
    return (
        f'<line x1="{start[0]}" y1="{start[1]}" x2="{start[0] + scale * length_m:.1f}" '
        f'y2="{start[1]}" stroke="var(--ink)" stroke-width="3"/>'
        f'<text x="{start[0]}" y="{start[1] - 6}">{label}</text>'
    )


def velocity_figure(state: VIState, posterior: Posterior) -> str:
    """Velocity over time with three standard deviations."""
    time_s = seconds(state.stamps_ns, int(state.stamps_ns[0]))
    std = np.sqrt(np.diagonal(posterior.velocity_b, axis1=1, axis2=2))
    series = [
        Series(f"{axis}", time_s, state.velocity_b[:, i], 3.0 * std[:, i])
        for i, axis in enumerate(AXES)
    ]
    return figure(
        chart(series, "time [s]", "velocity_b [m/s]"),
        "Velocity of the body, each in its own body frame, with three standard deviations.",
    )


def residual_figure(state: VIState, vision: RelativePoses, imu: ImuMeasurements) -> str:
    """How far measurements are from the estimate, in their own standard deviations."""
    time_s = seconds(state.stamps_ns[1:], int(state.stamps_ns[0]))
    series = [
        Series("vision", time_s, _visual_sigmas(state, vision), marks=True),
        Series("IMU", time_s, _imu_sigmas(state, imu), marks=True),
        Series("expected", time_s, np.ones(len(time_s))),
    ]
    return figure(
        chart(series, "time [s]", "residual [sigma]"),
        "Root mean square of each whitened residual: about 1 where stated noise and actual error "
        "agree; a pose far above was believed less, or rejected.",
    )


def _visual_sigmas(state: VIState, vision: RelativePoses) -> Array:
    r, J = np.empty(6), np.zeros((6, COLUMNS))
    sigmas = []
    for k, (T_ck_ck1, cov) in enumerate(zip(vision.Ts_ck_ck1, vision.covs_T_ck_ck1, strict=True)):
        visual_residual(T_ck_ck1, state.Ts_c0_b[k], state.Ts_c0_b[k + 1], state.T_b_c, r, J)
        sigmas.append(np.sqrt(r @ np.linalg.solve(cov, r) / 6.0))
    return np.array(sigmas)


def _imu_sigmas(state: VIState, imu: ImuMeasurements) -> Array:
    residual_gyro, residual_acc = state.gyro_bias_residual, state.acc_bias_residual
    pre = preintegrate(imu, state.stamps_ns, residual_gyro, residual_acc)
    r, J, zero = np.empty(9), np.zeros((9, COLUMNS)), np.zeros(3)
    sigmas = []
    for k in range(len(pre.dt)):
        imu_residual(
            float(pre.dt[k]), pre.gamma[k], pre.beta[k], pre.alpha[k], pre.D_bg[k], pre.D_ba[k],
            state.Ts_c0_b[k], state.velocity_b[k], state.Ts_c0_b[k + 1], state.velocity_b[k + 1],
            state.gravity_c0, zero, zero, r, J,
        )  # fmt: skip
        sigmas.append(np.sqrt(r @ np.linalg.solve(pre.cov[k], r) / 9.0))
    return np.array(sigmas)


def excitation_figure(imu: ImuMeasurements, start_ns: int, end_ns: int) -> str:
    """What the IMU felt inside the window: rotation and acceleration make states visible."""
    inside = (imu.stamps_ns >= start_ns) & (imu.stamps_ns <= end_ns)
    step = max(int(inside.sum()) // 600, 1)
    time_s = seconds(imu.stamps_ns[inside][::step], start_ns)
    gyro = np.rad2deg(imu.gyro[inside][::step])
    acc = imu.acc[inside][::step]
    rates = [Series(axis, time_s, gyro[:, i]) for i, axis in enumerate(AXES)]
    forces = [Series(axis, time_s, acc[:, i]) for i, axis in enumerate(AXES)]
    return figure(
        chart(rates, "time [s]", "angular rate [deg/s]"), "Angular rate in the window."
    ) + figure(chart(forces, "time [s]", "specific force [m/s^2]"), "Specific force in the window.")


def bias_figure(imu: ImuMeasurements, posterior: Posterior) -> str:
    """How much the window taught about the biases: spread before and after."""
    prior = imu.bias_prior
    after_gyro = np.sqrt(np.diag(posterior.gyro_bias))
    after_acc = np.sqrt(np.diag(posterior.acc_bias))
    figures = []
    if np.isfinite(prior.std_gyro).all():
        pairs = 1e3 * np.column_stack([prior.std_gyro, after_gyro])
        svg = bars(AXES, pairs, ("prior", "posterior"), "std gyro bias [mrad/s]")
        figures.append(figure(svg, "Gyroscope bias: spread before and after the window."))
    pairs = np.column_stack([prior.std_acc, after_acc])
    svg = bars(AXES, pairs, ("prior", "posterior"), "std acc bias [m/s^2]")
    figures.append(figure(svg, "Accelerometer bias: spread before and after the window."))
    return "".join(figures)
