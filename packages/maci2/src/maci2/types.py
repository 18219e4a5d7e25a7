"""Array types, units and constants."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
"""Numbers of any shape; docstrings state the shape."""

Vec3 = NDArray[np.float64]
"""(3,)"""

Mat4 = NDArray[np.float64]
"""(4, 4)"""

Mat6 = NDArray[np.float64]
"""(6, 6)"""

Mask = NDArray[np.bool_]
"""(n,) boolean mask."""

Stamps = NDArray[np.int64]
"""(n,) timestamps [ns]; float64 seconds since 1970 resolve 240 ns only."""

NS = 1_000_000_000
"""Nanoseconds in a second."""

GRAVITY_NORM = 9.81
"""Norm of gravity [m/s^2]."""

STANDARD_GRAVITY = 9.80665
"""The unit g [m/s^2], by its definition."""

GRAVITY_W: Vec3 = np.array([0.0, 0.0, -GRAVITY_NORM])
"""Gravity in a world whose z axis points up [m/s^2]."""
