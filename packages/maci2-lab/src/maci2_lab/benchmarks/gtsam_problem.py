"""Solution of a window by GTSAM, for comparison of results and times.

GTSAM is an optional dependency of development. Its preintegration, the construction of its graph
and its optimisation are functions of their own, so that they can be timed apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import thread_time
from types import ModuleType
from typing import Any

import numpy as np

from maci2.errors import OptionError
from maci2.geometry import se3_adj, se3_inv
from maci2.geometry.gaussian import symmetrize
from maci2.types import Array

# Their tangent is [phi, rho], ours [rho, phi].
_SWAP = np.array([3, 4, 5, 0, 1, 2])

# The first pose fixes the frame and nothing else speaks against it, so any spread [rad, m] gives
# the same answer; this one keeps the problem well conditioned.
_FIRST_POSE_STD = 1e-3


@dataclass(frozen=True)
class GtsamProblem:
    """One window: m + 1 keyframes and m segments between them, as plain arrays.

    c0 stands for any fixed frame; the first pose is held where it is.
    """

    dts: Sequence[Array]
    """m arrays (n_k,): duration of each IMU sample [s]."""

    gyro: Sequence[Array]
    """m arrays (n_k, 3): angular rate, held from each sample to the next [rad/s]."""

    acc: Sequence[Array]
    """m arrays (n_k, 3): specific force, held from each sample to the next [m/s^2]."""

    psd_gyro: Array
    """(3,) squared noise density [(rad/s)^2/Hz]; a variance of single samples times dt."""

    psd_acc: Array
    """(3,) squared noise density [(m/s^2)^2/Hz]."""

    Ts_bk_bk1: Array
    """(m, 4, 4) measured motion of the body from each keyframe to the next."""

    cov_Ts_bk_bk1: Array
    """(m, 6, 6) left perturbation, order [rho, phi], [m, rad]."""

    Ts_c0_b: Array
    """(m + 1, 4, 4) initial guess of the poses."""

    v_c0: Array
    """(m + 1, 3) initial guess of the velocities in c0 [m/s]."""

    g_c0: Array
    """(3,) initial guess of gravity in c0 [m/s^2]; its norm is estimated, too."""

    bias_gyro: Array
    """(3,) gyroscope bias [rad/s]: prior mean, initial guess and point of preintegration."""

    bias_acc: Array
    """(3,) accelerometer bias [m/s^2]: prior mean, initial guess and point of preintegration."""

    std_bias_gyro: Array
    """(3,) standard deviation of the prior [rad/s]; infinity means no prior."""

    std_bias_acc: Array
    """(3,) standard deviation of the prior [m/s^2]; infinity means no prior."""


@dataclass(frozen=True)
class GtsamResult:
    """Result of GTSAM."""

    v_c0: Array
    """(m + 1, 3) [m/s]"""

    g_c0: Array
    """(3,) [m/s^2]"""

    bias_gyro: Array
    """(3,) [rad/s]"""

    binding_ms: float
    """Part of preintegration that is Python handing over arrays, not GTSAM integrating: measured
    with calls that compute nothing [ms]."""


def solve_with_gtsam(problem: GtsamProblem, repeats: int = 1) -> GtsamResult:
    """Preintegrate, build and optimise; Python's binding is timed `repeats` times."""
    values, _ = gtsam_optimise(*gtsam_build(problem, gtsam_preintegrate(problem)))
    (binding_ms,) = alternate((lambda: _hand_over(problem),), repeats)
    _, velocity, bias, gravity = _keys(import_gtsam(), len(problem.Ts_c0_b))
    return GtsamResult(
        v_c0=np.array([values.atVector(key) for key in velocity]),
        g_c0=np.asarray(values.atVector(gravity)),
        bias_gyro=np.asarray(values.atConstantBias(bias).gyroscope()),
        binding_ms=binding_ms,
    )


def alternate(works: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """Median processor time of each [ms], called in turn so that load affects all of them; a first
    call, which may compile, does not count."""
    for work in works:
        work()
    times = np.empty((repeats, len(works)))
    for i in range(repeats):
        for j, work in enumerate(works):
            began = thread_time()
            work()
            times[i, j] = thread_time() - began
    return [float(time) for time in 1e3 * np.median(times, axis=0)]


def gtsam_preintegrate(problem: GtsamProblem) -> list[Any]:
    """GTSAM's preintegrated measurements, one for each segment."""
    gtsam = import_gtsam()
    params = gtsam.PreintegrationParams(problem.g_c0)
    params.setGyroscopeCovariance(np.diag(problem.psd_gyro))
    params.setAccelerometerCovariance(np.diag(problem.psd_acc))
    # Their default is the identity; white noise on the samples is all that we declare.
    params.setIntegrationCovariance(np.zeros((3, 3)))
    bias = gtsam.imuBias.ConstantBias(problem.bias_acc, problem.bias_gyro)
    preintegrated = []
    for dts, gyro, acc in zip(problem.dts, problem.gyro, problem.acc, strict=True):
        measurements = gtsam.PreintegratedImuMeasurements(params, bias)
        integrate = measurements.integrateMeasurement
        for dt, omega_b, force_b in zip(dts.tolist(), gyro, acc, strict=True):
            integrate(force_b, omega_b, dt)
        preintegrated.append(measurements)
    return preintegrated


def _hand_over(problem: GtsamProblem) -> None:
    """Pass every sample to GTSAM, as integration does, without computing anything."""
    take = import_gtsam().PreintegrationParams(problem.g_c0).setOmegaCoriolis
    for dts, gyro, acc in zip(problem.dts, problem.gyro, problem.acc, strict=True):
        for _, omega_b, force_b in zip(dts.tolist(), gyro, acc, strict=True):
            take(force_b)
            take(omega_b)


def gtsam_build(problem: GtsamProblem, preintegrated: Sequence[Any]) -> tuple[Any, Any]:
    """GTSAM's factor graph and initial values."""
    gtsam = import_gtsam()
    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    pose, velocity, bias, gravity = _keys(gtsam, len(problem.Ts_c0_b))

    poses = [gtsam.Pose3(T_c0_b) for T_c0_b in problem.Ts_c0_b]
    first_pose_noise = gtsam.noiseModel.Isotropic.Sigma(6, _FIRST_POSE_STD)
    graph.add(gtsam.PriorFactorPose3(pose[0], poses[0], first_pose_noise))
    bias_start = gtsam.imuBias.ConstantBias(problem.bias_acc, problem.bias_gyro)
    # Their bias vector is [acc, gyro].
    bias_std = np.concatenate([problem.std_bias_acc, problem.std_bias_gyro])
    bias_noise = gtsam.noiseModel.Diagonal.Precisions(1.0 / bias_std**2)
    graph.add(gtsam.PriorFactorConstantBias(bias, bias_start, bias_noise))

    motions = zip(problem.Ts_bk_bk1, problem.cov_Ts_bk_bk1, preintegrated, strict=True)
    for k, (T_bk_bk1, cov_T_bk_bk1, measurements) in enumerate(motions):
        noise = gtsam.noiseModel.Gaussian.Covariance(_cov_as_gtsam(T_bk_bk1, cov_T_bk_bk1))
        motion = gtsam.Pose3(T_bk_bk1)
        graph.add(gtsam.BetweenFactorPose3(pose[k], pose[k + 1], motion, noise))
        graph.add(
            gtsam.ImuFactorWithGravityVector(
                pose[k], velocity[k], pose[k + 1], velocity[k + 1], bias, gravity, measurements
            )
        )

    for k in range(len(poses)):
        values.insert(pose[k], poses[k])
        values.insert(velocity[k], problem.v_c0[k])
    values.insert(bias, bias_start)
    values.insert(gravity, problem.g_c0)
    return graph, values


def gtsam_optimise(graph: Any, start: Any) -> tuple[Any, float]:
    """Values and sum of squared whitened residuals after Levenberg-Marquardt with their default
    parameters: of their solvers, orderings and damping schemes the fastest on these problems."""
    gtsam = import_gtsam()
    optimizer = gtsam.LevenbergMarquardtOptimizer(graph, start, gtsam.LevenbergMarquardtParams())
    values = optimizer.optimize()
    # Their error is half of the sum.
    return values, 2.0 * optimizer.error()


def import_gtsam() -> ModuleType:
    """The module gtsam; raises an error with the install command without it."""
    try:
        import gtsam
    except ImportError as error:
        raise OptionError(
            "the comparison needs gtsam, which is not installed; pip install 'maci2-lab[bench]'."
        ) from error
    return gtsam


def _keys(gtsam: ModuleType, count: int) -> tuple[list[int], list[int], int, int]:
    """Keys of the poses, the velocities, the bias and gravity."""
    shorthand = gtsam.symbol_shorthand
    poses = [shorthand.X(k) for k in range(count)]
    velocities = [shorthand.V(k) for k in range(count)]
    return poses, velocities, shorthand.B(0), shorthand.G(0)


def _cov_as_gtsam(T: Array, cov_T: Array) -> Array:
    """Covariance of a left perturbation [rho, phi] as one of a right perturbation [phi, rho].

    Exp(xi) T = T Exp(Ad(T^-1) xi).
    """
    Ad = se3_adj(se3_inv(T))
    return symmetrize(Ad @ cov_T @ Ad.T)[np.ix_(_SWAP, _SWAP)]
