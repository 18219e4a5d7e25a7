"""How far constants may be off: one table, a reason each.

A constant that was calibrated with care is contradicted only beyond what its own measurement and
this spread explain. Priors of constants that are not known come last. Those of the camera
(`STD_ROTATION`, `STD_LEVER`) are `vision.calibration_uncertainty`'s.
"""

STD_TIME_OFFSET_S = 0.005
"""Time offset that was taken as known [s]: two devices whose files state one, calibrated twice
(`tools/calibration_spread.py`)."""

STD_GYRO_SCALE = 0.01
"""Scale factor of a gyroscope, one axis: a per cent, the tolerance that data sheets of MEMS
gyroscopes state; MH_01, V2_03 and rooms 1, 3 and 5 show a quarter of it."""

STD_ACC_SCALE = 0.007
"""Scale factor of an accelerometer, by which the camera's scale is measured: 95 % bound from MH_01,
V2_03 and rooms 1, 3 and 5."""

STD_ACC_BIAS = 0.1
"""Bias of an accelerometer [m/s^2], which lengthens gravity: a hundredth of gravity, the zero-g
offset that data sheets of calibrated MEMS sensors allow."""

STD_ACC_CLOCK_S = 0.001
"""Delay of an accelerometer against its gyroscope [s]: group delays of the two filters in one chip
differ by less."""

STD_ACC_DELAY_S = 0.005
"""Delay of an accelerometer against gyroscope and camera that an initialization bears [s]: as far
as clocks may be off. Positions of EuRoC's published ground truth are late by twice of it."""

STD_DRIFT = 0.02
"""Drift of a camera's translations, one axis of the camera [m/s]: rounded from what MH_01, V2_03
and rooms 1 and 3 show."""

LEVER_ARM_STD = 1.0
"""Prior of the extrinsic translation [m]: a camera sits within a metre or so of its IMU. It
matters only where the motion says nothing about the translation."""

OFFSET_STD_S = 0.05
"""Prior of the time offset of camera and IMU [s], where it is to be estimated."""
