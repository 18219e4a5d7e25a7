"""Checks that a verdict consists of: each `ok`, or a status with its reason."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from maci2.calibration_prior import CALIBRATED
from maci2.estimator.results import Posterior, SolveReport, Status, VIState, direction_std
from maci2.gaussian import chi2_quantile
from maci2.imu import BiasPrior
from maci2.lie import skew
from maci2.premises import FALSE_ALARM, MOST_MISSING, Premises

SURE = 2.0
"""Number of standard deviations within a limit for `ok`."""

HOPELESS = 0.5
"""Number of standard deviations below which the verdict is `failed`."""

ONE_SIDED = float(-ndtri(2.0 * ndtr(-SURE)))
"""Number of standard deviations that an error exceeds one-sided as rarely as `SURE` two-sided."""

FAR = float(-ndtri(FALSE_ALARM / 2.0))
"""Number of standard deviations from a stated value at which it is contradicted."""

FAR_3D = chi2_quantile(3, 1.0 - FALSE_ALARM)
"""Squared distance of three axes together at which a value is contradicted."""


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    status: Status
    reason: str = ""
    """Reason; given with `ok`, too, if a user should know."""


def against(what: str, std: float, limit: float, unit: str, advice: str = "") -> Check:
    """Compare a standard deviation with the accepted error."""
    if std * SURE <= limit:
        return Check("ok")
    status: Status = "weak" if std * HOPELESS <= limit else "failed"
    reason = f"{what} is known to {std:.2g} {unit} only, needed {limit / SURE:.2g}"
    return Check(status, f"{reason}; {advice}" if advice else reason)


def admitted(moved: float, std: float) -> float:
    """Standard deviation of an unbiased error that exceeds a limit as rarely as this error around
    `moved` does: two-sided at `SURE`, or one-sided at the same probability."""
    return max(std, (moved + ONE_SIDED * std) / SURE)


def worst(checks: list[Check]) -> tuple[Status, list[str]]:
    """Worst status and all reasons."""
    order: list[Status] = ["ok", "weak", "failed"]
    status = max((check.status for check in checks), key=order.index)
    return status, [check.reason for check in checks if check.reason]


def known_gravity(
    state: VIState,
    posterior: Posterior,
    premises: Premises | None,
    prior: BiasPrior,
    limit_deg: float,
) -> Check:
    """Check of the direction of gravity, also with the accelerometer bias of all windows in
    addition to that of this window, or instead of it if they contradict its prior or show that the
    bias wanders."""
    std = direction_std(state.gravity_c0, posterior.gravity_c0)
    acc_bias = None if premises is None else premises.acc_bias
    alone = against("gravity's direction", float(np.rad2deg(std)), limit_deg, "deg")
    if acc_bias is None or alone.status != "ok":
        return alone
    shared = acc_bias.at(int(state.stamps_ns[0]))
    gain = posterior.acc_bias @ np.linalg.inv(posterior.acc_bias + shared.cov)
    cov = posterior.acc_bias - gain @ posterior.acc_bias
    away = shared.acc - prior.mean_acc
    far = away @ np.linalg.solve(np.diag(prior.std_acc**2) + shared.cov, away) > FAR_3D
    if far or acc_bias.wanders:
        gain, cov = np.eye(3), shared.cov
    moved = gain @ (shared.acc - state.acc_bias_residual)
    # What a bias adds to the forces of the window, it takes from gravity.
    g = state.gravity_c0
    tilt_D_ba = skew(g / (g @ g)) @ state.Ts_c0_b[:, :3, :3].mean(axis=0)
    learned = float(np.trace(tilt_D_ba @ (posterior.acc_bias - cov) @ tilt_D_ba.T))
    left = float(np.sqrt(max(std**2 - learned, 0.0)))
    tilt_deg = float(np.rad2deg(np.linalg.norm(tilt_D_ba @ moved)))
    found = ", ".join(f"{value:.2f}" for value in state.removed_acc + shared.acc)
    changing = " that changes" if acc_bias.wanders else ""
    return against(
        "gravity's direction",
        admitted(tilt_deg, float(np.rad2deg(left))),
        limit_deg,
        "deg",
        f"the recorded motion shows an accelerometer bias of ({found}) m/s^2{changing}, which "
        f"moves gravity by {tilt_deg:.1f} deg: state it (`--acc-bias-prior`), or a larger standard "
        "deviation (`--acc-bias-std`)",
    )


def velocity_rms(posterior: Posterior) -> float:
    """Root mean square over the keyframes of the possible velocity error [m/s]."""
    variances = posterior.velocity_b.reshape(-1, 9)[:, ::4]
    return math.sqrt(float(variances.sum()) / len(variances))


def velocity_std(
    state: VIState, posterior: Posterior, report: SolveReport, premises: Premises | None
) -> float:
    """Root mean square of the possible velocity error [m/s].

    Where the scale is in doubt and all windows together know it better than this one, the error is
    what they say of this window's scale.
    """
    std = velocity_rms(posterior)
    scale, std_scale = report.scale, report.std_scale
    known = None if premises is None else premises.translation
    if known is None or scale is None or std_scale is None:
        return std
    relative = float(np.mean(np.sum(state.velocity_b**2, axis=1))) / scale**2
    doubt = relative * std_scale**2
    away = scale - known.scale
    seen = relative * (away**2 + known.cov[0, 0] + (CALIBRATED.acc_scale * known.scale) ** 2)
    return math.sqrt(max(std**2 - doubt, 0.0) + min(doubt, float(seen)))


def plausible_bias(state: VIState, prior: BiasPrior) -> Check:
    """Check of a bias against its prior; one far outside has absorbed other errors."""
    found, mean, std = (
        a.tolist() for a in (state.acc_bias_residual, prior.mean_acc, prior.std_acc)
    )
    away = [abs(found[i] - mean[i]) / std[i] for i in range(3)]
    if away[0] ** 2 + away[1] ** 2 + away[2] ** 2 <= FAR_3D:
        return Check("ok")
    axis = int(np.argmax(away))
    return Check(
        "weak",
        f"the accelerometer bias on {'xyz'[axis]} comes out as {state.acc_bias[axis]:.2f} m/s^2, "
        f"{away[axis]:.0f} standard deviations from what was expected: check units, gravity in the "
        "accelerometer and the scale of the camera's motion",
    )


def consistent_vertical(report: SolveReport) -> Check:
    """Check of gravity against the vertical that samples before the window tell."""
    if not report.vertical_rejected:
        return Check("ok")
    return Check(
        "weak",
        "gravity contradicts the vertical that the IMU's samples before the window show "
        f"(chi-square {report.vertical_chi2:.0f} for 2 degrees of freedom), which was not used: "
        "the accelerometer's error changed, or the camera's motion is wrong",
    )


def plausible_scale(scale: float, std: float, spread: float) -> Check:
    """Check of a scale against its own uncertainty and the stated one."""
    away = abs(scale - 1.0) / max(math.hypot(std, spread), 1e-12)
    if away <= FAR:
        return Check("ok")
    return Check(
        "weak",
        f"accelerations fit the camera's motion if that is {scale:.3f} times as long, "
        f"{away:.1f} standard deviations from what was stated: check the stereo baseline or the "
        "trajectory's scale",
    )


def rejections(report: SolveReport, measured: int) -> Check:
    """Check of the number of rejected measurements; with many, the remainder is arbitrary."""
    if report.rejected == 0:
        return Check("ok")
    reason = (
        f"{report.rejected} of {measured + report.rejected} relative poses contradict the IMU and "
        "were rejected: a moving object filled the image, or the IMU's samples are "
        "wrong"
    )
    many = report.rejected >= MOST_MISSING * (measured + report.rejected)
    return Check("weak" if many else "ok", reason)


def choices(report: SolveReport, measured: int) -> Check:
    """Remark on motions that the IMU selected against the majority of matches."""
    if report.second_motions == 0:
        return Check("ok")
    reason = (
        f"for {report.second_motions} of {measured} relative poses the motion of fewer matches was "
        "used, because it agrees with the IMU: a moving object or a repetitive wall has more"
    )
    many = report.second_motions >= MOST_MISSING * measured
    return Check("weak" if many else "ok", reason)
