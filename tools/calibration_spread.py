"""What calibrations of one device differ by when they are made twice.

    python tools/calibration_spread.py CONFIGS

prints the pairs of files below (collected from public repositories; docs/research/consistency.md) and
the spread of one calibration that explains their differences, with its 95 % bound.
"""

import sys
from pathlib import Path

import numpy as np
from scipy.special import chdtri

from maci2.geometry import (se3_inv, so3_log)
from maci2.rigs import read_any_rig

OPENVINS, VINS = "rpng+open_vins/config", "HKUST-Aerial-Robotics+VINS"
MYNT = "shihengW+MYNT-EYE-VINS-FUSION-Samples/config"

PAIRS = {
    "Snapdragon Flight, forward: indoors, outdoors": (
        f"{OPENVINS}/uzhfpv_indoor/estimator_config.yaml",
        f"{OPENVINS}/uzhfpv_outdoor/estimator_config.yaml",
    ),
    "Snapdragon Flight, 45 deg: indoors, outdoors": (
        f"{OPENVINS}/uzhfpv_indoor_45/estimator_config.yaml",
        f"{OPENVINS}/uzhfpv_outdoor_45/estimator_config.yaml",
    ),
    "A3 and two cameras: monocular, stereo": (
        f"{VINS}-Fusion/config/A3_ptgrey/a3_ptgrey_mono_imu_config.yaml",
        f"{VINS}-Fusion/config/A3_ptgrey/a3_ptgrey_stereo_imu_config.yaml",
    ),
    "TUM-VI: VINS-Mono's, the data set's": (
        f"{VINS}-Mono/config/tum/tum_config.yaml",
        f"{OPENVINS}/tum_vi/estimator_config.yaml",
    ),
    "MYNT EYE S: monocular, stereo": (
        f"{MYNT}/mynteye-s/mynt_mono_config.yaml",
        f"{MYNT}/mynteye-s/mynt_stereo_imu_config.yaml",
    ),
    "MYNT EYE D: monocular, stereo": (
        f"{MYNT}/mynteye-d/mynt_mono_config.yaml",
        f"{MYNT}/mynteye-d/mynt_stereo_imu_config.yaml",
    ),
}


def main() -> None:
    root = Path(sys.argv[1])
    rotations, levers, clocks, baselines = [], [], [], []
    print("| device: two calibrations | rotation [deg] | lever arm [mm] | clock [ms] | baseline |")
    print("|---|---|---|---|---|")
    for device, (first, second) in PAIRS.items():
        one, other = read_any_rig(root / first), read_any_rig(root / second)
        T_one, T_other = one.cameras[0].T_b_c, other.cameras[0].T_b_c
        turned = so3_log(np.ascontiguousarray(T_one[:3, :3] @ T_other[:3, :3].T))
        rotations.append(np.rad2deg(turned))
        levers.append(1e3 * (T_one[:3, 3] - T_other[:3, 3]))
        clock = baseline = "-"
        if one.time_offset_s and other.time_offset_s:
            clocks.append(1e3 * (one.time_offset_s - other.time_offset_s))
            baselines.append(100.0 * (_baseline(one) / _baseline(other) - 1.0))
            clock, baseline = f"{clocks[-1]:.1f}", f"{baselines[-1]:.2f} %"
        cells = (
            ", ".join(f"{x:.2f}" for x in rotations[-1]),
            ", ".join(f"{x:.1f}" for x in levers[-1]),
        )
        print(f"| {device} | {cells[0]} | {cells[1]} | {clock} | {baseline} |")
    for name, differences in (
        ("rotation [deg]", rotations),
        ("lever arm [mm]", levers),
        ("clock [ms]", clocks),
        ("baseline [%]", baselines),
    ):
        values = np.ravel(differences)
        # A difference has twice the variance of one calibration.
        spread = np.sqrt(np.mean(values**2) / 2.0)
        bound = spread * np.sqrt(len(values) / chdtri(len(values), 0.95))
        print(f"{name}: {spread:.3g} from {len(values)} differences, 95 % bound {bound:.3g}")


def _baseline(rig) -> float:
    T_c0_c1 = se3_inv(rig.cameras[0].T_b_c) @ rig.cameras[1].T_b_c
    return float(np.linalg.norm(T_c0_c1[:3, 3]))


if __name__ == "__main__":
    main()
