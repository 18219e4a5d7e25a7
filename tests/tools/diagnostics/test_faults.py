"""Faults put into recordings one at a time: each is named in the first line of the diagnosis, and
nothing is found where nothing is wrong. Place and size of every fault are random."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from degrading import Degraded, camera_path, diagnose
from fault_cases import FAULTS

from maci2.datasets import open_recording, read_trajectory
from maci2.imu.rotation_rates import RotationSource, match_rates
from maci2.simulation import MotionKind, SimulationConfig, simulate
from maci2.tools.diagnostics.diagnose import examine
from maci2.types import NS

KINDS = get_args(MotionKind)


@pytest.fixture(scope="module")
def sound():
    return simulate(SimulationConfig(kind="handheld", duration_s=12.0, seed=10))


def draw(fault, seed):
    return np.random.default_rng((list(FAULTS).index(fault), seed))


def found_wrong(health):
    return [f"{f.level} {f.what}: {f.text}" for f in health.findings if f.level != "ok"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_in_the_first_line(fault, sound, tmp_path):
    damage, words = FAULTS[fault]
    health = diagnose(damage(Degraded(sound), draw(fault, 0)), tmp_path / "damaged")
    assert words in health.first_line
    assert health.usable == health.first_line.startswith("warn")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["handheld", "drone"])
@pytest.mark.parametrize("seed", range(1, 5))
def test_nineteen_of_twenty_faults_are_named_in_other_motions_places_and_sizes(
    seed, kind, tmp_path
):
    recording = simulate(SimulationConfig(kind=kind, duration_s=20.0, seed=20 + seed))
    missed = {}
    for number, (fault, (damage, words)) in enumerate(FAULTS.items()):
        health = diagnose(damage(Degraded(recording), draw(fault, seed)), tmp_path / str(number))
        if words not in health.first_line:
            missed[fault] = health.first_line
    assert len(missed) <= len(FAULTS) // 20, missed


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_in_a_sound_recording_with_vision_and_no_truth(kind):
    recording = simulate(SimulationConfig(kind=kind, duration_s=8.0, seed=5))
    health = examine(replace(recording, truths={}), camera_path(recording))
    assert found_wrong(health) == []
    assert health.first_line.startswith("ok")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_in_any_of_many_sound_recordings(kind):
    for seed in range(100, 106):
        recording = simulate(SimulationConfig(kind=kind, duration_s=15.0, seed=seed))
        assert found_wrong(examine(recording)) == [], seed
        assert found_wrong(examine(replace(recording, truths={}))) == [], seed


@pytest.mark.parametrize("late_s", [-0.3, -0.02, 0.0, 0.004, 0.05])
def test_a_time_offset_is_found_within_its_standard_error(sound, late_s):
    truth = sound.truth()
    late_ns = truth.stamps_ns + round(late_s * NS)
    match = match_rates(
        RotationSource("truth", "truth", late_ns, truth.Ts_w_b, np.eye(4)), sound.imu
    )
    assert match.offset_s == pytest.approx(-late_s, abs=5.0 * match.std_offset_s + 2e-5)
    assert match.std_offset_s < 2e-4


def test_an_estimated_offset_scatters_as_its_standard_error_says():
    scores = []
    for seed in range(12):
        recording = simulate(SimulationConfig(duration_s=12.0, seed=seed))
        path = camera_path(recording, seed)
        source = RotationSource("v", "vision", path.stamps_ns, path.Ts_w_c, np.eye(4))
        match = match_rates(source, recording.imu)
        scores.append(match.offset_s / match.std_offset_s)
    # Three blocks of 4 s each: Student's t with two degrees of freedom has heavy tails.
    assert np.median(np.abs(scores)) < 2.5


def test_too_little_motion_is_said_in_plain_words_with_the_axis():
    turning = simulate(SimulationConfig(kind="planar_yaw", duration_s=12.0, seed=1))
    health = examine(turning)
    assert health.usable
    assert "nothing to fix. To calibrate extrinsics, rotate the device" in health.first_line
    texts = " ".join(finding.text for finding in health.findings if finding.what == "excitation")
    assert "too little: position along z (known to " in texts
    assert "windows ok" in texts


@pytest.mark.dataset
@pytest.mark.parametrize(
    "name", ["euroc/MH_01_clip", "euroc/V1_02_medium", "tumvi/dataset-room1_512_16"]
)
def test_no_false_alarm_on_real_recordings(data_root, name):
    health = examine(open_recording(data_root / name))
    assert found_wrong(health) == []


@pytest.mark.dataset
def test_real_vision_agrees_with_the_calibration_and_a_late_clock_is_measured(data_root):
    path = data_root / "euroc" / "V1_02_medium"
    vision = read_trajectory(path / "visual" / "droid_stereo_Twc_tum.txt")
    recording = open_recording(path)
    assert found_wrong(examine(recording, vision, "rectified")) == []
    late = replace(vision, stamps_ns=vision.stamps_ns + NS // 50)
    health = examine(recording, late, "rectified")
    assert "camera-IMU time offset: found -20." in health.first_line


@pytest.mark.dataset
def test_what_is_truly_wrong_with_v2_03_is_found(data_root):
    """Cameras that drop frames, and a motion capture whose clock runs apart from the IMU's."""
    health = examine(open_recording(data_root / "euroc" / "V2_03_difficult"))
    text = " ".join(found_wrong(health))
    assert "cam0: dropped frames" in text
    assert "state_groundtruth_estimate0: clocks run apart" in text
    assert health.usable
