"""Samples put in order, as they come."""

import numpy as np
import pytest

from maci2.pipeline.online.imu_buffer import RESET_AFTER, SampleBuffer

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
    assert buffer.late == 2
    assert len(buffer) == 200


def test_a_jump_forward_starts_anew_and_is_named():
    buffer = filled(20)
    hour_ns = 3_600_000_000_000
    broken = buffer.add(hour_ns, np.zeros(3), np.zeros(3))
    assert broken == f"the IMU's timestamps jumped by 3599.91 s at {hour_ns} ns"
    assert len(buffer) == 1


def test_a_clock_set_back_is_noticed_after_a_while():
    buffer = SampleBuffer(10.0)
    start_ns = 7_200_000_000_000
    for i in range(200):
        buffer.add(start_ns + i * STEP_NS, np.zeros(3), np.zeros(3))
    told = [buffer.add(i * STEP_NS, np.zeros(3), np.zeros(3)) for i in range(RESET_AFTER)]
    assert told[:-1] == [""] * (RESET_AFTER - 1)
    assert "clock was set back by 7200" in told[-1]
    assert len(buffer) == 1


@pytest.mark.parametrize("keep_s", [1.0, 3.0])
def test_the_buffer_does_not_grow_with_the_stream(keep_s):
    buffer = filled(5000, keep_s)
    assert len(buffer) <= 2 * keep_s * 200 + 1
    assert buffer.last_ns == 4999 * STEP_NS
