"""The public interface: what is there, what it says of itself, what results can do."""

import dataclasses
import inspect
import json
import re
import sys
import typing

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import maci2
from helpers import simulated_window
from maci2.datasets import write_euroc


@pytest.fixture(scope="module")
def result():
    window = simulated_window("drone", 3)
    return maci2.initialize(window.imu, window.vision, window.truth.T_b_c)


@pytest.fixture(scope="module")
def calibration():
    window = simulated_window("drone", 3, steps=20)
    return maci2.calibrate(window.imu, window.vision)


@pytest.fixture(scope="module")
def flight(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api") / "flight"
    config = maci2.SimulationConfig(kind="drone", duration_s=7.0, seed=2)
    write_euroc(maci2.simulate(config), folder)
    return folder


def public_objects():
    return {name: getattr(maci2, name) for name in dir(maci2) if name != "__version__"}


def test_dir_shows_what_is_public_and_nothing_else():
    assert dir(maci2) == sorted(maci2.__all__)
    assert not [name for name in dir(maci2) if name.startswith("_") and name != "__version__"]
    for name, value in public_objects().items():
        assert value.__module__.startswith("maci2."), name


def test_a_name_that_does_not_exist_is_named():
    with pytest.raises(AttributeError, match="no attribute 'initialise'"):
        maci2.initialise  # noqa: B018


@pytest.mark.parametrize("name", sorted(set(maci2.__all__) - {"__version__"}))
def test_help_describes_every_public_name_and_every_field(name):
    documented = getattr(maci2, name)
    text = inspect.getdoc(documented)
    assert text
    if dataclasses.is_dataclass(documented):
        described = text.partition("Fields:\n")[2]
        for field in dataclasses.fields(documented):
            found = re.search(rf"^    {field.name}: .+\n        (\S.*)", described, re.M)
            assert found, f"{name}.{field.name} has no text"


@pytest.mark.parametrize("name", ["VIState", "Posterior", "ImuSamples", "RelativePoses"])
def test_help_gives_every_array_a_shape_and_a_unit_or_order(name):
    text = inspect.getdoc(getattr(maci2, name)).partition("Fields:\n")[2]
    for field, line in re.findall(r"^    (\w+): (?:Array|Stamps)\n        (.*)", text, re.M):
        assert re.search(r"\([\dn]", line), f"{field} has no shape: {line}"
        assert re.search(r"\[.+\]", line), f"{field} has no unit: {line}"


def test_help_of_every_function_has_arguments_returns_and_errors():
    functions = [f for f in public_objects().values() if inspect.isfunction(f)]
    assert len(functions) >= 10
    for function in functions:
        text = inspect.getdoc(function)
        for part in ("Args:", "Returns:", "Raises:"):
            assert f"\n{part}\n" in text, f"{function.__name__} has no {part}"
        for name in inspect.signature(function).parameters:
            assert re.search(rf"\b{name}\b", text.partition("Args:")[2]), (function, name)


def test_no_public_signature_needs_any():
    for name, value in public_objects().items():
        functions = [value] if inspect.isfunction(value) else inspect.getmembers(value, callable)
        for function in (f if inspect.isfunction(f) else f[1] for f in functions):
            if inspect.isfunction(function) and not function.__name__.startswith("_"):
                # An array's type has one for its shape.
                annotations = str(function.__annotations__).replace("tuple[typing.Any, ...]", "")
                assert "typing.Any" not in annotations, f"{name}: {function.__name__}"
    assert typing.get_type_hints(maci2.initialize)["return"] is maci2.InitResult


def test_a_result_shows_itself_in_one_line(result, calibration):
    for shown in (repr(result), repr(calibration), repr(result.verdict)):
        assert "\n" not in shown
        assert len(shown) < 160
    assert repr(result).startswith("InitResult(ok, ")
    assert "10 keyframes, gravity_c0 [" in repr(result)
    assert repr(calibration).startswith("CalibrationResult(ok")
    nothing = maci2.InitResult(maci2.Verdict("failed", ("no motion",)), result.report)
    assert repr(nothing) == "InitResult(failed, 1 remark)"


def test_a_summary_has_estimates_sigmas_and_the_verdict(result, calibration):
    summary = result.summary()
    for words in ("gravity_c0 [m/s^2]", "gyro bias [rad/s]", "1-sigma", "verdict: ok"):
        assert words in summary
    assert f"{result.state.gravity_c0[0]:+.4f}" in summary
    assert "true error" not in summary
    assert "translation [m]" in calibration.summary()
    nothing = maci2.InitResult(maci2.Verdict("failed", ("no motion",)), result.report)
    assert nothing.summary() == "verdict: failed\n  - no motion"


def test_a_saved_result_is_what_to_dict_gives(result, calibration, tmp_path):
    for name, answer in (("init", result), ("calibration", calibration)):
        answer.save(tmp_path / f"{name}.json")
        assert json.loads((tmp_path / f"{name}.json").read_text()) == answer.to_dict()
    np.testing.assert_array_equal(result.to_dict()["gravity_c0"], result.state.gravity_c0)
    assert "time_offset_s" not in result.to_dict()
    with pytest.raises(maci2.OptionError, match="path is 7"):
        result.save(7)


def test_a_plot_is_a_figure(result, calibration, tmp_path):
    pytest.importorskip("matplotlib")
    for answer in (result, calibration):
        answer.plot().savefig(tmp_path / "figure.png")
        assert (tmp_path / "figure.png").stat().st_size > 5000
    nothing = maci2.InitResult(maci2.Verdict("failed", ("no motion",)), result.report)
    with pytest.raises(maci2.MeasurementError, match="no state to plot"):
        nothing.plot()


def test_a_plot_without_matplotlib_says_what_to_install(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(maci2.OptionError, match=r"pip install 'maci2\[report\]'"):
        result.plot()


def test_a_recording_is_initialized_in_one_call(flight, tmp_path):
    recorded = maci2.initialize_recording(flight, vision="truth:0.05,0.003", start_s=1.0)
    assert recorded.verdict.status == "ok"
    assert recorded.errors.gravity_deg < 4.0 * recorded.gravity_std_deg
    assert "true error" in recorded.summary()
    assert repr(recorded).startswith("InitializedRecording(ok, ")
    recorded.save(tmp_path / "init.json")
    record = json.loads((tmp_path / "init.json").read_text())
    assert record["errors"]["gravity_deg"] == recorded.errors.gravity_deg
    assert record["start_ns"] == recorded.state.stamps_ns[0]


def _jumping_odometry(truth):
    """Ground truth as a TUM trajectory that jumps by half a metre after 5 s."""
    lines = []
    for stamp_ns, T_w_b in zip(truth.stamps_ns[::10], truth.Ts_w_b[::10], strict=True):
        jump = 0.5 if stamp_ns - truth.stamps_ns[0] > 5e9 else 0.0
        quat_xyzw = Rotation.from_matrix(T_w_b[:3, :3]).as_quat()
        numbers = (*(T_w_b[:3, 3] + [jump, 0.0, 0.0]), *quat_xyzw)
        lines.append(" ".join([f"{stamp_ns / 1e9:.9f}", *(f"{x:.9f}" for x in numbers)]))
    return "\n".join(lines) + "\n"


def test_a_recording_is_tracked_and_watched_in_one_call_each(flight, tmp_path):
    tracked = maci2.track_recording(flight, vision="truth:0.05,0.003", interval_s=0.3)
    assert tracked.verdict.status == "ok"
    assert tracked.errors.ate_m < 0.05
    assert tracked.covs.shape == (len(tracked.stamps_ns), 15, 15)
    np.testing.assert_array_equal(tracked.Ts_w_b[-1], tracked.states[-1].T_w_b)
    assert repr(tracked).startswith("RecordedTrack(flight: ok, ")
    for words in ("1-sigma of the last state", "against ground truth", "verdict: ok"):
        assert words in tracked.summary()
    tracked.save(tmp_path / "track")
    assert json.loads((tmp_path / "track" / "summary.json").read_text()) == tracked.to_dict()

    trajectory = tmp_path / "odometry.txt"
    trajectory.write_text(_jumping_odometry(maci2.open_recording(flight).truth()))
    watched = maci2.watch_recording(flight, trajectory)
    assert [alarm.fault for alarm in watched.alarms] == ["jump"]
    with pytest.raises(maci2.OptionError, match="frame is 'world'; choose body"):
        maci2.watch_recording(flight, trajectory, frame="world")
    with pytest.raises(maci2.OptionError, match=r"sigmas.* is 1\.0, needed at least 3"):
        maci2.watch_recording(flight, trajectory, sigmas=1.0)
    with pytest.raises(maci2.OptionError, match="--lag is 0"):
        maci2.track_recording(flight, vision="truth:0.05,0.003", lag_s=0.0)


def test_a_recording_is_checked_and_audited_in_one_call_each(flight):
    diagnosis = maci2.check_recording(flight)
    assert diagnosis.usable
    assert all(isinstance(finding, maci2.Finding) for finding in diagnosis.findings)
    assert maci2.check_recording(flight.parent).usable is False
    with pytest.raises(maci2.DatasetError, match="needs at least 8 s of both"):
        maci2.audit_ground_truth(maci2.open_recording(flight))
    recording = maci2.simulate(maci2.SimulationConfig(kind="drone", duration_s=12.0, seed=2))
    audit = maci2.audit_ground_truth(recording)
    # Simulated ground truth is exact: the audit differs from it by its own uncertainty.
    at = np.searchsorted(recording.truth().stamps_ns, audit.truth.stamps_ns)
    moved_w = audit.truth.Ts_w_b[:, :3, 3] - recording.truth().Ts_w_b[at, :3, 3]
    std_w = np.sqrt(np.diagonal(audit.cov_states, axis1=1, axis2=2)[:, 6:9])
    assert (np.abs(moved_w) < 5.0 * std_w).all()
    assert audit.cov_states.shape == (len(audit.truth.stamps_ns), 15, 15)


def test_one_call_does_what_the_command_does(flight, tmp_path):
    from typer.testing import CliRunner

    from maci2.cli.app import app

    choices = {"vision": "truth:0.05,0.003", "keyframes": 12, "seed": 3}
    words = [f"--{name}={value}" for name, value in choices.items()]
    for command, call in (
        ("init", maci2.initialize_recording),
        ("calibrate", maci2.calibrate_recording),
    ):
        window_s = 5.0 if command == "calibrate" else 2.0
        output = tmp_path / f"{command}.json"
        shown = CliRunner().invoke(
            app, [command, str(flight), *words, f"--window={window_s}", f"--json={output}"]
        )
        recorded = call(flight, window_s=window_s, **choices)
        written, expected = json.loads(output.read_text()), recorded.to_dict()
        assert written.pop("solve_ms") > 0.0
        assert expected.pop("solve_ms") > 0.0
        assert written == expected
        without_time = re.sub(r"solved in [\d.]+ ms", "", shown.output)
        assert re.sub(r"solved in [\d.]+ ms", "", recorded.summary()) in without_time


def test_a_calibrated_recording_has_the_rig_that_was_found(flight):
    recorded = maci2.calibrate_recording(flight, vision="truth:0.05,0.003", window_s=5.0)
    assert recorded.rig.time_offset_s == recorded.report.time_offset_s
    np.testing.assert_allclose(recorded.rig.cameras[0].T_b_c, recorded.state.T_b_c, atol=1e-12)
