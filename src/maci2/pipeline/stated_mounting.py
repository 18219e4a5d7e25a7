"""Prior of the extrinsics for a calibration, from options."""

import re
from dataclasses import dataclass

import numpy as np

from maci2.errors import OptionError, require_in_range
from maci2.rigs.convert import extrinsics_from

UNITS = {"deg": np.pi / 180.0, "rad": 1.0, "mm": 1e-3, "cm": 1e-2, "m": 1.0}
"""Units of stated standard deviations, in rad and m."""


@dataclass(frozen=True)
class StatedMounting:
    """Pose of the left camera in the body as `--prior` and `--prior-std` state it."""

    T_b_c0: tuple[tuple[float, ...], ...]
    """(4, 4) [m]"""

    std_rotation: float
    """About each axis [rad]."""

    std_translation: float
    """Along each axis [m]."""


def parse_mounting(prior: str, std: str) -> StatedMounting | None:
    """`--prior FILE --prior-std 2deg,3cm`; None where neither is given."""
    if not prior:
        if std:
            raise OptionError(f"--prior-std is '{std}', but no --prior says of what.")
        return None
    T_b_c0 = extrinsics_from(prior, "--prior")
    parts = [re.fullmatch(r"([0-9.eE+-]+)(deg|rad|mm|cm|m)", part) for part in std.split(",")]
    units = [None if part is None else part[2] for part in parts]
    if len(parts) != 2 or units[0] not in ("deg", "rad") or units[1] not in ("mm", "cm", "m"):
        raise OptionError(
            f"--prior-std is '{std}', needed rotation and translation with units, as in 2deg,3cm."
        )
    values = [float(part[1]) * UNITS[part[2]] for part in parts if part is not None]
    require_in_range("--prior-std (rotation, in rad)", values[0], 0.0, 3.2, above=True)
    require_in_range("--prior-std (translation, in m)", values[1], 0.0, 100.0, above=True)
    return StatedMounting(T_b_c0, *values)
