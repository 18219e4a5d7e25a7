"""Error of the tracked vertical that lasts, from audited ground truths.

The tracker's accelerometer has white noise; a real one in flight is off by tens of mm/s^2 for
seconds, and by how much differs from recording to recording: on EuRoC the tilt of a settled tracker
is off by 0.12 to 0.23 deg, where it states 0.12 to 0.14. What an estimator adds to the stated
covariance is the whole error of the recordings seen, widened as Student's distribution is. Nothing
is subtracted for what the tracker states: such a difference is smaller than the spread between
recordings, and left to itself makes the one recording that is worse a surprise.
"""

import numpy as np

from maci2.estimator.problem import ROTATION
from maci2.learn.imu.training_windows import Track
from maci2.types import Array

SETTLED_S = 20.0
"""Time after which the tracker's covariance is that of its noise and no longer of its start."""

INTERVAL_S = 1.0
"""Time between instants that are compared."""


def vertical_spread(tracks: list[Track]) -> float | None:
    """Standard deviation of the tilt to expect of another recording [rad], one axis, once the
    tracker has settled; None where too few recordings tell."""
    seen = [tilt_errors(track) for track in tracks if track.vertical is not None]
    squares = [np.mean(errors**2) for errors, _ in seen if len(errors)]
    dof = 2.0 * len(squares)
    if dof < 3.0:
        return None
    return float(np.sqrt(np.mean(squares) * dof / (dof - 2.0)))


def tilt_errors(track: Track) -> tuple[Array, Array]:
    """(n, 2) error of the settled vertical where the biases are known [rad], in its level world,
    and (n, 2, 2) what tracker and audited ground truth state of it."""
    audited, vertical = track.audited, track.vertical
    assert vertical is not None
    assert audited.chain.covariance is not None
    sample = audited.states.samples
    every = max(round(INTERVAL_S * track.imu.rate_hz / float(np.median(np.diff(sample)))), 1)
    settled = sample > SETTLED_S * track.imu.rate_hz
    at = np.flatnonzero(settled & (vertical.block[sample] >= 0))[::every]
    sample = sample[at]
    block, R_h_b = vertical.block[sample], vertical.Rs_w_b[sample]
    phi_b = np.cross(-audited.states.Rs_w_b[at, 2], -R_h_b[:, 2])
    bias = np.hstack([audited.chain.bias_gyro, audited.chain.bias_acc])[at]
    away = vertical.bias[block] - bias
    across = R_h_b[:, :2]
    errors = np.einsum("nij,nj->ni", across, phi_b)
    errors += np.einsum("nij,nj->ni", vertical.tilt_D_bias[block], away)
    cov_b = audited.chain.covariance.states[audited.places[at], ROTATION, ROTATION]
    return errors, vertical.cov_tilt[block] + across @ cov_b @ np.swapaxes(across, 1, 2)
