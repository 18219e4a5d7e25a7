"""Axes of gyroscope and accelerometer, checked against ground truth or against each other."""

from dataclasses import dataclass

import numpy as np

from maci2.findings import Finding
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS, RateMatch, columns, misfit
from maci2.sensors import GroundTruth, ImuSamples, with_velocity
from maci2.sensors.validation import IN_DEGREES
from maci2.tools.diagnostics import checks
from maci2.tools.diagnostics.imu import bias_findings, compare_with_gravity
from maci2.types import GRAVITY_NORM, NS, Array

BETTER = 0.25
"""Other axes are accepted if they leave at most this fraction of the squared misfit."""

MAX_FORCE_MISFIT = 2.0
"""Accepted misfit of specific forces to the ground truth, rms [m/s^2]."""

MIRRORED = "the IMU's axes are left-handed (mirrored)"
TURNED = "the IMU's axes are permuted or rotated"
OF_BOTH = (MIRRORED, TURNED, IN_DEGREES)
"""Faults in which gyroscope and accelerometer do not contradict each other."""

OF_TRUTH = "the ground truth's"

RATIO_DEG = (40.0, 80.0)
INTERVAL_S = 0.1


def best_axes(expected: Array, found: Array) -> Array:
    """Signed permutation P with expected = P measured, both centred; the identity unless another is
    clearly better."""
    left = [misfit(expected, found, P) for P in SIGNED_PERMUTATIONS]
    at = int(np.argmin(left))
    return SIGNED_PERMUTATIONS[at if left[at] < BETTER * left[0] else 0]


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
        left = [self.misfit(P) for P in SIGNED_PERMUTATIONS]
        at = int(np.argmin(left))
        clear = not self.fit and left[at] < BETTER * left[0]
        return SIGNED_PERMUTATIONS[at if clear else 0]

    def allows(self, P: Array) -> bool:
        """P explains the forces nearly as well as the recorded axes do, so that motion does
        not distinguish them."""
        return BETTER * self.misfit(P) < self.misfit(np.eye(3))

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
    total = np.vstack([np.zeros(3), np.cumsum(steps, axis=0)])
    ends, starts = (
        np.stack([np.interp(t, imu_s, axis) for axis in total.T], axis=1)
        for t in (at_s[last], at_s[first])
    )
    expected = np.einsum("kji,kj->ki", R_w_b, force_w)
    return Forces(expected, (ends - starts) / length_s, R_w_b)


def axes_against_truth(match: RateMatch, forces: Forces | None) -> list[Finding]:
    """Findings about unit and axes of the IMU, compared with ground truth in the body frame."""
    if RATIO_DEG[0] < match.ratio < RATIO_DEG[1]:
        found = f"rates {match.ratio:.1f} times those of the ground truth"
        return [checks.DEGREES.finding("imu", found=found)]
    gyro = best_axes(match.rates_s, match.gyro / match.ratio)
    acc = forces.axes if forces else gyro
    both_may_be = forces is not None and forces.allows(gyro)
    return _named(gyro, acc, OF_TRUTH, both_may_be)


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


def biases_against_truth(match: RateMatch, forces: Forces | None) -> list[Finding]:
    """Findings about biases, if axes and units are right."""
    bias_gyro = np.asarray(np.median(match.gyro - match.rates_s, axis=0))
    bias_acc = forces.bias_and_tilt()[0] if forces else np.zeros(3)
    return bias_findings(bias_gyro, bias_acc, "against the ground truth")
