"""IMU samples in a table of any tool: CSV or columns separated by spaces, units in the headings.

Columns are found by their headings, or stated: `t[us],gx[deg/s],gy,gz,ax[g],ay,az`, one word for
each column of the file, `-` for one that is not needed.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.datasets.csv_tables import require_short_enough
from maci2.datasets.time_units import UNITS_NS, unit_of, whole_ns
from maci2.errors import DatasetError, OptionError
from maci2.files import read_lines
from maci2.sensors.types import ImuSamples
from maci2.sensors.validation import require_count, require_finite, require_increasing
from maci2.types import STANDARD_GRAVITY, Array, Stamps

SUFFIXES = (".csv", ".txt", ".tsv", ".dat")
ROLES = ("t", "gx", "gy", "gz", "ax", "ay", "az")
MIN_SAMPLES = 10
LOOKED_AT_BYTES = 4096
"""Number of bytes that show whether a file is a table."""


_RATES = {"rad/s": 1.0, "deg/s": np.pi / 180.0, "dps": np.pi / 180.0, "mrad/s": 1e-3}
_G = STANDARD_GRAVITY
_FORCES = {"m/s^2": 1.0, "m/s2": 1.0, "m/s/s": 1.0, "g": _G, "mg": 1e-3 * _G}
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
    """Whether a file is named as a table and begins with rows of enough numbers."""
    if not path.is_file() or path.suffix.lower() not in SUFFIXES:
        return False
    try:
        with path.open("rb") as file:
            rows = file.read(LOOKED_AT_BYTES).decode("utf-8", errors="replace").splitlines()
    except OSError:
        # Whoever reads it says why it cannot be read.
        return True
    split = _splitter(rows)
    return any(_is_numbers(split(row)) for row in rows)


def read_imu_text(path: Path, columns: str = "") -> ImuSamples:
    """Read the IMU samples of a table; `columns` names columns without known headings."""
    rows = read_lines(path, "IMU samples")
    split = _splitter(rows)
    head = 0
    while head < len(rows) and not _is_numbers(split(rows[head])):
        head += 1
    lines = [number for number in range(head, len(rows)) if rows[number].strip()]
    require_count(len(lines), MIN_SAMPLES, str(path))
    width = len(split(rows[lines[0]]))
    header = split(rows[head - 1]) if head else []
    found = parse_columns(columns, width, path) if columns else _by_heading(header, width, path)
    texts = [split(rows[number]) for number in lines]
    for number, fields in zip(lines, texts, strict=True):
        if len(fields) < width:
            raise DatasetError(
                f"{path}, line {number + 1}: has {len(fields)} fields, needed {width}. Repair or "
                "remove this line."
            )
    numbers = np.array(lines, dtype=np.int64) + 1
    stamps_ns = _stamps([fields[found["t"].index] for fields in texts], found["t"], numbers, path)
    values = np.array(
        [[_number(fields[found[role].index]) for role in ROLES[1:]] for fields in texts]
    )
    with np.errstate(over="ignore"):
        samples: Array = values * [_scale(role, found[role], path) for role in ROLES[1:]]
    require_finite(samples, list(ROLES[1:]), str(path), numbers)
    require_increasing(stamps_ns, str(path), numbers)
    require_short_enough(stamps_ns, str(path))
    return ImuSamples(stamps_ns, samples[:, :3].copy(), samples[:, 3:].copy(), str(path))


def parse_columns(text: str, width: int, path: Path) -> dict[str, Column]:
    """Column of each role from --columns; a unit also applies to the axes after it."""
    found: dict[str, Column] = {}
    units = {"t": "", "g": "", "a": ""}
    for index, word in enumerate(text.split(",")):
        match = _WORD.match(word.strip())
        role = match[1] if match else ""
        if role != "-" and role not in ROLES:
            raise OptionError(
                f"--columns has '{word.strip()[:40]}', needed one of {', '.join(ROLES)} or -, with "
                "a unit such as t[us], gx[deg/s], ax[g]."
            )
        if role == "-":
            continue
        assert match is not None
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
    units = _RATES if role[0] == "g" else _FORCES
    unit = column.unit.replace("°", "deg").replace("²", "^2").replace("sec", "s") or next(
        iter(units)
    )
    unit = unit.replace("rads^-1", "rad/s").replace("ms^-2", "m/s^2")
    if unit not in units:
        raise DatasetError(
            f"{path}: {role} is in '{unit[:20]}', needed one of {', '.join(units)}. State it with "
            "--columns."
        )
    return units[unit]


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
