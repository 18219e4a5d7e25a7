"""Gaps and overlap, with timestamps and lengths in the message."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import DatasetError
from maci2.sensors import gaps, require_overlap
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

STAMPS_NS = np.delete(1_000_000_000 + 5_000_000 * np.arange(1000), np.s_[400:410])


def test_gaps_are_indices_of_the_samples_before_them():
    np.testing.assert_array_equal(gaps(STAMPS_NS), [399])
    assert len(gaps(STAMPS_NS[:1])) == 0


def test_a_truth_on_another_clock_is_refused_with_both_ranges():
    recording = simulate(SimulationConfig(duration_s=5.0))
    truth = recording.truth()
    require_overlap(truth, recording.imu)
    late = replace(truth, stamps_ns=truth.stamps_ns + 100 * NS, source="truth.csv")
    with pytest.raises(DatasetError) as raised:
        require_overlap(late, recording.imu)
    assert "truth.csv" in str(raised.value)
    assert str(late.stamps_ns[0]) in str(raised.value)
    assert str(recording.imu.stamps_ns[-1]) in str(raised.value)
    assert "apart by 95.00" in str(raised.value)
