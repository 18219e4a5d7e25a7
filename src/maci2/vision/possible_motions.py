"""Motions of which one is the camera's, where sets of matches tell more than one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maci2 import boundary
from maci2.errors import MeasurementError
from maci2.files import NpzField
from maci2.gaussian import require_spd
from maci2.types import Array

FIELDS = {
    "motion_pose": NpzField("iu", ("a",), optional=True),
    "motion_T_ck_ck1": NpzField("f", ("a", 4, 4), optional=True),
    "motion_cov": NpzField("f", ("a", 6, 6), optional=True),
    "motion_share": NpzField("f", ("a",), optional=True),
}
"""Arrays of a file of relative poses, one row for each possible motion; versions before 0.5 had
none."""


@dataclass(frozen=True)
class PossibleMotion:
    """A motion that so many matches tell that it may be the camera's."""

    T_ck_ck1: Array
    """Takes points from camera k+1 to camera k."""

    cov_T_ck_ck1: Array
    """(6, 6) if it is the camera's: left perturbation, order [rho, phi], [m, rad]."""

    share: float
    """Its matches over those of all possible motions of this pose."""

    def __post_init__(self) -> None:
        T = boundary.as_transforms(np.asarray(self.T_ck_ck1)[None], 1, "T_ck_ck1 of a motion")
        cov = boundary.as_array(self.cov_T_ck_ck1, (6, 6), "cov_T_ck_ck1 of a motion")
        require_spd(cov, "cov_T_ck_ck1 of a motion")
        if not 0.0 <= boundary.as_number(self.share, "share of a motion") <= 1.0:
            raise MeasurementError(f"share of a motion is {self.share}, needed from 0 to 1.")
        object.__setattr__(self, "T_ck_ck1", T[0])
        object.__setattr__(self, "cov_T_ck_ck1", cov)


Possible = tuple[PossibleMotion, ...]
"""Those of one relative pose, most matches first; empty where there is no doubt."""


def as_arrays(motions: Sequence[Possible]) -> dict[str, Array]:
    """All of consecutive relative poses as the arrays of a file."""
    rows = [(k, motion) for k, some in enumerate(motions) for motion in some]
    return {
        "motion_pose": np.array([k for k, _ in rows], dtype=np.int64),
        "motion_T_ck_ck1": np.array([one.T_ck_ck1 for _, one in rows]).reshape(-1, 4, 4),
        "motion_cov": np.array([one.cov_T_ck_ck1 for _, one in rows]).reshape(-1, 6, 6),
        "motion_share": np.array([one.share for _, one in rows], dtype=np.float64),
    }


def from_arrays(content: Mapping[str, Any], count: int, source: str) -> tuple[Possible, ...]:
    """(count,) what `as_arrays` wrote; none where the file has no such arrays."""
    found: list[list[PossibleMotion]] = [[] for _ in range(count)]
    lacking = [name for name in FIELDS if name not in content]
    if lacking and len(lacking) < len(FIELDS):
        raise MeasurementError(
            f"{source}: lacks {', '.join(lacking)}, needed beside the other arrays of motions; "
            "write all of them or none."
        )
    if not lacking:
        for k, *motion in zip(*(content[name] for name in FIELDS), strict=True):
            if not 0 <= k < count:
                raise MeasurementError(
                    f"{source}: motion_pose is {k}, needed 0 to {count - 1}: the place of a pose."
                )
            found[int(k)].append(PossibleMotion(*motion))
    return tuple(tuple(some) for some in found)


def require_motions(motions: Sequence[Possible], count: int) -> tuple[Possible, ...]:
    """`motions` of `count` relative poses; not given: none of them is in doubt."""
    sound = isinstance(motions, tuple | list) and all(
        isinstance(some, tuple | list) and all(isinstance(one, PossibleMotion) for one in some)
        for some in motions
    )
    if not sound:
        raise MeasurementError(
            f"motions are {motions!r}, needed the PossibleMotion of {count} poses, none for a pose "
            "without doubt."
        )
    listed = tuple(tuple(some) for some in motions) or ((),) * count
    if len(listed) != count:
        raise MeasurementError(f"found {len(listed)} motions, needed {count}, one for each pose.")
    return listed
