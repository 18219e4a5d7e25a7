"""A truth whose clock is not the IMU's, measured and put right."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.pipeline.render_along import rendered_on_imu_clock
from maci2.sensors import truth_at
from maci2.simulation import SimulationConfig, simulate
from maci2.simulation.rendering.images import RenderConfig
from maci2.tools.ground_truth.clock import TruthClock, on_imu_clock, truth_clock
from maci2.types import NS
from maci2_lab.evaluation.truth_states import truth_states

PART = RenderConfig(start_s=5.0, duration_s=6.0)


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=30.0, seed=5))


def with_clock(recording, early_s):
    """Timestamps of the truth too early by so much, everywhere or as a function of time [s]."""
    name, truth = next(iter(recording.truths.items()))
    t_s = (truth.stamps_ns - truth.stamps_ns[0]) / NS
    early_ns = np.round(np.broadcast_to(early_s(t_s), t_s.shape) * NS).astype(np.int64)
    moved = replace(truth, stamps_ns=truth.stamps_ns - early_ns)
    return replace(recording, truths={name: moved})


def offsets_ms(recording):
    truth = recording.truth()
    return 1e3 * truth_clock(truth, recording.imu, *truth.stamps_ns[[0, -1]].tolist()).offsets_s


@pytest.mark.parametrize("early_ms", [3.0, -3.0])
def test_truth_moved_by_3_ms_is_put_back(recording, early_ms):
    moved = with_clock(recording, lambda t_s: 1e-3 * early_ms)
    np.testing.assert_allclose(offsets_ms(moved), early_ms, atol=0.3)

    put_back, clock = rendered_on_imu_clock(moved, PART)
    np.testing.assert_allclose(1e3 * clock.offsets_s, early_ms, atol=0.3)
    np.testing.assert_allclose(offsets_ms(put_back), 0.0, atol=0.3)


def test_clock_that_wanders_is_followed(recording):
    """By 4 ms within half a minute, as EuRoC's V2_03; the middle of a stretch stands for it."""
    moved = with_clock(recording, lambda t_s: 0.002 - 0.004 * t_s / 30.0)
    found_ms = offsets_ms(moved)
    assert found_ms[0] - found_ms[-1] > 1.5
    truth = moved.truth()
    clock = truth_clock(truth, moved.imu, *truth.stamps_ns[[0, -1]].tolist())
    put_back = replace(moved, truths={"truth": on_imu_clock(truth, clock)})
    np.testing.assert_allclose(offsets_ms(put_back), 0.0, atol=0.4)


def test_truth_put_back_keeps_its_stamps_and_its_path(recording):
    """Timestamps stay on IMU samples, where integration errors need them."""
    truth = recording.truth()
    clock = TruthClock(truth.stamps_ns[:1], np.array([0.005]), np.array([0.0001]))
    early = replace(truth, stamps_ns=truth.stamps_ns - 5_000_000)
    put_back = on_imu_clock(early, clock)
    assert np.isin(put_back.stamps_ns, early.stamps_ns).all()
    expected = truth_at(truth, put_back.stamps_ns, 0.06)
    np.testing.assert_allclose(put_back.Ts_w_b, expected.Ts_w_b, atol=1e-9)
    np.testing.assert_allclose(put_back.v_w, expected.v_w, atol=1e-9)
    assert len(truth_states(recording.imu, put_back, "put back")) > 0.99 * len(recording.imu)


def test_truth_with_a_gap_is_not_bridged(recording):
    truth = recording.truth()
    outside = np.abs(truth.stamps_ns - truth.stamps_ns[len(truth) // 2]) > NS // 2
    gap = replace(
        truth,
        **{
            name: getattr(truth, name)[outside]
            for name in ("stamps_ns", "Ts_w_b", "v_w", "bias_gyro", "bias_acc")
        },
    )
    clock = TruthClock(truth.stamps_ns[:1], np.array([0.003]), np.array([0.0001]))
    put_back = on_imu_clock(gap, clock)
    assert np.diff(put_back.stamps_ns).max() > 0.9 * NS
    assert len(put_back) >= len(gap) - 3


@pytest.mark.parametrize("kind", ["handheld", "drone", "car", "planar_yaw"])
def test_truth_on_the_imus_clock_is_left_as_it_is(kind):
    recording = simulate(SimulationConfig(kind=kind, duration_s=20.0, seed=1))
    same, clock = rendered_on_imu_clock(recording, PART)
    assert clock is None
    assert same is recording


def test_motion_without_rotation_says_nothing_of_the_clock():
    recording = simulate(SimulationConfig(kind="straight", duration_s=20.0, seed=1))
    moved = with_clock(recording, lambda t_s: 0.003)
    assert rendered_on_imu_clock(moved, PART) == (moved, None)


@pytest.mark.parametrize(
    ("offsets_ms", "text"),
    [
        ([2.3], "2.3 ms early (+- 0.20 ms)"),
        ([-2.3, -2.31], "2.3 ms late (+- 0.20 ms)"),
        ([-0.8, -0.3], "0.3 to 0.8 ms late (+- 0.20 ms)"),
        ([2.4, -1.7], "between 1.7 ms late and 2.4 ms early (+- 0.20 ms)"),
    ],
)
def test_clock_says_how_far_it_is_off(offsets_ms, text):
    stamps_ns = np.arange(len(offsets_ms)) * NS
    clock = TruthClock(stamps_ns, 1e-3 * np.array(offsets_ms), np.full(len(offsets_ms), 2e-4))
    assert str(clock) == text
