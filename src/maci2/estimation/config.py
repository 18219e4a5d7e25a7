"""Choices of the estimator."""

from dataclasses import dataclass

from maci2.imu import Rule
from maci2.types import GRAVITY_NORM


@dataclass(frozen=True)
class SolverConfig:
    """Choices of the joint optimization; the defaults run every recording unchanged."""

    gravity_on_sphere: bool = True
    """Gravity has its known norm and two unknowns; otherwise it is a free vector of three."""

    gravity_norm: float = GRAVITY_NORM
    """[m/s^2], where gravity is on the sphere."""

    estimate_gyro_bias: bool = True
    estimate_acc_bias: bool = True
    """With the IMU model's prior; otherwise the bias is the prior's mean."""

    imu_cross_terms: bool = True
    """Weigh IMU residuals with the full 9x9 covariance, not only its three 3x3 blocks."""

    imu_identity: bool = False
    """Weigh every IMU residual alike, whatever its covariance [rad, m/s, m]: for ablations."""

    robust: bool = True
    """A visual step that noise does not explain counts linearly, not by its square."""

    estimate_time_offset: bool = False
    """The camera's stamps may be off by a constant, up to 0.1 s."""

    rule: Rule = "midpoint"
    """How samples are integrated."""

    max_iterations: int = 50
    """Levenberg-Marquardt steps before the report says 'not converged'."""

    step_tolerance: float = 1e-9
    """Stop when the largest entry of the update is below this [m, rad, m/s, ...]."""
