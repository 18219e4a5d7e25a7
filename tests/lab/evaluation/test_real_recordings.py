"""What the estimator does on real recordings; bounds are those the product promises."""

import pytest

from maci2.api import calibrate_recording
from maci2.pipeline.offline import calibration_errors
from maci2.pipeline.options import RunOptions
from maci2_lab.evaluation.protocol import evaluate
from maci2_lab.evaluation.summary import evaluation_json

pytestmark = pytest.mark.dataset

TEST_SEQUENCES = ("MH_02_easy", "MH_04_difficult", "V1_01_easy")
TRUTH = {"vision": "truth:0.05,0.003"}
DROID = {
    "vision": "trajectory:visual/droid_stereo_Twc_tum.txt",
    "vision_frame": "rectified",
    "vision_std": "0.05,0.003",
    "vision_scale_std": 0.0,
}


def run(data_root, vision, **choices):
    options = RunOptions(**vision, truth=("state_groundtruth_openvins",), **choices)
    paths = [data_root / "euroc" / name for name in TEST_SEQUENCES]
    return evaluation_json(evaluate(paths, options), options)


@pytest.fixture(scope="module")
def averages(data_root):
    """Both sources of vision, in paper mode and in the default one."""
    return {
        (name, paper): run(data_root, vision, paper=paper)["average"]
        for name, vision in (("truth", TRUTH), ("droid", DROID))
        for paper in (True, False)
    }


def test_paper_mode_has_the_papers_error_which_is_the_accelerometer_bias(averages):
    paper = averages["truth", True]
    assert paper["success_rate"] >= 0.99
    assert 0.80 <= paper["gravity_deg"] <= 0.98
    assert paper["gyro_bias_pct"] <= 4.0
    assert paper["gyro_bias_norm_pct"] <= 2.0


def test_real_vision_gives_the_same_gravity(averages):
    assert averages["droid", True]["gravity_deg"] <= 0.95


@pytest.mark.parametrize("vision", ["truth", "droid"])
def test_the_default_is_never_worse_than_paper_mode(averages, vision):
    paper, default = averages[vision, True], averages[vision, False]
    assert default["success_rate"] >= paper["success_rate"]
    for error in ("gravity_deg", "velocity_rmse", "gyro_bias_pct", "rotation_deg"):
        assert default[error] <= paper[error], error


def test_stated_uncertainties_are_true_where_vision_has_the_noise_it_states(averages):
    for state, nees in averages["truth", False]["nees"].items():
        assert 0.5 <= nees <= 2.0, state


def test_a_known_accelerometer_bias_takes_the_gravity_error_away(data_root):
    known = run(data_root, TRUTH, acc_bias_prior=(-0.02, 0.117, 0.065), acc_bias_std=0.03)
    assert known["average"]["gravity_deg"] <= 0.27


@pytest.mark.parametrize(("vision", "gravity_deg"), [(TRUTH, 0.23), (DROID, 0.25)])
def test_the_learned_imu_model_finds_gravity_on_recordings_it_has_not_seen(
    data_root, vision, gravity_deg
):
    learned = run(data_root, vision, imu="euroc")["average"]
    assert learned["gravity_deg"] <= gravity_deg
    if vision is TRUTH:
        assert learned["velocity_rmse"] <= 0.020
        assert learned["success_rate"] == 1.0


@pytest.mark.parametrize("name", ["V1_02_medium", "V2_03_difficult"])
def test_extrinsics_are_found_without_a_guess(data_root, name):
    # Published clocks wander by milliseconds; the offset is estimated, too.
    result = calibrate_recording(data_root / "euroc" / name, **TRUTH, window_s=30.0)
    rotation_deg, translation = calibration_errors(result, result.inputs.T_b_c)
    assert result.verdict.status == "ok"
    assert rotation_deg <= 0.3
    assert translation <= 0.02


@pytest.mark.parametrize("room", ["room1", "room3"])
def test_a_fisheye_rig_with_motion_capture_is_initialized(data_root, room):
    options = RunOptions(**TRUTH)
    path = data_root / "tumvi" / f"dataset-{room}_512_16"
    summary = evaluation_json(evaluate([path], options), options)
    found = next(iter(summary["sequences"].values()))
    assert found["success_rate"] == 1.0
    assert found["gravity_deg"] < 0.6
    assert found["gyro_bias_pct"] is None
