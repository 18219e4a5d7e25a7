"""Motion of the camera between two keyframes, with the images between to lead the way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from maci2.types import Array
from maci2.vision.competing_poses import better, beyond_doubt, in_dispute
from maci2.vision.keyframe import Guide, Keyframe, PreparedPair
from maci2.vision.keyframe_motion import KeyframeMotion, Span
from maci2.vision.predicted_rotation import RotationPredictor, homography
from maci2.vision.relative_pose import RelativePose, chained, unmeasured

NOTHING_REPEATS = np.empty((0, 3))

Between = Sequence[PreparedPair]
Measure = Callable[[tuple[int, int], Keyframe, Between, Keyframe], RelativePose]


@dataclass(frozen=True)
class LedMotion:
    """Measures motions between keyframes, by a predicted rotation where there is one."""

    by_keyframes: KeyframeMotion
    predict: RotationPredictor

    def measured(
        self, stamps_ns: tuple[int, int], first: Keyframe, between: Between, second: Keyframe
    ) -> RelativePose:
        """The relative pose by the prediction; where that fails, led by the images between without
        it, since what predicts may be wrong (another rig's extrinsics, a broken gyroscope); else as
        a chain."""
        best = self.as_predicted(stamps_ns, first, between, second)
        if best.reason and not (first.unusable or second.unusable):
            # Without a prediction a repeating wall is matched a period off unless points are led.
            guides = self._guides(stamps_ns[0], between, False)
            span = Span(stamps_ns, first, second, None)
            best = better(self.by_keyframes.directly(span, guides), best)
            if best.reason and between:
                best = self.bridged(self.measured, stamps_ns, first, between, second) or best
        return best

    def as_predicted(
        self,
        stamps_ns: tuple[int, int],
        first: Keyframe,
        between: Between,
        second: Keyframe,
        led: bool = True,
    ) -> RelativePose:
        """With the predicted rotation: directly; where that fails as a chain through the pairs
        between; where there is doubt and it may be `led`, by the images between, unless the motions
        from one of them to the next tell another. Parts of a chain are short, and are not."""
        if first.unusable or second.unusable:
            return unmeasured(stamps_ns, first.unusable or second.unusable)
        predicted = self.predict(*stamps_ns)
        if predicted is None:
            return unmeasured(stamps_ns, "no rotation is predicted")
        span = Span(stamps_ns, first, second, predicted)
        best = self.by_keyframes.directly(span)
        repeating = self.by_keyframes.repeating(span, best) if led else NOTHING_REPEATS
        if beyond_doubt(best):
            # Most of what repeats is decided by the rest of the image, without those between.
            best = (
                self.by_keyframes.decided(span, [best], (), repeating) if len(repeating) else best
            )
            if not best.motions or not len(repeating):
                return best
        elif best.reason and between:
            part = partial(self.as_predicted, led=False)
            bridged = self.bridged(part, stamps_ns, first, between, second)
            if bridged:
                return bridged
        return self._in_doubt(span, best, between if led else (), repeating)

    def _in_doubt(
        self, span: Span, best: RelativePose, between: Between, repeating: Array
    ) -> RelativePose:
        """A motion that the keyframes alone leave in doubt, with what the images between tell."""
        told: list[RelativePose] = [best]
        parts: list[RelativePose] = []
        if between and not beyond_doubt(best):
            guides = self._guides(span.stamps_ns[0], between, True)
            told.append(self.by_keyframes.directly(span, guides))
        if between and (len(repeating) or in_dispute(told)):
            parts = self._pair_by_pair(span.stamps_ns, span.first, between, span.second)
        return self.by_keyframes.decided(span, told, parts, repeating)

    def _pair_by_pair(
        self, stamps_ns: tuple[int, int], first: Keyframe, between: Between, second: Keyframe
    ) -> list[RelativePose]:
        """Motions through every pair between; none where one of them cannot be measured.

        A repeating wall is matched a period off where points move by more than half of one; from
        image to image they move least.
        """
        stamps = (stamps_ns[0], *(one.pair.stamp_ns for one in between), stamps_ns[1])
        keyframes = (first, *(one.keyframe for one in between), second)
        parts = []
        for span_ns, ends in zip(pairwise(stamps), pairwise(keyframes), strict=True):
            parts.append(self.as_predicted(span_ns, ends[0], (), ends[1], led=False))
            if parts[-1].reason:
                return []
        return parts

    def _guides(self, first_ns: int, between: Between, predicted: bool) -> list[Guide]:
        """Images that lead the way; a dark one would lead nowhere."""
        guides = []
        for one in between:
            if one.leading_image is not None:
                rotation = self.predict(first_ns, one.pair.stamp_ns) if predicted else None
                guides.append(
                    Guide(one.leading_image, homography(rotation, self.by_keyframes.camera))
                )
        return guides

    def bridged(
        self,
        measure: Measure,
        stamps_ns: tuple[int, int],
        first: Keyframe,
        between: Between,
        second: Keyframe,
    ) -> RelativePose | None:
        """Chain through the pair half way; None where a part of it cannot be measured."""
        half = len(between) // 2
        middle_ns, middle = between[half].pair.stamp_ns, between[half].keyframe
        before = measure((stamps_ns[0], middle_ns), first, between[:half], middle)
        if before.reason:
            return None
        after = measure((middle_ns, stamps_ns[1]), middle, between[half + 1 :], second)
        return None if after.reason else chained([before, after])
