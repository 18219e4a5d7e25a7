"""Capture of the body's motion: motion capture, a laser tracker, or a published ground truth."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from maci2.datasets.euroc import POSE_COLUMNS, mav0_of, read_truth_csv
from maci2.datasets.tables import read_table, read_trajectory
from maci2.errors import DatasetError, OptionError
from maci2.rigs.yaml_files import Matrix4, OpenSchema, load_yaml, rigid_transform, validate
from maci2.sensors import GroundTruth, Recording
from maci2.types import Array, Mask, Stamps

RAW_POSES = "vicon0"
RAW_POSITIONS = "leica0"
MOCAP = "mocap0"
TRAJECTORY = "trajectory:"

_POSITIONS = {name: POSE_COLUMNS[name] for name in ("px", "py", "pz")}


class _Marker(OpenSchema):
    T_BS: Matrix4


@dataclass(frozen=True)
class Capture:
    """Poses or positions of a marker m in the tracking system's world w, on its clock."""

    name: str
    stamps_ns: Stamps
    """(n,) rising."""

    p_w_m: Array
    """(n, 3) [m]"""

    Rs_w_m: Array | None
    """(n, 3, 3); None where only positions were tracked."""

    source: str
    """File, for messages."""

    T_b_m: Array = field(default_factory=lambda: np.eye(4))
    """(4, 4) where the marker is said to sit on the IMU; the identity for a published truth."""

    one_clock: bool = True
    """Position and orientation come from one device."""

    claims: GroundTruth | None = None
    """The published truth whose velocity and bias columns can be looked at too."""

    lost_ns: Stamps = field(default_factory=lambda: np.zeros(0, np.int64))
    """(k,) rows left out because the tracker had lost the body."""

    def __len__(self) -> int:
        return len(self.stamps_ns)

    def part(self, rows: Mask) -> "Capture":
        """The capture with some of its rows."""
        Rs_w_m = None if self.Rs_w_m is None else self.Rs_w_m[rows]
        return replace(self, stamps_ns=self.stamps_ns[rows], p_w_m=self.p_w_m[rows], Rs_w_m=Rs_w_m)

    @property
    def smoothed(self) -> bool:
        """A published truth with velocities is no raw measurement."""
        return self.claims is not None and bool(np.isfinite(self.claims.v_w).any())


def open_capture(recording: Recording, source_name: str = "") -> Capture:
    """Find what `source_name` says: vicon0, leica0, a truth's name, trajectory:FILE; by default the
    recording's first ground truth."""
    if source_name.startswith(TRAJECTORY):
        path = Path(source_name.removeprefix(TRAJECTORY))
        poses = read_trajectory(path)
        return _of_poses(TRAJECTORY + path.name, poses.stamps_ns, poses.Ts_w_c, str(path))
    if not source_name:
        if not recording.truths:
            raise DatasetError(
                f"{recording.name}: holds no ground truth to audit; name a source with --from: "
                "vicon0, leica0 or trajectory:FILE."
            )
        source_name = next(iter(recording.truths))
    if source_name in recording.truths:
        return capture_of(source_name, recording.truths[source_name])
    folder = mav0_of(recording.path) / source_name
    if not (folder / "data.csv").is_file():
        known = ", ".join([*recording.truths, *raw_sources(recording.path)]) or "none"
        raise OptionError(
            f"{recording.name} has no such source as '{source_name}'; it has: {known}. "
            "A TUM trajectory of the body is trajectory:FILE."
        )
    T_b_m = _marker_pose(folder)
    if source_name != RAW_POSITIONS:
        raw = read_truth_csv(folder / "data.csv")
        capture = _of_poses(source_name, raw.stamps_ns, raw.Ts_w_b, raw.source)
        return replace(capture, T_b_m=T_b_m)
    table = read_table(folder / "data.csv", "positions of a laser tracker", _POSITIONS, {})
    p_w_m = table.vector("p")
    return Capture(RAW_POSITIONS, table.stamps_ns, p_w_m, None, table.source, T_b_m)


def _of_poses(name: str, stamps_ns: Stamps, Ts_w_m: Array, source: str) -> Capture:
    return Capture(name, stamps_ns, Ts_w_m[:, :3, 3], Ts_w_m[:, :3, :3], source)


def raw_sources(path: Path) -> list[str]:
    """Raw captures that a recording's folder holds."""
    mav0 = mav0_of(path)
    return [name for name in (RAW_POSES, RAW_POSITIONS) if (mav0 / name / "data.csv").is_file()]


def capture_of(name: str, truth: GroundTruth) -> Capture:
    """A recording's own ground truth as something to be audited."""
    finite = np.isfinite(truth.Ts_w_b).all((1, 2))
    poses = _of_poses(name, truth.stamps_ns[finite], truth.Ts_w_b[finite], truth.source)
    return replace(poses, one_clock=name == MOCAP, claims=truth)


def _marker_pose(folder: Path) -> Array:
    """T_BS of the tracker's sensor.yaml, else the identity."""
    path = folder / "sensor.yaml"
    if not path.is_file():
        return np.eye(4)
    marker = validate(_Marker, load_yaml(path, "the pose of the marker"), path)
    return rigid_transform(marker.T_BS, path, "T_BS")
