"""The rig drawn."""

import re

import numpy as np

from helpers import simulated_window
from maci2.estimation import calibrate
from maci2.reports.calibration_page import calibration_page, draw_rig
from maci2.simulation import SimulationConfig, simulate


def test_every_frame_is_drawn_and_named():
    rig = simulate(SimulationConfig(duration_s=1.0)).rig
    svg = draw_rig(rig)
    for name in ("b (IMU)", "c0", "c1"):
        assert f">{name}</text>" in svg
    assert svg.count("<line") == 9
    places = [float(value) for value in re.findall(r' [xy][12]?="([-\d.]+)"', svg)]
    assert 0.0 <= min(places) < max(places) <= 420.0


def test_the_page_states_both_conventions_with_the_numbers_found():
    window = simulated_window("handheld", 3, steps=20)
    rig = simulate(SimulationConfig(duration_s=1.0)).rig
    page = calibration_page(calibrate(window.imu, window.vision), rig)
    T_c_b = np.linalg.inv(rig.cameras[0].T_b_c)
    assert f"{rig.cameras[0].T_b_c[0, 3]: .6f}" in page
    assert f"{T_c_b[0, 3]: .6f}" in page
    assert "T_cam_imu" in page
    assert "1-sigma" in page
