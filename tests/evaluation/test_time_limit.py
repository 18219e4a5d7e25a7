"""What might not end, ends."""

import threading
import time

import pytest

from maci2.evaluation.time_limit import TimeLimitError, within


def test_a_result_in_time_is_handed_on():
    assert within(5.0, lambda: 41 + 1) == 42


def test_an_error_is_the_callers():
    def fails():
        raise ZeroDivisionError("as it was raised")

    with pytest.raises(ZeroDivisionError, match="as it was raised"):
        within(5.0, fails)


def test_a_sleep_without_end_is_left():
    with pytest.raises(TimeLimitError, match=r"did not end within 0\.1 s"):
        within(0.1, lambda: time.sleep(60.0))


def test_a_loop_without_end_is_stopped():
    counts = [0]

    def loop():
        while True:
            counts[0] += 1

    with pytest.raises(TimeLimitError):
        within(0.1, loop)
    before = threading.active_count()
    deadline = time.monotonic() + 5.0
    while threading.active_count() >= before > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    seen = counts[0]
    time.sleep(0.05)
    assert counts[0] == seen
