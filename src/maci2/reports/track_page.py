"""The page of `maci2 track --report`: the path, sigma bands, biases, and what was rejected."""

import numpy as np

from maci2.evaluation.track_errors import TrackErrors
from maci2.pipeline.tracking.recording import TrackedRecording
from maci2.pipeline.tracking.track_files import raw_biases
from maci2.reports.html import Section, figure, page, side_by_side, table
from maci2.reports.svg import Series, chart
from maci2.types import NS, Array

POINTS = 700
"""Points of a line at most."""

AXES = "xyz"


def track_page(tracked: TrackedRecording, errors: TrackErrors | None, command: str) -> str:
    """HTML of one track."""
    states = tracked.track.states
    worst = {state.health for state in states}
    level = "failed" if "lost" in worst else "weak" if "bridging" in worst else "ok"
    counts = ", ".join(
        f"{name} at {sum(state.health == name for state in states)} images"
        for name in ("tracking", "bridging", "lost")
        if name in worst
    )
    kind = "smoothed as a whole" if tracked.batch else "causal"
    lead = f"<p class='first {level}'>{counts}</p><p>{len(states)} states, {kind}.</p>"
    if errors is not None:
        lead += _errors(errors)
    name = tracked.inputs.recording.name
    return page(f"Track: {name}", lead, _sections(tracked), command)


def _errors(errors: TrackErrors) -> str:
    rows = [("absolute trajectory error", f"{errors.ate_m:.4f}", "m rms")]
    for horizon, (rms, median) in errors.relative_m.items():
        if np.isfinite(rms):
            rows.append((f"relative error over {horizon:g} s", f"{rms:.4f}", "m rms"))
            rows.append((f"relative error over {horizon:g} s, median", f"{median:.4f}", "m"))
    rows.append(("vertical", f"{errors.gravity_deg:.3f}", "deg"))
    rows.append(("velocity", f"{errors.velocity_rmse:.4f}", "m/s rms"))
    return table(("against ground truth", "error", "unit"), rows)


def _sections(tracked: TrackedRecording) -> list[Section]:
    states = tracked.track.states
    every = max(len(states) // POINTS, 1)
    shown = states[::every]
    time_s = np.array([(state.stamp_ns - states[0].stamp_ns) / NS for state in shown])
    positions = np.array([state.T_w_b[:3, 3] for state in shown])
    std = np.sqrt(np.array([np.diag(state.cov) for state in shown]))
    velocity = np.array([state.v_w for state in shown])
    gyro, acc = (values[::every] for values in raw_biases(tracked))
    return [
        Section(
            "Path",
            side_by_side(
                figure(
                    chart([Series("path", positions[:, 0], positions[:, 1])], "x [m]", "y [m]"),
                    "From above.",
                ),
                figure(
                    chart([Series("height", time_s, positions[:, 2], 3.0 * std[:, 8])],
                          "time [s]", "z [m]"),
                    "Height over time, with three standard deviations.",
                ),
            ),
        ),
        Section(
            "States",
            side_by_side(
                _bands(time_s, velocity, std[:, 3:6], "v_w [m/s]", "Velocity in the world."),
                _bands(time_s, gyro, std[:, 9:12], "gyro bias [rad/s]", "Gyroscope bias."),
                _bands(time_s, acc, std[:, 12:15], "acc bias [m/s^2]", "Accelerometer bias."),
                _spread(time_s, std),
            ),
        ),
        Section("Relative poses against the IMU", _keyframes(tracked)),
    ]  # fmt: skip


def _bands(time_s: Array, values: Array, std: Array, label: str, caption: str) -> str:
    series = [Series(a, time_s, values[:, i], 3.0 * std[:, i]) for i, a in enumerate(AXES)]
    return figure(chart(series, "time [s]", label), f"{caption} Bands: three standard deviations.")


def _spread(time_s: Array, std: Array) -> str:
    series = [Series(a, time_s, std[:, 6 + i]) for i, a in enumerate(AXES)]
    return figure(
        chart(series, "time [s]", "sigma of position [m]", from_zero=True),
        "Standard deviation of position, relative to the start: without a map it grows.",
    )


def _keyframes(tracked: TrackedRecording) -> str:
    keyframes = tracked.track.keyframes
    start_ns = tracked.track.states[0].stamp_ns
    measured = [keyframe for keyframe in keyframes if keyframe.innovation is not None]
    time_s = np.array([(keyframe.stamp_ns - start_ns) / NS for keyframe in measured])
    chi2 = np.array([keyframe.innovation for keyframe in measured], dtype=float)
    body = ""
    if len(measured):
        body = figure(
            chart([Series("innovation", time_s, np.log10(np.maximum(chi2, 1e-3)), marks=True)],
                  "time [s]", "log10 of chi-square"),
            "Chi-square per degree of freedom of each relative pose against the IMU's prediction; "
            "0 is as expected.",
        )  # fmt: skip
    rows = [
        (f"{(keyframe.stamp_ns - start_ns) / NS:.2f}", keyframe.reason)
        for keyframe in keyframes
        if keyframe.reason
    ]
    listed = table(("time [s]", "not used because"), rows) if rows else "<p>All were used.</p>"
    return body + listed
