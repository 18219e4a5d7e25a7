"""Tracking with constants that are not the stated ones says so, or refuses."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import scaled
from maci2.errors import DatasetError
from maci2.odometry import track
from maci2_lab.experiments.input_faults import rotated
from tracking_cases import simulated_ride


@pytest.fixture(scope="module")
def ride():
    return simulated_ride(seed=4, duration_s=15.0, kind="drone")


def tracked(ride):
    return track(ride.imu, ride.vision, ride.T_b_c, ride.walks, ride.vision.stamps_ns)


@pytest.mark.parametrize("kind", ["handheld", "drone", "car"])
def test_sound_constants_are_not_doubted(kind):
    verdict = tracked(simulated_ride(seed=2, duration_s=15.0, kind=kind)).verdict
    assert (verdict.status, verdict.reasons) == ("ok", ())


@pytest.mark.parametrize(
    ("gyro_axes", "acc_axes", "words"),
    [
        ((1.0, 1.0, 1.0), (1.0, 1.0, -1.0), r"taken as \(x, y, -z\)"),
        ((1.0, -1.0, 1.0), (1.0, 1.0, 1.0), "mirrored"),
    ],
)
def test_axes_with_which_no_state_means_anything_are_refused(ride, gyro_axes, acc_axes, words):
    imu = replace(
        ride.imu, gyro=ride.imu.gyro * np.array(gyro_axes), acc=ride.imu.acc * np.array(acc_axes)
    )
    with pytest.raises(DatasetError, match=f"tracking was stopped.*{words}"):
        tracked(replace(ride, imu=imu))


def test_a_scale_that_one_window_does_not_show_makes_the_track_weak(ride):
    longer = replace(scaled(ride.vision, 1.04), covs_T_ck_ck1=ride.vision.covs_T_ck_ck1)
    verdict = tracked(replace(ride, vision=longer)).verdict
    assert verdict.status == "weak"
    assert "times as long" in verdict.reasons[0]


def test_what_every_window_shows_is_the_reason_why_tracking_never_started(ride):
    with pytest.raises(DatasetError, match=r"never started.*rotated by 4\.0"):
        tracked(replace(ride, T_b_c=rotated(4.0)(ride.T_b_c)))


def test_samples_that_were_saturated_once_are_named_to_the_end(ride):
    gyro = ride.imu.gyro.copy()
    limit = 0.8 * np.abs(gyro[:, 1]).max()
    gyro[:, 1] = np.clip(gyro[:, 1], -limit, limit)
    assert len(gyro) - np.flatnonzero(np.abs(gyro[:, 1]) == limit)[-1] > 800
    verdict = tracked(replace(ride, imu=replace(ride.imu, gyro=gyro))).verdict
    assert verdict.status == "weak"
    assert "gyroscope's y axis is saturated" in verdict.reasons[0]


def test_a_camera_whose_clock_is_20_ms_off_is_the_reason_why_tracking_never_started(ride):
    late = replace(ride.vision, stamps_ns=ride.vision.stamps_ns + 20_000_000)
    with pytest.raises(DatasetError, match=r"never started.*estimate the time offset"):
        tracked(replace(ride, vision=late))


def test_a_track_that_is_lost_for_a_third_of_its_time_is_weak(ride):
    keyframes = len(ride.vision.stamps_ns) - 1
    seen = round(0.45 * keyframes)
    reasons = ("",) * seen + ("dark",) * (keyframes - seen)
    found = tracked(replace(ride, vision=replace(ride.vision, reasons=reasons)))
    assert found.states[-1].health == "lost"
    assert found.verdict.status == "weak"
    assert "states are lost" in found.verdict.reasons[-1]
