"""Camera motion from keyframe to keyframe, with covariance: what estimation takes from vision."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from maci2 import validation
from maci2.errors import MeasurementError
from maci2.field_docs import document_fields
from maci2.geometry import se3_adj, se3_inv, so3_log
from maci2.geometry.gaussian import chi2_quantile, nees, require_spd, symmetrize
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


document_fields(__name__)
