"""Constants of a device: taking them off gives back what the IMU should have reported."""

import numpy as np

from maci2.imu.learned_model import DeviceConstants
from maci2.sensors import ImuSamples

CONSTANTS = DeviceConstants(
    gyro=1e-3 * np.array([[2.0, 0.5, -0.3], [0.1, -1.5, 0.4], [0.2, 0.6, 1.0]]),
    acc=1e-3 * np.array([[-3.0, 0.4, 0.1], [0.7, 2.0, -0.6], [0.3, 0.2, -4.0]]),
    acc_early_s=1.2e-3,
)


def motion(seconds):
    """Rates and forces of a hand."""
    phases = np.array([0.0, 1.0, 2.0])
    gyro = np.sin(2.0 * np.pi * 0.7 * seconds[:, None] + phases)
    return gyro, 2.0 * np.cos(2.0 * np.pi * 1.1 * seconds[:, None] + phases) + [0.0, 0.0, 9.8]


def reported():
    """The samples of a device with these constants, and those of one without."""
    stamps_ns = np.arange(0, 4_000_000_000, 5_000_000)
    seconds = 1e-9 * stamps_ns
    gyro, acc = motion(seconds)
    later = motion(seconds + CONSTANTS.acc_early_s)[1]
    wrong = ImuSamples(
        stamps_ns,
        gyro @ np.linalg.inv(np.eye(3) - CONSTANTS.gyro).T,
        later @ np.linalg.inv(np.eye(3) - CONSTANTS.acc).T,
    )
    return wrong, ImuSamples(stamps_ns, gyro, acc)


def test_samples_of_a_device_are_corrected():
    wrong, right = reported()
    found = CONSTANTS.corrected(wrong)
    inside = slice(1, -1)
    np.testing.assert_allclose(found.gyro, right.gyro, atol=1e-14)
    # A straight line between samples leaves f'' dt^2 / 8 of the force, which is off by 16 mm/s^2.
    assert np.abs(wrong.acc - right.acc)[inside].max() > 0.02
    np.testing.assert_allclose(found.acc[inside], right.acc[inside], atol=4e-4)
    np.testing.assert_array_equal(found.stamps_ns, wrong.stamps_ns)


def test_the_numbers_of_a_card_are_the_constants():
    again = DeviceConstants.of(CONSTANTS.numbers)
    np.testing.assert_array_equal(again.gyro, CONSTANTS.gyro)
    np.testing.assert_array_equal(again.acc, CONSTANTS.acc)
    assert again.acc_early_s == CONSTANTS.acc_early_s
