"""Wrong units and missing gravity are found; healthy motions of every kind pass."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from maci2.datasets import open_recording
from maci2.errors import DatasetError
from maci2.sensors import ImuSamples, imu_faults, require_plausible
from maci2.simulation import MotionKind, SimulationConfig, simulate

KINDS = get_args(MotionKind)


def recording_of(kind, seed=1):
    return simulate(SimulationConfig(kind=kind, duration_s=8.0, seed=seed))


def message_of(samples):
    with pytest.raises(DatasetError) as raised:
        require_plausible(samples)
    assert samples.source in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_healthy_imu_raises_no_alarm(kind):
    assert imu_faults(recording_of(kind).imu) == []


@pytest.mark.parametrize("kind", ["handheld", "drone", "car", "static"])
def test_degrees_per_second_are_recognised(kind):
    imu = recording_of(kind).imu
    message = message_of(replace(imu, gyro=np.degrees(imu.gyro)))
    assert "looks like deg/s" in message
    assert "pi/180" in message


@pytest.mark.parametrize("packet", [8, 20, 50])
def test_timestamps_of_arriving_packets_are_named_as_such(packet):
    imu = recording_of("handheld").imu
    last = np.minimum(packet * (np.arange(len(imu)) // packet + 1) - 1, len(imu) - 1)
    stamps_ns = imu.stamps_ns[last] + 100_000 * (np.arange(len(imu)) - last)
    message = message_of(replace(imu, stamps_ns=stamps_ns))
    assert "come in bursts" in message
    assert f"packets of {packet} samples" in message


@pytest.mark.parametrize("kind", KINDS)
def test_an_accelerometer_in_g_is_recognised(kind):
    imu = recording_of(kind).imu
    message = message_of(replace(imu, acc=imu.acc / 9.81))
    assert "looks like g" in message
    assert "needed 9.81" in message


@pytest.mark.parametrize("kind", KINDS)
def test_gravity_removed_already_is_recognised(kind):
    recording = recording_of(kind)
    truth = recording.truth()
    at = np.searchsorted(truth.stamps_ns, recording.imu.stamps_ns)
    linear = recording.imu.acc - 9.81 * truth.Ts_w_b[at, 2, :3]
    assert "removed already" in message_of(replace(recording.imu, acc=linear))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reading", [5.0, 20.0])
def test_an_accelerometer_that_reads_5_or_20_is_refused_with_the_number(kind, reading):
    imu = recording_of(kind).imu
    message = message_of(replace(imu, acc=imu.acc * reading / 9.81))
    found = float(message.split("reads ")[1].split()[0])
    assert found == pytest.approx(reading, rel=0.05)
    assert "needed 9.81 within 1.5" in message


def test_a_body_at_rest_with_a_biased_accelerometer_passes():
    rng = np.random.default_rng(2)
    stamps_ns = 5_000_000 * np.arange(2000)
    acc = np.array([0.5, -0.4, 9.9]) + rng.normal(scale=0.03, size=(2000, 3))
    gyro = np.array([0.08, -0.05, 0.02]) + rng.normal(scale=0.003, size=(2000, 3))
    assert imu_faults(ImuSamples(stamps_ns, gyro, acc)) == []


def test_energetic_hand_motion_of_8_rad_per_s_passes():
    t_s = np.arange(0.0, 8.0, 0.005)
    gyro = 8.0 * np.stack([np.sin(7 * t_s), np.cos(9 * t_s), np.sin(5 * t_s + 1)], axis=1) / 1.4
    R = Rotation.identity()
    up_b = []
    for rate in gyro:
        up_b.append(R.inv().apply([0.0, 0.0, 9.81]))
        R = R * Rotation.from_rotvec(rate * 0.005)
    shaking = 6.0 * np.stack([np.sin(11 * t_s), np.sin(13 * t_s), np.cos(12 * t_s)], axis=1)
    samples = ImuSamples((t_s * 1e9).astype(np.int64), gyro, np.array(up_b) + shaking)
    assert imu_faults(samples) == []


def test_a_dead_channel_and_gaps_are_mentioned_but_do_not_stop_the_work():
    imu = recording_of("handheld").imu
    gyro = imu.gyro.copy()
    gyro[:, 1] = 0.25
    keep = np.r_[0:1000, 1100 : len(imu)]
    samples = ImuSamples(imu.stamps_ns[keep], gyro[keep], imu.acc[keep], "imu.csv")
    faults = [fault.text for fault in imu_faults(samples)]
    assert any("gyroscope y reads 0.25 in all" in fault for fault in faults)
    assert any(f"0.505 s after {imu.stamps_ns[999]} ns" in fault for fault in faults)


@pytest.mark.dataset
def test_no_real_recording_raises_an_alarm_and_spoiled_units_always_do(data_root):
    for path in [*(data_root / "euroc").iterdir(), *(data_root / "tumvi").glob("dataset-*")]:
        imu = open_recording(path).imu
        assert imu_faults(imu) == [], path.name
        assert "deg/s" in message_of(replace(imu, gyro=np.degrees(imu.gyro)))
        assert "looks like g" in message_of(replace(imu, acc=imu.acc / 9.81))
        assert "range setting" in message_of(replace(imu, acc=imu.acc * 5.0 / 9.81))
        assert "range setting" in message_of(replace(imu, acc=imu.acc * 20.0 / 9.81))
