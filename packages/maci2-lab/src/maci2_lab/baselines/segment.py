"""Input and output of initializers: one window, and the answer with the times of its stages."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial, wraps
from itertools import accumulate
from typing import NamedTuple, ParamSpec, Protocol, TypeVar

import numpy as np

from maci2.errors import MeasurementError
from maci2.estimator import Posterior, VIState
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.geometry import se3_inv
from maci2.imu import ImuMeasurements, datasheet_model, preintegrate, raw_model
from maci2.pipeline.prepare import Inputs, Window
from maci2.types import GRAVITY_NORM, NS, Array, Stamps
from maci2.vision import RelativePoses
from maci2_lab.baselines.image_tracks import tracks_of

P = ParamSpec("P")
T = TypeVar("T")


class StageTime(NamedTuple):
    """Wall time of one stage."""

    name: str
    ms: float


class _Clock(threading.local):
    """Timer of the current thread; inactive outside `with_stage_times`."""

    times: dict[str, float] | None = None
    inside: bool = False
    """True if a stage is running; nested stages count as part of it."""


_CLOCK = _Clock()


def stage(name: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorator of functions that are stages of initializers."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            times = _CLOCK.times
            if times is None or _CLOCK.inside:
                return function(*args, **kwargs)
            _CLOCK.inside = True
            began_s = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                _CLOCK.inside = False
                times[name] = times.get(name, 0.0) + 1e3 * (time.perf_counter() - began_s)

        return timed

    return decorate


def with_stage_times(function: Callable[[], T]) -> tuple[T, tuple[StageTime, ...]]:
    """Result of a function, and the times of its stages in order."""
    times: dict[str, float] = {}
    before, _CLOCK.times = _CLOCK.times, times
    try:
        result = function()
    finally:
        _CLOCK.times = before
    return result, tuple(StageTime(name, ms) for name, ms in times.items())


MARGIN_NS = NS
"""Time to each side over which vibration is averaged [ns]."""


def no_tracks() -> None:
    """Missing tracks of a segment whose vision gives poses only."""


@dataclass(frozen=True)
class Segment:
    """One window, identical for all initializers: samples, camera motion, calibration, norm of
    gravity.

    Nothing here comes from a ground truth, and nothing is known to one method alone.
    """

    raw: ImuMeasurements
    """Raw samples with the data sheet's variance, one sample beyond the first and the last
    keyframe. No bias prior of it may be used."""

    raw_vibrating: ImuMeasurements
    """Raw samples with vibration noise added, estimated from the recording, as with `--imu raw`."""

    measurements: ImuMeasurements
    """Samples of the chosen IMU model (`--imu`): corrected, with variances and a prior. A learned
    model needs the whole stream and has already run."""

    vision: RelativePoses
    """Camera motion between the keyframes, in metres (stereo)."""

    T_b_c: Array
    """(4, 4) pose in the body of the camera frame that `vision` refers to."""

    gravity_norm: float = GRAVITY_NORM
    """[m/s^2]"""

    find_tracks: Callable[[], FeatureTracks | None] = no_tracks
    """Function that makes the feature tracks on first use, since tracking images takes time."""

    @cached_property
    def tracks(self) -> FeatureTracks:
        """Points followed over the keyframes, left and right; raises where vision has none."""
        found = self.find_tracks()
        if found is None:
            raise MeasurementError(
                "this segment has relative poses only, and the method needs feature tracks; take "
                "them from images, tracks:PIXEL_SIGMA or tracks:FILE.npz."
            )
        return found

    @property
    def stamps_ns(self) -> Stamps:
        """(n,) keyframes."""
        return self.vision.stamps_ns

    def Ts_c0_c(self) -> Array:
        """(n, 4, 4) camera poses, chained from the relative poses of vision."""
        return np.array(list(accumulate(self.vision.Ts_ck_ck1, np.matmul, initial=np.eye(4))))

    def Ts_c0_b(self) -> Array:
        """(n, 4, 4) body poses, chained from the relative poses of vision."""
        return self.Ts_c0_c() @ se3_inv(np.ascontiguousarray(self.T_b_c))

    def state(
        self,
        gravity_c0: Array,
        velocity_b: Array,
        gyro_bias: Array,
        acc_bias: Array,
        Ts_c0_b: Array,
    ) -> VIState:
        """Estimate in our conventions; biases are those of the raw samples."""
        return VIState(
            self.stamps_ns, Ts_c0_b, velocity_b, gravity_c0, gyro_bias, acc_bias, self.T_b_c
        )


@dataclass(frozen=True)
class Answer:
    """Result of an initializer on a segment."""

    accepted: bool
    """True if the method's own criteria accept this window."""

    reason: str = ""
    """Reason for a rejection, or warning of the method."""

    state: VIState | None = None
    """Estimated state, also of a rejected window if there is one."""

    posterior: Posterior | None = None
    """Covariance, for methods that state one."""

    unsure: bool = False
    """True if the method requires more motion instead of accepting or rejecting."""

    stages: tuple[StageTime, ...] = ()
    """Times of the stages known to `run_initializer`."""


class Initializer(Protocol):
    """An initializer: a function from a segment to an answer."""

    def __call__(self, segment: Segment, /) -> Answer: ...


def make_segment(inputs: Inputs, window: Window) -> Segment:
    """Cut one window out of an opened recording."""
    vision = inputs.vision.motion(window.stamps_ns, window.index)
    start_ns, end_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
    samples, noise = inputs.recording.imu, inputs.recording.rig.imu
    around = samples.between(
        max(start_ns - MARGIN_NS, int(samples.stamps_ns[0])),
        min(end_ns + MARGIN_NS, int(samples.stamps_ns[-1])),
    )
    return Segment(
        datasheet_model(samples.between(start_ns, end_ns), noise),
        raw_model(around, noise).between(start_ns, end_ns),
        inputs.imu.between(start_ns, end_ns),
        vision,
        inputs.T_b_c,
        find_tracks=partial(tracks_of, inputs.vision, window.stamps_ns, window.index),
    )


GATE_SHARE = 0.005
"""Fraction of the norm of gravity by which the mean specific force must differ from it."""


def is_excited(segment: Segment) -> bool:
    """True if the mean specific force differs from the norm of gravity by more than 0.5 %, over the
    window and in all intervals except at most one."""
    zero = np.zeros(3)
    pre = preintegrate(segment.raw, segment.stamps_ns, zero, zero)
    force = pre.beta / pre.dt[:, None]
    norms = np.linalg.norm(force, axis=1)
    stationary = np.abs(norms / segment.gravity_norm - 1.0) < GATE_SHARE
    mean = np.linalg.norm(force.mean(axis=0)) / segment.gravity_norm
    return bool(abs(mean - 1.0) > GATE_SHARE and stationary.sum() <= 1)
