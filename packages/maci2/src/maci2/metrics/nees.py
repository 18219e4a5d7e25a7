"""Consistency of the predicted uncertainties: predicted sigma against actual error, simulated."""

from dataclasses import dataclass

import numpy as np

from maci2.consistency import initialize
from maci2.imu import datasheet_model
from maci2.metrics.init_errors import InitErrors, initialization_errors
from maci2.sensors import truth_at
from maci2.simulation import MotionKind, SimulationConfig, simulate
from maci2.types import Array
from maci2.vision import pose_noise, poses_from_truth

KINDS: tuple[MotionKind, ...] = ("handheld", "drone", "car", "static")

NOISE_RANGE = (0.4, 4.0)
"""Multiples of 0.05 deg and 3 mm per relative pose between which vision noise is sampled."""


@dataclass(frozen=True)
class Sample:
    """Predicted standard deviations and actual errors of one window."""

    kind: MotionKind
    """Kind of motion."""

    gravity_std_deg: float
    """Predicted standard deviation of gravity's direction."""

    velocity_std: float
    """Root mean square over keyframes of the predicted |dv| [m/s]."""

    errors: InitErrors
    """Errors against the simulated truth."""


@dataclass(frozen=True)
class Bin:
    """Windows of similar predicted uncertainty."""

    predicted: float
    """Root mean square of the predicted sigma."""

    actual: float
    """Root mean square of the error."""

    count: int
    """Windows in the bin."""


def study_consistency(count: int, seed: int) -> list[Sample]:
    """Initialize on `count` simulated windows with noise sampled as declared."""
    return [_simulated_sample(KINDS[index % len(KINDS)], (seed, index)) for index in range(count)]


def _simulated_sample(kind: MotionKind, seed: tuple[int, int]) -> Sample:
    rng = np.random.default_rng(seed)
    drawn = int(rng.integers(2**31))
    recording = simulate(SimulationConfig(kind=kind, duration_s=3.0, seed=drawn, bias_walk=False))
    truth = recording.truth()
    assert truth is not None
    stamps_ns = recording.camera_stamps_ns[0][np.linspace(2, 52, 10).round().astype(int)]
    T_b_c = recording.rig.cameras[0].T_b_c
    scale = float(np.exp(rng.uniform(*np.log(NOISE_RANGE))))
    cov_pose = pose_noise(0.05 * scale, 0.003 * scale)
    vision = poses_from_truth(truth, stamps_ns, T_b_c, cov_pose, (*seed, 1))
    result = initialize(datasheet_model(recording.imu, recording.rig.imu), vision, T_b_c)
    states, state, posterior = truth_at(truth, stamps_ns, 0.1), result.state, result.posterior
    assert state is not None
    assert posterior is not None
    assert result.gravity_std_deg is not None
    mean_bias = states.bias_gyro.mean(axis=0)
    errors = initialization_errors(state, states, T_b_c, state.gyro_bias, mean_bias, posterior)
    variance = np.trace(posterior.velocity_b, axis1=1, axis2=2).mean()
    return Sample(kind, result.gravity_std_deg, float(np.sqrt(variance)), errors)


def equal_bins(predicted: Array, actual: Array, count: int) -> list[Bin]:
    """Equally filled bins of predicted sigma; on y = x the prediction is consistent."""
    groups = [group for group in np.array_split(np.argsort(predicted), count) if len(group)]
    return [Bin(_rms(predicted[group]), _rms(actual[group]), len(group)) for group in groups]


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def mean_nees(samples: list[Sample]) -> dict[str, float]:
    """Mean normalised error squared per degree of freedom, over all windows."""
    scores = {name: [one.errors.nees[name] for one in samples] for name in samples[0].errors.nees}
    return {
        name: float(np.mean([score for score in of if score is not None]))
        for name, of in scores.items()
    }
