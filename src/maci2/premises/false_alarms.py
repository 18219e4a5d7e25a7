"""How often sound measurements are called contradictory: one rate, shared by all tests."""

FALSE_ALARM = 0.01
"""Probability that measurements as stated are called contradictory, all tests together."""

TESTS = 10
"""Rotation, time offset, gyroscope's scale, scale, lever arm, gravity's norm, axes, saturation,
accelerometer's delay, camera's drift."""

LEVEL = FALSE_ALARM / TESTS
"""Significance level of one test, so that all together have the stated rate."""
