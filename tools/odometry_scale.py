"""How steady an odometry's scale is over two seconds, to an observer who knows the true motion.

    python tools/odometry_scale.py EUROC

prints, for DROID's trajectory of every recording, how far the scale over 2 s lies from that of the
time before, and how many changes by 5 % or more a rule on it would find within 2 s or longer that
gives a false alarm on one recording at most: what no watchdog can do better
(docs/research/tracking.md).
"""

import sys
from pathlib import Path

import numpy as np

from maci2.datasets import open_recording, read_trajectory
from maci2.sensors import poses_at
from maci2.types import Array
from maci2.vision import rectified_extrinsics
from maci2.vision.odometry import even_keyframes

RECORDINGS = (
    "MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_04_difficult", "MH_05_difficult", "V1_01_easy",
    "V1_02_medium", "V2_01_easy", "V2_03_difficult",
)  # fmt: skip
DEGRADED = ("V1_02_medium", "MH_04_difficult")
KEYFRAMES = 10
"""Keyframes of 0.2 s after a change in which it is to be found."""

DELAYS_S, SIZES = (2, 5, 10, 20), (0.05, 0.1, 0.15, 0.2)
"""Times until a change is to be found, and how large it is."""

BEFORE = {"20 s": 100, "all": 1_000_000}
"""Keyframes before it that its scale is compared with."""

SLOWEST = 0.2
"""[m/s] Below this there is no scale to see."""


def displacements(path: Path) -> tuple[Array, Array]:
    """(n, 3) of the odometry and of the ground truth from keyframe to keyframe, in the first."""
    recording = open_recording(path)
    odometry = read_trajectory(path / "visual" / "droid_stereo_Twc_tum.txt")
    truth = recording.truths.get("state_groundtruth_openvins") or recording.truth()
    assert truth is not None
    inside = (odometry.stamps_ns > truth.stamps_ns[0]) & (odometry.stamps_ns < truth.stamps_ns[-1])
    stamps_ns = even_keyframes(odometry.stamps_ns[inside], 0.2)
    Ts_w_c = poses_at(odometry.stamps_ns, odometry.Ts_w_c, stamps_ns, 1.0, source=path.name)
    Ts_w_b = poses_at(truth.stamps_ns, truth.Ts_w_b, stamps_ns, 1.0, source=path.name)
    moved = []
    for Ts in (Ts_w_c, Ts_w_b @ rectified_extrinsics(recording.rig)):
        moved.append(np.einsum("kji,kj->ki", Ts[:-1, :3, :3], np.diff(Ts[:, :3, 3], axis=0)))
    return moved[0], moved[1]


def changes(odometry: Array, truth: Array, before: int, keyframes: int = KEYFRAMES) -> Array:
    """Scale over the next keyframes relative to that of the keyframes before, less 1."""
    products, squares = (odometry * truth).sum(axis=1), (truth**2).sum(axis=1)
    found = []
    for k in range(25, len(squares) - keyframes):
        now, then = slice(k, k + keyframes), slice(max(k - before, 0), k)
        if min(squares[now].mean(), squares[then].mean()) > (0.2 * SLOWEST) ** 2:
            scale = products[now].sum() / squares[now].sum()
            found.append(scale / (products[then].sum() / squares[then].sum()) - 1.0)
    return np.array(found)


def main(root: Path) -> None:
    moved = {name: displacements(root / name) for name in RECORDINGS}
    for text, before in BEFORE.items():
        found = {name: changes(*pair, before) for name, pair in moved.items()}
        for name, change in found.items():
            away = np.abs(change - np.median(change))
            print(
                f"against {text} before, {name}: standard deviation {100 * change.std():.1f} %, "
                f"by the median {148.26 * np.median(away):.1f} %, largest "
                f"{100 * np.abs(change).max():.1f} %"
            )
    for delay_s in DELAYS_S:
        print_found(moved, delay_s)


def print_found(moved: dict[str, tuple[Array, Array]], delay_s: int) -> None:
    """Share of changes that are found in time, by how large they are."""
    found = {name: changes(*pair, BEFORE["all"], 5 * delay_s) for name, pair in moved.items()}
    limit = sorted(np.abs(change).max() for change in found.values())[-2]
    for name in DEGRADED:
        shares = []
        for size in SIZES:
            factors = (1.0 + size, 1.0 - size)
            degraded = [np.abs(factor * (1.0 + found[name]) - 1.0) for factor in factors]
            share = np.mean(np.concatenate(degraded) > limit)
            shares.append(f"{100 * share:.0f} % of changes by {100 * size:.0f} %")
        print(
            f"within {delay_s} s, alarm above {100 * limit:.1f} % (one recording of {len(found)} "
            f"has a false one), {name}: found {', '.join(shares)}"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
