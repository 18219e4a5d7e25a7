"""TUM-VI folders: EuRoC's tables, motion capture as ground truth, Kalibr calibration."""

from pathlib import Path

from maci2.datasets.euroc import (
    mav0_of,
    read_image_lists,
    read_imu_csv,
    read_truth_csv,
    recording_name,
)
from maci2.errors import CalibrationError
from maci2.rigs.kalibr import read_rig, with_frame_rates
from maci2.sensors.rig_types import Rig
from maci2.sensors.types import Recording

TRUTH = "mocap0"


def read_tumvi(path: Path, rig: Rig | None = None) -> Recording:
    """Open a TUM-VI sequence; `rig` replaces its dso or calib folder.

    Motion capture gives poses of the IMU; velocity and biases are NaN.
    """
    mav0 = mav0_of(path)
    images = read_image_lists(mav0)
    rig = read_rig(calibration_folder(mav0)) if rig is None else rig
    truth_path = mav0 / TRUTH / "data.csv"
    return Recording(
        name=recording_name(mav0),
        path=path,
        imu=read_imu_csv(mav0 / "imu0" / "data.csv"),
        rig=with_frame_rates(rig, images.stamps_ns),
        camera_stamps_ns=images.stamps_ns,
        image_names=images.names,
        truths={TRUTH: read_truth_csv(truth_path)} if truth_path.is_file() else {},
    )


def calibration_folder(mav0: Path) -> Path:
    """The dso folder of the sequence, else a calib folder in it or next to it."""
    sequence = mav0.resolve().parent if mav0.resolve().name == "mav0" else mav0.resolve()
    candidates = [sequence / "dso", sequence / "calib", sequence.parent / "calib"]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise CalibrationError(
        f"{sequence}: no calibration found; looked for the folders "
        f"{', '.join(str(folder) for folder in candidates)} with a Kalibr camchain and IMU file. "
        "Put them there or name the rig file."
    )
