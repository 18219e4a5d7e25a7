"""IMU samples to preintegrated motion with covariance."""

from maci2.imu.measurements import BiasPrior, ImuMeasurements, datasheet_model, raw_model
from maci2.imu.preintegration import (
    ALPHA,
    BETA,
    GAMMA,
    Preintegrated,
    Rule,
    integrate_between,
    preintegrate,
    rates_at_keyframes,
    require_samples,
)

__all__ = [
    "ALPHA",
    "BETA",
    "GAMMA",
    "BiasPrior",
    "ImuMeasurements",
    "Preintegrated",
    "Rule",
    "datasheet_model",
    "integrate_between",
    "preintegrate",
    "rates_at_keyframes",
    "raw_model",
    "require_samples",
]
