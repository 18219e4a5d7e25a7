"""Calibration files written by other people, against parsers of their own: PyYAML and OpenCV's
FileStorage, with each tool's definition of its numbers written out here once more."""

import re
from collections import Counter
from itertools import product
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from maci2.errors import CalibrationError
from maci2.rigs import TOOLS, Given, read_any_rig, write_rig
from maci2.sensors import ImuNoise

pytestmark = pytest.mark.dataset

TOOL_NAMES = (
    "Kalibr", "OpenVINS", "VINS", "ORB-SLAM", "MSCKF-VIO", "Basalt", "OAK", "ROS", "4Seasons",
)  # fmt: skip


@pytest.fixture(scope="module")
def configs(data_root) -> Path:
    folder = data_root / "configs"
    if not folder.is_dir():
        pytest.skip("no folder configs")
    return folder


@pytest.fixture(scope="module")
def answers(configs):
    """The rig of every file, or the message that refuses it."""
    found = {}
    for path in sorted(path for path in configs.rglob("*") if path.is_file()):
        try:
            found[path] = read_any_rig(path)
        except CalibrationError as error:
            found[path] = str(error)
    return found


def plain(path: Path) -> dict:
    text = re.sub(r"^%.*$", "", path.read_text(errors="replace"), flags=re.MULTILINE)
    text = text.replace("!!opencv-matrix", "").replace("\t", "  ")
    text = re.sub(r"^(\s*[\w.]+):(?=[\[\w])", r"\1: ", text, flags=re.MULTILINE)
    return next(document for document in yaml.safe_load_all(text) if document is not None)


class Storage:
    """OpenCV's own reading of a file."""

    def __init__(self, path: Path) -> None:
        self.file = cv2.FileStorage(str(path), cv2.FILE_STORAGE_READ)

    def number(self, *keys: str) -> float | None:
        node = self.file.getNode(keys[0])
        for key in keys[1:]:
            node = node.getNode(key)
        return None if node.empty() else node.real()

    def matrix(self, key: str):
        node = self.file.getNode(key)
        return None if node.empty() else np.array(node.mat(), dtype=np.float64)


def close(T, expected, atol=1e-6):
    np.testing.assert_allclose(T, expected, rtol=0, atol=atol)


def test_no_file_ends_in_anything_but_a_rig_or_a_message_that_names_its_tool(answers):
    assert len(answers) >= 399
    for path, answer in answers.items():
        if isinstance(answer, str):
            first = answer.splitlines()[0].replace(str(path), "")
            assert any(name in first for name in TOOL_NAMES), answer
            assert "Input should be" not in answer


def test_as_many_files_are_read_as_hold_cameras(answers):
    read = sum(not isinstance(answer, str) for answer in answers.values())
    assert read >= 355
    for answer in answers.values():
        if isinstance(answer, str) and "cameras are missing" not in answer:
            assert re.search(r"file not found|noise density is 1\.1", answer), answer


def chains(answers):
    return {path: plain(path) for path in answers if re.search(r"^cam0:", path.read_text(), re.M)}


def test_chains_of_kalibr_openvins_and_msckf_vio_have_the_numbers_of_the_file(answers):
    counts = Counter()
    for path, data in chains(answers).items():
        openvins = "open_vins" in str(path)
        counts["openvins" if openvins else "kalibr"] += 1
        rig = answers[path]
        if isinstance(rig, str):
            counts["openvins refused" if openvins else "kalibr refused"] += 1
            continue
        entries = [data[f"cam{number}"] for number in range(len(rig.cameras))]
        assert f"cam{len(entries)}" not in data
        T_b_before = np.eye(4)
        for number, (camera, entry) in enumerate(zip(rig.cameras, entries, strict=True)):
            own = len(entry["intrinsics"]) - 4
            close(camera.intrinsics, entry["intrinsics"][own:], 1e-12)
            close(camera.model_parameters, entry["intrinsics"][:own], 1e-12)
            assert camera.camera_model == entry["camera_model"]
            assert camera.resolution == tuple(entry["resolution"])
            if any(entry["distortion_coeffs"]):
                close(camera.distortion, entry["distortion_coeffs"], 1e-12)
                assert camera.distortion_model == entry["distortion_model"]
            if "T_imu_cam" in entry:
                T_b_c = np.array(entry["T_imu_cam"], float).reshape(4, 4)
            elif "T_cam_imu" in entry:
                T_b_c = np.linalg.inv(np.array(entry["T_cam_imu"], float).reshape(4, 4))
            elif number:
                T_b_c = T_b_before @ np.linalg.inv(np.array(entry["T_cn_cnm1"]).reshape(4, 4))
            else:
                assert not rig.extrinsics_known
                T_b_c = np.eye(4)
            # Printed digits are rounded, and what is read is a rotation.
            close(camera.T_b_c, T_b_c, 1e-3)
            if np.abs(T_b_c[:3, :3] @ T_b_c[:3, :3].T - np.eye(3)).max() < 1e-9:
                close(camera.T_b_c, T_b_c)
            T_b_before = camera.T_b_c
        shifts = {entry.get("timeshift_cam_imu") for entry in entries} - {None}
        assert rig.time_offset_s == pytest.approx(min(shifts, default=0.0), abs=1e-3)
    assert counts["openvins"] - counts["openvins refused"] >= 26
    assert counts["openvins refused"] == 0
    assert counts["kalibr refused"] == 2, "both beside an IMU file in degrees per second"


def vins_camera(path: Path):
    """Model, intrinsics and distortion, as OpenCV reads them."""
    storage = Storage(path)
    kind = storage.file.getNode("model_type").string()
    focal = {
        "PINHOLE": ("fx", "fy", "cx", "cy"),
        "MEI": ("gamma1", "gamma2", "u0", "v0"),
        "KANNALA_BRANDT": ("mu", "mv", "u0", "v0"),
    }[kind]
    fisheye = kind == "KANNALA_BRANDT"
    group, names = (
        ("projection_parameters", ("k2", "k3", "k4", "k5"))
        if fisheye
        else ("distortion_parameters", ("k1", "k2", "p1", "p2"))
    )
    return (
        kind,
        [storage.number("projection_parameters", name) for name in focal],
        [storage.number(group, name) for name in names],
        storage.number("mirror_parameters", "xi") if kind == "MEI" else None,
    )


def same_camera(camera, expected):
    kind, focal, lens, xi = expected
    close(camera.intrinsics, focal, 1e-12)
    close(camera.distortion, lens, 1e-12)
    assert camera.camera_model == ("omni" if kind == "MEI" else "pinhole")
    if xi is not None:
        close(camera.model_parameters, [xi], 1e-12)


def test_vins_files_have_the_numbers_that_opencv_reads(answers):
    counts = Counter()
    for path, rig in answers.items():
        text = path.read_text(errors="replace")
        if not re.search(r"^(cam0_calib|model_type)", text, re.M):
            continue
        storage = Storage(path)
        counts["files"] += 1
        files = [storage.file.getNode(f"cam{i}_calib").string() for i in range(2)]
        if "cam0_calib" not in text:
            assert not isinstance(rig, str), rig
            same_camera(rig.cameras[0], vins_camera(path))
            R = storage.matrix("extrinsicRotation")
            if R is not None and rig.extrinsics_known:
                close(rig.cameras[0].T_b_c[:3, :3], R, 1e-3)
                p_b_c = storage.matrix("extrinsicTranslation").ravel()
                close(rig.cameras[0].T_b_c[:3, 3], p_b_c)
            continue
        if isinstance(rig, str):
            assert any(not (path.parent / file).is_file() for file in files if file), rig
            continue
        counts["fusion"] += 1
        Ts = [storage.matrix(f"body_T_cam{number}") for number in range(len(rig.cameras))]
        T_first = np.eye(4) if rig.extrinsics_known else np.linalg.inv(Ts[0])
        for number, camera in enumerate(rig.cameras):
            same_camera(camera, vins_camera(path.parent / files[number]))
            close(camera.T_b_c, T_first @ Ts[number], 1e-4)
        assert rig.time_offset_s == (storage.number("td") or 0.0)
        if storage.number("imu"):
            assert not rig.noise_known
            noisy = read_any_rig(path, Given(rate_hz=400.0)).imu
            assert noisy.density_acc == pytest.approx(storage.number("acc_n") / 20.0)
            assert noisy.walk_gyro == pytest.approx(storage.number("gyr_w") / 20.0)
    assert counts["files"] >= 111
    assert counts["fusion"] >= 40


def orb_numbers(storage: Storage, prefix: str, names: tuple[str, ...]) -> list[float]:
    return [storage.number(prefix + name) or 0.0 for name in names]


def test_orb_slam_files_have_the_numbers_that_opencv_reads(answers):
    counts = Counter()
    for path, rig in answers.items():
        if not re.search(r"^Camera1?\.fx", path.read_text(errors="replace"), re.M):
            continue
        storage = Storage(path)
        assert not isinstance(rig, str), rig
        left = rig.cameras[0]
        new = storage.number("Camera1.fx") is not None
        original = storage.matrix("LEFT.K")
        if original is not None:
            counts["with maps"] += 1
            close(left.intrinsics, original[[0, 1, 0, 1], [0, 1, 2, 2]], 1e-9)
            close(left.distortion, storage.matrix("LEFT.D").ravel()[:4], 1e-9)
        else:
            prefix = "Camera1." if new else "Camera."
            close(left.intrinsics, orb_numbers(storage, prefix, ("fx", "fy", "cx", "cy")), 1e-9)
            fisheye = left.distortion_model == "equidistant"
            names = ("k1", "k2", "k3", "k4") if fisheye else ("k1", "k2", "p1", "p2", "k3")
            lens = orb_numbers(storage, prefix, names)
            close(left.distortion, lens[: len(left.distortion)], 1e-9)
            assert not any(lens[len(left.distortion) :])
        T_b_c = storage.matrix("IMU.T_b_c1" if new else "Tbc")
        assert rig.extrinsics_known == (T_b_c is not None)
        assert rig.noise_known == (storage.number("IMU.NoiseGyro") is not None)
        if T_b_c is not None:
            close(left.T_b_c, T_b_c, 1e-4)
            assert rig.imu.density_acc == storage.number("IMU.NoiseAcc")
            assert rig.imu.rate_hz == storage.number("IMU.Frequency")
        if len(rig.cameras) == 2:
            counts["stereo"] += 1
            T_c1_c2 = np.linalg.inv(left.T_b_c) @ rig.cameras[1].T_b_c
            baseline = storage.number("Stereo.b")
            if baseline is None and not new:
                baseline = storage.number("Camera.bf") / storage.number("Camera.fx")
            if baseline is not None:
                assert np.linalg.norm(T_c1_c2[:3, 3]) == pytest.approx(baseline, rel=0.06)
    assert counts["stereo"] >= 40
    assert counts["with maps"] >= 20


def test_euroc_by_orb_slams_maps_is_euroc_by_its_own_makers(configs):
    """LEFT.R, RIGHT.R and the baseline give the pose that EuRoC states for its right camera."""
    rig = read_any_rig(configs / "UZ-SLAMLab+ORB_SLAM3/Examples_old/Stereo-Inertial/EuRoC.yaml")
    stated = read_any_rig(configs / "rpng+open_vins/config/euroc_mav/kalibr_imucam_chain.yaml")
    close(rig.cameras[0].T_b_c, stated.cameras[0].T_b_c)
    close(rig.cameras[1].T_b_c, stated.cameras[1].T_b_c, 2e-5)


def written_through(rig, first, second, folder):
    """The rig after two writings, or why one of them is refused."""
    try:
        write_rig(folder / "a", rig, first)
        write_rig(folder / "b", read_any_rig(folder / "a"), second)
    except CalibrationError as error:
        return str(error)
    return read_any_rig(folder / "b")


REFUSALS = (
    r"extrinsics are unknown|does not know|knows pinhole|hold k1|holds one camera|hold at most two|"
    r"have no place|rotated against the body"
)


def test_round_trips_through_every_pair_of_formats_keep_transforms_or_refuse(answers, tmp_path):
    noise = ImuNoise(1e-4, 2e-3, 1e-5, 3e-3, 200.0)
    seen, counts = set(), Counter()
    for path, rig in answers.items():
        if isinstance(rig, str):
            continue
        lens = (rig.cameras[0].camera_model, rig.cameras[0].distortion_model)
        kind = (len(rig.cameras), lens, rig.extrinsics_known, rig.noise_known)
        if kind in seen:
            continue
        seen.add(kind)
        given = read_any_rig(path, Given(noise=None if rig.noise_known else noise))
        for pair in product(TOOLS, TOOLS):
            again = written_through(given, *pair, tmp_path / f"{len(seen)}-{'-'.join(pair)}")
            counts["refused" if isinstance(again, str) else "kept"] += 1
            if isinstance(again, str):
                assert re.search(REFUSALS, again), again
                continue
            assert len(again.cameras) == len(given.cameras)
            for camera, expected in zip(again.cameras, given.cameras, strict=True):
                close(camera.T_b_c, expected.T_b_c)
                close(camera.intrinsics, expected.intrinsics)
                close(camera.model_parameters, expected.model_parameters)
                both = max(len(camera.distortion), len(expected.distortion))
                lenses = [
                    np.pad(c.distortion, (0, both - len(c.distortion))) for c in (camera, expected)
                ]
                close(*lenses, 1e-9)
                assert camera.resolution == expected.resolution
            assert again.time_offset_s == pytest.approx(given.time_offset_s, abs=1e-9)
            for key in ("density_gyro", "density_acc", "walk_gyro", "walk_acc", "rate_hz"):
                assert getattr(again.imu, key) == pytest.approx(getattr(given.imu, key))
    assert counts["kept"] > 100
