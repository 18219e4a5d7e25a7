"""No input from Python crashes the interpreter, and what is wrong is refused in plain words."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import maci2
from helpers import simulated_window
from maci2 import validation
from maci2.errors import MeasurementError
from maci2.types import NS

CASES = Path(__file__).with_name("validation_cases.py")

MADE_BY_MACI2 = {
    "Alarm",
    "AuditedTruth",
    "CalibratedRecording",
    "CalibrationResult",
    "Diagnosis",
    "Finding",
    "ImuModel",
    "InitResult",
    "InitializedRecording",
    "OnlineStatus",
    "Posterior",
    "RecordedTrack",
    "Recording",
    "RestartState",
    "SolveReport",
    "TrackedState",
    "TrackerStatus",
    "VIState",
    "Verdict",
    "WatchedRecording",
}
"""Classes that users receive and do not construct."""


def run_cases(seed: int) -> str:
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", CASES, str(seed)],
        capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(maci2.__file__).parents[1])},
    )  # fmt: skip
    last = run.stdout.splitlines()[-1:] or ["nothing printed"]
    assert run.returncode == 0, f"after {last[0]}: {run.stderr}"
    return run.stdout


def test_every_public_entry_point_refuses_wrong_values_and_survives_them():
    printed = run_cases(seed=0)
    cases = int(printed.split("cases: ")[1])
    assert cases > 1000
    covered = set(printed.split("entry points: ")[1].splitlines()[0].split())
    errors = {name for name in dir(maci2) if name.endswith("Error")}
    assert set(dir(maci2)) - errors - MADE_BY_MACI2 - {"__version__"} <= covered


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 11))
def test_other_random_shapes_are_refused_too(seed):
    run_cases(seed)


LAYOUTS = {
    "lists": lambda a: a.tolist(),
    "fortran order": np.asfortranarray,
    "every second of twice as many": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed twice": lambda a: a[::-1].copy()[::-1],
    "big endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "not aligned": lambda a: _misaligned(a),
    "read only": lambda a: _read_only(a),
}


def _misaligned(values):
    raw = np.zeros(values.nbytes + 1, dtype=np.uint8)[1:]
    made = raw.view(values.dtype).reshape(values.shape)
    made[...] = values
    return made


def _read_only(values):
    made = values.copy()
    made.flags.writeable = False
    return made


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_of_any_layout_give_the_same_result(layout):
    as_laid_out = LAYOUTS[layout]
    window = simulated_window("drone", 3)
    names = ("stamps_ns", "gyro", "acc", "var_gyro", "var_acc", "cov_0")
    imu = replace(window.imu, **{name: as_laid_out(getattr(window.imu, name)) for name in names})
    vision = maci2.RelativePoses(
        as_laid_out(window.vision.stamps_ns),
        as_laid_out(window.vision.Ts_ck_ck1),
        as_laid_out(window.vision.covs_T_ck_ck1),
    )
    expected = maci2.initialize(window.imu, window.vision, window.truth.T_b_c)
    result = maci2.initialize(imu, vision, as_laid_out(window.truth.T_b_c))
    np.testing.assert_array_equal(result.state.gravity_c0, expected.state.gravity_c0)
    assert all(getattr(imu, name).flags.carray for name in names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda i: {"gyro": i.gyro.T},
            r"gyro has the shape \(3, 551\), .*\(551, 3\): it is transp",
        ),
        (lambda i: {"stamps_ns": i.stamps_ns[:-3]}, r"gyro has the shape \(551, 3\), needed \(548"),
        (lambda i: {"stamps_ns": i.stamps_ns / NS}, r"float64, such as 17.*needed integer nanosec"),
        (lambda i: {"stamps_ns": i.stamps_ns // 1000}, "look like microseconds: multiply .* 1000"),
        (lambda i: {"stamps_ns": i.stamps_ns // 10**6}, "look like milliseconds"),
        (lambda i: {"stamps_ns": i.stamps_ns[::-1]}, "not strictly increasing: .* at index 1 "),
        (
            lambda i: {"acc": np.where(i.acc == i.acc.max(), np.nan, i.acc)},
            r"acc is nan at index \(",
        ),
        (lambda i: {"acc": i.acc.astype(str)}, "acc holds <U"),
        (lambda i: {"acc": np.ma.masked_less(i.acc, 0.0)}, "masked array with entries missing"),
    ],
)
def test_samples_that_are_not_some_say_what_was_found_and_needed(change, message):
    imu = simulated_window("drone", 3).imu
    samples = maci2.ImuSamples(imu.stamps_ns, imu.gyro, imu.acc)
    with pytest.raises(maci2.DatasetError, match=message):
        replace(samples, **change(samples))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda T: T[:3, :3], r"T_b_c has the shape \(3, 3\), needed \(4, 4\)"),
        (lambda T: T @ np.diag([1.1, 1.1, 1.1, 1.0]), "its rotation is scaled by 1.1, allowed"),
        (lambda T: T @ np.diag([1.0, 1.0, -1.0, 1.0]), "T_b_c mirrors"),
        (lambda T: T.T, "last row other than 0 0 0 1; is the transform transposed"),
        (lambda T: T + np.eye(4, k=1), "no rigid transform: its rotation is off by"),
    ],
)
def test_extrinsics_that_are_not_rigid_say_why(change, message):
    window = simulated_window("drone", 3)
    with pytest.raises(MeasurementError, match=message):
        maci2.initialize(window.imu, window.vision, change(window.truth.T_b_c))


def test_samples_given_for_measurements_are_told_the_way():
    window = simulated_window("drone", 3)
    samples = maci2.ImuSamples(window.imu.stamps_ns, window.imu.gyro, window.imu.acc)
    with pytest.raises(MeasurementError, match=r"imu is of the type ImuSamples.*raw_model\(sam"):
        maci2.initialize(samples, window.vision, window.truth.T_b_c)


def test_an_array_of_the_right_type_is_not_copied():
    values = np.zeros((5, 3))
    assert validation.as_array(values, (None, 3), "values") is values
    stamps_ns = np.arange(5)
    assert validation.as_stamps(stamps_ns, "stamps_ns") is stamps_ns
