"""Integration errors against an audited truth that was made with the same samples."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.geometry.gaussian import nees
from maci2.imu import datasheet_model
from maci2.sensors import truth_at
from maci2.tools.ground_truth.audit import audit_ground_truth
from maci2_lab.evaluation.audited_integration import audited_states, audited_windows
from maci2_lab.evaluation.imu_report import PARTS, Predictor, imu_report
from maci2_lab.evaluation.integration_errors import NO_LABEL_NOISE
from tools.ground_truth.faulty_truths import (
    FAULTY,
    PUBLISHED,
    TruthFaults,
    exact_truth,
    loud,
    recording_with,
)

NOISY = replace(PUBLISHED, std_deg=0.05)
"""As noisy as the audit takes a smoothed truth to be at least."""


def unbiased(recording):
    """The samples without their true biases: white noise as the data sheet says is left."""
    sheet, truth = datasheet_model(recording.imu, recording.rig.imu), exact_truth(recording)
    inside = np.clip(sheet.stamps_ns, truth.stamps_ns[0], truth.stamps_ns[-1])
    at = truth_at(truth, inside, np.inf)
    return replace(sheet, gyro=sheet.gyro - at.bias_gyro, acc=sheet.acc - at.bias_acc)


def windows_of(recording, truth, horizon_s):
    states = audited_states(recording.imu, recording.rig.imu, truth, recording.name)
    return audited_windows(states, horizon_s)


def scores(recording, truth, horizon_s, factor=1.0):
    """NEES per degree of freedom by part, of samples said to be noisier by a factor."""
    windows = windows_of(recording, truth, horizon_s)
    imu = unbiased(recording)
    imu = replace(imu, var_gyro=factor * imu.var_gyro, var_acc=factor * imu.var_acc)
    errors = windows.errors(imu)
    cov = windows.cov(errors, None)
    return [nees(errors.e[:, b], cov[:, b, b]).mean() / 3.0 for b in PARTS.values()]


@pytest.fixture(scope="module")
def audited():
    recording = loud(recording_with(NOISY, 61, duration_s=40.0))
    return recording, audit_ground_truth(recording).truth


def test_windows_have_the_horizon_in_the_mean_and_end_at_audited_states(audited):
    recording, truth = audited
    windows = windows_of(recording, truth, 0.25)
    dt = windows.errors(unbiased(recording)).dt
    assert dt.mean() == pytest.approx(0.25, abs=0.002)
    ends_ns = recording.imu.stamps_ns[windows.states.samples[windows.last]]
    assert np.isin(ends_ns, truth.covariance.stamps_ns).all()


def test_less_of_the_samples_error_shows_over_shorter_windows(audited):
    def shown(horizon_s):
        return np.abs(np.linalg.eigvals(windows_of(*audited, horizon_s).seen)).mean()

    assert shown(0.2) < shown(1.0) < 1.0 + 1e-6


def test_samples_with_noise_as_stated_are_consistent_with_an_audited_truth(audited):
    for horizon_s in (0.25, 1.0):
        # 78 windows of three numbers each, neighbours half the same.
        assert scores(*audited, horizon_s) == pytest.approx([1.0] * 3, abs=0.4)
    # A model that states four times the variance is told so, as far as its noise shows.
    assert max(scores(*audited, 1.0, factor=4.0)) < 0.75


@pytest.mark.slow
def test_nees_against_audited_truths_is_one_over_many_recordings():
    found = []
    for seed in range(70, 78):
        recording = loud(recording_with(NOISY, seed, duration_s=60.0))
        truth = audit_ground_truth(recording).truth
        found.append([scores(recording, truth, horizon_s) for horizon_s in (0.25, 1.0)])
    # 940 windows: a standard deviation of 0.03 for the longer ones, which overlap.
    np.testing.assert_allclose(np.mean(found, axis=0), 1.0, atol=0.12)


@pytest.fixture(scope="module")
def smooth():
    """Noise of positions would look like jumps of a published truth."""
    return loud(recording_with(FAULTY, 62, duration_s=20.0))


def test_a_report_names_scores_against_both_truths(smooth):
    predictor = Predictor(unbiased, lambda samples: samples, None, lambda _: NO_LABEL_NOISE)
    report = imu_report([smooth], {"exact": predictor}, growth_s=(0.25,), bins=3, audit=True)
    nees_published = report["average"]["exact"]["nees"]["1.0"]
    nees_audited = report["audited"]["average"]["exact"]["nees"]["1.0"]
    assert nees_published["velocity"] > 3.0 * nees_audited["velocity"]
    assert set(report["audited"]) == {"sequences", "average", "bins"}
    assert len(report["audited"]["bins"]["exact"]["0.25"]["position"]) == 3


def test_a_report_without_anything_to_audit_says_none(smooth):
    ((name, truth),) = smooth.truths.items()
    short = truth.part(truth.stamps_ns < truth.stamps_ns[0] + 5 * 10**9)
    predictor = Predictor(unbiased, lambda samples: samples, None, lambda _: NO_LABEL_NOISE)
    report = imu_report([replace(smooth, truths={name: short})], {"exact": predictor}, audit=True)
    assert report["audited"]["average"] is None
    assert report["audited"]["sequences"] == {}


def test_a_model_that_corrects_a_scale_is_scored_against_an_audit_that_does():
    faults = TruthFaults(std_mm=1.0, std_deg=0.1)
    exact = recording_with(faults, 63, 20.0, name="mocap0", velocities=False, every=4)
    wrong = replace(exact, imu=replace(exact.imu, gyro=1.01 * exact.imu.gyro))

    def predictor(calibrated):
        return Predictor(lambda _: unbiased(exact), calibrated, None, lambda _: NO_LABEL_NOISE)

    predictors = {
        "calibrated": predictor(lambda _: exact.imu),
        "recorded": predictor(lambda samples: samples),
    }
    report = imu_report([wrong], predictors, growth_s=(), audit=True)["audited"]["average"]
    rotation = {name: each["nees"]["0.25"]["rotation"] for name, each in report.items()}
    assert 0.4 < rotation["calibrated"] < 1.6
    assert rotation["recorded"] > 3.0 * rotation["calibrated"]


def test_a_model_that_corrects_a_scale_wrongly_is_found_out():
    """Its own audit follows the wrong samples between rows, but not from row to row."""
    faults = TruthFaults(std_mm=1.0, std_deg=0.1)
    exact = recording_with(faults, 63, 20.0, name="mocap0", velocities=False, every=4)
    wrong = replace(exact, imu=replace(exact.imu, gyro=1.01 * exact.imu.gyro))
    predictor = Predictor(
        lambda _: unbiased(wrong), lambda _: wrong.imu, None, lambda _: NO_LABEL_NOISE
    )
    report = imu_report([exact], {"wrong": predictor}, growth_s=(), audit=True)
    rotation = {
        horizon: report["audited"]["average"]["wrong"]["nees"][horizon]["rotation"]
        for horizon in ("0.25", "1.0")
    }
    assert min(rotation.values()) > 2.0
