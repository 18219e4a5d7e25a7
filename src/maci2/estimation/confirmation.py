"""Test whether the measurements would have revealed an error of a stated constant.

A result that takes extrinsics and scale as given is no better than they are. They are confirmed
where gravity and velocity stay within their limits with nothing stated believed: an error that
would matter would have shown.
"""

import math
from dataclasses import dataclass

import numpy as np

from maci2.estimation.freed_constants import FreedConstants
from maci2.estimation.verdict_checks import SURE, admitted, velocity_rms
from maci2.estimator.results import Posterior, Status, VIState, direction_std
from maci2.lie import skew
from maci2.premises import Premises, contradictions
from maci2.premises.contradictions import (
    MeasuredLengths,
    extrinsics_contradicted,
    time_offset_contradicted,
)
from maci2.types import Array

REMEDY = "use more of the recording, move more, or trust the stated values with `--trust-rig`"


@dataclass(frozen=True)
class Evidence:
    """Evidence about the constants that an initialization takes as given."""

    premises: Premises | None
    """Posterior over all windows so far; None without any."""

    is_window: bool = False
    """Whether this window is the only evidence, with `freed` as its solution."""

    freed: FreedConstants | None = None
    """Solution of the window with free constants; None if it has too little motion."""

    against_samples: tuple[str, ...] = ()
    """Reasons against the IMU samples of the window, unless `premises` already contain them."""

    def contradicted(self, gravity_norm: float, offset_free: bool) -> list[str]:
        """Reasons against the stated constants."""
        reasons = list(self.against_samples)
        if self.premises is not None:
            reasons += contradictions(self.premises, gravity_norm, offset_free)
        if reasons or self.freed is None:
            return reasons
        return freed_contradictions(self.freed, offset_free)

    def unconfirmed(
        self, state: VIState, posterior: Posterior, gravity_deg: float, velocity: float
    ) -> list[str]:
        """Stated constants that nothing confirms, for these limits on the error of `state`."""
        if self.is_window or self.premises is None:
            return unconfirmed_by_window(self.freed, state, gravity_deg, velocity)
        return unconfirmed_by_recording(self.premises, state, posterior, gravity_deg, velocity)

    @property
    def status_of_unconfirmed(self) -> Status:
        """Status with unconfirmed constants: `weak`, unless more measurements will follow."""
        return "weak" if self.premises is None or self.premises.is_complete else "ok"


def freed_contradictions(freed: FreedConstants, offset_free: bool) -> list[str]:
    """Reasons against stated extrinsics, clocks and scale, from the best fit of the window."""
    T_found, cov = freed.state.T_b_c, freed.posterior.T_b_c
    lengths = MeasuredLengths(
        freed.scale.scale, freed.scale.std**2, T_found[:3, 3], _cov_lever_arm(T_found, cov)
    )
    reasons = extrinsics_contradicted(
        T_found, cov, lengths, freed.T_stated, freed.std_scale, freed.dof
    )
    if reasons or offset_free:
        return reasons
    measured = freed.offset.measured()
    return time_offset_contradicted(*measured, freed.dof) if measured else []


def _cov_lever_arm(T_b_c: Array, cov: Array) -> Array:
    """(3, 3) covariance of the position, from that of a left perturbation [rho, phi]."""
    x, y, z = T_b_c[:3, 3].tolist()
    J = np.array(
        ((1.0, 0.0, 0.0, 0.0, z, -y), (0.0, 1.0, 0.0, -z, 0.0, x), (0.0, 0.0, 1.0, y, -x, 0.0))
    )
    return np.asarray(J @ cov @ J.T)


def unconfirmed_by_window(
    freed: FreedConstants | None, state: VIState, gravity_deg: float, velocity: float
) -> list[str]:
    """Constants that this window alone does not confirm, for these limits."""
    if freed is None:
        return [
            "the motion in the window is too small to confirm the stated extrinsics, and nothing "
            "else has been recorded"
        ]
    gravity, cov_gravity = freed.state.gravity_c0, freed.posterior.gravity_c0
    across = skew(gravity) @ state.gravity_c0
    moved_deg = math.degrees(math.atan2(math.hypot(*across), gravity @ state.gravity_c0))
    faster = freed.state.velocity_b - state.velocity_b
    moved = math.sqrt(np.vdot(faster, faster) / len(faster))
    found_deg = admitted(moved_deg, math.degrees(direction_std(gravity, cov_gravity)))
    found = admitted(moved, velocity_rms(freed.posterior))
    return _reasons("the window alone", found_deg, found, gravity_deg, velocity)


def unconfirmed_by_recording(
    premises: Premises, state: VIState, posterior: Posterior, gravity_deg: float, velocity: float
) -> list[str]:
    """Constants that all windows so far do not confirm, for these limits."""
    known = premises.translation
    # An error of the extrinsic rotation rotates gravity in the camera.
    R_c_b = state.T_b_c[:3, :3].T
    moved = skew(state.gravity_c0) @ R_c_b
    cov_gravity = posterior.gravity_c0 + moved @ premises.rotation.cov[:3, :3] @ moved.T
    found_deg = math.degrees(direction_std(state.gravity_c0, cov_gravity))
    found = 0.0
    # A scale whose spread was stated is in the posterior already.
    if known is not None and premises.std_scale == 0.0:
        speed = float(np.sqrt(np.mean(np.sum(state.velocity_b**2, axis=1))))
        found = float(np.hypot(velocity_rms(posterior), speed * np.sqrt(known.cov[0, 0])))
    return _reasons("the recorded motion", found_deg, found, gravity_deg, velocity)


def _reasons(
    seen: str, found_deg: float, found: float, gravity_deg: float, velocity: float
) -> list[str]:
    if found_deg * SURE > gravity_deg:
        return [
            f"{seen} does not confirm the stated extrinsics: if they were unknown, the direction "
            f"of gravity would be known only to {found_deg:.2g} deg, needed "
            f"{gravity_deg / SURE:.2g}"
        ]
    if found * SURE > velocity:
        return [
            f"{seen} does not confirm the stated scale: if it were unknown, velocity would be "
            f"known only to {found:.2g} m/s, needed {velocity / SURE:.2g}"
        ]
    return []
