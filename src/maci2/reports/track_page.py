"""Report of `maci2 track --report`: the path, sigma bands, biases, and rejected measurements."""

import numpy as np

from maci2.estimation.result_output import stds
from maci2.evaluation.track_errors import TrackErrors, alignment, known_stamps
from maci2.lie import so3_log
from maci2.pipeline.track_files import raw_biases
from maci2.pipeline.track_recording import RecordedTrack
from maci2.reports.html import Section, figure, page, side_by_side, table, vector, verdict
from maci2.reports.path_drawing import caption, path_drawing
from maci2.reports.state_figures import bands, every_nth, spreads
from maci2.reports.svg import Series, chart
from maci2.reports.track_picture import track_figure, tracked_image
from maci2.sensors import truth_at
from maci2.types import GRAVITY_NORM, NS, Array

MAX_TRUTH_GAP_S = 0.1


def track_page(tracked: RecordedTrack, options: dict[str, object], command: str) -> str:
    """HTML of one track; `options` are all options by name."""
    states = tracked.at_images
    worst = {state.health for state in states}
    level = "failed" if "lost" in worst else "weak" if "bridging" in worst else "ok"
    counts = ", ".join(
        f"{name} at {sum(state.health == name for state in states)} images"
        for name in ("tracking", "bridging", "lost")
        if name in worst
    )
    steps = np.diff([state.T_w_b[:3, 3] for state in states], axis=0)
    kind = "smoothed as a whole" if tracked.batch else "each from earlier measurements only"
    lead = (
        f"{verdict(tracked.verdict.status, tracked.verdict.reasons)}"
        f"<p class='first {level}'>{counts}</p>{_last_state(tracked)}"
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
