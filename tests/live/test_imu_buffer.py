"""Samples put in order, as they come."""

import numpy as np
import pytest

from maci2.live.buffers import AGREEING_SAMPLES, SampleBuffer

STEP_NS = 5_000_000


def filled(count, keep_s=10.0):
    buffer = SampleBuffer(keep_s)
    for i in range(count):
        assert buffer.add(i * STEP_NS, np.full(3, i), np.full(3, -i)) == ""
    return buffer


def test_samples_come_out_as_they_went_in():
    samples = filled(20).snapshot()
    np.testing.assert_array_equal(samples.stamps_ns, np.arange(20) * STEP_NS)
    np.testing.assert_array_equal(samples.gyro[:, 1], np.arange(20))
    np.testing.assert_array_equal(samples.acc[:, 2], -np.arange(20))


def test_a_sample_that_comes_a_little_late_finds_its_place():
    buffer = filled(10)
    assert buffer.add(12 * STEP_NS, np.zeros(3), np.zeros(3)) == ""
    assert buffer.add(11 * STEP_NS, np.ones(3), np.ones(3)) == ""
    samples = buffer.snapshot()
    assert (np.diff(samples.stamps_ns) > 0).all()
    assert samples.gyro[-2, 0] == 1.0
    assert buffer.late == 0


def test_a_repeated_or_very_late_sample_is_dropped_and_counted():
    buffer = filled(200)
    buffer.add(199 * STEP_NS, np.zeros(3), np.zeros(3))
    buffer.add(2 * STEP_NS + 1, np.zeros(3), np.zeros(3))
    buffer.add(200 * STEP_NS, np.zeros(3), np.zeros(3))
    assert buffer.late == 2
    assert len(buffer) == 201


HOUR_NS = 3_600_000_000_000


def test_one_sample_far_ahead_is_held_and_given_up_when_the_stream_goes_on():
    buffer = filled(20)
    assert buffer.add(HOUR_NS, np.zeros(3), np.zeros(3)) == ""
    assert buffer.add(20 * STEP_NS, np.zeros(3), np.zeros(3)) == ""
    assert buffer.last_ns == 20 * STEP_NS
    assert (buffer.outlying, buffer.late) == (1, 0)


def test_a_jump_forward_that_others_confirm_starts_anew_and_is_named():
    buffer = filled(20)
    told = [
        buffer.add(HOUR_NS + i * STEP_NS, np.full(3, i), np.zeros(3))
        for i in range(AGREEING_SAMPLES)
    ]
    assert told[:-1] == [""] * (AGREEING_SAMPLES - 1)
    assert told[-1] == f"the IMU's timestamps jumped by 3599.91 s at {HOUR_NS} ns"
    np.testing.assert_array_equal(buffer.snapshot().gyro[:, 0], np.arange(AGREEING_SAMPLES))
    assert buffer.outlying == 0


@pytest.mark.parametrize("back_ns", [7_200_000_000_000, 200 * STEP_NS, 60 * STEP_NS])
@pytest.mark.parametrize("phase", [0.0, 0.2])
def test_a_clock_set_back_is_noticed_however_little_it_was(back_ns, phase):
    buffer = SampleBuffer(10.0)
    rng = np.random.default_rng(0)
    start_ns = 7_200_000_000_000
    for i in range(200):
        buffer.add(start_ns + i * STEP_NS, rng.standard_normal(3), np.zeros(3))
    first_ns = start_ns + 200 * STEP_NS - back_ns + round(phase * STEP_NS)
    told = [
        buffer.add(first_ns + i * STEP_NS, rng.standard_normal(3), np.zeros(3))
        for i in range(AGREEING_SAMPLES)
    ]
    assert told[:-1] == [""] * (AGREEING_SAMPLES - 1)
    assert "clock was set back by" in told[-1]
    assert (buffer.first_ns, len(buffer)) == (first_ns, AGREEING_SAMPLES)


def test_samples_that_are_handed_over_again_are_no_clock_set_back():
    buffer = filled(100)
    told = [buffer.add(i * STEP_NS, np.full(3, i), np.full(3, -i)) for i in range(60, 100)]
    assert set(told) == {""}
    assert buffer.late == 40
    assert len(buffer) == 100


def test_one_of_two_threads_may_be_late_by_a_burst():
    buffer = SampleBuffer(10.0)
    for i in range(0, 60, 2):
        assert buffer.add(i * STEP_NS, np.full(3, i), np.zeros(3)) == ""
    for i in range(1, 60, 2):
        assert buffer.add(i * STEP_NS, np.full(3, i), np.zeros(3)) == ""
    np.testing.assert_array_equal(buffer.snapshot().gyro[:, 0], np.arange(60))
    assert buffer.late == 0


def test_a_gap_is_found_only_where_it_is():
    buffer = filled(40)
    for i in range(48, 80):
        buffer.add(i * STEP_NS, np.zeros(3), np.zeros(3))
    gap_ns = (39 * STEP_NS, 48 * STEP_NS)
    assert buffer.gap_ns(0, 30 * STEP_NS) is None
    assert buffer.gap_ns(20 * STEP_NS, 60 * STEP_NS) == gap_ns
    assert buffer.gap_ns(42 * STEP_NS, 43 * STEP_NS) == gap_ns
    assert buffer.gap_ns(50 * STEP_NS, 79 * STEP_NS) is None


@pytest.mark.parametrize("keep_s", [1.0, 3.0])
def test_the_buffer_does_not_grow_with_the_stream(keep_s):
    buffer = filled(5000, keep_s)
    assert len(buffer) <= 2 * keep_s * 200 + 1
    assert buffer.last_ns == 4999 * STEP_NS
