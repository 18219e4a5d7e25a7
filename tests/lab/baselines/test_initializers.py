"""All initializers through the same function: recovery, registry, maci2's own, the example."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from segment_cases import exact_segment, noisy_segment, segment_of
from track_cases import exact_tracks, noisy_tracks

from helpers import simulated_window
from maci2.datasets import open_recording, write_euroc
from maci2.errors import OptionError
from maci2.imu import raw_model
from maci2.metrics.init_errors import angle_deg
from maci2.metrics.window_errors import state_errors
from maci2.pipeline.offline import initialize_window
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import open_inputs, plan_windows
from maci2.sensors import truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import GRAVITY_W
from maci2_lab.baselines import (
    INITIALIZERS,
    Answer,
    find_initializer,
    make_segment,
    run_initializer,
)
from maci2_lab.baselines.closed_forms import EUROC_ACC_BIAS
from maci2_lab.baselines.openvins import EUROC_GUESS, NO_GUESS, openvins_dynamic
from maci2_lab.evaluation.imu_report import TRUTHS
from maci2_lab.evaluation.protocol import windows_with_truth
from maci2_lab.evaluation.summary import is_success

TRACK_METHODS = (
    "drt",
    "ff-back-end",
    "maci2-two-frame",
    "openvins",
    "sqrtvins",
    "stereo-nec",
    "orbslam3-full",
    "vins-fusion",
    "vins-mono",
)
DOCS = Path(__file__).resolve().parents[3] / "docs"
STATIC = {"static", "openvins-static"}
FROM_TRACKS = {name for name in INITIALIZERS if name.startswith(TRACK_METHODS)} - STATIC
"""These have tests of their own against exact tracks."""

ZERO_ACC_BIAS = sorted(set(INITIALIZERS) - {"const-bias"} - STATIC - FROM_TRACKS)
FIRST_ORDER = {"orbslam3", "kimera"}
"""These take the gyroscope bias off to first order only."""


@pytest.mark.parametrize("kind", ["handheld", "drone", "car"])
@pytest.mark.parametrize("name", ZERO_ACC_BIAS)
def test_noiseless_data_without_accelerometer_bias_give_the_truth(name, kind):
    bias = (0.0, 0.0, 0.0) if name in FIRST_ORDER else (0.003, -0.002, 0.004)
    segment, window = exact_segment(kind, seed=2, bias_gyro=bias)
    answer, truth = run_initializer(INITIALIZERS[name], segment), window.truth
    # VINS solves for its bias once, with twice the quaternion for the rotation vector.
    tolerance = 1e-4 if name.startswith("vins") else 1e-5 if name == "linear" else 1e-6
    assert answer.state is not None
    np.testing.assert_allclose(answer.state.gyro_bias, truth.gyro_bias, atol=tolerance)
    np.testing.assert_allclose(answer.state.gravity_c0, truth.gravity_c0, atol=tolerance)
    np.testing.assert_allclose(answer.state.velocity_b, truth.velocity_b, atol=tolerance)
    np.testing.assert_allclose(answer.state.Ts_c0_b, truth.Ts_c0_b, atol=tolerance)
    np.testing.assert_allclose(answer.state.acc_bias, 0.0, atol=tolerance)


@pytest.mark.parametrize("name", sorted(set(INITIALIZERS) - STATIC - FROM_TRACKS))
def test_every_rival_comes_near_the_truth_on_noisy_data(name):
    window = simulated_window("handheld", 1, bias_acc_std=0.0)
    answer = run_initializer(find_initializer(name), segment_of(window))
    # The constant bias is that of another sensor: 0.135 m/s^2 are 0.8 deg.
    limit_deg = 1.2 if name == "const-bias" else 0.5
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < limit_deg
    assert np.abs(answer.state.velocity_b - window.truth.velocity_b).max() < 0.1
    assert answer.state.velocity_b.shape == (10, 3)
    assert answer.state.Ts_c0_b.shape == (10, 4, 4)
    assert (answer.posterior is not None) == name.startswith("maci2")


@pytest.mark.parametrize("name", sorted(FROM_TRACKS))
def test_every_rival_on_tracks_comes_near_the_truth_on_noisy_data(name):
    changes = {"bias_acc_std": 0.0, "bias_gyro_std": 0.005}
    segment, window = noisy_tracks(1, "handheld", pixel_std=0.5, **changes)
    answer = run_initializer(find_initializer(name), segment)
    # The guess is that of EuRoC's accelerometer, 0.04 m/s^2 of another sensor.
    limit_deg = 1.5 if "linear" in name else 1.0
    assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < limit_deg
    assert np.abs(answer.state.velocity_b - window.truth.velocity_b).max() < 0.3
    assert answer.state.velocity_b.shape == (10, 3)


@pytest.mark.parametrize("name", sorted(INITIALIZERS))
def test_no_initializer_changes_the_segment(name):
    segment, fresh = noisy_tracks(3)[0], noisy_tracks(3)[0]
    INITIALIZERS[name](segment)
    for field in ("seen", "xy", "covs", "xy_right"):
        np.testing.assert_array_equal(
            getattr(segment.tracks, field), getattr(fresh.tracks, field), err_msg=field
        )
    for part in ("raw", "measurements"):
        for field in ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc"):
            np.testing.assert_array_equal(
                getattr(getattr(segment, part), field), getattr(getattr(fresh, part), field)
            )
    np.testing.assert_array_equal(segment.vision.Ts_ck_ck1, fresh.vision.Ts_ck_ck1)


@pytest.mark.parametrize(
    "name", sorted(set(INITIALIZERS) - {"maci2", "maci2-identity-imu", "maci2-two-frame"})
)
def test_only_maci2_sees_what_the_imu_model_made(name):
    segment, _ = noisy_tracks(0)
    other = replace(segment.measurements, acc=segment.measurements.acc + 1.0)
    a = INITIALIZERS[name](segment).state
    b = INITIALIZERS[name](replace(segment, measurements=other)).state
    np.testing.assert_array_equal(a.gravity_c0, b.gravity_c0)
    moved = INITIALIZERS["maci2"](replace(segment, measurements=other)).state
    assert angle_deg(moved.gravity_c0, a.gravity_c0) > 0.1


def test_an_unknown_name_is_told_what_exists():
    with pytest.raises(
        OptionError, match=r"'vinz' is no initializer; choose from analytic, .*vins"
    ):
        find_initializer("vinz")


def test_a_singular_solve_nan_and_no_state_are_rejections_with_a_reason():
    segment = noisy_segment(0)

    def singular(segment):
        raise np.linalg.LinAlgError("Singular matrix")

    def not_a_number(segment):
        answer = INITIALIZERS["linear"](segment)
        return replace(answer, state=replace(answer.state, velocity_b=np.full((10, 3), np.nan)))

    found = run_initializer(singular, segment)
    assert (found.accepted, found.state) == (False, None)
    assert found.reason == "the window does not determine the state (Singular matrix)"
    found = run_initializer(not_a_number, segment)
    assert (found.accepted, found.state) == (False, None)
    assert found.reason == "the answer's velocity_b is NaN or infinite"
    assert not run_initializer(lambda segment: Answer(True), segment).accepted


def test_a_camera_that_does_not_move_leaves_vins_without_an_answer():
    segment, _ = exact_segment("static")
    Ts = np.tile(np.eye(4), (9, 1, 1))
    still = replace(segment, vision=replace(segment.vision, Ts_ck_ck1=Ts))
    found = run_initializer(INITIALIZERS["vins"], still)
    assert not found.accepted
    assert "does not determine the state" in found.reason


def test_biases_of_maci2_are_those_of_the_raw_samples():
    """An IMU model that takes off part of the biases must not change them."""
    segment = noisy_segment(0)
    off_gyro, off_acc = np.array([0.01, 0.02, -0.01]), np.array([0.02, -0.01, 0.03])
    measured = segment.measurements
    corrected = replace(
        measured,
        gyro=measured.gyro - off_gyro,
        acc=measured.acc - off_acc,
        removed_gyro=np.tile(off_gyro, (len(measured.gyro), 1)),
        removed_acc=np.tile(off_acc, (len(measured.acc), 1)),
        bias_prior=replace(measured.bias_prior, mean_acc=-off_acc),
    )
    plain = INITIALIZERS["maci2"](segment).state
    found = INITIALIZERS["maci2"](replace(segment, measurements=corrected)).state
    np.testing.assert_allclose(found.gyro_bias, plain.gyro_bias, atol=1e-6)
    np.testing.assert_allclose(found.acc_bias, plain.acc_bias, atol=1e-6)
    np.testing.assert_allclose(found.gyro_bias_residual, plain.gyro_bias - off_gyro, atol=1e-6)
    np.testing.assert_allclose(found.acc_bias_residual, plain.acc_bias - off_acc, atol=1e-6)
    np.testing.assert_array_equal(plain.gyro_bias_residual, plain.gyro_bias)


@pytest.fixture(scope="module")
def simulated_inputs(tmp_path_factory):
    path = tmp_path_factory.mktemp("recording") / "flight"
    write_euroc(simulate(SimulationConfig(kind="drone", duration_s=8.0)), path)
    options = RunOptions(vision="truth:0.05,0.003")
    return open_inputs(path, options), options


def test_maci2_as_an_initializer_says_what_evaluation_says(simulated_inputs):
    inputs, options = simulated_inputs
    for window in plan_windows(inputs.candidates_ns(), 2.5, 2.5, 10):
        one = initialize_window(inputs, window, options)
        answer = run_initializer(INITIALIZERS["maci2"], make_segment(inputs, window))
        np.testing.assert_array_equal(answer.state.gravity_c0, one.gravity_c0)
        np.testing.assert_array_equal(answer.state.velocity_b, one.velocity_b)
        np.testing.assert_allclose(answer.state.gyro_bias, one.gyro_bias, atol=1e-15)
        np.testing.assert_allclose(answer.state.acc_bias, one.acc_bias, atol=1e-15)
        assert answer.accepted == (one.verdict.status == "ok")


def test_a_segment_holds_the_raw_samples_around_its_keyframes(simulated_inputs):
    inputs, _ = simulated_inputs
    window = plan_windows(inputs.candidates_ns(), 2.5, 2.5, 10)[1]
    segment = make_segment(inputs, window)
    raw, imu = segment.raw, inputs.recording.imu
    first = int(np.searchsorted(imu.stamps_ns, raw.stamps_ns[0]))
    np.testing.assert_array_equal(raw.acc, imu.acc[first : first + len(raw.acc)])
    np.testing.assert_array_equal(raw.stamps_ns, segment.measurements.stamps_ns)
    assert raw.stamps_ns[0] <= segment.stamps_ns[0] < raw.stamps_ns[1]
    assert raw.stamps_ns[-2] < segment.stamps_ns[-1] <= raw.stamps_ns[-1]
    np.testing.assert_allclose(raw.var_acc, 200.0 * inputs.recording.rig.imu.density_acc**2)


def test_raw_maci2_is_maci2_with_the_raw_model(simulated_inputs):
    """Vibration is that of the recording, also at the ends of a segment."""
    inputs, _ = simulated_inputs
    rng = np.random.default_rng(0)
    samples = inputs.recording.imu
    samples = replace(samples, acc=samples.acc + rng.normal(size=samples.acc.shape))
    recording = replace(inputs.recording, imu=samples)
    inputs = replace(inputs, recording=recording, imu=raw_model(samples, recording.rig.imu))
    for window in plan_windows(inputs.candidates_ns(), 2.5, 1.0, 10):
        segment = make_segment(inputs, window)
        for field in ("stamps_ns", "acc", "var_gyro", "var_acc"):
            np.testing.assert_allclose(
                getattr(segment.raw_vibrating, field), getattr(segment.measurements, field)
            )
        assert (segment.raw_vibrating.var_acc > 10.0 * segment.raw.var_acc).all()
        a, b = INITIALIZERS["maci2"](segment), INITIALIZERS["maci2-raw"](segment)
        np.testing.assert_allclose(a.state.gravity_c0, b.state.gravity_c0, atol=1e-9)


def test_the_example_of_the_documentation_runs(simulated_inputs):
    text = (DOCS / "own_initializer.md").read_text()
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    try:
        exec(code, {"__name__": "example"})
        example = find_initializer("mean-gravity")
        segment, window = exact_segment("handheld")
        answer = run_initializer(example, segment)
        assert answer.accepted
        np.testing.assert_allclose(answer.state.gravity_c0, window.truth.gravity_c0, atol=1e-8)
        np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=1e-8)
        noise = np.random.default_rng(0).normal(size=segment.raw.acc.shape)
        shaken = replace(segment, raw=replace(segment.raw, acc=segment.raw.acc + 50.0 * noise))
        assert re.match(r"gravity varies by \d", run_initializer(example, shaken).reason)
    finally:
        INITIALIZERS.pop("mean-gravity", None)


def test_the_monocular_example_of_the_documentation_runs():
    text = (DOCS / "own_initializer.md").read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[1]
    assert "rays_meet" in code
    assert len([line for line in code.splitlines() if line.strip()]) <= 45
    try:
        exec(code, {"__name__": "example"})
        example = find_initializer("rays-meet")
        segment, window = exact_tracks("drone", seed=2)
        answer = run_initializer(example, segment)
        assert answer.accepted, answer.reason
        assert angle_deg(answer.state.gravity_c0, window.truth.gravity_c0) < 0.01
        np.testing.assert_allclose(answer.state.velocity_b, window.truth.velocity_b, atol=1e-3)
        mono = replace(segment.tracks, seen_right=np.zeros_like(segment.tracks.seen))
        alone = run_initializer(example, replace(segment, find_tracks=lambda: mono))
        np.testing.assert_array_equal(alone.state.gravity_c0, answer.state.gravity_c0)
        gyro = segment.raw.gyro + np.random.default_rng(0).normal(size=segment.raw.gyro.shape)
        shaken = replace(segment, raw=replace(segment.raw, gyro=2.0 * gyro))
        assert re.match(r"points lie 0\.\d+ rad", run_initializer(example, shaken).reason)
        few = replace(segment.tracks, seen=mono.seen_right, seen_right=mono.seen_right)
        nothing = run_initializer(example, replace(segment, find_tracks=lambda: few))
        assert nothing.reason == "0 tracks are long enough, needed 15"
    finally:
        INITIALIZERS.pop("rays-meet", None)


def test_every_initializer_is_described():
    text = " ".join((DOCS / "baselines.md").read_text().split())
    for name in INITIALIZERS:
        assert f"`{name}`" in text, name
    assert ", ".join(f"{value}" for value in EUROC_ACC_BIAS) in text


@pytest.mark.dataset
def test_the_constant_bias_is_the_mean_of_the_training_sequences(data_root):
    names = ("MH_01_easy", "MH_05_difficult", "V2_01_easy", "V2_03_difficult")
    recordings = [open_recording(data_root / "euroc" / name) for name in names]
    mean = np.mean([one.truth().bias_acc.mean(axis=0) for one in recordings], axis=0)
    np.testing.assert_allclose(EUROC_ACC_BIAS, mean, atol=5.1e-5)


PUBLISHED_DEG = {
    "linear": (0.896, 0.855, 0.977),
    "orbslam3": (0.886, 0.879, 0.910),
    "const-bias": (0.191, 0.200, 0.324),
}
"""Gravity errors known for these methods on MH_02, MH_04 and V1_01 with perfect poses; windows do
not start at the same timestamps, hence the tolerance."""


@pytest.mark.dataset
@pytest.mark.parametrize("name", sorted(PUBLISHED_DEG))
def test_rivals_have_the_errors_known_for_them(data_root, name):
    options = RunOptions(
        vision="truth:1e-7,1e-7",
        window_s=2.25,
        truth=("state_groundtruth_openvins",),
    )
    sequences = ("MH_02_easy", "MH_04_difficult", "V1_01_easy")
    for sequence, published in zip(sequences, PUBLISHED_DEG[name], strict=True):
        inputs = open_inputs(data_root / "euroc" / sequence, options)
        errors = []
        for window in plan_windows(inputs.candidates_ns(with_truth=True), 2.25, 2.5, 10):
            segment = make_segment(inputs, window)
            state = run_initializer(INITIALIZERS[name], segment).state
            truth = _gravity_c0(inputs, segment)
            errors.append(angle_deg(state.gravity_c0, truth))
        assert np.mean(errors) == pytest.approx(published, abs=0.06), sequence


DRT_PROGRAM = {"drt-t": (0.887, 0.50), "drt-l": (0.881, 0.78)}
"""Gravity error [deg] and success of the original programs on MH_04, with simulated tracks on the
real IMU; neither their windows nor their points are known to be these."""


@pytest.mark.dataset
@pytest.mark.parametrize("name", sorted(DRT_PROGRAM))
def test_drt_has_the_errors_of_its_own_program(data_root, name):
    scenes = [_answers_on_mh_04(data_root, INITIALIZERS[name], seed) for seed in range(3)]
    errors = [errors for scene in scenes for _, errors in scene]
    gravity_deg, success = DRT_PROGRAM[name]
    assert np.mean([one.gravity_deg for one in errors]) == pytest.approx(gravity_deg, abs=0.06)
    # Points placed anew move it from 0.71 to 0.76; 38 windows of one flight have a std of 0.07.
    assert np.mean([is_success(one) for one in errors]) == pytest.approx(success, abs=0.07)


ITERATIONS_IN_TIME = 20
"""Iterations in place of the 0.05 s of wall time that end OpenVINS' own optimization."""


@pytest.mark.dataset
def test_openvins_solves_as_many_windows_as_its_own_program(data_root):
    """There 0.58 of MH_04 without a bias guess, 0.44 right, and all with one."""
    without, told = (
        _answers_on_mh_04(data_root, openvins_dynamic(guess, ITERATIONS_IN_TIME))
        for guess in (NO_GUESS, EUROC_GUESS)
    )
    assert _share(without) == pytest.approx(0.58, abs=0.08)
    assert _share(without, right=True) == pytest.approx(0.44, abs=0.08)
    assert _share(told) > 0.9
    unlimited = _answers_on_mh_04(data_root, openvins_dynamic(NO_GUESS))
    assert _share(unlimited) > 0.95


def _share(answers, right=False):
    return np.mean([one.accepted and (is_success(errors) or not right) for one, errors in answers])


def _answers_on_mh_04(data_root, initializer, seed=0):
    """Answer and errors on every window, with tracks of 1 px."""
    options = RunOptions(vision="tracks:1", vision_frame="rectified", truth=TRUTHS, seed=seed)
    inputs = open_inputs(data_root / "euroc" / "MH_04_difficult", options)
    segments = (make_segment(inputs, one) for one in windows_with_truth(inputs, options)[0])
    answers = [run_initializer(initializer, segment) for segment in segments]
    return [(one, state_errors(inputs, inputs.truth, one.state, None)) for one in answers]


def _gravity_c0(inputs, segment):
    T_w_b0 = truth_at(inputs.truth, segment.stamps_ns[:1], 0.06).Ts_w_b[0]
    return (T_w_b0 @ inputs.T_b_c)[:3, :3].T @ GRAVITY_W
