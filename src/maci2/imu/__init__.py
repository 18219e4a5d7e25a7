"""IMU samples to preintegrated motion with covariance."""

from maci2.imu.measurements import BiasPrior, ImuMeasurements, datasheet_model, raw_model
from maci2.imu.preintegration import (
    ALPHA,
    BETA,
    GAMMA,
    Preintegrated,
    Rule,
    by_time_offset,
    preintegrate,
)

__all__ = [
    "ALPHA",
    "BETA",
    "GAMMA",
    "BiasPrior",
    "ImuMeasurements",
    "Preintegrated",
    "Rule",
    "by_time_offset",
    "datasheet_model",
    "preintegrate",
    "raw_model",
]
