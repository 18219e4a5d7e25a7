"""Scale, misalignment and clock of a simulated device are found, and nothing where nothing is."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

from maci2.sensors import ImuSamples
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.training.imu.data import load_track
from maci2_lab.training.imu.device_fit import fitted_device, refined_device

SHAPE_GYRO = np.eye(3) + 1e-3 * np.array([[3.0, 0.0, 1.0], [0.0, -4.0, 0.0], [0.0, 2.0, 3.0]])
SHAPE_ACC = np.eye(3) + 1e-3 * np.array([[-5.0, 2.0, 0.0], [3.0, 6.0, 0.0], [0.0, 0.0, -4.0]])
EARLY_S = 2e-3


def captured(seed, faulty, device=None):
    """A hand-held recording with raw motion capture, at whose times the force is late."""
    config = SimulationConfig(
        kind="handheld", duration_s=45.0, seed=seed, bias_gyro_std=1e-3, bias_acc_std=0.02,
        shape_gyro=SHAPE_GYRO if faulty else np.eye(3),
        shape_acc=SHAPE_ACC if faulty else np.eye(3),
    )  # fmt: skip
    recording = simulate(config)
    name, truth = next(iter(recording.truths.items()))
    capture = replace(truth, v_w=np.full_like(truth.v_w, np.nan))
    imu, seconds = recording.imu, 1e-9 * (recording.imu.stamps_ns - recording.imu.stamps_ns[0])
    if faulty:
        later = [np.interp(seconds + EARLY_S, seconds, axis) for axis in imu.acc.T]
        imu = ImuSamples(imu.stamps_ns, imu.gyro, np.stack(later, axis=1))
    return load_track(replace(recording, imu=imu, truths={name: capture}), "mocap", device)


def without_common_rotation(gyro, acc):
    """Both matrices in the gyroscope's own axes: a rotation of both sensors is one of the marker,
    which audits estimate."""
    rotation = 0.5 * (gyro - gyro.T)
    return gyro - rotation, acc - rotation


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def test_constants_of_a_device_are_found():
    tracks = [captured(seed, faulty=True) for seed in (1, 2)]
    found = fitted_device(tracks[:1], tracks[1:])
    assert found is not None
    # An audit was made with the wrong samples and hides part of what they do wrong.
    np.testing.assert_allclose(found.gyro, SHAPE_GYRO - np.eye(3), rtol=0.4, atol=7e-4)
    np.testing.assert_allclose(found.acc, SHAPE_ACC - np.eye(3), rtol=0.4, atol=1.5e-3)
    assert found.acc_early_s == pytest.approx(EARLY_S, rel=0.4)
    again = refined_device(found, lambda device: [captured(seed, True, device) for seed in (1, 2)])
    gyro, acc = without_common_rotation(again.gyro, again.acc)
    expected_gyro, expected_acc = without_common_rotation(SHAPE_GYRO - np.eye(3), SHAPE_ACC)
    np.testing.assert_allclose(gyro, expected_gyro, atol=3e-4)
    np.testing.assert_allclose(acc, expected_acc - np.eye(3), atol=1e-3)
    assert again.acc_early_s == pytest.approx(EARLY_S, rel=0.1)


def test_a_calibrated_device_has_none():
    tracks = [captured(seed, faulty=False) for seed in (3, 4)]
    assert fitted_device(tracks[:1], tracks[1:]) is None
