"""What earlier windows showed of the biases, as the prior of a window that shares nothing with
them."""

from dataclasses import dataclass

import numpy as np

from maci2.estimation import InitResult
from maci2.gaussian import chi2_quantile
from maci2.imu import BiasPrior
from maci2.types import NS, Array

FALSE_ALARM = 1e-3
"""Probability that a window with the same biases is called contradictory."""

DOUBTED_AFTER_S = 1.0
"""Once windows have contradicted it for this long, the memory is what is wrong [s]."""


@dataclass(frozen=True)
class _Remembered:
    """Posterior of the biases of one window and of all before it that it was built on."""

    start_ns: int
    end_ns: int
    mean: Array
    """(6,) gyroscope [rad/s], accelerometer [m/s^2]."""

    variance: Array
    """(6,) of axes that may be taken as independent."""

    windows: int

    @property
    def middle_ns(self) -> float:
        return 0.5 * (self.start_ns + self.end_ns)


class BiasMemory:
    """Posteriors of the latest windows; a window begins with the best that it does not overlap.

    A posterior already holds that of its own predecessor, so no measurement is counted twice.
    Between windows the biases walk randomly.

    Args:
        walk_gyro: random walk of the gyroscope bias [rad/s/sqrt(s)].
        walk_acc: random walk of the accelerometer bias [m/s^2/sqrt(s)].
    """

    def __init__(self, walk_gyro: float, walk_acc: float) -> None:
        walks = np.array([walk_gyro] * 3 + [walk_acc] * 3)
        self._walk_variance = walks**2
        self._known: list[_Remembered] = []
        self._contradicted_ns: int | None = None

    def clear(self) -> None:
        self._known.clear()
        self._contradicted_ns = None

    @property
    def windows(self) -> int:
        """Number of windows behind the newest posterior; none of them overlap."""
        return self._known[-1].windows if self._known else 0

    def prior(self, start_ns: int, end_ns: int) -> BiasPrior | None:
        """Prior of a window; None where no other ended before it."""
        before = self._before(start_ns)
        if before is None:
            return None
        variance = before.variance + self._walked(before, start_ns, end_ns)
        std = np.sqrt(variance)
        return BiasPrior(before.mean[:3], std[:3], before.mean[3:], std[3:])

    def contradicts(self, alone: InitResult, prior: BiasPrior) -> bool:
        """Whether a window that was solved without the prior shows other biases.

        A memory that is contradicted for long is forgotten.
        """
        state, posterior = alone.state, alone.posterior
        if state is None or posterior is None:
            return False
        chi2 = 0.0
        for away, cov, std in (
            (state.gyro_bias - prior.mean_gyro, posterior.gyro_bias, prior.std_gyro),
            (state.acc_bias - prior.mean_acc, posterior.acc_bias, prior.std_acc),
        ):
            chi2 += float(away @ np.linalg.solve(cov + np.diag(std**2), away))
        start_ns = int(state.stamps_ns[0])
        if chi2 <= chi2_quantile(6, 1.0 - FALSE_ALARM):
            self._contradicted_ns = None
            return False
        self._contradicted_ns = self._contradicted_ns or start_ns
        if start_ns - self._contradicted_ns >= DOUBTED_AFTER_S * NS:
            self.clear()
        return True

    def add(self, result: InitResult) -> None:
        """Remember the posterior of a window that was solved with the prior given for it."""
        state, posterior = result.state, result.posterior
        if state is None or posterior is None:
            return
        start_ns, end_ns = int(state.stamps_ns[0]), int(state.stamps_ns[-1])
        before = self._before(start_ns)
        self._known.append(
            _Remembered(
                start_ns,
                end_ns,
                np.concatenate([state.gyro_bias, state.acc_bias]),
                np.concatenate(
                    [uncorrelated(posterior.gyro_bias), uncorrelated(posterior.acc_bias)]
                ),
                before.windows + 1 if before else 1,
            )
        )

    def _before(self, start_ns: int) -> _Remembered | None:
        """The most certain of those that ended before a window starts; later windows start later,
        so the others are not needed any more."""
        ended = [known for known in self._known if known.end_ns <= start_ns]
        if not ended:
            return None
        best = min(ended, key=lambda known: self._doubt(known, start_ns))
        self._known = [best, *(known for known in self._known if known.end_ns > start_ns)]
        return best

    def _doubt(self, known: _Remembered, start_ns: int) -> float:
        return float(np.log(known.variance + self._walked(known, start_ns, start_ns)).sum())

    def _walked(self, before: _Remembered, start_ns: int, end_ns: int) -> Array:
        """Variance of the walk from the middle of one window to that of another."""
        return self._walk_variance * (0.5 * (start_ns + end_ns) - before.middle_ns) / NS


def uncorrelated(cov: Array) -> Array:
    """(n,) variances of independent axes that claim nothing beyond a covariance: in no direction is
    their spread less.

    A known norm of gravity ties the accelerometer's axes together. Bare variances would be taken
    for knowledge of each axis, and with the same tie in the next window that counts twice: what no
    motion shows would get ever more certain.
    """
    std = np.sqrt(np.diag(cov))
    correlation = np.abs(cov) / np.outer(std, std)
    return np.asarray(std**2 * correlation.sum(axis=1))
