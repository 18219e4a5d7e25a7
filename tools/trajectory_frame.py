"""How far off the camera frame of a trajectory is from the rig's: basis of `DEFAULT_FRAME_STD`.

    python tools/trajectory_frame.py EUROC

calibrates the extrinsics with DROID's trajectory on the recordings that `euroc` is trained and
tuned on, with its camera frame taken as exact, and prints how far they are from the rig's, and the
standard deviation of one axis that explains it beyond the calibrations' own sigmas.
"""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from maci2_lab.training.imu.recipes import EUROC
from maci2.geometry import (se3_inv, se3_log)
from maci2.pipeline.offline import calibrate_window, calibration_keyframes
from maci2.pipeline.options import RunOptions
from maci2.pipeline.prepare import open_inputs
from maci2.pipeline.prepare import long_window
from maci2.types import Array

WINDOW_S = 60.0


def apart(path: Path) -> tuple[Array, Array]:
    """(6,) [rho, phi] from the rig's extrinsics to the calibrated ones, and their sigmas."""
    options = RunOptions(
        vision="trajectory:visual/droid_stereo_Twc_tum.txt",
        vision_frame="rectified",
        window_s=WINDOW_S,
        keyframes=calibration_keyframes(WINDOW_S),
        time_offset=True,
    )
    # Without the very error that is to be measured.
    vars(options)["source"] = replace(options.source, std_frame=(0.0, 0.0))
    inputs = open_inputs(path, options, calibrating=True)
    window = long_window(inputs.measurable_ns(), options.window_s, options.keyframes, 0.0)
    result = calibrate_window(inputs, window, options)
    assert result.state is not None
    assert result.posterior is not None
    xi = se3_log(np.ascontiguousarray(result.state.T_b_c @ se3_inv(result.inputs.T_b_c)))
    return xi, np.sqrt(np.diag(result.posterior.T_b_c))


def main() -> None:
    np.set_printoptions(precision=1, suppress=True, linewidth=120)
    names, found = sorted(EUROC.train + EUROC.tune), []
    for name in names:
        xi, std = apart(Path(sys.argv[1]) / name)
        found.append((xi, std))
        print(f"{name}: {1e3 * xi[:3]} ± {1e3 * std[:3]} mm, "
              f"{np.array2string(np.degrees(xi[3:]), precision=3)} ± "
              f"{np.array2string(np.degrees(std[3:]), precision=3)} deg", flush=True)  # fmt: skip
    errors, stds = (np.array(values) for values in zip(*found, strict=True))
    farthest = int(np.argmax((errors[:, :3] ** 2).sum(axis=1)))
    others = (np.delete(values, farthest, axis=0) for values in (errors, stds))
    print(f"one axis, beyond the sigmas: {spread(errors, stds)}; without {names[farthest]}: "
          f"{spread(*others)}")  # fmt: skip


def spread(errors: Array, stds: Array) -> str:
    """What is left of the errors (n, 6) when their sigmas are taken off."""
    beyond = np.maximum((errors**2 - stds**2).reshape(-1, 2, 3).mean(axis=(0, 2)), 0.0)
    return f"{1e3 * np.sqrt(beyond[0]):.1f} mm, {np.degrees(np.sqrt(beyond[1])):.3f} deg"


if __name__ == "__main__":
    main()
