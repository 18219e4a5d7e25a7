"""Frozen answers: what the commands answer on fixed recordings, stored and compared with a later
tree."""

import hashlib
import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from maci2 import __version__
from maci2.errors import DatasetError, OptionError
from maci2.evaluation.parallel import Pool, WorkerDied, run_all
from maci2.experiments.freeze_cases import BENCH, PARTS, SIMULATED, cases
from maci2.experiments.store import Store
from maci2.experiments.table import Record
from maci2.files import read_json, user_cache, write_atomically

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
        with _environment(ENVIRONMENT | {"XDG_CACHE_HOME": str(folder / "cache")}):
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
        run = partial(_json_of, words, folder / "answer.json", call)
        record = with_solves(run) if words[0] == "init" else run()
    return _without_paths(record, places)


def with_solves(run: Callable[[], Record]) -> Record:
    """The answer of `init` with the number of its solves; where the answer has no such key, calls
    of the optimizer are counted, without those of audits, which are made once and then kept."""
    from maci2.estimator.solver import minimize
    from maci2.ground_truth.audit_cache import cached_audit
    from maci2.pipeline.rehearsals import warm_up

    warm_up("initialize")
    calls = [0]

    def counted(solver: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[0] += 1
            return solver(*arguments, **named)

        return call

    def uncounted(*arguments: Any, **named: Any) -> Any:
        before = calls[0]
        try:
            return cached_audit(*arguments, **named)
        finally:
            calls[0] = before

    counters = [(minimize, counted(minimize))]
    counters.append((cached_audit, uncounted))
    _replace_everywhere(counters)
    try:
        record = run()
    finally:
        _replace_everywhere([(counter, solver) for solver, counter in counters])
    return {"solves": calls[0]} | record


def _replace_everywhere(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Replace functions in every module that has imported them."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != __name__.partition(".")[0]:
            continue
        for old, new in pairs:
            for key in [key for key, value in vars(module).items() if value is old]:
                setattr(module, key, new)


def _json_of(words: list[str], output: Path, call: Call) -> Record:
    """What a command writes with `--json`, with its exit code where that is not 0."""
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


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _unfinished(data: Path) -> Path:
    """Folder of the answers of an unfinished run; another tree or other data have another one."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{package} {data.resolve()}".encode())
    for path in sorted(package.rglob("*")):
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
    """Whether two values are equal: integers exactly, other numbers to `TOLERANCE`."""
    kinds = {type(old), type(new)}
    if kinds <= {int, float} and float in kinds:
        if math.isnan(old) or math.isnan(new):
            return math.isnan(old) and math.isnan(new)
        if math.isinf(old) or math.isinf(new):
            return bool(old == new)
        return abs(old - new) <= TOLERANCE * max(1.0, abs(old), abs(new))
    return len(kinds) == 1 and bool(old == new)
