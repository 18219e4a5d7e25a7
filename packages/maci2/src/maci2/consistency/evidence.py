"""Evidence about a device's constants: all windows seen, one window, or a stream, as statistics.

A recording's windows add up (`Evidence`), at once or as they come (`OnlineConsistency`). A window
alone has its constants as unknowns of the joint problem, beside gravity and biases
(`FreedConstants`): a few steps more from the solution that took them as given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.consistency.known_state import solve_with_free_constants
from maci2.consistency.rotation import (
    RotationComparison,
    RotationEstimate,
    RotationSums,
    compare_rotations,
    estimate_rotation,
    runs_of,
)
from maci2.consistency.tests import (
    LEVEL,
    Statistic,
    contradicted,
    dead_channels,
    largest_square,
    number,
    sample_rate,
)
from maci2.consistency.translation import (
    TranslationEstimate,
    TranslationSums,
    estimate_translation,
    translation_sums,
)
from maci2.errors import DatasetError
from maci2.estimator.factors import Spans
from maci2.estimator.initialize import CLOCK_STD_S
from maci2.estimator.problem import SolverConfig
from maci2.estimator.results import Posterior, SolveReport, VIState
from maci2.geometry.se3 import se3
from maci2.geometry.so3 import skew, so3_exp, so3_log
from maci2.imu import ImuMeasurements, Rule
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS, columns
from maci2.types import GRAVITY_NORM, NS, Array, Mat4
from maci2.vision import RelativePoses

MOST_BLOCKS = 256
"""Above it neighbouring blocks are added up: memory stays bounded however long a stream is."""

CLOCKS_APART_S = 0.005
"""Time offset beyond which windows are moved by it before accelerations are compared [s]."""

AROUND_NS = 20_000_000
"""Length of the samples beyond a window of a stream in which a time offset shows [ns]."""

Sums = TypeVar("Sums", RotationSums, TranslationSums)


@dataclass(frozen=True)
class MeasuredConstants:
    """Posterior of the constants that an initialization takes as given."""

    T_b_c: Array
    """Nominal extrinsics."""

    std_scale: float
    """Nominal spread of vision's scale."""

    rotation: RotationEstimate | None = None
    """Measured extrinsic rotation and time offset; None if `freed` suffices."""

    dof: int = 1
    """Degrees of freedom behind the covariance of the rotation."""

    translation: TranslationEstimate | None = None
    """Measured scale, lever arm, norm of gravity, axes and bias; None if only rotations were
    compared."""

    sample_rate: Statistic | None = None

    dead_channels: Mapping[str, Statistic] = field(default_factory=dict)
    """Sensors whose samples in the window are no measurements."""

    is_complete: bool = False
    """No more windows will be added, so that an unconfirmed constant stays unconfirmed; False for a
    stream."""

    is_window: bool = False
    """A single window is the only evidence, with `freed` as its solution."""

    freed: "FreedConstants | None" = None
    """Solution of the window with free constants; None if it has too little motion."""

    def with_samples(self, imu: ImuMeasurements) -> "MeasuredConstants":
        """Constants with the dead channels of a window, and with its sample rate if the window lost
        more samples than the recording as a whole."""
        rates = [self.sample_rate, sample_rate(imu.stamps_ns, imu.rate_hz)]
        rate = max(filter(None, rates), key=lambda rate: rate.value[0], default=None)
        return replace(self, dead_channels=dead_channels(imu), sample_rate=rate)

    def statistics(self, gravity_norm: float = GRAVITY_NORM) -> dict[str, Statistic]:
        """Statistics of the tests, by name."""
        rotation, translation = self.rotation, self.translation
        found = dict(self.dead_channels)
        if self.sample_rate is not None:
            found["sample rate"] = self.sample_rate
        if rotation is None:
            return found
        found["still camera"] = number(float(rotation.is_camera_still))
        found["gyroscope axes"] = number(rotation.mirror_ratio)
        if rotation.gain > largest_square(3, self.dof, LEVEL):
            found["camera rotation"] = _rotation(rotation.R_b_c, self.T_b_c, rotation.cov[:3, :3])
        offset_s = rotation.time_offset_s
        found["time offset"] = number(offset_s, rotation.cov[3, 3], (1e3 * offset_s,))
        away, scales = 1.0 - rotation.inverse_scale, _vector(1.0 / rotation.inverse_scale, 3)
        found["gyroscope scale"] = Statistic(away, rotation.cov_inverse_scale, (scales,))
        if translation is None:
            return found
        norm, variance = translation.gravity_norm, translation.std_gravity_norm**2
        found["gravity norm"] = number(norm - gravity_norm, variance, (norm, gravity_norm))
        found["scale"] = _scale(translation.scale, translation.cov[0, 0], self.std_scale)
        found["lever arm"] = _lever_arm(translation.p_b_c, self.T_b_c, translation.cov[1:, 1:])
        if not np.array_equal(translation.axes, SIGNED_PERMUTATIONS[0]):
            shown = (columns(translation.axes), translation.axes_right)
            found["accelerometer axes"] = number(1.0 - translation.axes_right, 0.0, shown)
        errors = translation.motion_errors
        if errors is not None:
            delay_ms, std_ms = 1e3 * errors.delay_s, 1e3 * np.sqrt(errors.var_delay)
            late = (abs(delay_ms), std_ms, "late" if delay_ms > 0.0 else "early")
            found["accelerometer delay"] = number(errors.delay_s, errors.var_delay, late)
            drift_c = _vector(self.T_b_c[:3, :3].T @ errors.drift_b, 2)
            found["camera drift"] = Statistic(errors.drift_b, errors.cov_drift_b, (drift_c,))
        return found

    def contradictions(
        self, gravity_norm: float = GRAVITY_NORM, offset_free: bool = False
    ) -> list[str]:
        """Reasons against a result that takes these constants as given, causes first; an estimated
        time offset is none."""
        reasons = _reasons(self.statistics(gravity_norm), self.dof, offset_free)
        if reasons or self.freed is None:
            return reasons
        return self.freed.contradictions(offset_free)

    def contradicted_inputs(self, offset_free: bool) -> list[str]:
        """Reasons against the inputs of a calibration, which estimates the extrinsics itself."""
        statistics = self.statistics()
        statistics.pop("camera rotation", None)
        return _reasons(statistics, self.dof, offset_free)

    def contradicted_axes(self) -> list[str]:
        """Reasons why no motion fits the samples at all: axes or signs of a sensor are not the
        nominal ones. A dead channel has no axes to judge."""
        if self.dead_channels:
            return []
        axes = {name: one for name, one in self.statistics().items() if name.endswith("axes")}
        return _reasons(axes, self.dof)


def _vector(values: Array, digits: int) -> str:
    return ", ".join(f"{value:.{digits}f}" for value in values)


def _rotation(R_b_c: Array, T_nominal: Array, cov: Array) -> Statistic:
    away = so3_log(np.ascontiguousarray(R_b_c @ T_nominal[:3, :3].T))
    angle = max(float(np.linalg.norm(away)), 1e-12)
    return Statistic(away, cov, tuple(np.rad2deg([angle, np.sqrt(away @ cov @ away) / angle])))


def _scale(scale: float, variance: float, std_nominal: float) -> Statistic:
    # One over the scale is what was measured: of both distances the shorter one counts.
    shorter = variance / min(1.0, scale**2)
    return number(scale - 1.0, shorter + std_nominal**2, (scale, np.sqrt(variance)))


def _lever_arm(p_b_c: Array, T_nominal: Array, cov: Array) -> Statistic:
    away = p_b_c - T_nominal[:3, 3]
    return Statistic(away, cov, (_vector(p_b_c, 3), 100.0 * np.linalg.norm(away)))


def _reasons(statistics: Mapping[str, Statistic], dof: int, offset_free: bool = False) -> list[str]:
    """Texts of the contradictions; an estimated time offset is none."""
    reasons = contradicted(statistics, dof)
    if offset_free:
        reasons.pop("time offset", None)
    return list(reasons.values())


class Evidence:
    """Sums over all windows seen, from which the constants' posterior follows at any time.

    Windows of a recording are added at once, those of a stream one by one; cost is linear in the
    number of windows. Overlapping windows count their data twice: add windows that do not.
    """

    def __init__(self, T_b_c: Array, rule: Rule = "midpoint") -> None:
        self._T_b_c, self._rule = T_b_c, rule
        self._rotations: RotationSums | None = None
        self._translations: TranslationSums | None = None
        self._pending: list[tuple[ImuMeasurements, RotationComparison]] = []
        """Runs whose translations wait for the extrinsic rotation."""
        self._std_scale = 0.0

    def add(self, imu: ImuMeasurements, windows: Sequence[RelativePoses]) -> None:
        """Add windows that `imu` covers."""
        for run in runs_of(windows):
            compared = compare_rotations(imu, run, self._rule)
            self._rotations = _added(self._rotations, compared.sums)
            self._pending.append((imu, compared))
        self._std_scale = max([self._std_scale, *(window.std_scale for window in windows)])

    def constants(self, accelerations: bool = True) -> MeasuredConstants | None:
        """Constants given all windows; None before the first. Without `accelerations`, rotations
        alone are compared, at a tenth of the cost."""
        sums = self._rotations
        if sums is None:
            return None
        blocks, rotation = len(sums.dof), estimate_rotation(sums, self._T_b_c[:3, :3])
        return MeasuredConstants(
            T_b_c=self._T_b_c,
            std_scale=self._std_scale,
            rotation=rotation,
            dof=3 * blocks if blocks > 1 else int(sums.dof.sum()) - 4,
            translation=self._translation(rotation) if accelerations else None,
        )

    def _translation(self, rotation: RotationEstimate) -> TranslationEstimate:
        R_b_c, p_b_c = _plausible_rotation(rotation, self._T_b_c[:3, :3]), self._T_b_c[:3, 3]
        for imu, compared in self._pending:
            run = compared.run
            if abs(rotation.time_offset_s) > CLOCKS_APART_S:
                stamps_ns = run.stamps_ns + round(rotation.time_offset_s * NS)
                if stamps_ns[0] >= imu.stamps_ns[0] and stamps_ns[-1] <= imu.stamps_ns[-1]:
                    run = run._replace(stamps_ns=stamps_ns)
            biases, T_b_c = compared.biases(R_b_c), se3(R_b_c, p_b_c)
            sums = translation_sums(imu, run, T_b_c, biases, compared.std, self._rule)
            self._translations = _added(self._translations, sums)
        self._pending = []
        total = self._translations
        assert total is not None  # as many runs as of rotations
        return estimate_translation(total, R_b_c, p_b_c)


def _added(sums: Sums | None, more: Sums) -> Sums:
    """Blocks of both, neighbours added up where they are more than `MOST_BLOCKS`."""
    if sums is not None:
        more = type(more)(*map(np.concatenate, zip(sums, more, strict=True)))
    if len(more.dof) <= MOST_BLOCKS:
        return more
    starts = np.arange(0, len(more.dof), 2)
    return type(more)(*(np.add.reduceat(array, starts, axis=0) for array in more))


def _plausible_rotation(rotation: RotationEstimate, R_nominal: Array) -> Array:
    """The measured rotation about axes that motion shows, the nominal one about others: rates of a
    planar motion contain no rotation about its normal, and the best fit is noise there."""
    away = so3_log(np.ascontiguousarray(rotation.R_b_c @ R_nominal.T))
    prior = UNKNOWN.rotation**2 * np.eye(3)
    shown = prior @ np.linalg.solve(prior + rotation.cov[:3, :3], away)
    return np.asarray(so3_exp(np.ascontiguousarray(shown)) @ R_nominal)


def window_constants(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, rule: Rule, accelerations: bool
) -> MeasuredConstants:
    """Constants from a single window: its samples, its rotations and, if requested, its
    accelerations."""
    evidence = Evidence(T_b_c, rule)
    evidence.add(imu, [vision])
    constants = evidence.constants(accelerations) or MeasuredConstants(T_b_c, vision.std_scale)
    return constants.with_samples(imu)


class FreedConstants(NamedTuple):
    """Solution of a window with extrinsics, scale of vision and time offset as unknowns."""

    state: VIState
    """State with the estimated extrinsics."""

    posterior: Posterior
    """Covariance of gravity and velocities with unknown constants."""

    report: SolveReport
    """Scale and time offset, whose prior is narrow, among others."""

    T_nominal: Array
    std_scale: float
    """Nominal standard deviation of the scale of vision."""

    @property
    def time_offset(self) -> tuple[float, float] | None:
        """Offset [s] and variance [s^2] from the measurements alone; None if undetermined."""
        offset_s, std_s = self.report.time_offset_s or 0.0, self.report.std_time_offset_s or 0.0
        shown = 1.0 - (std_s / CLOCK_STD_S) ** 2
        return (offset_s / shown, std_s**2 / shown) if shown > 0.0 else None

    def contradictions(self, offset_free: bool) -> list[str]:
        """Reasons against extrinsics and scale, or else against the clocks: the offset of so few
        rotations takes up what is wrong with the others."""
        report, T_b_c, cov = self.report, self.state.T_b_c, self.posterior.T_b_c
        # Position by a left perturbation [rho, phi]: p + rho + phi x p.
        J = np.hstack([np.eye(3), -skew(np.ascontiguousarray(T_b_c[:3, 3]))])
        scale, std = report.scale or 1.0, report.std_scale or 0.0
        statistics = {
            "camera rotation": _rotation(T_b_c[:3, :3], self.T_nominal, cov[3:, 3:]),
            "scale": _scale(scale, std**2, self.std_scale),
            "lever arm": _lever_arm(T_b_c[:3, 3], self.T_nominal, J @ cov @ J.T),
        }
        # A wrong rotation is taken up by scale and lever arm, too.
        reasons = _reasons(statistics, report.dof)[:1]
        if reasons or offset_free or self.time_offset is None:
            return reasons
        offset_s, variance = self.time_offset
        offset = number(offset_s, variance, (1e3 * offset_s,))
        return _reasons({"time offset": offset}, report.dof)


def free_constants(
    imu: ImuMeasurements,
    vision: RelativePoses,
    state: VIState,
    config: SolverConfig,
    spans: Spans | None = None,
) -> FreedConstants | None:
    """Solve a window again with free constants; None if it has too little information.

    A scale with a nominal spread keeps it. `spans` are its integrated samples, if at hand.
    """
    freed, posterior, report = solve_with_free_constants(imu, vision, state, config, spans)
    if posterior is None or not report.converged:
        return None
    return FreedConstants(freed, posterior, report, state.T_b_c, vision.std_scale)


class OnlineConsistency:
    """Consistency of a stream: constants from all windows so far that do not overlap."""

    def __init__(self, T_b_c: Mat4) -> None:
        self._T_b_c = T_b_c
        self.clear()

    def clear(self) -> None:
        """Forget all windows."""
        self._evidence = Evidence(self._T_b_c)
        self._constants: MeasuredConstants | None = None
        self._until_ns: int | None = None
        self._faulty_samples: tuple[str, ...] = ()  # of the first window that has any
        self.reasons: tuple[str, ...] = ()  # contradictions by all windows
        self.wrong_axes: tuple[str, ...] = ()  # those of them with which no state means anything

    def takes(self, window: RelativePoses) -> bool:
        """True if a window overlaps none that was added before it."""
        return self._until_ns is None or int(window.stamps_ns[0]) >= self._until_ns

    def add(self, imu: ImuMeasurements, window: RelativePoses) -> None:
        """Add a window; samples beyond both its ends show a time offset."""
        self._evidence.add(imu, [window])
        self._constants = self._evidence.constants()
        self._until_ns = int(window.stamps_ns[-1])

    def constants(self, rate: Statistic | None) -> MeasuredConstants | None:
        """The constants given all windows; None before the first."""
        return self._constants and replace(self._constants, sample_rate=rate)

    def test(self, imu: ImuMeasurements, window: RelativePoses) -> None:
        """Test the constants with one more window, if it overlaps no earlier one."""
        first_ns, last_ns = int(window.stamps_ns[0]), int(window.stamps_ns[-1])
        covered = first_ns >= imu.stamps_ns[0] and last_ns <= imu.stamps_ns[-1]
        if not (self.takes(window) and covered):
            return
        inside = imu.between(first_ns, last_ns)
        dead = dead_channels(inside)
        if dead:
            # The constants of such samples are no evidence.
            if not self._faulty_samples:
                when = f"up to timestamp {last_ns} ns "
                self._faulty_samples = tuple(when + one for one in contradicted(dead, 1).values())
        else:
            try:
                self.add(imu.between(first_ns - AROUND_NS, last_ns + AROUND_NS), window)
            except DatasetError:
                return  # a gap of the IMU: other windows remain
        constants = self.constants(sample_rate(inside.stamps_ns, inside.rate_hz))
        against = []
        if constants is not None:
            against = constants.contradictions()
            self.wrong_axes = tuple(constants.contradicted_axes())
        self.reasons = (*self._faulty_samples, *against)
