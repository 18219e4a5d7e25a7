"""Start a camera and an IMU together, and say how well it went.

`initialize` finds gravity, velocities and biases from a few seconds of stereo motion and IMU
samples; `calibrate` finds where the camera sits on the IMU. Both return covariances and a verdict.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The numerical code compiles kernels on import, so the names below load on first use: `maci2
# --help` must not wait for them.
_WHERE = {
    "calibrate": "maci2.estimation",
    "initialize": "maci2.estimation",
    "open_recording": "maci2.datasets",
    "simulate": "maci2.simulation",
}

if TYPE_CHECKING:
    from maci2.datasets import open_recording
    from maci2.estimation import calibrate, initialize
    from maci2.simulation import simulate

__all__ = ["__version__", "calibrate", "initialize", "open_recording", "simulate"]


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'maci2' has no attribute '{name}'")
