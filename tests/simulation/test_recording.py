from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from scipy.stats import chi2

from helpers import unchecked
from maci2.datasets import open_recording, write_euroc
from maci2.errors import DatasetError, OptionError, OutputError
from maci2.geometry import so3_exp, so3_log
from maci2.simulation import MotionKind, SimulationConfig, simulate
from maci2.types import GRAVITY_W

KINDS = get_args(MotionKind)
PERFECT = SimulationConfig(white_noise=False, bias_walk=False, bias_gyro_std=0, bias_acc_std=0)


def imu_rows(recording):
    """Rows of the truth that fall on IMU timestamps."""
    return np.isin(recording.truth().stamps_ns, recording.imu.stamps_ns)


def assert_unit_variance(whitened):
    """Sum of squares inside its 99.9 % chi-square band."""
    low, high = chi2.ppf([0.0005, 0.9995], whitened.size)
    assert low < np.sum(whitened**2) < high


def integrate(recording):
    """Largest error of mid-point dead reckoning: rotation [rad], velocity [m/s], position [m]."""
    imu, truth, rows = recording.imu, recording.truth(), imu_rows(recording)
    Ts_w_b, v_w_true = truth.Ts_w_b[rows], truth.v_w[rows]
    dt = np.diff(imu.stamps_ns) * 1e-9
    R_w_b, p_w_b, v_w = Ts_w_b[0, :3, :3], Ts_w_b[0, :3, 3], v_w_true[0]
    errors = np.zeros((len(dt), 3))
    for k in range(len(dt)):
        R_next = R_w_b @ so3_exp(0.5 * (imu.gyro[k] + imu.gyro[k + 1]) * dt[k])
        a_w = 0.5 * (R_w_b @ imu.acc[k] + R_next @ imu.acc[k + 1]) + GRAVITY_W
        p_w_b = p_w_b + v_w * dt[k] + 0.5 * a_w * dt[k] ** 2
        v_w = v_w + a_w * dt[k]
        R_w_b = R_next
        errors[k] = (
            np.linalg.norm(so3_log(R_w_b.T @ Ts_w_b[k + 1, :3, :3])),
            np.linalg.norm(v_w - v_w_true[k + 1]),
            np.linalg.norm(p_w_b - Ts_w_b[k + 1, :3, 3]),
        )
    return errors.max(axis=0)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_integrate_to_the_truth_with_an_error_of_second_order(kind):
    coarse, fine = (
        integrate(simulate(replace(PERFECT, kind=kind, duration_s=2.0, imu_rate_hz=rate)))
        for rate in (100.0, 200.0)
    )
    assert (fine < [2e-4, 2e-3, 2e-3]).all()
    moving = coarse > 1e-12
    assert (np.abs(coarse[moving] / fine[moving] - 4.0) < 0.2).all()


def test_a_body_at_rest_reads_gravity_upward():
    recording = simulate(replace(PERFECT, kind="static"))
    Rs_w_b = recording.truth().Ts_w_b[imu_rows(recording), :3, :3]
    force_w = np.einsum("nij,nj->ni", Rs_w_b, recording.imu.acc)
    np.testing.assert_allclose(force_w.mean(axis=0), [0.0, 0.0, 9.81], atol=0.002)


def test_white_noise_has_the_declared_variance():
    config = SimulationConfig(duration_s=30.0, seed=5, imu_rate_hz=400.0)
    noisy, clean = simulate(config).imu, simulate(replace(config, white_noise=False)).imu
    noise = config.noise
    assert_unit_variance((noisy.gyro - clean.gyro) / (noise.density_gyro * np.sqrt(400.0)))
    assert_unit_variance((noisy.acc - clean.acc) / (noise.density_acc * np.sqrt(400.0)))


def test_bias_walk_has_the_declared_increments():
    config = SimulationConfig(duration_s=30.0, seed=6)
    recording = simulate(config)
    truth, rows = recording.truth(), imu_rows(recording)
    root_dt = np.sqrt(1.0 / 200.0)
    assert_unit_variance(np.diff(truth.bias_gyro[rows], axis=0) / config.noise.walk_gyro / root_dt)
    assert_unit_variance(np.diff(truth.bias_acc[rows], axis=0) / config.noise.walk_acc / root_dt)


def test_first_biases_have_the_declared_mean_and_spread():
    config = SimulationConfig(
        duration_s=0.1, bias_gyro=(0.1, 0.2, 0.3), bias_gyro_std=0.02, bias_acc_std=0.3
    )
    truths = [simulate(replace(config, seed=seed)).truth() for seed in range(300)]
    gyro = np.array([truth.bias_gyro[0] for truth in truths])
    assert_unit_variance((gyro - [0.1, 0.2, 0.3]) / 0.02)
    assert_unit_variance(np.array([truth.bias_acc[0] for truth in truths]) / 0.3)


def test_a_given_bias_is_added_to_every_sample():
    biased = simulate(replace(PERFECT, bias_gyro=(0.1, 0.0, -0.1), bias_acc=(0.0, 0.2, 0.3)))
    clean = simulate(PERFECT)
    shape = clean.imu.gyro.shape
    np.testing.assert_allclose(
        biased.imu.gyro - clean.imu.gyro, np.broadcast_to([0.1, 0.0, -0.1], shape), atol=1e-14
    )
    np.testing.assert_allclose(
        biased.imu.acc - clean.imu.acc, np.broadcast_to([0.0, 0.2, 0.3], shape), atol=1e-14
    )
    np.testing.assert_array_equal(biased.truth().bias_acc[-1], [0.0, 0.2, 0.3])


def test_scale_and_misalignment_act_on_the_true_rate_and_force():
    shape_gyro = np.eye(3) + 0.01 * np.arange(9.0).reshape(3, 3)
    shape_acc = np.diag([1.01, 0.99, 1.02])
    clean = simulate(PERFECT).imu
    bent = simulate(replace(PERFECT, shape_gyro=shape_gyro, shape_acc=shape_acc)).imu
    np.testing.assert_allclose(bent.gyro[7], shape_gyro @ clean.gyro[7], atol=1e-14)
    np.testing.assert_allclose(bent.acc[7], shape_acc @ clean.acc[7], atol=1e-13)


def test_truth_is_exact_at_every_imu_and_camera_stamp():
    recording = simulate(SimulationConfig(duration_s=2.0))
    truth = recording.truth()
    assert np.isin(recording.imu.stamps_ns, truth.stamps_ns).all()
    assert all(np.isin(stamps, truth.stamps_ns).all() for stamps in recording.camera_stamps_ns)
    # A denser recording of the same motion has the same states at the same timestamps.
    dense = simulate(SimulationConfig(duration_s=2.0, imu_rate_hz=1000.0)).truth()
    _, rows, dense_rows = np.intersect1d(
        truth.stamps_ns, dense.stamps_ns, assume_unique=True, return_indices=True
    )
    assert len(rows) == len(truth)
    np.testing.assert_allclose(truth.Ts_w_b[rows], dense.Ts_w_b[dense_rows], atol=1e-14)
    np.testing.assert_allclose(truth.v_w[rows], dense.v_w[dense_rows], atol=1e-14)


def test_stamps_are_integers_at_the_asked_rates_with_images_between_samples():
    recording = simulate(SimulationConfig(duration_s=3.0, imu_rate_hz=300.0, camera_rate_hz=30.0))
    imu_ns, camera_ns = recording.imu.stamps_ns, recording.camera_stamps_ns[0]
    assert imu_ns.dtype == camera_ns.dtype == np.int64
    assert imu_ns[0] == 1_700_000_000_000_000_000
    assert imu_ns[-1] == imu_ns[0] + 3_000_000_000
    assert len(imu_ns) == 901
    assert camera_ns[0] == imu_ns[0] + 1_300_000
    assert camera_ns[-1] <= imu_ns[-1]
    # 1/300 s is not a whole number of nanoseconds: steps differ by one, but never drift.
    np.testing.assert_array_equal(np.unique(np.diff(imu_ns)), [3_333_333, 3_333_334])
    assert not np.isin(camera_ns, imu_ns).any()


def test_no_image_follows_the_last_imu_sample():
    recording = simulate(SimulationConfig(duration_s=2.503))
    assert recording.imu.stamps_ns[-1] - recording.imu.stamps_ns[0] == 2_500_000_000
    assert recording.camera_stamps_ns[0][-1] - recording.imu.stamps_ns[0] == 2_451_300_000


def test_images_can_fall_on_imu_samples():
    recording = simulate(SimulationConfig(duration_s=2.0, camera_offset_ns=0))
    assert np.isin(recording.camera_stamps_ns[0], recording.imu.stamps_ns).all()
    np.testing.assert_array_equal(recording.truth().stamps_ns, recording.imu.stamps_ns)


def test_switching_off_noise_leaves_the_motion_as_it_was():
    noisy, perfect = simulate(SimulationConfig()), simulate(PERFECT)
    np.testing.assert_array_equal(noisy.truth().Ts_w_b, perfect.truth().Ts_w_b)


def test_the_rig_looks_forward_with_the_right_camera_to_the_right():
    for lens, model in (("pinhole", "radtan"), ("fisheye", "equidistant")):
        rig = simulate(SimulationConfig(duration_s=1.0, lens=lens)).rig
        left, right = rig.cameras
        T_c0_c1 = np.linalg.inv(left.T_b_c) @ right.T_b_c
        assert left.distortion_model == right.distortion_model == model
        assert left.T_b_c[0, 2] > 0.99
        assert T_c0_c1[0, 3] == pytest.approx(0.11, abs=1e-3)
        assert rig.imu.rate_hz == 200.0


def written_bytes(config, folder):
    write_euroc(simulate(config), folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_same_seed_gives_the_same_bytes_and_another_seed_does_not(tmp_path):
    config = SimulationConfig(duration_s=2.0, seed=4)
    first = written_bytes(config, tmp_path / "first")
    assert first == written_bytes(config, tmp_path / "second")
    assert first != written_bytes(replace(config, seed=5), tmp_path / "third")


@pytest.mark.parametrize("lens", ["pinhole", "fisheye"])
def test_a_written_recording_reads_back_with_the_same_numbers(tmp_path, lens):
    written = simulate(SimulationConfig(duration_s=3.0, lens=lens))
    write_euroc(written, tmp_path / "seq")
    read = open_recording(tmp_path / "seq")

    np.testing.assert_array_equal(read.imu.stamps_ns, written.imu.stamps_ns)
    np.testing.assert_array_equal(read.imu.gyro, written.imu.gyro)
    np.testing.assert_array_equal(read.imu.acc, written.imu.acc)
    np.testing.assert_array_equal(read.camera_stamps_ns, written.camera_stamps_ns)
    assert read.rig.imu == written.rig.imu
    for camera, original in zip(read.rig.cameras, written.rig.cameras, strict=True):
        # A reader may bring rotations back to orthonormal, which moves the last bit.
        np.testing.assert_allclose(camera.T_b_c, original.T_b_c, atol=1e-15)
        np.testing.assert_array_equal(camera.intrinsics, original.intrinsics)
        np.testing.assert_array_equal(camera.distortion, original.distortion)
        assert camera.distortion_model == original.distortion_model
        assert camera.resolution == original.resolution

    truth, original = read.truth(), written.truth()
    np.testing.assert_array_equal(truth.stamps_ns, original.stamps_ns)
    np.testing.assert_array_equal(truth.Ts_w_b[:, :3, 3], original.Ts_w_b[:, :3, 3])
    # Through a quaternion and back.
    np.testing.assert_allclose(truth.Ts_w_b, original.Ts_w_b, atol=1e-15)
    for name in ("v_w", "bias_gyro", "bias_acc"):
        np.testing.assert_array_equal(getattr(truth, name), getattr(original, name))


def test_writing_refuses_a_folder_that_holds_something_and_leaves_it_alone(tmp_path):
    (tmp_path / "seq").mkdir()
    (tmp_path / "seq" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not an empty folder"):
        write_euroc(simulate(SimulationConfig(duration_s=1.0)), tmp_path / "seq")
    assert [path.name for path in tmp_path.rglob("*")] == ["seq", "notes.txt"]


def test_writing_into_an_empty_folder_works(tmp_path):
    (tmp_path / "seq").mkdir()
    write_euroc(simulate(SimulationConfig(duration_s=1.0)), tmp_path / "seq")
    assert (tmp_path / "seq" / "mav0" / "imu0" / "data.csv").is_file()


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    recording = simulate(SimulationConfig(duration_s=1.0))
    truth = recording.truth()
    broken = replace(recording, truths={"late": unchecked(truth, v_w=truth.v_w[:-1])})
    with pytest.raises(ValueError, match="dimension"):
        write_euroc(broken, tmp_path / "seq")
    assert list(tmp_path.iterdir()) == []


def test_writing_refuses_cameras_without_stamps(tmp_path):
    recording = replace(simulate(SimulationConfig(duration_s=1.0)), camera_stamps_ns=())
    with pytest.raises(DatasetError, match="2 cameras in its rig but timestamps of images of 0"):
        write_euroc(recording, tmp_path / "seq")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", "boat", "motion is 'boat'"),
        ("lens", "mirror", "lens is 'mirror'; choose one of pinhole, fisheye"),
        ("duration_s", 0.0, "duration_s is 0.0, needed above 0"),
        ("duration_s", 0.004, "gives one IMU sample"),
        ("imu_rate_hz", float("nan"), "imu_rate_hz is nan"),
        ("camera_rate_hz", -1.0, "camera_rate_hz is -1"),
        ("seed", -1, "seed is -1, needed at least 0"),
        ("bias_acc_std", -0.1, "bias_acc_std is -0.1"),
    ],
)
def test_a_meaningless_option_is_refused_by_name(field, value, message):
    with pytest.raises(OptionError, match=message):
        simulate(replace(SimulationConfig(duration_s=1.0), **{field: value}))
