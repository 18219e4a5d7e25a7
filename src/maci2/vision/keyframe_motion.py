"""Motion of the camera between two keyframes: matched directly, or along motions that may be it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maci2.lie import se3_inv, se3_log
from maci2.types import Array
from maci2.vision.competing_poses import better, differ, either
from maci2.vision.covariance import CalibrationUncertainty, CovarianceModel
from maci2.vision.keyframe import Guide, Keyframe, KeyframeMatches, match_along, match_keyframes
from maci2.vision.motion_support import (
    SupportedMotion,
    contradicted,
    leading,
    most_supported,
    motions_of,
    with_slip,
)
from maci2.vision.predicted_rotation import PredictedRotation
from maci2.vision.relative_pose import RelativePose, chained, measure_relative_pose, scattered
from maci2.vision.self_similarity import periods, rivals
from maci2.vision.two_frame import INLIER_CHI2, PinholePair, residual_chi2

SAME_START = (0.01, 0.003)
"""[m, rad] Motions nearer to each other than this lead to the same matches."""


@dataclass(frozen=True)
class Span:
    """Two keyframes, and what is known of the rotation between them."""

    stamps_ns: tuple[int, int]
    first: Keyframe
    second: Keyframe
    predicted: PredictedRotation | None


@dataclass(frozen=True)
class KeyframeMotion:
    """Measures motions between keyframes of one camera."""

    model: CovarianceModel
    camera: PinholePair
    calibration: CalibrationUncertainty
    scale_by_residuals: bool

    def directly(self, span: Span, guides: Sequence[Guide] = ()) -> RelativePose:
        """The motion that matches tell, looked for where the predicted rotation and the images
        between lead."""
        rows, predicted = span.first.row_offset, span.predicted
        found = match_keyframes(span.first, guides, span.second, rows, self.camera, predicted)
        return self._measured(span, found, self.model(found.features))

    def repeating(self, span: Span, pose: RelativePose) -> Array:
        """(m, 3) vectors [m] by which that repeats itself which the points of a motion show; none
        where what else is seen contradicts every motion a period away."""
        period = periods(span.first, pose.points, self.camera)
        if len(period) and not rivals(span.first, span.second, pose.T_ck_ck1, period, self.camera):
            return period[:0]
        return period

    def decided(
        self,
        span: Span,
        told: Sequence[RelativePose],
        parts: Sequence[RelativePose],
        period: Array,
    ) -> RelativePose:
        """The motion that most points support of those that were told, of what the parts make and
        of those a period away.

        Where points agree on none of them unless they are looked for along it, nothing is known of
        the translation.
        """
        best = better(*told)
        supported: list[SupportedMotion] = []
        # From image to image points move least: a motion of parts is the last to be a period off.
        chain = [chained(parts).T_ck_ck1] if parts else []
        for T_ck_ck1 in [*chain, *(T for one in told for T in motions_of(one))]:
            self._ask(span, T_ck_ck1, supported)
        if not supported or not leading(supported).convincing:
            return either(parts, best) if parts and differ(parts, best) else best
        if len(period):
            around = leading(supported).pose.T_ck_ck1
            for T_ck_ck1 in rivals(span.first, span.second, around, period, self.camera):
                self._ask(span, T_ck_ck1, supported)
        found = most_supported(supported, best, len(period) > 0)
        found = with_slip(found, [*told, *([chained(parts)] if parts else [])], supported)
        if not best.scattered or (parts and not any(part.scattered for part in parts)):
            return found
        return scattered(found, best.matches, best.inliers, span.predicted)

    def _ask(self, span: Span, T_ck_ck1: Array, supported: list[SupportedMotion]) -> None:
        """Add what points tell along a motion, unless that is known or nothing."""
        for one in supported:
            away = se3_log(np.ascontiguousarray(T_ck_ck1 @ se3_inv(one.pose.T_ck_ck1)))
            if (
                np.linalg.norm(away[:3]) < SAME_START[0]
                and np.linalg.norm(away[3:]) < SAME_START[1]
            ):
                return
        found, in_view = match_along(
            span.first, span.second, span.first.row_offset, T_ck_ck1, self.camera
        )
        covs = self.model(found.features)
        pose = self._measured(span, found, covs)
        if pose.reason:
            return
        chi2 = residual_chi2(pose.T_ck_ck1, found.matches, covs, self.camera)
        supporters = np.zeros(len(span.first.uv), dtype=bool)
        supporters[found.points[chi2 < INLIER_CHI2]] = True
        if not self.scale_by_residuals:
            pose = contradicted(pose, int(in_view.sum()), int(supporters.sum()))
        supported.append(SupportedMotion(pose, supporters, in_view))

    def _measured(self, span: Span, found: KeyframeMatches, covs: Array) -> RelativePose:
        return measure_relative_pose(
            span.stamps_ns,
            found,
            covs,
            self.camera,
            self.calibration,
            self.scale_by_residuals,
            span.predicted,
        )
