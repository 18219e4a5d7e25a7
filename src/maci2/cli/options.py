"""Options that several commands share, in one place."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maci2.evaluation.parallel import Pool
    from maci2.rigs import Given

Sequence = Annotated[
    Path,
    typer.Argument(
        help="recording: a EuRoC-layout, TUM-VI or VBR folder, a ROS bag, a table of IMU samples, "
        "or a folder with imu.csv and images named by time"
    ),
]
Sequences = Annotated[
    list[Path],
    typer.Argument(help="recordings: EuRoC-layout, TUM-VI or VBR folders, or ROS bags"),
]
Imu = Annotated[
    str,
    typer.Option(
        help="IMU model: raw (data-sheet noise and vibration), datasheet (data-sheet noise alone), "
        "noise:FILE (what `maci2 noise --json` measured), "
        "euroc or tumvi (learned, `maci2 model` lists them), or a weight file of train-imu"
    ),
]
Vision = Annotated[
    str,
    typer.Option(
        help="camera motion: images (stereo visual odometry; images:fixed, images:structure or "
        "images:chi2 with a baseline's match covariance), truth:ROT_DEG,TRANS_M (ground truth "
        "with noise added to each relative pose), trajectory:FILE (TUM format), measurements:FILE "
        "(.npz with covariances), tracks:PIXEL_SIGMA[,NEAR_M,FAR_M] (points simulated along the "
        "ground truth), tracks:FILE.npz (points of your own tracker)  [default: images, where the "
        "recording has them]"
    ),
]
VisionFrame = Annotated[str, typer.Option(help="camera frame of a trajectory: camera or rectified")]
VisionStd = Annotated[
    str | None,
    typer.Option(
        help="ROT_DEG,TRANS_M[,SHARE]: noise of a trajectory's relative poses, SHARE of their "
        "length on top  [default: 0.05,0.003,0.015, and less rotation where the gyroscope shows it]"
    ),
]
VisionScaleStd = Annotated[
    float | None,
    typer.Option(help="share by which a trajectory's scale may be off (1 sigma)  [default: 0.04]"),
]
Keyframes = Annotated[int, typer.Option(help="keyframes in a window")]
Window = Annotated[float, typer.Option(help="length of a window [s]")]
Stride = Annotated[float, typer.Option(help="time from one window's start to the next [s]")]
Start = Annotated[
    float, typer.Option(help="start of the window, from the first usable timestamp [s]")
]
Paper = Annotated[
    bool,
    typer.Option(
        "--paper",
        help="the paper's choices exactly: free gravity vector, no accelerometer bias, "
        "block-diagonal IMU weights, data-sheet noise",
    ),
]
TimeOffset = Annotated[
    bool,
    typer.Option(
        "--time-offset/--no-time-offset",
        help="estimate the camera's time offset to the IMU too (within 0.1 s)",
    ),
]
TrustRig = Annotated[
    bool,
    typer.Option(
        "--trust-rig",
        help="believe stated extrinsics and scale where nothing that was seen confirms them; "
        "without it such a result is weak",
    ),
]
Truth = Annotated[
    str,
    typer.Option(
        help="NAME[,NAME]: ground truths by name; of each recording the first it has. `audited`: "
        "the recording's ground truth (the first of the other names) after its audit against the "
        "IMU, as `maci2 truth` makes it; audited:SOURCE names the source (vicon0, leica0, ...). Or "
        "a folder that `maci2 truth -o` wrote"
    ),
]
AccBiasPrior = Annotated[
    str | None, typer.Option(help="X,Y,Z: the accelerometer bias this sensor is known for [m/s^2]")
]
AccBiasStd = Annotated[
    float | None,
    typer.Option(help="standard deviation of that bias [m/s^2]  [default: 0.1]"),
]
RigFile = Annotated[
    Path | None,
    typer.Option(
        "--rig",
        help="calibration, instead of the recording's: file or folder of Kalibr, OpenVINS, VINS, "
        "ORB-SLAM, MSCKF-VIO, Basalt, an OAK or a ZED, or what `maci2 convert` writes",
    ),
]
ImuRate = Annotated[
    float | None, typer.Option(help="IMU's sampling rate, where the calibration does not say [Hz]")
]
ImuNoiseText = Annotated[
    str,
    typer.Option(
        "--imu-noise",
        help="IMU noise, instead of the calibration's: Kalibr imu.yaml, or "
        "GYRO,ACC,GYRO_WALK,ACC_WALK as densities in SI units per sqrt(Hz)",
    ),
]
Extrinsics = Annotated[
    str,
    typer.Option(
        "--T-b-c",
        help="pose of the left camera in the IMU frame, instead of the calibration's: YAML with "
        "T_b_c or T_cam_imu, or 16 numbers row by row with commas between",
    ),
]
Topics = Annotated[
    str,
    typer.Option(
        help="of a bag: ROLE=/topic with commas between; roles are imu, or gyro and acc, left, "
        "right, truth; what is not named is found by type, truth excepted"
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help="of a table of IMU samples: one word for each column, t, gx, gy, gz, ax, ay, az or -, "
        "with units where they are not s, rad/s and m/s^2: t[us],gx[deg/s],gy,gz,ax[g],ay,az"
    ),
]
Seed = Annotated[int, typer.Option(help="seed of all random numbers")]
Jobs = Annotated[int, typer.Option(help="recordings worked on at once")]
Backend = Annotated[str, typer.Option(help="who works: local (this machine) or dask")]
Scheduler = Annotated[
    str, typer.Option(help="address of a Dask scheduler  [default: a cluster on this machine]")
]
Report = Annotated[Path | None, typer.Option(help="page with pictures to write (.html)")]
Rerun = Annotated[str, typer.Option(help="show the result with Rerun: FILE.rrd to write, or live")]
Rivals = Annotated[bool | None, typer.Option("--rivals/--no-rivals", hidden=True)]
"""The name that --baselines had in version 0.1."""

Spoil = Annotated[str, typer.Option("--spoil", hidden=True)]
"""The name that --degrade had in version 0.1."""

Json = Annotated[
    Path | None, typer.Option("--json", help="write the result to this file; - prints it")
]


def given(imu_rate: float | None, imu_noise: str, t_b_c: str) -> "Given":
    """Parts of a calibration that options state."""
    from maci2.rigs import given_by

    return given_by(imu_rate, imu_noise, t_b_c)


def with_baselines(baselines: bool, rivals: bool | None) -> bool:
    """The value of --baselines, or of its old name where that is given."""
    return baselines if rivals is None else rivals


def pool(jobs: int, backend: str, scheduler: str) -> "Pool":
    """The workers that these options ask for."""
    from maci2.evaluation.parallel import Pool

    return Pool(jobs, backend, scheduler)  # type: ignore[arg-type]
