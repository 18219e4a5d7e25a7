"""Ground truths that are wrong as a whole, or in some rows, and what an audit says of them."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.geometry import so3_exp
from maci2.geometry.se3 import so3_log_stack, stack_poses
from maci2.tools.ground_truth.accelerations import fit_accelerations
from maci2.tools.ground_truth.audit import audit_capture, audit_ground_truth
from maci2.tools.ground_truth.capture import open_capture
from maci2.tools.ground_truth.findings import scalar_of, velocity_finding
from maci2.tools.ground_truth.registration import register, without_lost_rows
from maci2.types import NS
from tools.ground_truth.faulty_truths import TruthFaults, exact_truth, recording_with

RAW = TruthFaults(std_mm=1.0, std_deg=0.1)
UPSIDE_DOWN = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])


@pytest.fixture(scope="module")
def raw():
    return recording_with(RAW, seed=41, name="mocap0", velocities=False, every=4, duration_s=30.0)


def with_positions(recording, change):
    """The recording with the positions of its ground truth changed."""
    name, truth = next(iter(recording.truths.items()))
    Ts_w_b = stack_poses(truth.Ts_w_b[:, :3, :3], change(truth.Ts_w_b[:, :3, 3]))
    return replace(recording, truths={name: replace(truth, Ts_w_b=Ts_w_b)})


def fit_of(recording):
    capture = open_capture(recording)
    found = register(capture, recording.imu)
    return fit_accelerations(capture, found, found.R_b_m, recording.imu)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p * [-1.0, 1.0, 1.0], r"mirrored .* read as \(-x, y, z\)"),
        (lambda p: p[:, [0, 2, 1]], r"mirrored .* read as \(x, z, y\)"),
        (lambda p: p[:, [1, 2, 0]], r"in other axes .* read as \(z, x, y\)"),
        (lambda p: p @ so3_exp(np.array([0.3, 0.0, 0.6])).T, "worlds 38 deg apart"),
        (lambda p: 0.0 * p, "do not change along x, y, z"),
        (lambda p: p * [1.0, 1.0, 0.0], "do not change along z"),
        (lambda p: p / 0.3048, "positions are in feet"),
        (lambda p: 1.1 * p, "1.1 ± .* positions have another scale"),
    ],
    ids=["mirrored", "exchanged", "permuted", "rotated", "constant", "planar", "feet", "1.1"],
)
def test_what_is_wrong_with_positions_is_named(raw, change, words):
    with pytest.raises(DatasetError, match=words):
        audit_ground_truth(with_positions(raw, change))


def test_millimetres_are_named_where_only_positions_were_tracked(raw):
    capture = open_capture(with_positions(raw, lambda p: 1000.0 * p))
    alone = replace(capture, Rs_w_m=None, claims=None, name="leica0")
    with pytest.raises(DatasetError, match="millimetres"):
        audit_capture(raw, alone)


def test_scale_gravity_and_bias_come_from_accelerations(raw):
    fit = fit_of(with_positions(raw, lambda p: 1.02 * p))
    assert fit.scale == pytest.approx(1.02, abs=4.0 * fit.std_scale)
    assert fit.std_scale < 0.003
    np.testing.assert_allclose(fit.up_w, [0.0, 0.0, 1.0], atol=0.01)
    true_bias = exact_truth(raw).bias_acc.mean(axis=0)
    np.testing.assert_allclose(fit.bias_acc, true_bias, atol=0.03)


def test_rows_of_a_gap_of_the_imu_say_nothing(raw):
    samples = raw.imu
    kept = np.ones(len(samples), dtype=bool)
    kept[2000:2300] = False
    holed = replace(
        samples, stamps_ns=samples.stamps_ns[kept], gyro=samples.gyro[kept], acc=samples.acc[kept]
    )
    assert fit_of(replace(raw, imu=holed)).scale == pytest.approx(1.0, abs=0.01)


@pytest.mark.slow
def test_the_sigma_of_the_scale_is_that_of_its_errors():
    away = []
    for seed in range(500, 530):
        fit = fit_of(
            recording_with(RAW, seed, name="mocap0", velocities=False, every=4, duration_s=60.0)
        )
        away.append((fit.scale - 1.0) / fit.std_scale)
    # Noise of orientations is noise of the regressor, too: it shortens the scale by half a sigma.
    assert -1.0 < np.mean(away) < 0.3
    # 99.9 % of a chi-square with 30 degrees of freedom is 1.99 of them.
    assert 0.4 < np.mean(np.square(away)) < 2.0


def test_a_world_upside_down_is_levelled_and_said():
    recording = recording_with(RAW, seed=42, name="mocap0", velocities=False, every=4)
    truth = recording.truths["mocap0"]
    Ts = truth.Ts_w_b
    turned = stack_poses(UPSIDE_DOWN @ Ts[:, :3, :3], Ts[:, :3, 3] @ UPSIDE_DOWN.T)
    audit = audit_ground_truth(replace(recording, truths={"mocap0": replace(truth, Ts_w_b=turned)}))
    assert audit.constants["tilt_deg"].value == pytest.approx(180.0, abs=0.3)
    assert next(f.text for f in audit.findings if f.fault == "world").startswith("up is -z")
    force_w = np.einsum(
        "nij,nj->ni", audit.truth.Ts_w_b[:, :3, :3], recording.imu.acc[1 : len(audit.truth) + 1]
    )
    assert force_w[:, 2].mean() == pytest.approx(9.8, abs=0.2)


def test_a_clock_off_by_hours_is_said_in_seconds(raw):
    truth = raw.truths["mocap0"]
    late = replace(truth, stamps_ns=truth.stamps_ns + 7200 * NS)
    audit = audit_ground_truth(replace(raw, truths={"mocap0": late}))
    assert audit.constants["position_late_ms"].value == pytest.approx(7.2e6, abs=1.0)
    [text] = [f.text for f in audit.findings if f.fault == "position_late_ms"]
    assert text.startswith("position 7200.0")
    assert text.endswith(" s late")


def test_rows_of_a_lost_tracker_are_named_and_not_used(raw):
    truth = raw.truths["mocap0"]
    Ts = truth.Ts_w_b.copy()
    Ts[500:550] = np.eye(4)
    Ts[900:960] = Ts[900]
    lost = replace(raw, truths={"mocap0": replace(truth, Ts_w_b=Ts)})
    capture = open_capture(lost)
    cleaned = without_lost_rows(capture, register(capture, lost.imu), lost.imu)
    np.testing.assert_array_equal(cleaned.lost_ns, truth.stamps_ns[np.r_[500:550, 900:960]])
    audit = audit_ground_truth(lost)
    assert any("110 rows repeat one pose" in finding.text for finding in audit.findings)
    exact = exact_truth(raw)
    rows = np.searchsorted(exact.stamps_ns, audit.truth.stamps_ns)
    apart = audit.truth.Ts_w_b[:, :3, 3] - exact.Ts_w_b[rows, :3, 3]
    assert np.abs(apart).max() < 0.02


def test_a_truth_at_rest_has_lost_nothing():
    still = recording_with(TruthFaults(), seed=43, kind="static", duration_s=12.0)
    capture = open_capture(still)
    found = register(capture, still.imu)
    assert len(without_lost_rows(capture, found, still.imu).lost_ns) == 0


def test_jumps_between_the_rows_used_of_a_smoothed_truth_are_found():
    recording = recording_with(TruthFaults(std_mm=0.2, std_deg=0.01), seed=44)
    name, truth = next(iter(recording.truths.items()))
    Ts = truth.Ts_w_b.copy()
    at_s = (truth.stamps_ns - truth.stamps_ns[0]) / NS
    Ts[(at_s > 12.3) & (at_s < 12.8), 0, 3] += 0.03
    late = at_s > 25.6
    Ts[late, :3, :3] = Ts[late, :3, :3] @ so3_exp(np.deg2rad([0.0, 0.0, 3.0]))
    audit = audit_ground_truth(replace(recording, truths={name: replace(truth, Ts_w_b=Ts)}))
    texts = [finding.text for finding in audit.findings if finding.fault == "jumps"]
    assert len(texts) == 2
    assert texts[0].startswith("positions jump by up to 3.")
    assert "12." in texts[0]
    assert texts[1].startswith("orientations jump by up to 3.")
    assert "25." in texts[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v, R: v, ""),
        (lambda v, R: 0.0 * v, "are 0 m/s rms"),
        (lambda v, R: -v, "wrong sign"),
        (lambda v, R: 1000.0 * v, "1e+03 times"),
        (lambda v, R: np.einsum("nji,nj->ni", R, v), "in the body's frame"),
        (lambda v, R: np.roll(v, 700, axis=0), "do not follow the motion"),
    ],
)
def test_velocity_columns_that_are_none_are_named(raw, change, words):
    truth = exact_truth(raw)
    # A body that stays nearly level moves in its own frame as it does in the world.
    upended = so3_exp(np.array([0.0, 1.2, 0.4]))
    R = truth.Ts_w_b[:, :3, :3] @ upended
    audited = replace(truth, Ts_w_b=stack_poses(R, truth.Ts_w_b[:, :3, 3]))
    findings = velocity_finding("t", replace(audited, v_w=change(truth.v_w, R)), audited, np.eye(3))
    assert [words in finding.text for finding in findings] == [True] * bool(words)


def test_few_blocks_make_a_constant_less_significant():
    # 4 sigmas: chance 6e-5 where sigma is known, .057 with two degrees of freedom (Student).
    assert scalar_of(4e-3, 1e-3, "ms").significant
    assert not scalar_of(4e-3, 1e-3, "ms", dof=2).significant
    assert scalar_of(1.04, 0.004, "ratio").significant
    assert not scalar_of(1.02, 0.001, "ratio").significant


def test_marker_rotation_survives_rows_without_a_change(raw):
    """Registration ignores impossible rates of a few rows."""
    truth = raw.truths["mocap0"]
    Ts = truth.Ts_w_b.copy()
    Ts[500:540] = np.eye(4)
    damaged = open_capture(replace(raw, truths={"mocap0": replace(truth, Ts_w_b=Ts)}))
    found = register(damaged, raw.imu)
    assert found.correlation > 0.98
    assert np.linalg.norm(so3_log_stack(found.R_b_m[None])) < np.deg2rad(1.0)


def test_the_marker_is_where_it_is_stated_about_an_axis_that_no_rotation_shows():
    yawing = recording_with(
        RAW, seed=45, name="mocap0", velocities=False, every=4, kind="planar_yaw", duration_s=20.0
    )
    found = register(open_capture(yawing), yawing.imu)
    assert np.linalg.norm(so3_log_stack(found.R_b_m[None])) < np.deg2rad(3.0)
    assert fit_of(yawing).scale == pytest.approx(1.0, abs=0.03)


def test_a_truth_at_rest_has_no_offset():
    still = recording_with(RAW, seed=46, kind="static", duration_s=12.0)
    assert register(open_capture(still), still.imu).offset_s == 0.0
