"""Trial runs of the estimators on any source of camera motion, and the excitation they show."""

from collections import Counter
from dataclasses import replace
from functools import cached_property

import numpy as np

from maci2.consistency import calibrate, initialize
from maci2.errors import Maci2Error
from maci2.estimator import CalibrationResult
from maci2.estimator.problem import SolverConfig
from maci2.findings import Finding
from maci2.imu import ImuMeasurements, raw_model
from maci2.imu.rotation_rates import MIN_RATE, RateMatch, RotationSource
from maci2.pipeline.options import DEFAULT_POSE_SHARE, DEFAULT_POSE_STD, DEFAULT_SCALE_STD
from maci2.pipeline.prepare import plan_windows
from maci2.result_output import stds
from maci2.sensors import CameraTrajectory, ImuSamples, Recording
from maci2.sensors.types import GroundTruth
from maci2.types import NS, Array, Stamps
from maci2.vision import RelativePoses, pose_noise, poses_from_trajectory, poses_from_truth

CALIBRATION_S = 30.0
SPACING_S = 0.3
WINDOW_S = 2.5
KEYFRAMES = 10
LONGEST_STEP_S = 0.6
"""Longest interval between keyframes [s]; a longer one spans a gap of the source."""

MARGIN_S = 0.15
"""Time beyond the keyframes in which an offset is searched [s]."""

MAX_WINDOWS = 60

NEEDED_DEG = 5.0
"""Rotation in a window from which on extrinsics become observable [deg]."""

STD_ROTATION_DEG = 0.5
STD_POSITION_MM = 15.0
"""Half of the accepted error of extrinsics: 1 deg and 3 cm."""

TO_MM_AND_DEG = np.repeat([1e3, 180.0 / np.pi], 3)
"""Factors from the tangent's [m, rad]."""


class Trial:
    """A source of camera motion on the IMU's clock, as its rates match best, and the IMU."""

    def __init__(self, source: RotationSource, match: RateMatch, recording: Recording) -> None:
        stamps_ns = source.stamps_ns + round(match.offset_s * NS)
        self.source, self.match = replace(source, stamps_ns=stamps_ns), match
        self.imu, self.noise = recording.imu, recording.rig.imu

    def bias_gyro(self) -> Array:
        """(3,) typical difference between the gyroscope's rates and the source's [rad/s]."""
        rates_b = self.match.rates_s @ self.source.T_b_s[:3, :3].T
        return np.asarray(np.median(self.match.gyro - rates_b, axis=0))

    def motion(self, stamps_ns: Stamps) -> RelativePoses:
        """Relative poses between keyframes; those from ground truth get the noise of a good
        camera."""
        source, cov = self.source, pose_noise(*DEFAULT_POSE_STD)
        if source.kind == "truth":
            unknown = np.full((len(source.stamps_ns), 3), np.nan)
            states = (source.Ts_w_s, unknown, unknown, unknown)
            truth = GroundTruth(source.stamps_ns, *states, source.name)
            return poses_from_truth(truth, stamps_ns, np.eye(4), cov, (0, int(stamps_ns[0] % NS)))
        path = CameraTrajectory(source.stamps_ns, source.Ts_w_s, source.name)
        shares = DEFAULT_POSE_SHARE, DEFAULT_SCALE_STD
        return poses_from_trajectory(path, stamps_ns, cov, "camera", *shares)

    @property
    def candidates_ns(self) -> Stamps:
        """Timestamps of the source inside the IMU's recording."""
        stamps_ns, imu_ns = self.source.stamps_ns, self.imu.stamps_ns
        return stamps_ns[(stamps_ns > imu_ns[0]) & (stamps_ns < imu_ns[-1])]

    def windows(self) -> list[Stamps]:
        """Keyframes of at most 60 consecutive windows without gaps."""
        windows = [
            window.stamps_ns
            for window in plan_windows(self.candidates_ns, WINDOW_S, WINDOW_S, KEYFRAMES)
            if np.diff(window.stamps_ns).max() < LONGEST_STEP_S * NS
        ]
        chosen = np.linspace(0, len(windows) - 1, min(len(windows), MAX_WINDOWS))
        return [windows[at] for at in chosen.astype(int)]

    @cached_property
    def calibrated(self) -> CalibrationResult | None:
        """Extrinsics and remaining time offset, estimated on the half minute with the most
        rotation."""
        stamps_ns, imu_ns = self._best_turned(), self.imu.stamps_ns
        if len(stamps_ns) < KEYFRAMES:
            return None
        margin_ns = np.array([-1, 1]) * round(MARGIN_S * NS)
        first_ns, last_ns = np.clip(stamps_ns[[0, -1]] + margin_ns, imu_ns[0], imu_ns[-1])
        try:
            measured = raw_model(self.imu.between(int(first_ns), int(last_ns)), self.noise)
            # About one axis alone the estimator would have to try every mounting; the offset from
            # rates is used instead.
            second_rate = float(np.sqrt(np.linalg.eigvalsh(np.cov(measured.gyro.T))[1]))
            config = SolverConfig(estimate_time_offset=second_rate > MIN_RATE)
            return calibrate(measured, self.motion(stamps_ns), config)
        except Maci2Error:
            return None

    def _best_turned(self) -> Stamps:
        """Keyframes of the half minute with the most rotation about its least rotated axis."""
        candidates_ns = self.candidates_ns
        offsets_ns = np.arange(0, round(CALIBRATION_S * NS), round(SPACING_S * NS))
        parts = []
        for start_ns in range(int(candidates_ns[0]), int(candidates_ns[-1]), 10 * NS):
            at = np.searchsorted(candidates_ns, start_ns + offsets_ns)
            stamps_ns = np.unique(candidates_ns[at[at < len(candidates_ns)]])
            breaks = np.flatnonzero(np.diff(stamps_ns) > LONGEST_STEP_S * NS) + 1
            parts.append(max(np.split(stamps_ns, breaks), key=len))

        def least_rotation(stamps_ns: Stamps) -> float:
            imu_ns = self.imu.stamps_ns
            rates = self.imu.gyro[(imu_ns >= stamps_ns[0]) & (imu_ns <= stamps_ns[-1])]
            rates = rates - rates.mean(axis=0)
            return float(np.linalg.eigvalsh(rates.T @ rates)[0])

        long_enough = [part for part in parts if len(part) >= KEYFRAMES]
        return max(long_enough, key=least_rotation, default=candidates_ns[:0])

    def window_finding(self) -> list[Finding]:
        """Finding about the number of windows that the estimator accepts."""
        windows, measured = self.windows(), raw_model(self.imu, self.noise)
        if not windows:
            return []
        verdicts = [self._verdict(measured, stamps_ns) for stamps_ns in windows]
        counts = Counter(status for status, _ in verdicts)
        reasons = Counter(reason for _, reason in verdicts if reason)
        text = (
            f"initialization with camera motion from {self.source.name}: {counts['ok']} of "
            f"{len(windows)} windows ok, {counts['weak']} weak, {counts['failed']} failed"
        )
        if reasons:
            text += f"; mostly {reasons.most_common(1)[0][0]} is not known well enough"
        advice = "change speed and rotate about several axes within 2.5 s."
        remedy = "" if counts["ok"] else f"To initialize, move more: {advice}"
        return [Finding("ok", "excitation", text, remedy=remedy)]

    def _verdict(self, measured: ImuMeasurements, stamps_ns: Stamps) -> tuple[str, str]:
        """Status of a verdict and its main reason, without numbers."""
        try:
            imu = measured.between(int(stamps_ns[0]), int(stamps_ns[-1]))
            verdict = initialize(imu, self.motion(stamps_ns), self.source.T_b_s).verdict
        except Maci2Error as error:
            return "failed", str(error)
        reason = verdict.reasons[0] if verdict.reasons and verdict.status != "ok" else ""
        return verdict.status, reason.split(" is known to")[0]

    def extrinsics_finding(self) -> list[Finding]:
        """Finding about the accuracy of extrinsics from the best half minute, for each axis."""
        result, source = self.calibrated, self.source.name
        if result is None:
            return []
        if result.posterior is None:
            reasons = "; ".join(result.verdict.reasons[:2])
            text = f"extrinsics are not observable in this motion ({source}): {reasons}"
            remedy = "To calibrate extrinsics, rotate the device about all axes."
            return [Finding("ok", "excitation", text, remedy=remedy)]
        position_mm, rotation_deg = np.split(stds(result.posterior.T_b_c) * TO_MM_AND_DEG, 2)
        parts = (
            ("rotation about", rotation_deg, STD_ROTATION_DEG, "deg"),
            ("position along", position_mm, STD_POSITION_MM, "mm"),
        )
        known = [
            f"{what} x, y, z to {', '.join(f'{value:.2g}' for value in values)} {unit}"
            for what, values, _, unit in parts
        ]
        text = f"extrinsics from the best half minute ({source}): {', '.join(known)}"
        weak = [
            (axis, f"{what} {axis} (known to {value:.3g} {unit}, needed {limit:g})")
            for what, values, limit, unit in parts
            for axis, value in zip("xyz", values, strict=True)
            if value > limit
        ]
        if not weak:
            return [Finding("ok", "excitation", text)]
        text += f"; too little: {', '.join(description for _, description in weak)}"
        # Rotation about either of the other two axes makes one observable.
        about = sorted({other for axis, _ in weak for other in "xyz" if other != axis})
        remedy = (
            f"To calibrate extrinsics, rotate the device more about {' and '.join(about)}, for the "
            f"{weak[0][1]}."
        )
        return [Finding("ok", "excitation", text, remedy=remedy)]


def rotation_finding(imu: ImuSamples, bias_gyro: Array) -> Finding:
    """Finding about rotation in each window, peak to peak about each axis, from the gyroscope."""
    steps = (imu.gyro[:-1] - bias_gyro) * (np.diff(imu.stamps_ns) / NS)[:, None]
    length = max(round(WINDOW_S * imu.rate_hz), 1)
    count = len(steps) // length
    if count == 0:
        return Finding("ok", "excitation", f"shorter than one window of {WINDOW_S} s")
    angles = np.cumsum(steps, axis=0)[: count * length].reshape(count, length, 3)
    turned_deg = np.rad2deg(np.ptp(angles, axis=1))
    most_deg = dict(zip("xyz", turned_deg.max(axis=0), strict=True))
    parts = [
        f"about {axis} {np.median(turned):.0f} deg (at most {most_deg[axis]:.0f}), enough in "
        f"{(turned >= NEEDED_DEG).sum()} of {count}"
        for axis, turned in zip("xyz", turned_deg.T, strict=True)
    ]
    needed = f"about {NEEDED_DEG:.0f}"
    text = f"rotation in windows of {WINDOW_S} s: {'; '.join(parts)}; {needed} deg are needed"
    low = [axis for axis, deg in most_deg.items() if deg < NEEDED_DEG]
    remedy = ""
    if low:
        remedy = (
            f"To calibrate extrinsics, rotate the device about {' and '.join(low)}: at most "
            f"{most_deg[low[0]]:.1f} deg of {needed} so far."
        )
    return Finding("ok", "excitation", text, remedy=remedy)
