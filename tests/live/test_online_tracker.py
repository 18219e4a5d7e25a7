"""Tracking while the sensors run: the offline answers, bridged outages, calls from any thread."""

import threading
import time

import numpy as np
import pytest

from maci2.errors import MeasurementError, OptionError
from maci2.imu.model_choice import find_imu_model
from maci2.live import OnlineTracker, OnlineTrackerConfig
from maci2.odometry import track
from maci2.odometry.settings import tracker_settings
from maci2.sensors import truth_at
from maci2.vision.covariance import EXACT_CALIBRATION
from maci2.vision.relative_pose import stacked
from online_cases import SimulatedTracker, noise_file, resident_mb, simulated

INTERVAL_S = 0.2
ENOUGH_S = 60.0
"""No wait ends because of this, unless something hangs."""


@pytest.fixture(scope="module")
def source():
    return simulated(14.0, seed=4)


def events_of(source, frames=lambda stamp_ns: True):
    imu = source.recording.imu
    events = [(int(stamp), "imu", i) for i, stamp in enumerate(imu.stamps_ns)]
    events += [
        (int(stamp), "stereo", i) for i, stamp in enumerate(source.frames_ns) if frames(stamp)
    ]
    return sorted(events)


def feed(online, source, events, shift_ns=0):
    imu = source.recording.imu
    for stamp_ns, kind, i in events:
        if kind == "imu":
            online.add_imu(stamp_ns + shift_ns, imu.gyro[i], imu.acc[i])
        else:
            online.add_stereo(stamp_ns + shift_ns, source.image(i), source.image(i))
            while online.is_busy:
                time.sleep(0.001)


def online_tracker(source, states, imu="datasheet", **choices):
    config = OnlineTrackerConfig(imu=imu, waiting_results=10_000, **choices)
    tracker = SimulatedTracker(source, INTERVAL_S, 16)
    return OnlineTracker(source.recording.rig, config, states.append, tracker)


def seconds(source, state):
    return (state.stamp_ns - int(source.frames_ns[0])) / 1e9


@pytest.mark.parametrize("imu", ["datasheet", "noise"])
def test_states_are_those_of_the_recording(source, tmp_path, imu):
    name, states = f"noise:{noise_file(tmp_path)}" if imu == "noise" else imu, []
    with online_tracker(source, states, name) as online:
        feed(online, source, events_of(source))
        assert online.drain(ENOUGH_S)
        status = online.status
    vision = SimulatedTracker(source, INTERVAL_S, 1000)
    for i, stamp_ns in enumerate(source.frames_ns):
        vision.add(type("Pair", (), {"stamp_ns": int(stamp_ns), "left": source.image(i)})())
    poses, rig = stacked(vision._poses, "camera", EXACT_CALIBRATION), source.recording.rig
    measured = find_imu_model(name)(source.recording.imu, rig.imu)
    walks, config = tracker_settings(rig, name)
    offline = track(measured, poses, vision.T_b_c, walks, source.frames_ns, config)
    expected = {state.stamp_ns: state for state in offline.states}
    assert len(states) > 200
    assert states[0].stamp_ns == offline.states[0].stamp_ns
    for state in states:
        other = expected[state.stamp_ns]
        # Between keyframes one carries the state in one step, the other image by image.
        near, alike = (1e-9, 1e-9) if state.stamp_ns in poses.stamps_ns else (1e-5, 1e-2)
        np.testing.assert_allclose(state.T_w_b, other.T_w_b, atol=near)
        np.testing.assert_allclose(state.v_w, other.v_w, atol=near)
        std = np.sqrt(np.diag(other.cov))
        np.testing.assert_allclose((state.cov - other.cov) / np.outer(std, std), 0.0, atol=alike)
        assert state.health == other.health == "tracking"
    assert (status.health, status.segments, status.restarts) == ("tracking", 1, 0)


def test_the_state_is_that_of_the_newest_sample_and_near_the_truth(source):
    with online_tracker(source, []) as online:
        assert online.state is None
        assert str(online.status).startswith("initializing")
        feed(online, source, events_of(source))
        assert online.drain(ENOUGH_S)
        state = online.state
    assert state.stamp_ns == int(source.recording.imu.stamps_ns[-1])
    truth = truth_at(source.recording.truth(), np.array([state.stamp_ns]), 0.1)
    up_b = state.T_w_b[2, :3] @ truth.Ts_w_b[0, :3, :3].T
    assert np.rad2deg(np.arccos(up_b[2])) < 0.5
    speed = np.linalg.norm(truth.v_w[0])
    assert abs(np.linalg.norm(state.v_w) - speed) < 0.1
    assert (np.linalg.eigvalsh(state.cov) > 0.0).all()


def test_without_images_the_imu_carries_on_and_it_says_so(source):
    """Images are missing from 5 s to 11 s: bridged, then lost, then tracked again."""
    states, asked = [], []
    start_ns = int(source.frames_ns[0])
    events = events_of(source, lambda stamp: not 5e9 < stamp - start_ns < 11e9)
    with online_tracker(source, states) as online:
        for k in range(0, len(events), 20):
            feed(online, source, events[k : k + 20])
            # In step with the worker, which makes keyframes of samples alone.
            online.drain(0.05)
            state = online.state
            if state is not None:
                asked.append(state)
        assert online.drain(ENOUGH_S)
        status = online.status
    health = [state.health for state in asked]
    assert health.index("bridging") < health.index("lost")
    assert health[-1] == "tracking"
    assert {state.segment for state in asked} == {0}
    lost = [state for state in asked if state.health == "lost"]
    stds = [float(np.sqrt(np.trace(state.cov[6:9, 6:9]))) for state in lost]
    assert np.all(np.diff(stds) > 0.0)
    assert status.restarts == 0
    for state in states[-1:]:
        truth = truth_at(source.recording.truth(), np.array([state.stamp_ns]), 0.1)
        away = abs(np.linalg.norm(state.v_w) - np.linalg.norm(truth.v_w[0]))
        assert away < 4.0 * np.sqrt(np.trace(state.cov[3:6, 3:6])) + 1e-3


def test_a_jump_of_both_clocks_begins_another_segment(source):
    states, events = [], events_of(source)
    half = len(events) // 2
    with online_tracker(source, states) as online:
        feed(online, source, events[:half])
        # A pair of the old clock that still waits would be seen as another jump.
        assert online.drain(ENOUGH_S)
        feed(online, source, events[half:], shift_ns=-3_600_000_000_000)
        assert online.drain(ENOUGH_S)
        status = online.status
    assert (status.restarts, status.segments) == (1, 2)
    assert "set back by 3599.99 s" in status.last_restart
    assert (states[0].segment, states[-1].segment) == (0, 1)
    assert states[-1].health == "tracking"
    # Of earlier segments nothing is kept, however many there are.
    assert len(online._tracker.origins) == len(online._tracker.starts) == 1


def test_a_restart_is_initializing_at_once(source):
    events = events_of(source)
    with online_tracker(source, []) as online:
        feed(online, source, events[: len(events) // 2])
        assert online.wait(ENOUGH_S) is not None
        online.restart()
        assert online.state is None
        assert online.status.health == "initializing"
        feed(online, source, events[len(events) // 2 :])
        assert online.drain(ENOUGH_S)
        assert online.state.segment == 1


def test_state_may_be_asked_from_any_thread_at_any_time(source):
    seen, done = [], threading.Event()
    with online_tracker(source, []) as online:

        def asking():
            while not done.is_set():
                state = online.state
                if state is not None:
                    seen.append(state.stamp_ns)

        threads = [threading.Thread(target=asking) for _ in range(2)]
        for thread in threads:
            thread.start()
        feed(online, source, events_of(source))
        assert online.drain(ENOUGH_S)
        done.set()
        for thread in threads:
            thread.join(ENOUGH_S)
            assert not thread.is_alive()
    assert len(set(seen)) > 10


def test_wrong_configurations_are_refused(source):
    with pytest.raises(OptionError, match="interval_s"):
        OnlineTrackerConfig(interval_s=0.0)
    with pytest.raises(MeasurementError, match="smoother"):
        OnlineTrackerConfig(smoother=3.0)
    with pytest.raises(MeasurementError, match="config"):
        OnlineTracker(source.recording.rig, 7)


@pytest.mark.soak
def test_memory_stays_flat_and_the_state_right_over_an_hour():
    """Keyframes only: states between them are carried from the same anchor."""
    source = simulated(3600.0, seed=8)
    keyframes_ns = set(source.frames_ns[::4].tolist())
    events, states, used_mb = events_of(source, lambda stamp: stamp in keyframes_ns), [], []
    with online_tracker(source, states) as online:
        for part in np.array_split(np.arange(len(events)), 60):
            feed(online, source, [events[k] for k in part])
            assert online.drain(ENOUGH_S)
            del states[:-1]
            used_mb.append(resident_mb())
        status, state = online.status, online.state
    assert (status.health, status.segments) == ("tracking", 1)
    assert max(used_mb[30:]) < max(used_mb[5:15]) + 10.0, used_mb
    truth = truth_at(source.recording.truth(), np.array([state.stamp_ns]), 0.1)
    assert abs(np.linalg.norm(state.v_w) - np.linalg.norm(truth.v_w[0])) < 0.1
    assert (np.linalg.eigvalsh(state.cov) > 0.0).all()
