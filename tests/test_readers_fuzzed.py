"""Every reader, on damaged copies of small files: an answer or a Maci2Error, never anything else.

A few cases each in the default run, at least 2000 each in the slow one.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
import pytest
from rig_files import (
    BASALT,
    CAMERA_INFO,
    D435I,
    FOUR_SEASONS,
    IMU_ERRORS,
    MSCKF,
    PINHOLE,
    RECTIFIED,
    VINS_LENS,
    ZED,
    oak,
)

from bag_files import recording_items, write_items
from fuzzing import BINARY, TEXT, Mutator, fuzz
from helpers import resized
from maci2.datasets import open_recording, open_rig, read_trajectory
from maci2.datasets.euroc import COVARIANCE_FILE, read_truth_folder
from maci2.datasets.frames import read_image, stereo_frames
from maci2.datasets.images import grey_image
from maci2.datasets.tables import read_imu_text
from maci2.feature_tracks.tracks import load_tracks
from maci2.imu.learned_model import WEIGHTS as IMU_WEIGHTS
from maci2.imu.learned_model import load_imu_model
from maci2.imu.model_choice import read_measured_noise
from maci2.rigs import write_rig
from maci2.rigs.convert import convert_rig
from maci2.simulation import SimulationConfig, simulate
from maci2.tools.ground_truth import audit_files
from maci2.tools.ground_truth.audit import AuditedTruth, audit_ground_truth
from maci2.tools.ground_truth.audit_files import write_audit
from maci2.tools.ground_truth.capture import open_capture
from maci2.vision import load_relative_poses
from maci2.vision.covariance import BUNDLED, covariance_model
from maci2.vision.covariance import WEIGHTS as VISION_WEIGHTS
from maci2.vision.odometry import load_measured, save_measured
from maci2.vision.relative_pose import unmeasured
from maci2_lab.experiments.store import Store, write_result
from maci2_lab.reports.experiments_page import read_runs
from tools.ground_truth.faulty_truths import TruthFaults, recording_with

SMALL = Path(__file__).parent / "data"
SIZE = (96, 64)
PIXELS = np.random.default_rng(1).integers(0, 255, SIZE[::-1], dtype=np.uint8)


@dataclass(frozen=True)
class Target:
    """A reader and the file that it is given damaged."""

    read: Callable[[], object]
    file: Path
    mutators: tuple[Mutator, ...] = TEXT


def folder_target(name: str, file: str) -> Callable[[Path], Target]:
    """A committed recording, one file of which is damaged."""

    def make(folder: Path) -> Target:
        copy = Path(shutil.copytree(SMALL / name, folder / name))
        return Target(lambda: open_recording(copy), copy / file)

    return make


def rig_target(tool: str, file: str) -> Callable[[Path], Target]:
    """Files that this package writes for another tool."""

    def make(folder: Path) -> Target:
        write_rig(folder, simulate(SimulationConfig(duration_s=0.5)).rig, tool)
        return Target(lambda: open_rig(folder), folder / file)

    return make


def bag_target(kind: str, file: str) -> Callable[[Path], Target]:
    def make(folder: Path) -> Target:
        made = simulate(SimulationConfig(duration_s=0.2, camera_rate_hz=10.0))
        cameras = tuple(resized(camera, (16, 12)) for camera in made.rig.cameras)
        made = replace(made, rig=replace(made.rig, cameras=cameras))
        image = PIXELS[:12, :16]
        path = folder / ("walk.bag" if kind == "ros1" else "walk")
        write_items(
            path,
            kind,
            lambda bag: recording_items(bag, made, lambda *_: image, truth="/vicon"),
        )
        write_rig(folder / "rig", made.rig, "kalibr")

        def read() -> object:
            recording = open_recording(path, folder / "rig", "truth=/vicon")
            return stereo_frames(recording).pair(0)

        found = path if kind == "ros1" else next(path.glob(file))
        text = file.endswith(".yaml")
        return Target(read, found, TEXT if text else BINARY)

    return make


def device_target(name: str, text: str) -> Callable[[Path], Target]:
    """A calibration that another tool or a device wrote."""

    def make(folder: Path) -> Target:
        file = folder / name
        file.write_text(text)
        return Target(lambda: open_rig(file), file)

    return make


def imu_errors_target(folder: Path) -> Target:
    write_rig(folder, simulate(SimulationConfig(duration_s=0.5)).rig, "kalibr")
    file = folder / "imu.yaml"
    file.write_text(IMU_ERRORS)
    return Target(lambda: open_rig(folder), file)


def vbr_target(folder: Path) -> Target:
    """VBR's calibration: the bags beside it are not reached before it is read."""
    made = simulate(SimulationConfig(duration_s=0.2, camera_rate_hz=10.0))
    cameras = tuple(resized(camera, (16, 12)) for camera in made.rig.cameras)
    made = replace(made, rig=replace(made.rig, cameras=cameras))
    camera, noise = made.rig.cameras[0], made.rig.imu
    sensor = {
        "T_b": camera.T_b_c.tolist(),
        "intrinsics": camera.intrinsics.tolist(),
        "distortion_coeffs": camera.distortion.tolist(),
        "resolution": list(camera.resolution),
    }
    imu = {
        "T_b": np.eye(4).tolist(),
        "accelerometer_noise_density": noise.density_acc,
        "accelerometer_random_walk": noise.walk_acc,
        "gyroscope_noise_density": noise.density_gyro,
        "gyroscope_random_walk": noise.walk_gyro,
        "update_rate": 200.0,
    }
    lidar = {"T_b": np.eye(4).tolist()}
    content = {"cam_l": sensor, "cam_r": sensor, "imu": imu, "lidar": lidar}
    file = folder / "vbr_calib.yaml"
    file.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in content.items()))
    write_items(folder / "a_00.bag", "ros1", lambda bag: recording_items(bag, made))
    return Target(lambda: open_recording(folder, topics="imu=/imu0"), file)


def trajectory_target(folder: Path) -> Target:
    file = Path(shutil.copy(SMALL / "trajectory.txt", folder))
    return Target(lambda: read_trajectory(file), file)


def image_target(suffix: str) -> Callable[[Path], Target]:
    def make(folder: Path) -> Target:
        file = folder / f"1{suffix}"
        file.write_bytes(cv2.imencode(suffix, PIXELS)[1].tobytes())
        return Target(lambda: read_image(file, SIZE), file, BINARY)

    return make


def message_target(folder: Path) -> Target:
    """A compressed image of a message."""
    file = folder / "1.jpg"
    file.write_bytes(cv2.imencode(".jpg", PIXELS)[1].tobytes())

    def read() -> object:
        data = np.frombuffer(file.read_bytes(), np.uint8)
        return grey_image(SimpleNamespace(format="jpeg", data=data), "bag")

    return Target(read, file, BINARY)


def measured_file(folder: Path) -> Path:
    poses = [unmeasured((k * 10**8, (k + 1) * 10**8), "dark") for k in range(4)]
    save_measured(folder / "poses.npz", poses, "settings")
    return folder / "poses.npz"


def poses_target(folder: Path) -> Target:
    file = measured_file(folder)
    return Target(lambda: load_relative_poses(file), file, BINARY)


def tracks_target(folder: Path) -> Target:
    file, cov = folder / "tracks.npz", np.tile(1e-6 * np.eye(2), (2, 1, 1))
    xy, stamps_ns, right = np.zeros((2, 2)), np.array([0, 10**8]), np.ones(2, dtype=bool)
    names = ("track", "stamp_ns", "xy", "cov", "seen_right", "xy_right", "cov_right")
    arrays = (stamps_ns * 0, stamps_ns, xy, cov, right, xy, cov)
    lens = {"focal_px": 400.0, "baseline": 0.1}
    np.savez(file, **dict(zip(names, arrays, strict=True)), **lens)
    return Target(lambda: load_tracks(file).tracks(stamps_ns), file, BINARY)


def unfinished_target(folder: Path) -> Target:
    file = measured_file(folder)
    return Target(lambda: load_measured(file), file, BINARY)


def imu_weights_target(folder: Path) -> Target:
    file = folder / "weights.onnx"
    file.write_bytes((IMU_WEIGHTS / "euroc.onnx").read_bytes())
    return Target(lambda: load_imu_model(file).card(), file, (*BINARY, *TEXT[5:9]))


def match_weights_target(folder: Path) -> Target:
    file = folder / "weights.onnx"
    file.write_bytes((VISION_WEIGHTS / BUNDLED).read_bytes())
    return Target(lambda: covariance_model("learned", file), file, (*BINARY, *TEXT[5:9]))


def biases_target(folder: Path) -> Target:
    file = folder / "init.json"
    file.write_text(json.dumps({"gyro_bias": [0.1, 0.2, 0.3], "acc_bias": [0.0, -1.5, 2.0]}))
    rig = simulate(SimulationConfig(duration_s=0.5)).rig
    return Target(lambda: convert_rig(rig, folder / "out", "openvins", file), file)


@cache
def small_audit() -> AuditedTruth:
    """The audit of a simulated ground truth, made once."""
    return audit_ground_truth(recording_with(TruthFaults(), seed=1, duration_s=12.0))


def truth_covariance_target(folder: Path) -> Target:
    truth = folder / "audited"
    write_audit(small_audit(), truth)
    return Target(lambda: read_truth_folder(truth), truth / COVARIANCE_FILE, BINARY)


def kept_audit_target(folder: Path) -> Target:
    file = folder / "kept.npz"
    audit_files.keep(file, small_audit())
    return Target(lambda: audit_files.read_kept(file, "audited"), file, BINARY)


def capture_target(source: str, file: str) -> Callable[[Path], Target]:
    """What tracked the body, beside the recording's ground truth."""

    def make(folder: Path) -> Target:
        copy = Path(shutil.copytree(SMALL / "euroc_mini", folder / "euroc_mini"))
        tracker = copy / "mav0" / source
        tracker.mkdir()
        rows = "\n".join(f"{10**18 + k * 10**7},{k},{k},{k}{',1,0,0,0'}" for k in range(12))
        head = "#timestamp [ns], p_RS_R_x [m], p_RS_R_y [m], p_RS_R_z [m]"
        quaternion = "".join(f", q_RS_{axis} []" for axis in "wxyz")
        (tracker / "data.csv").write_text(head + quaternion + "\n" + rows + "\n")
        pose = "[1, 0, 0, 0.1, 0, 1, 0, 0.2, 0, 0, 1, 0.3, 0, 0, 0, 1]"
        (tracker / "sensor.yaml").write_text(f"T_BS:\n  cols: 4\n  rows: 4\n  data: {pose}\n")
        recording = open_recording(copy)
        return Target(lambda: open_capture(recording, source), tracker / file)

    return make


def noise_target(folder: Path) -> Target:
    file = folder / "noise.json"
    densities = {key: {"axes": [1e-3, 1e-3, 2e-3]} for key in ("density_gyro", "density_acc")}
    walks = {key: {"value": 1e-5} for key in ("walk_gyro", "walk_acc")}
    file.write_text(json.dumps({**densities, **walks}))
    return Target(lambda: read_measured_noise(file), file)


def imu_table_target(folder: Path) -> Target:
    file = folder / "imu.csv"
    rows = "\n".join(f"{k * 0.005:.3f},0.1,0.2,-0.3,0.0,0.1,9.8" for k in range(20))
    file.write_text("time [s],gx (deg/s),gy (deg/s),gz (deg/s),ax [g],ay [g],az [g]\n" + rows)
    return Target(lambda: read_imu_text(file), file)


def checksum_target(folder: Path) -> Target:
    file = imu_weights_target(folder).file
    digest = file.with_name(file.name + ".sha256")
    digest.write_text(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  weights.onnx\n")
    return Target(lambda: load_imu_model(file), digest)


def stored_result_target(folder: Path) -> Target:
    """A result that an interrupted `maci2 reproduce` goes on from."""
    task = {"recording": "V1_01_easy", "seed": 0}
    Store(folder).save("one", task, {"rows": [{"start_ns": 1, "gravity_deg": 0.5}]})
    return Target(lambda: Store(folder).load("one", task), folder / "results" / "one.json")


def experiment_target(folder: Path) -> Target:
    """What `maci2 report` reads."""
    file = folder / "experiment.json"
    write_result(file, {"name": "gyro-bias", "results": [], "tables": [], "claims": []})
    return Target(lambda: read_runs([folder]), file)


READERS: dict[str, Callable[[Path], Target]] = {
    "IMU samples": folder_target("euroc_mini", "mav0/imu0/data.csv"),
    "list of images": folder_target("euroc_mini", "mav0/cam0/data.csv"),
    "ground truth": folder_target("euroc_mini", "mav0/state_groundtruth_estimate0/data.csv"),
    "IMU sensor.yaml": folder_target("euroc_mini", "mav0/imu0/sensor.yaml"),
    "camera sensor.yaml": folder_target("euroc_mini", "mav0/cam0/sensor.yaml"),
    "truth sensor.yaml": folder_target(
        "euroc_mini", "mav0/state_groundtruth_estimate0/sensor.yaml"
    ),
    "motion capture": folder_target("tumvi_mini", "mav0/mocap0/data.csv"),
    "TUM-VI camchain": folder_target("tumvi_mini", "dso/camchain.yaml"),
    "TUM-VI IMU": folder_target("tumvi_mini", "dso/imu_config.yaml"),
    "Kalibr camchain": rig_target("kalibr", "camchain-imucam.yaml"),
    "Kalibr IMU": rig_target("kalibr", "imu.yaml"),
    "OpenVINS": rig_target("openvins", "estimator_config.yaml"),
    "OpenVINS cameras": rig_target("openvins", "kalibr_imucam_chain.yaml"),
    "OpenVINS IMU": rig_target("openvins", "kalibr_imu_chain.yaml"),
    "VINS-Fusion": rig_target("vins-fusion", "stereo_imu_config.yaml"),
    "VINS-Fusion camera": rig_target("vins-fusion", "cam0.yaml"),
    "ORB-SLAM3": rig_target("orbslam3", "stereo_inertial.yaml"),
    "VBR calibration": vbr_target,
    "Basalt": device_target("calibration.json", json.dumps(BASALT)),
    "OAK": device_target("calib.json", oak()),
    "ZED": device_target("SN1.conf", ZED),
    "RealSense": device_target("d435i.txt", D435I),
    "VINS-Mono": device_target("mono.yaml", "imu_topic: /imu0\n" + VINS_LENS + PINHOLE),
    "MSCKF-VIO": device_target("camchain-imucam.yaml", MSCKF),
    "4Seasons": device_target("camchain.yaml", FOUR_SEASONS),
    "ROS CameraInfo": device_target("left.yaml", CAMERA_INFO),
    "ORB-SLAM3 rectified": device_target("rectified.yaml", RECTIFIED),
    "IMU scale and misalignment": imu_errors_target,
    "truth covariance": truth_covariance_target,
    "kept audit": kept_audit_target,
    "laser tracker": capture_target("leica0", "data.csv"),
    "tracked marker": capture_target("vicon0", "sensor.yaml"),
    "measured noise": noise_target,
    "IMU table": imu_table_target,
    "checksum of weights": checksum_target,
    "stored result": stored_result_target,
    "experiment": experiment_target,
    "trajectory": trajectory_target,
    "relative poses": poses_target,
    "feature tracks": tracks_target,
    "unfinished poses": unfinished_target,
    "ROS 1 bag": bag_target("ros1", "walk.bag"),
    "ROS 2 bag, sqlite3": bag_target("sqlite3", "*.db3"),
    "ROS 2 bag, mcap": bag_target("mcap", "*.mcap"),
    "ROS 2 metadata": bag_target("sqlite3", "metadata.yaml"),
    "PNG": image_target(".png"),
    "JPEG": image_target(".jpg"),
    "PGM": image_target(".pgm"),
    "BMP": image_target(".bmp"),
    "image message": message_target,
    "IMU weights": imu_weights_target,
    "match covariance weights": match_weights_target,
    "biases": biases_target,
}
SLOW_TO_OPEN = {"ROS 1 bag", "ROS 2 bag, sqlite3", "ROS 2 bag, mcap", "ROS 2 metadata",
                "IMU weights", "match covariance weights"}  # fmt: skip


def described(failures) -> str:
    return "\n".join(str(failure) for failure in failures[:5])


@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_read_or_refused(reader, tmp_path):
    target = READERS[reader](tmp_path)
    target.read()
    count = 4 if reader in SLOW_TO_OPEN else 12
    failures = fuzz(target.read, target.file, count, seed=7, mutators=target.mutators)
    assert not failures, described(failures)


@pytest.mark.soak
@pytest.mark.parametrize("reader", READERS)
def test_two_thousand_damaged_files_are_read_or_refused(reader, tmp_path):
    target = READERS[reader](tmp_path)
    failures = fuzz(target.read, target.file, 2000, seed=1, mutators=target.mutators)
    assert not failures, f"{len(failures)} of 2000\n{described(failures)}"
