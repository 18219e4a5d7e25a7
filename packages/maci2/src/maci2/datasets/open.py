"""Opening of any recording; the reader is chosen by its contents.

Besides data sets and bags, a recording may be a table of IMU samples, a folder of images named by
time, or both. Of some only the images are opened, since visual odometry needs no IMU.
"""

from dataclasses import replace
from pathlib import Path
from typing import Literal

from maci2.datasets.bag_recording import read_bag, read_bag_images
from maci2.datasets.bags import bag_paths, parse_topics
from maci2.datasets.euroc import (
    MOCAP,
    calibration_folder,
    camera_folders,
    mav0_of,
    read_camera_yamls,
    read_euroc,
    read_folder_images,
    read_imu_noise,
    read_tumvi,
)
from maci2.datasets.images import camera_image_folders, read_image_names
from maci2.datasets.tables import is_imu_text, read_imu_text
from maci2.datasets.vbr import is_vbr, read_vbr
from maci2.errors import CalibrationError, DatasetError, NoImuError, OptionError
from maci2.rigs import NOTHING_GIVEN, Given, complete, read_any_rig
from maci2.rigs.parts import ASSUMED_NOISE, RigParts, assemble
from maci2.sensors.corrections import Clock, on_imu_clock, with_intrinsics_applied
from maci2.sensors.rig_types import Rig
from maci2.sensors.types import ImageRecording, Recording
from maci2.sensors.validation import require_plausible_rig
from maci2.validation import as_path, require_type

UNCALIBRATED = Rig((), ASSUMED_NOISE, "no calibration", extrinsics_known=False, noise_known=False)
"""Rig of a recording opened without its calibration."""


def open_recording(
    path: str | Path,
    rig_path: str | Path | None = None,
    topics: str = "",
    given: Given = NOTHING_GIVEN,
    clock: Clock = "imu",
    columns: str = "",
) -> Recording:
    """Open a recording: a folder in EuRoC, TUM-VI or VBR layout, a ROS 1 or ROS 2 bag, a table of
    IMU samples, or a folder with such a table and images named by timestamp.

    IMU readings are corrected by the intrinsics of the calibration, and camera timestamps are
    converted to the IMU's clock by the time offset of the rig.

    Args:
        path: folder or file of the recording.
        rig_path: calibration to use instead of the recording's own: a Kalibr camchain, a folder
            with one, or files of OpenVINS, VINS-Fusion or ORB-SLAM3. IMU noise is read from a
            Kalibr IMU file in the same folder. Bags have no calibration and need this.
        topics: roles of a bag's topics: `imu=/imu0,left=/cam0/image_raw`.
        given: parts of the calibration to replace.
        clock: "camera" keeps the camera timestamps of the files.
        columns: columns of a table whose headings do not name them:
            `t[us],gx[deg/s],gy,gz,ax[g],ay,az`.

    Returns:
        The recording, with samples, calibration and ground truth in memory and images on disk.

    Raises:
        DatasetError: there is no recording, or it cannot be read.
        CalibrationError: its calibration cannot be used or is physically impossible.
        OptionError: an argument is invalid.
    """
    path = as_path(path, "path")
    rig_path = None if rig_path is None else as_path(rig_path, "rig_path")
    require_type(topics, str, "topics", "such as imu=/imu0,left=/cam0/image_raw")
    require_type(columns, str, "columns", "such as t[us],gx[deg/s],gy,gz,ax[g],ay,az")
    recording = _opened(path, rig_path, topics, given, columns)
    if rig_path is None:
        recording = replace(recording, rig=complete(recording.rig, given))
    require_plausible_rig(recording.rig)
    recording = with_intrinsics_applied(recording)
    return on_imu_clock(recording) if clock == "imu" else recording


def _opened(
    path: Path, rig_path: Path | None, topics: str, given: Given, columns: str
) -> Recording:
    layout = _layout(path)
    if columns and layout != "plain":
        raise OptionError(f"--columns is '{columns}', but {path} is not a table of IMU samples.")
    if topics and layout == "folder":
        raise OptionError(f"--topics is '{topics}', but {path} is a folder without topics.")
    if not layout:
        raise unknown_layout(path)
    own_imu = mav0_of(path) / "imu0" / "sensor.yaml"
    rig = None
    if rig_path is not None:
        own_noise = read_imu_noise(own_imu) if layout == "folder" and own_imu.is_file() else None
        rig = read_any_rig(rig_path, given, own_noise)
    if layout == "folder":
        return _read_folder(path, rig)
    if layout == "vbr":
        return read_vbr(path, rig, parse_topics(topics))
    if layout == "plain":
        return read_plain(path, _rig_of_options(path, given) if rig is None else rig, columns)
    if rig is None:
        raise CalibrationError(
            f"{path}: a bag contains no calibration; name it with --rig camchain-imucam.yaml "
            "(Kalibr, with imu.yaml beside it)."
        )
    return read_bag(path, rig, parse_topics(topics))


def _layout(path: Path) -> Literal["folder", "vbr", "bag", "plain", ""]:
    """Kind of recording: a folder of EuRoC's or TUM-VI's, VBR's bags, a bag, or a table and image
    folders; empty if it is none of these."""
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    if (mav0_of(path) / "imu0").is_dir():
        return "folder"
    if bag_paths(path):
        return "vbr" if is_vbr(path) else "bag"
    return "plain" if is_plain(path) else ""


def _read_folder(path: Path, rig: Rig | None) -> Recording:
    """Recording in EuRoC's or TUM-VI's layout."""
    mav0 = mav0_of(path)
    own_imu = (mav0 / "imu0" / "sensor.yaml").is_file()
    return (read_tumvi if (mav0 / MOCAP).is_dir() and not own_imu else read_euroc)(path, rig)


def _rig_of_options(path: Path, given: Given) -> Rig:
    """Rig of a table or of images, which have no calibration of their own."""
    if given.noise is None:
        raise CalibrationError(
            f"{path}: a table or a folder of images contains no calibration; name that of the rig "
            "with --rig FILE, or for an IMU alone its noise with --imu-noise."
        )
    return assemble(RigParts("table", path, (), extrinsics_known=False), given)


def carries_no_calibration(path: Path) -> bool:
    """True for a recording of a kind without calibration: a bag, a table, plain images."""
    return path.exists() and _layout(path) in ("vbr", "bag", "plain")


def open_uncalibrated(path: Path, topics: str = "", columns: str = "") -> Recording:
    """Open a recording without calibration, for checks: no cameras and assumed noise."""
    layout = _layout(path)
    if layout in ("vbr", "bag"):
        return read_bag(path, UNCALIBRATED, parse_topics(topics))
    if layout == "plain":
        return read_plain(path, UNCALIBRATED, columns)
    return _read_folder(path, UNCALIBRATED)


def open_rig(path: Path, given: Given = NOTHING_GIVEN) -> Rig:
    """Open the calibration of a recording or of any tool's files."""
    path = Path(path)
    if not path.exists():
        raise CalibrationError(f"{path}: no such file or folder; check the path.")
    if path.is_dir() and ((mav0_of(path) / "imu0").is_dir() or is_vbr(path)):
        return open_recording(path, given=given).rig
    rig = read_any_rig(path, given)
    require_plausible_rig(rig)
    return rig


def open_images(
    path: Path, rig_path: str | Path | None = None, topics: str = "", given: Given = NOTHING_GIVEN
) -> ImageRecording:
    """Open the images of a recording and the calibration of its cameras, with timestamps on the
    camera's clock.

    Takes what `open_recording` takes; an IMU and its noise are neither needed nor read.
    """
    path = Path(path)
    cameras = camera_folders(mav0_of(path))
    if not cameras and _layout(path) not in ("bag", "plain"):
        return open_recording(path, rig_path, topics, given, clock="camera")
    if rig_path is not None:
        rig = read_any_rig(Path(rig_path), given)
    elif not cameras:
        raise CalibrationError(
            f"{path}: contains no calibration; name that of its cameras with --rig FILE."
        )
    elif (cameras[0] / "sensor.yaml").is_file():
        rig = read_camera_yamls(mav0_of(path), ASSUMED_NOISE)
    else:
        rig = read_any_rig(calibration_folder(mav0_of(path)))
    require_plausible_rig(rig)
    return images_with(path, rig, topics)


def images_with(path: Path, rig: Rig, topics: str = "") -> ImageRecording:
    """Open the images of a recording with a rig that is already known or has no camera."""
    if camera_folders(mav0_of(path)):
        return read_folder_images(path, rig)
    if bag_paths(path):
        return read_bag_images(path, rig, parse_topics(topics))
    return read_plain_images(path, rig)


def unknown_layout(path: Path) -> DatasetError:
    """Error for a path without a recording of a known layout."""
    needed = (
        "mav0/imu0/data.csv or imu0/data.csv (EuRoC, TUM-VI), vbr_calib.yaml with .bag files "
        "(VBR), a .bag, .mcap or .db3 file, metadata.yaml (ROS 2 bag), a table of IMU samples, or "
        "folders of images named by time"
    )
    if path.is_file():
        return DatasetError(f"{path}: a file of an unknown kind; needed {needed}.")
    names = sorted(entry.name for entry in path.iterdir())
    if not names:
        return DatasetError(
            f"{path}: the folder is empty, needed {needed}; unpack the recording first."
        )
    return DatasetError(
        f"{path}: no recording of a known layout; looked for {needed}, found "
        f"{', '.join(names[:10])}. Give the folder that holds mav0, or the bag."
    )


# Recordings without a layout: a table of IMU samples, image folders, or both.


def is_plain(path: Path) -> bool:
    """True for a table, and for a folder with a table or with images named by time."""
    return bool(_tables(path) or (path.is_dir() and camera_image_folders(path)))


def read_plain(path: Path, rig: Rig, columns: str = "") -> Recording:
    """IMU samples and image timestamps of a folder."""
    images = read_plain_images(path, rig)
    folders, tables = images.image_folders, _tables(path)
    if not tables:
        raise NoImuError(
            f"{path}: {len(folders)} image folders and no table of IMU samples; put imu.csv there."
        )
    if len(tables) > 1:
        names = ", ".join(table.name for table in tables)
        raise DatasetError(
            f"{path}: {len(tables)} tables ({names}), and no single one is called imu; name the "
            "IMU's imu.csv."
        )
    notes = (f"IMU: {tables[0].name}", *(f"images: {folder}" for folder in folders))
    return images.with_imu(read_imu_text(tables[0], columns), notes=notes)


def read_plain_images(path: Path, rig: Rig) -> ImageRecording:
    """Images of a folder."""
    folders = camera_image_folders(path) if path.is_dir() else []
    lists = [read_image_names(folder) for folder in folders]
    return ImageRecording(
        path.stem,
        path,
        rig,
        camera_stamps_ns=tuple(stamps_ns for stamps_ns, _ in lists),
        image_names=tuple(names for _, names in lists),
        image_folders=tuple(folders),
    )


def _tables(path: Path) -> list[Path]:
    """The table itself; in a folder, those named after the IMU, otherwise all."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    tables = [file for file in files if is_imu_text(file)]
    named = [file for file in tables if path.is_dir() and "imu" in file.name.lower()]
    return named if len(named) == 1 else tables
