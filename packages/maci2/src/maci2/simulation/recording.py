"""Simulated recordings: exact motion, an IMU with known errors, image timestamps, ground truth.

Images are not rendered here; a simulated recording has only the timestamps of its frames.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from maci2.datasets.euroc import DEFAULT_TRUTH
from maci2.errors import OptionError
from maci2.field_docs import document_fields
from maci2.geometry import se3, se3_exp, so3_exp
from maci2.geometry.se3 import stack_poses
from maci2.sensors.rig_types import Camera, ImuNoise, Rig
from maci2.sensors.types import GroundTruth, ImuSamples, Recording
from maci2.simulation.trajectory import MotionKind, random_trajectory
from maci2.types import NS, Array, Stamps
from maci2.validation import as_array, as_number, as_stamp, require_type

LensKind = Literal["pinhole", "fisheye"]


_LENSES: dict[LensKind, Camera] = {
    "pinhole": Camera(
        T_b_c=np.eye(4),
        intrinsics=np.array([458.0, 457.0, 372.0, 244.0]),
        distortion=np.array([-0.28, 0.07, 2.0e-4, 2.0e-5]),
        distortion_model="radtan",
        resolution=(752, 480),
        rate_hz=20.0,
    ),
    "fisheye": Camera(
        T_b_c=np.eye(4),
        intrinsics=np.array([190.5, 190.5, 255.0, 257.0]),
        distortion=np.array([3.5e-3, 7.0e-4, -2.0e-3, 2.0e-4]),
        distortion_model="equidistant",
        resolution=(512, 512),
        rate_hz=20.0,
    ),
}


def simulated_rig(lens: LensKind, camera_rate_hz: float, noise: ImuNoise) -> Rig:
    """Two cameras 11 cm apart that look along the body's x axis, and an IMU.

    They are rotated by a few degrees about every axis so that no part of T_b_c is zero.
    """
    if lens not in _LENSES:
        raise OptionError(f"lens is '{lens}'; choose one of {', '.join(_LENSES)}.")
    # Camera axes (right, down, forward) in body axes (forward, left, up).
    R_b_forward = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
    R_forward_c0 = so3_exp(np.array([0.06, -0.04, 0.03]))
    T_b_c0 = se3(R_b_forward @ R_forward_c0, np.array([0.065, 0.055, -0.02]))
    T_c0_c1 = se3_exp(np.array([0.11, 0.0005, -0.0008, 0.004, -0.006, 0.003]))
    cameras = tuple(
        replace(_LENSES[lens], T_b_c=T_b_c, rate_hz=camera_rate_hz)
        for T_b_c in (T_b_c0, T_b_c0 @ T_c0_c1)
    )
    return Rig(cameras=cameras, imu=noise, source="simulated rig", exact=True)


MEMS_NOISE = ImuNoise(
    density_gyro=1.6968e-4, density_acc=2.0e-3, walk_gyro=1.9393e-5, walk_acc=3.0e-3, rate_hz=200.0
)
"""Data sheet of a good MEMS unit (the ADIS16448 of EuRoC)."""


LARGEST_NUMBER = 1e7
"""Largest number of samples, duration [s] and rate [Hz] of a recording: what fits in memory."""


@dataclass(frozen=True)
class SimulationConfig:
    """Choices of a simulated recording. The same configuration gives the same bytes."""

    kind: MotionKind = "handheld"
    """Kind of motion, described at `random_trajectory`."""

    duration_s: float = 20.0
    """Time from the first IMU sample to the last [s]."""

    seed: int = 0
    """Random seed. Motion, biases, random walks and noise use separate streams: switching one off
    does not change the others."""

    imu_rate_hz: float = 200.0
    """Sampling rate of the IMU [Hz]."""

    camera_rate_hz: float = 20.0
    """Frame rate of each camera [Hz]."""

    start_ns: int = 1_700_000_000_000_000_000
    """Timestamp of the first IMU sample."""

    camera_offset_ns: int = 1_300_000
    """First image minus first IMU sample; by default images fall between IMU samples."""

    lens: LensKind = "pinhole"
    """pinhole: radial-tangential distortion; fisheye: equidistant, wide angle."""

    noise: ImuNoise = MEMS_NOISE
    """Densities of white noise and bias walk; its rate is replaced by `imu_rate_hz`."""

    white_noise: bool = True
    """Add the white noise of `noise` to the samples."""

    bias_walk: bool = True
    """Add random walks of the biases according to `noise`."""

    bias_gyro: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Mean of the first gyroscope bias [rad/s]."""

    bias_gyro_std: float = 0.02
    """Spread of the first gyroscope bias about its mean [rad/s]; 0 takes the mean itself."""

    bias_acc: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Mean of the first accelerometer bias [m/s^2]."""

    bias_acc_std: float = 0.1
    """Spread of the first accelerometer bias about its mean [m/s^2]; 0 takes the mean itself."""

    shape_gyro: Array = field(default_factory=lambda: np.eye(3))
    """(3, 3) scale factors (diagonal) and misalignments: reading = shape @ rate + bias + noise."""

    shape_acc: Array = field(default_factory=lambda: np.eye(3))
    """(3, 3) the same for the accelerometer."""

    def __post_init__(self) -> None:
        require_type(self.kind, str, "kind", "the name of a motion")
        require_type(self.lens, str, "lens", "the name of a lens")
        require_type(self.noise, ImuNoise, "noise", "the IMU's data sheet")
        for name in ("duration_s", "imu_rate_hz", "camera_rate_hz"):
            as_number(getattr(self, name), name, 0.0, LARGEST_NUMBER, OptionError, exclusive=True)
        for name in ("seed", "camera_offset_ns", "bias_gyro_std", "bias_acc_std"):
            as_number(getattr(self, name), name, 0.0, error=OptionError)
        for name in ("seed", "camera_offset_ns", "start_ns"):
            as_stamp(getattr(self, name), name, OptionError)
        for sensor in ("gyro", "acc"):
            as_array(getattr(self, f"bias_{sensor}"), (3,), f"bias_{sensor}", OptionError)
            as_array(getattr(self, f"shape_{sensor}"), (3, 3), f"shape_{sensor}", OptionError)
        if self.duration_s * max(self.imu_rate_hz, self.camera_rate_hz) > LARGEST_NUMBER:
            raise OptionError(
                f"duration_s {self.duration_s:g} at {self.imu_rate_hz:g} Hz gives more than "
                f"{LARGEST_NUMBER:g} samples; simulate a shorter recording."
            )
        if self.duration_s * self.imu_rate_hz < 1.0:
            raise OptionError(
                f"duration_s {self.duration_s} at imu_rate_hz {self.imu_rate_hz} gives one IMU "
                f"sample; needed two: at least {1.0 / self.imu_rate_hz} s."
            )


def simulate(config: SimulationConfig | None = None) -> Recording:
    """Simulate a recording with exact ground truth at every IMU and camera timestamp.

    Args:
        config: motion, length, rates, noise and seed; the same configuration gives the same bytes.

    Returns:
        IMU samples, rig, image timestamps and ground truth; no images.

    Raises:
        OptionError: a value of the configuration is invalid.
    """
    config = SimulationConfig() if config is None else config
    require_type(config, SimulationConfig, "config", "SimulationConfig()")
    streams = np.random.SeedSequence(config.seed).spawn(4)
    motion_rng, bias_rng, walk_rng, white_rng = map(np.random.default_rng, streams)
    trajectory = random_trajectory(config.kind, motion_rng)
    imu_ns = _regular_stamps(config, config.imu_rate_hz, 0)
    camera_ns = _regular_stamps(config, config.camera_rate_hz, config.camera_offset_ns)
    # Where the duration is no multiple of the IMU's period, an image could follow its last sample.
    camera_ns = camera_ns[camera_ns <= imu_ns[-1]]
    truth_ns = np.union1d(imu_ns, camera_ns)
    imu_s, truth_s = ((stamps_ns - config.start_ns) / NS for stamps_ns in (imu_ns, truth_ns))

    noise, root_hz = config.noise, np.sqrt(config.imu_rate_hz)
    first = np.hstack([config.bias_gyro, config.bias_acc])
    spread = np.repeat([config.bias_gyro_std, config.bias_acc_std], 3)
    first = first + spread * bias_rng.standard_normal(6)
    steps = walk_rng.standard_normal((len(imu_ns), 6)) / root_hz
    steps[0] = 0.0
    walk = np.cumsum(steps, axis=0) * float(config.bias_walk)
    biases = first + np.repeat([noise.walk_gyro, noise.walk_acc], 3) * walk
    white = white_rng.standard_normal((len(imu_ns), 6)) * float(config.white_noise)
    white *= np.repeat([noise.density_gyro, noise.density_acc], 3) * root_hz
    ideal = trajectory.at(imu_s)
    imu = ImuSamples(
        imu_ns,
        gyro=ideal.omega_b @ config.shape_gyro.T + biases[:, :3] + white[:, :3],
        acc=ideal.specific_force_b @ config.shape_acc.T + biases[:, 3:] + white[:, 3:],
        source="simulated IMU",
    )

    motion = trajectory.at(truth_s)
    bias = np.stack([np.interp(truth_s, imu_s, axis) for axis in biases.T], axis=1)
    poses = stack_poses(motion.Rs_w_b, motion.p_w_b)
    truth = GroundTruth(truth_ns, poses, motion.v_w, bias[:, :3], bias[:, 3:], "simulated truth")
    shapes = (config.shape_gyro, config.shape_acc)
    exact = all(np.array_equal(shape, np.eye(3)) for shape in shapes)
    noise = replace(noise, rate_hz=config.imu_rate_hz, exact=exact)
    name = f"simulated_{config.kind}_{config.seed}"
    return Recording(
        name=name,
        path=Path(name),
        imu=imu,
        rig=simulated_rig(config.lens, config.camera_rate_hz, noise),
        camera_stamps_ns=(camera_ns, camera_ns.copy()),
        truths={DEFAULT_TRUTH: truth},
    )


def _regular_stamps(config: SimulationConfig, rate_hz: float, offset_ns: int) -> Stamps:
    """Timestamps from `offset_ns` after the start to the end, both included if they coincide."""
    # Half a nanosecond, so that rounding of duration times rate never loses the last sample.
    span_s = config.duration_s - (offset_ns - 0.5) / NS
    count = max(int(np.floor(span_s * rate_hz)) + 1, 0)
    steps_ns = np.rint(np.arange(count) * (NS / rate_hz)).astype(np.int64)
    return config.start_ns + offset_ns + steps_ns


document_fields(__name__)
