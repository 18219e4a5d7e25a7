"""Speed compared with GTSAM and other libraries on the same problems, alternating in one run.

Machines are shared and noisy: what counts are ratios of medians of one thread's processor time,
which others on the machine lengthen less than they do wall time.
"""

import resource
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from time import thread_time
from typing import Any

import numpy as np

from maci2.calibration_prior import CALIBRATED
from maci2.errors import OptionError
from maci2.imu.learned_model import load_imu_model
from maci2.odometry import SmootherConfig, track
from maci2.simulation import SimulationConfig, simulate
from maci2.vision.covariance import Learned
from maci2.vision.two_frame import two_frame_pose
from maci2_lab.benchmarks.gtsam_chain import time_chains
from maci2_lab.benchmarks.gtsam_problem import (
    gtsam_build,
    gtsam_optimise,
    gtsam_preintegrate,
    import_gtsam,
    solve_with_gtsam,
)
from maci2_lab.benchmarks.vision_speed import (
    BENCH_CAMERA,
    image_speed,
    network_inputs,
    numpy_pose,
    random_matches,
    scipy_pose,
)
from maci2_lab.benchmarks.window_problem import Problem, gtsam_problem, joint_solve, window_problem

MEMORY_WINDOWS = 1000
STREAM_S = 120.0
RIDE_KEYFRAMES = 100
KEYFRAME_MS = 200.0
"""Interval between keyframes at 5 Hz [ms]."""


@dataclass(frozen=True)
class Comparison:
    """One comparison; a ratio above 1 means that maci2 is faster."""

    what: str
    ours_ms: float
    other: str
    other_ms: float

    @property
    def ratio(self) -> float:
        return self.other_ms / self.ours_ms


@dataclass(frozen=True)
class BenchReport:
    """All comparisons of one run."""

    comparisons: list[Comparison]
    velocity_difference: float
    """Largest difference of the two optima [m/s]; NaN without GTSAM."""

    gravity_difference: float
    """Difference of gravity [m/s^2]."""

    memory_growth_mb: float
    """Growth of the process over `MEMORY_WINDOWS` initializations [MB]."""

    notes: list[str]

    columns = ("what", "ours", "other", "", "ratio")

    def rows(self) -> list[tuple[str, ...]]:
        return [
            (c.what, f"{c.ours_ms:.3f} ms", c.other, f"{c.other_ms:.3f} ms", f"{c.ratio:.1f}")
            for c in self.comparisons
        ]

    def as_dict(self) -> dict[str, Any]:
        record = asdict(self)
        for entry, comparison in zip(record["comparisons"], self.comparisons, strict=True):
            entry["ratio"] = comparison.ratio
        for key in ("velocity_difference", "gravity_difference"):
            record[key] = record[key] if np.isfinite(record[key]) else None
        return record


def run_bench(repeats: int = 50) -> BenchReport:
    """Time everything; without GTSAM, maci2 alone, with a note."""
    small, large = window_problem(10), window_problem(100)
    solve_small, solve_large = joint_solve(small), joint_solve(large)
    comparisons, notes = [], []
    differences = (float("nan"), float("nan"))
    try:
        import_gtsam()
        against, differences, note = _against_gtsam(small, solve_small, repeats)
        comparisons += against
        notes.append(note)
        short, long = time_chains()
        what, ours_ms = "chain, 1000 states", 1e3 * short.ours_s
        comparisons.append(Comparison(what, ours_ms, "GTSAM", 1e3 * short.gtsam_s))
        comparisons.append(Comparison(what, ours_ms, "10 000 states", 1e3 * long.ours_s))
    except OptionError as error:
        notes.append(str(error))
    for what, ours, hundred in (
        ("joint solve, 10 keyframes", solve_small, solve_large),
        ("initialize, 10 keyframes", small.judge, large.judge),
    ):
        short_ms, long_ms = _alternate((ours, hundred), repeats)
        comparisons.append(Comparison(what, short_ms, "100 keyframes", long_ms))
    comparisons.append(_learned_model(max(repeats // 10, 1)))
    comparisons += _vision(repeats)
    comparisons.append(smoother_speed(window_problem(RIDE_KEYFRAMES), max(repeats // 10, 2)))
    notes.append(image_speed().text())
    notes += _training_step(comparisons)
    return BenchReport(comparisons, *differences, _memory_growth_mb(small), notes)


def _learned_model(repeats: int) -> Comparison:
    """Two minutes of samples through the bundled `euroc` model."""
    model = load_imu_model("euroc")
    recording = simulate(SimulationConfig(kind="drone", duration_s=STREAM_S))
    (ours_ms,) = _alternate((lambda: model.measure(recording.imu, check_mounting=False),), repeats)
    return Comparison("learned IMU model, 120 s", ours_ms, "real time", 1e3 * STREAM_S)


def smoother_speed(ride: Problem, repeats: int) -> Comparison:
    """Track from given relative poses, initialization included; the constants of the rig are
    estimated, as for every real rig."""
    walks = (ride.imu.walk_gyro, ride.imu.walk_acc)
    config = SmootherConfig(calibration=CALIBRATED)
    stamps_ns = ride.vision.stamps_ns
    (all_ms,) = _alternate(
        (lambda: track(ride.imu, ride.vision, ride.T_b_c, walks, stamps_ns, config),), repeats
    )
    return Comparison(
        "smoother, one keyframe", all_ms / len(stamps_ns), "a keyframe of 5 Hz", KEYFRAME_MS
    )


def _vision(repeats: int) -> list[Comparison]:
    """Two-frame pose of 400 matches and other implementations, and the network on them."""
    matches, covs, _ = random_matches(400)
    network, features = Learned(), network_inputs(400)
    ours, by_numpy, by_scipy, learned = _alternate(
        (
            lambda: two_frame_pose(matches, covs, BENCH_CAMERA),
            lambda: numpy_pose(matches, covs),
            lambda: scipy_pose(matches, covs),
            lambda: network(features),
        ),
        max(repeats // 5, 2),
    )
    return [
        Comparison("two-frame pose, 400 matches", ours, "numpy", by_numpy),
        Comparison("two-frame pose, 400 matches", ours, "scipy least_squares", by_scipy),
        Comparison("covariances of 400 matches", learned, "a keyframe of 5 Hz", KEYFRAME_MS),
    ]


def _training_step(comparisons: list[Comparison]) -> list[str]:
    """A training step's integration against pypose, where both are installed."""
    if find_spec("torch") is None or find_spec("pypose") is None:
        return ["training step: needs torch and pypose, not both installed; skipped"]
    # Only training imports torch; this room must not.
    step = import_module("maci2_lab.benchmarks.training_speed").bench_training_step()
    comparisons.append(Comparison("training step", step.ours_ms, "pypose", step.pypose_ms))
    return []


def _against_gtsam(
    problem: Problem, solve: Callable[[], Any], repeats: int
) -> tuple[list[Comparison], tuple[float, float], str]:
    theirs = gtsam_problem(problem)
    # As from images of a calibrated stereo camera; GTSAM has no factor of a motion with a scale in
    # Python, so it solves for one unknown less.
    images = replace(problem, vision=replace(problem.vision, std_scale=CALIBRATED.stereo_scale))
    preintegrated = gtsam_preintegrate(theirs)
    graph, start = gtsam_build(theirs, preintegrated)

    def build_and_optimise() -> Any:
        return gtsam_optimise(*gtsam_build(theirs, preintegrated))

    pairs = (
        ("preintegrate", problem.preintegrate, "GTSAM", lambda: gtsam_preintegrate(theirs)),
        ("joint solve", solve, "GTSAM optimise", lambda: gtsam_optimise(graph, start)),
        ("initialize, posterior", problem.initialize, "GTSAM build, optimise", build_and_optimise),
        ("initialize, verdict too", problem.judge, "GTSAM build, optimise", build_and_optimise),
        (
            "with free scale, posterior",
            images.initialize,
            "GTSAM without scale",
            build_and_optimise,
        ),
        ("with free scale, verdict too", images.judge, "GTSAM without scale", build_and_optimise),
    )
    comparisons = []
    for what, ours, other, other_work in pairs:
        ours_ms, other_ms = _alternate((ours, other_work), repeats)
        comparisons.append(Comparison(what, ours_ms, other, other_ms))
    found = solve_with_gtsam(theirs, repeats=max(repeats // 4, 1))
    solution = solve()
    # The world of the problem is the first camera's frame.
    differences = (
        float(np.abs(solution.states.v_w - found.v_c0).max()),
        float(np.abs(solution.shared.gravity_w - found.g_c0).max()),
    )
    note = (
        f"same answer: velocity within {differences[0]:.1e} m/s, gravity within "
        f"{differences[1]:.1e} m/s^2; of GTSAM's preintegration "
        f"{1e3 * found.times.binding_s:.2f} ms are its Python binding"
    )
    return comparisons, differences, note


def _alternate(works: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median processor time of each [ms], called in turn so that load affects all of them."""
    for work in works:
        work()
    times = np.empty((repeats, len(works)))
    for i in range(repeats):
        for j, work in enumerate(works):
            began = thread_time()
            work()
            times[i, j] = thread_time() - began
    return [float(time) for time in 1e3 * np.median(times, axis=0)]


def _memory_growth_mb(problem: Problem) -> float:
    for _ in range(50):
        problem.judge()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(MEMORY_WINDOWS):
        problem.judge()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
