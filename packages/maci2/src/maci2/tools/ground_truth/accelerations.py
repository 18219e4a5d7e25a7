"""Second differences of a capture's positions against the same ones of the IMU's forces.

Three rows of positions give a mean acceleration exactly, weighted by a triangle. The accelerometer,
rotated by gyroscope and capture, is weighted alike, so rows may be sparse. A linear fit gives the
scale of the positions, gravity in their world, the accelerometer's bias and what is left of the
marker's rotation and place; axes in another order, of other signs or of another world show as a
better fit.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from maci2.errors import DatasetError
from maci2.geometry.se3 import nearest_rotation, skew_stack, so3_exp_stack, so3_log_stack
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS, columns
from maci2.sensors import ImuSamples, gaps
from maci2.tools.ground_truth.capture import Capture
from maci2.tools.ground_truth.registration import Registration, unit_of_positions
from maci2.types import NS, Array

SPAN_S = 0.3
"""Time from one row of three to the next, at least. Longer ones see more of slow errors."""

BLOCK_S = 4.0
"""Errors in different blocks of time are independent."""

FEWEST_BLOCKS = 8
FEWEST = 40
LEAST_MOTION = 0.15
"""Variation of acceleration, rms of the axes [m/s^2], below which noise and bias decide."""

BETTER = 0.25
"""Other axes are meant where they leave at most this fraction of the squared misfit."""

ALIKE = 0.8
MAX_SCALE_ERROR = 0.05
"""Largest error of the positions' scale that can be audited. Seven recordings and the scale of
their accelerometers are within 0.011."""

SIGMAS = 4.0
FROZEN = 1e-6
"""Range of positions that no tracker ever measures [m]."""

FAR_DEG = 10.0
BIAS, GRAVITY, MARKER, LEVER, UNKNOWNS = slice(1, 4), slice(4, 7), slice(7, 10), slice(10, 13), 13
"""Places among the unknowns; the first is the scale."""

BIAS_STD, MARKER_STD, LEVER_STD = 0.2, 0.05, 0.2
"""Usual accelerometer bias [m/s^2], and what is usually left of the marker's rotation [rad] and
place [m], per axis."""

LARGEST_MARKER = 0.3
"""Largest rotation that the rates may have left of the marker's [rad]."""

LEAST_NOISE = 1e-3
"""Least noise of an acceleration [m/s^2]."""


@dataclass(frozen=True)
class AccelerationFit:
    """Positions and forces fitted to each other."""

    scale: float
    """Capture's length over the IMU's: 1, or 1000 for millimetres; NaN where too little moves."""

    std_scale: float
    """Its standard deviation, from the scatter over blocks of time."""

    up_w: Array
    """(3,) direction opposite to gravity in the capture's world."""

    bias_acc: Array
    """(3,) [m/s^2]; zero where too little moves."""

    @property
    def scale_differs(self) -> bool:
        """Certainly not 1."""
        return bool(abs(self.scale - 1.0) > max(0.5 * MAX_SCALE_ERROR, SIGMAS * self.std_scale))


@dataclass(frozen=True)
class _Regression:
    """Linear regression of the positions' accelerations on scale, bias, gravity and what the rates
    have left of the marker's rotation, and of its stated place."""

    at_s: Array
    """(n,) middle rows."""

    a: Array
    """(n, 3) of positions, in the capture's world."""

    X: Array
    """(n, 3, 13) derivatives by the unknowns; by the scale it is the IMU's specific force."""

    weights: Array
    """(n,)"""

    noise: float = LEAST_NOISE
    """Of an acceleration [m/s^2]."""

    def robust(self) -> tuple["_Regression", Array]:
        """Weights by Huber, which rows of a lost tracker do not move, and the unknowns."""
        fit = self
        for _ in range(10):
            x = fit.solve(self.a)
            far = np.linalg.norm(self.a - self.X @ x, axis=1)
            # The median length of three axes of noise is 1.54 times that of one.
            noise = max(float(np.median(far)) / 1.54, LEAST_NOISE)
            fit = replace(self, weights=1.0 / np.maximum(1.0, far / (3.0 * noise)), noise=noise)
        return fit, x

    @cached_property
    def information(self) -> Array:
        """(13, 13), with usual sizes as a prior: where the body does not rotate enough, bias,
        rotation and place are one, and all are small."""
        info = np.einsum("n,nij,nik->jk", self.weights, self.X, self.X) / self.noise**2
        for place, std in ((BIAS, BIAS_STD), (MARKER, MARKER_STD), (LEVER, LEVER_STD)):
            info[place, place] += std**-2.0 * np.eye(3)
        return np.asarray(info + 1e-9 * np.eye(UNKNOWNS))

    def solve(self, a: Array) -> Array:
        """(13,) unknowns that fit accelerations (n, 3) best."""
        weighted = np.einsum("n,nij,ni->j", self.weights, self.X, a) / self.noise**2
        return np.asarray(np.linalg.solve(self.information, weighted))

    def misfit(self, a: Array) -> float:
        """Sum of squares that the best fit leaves; infinite where it is upside down."""
        x = self.solve(a)
        far = self.weights[:, None] * (a - self.X @ x) ** 2
        return float("inf") if x[0] <= 0.0 else float(np.sum(far))

    def centred(self, values: Array) -> Array:
        """Values (n, 3) less their weighted mean."""
        return np.asarray(values - np.average(values, axis=0, weights=self.weights))

    @property
    def most_misfit(self) -> float:
        """Misfit up to which the fit explains the accelerations: a share of their variation."""
        return (1.0 - ALIKE**2) * float(np.sum(self.weights[:, None] * self.centred(self.a) ** 2))

    def std_scale(self, x: Array) -> float:
        """Standard deviation of the scale: what white noise and usual biases leave, or what the
        scatter over blocks of time shows, whichever is larger."""
        cov = np.linalg.inv(self.information)
        elapsed_s = self.at_s - self.at_s[0]
        length_s = min(BLOCK_S, elapsed_s[-1] / FEWEST_BLOCKS)
        block = (elapsed_s // length_s).astype(np.int64)
        names = np.unique(block)
        left = self.a - self.X @ x
        scores = np.einsum("n,nij,ni->nj", self.weights, self.X, left) / self.noise**2
        sums = np.array([scores[block == name].sum(axis=0) for name in names])
        count = len(names) / max(len(names) - 1, 1)
        scatter = count * float(np.sum((sums @ cov[0]) ** 2))
        return float(np.sqrt(max(scatter, cov[0, 0])))


def fit_accelerations(
    capture: Capture, found: Registration, R_b_m: Array, imu: ImuSamples
) -> AccelerationFit | None:
    """Fit the accelerations of a capture with orientations; None where it is too short or sparse,
    or where nothing here explains them.

    Raises where its positions are in another unit, in other axes than its orientations, or
    constant while the IMU accelerates.
    """
    regression = _accelerations(capture, found, R_b_m, imu)
    if regression is None:
        return None
    force = regression.X[:, :, 0]
    moved = force.std(axis=0)
    if np.sqrt(np.mean(moved**2)) < LEAST_MOTION:
        up = np.median(force - regression.a, axis=0)
        return AccelerationFit(np.nan, np.nan, up / np.linalg.norm(up), np.zeros(3))
    still = (np.ptp(capture.p_w_m, axis=0) < FROZEN) & (moved > LEAST_MOTION)
    if still.any():
        axes = ", ".join(np.array([*"xyz"])[still])
        raise DatasetError(
            f"{capture.source}: its positions do not change along {axes}, while the IMU "
            f"accelerates there by {moved[still].max():.2f} m/s^2 rms: they were not written, or "
            "belong to another recording."
        )
    regression, x = regression.robust()
    _require_axes(capture, regression)
    # Another mounting of the marker is none: an accelerometer has other axes than the gyroscope.
    mounted = np.linalg.norm(x[MARKER]) < LARGEST_MARKER * abs(x[0])
    if not mounted or regression.misfit(regression.a) >= regression.most_misfit:
        return None
    fit = AccelerationFit(
        float(x[0]),
        regression.std_scale(x),
        -x[GRAVITY] / np.linalg.norm(x[GRAVITY]) * np.sign(x[0]),
        -x[BIAS] / x[0],
    )
    if fit.scale_differs and abs(fit.scale - 1.0) >= MAX_SCALE_ERROR:
        unit = unit_of_positions(1.0 / fit.scale) if fit.scale > 0.0 else ""
        meant = f"positions are in {unit}" if unit else "positions have another scale"
        raise DatasetError(
            f"{capture.source}: accelerations of the positions are {fit.scale:.4g} ± "
            f"{fit.std_scale:.2g} times those of the IMU, needed 1: {meant}. Convert them to "
            "metres."
        )
    return fit


def gyro_rotations(imu: ImuSamples, bias: Array) -> Array:
    """(n, 3, 3) orientation at every sample, from the first on, by the gyroscope alone."""
    dt = np.diff(imu.stamps_ns)[:, None] / NS
    turns = so3_exp_stack((0.5 * (imu.gyro[1:] + imu.gyro[:-1]) - bias) * dt)
    return np.array([*accumulate(turns, np.matmul, initial=np.eye(3))])


def _accelerations(
    capture: Capture, found: Registration, R_b_m: Array, imu: ImuSamples
) -> _Regression | None:
    assert capture.Rs_w_m is not None
    # Differences first: absolute nanoseconds do not fit into a float.
    imu_s = (imu.stamps_ns - imu.stamps_ns[0]) / NS
    at_s = (capture.stamps_ns - imu.stamps_ns[0]) / NS + found.offset_s
    period_s = float(np.median(np.diff(at_s)))
    step = max(int(np.ceil(SPAN_S / period_s)), 1)
    middle = np.arange(step, len(at_s) - step, max(step // 2, 1))
    first, last = middle - step, middle + step
    good = (at_s[first] > imu_s[0]) & (at_s[last] < imu_s[-1])
    good &= at_s[last] - at_s[first] < 3.0 * step * period_s
    # What the IMU missed in a gap of its own is not in its integral.
    for gap in gaps(imu.stamps_ns):
        good &= (at_s[last] < imu_s[gap]) | (at_s[first] > imu_s[gap + 1])
    rows = (first[good], middle[good], last[good])
    if len(rows[1]) < FEWEST:
        return None
    Rs_b0_b = gyro_rotations(imu, found.bias_gyro)
    dt = np.diff(imu_s)[:, None]
    twice = np.einsum("nij,nj->ni", Rs_b0_b, imu.acc)
    for _ in range(2):
        twice = np.vstack([np.zeros(3), np.cumsum(0.5 * (twice[1:] + twice[:-1]) * dt, axis=0)])
    at_rows = np.stack([np.interp(at_s, imu_s, axis) for axis in twice.T], axis=1)
    nearest = np.clip(np.searchsorted(imu_s, at_s[rows[1]]), 0, len(imu) - 1)
    force_b = np.einsum("nji,nj->ni", Rs_b0_b[nearest], _second_difference(at_s, at_rows, rows))
    Rs_w_b = capture.Rs_w_m @ R_b_m.T
    p_w_b = capture.p_w_m - Rs_w_b @ capture.T_b_m[:3, 3]
    R_w_b, n = Rs_w_b[rows[1]], len(rows[1])
    X = np.empty((n, 3, UNKNOWNS))
    X[:, :, 0] = np.einsum("nij,nj->ni", R_w_b, force_b)
    force_b = np.einsum("nji,nj->ni", R_w_b, X[:, :, 0])
    X[:, :, BIAS], X[:, :, GRAVITY] = R_w_b, np.eye(3)
    X[:, :, MARKER] = np.einsum("nij,njk->nik", R_w_b, -skew_stack(force_b))
    # A lever arm adds to the accelerations what orientation does over the same rows.
    X[:, :, LEVER] = _second_difference(at_s, Rs_w_b.reshape(-1, 9), rows).reshape(-1, 3, 3)
    return _Regression(at_s[rows[1]], _second_difference(at_s, p_w_b, rows), X, np.ones(n))


def _second_difference(at_s: Array, p: Array, rows: tuple[Array, Array, Array]) -> Array:
    """Mean acceleration over three rows, weighted by a triangle that peaks at the middle one."""
    first, middle, last = rows
    before, after = (at_s[middle] - at_s[first])[:, None], (at_s[last] - at_s[middle])[:, None]
    change = (p[last] - p[middle]) / after - (p[middle] - p[first]) / before
    return np.asarray(2.0 * change / (before + after))


def _require_axes(capture: Capture, regression: _Regression) -> None:
    """Raise where positions fit much better in other axes than in those of the orientations."""
    a = regression.a
    limit = min(BETTER * regression.misfit(a), regression.most_misfit)
    misfits = [regression.misfit(a @ P) for P in SIGNED_PERMUTATIONS]
    best = int(np.argmin(misfits))
    if best and misfits[best] < limit:
        P = SIGNED_PERMUTATIONS[best]
        mirrored = "mirrored" if np.linalg.det(P) < 0.0 else "in other axes"
        raise DatasetError(
            f"{capture.source}: positions are {mirrored} compared with orientations: they fit the "
            f"IMU's accelerations if their columns are read as {columns(P.T)}. Convert the file to "
            "one right-handed world."
        )
    weighted = regression.weights[:, None] * regression.centred(a)
    R = nearest_rotation(weighted.T @ regression.centred(regression.X[:, :, 0]))
    apart_deg = float(np.degrees(np.linalg.norm(so3_log_stack(R[None])[0])))
    if apart_deg > FAR_DEG and regression.misfit(a @ R) < limit:
        raise DatasetError(
            f"{capture.source}: positions and orientations are in worlds {apart_deg:.0f} deg "
            "apart: the IMU's accelerations fit the positions only after that rotation. Convert "
            "the file to one world."
        )
