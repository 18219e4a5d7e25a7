"""Axes of gyroscope and accelerometer, checked against ground truth or against each other.

Gravity is constant in the world, so forces rotated back with the gyroscope must agree from one
interval to the next.
"""

from dataclasses import dataclass

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.findings import Finding
from maci2.geometry.se3 import skew_stack, so3_exp_stack
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS, RateMatch, columns, misfit
from maci2.sensors import GroundTruth, ImuSamples, with_velocity
from maci2.sensors.validation import IN_DEGREES
from maci2.tools.diagnostics import checks
from maci2.types import GRAVITY_NORM, NS, Array

BETTER = 0.5
"""Other axes are accepted if they leave at most this fraction of the misfit."""

MAX_FORCE_MISFIT = 2.0
"""Accepted misfit of specific forces to the ground truth, rms [m/s^2]."""

MIRRORED = "the IMU's axes are left-handed (mirrored)"
TURNED = "the IMU's axes are permuted or rotated"
OF_BOTH = (MIRRORED, TURNED, IN_DEGREES)
"""Faults in which gyroscope and accelerometer do not contradict each other."""

OF_TRUTH = "the ground truth's"

RATIO_DEG = (40.0, 80.0)
INTERVAL_S = 0.1


def best_axes(squared_misfits: list[float]) -> Array:
    """Signed permutation of the least squared misfit; the identity unless another is clearly
    better."""
    at = int(np.argmin(squared_misfits))
    return SIGNED_PERMUTATIONS[at if is_better(squared_misfits[at], squared_misfits[0]) else 0]


def is_better(squared_misfit: float, other: float) -> bool:
    """An explanation leaves clearly less than another."""
    return squared_misfit < BETTER**2 * other


@dataclass(frozen=True)
class Forces:
    """Specific force in the body frame."""

    expected: Array
    """(k, 3) from poses and velocities of the ground truth [m/s^2]."""

    measured: Array
    """(k, 3) means of the accelerometer [m/s^2]."""

    R_w_b: Array
    """(k, 3, 3) orientations of the ground truth."""

    def misfit(self, P: Array) -> float:
        """Mean squared difference between the expected force and P measured."""
        return float(np.mean(np.sum((self.expected - self.measured @ P.T) ** 2, axis=1)))

    @property
    def fit(self) -> bool:
        """Forces fit as they are."""
        return self.misfit(np.eye(3)) <= MAX_FORCE_MISFIT**2

    @property
    def axes(self) -> Array:
        """P with expected = P measured; the identity unless another is clearly better."""
        tried = SIGNED_PERMUTATIONS[:1] if self.fit else SIGNED_PERMUTATIONS
        return best_axes([self.misfit(P) for P in tried])

    def allows(self, P: Array) -> bool:
        """P explains the forces nearly as well as the recorded axes do, so that motion does
        not distinguish them."""
        return BETTER**2 * self.misfit(P) < self.misfit(np.eye(3))

    def bias_and_tilt(self) -> tuple[Array, float]:
        """Accelerometer bias [m/s^2] and tilt of the ground truth's world [deg]; rotation separates
        them, since only the bias rotates with the body."""
        up = GRAVITY_NORM * np.array([[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
        tilted = np.einsum("kji,jl->kil", self.R_w_b, up)
        A = np.concatenate([np.broadcast_to(np.eye(3), (len(tilted), 3, 3)), tilted], axis=2)
        left = self.measured - self.expected
        # Without rotation both explain the same: then what is usual, few tenths and a degree.
        prior = np.diag(max(float(left.std()), 0.05) / np.array([0.2] * 3 + [0.02] * 2))
        rows = np.vstack([A.reshape(-1, 5), prior])
        x = np.linalg.lstsq(rows, np.concatenate([left.ravel(), np.zeros(5)]), rcond=None)[0]
        return x[:3], float(np.rad2deg(np.linalg.norm(x[3:])))


def truth_forces(truth: GroundTruth, imu: ImuSamples, offset_s: float) -> Forces | None:
    """Specific forces over tenths of a second; None if the ground truth has no velocity."""
    v_w = truth.v_w if np.isfinite(truth.v_w).any() else with_velocity(truth).v_w
    at_s = (truth.stamps_ns - imu.stamps_ns[0]) / NS + offset_s
    imu_s = (imu.stamps_ns - imu.stamps_ns[0]) / NS
    half = max(round(0.5 * INTERVAL_S / float(np.median(np.diff(at_s)))), 1)
    middle = np.arange(half, len(at_s) - half, 2 * half)
    first, last = middle - half, middle + half
    length_s = at_s[last] - at_s[first]
    good = (length_s < 2.0 * INTERVAL_S) & (at_s[first] > 0.0) & (at_s[last] < imu_s[-1])
    good &= np.isfinite(v_w[first]).all(axis=1) & np.isfinite(v_w[last]).all(axis=1)
    first, middle, last, length_s = first[good], middle[good], last[good], length_s[good, None]
    if len(first) < 20:
        return None
    force_w = (v_w[last] - v_w[first]) / length_s + np.array([0.0, 0.0, GRAVITY_NORM])
    R_w_b = truth.Ts_w_b[middle, :3, :3]
    steps = 0.5 * (imu.acc[1:] + imu.acc[:-1]) * np.diff(imu_s)[:, None]
    total = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)]).T
    change = [np.interp(at_s[last], imu_s, v) - np.interp(at_s[first], imu_s, v) for v in total]
    expected = np.einsum("kji,kj->ki", R_w_b, force_w)
    return Forces(expected, np.transpose(change) / length_s, R_w_b)


def in_degrees(match: RateMatch, whose: str) -> list[Finding]:
    """Finding about a gyroscope in deg/s, compared with rates of another source."""
    if not RATIO_DEG[0] < match.ratio < RATIO_DEG[1]:
        return []
    return [checks.DEGREES.finding("imu", found=f"rates {match.ratio:.1f} times those of {whose}")]


def axes_against_truth(match: RateMatch, forces: Forces | None) -> list[Finding]:
    """Findings about unit and axes of the IMU, compared with ground truth in the body frame."""
    rates, scaled = match.rates_s, match.gyro / match.ratio
    gyro = best_axes([misfit(rates, scaled, P) for P in SIGNED_PERMUTATIONS])
    acc = forces.axes if forces else gyro
    both_may_be = forces is not None and forces.allows(gyro)
    return in_degrees(match, "the ground truth") or _named(gyro, acc, OF_TRUTH, both_may_be)


def _named(gyro: Array, acc: Array, whose: str, both_may_be: bool) -> list[Finding]:
    """Description of a fault by the permutations of both sensors; `both_may_be` if the
    accelerometer does not show its own."""
    alike, eye = np.array_equal(gyro, acc), np.eye(3)
    of_both = MIRRORED if np.linalg.det(gyro) < 0.0 else TURNED
    if alike and np.array_equal(gyro, eye):
        return []
    if alike:
        name, sensors, P = of_both, "gyroscope and accelerometer", gyro
    elif np.array_equal(acc, eye):
        name = _which("gyroscope", gyro) + (f", or {of_both}" if both_may_be else "")
        sensors, P = "gyroscope", gyro
    elif np.array_equal(gyro, eye):
        name, sensors, P = _which("accelerometer", acc), "accelerometer", acc
    else:
        axes = {"gyro": columns(gyro), "acc": columns(acc)}
        return [checks.AXES_DIFFER.finding("imu", whose=whose, **axes)]
    other = ""
    if name == TURNED and whose == OF_TRUTH:
        # Nothing but a third sensor can tell which of the two is rotated.
        other = ", or, if cameras agree with the IMU, rotate the ground truth's body frame"
    texts = {"name": name, "whose": whose, "sensors": sensors, "axes": columns(P), "other": other}
    return [checks.OTHER_AXES.finding("imu", **texts)]


def accelerometer_axes(P: Array, whose: str) -> Finding:
    """Finding that the accelerometer's axes differ from those of `whose` accelerations."""
    [finding] = _named(np.eye(3), P, whose + "'s", False)
    return finding


def _which(sensor: str, P: Array) -> str:
    """Word for a signed permutation: flipped if the axes keep their order, otherwise permuted."""
    if np.allclose(np.abs(P), np.eye(3)):
        flipped = [axis for axis, sign in zip("xyz", np.diag(P), strict=True) if sign < 0.0]
        return f"the {sensor}'s {' and '.join(flipped)} axis is flipped"
    return f"the {sensor}'s axes are permuted"


WINDOW_S = 5.0
"""Length of a window whose halves are compared [s]: accelerations average out in 2.5 s."""

MAX_WINDOWS = 40
RATE_HZ = 50.0

MAX_MISFIT = 1.5
"""Largest accepted misfit of the mean forces of two halves, median [m/s^2]: a change of speed by 3
m/s from one half to the other. Hand-held devices, multicopters and cars stay below 1.4."""

SURE = 0.67
"""The best axes are named if their misfit is below this fraction of the second-best one."""

FAST = 5.0
"""Rates [rad/s] above which readings may be in deg/s; slower ones would mean a stationary device,
which is recognized."""

STILL = 0.3
"""Spread of the forces while stationary [m/s^2], vibration included."""

DEG = np.pi / 180.0


@dataclass(frozen=True)
class GravityAxes:
    """Axes and unit that make the gyroscope agree with the accelerometer."""

    misfit: float
    """Misfit of the forces as recorded, rms [m/s^2]."""

    best_misfit: float
    P: Array
    """Signed permutation: rate about the accelerometer's axes = scale P gyro."""

    scale: float
    """1, or pi / 180 for a gyroscope in deg/s."""

    sure: bool
    """No other axes are nearly as good."""

    @property
    def disagree(self) -> bool:
        """Gyroscope and accelerometer contradict each other, and other axes explain it."""
        return self.misfit > MAX_MISFIT and self.best_misfit < BETTER * self.misfit


def compare_with_gravity(imu: ImuSamples) -> GravityAxes | None:
    """Try all axes if the recorded ones do not agree; None for recordings shorter than 5 s.

    A multicopter's force stays on one axis however it rotates, so this proves little there: only
    large contradictions are looked into.
    """
    halves = _Halves.of(imu)
    if halves is None:
        return None
    [as_is] = halves.misfits(np.eye(3)[None])
    if as_is <= MAX_MISFIT:
        return GravityAxes(as_is, as_is, np.eye(3), 1.0, True)
    # Slow rates may be in deg/s too, where the device hardly moves.
    rate = float(np.percentile(np.linalg.norm(imu.gyro, axis=1), 99))
    if rate > FAST or float(imu.acc.std(axis=0).max()) < STILL:
        [misfit_in_degrees] = halves.misfits(DEG * np.eye(3)[None])
        if misfit_in_degrees < BETTER * as_is:
            return GravityAxes(as_is, misfit_in_degrees, np.eye(3), DEG, True)
    tried = halves.misfits(np.array(SIGNED_PERMUTATIONS))
    first, second = np.argsort(tried, kind="stable")[:2]
    is_sure = tried[first] < SURE * tried[second]
    return GravityAxes(as_is, tried[first], SIGNED_PERMUTATIONS[first], 1.0, is_sure)


def axes_against_gravity(imu: ImuSamples) -> list[Finding]:
    """Findings from gyroscope and accelerometer alone."""
    found = compare_with_gravity(imu)
    if found is None or not found.disagree:
        return []
    forces = (
        f"mean forces that differ by {found.misfit:.2f} m/s^2 when rotated back with the gyroscope"
        f", {found.best_misfit:.2f} "
    )
    if found.scale != 1.0:
        return [checks.DEGREES.finding("imu", found=forces + "when read as deg/s")]
    name, other = "the gyroscope's axes are not the accelerometer's", ""
    if np.array_equal(found.P, -np.eye(3)):
        name = "the IMU's axes are left-handed (mirrored) or the gyroscope's signs are flipped"
        other = ", or mirror one axis of both sensors"
    other += "." if found.sure else "; other axes fit nearly as well, so check the data sheet."
    texts = {"name": name, "forces": forces, "axes": columns(found.P), "other": other}
    return [checks.AXES_AGAINST_GRAVITY.finding("imu", **texts)]


@dataclass(frozen=True)
class _Halves:
    """Windows of mean readings at a lower rate."""

    gyro: Array
    """(windows, steps, 3)"""

    acc: Array
    dt: float

    @classmethod
    def of(cls, imu: ImuSamples) -> "_Halves | None":
        every = max(round(imu.rate_hz / RATE_HZ), 1)
        count = len(imu) // every
        steps = round(WINDOW_S * imu.rate_hz / every)
        if count < steps or steps < 4:
            return None
        gyro, acc = (
            v[: count * every].reshape(count, every, 3).mean(axis=1) for v in (imu.gyro, imu.acc)
        )
        starts = np.arange(0, count - steps + 1, max(steps // 2, 1))
        lengths_ns = imu.stamps_ns[(starts + steps) * every - 1] - imu.stamps_ns[starts * every]
        starts = starts[lengths_ns < 1.1 * WINDOW_S * NS]
        if len(starts) == 0:
            return None
        starts = starts[np.linspace(0, len(starts) - 1, min(len(starts), MAX_WINDOWS)).astype(int)]
        rows = starts[:, None] + np.arange(steps)
        return cls(gyro[rows], acc[rows], every / imu.rate_hz)

    def misfits(self, Ms: Array) -> list[float]:
        """Difference of both halves after fitting a bias, median [m/s^2], for rates M gyro."""
        rates = np.einsum("mij,wsj->mwsi", Ms, self.gyro)
        std = CALIBRATED.gyro_bias * np.cbrt(np.abs(np.linalg.det(Ms)))[:, None]
        bias = np.zeros((len(Ms), 3))
        for _ in range(2):
            apart, apart_D_bias = self._difference(rates - bias[:, None, None])
            H = np.einsum("mwij,mwik->mjk", apart_D_bias, apart_D_bias)
            H += std[:, :, None] ** -2.0 * np.eye(3)
            gradient = np.einsum("mwij,mwi->mj", apart_D_bias, apart) + bias * std**-2.0
            bias = bias - np.linalg.solve(H, gradient[:, :, None])[:, :, 0]
        apart = self._difference(rates - bias[:, None, None])[0]
        # Median over windows: one hard manoeuvre does not decide.
        return [float(m) for m in np.sqrt(np.median(np.sum(apart**2, axis=2), axis=1))]

    def _difference(self, rates: Array) -> tuple[Array, Array]:
        """(m, windows, 3) difference of the halves' mean forces, and derivatives by the bias."""
        shape, steps = rates.shape[:2], rates.shape[2]
        # One row for each of m times windows.
        flat = rates.reshape(-1, steps, 3)
        acc = np.tile(self.acc, (shape[0], 1, 1))
        R = np.broadcast_to(np.eye(3), (len(flat), 3, 3))
        apart, (turn_D_bias, apart_D_bias) = (
            np.zeros((len(flat), 3)),
            np.zeros((2, len(flat), 3, 3)),
        )
        for step in range(steps):
            sign = (2.0 if 2 * step >= steps else -2.0) / steps
            force = np.einsum("nij,nj->ni", R, acc[:, step])
            apart += sign * force
            # To first order: R rotates by turn_D_bias, expressed at the window's start.
            apart_D_bias -= sign * skew_stack(force) @ turn_D_bias
            turn_D_bias = turn_D_bias - self.dt * R
            R = R @ so3_exp_stack(flat[:, step] * self.dt)
        return apart.reshape(*shape, 3), apart_D_bias.reshape(*shape, 3, 3)
