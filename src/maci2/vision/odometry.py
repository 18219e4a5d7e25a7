"""Stereo visual odometry: relative poses of keyframes with covariances that can be believed."""

from collections import OrderedDict
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from maci2.boundary import as_stamps, require_type
from maci2.errors import CalibrationError, MeasurementError
from maci2.sensors import Rig
from maci2.sensors.stereo import Frames, Image
from maci2.types import Stamps
from maci2.vision.calibration_uncertainty import EXACT_CALIBRATION, CalibrationUncertainty
from maci2.vision.covariance_models import CovarianceModel, covariance_model
from maci2.vision.keyframe import Keyframe, blank, keyframe, match_keyframes
from maci2.vision.rectification_check import calibration_fault
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_pose import RelativePose, chained, measure_relative_pose, unmeasured
from maci2.vision.relative_poses import CameraFrame, RelativePoses
from maci2.vision.two_frame import PinholePair

CACHED = 4
"""Keyframes and rectified images kept: those of the step at hand."""

FAULTS_IN_A_ROW = 3
"""Keyframes that must contradict the calibration before it is called wrong."""


@dataclass(frozen=True)
class OdometryConfig:
    """Choices of the odometry."""

    shared: CalibrationUncertainty | None = None
    """Absent: those of a measured calibration, or none where the rig's is exact."""

    scale_by_residuals: bool = False
    """Multiply Eq. 6 by chi-square over its degrees of freedom: a rival's way."""

    chained: bool = False
    """Measure from frame to frame and chain, instead of from keyframe to keyframe."""


def odometry_by(
    covariance: str, frames: Frames, rig: Rig, weights: Path | None = None
) -> "StereoOdometry":
    """With match covariances by name; rivals are Eq. 6 alone, as people use it."""
    config = OdometryConfig()
    if covariance != "learned":
        config = OdometryConfig(EXACT_CALIBRATION, scale_by_residuals=covariance == "chi2")
    return StereoOdometry(frames, rig, covariance_model(covariance, weights), config)


class StereoOdometry:
    """Measures steps between any two frames of a recording; keyframes are prepared once."""

    frame: CameraFrame = "rectified"
    """What its poses speak of."""

    def __init__(
        self,
        frames: Frames,
        rig: Rig,
        model: CovarianceModel | None = None,
        config: OdometryConfig | None = None,
    ):
        require_type(rig, Rig, "rig", "as in `open_recording(path).rig`")
        for name in ("stamps_ns", "index_of", "left", "pair"):
            if not hasattr(frames, name):
                raise MeasurementError(
                    f"frames is of the type {type(frames).__name__} without '{name}', needed "
                    "stereo pairs, as stereo_frames(recording) gives them."
                )
        self.frames = frames
        self.rectification: Rectification = rectify(rig)
        self.camera = PinholePair(
            self.rectification.focal, self.rectification.center, self.rectification.baseline
        )
        self.model = covariance_model("learned") if model is None else model
        self.config = OdometryConfig() if config is None else config
        self.shared = self.config.shared or (
            EXACT_CALIBRATION if rig.exact else CalibrationUncertainty()
        )
        self._keyframes: OrderedDict[int, Keyframe] = OrderedDict()
        self._steps: dict[tuple[int, int], RelativePose] = {}
        self._faults_in_a_row = 0

    @property
    def stamps_ns(self) -> Stamps:
        """Of all stereo pairs."""
        return self.frames.stamps_ns

    def poses(self, stamps_ns: Stamps) -> RelativePoses:
        """Measure the motion between consecutive keyframes, in the rectified left camera.

        Args:
            stamps_ns: (n,) timestamps of stereo pairs [ns], strictly increasing, at least two.

        Returns:
            n - 1 relative poses with covariances; `reasons` says why one could not be measured.

        Raises:
            DatasetError: there is no stereo pair at one of the timestamps.
            CalibrationError: several keyframes in a row contradict the calibration.
        """
        stamps_ns = as_stamps(stamps_ns, "stamps_ns of the keyframes", least=2)
        indices = [self.frames.index_of(int(stamp)) for stamp in stamps_ns]
        steps = [self.step(a, b) for a, b in pairwise(indices)]
        return RelativePoses(
            stamps_ns,
            np.array([step.T_ck_ck1 for step in steps]),
            np.array([step.cov_T_ck_ck1 for step in steps]),
            self.frame,
            reasons=tuple(step.reason for step in steps),
        )

    def step(self, index: int, index1: int) -> RelativePose:
        """Motion between two frames, direct or chained, measured once."""
        if (index, index1) not in self._steps:
            if self.config.chained and index1 > index + 1:
                parts = [self.step(k, k + 1) for k in range(index, index1)]
                self._steps[index, index1] = chained(parts)
            else:
                self._steps[index, index1] = self._measure(index, index1)
        return self._steps[index, index1]

    def _measure(self, index: int, index1: int) -> RelativePose:
        """Follow points through the frames between; they only lead the way."""
        # In the order of time: a bag is read on, not looked up.
        first = self._keyframe(index)
        between = [self._left(k) for k in range(index + 1, index1)]
        second = self._keyframe(index1)
        stamps = (int(self.frames.stamps_ns[index]), int(self.frames.stamps_ns[index1]))
        if first.blank or second.blank:
            return unmeasured(stamps, first.blank or second.blank)
        # A dark image between would lead the way nowhere.
        seen = [image for image in between if not blank(image, "left")]
        found = match_keyframes(first, seen, second, first.row_offset)
        return measure_relative_pose(
            stamps, found, self.model, self.camera, self.shared, self.config.scale_by_residuals
        )

    def _left(self, index: int) -> Image:
        return self.rectification.left(self.frames.left(index))

    def _keyframe(self, index: int) -> Keyframe:
        if index not in self._keyframes:
            pair = self.frames.pair(index)
            made = keyframe(self.rectification, pair.left, pair.right)
            self._require_calibrated(made)
            self._keyframes[index] = made
            if len(self._keyframes) > CACHED:
                self._keyframes.popitem(last=False)
        return self._keyframes[index]

    def _require_calibrated(self, made: Keyframe) -> None:
        """Raise when several keyframes in a row contradict the calibration."""
        fault = calibration_fault(made)
        self._faults_in_a_row = self._faults_in_a_row + 1 if fault else 0
        if self._faults_in_a_row >= FAULTS_IN_A_ROW:
            raise CalibrationError(f"{self.frames.source}: {fault}")
