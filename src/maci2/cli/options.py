"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from maci2.evaluation.parallel import Pool
    from maci2.rigs import Given

Sequence = Annotated[
    Path,
    typer.Argument(
        metavar="SEQ",
        help="recording: a folder in EuRoC, TUM-VI or VBR layout, a ROS bag, a table of IMU "
        "samples, or a folder with imu.csv and images named by timestamp",
    ),
]
Sequences = Annotated[
    list[Path],
    typer.Argument(
        metavar="SEQ", help="recordings: folders in EuRoC, TUM-VI or VBR layout, or ROS bags"
    ),
]
Imu = Annotated[
    str,
    typer.Option(
        help="IMU model: raw (data-sheet noise and vibration), datasheet (data-sheet noise alone), "
        "noise:FILE (noise measured by `maci2 noise --json`), euroc or tumvi (learned models, "
        "listed by `maci2 model`), or a weight file of train-imu"
    ),
]
Vision = Annotated[
    str,
    typer.Option(
        help="camera motion: images (stereo visual odometry; images:fixed, images:structure or "
        "images:chi2 select a baseline's match covariance), truth:ROT_DEG,TRANS_M (ground truth "
        "with noise added to each relative pose), trajectory:FILE (TUM format), measurements:FILE "
        "(.npz with covariances), tracks:PIXEL_SIGMA[,NEAR_M,FAR_M] (feature tracks simulated "
        "along the ground truth), tracks:FILE.npz (feature tracks of your own)  [default: images, "
        "if the recording has them]"
    ),
]
VisionFrame = Annotated[str, typer.Option(help="camera frame of a trajectory: camera or rectified")]
VisionStd = Annotated[
    str | None,
    typer.Option(
        help="ROT_DEG,TRANS_M[,SHARE]: noise (1 sigma) of the relative poses of a trajectory; "
        "SHARE of their length is added  [default: 0.05,0.003,0.015, with less rotation if the "
        "gyroscope shows it]"
    ),
]
VisionScaleStd = Annotated[
    float | None,
    typer.Option(help="relative scale error of a trajectory (1 sigma)  [default: 0.04]"),
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
        help="also estimate the time offset between camera and IMU (within 0.1 s)",
    ),
]
TrustRig = Annotated[
    bool,
    typer.Option(
        "--trust-rig",
        help="accept the stated extrinsics and scale even if nothing in the recording confirms "
        "them; without this option such a result is weak",
    ),
]
Truth = Annotated[
    str,
    typer.Option(
        help="ground truth to use. NAME[,NAME]: the first of these that a recording has; "
        "audited: the recording's ground truth (or the first of the other names) after an audit "
        "against the IMU, as by `maci2 truth`; audited:SOURCE: the same from a source such as "
        "vicon0 or leica0; or a folder written by `maci2 truth -o`"
    ),
]
AccBiasPrior = Annotated[
    str | None, typer.Option(help="X,Y,Z: known accelerometer bias of this sensor [m/s^2]")
]
AccBiasStd = Annotated[
    float | None,
    typer.Option(help="standard deviation of that bias [m/s^2]  [default: 0.1]"),
]
RigFile = Annotated[
    Path | None,
    typer.Option(
        "--rig",
        help="calibration to use instead of the recording's own: file or folder of Kalibr, "
        "OpenVINS, VINS, ORB-SLAM, MSCKF-VIO, Basalt, RealSense, OAK, ZED or `maci2 convert`",
    ),
]
ImuRate = Annotated[
    float | None, typer.Option(help="sampling rate of the IMU, if the calibration lacks it [Hz]")
]
ImuNoiseText = Annotated[
    str,
    typer.Option(
        "--imu-noise",
        help="IMU noise to use instead of the calibration's: Kalibr's imu.yaml, or the densities "
        "GYRO,ACC,GYRO_WALK,ACC_WALK in SI units",
    ),
]
Extrinsics = Annotated[
    str,
    typer.Option(
        "--T-b-c",
        help="pose of the left camera in the IMU frame, to use instead of the calibration's: YAML "
        "with T_b_c or T_cam_imu, or 16 comma-separated numbers row by row",
    ),
]
Topics = Annotated[
    str,
    typer.Option(
        help="topics of a bag: ROLE=/topic[,...] with the roles imu (or gyro and acc), left, "
        "right, truth; roles not named are found by message type, except truth"
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help="columns of a table of IMU samples: t, gx, gy, gz, ax, ay, az, or - to skip one, with "
        "units other than s, rad/s and m/s^2 in brackets: t[us],gx[deg/s],gy,gz,ax[g],ay,az"
    ),
]
Seed = Annotated[int, typer.Option(help="random seed")]
Jobs = Annotated[int, typer.Option(help="recordings to process in parallel")]
Backend = Annotated[str, typer.Option(help="where to run: local (this machine) or dask")]
Scheduler = Annotated[
    str, typer.Option(help="address of a Dask scheduler  [default: a cluster on this machine]")
]
Report = Annotated[Path | None, typer.Option(help="HTML report to write")]
Rerun = Annotated[str, typer.Option(help="show the result in Rerun: FILE.rrd to write, or live")]
Rivals = Annotated[bool | None, typer.Option("--rivals/--no-rivals", hidden=True)]
"""Name of --baselines in version 0.1."""

Spoil = Annotated[str, typer.Option("--spoil", hidden=True)]
"""Name of --degrade in version 0.1."""

Json = Annotated[
    Path | None, typer.Option("--json", help="write the result as JSON to this file; - prints it")
]


def given(imu_rate: float | None, imu_noise: str, t_b_c: str) -> "Given":
    """Parts of a calibration given by options."""
    from maci2.rigs import given_by

    return given_by(imu_rate, imu_noise, t_b_c)


def with_baselines(baselines: bool, rivals: bool | None) -> bool:
    """Value of --baselines, or of its old name if that is given."""
    return baselines if rivals is None else rivals


def pool(jobs: int, backend: str, scheduler: str) -> "Pool":
    """Workers selected by these options."""
    from maci2.evaluation.parallel import Pool

    return Pool(jobs, backend, scheduler)  # type: ignore[arg-type]
