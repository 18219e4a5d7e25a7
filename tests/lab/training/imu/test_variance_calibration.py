"""Variances of the accelerometer, found from errors against audited truths."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from maci2.imu import datasheet_model
from maci2.sensors import truth_at
from maci2_lab.training.imu.data import load_track
from maci2_lab.training.imu.finish import variance_factor
from tools.ground_truth.faulty_truths import PUBLISHED, exact_truth, loud, recording_with

STATED = 0.25
"""What the variances are stated to be, over what they are."""


def unbiased(recording):
    """The samples without their true biases."""
    truth = exact_truth(recording)
    sheet = datasheet_model(recording.imu, recording.rig.imu)
    inside = np.clip(sheet.stamps_ns, truth.stamps_ns[0], truth.stamps_ns[-1])
    at = truth_at(truth, inside, np.inf)
    return replace(
        sheet,
        gyro=sheet.gyro - at.bias_gyro,
        acc=sheet.acc - at.bias_acc,
        removed_gyro=at.bias_gyro,
        removed_acc=at.bias_acc,
    )


def test_wrong_variances_are_mended():
    # As noisy a truth as the audit takes it to be, and an IMU whose noise shows beside it.
    noisy = replace(PUBLISHED, std_deg=0.05)
    recordings = [loud(recording_with(noisy, seed, duration_s=60.0)) for seed in (61, 62, 63)]

    class Wrong:
        @staticmethod
        def measure(imu):
            (own,) = (unbiased(one) for one in recordings if one.imu is imu)
            return replace(own, var_acc=own.var_acc * STATED)

    tracks = [load_track(recording, "simulated") for recording in recordings]
    # Three minutes, of whose errors half hide in the truth.
    assert variance_factor(Wrong, tracks) == pytest.approx(1.0 / STATED, rel=0.3)
