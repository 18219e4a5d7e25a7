"""Evidence about a device's constants, accumulated over windows, and the posterior that follows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from maci2.calibration_prior import UNKNOWN
from maci2.imu import ImuMeasurements, Rule
from maci2.imu.rotation_rates import SIGNED_PERMUTATIONS
from maci2.lie import se3, so3_exp, so3_log
from maci2.premises.live_channels import dead_channels
from maci2.premises.motion_errors import MotionErrors, estimate_motion_errors
from maci2.premises.rotation import (
    RotationEstimate,
    RotationSums,
    WindowBiases,
    estimate_rotation,
    rotation_sums,
)
from maci2.premises.runs import Run, runs_of
from maci2.premises.sample_rate import SampleRate, sample_rate
from maci2.premises.shared_bias import SharedBias, estimate_shared_bias
from maci2.premises.translation import (
    TranslationEstimate,
    TranslationSums,
    estimate_translation,
    translation_misfits,
    translation_sums,
)
from maci2.types import NS, Array
from maci2.vision import RelativePoses

MOST_BLOCKS = 256
"""Above it neighbouring blocks are added up: memory stays bounded however long a stream is."""

PRIOR_RIGHT = 0.99
"""Probability, before any data, that axes and signs are the stated ones."""

CLOCKS_APART_S = 0.005
"""Time offset beyond which windows are moved by it before accelerations are compared [s]."""

Sums = TypeVar("Sums", RotationSums, TranslationSums)


@dataclass(frozen=True)
class Premises:
    """Posterior of the constants that an initialization takes as given."""

    T_b_c: Array
    """Extrinsics as stated."""

    std_scale: float
    """Stated spread of vision's scale."""

    rotation: RotationEstimate
    """Extrinsic rotation and time offset as measured."""

    translation: TranslationEstimate | None
    """Measured scale, lever arm and norm of gravity; None if only rotations were tested."""

    axes: Array
    """(3, 3) signed permutation that takes the accelerometer's readings to the body's axes, the
    most probable one."""

    axes_right: float
    """Probability that the accelerometer's axes and signs are the stated ones."""

    windows: int
    dof: int
    """Degrees of freedom behind the covariance of the rotation."""

    acc_bias: SharedBias | None = None
    """Bias that the IMU model left, as all windows show it; None where rotations alone speak."""

    motion_errors: MotionErrors | None = None
    """Delay of the accelerometer and drift of the camera; None where too few windows speak."""

    sample_rate: SampleRate | None = None

    dead_channels: tuple[str, ...] = ()
    """What is wrong with the window's own samples, in words."""

    is_complete: bool = False
    """No more windows will be added, so that an unconfirmed constant stays unconfirmed; False for a
    stream."""


class _Pending(NamedTuple):
    """A run whose translations wait for the extrinsic rotation."""

    imu: ImuMeasurements
    run: Run
    biases: WindowBiases


class PremiseEvidence:
    """Sums over all windows seen, from which the constants' posterior follows at any time.

    Windows of a recording are added at once, those of a stream one by one; cost is linear in the
    number of windows. Overlapping windows count their data twice: add windows that do not.
    """

    def __init__(self, T_b_c: Array, rule: Rule = "midpoint") -> None:
        self._T_b_c = T_b_c
        self._rule = rule
        self._rotations: list[RotationSums] = []
        self._translations: list[TranslationSums] = []
        self._pending: list[_Pending] = []
        self._std_scale = 0.0
        self._windows = 0

    def add(self, imu: ImuMeasurements, windows: Sequence[RelativePoses]) -> None:
        """Add windows that `imu` covers."""
        for run in runs_of(list(windows)):
            sums, biases, kept = rotation_sums(imu, run, self._rule)
            self._rotations = _bounded([*self._rotations, sums])
            self._pending.append(_Pending(imu, run._replace(measured=kept), biases))
            self._windows += len(run.measured)
        self._std_scale = max([self._std_scale, *(window.std_scale for window in windows)])

    def posterior(self, accelerations: bool = True) -> Premises | None:
        """Constants given all windows; None before the first. `accelerations` False asks the
        rotations alone, which cost a tenth."""
        if not self._rotations:
            return None
        sums = _joined(self._rotations)
        rotation = estimate_rotation(sums, self._T_b_c[:3, :3])
        blocks = len(sums.dof)
        premises = Premises(
            T_b_c=self._T_b_c,
            std_scale=self._std_scale,
            rotation=rotation,
            translation=None,
            axes=np.eye(3),
            axes_right=PRIOR_RIGHT,
            windows=self._windows,
            dof=3 * blocks if blocks > 1 else int(sums.dof.sum()) - 4,
        )
        return self._with_translations(premises) if accelerations else premises

    def _with_translations(self, premises: Premises) -> Premises:
        rotation, lever = premises.rotation, self._T_b_c[:3, 3]
        R_b_c = _believed_rotation(rotation, self._T_b_c[:3, :3])
        for pending in self._pending:
            sums = _translations(pending, se3(R_b_c, lever), rotation, self._rule)
            self._translations = _bounded([*self._translations, sums])
        self._pending = []
        total = _joined(self._translations)
        constants = total, R_b_c, lever, UNKNOWN.lever_m
        stated = estimate_translation(*constants, SIGNED_PERMUTATIONS[0])
        misfits = translation_misfits(*constants, np.array(SIGNED_PERMUTATIONS))
        probabilities = _probabilities(misfits, max(stated.dof, 1))
        best = int(np.argmax(probabilities))
        return replace(
            premises,
            translation=stated,
            axes=SIGNED_PERMUTATIONS[best],
            axes_right=float(probabilities[0]),
            acc_bias=estimate_shared_bias(*constants),
            motion_errors=estimate_motion_errors(*constants),
        )


def _believed_rotation(rotation: RotationEstimate, R_stated: Array) -> Array:
    """The measured rotation about axes that motion shows, the stated one about others: rates of a
    planar motion say nothing of a rotation about its normal, and the best fit is noise there."""
    away = so3_log(np.ascontiguousarray(rotation.R_b_c @ R_stated.T))
    # An axis about which no motion shows the rotation stays as stated.
    prior = UNKNOWN.rotation**2 * np.eye(3)
    shown = prior @ np.linalg.solve(prior + rotation.cov[:3, :3], away)
    return np.asarray(so3_exp(np.ascontiguousarray(shown)) @ R_stated)


def _translations(
    pending: _Pending, T_b_c: Array, rotation: RotationEstimate, rule: Rule
) -> TranslationSums:
    """Sums of a run, its clock put right where it is clearly wrong."""
    imu, run, biases = pending
    if abs(rotation.time_offset_s) > CLOCKS_APART_S:
        stamps_ns = run.stamps_ns + round(rotation.time_offset_s * NS)
        if stamps_ns[0] >= imu.stamps_ns[0] and stamps_ns[-1] <= imu.stamps_ns[-1]:
            run = run._replace(stamps_ns=stamps_ns)
    return translation_sums(imu, run, T_b_c, biases.biases(T_b_c[:3, :3]), biases.std, rule)


def _probabilities(misfits: Array, dof: int) -> Array:
    """(48,) posterior of each signed permutation; the stated one is the first.

    The noise level is unknown, so likelihood is a power of the misfit, and no fit is better than
    the stated noise.
    """
    log = -0.5 * dof * np.log(np.maximum(misfits / dof, 1.0))
    prior = np.full(len(log), (1.0 - PRIOR_RIGHT) / (len(log) - 1))
    prior[0] = PRIOR_RIGHT
    weights = prior * np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


def _joined(parts: list[Sums]) -> Sums:
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def _bounded(parts: list[Sums]) -> list[Sums]:
    """The same sums in at most `MOST_BLOCKS` blocks."""
    joined = _joined(parts)
    blocks = len(joined.dof)
    if blocks <= MOST_BLOCKS:
        return [joined]
    starts = np.arange(0, blocks, 2)
    return [type(joined)(*(np.add.reduceat(array, starts, axis=0) for array in joined))]


def window_premises(
    imu: ImuMeasurements, vision: RelativePoses, T_b_c: Array, rule: Rule, accelerations: bool
) -> Premises | None:
    """Evidence of a single window: its rotations, its sample rate and, if requested, its
    accelerations."""
    evidence = PremiseEvidence(T_b_c, rule)
    evidence.add(imu, [vision])
    premises = evidence.posterior(accelerations)
    return premises and replace(with_window_samples(premises, imu), is_complete=True)


def with_window_samples(premises: Premises, imu: ImuMeasurements) -> Premises:
    """The same premises with evidence from the samples of a window: channels that do not measure,
    and its sample rate if it lost more samples than the recording as a whole."""
    premises = replace(premises, dead_channels=dead_channels(imu))
    rate, known = window_rate(imu), premises.sample_rate
    if rate is None or (known is not None and known.missing >= rate.missing):
        return premises
    return replace(premises, sample_rate=rate)


def window_rate(imu: ImuMeasurements) -> SampleRate | None:
    """Measured and stated sample rate of a window; None if no rate was stated."""
    return None if imu.rate_hz is None else sample_rate(imu.stamps_ns, imu.rate_hz)
