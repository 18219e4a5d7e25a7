"""Recordings of which only the images are needed: visual odometry does without an IMU."""

from pathlib import Path

from maci2.datasets.euroc import (
    camera_folders,
    mav0_of,
    read_camera_yamls,
    read_image_lists,
    recording_name,
)
from maci2.datasets.open import open_recording
from maci2.datasets.tumvi import calibration_folder
from maci2.errors import CalibrationError, DatasetError
from maci2.rigs import NOTHING_GIVEN, Given, read_any_rig
from maci2.rigs.kalibr import with_frame_rates
from maci2.rigs.parts import ASSUMED_NOISE
from maci2.sensors.rig_ranges import require_plausible_rig
from maci2.sensors.rig_types import Rig
from maci2.sensors.stereo import HasImages, ImageRecording


def open_images(
    path: Path, rig_path: Path | None = None, topics: str = "", given: Given = NOTHING_GIVEN
) -> HasImages:
    """The images of a recording and the calibration of its cameras, stamped by the camera's clock.

    Takes what `open_recording` takes; an IMU and its noise are neither needed nor looked at.
    """
    path = Path(path)
    if not path.exists():
        raise DatasetError(f"{path}: no such file or folder; check the path.")
    mav0 = mav0_of(path)
    if not camera_folders(mav0):
        return _bag_images(path, rig_path, topics, given)
    rig = _folder_rig(mav0) if rig_path is None else read_any_rig(Path(rig_path), given)
    require_plausible_rig(rig)
    lists = read_image_lists(mav0)
    return ImageRecording(
        name=recording_name(mav0),
        path=path,
        rig=with_frame_rates(rig, lists.stamps_ns),
        camera_stamps_ns=lists.stamps_ns,
        image_names=lists.names,
    )


def _folder_rig(mav0: Path) -> Rig:
    """The cameras of a EuRoC-layout or TUM-VI folder."""
    if (camera_folders(mav0)[0] / "sensor.yaml").is_file():
        return read_camera_yamls(mav0, ASSUMED_NOISE)
    return read_any_rig(calibration_folder(mav0))


def _bag_images(path: Path, rig_path: Path | None, topics: str, given: Given) -> HasImages:
    # Here, because folders do not need the libraries that read bags.
    from maci2.datasets.bag.reader import Bag, bag_paths
    from maci2.datasets.bag.recording import bag_title, scan
    from maci2.datasets.bag.topics import parse_topics
    from maci2.datasets.vbr import is_vbr

    paths = bag_paths(path)
    if is_vbr(path) or not paths:
        return open_recording(path, rig_path, topics, given, clock="camera")
    if rig_path is None:
        raise CalibrationError(
            f"{path}: a bag carries no calibration; name that of its cameras with --rig FILE."
        )
    rig = read_any_rig(Path(rig_path), given)
    require_plausible_rig(rig)
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
