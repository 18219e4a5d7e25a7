"""The paper's numbers, against the averages it prints itself."""

import pytest

from maci2_lab.experiments import paper_numbers as paper


@pytest.mark.parametrize(
    ("table", "row", "velocity", "gravity"),
    [
        (paper.EUROC, "VINS-Mono", 0.169, 1.611),
        (paper.EUROC, "DRT-t", 0.134, 1.137),
        (paper.EUROC, "DRT-l", 0.138, 1.303),
        (paper.EUROC, "sqrt-VINS mono", 0.073, 1.072),
        (paper.EUROC, "FF-VIO-Init", 0.055, 0.914),
        (paper.EUROC, "sqrt-VINS stereo", 0.062, 1.049),
        (paper.EUROC, "VINS-Fusion", 0.031, 2.117),
        (paper.EUROC, "ORB-SLAM3", 0.050, 1.391),
        (paper.EUROC, "Stereo-NEC", 0.037, 1.517),
        (paper.EUROC, paper.WITHOUT, 0.018, 0.889),
        (paper.EUROC, paper.WITH, 0.018, 0.418),
        (paper.COVARIANCES, paper.ID_ID, 0.021, 0.463),
        (paper.COVARIANCES, paper.ID_LEARNED, 0.053, 0.530),
        (paper.COVARIANCES, paper.LEARNED_ID, 0.020, 0.481),
        (paper.IMU_MODELS, paper.AIRIMU, 0.020, 0.611),
        (paper.KEYFRAMES, f"5 {paper.WITH}", 0.022, 0.576),
        (paper.KEYFRAMES, f"20 {paper.WITHOUT}", 0.017, 0.870),
        (paper.VBR_TABLE, paper.WITHOUT, 0.191, 1.136),
    ],
)
def test_means_over_all_recordings_are_the_printed_ones(table, row, velocity, gravity):
    # Printed to three digits from unrounded numbers, in VBR from unequally many segments.
    tolerance = 0.03 if table is paper.VBR_TABLE else 0.0016
    for metric, printed in (("velocity_rmse", velocity), ("gravity_deg", gravity)):
        mean = table.mean(row, metric, table.recordings)
        assert mean == pytest.approx(printed, abs=tolerance)


@pytest.mark.parametrize(
    ("row", "rotation", "translation"),
    [
        (paper.VISION_ONLY, 0.319, 0.024),
        (paper.WITHOUT, 0.251, 0.021),
        (paper.WITH, 0.193, 0.020),
    ],
)
def test_mean_pose_errors_are_the_printed_ones(row, rotation, translation):
    mean = paper.POSES.mean(row, "rotation_deg", paper.EUROC_TEST)
    assert mean == pytest.approx(rotation, abs=0.001)
    mean = paper.POSES.mean(row, "translation_m", paper.EUROC_TEST)
    assert mean == pytest.approx(translation, abs=0.001)


def test_what_the_paper_does_not_have_is_none():
    assert paper.EUROC.value(paper.WITH, "gravity_deg", "room1") is None
    assert paper.EUROC.mean(paper.WITH, "gravity_deg", ("MH_02_easy", "room1")) is None
    assert paper.EUROC.mean("nobody", "gravity_deg", ("MH_02_easy",)) is None
