"""Extrinsics with a stated prior: what motion showed, what stays, and a prior that is wrong."""

import numpy as np

from maci2.estimation.verdict_checks import FAR, Check
from maci2.estimator.calibrate import MountingPrior
from maci2.lie import se3_inv, se3_log
from maci2.types import Array

KEPT = 0.9
"""An axis whose sigma is at least this share of the prior's was not seen."""

NAMES = tuple(
    f"the camera's {what} the IMU's {axis} axis"
    for what in ("position along", "rotation about")
    for axis in "xyz"
)


def mounting_checks(mounting: MountingPrior, T_b_c: Array, cov_T_b_c: Array) -> list[Check]:
    """Axes kept at the prior, and directions in which motion contradicts it."""
    if not np.isfinite(mounting.std[3:]).all():
        return []
    std = np.sqrt(np.diag(cov_T_b_c))
    kept = [i for i in range(6) if std[i] >= KEPT * mounting.std[i]]
    checks = [
        Check("ok", f"{NAMES[i]} does not show in this motion and stays at the stated prior, "
              f"{_value(mounting.std[i], i)} (1 sigma)")
        for i in kept
    ]  # fmt: skip
    seen = [i for i in range(6) if i not in kept]
    if kept and seen:
        text = "; ".join(f"{NAMES[i]} to {_value(std[i], i)}" for i in seen)
        checks.append(Check("ok", f"motion shows {text}"))
    return [*checks, *_contradictions(mounting, T_b_c, cov_T_b_c)]


def _contradictions(mounting: MountingPrior, T_b_c: Array, cov_T_b_c: Array) -> list[Check]:
    """How far motion moved the answer from the prior, against what the prior allows: the variance
    of that movement is the prior's less the posterior's."""
    moved = se3_log(T_b_c @ se3_inv(np.ascontiguousarray(mounting.T_b_c))) / mounting.std
    left, directions = np.linalg.eigh(cov_T_b_c / np.outer(mounting.std, mounting.std))
    checks = []
    for share, direction in zip(left, directions.T, strict=True):
        if share > KEPT**2:
            continue
        away = abs(float(direction @ moved)) / np.sqrt(1.0 - share)
        if away > FAR:
            axis = int(np.argmax(np.abs(direction)))
            checks.append(
                Check(
                    "weak",
                    f"the stated prior is contradicted: {NAMES[axis]} came out "
                    f"{_value(abs(moved[axis]) * mounting.std[axis], axis)} from it, {away:.1f} "
                    "standard deviations; check the prior's frames and axes",
                )
            )
    return checks


def _value(std: float, axis: int) -> str:
    return f"{1e3 * std:.1f} mm" if axis < 3 else f"{np.rad2deg(std):.2f} deg"
