"""Choices of the joint optimization."""

from dataclasses import dataclass, fields
from typing import get_args

from maci2.boundary import as_number, require_choice
from maci2.errors import OptionError
from maci2.field_docs import document_fields
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
    """Estimate the gyroscope bias with the IMU model's prior; otherwise take its mean."""

    estimate_acc_bias: bool = True
    """Estimate the accelerometer bias with the IMU model's prior; otherwise take its mean."""

    imu_cross_terms: bool = True
    """Weigh IMU residuals with the full 9x9 covariance, not only its three 3x3 blocks."""

    imu_identity: bool = False
    """Weigh every IMU residual alike, whatever its covariance [rad, m/s, m]: for ablations."""

    robust: bool = True
    """A relative pose that noise does not explain counts linearly, not by its square."""

    estimate_time_offset: bool = False
    """Estimate a constant offset of the camera's timestamps, up to 0.1 s."""

    rule: Rule = "midpoint"
    """How samples are integrated."""

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
"""Made once: `initialize` takes about a millisecond."""

document_fields(__name__)
