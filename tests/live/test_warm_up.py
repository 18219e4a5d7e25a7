"""What is compiled and loaded before the first sensor speaks."""

import pytest

from maci2.jit import warm_up
from maci2.live import OnlineInitializer, OnlineTracker, initializer, tracker
from maci2.simulation import SimulationConfig, simulate
from online_cases import SimulatedTracker, simulated


@pytest.mark.parametrize(
    ("made", "room", "jobs"),
    [
        (OnlineInitializer, initializer, {"initialize"}),
        (OnlineTracker, tracker, {"initialize", "chain"}),
    ],
)
def test_kernels_are_warm_before_the_first_sample(monkeypatch, made, room, jobs):
    """Those of images too, unless the motion comes from elsewhere."""
    asked = []
    monkeypatch.setattr(room, "warm_up", lambda *names: asked.append(set(names)))
    made(simulate(SimulationConfig(duration_s=2.0)).rig).close()
    source = simulated(2.0, seed=0)
    made(source.recording.rig, tracker=SimulatedTracker(source, 0.2, 16)).close()
    assert asked == [jobs | {"odometry"}, jobs]


def test_all_jobs_run_on_their_own_data():
    warm_up("odometry", "initialize", "chain")
