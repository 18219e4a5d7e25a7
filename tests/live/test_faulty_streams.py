"""Streams with every fault that drivers have: within five seconds of good data there is an answer
that says `ok` and is right, or a state that is tracked, and no answer ever says so and is wrong.
"""

import logging

import numpy as np
import pytest

from faulty_streams import FAULTS, TrackingHarness, run


def test_a_minute_of_faults_from_four_threads():
    order = ("camera clock", "bursts", "both clocks", "imu outliers", "bad frames", "imu clock",
             "camera outliers")  # fmt: skip
    run(list(order), seed=3)


@pytest.mark.soak
def test_half_an_hour_of_faults_from_four_threads(caplog):
    # Records that pytest keeps hold tracebacks, and those hold results.
    caplog.set_level(logging.CRITICAL, logger="maci2")
    rng = np.random.default_rng(8)
    faults = [str(fault) for _ in range(16) for fault in rng.permutation(FAULTS)]
    used = run(faults[:200], seed=8)
    memory = [mb for mb, _, _ in used]
    assert max(memory[150:]) < max(memory[30:60]) + 10.0
    assert {(files, threads) for _, files, threads in used[30:]} == {used[30][1:]}


def test_faults_do_not_lead_a_tracker_astray():
    order = ("camera gap", "both clocks", "bad frames", "imu outliers", "camera clock")
    run(list(order), seed=5, kind=TrackingHarness)


@pytest.mark.soak
def test_ten_minutes_of_faults_do_not_lead_a_tracker_astray(caplog):
    caplog.set_level(logging.CRITICAL, logger="maci2")
    rng = np.random.default_rng(11)
    faults = [str(fault) for _ in range(5) for fault in rng.permutation(FAULTS)]
    used = run(faults, seed=11, kind=TrackingHarness)
    memory = [mb for mb, _, _ in used]
    assert max(memory[50:]) < max(memory[20:35]) + 10.0
    assert {(files, threads) for _, files, threads in used[20:]} == {used[20][1:]}
