"""Healthy recordings pass; wrong truths, units, clocks and gaps are found."""

import json
from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.geometry import so3_exp
from maci2.sensors import ImuSamples
from maci2.simulation import SimulationConfig, simulate
from maci2.tools.diagnostics.diagnose import examine
from maci2.tools.ground_truth.comparison import check_truth
from maci2.types import NS


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(kind="handheld", duration_s=12.0, seed=4))


def with_truth(recording, truth):
    return replace(recording, truths={"truth": truth})


def turned(truth, phi_deg):
    """The truth of a body frame turned by a constant rotation."""
    Ts_w_b = truth.Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = Ts_w_b[:, :3, :3] @ so3_exp(np.radians(phi_deg)).T
    return replace(truth, Ts_w_b=Ts_w_b)


def errors(health):
    return [finding.text for finding in health.findings if finding.level == "error"]


@pytest.mark.parametrize("kind", ["handheld", "drone", "car", "static", "straight", "planar_yaw"])
def test_a_sound_simulated_recording_has_nothing_to_mend(kind):
    health = examine(simulate(SimulationConfig(kind=kind, duration_s=8.0, seed=2)))
    assert [finding for finding in health.findings if finding.level != "ok"] == []
    assert health.usable
    assert health.windows == 3
    assert health.stereo_matched_pct == 100.0
    assert health.imu.rate_hz == pytest.approx(200.0)


def test_a_turned_truth_is_measured_within_its_standard_error(recording):
    check = check_truth(turned(recording.truth(), [3.0, -4.0, 0.0]), recording.imu)
    assert check.misalignment_deg == pytest.approx(5.0, abs=4.0 * check.misalignment_std_deg)
    assert check.misalignment_std_deg < 0.1


def test_a_turned_truth_makes_the_recording_unusable(recording):
    health = examine(with_truth(recording, turned(recording.truth(), [0.0, 0.0, 2.0])))
    assert not health.usable
    assert "rotation of the body frame by 2.0" in errors(health)[0]
    assert "needed 0.5" in errors(health)[0]


def test_axes_swapped_by_90_degrees_are_found(recording):
    check = check_truth(turned(recording.truth(), [0.0, 0.0, 90.0]), recording.imu)
    assert check.misalignment_deg == pytest.approx(90.0, abs=0.2)


def test_the_sound_truth_is_recommended_when_the_default_is_wrong(recording):
    wrong = turned(recording.truth(), [0.0, 5.0, 0.0])
    health = examine(replace(recording, truths={"wrong": wrong, "right": recording.truth()}))
    assert "Use the truth right instead" in errors(health)[0]
    other = examine(replace(recording, truths={"right": recording.truth(), "wrong": wrong}))
    assert other.usable


def test_a_truth_on_a_shifted_clock_is_found(recording):
    truth = recording.truth()
    late = replace(truth, stamps_ns=truth.stamps_ns + NS // 4)
    assert "Wrong clock" in errors(examine(with_truth(recording, late)))[0]


def test_the_offset_of_a_truth_without_overlap_is_found(recording):
    truth = recording.truth()
    late = replace(truth, stamps_ns=truth.stamps_ns + 1000 * NS)
    health = examine(with_truth(recording, late))
    assert "time offset: found -1000.00 s" in errors(health)[0]
    assert health.truths["truth"].overlap_s == 0.0


def test_a_world_that_is_not_level_is_found(recording):
    truth = recording.truth()
    tilt = np.eye(4)
    tilt[:3, :3] = so3_exp(np.radians([6.0, 0.0, 0.0]))
    tilted = replace(truth, Ts_w_b=tilt @ truth.Ts_w_b, v_w=truth.v_w @ tilt[:3, :3].T)
    health = examine(with_truth(recording, tilted))
    assert health.truths["truth"].tilt_deg == pytest.approx(6.0, abs=1.5)
    assert "gravity is tilted by" in errors(health)[0]


def test_a_gyroscope_in_degrees_shows_as_a_ratio_of_57(recording):
    imu = replace(recording.imu, gyro=np.degrees(recording.imu.gyro))
    health = examine(replace(recording, imu=imu))
    assert any("looks like deg/s" in text for text in errors(health))
    assert health.truths[next(iter(recording.truths))].rate_ratio == pytest.approx(57.3, rel=0.02)


def test_velocity_missing_in_the_truth_does_not_stop_the_tilt(recording):
    truth = recording.truth()
    check = check_truth(replace(truth, v_w=np.full_like(truth.v_w, np.nan)), recording.imu)
    assert check.tilt_deg < 1.5


def test_gaps_cost_windows_and_dropped_frames_are_counted(recording):
    imu = recording.imu
    keep = np.r_[0:900, 950 : len(imu)]
    cut = ImuSamples(imu.stamps_ns[keep], imu.gyro[keep], imu.acc[keep], imu.source)
    left, right = recording.camera_stamps_ns
    health = examine(replace(recording, imu=cut, camera_stamps_ns=(left, right[::2])))
    assert health.imu.gaps == 1
    assert health.windows == examine(recording).windows - 1
    assert health.stereo_matched_pct == pytest.approx(50.0, abs=1.0)
    levels = {finding.what: finding.level for finding in health.findings}
    assert levels["stereo"] == "warn"
    assert health.usable


def test_the_report_is_json_without_nan(small_files):
    health = examine(open_recording(small_files / "euroc_mini"))
    assert not health.usable
    report = json.loads(json.dumps(health.as_dict(), allow_nan=False))
    assert report["usable"] is False
    assert report["imu"]["samples"] == 10
    assert report["truths"]["state_groundtruth_estimate0"]["misalignment_deg"] is None


@pytest.mark.dataset
def test_the_wrong_truth_of_v1_01_is_found_and_the_right_one_passes(data_root):
    health = examine(open_recording(data_root / "euroc" / "V1_01_easy"))
    wrong = health.truths["state_groundtruth_estimate0"]
    right = health.truths["state_groundtruth_openvins"]
    assert wrong.misalignment_deg > 3.0 * wrong.misalignment_std_deg + 0.5
    assert wrong.tilt_deg > 2.0
    assert right.misalignment_deg < 3.0 * right.misalignment_std_deg
    assert right.tilt_deg < 1.0
    assert "Use the truth state_groundtruth_openvins" in errors(health)[0]


@pytest.mark.dataset
def test_no_other_real_recording_raises_an_error(data_root):
    for path in [*(data_root / "euroc").iterdir(), *(data_root / "tumvi").glob("dataset-*")]:
        if path.name == "V1_01_easy":
            continue
        found = errors(examine(open_recording(path)))
        # A copy that holds some of its listed images has that as its only fault.
        assert [one for one in found if "images cannot be used" not in one] == [], path.name
