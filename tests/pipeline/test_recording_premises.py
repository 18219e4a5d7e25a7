"""A recording is asked once what it says of its own constants."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.datasets import write_euroc
from maci2.pipeline.offline import initialize_window
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import one_window, open_inputs
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.experiments.input_faults import (
    InputFault,
    every_second,
    held,
    rotated,
    stuck_acc_y,
    with_fault,
)

OPTIONS = RunOptions(vision="truth:0.05,0.003")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("constants") / "flight"
    write_euroc(simulate(SimulationConfig(kind="drone", duration_s=26.0, seed=2)), folder)
    return open_inputs(folder, OPTIONS)


def test_a_sound_recording_contradicts_nothing_and_is_asked_once(inputs):
    constants = inputs.constants
    assert constants.translation.cov[0, 0] < 0.05**2
    assert constants.contradictions() == []
    assert inputs.constants is constants


def verdict_with(inputs, fault):
    faulty = with_fault(inputs, fault, OPTIONS)
    window = one_window(inputs.candidates_ns(), 2.5, 10, 5.0)
    return initialize_window(faulty, window, OPTIONS).verdict


def test_the_verdict_of_a_window_uses_what_the_recording_says(inputs):
    assert verdict_with(inputs, InputFault("none")).status == "ok"
    wrong = verdict_with(inputs, InputFault("extrinsics", rotated(3.0)))
    assert wrong.status != "ok"
    assert "rotated by 3.0" in wrong.reasons[0]


def test_lost_samples_are_weak_with_the_rate_as_reason(inputs):
    verdict = verdict_with(inputs, InputFault("lost", samples=every_second))
    assert verdict.status != "ok"
    assert "should sample at 200 Hz and has 100" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (stuck_acc_y, "the accelerometer's y axis reads"),
        (held, "75 % of the gyroscope's samples are copies"),
    ],
)
def test_samples_that_are_no_measurements_are_weak_with_that_as_reason(inputs, samples, reason):
    verdict = verdict_with(inputs, InputFault("not measured", samples=samples))
    assert verdict.status != "ok"
    assert reason in verdict.reasons[0]


def test_a_gap_in_the_samples_costs_its_windows_only(inputs):
    kept = np.ones(len(inputs.imu.stamps_ns), dtype=bool)
    kept[2000:2400] = False
    imu = replace(
        inputs.imu,
        **{
            name: getattr(inputs.imu, name)[kept]
            for name in ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc")
        },
    )
    constants = replace(inputs, imu=imu).constants
    # Fewer windows say less of the scale.
    assert constants.translation.cov[0, 0] > inputs.constants.translation.cov[0, 0]
    assert constants.contradictions() == []


def test_a_recording_shorter_than_a_window_has_no_premises(tmp_path):
    write_euroc(simulate(SimulationConfig(duration_s=2.0)), tmp_path / "short")
    assert open_inputs(tmp_path / "short", OPTIONS).constants is None
