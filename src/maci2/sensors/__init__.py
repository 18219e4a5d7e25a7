"""Recordings in: samples, stamps, calibration, truth."""

from maci2.sensors.types import (
    NS,
    Camera,
    GroundTruth,
    ImuNoise,
    ImuSamples,
    Recording,
    Rig,
    Stamps,
)

__all__ = [
    "NS",
    "Camera",
    "GroundTruth",
    "ImuNoise",
    "ImuSamples",
    "Recording",
    "Rig",
    "Stamps",
]
