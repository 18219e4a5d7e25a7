"""One interface for whatever sees the world; ground truth is resolved when it is first used."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import maci2
from maci2.datasets import write_euroc
from maci2.errors import DatasetError
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import open_inputs
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import save_relative_poses


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A flight with a trajectory and a file of measurements of its camera."""
    path = tmp_path_factory.mktemp("sources") / "flight"
    recording = simulate(SimulationConfig(kind="drone", duration_s=9.0, seed=4))
    write_euroc(recording, path)
    inputs = open_inputs(path, options("truth:0.05,0.003"))
    save_relative_poses(path / "vo.npz", inputs.vision.motion(inputs.candidates_ns()[::4]))
    lines = []
    for stamp_ns, T_w_b in zip(inputs.truth.stamps_ns, inputs.truth.Ts_w_b, strict=True):
        x, y, z = (T_w_b @ inputs.T_b_c)[:3, 3]
        lines.append(f"{stamp_ns // 10**9}.{stamp_ns % 10**9:09d} {x} {y} {z} 0 0 0 1")
    (path / "camera.txt").write_text("\n".join(lines))
    return path


def options(vision, **choices):
    return RunOptions(vision=vision, vision_std="0.05,0.003", **choices)


SOURCES = ("truth:0.05,0.003", "tracks:0.5", "trajectory:camera.txt", "measurements:vo.npz")


@pytest.mark.parametrize("vision", SOURCES)
def test_every_source_has_timestamps_a_frame_and_motion_with_covariance(folder, vision):
    source = open_inputs(folder, options(vision)).vision
    assert (np.diff(source.stamps_ns) > 0).all()
    stamps_ns = source.keyframe_candidates(source.stamps_ns)[:40:8]
    motion = source.motion(stamps_ns)
    assert motion.frame == source.choice.frame
    assert (motion.stamps_ns[0], motion.stamps_ns[-1]) == (stamps_ns[0], stamps_ns[-1])
    assert (np.linalg.eigvalsh(motion.covs_T_ck_ck1) > 0.0).all()
    assert (source.odometry is None) is not (source.choice.kind == "images")


def test_drawn_noise_depends_on_the_window_and_the_seed(folder):
    inputs = open_inputs(folder, options("truth:0.05,0.003", seed=1))
    stamps_ns = inputs.candidates_ns()[:20:4]
    first = inputs.vision.motion(stamps_ns, 0).Ts_ck_ck1
    np.testing.assert_array_equal(inputs.vision.motion(stamps_ns, 0).Ts_ck_ck1, first)
    other = open_inputs(folder, options("truth:0.05,0.003", seed=2)).vision
    assert (inputs.vision.motion(stamps_ns, 1).Ts_ck_ck1 != first).any()
    assert (other.motion(stamps_ns, 0).Ts_ck_ck1 != first).any()


def test_the_paper_takes_the_scale_of_every_source_as_exact(folder):
    usual = open_inputs(folder, options("trajectory:camera.txt"))
    paper = open_inputs(folder, options("trajectory:camera.txt", paper=True))
    stamps_ns = usual.candidates_ns()[:20:4]
    assert usual.vision.motion(stamps_ns).std_scale > 0.0
    assert paper.vision.motion(stamps_ns).std_scale == 0.0


def test_opening_a_recording_audits_nothing_until_ground_truth_is_used(folder, monkeypatch):
    def audit(*_):
        raise DatasetError("audited")

    monkeypatch.setattr("maci2.tools.ground_truth.choose.cached_audit", audit)
    inputs = open_inputs(folder, options("trajectory:camera.txt", truth=("audited",)))
    inputs.vision.motion(inputs.candidates_ns()[:20:4])
    with pytest.raises(DatasetError, match="audited"):
        _ = inputs.truth
    assert replace(inputs.ground_truth, names=()).states is not None


def test_no_other_module_asks_for_the_kind_of_an_opened_source():
    kinds = "StereoOdometry|MeasuredPoses|CameraTrajectory|RecordedTracks|SimulatedTracker|Source"
    for path in Path(maci2.__file__).parent.rglob("*.py"):
        asked = re.findall(rf"isinstance\([^)]*(?:{kinds})\b", path.read_text(encoding="utf-8"))
        assert not asked, path
