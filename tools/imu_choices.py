"""How the constants of the gyroscope's bias tracker were chosen: each training recording left out.

    python tools/imu_choices.py ROOT

ROOT holds EuRoC's recordings. Only those that `euroc` is trained and tuned on are opened. Means and
spreads come from the other five, and biases from audits of their ground truths.
"""

import sys
from pathlib import Path

import numpy as np

from maci2_lab.evaluation.truth_states import Indices
from maci2.imu import BiasPrior, bias_tracker
from maci2.imu.bias_tracker import (
    StationaryShift,
    TrackedBias,
    block_length,
    stationary_blocks,
    track_gyro_bias,
)
from maci2_lab.training.imu.recipes import EUROC
from maci2_lab.training.imu.data import bias_prior
from maci2_lab.training.imu.train import (load_tracks, rest_shift)
from maci2_lab.training.imu.data import Track

EARLY_S = 20.0


def others(tracks: list[Track], left_out: Track) -> BiasPrior:
    """Bias to expect of a recording, from all but it."""
    seen = [track for track in tracks if track is not left_out]
    return bias_prior([track.own_bias for track in seen])


def shift_of_others(tracks: list[Track], left_out: Track) -> StationaryShift:
    """What its gyroscope reads at rest beyond its bias in motion, likewise."""
    return rest_shift([track for track in tracks if track is not left_out])


def tracked(tracks: list[Track], track: Track) -> TrackedBias:
    """Gyroscope bias and its spread, as known without the recording itself."""
    return track_gyro_bias(track.imu, others(tracks, track), shift_of_others(tracks, track))


def compare_bias(tracks: list[Track]) -> None:
    """Error and NEES of the tracked gyroscope bias, early and late."""
    # Compiled code keeps the constants it was compiled with.
    bias_tracker._track = bias_tracker._track.py_func
    at_rest = bias_tracker.MAX_STD
    for walk, speed, max_std in (
        (4e-5, 2.5, at_rest),
        (2.5e-5, 2.5, at_rest),
        (1.5e-5, 2.5, at_rest),
        (2.5e-5, 1.5, at_rest),
        (2.5e-5, 4.0, at_rest),
        (2.5e-5, 2.5, (0.0, 0.0)),
    ):
        bias_tracker.WALK_GYRO, bias_tracker.STD_SPEED = walk, speed
        bias_tracker.MAX_STD = max_std
        rms, early, late = [], [], []
        for track in tracks:
            bias, std, _ = tracked(tracks, track)
            error = bias - track.own_bias.mean[:3]
            error[_after_rest(track)] = np.nan  # there it is the reading at rest
            cut = int(EARLY_S * track.imu.rate_hz)
            rms.append(np.nanmean(error[cut:] ** 2, axis=0))
            early.append(np.nanmean(error[:cut] ** 2 / std[:cut] ** 2, axis=0))
            late.append(np.nanmean(error[cut:] ** 2 / std[cut:] ** 2, axis=0))
        print(f"walk {walk:.1e} rad/s/sqrt(s), speed {speed} m/s, rest {max_std}: after {EARLY_S:.0f} s rms "
              f"{1e4 * np.sqrt(np.mean(rms, axis=0))} e-4 rad/s; NEES first {EARLY_S:.0f} s "
              f"{np.mean(early, axis=0)}, later {np.mean(late, axis=0)}")  # fmt: skip


def _after_rest(track: Track) -> Indices:
    """Samples whose block comes after one at rest."""
    period = block_length(track.imu)
    after = period * (np.flatnonzero(stationary_blocks(track.imu).still)[:, None] + 1)
    samples = (after + np.arange(period)).ravel()
    return samples[samples < len(track.imu)]


def main() -> None:
    np.set_printoptions(precision=3, suppress=True, linewidth=150)
    tracks = load_tracks(EUROC, EUROC.train + EUROC.tune, Path(sys.argv[1]))
    print(", ".join(track.name for track in tracks))
    compare_bias(tracks)


if __name__ == "__main__":
    main()
