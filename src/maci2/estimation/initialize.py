"""Initialization with its verdict."""

from dataclasses import (replace)
from maci2.estimation.problem import (Variables)
from maci2.estimator.config import (DEFAULT_CONFIG, SolverConfig)
from maci2.estimator.initialize import (SolvedWindow, solve_window)
from maci2.estimator.results import (InitResult)
from maci2.imu import (ImuMeasurements)
from maci2.types import (Array)
from maci2.vision import (RelativePoses)



def initialize(
    imu: ImuMeasurements,
    vision: RelativePoses,
    T_b_c: Array,
    config: SolverConfig | None = None,
    limits: InitLimits | None = None,
    premises: Premises | None = None,
) -> InitResult:
    """Estimate gravity, velocities, biases and poses over the keyframes of `vision`.

    Workflow (a), learned IMU: `imu` has corrected samples with learned variances and a narrow prior
    of the remaining bias. Workflow (b), raw IMU: data-sheet variances, gyroscope bias unknown.

    Args:
        imu: IMU measurements from `raw_model`, `datasheet_model` or `ImuModel.measure`; they must
            cover the keyframes.
        vision: relative poses of at least four keyframes, with covariances.
        T_b_c: (4, 4) pose in the body of the camera frame that `vision` refers to.
        config: choices of the solver.
        limits: largest errors that the verdict `ok` allows.
        premises: evidence about the constants gathered so far (`PremiseEvidence`); without it, only
            this window tests them. Extrinsics and scale that are neither confirmed nor contradicted
            are accepted and listed in `verdict.taken_as_given`; an `ok` then depends on them.
            `InitLimits(trust_constants=False)` makes such a result `weak`.

    Returns:
        State, posterior covariance, report and verdict. A window that cannot be solved raises
        nothing; its verdict is `failed`, with reasons.

    Raises:
        MeasurementError: an argument has the wrong type or shape, T_b_c is not rigid, or there are
            too few keyframes.
        DatasetError: the samples do not cover the keyframes or have a gap.
    """
    T_b_c = as_transform(T_b_c, "T_b_c")
    config, limits = config or DEFAULT_CONFIG, limits or DEFAULT_LIMITS
    require_arguments(imu, vision, config)
    require_type(limits, InitLimits, "limits", "InitLimits()")
    require_window(imu, vision)

    solved = solve_window(imu, vision, T_b_c, config)
    if premises is not None:
        evidence = Evidence(with_window_samples(premises, imu))
    else:
        evidence = _window_evidence(imu, solved, T_b_c, config)
    solves = solved.report.solves + (evidence.freed.solves if evidence.freed is not None else 0)
    return judge_initialization(
        solved.state,
        solved.posterior,
        replace(solved.report, solves=solves),
        solved.vision,
        solved.rotations,
        imu.bias_prior,
        limits,
        evidence,
        config.gravity_norm,
    )


def _window_evidence(
    imu: ImuMeasurements, solved: SolvedWindow, T_b_c: Array, config: SolverConfig
) -> Evidence:
    """Evidence of the window about the constants."""
    report, freed = solved.report, None
    if solved.posterior is not None and report.converged:
        freed = free_constants(imu, solved.vision, solved.state, config, solved.spans)
        if report.rejected:
            # Wrong constants make poses look like outliers: others may explain all of them.
            of_all = free_constants(imu, solved.all_poses, solved.state, config, solved.spans)
            if of_all is not None and of_all.inflation <= report.inflation:
                freed = of_all
    # Wrong axes fit worse than the stated noise; where nothing does, no others can fit better.
    misfit = report.inflation > 1.0
    if freed is not None and not misfit and not report.rejected:
        return Evidence(None, True, freed, tuple(samples_contradicted(imu)))
    premises = window_premises(imu, solved.vision, T_b_c, config.rule, misfit)
    return Evidence(premises, True, freed)


def require_arguments(imu: ImuMeasurements, vision: RelativePoses, config: SolverConfig) -> None:
    """Raise unless the arguments are measurements, not raw samples or images."""
    require_type(
        imu, ImuMeasurements, "imu", "raw_model(samples, noise) or a learned model makes them"
    )
    require_type(vision, RelativePoses, "vision", "RelativePoses(stamps_ns, Ts_ck_ck1, covs)")
    require_type(config, SolverConfig, "config", "SolverConfig()")
