"""Speed on one window, ours and GTSAM's on the same numbers, alternating in one run.

Machines are shared and noisy: what counts are ratios of medians of one thread's processor time,
which others on the machine lengthen less than they do wall time.
"""

import resource
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from time import thread_time
from typing import Any

import numpy as np

from maci2.benchmarks.gtsam_chain import time_chains
from maci2.benchmarks.gtsam_problem import (
    GtsamProblem,
    gtsam_build,
    gtsam_optimise,
    gtsam_preintegrate,
    import_gtsam,
    solve_with_gtsam,
)
from maci2.benchmarks.vision_speed import (
    BENCH_CAMERA,
    image_speed,
    network_inputs,
    numpy_pose,
    random_matches,
    scipy_pose,
)
from maci2.errors import OptionError
from maci2.estimation import SolverConfig, initialize
from maci2.estimation.initial_guess import start_values
from maci2.estimation.levenberg_marquardt import DECREMENT, Unknowns, Variables, optimize
from maci2.estimation.rotation_alignment import align_rotations
from maci2.estimation.solve import joint_measurements, joint_priors
from maci2.imu import ImuMeasurements, datasheet_model, preintegrate
from maci2.imu.learned_model import load_imu_model
from maci2.lie import se3_adj, se3_inv
from maci2.simulation import SimulationConfig, simulate
from maci2.tracking import SmootherConfig, track
from maci2.tracking.calibration_spread import MEASURED
from maci2.types import Array
from maci2.vision import RelativePoses, pose_noise, poses_from_truth
from maci2.vision.covariance_models import Learned
from maci2.vision.two_frame import two_frame_pose

CONFIG = SolverConfig(gravity_on_sphere=False, robust=False, rule="euler")
"""Choices of GTSAM's factors: free gravity vector, Euler integration, no robust loss."""

MEMORY_WINDOWS = 1000
STREAM_S = 120.0
RIDE_KEYFRAMES = 100
KEYFRAME_MS = 200.0
"""From keyframe to keyframe at 5 Hz."""


@dataclass(frozen=True)
class Comparison:
    """One thing timed; a ratio above 1 says that ours is faster."""

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
    """Largest, between the two optima [m/s]; NaN without GTSAM."""

    gravity_difference: float
    """[m/s^2]"""

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


@dataclass(frozen=True)
class Problem:
    """One simulated window, measured."""

    imu: ImuMeasurements
    vision: RelativePoses
    T_b_c: Array

    def preintegrate(self) -> Any:
        return preintegrate(self.imu, self.vision.stamps_ns, rule=CONFIG.rule)

    def initialize(self) -> Any:
        """State and posterior."""
        return initialize(self.imu, self.vision, self.T_b_c, CONFIG)

    def judge(self) -> Any:
        """The same with the verdict, which frees the rig's constants to test them."""
        return self.initialize().verdict


def window_problem(keyframes: int, seed: int = 0) -> Problem:
    """A drone's flight; keyframes 0.28 s apart, on IMU timestamps, 56 samples between them: ten of
    them span 2.5 s and 500 samples."""
    duration_s = 0.28 * keyframes + 0.5
    recording = simulate(
        SimulationConfig(
            kind="drone",
            duration_s=duration_s,
            seed=seed,
            camera_rate_hz=25.0,
            camera_offset_ns=0,
            bias_walk=False,
        )
    )
    truth = recording.truth()
    assert truth is not None
    T_b_c = recording.rig.cameras[0].T_b_c
    stamps_ns = recording.camera_stamps_ns[0][: 7 * keyframes : 7]
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (seed,))
    imu = datasheet_model(recording.imu, recording.rig.imu)
    return Problem(imu.between(int(stamps_ns[0]), int(stamps_ns[-1])), vision, T_b_c)


def run_bench(repeats: int = 50) -> BenchReport:
    """Time everything; without GTSAM only ourselves, with a note."""
    small, large = window_problem(10), window_problem(100)
    solve_small, solve_large = _joint_solve(small), _joint_solve(large)
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
    """Tracking from given relative poses, start included, over its keyframes; the rig's constants
    are estimated along, as for every real rig."""
    walks = (ride.imu.walk_gyro, ride.imu.walk_acc)
    config = SmootherConfig(calibration=MEASURED)
    stamps_ns = ride.vision.stamps_ns
    (all_ms,) = _alternate(
        (lambda: track(ride.imu, ride.vision, ride.T_b_c, walks, stamps_ns, config),), repeats
    )
    return Comparison(
        "smoother, one keyframe", all_ms / len(stamps_ns), "a keyframe of 5 Hz", KEYFRAME_MS
    )


def _vision(repeats: int) -> list[Comparison]:
    """The two-frame pose of 400 matches against others' ways, and the network on them."""
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
    step = import_module("maci2.benchmarks.training_speed").bench_training_step()
    comparisons.append(Comparison("training step", step.ours_ms, "pypose", step.pypose_ms))
    return []


def _joint_solve(problem: Problem) -> Callable[[], Any]:
    """The optimization alone, from the same start each time."""
    start = _start(problem)
    prior = problem.imu.bias_prior
    pre = preintegrate(problem.imu, problem.vision.stamps_ns, start.bg, prior.mean_acc, CONFIG.rule)
    measurements = joint_measurements(problem.vision, pre, CONFIG, 1.0)
    priors = joint_priors(prior, CONFIG)
    unknowns = Unknowns(False, True, True, False, False)
    return lambda: optimize(measurements, priors, unknowns, start, 50, DECREMENT, False)[0]


def _start(problem: Problem) -> Variables:
    prior = problem.imu.bias_prior
    pre = problem.preintegrate()
    bias_gyro = align_rotations(pre, problem.vision, problem.T_b_c[:3, :3], prior, False).bias_gyro
    pre = preintegrate(
        problem.imu, problem.vision.stamps_ns, bias_gyro, prior.mean_acc, CONFIG.rule
    )
    Ts_c0_b, v_b, g_c0 = start_values(pre, problem.vision, problem.T_b_c, CONFIG.gravity_norm)
    return Variables(
        Ts_c0_b, v_b, g_c0, bias_gyro, prior.mean_acc, np.ascontiguousarray(problem.T_b_c)
    )


def _against_gtsam(
    problem: Problem, joint_solve: Callable[[], Any], repeats: int
) -> tuple[list[Comparison], tuple[float, float], str]:
    theirs = gtsam_problem(problem)
    preintegrated = gtsam_preintegrate(theirs)
    graph, start = gtsam_build(theirs, preintegrated)

    def build_and_optimise() -> Any:
        return gtsam_optimise(*gtsam_build(theirs, preintegrated))

    pairs = (
        ("preintegrate", problem.preintegrate, "GTSAM", lambda: gtsam_preintegrate(theirs)),
        ("joint solve", joint_solve, "GTSAM optimise", lambda: gtsam_optimise(graph, start)),
        ("initialize, posterior", problem.initialize, "GTSAM build, optimise", build_and_optimise),
        ("initialize, verdict too", problem.judge, "GTSAM build, optimise", build_and_optimise),
    )
    comparisons = []
    for what, ours, other, other_work in pairs:
        ours_ms, other_ms = _alternate((ours, other_work), repeats)
        comparisons.append(Comparison(what, ours_ms, other, other_ms))
    found = solve_with_gtsam(theirs, repeats=max(repeats // 4, 1))
    x = joint_solve().x
    v_c0 = np.einsum("kij,kj->ki", x.Ts_c0_b[:, :3, :3], x.v_b)
    differences = (
        float(np.abs(v_c0 - found.v_c0).max()),
        float(np.abs(x.g_c0 - found.g_c0).max()),
    )
    note = (
        f"same answer: velocity within {differences[0]:.1e} m/s, gravity within "
        f"{differences[1]:.1e} m/s^2; of GTSAM's preintegration "
        f"{1e3 * found.times.binding_s:.2f} ms are its Python binding"
    )
    return comparisons, differences, note


def gtsam_problem(problem: Problem) -> GtsamProblem:
    """The same window in GTSAM's terms: body motions, velocities in c0."""
    imu, vision, T_b_c = problem.imu, problem.vision, problem.T_b_c
    start = _start(problem)
    cuts = np.searchsorted(imu.stamps_ns, vision.stamps_ns)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    period_s = float(np.diff(imu.stamps_ns).mean()) / 1e9
    Ad = se3_adj(T_b_c)
    return GtsamProblem(
        dts=[np.diff(imu.stamps_ns[part.start : part.stop + 1]) / 1e9 for part in parts],
        gyro=[imu.gyro[part] for part in parts],
        acc=[imu.acc[part] for part in parts],
        psd_gyro=imu.var_gyro[0] * period_s,
        psd_acc=imu.var_acc[0] * period_s,
        Ts_bk_bk1=T_b_c @ vision.Ts_ck_ck1 @ se3_inv(T_b_c),
        cov_Ts_bk_bk1=Ad @ vision.covs_T_ck_ck1 @ Ad.T,
        Ts_c0_b=start.Ts_c0_b,
        v_c0=np.einsum("kij,kj->ki", start.Ts_c0_b[:, :3, :3], start.v_b),
        g_c0=start.g_c0,
        bias_gyro=start.bg,
        bias_acc=start.ba,
        std_bias_gyro=imu.bias_prior.std_gyro,
        std_bias_acc=imu.bias_prior.std_acc,
    )


def _alternate(works: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median processor time of each [ms], called in turn: a noisy moment hits all of them."""
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
