"""What is compiled and loaded before the first sensor speaks."""

import numpy as np
import pytest

from maci2.estimation import initialize
from maci2.pipeline.online import rehearsal
from maci2.simulation import SimulationConfig, simulate


@pytest.mark.parametrize(("window_s", "keyframes"), [(2.5, 10), (2.5, 8), (1.7, 7)])
def test_a_whole_window_is_initialized_and_forgotten(monkeypatch, window_s, keyframes):
    """Whatever the spacing rounds to."""
    seen = []

    def watched(imu, vision, T_b_c):
        seen.append(vision)
        return initialize(imu, vision, T_b_c)

    monkeypatch.setattr(rehearsal, "initialize", watched)
    rig = simulate(SimulationConfig(duration_s=2.0)).rig
    tracker = rehearsal.tracked_noise(rig, window_s, keyframes)
    (vision,) = seen
    assert len(vision.stamps_ns) == keyframes
    np.testing.assert_allclose(np.diff(vision.stamps_ns), window_s * 1e9 / (keyframes - 1), atol=1)
    assert tracker.window() is None
