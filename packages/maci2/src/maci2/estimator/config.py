"""Choices of the joint optimization."""

from dataclasses import dataclass, fields
from typing import get_args

from maci2.errors import OptionError
from maci2.field_docs import document_fields
from maci2.imu import Rule
from maci2.types import GRAVITY_NORM
from maci2.validation import as_number, require_choice


@dataclass(frozen=True)
class SolverConfig:
    """Choices of the joint optimization; the defaults are used for every recording."""

    gravity_on_sphere: bool = True
    """Fix the norm of gravity and estimate its direction; otherwise estimate a free vector."""

    gravity_norm: float = GRAVITY_NORM
    """Norm of gravity [m/s^2] if `gravity_on_sphere`."""

    estimate_gyro_bias: bool = True
    """Estimate the gyroscope bias with the prior of the IMU model; otherwise use its mean."""

    estimate_acc_bias: bool = True
    """Estimate the accelerometer bias with the prior of the IMU model; otherwise use its mean."""

    tracked_vertical: bool = True
    """Use what the IMU model knows of the vertical from samples before the window."""

    imu_cross_terms: bool = True
    """Weight IMU residuals by the full 9x9 covariance, not only its three 3x3 blocks."""

    imu_identity: bool = False
    """Weight all IMU residuals equally [rad, m/s, m], for ablations."""

    robust: bool = True
    """Use a robust loss for relative poses, linear beyond what noise explains."""

    estimate_time_offset: bool = False
    """Estimate a constant offset of the camera's timestamps, up to 0.1 s."""

    rule: Rule = "midpoint"
    """Integration rule of IMU samples."""

    max_iterations: int = 50
    """Levenberg-Marquardt steps before the report says 'not converged'."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.type is bool and not isinstance(getattr(self, field.name), bool):
                raise OptionError(
                    f"SolverConfig.{field.name} is {getattr(self, field.name)!r}, needed True or "
                    "False."
                )
        as_number(self.gravity_norm, "SolverConfig.gravity_norm", 0.0, 1e3, OptionError, True)
        as_number(self.max_iterations, "SolverConfig.max_iterations", 1, 10**6, OptionError)
        object.__setattr__(self, "max_iterations", int(self.max_iterations))
        require_choice(self.rule, get_args(Rule), "SolverConfig.rule", OptionError)


DEFAULT_CONFIG = SolverConfig()
"""Created once, because `initialize` takes only about a millisecond."""

document_fields(__name__)
