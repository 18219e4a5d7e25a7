"""Callbacks that raise, block, or call back: the stream goes on, and nothing waits for ever."""

import threading
import time

import pytest

from maci2.live import OnlineConfig, OnlineInitializer
from maci2.live.buffers import CallbackThread
from online_cases import SimulatedTracker, simulated

ENOUGH_S = 30.0
"""No wait ends because of this, unless something hangs."""


@pytest.fixture(scope="module")
def source():
    return simulated(6.0, seed=5)


def feed(online, source, until_s=6.0):
    imu = source.recording.imu
    events = [(int(stamp), "imu", i) for i, stamp in enumerate(imu.stamps_ns)]
    events += [(int(stamp), "stereo", i) for i, stamp in enumerate(source.frames_ns)]
    for stamp_ns, kind, i in sorted(events):
        if stamp_ns - imu.stamps_ns[0] > until_s * 1e9:
            return
        if kind == "imu":
            online.add_imu(stamp_ns, imu.gyro[i], imu.acc[i])
        else:
            online.add_stereo(stamp_ns, source.image(i), source.image(i))
            while online.is_busy:
                time.sleep(0.001)


def started(source, on_result, **choices):
    config = OnlineConfig(window_s=2.25, **choices)
    return OnlineInitializer(
        source.recording.rig, config, on_result, SimulatedTracker(source, 0.25, 10)
    )


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, ValueError])
def test_whatever_a_callback_raises_the_stream_goes_on(source, error):
    calls = []

    def failing(result):
        calls.append(result)
        raise error("no such topic")

    with started(source, failing) as online:
        feed(online, source)
        assert online.drain(ENOUGH_S)
        assert not online.is_busy
        status = online.status
    assert len(calls) > 5
    assert status.callback_error == f"the callback raised {error.__name__}: no such topic"
    assert status.restarts == 0


def test_a_callback_that_blocks_gets_the_newest_results_and_others_are_counted(source):
    calls, gate = [], threading.Event()

    def blocking(result):
        calls.append(int(result.state.stamps_ns[-1]))
        gate.wait(ENOUGH_S)

    with started(source, blocking, waiting_results=2) as online:
        feed(online, source)
        deadline_s = time.monotonic() + ENOUGH_S
        while online.status.dropped_results < 5 and time.monotonic() < deadline_s:
            time.sleep(0.005)
        dropped = online.status.dropped_results
        newest_ns = int(online.result.state.stamps_ns[-1])
        gate.set()
        assert online.drain(ENOUGH_S)
    assert dropped >= 5
    assert len(calls) <= 2 + 3
    assert calls[-1] >= newest_ns
    assert calls == sorted(calls)


def test_closing_does_not_wait_for_a_callback_that_blocks(source):
    gate, entered = threading.Event(), threading.Event()

    def blocking(_):
        entered.set()
        gate.wait(ENOUGH_S)

    online = started(source, blocking)
    feed(online, source, until_s=3.5)
    assert entered.wait(ENOUGH_S)
    online.close()
    assert not online._worker.is_alive()
    assert not gate.is_set()
    gate.set()


@pytest.mark.parametrize("method", ["close", "restart", "drain", "wait", "add_imu", "add_stereo"])
def test_a_callback_may_call_any_method(source, method):
    done = threading.Event()

    def calling(_):
        arguments = {
            "drain": (0.0,),
            "wait": (ENOUGH_S,),
            "add_imu": (0, [0.0] * 3, [0.0] * 3),
            "add_stereo": (0, source.image(0), source.image(0)),
        }.get(method, ())
        getattr(online, method)(*arguments)
        done.set()

    online = started(source, calling)
    feed(online, source)
    assert done.wait(ENOUGH_S)
    online.close()
    assert not online._worker.is_alive()
    assert online.status.callback_error == ""


def test_images_are_copied(source):
    """A driver writes the next frame into the same memory while the pair still waits."""
    imu = source.recording.imu
    with started(source, lambda _: None, waiting_pairs=200) as online:
        buffer = source.image(0)
        for i, stamp_ns in enumerate(source.frames_ns):
            buffer[:] = source.image(i)
            online.add_stereo(int(stamp_ns), buffer, buffer)
        for stamp_ns, gyro, acc in zip(imu.stamps_ns, imu.gyro, imu.acc, strict=True):
            online.add_imu(int(stamp_ns), gyro, acc)
        assert online.drain(ENOUGH_S)
        assert online.result.verdict.status == "ok"


def test_results_that_wait_at_the_end_are_dropped():
    gate, calls = threading.Event(), []

    def blocking(result):
        calls.append(result)
        gate.wait(ENOUGH_S)

    thread = CallbackThread(blocking, 4, "test")
    for number in range(3):
        thread.put(number)
    while not calls:
        time.sleep(0.001)
    closing = threading.Thread(target=thread.close, args=(ENOUGH_S,))
    closing.start()
    gate.set()
    closing.join(ENOUGH_S)
    thread.put(7)
    assert calls == [0]
