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
    from maci2.api import calibrate_recording as calibrate_recording
    from maci2.api import check_recording as check_recording
    from maci2.api import initialize_recording as initialize_recording
    from maci2.api import track_recording as track_recording
    from maci2.api import watch_recording as watch_recording
    from maci2.calibration.calibrate import calibrate as calibrate
    from maci2.consistency import CalibrationLimits as CalibrationLimits
    from maci2.consistency import InitLimits as InitLimits
    from maci2.consistency import initialize as initialize
    from maci2.datasets import open_recording as open_recording
    from maci2.datasets.frames import stereo_frames as stereo_frames
    from maci2.errors import CalibrationError as CalibrationError
    from maci2.errors import DatasetError as DatasetError
    from maci2.errors import Maci2Error as Maci2Error
    from maci2.errors import MeasurementError as MeasurementError
    from maci2.errors import OptionError as OptionError
    from maci2.estimator import CalibrationResult as CalibrationResult
    from maci2.estimator import InitResult as InitResult
    from maci2.estimator import Posterior as Posterior
    from maci2.estimator import SolverConfig as SolverConfig
    from maci2.estimator import SolveReport as SolveReport
    from maci2.estimator import Verdict as Verdict
    from maci2.estimator import VIState as VIState
    from maci2.findings import Finding as Finding
    from maci2.imu import BiasPrior as BiasPrior
    from maci2.imu import ImuMeasurements as ImuMeasurements
    from maci2.imu import datasheet_model as datasheet_model
    from maci2.imu import raw_model as raw_model
    from maci2.imu.learned_model import ImuModel as ImuModel
    from maci2.imu.learned_model import load_imu_model as load_imu_model
    from maci2.live import OnlineConfig as OnlineConfig
    from maci2.live import OnlineInitializer as OnlineInitializer
    from maci2.live import OnlineStatus as OnlineStatus
    from maci2.live import OnlineTracker as OnlineTracker
    from maci2.live import OnlineTrackerConfig as OnlineTrackerConfig
    from maci2.live import TrackerStatus as TrackerStatus
    from maci2.odometry import TrackedState as TrackedState
    from maci2.pipeline.offline import CalibratedRecording as CalibratedRecording
    from maci2.pipeline.offline import InitializedRecording as InitializedRecording
    from maci2.pipeline.track_recording import RecordedTrack as RecordedTrack
    from maci2.sensors import Camera as Camera
    from maci2.sensors import GroundTruth as GroundTruth
    from maci2.sensors import ImuNoise as ImuNoise
    from maci2.sensors import ImuSamples as ImuSamples
    from maci2.sensors import Recording as Recording
    from maci2.sensors import Rig as Rig
    from maci2.simulation import SimulationConfig as SimulationConfig
    from maci2.simulation import simulate as simulate
    from maci2.tools.diagnostics.diagnosis import Diagnosis as Diagnosis
    from maci2.tools.ground_truth.audit import AuditedTruth as AuditedTruth
    from maci2.tools.ground_truth.audit import audit_ground_truth as audit_ground_truth
    from maci2.tools.watchdog import Alarm as Alarm
    from maci2.tools.watchdog import RestartState as RestartState
    from maci2.tools.watchdog import WatchedRecording as WatchedRecording
    from maci2.vision import RelativePoses as RelativePoses
    from maci2.vision.odometry import StereoOdometry as StereoOdometry

_MODULES = {
    "maci2.api": (
        "calibrate_recording",
        "check_recording",
        "initialize_recording",
        "track_recording",
        "watch_recording",
    ),
    "maci2.calibration": ("calibrate",),
    "maci2.consistency": ("CalibrationLimits", "InitLimits", "initialize"),
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
    "maci2.imu": ("BiasPrior", "ImuMeasurements", "datasheet_model", "raw_model"),
    "maci2.imu.learned_model": ("ImuModel", "load_imu_model"),
    "maci2.live": (
        "OnlineConfig",
        "OnlineInitializer",
        "OnlineStatus",
        "OnlineTracker",
        "OnlineTrackerConfig",
        "TrackerStatus",
    ),
    "maci2.odometry": ("TrackedState",),
    "maci2.pipeline.offline": ("CalibratedRecording", "InitializedRecording"),
    "maci2.pipeline.track_recording": ("RecordedTrack",),
    "maci2.sensors": ("Camera", "GroundTruth", "ImuNoise", "ImuSamples", "Recording", "Rig"),
    "maci2.simulation": ("SimulationConfig", "simulate"),
    "maci2.tools.diagnostics.diagnosis": ("Diagnosis",),
    "maci2.tools.ground_truth.audit": ("AuditedTruth", "audit_ground_truth"),
    "maci2.tools.watchdog": ("Alarm", "RestartState", "WatchedRecording"),
    "maci2.vision": ("RelativePoses",),
    "maci2.vision.odometry": ("StereoOdometry",),
}
"""Public names by the module that has them; type checkers read the imports above instead."""

_WHERE = {name: module for module, names in _MODULES.items() for name in names}
__all__ = ["__version__", *sorted(_WHERE)]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(_import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'maci2' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
