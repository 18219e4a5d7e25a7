"""Training of the IMU model."""
