"""IMU samples to preintegrated motion with covariance."""

from maci2.imu.measurements import (
    NO_VERTICAL,
    BiasPrior,
    ImuMeasurements,
    TrackedVertical,
    VerticalPrior,
    datasheet_model,
    raw_model,
)
from maci2.imu.preintegration import (
    ALPHA,
    BETA,
    GAMMA,
    Preintegrated,
    Rule,
    integrate_between,
    preintegrate,
    require_samples,
)

__all__ = [
    "ALPHA",
    "BETA",
    "GAMMA",
    "NO_VERTICAL",
    "BiasPrior",
    "ImuMeasurements",
    "Preintegrated",
    "Rule",
    "TrackedVertical",
    "VerticalPrior",
    "datasheet_model",
    "integrate_between",
    "preintegrate",
    "raw_model",
    "require_samples",
]
