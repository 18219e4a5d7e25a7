"""A second look at relative poses that contradict what all others tell, or follow what moves.

A thing that moves by itself and has most of the matches tells a motion of its own, sharply. The
rotations of other relative poses tell what the predictions err by (`rotation_consensus`); with that
known, a set of matches whose rotation contradicts the prediction cannot be the camera's, however
many they are. The pose is then measured anew with the sharper prediction and without the points
that were seen to move. What moved is expected to go on: as long as most points that agree on a
motion lie on it, nothing is known of the camera's translation unless the others tell it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from maci2.gaussian import symmetrize
from maci2.types import NS, Array, Mask
from maci2.vision.competing_poses import CERTAIN_INLIERS, beyond_doubt
from maci2.vision.keyframe import Keyframe, Pair, PreparedPair
from maci2.vision.klt import Tracks
from maci2.vision.led_motion import LedMotion
from maci2.vision.outlier_rejection import BEYOND_DOUBT, FEWEST
from maci2.vision.predicted_rotation import AGREEMENT_CHI2, SURE_CHI2, PredictedRotation
from maci2.vision.rectify import Rectification
from maci2.vision.relative_pose import RelativePose, unmeasured
from maci2.vision.relative_poses import any_motion
from maci2.vision.rotation_consensus import RotationConsensus

NEAR_PX = 20.0
"""Points that lie nearer than this to one that moved are of the same thing: the side of the cells
that points are chosen from."""

START = 12
"""Relative poses at the start of which all may tell what predictions err by before the first is
judged: no more than a first window has."""

SAME_PX = 0.5
"""Points nearer to each other than this are one."""

LASTING = 3
"""Relative poses for which a thing is expected to go on moving, after the last that told so."""


CONTRADICTED = (
    "matches tell a rotation that contradicts the predicted one: they lie on a thing that moves by "
    "itself"
)


class SecondLook:
    """Judges consecutive relative poses in the order of time, each by those before it."""

    def __init__(self, motion: LedMotion, rectification: Rectification) -> None:
        self._motion = motion
        self._rectification = rectification
        self._consensus = RotationConsensus()
        self._forget()

    def _forget(self) -> None:
        self._moving = np.empty((0, 2))  # [px] where, at the latest keyframe
        self._moving_ns = 0
        self._lasts = 0

    @property
    def knows(self) -> bool:
        """Whether it is known what predictions err by: before, every pose stays as it is."""
        return self._consensus.shared is not None

    def learn(self, pose: RelativePose) -> None:
        """Take what a pose tells of the errors of the predictions. It is the pose as it was
        measured first: what is known from here would confirm itself."""
        predicted = None if pose.reason or pose.scattered else self._motion.predict(*pose.stamps_ns)
        if predicted is not None:
            self._consensus.add(predicted, pose.T_ck_ck1[:3, :3], pose.cov_T_ck_ck1[3:, 3:])

    def judged(
        self, pose: RelativePose, first: Pair, between: Sequence[Pair], second: Pair
    ) -> RelativePose:
        """The pose as it is handed on: as it was measured first, or anew."""
        sharp = None if pose.reason else self._sharpened(*pose.stamps_ns)
        moving = self._moving if self._moving_ns == pose.stamps_ns[0] else self._moving[:0]
        exposed = sharp is not None and not _agrees(pose, sharp, AGREEMENT_CHI2)
        if (exposed or len(moving)) and not (len(pose.ends) or pose.reason):
            pose = self._measured(pose, first, between, second)  # read from a file
        followed = follows(pose, moving) and not (_is_sure(pose, sharp) and _undisputed(pose))
        if not (exposed or followed):
            self._forget()
            return pose
        if followed:
            moving = np.vstack([moving, pose.ends[pose.agreeing, :2]])
        anew = self._anew(pose, [first, *between, second], moving, sharp)
        found = _is_sure(anew, sharp) and (beyond_doubt(anew) or not followed)
        self._lasts = LASTING if exposed else self._lasts - 1
        self._moving, self._moving_ns = self._moved(pose, anew if found else None), second.stamp_ns
        if found:
            return anew
        if exposed:
            return unmeasured(pose.stamps_ns, CONTRADICTED, pose.matches)
        return of_unknown_translation(pose, sharp or self._motion.predict(*pose.stamps_ns))

    def _moved(self, pose: RelativePose, anew: RelativePose | None) -> Array:
        """(m, 2) where points are now that agree with a pose that is not the camera's motion, but
        those that agree with its motion, too."""
        if self._lasts <= 0:
            return np.empty((0, 2))
        if anew is None:
            return pose.ends[pose.agreeing, 2:]
        stays = near(pose.ends[:, :2], anew.ends[anew.agreeing, :2], SAME_PX)
        return pose.ends[pose.agreeing & ~stays, 2:]

    def _sharpened(self, start_ns: int, end_ns: int) -> PredictedRotation | None:
        """The prediction with what is known of its errors; None where nothing is."""
        predicted = self._motion.predict(start_ns, end_ns) if self.knows else None
        return predicted and self._consensus.sharpened(predicted)

    def _measured(
        self, pose: RelativePose, first: Pair, between: Sequence[Pair], second: Pair
    ) -> RelativePose:
        """The pose as it was measured first, with its matches."""
        ends = [PreparedPair(pair, self._rectification).keyframe for pair in (first, second)]
        prepared = [PreparedPair(pair, self._rectification) for pair in between]
        return self._motion.measured(pose.stamps_ns, ends[0], prepared, ends[1])

    def _anew(
        self,
        pose: RelativePose,
        pairs: Sequence[Pair],
        moving: Array,
        sharp: PredictedRotation | None,
    ) -> RelativePose:
        """The pose by sharpened predictions, without points on what moves; where that contradicts
        them, too, as a chain through the pairs between."""
        prepared = [PreparedPair(pair, self._rectification) for pair in pairs]
        first, between, second = prepared[0].keyframe, prepared[1:-1], prepared[-1].keyframe
        motion = replace(self._motion, predict=self._sharpened)
        some = with_points(first, ~near(first.uv, moving))
        anew = motion.as_predicted(pose.stamps_ns, some, between, second)
        if between and not len(moving) and not _is_sure(anew, sharp):
            part = partial(motion.as_predicted, led=False)
            anew = motion.bridged(part, pose.stamps_ns, first, between, second) or anew
        return anew


def near(uv: Array, others: Array, reach_px: float = NEAR_PX) -> Mask:
    """(n,) which points (n, 2) lie near one of the others (m, 2)."""
    if len(others) == 0:
        return np.zeros(len(uv), dtype=bool)
    away = np.linalg.norm(uv[:, None] - others, axis=2)
    return np.asarray(away.min(axis=1) < reach_px)


def follows(pose: RelativePose, moving: Array) -> bool:
    """Whether most of the matches of what moves agree with a pose: of the camera's motion they
    would not."""
    on_it = near(pose.ends[:, :2], moving)
    return int(on_it.sum()) >= FEWEST and 2 * int((on_it & pose.agreeing).sum()) > int(on_it.sum())


def with_points(first: Keyframe, kept: Mask) -> Keyframe:
    """A keyframe with some of its points."""
    stereo = Tracks(first.stereo.uv[kept], first.stereo.backward[kept], first.stereo.found[kept])
    return replace(first, uv=first.uv[kept], stereo=stereo, relief=first.relief[kept])


def of_unknown_translation(pose: RelativePose, predicted: PredictedRotation | None) -> RelativePose:
    """A pose that may be a thing's: its rotation is as uncertain as the predicted one."""
    cov = pose.cov_T_ck_ck1.copy()
    cov[:3, :3] += any_motion((pose.stamps_ns[1] - pose.stamps_ns[0]) / NS)[:3, :3]
    if predicted is not None:
        cov[3:, 3:] += predicted.cov
    return replace(pose, cov_T_ck_ck1=symmetrize(cov))


def _agrees(pose: RelativePose, predicted: PredictedRotation, limit: float) -> bool:
    return predicted.agrees(pose.T_ck_ck1[:3, :3], pose.cov_T_ck_ck1[3:, 3:], limit)


def _is_sure(pose: RelativePose, predicted: PredictedRotation | None) -> bool:
    return not pose.reason and predicted is not None and _agrees(pose, predicted, SURE_CHI2)


def _undisputed(pose: RelativePose) -> bool:
    """Whether next to no matches contradict the pose."""
    return pose.inliers >= max(CERTAIN_INLIERS, BEYOND_DOUBT * pose.matches)
