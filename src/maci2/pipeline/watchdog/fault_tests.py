"""Generalized likelihood ratio of faults: how much better they explain residuals than noise does.

Each fault is a linear signature in the residuals with an unknown size. Twice the logarithm of the
likelihood ratio at the best size is chi-square distributed where there is no fault, if the noise is
as stated. An odometry's noise is not: what the same statistic has been lately is its scale, and the
ratio of the two is F distributed. No threshold belongs to a device.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import stats

from maci2.pipeline.watchdog.comparison import Comparison
from maci2.types import Array

Fault = Literal["scale", "jump", "tilt", "stall"]

PRIOR_DOF = 20.0
"""Weight of the stated noise beside what was seen lately, in degrees of freedom."""

REMEMBERED = 60
"""Statistics of each kind that count as lately: twelve seconds of keyframes."""

STILL_M = 1e-3
"""An odometry that moves less than this from keyframe to keyframe has stopped."""

INDEPENDENT = 0.2
"""Share of them that are independent: windows overlap."""


@dataclass(frozen=True)
class FaultTest:
    """One fault against none, over one window."""

    fault: Fault
    statistic: float
    """Twice the logarithm of the likelihood ratio."""

    dof: int
    size: Array
    """Best size: [log scale], [m, m, m] in the body, or [rad, rad, rad] in the body."""

    std: Array
    """Standard deviation of each entry."""


def signatures(window: Comparison) -> dict[Fault, Array]:
    """(6 n, d) of each fault that begins right after the anchor."""
    n = len(window.residuals)
    origin = [window.shifted_origin(k) for k in range(n)]
    orientation = np.zeros((n, 6, 3))
    orientation[:, 3:6] = [J[3:6, 3:6] for J in origin]
    return {
        "scale": np.concatenate(window.by_scale)[:, None],
        "jump": np.concatenate([J[:, 0:3] for J in origin]),
        "tilt": np.concatenate(orientation),
    }


def fault_tests(window: Comparison) -> list[FaultTest]:
    """Every fault against none."""
    e, C = np.concatenate(window.residuals), window.covariance()
    L = np.linalg.cholesky(C)
    white = np.linalg.solve(L, e)
    frozen = _stalled(window, white)
    if frozen is not None:
        return [frozen]
    return [_tested(fault, np.linalg.solve(L, S), white) for fault, S in signatures(window).items()]


def _tested(fault: Fault, S: Array, white: Array) -> FaultTest:
    information = S.T @ S
    cov = np.linalg.inv(information)
    size = cov @ (S.T @ white)
    statistic = float(size @ information @ size)
    return FaultTest(fault, statistic, S.shape[1], size, np.sqrt(np.diag(cov)))


def _stalled(window: Comparison, white: Array) -> FaultTest | None:
    """An odometry that stands still while the IMU does not: no size is left to estimate."""
    moved = np.linalg.norm(np.diff(window.displacements, axis=0, prepend=0.0), axis=1)
    if (moved > STILL_M).any():
        return None
    e = np.array(window.residuals)[-1, 0:3]
    return FaultTest("stall", float(white @ white), len(white), e, np.full(3, np.nan))


@dataclass
class Ordinary:
    """What a statistic has been lately, over windows of one length, where nothing was wrong."""

    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """Statistics per degree of freedom."""

    def sigmas(self, test: FaultTest) -> float:
        """Size of a statistic as standard deviations of a normal number: F distributed over what
        was seen lately."""
        seen = INDEPENDENT * len(self.ratios) * test.dof
        level = (PRIOR_DOF + seen * float(np.mean(self.ratios or [1.0]))) / (PRIOR_DOF + seen)
        ratio = test.statistic / test.dof / max(level, 1.0)
        if ratio < CLEARLY_ORDINARY:
            return 0.0
        log_p = stats.f.logsf(ratio, test.dof, PRIOR_DOF + seen)
        return sigmas_of(log_p) if np.isfinite(log_p) else LARGEST_SIGMAS

    def observe(self, test: FaultTest) -> None:
        self.ratios.append(test.statistic / test.dof)


LARGEST_SIGMAS = 30.0
CLEARLY_ORDINARY = 4.0
"""Ratio below which no probability is worked out: no fault of any size has so little."""


def sigmas_of(log_p: float) -> float:
    """The normal number exceeded with this probability (given as logarithm) by chance."""
    if log_p < -400.0:
        return min(float(np.sqrt(-2.0 * log_p)), LARGEST_SIGMAS)
    return float(stats.norm.isf(np.exp(log_p)))
