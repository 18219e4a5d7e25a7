"""Consistency of the match covariance in scenes that were not trained on, and its calibration."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.gaussian import chi2_quantile, chi2_significance, nees
from maci2.learn.vision.data import RenderedMatches
from maci2.lie import se3_inv, se3_log
from maci2.types import Array
from maci2.vision.klt import spread
from maci2.vision.outlier_rejection import MIN_MATCHES, consensus_pose
from maci2.vision.relative_pose import MAX_MATCHES, RADIUS_PX, contamination_scale

GATE = 5.0
"""Standard deviations beyond which a match is an outlier and left to the robust loss."""

POSE_GATE = chi2_quantile(6, 0.999)
"""Squared Mahalanobis norm beyond which a pose is lost: 99.9 % of chi-square with 6 dof."""

GROSS_PX = 10.0
"""Errors beyond this are a lost match: counted, not learned from."""

ROUNDS = 20
"""Rounds of calibration: what lies inside the gate changes with the factors."""

TAIL_COSTS = ((3.0, 1.0), (5.0, 5.0))
"""Standard deviations, and what all poses beyond them would cost, in natural logarithm: a pose that
is wrong and certain harms more than its share."""

Covariances = Callable[[NDArray[np.float32]], Array]
"""Network inputs (n, INPUTS) -> covariances (n, 4, 4) [px^2]."""


@dataclass(frozen=True)
class Calibration:
    """Consistency of the covariance on scenes not trained on."""

    axis_nees: tuple[float, float, float, float]
    """Per axis u1, v1, d0, d1, outliers rejected, before the factors of the axes were set."""

    pose_nees: float
    """Per degree of freedom, after that and before the common factor was set."""

    outliers: float
    """Share of matches beyond the gate."""

    beyond_sigmas: tuple[float, float] = (0.0, 0.0)
    """Shares of poses beyond 3 and 5 standard deviations, when calibrated."""


@dataclass(frozen=True)
class PoseScores:
    """How the estimator's poses fit the true ones."""

    squares: Array
    """(n,) squared Mahalanobis norms of the errors."""

    log_dets: Array
    """(n,) of the covariances."""

    @property
    def factor(self) -> float:
        """NEES per degree of freedom of the poses inside the gate."""
        factor = 1.0
        for _ in range(ROUNDS):
            factor = float(self.squares[self.squares < POSE_GATE * factor].mean() / 6.0)
        return factor

    def beyond(self, sigmas: float, factor: float) -> float:
        """Share of errors as improbable as one of so many standard deviations in one dimension,
        when covariances are multiplied by a factor."""
        limit = chi2_quantile(6, 1.0 - chi2_significance(1, sigmas**2))
        return float((self.squares > factor * limit).mean())

    @property
    def cost(self) -> float:
        """What decides between networks: negative log likelihood per degree of freedom of poses
        inside the gate when calibrated, and the price of tails."""
        factor = self.factor
        spread_of = 0.5 * (np.median(self.log_dets) / 6.0 + np.log(factor))
        return float(spread_of) + sum(
            cost * self.beyond(sigmas, factor) for sigmas, cost in TAIL_COSTS
        )


def axis_nees(
    covariances: Covariances, inputs: NDArray[np.float32], errors: Array
) -> tuple[Array, float]:
    """(4,) of matches inside the gate, and the share outside."""
    ratio = errors**2 / np.diagonal(covariances(inputs), axis1=1, axis2=2)
    inside = np.asarray((ratio < GATE**2).all(axis=1))
    return ratio[inside].mean(axis=0), float(1.0 - inside.mean())


def pose_scores(covariances: Covariances, rendered: list[RenderedMatches]) -> PoseScores:
    """Scores of all relative poses with matches enough, as the estimator finds them."""
    found = [_score(covariances, one) for one in rendered if len(one.matches) >= MIN_MATCHES]
    squares, log_dets = np.array(found).T
    return PoseScores(squares, log_dets)


def _score(covariances: Covariances, one: RenderedMatches) -> tuple[float, float]:
    covs = covariances(one.inputs)
    chosen = spread(one.matches.uv0, np.linalg.det(covs), MAX_MATCHES, RADIUS_PX)
    pose = consensus_pose(one.matches.take(chosen), covs[chosen], one.camera, one.predicted)
    cov = contamination_scale(pose) * pose.cov
    error = se3_log(pose.T_ck_ck1 @ se3_inv(one.T_ck_ck1))
    return float(nees(error, cov)), float(np.linalg.slogdet(cov)[1])
