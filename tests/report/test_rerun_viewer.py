"""Results handed to Rerun; drawn where it is installed."""

import numpy as np
import pytest

from helpers import simulated_window
from maci2.consistency import calibrate, initialize
from maci2.errors import OptionError
from maci2.report.drawings import sigma_colors
from maci2.report.rerun_viewer import SIGMAS, Viewer, ellipsoid


def test_an_ellipsoid_has_the_axes_of_its_covariance():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((3, 3))
    cov = A @ A.T
    half_sizes, (x, y, z, w) = ellipsoid(cov)
    R = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    np.testing.assert_allclose(R @ np.diag((half_sizes / SIGMAS) ** 2) @ R.T, cov, atol=1e-12)


def test_colours_go_from_cyan_to_orange_with_sigma():
    colors = sigma_colors(np.array([0.1, 0.1, 0.3, 0.9]))
    assert colors[0].tolist() == [40, 215, 255]
    assert colors[3].tolist() == [255, 95, 0]
    assert 40 < colors[2, 0] < 255


def test_a_target_that_is_neither_a_file_nor_live_is_refused():
    pytest.importorskip("rerun")
    with pytest.raises(OptionError, match=r"--rerun is 'x\.html'; give a file that ends in \.rrd"):
        Viewer("x.html", "init")


def test_initialization_and_calibration_are_written_to_a_file(tmp_path):
    rerun = pytest.importorskip("rerun")
    window = simulated_window("handheld", 3, steps=20)
    result = initialize(window.imu, window.vision, window.truth.T_b_c)
    path = tmp_path / "init.rrd"
    viewer = Viewer(str(path), "test")
    viewer.show_initialization(result)
    viewer.show_residuals(result.state, window.vision)
    viewer.show_calibration(calibrate(window.imu, window.vision))
    rerun.disconnect()
    content = path.read_bytes()
    assert content[:4] == b"RRF2"
    for name in (b"c0/velocity", b"c0/uncertainty", b"residuals/rotation/x", b"body/camera"):
        assert name in content
