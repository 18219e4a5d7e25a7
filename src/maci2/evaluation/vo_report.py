"""Are visual poses and their covariances consistent? Errors, NEES, tails, baselines beside."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import chi2

from maci2.datasets.image_files import stereo_frames
from maci2.errors import DatasetError
from maci2.gaussian import nees
from maci2.lie import se3_inv, se3_log
from maci2.pipeline.gyro_rotation import rotation_predictor
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.types import Array
from maci2.vision.odometry import odometry_by
from maci2.vision.odometry_run import even_keyframes, measure_all
from maci2.vision.relative_pose import RelativePose

MODELS = ("learned", "fixed", "structure", "chi2")
MAX_TRUTH_GAP_S = 0.06


@dataclass(frozen=True)
class VisualScore:
    """One model of match covariance on one recording."""

    steps: int
    """Relative poses that were measured and have ground truth."""

    unmeasured: int
    errors: Array
    """(n, 6) left, [rho, phi]."""

    covs: Array
    frames_per_second: float

    def as_dict(self) -> dict[str, Any]:
        """Keys of vo-report."""
        e, c = self.errors, self.covs
        known = len(e) > 0
        return {
            "steps": self.steps,
            "unmeasured": self.unmeasured,
            "rotation_deg": _mean(np.rad2deg(np.linalg.norm(e[:, 3:], axis=1))),
            "translation_m": _mean(np.linalg.norm(e[:, :3], axis=1)),
            "nees": {
                "pose": float(nees(e, c).mean() / 6.0) if known else None,
                "rotation": float(nees(e[:, 3:], c[:, 3:, 3:]).mean() / 3.0) if known else None,
                "translation": float(nees(e[:, :3], c[:, :3, :3]).mean() / 3.0) if known else None,
            },
            "beyond_3_sigma": _share_beyond(e, c, 3.0),
            "beyond_5_sigma": _share_beyond(e, c, 5.0),
            "frames_per_second": self.frames_per_second,
        }


def visual_report(
    recording: Recording,
    interval_s: float,
    models: tuple[str, ...] = MODELS,
    truth_names: tuple[str, ...] = (),
    on_pose: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[str, dict[str, VisualScore]]:
    """Name of the recording and the score of every model on the same keyframes."""
    truth = recording.truth(truth_names)
    if truth is None:
        raise DatasetError(f"{recording.path}: no ground truth to compare with.")
    frames = stereo_frames(recording)
    inside = (frames.stamps_ns >= truth.stamps_ns[0]) & (frames.stamps_ns <= truth.stamps_ns[-1])
    keyframes_ns = even_keyframes(frames.stamps_ns[inside], interval_s)
    predictor = rotation_predictor(recording)
    scores = {}
    for model in models:
        odometry = odometry_by(model, frames, recording.rig, predict_rotation=predictor)
        start = perf_counter()
        poses = measure_all(odometry, keyframes_ns, on_pose=on_pose)
        seconds = perf_counter() - start
        covered = int(np.sum((frames.stamps_ns >= keyframes_ns[0])
                             & (frames.stamps_ns <= keyframes_ns[-1])))  # fmt: skip
        scores[model] = score(
            poses, truth, odometry.rectification.T_b_cr, covered / max(seconds, 1e-9)
        )
    return recording.name, scores


def score(
    poses: list[RelativePose], truth: GroundTruth, T_b_cr: Array, frames_per_second: float
) -> VisualScore:
    """Errors of the measured relative poses against ground truth."""
    errors, covs, unmeasured = [], [], 0
    for pose in poses:
        if pose.reason:
            unmeasured += 1
            continue
        try:
            at = truth_at(truth, np.array(pose.stamps_ns), MAX_TRUTH_GAP_S).Ts_w_b @ T_b_cr
        except DatasetError:
            continue
        errors.append(se3_log(pose.T_ck_ck1 @ se3_inv(se3_inv(at[0]) @ at[1])))
        covs.append(pose.cov_T_ck_ck1)
    return VisualScore(
        len(errors),
        unmeasured,
        np.array(errors).reshape(-1, 6),
        np.array(covs).reshape(-1, 6, 6),
        frames_per_second,
    )


def _share_beyond(errors: Array, covs: Array, sigmas: float) -> float | None:
    """Share of the poses with an error as improbable as one of so many standard deviations in one
    dimension: 0.27 % and 0.00006 % of consistent ones lie beyond 3 and 5."""
    if len(errors) == 0:
        return None
    limit = chi2.isf(chi2.sf(sigmas**2, 1), 6)
    return float((nees(errors, covs) > limit).mean())


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
