"""A bag gives the same answers as the folder it was made from, to the last digit."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from bag_files import FORMATS, bag_name, recording_items, write_items, writing
from helpers import resized
from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.datasets.frames import stereo_frames
from maci2.rigs import write_camchain, write_imu_yaml
from maci2.simulation import SimulationConfig, simulate
from maci2.types import NS

TRUTH = ("--vision", "truth:0.05,0.003")


def run(*words) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def record_of(tmp_path, *words) -> dict:
    """What a command writes with --json; how long it took is nobody's estimate."""
    file = tmp_path / "record.json"
    run(*words, "--json", file)
    record = json.loads(file.read_text())
    record.pop("solve_ms")
    return record


def write_rig(folder: Path, rig) -> Path:
    write_camchain(folder / "camchain-imucam.yaml", rig)
    write_imu_yaml(folder / "imu.yaml", rig.imu)
    return folder / "camchain-imucam.yaml"


@pytest.fixture(scope="module")
def simulated():
    made = simulate(SimulationConfig(duration_s=13.0, seed=5))
    cameras = tuple(resized(camera, (96, 64)) for camera in made.rig.cameras)
    return replace(made, rig=replace(made.rig, cameras=cameras))


@pytest.fixture(scope="module")
def folder(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("folder") / "hand"
    write_euroc(simulated, path)
    return path


def noise(camera, stamp_ns):
    return np.random.default_rng((camera, stamp_ns)).integers(0, 200, (64, 96), dtype=np.uint8)


@pytest.fixture(scope="module", params=FORMATS)
def bag(request, simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / bag_name("hand", request.param)

    def make(bag):
        return recording_items(bag, simulated, noise, truth="/truth")

    return write_items(path, request.param, make)


def test_init_and_calibrate_on_a_bag_equal_those_on_the_folder(folder, bag, simulated, tmp_path):
    folder = poses_only(folder, tmp_path / "poses" / "hand")
    rig = ("--rig", write_rig(tmp_path, simulated.rig))
    topics = ("--topics", "truth=/truth")
    for command in (("init", "--start", 2), ("calibrate", "--window", 10)):
        name, *options = command
        own = record_of(tmp_path, name, folder, *TRUTH, *options, *rig)
        same = record_of(tmp_path, name, bag, *TRUTH, *options, *rig, *topics)
        assert own["status"] in ("ok", "weak")
        assert same == own


def test_check_and_evaluate_take_a_bag(bag, simulated, tmp_path):
    rig = ("--rig", write_rig(tmp_path, simulated.rig), "--topics", "truth=/truth")
    output = run("check", bag, *rig)
    assert "ok     bag: imu is /imu0 (sensor_msgs/msg/Imu, 2601 messages)" in output
    summary = record_of_summary(tmp_path, "evaluate", bag, *TRUTH, *rig)
    assert summary["sequences"]["hand"]["success_rate"] == 1.0
    assert summary["protocol"]["topics"] == "truth=/truth"


def record_of_summary(tmp_path, *words) -> dict:
    run(*words, "--json", tmp_path / "summary.json")
    return json.loads((tmp_path / "summary.json").read_text())


@pytest.mark.dataset
@pytest.mark.parametrize("kind", FORMATS)
def test_a_bag_of_a_real_recording_gives_the_init_of_its_folder(kind, data_root, tmp_path):
    clip = data_root / "euroc" / "MH_01_clip"
    recording = open_recording(clip)
    folder = poses_only(clip, tmp_path / "folder" / "MH_01_clip")
    path = tmp_path / bag_name("MH_01_clip", kind)
    write_items(path, kind, lambda bag: clip_items(bag, clip, folder))
    rig = ("--rig", write_rig(tmp_path, recording.rig), "--start", 1)
    topics = ("--topics", "truth=/truth")

    own = record_of(tmp_path, "init", folder, *TRUTH, *rig)
    assert own["status"] == "ok"
    assert own["errors"]["gravity_deg"] < 2.0
    assert record_of(tmp_path, "init", path, *TRUTH, *rig, *topics) == own

    poses = trajectory_file(recording, tmp_path / "poses.txt")
    vision = ("--vision", f"trajectory:{poses}")
    own = record_of(tmp_path, "init", clip, *vision, *rig)
    same = record_of(tmp_path, "init", path, *vision, *rig)
    own.pop("errors")
    assert same == own

    report = ("imu-report", "--imu", "euroc", "--no-rivals", "--rig", tmp_path)
    own = record_of_summary(tmp_path, *report, folder)
    assert record_of_summary(tmp_path, *report, path, *topics) == own

    frames = stereo_frames(open_recording(path, tmp_path))
    assert len(frames) == 76
    for index in (50, 7):
        pair = frames.pair(index)
        for camera, image in enumerate((pair.left, pair.right)):
            file = clip / "mav0" / f"cam{camera}" / "data" / f"{pair.stamp_ns}.png"
            np.testing.assert_array_equal(image, cv2.imread(str(file), cv2.IMREAD_GRAYSCALE))
    frames.close()


def poses_only(recording: Path, folder: Path) -> Path:
    """The recording with a ground truth that states poses alone, as a bag's topic does."""
    for name in ("imu0", "cam0", "cam1"):
        (folder / "mav0").mkdir(parents=True, exist_ok=True)
        (folder / "mav0" / name).symlink_to(recording / "mav0" / name)
    truth = Path("mav0") / "state_groundtruth_estimate0" / "data.csv"
    (folder / truth).parent.mkdir()
    lines = [",".join(line.split(",")[:8]) for line in (recording / truth).read_text().splitlines()]
    (folder / truth).write_text("\n".join(lines) + "\n")
    return folder


def clip_items(bag, clip: Path, folder: Path):
    def pixels(camera, stamp_ns):
        file = clip / "mav0" / f"cam{camera}" / "data" / f"{stamp_ns}.png"
        return cv2.imread(str(file), cv2.IMREAD_GRAYSCALE)

    yield from recording_items(bag, open_recording(clip), pixels)
    truth = folder / "mav0" / "state_groundtruth_estimate0" / "data.csv"
    for line in truth.read_text().splitlines()[1:]:
        stamp, *numbers = line.split(",")
        values = [float(number) for number in numbers]
        yield bag.pose("/truth", int(stamp), values[:3], values[3:])


def trajectory_file(recording, path: Path) -> Path:
    """The camera's true poses in TUM format."""
    from scipy.spatial.transform import Rotation

    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    lines = []
    for stamp_ns, T_w_b in zip(truth.stamps_ns, truth.Ts_w_b, strict=True):
        T_w_c = T_w_b @ T_b_c
        numbers = [*T_w_c[:3, 3], *Rotation.from_matrix(T_w_c[:3, :3]).as_quat()]
        stamp = f"{stamp_ns // NS}.{stamp_ns % NS:09d}"
        lines.append(" ".join([stamp, *(repr(float(number)) for number in numbers)]))
    path.write_text("\n".join(lines) + "\n")
    return path


MEASURE = """
import sys
from pathlib import Path
from maci2.datasets import open_recording
from maci2.datasets.frames import stereo_frames

recording = open_recording(Path(sys.argv[1]), Path(sys.argv[2]))
frames = stereo_frames(recording)
for index in range(0, len(frames), 100):
    frames.pair(index)
frames.close()
# The peak of this program alone: ru_maxrss would count the process it was forked from too.
status = Path("/proc/self/status").read_text().split()
print(len(recording.imu), len(frames), int(status[status.index("VmHWM:") + 1]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_a_bag_of_ten_minutes_and_more_than_its_memory_needs_less_than_500_mb(
    kind, simulated, tmp_path
):
    path = tmp_path / bag_name("long", kind)
    pixels = np.random.default_rng(0).integers(0, 255, (240, 320), dtype=np.uint8)
    start_ns = 1_700_000_000 * NS
    with writing(path, kind) as bag:
        for at in range(600 * 200):
            stamp_ns = start_ns + at * 5_000_000
            bag.write(bag.imu("/imu0", stamp_ns, (0.1, 0.2, 0.3), (0.0, 0.0, 9.81)))
            if at % 10 == 0:
                bag.write(bag.image("/cam0/image_raw", stamp_ns, pixels))
                bag.write(bag.image("/cam1/image_raw", stamp_ns, pixels))
    size_mb = sum(file.stat().st_size for file in [path, *path.glob("*")]) / 2**20
    assert size_mb > 1500
    cameras = tuple(resized(camera, (320, 240)) for camera in simulated.rig.cameras)
    write_rig(tmp_path, replace(simulated.rig, cameras=cameras))
    found = subprocess.run(
        [sys.executable, "-c", MEASURE, path, tmp_path], capture_output=True, text=True, check=True
    )
    samples, pairs, peak_mb = (float(word) for word in found.stdout.split())
    assert (samples, pairs) == (120_000, 12_000)
    assert peak_mb < 500
