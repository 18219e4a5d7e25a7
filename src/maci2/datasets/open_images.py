"""Recordings of which only the images are used, since visual odometry needs no IMU."""

from pathlib import Path

from maci2.datasets.bag.bag_paths import bag_paths
from maci2.datasets.euroc import (
    camera_folders,
    mav0_of,
    read_camera_yamls,
    read_image_lists,
    recording_name,
)
from maci2.datasets.open import open_recording
from maci2.datasets.plain_folder import is_plain, read_plain_images
from maci2.datasets.tumvi import calibration_folder
from maci2.errors import CalibrationError, DatasetError
from maci2.rigs import NOTHING_GIVEN, Given, read_any_rig
from maci2.rigs.kalibr import with_frame_rates
from maci2.rigs.parts import ASSUMED_NOISE
from maci2.sensors.rig_ranges import require_plausible_rig
from maci2.sensors.rig_types import Rig
from maci2.sensors.stereo import HasImages, ImageRecording


def open_images(
    path: Path, rig_path: str | Path | None = None, topics: str = "", given: Given = NOTHING_GIVEN
) -> HasImages:
    """Open the images of a recording and the calibration of its cameras, with timestamps on the
    camera's clock.

    Takes what `open_recording` takes; an IMU and its noise are neither needed nor looked at.
    """
    path = Path(path)
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    # Here, because folders do not need the libraries that read bags.
    from maci2.datasets.vbr import is_vbr

    mav0 = mav0_of(path)
    if is_vbr(path) or not (camera_folders(mav0) or bag_paths(path) or is_plain(path)):
        return open_recording(path, rig_path, topics, given, clock="camera")
    if rig_path is not None:
        rig = read_any_rig(Path(rig_path), given)
    elif camera_folders(mav0):
        rig = _folder_rig(mav0)
    else:
        raise CalibrationError(
            f"{path}: contains no calibration; name that of its cameras with --rig FILE."
        )
    require_plausible_rig(rig)
    return images_with(path, rig, topics)


def images_with(path: Path, rig: Rig, topics: str = "") -> HasImages:
    """Open the images of a recording with a rig that is already known or has no camera."""
    mav0 = mav0_of(path)
    if not camera_folders(mav0) and bag_paths(path):
        return _bag_images(path, rig, topics)
    if not camera_folders(mav0):
        return read_plain_images(path, rig)
    lists = read_image_lists(mav0)
    return ImageRecording(
        name=recording_name(mav0),
        path=path,
        rig=with_frame_rates(rig, lists.stamps_ns),
        camera_stamps_ns=lists.stamps_ns,
        image_names=lists.names,
    )


def _folder_rig(mav0: Path) -> Rig:
    """Cameras of a EuRoC-layout or TUM-VI folder."""
    if (camera_folders(mav0)[0] / "sensor.yaml").is_file():
        return read_camera_yamls(mav0, ASSUMED_NOISE)
    return read_any_rig(calibration_folder(mav0))


def _bag_images(path: Path, rig: Rig, topics: str) -> HasImages:
    # Here, because folders do not need the libraries that read bags.
    from maci2.datasets.bag.reader import Bag
    from maci2.datasets.bag.recording import bag_title, scan
    from maci2.datasets.bag.topics import parse_topics

    paths = bag_paths(path)
    with Bag(paths) as bag:
        scanned = scan(bag, parse_topics(topics), rig, with_imu=False)
    stamps_ns = scanned.camera_stamps_ns
    return ImageRecording(
        name=bag_title(path),
        path=path,
        rig=with_frame_rates(rig, stamps_ns),
        camera_stamps_ns=stamps_ns,
        bag=scanned.images(paths),
    )
