"""A recording played back as if its sensors were running."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from maci2.datasets.frames import stereo_frames
from maci2.errors import ImageError
from maci2.live.initializer import OnlineInitializer
from maci2.live.stream import BEFORE_S
from maci2.live.tracker import OnlineTracker
from maci2.sensors import Recording
from maci2.types import NS

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Replayed:
    """Durations of the calls [s]."""

    imu_s: list[float]
    stereo_s: list[float]
    pair_at_s: dict[int, float]
    """Timestamp of a pair in the recording -> when it was passed on, on the clock of
    `time.perf_counter`."""

    unusable: list[str]
    """Faults of the pairs that were skipped because an image cannot be used."""


def replay(
    recording: Recording,
    online: OnlineInitializer | OnlineTracker,
    speed: float = 1.0,
    on_pair: Callable[[int], None] = lambda stamp_ns: None,
) -> Replayed:
    """Feed samples and stereo pairs at `speed` times real time, in the order of their timestamps.

    Faster than real time it waits where pairs would have to be dropped: a file can. `on_pair` is
    called with the timestamp of each pair that was handed over.
    """
    frames, imu = stereo_frames(recording), recording.imu
    # As a driver gives them: the initializer puts timestamps onto the IMU's clock itself.
    images_ns = frames.stamps_ns - recording.camera_shift_ns
    first_ns = int(images_ns[0]) - round(BEFORE_S * NS)
    samples = [(int(stamp), 0, i) for i, stamp in enumerate(imu.stamps_ns) if stamp >= first_ns]
    images = [(int(stamp), 1, i) for i, stamp in enumerate(images_ns)]
    events = sorted(samples + images)
    taken = Replayed([], [], {}, [])
    began = time.perf_counter()
    for stamp_ns, kind, index in events:
        wait_s = (stamp_ns - events[0][0]) / NS / speed - (time.perf_counter() - began)
        if wait_s > 0.0:
            time.sleep(wait_s)
        try:
            pair = frames.pair(index) if kind else None
        except ImageError as error:
            taken.unusable.append(str(error))
            continue
        called = time.perf_counter()
        if pair is None:
            online.add_imu(stamp_ns, imu.gyro[index], imu.acc[index])
            taken.imu_s.append(time.perf_counter() - called)
        else:
            while speed > 1.0 and online.is_busy:
                time.sleep(0.001)
            called = time.perf_counter()
            online.add_stereo(stamp_ns, pair.left, pair.right)
            taken.stereo_s.append(time.perf_counter() - called)
            taken.pair_at_s[int(frames.stamps_ns[index])] = called
            on_pair(int(frames.stamps_ns[index]))
    if taken.unusable:
        _LOG.warning(
            "%d of %d stereo pairs cannot be used and were skipped; the first: %s",
            len(taken.unusable), len(frames), taken.unusable[0],
        )  # fmt: skip
    return taken
