"""One door for every recording: the reader is chosen by looking."""

from pathlib import Path

from maci2.errors import DatasetError
from maci2.sensors.euroc import mav0_of, read_euroc, read_imu_noise
from maci2.sensors.kalibr import read_rig
from maci2.sensors.tumvi import TRUTH, read_tumvi
from maci2.sensors.types import Recording


def open_recording(path: Path, rig_path: Path | None = None) -> Recording:
    """Open a EuRoC-layout or TUM-VI folder.

    `rig_path`, a Kalibr camchain or a folder with one, takes the place of the recording's own
    calibration; IMU noise too if there is a Kalibr IMU file beside it.
    """
    path = Path(path)
    mav0 = mav0_of(_require_folder(path))
    if not (mav0 / "imu0").is_dir():
        found = ", ".join(sorted(entry.name for entry in path.iterdir())[:10])
        raise DatasetError(
            f"{path}: no recording of a known layout; looked for mav0/imu0/data.csv and "
            f"imu0/data.csv (EuRoC, TUM-VI), found {found}. Give the folder that holds mav0."
        )
    own_imu = mav0 / "imu0" / "sensor.yaml"
    rig = None
    if rig_path is not None:
        own_noise = read_imu_noise(own_imu) if own_imu.is_file() else None
        rig = read_rig(Path(rig_path), own_noise)
    if (mav0 / TRUTH).is_dir() and not own_imu.is_file():
        return read_tumvi(path, rig)
    return read_euroc(path, rig)


def _require_folder(path: Path) -> Path:
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    if not path.is_dir():
        raise DatasetError(
            f"{path}: is a file, needed a folder in EuRoC or TUM-VI layout (mav0/imu0/data.csv)."
        )
    if not any(path.iterdir()):
        raise DatasetError(
            f"{path}: the folder is empty, needed mav0/imu0/data.csv; unpack the recording first."
        )
    return path
