"""Tables of IMU samples and image folders as people have them, against the samples they are of."""

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from bag_files import recording_items, write_items
from maci2.cli.app import app
from maci2.datasets import open_recording, write_euroc
from maci2.datasets.frames import stereo_frames
from maci2.datasets.images import read_image_names
from maci2.datasets.open import open_images
from maci2.datasets.tables import read_imu_text
from maci2.errors import CalibrationError, DatasetError, OptionError
from maci2.rigs import Given, write_rig
from maci2.sensors import Camera, ImuNoise, Rig
from maci2.simulation import SimulationConfig, simulate
from maci2.tools.diagnostics.diagnose import examine_path
from maci2.types import NS

NOISE = ImuNoise(1e-4, 2e-3, 1e-5, 3e-3, 200.0)
SIZE = (64, 48)


@pytest.fixture(scope="module")
def recording():
    return simulate(SimulationConfig(duration_s=4.0, seed=10))


def table(imu, head, row):
    lines = [row(s, *g, *a) for s, g, a in zip(imu.stamps_ns, imu.gyro, imu.acc, strict=True)]
    return "\n".join([*([head] if head else []), *lines]) + "\n"


def seconds(stamp_ns):
    return f"{stamp_ns // NS}.{stamp_ns % NS:09d}"


def in_order(stamp_ns, *values):
    return ",".join([str(stamp_ns), *(f"{v:.12g}" for v in values)])


G = 9.80665
TABLES = {
    "EuRoC": ("#timestamp [ns],w_RS_S_x [rad s^-1],w_RS_S_y [rad s^-1],w_RS_S_z [rad s^-1],"
              "a_RS_S_x [m s^-2],a_RS_S_y [m s^-2],a_RS_S_z [m s^-2]", "", in_order),
    "rostopic echo -p": ("%time,field.angular_velocity.x,field.angular_velocity.y,"
                         "field.angular_velocity.z,field.linear_acceleration.x,"
                         "field.linear_acceleration.y,field.linear_acceleration.z", "", in_order),
    "phone": ("Timestamp_s;AccX (g);AccY (g);AccZ (g);GyroX (dps);GyroY (dps);GyroZ (dps)", "",
              lambda s, *v: ";".join([seconds(s), *(f"{a / G:.15g}" for a in v[3:]),
                                      *(f"{np.rad2deg(w):.15g}" for w in v[:3])])),
    "spaces, no headings": ("", "t,gx,gy,gz,ax,ay,az",
                            lambda s, *v: " ".join([seconds(s), *(f"{x:.15g}" for x in v)])),
    "microseconds, stated": ("a,b,c,d,e,f,g,h", "-,t[us],ax[g],ay,az,gx[dps],gy,gz",
                             lambda s, *v: ",".join(["7", f"{s // 1000}.{s % 1000:03d}",
                                                     *(f"{a / G:.15g}" for a in v[3:]),
                                                     *(f"{np.rad2deg(w):.15g}" for w in v[:3])])),
}  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_all_kinds_give_the_samples_they_were_made_of(recording, tmp_path, kind):
    head, columns, row = TABLES[kind]
    path = tmp_path / "imu.txt"
    path.write_text(table(recording.imu, head, row))
    imu = read_imu_text(path, columns)
    np.testing.assert_array_equal(imu.stamps_ns, recording.imu.stamps_ns)
    np.testing.assert_allclose(imu.gyro, recording.imu.gyro, atol=1e-10)
    np.testing.assert_allclose(imu.acc, recording.imu.acc, atol=1e-9)


def test_a_table_alone_is_a_recording_once_its_noise_is_given(recording, tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text(table(recording.imu, "t[ns],gx,gy,gz,ax,ay,az", in_order))
    with pytest.raises(CalibrationError, match="--imu-noise"):
        open_recording(path)
    opened = open_recording(path, given=Given(noise=NOISE))
    assert len(opened.imu) == len(recording.imu)
    assert opened.rig.imu == NOISE
    assert not opened.rig.cameras


def test_check_looks_at_a_table_and_says_what_commands_would_need(recording, tmp_path):
    path = tmp_path / "walk.csv"
    path.write_text(table(recording.imu, "time,gyro_x,gyro_y,gyro_z,acc_x,acc_y,acc_z", in_order))
    result = CliRunner().invoke(app, ["check", str(path)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert f"{len(recording.imu)} samples" in result.output
    assert "`init` would need the IMU's noise (--imu-noise), a calibrated stereo pair" in (
        " ".join(result.output.split())
    )
    scaled = table(recording.imu, "", lambda s, *v: in_order(s, *v[:3], *(a / G for a in v[3:])))
    path.write_text(scaled)
    command = ["check", str(path), "--columns", "t,gx,gy,gz,ax,ay,az"]
    wrong = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "looks like g" in wrong.output
    command[-1] = "t,gx,gy,gz,ax[g],ay,az"
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("t,gx,gy,gz,ax,ay", "lacks az"),
        ("t,gx,gy,gz,ax,ay,az,-,t", "names t twice"),
        ("t,gx,gy,gz,ax,ay,up", "'up', needed one of"),
        ("t,-,gx,gy,gz,ax,ay,az", "in column 8 of 7"),
    ],
)
def test_columns_that_cannot_be_meant_are_refused(recording, tmp_path, columns, said):
    path = tmp_path / "imu.csv"
    path.write_text(table(recording.imu, "", in_order))
    with pytest.raises(OptionError, match=said):
        read_imu_text(path, columns)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b,c,d,e,f,g\n" + "1,2,3,4,5,6,7\n" * 20, "headings do not tell t, gx"),
        ("t[h],gx,gy,gz,ax,ay,az\n" + "1,2,3,4,5,6,7\n" * 20, "time is in 'h'"),
        ("t[ns],gx[rpm],gy,gz,ax,ay,az\n" + "1,2,3,4,5,6,7\n" * 20, "gx is in 'rpm'"),
        ("t,gx,gy,gz,ax,ay,az\n" + "1,2,3,4,5,6,7\n" * 20, "the unit of the timestamps cannot"),
        ("t[s],gx,gy,gz,ax,ay,az\n" + "1,2,3,4,5,6,7\n" * 20, "line 3"),
        ("t[s],gx,gy,gz,ax,ay,az\n" + "1,2,3,4,5,6,7\n" * 10 + "2,2\n", "has 2 fields, needed 7"),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_says_why(tmp_path, text, said):
    path = tmp_path / "imu.csv"
    path.write_text(text)
    with pytest.raises(DatasetError, match=said):
        read_imu_text(path)


def write_images(folder, names):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(len(folder.name))
    for name in names:
        cv2.imwrite(str(folder / name), rng.integers(0, 255, SIZE[::-1], dtype=np.uint8))


@pytest.mark.parametrize(
    ("name", "factor"),
    [("{:d}.png", 1), ("frame-{:d}.jpg", 1000), ("left_{}.{:06d}.bmp", None), ("{:d}.png", 10**6)],
)
def test_timestamps_are_read_from_the_names_of_images(tmp_path, name, factor):
    stamps_ns = 1_520_530_308_000_000_000 + 50_000_000 * np.arange(8)
    unit = factor or 1000
    names = [
        name.format(int(s // unit)) if factor else name.format(s // NS, s % NS // 1000)
        for s in stamps_ns
    ]
    write_images(tmp_path / "left", names)
    found_ns, found_names = read_image_names(tmp_path / "left")
    np.testing.assert_array_equal(found_ns, stamps_ns)
    assert found_names[int(stamps_ns[3])] == names[3]


def test_headings_of_more_columns_than_there_are_is_an_error(tmp_path):
    rows = "\n".join(f"{0.005 * k},0,0,0,0,0,9.8" for k in range(20))
    (tmp_path / "imu.csv").write_text("t[s],temperature,gx,gy,gz,ax,ay,az\n" + rows)
    with pytest.raises(DatasetError, match="headings name 8 columns, its first row has 7"):
        read_imu_text(tmp_path / "imu.csv")


def test_numbered_images_have_no_timestamps(tmp_path):
    write_images(tmp_path / "left", [f"{k:06d}.png" for k in range(8)])
    with pytest.raises(DatasetError, match=r"images are numbered .*data\.csv"):
        read_image_names(tmp_path / "left")


@pytest.fixture(scope="module")
def plain(recording, tmp_path_factory):
    """A folder with imu.csv, left and right, and a rig beside it."""
    folder = tmp_path_factory.mktemp("plain") / "walk"
    stamps_ns = recording.imu.stamps_ns[::20]
    for side in ("left", "right"):
        write_images(folder / side, [f"{s}.png" for s in stamps_ns])
    (folder / "imu.csv").write_text(table(recording.imu, "t[ns],gx,gy,gz,ax,ay,az", in_order))
    focal, lens = np.array([50.0, 50.0, 32.0, 24.0]), np.zeros(4)
    cameras = [
        Camera(camera.T_b_c, focal, lens, "none", SIZE, 20.0)
        for camera in recording.rig.cameras[:2]
    ]
    rig = Rig(tuple(cameras), NOISE, "test")
    write_rig(folder.parent / "rig", rig, "kalibr")
    return folder, folder.parent / "rig", stamps_ns


def test_a_folder_of_images_and_a_table_is_a_recording(plain):
    folder, rig, stamps_ns = plain
    opened = open_recording(folder, rig)
    frames = stereo_frames(opened)
    np.testing.assert_array_equal(frames.stamps_ns, stamps_ns)
    path = folder / "left" / f"{stamps_ns[2]}.png"
    np.testing.assert_array_equal(frames.pair(2).left, cv2.imread(str(path), cv2.IMREAD_GRAYSCALE))


def test_images_alone_are_checked_and_can_be_followed(plain, tmp_path):
    folder, rig, stamps_ns = plain
    (tmp_path / "only").mkdir()
    for side in ("left", "right"):
        (tmp_path / "only" / side).symlink_to(folder / side)
    diagnosis = examine_path(tmp_path / "only", rig)
    assert "no table of IMU samples" in diagnosis.first_line
    assert diagnosis.images is not None
    assert [name for name, _ in diagnosis.sensors] == ["cam0", "cam1"]
    needs = next(finding.text for finding in diagnosis.findings if finding.what == "needs")
    assert (
        "`calibrate` would need IMU samples; `init` would need IMU samples; `vo` can run" in needs
    )
    assert len(open_images(tmp_path / "only", rig).camera_stamps_ns[0]) == len(stamps_ns)
    bare = examine_path(tmp_path / "only")
    assert bare.usable
    assert any(finding.what == "calibration" for finding in bare.findings)


def test_a_euroc_folder_without_its_lists_takes_the_names_of_the_files(plain, tmp_path, recording):
    folder, rig, stamps_ns = plain
    write_euroc(recording, tmp_path / "walk")
    for number, side in enumerate(("left", "right")):
        camera = tmp_path / "walk" / "mav0" / f"cam{number}"
        (camera / "data.csv").unlink()
        if (camera / "data").is_dir():
            (camera / "data").rmdir()
        (camera / "data").symlink_to(folder / side)
    opened = open_recording(tmp_path / "walk", rig)
    np.testing.assert_array_equal(stereo_frames(opened).stamps_ns, stamps_ns)


def test_bags_with_imu_alone_and_with_images_alone_are_checked(recording, tmp_path):
    def imu_items(bag):
        return (item for item in recording_items(bag, recording) if "imu" in item.topic)

    def image_items(bag):
        pixels = np.zeros((48, 64), np.uint8)
        for stamp_ns in recording.imu.stamps_ns[::20]:
            for number in (1, 2):
                topic = f"/device_0/sensor_0/Infrared_{number}/image/data"
                yield bag.image(topic, stamp_ns, pixels)

    alone = examine_path(write_items(tmp_path / "imu.bag", "ros1", imu_items))
    assert alone.usable
    assert alone.imu.samples == len(recording.imu)
    assert any(finding.what == "needs" for finding in alone.findings)
    images = examine_path(write_items(tmp_path / "images.bag", "ros1", image_items))
    assert "there are no IMU samples" in images.first_line
    assert len(images.cameras) == 2
    assert images.stereo_matched_pct == 100.0
