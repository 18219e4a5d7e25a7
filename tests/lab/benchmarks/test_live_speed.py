"""Speed of a stream: measured on all that was handed over."""

import pytest

from maci2_lab.benchmarks.live_speed import LiveSpeed, live_speed


def test_processor_time_is_told_per_second_of_data():
    speed = LiveSpeed("clip", 8.0, 2.0, 80)
    assert speed.per_second == 0.25
    assert "0.25 s of processor time per second of data" in speed.text()


@pytest.mark.dataset
def test_every_pair_after_the_start_of_a_real_stream_has_a_state(data_root):
    speed = live_speed(data_root / "euroc" / "MH_01_clip")
    assert speed.duration_s > 7.0
    # The first window of 2.5 s has none yet; images come at 10 Hz.
    assert 45 <= speed.states <= 52
    assert speed.processor_s > 0.0
