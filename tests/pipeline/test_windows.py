"""Windows and keyframes."""

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.pipeline.prepare import one_window, plan_windows

NS = 1_000_000_000
IMAGES_NS = 7 * NS + np.arange(0, 10 * NS + 1, NS // 20, dtype=np.int64)
"""Ten seconds at 20 Hz."""


def test_windows_follow_each_other_by_the_stride_and_the_last_one_fits():
    windows = plan_windows(IMAGES_NS, window_s=2.5, stride_s=2.5, keyframes=10)
    assert [window.start_ns for window in windows] == [
        7 * NS,
        9 * NS + NS // 2,
        12 * NS,
        14 * NS + NS // 2,
    ]
    assert windows[-1].stamps_ns[-1] == IMAGES_NS[-1]


def test_keyframes_are_images_as_evenly_spread_as_images_allow():
    window = one_window(IMAGES_NS, 2.5, 10, start_s=0.0)
    assert np.isin(window.stamps_ns, IMAGES_NS).all()
    wanted = 7 * NS + np.linspace(0, 2.5 * NS, 10)
    assert np.abs(window.stamps_ns - wanted).max() <= NS // 40


def test_a_window_whose_images_were_dropped_is_left_out():
    dropped = IMAGES_NS[(IMAGES_NS < 8 * NS) | (IMAGES_NS > 9 * NS)]
    windows = plan_windows(dropped, 2.5, 2.5, 10)
    assert [window.index for window in windows] == [1, 2, 3]


def test_a_recording_shorter_than_the_window_says_what_there_is():
    with pytest.raises(DatasetError, match=r"no window of 20 s with 10 keyframes.*cover 10\.00 s"):
        one_window(IMAGES_NS, 20.0, 10, start_s=0.0)
