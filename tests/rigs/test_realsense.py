"""The listing of rs-enumerate-devices -c, a few lines of each part with round numbers."""

import re

import numpy as np
import pytest
from rig_files import D435I, QUARTER, extrinsic, intrinsic

from maci2.errors import CalibrationError
from maci2.rigs import read_any_rig


def read(tmp_path, text):
    path = tmp_path / "d435i.txt"
    path.write_text(text)
    return read_any_rig(path)


def test_a_d435i_has_its_pair_at_848x480_on_the_gyroscope(tmp_path):
    rig = read(tmp_path, D435I)
    assert "RealSense factory calibration (848x480)" in rig.source
    assert [camera.resolution for camera in rig.cameras] == [(848, 480)] * 2
    assert [camera.intrinsics.tolist() for camera in rig.cameras] == [
        [420, 420, 424, 240],
        [421, 421, 424, 240],
    ]
    assert rig.extrinsics_known
    assert not rig.noise_known
    T_b_c0, T_b_c1 = (camera.T_b_c for camera in rig.cameras)
    np.testing.assert_allclose(T_b_c0[:3, :3], QUARTER)
    np.testing.assert_allclose(T_b_c0[:3, 3], (-0.00552, 0.0051, 0.01174))
    # Right camera: 5 cm along the left one's x, which is the IMU's y.
    np.testing.assert_allclose(T_b_c1[:3, 3] - T_b_c0[:3, 3], (0, 0.05, 0), atol=1e-12)


def test_without_the_imu_the_cameras_are_beside_each_other(tmp_path):
    rig = read(
        tmp_path, re.sub(r'Extrinsic from "Infrared 1"\t  To\t  "Gyro".*', "", D435I, flags=re.S)
    )
    assert not rig.extrinsics_known
    np.testing.assert_allclose(rig.cameras[1].T_b_c[:3, 3], (0.05, 0, 0))


def test_a_t265_has_fisheye_lenses(tmp_path):
    lens = (-0.0043, 0.0371, -0.0355, 0.0058, 0)
    text = (
        intrinsic("Fisheye 1", (848, 800), 286, "Kannala Brandt4", lens)
        + intrinsic("Fisheye 2", (848, 800), 285, "Kannala Brandt4", lens)
        + extrinsic("Fisheye 1", "Fisheye 2", np.eye(3), (-0.064, 0, 0))
    )
    rig = read(tmp_path, text)
    assert rig.cameras[1].distortion_model == "equidistant"
    assert rig.cameras[1].distortion.tolist() == list(lens[:4])


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        (D435I.replace("-0.05  0  0", "0  0  0"), "the baseline is missing"),
        (D435I.replace("Infrared 2\" /", "Color\" /"), "Infrared 2 has no intrinsics"),
        (D435I.replace("Infrared", "Near"), "Infrared 1 or Fisheye 1 are missing"),
        (D435I.replace("420\n  Distortion", "many\n  Distortion"), "is not a number"),
        (
            D435I.replace("Brown", "Inverse Brown").replace("0  \t0  \t0", "1  \t0  \t0"),
            "no closed form",
        ),
    ],
)  # fmt: skip
def test_what_a_listing_lacks_is_named(tmp_path, text, missing):
    with pytest.raises(CalibrationError, match=missing) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith("RealSense factory calibration")
