"""Frozen answers: what the commands answer on fixed recordings, stored and compared with a later
tree.

Command lines whose answers are frozen: `DATA` is the folder of recordings, `OUT` a new folder,
`SIMULATED` the folder of simulated recordings.

Frozen answers: what the commands answer on fixed recordings, stored and compared with a later
tree.
"""

import hashlib
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import maci2
from maci2 import __version__
from maci2.errors import DatasetError, OptionError
from maci2.files import read_json, user_cache, write_atomically
from maci2_lab.experiments.store import Store
from maci2_lab.experiments.table import Record
from maci2_lab.parallel import Pool, WorkerDied, run_all

EUROC = (
    "MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_04_difficult", "MH_05_difficult",
    "V1_01_easy", "V1_02_medium", "V2_01_easy", "V2_03_difficult",
)  # fmt: skip
ROOMS = tuple(f"dataset-room{i}_512_16" for i in range(1, 6))
CLIP = "DATA/euroc/MH_01_clip"

TRUTH = "--vision truth:0.05,0.003"
DROID = "--vision trajectory:visual/droid_stereo_Twc_tum.txt"
IMAGES = "--vision images"

MOTIONS = ("handheld", "drone", "car", "driving", "static", "straight", "planar_yaw")
SEEDS = 20
SIMULATED = {
    f"{seed}_{MOTIONS[seed % 7]}": (
        f"--motion {MOTIONS[seed % 7]} --duration 12 --seed {seed} "
        f"--lens {'fisheye' if seed % 2 else 'pinhole'}"
    )
    for seed in range(SEEDS)
} | {"rendered": "--images --duration 5 --seed 3"}
"""Options of `maci2 simulate` for each simulated recording."""

STARTS_S = (5, 15, 27.5, 40, 55, 70)
"""Starts of the windows of a recording [s]."""


def _init_lines() -> list[str]:
    recorded = [(f"DATA/euroc/{name}", "euroc") for name in EUROC]
    recorded += [(f"DATA/tumvi/{name}", "tumvi") for name in ROOMS]
    # Neighbours are different recordings: two workers then share no audit of a ground truth.
    lines = [
        f"{path} {TRUTH} --imu {imu} --start {start}"
        for start, imu_of, (path, learned) in product(STARTS_S, ("raw", "learned"), recorded)
        for imu in [learned if imu_of == "learned" else "raw"]
    ]
    lines += [f"DATA/euroc/{name} {DROID} --start {s}" for s in (10, 35, 60) for name in EUROC]
    v1, mh = "DATA/euroc/V1_02_medium", "DATA/euroc/MH_03_medium"
    for path, start in product((v1, mh, f"DATA/tumvi/{ROOMS[1]}"), (10, 30)):
        lines += [
            f"{path} {TRUTH} --start {start} {options}"
            for options in (
                "--time-offset", "--paper", "--trust-rig", "--keyframes 20 --window 5",
                "--imu datasheet", "--acc-bias-prior 0,0.1,0.05 --acc-bias-std 0.05",
            )
        ]  # fmt: skip
        lines.append(f"{path} --vision tracks:0.5 --start {start}")
    for path in (v1, mh):
        lines += [
            f"{path} {DROID} --start 20 --time-offset",
            f"{path} {DROID} --start 20 --imu euroc",
            f"{path} {DROID} --start 20 --vision-std 0.05,0.003,0.015 --vision-scale-std 0.01",
            f"{path} {TRUTH} --start 20 --imu euroc --paper",
            f"{path} {TRUTH} --start 20 --truth audited",
        ]
    lines += [
        f"DATA/euroc/V1_01_easy {TRUTH} --start 10 --truth audited:vicon0",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --start 4",
        f"{CLIP} {IMAGES} --start 2 --time-offset",
        f"{CLIP} --vision images:fixed --start 2",
        f"DATA/euroc/MH_01_static_clip {IMAGES} --window 1.4 --keyframes 5",
        f"SIMULATED/rendered {IMAGES}",
    ]
    lines += [f"SIMULATED/{name} {TRUTH}" for name in SIMULATED if name != "rendered"]
    lines += [f"SIMULATED/{name} {TRUTH} --time-offset" for name in list(SIMULATED)[:7]]
    return lines


def _calibrate_lines() -> list[str]:
    places = ("V1_01_easy --start 20", "V2_01_easy --start 20", "MH_03_medium --start 40")
    return [
        *(f"DATA/euroc/{place} {vision}" for place in places for vision in (TRUTH, DROID)),
        f"DATA/euroc/V1_02_medium {TRUTH} --start 20 --imu euroc --no-time-offset",
        f"DATA/tumvi/{ROOMS[0]} {TRUTH} --start 20",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --all-cameras",
        *(f"SIMULATED/{name} {TRUTH}" for name in list(SIMULATED)[:5]),
    ]


def _track_lines() -> list[str]:
    return [
        f"DATA/euroc/V1_01_easy {TRUTH} --start 110",
        f"DATA/euroc/V2_01_easy {DROID} --start 85",
        f"DATA/euroc/V1_02_medium {DROID} --start 55 --imu euroc",
        f"DATA/euroc/V1_02_medium {DROID} --start 55 --batch",
        f"DATA/tumvi/{ROOMS[2]} {TRUTH} --start 105",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --batch",
        f"{CLIP} {IMAGES} --lag 2 --no-adapt-noise",
        f"SIMULATED/rendered {IMAGES}",
        *(f"SIMULATED/{name} {TRUTH}" for name in list(SIMULATED)[:7]),
    ]


LINES: dict[str, list[str]] = {
    "init": _init_lines(),
    "calibrate": _calibrate_lines(),
    "track": _track_lines(),
    "truth": [
        "DATA/euroc/V1_01_easy -o OUT --from vicon0",
        "DATA/euroc/MH_03_medium -o OUT",
        f"DATA/tumvi/{ROOMS[3]} -o OUT",
        "SIMULATED/0_handheld -o OUT",
    ],
    "noise": [
        "DATA/euroc/V1_01_easy",
        f"DATA/tumvi/{ROOMS[2]}",
        f"DATA/euroc/V2_01_easy {DROID} --start 20",
    ],
    "check": [
        "DATA/euroc/V2_03_difficult",
        f"DATA/tumvi/{ROOMS[0]}",
        f"{CLIP} {IMAGES}",
        "DATA/euroc/MH_01_static_clip",
        "SIMULATED/1_drone",
    ],
    "evaluate": [
        f"DATA/euroc/V1_02_medium {TRUTH} --stride 8 --start 3",
        f"DATA/euroc/MH_03_medium {DROID} --stride 8 --start 3",
        f"DATA/tumvi/{ROOMS[1]} {TRUTH} --stride 8 --start 3 --imu tumvi",
    ],
    "bench": [""],
}
"""Arguments of each command that is frozen."""

PARTS = tuple(LINES)
BENCH = "bench"
"""The part whose numbers are times: listed, and never a difference."""


def cases(parts: tuple[str, ...]) -> list[str]:
    """Command lines of these parts, in a fixed order."""
    return [f"{part} {line}".strip() for part in parts for line in LINES[part]]


FROZEN_0_11 = Path(__file__).with_name("frozen_0_11.json")
"""Answers of version 0.11."""

TOLERANCE = 1e-9
"""Largest difference of two equal numbers, relative to the larger of 1 and the number."""

DIGITS = 12
"""Significant digits of the numbers stored."""

LONGEST_LIST = 6
"""Numbers in a longer list are stored as its last entry and the sum of all."""

TIMES = ("solve_ms", "processor_ms", "frames_per_second")
"""Keys of times, which differ from run to run."""

LEFT_OUT = ("version",)
"""Keys that name the tree, not its answer."""

ABSENT = "absent"
"""Stands for the number of a key that one side does not have."""

ENVIRONMENT = {
    "MACI2_KERNELS": "compiled",
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
}
"""Environment of the commands: their numbers must not depend on the machine's load or cores."""

Answers = dict[str, Record]
"""Answers by command line."""

Progress = Callable[[str, int, int], None]
"""Progress callback: command, answers done, answers in total."""

Call = Callable[[list[str]], int]
"""Runs a command line in this process without its output; returns the exit code."""


def freeze(
    data: Path,
    parts: Sequence[str],
    pool: Pool,
    call: Call,
    on_progress: Progress = lambda *_: None,
) -> Answers:
    """Answers of all commands of these parts; an interrupted run of the same tree is resumed."""
    folder = _unfinished(data)
    store = Store(folder)
    lines = cases(require_parts(parts))
    answers = {line: stored for line in lines if (stored := _load(store, line)) is not None}
    on_progress("freeze", len(answers), len(lines))
    # Benchmarks run when nothing else does.
    for own_pool, is_bench in ((pool, False), (Pool(1), True)):
        todo = [line for line in lines if line not in answers and (line == BENCH) is is_bench]
        with patch.dict(os.environ, ENVIRONMENT, XDG_CACHE_HOME=str(folder / "cache")):
            for line, answer in run_all(partial(answer_of, data=data, call=call), todo, own_pool):
                if isinstance(answer, WorkerDied):
                    raise DatasetError(f"maci2 {line}: {answer.reason}; run it alone.")
                store.save(_key(line), {"line": line}, {"answer": answer})
                answers[line] = answer
                on_progress(line.split()[0], len(answers), len(lines))
    shutil.rmtree(folder, ignore_errors=True)
    return {line: answers[line] for line in lines}


def require_parts(parts: Sequence[str]) -> tuple[str, ...]:
    """These parts in their fixed order; raises for an unknown name."""
    for part in parts:
        if part not in PARTS:
            raise OptionError(f"--part is '{part}'; choose among {', '.join(PARTS)}.")
    return tuple(part for part in PARTS if part in parts)


def answer_of(line: str, data: Path, call: Call) -> Record:
    """Answer of one command line, as `--json` writes it, or its error."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        places = {"DATA": str(data), "OUT": str(folder / "out"), "SIMULATED": temporary}
        words = [_placed(word, places) for word in line.split()]
        for name in SIMULATED:
            if f"SIMULATED/{name}" in line.split():
                call(["simulate", f"{temporary}/{name}", *SIMULATED[name].split()])
        record = _json_of(words, folder / "answer.json", call)
    return _without_paths(record, places)


def _json_of(words: list[str], output: Path, call: Call) -> Record:
    """JSON record that a command writes, with its exit code where that is not 0."""
    try:
        code = call([*words, "--json", str(output)])
    except Exception as error:  # an error is an answer, too, whatever broke
        return {"error": f"{type(error).__name__}: {error}"}
    record: Record = read_json(output, f"the answer of maci2 {words[0]}")
    return record | ({"exit_code": code} if code else {})


def _placed(word: str, places: dict[str, str]) -> str:
    first, slash, rest = word.partition("/")
    return places.get(first, first) + slash + rest


def _without_paths(value: Any, places: dict[str, str]) -> Any:
    """The record with folders replaced by the words that stand for them in command lines."""
    if isinstance(value, dict):
        return {key: _without_paths(one, places) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_paths(one, places) for one in value]
    if isinstance(value, str):
        for name, place in places.items():
            value = value.replace(place, name)
    return value


def _unfinished(data: Path) -> Path:
    """Folder of the answers of an unfinished run; another tree or other data have another one."""
    packages = sorted({Path(maci2.__file__).parent, Path(__file__).parents[1]})
    digest = hashlib.sha256(f"{packages[0]} {data.resolve()}".encode())
    for path in (path for package in packages for path in sorted(package.rglob("*"))):
        if path.suffix in (".py", ".onnx", ".json") and path != FROZEN_0_11:
            digest.update(str(path).encode() + path.read_bytes())
    base = user_cache("freeze") or Path(tempfile.gettempdir())
    return base / digest.hexdigest()[:16]


def _key(line: str) -> str:
    return hashlib.sha256(line.encode()).hexdigest()[:16]


def _load(store: Store, line: str) -> Record | None:
    stored = store.load(_key(line), {"line": line})
    return None if stored is None else stored["answer"]


def write_frozen(path: Path, answers: Answers) -> None:
    """Write answers, one line for each command."""
    lines = ",\n".join(
        f"{json.dumps(line)}: {json.dumps(compact(answer), allow_nan=False, separators=(',', ':'))}"
        for line, answer in answers.items()
    )
    head = f'"version": {json.dumps(__version__)}'
    write_atomically(path, f'{{{head},\n"answers": {{\n{lines}\n}}}}\n')


def read_frozen(path: Path) -> Answers:
    """Answers as `write_frozen` wrote them."""
    record = read_json(path, "answers frozen by `maci2 freeze -o`")
    answers = record.get("answers") if isinstance(record, dict) else None
    if not isinstance(answers, dict) or not all(isinstance(one, dict) for one in answers.values()):
        raise DatasetError(f"{path}: holds no frozen answers; `maci2 freeze -o` writes them.")
    return answers


def compact(value: Any) -> Any:
    """A record with numbers of `DIGITS` digits and long lists of numbers as their summary."""
    if isinstance(value, dict):
        return {key: compact(one) for key, one in value.items() if key not in LEFT_OUT}
    if isinstance(value, list):
        named = {one["what"]: one for one in value if isinstance(one, dict) and "what" in one}
        if value and len(named) == len(value):
            return compact(named)
        if len(value) > LONGEST_LIST and (total := _sum(value)) is not None:
            summary = {"length": len(value), "last": value[-1], "sum": total}
            return compact(summary)
        return [compact(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def _sum(entries: list[Any]) -> Any:
    """Sum of numbers or, entry by entry, of lists of numbers; None where they are none."""
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in entries):
        return sum(entries)
    if all(isinstance(one, list) for one in entries) and len({len(one) for one in entries}) == 1:
        sums = [_sum(list(column)) for column in zip(*entries, strict=True)]
        return None if None in sums else sums
    return None


@dataclass
class PartComparison:
    """Comparison of one part's answers."""

    answers: int = 0
    """Command lines compared."""

    numbers: int = 0
    """Keys compared, times not counted."""

    differing: int = 0
    """Answers with a difference."""

    solves: list[int] = field(default_factory=lambda: [0, 0])
    """Solves of all answers, old and new, where both sides have their number."""

    times: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    """Times by key, old and new."""


@dataclass
class Comparison:
    """Answers of this tree compared with frozen ones."""

    parts: dict[str, PartComparison]
    """Comparison of each part."""

    differences: list[tuple[str, Any, Any]]
    """Command line and key, old and new."""

    times: list[tuple[str, Any, Any]]
    """Times of benchmarks, which are no difference."""

    def lines(self) -> Iterator[str]:
        """One line for each difference, then the times, then a summary of each part."""
        for key, old, new in (*self.differences, *self.times):
            yield f"{key}: {_text(old)} -> {_text(new)}"
        for name, part in self.parts.items():
            for key, pairs in part.times.items():
                old, new = (median(side) for side in zip(*pairs, strict=True))
                yield f"{name}: median {key} {old:.4g} -> {new:.4g} (times never differ)"
            solves = "; solves {} -> {}".format(*part.solves) if any(part.solves) else ""
            yield (
                f"{name}: {part.differing} of {part.answers} answers differ, {part.numbers} keys "
                f"compared{solves}"
            )


def _text(value: Any) -> str:
    return value if value is ABSENT else json.dumps(value)


def compare(old: Answers, new: Answers, parts: Sequence[str]) -> Comparison:
    """Compare answers of these parts, key by key."""
    result = Comparison({part: PartComparison() for part in require_parts(parts)}, [], [])
    for line in dict.fromkeys((*old, *new)):
        name = line.partition(" ")[0]
        if name in result.parts:
            _compare_answer(line, old.get(line), new.get(line), result)
    return result


def _compare_answer(line: str, old: Record | None, new: Record | None, result: Comparison) -> None:
    part = result.parts[line.partition(" ")[0]]
    part.answers += 1
    if old is None or new is None:
        part.differing += 1
        old_text, new_text = (ABSENT if one is None else "present" for one in (old, new))
        result.differences.append((line, old_text, new_text))
        return
    if "solves" in old and "solves" in new:
        part.solves = [part.solves[0] + old["solves"], part.solves[1] + new["solves"]]
    leaves = dict(_leaves(compact(old))), dict(_leaves(compact(new)))
    before = len(result.differences)
    for path in dict.fromkeys((*leaves[0], *leaves[1])):
        pair = leaves[0].get(path, ABSENT), leaves[1].get(path, ABSENT)
        name = "".join(path).lstrip(".")
        if line == BENCH:
            result.times += [] if are_equal(*pair) else [(f"{line}: {name}", *pair)]
        elif any(key.lstrip(".") in TIMES for key in path):
            if all(isinstance(one, int | float) for one in pair):
                part.times.setdefault(path[-1].lstrip("."), []).append(pair)
        else:
            part.numbers += 1
            if not are_equal(*pair):
                result.differences.append((f"{line}: {name}", *pair))
    part.differing += len(result.differences) > before


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each value of a record with the keys that lead to it, as `.key` or `[index]`."""
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, (*path, f".{key}"))
    elif isinstance(value, list) and value:
        for index, one in enumerate(value):
            yield from _leaves(one, (*path, f"[{index}]"))
    else:
        yield path, value


def are_equal(old: Any, new: Any) -> bool:
    """True if two values are equal: integers exactly, other numbers to `TOLERANCE`."""
    kinds = {type(old), type(new)}
    if kinds <= {int, float} and float in kinds:
        if math.isnan(old) or math.isnan(new):
            return math.isnan(old) and math.isnan(new)
        if math.isinf(old) or math.isinf(new):
            return bool(old == new)
        return abs(old - new) <= TOLERANCE * max(1.0, abs(old), abs(new))
    return len(kinds) == 1 and bool(old == new)
