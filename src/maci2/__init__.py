"""Start a stereo camera and an IMU together: gravity, velocities, biases, extrinsics.

Each comes with a covariance and a verdict. The names below are the public interface; they load on
first use, so that importing the package is fast.

From a recording: `initialize_recording`, `calibrate_recording`. From your own arrays: `ImuSamples`,
`raw_model` and `RelativePoses` make measurements, `initialize` and `calibrate` take them. While
sensors run: `OnlineInitializer`, `OnlineTracker`. Everything that a user can fix raises a
`Maci2Error`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

__version__ = "0.5.0"

if TYPE_CHECKING:
    from maci2.calibration.calibrate import calibrate
    from maci2.datasets import open_recording
    from maci2.datasets.image_files import stereo_frames
    from maci2.errors import (
        CalibrationError,
        DatasetError,
        Maci2Error,
        MeasurementError,
        OptionError,
    )
    from maci2.estimation import (
        CalibrationLimits,
        CalibrationResult,
        InitLimits,
        InitResult,
        Posterior,
        SolverConfig,
        SolveReport,
        Verdict,
        VIState,
    )
    from maci2.estimation.initialize import initialize
    from maci2.imu import BiasPrior, ImuMeasurements, datasheet_model, raw_model
    from maci2.imu.learned_model import ImuModel, load_imu_model
    from maci2.pipeline.online import (
        OnlineConfig,
        OnlineInitializer,
        OnlineStatus,
        OnlineTracker,
        OnlineTrackerConfig,
        TrackerStatus,
    )
    from maci2.recording_calls import (
        CalibratedRecording,
        InitializedRecording,
        calibrate_recording,
        initialize_recording,
    )
    from maci2.sensors import Camera, GroundTruth, ImuNoise, ImuSamples, Recording, Rig
    from maci2.simulation import SimulationConfig, simulate
    from maci2.tracking import TrackedState
    from maci2.vision import RelativePoses
    from maci2.vision.odometry import StereoOdometry

__all__ = [
    "BiasPrior",
    "CalibratedRecording",
    "CalibrationError",
    "CalibrationLimits",
    "CalibrationResult",
    "Camera",
    "DatasetError",
    "GroundTruth",
    "ImuMeasurements",
    "ImuModel",
    "ImuNoise",
    "ImuSamples",
    "InitLimits",
    "InitResult",
    "InitializedRecording",
    "Maci2Error",
    "MeasurementError",
    "OnlineConfig",
    "OnlineInitializer",
    "OnlineStatus",
    "OnlineTracker",
    "OnlineTrackerConfig",
    "OptionError",
    "Posterior",
    "Recording",
    "RelativePoses",
    "Rig",
    "SimulationConfig",
    "SolveReport",
    "SolverConfig",
    "StereoOdometry",
    "TrackedState",
    "TrackerStatus",
    "VIState",
    "Verdict",
    "__version__",
    "calibrate",
    "calibrate_recording",
    "datasheet_model",
    "initialize",
    "initialize_recording",
    "load_imu_model",
    "open_recording",
    "raw_model",
    "simulate",
    "stereo_frames",
]

_MODULES = {
    "maci2.calibration": ("calibrate",),
    "maci2.datasets": ("open_recording",),
    "maci2.datasets.image_files": ("stereo_frames",),
    "maci2.errors": (
        "CalibrationError",
        "DatasetError",
        "Maci2Error",
        "MeasurementError",
        "OptionError",
    ),
    "maci2.estimation": (
        "CalibrationLimits",
        "CalibrationResult",
        "InitLimits",
        "InitResult",
        "Posterior",
        "SolveReport",
        "SolverConfig",
        "VIState",
        "Verdict",
        "initialize",
    ),
    "maci2.imu": ("BiasPrior", "ImuMeasurements", "datasheet_model", "raw_model"),
    "maci2.imu.learned_model": ("ImuModel", "load_imu_model"),
    "maci2.pipeline.online": (
        "OnlineConfig",
        "OnlineInitializer",
        "OnlineStatus",
        "OnlineTracker",
        "OnlineTrackerConfig",
        "TrackerStatus",
    ),
    "maci2.tracking": ("TrackedState",),
    "maci2.recording_calls": (
        "CalibratedRecording",
        "InitializedRecording",
        "calibrate_recording",
        "initialize_recording",
    ),
    "maci2.sensors": ("Camera", "GroundTruth", "ImuNoise", "ImuSamples", "Recording", "Rig"),
    "maci2.simulation": ("SimulationConfig", "simulate"),
    "maci2.vision": ("RelativePoses",),
    "maci2.vision.odometry": ("StereoOdometry",),
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(_import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'maci2' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
