"""Recordings with exact ground truth, made from a motion and a scene."""

from maci2.simulation.recording import SimulationConfig, simulate
from maci2.simulation.trajectory import Motion, MotionKind, Trajectory, random_trajectory

__all__ = [
    "Motion",
    "MotionKind",
    "SimulationConfig",
    "Trajectory",
    "random_trajectory",
    "simulate",
]
