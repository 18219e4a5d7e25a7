"""Everything compiled, or loaded from where it was compiled to, before a solution is timed."""

from functools import lru_cache

from maci2.estimation import calibrate, initialize
from maci2.imu import raw_model
from maci2.simulation import SimulationConfig, simulate
from maci2.vision import pose_noise, poses_from_truth

STEPS = 5
"""Between keyframes: as short as a window can be."""


@lru_cache(maxsize=1)
def warm_up() -> None:
    """Initialize and calibrate once on a short simulated window, in this process."""
    recording = simulate(SimulationConfig(duration_s=2.0))
    truth, T_b_c = recording.truth(), recording.rig.cameras[0].T_b_c
    assert truth is not None
    # Kernels are compiled for arrays of one kind, and every other slice is of another.
    stamps_ns = recording.camera_stamps_ns[0][4 : 5 + 5 * STEPS : 5].copy()
    vision = poses_from_truth(truth, stamps_ns, T_b_c, pose_noise(0.05, 0.003), (0,))
    imu = raw_model(recording.imu, recording.rig.imu)
    imu = imu.between(int(stamps_ns[0]), int(stamps_ns[-1]))
    initialize(imu, vision, T_b_c)
    calibrate(imu, vision)
