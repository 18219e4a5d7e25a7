"""Velocity from positions with motion-capture noise and gaps."""

import numpy as np

from maci2.sensors import GroundTruth, with_velocity
from maci2.types import NS

RATE_HZ = 120.0


def hand_motion(t_s, noise_m, seed=5):
    """Hand-held sway of 0.5 Hz and 1.5 Hz, 10 cm and 3 cm."""
    omega = 2.0 * np.pi * np.array([0.5, 1.5])
    amplitude = np.array([0.1, 0.03])
    phase = np.array([0.0, 0.7, 1.9])
    angles = omega * t_s[:, None, None] + phase[None, :, None]
    p = np.sum(amplitude * np.sin(angles), axis=-1)
    v = np.sum(amplitude * omega * np.cos(angles), axis=-1)
    Ts = np.broadcast_to(np.eye(4), (len(t_s), 4, 4)).copy()
    Ts[:, :3, 3] = p + np.random.default_rng(seed).normal(scale=noise_m, size=p.shape)
    nan = np.full_like(p, np.nan)
    stamps_ns = 1_520_530_308_000_000_000 + np.rint(t_s * NS).astype(np.int64)
    return GroundTruth(stamps_ns, Ts, nan, nan, nan), v


def test_velocity_is_right_to_a_few_millimetres_per_second_without_noise():
    truth, v = hand_motion(np.arange(0.0, 20.0, 1.0 / RATE_HZ), noise_m=0.0)
    error = with_velocity(truth).v_w - v
    assert np.nanmax(np.abs(error)) < 0.002


def test_a_millimetre_of_noise_gives_a_centimetre_per_second():
    truth, v = hand_motion(np.arange(0.0, 20.0, 1.0 / RATE_HZ), noise_m=0.001)
    error = with_velocity(truth).v_w - v
    # A cubic over 25 samples in 0.2 s: 1 mm gives 8.6 mm/s.
    assert 0.006 < np.nanstd(error) < 0.011


def test_velocity_is_nan_near_gaps_and_ends_and_nowhere_else():
    t_s = np.arange(0.0, 10.0, 1.0 / RATE_HZ)
    t_s = t_s[(t_s < 4.0) | (t_s > 4.5)]
    truth, v = hand_motion(t_s, noise_m=0.0)
    v_w = with_velocity(truth).v_w
    near = (np.abs(t_s - 4.0) < 0.09) | (np.abs(t_s - 4.5) < 0.09)
    far = (np.abs(t_s - 4.25) > 0.4) & (t_s > 0.15) & (t_s < 9.8)
    assert np.isnan(v_w[near]).all()
    assert np.isnan(v_w[[0, -1]]).all()
    assert np.abs(v_w[far] - v[far]).max() < 0.002


def test_short_dropouts_are_bridged():
    t_s = np.delete(np.arange(0.0, 4.0, 1.0 / RATE_HZ), [200, 201, 202])
    truth, v = hand_motion(t_s, noise_m=0.0)
    v_w = with_velocity(truth).v_w
    assert np.isfinite(v_w[150:250]).all()
    assert np.abs(v_w[150:250] - v[150:250]).max() < 0.004
