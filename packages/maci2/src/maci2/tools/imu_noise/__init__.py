"""Noise of an IMU, estimated from recordings in motion."""
