"""Stereo pairs judged by the IMU's timestamps."""

import numpy as np
import pytest

from maci2.live.buffers import AGREEING_PAIRS, PairQueue, SampleBuffer
from maci2.sensors.stereo import StereoPair

STEP_NS, FRAME_NS, HOUR_NS = 5_000_000, 50_000_000, 3_600_000_000_000
IMAGE = np.zeros((2, 2), np.uint8)


def pair(stamp_ns):
    return StereoPair(stamp_ns, IMAGE, IMAGE)


def samples_until(end_ns, start_ns=0):
    samples = SampleBuffer(100.0)
    for stamp_ns in range(start_ns, end_ns + 1, STEP_NS):
        samples.add(stamp_ns, np.zeros(3), np.zeros(3))
    return samples


class Running:
    """Pairs and samples in step, the camera's clock ahead by `shift_ns`."""

    def __init__(self):
        self.samples, self.pairs = SampleBuffer(100.0), PairQueue(100)
        self.now_ns, self.shift_ns = 0, 0
        self.told = []

    def run(self, frames):
        for _ in range(frames):
            for _ in range(FRAME_NS // STEP_NS):
                self.now_ns += STEP_NS
                broken = self.samples.add(self.now_ns, np.zeros(3), np.zeros(3))
                self.told.append(self.pairs.samples_came(self.samples, bool(broken)))
            self.told.append(self.pairs.add(pair(self.now_ns + self.shift_ns), self.samples))
        self.told = [text for text in self.told if text]
        return self


def test_pairs_come_out_in_the_order_of_time_once_samples_cover_them():
    pairs, samples = PairQueue(5), samples_until(200_000_000)
    for stamp_ns in (10_000_000, 100_000_000, 50_000_000, 150_000_000, 190_000_000):
        assert pairs.add(pair(stamp_ns), samples) == ""
    taken = []
    while pairs.ready(samples):
        taken.append(pairs.take().stamp_ns)
    assert taken == [10_000_000, 50_000_000, 100_000_000, 150_000_000]


def test_when_too_many_wait_the_oldest_is_dropped_and_counted():
    pairs, samples = PairQueue(2), samples_until(nanoseconds(1.0))
    for k in range(5):
        pairs.add(pair(k * FRAME_NS), samples)
    assert (pairs.dropped, len(pairs), pairs.is_full) == (3, 2, True)
    assert pairs.take().stamp_ns == 3 * FRAME_NS


def test_one_pair_an_hour_ahead_deafens_nobody():
    running = Running().run(10)
    running.pairs.add(pair(running.now_ns + HOUR_NS), running.samples)
    assert "3600.00 s ahead" in running.pairs.off_clock
    running.run(10)
    assert (running.told, running.pairs.off_clock) == ([], "")
    assert (len(running.pairs), running.pairs.outlying, running.pairs.late) == (20, 1, 0)


@pytest.mark.parametrize("back_ns", [310_000_000, 2_000_000_000])
def test_a_camera_clock_set_back_is_told_and_followed(back_ns):
    running = Running().run(60)
    running.shift_ns = -back_ns
    running.run(AGREEING_PAIRS)
    (told,) = running.told
    assert "the camera's clock was set back by" in told
    assert len(running.pairs) == AGREEING_PAIRS


def test_a_camera_clock_two_hours_back_is_told_as_long_as_it_is_wrong():
    running = Running().run(20)
    running.shift_ns = -2 * HOUR_NS
    running.run(20)
    assert "before the IMU's samples" in running.pairs.off_clock
    assert (len(running.pairs), running.pairs.late) == (20, 20)
    running.shift_ns = 0
    running.run(20)
    assert (running.pairs.off_clock, len(running.pairs)) == ("", 40)


def test_a_camera_clock_that_jumps_ahead_is_told_and_missing_images_are_not():
    running = Running().run(20)
    for _ in range(8 * FRAME_NS // STEP_NS):
        running.now_ns += STEP_NS
        running.samples.add(running.now_ns, np.zeros(3), np.zeros(3))
    assert running.run(10).told == []
    running.shift_ns = 400_000_000
    (told,) = running.run(10).told
    assert "the camera's clock jumped by 0.40 s" in told


def test_pairs_wait_for_the_first_sample_and_for_a_clock_that_jumped_with_theirs():
    pairs, samples = PairQueue(10), samples_until(nanoseconds(1.0), HOUR_NS)
    pairs.add(pair(HOUR_NS + FRAME_NS), samples)
    assert pairs.off_clock == "no IMU sample has come yet"
    samples = samples_until(HOUR_NS + nanoseconds(1.0), HOUR_NS)
    assert pairs.samples_came(samples, False) == ""
    assert (len(pairs), pairs.outlying) == (1, 0)


def nanoseconds(seconds):
    return round(seconds * 1e9)
