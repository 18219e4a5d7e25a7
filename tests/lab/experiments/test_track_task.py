"""Odometry beside other systems: the best is marked, and claims hold where the numbers do."""

from maci2.datasets import write_euroc
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.experiments.track import COLUMNS, track_findings, track_task


def row(system, ate_m, over_1s_m, **more):
    horizons = {"1": [over_1s_m, over_1s_m], "5": [0.1, 0.1], "10": [0.2, 0.2]}
    numbers = {"ate_m": ate_m, "scale": 1.01, "scale_1s": 1.0, "relative_m": horizons}
    return {"system": system, **numbers, **more}


def findings(nees_velocity=1.0, other_ate_m=0.03, others=()):
    nees = {
        "velocity": nees_velocity,
        "gravity": 1.0,
        "gyro_bias": 1.0,
        "orientation": None,
        "position": None,
    }
    rows = [
        row("maci2, causal", 0.02, 0.005, nees=nees, nees_against="audited"),
        row("another", other_ate_m, 0.006),
        *others,
    ]
    task = {"recording": "MH_01", "vision": "images", "imu": "raw"}
    return track_findings([{"task": task, "rows": rows}])


def test_the_lowest_errors_are_marked():
    (table,) = findings().tables
    own, other = table.lines
    for column in ("ATE [m]", "1 s rms [m]"):
        at = COLUMNS.index(column)
        assert own.cells[at].best
        assert not other.cells[at].best
    assert own.cells[COLUMNS.index("scale over 1 s")].value == 1.0


def test_claims_hold_where_the_numbers_do():
    assert all(claim.holds for claim in findings().claims)
    assert [c.text for c in findings(nees_velocity=0.4).claims if not c.holds] == [
        "MH_01, vision images, IMU raw: NEES of velocity 0.5 to 2"
    ]
    assert [c.text for c in findings(other_ate_m=0.01).claims if not c.holds] == [
        "MH_01, vision images, IMU raw: causal ATE below every other system's"
    ]


def test_of_a_fused_trajectory_scale_and_smoothing_are_claimed():
    smoothed, alone = "maci2, smoothed as a whole", row("vision alone", 0.05, 0.02)
    held = findings(others=(row(smoothed, 0.02, 0.004), alone)).claims
    assert len(held) == len(findings().claims) + 2
    assert all(claim.holds for claim in held)
    worse = findings(others=(row(smoothed, 0.021, 0.004), alone)).claims
    assert [claim.text for claim in worse if not claim.holds] == [
        "MH_01, vision images, IMU raw: ATE smoothed as a whole no higher than causal"
    ]


def test_a_recording_without_the_preferred_ground_truth_is_scored_against_its_own(tmp_path):
    write_euroc(simulate(SimulationConfig(kind="drone", duration_s=8.0, seed=3)), tmp_path / "own")
    result = track_task("own", tmp_path / "own", "truth:0.05,0.003", "raw").run()
    assert not result.problem
    causal, smoothed = result.rows
    assert causal["ate_m"] < 0.1
    assert smoothed["ate_m"] < 0.1
