"""Tools around the estimator: checks of recordings, ground truth, IMU noise, watchdog."""
