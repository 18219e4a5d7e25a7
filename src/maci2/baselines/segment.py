"""Input and output of initializers: one window, and the answer to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from maci2.baselines.stages import StageTime
from maci2.errors import MeasurementError
from maci2.estimation import Posterior, VIState
from maci2.estimator.initialize import chained_poses
from maci2.feature_tracks.tracks import FeatureTracks
from maci2.imu import ImuMeasurements, datasheet_model, raw_model
from maci2.lie import se3_inv
from maci2.pipeline.prepare import Inputs
from maci2.pipeline.windows import Window
from maci2.types import GRAVITY_NORM, NS, Array, Stamps
from maci2.vision import RelativePoses

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
        return chained_poses(np.ascontiguousarray(self.vision.Ts_ck_ck1))

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
    """Whether the method's own criteria accept this window."""

    reason: str = ""
    """Reason for a rejection, or warning of the method."""

    state: VIState | None = None
    """Estimated state, also of a rejected window if there is one."""

    posterior: Posterior | None = None
    """Covariance, for methods that state one."""

    unsure: bool = False
    """Whether the method asks for more motion instead of accepting or rejecting."""

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
        find_tracks=partial(inputs.vision.tracks, window.stamps_ns, window.index),
    )
