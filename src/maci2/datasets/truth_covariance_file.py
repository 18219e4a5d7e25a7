"""Covariance of a ground truth as arrays of an .npz file."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from maci2.errors import DatasetError
from maci2.files import NpzField, read_npz
from maci2.sensors.truth_covariance import TruthCovariance

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
"""One array for each part of a `TruthCovariance`, under its name."""


def covariance_arrays(covariance: TruthCovariance) -> dict[str, Any]:
    """The arrays to write."""
    return {name: getattr(covariance, name.removeprefix("cov_")) for name in COVARIANCE_FIELDS}


def covariance_of(arrays: Mapping[str, Any]) -> TruthCovariance:
    """The covariance that arrays of a file hold."""
    parts = {name.removeprefix("cov_"): arrays[name] for name in COVARIANCE_FIELDS}
    return TruthCovariance(**parts)


def read_covariance(folder: Path) -> TruthCovariance | None:
    """The covariance that `maci2 truth` wrote beside a ground truth's rows; None where it is not
    there, or where a version before 0.7 wrote it, which kept that of single rows only."""
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
    return covariance_of(arrays)
