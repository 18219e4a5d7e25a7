"""Evidence accumulates, survives outliers, and contradicts only what is wrong."""

from dataclasses import replace

import numpy as np
import pytest

from consistency.devices import device
from helpers import chi_square_band
from maci2.consistency import Evidence, sample_rate, window_constants
from maci2.consistency import evidence as module
from maci2.geometry import se3_exp, se3_inv

QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


@pytest.fixture(scope="module")
def sound():
    return device(seed=1)


def reasons(constants, offset_free=False):
    return constants.contradictions(offset_free=offset_free)


def rotated(T_b_c, angle_deg):
    axis = np.array([1.0, -1.0, 0.5]) / 1.5
    wrong = T_b_c.copy()
    wrong[:3, :3] = (
        se3_exp(np.append(np.zeros(3), np.deg2rad(angle_deg) * axis))[:3, :3] @ (T_b_c[:3, :3])
    )
    return wrong


@pytest.mark.parametrize("kind", ["handheld", "drone", "car"])
def test_a_sound_device_contradicts_nothing(kind):
    for seed in range(3):
        assert reasons(device(seed=seed, kind=kind).constants()) == []


@pytest.mark.parametrize("angle_deg", [2.0, 5.0, 20.0, 120.0])
def test_extrinsics_that_are_off_are_contradicted_by_the_angle(sound, angle_deg):
    [reason] = reasons(sound.constants(rotated(sound.T_b_c, angle_deg)))
    found_deg = float(reason.split("rotated by ")[1].split()[0])
    assert found_deg == pytest.approx(angle_deg, abs=0.3)


def test_inverted_extrinsics_are_contradicted(sound):
    found = reasons(sound.constants(np.ascontiguousarray(se3_inv(sound.T_b_c))))
    assert any("from the stated extrinsics" in reason for reason in found)


def test_a_rotated_imu_contradicts_the_extrinsics_but_not_its_own_axes(sound):
    found = reasons(sound.with_axes(QUARTER, QUARTER).constants())
    assert "rotated by 90" in found[0]
    assert not any("axes are taken" in reason for reason in found)


@pytest.mark.parametrize(
    ("axes", "name"),
    [
        (np.diag([1.0, 1.0, -1.0]), "(x, y, -z)"),
        (-np.eye(3), "(-x, -y, -z)"),
        (np.eye(3)[[1, 0, 2]], "(y, x, z)"),
    ],
)
def test_wrong_axes_of_the_accelerometer_are_named_and_nothing_else(sound, axes, name):
    [reason] = reasons(sound.with_axes(np.eye(3), axes).constants())
    assert f"taken as {name}, not as (x, y, z)" in reason


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.1, 2.0])
def test_a_camera_of_the_wrong_scale_is_contradicted(sound, scale):
    [reason] = reasons(sound.with_scale(scale).constants())
    found = float(reason.split("that is ")[1].split()[0])
    assert found == pytest.approx(1.0 / scale, rel=0.03)


def test_a_scale_within_its_stated_spread_is_not_contradicted(sound):
    longer = sound.with_scale(1.08)
    doubted = [replace(window, std_scale=0.05) for window in longer.windows]
    assert reasons(replace(longer, windows=doubted).constants()) == []


def test_an_accelerometer_in_other_units_is_blamed_and_not_the_camera(sound):
    [reason] = reasons(sound.with_axes(np.eye(3), np.eye(3) / 9.81).constants())
    assert "gravity comes out as 1.0" in reason
    assert "accelerometer" in reason


def test_a_camera_elsewhere_on_the_imu_is_found(sound):
    wrong = sound.T_b_c.copy()
    wrong[:3, 3] += [0.2, 0.0, -0.2]
    [reason] = reasons(sound.constants(wrong))
    assert "the camera sits at" in reason


def test_clocks_that_are_apart_are_named_unless_the_offset_is_estimated(sound):
    late = [replace(w, stamps_ns=w.stamps_ns - 30_000_000) for w in sound.windows]
    constants = replace(sound, windows=late).constants()
    assert any("clock is moved by" in reason for reason in reasons(constants))
    assert reasons(constants, offset_free=True) == []


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_outliers_in_vision_do_not_contradict_constants(sound, share):
    assert reasons(sound.with_outliers(share, seed=5).constants()) == []
    found = reasons(sound.with_outliers(share, seed=5).with_scale(0.9).constants())
    assert len(found) == 1


def test_windows_of_a_stream_add_up_to_those_of_a_recording(sound):
    stream = Evidence(sound.T_b_c)
    assert stream.constants() is None
    for window in sound.windows:
        stream.add(sound.imu, [window])
        streamed = stream.constants()
    at_once = sound.constants()
    assert streamed.windows == at_once.windows == len(sound.windows)
    np.testing.assert_allclose(streamed.rotation.R_b_c, at_once.rotation.R_b_c, atol=1e-3)
    assert streamed.translation.scale == pytest.approx(at_once.translation.scale, abs=0.01)


def test_memory_of_a_long_stream_is_bounded(sound, monkeypatch):
    monkeypatch.setattr(module, "MOST_BLOCKS", 8)
    evidence = Evidence(sound.T_b_c)
    for _ in range(4):
        for window in sound.windows:
            evidence.add(sound.imu, [window])
            constants = evidence.constants()
    assert len(evidence._rotations.dof) <= 8
    assert len(evidence._translations.dof) <= 8
    assert constants.windows == 4 * len(sound.windows)
    assert reasons(constants) == []


@pytest.mark.parametrize("most", [2, 3, 8])
def test_blocks_that_are_added_up_say_the_same_of_the_constants(sound, monkeypatch, most):
    whole = sound.constants()
    monkeypatch.setattr(module, "MOST_BLOCKS", most)
    merged = sound.constants()
    np.testing.assert_allclose(merged.rotation.R_b_c, whole.rotation.R_b_c, atol=1e-9)
    assert merged.translation.scale == pytest.approx(whole.translation.scale, rel=1e-9)
    assert merged.translation.misfit == pytest.approx(whole.translation.misfit, rel=1e-9)
    # Windows have body frames of their own: lengths add up, vectors would not.
    assert merged.translation.gravity_norm == pytest.approx(9.81, abs=0.1)
    assert merged.translation.std_gravity_norm < 0.1


def test_one_window_tests_the_rotation_alone(sound):
    wrong = rotated(sound.T_b_c, 60.0)
    constants = window_constants(sound.imu, sound.windows[2], wrong, "midpoint", False)
    assert constants.translation is None
    found_deg = float(reasons(constants)[0].split("rotated by ")[1].split()[0])
    assert found_deg == pytest.approx(60.0, abs=1.0)


def test_windows_of_which_nothing_was_measured_say_nothing(sound):
    blind = replace(sound.windows[0], reasons=("dark",) * (len(sound.windows[0]) - 1))
    evidence = Evidence(sound.T_b_c)
    evidence.add(sound.imu, [blind])
    assert evidence.constants() is None


def test_a_device_at_rest_contradicts_nothing_however_its_accelerometer_is_wired():
    for seed in range(4):
        still = device(seed=seed, kind="static")
        assert reasons(still.constants()) == []
        assert reasons(still.with_axes(np.eye(3), np.diag([1.0, 1.0, -1.0])).constants()) == []


@pytest.mark.parametrize("learned", [False, True])
def test_a_window_names_a_stuck_axis_whatever_a_model_has_removed(sound, learned):
    imu = sound.imu
    gyro = imu.gyro.copy()
    gyro[:, 2] = 0.125
    removed = np.random.default_rng(3).normal(scale=1e-3, size=gyro.shape)
    dead = replace(imu, gyro=gyro)
    if learned:
        dead = replace(imu, gyro=gyro - removed, removed_gyro=removed, removed_acc=0.0 * removed)
    vision = sound.windows[0]
    [reason] = reasons(window_constants(dead, vision, sound.T_b_c, "midpoint", False))
    assert "gyroscope's z axis reads 0.125" in reason
    assert reasons(window_constants(imu, vision, sound.T_b_c, "midpoint", False)) == []


@pytest.mark.parametrize(("field", "limit"), [("gyro", 0.3), ("acc", 9.0)])
def test_a_window_names_a_saturated_axis(sound, field, limit):
    values = getattr(sound.imu, field)
    clipped = replace(sound.imu, **{field: np.clip(values, -limit, limit)})
    vision = sound.windows[0]
    inside = clipped.between(int(vision.stamps_ns[0]), int(vision.stamps_ns[-1]))
    [reason] = reasons(window_constants(inside, vision, sound.T_b_c, "midpoint", False))
    assert "axis is saturated" in reason
    assert f"{limit:g} " in reason


@pytest.mark.parametrize("scale", [0.9, 1.05, 1.1])
def test_a_gyroscope_of_the_wrong_scale_is_contradicted(sound, scale):
    found = reasons(sound.with_axes(scale * np.eye(3), np.eye(3)).constants())
    assert "gyroscope's axes read" in found[0]
    read = [float(word) for word in found[0].split("(")[1].split(")")[0].split(",")]
    np.testing.assert_allclose(read, scale, atol=0.01)


def test_one_axis_of_a_gyroscope_may_be_off_alone(sound):
    axes = np.diag([1.0, 1.1, 1.0])
    rotation = sound.with_axes(axes, np.eye(3)).constants().rotation
    np.testing.assert_allclose(1.0 / rotation.inverse_scale, np.diag(axes), atol=0.01)


def test_covariance_of_the_gyroscopes_scale_agrees_with_sampled_noise():
    scores = []
    for seed in range(24):
        rotation = device(seed=100 + seed, windows=8).constants().rotation
        off = 1.0 - rotation.inverse_scale
        scores.append(off @ np.linalg.solve(rotation.cov_inverse_scale, off))
    low, high = chi_square_band(3, len(scores))
    assert 0.8 * low < np.mean(scores) < high


def test_every_second_sample_lost_is_counted(sound):
    stamps_ns = sound.imu.stamps_ns
    whole, half = sample_rate(stamps_ns, 200.0), sample_rate(stamps_ns[::2], 200.0)
    assert whole.value[0] == pytest.approx(0.0, abs=1e-3)
    assert half.value[0] == pytest.approx(0.5, abs=1e-3)
    assert half.shown[1] == pytest.approx(100.0, rel=1e-3)
    assert sample_rate(stamps_ns, float("nan")) is None
    constants = sound.constants()
    assert reasons(replace(constants, sample_rate=whole)) == []
    [reason] = reasons(replace(constants, sample_rate=half))
    assert "should sample at 200 Hz and has 100 samples a second: 50 % are missing" in reason


@pytest.mark.slow
def test_false_alarms_are_no_more_frequent_than_stated():
    alarms = [
        bool(reasons(device(seed=1000 + seed, windows=10).constants())) for seed in range(200)
    ]
    # One in a hundred is allowed; more than 7 of 200 has a probability of 0.1 %.
    assert sum(alarms) <= 7
