"""Audits of simulated truths with known faults, and of real recordings."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from maci2.datasets import open_recording, read_euroc, write_euroc
from maci2.datasets.euroc import read_truth_folder, truth_csv
from maci2.errors import DatasetError, OptionError
from maci2.geometry import se3_inv
from maci2.geometry.gaussian import nees
from maci2.geometry.se3 import so3_log_stack, stack_poses
from maci2.tools.ground_truth.audit import audit_capture, audit_ground_truth
from maci2.tools.ground_truth.audit_files import require_outside, write_audit
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.choose import beside_raw_capture
from maci2.tools.ground_truth.comparison import agreement
from maci2.types import NS
from tools.ground_truth.faulty_truths import FAULTY, TruthFaults, exact_truth, recording_with

EXPECTED = {
    "rotation_deg": 0.5,
    "lever_arm_mm": 20.0,
    "tilt_deg": 0.5,
    "position_late_ms": 6.0,
    "position_drift_ms_per_min": 2.0,
    "orientation_late_ms": 0.0,
}
RAW = TruthFaults(std_mm=1.0, std_deg=0.1)


def sigmas(audit, expected):
    """Distance of each constant from what it should be, in its standard deviations."""
    return {
        name: abs(audit.constants[name].value - value) / audit.constants[name].std
        for name, value in expected.items()
    }


def errors_of(audit, truth):
    """(n, 15) audited rows less exact states."""
    rows = np.searchsorted(truth.stamps_ns, audit.truth.stamps_ns)
    R, R_true = audit.truth.Ts_w_b[:, :3, :3], truth.Ts_w_b[rows, :3, :3]
    return np.hstack(
        [
            so3_log_stack(np.swapaxes(R_true, 1, 2) @ R),
            audit.truth.v_w - truth.v_w[rows],
            audit.truth.Ts_w_b[:, :3, 3] - truth.Ts_w_b[rows, :3, 3],
            audit.truth.bias_gyro - truth.bias_gyro[rows],
            audit.truth.bias_acc - truth.bias_acc[rows],
        ]
    )


def test_faults_of_a_published_truth_are_found_with_their_sizes():
    audit = audit_ground_truth(recording_with(FAULTY, seed=1, duration_s=60.0))
    away = sigmas(audit, EXPECTED)
    assert max(away.values()) < 4.0, away
    found = {finding.fault for finding in audit.findings}
    assert {"rotation_deg", "tilt_deg", "position_late_ms"} <= found
    assert any("ms late" in finding.text for finding in audit.findings)


def test_nothing_is_found_in_an_exact_truth():
    for seed in (2, 3):
        audit = audit_ground_truth(recording_with(TruthFaults(), seed=seed))
        assert [finding.level for finding in audit.findings] == ["ok"], audit.findings


def test_raw_capture_gives_states_that_are_consistent_with_their_covariances():
    recording = recording_with(RAW, seed=4, name="mocap0", velocities=False, every=4)
    audit = audit_ground_truth(recording)
    assert audit.position_noise.std == pytest.approx(1e-3, rel=0.1)
    assert np.degrees(audit.orientation_noise.std) == pytest.approx(0.1, rel=0.1)
    errors = errors_of(audit, exact_truth(recording))
    score = nees(errors[::10, :9], audit.cov_states[::10, :9, :9]).mean() / 9.0
    # One recording: its constants alone scatter by a third.
    assert 0.3 < score < 2.5


def test_positions_alone_are_enough_for_all_states():
    recording = recording_with(
        replace(RAW, position_late_ms=4.0), seed=5, name="mocap0", duration_s=20.0
    )
    capture = replace(open_capture(recording, "mocap0"), Rs_w_m=None, claims=None, name="leica0")
    audit = audit_capture(recording, capture)
    assert audit.constants["position_late_ms"].value == pytest.approx(4.0, abs=1.0)
    errors = errors_of(audit, exact_truth(recording))
    # The heading is that of the positions' world; tilt that of gravity.
    assert np.degrees(np.abs(errors[:, :3]).max()) < 1.0
    assert np.abs(errors[:, 6:9]).max() < 0.02


def test_a_gap_and_a_jump_are_reported_and_survived():
    recording = recording_with(RAW, seed=6, name="mocap0", velocities=False, every=4)
    truth = recording.truths["mocap0"]
    Ts_w_b = truth.Ts_w_b.copy()
    Ts_w_b[700:720, 0, 3] += 0.05
    keep = np.ones(len(truth), dtype=bool)
    keep[1000:1060] = False
    broken = replace(
        truth,
        stamps_ns=truth.stamps_ns[keep],
        Ts_w_b=Ts_w_b[keep],
        v_w=truth.v_w[keep],
        bias_gyro=truth.bias_gyro[keep],
        bias_acc=truth.bias_acc[keep],
    )
    audit = audit_ground_truth(replace(recording, truths={"mocap0": broken}))
    texts = " ".join(finding.text for finding in audit.findings)
    assert "gap" in texts
    assert "positions jump by up to 5." in texts
    errors = errors_of(audit, exact_truth(recording))
    assert np.abs(errors[:, 6:9]).max() < 0.01


def changed(recording, **changes):
    name, truth = next(iter(recording.truths.items()))
    return replace(recording, truths={name: replace(truth, **changes)})


@pytest.fixture(scope="module")
def plain():
    return recording_with(RAW, seed=7, name="mocap0", velocities=False, every=4, duration_s=30.0)


def test_a_clock_off_by_seconds_is_found(plain):
    truth = plain.truths["mocap0"]
    audit = audit_ground_truth(changed(plain, stamps_ns=truth.stamps_ns + round(3.7 * NS)))
    assert audit.constants["position_late_ms"].value == pytest.approx(3700.0, abs=1.0)


def test_inverted_poses_are_named(plain):
    truth = plain.truths["mocap0"]
    inverted = np.array([se3_inv(T) for T in truth.Ts_w_b])
    with pytest.raises(DatasetError, match="inverted"):
        audit_ground_truth(changed(plain, Ts_w_b=inverted))


def test_another_order_of_quaternions_is_named(plain):
    truth = plain.truths["mocap0"]
    xyzw = Rotation.from_matrix(truth.Ts_w_b[:, :3, :3]).as_quat()
    misread = Rotation.from_quat(xyzw, scalar_first=True).as_matrix()
    with pytest.raises(DatasetError, match="x, y, z, w"):
        audit_ground_truth(changed(plain, Ts_w_b=stack_poses(misread, truth.Ts_w_b[:, :3, 3])))


def test_millimetres_are_named(plain):
    Ts_w_b = plain.truths["mocap0"].Ts_w_b.copy()
    Ts_w_b[:, :3, 3] *= 1000.0
    with pytest.raises(DatasetError, match="millimetres"):
        audit_ground_truth(changed(plain, Ts_w_b=Ts_w_b))


def test_a_body_rotated_by_90_deg_is_mended_and_reported(plain):
    R_b_m = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    Ts_w_b = plain.truths["mocap0"].Ts_w_b.copy()
    Ts_w_b[:, :3, :3] = Ts_w_b[:, :3, :3] @ R_b_m
    audit = audit_ground_truth(changed(plain, Ts_w_b=Ts_w_b))
    assert audit.constants["rotation_deg"].value == pytest.approx(90.0, abs=0.3)
    assert audit.constants["rotation_deg"].significant


def test_another_recordings_truth_is_refused(plain):
    other = recording_with(RAW, seed=8, name="mocap0", velocities=False, every=4, duration_s=30.0)
    with pytest.raises(DatasetError, match="one recording"):
        audit_ground_truth(replace(plain, truths=other.truths))


def test_too_short_a_truth_is_refused(plain):
    truth = plain.truths["mocap0"]
    short = {name: getattr(truth, name)[:100] for name in ("stamps_ns", "Ts_w_b", "v_w")}
    short |= {name: getattr(truth, name)[:100] for name in ("bias_gyro", "bias_acc")}
    with pytest.raises(DatasetError, match="at least 8 s"):
        audit_ground_truth(changed(plain, **short))


def test_a_recording_that_hardly_moves_says_about_which_axis_nothing_is_known():
    still = recording_with(
        RAW, seed=9, name="mocap0", velocities=False, every=4, kind="static", duration_s=20.0
    )
    findings = audit_ground_truth(still).findings
    unseen = [finding for finding in findings if finding.fault == "unobservable rotation"]
    assert len(unseen) == 1
    assert "about the body's axis (" in unseen[0].text


def test_an_audit_is_written_whole_and_reads_back(plain, tmp_path):
    audit = audit_ground_truth(plain)
    folder = tmp_path / "out" / "state_groundtruth_audited"
    write_audit(audit, folder)
    assert sorted(p.name for p in folder.iterdir()) == ["audit.json", "covariance.npz", "data.csv"]
    record = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    assert record["source"] == "mocap0"
    assert set(record["constants"]) >= {"rotation_deg", "tilt_deg", "position_late_ms"}
    with np.load(folder / "covariance.npz") as stored:
        assert stored["cov"].shape == (len(audit.truth), 15, 15)
        np.testing.assert_array_equal(stored["stamps_ns"], audit.truth.stamps_ns)
    write_euroc(replace(plain, truths={}), tmp_path / "recording")
    folder.rename(tmp_path / "recording" / "mav0" / folder.name)
    back = read_euroc(tmp_path / "recording").truths["state_groundtruth_audited"]
    np.testing.assert_allclose(back.Ts_w_b, audit.truth.Ts_w_b, atol=1e-12)
    for name in ("stamps_ns", "states", "neighbours", "with_constants", "constants", "imu_noise"):
        written = getattr(audit.truth.covariance, name)
        np.testing.assert_array_equal(getattr(back.covariance, name), written)


def test_covariances_of_single_rows_alone_are_not_used_and_said(plain, tmp_path, caplog):
    folder = tmp_path / "written_by_0_6"
    write_audit(audit_ground_truth(plain), folder)
    with np.load(folder / "covariance.npz") as stored:
        np.savez(folder / "covariance.npz", stamps_ns=stored["stamps_ns"], cov=stored["cov"])
    assert read_truth_folder(folder).covariance is None
    assert "run `maci2 truth` again" in caplog.text


def test_a_covariance_that_is_none_or_of_another_truth_is_refused(plain, tmp_path):
    folder = tmp_path / "written"
    write_audit(audit_ground_truth(plain), folder)
    with np.load(folder / "covariance.npz") as stored:
        whole = dict(stored)

    def refusal(**changes):
        np.savez(folder / "covariance.npz", **(whole | changes))
        with pytest.raises(DatasetError) as refused:
            read_truth_folder(folder)
        return str(refused.value)

    stamps_ns, states = whole["cov_stamps_ns"], whole["cov_states"]
    assert "timestamps do not rise" in refusal(cov_stamps_ns=stamps_ns[::-1])
    assert "NaN" in refusal(cov_states=np.where(states == states.max(), np.nan, states))
    assert "not positive" in refusal(cov_states=-states)
    assert "singular" in refusal(cov_constants=np.ones_like(whole["cov_constants"]))
    assert "pairs of neighbours" in refusal(
        cov_neighbours=whole["cov_neighbours"][1:], cov_imu_noise=whole["cov_imu_noise"][1:]
    )
    assert "belongs to another ground truth" in refusal(cov_stamps_ns=stamps_ns + 10**12)


def test_a_folder_inside_the_recording_is_refused_unless_asked_for(tmp_path):
    with pytest.raises(OptionError, match="inside the recording"):
        require_outside(tmp_path / "rec" / "mav0" / "x", tmp_path / "rec", inside=False)
    require_outside(tmp_path / "rec" / "mav0" / "x", tmp_path / "rec", inside=True)
    require_outside(tmp_path / "x", tmp_path / "rec", inside=False)


def test_an_unknown_source_is_refused_with_those_there_are(plain):
    with pytest.raises(OptionError, match="it has: mocap0"):
        audit_ground_truth(plain, "vicon7")


def test_raw_capture_judges_the_published_truth_beside_it(tmp_path):
    rotated = recording_with(replace(FAULTY, rotation_deg=(0.0, 3.0, -4.0)), seed=31)
    write_euroc(rotated, tmp_path)
    capture = next(iter(recording_with(RAW, seed=31, every=4).truths.values()))
    (tmp_path / "mav0" / "vicon0").mkdir()
    (tmp_path / "mav0" / "vicon0" / "data.csv").write_text(truth_csv(capture))
    recording = read_euroc(tmp_path)
    audit = audit_ground_truth(recording)
    first = beside_raw_capture(recording, audit).findings[0]
    assert first.fault == "raw capture"
    assert float(first.text.split()[3]) == pytest.approx(5.0, abs=0.5), first.text
    exact = replace(recording, truths={audit.name: exact_truth(rotated)})
    assert beside_raw_capture(exact, audit).findings == audit.findings
    raw = audit_ground_truth(recording, "vicon0")
    assert beside_raw_capture(recording, raw) is raw


def test_accelerations_show_the_markers_rotation_where_nothing_rotates():
    faults = replace(RAW, rotation_deg=(0.0, 0.0, 2.0))
    straight = recording_with(
        faults, seed=9, name="mocap0", velocities=False, every=4, kind="straight", duration_s=20.0
    )
    audit = audit_ground_truth(straight)
    rotation = audit.constants["rotation_deg"]
    # Nor does anything but rotation tell a tilt from a bias of the accelerometer.
    assert [finding.fault for finding in audit.findings][-1] == "unobservable gravity"
    assert rotation.value == pytest.approx(2.0, abs=4.0 * rotation.std)
    assert rotation.std < 0.1


@pytest.mark.slow
def test_faults_are_found_within_three_sigmas_in_95_percent_of_100_recordings():
    away = []
    for seed in range(100, 200):
        audit = audit_ground_truth(recording_with(FAULTY, seed, duration_s=60.0))
        away.append(list(sigmas(audit, EXPECTED).values()))
    shares = (np.array(away) < 3.0).mean(axis=0)
    assert (shares >= 0.95).all(), dict(zip(EXPECTED, shares, strict=True))


@pytest.mark.slow
def test_audited_states_of_raw_capture_have_a_nees_of_one():
    scores = []
    for seed in range(300, 340):
        recording = recording_with(RAW, seed, name="mocap0", velocities=False, every=4)
        audit = audit_ground_truth(recording)
        errors = errors_of(audit, exact_truth(recording))
        scores.append(nees(errors[::20, :9], audit.cov_states[::20, :9, :9]).mean() / 9.0)
    assert 0.9 < np.mean(scores) < 1.1


@pytest.mark.dataset
def test_raw_vicon_audited_agrees_with_vicon2gt_but_for_its_clock(data_root):
    recording = open_recording(data_root / "euroc" / "V1_01_easy")
    audit = audit_ground_truth(recording, "vicon0")
    theirs = recording.truths["state_groundtruth_openvins"]
    found = agreement(audit.truth, theirs, align_clocks=True)
    # Independent vision (DROID) finds their positions 8.5 ms late.
    assert found.late_s == pytest.approx(0.010, abs=0.002)
    assert found.position_m < 0.003
    assert found.rotation_deg < 0.15


@pytest.mark.dataset
def test_raw_capture_contradicts_the_original_truth_of_v1_01_by_more_than_five_degrees(data_root):
    recording = open_recording(data_root / "euroc" / "V1_01_easy")
    audit = audit_ground_truth(recording, "state_groundtruth_estimate0")
    rotation = audit.constants["rotation_deg"]
    assert rotation.significant
    assert rotation.value == pytest.approx(5.5, abs=1.0)
    found = beside_raw_capture(recording, audit).findings[0]
    assert found.fault == "raw capture"
    assert float(found.text.split(" deg")[0].split()[-1]) == pytest.approx(5.5, abs=0.3)
