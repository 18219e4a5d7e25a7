"""How often sound measurements are called contradictory: one rate, shared by all tests."""

FALSE_ALARM = 0.01
"""Probability that measurements as stated are called contradictory, all tests together."""

TESTS = 8
"""Rotation, time offset, gyroscope's scale, scale, lever arm, gravity's norm, axes, saturation."""

LONG_TESTS = 2
"""Accelerometer's delay and camera's drift, which only long recordings show."""

LONG_SHARE = 0.1
"""Share of the rate that these two have: what they find is large."""

LEVEL = (1.0 - LONG_SHARE) * FALSE_ALARM / TESTS
"""Significance level of one test, so that all together have the stated rate."""

LONG_LEVEL = LONG_SHARE * FALSE_ALARM / LONG_TESTS
"""False-alarm rate of a test that only long recordings allow."""
