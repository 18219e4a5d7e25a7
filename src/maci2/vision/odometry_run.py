"""Odometry over a whole recording: keyframes at even times, results saved as they come."""

import logging
import zipfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np

from maci2 import __version__
from maci2.errors import DatasetError, require_in_range
from maci2.types import NS, Stamps, nearest_index
from maci2.vision.odometry import StereoOdometry
from maci2.vision.relative_pose import RelativePose

_LOG = logging.getLogger(__name__)

SAVE_EVERY = 25
"""Steps between saves of the unfinished file."""


def even_keyframes(stamps_ns: Stamps, interval_s: float) -> Stamps:
    """The images nearest to even times, each once."""
    require_in_range("--interval", interval_s, 0.001, 1e6)
    if len(stamps_ns) < 2:
        raise DatasetError(f"{len(stamps_ns)} stereo pairs, needed two or more for a step.")
    if (np.diff(stamps_ns) <= 0).any():
        at = int(np.argmax(np.diff(stamps_ns) <= 0))
        raise DatasetError(
            f"image stamps go backwards: {stamps_ns[at + 1]} ns follows {stamps_ns[at]} ns."
        )
    wanted_ns = np.arange(int(stamps_ns[0]), int(stamps_ns[-1]) + 1, round(interval_s * NS))
    chosen = np.unique(stamps_ns[nearest_index(stamps_ns, wanted_ns)])
    return chosen if len(chosen) > 1 else stamps_ns[[0, -1]]


def measure_all(
    odometry: StereoOdometry,
    keyframes_ns: Stamps,
    output: Path | None = None,
    on_step: Callable[[int, int], None] = lambda done, total: None,
    settings: str = "",
) -> list[RelativePose]:
    """Every step; with `output`, unfinished work is saved beside it and taken up again if it was
    made with the same `settings`: a text that names all that decides the poses."""
    partial = None if output is None else output.with_name(output.name + ".unfinished")
    steps = [] if partial is None else _take_up(partial, keyframes_ns, settings)
    indices = [odometry.frames.index_of(int(stamp)) for stamp in keyframes_ns]
    for k in range(len(steps), len(indices) - 1):
        steps.append(odometry.step(indices[k], indices[k + 1]))
        on_step(k + 1, len(indices) - 1)
        if partial is not None and (k + 1) % SAVE_EVERY == 0:
            save_steps(partial, steps, settings)
    if output is not None and partial is not None:
        save_steps(output, steps, settings)
        partial.unlink(missing_ok=True)
    return steps


def save_steps(path: Path, steps: list[RelativePose], settings: str = "") -> None:
    """The `.npz` of relative poses, with counts and reasons beside them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        np.savez(
            file,
            stamps_ns=np.array([step.stamps_ns for step in steps], dtype=np.int64),
            T_ck_ck1=np.array([step.T_ck_ck1 for step in steps]),
            cov=np.array([step.cov_T_ck_ck1 for step in steps]),
            frame="rectified",
            version=__version__,
            settings=settings,
            matches=np.array([step.matches for step in steps]),
            inliers=np.array([step.inliers for step in steps]),
            row_error_px=np.array([step.row_error_px for step in steps]),
            reasons=np.array([step.reason for step in steps], dtype=np.str_),
        )
    temporary.replace(path)


def load_steps(path: Path) -> list[RelativePose]:
    """What `save_steps` wrote."""
    with np.load(path, allow_pickle=False) as file:
        columns = [file[name] for name in ("stamps_ns", "T_ck_ck1", "cov", "matches", "inliers",
                                           "row_error_px", "reasons")]  # fmt: skip
    return [
        RelativePose((int(s[0]), int(s[1])), T, cov, int(m), int(i), float(row), str(reason))
        for s, T, cov, m, i, row, reason in zip(*columns, strict=True)
    ]


def _take_up(partial: Path, keyframes_ns: Stamps, settings: str) -> list[RelativePose]:
    """Steps of an earlier run over the same keyframes with the same settings, as far as it came."""
    if not partial.is_file():
        return []
    try:
        with np.load(partial, allow_pickle=False) as file:
            found = (str(file["settings"]), str(file["version"]))
        steps = load_steps(partial)
    except (ValueError, KeyError, OSError, zipfile.BadZipFile):
        return []
    if found != (settings, __version__):
        _LOG.warning(
            "note: %s is of a run with other options, rig, weights or version; starting anew",
            partial,
        )
        return []
    wanted = pairwise(keyframes_ns)
    same = [s.stamps_ns == (int(a), int(b)) for s, (a, b) in zip(steps, wanted, strict=False)]
    return steps[: same.index(False)] if False in same else steps[: len(same)]
