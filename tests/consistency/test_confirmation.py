"""One window alone: what it contradicts, what it confirms, and what it cannot tell."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import scaled, simulated_window
from maci2.consistency import Evidence, InitLimits, calibrate, initialize
from maci2.consistency.evidence import free_constants
from maci2.estimator import SolverConfig
from maci2.estimator.initial_guess import shifted
from maci2.estimator.initialize import CLOCK_STD_S, camera_motions, window_problem
from maci2.estimator.results import first_camera_guess
from maci2.estimator.solver import solve
from maci2.geometry import se3_exp

STRICT = InitLimits(trust_constants=False)


def verdict_of(window, T_b_c=None, **options):
    T_b_c = window.truth.T_b_c if T_b_c is None else T_b_c
    return initialize(window.imu, window.vision, T_b_c, **options).verdict


def rotated(T_b_c, angle_deg, axis):
    xi = np.zeros(6)
    xi[3 + axis] = np.deg2rad(angle_deg)
    wrong = T_b_c.copy()
    wrong[:3, :3] = se3_exp(xi)[:3, :3] @ T_b_c[:3, :3]
    return wrong


def with_samples(window, kept):
    names = ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc")
    return replace(
        window,
        imu=replace(
            window.imu, rate_hz=200.0, **{name: getattr(window.imu, name)[kept] for name in names}
        ),
    )


def lengthened(window, scale):
    """Translations that are too long, with the noise that was stated."""
    vision = scaled(window.vision, scale)
    covs = window.vision.covs_T_ck_ck1
    return replace(window, vision=replace(vision, covs_T_ck_ck1=covs))


def test_sound_windows_contradict_nothing_more_often_than_one_in_a_hundred():
    contradicted = 0
    for seed in range(40):
        window = simulated_window("drone" if seed % 2 else "handheld", seed=seed)
        words = " ".join(verdict_of(window).reasons)
        contradicted += "accelerations fit" in words or "rotate alike" in words
    # Twice and more in forty has a probability of 6 % at that rate, thrice 0.7 %.
    assert contradicted <= 2


@pytest.mark.parametrize("scale", [0.7, 1.4])
def test_one_window_contradicts_a_wrong_scale(scale):
    verdict = verdict_of(lengthened(simulated_window("drone", seed=3), scale))
    assert verdict.status != "ok"
    found = float(verdict.reasons[0].split("if that is ")[1].split()[0])
    assert found == pytest.approx(1.0 / scale, abs=0.1)


@pytest.mark.parametrize("axis", range(3))
def test_one_window_contradicts_wrong_extrinsics(axis):
    window = simulated_window("handheld", seed=2)
    verdict = verdict_of(window, rotated(window.truth.T_b_c, 8.0, axis))
    assert verdict.status != "ok"
    assert float(verdict.reasons[0].split("rotated by ")[1].split()[0]) == pytest.approx(8, abs=1)


def test_free_constants_are_those_of_the_truth_within_their_covariance():
    squares = []
    for seed in range(12):
        window = simulated_window("handheld", seed=seed)
        result = initialize(window.imu, window.vision, window.truth.T_b_c)
        freed = free_constants(
            window.imu, lengthened(window, 1.1).vision, result.state, SolverConfig()
        )
        squares.append(((freed.report.scale - 1.0 / 1.1) / freed.report.std_scale) ** 2)
    # 99.9 % of means of twelve squares lie in here.
    assert 0.15 < np.mean(squares) < 2.8


def test_freed_constants_are_where_the_cost_over_scales_and_clocks_is_least():
    # An oracle that knows no derivative by them: extrinsics free, scale and clock on a grid.
    window = simulated_window("handheld", seed=6)
    vision, config = lengthened(window, 1.02).vision, SolverConfig(robust=False)
    inner = vision.part(1, len(vision) - 2)
    state = initialize(window.imu, inner, window.truth.T_b_c, config).state
    freed = free_constants(window.imu, inner, state, config)
    problem = window_problem(window.imu, inner, config, T_b_c=state.T_b_c)
    problem = replace(problem, free=replace(problem.free, scale=False, camera_clock=False))
    start = first_camera_guess(
        state.Ts_c0_b, state.velocity_b, state.gravity_c0, state.gyro_bias, state.acc_bias,
        state.T_b_c,
    )  # fmt: skip

    def cost(scale, offset_s):
        moved = shifted(scaled(inner, scale), offset_s)
        camera = (camera_motions(moved, np.arange(len(moved) - 1)),)
        held = replace(problem, stamps_ns=moved.stamps_ns, camera=camera)
        # The priors of scale and clock in the problem are about values that are held there.
        least = solve(held, *start).cost
        return least + np.log(scale) ** 2 + (offset_s / CLOCK_STD_S) ** 2

    scale, offset_s = freed.report.scale, freed.report.time_offset_s
    least = cost(scale, offset_s)
    for sign in (-1.0, 1.0):
        # A standard deviation to either side costs 1 where the other unknowns follow; more where
        # one of them is held.
        assert cost(scale + sign * freed.report.std_scale, offset_s) > least + 0.7
        assert cost(scale, offset_s + sign * freed.report.std_time_offset_s) > least + 0.7


def test_a_freed_clock_is_that_of_the_truth_within_its_covariance():
    squares = []
    for seed in range(12):
        window = simulated_window("handheld", seed=seed)
        inner = shifted(window.vision.part(1, len(window.vision) - 2), 0.003)
        config = SolverConfig(robust=False)
        state = initialize(window.imu, inner, window.truth.T_b_c, config).state
        freed = free_constants(window.imu, inner, state, config)
        offset_s, variance = freed.time_offset
        squares.append((offset_s + 0.003) ** 2 / variance)
    # 99.9 % of means of twelve squares lie in here.
    assert 0.15 < np.mean(squares) < 2.8


def test_a_device_at_rest_confirms_nothing_and_is_weak_where_nothing_is_trusted():
    window = simulated_window("static", seed=1)
    assert verdict_of(window).status == "ok"
    strict = verdict_of(window, limits=STRICT)
    assert strict.status == "weak"
    assert "confirm the stated extrinsics" in strict.reasons[-1]


def test_a_stream_that_goes_on_says_what_is_not_confirmed_yet_without_being_weak():
    window = simulated_window("static", seed=1)
    evidence = Evidence(window.truth.T_b_c)
    evidence.add(window.imu, [window.vision])
    constants = evidence.constants()
    going_on = verdict_of(window, limits=STRICT, constants=constants)
    ended = verdict_of(window, limits=STRICT, constants=replace(constants, is_complete=True))
    assert (going_on.status, ended.status) == ("ok", "weak")
    assert "does not confirm the stated extrinsics" in going_on.reasons[-1]


def test_a_window_with_half_of_its_samples_is_weak_whatever_the_recording_says():
    window = simulated_window("handheld", seed=4)
    kept = np.arange(0, len(window.imu.stamps_ns), 2)
    half = with_samples(window, kept)
    assert "should sample at 200 Hz" in verdict_of(half).reasons[0]
    evidence = Evidence(window.truth.T_b_c)
    evidence.add(window.imu, [window.vision])
    verdict = verdict_of(half, constants=evidence.constants())
    assert verdict.status == "weak"
    assert "should sample at 200 Hz" in verdict.reasons[0]


def test_a_calibration_names_lost_samples_and_a_mirrored_gyroscope():
    window = simulated_window("handheld", seed=4, steps=40)
    half = with_samples(window, np.arange(0, len(window.imu.stamps_ns), 2))
    lost = calibrate(half.imu, half.vision).verdict
    assert lost.status == "weak"
    assert "should sample at 200 Hz" in lost.reasons[0]
    mirrored = replace(window.imu, gyro=-window.imu.gyro)
    verdict = calibrate(mirrored, window.vision).verdict
    assert verdict.status != "ok"
    assert "mirrored" in verdict.reasons[0]


def test_constants_that_were_trusted_unconfirmed_are_named():
    window = simulated_window("straight", seed=1)
    trusted, strict = verdict_of(window), verdict_of(window, limits=STRICT)
    assert len(trusted.taken_as_given) == 1
    assert "confirm the stated" in trusted.taken_as_given[0]
    assert "--trust-rig" not in trusted.taken_as_given[0]
    assert strict.taken_as_given == ()
    assert strict.status != "ok"
    assert any(trusted.taken_as_given[0] in reason for reason in strict.reasons)


def test_what_is_taken_as_given_is_what_a_strict_verdict_lacks():
    lacking = []
    for seed, kind in enumerate(["handheld", "drone", "straight", "car"] * 2):
        window = simulated_window(kind, seed=seed)
        strict, trusted = verdict_of(window, limits=STRICT), verdict_of(window)
        lacking.append(any("confirm the stated" in reason for reason in strict.reasons))
        assert bool(trusted.taken_as_given) == lacking[-1]
    assert set(lacking) == {True, False}
