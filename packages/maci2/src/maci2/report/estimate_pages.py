"""Reports of estimates: `maci2 init`, `calibrate`, `track` and `demo`."""

from dataclasses import replace
from html import escape

import numpy as np

from maci2.estimator import CalibrationResult
from maci2.geometry import se3_inv, so3_log
from maci2.metrics.track_errors import TrackErrors, alignment, known_stamps
from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
from maci2.pipeline.track_recording import RecordedTrack, raw_biases
from maci2.report.charts import Series, chart
from maci2.report.drawings import (
    caption,
    latest_tracks,
    path_drawing,
    path_figure,
    rig_drawing,
    track_figure,
    tracked_image,
)
from maci2.report.figures import (
    bands,
    bias_figure,
    every_nth,
    excitation_figure,
    residual_figure,
    spreads,
    velocity_figure,
    visual_residual_figure,
)
from maci2.report.html import Section, figure, matrix, page, side_by_side, table, vector, verdict
from maci2.result_output import stds
from maci2.sensors import truth_at
from maci2.sensors.interpolation import nearest_index
from maci2.types import GRAVITY_NORM, NS, Array
from maci2.vision import RelativePoses


def init_page(result: InitializedRecording, command: str) -> str:
    """HTML of one initialization."""
    lead = verdict(result.verdict.status, result.verdict.reasons)
    lead += f"{estimate_table(result)}<p>{escape(_what(result))}</p>"
    sections = init_sections(result)
    title = f"Initialization: {result.inputs.recording.name}"
    return page(title, lead, sections, command, options=result.inputs.options.as_dict())


def _what(result: InitializedRecording) -> str:
    stamps_ns, report = result.window.stamps_ns, result.report
    return (
        f"{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / 1e9:.2f} s from "
        f"{stamps_ns[0]} ns on; camera motion from {result.inputs.source}. Chi-square "
        f"{report.cost:.1f} for {report.dof} degrees of freedom; {report.rejected} relative "
        f"poses rejected; solved in {report.iterations} steps and {report.solve_ms:.1f} ms."
    )


def estimate_table(result: InitializedRecording) -> str:
    """Estimate, 1-sigma and, if there is ground truth, the error."""
    state, posterior, errors = result.state, result.posterior, result.errors
    if state is None or posterior is None:
        return "<p>No state was estimated.</p>"
    last = len(state.stamps_ns) - 1
    rows: list[tuple[str, ...]] = [
        ("gravity in the first camera frame [m/s²]", vector(state.gravity_c0, 4),
         f"{result.gravity_std_deg:.3f} deg"),
        ("velocity of the body at the last keyframe [m/s]", vector(state.velocity_b[last], 4),
         vector(stds(posterior.velocity_b[last]), 4, signed=False)),
        ("gyroscope bias [rad/s]", vector(state.gyro_bias, 5),
         vector(stds(posterior.gyro_bias), 5, signed=False)),
        ("accelerometer bias [m/s²]", vector(state.acc_bias, 4),
         vector(stds(posterior.acc_bias), 4, signed=False)),
    ]  # fmt: skip
    columns = ["state", "estimate (x, y, z)", "1-sigma"]
    if errors is not None:
        columns.append("error")
        shown = (
            f"{errors.gravity_deg:.3f} deg",
            "–"
            if errors.velocity_rmse is None
            else f"{errors.velocity_rmse:.4f} m/s rms over keyframes",
            "–" if errors.gyro_bias_pct is None else f"{errors.gyro_bias_pct:.2f} % of its norm",
            "–",
        )
        rows = [(*row, error) for row, error in zip(rows, shown, strict=True)]
    return table(columns, rows, stacked=True)


def init_sections(result: InitializedRecording) -> list[Section]:
    """Pictures of one initialization."""
    inputs, state, posterior = result.inputs, result.state, result.posterior
    stamps_ns = result.window.stamps_ns
    sections = []
    if state is not None and posterior is not None:
        pictures = side_by_side(path_figure(state), velocity_figure(state, posterior))
        sections.append(Section("Motion", pictures))
    if inputs.vision.odometry is not None and not result.report.time_offset_s:
        tracked = latest_tracks(inputs.vision.odometry, int(stamps_ns[-1]))
        sections.append(Section("Images", track_figure(tracked)))
    if state is not None and posterior is not None:
        imu = inputs.imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
        parts = [excitation_figure(imu, int(stamps_ns[0]), int(stamps_ns[-1]))]
        if not result.report.time_offset_s:
            vision = inputs.vision.motion(stamps_ns, result.window.index)
            inflation = result.report.inflation
            parts.insert(0, residual_figure(state, vision, imu, inflation))
        parts.append(bias_figure(imu, posterior))
        title = "Residuals, excitation, and what the window added to the prior"
        sections.append(Section(title, side_by_side(*parts)))
    return sections


def calibration_page(result: CalibratedRecording, command: str) -> str:
    """HTML of one calibration."""
    lead = verdict(result.verdict.status, result.verdict.reasons)
    lead += extrinsics_table(result)
    if result.state is not None:
        stamps_ns, report = result.state.stamps_ns, result.report
        lead += (
            f"<p>{len(stamps_ns)} keyframes over {(stamps_ns[-1] - stamps_ns[0]) / NS:.1f} s; "
            f"camera motion from {escape(str(result.inputs.source))}. Chi-square "
            f"{report.cost:.0f} for {report.dof} degrees of freedom; {report.rejected} relative "
            "poses rejected.</p>"
        )
    sections = calibration_sections(result)
    title = f"Calibration: {result.inputs.recording.name}"
    return page(title, lead, sections, command, options=result.inputs.options.as_dict())


def extrinsics_table(result: CalibratedRecording, stated_name: str = "recording's own") -> str:
    """Extrinsics of the left camera with 1-sigma, beside the specified ones if any."""
    rig, stated = result.rig, result.inputs.recording.rig
    if rig is None or result.posterior is None:
        return "<p>No extrinsics were estimated.</p>"
    std = stds(result.posterior.T_b_c)
    T_b_c0, T_nominal = rig.cameras[0].T_b_c, stated.cameras[0].T_b_c
    rotation_deg = np.rad2deg(so3_log(np.ascontiguousarray(T_b_c0[:3, :3])))
    rows = [
        ["position of the left camera on the IMU [mm]", vector(1e3 * T_b_c0[:3, 3], 1),
         vector(1e3 * std[:3], 1, signed=False)],
        ["its rotation, as a rotation vector [deg]", vector(rotation_deg, 2),
         vector(np.rad2deg(std[3:]), 3, signed=False)],
    ]  # fmt: skip
    report = result.report
    if report.std_time_offset_s:
        offset_ms = f"{1e3 * rig.time_offset_s:+.2f}"
        rows.append(["t_imu - t_camera [ms]", offset_ms, f"{1e3 * report.std_time_offset_s:.2f}"])
    columns = ["quantity", "estimate (x, y, z)", "1-sigma"]
    if stated.extrinsics_known:
        columns.append(f"minus the {stated_name}")
        R_difference = np.ascontiguousarray(T_b_c0[:3, :3] @ T_nominal[:3, :3].T)
        rows[0].append(vector(1e3 * (T_b_c0[:3, 3] - T_nominal[:3, 3]), 1))
        rows[1].append(vector(np.rad2deg(so3_log(R_difference)), 3))
        for row in rows[2:]:
            row.append(f"{1e3 * (rig.time_offset_s - stated.time_offset_s):+.2f}")
    return table(columns, rows, stacked=True)


def calibration_sections(result: CalibratedRecording) -> list[Section]:
    """Pictures and matrices of one calibration."""
    inputs = result.inputs
    rig = result.rig or inputs.recording.rig
    matrices = "".join(_camera(i, camera.T_b_c) for i, camera in enumerate(rig.cameras))
    sections = [Section("The rig", side_by_side(rig_drawing(rig), f"<div>{matrices}</div>"))]
    state = result.state
    if state is None:
        return sections
    start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
    parts = [path_figure(state), visual_residual_figure(state, _camera_motion(result))]
    parts.append(excitation_figure(inputs.imu.between(start_ns, end_ns), start_ns, end_ns))
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
    return replace(vision, Ts_ck_ck1=_with_scale(vision.Ts_ck_ck1, result.report.scale or 1.0))


def _with_scale(Ts: Array, scale: float) -> Array:
    scaled = Ts.copy()
    scaled[:, :3, 3] *= scale
    return scaled


def progress_figures(result: CalibrationResult) -> str:
    """Standard deviations and estimates of the extrinsics as more of the recording is used."""
    seconds = np.array([stage.seconds for stage in result.progress])
    std = np.array([stage.std for stage in result.progress])
    moved = np.array([stage.moved for stage in result.progress])
    figures = []
    for what, part, scale, unit in (
        ("position", slice(0, 3), 1e3, "mm"),
        ("rotation", slice(3, 6), 180.0 / np.pi, "deg"),
    ):
        series = [
            Series(axis, seconds, scale * moved[:, part][:, i], scale * std[:, part][:, i])
            for i, axis in enumerate("xyz")
        ]
        figures.append(
            figure(
                chart(series, "length of the recording used [s]", f"{what} [{unit}]"),
                f"The camera's {what} had the recording ended there, minus the final one. Bands: "
                "one standard deviation.",
            )
        )
    return side_by_side(*figures)


def _camera(number: int, T_b_c: Array) -> str:
    return (
        f"<h3>c{number}</h3><p>T_b_c{number}: pose of the camera in the body; takes camera "
        f"coordinates to IMU coordinates (Kalibr's T_imu_cam).</p>{matrix(T_b_c)}"
        f"<p>T_c{number}_b: its inverse (Kalibr's T_cam_imu).</p>"
        f"{matrix(se3_inv(np.ascontiguousarray(T_b_c)))}"
    )


MAX_TRUTH_GAP_S = 0.1


def track_page(tracked: RecordedTrack, options: dict[str, object], command: str) -> str:
    """HTML of one track; `options` are all options by name."""
    states = tracked.at_images
    worst = {state.health for state in states}
    counts = ", ".join(
        f"{name} at {sum(state.health == name for state in states)} images"
        for name in ("tracking", "bridging", "lost")
        if name in worst
    )
    steps = np.diff([state.T_w_b[:3, 3] for state in states], axis=0)
    kind = "smoothed as a whole" if tracked.batch else "each from earlier measurements only"
    lead = (
        f"{verdict(tracked.verdict.status, tracked.verdict.reasons)}"
        f"<p class='first {tracked.verdict.status}'>{counts}</p>{_last_state(tracked)}"
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
    rotation = np.rad2deg(so3_log(np.ascontiguousarray(last.T_w_b[:3, :3])))
    rows = [
        ("position in the world [m]", vector(last.T_w_b[:3, 3], 3), _std(std[6:9], 3)),
        ("velocity in the world [m/s]", vector(last.v_w, 3), _std(std[3:6], 3)),
        ("orientation, rotation vector [deg]", vector(rotation, 2), _std(np.rad2deg(std[:3]), 3)),
        ("gyroscope bias [rad/s]", vector(gyro, 5), _std(std[9:12], 5)),
        ("accelerometer bias [m/s²]", vector(acc, 3), _std(std[12:15], 3)),
    ]
    columns = ("at the last image", "estimate (x, y, z)", "1-sigma")
    return table(columns, rows, stacked=True)


def _std(values: Array, digits: int) -> str:
    return vector(values, digits, signed=False)


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
    columns = ("against ground truth", "error", "NEES per degree of freedom")
    return table(columns, rows, stacked=True)


def _sections(tracked: RecordedTrack) -> list[Section]:
    states = tracked.at_images
    every = every_nth(len(states))
    shown = states[::every]
    time_s = np.array([(state.stamp_ns - states[0].stamp_ns) / NS for state in shown])
    positions = np.array([state.T_w_b[:3, 3] for state in shown])
    std = np.sqrt(np.array([np.diag(state.cov) for state in shown]))
    velocity = np.array([state.v_w for state in shown])
    gyro, acc = (values[::every] for values in raw_biases(tracked.inputs, tracked.at_images))
    height = Series("height", time_s, positions[:, 2], 3.0 * std[:, 8])
    motion = side_by_side(
        _path(tracked, positions, velocity),
        figure(
            chart([height], "time [s]", "z [m]"),
            "Height over time. Band: three standard deviations.",
        ),
    )
    images = _image(tracked)
    return [
        Section("Path", motion),
        *([Section("Images", images)] if images else []),
        Section(
            "States",
            side_by_side(
                bands(time_s, velocity, std[:, 3:6], "v_w [m/s]", "Velocity in the world."),
                spreads(
                    time_s, std[:, 6:9], "sigma of position [m]",
                    "Standard deviation of position, relative to the start: without a map it "
                    "grows.",
                ),
                bands(time_s, gyro, std[:, 9:12], "gyro bias [rad/s]", "Gyroscope bias."),
                bands(time_s, acc, std[:, 12:15], "acc bias [m/s²]", "Accelerometer bias."),
            ),
        ),
        Section("Relative poses against the IMU", _keyframes(tracked)),
    ]  # fmt: skip


def _path(tracked: RecordedTrack, positions: Array, velocity: Array) -> str:
    down = np.array([0.0, 0.0, -GRAVITY_NORM])
    true_positions = _true_positions(tracked)
    text = caption("states")
    if true_positions is not None:
        text += " Grey: ground truth, aligned by rotation and translation."
    return figure(path_drawing(positions, velocity, down, true_positions), text)


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


def _image(tracked: RecordedTrack) -> str:
    """Image of the last keyframe with its points; empty if motion is not from images."""
    odometry = tracked.inputs.vision.odometry
    if odometry is None:
        return ""
    first_ns, last_ns = (int(stamp) for stamp in tracked.vision.stamps_ns[-2:])
    return track_figure(tracked_image(odometry, first_ns, last_ns))


def _keyframes(tracked: RecordedTrack) -> str:
    keyframes = tracked.keyframes
    start_ns = tracked.at_images[0].stamp_ns
    measured = [keyframe for keyframe in keyframes if keyframe.innovation is not None]
    time_s = np.array([(keyframe.stamp_ns - start_ns) / NS for keyframe in measured])
    chi2 = np.array([keyframe.innovation for keyframe in measured], dtype=float)
    body = ""
    if len(measured):
        series = [
            Series("relative pose", time_s, np.maximum(chi2, 1e-3), marks=True),
            Series("expected", time_s, np.ones(len(time_s)), dashed=True),
        ]
        body = figure(
            chart(series, "time [s]", "chi-square / dof", logarithmic=(False, True)),
            "Chi-square per degree of freedom of each relative pose against the IMU's prediction.",
        )
    rows = [
        (f"{(keyframe.stamp_ns - start_ns) / NS:.2f}", keyframe.reason)
        for keyframe in keyframes
        if keyframe.reason
    ]
    listed = "<p>All were used.</p>"
    if rows:
        listed = table(("time [s]", "not used because"), rows, stacked=True)
    return side_by_side(body, f"<div>{listed}</div>")


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
    consistency_svg: str,
    command: str,
) -> str:
    """HTML of a whole demo."""
    first, second = initialization.verdict, calibration.verdict
    lead = (
        "<p class='lead'>A stereo camera and an IMU were simulated in a synthetic room, and "
        "initialized and calibrated from their images and samples alone. Their true states are "
        "known, so every estimate is shown with its stated uncertainty and its actual error.</p>"
        f"<h3>Initialization, 2.5 s</h3>{verdict(first.status, first.reasons)}"
        f"{estimate_table(initialization)}"
        f"<h3>Calibration without initial guess</h3>{verdict(second.status, second.reasons)}"
        f"{extrinsics_table(calibration, 'true one')}"
    )
    rows = [(STATES.get(name, name), f"{value:.2f}") for name, value in nees.items()]
    consistency = table(
        ("state", "NEES per degree of freedom, 1 is consistent"), rows, stacked=True
    ) + figure(
        consistency_svg,
        f"Predicted standard deviation against actual error on {windows} simulated windows, in "
        "equally filled bins; on the dashed line they are equal.",
    )
    sections = [
        *init_sections(initialization),
        *calibration_sections(calibration),
        Section("Does the stated uncertainty equal the actual error?", consistency),
        Section(
            "Files",
            "<p><code>init.json</code> and <code>calibration.json</code> hold every number with "
            "its standard deviation; <code>camchain-imucam.yaml</code> is the calibration in "
            "Kalibr's format.</p>",
        ),
    ]
    return page("maci2 demo", lead, sections, command)
