"""Recordings without a layout: a table of IMU samples, image folders, or both."""

from pathlib import Path

from maci2.datasets.image_names import ImageFolder, camera_image_folders, read_image_names
from maci2.datasets.imu_text import is_imu_text, read_imu_text
from maci2.errors import DatasetError, NoImuError
from maci2.rigs.kalibr import with_frame_rates
from maci2.sensors.rig_types import Rig
from maci2.sensors.stereo import ImageRecording
from maci2.sensors.types import Recording


def is_plain(path: Path) -> bool:
    """Whether a path is a table, or a folder with a table or with images named by time."""
    if not path.is_dir():
        return is_imu_text(path)
    return bool(_tables(path) or camera_image_folders(path))


def read_plain(path: Path, rig: Rig, columns: str = "") -> Recording:
    """IMU samples and image timestamps of a folder."""
    cameras = _cameras(path)
    tables = _tables(path)
    if not tables:
        raise NoImuError(
            f"{path}: {len(cameras)} image folders and no table of IMU samples; put imu.csv there."
        )
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise DatasetError(
            f"{path}: {len(tables)} tables ({names}), and no single one is called imu; name the "
            "IMU's imu.csv."
        )
    stamps_ns = tuple(camera.stamps_ns for camera in cameras)
    return Recording(
        name=path.stem,
        path=path,
        imu=read_imu_text(tables[0], columns),
        rig=with_frame_rates(rig, stamps_ns),
        camera_stamps_ns=stamps_ns,
        image_names=tuple(camera.names for camera in cameras),
        image_folders=tuple(camera.folder for camera in cameras),
        notes=(f"IMU: {tables[0].name}", *(f"images: {camera.folder}" for camera in cameras)),
    )


def read_plain_images(path: Path, rig: Rig) -> ImageRecording:
    """Images of a folder."""
    cameras = _cameras(path)
    stamps_ns = tuple(camera.stamps_ns for camera in cameras)
    return ImageRecording(
        name=path.stem,
        path=path,
        rig=with_frame_rates(rig, stamps_ns),
        camera_stamps_ns=stamps_ns,
        image_names=tuple(camera.names for camera in cameras),
        image_folders=tuple(camera.folder for camera in cameras),
    )


def _cameras(path: Path) -> list[ImageFolder]:
    if not path.is_dir():
        return []
    return [read_image_names(folder) for folder in camera_image_folders(path)]


def _tables(path: Path) -> list[Path]:
    """The table itself; in a folder, those named after the IMU, otherwise all."""
    if not path.is_dir():
        return [path]
    tables = [file for file in sorted(path.iterdir()) if is_imu_text(file)]
    named = [file for file in tables if "imu" in file.name.lower()]
    return named if len(named) == 1 else tables
