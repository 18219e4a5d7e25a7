"""Windows that build on each other: better with time, and as sure as they say."""

import time

import numpy as np
import pytest

from maci2.live import OnlineConfig, OnlineInitializer
from maci2.sensors import truth_at
from online_cases import SimulatedTracker, errors_of, simulated

ENOUGH_S = 120.0
"""No wait ends because of this, unless something hangs."""


def results_of(source, seed, **choices):
    results, imu = [], source.recording.imu
    config = OnlineConfig(window_s=2.25, waiting_results=100_000, **choices)
    tracker = SimulatedTracker(source, 0.25, 10, seed)
    events = [(int(stamp), "imu", i) for i, stamp in enumerate(imu.stamps_ns)]
    events += [(int(stamp), "stereo", i) for i, stamp in enumerate(source.frames_ns)]
    with OnlineInitializer(source.recording.rig, config, results.append, tracker) as online:
        for stamp_ns, kind, i in sorted(events):
            if kind == "imu":
                online.add_imu(stamp_ns, imu.gyro[i], imu.acc[i])
            else:
                online.add_stereo(stamp_ns, source.image(i), source.image(i))
                while online.is_busy:
                    time.sleep(0.0005)
        assert online.drain(ENOUGH_S)
    return results


def scores(source, results):
    """(n, 5) NEES of gravity, velocity, gyroscope and accelerometer bias; sigma of gravity."""
    truth, T_b_c = source.recording.truth(), source.recording.rig.cameras[0].T_b_c
    rows = []
    for result in results:
        errors = errors_of(result, truth_at(truth, result.state.stamps_ns, 0.1), T_b_c)
        rows.append([errors.nees_gravity, errors.nees_velocity, errors.nees_gyro_bias,
                     errors.nees_acc_bias, result.gravity_std_deg])  # fmt: skip
        assert result.verdict.status != "ok" or errors.right
    return np.array(rows)


def test_gravity_is_known_better_the_longer_it_runs_unless_switched_off():
    source = simulated(16.0, seed=2)
    carried = results_of(source, 2)
    alone = results_of(source, 2, carry_biases=False)
    assert carried[0].gravity_std_deg == alone[0].gravity_std_deg
    last = [result.gravity_std_deg for result in carried[-9:]]
    assert np.mean(last) < 0.6 * np.mean([result.gravity_std_deg for result in alone[-9:]])
    assert np.mean(scores(source, carried)[:, :4]) < 3.0


@pytest.mark.soak
def test_sigmas_hold_over_fifty_runs_of_ten_minutes():
    rows = []
    for seed in range(100, 150):
        source = simulated(600.0, seed)
        rows.append(scores(source, results_of(source, seed)))
    mean = np.mean(np.concatenate(rows)[:, :4], axis=0)
    assert ((mean > 0.6) & (mean < 1.6)).all(), mean
    first = np.mean([row[:9, 4].mean() for row in rows])
    assert np.mean([row[-100:, 4].mean() for row in rows]) < 0.5 * first
