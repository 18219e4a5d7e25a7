"""Text tables of recordings: CSV with timestamps in nanoseconds, IMU samples of any tool, and
trajectories in TUM format.

Timestamps go from text to int64 without passing through float, and no other number than plain
decimals is accepted. A path is a path: what it holds of pattern characters or of `~` means nothing.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import numpy as np

from maci2.errors import DatasetError, OptionError
from maci2.files import read_lines
from maci2.geometry.se3 import rotations_from_quat_wxyz, stack_poses
from maci2.sensors.types import CameraTrajectory, ImuSamples
from maci2.sensors.validation import require_count, require_finite, require_increasing
from maci2.types import NS, STANDARD_GRAVITY, Array, Stamps

Headings = dict[str, tuple[str, ...]]
"""Headings that a column is known by, lower case, without unit."""

STAMP_HEADINGS = ("timestamp", "time", "t", "stamp")

MAX_ABSOLUTE = 1e9
"""Largest number in a table: no rate, force, speed or distance is larger in SI units or in the
units they are confused with."""

MAX_QUAT_NORM_ERROR = 0.01
"""Accepted error of a quaternion's norm, far above rounding to three decimals."""

MIN_IMU_SAMPLES = 10

UNITS_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
"""Nanoseconds of each unit."""


@dataclass(frozen=True)
class Table:
    """Rows of a CSV file, checked: timestamps increase, required columns are finite."""

    stamps_ns: Stamps
    columns: dict[str, Array]
    """All required columns, and the optional ones in the file."""

    lines: Stamps
    """Line number of each row."""

    source: str

    texts: dict[str, list[str]] = field(default_factory=dict)
    """Text columns in the file; an empty field is an empty string."""

    def vector(self, name: str, axes: str = "xyz") -> Array:
        """(n, k) array of the columns of a vector; NaN for an optional column that the file
        lacks."""
        missing = np.full(len(self.stamps_ns), np.nan)
        return np.stack([self.columns.get(f"{name}{axis}", missing) for axis in axes], axis=1)


def read_table(
    path: Path,
    what: str,
    required: Headings,
    optional: Headings,
    texts: Headings | None = None,
    least: int = 2,
) -> Table:
    """Read timestamps and columns of `path`; `what` describes the file in messages.

    A file without a heading line has its columns in the order required, optional, texts.
    """
    headings: Headings = required | optional | (texts or {})
    rows = read_lines(path, what)
    header, first_line = _header(rows, headings)
    lines = np.array(
        [n for n, row in enumerate(rows, 1) if n >= first_line and row.strip(", \t")], np.int64
    )
    require_count(len(lines), least, str(path))
    where = _locate(header, headings, required, path)
    rows = [rows[line - 1] for line in lines]
    numeric = {name: index for name, index in where.items() if name not in (texts or {})}
    stamps_ns, *values = _columns(rows, lines, header, [0, *numeric.values()], path)
    columns = dict(zip(numeric, values, strict=True))
    require_increasing(stamps_ns, str(path), lines)
    if required:
        needed = np.stack([columns[name] for name in required], axis=1)
        require_finite(needed, [header[where[name]] for name in required], str(path), lines)
    for name, column in columns.items():
        bad = np.abs(column) > MAX_ABSOLUTE
        if bad.any():
            row = int(np.argmax(bad))
            raise DatasetError(
                f"{path}, line {lines[row]}: {name} is {column[row]:g}, needed at most "
                f"{MAX_ABSOLUTE:g} in size. Remove this line or repair the recording."
            )
    named = [name for name in texts or {} if name in where]
    fields = _fields(rows, lines, header, path) if named else []
    words = {name: [row[where[name]] for row in fields] for name in named}
    return Table(stamps_ns, columns, lines, str(path), words)


def require_unit_quaternions(norms: Array, place: Callable[[int], str], remedy: str) -> None:
    """Raise at the first quaternion that is not of unit length; `place` names it by its index."""
    bad = np.abs(norms - 1.0) > MAX_QUAT_NORM_ERROR
    if bad.any():
        row = int(np.argmax(bad))
        raise DatasetError(
            f"{place(row)}: quaternion norm is {norms[row]:.4f}, needed 1 within "
            f"{MAX_QUAT_NORM_ERROR} ({int(bad.sum())} of {len(norms)} poses). {remedy}"
        )


def _header(rows: Sequence[str], headings: Mapping[str, tuple[str, ...]]) -> tuple[list[str], int]:
    """Headings without unit, and the first line with numbers."""
    fields = rows[0].split(",") if rows else [""]
    if re.fullmatch(r'[\s"]*-?\d+[\s"]*', fields[0]):
        known = ["timestamp", *[names[0] for names in headings.values()]]
        unnamed = [f"column {number}" for number in range(len(known) + 1, len(fields) + 1)]
        return [*known, *unnamed][: len(fields)], 1
    return [re.sub(r'[#\s"]|\[.*?\]|\(.*?\)', "", field).lower() for field in fields], 2


def _locate(
    header: list[str], headings: Headings, required: Headings, path: Path
) -> dict[str, int]:
    """Our column names -> position in the file."""
    if header[0] not in STAMP_HEADINGS:
        raise DatasetError(
            f"{path}, line 1: the first column is '{header[0][:40]}', needed 'timestamp' in "
            "nanoseconds. Add it or move it to the front; separate columns by commas."
        )
    where = {}
    for name, names in headings.items():
        index = next((header.index(heading) for heading in names if heading in header), None)
        if index is not None:
            where[name] = index
        elif name in required:
            raise DatasetError(
                f"{path}, line 1: no column '{names[0]}'; found {', '.join(header)[:400]}; "
                f"needed timestamp, {', '.join(names[0] for names in required.values())}. "
                "Add the column or correct its heading."
            )
    return where


def _columns(
    rows: list[str], lines: Stamps, header: list[str], wanted: list[int], path: Path
) -> list[np.ndarray]:
    """Wanted columns as numbers: the first one, timestamps, as int64, the others as float64."""
    types = [(str(index), np.float64 if index else np.int64) for index in wanted]
    try:
        with warnings.catch_warnings():
            # Older versions of numpy read 1.5 as an integer, and warn.
            warnings.simplefilter("error")
            if all(row.count(",") == len(header) - 1 for row in rows):
                table = np.loadtxt(
                    rows, types, delimiter=",", comments=None, usecols=wanted, ndmin=1
                )
                return [np.ascontiguousarray(table[name]) for name, _ in types]
    except (ValueError, DeprecationWarning):
        pass  # quotes, or a field that is not a number: read one by one to name it
    fields = _fields(rows, lines, header, path)
    return [
        np.array([_number_in(row[index], index, line, header, path)
                  for row, line in zip(fields, lines, strict=True)])
        for index in wanted
    ]  # fmt: skip


def _fields(rows: list[str], lines: Stamps, header: list[str], path: Path) -> list[list[str]]:
    """Fields of each row, without blanks and quotes around them, as many as there are headings;
    only empty fields are added or removed."""
    width, fields = len(header), []
    for row, line in zip(rows, lines, strict=True):
        if row.count(",") != width - 1:
            row = row.rstrip(", \t")
        if row.count(",") >= width:
            raise DatasetError(
                f"{path}, line {line}: has {row.count(',') + 1} fields, needed {width}: "
                f"{', '.join(header)[:400]}. Correct this line, or add the heading of the column."
            )
        row += "," * (width - 1 - row.count(","))
        fields.append([re.sub(r'^"([^"]*)"$', r"\1", f.strip()).strip() for f in row.split(",")])
    return fields


def _number_in(text: str, index: int, line: int, header: list[str], path: Path) -> int | float:
    """Number in a field: ASCII digits without underscores, in 64 bits."""
    try:
        number = float(text) if index else int(text)
        if text.isascii() and "_" not in text and (index or -(2**63) <= number < 2**63):
            return number
    except ValueError:
        pass
    found = f"'{text[:40]}'" if text else "nothing"
    needed = "a number" if index else "an integer of nanoseconds"
    name = header[index] if index else "timestamp"
    raise DatasetError(
        f"{path}, line {line}: column {name} holds {found}, needed {needed}. "
        "Repair or remove this line."
    )


# Units of timestamps, inferred from the rate that each would give.


def unit_of(texts: Sequence[str], what: str, source: str, rate_hz: tuple[float, float]) -> str:
    """The only unit in which these times have a rate that is plausible for `what`."""
    times = np.array([float(text) for text in texts])
    steps = np.diff(np.unique(times))
    step = float(np.median(steps)) if len(steps) else 0.0
    low, high = rate_hz
    fits = [
        unit for unit, ns in UNITS_NS.items() if step > 0.0 and low <= 1e9 / (step * ns) <= high
    ]
    if len(fits) == 1:
        return fits[0]
    if any("." in text for text in texts[:10]):
        return "s"
    raise DatasetError(
        f"{source}: the unit of the timestamps cannot be told: {what} are {step:g} apart, needed "
        f"{low:g} to {high:g} a second in one of {', '.join(UNITS_NS)}. State the unit."
    )


def whole_ns(texts: Sequence[str], unit: str) -> Stamps:
    """Exact integer nanoseconds of numbers given as text."""
    factor = UNITS_NS[unit]
    plain = all(re.fullmatch(r"\d{1,18}", text) for text in texts)
    if plain and max(len(text) for text in texts) + len(str(factor)) <= 19:
        return np.array([int(text) * factor for text in texts], dtype=np.int64)
    values = [round(Decimal(text) * factor) for text in texts]
    if any(abs(value) >= 2**63 for value in values):
        raise DatasetError(
            f"a timestamp of {max(values)} ns has no place in 64 bits; check the unit."
        )
    return np.array(values, dtype=np.int64)


# IMU samples of any tool: CSV or columns separated by spaces, units in the headings. Columns are
# found by their headings, or named by an option: `t[us],gx[deg/s],gy,gz,ax[g],ay,az`, one word for
# each column of the file, `-` for one that is not needed.

SUFFIXES = (".csv", ".txt", ".tsv", ".dat")
ROLES = ("t", "gx", "gy", "gz", "ax", "ay", "az")
LOOKED_AT_BYTES = 4096
"""Number of bytes that show whether a file is a table."""

_RATES = {"rad/s": 1.0, "deg/s": np.pi / 180.0, "dps": np.pi / 180.0, "mrad/s": 1e-3}
_G = STANDARD_GRAVITY
_FORCES = {"m/s^2": 1.0, "m/s2": 1.0, "m/s/s": 1.0, "g": _G, "mg": 1e-3 * _G}
_SPELLINGS = {
    "°": "deg", "²": "^2", "sec": "s", "rads^-1": "rad/s", "ms^-2": "m/s^2",
}  # fmt: skip
_WORD = re.compile(r"^([a-z]+|-)(?:\[([^\]]+)\])?$")
_GYRO = r"(?:gyro(?:scope)?|gyr|g|w|omega|angular_?(?:velocity|rate)|rot(?:ation)?_?rate|w_rs_s)"
_ACC = r"(?:acc(?:el(?:erometer|eration)?)?|a|linear_?acceleration|user_?acceleration|a_rs_s)"
_TIME = re.compile(r"^(?:t|time|times|timestamps?|stamp|sec(?:ond)?s?|time_?stamp)$")


@dataclass(frozen=True)
class Column:
    """Column and unit of one quantity in a table."""

    index: int
    unit: str
    """Unit; empty if not stated."""


def is_imu_text(path: Path) -> bool:
    """True for a file that is named as a table and begins with rows of enough numbers."""
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:
        return False
    try:
        with path.open("rb") as file:
            rows = file.read(LOOKED_AT_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        # Its reader reports why it cannot be read.
        return True
    split = _splitter(rows)
    return any(_is_numbers(split(row)) for row in rows)


def read_imu_text(path: Path, columns: str = "") -> ImuSamples:
    """Read the IMU samples of a table; `columns` names columns without known headings."""
    rows = read_lines(path, "IMU samples")
    split = _splitter(rows)
    head = next((n for n, row in enumerate(rows) if _is_numbers(split(row))), len(rows))
    samples_at = [n for n in range(head, len(rows)) if rows[n].strip()]
    require_count(len(samples_at), MIN_IMU_SAMPLES, str(path))
    lines, texts = np.array(samples_at) + 1, [split(rows[n]) for n in samples_at]
    width = len(texts[0])
    header = split(rows[head - 1]) if head else []
    found = parse_columns(columns, width, path) if columns else _by_heading(header, width, path)
    short = next((row for row, fields in enumerate(texts) if len(fields) < width), None)
    if short is not None:
        raise DatasetError(
            f"{path}, line {lines[short]}: has {len(texts[short])} fields, needed {width}. Repair "
            "or remove this line."
        )
    stamps_ns = _stamps([fields[found["t"].index] for fields in texts], found["t"], lines, path)
    axes = [found[role].index for role in ROLES[1:]]
    values = np.array([[_number(fields[index]) for index in axes] for fields in texts])
    with np.errstate(over="ignore"):
        samples: Array = values * [_scale(role, found[role], path) for role in ROLES[1:]]
    require_finite(samples, list(ROLES[1:]), str(path), lines)
    require_increasing(stamps_ns, str(path), lines)
    return ImuSamples(stamps_ns, samples[:, :3].copy(), samples[:, 3:].copy(), str(path))


def parse_columns(text: str, width: int, path: Path) -> dict[str, Column]:
    """Column of each role from --columns; a unit also applies to the axes after it."""
    found: dict[str, Column] = {}
    units = {"t": "", "g": "", "a": ""}
    for index, word in enumerate(text.split(",")):
        match = _WORD.match(word.strip())
        role = match[1] if match else ""
        if match is None or role not in (*ROLES, "-"):
            raise OptionError(
                f"--columns has '{word.strip()[:40]}', needed one of {', '.join(ROLES)} or -, with "
                "a unit such as t[us], gx[deg/s], ax[g]."
            )
        if role == "-":
            continue
        units[role[0]] = match[2] or units[role[0]]
        if role in found or index >= width:
            problem = "twice" if role in found else f"in column {index + 1} of {width}"
            raise OptionError(f"--columns names {role} {problem}; {path} has {width} columns.")
        found[role] = Column(index, units[role[0]])
    missing = [role for role in ROLES if role not in found]
    if missing:
        raise OptionError(f"--columns lacks {', '.join(missing)}; name each of {', '.join(ROLES)}.")
    return found


def _by_heading(header: list[str], width: int, path: Path) -> dict[str, Column]:
    """Column of each role from headings such as `timestamp [ns]`, `gyro_x (deg/s)`, `ax`."""
    found: dict[str, Column] = {}
    names = [_plain(name) for name in header]
    patterns = {"t": _TIME} | {
        role: re.compile(rf"^(?:.*[._/])?{_GYRO if role[0] == 'g' else _ACC}[._]?{role[1]}$")
        for role in ROLES[1:]
    }
    for role, pattern in patterns.items():
        index = next((i for i, (name, _) in enumerate(names) if pattern.match(name)), None)
        if index is not None:
            found[role] = Column(index, names[index][1])
    missing = [role for role in ROLES if role not in found]
    if missing:
        shown = ", ".join(header)[:200] if header else f"no headings, {width} columns"
        raise DatasetError(
            f"{path}: headings do not tell {', '.join(missing)}; found {shown}. State them, one "
            "word for each column: --columns t[ns],gx[rad/s],gy,gz,ax[m/s^2],ay,az, - for a column "
            "that is not needed."
        )
    last = max(found.values(), key=lambda column: column.index)
    if last.index >= width:
        raise DatasetError(
            f"{path}: the headings name {len(header)} columns, its first row has {width}. Give "
            "every row a field for each heading."
        )
    return found


def _plain(heading: str) -> tuple[str, str]:
    """Heading in lower case without its unit, and the unit: in brackets, or `_ns` of a time."""
    text = heading.strip().strip('#%" ').lower()
    unit = re.search(r"[\[(]([^\])]+)[\])]", text)
    name = re.sub(r"[\[(].*?[\])]", "", text).strip().replace(" ", "_").strip("_")
    name = name.removeprefix("field.").removeprefix("imu_").removeprefix("imu.")
    stated = unit[1].replace(" ", "") if unit else ""
    end = re.fullmatch(r"(t|time|timestamp|stamp)_(ns|us|ms|s|nsecs?|secs?)", name)
    if end:
        return end[1], end[2].removesuffix("ecs").removesuffix("ec")
    return name, stated.strip()


def _stamps(texts: list[str], column: Column, lines: Stamps, path: Path) -> Stamps:
    unit = {"nanoseconds": "ns", "microseconds": "us", "milliseconds": "ms", "sec": "s",
            "seconds": "s"}.get(column.unit, column.unit)  # fmt: skip
    if unit and unit not in UNITS_NS:
        raise DatasetError(
            f"{path}: time is in '{unit[:20]}', needed one of {', '.join(UNITS_NS)}."
        )
    bad = next((k for k, text in enumerate(texts) if not np.isfinite(_number(text))), None)
    if bad is not None:
        raise DatasetError(
            f"{path}, line {lines[bad]}: the time is '{texts[bad][:40]}', needed a number. Repair "
            "or remove this line."
        )
    return whole_ns(texts, unit or unit_of(texts, "samples", str(path), rate_hz=(20.0, 20_000.0)))


def _scale(role: str, column: Column, path: Path) -> float:
    """Factor to SI units; numbers without a unit are taken as SI."""
    units, unit = _RATES if role[0] == "g" else _FORCES, column.unit
    for spelling, usual in _SPELLINGS.items():
        unit = unit.replace(spelling, usual)
    if unit and unit not in units:
        raise DatasetError(
            f"{path}: {role} is in '{unit[:20]}', needed one of {', '.join(units)}. State it with "
            "--columns."
        )
    return units.get(unit, 1.0)


def _splitter(rows: Sequence[str]) -> Callable[[str], list[str]]:
    """Separator of the fields, from the first rows."""
    sample = "\n".join(rows[:20])
    mark = next((mark for mark in (",", ";", "\t") if mark in sample), None)
    return lambda row: [field.strip().strip('"') for field in row.strip().split(mark)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def _is_numbers(fields: list[str]) -> bool:
    return len(fields) >= len(ROLES) and np.isfinite(_number(fields[0]))


# Trajectories in TUM format: t tx ty tz qx qy qz qw, one pose per line.

NANOSECONDS_ABOVE = Decimal(10) ** 14
"""Largest timestamp in seconds; larger ones are nanoseconds."""

DECIMAL = re.compile(r"[-+]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][-+]?\d{1,2})?", re.ASCII)
"""Decimal numbers short enough for fast exact arithmetic."""


def read_trajectory(path: Path) -> CameraTrajectory:
    """Read a TUM trajectory; timestamps are seconds or integer nanoseconds, parsed exactly."""
    stamps, poses, lines, dropped = [], [], [], 0
    rows = read_lines(path, "a trajectory, one line 't tx ty tz qx qy qz qw' for each pose")
    for line, text in enumerate(rows, start=1):
        fields = text.split()
        if not fields or fields[0].startswith("#"):
            continue
        pose = _pose(fields, path, line)
        if not np.isfinite(pose).all():
            dropped += 1
            continue
        stamps.append(_stamp_ns(fields[0], path, line))
        poses.append(pose)
        lines.append(line)
    require_count(len(stamps), 2, str(path))
    stamps_ns, values = np.array(stamps, dtype=np.int64), np.array(poses)
    norms = np.linalg.norm(values[:, 3:], axis=1)
    remedy = "Check the order qx qy qz qw."
    require_unit_quaternions(norms, lambda row: f"{path}, line {lines[row]}", remedy)
    require_increasing(stamps_ns, str(path), np.array(lines))
    # File order is x y z w.
    R_w_c = rotations_from_quat_wxyz(values[:, [6, 3, 4, 5]])
    return CameraTrajectory(stamps_ns, stack_poses(R_w_c, values[:, :3]), str(path), dropped)


def _stamp_ns(text: str, path: Path, line: int) -> int:
    """Nanoseconds from decimal text, without passing through float."""
    remedy = "Repair or remove this line."
    if DECIMAL.fullmatch(text):
        stamp = Decimal(text)
        stamp_ns = round(stamp if stamp > NANOSECONDS_ABOVE else stamp * NS)
        if 0 <= stamp_ns < 2**63:
            return stamp_ns
        if 0 < stamp <= NANOSECONDS_ABOVE:
            remedy = "It looks like milliseconds or microseconds: write seconds."
    raise DatasetError(
        f"{path}, line {line}: timestamp '{text[:40]}' is not a number of seconds or nanoseconds, "
        f"needed 0 or later. {remedy}"
    )


def _pose(fields: list[str], path: Path, line: int) -> Array:
    """tx ty tz qx qy qz qw of one line."""
    if len(fields) != 8:
        raise DatasetError(
            f"{path}, line {line}: found {len(fields)} fields, needed 8: t tx ty tz qx qy qz qw, "
            "separated by blanks. Repair or remove this line."
        )
    try:
        pose = np.array(fields[1:], dtype=np.float64)
    except ValueError as error:
        raise DatasetError(
            f"{path}, line {line}: {str(error)[:80]}; needed numbers. Repair or remove this line."
        ) from None
    largest = float(np.abs(pose).max())
    if np.isfinite(pose).all() and largest > MAX_ABSOLUTE:
        raise DatasetError(
            f"{path}, line {line}: holds {largest:g}, needed at most {MAX_ABSOLUTE:g} m. Repair or "
            "remove this line."
        )
    return pose
