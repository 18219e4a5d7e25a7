"""Consistency of visual poses and their covariances: errors, NEES and tails, with baselines."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np

from maci2.errors import DatasetError
from maci2.geometry import se3_inv, se3_log
from maci2.geometry.gaussian import chi2_quantile, chi2_significance, nees
from maci2.metrics.init_errors import truth_noise
from maci2.pipeline.options import VisionChoice
from maci2.pipeline.vision_sources import open_odometry, rotation_predictor
from maci2.sensors import GroundTruth, Recording, truth_at
from maci2.tools.ground_truth.choose import audited_or_none
from maci2.types import Array, Stamps
from maci2.vision.odometry import even_keyframes, measure_all
from maci2.vision.pose_sources import MAX_TRUTH_GAP_S
from maci2.vision.relative_pose import RelativePose

MODELS = ("learned", "fixed", "structure", "chi2")
"""Match covariances that are compared; the first is maci2's own, the others are baselines."""


@dataclass(frozen=True)
class VisualScore:
    """Errors of one match covariance on one recording."""

    steps: int
    """Relative poses that were measured and have ground truth."""

    unmeasured: int
    """Relative poses that could not be measured."""

    errors: Array
    """(n, 6) left errors of the relative poses, [rho, phi] in [m, rad]."""

    covs: Array
    """(n, 6, 6) their stated covariances, each with the scale that all of them share."""

    frames_per_second: float
    """Stereo pairs passed per second of wall time."""

    audited: "VisualScore | None" = None
    """Score against the audited ground truth, whose covariance is added to theirs; None
    where nothing could be audited."""

    def as_dict(self) -> dict[str, Any]:
        """The score under the keys of vo-report."""
        record = self._numbers()
        record["audited"] = None if self.audited is None else self.audited._numbers()
        return record

    def _numbers(self) -> dict[str, Any]:
        e, cov = self.errors, self.covs
        known = len(e) > 0
        return {
            "steps": self.steps,
            "unmeasured": self.unmeasured,
            "rotation_deg": _mean(np.rad2deg(np.linalg.norm(e[:, 3:], axis=1))),
            "translation_m": _mean(np.linalg.norm(e[:, :3], axis=1)),
            "nees": {
                "pose": float(nees(e, cov).mean() / 6.0) if known else None,
                "rotation": float(nees(e[:, 3:], cov[:, 3:, 3:]).mean() / 3.0) if known else None,
                "translation": (
                    float(nees(e[:, :3], cov[:, :3, :3]).mean() / 3.0) if known else None
                ),
            },
            "beyond_3_sigma": _share_beyond(e, cov, 3.0),
            "beyond_5_sigma": _share_beyond(e, cov, 5.0),
            "frames_per_second": self.frames_per_second,
        }


def visual_report(
    recording: Recording,
    interval_s: float,
    models: tuple[str, ...] = MODELS,
    truth_names: tuple[str, ...] = (),
    on_pose: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, VisualScore]:
    """The score of every match covariance on the same keyframes of a recording."""
    truth = recording.truth(truth_names)
    if truth is None:
        raise DatasetError(f"{recording.path}: no ground truth to compare with.")
    audited = audited_or_none(recording, truth_names)
    scores = {}
    predictor = rotation_predictor(recording)
    for model in models:
        source = VisionChoice("images", frame="rectified", covariance=model)
        odometry = open_odometry(recording, source, predictor)
        keyframes_ns = _keyframes_with_truth(odometry.stamps_ns, truth, interval_s)
        began = perf_counter()
        poses = measure_all(odometry, keyframes_ns, on_pose=on_pose)
        seconds = max(perf_counter() - began, 1e-9)
        passed = _count_between(odometry.stamps_ns, keyframes_ns[0], keyframes_ns[-1])
        shared = odometry.rectification.T_b_cr, odometry.calibration.scale, passed / seconds
        found = score(poses, truth, *shared)
        if audited is not None:
            found = replace(found, audited=score(poses, audited, *shared))
        scores[model] = found
    return scores


def visual_report_json(
    interval_s: float, scores: dict[str, dict[str, VisualScore]]
) -> dict[str, Any]:
    """Record that `maci2 vo-report --json` writes: scores by recording, baselines inside each."""
    sequences = {}
    for name, by_model in scores.items():
        baselines = {model: one.as_dict() for model, one in by_model.items() if model != "learned"}
        sequences[name] = by_model["learned"].as_dict() | {
            "baselines": baselines,
            "rivals": baselines,  # the name it had in version 0.1
        }
    return {"interval_s": interval_s, "sequences": sequences}


def score(
    poses: list[RelativePose],
    truth: GroundTruth,
    T_b_cr: Array,
    std_scale: float,
    frames_per_second: float,
) -> VisualScore:
    """Errors of the measured relative poses against ground truth.

    Each is scored by itself with all of its uncertainty: its own, its share of the common scale's
    and the ground truth's.
    """
    errors, covs, unmeasured = [], [], 0
    for pose in poses:
        if pose.reason:
            unmeasured += 1
            continue
        try:
            states = truth_at(truth, np.array(pose.stamps_ns), MAX_TRUTH_GAP_S)
        except DatasetError:
            continue
        T_w_ck, T_w_ck1 = states.Ts_w_b @ T_b_cr
        errors.append(se3_log(pose.T_ck_ck1 @ se3_inv(se3_inv(T_w_ck) @ T_w_ck1)))
        noise = truth_noise(states, T_b_cr)
        cov = pose.cov_T_ck_ck1 + (0.0 if noise is None else noise.Ts_c0_b[1])
        by_scale = std_scale * pose.T_ck_ck1[:3, 3]
        cov[:3, :3] += np.outer(by_scale, by_scale)
        covs.append(cov)
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
    limit = chi2_quantile(6, 1.0 - chi2_significance(1, sigmas**2))
    return float((nees(errors, covs) > limit).mean())


def _keyframes_with_truth(stamps_ns: Stamps, truth: GroundTruth, interval_s: float) -> Stamps:
    inside = (stamps_ns >= truth.stamps_ns[0]) & (stamps_ns <= truth.stamps_ns[-1])
    return even_keyframes(stamps_ns[inside], interval_s)


def _count_between(stamps_ns: Stamps, first_ns: int, last_ns: int) -> int:
    return int(np.sum((stamps_ns >= first_ns) & (stamps_ns <= last_ns)))


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
