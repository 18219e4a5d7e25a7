"""Stereo visual odometry: relative poses of keyframes with covariances that can be believed."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from maci2.errors import CalibrationError
from maci2.gaussian import Array, symmetrize
from maci2.lie import se3_adj
from maci2.sensors import NS, Rig, Stamps
from maci2.sensors.frames import StereoFrames
from maci2.vision.covariance_models import CovarianceModel, Learned
from maci2.vision.keypoints import spread
from maci2.vision.rectify import Rectification, rectify
from maci2.vision.relative_poses import CameraFrame, RelativePoses
from maci2.vision.shared_errors import SharedErrors, row_scatter, shared_covariance
from maci2.vision.step import Keyframe, StepMatches, keyframe, match_step
from maci2.vision.two_frame import INLIER_CHI2, Matches, PinholePair, TwoFrame, two_frame_pose

MAX_MATCHES = 400
RADIUS_PX = 12.0
"""Between matches that are used: their patches overlap by less than half."""

MIN_MATCHES = 15
MIN_INLIER_SHARE = 0.3
MAX_SPEED, MAX_RATE = 5.0, 3.0
"""[m/s, rad/s] How far the camera may have gone in a step that could not be measured."""

MAX_EPIPOLAR_PX = 1.5
"""Median row error of stereo matches above which the calibration is not the images'."""

MIN_STEREO_MATCHES = 30
REPEATED = 0.8
"""Correlation of a match's disparity errors in two keyframes, as drawn scenes have it."""

CACHED_KEYFRAMES = 4


@dataclass(frozen=True)
class OdometryConfig:
    """Choices of the odometry."""

    shared: SharedErrors = field(default_factory=SharedErrors)
    scale_by_residuals: bool = False
    """Multiply Eq. 6 by chi-square over its degrees of freedom: a rival's way."""

    use_rows: bool = True
    """Add to every match the noise that stereo rows show."""

    max_matches: int = MAX_MATCHES


@dataclass(frozen=True)
class VisualStep:
    """What vision measured between two keyframes."""

    stamps_ns: tuple[int, int]
    T_ck_ck1: Array
    """Rectified left camera; identity where nothing could be measured."""

    cov_T_ck_ck1: Array
    """(6, 6) left, [rho, phi]."""

    matches: int
    inliers: int
    row_error_px: float
    """Median of |row left - row right| [px]."""

    reason: str = ""
    """Why the step could not be measured; its covariance then covers any motion. Empty if it was."""


class StereoOdometry:
    """Measures steps between any two frames of a recording; keyframes are prepared once."""

    def __init__(
        self,
        frames: StereoFrames,
        rig: Rig,
        model: CovarianceModel | None = None,
        config: OdometryConfig | None = None,
    ):
        self.frames = frames
        self.rectification: Rectification = rectify(rig)
        self.camera = PinholePair(
            self.rectification.focal, self.rectification.center, self.rectification.baseline
        )
        self.model = Learned() if model is None else model
        self.config = OdometryConfig() if config is None else config
        self._keyframes: OrderedDict[int, Keyframe] = OrderedDict()
        self._steps: dict[tuple[int, int], VisualStep] = {}
        self._suspicious: list[str] = []

    frame: CameraFrame = "rectified"
    """What its poses speak of."""

    @property
    def stamps_ns(self) -> Stamps:
        """Of all stereo pairs."""
        return self.frames.stamps_ns

    def poses(self, stamps_ns: Stamps) -> RelativePoses:
        """Motion over these keyframes, each step measured directly."""
        indices = [self.frames.index_of(int(stamp)) for stamp in stamps_ns]
        steps = [self.step(a, b) for a, b in zip(indices[:-1], indices[1:], strict=True)]
        return RelativePoses(
            np.asarray(stamps_ns, dtype=np.int64),
            np.array([step.T_ck_ck1 for step in steps]),
            np.array([step.cov_T_ck_ck1 for step in steps]),
            "rectified",
        )

    def step(self, index: int, index1: int) -> VisualStep:
        """Motion between two frames, following points through those between them."""
        if (index, index1) not in self._steps:
            self._steps[index, index1] = self._measure(index, index1)
        return self._steps[index, index1]

    def _measure(self, index: int, index1: int) -> VisualStep:
        first, second = self._keyframe(index), self._keyframe(index1)
        stamps = (int(self.frames.stamps_ns[index]), int(self.frames.stamps_ns[index1]))
        if first.blank or second.blank:
            return unmeasured(stamps, first.blank or second.blank)
        between = [self.rectification.left(self.frames.left(k)) for k in range(index + 1, index1)]
        row_offset = float(np.median(first.row_errors)) if len(first.row_errors) else 0.0
        found = match_step(first, between, second, row_offset)
        return measure_step(stamps, found, self.model, self.camera, self.config)

    def _keyframe(self, index: int) -> Keyframe:
        if index not in self._keyframes:
            pair = self.frames.pair(index)
            made = keyframe(self.rectification, pair.left, pair.right)
            self._require_calibrated(made)
            self._keyframes[index] = made
            if len(self._keyframes) > CACHED_KEYFRAMES:
                self._keyframes.popitem(last=False)
        return self._keyframes[index]

    def _require_calibrated(self, made: Keyframe) -> None:
        """Raise when several keyframes in a row contradict the calibration."""
        fault = calibration_fault(made)
        self._suspicious = [*self._suspicious, fault] if fault else []
        if len(self._suspicious) >= 3:
            raise CalibrationError(f"{self.frames.left_files[0].parent}: {fault}")


def calibration_fault(made: Keyframe) -> str:
    """What a keyframe's stereo matches say against its calibration; empty if nothing."""
    disparities, rows = made.disparities, made.row_errors
    if len(disparities) < MIN_STEREO_MATCHES:
        return ""
    negative = float((disparities < -0.5).mean())
    if negative > 0.5:
        return (
            f"{100 * negative:.0f} % of {len(disparities)} stereo matches have negative disparity "
            f"(median {np.median(disparities):.1f} px): left and right look swapped. Exchange cam0 "
            "and cam1, images and calibration alike."
        )
    error = float(np.median(np.abs(rows)))
    if error > MAX_EPIPOLAR_PX:
        cause = "the relative pose of the cameras (T_BS) is off by about "
        if abs(float(np.median(rows))) < 0.5 * error:
            cause = "lens distortion, focal length or roll between the cameras are wrong by about "
        return (
            f"stereo matches lie {error:.1f} px off their rows (median of {len(rows)}), at most "
            f"{MAX_EPIPOLAR_PX:g} px is usable: {cause}this much. Give the calibration that "
            "belongs to these images, or calibrate again."
        )
    return ""


def measure_step(
    stamps: tuple[int, int],
    found: StepMatches,
    model: CovarianceModel,
    camera: PinholePair,
    config: OdometryConfig,
) -> VisualStep:
    """Pose and covariance from matches; never a confident answer from too little."""
    covs = model(found.evidence)
    count = len(found.matches)
    if count < MIN_MATCHES:
        return unmeasured(stamps, f"{count} points could be followed, needed {MIN_MATCHES}", count)
    chosen = spread(found.matches.uv0, np.linalg.det(covs), config.max_matches, RADIUS_PX)
    matches, covs = found.matches.take(chosen), covs[chosen]
    row_errors = found.row_errors[chosen]
    if config.use_rows:
        covs = covs + row_noise(row_errors)
    pose = two_frame_pose(matches, covs, camera)
    share = pose.inliers / len(matches)
    if not pose.converged or pose.inliers < MIN_MATCHES or share < MIN_INLIER_SHARE:
        return unmeasured(
            stamps,
            f"{pose.inliers} of {len(matches)} matches agree on one motion, needed {MIN_MATCHES} "
            f"and {100 * MIN_INLIER_SHARE:.0f} %",
            len(matches),
        )
    dt = (stamps[1] - stamps[0]) / NS
    cov = _complete(pose, matches, covs, camera, config, row_errors, dt)
    return VisualStep(
        stamps, pose.T_ck_ck1, cov, len(matches), pose.inliers,
        float(np.median(np.abs(row_errors))),
    )  # fmt: skip


def row_noise(row_errors: Array) -> Array:
    """(4, 4) [px^2] that real images show beyond what was learned from drawn ones.

    Rows of a stereo match must agree, so their scatter is an error that needs no truth to be seen:
    reflections, distortion within the patch, resampling. Along the row and in time it acts alike,
    and most of it repeats in the next frame.
    """
    scatter = row_scatter(row_errors)
    fresh = (1.0 - REPEATED) * scatter**2
    cov = np.diag([fresh, fresh, scatter**2, scatter**2])
    cov[2, 3] = cov[3, 2] = REPEATED * scatter**2
    return cov


def _complete(
    pose: TwoFrame,
    matches: Matches,
    covs: Array,
    camera: PinholePair,
    config: OdometryConfig,
    row_errors: Array,
    dt: float,
) -> Array:
    """Eq. 6 with what it leaves out."""
    fits = pose.chi2 < INLIER_CHI2
    ratio = float(pose.chi2[fits].sum() / max(3 * fits.sum() - 6, 1))
    # Residuals larger than predicted mean that match noise was underestimated, never the reverse.
    scale = ratio if config.scale_by_residuals else max(ratio, 1.0)
    shared = shared_covariance(config.shared, matches, covs, pose, camera, row_errors, dt)
    return symmetrize(scale * pose.cov + shared)


def unmeasured(stamps: tuple[int, int], reason: str, matches: int = 0) -> VisualStep:
    """A step of which nothing is known but that a camera moves no faster than it can."""
    dt = (stamps[1] - stamps[0]) / NS
    variances = np.array([MAX_SPEED * dt] * 3 + [MAX_RATE * dt] * 3) ** 2
    return VisualStep(stamps, np.eye(4), np.diag(variances), matches, 0, float("nan"), reason)


def chained(steps: list[VisualStep]) -> VisualStep:
    """Steps one after the other as one: S = S1 + Ad(T1) S2 Ad(T1)^T."""
    T, cov = steps[0].T_ck_ck1, steps[0].cov_T_ck_ck1
    for one in steps[1:]:
        Ad = se3_adj(np.ascontiguousarray(T))
        cov = symmetrize(cov + Ad @ one.cov_T_ck_ck1 @ Ad.T)
        T = T @ one.T_ck_ck1
    return VisualStep(
        (steps[0].stamps_ns[0], steps[-1].stamps_ns[1]), T, cov,
        min(step.matches for step in steps), min(step.inliers for step in steps),
        float(np.mean([step.row_error_px for step in steps])),
        next((step.reason for step in steps if step.reason), ""),
    )  # fmt: skip
