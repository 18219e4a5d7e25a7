"""Visual-inertial initialization, camera-IMU calibration and odometry with covariances.

Every result has a covariance and a verdict. The names below are the public interface; they load on
first use, so that importing the package is fast.

For a recording, call `check_recording`, `initialize_recording`, `calibrate_recording`,
`track_recording`, `watch_recording` or `audit_ground_truth`. For your own arrays, make measurements
with `ImuSamples`, `raw_model` and `RelativePoses`, and pass them to `initialize` or `calibrate`.
For live sensors, use `OnlineInitializer` or `OnlineTracker`. Errors that a user can fix are
subclasses of `Maci2Error`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

__version__ = "0.12.0"

if TYPE_CHECKING:
    from maci2.api import (
        calibrate_recording,
        check_recording,
        initialize_recording,
        track_recording,
        watch_recording,
    )
    from maci2.calibration.calibrate import calibrate
    from maci2.consistency import CalibrationLimits, InitLimits, initialize
    from maci2.datasets import open_recording
    from maci2.datasets.frames import stereo_frames
    from maci2.errors import (
        CalibrationError,
        DatasetError,
        Maci2Error,
        MeasurementError,
        OptionError,
    )
    from maci2.estimator import (
        CalibrationResult,
        InitResult,
        Posterior,
        SolverConfig,
        SolveReport,
        Verdict,
        VIState,
    )
    from maci2.findings import Finding
    from maci2.imu import BiasPrior, ImuMeasurements, datasheet_model, raw_model
    from maci2.imu.learned_model import ImuModel, load_imu_model
    from maci2.live import (
        OnlineConfig,
        OnlineInitializer,
        OnlineStatus,
        OnlineTracker,
        OnlineTrackerConfig,
        TrackerStatus,
    )
    from maci2.odometry import TrackedState
    from maci2.pipeline.offline import CalibratedRecording, InitializedRecording
    from maci2.pipeline.track_recording import RecordedTrack
    from maci2.sensors import Camera, GroundTruth, ImuNoise, ImuSamples, Recording, Rig
    from maci2.simulation import SimulationConfig, simulate
    from maci2.tools.diagnostics.diagnosis import Diagnosis
    from maci2.tools.ground_truth.audit import AuditedTruth, audit_ground_truth
    from maci2.tools.watchdog import Alarm, RestartState, WatchedRecording
    from maci2.vision import RelativePoses
    from maci2.vision.odometry import StereoOdometry

__all__ = [
    "Alarm",
    "AuditedTruth",
    "BiasPrior",
    "CalibratedRecording",
    "CalibrationError",
    "CalibrationLimits",
    "CalibrationResult",
    "Camera",
    "DatasetError",
    "Diagnosis",
    "Finding",
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
    "RecordedTrack",
    "Recording",
    "RelativePoses",
    "RestartState",
    "Rig",
    "SimulationConfig",
    "SolveReport",
    "SolverConfig",
    "StereoOdometry",
    "TrackedState",
    "TrackerStatus",
    "VIState",
    "Verdict",
    "WatchedRecording",
    "__version__",
    "audit_ground_truth",
    "calibrate",
    "calibrate_recording",
    "check_recording",
    "datasheet_model",
    "initialize",
    "initialize_recording",
    "load_imu_model",
    "open_recording",
    "raw_model",
    "simulate",
    "stereo_frames",
    "track_recording",
    "watch_recording",
]

_MODULES = {
    "maci2.api": (
        "calibrate_recording",
        "check_recording",
        "initialize_recording",
        "track_recording",
        "watch_recording",
    ),
    "maci2.calibration": ("calibrate",),
    "maci2.consistency": (
        "CalibrationLimits",
        "InitLimits",
        "initialize",
    ),
    "maci2.datasets": ("open_recording",),
    "maci2.datasets.frames": ("stereo_frames",),
    "maci2.errors": (
        "CalibrationError",
        "DatasetError",
        "Maci2Error",
        "MeasurementError",
        "OptionError",
    ),
    "maci2.estimator": (
        "CalibrationResult",
        "InitResult",
        "Posterior",
        "SolveReport",
        "SolverConfig",
        "VIState",
        "Verdict",
    ),
    "maci2.findings": ("Finding",),
    "maci2.imu": (
        "BiasPrior",
        "ImuMeasurements",
        "datasheet_model",
        "raw_model",
    ),
    "maci2.imu.learned_model": (
        "ImuModel",
        "load_imu_model",
    ),
    "maci2.live": (
        "OnlineConfig",
        "OnlineInitializer",
        "OnlineStatus",
        "OnlineTracker",
        "OnlineTrackerConfig",
        "TrackerStatus",
    ),
    "maci2.odometry": ("TrackedState",),
    "maci2.pipeline.offline": (
        "CalibratedRecording",
        "InitializedRecording",
    ),
    "maci2.pipeline.track_recording": ("RecordedTrack",),
    "maci2.sensors": (
        "Camera",
        "GroundTruth",
        "ImuNoise",
        "ImuSamples",
        "Recording",
        "Rig",
    ),
    "maci2.simulation": (
        "SimulationConfig",
        "simulate",
    ),
    "maci2.tools.diagnostics.diagnosis": ("Diagnosis",),
    "maci2.tools.ground_truth.audit": (
        "AuditedTruth",
        "audit_ground_truth",
    ),
    "maci2.tools.watchdog": (
        "Alarm",
        "RestartState",
        "WatchedRecording",
    ),
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
