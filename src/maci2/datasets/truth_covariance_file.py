"""Covariance of a ground truth as arrays in an .npz file."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from maci2.errors import DatasetError
from maci2.files import NpzField, read_npz
from maci2.sensors.truth_covariance import TruthCovariance
from maci2.types import Array, Stamps

_LOG = logging.getLogger(__name__)

COVARIANCE_FILE = "covariance.npz"

COVARIANCE_FIELDS = {
    "cov_stamps_ns": NpzField("iu", ("k",)),
    "cov_states": NpzField("f", ("k", 15, 15)),
    "cov_neighbours": NpzField("f", ("j", 15, 15)),
    "cov_with_constants": NpzField("f", ("k", 15, "b")),
    "cov_constants": NpzField("f", ("b", "b")),
    "cov_imu_noise": NpzField("f", ("j", 9, 9)),
}
"""Names of the arrays, one for each part of a `TruthCovariance`."""


def covariance_arrays(covariance: TruthCovariance) -> dict[str, Any]:
    """Arrays to write."""
    return {name: getattr(covariance, name.removeprefix("cov_")) for name in COVARIANCE_FIELDS}


def covariance_of(arrays: Mapping[str, Any], source: str) -> TruthCovariance:
    """Covariance from the arrays of a file; `source` names the file in errors."""
    parts = {name.removeprefix("cov_"): arrays[name] for name in COVARIANCE_FIELDS}
    problem = _problem(**parts)
    if problem:
        raise DatasetError(
            f"{source}: {problem}; needed covariances of rising timestamps, finite and positive. "
            "Write it again with `maci2 truth`."
        )
    return TruthCovariance(**parts)


def _problem(stamps_ns: Stamps, constants: Array, **others: Array) -> str:
    """Reason why these parts are not a covariance; empty if they are."""
    if len(stamps_ns) < 2 or len(others["neighbours"]) != len(stamps_ns) - 1:
        return f"holds {len(stamps_ns)} states and {len(others['neighbours'])} pairs of neighbours"
    if (np.diff(stamps_ns) <= 0).any():
        return "timestamps do not rise"
    if not all(np.isfinite(part).all() for part in (constants, *others.values())):
        return "holds NaN or infinity"
    diagonals = [np.einsum("kii->ki", others[name]) for name in ("states", "imu_noise")]
    if not all((diagonal > 0.0).all() for diagonal in (*diagonals, np.diag(constants))):
        return "holds variances that are not positive"
    if len(constants) and np.linalg.matrix_rank(constants, hermitian=True) < len(constants):
        return "the covariance of the constants is singular"
    return ""


def read_covariance(folder: Path, truth_ns: Stamps) -> TruthCovariance | None:
    """Covariance that `maci2 truth` wrote beside the ground-truth rows at `truth_ns`; None if there
    is none, or if a version before 0.7 wrote it, which stored single rows only."""
    path = folder / COVARIANCE_FILE
    if not path.is_file():
        return None
    fields = {name: replace(field, optional=True) for name, field in COVARIANCE_FIELDS.items()}
    arrays = read_npz(path, fields, "the covariance of the ground truth", DatasetError)
    if len(arrays) < len(fields):
        _LOG.warning(
            "note: %s: was written by an earlier version and is not used; run `maci2 truth` again",
            path,
        )
        return None
    covariance = covariance_of(arrays, str(path))
    since_ns, until_ns = int(covariance.stamps_ns[0]), int(covariance.stamps_ns[-1])
    if int(truth_ns[0]) > until_ns or int(truth_ns[-1]) < since_ns:
        raise DatasetError(
            f"{path}: is of {since_ns}..{until_ns} ns, and data.csv beside it of "
            f"{truth_ns[0]}..{truth_ns[-1]} ns: it belongs to another ground truth. Remove it, or "
            "write both again with `maci2 truth`."
        )
    return covariance
