"""Options as text."""

import pytest

from maci2.errors import OptionError
from maci2.pipeline.options import (
    DEFAULT_FRAME_STD,
    DEFAULT_SCALE_STD,
    RunOptions,
    VisionChoice,
    parse_numbers,
    parse_vision,
)


def test_the_three_sources_of_camera_motion_are_read():
    truth = parse_vision("truth:0.05,0.003", "camera", None)
    assert truth == VisionChoice("truth", std=(0.05, 0.003))
    trajectory = parse_vision("trajectory:a/b.txt", "rectified", "0.1,0.01")
    assert trajectory == VisionChoice(
        "trajectory", "a/b.txt", (0.1, 0.01), "rectified", 0.0, DEFAULT_SCALE_STD, DEFAULT_FRAME_STD
    )
    unstated = parse_vision("trajectory:x", "camera", None)
    assert unstated.std_windows == 0  # to be estimated
    with_shares = parse_vision("trajectory:x", "camera", "0.1,0.01,0.02", 0.0)
    assert (with_shares.std, with_shares.std_share) == ((0.1, 0.01), 0.02)
    assert with_shares.std_scale == 0.0
    assert parse_vision("measurements:x.npz", "camera", None).kind == "measurements"


@pytest.mark.parametrize(
    ("text", "frame", "std", "message"),
    [
        ("thruth:0.1,0.1", "camera", None, "choose one of images"),
        ("truth:0.05", "camera", None, "needed 2 numbers"),
        ("truth:0,0.003", "camera", None, "above 0"),
        ("trajectory:", "camera", None, "choose one of"),
        ("trajectory:x", "left", None, "choose camera or rectified"),
        ("trajectory:x", "camera", "a,b", "--vision-std is 'a,b'"),
        ("trajectory:x", "camera", "0.1,0.01,0.9", "needed 0 to 0.5 of a relative pose's length"),
    ],
)
def test_a_source_that_is_not_one_says_what_was_found_and_needed(text, frame, std, message):
    with pytest.raises(OptionError, match=message):
        parse_vision(text, frame, std)


def test_a_scale_that_may_be_off_by_half_is_refused():
    with pytest.raises(OptionError, match=r"--vision-scale-std is 0\.6, needed a share from 0"):
        parse_vision("trajectory:x", "camera", None, 0.6)


def test_numbers_must_be_finite_and_as_many_as_asked_for():
    assert parse_numbers("-0.02,0.117,0.065", 3, "--acc-bias-prior") == (-0.02, 0.117, 0.065)
    with pytest.raises(OptionError, match="--acc-bias-prior is '1,2', needed 3 numbers"):
        parse_numbers("1,2", 3, "--acc-bias-prior")
    with pytest.raises(OptionError, match="nan"):
        parse_numbers("1,2,nan", 3, "--acc-bias-prior")


@pytest.mark.parametrize(
    ("field", "value"), [("keyframes", 3), ("window_s", 0.0), ("start_s", -1.0)]
)
def test_an_option_without_meaning_names_itself_and_its_limit(field, value):
    with pytest.raises(OptionError, match=rf"--{field.removesuffix('_s')} is {value}"):
        RunOptions(vision="truth:0.05,0.003", **{field: value})


def test_paper_mode_is_the_papers_choices_exactly():
    solver = RunOptions(vision="truth:0.05,0.003", paper=True).solver()
    assert not solver.gravity_on_sphere
    assert solver.estimate_gyro_bias
    assert not solver.estimate_acc_bias
    assert not solver.imu_cross_terms
    learned = RunOptions(vision="truth:0.05,0.003", paper=True, imu="some.onnx").solver()
    assert not learned.estimate_gyro_bias


@pytest.mark.parametrize(
    ("text", "pixel_std", "depths"),
    [("tracks:0.5", 0.5, (1.5, 12.0)), ("tracks:1,4,60", 1.0, (4.0, 60.0))],
)
def test_simulated_tracks_have_noise_and_depths(text, pixel_std, depths):
    source = parse_vision(text, "camera", None)
    assert (source.kind, source.pixel_std, source.depths) == ("tracks", pixel_std, depths)
    assert source.frame == "rectified"
    assert source.from_truth
    assert parse_vision(str(source), "camera", None) == source


def test_a_file_of_tracks_does_not_come_from_ground_truth():
    source = parse_vision("tracks:mine.npz", "camera", None)
    assert (source.file, source.frame, source.from_truth) == ("mine.npz", "rectified", False)
    assert str(source) == "tracks:mine.npz"


@pytest.mark.parametrize("text", ["0", "-1", "60", "0.5,3,2", "0.5,0,4", "0.5,4", "half", "nan"])
def test_tracks_that_cannot_be_are_told(text):
    with pytest.raises(OptionError, match="--vision tracks:"):
        parse_vision(f"tracks:{text}", "camera", None)
