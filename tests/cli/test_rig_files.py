"""Rigs that people come with: cameras not yet placed on the IMU, and a stated time offset."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from scipy.spatial.transform import Rotation
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.errors import CalibrationError
from maci2.live import OnlineInitializer
from maci2.rigs import write_rig
from maci2.sensors import poses_at
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

LATE_NS = 20_000_000
"""Images are stamped so much late: t_imu = t_camera - 20 ms."""


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)


def run(*words) -> str:
    result = invoke(*words)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A recording whose image timestamps are late, with the trajectory that an odometry on these
    images would write, and two rigs: as it is, and one that states the offset."""
    folder = tmp_path_factory.mktemp("late")
    recording = simulate(SimulationConfig(duration_s=22.0, seed=5))
    stamps_ns = recording.camera_stamps_ns[0]
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    Ts_w_c = poses_at(truth.stamps_ns, truth.Ts_w_b, stamps_ns, 0.06) @ T_b_c
    with (folder / "path.txt").open("w") as file:
        for stamp_ns, T in zip(stamps_ns + LATE_NS, Ts_w_c, strict=True):
            quat_xyzw = Rotation.from_matrix(T[:3, :3]).as_quat()
            numbers = " ".join(f"{value:.9f}" for value in (*T[:3, 3], *quat_xyzw))
            file.write(f"{stamp_ns // NS}.{stamp_ns % NS:09d} {numbers}\n")
    moved = tuple(stamps + LATE_NS for stamps in recording.camera_stamps_ns)
    write_euroc(replace(recording, camera_stamps_ns=moved), folder / "seq")
    stated = replace(recording.rig, time_offset_s=-LATE_NS / NS)
    write_rig(folder / "stated", stated, "kalibr")
    write_rig(folder / "plain", recording.rig, "kalibr")
    return folder


def calibrated(late, rig, tmp_path, name):
    output = run(
        *("calibrate", late / "seq", "--vision", f"trajectory:{late / 'path.txt'}"),
        *("--window", 20, "--rig", rig, "--json", tmp_path / f"{name}.json"),
        *("-o", tmp_path / f"{name}.yaml"),
    )
    return output, json.loads((tmp_path / f"{name}.json").read_text())


def test_the_offset_found_is_the_same_whether_stated_or_not(late, tmp_path):
    _, plain = calibrated(late, late / "plain", tmp_path, "plain")
    output, stated = calibrated(late, late / "stated", tmp_path, "stated")
    assert plain["time_offset_s"] == pytest.approx(-0.02, abs=5e-4)
    assert stated["time_offset_s"] == pytest.approx(plain["time_offset_s"], abs=5e-5)
    assert stated["stated_time_offset_s"] == -0.02
    assert "-20.0" in output
    for name in ("plain", "stated"):
        chain = yaml.safe_load((tmp_path / f"{name}.yaml").read_text())
        assert chain["cam0"]["timeshift_cam_imu"] == pytest.approx(-0.02, abs=5e-4)
    np.testing.assert_allclose(stated["T_b_c"], plain["T_b_c"], atol=2e-3)


def test_what_calibrate_writes_mends_what_init_does(late, tmp_path):
    """Without an estimate of the offset: 20 ms damage the velocity, stated they do not."""
    calibrated(late, late / "plain", tmp_path, "found")
    write_rig(tmp_path, open_recording(late / "seq", late / "plain").rig, "kalibr")
    velocity = {}
    for name, rig in (("not stated", late / "plain"), ("found", tmp_path / "found.yaml")):
        words = ("--vision", f"trajectory:{late / 'path.txt'}", "--rig", rig)
        invoke("init", late / "seq", *words, "--start", 3, "--json", tmp_path / "init.json")
        velocity[name] = json.loads((tmp_path / "init.json").read_text())["errors"]["velocity_rmse"]
    assert velocity["found"] < 0.02
    assert velocity["not stated"] > 2.0 * velocity["found"]


def test_check_measures_what_is_left_of_a_stated_offset(late):
    words = ("check", late / "seq", "--vision", f"trajectory:{late / 'path.txt'}")
    output = invoke(*words, "--rig", late / "plain").output
    assert "camera-IMU time offset: found -20.0" in output
    assert "put timeshift_cam_imu: -0.020" in output
    output = run(*words, "--rig", late / "stated")
    assert "shifted by the stated -20.000 ms" in output
    assert "found -20.0" not in output


def test_vo_writes_the_stamps_of_the_images_and_readers_move_them(rendered, tmp_path):
    rig = replace(open_recording(rendered).rig, time_offset_s=-0.02)
    write_rig(tmp_path / "rig", rig, "kalibr")
    words = ("--rig", tmp_path / "rig")
    run("vo", rendered, "-o", tmp_path / "poses.npz", *words)
    with np.load(tmp_path / "poses.npz") as file:
        stamps_ns = np.unique(file["stamps_ns"])
    assert np.isin(stamps_ns, open_recording(rendered).camera_stamps_ns[0]).all()
    vision = f"measurements:{tmp_path / 'poses.npz'}"
    run("init", rendered, "--vision", vision, *words, "--json", tmp_path / "init.json")
    used = json.loads((tmp_path / "init.json").read_text())["stamps_ns"]
    assert np.isin(used, stamps_ns - LATE_NS).all()


@pytest.fixture(scope="module")
def cameras_only(late):
    """What Kalibr's camera calibration writes: no camera has T_cam_imu."""
    folder = late / "cameras_only"
    rig = open_recording(late / "seq", late / "stated").rig
    T_c0_b = np.linalg.inv(rig.cameras[0].T_b_c)
    cameras = tuple(replace(camera, T_b_c=T_c0_b @ camera.T_b_c) for camera in rig.cameras)
    write_rig(folder, replace(rig, cameras=cameras, extrinsics_known=False), "kalibr")
    assert "T_cam_imu:" not in (folder / "camchain.yaml").read_text()
    return folder


def test_cameras_alone_are_calibrated_and_the_file_then_serves_init(late, cameras_only, tmp_path):
    output, record = calibrated(late, cameras_only, tmp_path, "found")
    assert "difference" not in output
    assert "errors" not in record
    true = open_recording(late / "seq").rig
    write_rig(tmp_path / "imu", true, "kalibr")
    found = open_recording(late / "seq", tmp_path / "found.yaml").rig
    assert found.extrinsics_known
    for camera, given in zip(found.cameras, true.cameras, strict=True):
        np.testing.assert_allclose(camera.T_b_c[:3, 3], given.T_b_c[:3, 3], atol=0.005)
        np.testing.assert_allclose(camera.T_b_c[:3, :3], given.T_b_c[:3, :3], atol=0.002)
    words = ("--vision", f"trajectory:{late / 'path.txt'}", "--start", 3)
    assert "verdict: ok" in run("init", late / "seq", *words, "--rig", tmp_path / "found.yaml")


@pytest.mark.parametrize("command", ["init", "evaluate"])
def test_initialization_refuses_cameras_alone_and_says_what_to_do(command, late, cameras_only):
    words = ("--vision", f"trajectory:{late / 'path.txt'}", "--rig", cameras_only)
    error = invoke(command, late / "seq", *words).exception
    assert isinstance(error, CalibrationError)
    assert "no camera has T_cam_imu" in str(error)
    assert "Run `maci2 calibrate` with this file as --rig first" in str(error)


def test_live_refuses_cameras_alone(late, cameras_only):
    rig = open_recording(late / "seq", cameras_only).rig
    with pytest.raises(CalibrationError, match="Run `maci2 calibrate`"):
        OnlineInitializer(rig)


def test_truth_cannot_stand_in_for_cameras_whose_place_is_not_known(late, cameras_only):
    words = ("calibrate", late / "seq", "--vision", "truth:0.05,0.003", "--rig", cameras_only)
    assert "needed for camera motion from ground truth" in str(invoke(*words).exception)


def test_check_takes_cameras_alone_and_says_what_comes_next(late, cameras_only):
    words = ("check", late / "seq", "--rig", cameras_only)
    assert "the camera-IMU extrinsics are unknown" in run(*words)
    output = run(*words, "--vision", f"trajectory:{late / 'path.txt'}")
    assert "ERROR" not in output
    assert "look inverted" not in output
    assert "Run `maci2 calibrate` to estimate them" in output


def test_a_vins_fusion_file_as_shipped_serves_with_the_imus_rate(late, tmp_path):
    """Its noise is of single samples, at a rate that it does not state."""
    rig = open_recording(late / "seq").rig
    config = write_rig(tmp_path / "vins", rig, "vins-fusion")[0]
    own = ("imu_rate", "acc_noise", "gyr_noise", "acc_random", "gyr_random")
    lines = [line for line in config.read_text().splitlines() if not line.startswith(own)]
    config.write_text("\n".join(lines))
    out = run("convert", config, tmp_path / "kalibr", "--to", "kalibr", "--imu-rate", 200)
    assert "imu.yaml" in out
    imu = yaml.safe_load((tmp_path / "kalibr" / "imu.yaml").read_text())["imu0"]
    assert imu["accelerometer_noise_density"] == pytest.approx(rig.imu.density_acc)
    cameras = run("convert", config, tmp_path / "cameras", "--to", "kalibr")
    assert "imu.yaml" not in cameras
    failed = invoke("convert", config, tmp_path / "orb", "--to", "orbslam3")
    assert "does not state the IMU noise" in str(failed.exception)
    assert "--imu-rate HZ" in str(failed.exception)


def test_a_rig_whose_noise_is_not_known_is_checked_but_not_estimated_with(late, tmp_path):
    write_rig(tmp_path, replace(open_recording(late / "seq").rig, noise_known=False), "kalibr")
    assert not (tmp_path / "imu.yaml").exists()
    # The recording states its own noise, which stands.
    assert open_recording(late / "seq", tmp_path).rig.noise_known
    alone = replace(open_recording(late / "seq").rig, noise_known=False)
    with pytest.raises(CalibrationError, match="does not state the IMU noise"):
        OnlineInitializer(alone)


def test_options_replace_what_a_recording_states(late):
    given = ("--imu-noise", "1e-3,1e-2,1e-4,1e-3", "--imu-rate", "200")
    vision = ("--vision", f"trajectory:{late / 'path.txt'}", "--rig", late / "stated")
    plain = run("init", late / "seq", *vision, "--start", 3)
    noisy = run("init", late / "seq", *vision, "--start", 3, *given)
    assert plain != noisy
    wrong = invoke("init", late / "seq", *vision, "--T-b-c", "1,2,3")
    assert "--T-b-c has 3 numbers" in str(wrong.exception)
