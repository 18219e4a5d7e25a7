"""Real images as a stream."""

import numpy as np
import pytest

from maci2.datasets import open_recording
from maci2.datasets.image_files import stereo_frames
from maci2.estimation import initialize
from maci2.imu import raw_model
from maci2.pipeline.gyro_rotation import rotation_predictor
from maci2.pipeline.online import OnlineInitializer
from maci2.pipeline.online.initializer import BEFORE_S
from maci2.pipeline.online.replay import replay
from maci2.types import NS
from maci2.vision.odometry import StereoOdometry
from maci2.vision.rectify import rectified_extrinsics


@pytest.mark.dataset
def test_the_first_result_of_a_stream_is_that_of_the_recording(data_root):
    recording = open_recording(data_root / "euroc" / "MH_01_clip")
    results = []
    with OnlineInitializer(recording.rig, on_result=results.append) as online:
        replay(recording, online, speed=20.0)
        assert online.wait(30.0) is not None
        assert online.status.dropped_pairs == 0
    first = results[0]
    stamps_ns = first.state.stamps_ns
    wanted_ns = np.linspace(stamps_ns[0], stamps_ns[0] + 2.5 * NS, 10)
    assert np.abs(stamps_ns - wanted_ns).max() <= 0.05 * NS
    odometry = StereoOdometry(
        stereo_frames(recording), recording.rig, predict_rotation=rotation_predictor(recording)
    )
    vision = odometry.poses(stamps_ns)
    start_ns, end_ns = int(stamps_ns[0]), int(stamps_ns[-1])
    samples = recording.imu.between(start_ns - round(BEFORE_S * NS), end_ns)
    samples = samples.between(max(int(samples.stamps_ns[0]), start_ns - NS // 2), end_ns)
    imu = raw_model(samples, recording.rig.imu).between(start_ns, end_ns)
    offline = initialize(imu, vision, rectified_extrinsics(recording.rig))
    assert first.verdict.status == offline.verdict.status == "ok"
    np.testing.assert_allclose(first.state.gravity_c0, offline.state.gravity_c0, atol=1e-9)
    np.testing.assert_allclose(first.state.velocity_b, offline.state.velocity_b, atol=1e-9)


@pytest.mark.dataset
def test_a_real_device_at_rest_is_recognised(data_root):
    recording = open_recording(data_root / "euroc" / "MH_01_static_clip")
    with OnlineInitializer(recording.rig) as online:
        replay(recording, online, speed=20.0)
        assert online.drain(30.0)
        assert online.status.standing_still
