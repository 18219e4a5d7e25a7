"""The rig in perspective, and the page of a calibration."""

import re

import numpy as np

from maci2.api import calibrate_recording
from maci2.datasets import write_euroc
from maci2.report.drawings import RIG_HEIGHT as HEIGHT
from maci2.report.drawings import WIDTH, rig_drawing
from maci2.report.estimate_pages import calibration_page
from maci2.simulation import SimulationConfig, simulate


def test_every_frame_is_drawn_and_named():
    rig = simulate(SimulationConfig(duration_s=1.0)).rig
    svg = rig_drawing(rig)
    for name in ("b (IMU)", "c0", "c1"):
        assert f">{name}</text>" in svg
    # Three axes of three frames, eight edges of two frustums, one scale bar.
    assert svg.count("<line") == 9 + 16 + 1
    for axis, size in (("x", WIDTH), ("y", HEIGHT)):
        places = [float(value) for value in re.findall(rf' {axis}[12]?="([-\d.]+)"', svg)]
        assert 0.0 <= min(places) < max(places) <= size


def test_the_page_states_both_conventions_with_the_numbers_found(tmp_path):
    write_euroc(simulate(SimulationConfig(duration_s=8.0, seed=3)), tmp_path / "walk")
    result = calibrate_recording(tmp_path / "walk", vision="truth:0.05,0.003", window_s=6.0)
    rig = result.rig
    page = calibration_page(result, "maci2 calibrate walk")
    T_c_b = np.linalg.inv(rig.cameras[0].T_b_c)
    assert f"{rig.cameras[0].T_b_c[0, 3]: .6f}" in page
    assert f"{T_c_b[0, 3]: .6f}" in page
    assert "T_cam_imu" in page
    assert "1-sigma" in page
    assert "t_imu - t_camera" in page
    assert "maci2 calibrate walk" in page
