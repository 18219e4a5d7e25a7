"""The vertical along a stream of samples, and what its tracker states of it."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.geometry import so3_exp
from maci2.imu import datasheet_model
from maci2.imu.bias_tracker import STD_SAMPLE, StationaryShift, track_gyro_bias
from maci2.imu.measurements import BiasPrior
from maci2.sensors import ImuNoise, truth_at
from maci2.simulation import SimulationConfig, simulate

TURN_ON = BiasPrior(np.zeros(3), np.full(3, 0.003), np.zeros(3), np.full(3, 0.03))
RATE_HZ = 200.0


def flight(seed, seconds=40.0):
    """A simulated drone with the white noise and the biases that the tracker expects."""
    gyro, acc = np.array(STD_SAMPLE) / np.sqrt(RATE_HZ)
    noise = ImuNoise(gyro, acc, 1e-6, 1e-6, RATE_HZ)
    return simulate(
        SimulationConfig(
            kind="drone",
            duration_s=seconds,
            seed=seed,
            bias_walk=False,
            bias_gyro_std=0.003,
            bias_acc_std=0.03,
            noise=noise,
        )
    )


def tracked(recording):
    return track_gyro_bias(recording.imu, TURN_ON, StationaryShift()).vertical


def whitened(recording, vertical, sample):
    """(2,) W [phi, bias - b] at a sample, at the true attitude and biases."""
    truth = truth_at(recording.truth(), recording.imu.stamps_ns[sample : sample + 1], 0.1)
    prior = vertical.after(sample, np.zeros(3), np.zeros(6))
    phi = np.cross(-truth.Ts_w_b[0, 2, :3], prior.down_b)
    bias = np.hstack([truth.bias_gyro[0], truth.bias_acc[0]])
    return prior.white @ np.hstack([phi, bias - prior.bias])


@pytest.mark.slow
def test_sampled_errors_are_within_the_stated_covariance():
    squares = []
    for seed in range(24):
        recording = flight(seed)
        vertical = tracked(recording)
        samples = (np.array([3.0, 10.0, 25.0, 39.0]) * RATE_HZ).astype(int)
        squares.append([np.mean(whitened(recording, vertical, k) ** 2) for k in samples])
    # A velocity is bounded, not white: once settled, the tracker knows more than it says.
    first, *settled = np.mean(squares, axis=0)
    assert 0.5 < first < 2.0
    assert all(0.1 < score < 0.7 for score in settled), settled


def test_the_vertical_follows_the_device_between_samples():
    recording = flight(1, 6.0)
    vertical = tracked(recording)
    phi_b = np.array([0.01, -0.02, 0.005])
    at, later = (vertical.after(900, phi, np.zeros(6)) for phi in (np.zeros(3), phi_b))
    np.testing.assert_allclose(later.down_b, so3_exp(phi_b).T @ at.down_b, atol=1e-12)
    # From one sample to the next it turns as the gyroscope says, its bias taken off.
    after = vertical.after(901, np.zeros(3), np.zeros(6))
    assert np.degrees(np.linalg.norm(np.cross(after.down_b, at.down_b))) < 1.0
    assert vertical.block[901] == vertical.block[900]


def test_what_a_model_removed_is_no_bias_any_more():
    vertical = tracked(flight(1, 6.0))
    removed = np.arange(6.0)
    bare, less = (vertical.after(900, np.zeros(3), part) for part in (np.zeros(6), removed))
    np.testing.assert_allclose(less.bias, bare.bias - removed)
    np.testing.assert_array_equal(less.white, bare.white)


def test_nothing_is_known_before_the_first_block_ends():
    vertical = tracked(flight(1, 6.0))
    assert vertical.after(0, np.zeros(3), np.zeros(6)) is None
    assert tracked(flight(1, 0.5)) is None


def test_lasting_errors_widen_it():
    vertical = tracked(flight(1, 6.0))
    wide = replace(vertical, std_lasting=np.radians(5.0))
    # W takes tilts about the level axes, which are the first two rows of the attitude.
    level = vertical.Rs_w_b[900, :2].T
    whites = [one.after(900, np.zeros(3), np.zeros(6)).white[:, :3] for one in (vertical, wide)]
    sharp, blunt = (np.linalg.inv((W @ level).T @ (W @ level)) for W in whites)
    np.testing.assert_allclose(blunt - sharp, np.radians(5.0) ** 2 * np.eye(2), atol=1e-9)


def test_measurements_hand_it_on_with_their_samples():
    recording = flight(1, 6.0)
    sheet = datasheet_model(recording.imu, recording.rig.imu)
    imu = replace(sheet, vertical=tracked(recording))
    stamp_ns = int(imu.stamps_ns[900]) + 1_000_000
    part = imu.between(int(imu.stamps_ns[850]), int(imu.stamps_ns[1000]))
    assert len(part.vertical.Rs_w_b) == len(part.stamps_ns)
    for whole, cut in zip(imu.vertical_at(stamp_ns), part.vertical_at(stamp_ns), strict=True):
        np.testing.assert_allclose(whole, cut, atol=1e-15)
    assert sheet.vertical_at(stamp_ns) is None
    assert part.vertical_at(int(imu.stamps_ns[800])) is None
