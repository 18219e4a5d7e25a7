"""Consistency of an IMU's noise over a horizon: errors of the IMU between states that follow it,
compared with what its noise and the reference allow.

The states follow the IMU as well as the reference, so that the error between two of them is not the
IMU's whole error: with C its covariance, G the derivatives and P the posterior of both states, the
covariance of the error that shows is C - G P G'. Nothing that IMU and states share is counted.

Factor j joins two neighbouring states: e_j = A_j x_j + B_j x_j+1 + noise. Multiplied from the last
one back by M_j = -M_j+1 A_j+1 B_j^-1 and added up, all states between cancel, and what remains is
the error of integrating from the window's first state, with its bias, to the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from maci2.errors import MeasurementError
from maci2.estimator.problem import POSITION, ROTATION, STATE, VELOCITY
from maci2.estimator.residuals import WhitenedFactors
from maci2.estimator.solver import Covariance, Solution, covariance
from maci2.geometry.gaussian import square_root_information
from maci2.result_output import Json
from maci2.sensors.types import TruthCovariance
from maci2.tools.imu_noise.estimate import (
    NoiseProblem,
    all_factors,
    fit_reference_noise,
    white_residuals,
)
from maci2.types import NS, Array, Stamps


@dataclass(frozen=True)
class Windows:
    """m windows of equally many factors, one from every state that has enough after it."""

    first: NDArray[np.int64]
    """(m,) first factor of each window."""

    transport: Array
    """(steps, m, 15, 15) what takes a whitened residual of each factor to the window's end."""

    cov: Array
    """(m, 15, 15) of the IMU's error over the window."""

    cov_shown: Array
    """(m, 15, 15) of what shows of it between the states, which follow the IMU too."""

    def errors(self, r: Array) -> Array:
        """(m, 15) errors at the windows' ends of whitened residuals (n, 15) of all factors."""
        e = np.zeros((len(self.first), STATE))
        for step, M in enumerate(self.transport):
            e += np.einsum("kij,kj->ki", M, r[self.first + step])
        return e


def compose_windows(
    solution: Solution, posterior: Covariance, factors: WhitenedFactors, steps: int
) -> Windows:
    """All windows of `steps` IMU factors without a gap of the samples."""
    white = solution.measurements.white
    whole = np.einsum("kii->ki", white).all(axis=1)
    broken = np.r_[0, np.cumsum(~whole)]
    first = np.flatnonzero(broken[steps:] == broken[:-steps])
    if not len(first):
        raise MeasurementError(
            f"no {steps} neighbouring states without a gap of the IMU's samples between them; give "
            "a longer recording."
        )
    white_inv = np.zeros_like(white)
    white_inv[whole] = np.linalg.inv(white[whole])
    G = white_inv @ factors.G
    A, B, shared = G[:, :, :STATE], G[:, :, STATE : 2 * STATE], G[:, :, 2 * STATE :]
    M = np.tile(np.eye(STATE), (len(first), 1, 1))
    transport: list[Array] = []
    by_border = np.zeros((len(first), STATE, shared.shape[2]))
    for at in (first + step for step in reversed(range(steps))):
        transport.insert(0, M @ white_inv[at])
        by_border += M @ shared[at]
        by_first = M @ A[at]
        if len(transport) < steps:
            M = -by_first @ np.linalg.inv(B[at - 1])
    D = np.concatenate([by_first, B[first + steps - 1], by_border], axis=2)
    cov = sum(W @ np.swapaxes(W, 1, 2) for W in transport)
    followed = D @ _joint(posterior, first, first + steps) @ np.swapaxes(D, 1, 2)
    return Windows(first, np.stack(transport), np.asarray(cov), np.asarray(cov - followed))


def _joint(posterior: Covariance, first: Stamps, last: Stamps) -> Array:
    """(m, 30 + b, 30 + b) of the windows' first and last states and the free constants."""
    known = (posterior.states, posterior.neighbours, posterior.with_shared, posterior.free)
    chain = TruthCovariance(np.arange(len(posterior.states)), *known)
    s = 2 * STATE
    P = np.empty((len(first), s + len(posterior.free), s + len(posterior.free)))
    P[:, :s, :s], P[:, s:, s:] = chain.pairs(first, last), posterior.free
    P[:, :s, s:] = np.hstack([posterior.with_shared[first], posterior.with_shared[last]])
    P[:, s:, :s] = np.swapaxes(P[:, :s, s:], 1, 2)
    return P


LEAST_SHOWN = 1e-3
"""Share of an error's variance that must show in a direction for it to be scored there."""

DRAWS = 12
"""Draws of white noise that tell what correlation to expect."""

PARTS = {"rotation": ROTATION, "velocity": VELOCITY, "position": POSITION}


@dataclass(frozen=True)
class Consistency:
    """Errors of the IMU over windows of one length, one from every state."""

    windows: int
    nees: dict[str, float | None]
    """Mean NEES of rotation, velocity and position per degree of freedom; None where the reference
    shows none of it."""

    shown: dict[str, float]
    """Share of the IMU's variance of each that shows against the reference."""

    correlation: Array
    """(lags,) autocorrelation of the whitened errors of rotation and velocity, from one window to
    the next one after it on."""

    expected: Array
    """(lags,) the same for white noise of all measurements: the states follow errors, so that what
    is left of them is not white."""

    chance: float
    """Standard deviation of their difference where all noise is white."""


LAGS = 10
"""Lags of the autocorrelation."""


def consistency(solution: Solution, steps: int = 1) -> Consistency:
    """Scores of a solved chain over windows of `steps` IMU factors each.

    Windows of several factors are scored on the chain of all states between: measurements inside
    a window then meet states of their own, not what the IMU alone carries to them.
    """
    posterior = covariance(solution)
    rows = all_factors(solution, posterior)
    windows = compose_windows(solution, posterior, rows[0], steps)
    e = windows.errors(rows[0].white)
    nees, shown = dict[str, float | None](), dict[str, float]()
    for name, block in PARTS.items():
        cov_shown, cov = (each[:, block, block] for each in (windows.cov_shown, windows.cov))
        nees[name] = _nees(e[:, block], cov_shown, cov)
        shown[name] = float(np.einsum("kii->", cov_shown) / np.einsum("kii->", cov))
    white = square_root_information(windows.cov[::steps])

    def correlation(r: Array) -> Array:
        """Mean over rotation and velocity, each component with its own variance."""
        e = np.einsum("kij,kj->ki", white, windows.errors(r)[::steps])[:, :6]
        scaled = (e - e.mean(axis=0)) / np.maximum(e.std(axis=0), 1e-300)
        lags = range(1, min(LAGS, max(len(e) - 2, 0)) + 1)
        return np.array([float(np.mean(scaled[lag:] * scaled[:-lag])) for lag in lags])

    drawn = np.array([correlation(r) for r in white_residuals(rows, solution, DRAWS)])
    chance = float(np.sqrt((1.0 + 1.0 / DRAWS) * drawn.var(axis=0, ddof=1).mean()))
    found = correlation(rows[0].white)
    return Consistency(len(e), nees, shown, found, drawn.mean(axis=0), chance)


def _nees(e: Array, cov_shown: Array, cov: Array) -> float | None:
    """Mean square over all directions of which enough shows, each in its standard deviations."""
    white = square_root_information(cov)
    share, directions = np.linalg.eigh(white @ cov_shown @ np.swapaxes(white, 1, 2))
    squares = np.einsum("kji,kjl,kl->ki", directions, white, e) ** 2
    scored = share > LEAST_SHOWN
    return float(np.mean(squares[scored] / share[scored])) if scored.any() else None


HORIZONS_S = (0.25, 1.0)
"""Lengths over which errors are scored [s]."""


@dataclass(frozen=True)
class NoiseCheck:
    """Scores of one recording over one horizon."""

    recording: str
    horizon_s: float
    stated: Consistency
    """With the data sheet's noise."""

    measured: Consistency
    """With the noise that was measured."""


def check_noise(
    recordings: Sequence[tuple[str, NoiseProblem]], measured: Array, stated: Array
) -> tuple[NoiseCheck, ...]:
    """Scores of all recordings and horizons; noise of the reference is fitted to each recording."""
    checks = []
    for name, recording in recordings:
        period_s = float(np.median(np.diff(recording.problem.stamps_ns))) / NS
        solutions = [fit_reference_noise(recording, levels) for levels in (stated, measured)]
        for horizon_s in HORIZONS_S:
            steps = max(round(horizon_s / period_s), 1)
            scores = (consistency(solution, steps) for solution in solutions)
            checks.append(NoiseCheck(name, horizon_s, *scores))
    return tuple(checks)


CHECK_COLUMNS = (
    "recording",
    "over [s]",
    *(f"{noise} {part}" for noise in ("sheet", "found") for part in ("rot", "vel", "pos")),
)


def check_rows(checks: Sequence[NoiseCheck]) -> list[tuple[str, ...]]:
    """One row for each recording and horizon, NEES per degree of freedom."""
    return [
        (
            check.recording,
            f"{check.horizon_s:g}",
            *(
                "-" if nees is None else f"{nees:.2f}"
                for scores in (check.stated, check.measured)
                for nees in scores.nees.values()
            ),
        )
        for check in checks
    ]


def check_record(checks: Sequence[NoiseCheck]) -> list[Json]:
    """Scores under the keys of `maci2 noise --json`."""
    return [
        {
            "recording": check.recording,
            "horizon_s": check.horizon_s,
            "windows": check.measured.windows,
            **{
                name: {
                    "nees": {**one.nees},
                    "shown": {**one.shown},
                    "correlation": [round(float(c), 4) for c in one.correlation],
                    "expected_correlation": [round(float(c), 4) for c in one.expected],
                }
                for name, one in (("stated", check.stated), ("measured", check.measured))
            },
        }
        for check in checks
    ]
