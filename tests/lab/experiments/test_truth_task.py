"""The experiment on ground truths, on a simulated recording with known faults."""

import numpy as np
import pytest

from maci2.datasets import write_euroc
from maci2.sensors import GroundTruth
from maci2.tools.ground_truth.comparison import compare_with_published
from maci2_lab.experiments.recordings import Recordings
from maci2_lab.experiments.truth import ROWS_HZ, truth_findings, truth_tasks
from tools.ground_truth.faulty_truths import FAULTY, exact_truth, recording_with


@pytest.fixture(scope="module")
def recording():
    return recording_with(FAULTY, seed=11, duration_s=20.0)


def test_tables_hold_the_faults_with_their_sigmas(recording, tmp_path):
    write_euroc(recording, tmp_path / "MH_faulty")
    there = Recordings(tmp_path, {"MH_faulty": tmp_path / "MH_faulty"})
    [task] = truth_tasks((("MH_faulty", ""), ("MH_missing", "")), there, 0)
    (row,) = task.run().rows
    late, std, significant = row["constants"]["position_late_ms"]
    assert late == pytest.approx(6.0, abs=5.0 * std)
    assert significant
    assert len(row["late_by_rows_hz"]) == len(ROWS_HZ)
    found = truth_findings([{"task": task.options, "rows": [row]}])
    constants, states, clocks = found.tables
    assert constants.lines[0].label == "MH_faulty"
    assert len(constants.columns) == len(constants.lines[0].cells)
    assert len(states.columns) == len(states.lines[0].cells)
    assert len(clocks.columns) == len(clocks.lines[0].cells) == 2 * len(ROWS_HZ)


def test_agreement_finds_a_clock_and_ignores_the_choice_of_a_world(recording):
    truth = exact_truth(recording)
    R = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    Ts_w_b = truth.Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = R @ Ts_w_b[:, :3, :3]
    Ts_w_b[:, :3, 3] = (Ts_w_b[:, :3, 3] - 0.008 * truth.v_w) @ R.T + 3.0
    nothing = np.full((len(truth), 3), np.nan)
    late = GroundTruth(truth.stamps_ns, Ts_w_b, nothing, nothing, nothing)
    few = late.part(np.arange(len(late)) < 50)
    (compared,) = compare_with_published(truth, {"late": late, "too short": few})
    free, fixed = compared.shifted, compared.fixed
    assert compared.sentence().endswith("with its positions taken 8.0 ms earlier")
    assert free.late_s == pytest.approx(0.008, abs=2e-4)
    assert free.position_m < 1e-4 < fixed.position_m
    assert max(free.rotation_deg, fixed.rotation_deg) < 0.2
