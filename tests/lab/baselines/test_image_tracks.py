"""Tracks from rendered images against the true motion of their camera."""

import numpy as np

from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames
from maci2.feature_tracks.simulated_tracks import POINTS
from maci2.geometry import se3_inv
from maci2.sensors import truth_at
from maci2.vision.odometry import StereoOdometry, even_keyframes
from maci2_lab.baselines.image_tracks import FREE_PX, image_tracks


def test_points_are_followed_to_where_the_true_camera_sees_them(rendered):
    recording = open_recording(rendered)
    odometry = StereoOdometry(stereo_frames(recording), recording.rig)
    stamps_ns = even_keyframes(odometry.stamps_ns, 0.2)[:5]
    tracks = image_tracks(odometry, stamps_ns)
    truth = truth_at(recording.truth(), stamps_ns, 0.1)
    Ts_w_c = truth.Ts_w_b @ odometry.rectification.T_b_cr
    assert (tracks.seen.sum(axis=0) <= POINTS).all()
    assert tracks.seen.any(axis=1).all()
    errors = []
    for k in range(len(stamps_ns) - 1):
        both = np.isfinite(tracks.depths[:, k]) & tracks.seen[:, k + 1]
        z = tracks.depths[both, k][:, None]
        p = np.hstack([tracks.xy[both, k] * z, z, np.ones_like(z)])
        p = p @ (se3_inv(Ts_w_c[k + 1]) @ Ts_w_c[k]).T
        expected, found = p[:, :2] / p[:, 2:3], tracks.xy[both, k + 1]
        errors.append(tracks.focal_px * np.linalg.norm(expected - found, axis=1))
    errors = np.concatenate(errors)
    assert len(errors) > 60
    assert np.median(errors) < 0.3
    assert (errors < 3.0).mean() > 0.95
    # New points keep their distance to those that are followed.
    uv = tracks.focal_px * tracks.xy[:, 2]
    new = tracks.seen[:, 2] & ~tracks.seen[:, 1]
    old = tracks.seen[:, 2] & tracks.seen[:, 1]
    if new.any():
        distances = np.linalg.norm(uv[new][:, None] - uv[old][None], axis=2)
        assert distances.min() > FREE_PX
    stds_px = tracks.focal_px * np.sqrt(tracks.covs[tracks.seen][:, 0, 0])
    assert ((stds_px > 0.003) & (stds_px < 30.0)).all()
    # Two keyframes by the estimator on tracks: the same motion as the truth's.
    poses = tracks.relative_poses()
    assert poses.measured.all()
    true_step = se3_inv(Ts_w_c[0]) @ Ts_w_c[1]
    np.testing.assert_allclose(poses.Ts_ck_ck1[0], true_step, atol=0.01)
