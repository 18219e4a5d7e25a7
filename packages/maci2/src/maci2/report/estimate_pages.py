"""Reports of estimates: `maci2 init`, `calibrate`, `track` and `demo`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape

import numpy as np

from maci2.consistency.known_state import window_at
from maci2.errors import MeasurementError
from maci2.estimator import CalibrationResult, Posterior, SolverConfig, VIState
from maci2.estimator.residuals import whitened_factors
from maci2.estimator.solver import CAMERA, IMU, covariance
from maci2.geometry import se3_inv, se3_log, so3_log
from maci2.imu import ImuMeasurements
from maci2.metrics.track_errors import TrackErrors, alignment, known_stamps
from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.pipeline.track_recording import RecordedTrack, raw_biases
from maci2.report.charts import (
    AXES,
    WITH_BANDS,
    Series,
    beside_one,
    chart,
    components,
    every_nth,
    imu_figures,
    seconds,
)
from maci2.report.drawings import (
    caption,
    latest_tracks,
    path_drawing,
    path_figure,
    rig_drawing,
    track_figure,
    tracked_image,
)
from maci2.report.html import Section, figure, matrix, page, side_by_side, table, vector, verdict
from maci2.result_output import stds
from maci2.sensors import truth_at
from maci2.sensors.interpolation import nearest_index
from maci2.types import GRAVITY_W, NS, Array
from maci2.vision import RelativePoses

Row = tuple[str, ...]

IN_WINDOW = "Angular rate in the window.", "Specific force in the window."


def _estimate(name: str, values: Array, std: Array, digits: int, scale: float = 1.0) -> Row:
    """Row of a table: a vector and its standard deviations."""
    return name, vector(scale * values, digits), vector(scale * std, digits, signed=False)


def init_page(result: InitializedRecording, command: str) -> str:
    """HTML of one initialization."""
    stamps_ns, report = result.window.stamps_ns, result.report
    found = (
        f"{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / 1e9:.2f} s from "
        f"{stamps_ns[0]} ns on; camera motion from {result.inputs.source}. Chi-square "
        f"{report.cost:.1f} for {report.dof} degrees of freedom; {report.rejected} relative "
        f"poses rejected; solved in {report.iterations} steps and {report.solve_ms:.1f} ms."
    )
    lead = f"{verdict(result.verdict)}{estimate_table(result)}<p>{escape(found)}</p>"
    title = f"Initialization: {result.inputs.recording.name}"
    options = result.inputs.options.as_dict()
    return page(title, lead, init_sections(result), command, options=options)


def estimate_table(result: InitializedRecording) -> str:
    """Estimate, 1-sigma and, if there is ground truth, the error."""
    state, posterior, errors = result.state, result.posterior, result.errors
    if state is None or posterior is None:
        return "<p>No state was estimated.</p>"
    velocity, std_velocity = state.velocity_b[-1], stds(posterior.velocity_b[-1])
    gravity = vector(state.gravity_c0, 4)
    rows = [
        ("gravity in the first camera frame [m/s²]", gravity, f"{result.gravity_std_deg:.3f} deg"),
        _estimate("velocity of the body at the last keyframe [m/s]", velocity, std_velocity, 4),
        _estimate("gyroscope bias [rad/s]", state.gyro_bias, stds(posterior.gyro_bias), 5),
        _estimate("accelerometer bias [m/s²]", state.acc_bias, stds(posterior.acc_bias), 4),
    ]
    columns = ["state", "estimate (x, y, z)", "1-sigma"]
    if errors is not None:
        columns.append("error")
        rmse, bias_pct = errors.velocity_rmse, errors.gyro_bias_pct
        shown = (
            f"{errors.gravity_deg:.3f} deg",
            "–" if rmse is None else f"{rmse:.4f} m/s rms over keyframes",
            "–" if bias_pct is None else f"{bias_pct:.2f} % of its norm",
            "–",
        )
        rows = [(*row, error) for row, error in zip(rows, shown, strict=True)]
    return table(columns, rows)


def init_sections(result: InitializedRecording) -> list[Section]:
    """Pictures of one initialization."""
    inputs, state, posterior = result.inputs, result.state, result.posterior
    stamps_ns = result.window.stamps_ns
    sections = []
    if state is not None and posterior is not None:
        time_s = seconds(stamps_ns, int(stamps_ns[0]))
        text = "Velocity of the body, each in its own body frame, with three standard deviations."
        band = 3.0 * stds(posterior.velocity_b)
        velocity = components(time_s, state.velocity_b, "velocity [m/s]", text, band)
        sections.append(Section("Motion", side_by_side(path_figure(state), velocity)))
    if inputs.vision.odometry is not None and not result.report.time_offset_s:
        tracked = latest_tracks(inputs.vision.odometry, int(stamps_ns[-1]))
        sections.append(Section("Images", track_figure(tracked)))
    if state is not None and posterior is not None:
        imu = inputs.imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
        parts = [imu_figures(imu, *IN_WINDOW), bias_figure(imu, posterior)]
        if not result.report.time_offset_s:
            vision = inputs.vision.motion(stamps_ns, result.window.index)
            ratios = normalized_residuals(state, vision, imu, result.report.inflation)
            text = (
                "Root mean square of all residuals between two keyframes, over what the stated "
                "noise leaves of them after the fit: about 1 where noise is as stated."
            )
            shown = {"vision and IMU": ratios}
            parts.insert(0, beside_one(time_s[1:], shown, "expected", "residual / expected", text))
        title = "Residuals, excitation, and what the window added to the prior"
        sections.append(Section(title, side_by_side(*parts)))
    return sections


def visual_residual_figure(state: VIState, vision: RelativePoses) -> str:
    """Residuals of relative poses, in their own standard deviations."""
    time_s = seconds(state.stamps_ns[1:], int(state.stamps_ns[0]))
    Ts_c0_c = state.Ts_c0_b @ state.T_b_c
    away = vision.Ts_ck_ck1 @ np.linalg.inv(Ts_c0_c[1:]) @ Ts_c0_c[:-1]
    whitened = np.array([se3_log(T) for T in away]) / stds(vision.covs_T_ck_ck1)
    rms = np.sqrt((whitened.reshape(-1, 2, 3) ** 2).mean(axis=2))
    sigmas = np.where(vision.measured[:, None], rms, np.nan)
    residuals = {"translation": sigmas[:, 0], "rotation": sigmas[:, 1]}
    caption = (
        "Residual of each relative pose, root mean square over three axes, in its own standard "
        "deviations: about 1, or less where the estimate follows the camera."
    )
    return beside_one(time_s, residuals, "stated noise", "residual [sigma]", caption)


def bias_figure(imu: ImuMeasurements, posterior: Posterior) -> str:
    """Standard deviations of the biases before and after the window."""
    figures = []
    for sensor, prior, cov, scale, unit in (
        ("Gyroscope", imu.bias_prior.std_gyro, posterior.gyro_bias, 1e3, "mrad/s"),
        ("Accelerometer", imu.bias_prior.std_acc, posterior.acc_bias, 1.0, "m/s²"),
    ):
        if np.isfinite(prior).all():
            before, after, axes = scale * prior, scale * stds(cov), np.arange(3.0)
            marks = [
                Series("prior", axes - 0.1, before, marks=True),
                Series("posterior", axes + 0.1, after, marks=True),
            ]
            svg = chart(marks, "", f"1-sigma [{unit}]", from_zero=True, names=AXES)
            numbers = [vector(std, 3, signed=False) for std in (before, after)]
            text = (
                f"{sensor} bias: 1-sigma before ({numbers[0]}) and after the window ({numbers[1]})."
            )
            figures.append(figure(svg, text))
    return "".join(figures)


LEAST_LEFT = 0.02
"""Fraction of a residual's variance below which the estimate merely follows the measurement."""

CONFIG = SolverConfig(tracked_vertical=False)


def normalized_residuals(
    state: VIState, vision: RelativePoses, imu: ImuMeasurements, inflation: float = 1.0
) -> Array:
    """(n - 1,) ratio of the root mean square of all residuals between two keyframes to its
    expectation; NaN if that is zero. `inflation` is the factor on the variances."""
    solution = window_at(imu, vision, state, CONFIG, inflation)
    squares, redundancy, counts = np.zeros((3, len(state.stamps_ns) - 1))
    try:
        posterior = covariance(solution)
    except MeasurementError:
        return np.full(len(squares), np.nan)
    for kind in (IMU, CAMERA):
        factors = whitened_factors(solution, posterior, kind)
        measured = vision.measured[factors.index] | (kind == IMU)
        index = factors.index[measured]
        np.add.at(squares, index, np.sum(factors.white[measured] ** 2, axis=1))
        np.add.at(redundancy, index, factors.redundancy[measured].sum(axis=1))
        np.add.at(counts, index, factors.white.shape[1])
    known = redundancy > LEAST_LEFT * counts
    return np.sqrt(np.where(known, squares / np.where(known, redundancy, 1.0), np.nan))


def calibration_page(result: CalibratedRecording, command: str) -> str:
    """HTML of one calibration."""
    lead = verdict(result.verdict) + extrinsics_table(result)
    if result.state is not None:
        stamps_ns, report = result.state.stamps_ns, result.report
        lead += (
            f"<p>{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / NS:.1f} s; "
            f"camera motion from {escape(str(result.inputs.source))}. Chi-square "
            f"{report.cost:.0f} for {report.dof} degrees of freedom; {report.rejected} relative "
            "poses rejected.</p>"
        )
    title = f"Calibration: {result.inputs.recording.name}"
    options = result.inputs.options.as_dict()
    return page(title, lead, calibration_sections(result), command, options=options)


def extrinsics_table(result: CalibratedRecording, stated_name: str = "recording's own") -> str:
    """Extrinsics of the left camera with 1-sigma, beside the specified ones if any."""
    rig, stated = result.rig, result.inputs.recording.rig
    if rig is None or result.posterior is None:
        return "<p>No extrinsics were estimated.</p>"
    std = stds(result.posterior.T_b_c)
    T_b_c0, T_nominal = rig.cameras[0].T_b_c, stated.cameras[0].T_b_c
    position, rotation = "position of the left camera on the IMU [mm]", so3_log(T_b_c0)
    rows = [
        _estimate(position, T_b_c0[:3, 3], std[:3], 1, scale=1e3),
        ("its rotation, as a rotation vector [deg]", vector(np.rad2deg(rotation), 2),
         vector(np.rad2deg(std[3:]), 3, signed=False)),
    ]  # fmt: skip
    std_offset_s = result.report.std_time_offset_s
    if std_offset_s:
        offset_ms = f"{1e3 * rig.time_offset_s:+.2f}"
        rows.append(("t_imu - t_camera [ms]", offset_ms, f"{1e3 * std_offset_s:.2f}"))
    columns = ["quantity", "estimate (x, y, z)", "1-sigma"]
    if stated.extrinsics_known:
        columns.append(f"minus the {stated_name}")
        differences = (
            vector(1e3 * (T_b_c0[:3, 3] - T_nominal[:3, 3]), 1),
            vector(np.rad2deg(so3_log(T_b_c0[:3, :3] @ T_nominal[:3, :3].T)), 3),
            f"{1e3 * (rig.time_offset_s - stated.time_offset_s):+.2f}",
        )
        rows = [(*row, change) for row, change in zip(rows, differences, strict=False)]
    return table(columns, rows)


def calibration_sections(result: CalibratedRecording) -> list[Section]:
    """Pictures and matrices of one calibration."""
    inputs = result.inputs
    rig = result.rig or inputs.recording.rig
    matrices = "".join(
        f"<h3>c{i}</h3><p>T_b_c{i}: pose of the camera in the body; takes camera coordinates to "
        f"IMU coordinates (Kalibr's T_imu_cam).</p>{matrix(camera.T_b_c)}"
        f"<p>T_c{i}_b: its inverse (Kalibr's T_cam_imu).</p>{matrix(se3_inv(camera.T_b_c))}"
        for i, camera in enumerate(rig.cameras)
    )
    sections = [Section("The rig", side_by_side(rig_drawing(rig), f"<div>{matrices}</div>"))]
    state = result.state
    if state is None:
        return sections
    start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
    parts = [path_figure(state), visual_residual_figure(state, _camera_motion(result))]
    parts.append(imu_figures(inputs.imu.between(start_ns, end_ns), *IN_WINDOW))
    if len(result.progress) > 1:
        sections.append(Section("What each stretch added", progress_figures(result)))
    return [*sections, Section("The motion it was found from", side_by_side(*parts))]


def _camera_motion(result: CalibratedRecording) -> RelativePoses:
    """Relative poses of vision between the keyframes, with the estimated scale."""
    assert result.state is not None
    inputs = result.inputs
    # Keyframes are on the IMU's clock as far as it was estimated; images are where they were.
    offset_ns = round((result.report.time_offset_s or 0.0) * NS)
    images_ns = inputs.candidates_ns()
    nearest = nearest_index(images_ns, result.state.stamps_ns - offset_ns)
    vision = inputs.vision.motion(images_ns[nearest], 0)
    Ts_ck_ck1 = vision.Ts_ck_ck1.copy()
    Ts_ck_ck1[:, :3, 3] *= result.report.scale or 1.0
    return replace(vision, Ts_ck_ck1=Ts_ck_ck1)


def progress_figures(result: CalibrationResult) -> str:
    """Standard deviations and estimates of the extrinsics as more of the recording is used."""
    used_s, std, moved = (
        np.array([getattr(stage, field) for stage in result.progress])
        for field in ("seconds", "std", "moved")
    )
    figures = []
    for what, part, scale, unit in (
        ("position", slice(0, 3), 1e3, "mm"),
        ("rotation", slice(3, 6), 180.0 / np.pi, "deg"),
    ):
        text = (
            f"The camera's {what} had the recording ended there, minus the final one. Bands: "
            "one standard deviation."
        )
        values, band = scale * moved[:, part], scale * std[:, part]
        length = "length of the recording used [s]"
        label = f"{what} [{unit}]"
        figures.append(components(used_s, values, label, text, band, x_label=length))
    return side_by_side(*figures)


MAX_TRUTH_GAP_S = 0.1


def track_page(tracked: RecordedTrack, options: dict[str, object], command: str) -> str:
    """HTML of one track; `options` are all options by name."""
    states, status = tracked.at_images, tracked.verdict.status
    health = Counter(state.health for state in states)
    counts = ", ".join(
        f"{name} at {health[name]} images"
        for name in ("tracking", "bridging", "lost")
        if name in health
    )
    steps = np.diff([state.T_w_b[:3, 3] for state in states], axis=0)
    kind = "smoothed as a whole" if tracked.batch else "each from earlier measurements only"
    lead = (
        f"{verdict(tracked.verdict)}<p class='first {status}'>{counts}</p>{_last_state(tracked)}"
        f"<p>{len(states)} states over {(states[-1].stamp_ns - states[0].stamp_ns) / NS:.1f} s and "
        f"{np.linalg.norm(steps, axis=1).sum():.1f} m, {kind}. The world's z axis points up; "
        "positions count from the first keyframe.</p>"
    )
    if tracked.errors is not None:
        lead += _errors(tracked.errors)
    name = tracked.inputs.recording.name
    return page(f"Track: {name}", lead, _sections(tracked), command, options=options)


def _last_state(tracked: RecordedTrack) -> str:
    """State at the last image with its standard deviations."""
    last = tracked.at_images[-1]
    std = stds(last.cov)
    gyro, acc = (values[-1] for values in raw_biases(tracked.inputs, tracked.at_images))
    rotation, std_deg = np.rad2deg(so3_log(last.T_w_b)), np.rad2deg(std[:3])
    rows = [
        _estimate("position in the world [m]", last.T_w_b[:3, 3], std[6:9], 3),
        _estimate("velocity in the world [m/s]", last.v_w, std[3:6], 3),
        ("orientation, rotation vector [deg]", vector(rotation, 2), vector(std_deg, 3, False)),
        _estimate("gyroscope bias [rad/s]", gyro, std[9:12], 5),
        _estimate("accelerometer bias [m/s²]", acc, std[12:15], 3),
    ]
    return table(("at the last image", "estimate (x, y, z)", "1-sigma"), rows)


def _errors(errors: TrackErrors) -> str:
    rows = [("absolute trajectory error", f"{errors.ate_m:.4f} m rms", "–")]
    for horizon, (rms, median) in errors.relative_m.items():
        if np.isfinite(rms):
            name = f"displacement over {horizon:g} s"
            rows.append((name, f"{rms:.4f} m rms, {median:.4f} m median", "–"))
    for name, error, key in (
        ("direction of gravity", f"{errors.gravity_deg:.3f} deg", "gravity"),
        ("velocity", f"{errors.velocity_rmse:.4f} m/s rms", "velocity"),
        ("gyroscope bias", "–", "gyro_bias"),
    ):
        nees = errors.nees.get(key, np.nan)
        rows.append((name, error, f"{nees:.2f}" if np.isfinite(nees) else "–"))
    return table(("against ground truth", "error", "NEES per degree of freedom"), rows)


def _sections(tracked: RecordedTrack) -> list[Section]:
    every = every_nth(len(tracked.at_images))
    states = tracked.at_images[::every]
    stamps_ns = np.array([state.stamp_ns for state in states])
    time_s = seconds(stamps_ns, int(stamps_ns[0]))
    positions = np.array([state.T_w_b[:3, 3] for state in states])
    velocity = np.array([state.v_w for state in states])
    std = stds(np.array([state.cov for state in states]))
    gyro, acc = (values[::every] for values in raw_biases(tracked.inputs, tracked.at_images))
    height = Series("height", time_s, positions[:, 2], 3.0 * std[:, 8])
    height_text = "Height over time. Band: three standard deviations."
    true_positions, path_text = _true_positions(tracked), caption("states")
    if true_positions is not None:
        path_text += " Grey: ground truth, aligned by rotation and translation."
    path = path_drawing(positions, velocity, GRAVITY_W, true_positions)
    motion = side_by_side(
        figure(path, path_text), figure(chart([height], "time [s]", "z [m]"), height_text)
    )
    growth = "Standard deviation of position, relative to the start: without a map it grows."
    over_time = [
        components(time_s, values, label, f"{what} {WITH_BANDS}", 3.0 * sigmas)
        for values, sigmas, label, what in (
            (velocity, std[:, 3:6], "v_w [m/s]", "Velocity in the world."),
            (gyro, std[:, 9:12], "gyro bias [rad/s]", "Gyroscope bias."),
            (acc, std[:, 12:15], "acc bias [m/s²]", "Accelerometer bias."),
        )
    ]
    drift = components(time_s, std[:, 6:9], "sigma of position [m]", growth, from_zero=True)
    sections = [
        Section("Path", motion),
        Section("States", side_by_side(over_time[0], drift, *over_time[1:])),
        Section("Relative poses against the IMU", _keyframes(tracked)),
    ]
    odometry = tracked.inputs.vision.odometry
    if odometry is not None:
        first_ns, last_ns = (int(stamp) for stamp in tracked.vision.stamps_ns[-2:])
        image = track_figure(tracked_image(odometry, first_ns, last_ns))
        sections.insert(1, Section("Images", image))
    return sections


def _true_positions(tracked: RecordedTrack) -> Array | None:
    """(m, 3) positions of the ground truth in the track's world; None without ground truth."""
    truth = tracked.inputs.truth
    if truth is None:
        return None
    stamps_ns = np.array([state.stamp_ns for state in tracked.at_images])
    known = known_stamps(truth, stamps_ns)
    if known.sum() < 3:
        return None
    positions = np.array([state.T_w_b[:3, 3] for state in tracked.at_images])[known]
    true_positions = truth_at(truth, stamps_ns[known], MAX_TRUTH_GAP_S).Ts_w_b[:, :3, 3]
    R, t, _ = alignment(true_positions, positions)
    return np.asarray((true_positions @ R.T + t)[:: every_nth(len(positions))])


def _keyframes(tracked: RecordedTrack) -> str:
    start_ns, keyframes = tracked.at_images[0].stamp_ns, tracked.keyframes
    measured = [
        ((keyframe.stamp_ns - start_ns) / NS, max(keyframe.innovation, 1e-3))
        for keyframe in keyframes
        if keyframe.innovation is not None
    ]
    body = ""
    if measured:
        time_s, chi2 = np.array(measured).T
        text = (
            "Chi-square per degree of freedom of each relative pose against the IMU's prediction."
        )
        label, residuals = "chi-square / dof", {"relative pose": chi2}
        body = beside_one(time_s, residuals, "expected", label, text, is_log=True)
    rows = [(f"{(k.stamp_ns - start_ns) / NS:.2f}", k.reason) for k in keyframes if k.reason]
    unused = table(("time [s]", "not used because"), rows) if rows else "<p>All were used.</p>"
    return side_by_side(body, f"<div>{unused}</div>")


STATES = {
    "gravity": "gravity direction",
    "velocity": "velocity",
    "pose": "poses",
    "gyro_bias": "gyroscope bias",
}


def demo_page(
    initialization: InitializedRecording,
    calibration: CalibratedRecording,
    nees: dict[str, float],
    windows: int,
    consistency: Sequence[str],
    command: str,
) -> str:
    """HTML of a whole demo."""
    lead = (
        "<p class='lead'>A stereo camera and an IMU were simulated in a synthetic room, and "
        "initialized and calibrated from their images and samples alone. Their true states are "
        "known, so every estimate is shown with its stated uncertainty and its actual error.</p>"
        f"<h3>Initialization, 2.5 s</h3>{verdict(initialization.verdict)}"
        f"{estimate_table(initialization)}"
        f"<h3>Calibration without initial guess</h3>{verdict(calibration.verdict)}"
        f"{extrinsics_table(calibration, 'true one')}"
    )
    rows = [(STATES.get(name, name), f"{value:.2f}") for name, value in nees.items()]
    scores = table(("state", "NEES per degree of freedom, 1 is consistent"), rows)
    text = (
        f"Predicted standard deviation against actual error on {windows} simulated windows, in "
        "equally filled bins; on the dashed line they are equal."
    )
    charts = figure(side_by_side(*consistency), text)
    sections = [
        *init_sections(initialization),
        *calibration_sections(calibration),
        Section("Does the stated uncertainty equal the actual error?", scores + charts),
        Section(
            "Files",
            "<p><code>init.json</code> and <code>calibration.json</code> hold every number with "
            "its standard deviation; <code>camchain-imucam.yaml</code> is the calibration in "
            "Kalibr's format.</p>",
        ),
    ]
    return page("maci2 demo", lead, sections, command)
