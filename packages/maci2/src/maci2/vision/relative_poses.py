"""Camera motion from keyframe to keyframe, with covariance: what estimation takes from vision.

Without images it comes from ground truth with noise, a trajectory, or a file: the `.npz` that
`maci2 vo` writes and `measurements:FILE` reads.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from maci2 import __version__, validation
from maci2.errors import DatasetError, MeasurementError
from maci2.field_docs import document_fields
from maci2.files import NpzField, read_npz, write_npz
from maci2.geometry import se3_adj, se3_exp, se3_inv, so3_log
from maci2.geometry.gaussian import chi2_quantile, nees, require_spd, symmetrize
from maci2.sensors import CameraTrajectory, GroundTruth, poses_at, truth_at
from maci2.types import NS, Array, Mask, Stamps

AGREEMENT_CHI2 = chi2_quantile(3, 0.999)
"""Squared Mahalanobis norm up to which a rotation agrees: 99.9 % of chi-square with 3 dof."""

SURE_CHI2 = chi2_quantile(3, 0.95)
"""The same where more is known, or a wrong rotation would do harm: 95 %."""


@dataclass(frozen=True)
class PredictedRotation:
    """Rotation of the camera from one image to another, by another sensor: where points are
    searched, and a witness for the motion that matches agree on."""

    R_ck_ck1: Array
    """(3, 3) takes directions from camera k+1 to camera k."""

    cov: Array
    """(3, 3) left perturbation [rad^2]."""

    by_shared: Array = field(default_factory=lambda: np.empty((3, 0)))
    """(3, m) how a left perturbation depends on errors that all predictions of a source share (a
    bias, say), each in units of its standard deviation; `cov` includes them."""

    @property
    def own_cov(self) -> Array:
        """(3, 3) covariance without the shared errors."""
        return self.cov - self.by_shared @ self.by_shared.T

    def agrees(self, R_ck_ck1: Array, cov: Array, limit: float = AGREEMENT_CHI2) -> bool:
        """Whether a measured rotation with covariance (3, 3), left, may be the same."""
        phi = so3_log(np.ascontiguousarray(R_ck_ck1 @ self.R_ck_ck1.T))
        return bool(nees(phi, self.cov + cov) < limit)


RotationPredictor = Callable[[int, int], PredictedRotation | None]
"""Prediction between two timestamps [ns]; None where there is none."""


def no_prediction(start_ns: int, end_ns: int) -> PredictedRotation | None:
    """No rotation, for any two timestamps."""
    return None


@dataclass(frozen=True)
class PossibleMotion:
    """A motion that so many matches agree on that it may be the camera's."""

    T_ck_ck1: Array
    """Takes points from camera k+1 to camera k."""

    cov_T_ck_ck1: Array
    """(6, 6) if it is the camera's: left perturbation, order [rho, phi], [m, rad]."""

    share: float
    """Its matches over those of all possible motions of this pose."""

    def __post_init__(self) -> None:
        T = validation.as_transforms(np.asarray(self.T_ck_ck1)[None], 1, "T_ck_ck1 of a motion")
        cov = validation.as_array(self.cov_T_ck_ck1, (6, 6), "cov_T_ck_ck1 of a motion")
        require_spd(cov, "cov_T_ck_ck1 of a motion")
        if not 0.0 <= validation.as_number(self.share, "share of a motion") <= 1.0:
            raise MeasurementError(f"share of a motion is {self.share}, needed from 0 to 1.")
        object.__setattr__(self, "T_ck_ck1", T[0])
        object.__setattr__(self, "cov_T_ck_ck1", cov)


Possible = tuple[PossibleMotion, ...]
"""Those of one relative pose, most matches first; empty where there is no doubt."""


def _one_for_each(
    name: str, values: Sequence[Any], count: int, is_sound: Callable[[Any], bool], needed: str
) -> Sequence[Any]:
    """Values of `count` relative poses, empty if none are given at all."""
    if not isinstance(values, tuple | list) or not all(is_sound(value) for value in values):
        raise MeasurementError(f"{name} are {values!r}, needed {needed}.")
    if values and len(values) != count:
        raise MeasurementError(f"found {len(values)} {name}, needed {count}, one for each pose.")
    return values


def _are_motions(some: Any) -> bool:
    return isinstance(some, tuple | list) and all(isinstance(one, PossibleMotion) for one in some)


CameraFrame = Literal["camera", "rectified"]

AbsoluteErrors = Literal["independent", "accumulated", "relative"]
"""What covariances given with absolute poses describe; see `RelativePoses.from_absolute`."""

MAX_SPEED, MAX_RATE = 5.0, 3.0
"""[m/s, rad/s] How fast a camera may have moved between keyframes of which nothing is known."""

LARGEST_STD_SCALE = 0.5
"""A translation known to less than half its length has no scale to speak of."""


def any_motion(dt: float) -> Array:
    """(6, 6) covariance of whatever a camera can do in `dt` seconds, [rho, phi]."""
    return np.diag(np.array([MAX_SPEED * dt] * 3 + [MAX_RATE * dt] * 3) ** 2)


@dataclass(frozen=True)
class RelativePoses:
    """Measured motion of the left camera between consecutive keyframes.

    Lists and arrays of any layout are taken; wrong shapes, types, NaN, transforms that are not
    rigid, covariances that are not positive definite and timestamps that do not increase raise
    `MeasurementError`.
    """

    stamps_ns: Stamps
    """(n,) timestamps of the keyframes [ns], strictly increasing."""

    Ts_ck_ck1: Array
    """(n - 1, 4, 4) poses of camera k+1 in camera k: each takes points from camera k+1 to camera k
    [m]; the identity where nothing was measured."""

    covs_T_ck_ck1: Array
    """(n - 1, 6, 6) covariances, left perturbation, order [rho, phi], [m, rad] (Eq. 6); where
    nothing was measured, of whatever a camera can do in that time."""

    frame: CameraFrame = "camera"
    """Meaning of frame c: the camera itself, or its rectified image's (T_b_cr = T_b_c R_c_cr)."""

    std_scale: float = 0.0
    """Standard deviation of a scale error common to all translations, which the covariances of
    single poses cannot express; 0 if the scale is exact."""

    reasons: tuple[str, ...] = ()
    """(n - 1,) reasons why poses could not be measured; empty text for measured ones. Without
    reasons, all poses count as measured. The transform and covariance of a pose with a reason are
    ignored."""

    std_frame: tuple[float, float] = (0.0, 0.0)
    """Standard deviation of an error of the camera frame that all poses share, each axis [m, rad]:
    an error of the principal point or distortion rotates and shifts this frame without
    contradiction between relative poses."""

    motions: tuple[Possible, ...] = ()
    """(n - 1,) candidate motions if matches support more than one, most matches first; empty for
    unambiguous poses. Users that cannot choose among them use the pose above."""

    def __post_init__(self) -> None:
        stamps_ns = validation.as_stamps(
            self.stamps_ns,
            "stamps_ns of the keyframes",
            validation.SHORTEST_FRAME_PERIOD_NS,
            least=2,
        )
        count = len(stamps_ns) - 1
        Ts = validation.as_transforms(self.Ts_ck_ck1, count, "Ts_ck_ck1")
        covs = validation.as_array(self.covs_T_ck_ck1, (count, 6, 6), "covs_T_ck_ck1")
        require_spd(covs, "covs_T_ck_ck1")
        validation.require_choice(self.frame, get_args(CameraFrame), "frame")
        if not 0.0 <= validation.as_number(self.std_scale, "std_scale") < LARGEST_STD_SCALE:
            raise MeasurementError(
                f"std_scale is {self.std_scale}, needed a share of the translation from 0 to "
                f"{LARGEST_STD_SCALE:g}."
            )
        std_frame = validation.as_array(self.std_frame, (2,), "std_frame")
        if std_frame.min() < 0.0:
            raise MeasurementError(
                f"std_frame is {self.std_frame}, needed two standard deviations from 0 [m, rad]."
            )
        needed = f"{count} texts, empty if measured"
        given = _one_for_each(
            "reasons", self.reasons, count, lambda reason: isinstance(reason, str), needed
        )
        reasons = tuple(str(reason) for reason in given) or ("",) * count
        needed = f"the PossibleMotion of {count} poses, none for a pose without doubt"
        given = _one_for_each("motions", self.motions, count, _are_motions, needed)
        motions = tuple(tuple(some) for some in given) or ((),) * count
        if any(reasons):
            Ts, covs = Ts.copy(), covs.copy()
        for k in (k for k, reason in enumerate(reasons) if reason):
            anything = any_motion(float(stamps_ns[k + 1] - stamps_ns[k]) / NS)
            if (np.diag(covs[k]) < np.diag(anything)).any():
                Ts[k], covs[k] = np.eye(4), anything
        object.__setattr__(self, "stamps_ns", stamps_ns)
        object.__setattr__(self, "Ts_ck_ck1", Ts)
        object.__setattr__(self, "covs_T_ck_ck1", covs)
        object.__setattr__(self, "std_frame", (float(std_frame[0]), float(std_frame[1])))
        object.__setattr__(self, "reasons", reasons)
        object.__setattr__(self, "motions", motions)

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def __repr__(self) -> str:
        span_s = (int(self.stamps_ns[-1]) - int(self.stamps_ns[0])) / NS
        return (
            f"RelativePoses({len(self)} keyframes, {span_s:.3f} s, "
            f"{self.measured_count} of {len(self) - 1} measured, frame '{self.frame}')"
        )

    def part(self, first: int, last: int) -> "RelativePoses":
        """The relative poses of keyframes `first` to `last`, both included."""
        if not 0 <= first < last < len(self):
            raise MeasurementError(
                f"keyframes {first} to {last} are no part of {len(self)}; needed two or more."
            )
        # What was checked as a whole is not checked again: a tracker takes parts at every keyframe.
        part = copy(self)
        object.__setattr__(part, "stamps_ns", self.stamps_ns[first : last + 1])
        for name in ("Ts_ck_ck1", "covs_T_ck_ck1", "reasons", "motions"):
            object.__setattr__(part, name, getattr(self, name)[first:last])
        return part

    @property
    def measured(self) -> Mask:
        """(n - 1,) which of the poses were measured; `reasons` says why the others were not."""
        return np.array([not reason for reason in self.reasons])

    @property
    def measured_count(self) -> int:
        """How many of the poses were measured."""
        return self.reasons.count("")

    @classmethod
    def from_absolute(
        cls,
        stamps_ns: ArrayLike,
        Ts_w_c: ArrayLike,
        covs: ArrayLike,
        errors: AbsoluteErrors,
        frame: CameraFrame = "camera",
        std_scale: float = 0.0,
    ) -> "RelativePoses":
        """Relative poses between absolute ones, as a visual odometry or SLAM gives them.

        Args:
            stamps_ns: (n,) timestamps of the keyframes on the camera's clock [ns].
            Ts_w_c: (n, 4, 4) poses of the camera in that odometry's world; any world will do.
            covs: covariances, left perturbation Exp(xi) T, order [rho, phi], [m, rad].
            errors: what `covs` describe. "independent": (n, 6, 6) of absolute poses that were
                measured one by one. "accumulated": (n, 6, 6) of an odometry whose error grows
                from pose to pose, so that the difference of two is that of the motion between.
                "relative": (n - 1, 6, 6) of the relative poses themselves, in camera k.
                A single (6, 6) holds for all; not for "accumulated".
            frame: which camera frame the poses speak of.
            std_scale: share by which all translations may be off together.

        Returns:
            n - 1 relative poses with covariances, all measured.

        Raises:
            MeasurementError: an argument has the wrong shape or type, a pose is not rigid, or
                accumulated covariances do not grow.
        """
        validation.require_choice(errors, get_args(AbsoluteErrors), "errors")
        stamps_ns = validation.as_stamps(stamps_ns, "stamps_ns of the keyframes", least=2)
        Ts = validation.as_transforms(Ts_w_c, len(stamps_ns), "Ts_w_c")
        Ts_c_w = np.array([se3_inv(T) for T in Ts])
        count = len(Ts) - (errors == "relative")
        covs = validation.as_covariances(covs, count, 6, "covs")
        if errors != "relative":
            grown = covs[1:] - covs[:-1] if errors == "accumulated" else covs[1:] + covs[:-1]
            smallest = np.linalg.eigvalsh(symmetrize(grown))[:, 0]
            if errors == "accumulated" and (smallest <= 0.0).any():
                k = int(np.argmax(smallest <= 0.0))
                raise MeasurementError(
                    f"covs do not grow from pose {k} to pose {k + 1} (smallest eigenvalue of the "
                    f"difference {smallest[k]:.3g}), needed above 0 where errors accumulate; were "
                    'the poses corrected by a map? Then their errors are "independent", or give '
                    "those of the relative poses."
                )
            # T_ck_w Exp(xi_k1 - xi_k) T_w_ck1 = Exp(Ad(T_ck_w) (xi_k1 - xi_k)) T_ck_ck1.
            Ads = np.array([se3_adj(T) for T in Ts_c_w[:-1]])
            covs = symmetrize(Ads @ grown @ Ads.transpose(0, 2, 1))
        return cls(stamps_ns, Ts_c_w[:-1] @ Ts[1:], covs, frame, std_scale)


MOTION_FIELDS = {
    "motion_pose": NpzField("iu", ("a",), optional=True),
    "motion_T_ck_ck1": NpzField("f", ("a", 4, 4), optional=True),
    "motion_cov": NpzField("f", ("a", 6, 6), optional=True),
    "motion_share": NpzField("f", ("a",), optional=True),
}
"""Arrays of a file of relative poses, one row for each possible motion; versions before 0.5 had
none."""

POSE_FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "T_ck_ck1": NpzField("f", ("m", 4, 4)),
    "cov": NpzField("f", ("m", 6, 6)),
    "frame": NpzField("U", ()),
    "measured": NpzField("b", ("m",), optional=True),
    "reasons": NpzField("U", ("m",), optional=True),
    "std_scale": NpzField("f", (), optional=True),
    **MOTION_FIELDS,
}
"""Arrays of the file; version 0.1 had no mask, and reasons only where `maci2 vo` wrote it."""

NOT_MEASURED = "not measured"
"""Reason given for a pose whose file has a mask but no reasons."""


@dataclass(frozen=True)
class MeasuredPoses:
    """Relative poses of a file; they need not follow each other."""

    stamps_ns: Stamps
    """(m, 2) timestamps of the keyframes from which and to which [ns]."""

    Ts_ck_ck1: Array
    """(m, 4, 4) poses of the later camera in the earlier one."""

    covs_T_ck_ck1: Array
    """(m, 6, 6) left perturbation, order [rho, phi], [m, rad]."""

    frame: CameraFrame
    """Camera frame that the poses speak of."""

    source: str
    """File, for messages."""

    reasons: tuple[str, ...] = ()
    """(m,) why a pose could not be measured; empty text where it was. Not given: all were."""

    motions: tuple[Possible, ...] = ()
    """(m,) motions of which one is the camera's, where there is doubt. Not given: there is none."""

    std_scale: float = 0.0
    """Standard deviation of a factor on all translations alike."""

    def __post_init__(self) -> None:
        if not self.reasons:
            object.__setattr__(self, "reasons", ("",) * len(self.stamps_ns))
        if not self.motions:
            object.__setattr__(self, "motions", ((),) * len(self.stamps_ns))


def motions_from_arrays(
    content: Mapping[str, Any], count: int, source: str
) -> tuple[Possible, ...]:
    """(count,) possible motions in the arrays of a file; none where it has no such arrays."""
    found: list[list[PossibleMotion]] = [[] for _ in range(count)]
    lacking = [name for name in MOTION_FIELDS if name not in content]
    if lacking and len(lacking) < len(MOTION_FIELDS):
        raise MeasurementError(
            f"{source}: lacks {', '.join(lacking)}, needed beside the other arrays of motions; "
            "write all of them or none."
        )
    if not lacking:
        for k, *motion in zip(*(content[name] for name in MOTION_FIELDS), strict=True):
            if not 0 <= k < count:
                raise MeasurementError(
                    f"{source}: motion_pose is {k}, needed 0 to {count - 1}: the place of a pose."
                )
            found[int(k)].append(PossibleMotion(*motion))
    return tuple(tuple(some) for some in found)


def save_relative_poses(path: Path, poses: RelativePoses, **beside: ArrayLike) -> None:
    """Write the `.npz` of docs/conventions.md, whole or not at all; arrays `beside` those of the
    format by their name."""
    rows = [(k, motion) for k, some in enumerate(poses.motions) for motion in some]
    arrays = {
        "stamps_ns": np.stack([poses.stamps_ns[:-1], poses.stamps_ns[1:]], axis=1),
        "T_ck_ck1": poses.Ts_ck_ck1,
        "cov": poses.covs_T_ck_ck1,
        "measured": poses.measured,
        "reasons": np.array(poses.reasons, dtype=np.str_),
        "frame": poses.frame,
        "std_scale": poses.std_scale,
        "version": __version__,
        "motion_pose": np.array([k for k, _ in rows], dtype=np.int64),
        "motion_T_ck_ck1": np.array([one.T_ck_ck1 for _, one in rows]).reshape(-1, 4, 4),
        "motion_cov": np.array([one.cov_T_ck_ck1 for _, one in rows]).reshape(-1, 6, 6),
        "motion_share": np.array([one.share for _, one in rows], dtype=np.float64),
        **beside,
    }
    write_npz(path, arrays)


def load_relative_poses(path: Path) -> MeasuredPoses:
    """Read what `save_relative_poses` or `maci2 vo` wrote, version 0.1 included."""
    if not path.is_file():
        raise MeasurementError(f"{path}: no such file; `maci2 vo` writes one.")
    content = read_npz(path, POSE_FIELDS, "relative poses that `maci2 vo` wrote")
    source, frame = str(path), str(content["frame"])
    if frame not in ("camera", "rectified"):
        raise MeasurementError(f"{source}: frame is '{frame}', needed 'camera' or 'rectified'.")
    first, last = (
        validation.as_stamps(content["stamps_ns"][:, i], f"{source}: stamps_ns[:, {i}]")
        for i in (0, 1)
    )
    if (last <= first).any():
        k = int(np.argmax(last <= first))
        raise MeasurementError(
            f"{source}: pose {k} leads from {first[k]} to {last[k]} ns, needed from an earlier to "
            "a later timestamp."
        )
    stamps_ns, count = np.stack([first, last], axis=1), len(first)
    Ts = validation.as_transforms(content["T_ck_ck1"], count, f"{source}: T_ck_ck1")
    covs = validation.as_array(content["cov"], (count, 6, 6), f"{source}: cov")
    require_spd(covs, f"{source}: cov")
    return MeasuredPoses(
        stamps_ns,
        Ts,
        covs,
        "rectified" if frame == "rectified" else "camera",
        source,
        _reasons(content, stamps_ns, Ts, covs),
        motions_from_arrays(content, count, source),
        float(content.get("std_scale", 0.0)),
    )


def _reasons(
    content: dict[str, np.ndarray], stamps_ns: Stamps, Ts: Array, covs: Array
) -> tuple[str, ...]:
    """Reasons why poses were not measured, from the file."""
    if "reasons" in content or "measured" in content:
        said = content.get("reasons", np.full(len(Ts), ""))
        masked = content.get("measured", np.full(len(Ts), True))
        return tuple(
            str(reason) or ("" if measured else NOT_MEASURED)
            for reason, measured in zip(said, masked, strict=True)
        )
    # Version 0.1 wrote no mask: what it had not measured has exactly this transform and covariance.
    dt = (stamps_ns[:, 1] - stamps_ns[:, 0]) / NS
    marks = [
        np.array_equal(T, np.eye(4)) and np.array_equal(cov, any_motion(float(step)))
        for T, cov, step in zip(Ts, covs, dt, strict=True)
    ]
    return tuple(NOT_MEASURED if mark else "" for mark in marks)


MAX_TRUTH_GAP_S = 0.06
"""Longest time between two poses that is interpolated across: one frame at 20 Hz and jitter."""


def pose_noise(std_rotation_deg: float, std_translation: float) -> Array:
    """(6, 6) covariance of a relative pose with these standard deviations per axis, [rho, phi]."""
    std_rotation_deg = validation.as_number(std_rotation_deg, "std_rotation_deg")
    std_translation = validation.as_number(std_translation, "std_translation")
    if not (std_rotation_deg > 0.0 and std_translation > 0.0):
        raise MeasurementError(
            f"standard deviations are {std_rotation_deg} deg and {std_translation} m; needed both "
            "above 0: a measurement without noise has no weight to be fused with."
        )
    return np.diag([std_translation**2] * 3 + [np.deg2rad(std_rotation_deg) ** 2] * 3)


def poses_from_truth(
    truth: GroundTruth,
    stamps_ns: Stamps,
    T_b_c: Array,
    cov_pose: Array,
    seed: tuple[int, ...],
    std_truth: tuple[float, float] = (0.0, 0.0),
) -> RelativePoses:
    """Relative poses as a camera with exactly this noise between keyframes measures them.

    `std_truth` is what the ground truth itself adds to the body's motion, rotation [rad] and
    translation [m] per axis: it is in the covariances, and not drawn.
    """
    Ts_w_c = truth_at(truth, stamps_ns, MAX_TRUTH_GAP_S).Ts_w_b @ T_b_c
    noise = np.random.default_rng(seed).multivariate_normal(
        np.zeros(6), cov_pose, size=len(stamps_ns) - 1, method="cholesky"
    )
    Ts = np.array([se3_exp(xi) for xi in noise]) @ _relative(Ts_w_c)
    of_body = np.repeat(np.square(std_truth[::-1]), 3)
    adjoint = se3_adj(se3_inv(np.ascontiguousarray(T_b_c)))
    cov = cov_pose + (adjoint * of_body) @ adjoint.T
    return RelativePoses(stamps_ns, Ts, np.broadcast_to(cov, (len(Ts), 6, 6)).copy())


def poses_from_trajectory(
    trajectory: CameraTrajectory,
    stamps_ns: Stamps,
    cov_pose: Array,
    frame: CameraFrame,
    std_share: float = 0.0,
    std_scale: float = 0.0,
    std_frame: tuple[float, float] = (0.0, 0.0),
) -> RelativePoses:
    """Relative poses between the poses of a visual odometry or SLAM.

    Every relative pose has `cov_pose`, and in translation `std_share` of its own length,
    independently of its neighbours; `std_scale` is the share by which all may be off together,
    `std_frame` [m, rad] how far the camera frame that they speak of may be off.
    """
    path = trajectory.stamps_ns, trajectory.Ts_w_c
    Ts = _relative(poses_at(*path, stamps_ns, MAX_TRUTH_GAP_S, source=trajectory.source))
    covs = np.broadcast_to(cov_pose, (len(Ts), 6, 6)).copy()
    covs[:, range(3), range(3)] += (std_share * np.linalg.norm(Ts[:, :3, 3], axis=1))[:, None] ** 2
    return RelativePoses(stamps_ns, Ts, covs, frame, std_scale, std_frame=std_frame)


def poses_from_measurements(poses: MeasuredPoses, start_ns: int, end_ns: int) -> RelativePoses:
    """Relative poses of a file inside [start_ns, end_ns]; they must follow each other without a
    break."""
    inside = (poses.stamps_ns[:, 0] >= start_ns) & (poses.stamps_ns[:, 1] <= end_ns)
    stamps = poses.stamps_ns[inside]
    if len(stamps) == 0:
        raise DatasetError(
            f"{poses.source}: no relative pose inside {start_ns}..{end_ns} ns; it covers "
            f"{poses.stamps_ns.min()}..{poses.stamps_ns.max()} ns."
        )
    broken = np.flatnonzero(stamps[1:, 0] != stamps[:-1, 1])
    if len(broken):
        index = int(broken[0])
        raise DatasetError(
            f"{poses.source}: relative poses do not follow each other: one ends at "
            f"{stamps[index, 1]} ns, the next begins at {stamps[index + 1, 0]} ns. Choose a window "
            "without a break."
        )
    keyframes = np.concatenate([stamps[:, 0], stamps[-1:, 1]])
    return RelativePoses(
        keyframes,
        poses.Ts_ck_ck1[inside],
        poses.covs_T_ck_ck1[inside],
        poses.frame,
        poses.std_scale,
        reasons=tuple(poses.reasons[k] for k in np.flatnonzero(inside)),
        motions=tuple(poses.motions[k] for k in np.flatnonzero(inside)),
    )


def _relative(Ts_w_c: Array) -> Array:
    """(n - 1, 4, 4) motion from each pose to the next."""
    return np.array([se3_inv(T) for T in Ts_w_c[:-1]]) @ Ts_w_c[1:]


document_fields(__name__)
