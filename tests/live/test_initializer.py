"""Streams in threads: the same answer as offline, and nothing hangs."""

import threading
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from helpers import raw_readings
from maci2.consistency import initialize
from maci2.errors import DatasetError
from maci2.geometry.gaussian import chi2_quantile, nees
from maci2.imu import raw_model
from maci2.live import OnlineInitializer
from maci2.live.buffers import AGREEING_SAMPLES
from maci2.sensors import truth_at
from maci2.sensors.corrections import ideal_intrinsics
from maci2.sensors.stereo import StereoPair
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import RelativePoses, pose_noise, poses_from_truth

SPACING_NS = 250_000_000


@dataclass
class TruthTracker:
    """Knows the motion instead of seeing it: every fifth pair is a keyframe."""

    recording: object
    count: int = 10
    slow_s: float = 0.0
    stamps_ns: list[int] = field(default_factory=list)
    seen: int = 0

    def __post_init__(self):
        self.T_b_c = self.recording.rig.cameras[0].T_b_c

    @property
    def first_ns(self):
        return self.stamps_ns[0] if self.stamps_ns else None

    @property
    def last_ns(self):
        return self.stamps_ns[-1] if self.stamps_ns else None

    def add(self, pair: StereoPair) -> bool:
        time.sleep(self.slow_s)
        self.seen += 1
        if self.stamps_ns and pair.stamp_ns - self.stamps_ns[-1] < SPACING_NS - 1_000_000:
            return False
        self.stamps_ns = [*self.stamps_ns, pair.stamp_ns][-self.count :]
        return True

    def window(self) -> RelativePoses | None:
        return self.so_far() if len(self.stamps_ns) == self.count else None

    def so_far(self) -> RelativePoses | None:
        if len(self.stamps_ns) < 2:
            return None
        return poses_from_truth(
            self.recording.truth(), np.array(self.stamps_ns), self.T_b_c,
            pose_noise(0.05, 0.003), (self.stamps_ns[0] % 1000,),
        )  # fmt: skip

    def reasons(self):
        return []

    def clear(self):
        self.stamps_ns = []


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=6.0, seed=11))


IMAGE = np.zeros((480, 752), dtype=np.uint8)


def events_of(recording):
    imu = [(int(stamp), "imu", i) for i, stamp in enumerate(recording.imu.stamps_ns)]
    pairs = [(int(stamp), "stereo", i) for i, stamp in enumerate(recording.camera_stamps_ns[0])]
    return sorted([*imu, *pairs])


def feed(online, recording, events):
    for stamp_ns, kind, i in events:
        if kind == "imu":
            online.add_imu(stamp_ns, recording.imu.gyro[i], recording.imu.acc[i])
        else:
            online.add_stereo(stamp_ns, IMAGE, IMAGE)
            # Faster than any sensor, but never so fast that pairs have to be dropped.
            while online.is_busy:
                time.sleep(0.001)


def first_result(recording, events):
    results = []
    with OnlineInitializer(
        recording.rig, on_result=results.append, tracker=TruthTracker(recording)
    ) as online:
        feed(online, recording, events)
        assert online.wait(10.0) is not None
        status = online.status
    return results[0], status


def test_the_first_result_is_the_offline_one(recording):
    result, _ = first_result(recording, events_of(recording))
    vision = TruthTracker(recording)
    for stamp_ns in recording.camera_stamps_ns[0]:
        vision.add(StereoPair(int(stamp_ns), IMAGE, IMAGE))
        if vision.window() is not None:
            break
    window = vision.window()
    first_ns, last_ns = int(window.stamps_ns[0]), int(window.stamps_ns[-1])
    np.testing.assert_array_equal(result.state.stamps_ns, window.stamps_ns)
    # The samples that a stream has by then; a whole recording shows vibration beyond its end too.
    for samples, tolerance in (
        (recording.imu.between(int(recording.imu.stamps_ns[0]), last_ns), 0.0),
        (recording.imu, 1e-4),
    ):
        imu = raw_model(samples, recording.rig.imu).between(first_ns, last_ns)
        offline = initialize(imu, window, vision.T_b_c).state
        np.testing.assert_allclose(
            result.state.gravity_c0, offline.gravity_c0, rtol=0, atol=tolerance
        )
        np.testing.assert_allclose(
            result.state.velocity_b, offline.velocity_b, rtol=0, atol=tolerance
        )


def test_raw_readings_are_corrected_by_the_intrinsics_that_the_rig_states(recording):
    events = events_of(recording)
    plain, _ = first_result(recording, events)
    ideal = ideal_intrinsics()
    intrinsics = replace(ideal, M_gyro=np.diag([1.03, 0.98, 1.01]), M_acc=1.02 * ideal.M_acc)
    raw = replace(
        recording,
        imu=raw_readings(recording.imu, intrinsics),
        rig=replace(recording.rig, imu_intrinsics=intrinsics),
    )
    corrected, _ = first_result(raw, events)
    np.testing.assert_allclose(
        corrected.state.gravity_c0, plain.state.gravity_c0, rtol=0, atol=1e-6
    )
    np.testing.assert_allclose(
        corrected.state.velocity_b, plain.state.velocity_b, rtol=0, atol=1e-6
    )


def test_samples_in_another_order_of_arrival_give_the_same_result(recording):
    events = events_of(recording)
    straight, _ = first_result(recording, events)
    rng = np.random.default_rng(2)
    # Every event up to 20 ms later than it should be.
    late = sorted(events, key=lambda event: event[0] + rng.uniform(0.0, 2e7))
    shuffled, status = first_result(recording, late)
    np.testing.assert_array_equal(straight.state.gravity_c0, shuffled.state.gravity_c0)
    assert status.late_imu == 0


def test_a_stated_time_offset_is_taken_from_the_stamps_of_a_late_camera(recording):
    """Timestamps of images are 20 ms late and the rig says so: nothing changes."""
    straight, _ = first_result(recording, events_of(recording))
    rig = replace(recording.rig, time_offset_s=-0.02)
    late_ns = tuple(stamps + 20_000_000 for stamps in recording.camera_stamps_ns)
    late = replace(recording, rig=rig, camera_stamps_ns=late_ns)
    result, _ = first_result(late, events_of(late))
    np.testing.assert_array_equal(result.state.stamps_ns, straight.state.stamps_ns)
    np.testing.assert_allclose(result.state.gravity_c0, straight.state.gravity_c0, atol=1e-4)


def test_two_threads_may_feed_it(recording):
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        parts = [[e for e in events_of(recording) if e[1] == kind] for kind in ("imu", "stereo")]
        feed(online, recording, parts[0][:200])
        threads = [
            threading.Thread(target=feed, args=(online, recording, part))
            for part in (parts[0][200:], parts[1])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20.0)
        result = online.wait(20.0)
    assert result.verdict.status == "ok"


def test_it_tells_what_is_missing_at_any_moment(recording):
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        assert str(online.status).startswith("0.0 s of 2.5 s; rotation about x 0 deg of about 5")
        feed(
            online,
            recording,
            [e for e in events_of(recording) if e[0] < recording.imu.stamps_ns[300]],
        )
        deadline = time.monotonic() + 5.0
        while online.status.collected_s < 1.0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert online.result is None
        assert 1.0 <= online.status.collected_s < 2.5


def test_a_device_at_rest_is_recognised_and_answered():
    still = simulate(SimulationConfig(kind="static", duration_s=5.0, seed=1, bias_gyro_std=0.05))
    result, status = first_result(still, events_of(still))
    assert status.standing_still
    assert "standing still" in str(status)
    truth = truth_at(still.truth(), result.state.stamps_ns, 0.1)
    # From what vision measured, as offline: as certain as that is, not as if motion were known.
    away = result.state.gyro_bias - truth.bias_gyro.mean(axis=0)
    assert np.abs(away).max() < 0.005
    assert nees(away, result.posterior.gyro_bias) < chi2_quantile(3, 0.999)
    assert np.abs(result.state.velocity_b).max() < 0.05


def test_a_restart_in_flight_forgets_the_window(recording):
    events = events_of(recording)
    middle = len(events) // 2
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, events[:middle])
        assert online.wait(10.0) is not None
        online.restart()
        assert online.result is None
        assert online.status.collected_s == 0.0
        feed(online, recording, events[middle:])
        again = online.wait(10.0)
    assert again.state.stamps_ns[0] >= events[middle][0] - 200_000_000


def test_a_jump_of_the_clock_starts_anew_and_says_so(recording):
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, events_of(recording)[:300])
        later_ns = int(recording.imu.stamps_ns[-1]) + 3_600_000_000_000
        online.add_imu(later_ns, np.zeros(3), np.ones(3))
        assert online.status.restarts == 0
        for i in range(1, AGREEING_SAMPLES):
            online.add_imu(later_ns + 5_000_000 * i, np.zeros(3), np.ones(3))
        assert "jumped by 36" in online.status.last_restart
        assert "jumped by 36" in str(online.status)
        assert online.status.restarts == 1


def test_pairs_that_come_faster_than_they_are_worked_on_are_dropped_and_counted(recording):
    tracker = TruthTracker(recording, slow_s=0.05)
    with OnlineInitializer(recording.rig, tracker=tracker) as online:
        feed(online, recording, [e for e in events_of(recording) if e[1] == "imu"])
        for stamp_ns in recording.camera_stamps_ns[0][:60]:
            online.add_stereo(int(stamp_ns), IMAGE, IMAGE)
        assert online.status.dropped_pairs >= 60 - 12 - 2


def test_a_pair_that_comes_after_a_newer_one_is_late(recording):
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, [e for e in events_of(recording) if e[1] == "imu"][:100])
        for index in (5, 3):
            online.add_stereo(int(recording.camera_stamps_ns[0][index]), IMAGE, IMAGE)
            assert online.drain(20.0)
        assert online.status.late_pairs == 1


def test_closing_does_not_hang_while_samples_are_awaited(recording):
    online = OnlineInitializer(recording.rig, tracker=TruthTracker(recording))
    imu = [e for e in events_of(recording) if e[1] == "imu"]
    feed(online, recording, imu[:200])
    for stamp_ns in recording.camera_stamps_ns[0]:
        online.add_stereo(int(stamp_ns), IMAGE, IMAGE)
    online.close()
    assert not online._worker.is_alive()


def test_an_image_of_another_size_and_a_sample_that_is_no_number_are_refused(recording):
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        small = np.zeros((240, 376), dtype=np.uint8)
        with pytest.raises(
            DatasetError, match=r"left image at 7 ns is \(376, 240\), .*another rig"
        ):
            online.add_stereo(7, small, small)
        with pytest.raises(DatasetError, match="gyro at 9 ns is nan"):
            online.add_imu(9, np.array([np.nan, 0, 0]), np.zeros(3))


def test_an_imu_that_stalls_is_named_and_may_come_back(recording):
    events = events_of(recording)
    stall = next(i for i, event in enumerate(events) if event[0] > events[0][0] + 2_000_000_000)
    images = [event for event in events[stall:] if event[1] == "stereo"]
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, [*events[:stall], *images[:20]])
        assert online.drain(20.0)
        assert "no IMU sample has come for 1 s" in online.status.trouble
        assert online.result is None
        feed(online, recording, [e for e in events[stall:] if e[1] == "imu"] + images[20:])
        assert online.wait(20.0) is not None


def test_a_camera_that_stalls_leaves_the_status_and_the_caller_as_they_are(recording):
    events = events_of(recording)
    samples = [event for event in events[300:] if event[1] == "imu"]
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, [*events[:300], *samples])
        assert online.wait(0.1) is None
        assert 0.0 < online.status.collected_s < 2.5


def test_a_thread_that_stops_feeding_does_not_hang_the_others(recording):
    events = events_of(recording)

    def camera_thread(online):
        # Then the driver is gone.
        feed(online, recording, [event for event in events if event[1] == "stereo"][:7])

    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        feed(online, recording, events[:1])
        thread = threading.Thread(target=camera_thread, args=(online,))
        thread.start()
        feed(online, recording, [event for event in events if event[1] == "imu"][1:])
        thread.join(5.0)
        assert not thread.is_alive()
        assert online.drain(5.0)
        assert online.wait(0.1) is None
    assert not online._worker.is_alive()


def test_a_callback_that_raises_does_not_stop_the_worker(recording):
    results = []

    def failing(result):
        results.append(result)
        raise ValueError("no such topic")

    with OnlineInitializer(
        recording.rig, on_result=failing, tracker=TruthTracker(recording)
    ) as online:
        feed(online, recording, events_of(recording))
        assert online.drain(20.0)
        assert online._worker.is_alive()
        assert online.status.callback_error == "the callback raised ValueError: no such topic"
    assert len(results) > 1


def test_a_fault_inside_is_told_and_the_stream_goes_on(recording):
    class Stumbling(TruthTracker):
        def add(self, pair):
            if self.seen == 3:
                self.seen += 1
                raise ZeroDivisionError("an unforeseen fault")
            return super().add(pair)

    with OnlineInitializer(recording.rig, tracker=Stumbling(recording)) as online:
        feed(online, recording, events_of(recording))
        assert online.drain(20.0)
        assert online.result is not None
        assert online.status.restarts == 1


@pytest.mark.slow
def test_memory_stays_flat_over_an_hour(recording):
    import tracemalloc

    rng = np.random.default_rng(3)
    with OnlineInitializer(recording.rig, tracker=TruthTracker(recording)) as online:
        sizes = []
        tracemalloc.start()
        for minute in range(60):
            for i in range(12_000):
                stamp_ns = (minute * 12_000 + i) * 5_000_000
                online.add_imu(stamp_ns, 0.01 * rng.standard_normal(3), rng.standard_normal(3))
            sizes.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert max(sizes[30:]) < 1.2 * max(sizes[:10]) + 1_000_000
