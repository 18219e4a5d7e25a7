"""Calibrations that no rig can have are refused, unusual ones are named, sound ones pass."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording, open_rig
from maci2.errors import CalibrationError
from maci2.sensors.validation import RIG_RANGES, require_plausible_rig, rig_faults
from maci2.simulation import SimulationConfig, simulate


@pytest.fixture(scope="module")
def rig():
    return simulate(SimulationConfig(duration_s=1.0)).rig


def with_camera(rig, **changes):
    first = replace(rig.cameras[0], **changes)
    return replace(rig, cameras=(first, *rig.cameras[1:]))


def moved(rig, distance):
    T_b_c = rig.cameras[0].T_b_c.copy()
    T_b_c[:3, 3] = [distance, 0.0, 0.0]
    return with_camera(rig, T_b_c=T_b_c)


def with_intrinsics(rig, index, value):
    intrinsics = rig.cameras[0].intrinsics.copy()
    intrinsics[index] = value
    return with_camera(rig, intrinsics=intrinsics)


def with_noise(rig, **changes):
    return replace(rig, imu=replace(rig.imu, **changes))


IMPOSSIBLE = {
    "a camera 1e9 m away": (lambda rig: moved(rig, 1e9), "lever_arm"),
    "noise density 1e308": (lambda rig: with_noise(rig, density_gyro=1e308), "density_gyro"),
    "1.1 rad/s/sqrt(Hz)": (lambda rig: with_noise(rig, density_gyro=1.1), "density_gyro"),
    "acc density in g": (lambda rig: with_noise(rig, density_acc=90.0), "density_acc"),
    "walk 1e9": (lambda rig: with_noise(rig, walk_acc=1e9), "walk_acc"),
    "gyro walk 1": (lambda rig: with_noise(rig, walk_gyro=1.0), "walk_gyro"),
    "principal point outside": (lambda rig: with_intrinsics(rig, 2, 760.0), "principal_point"),
    "principal point below 0": (lambda rig: with_intrinsics(rig, 3, -5.0), "principal_point"),
    "focal length 1e6": (lambda rig: with_intrinsics(rig, 0, 1e6), "focal_ratio"),
    "focal length 1": (lambda rig: with_intrinsics(rig, 1, 1.0), "focal_ratio"),
    "IMU rate in ms": (lambda rig: with_noise(rig, rate_hz=0.005), "imu_rate"),
    "distortion 1e8": (lambda rig: with_camera(rig, distortion=np.full(4, 1e8)), "distortion"),
    "resolution 20000": (lambda rig: with_camera(rig, resolution=(20_000, 480)), "resolution"),
    "frame rate 1e9": (lambda rig: with_camera(rig, rate_hz=1e9), "camera_rate"),
}
UNUSUAL = {
    "camera at 5 m": (lambda rig: moved(rig, 5.0), "lever_arm"),
    "density 0.1": (lambda rig: with_noise(rig, density_gyro=0.1), "density_gyro"),
    "principal point aside": (lambda rig: with_intrinsics(rig, 2, 20.0), "principal_point"),
    "clock offset of 3 s": (lambda rig: replace(rig, time_offset_s=3.0), "time_offset"),
    "IMU at 20 Hz": (lambda rig: with_noise(rig, rate_hz=20.0), "imu_rate"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_no_rig_can_have_is_refused_with_number_limits_reason_and_remedy(rig, case):
    change, key = IMPOSSIBLE[case]
    wrong = change(rig)
    with pytest.raises(CalibrationError) as raised:
        require_plausible_rig(wrong)
    limits = RIG_RANGES[key]
    for words in (limits.name, limits.reason, limits.remedy, f"{limits.possible[1]:g}", rig.source):
        assert words in str(raised.value)


@pytest.mark.parametrize("case", UNUSUAL)
def test_what_is_unusual_is_a_warning(rig, case, caplog):
    change, key = UNUSUAL[case]
    with caplog.at_level(logging.WARNING):
        require_plausible_rig(change(rig))
    assert RIG_RANGES[key].name in caplog.text
    assert all(fault.name in caplog.text for fault in rig_faults(change(rig)))


def test_unknown_numbers_are_not_judged(rig):
    assert rig_faults(with_camera(rig, rate_hz=np.nan)) == []
    assert rig_faults(replace(moved(rig, 1e9), extrinsics_known=False, cameras=())) == []


def test_every_committed_and_simulated_rig_is_sound(rig, small_files):
    assert rig_faults(rig) == []
    fisheye = simulate(SimulationConfig(duration_s=1.0, lens="fisheye")).rig
    assert rig_faults(fisheye) == []
    for name in ("euroc_mini", "tumvi_mini", "kalibr"):
        assert rig_faults(open_rig(small_files / name)) == []


def test_limits_are_in_order_and_have_a_reason():
    for limits in RIG_RANGES.values():
        (low, high), (lowest, highest) = limits.usual, limits.possible
        assert lowest <= low < high <= highest
        assert limits.reason
        assert limits.remedy


def test_an_impossible_calibration_is_refused_when_a_recording_is_opened(small_copy):
    folder = small_copy("euroc_mini")
    path = folder / "mav0/imu0/sensor.yaml"
    lines = [
        "gyroscope_noise_density: 1.1" if line.startswith("gyroscope_noise_density") else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))
    for opened in (open_recording, open_rig):
        with pytest.raises(CalibrationError, match=r"noise density is 1\.1 rad/s"):
            opened(folder)


@pytest.mark.dataset
def test_no_real_recording_is_refused_or_unusual(data_root):
    folders = [*(data_root / "euroc").iterdir(), *(data_root / "tumvi").glob("dataset*")]
    assert len(folders) > 5
    for folder in folders:
        assert rig_faults(open_recording(folder).rig) == [], folder
