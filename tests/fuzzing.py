"""Damaged copies of small files, and what a reader may do with them: answer, or raise Maci2Error.

    assert fuzz(lambda: read_trajectory(file), file, count=50) == []

A traceback of any other kind, more than five seconds of work and more than a gigabyte are failures.
"""

import contextlib
import re
import resource
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maci2.errors import Maci2Error

TIME_LIMIT_S = 5.0
"""Of processor time: a loaded machine changes nothing."""

BLOCKED_S = 120.0
"""After this long without an end, whatever it waits for will not come."""

MEMORY_LIMIT = 1 << 30
"""Bytes of address space that reading one damaged file may take on top."""

Random = np.random.Generator
Mutator = Callable[[bytes, Random], bytes]

HUGE_NUMBERS = (
    b"1e308", b"-1e308", b"1e999999", b"9" * 30, b"9" * 400, b"-1", b"0", b"nan", b"inf", b"1e-320",
    b"0x7f", b"9223372036854775808", b"18446744073709551616", b"1_000", b"", b"1.5.2",
    b"5000000000",
)  # fmt: skip
INSERTED_TEXT = (
    b'"', b"'", b'""', b",", b",,,", b"\t", b"\r", b"\n\n", b"\0", b"\xff\xfe", b"\xe9",
    b"\xef\xbb\xbf", b"#", b": ", b"- ", b"{", b"}", b"[" * 600, b"&a [*a, *a]", b"*a",
    b"!!python/object:os.system ",
    b"%YAML:1.0\n", b"---\n", b"...\n", "\u2028".encode(), "\u0661".encode(), b"\x1c", b"<<: *a\n",
)  # fmt: skip
OUT_OF_MEMORY = re.compile("bad.?alloc|insufficient memory|cannot allocate", re.IGNORECASE)
"""How libraries in C++ say that an allocation failed."""

NUMBER = re.compile(rb"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def flip_bits(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for position in rng.integers(0, len(content), rng.integers(1, 9)):
        changed[position] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwrite(content: bytes, rng: Random) -> bytes:
    """A few bytes replaced by zeros, ones or anything."""
    start = int(rng.integers(len(content)))
    length = int(rng.integers(1, 9))
    new = [b"\0" * length, b"\xff" * length, rng.bytes(length)][rng.integers(3)]
    return content[:start] + new + content[start + length :]


def truncate(content: bytes, rng: Random) -> bytes:
    return content[: int(rng.integers(len(content)))]


def duplicate(content: bytes, rng: Random) -> bytes:
    """A stretch repeated in place or elsewhere."""
    start, end = sorted(int(k) for k in rng.integers(0, len(content) + 1, 2))
    place = int(rng.integers(len(content) + 1))
    return content[:place] + content[start:end] + content[place:]


def delete(content: bytes, rng: Random) -> bytes:
    start, end = sorted(int(k) for k in rng.integers(0, len(content) + 1, 2))
    return content[:start] + content[min(end, start + 200) :]


def replace_number(content: bytes, rng: Random) -> bytes:
    numbers = list(NUMBER.finditer(content))
    if not numbers:
        return flip_bits(content, rng)
    number = numbers[rng.integers(len(numbers))]
    new = HUGE_NUMBERS[rng.integers(len(HUGE_NUMBERS))]
    return content[: number.start()] + new + content[number.end() :]


def insert_text(content: bytes, rng: Random) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + INSERTED_TEXT[rng.integers(len(INSERTED_TEXT))] + content[place:]


def change_line(content: bytes, rng: Random) -> bytes:
    """A line removed, repeated or moved."""
    lines = content.split(b"\n")
    index, other = (int(k) for k in rng.integers(0, len(lines), 2))
    line = lines.pop(index)
    for _ in range(int(rng.integers(3))):
        lines.insert(other, line)
    return b"\n".join(lines)


def change_column(content: bytes, rng: Random) -> bytes:
    """A column of a table removed, repeated or emptied, in one line or in all."""
    lines = content.split(b"\n")
    comma = b"," if b"," in lines[0] else b" "
    column = int(rng.integers(max(lines[0].count(comma) + 1, 1)))
    which = range(len(lines)) if rng.random() < 0.5 else [int(rng.integers(len(lines)))]
    how = int(rng.integers(3))
    for index in which:
        fields = lines[index].split(comma)
        if column < len(fields):
            fields[column : column + 1] = [[], 2 * [fields[column]], [b""]][how]
            lines[index] = comma.join(fields)
    return b"\n".join(lines)


def recode(content: bytes, rng: Random) -> bytes:
    """The same text in another encoding or with other line ends."""
    text = content.decode("latin-1")
    forms = (
        lambda: text.encode("utf-16"),
        lambda: text.encode("utf-16-be"),
        lambda: text.encode("utf-32"),
        lambda: b"\xef\xbb\xbf" + content,
        lambda: content.replace(b"\n", b"\r\n"),
        lambda: content.replace(b"\n", b"\r"),
        lambda: content.replace(b"\n", b""),
        lambda: content.replace(b" ", b"\t"),
        lambda: b"",
    )
    return forms[rng.integers(len(forms))]()


BINARY: tuple[Mutator, ...] = (flip_bits, overwrite, truncate, duplicate, delete)
TEXT: tuple[Mutator, ...] = (
    flip_bits, overwrite, truncate, duplicate, delete,
    replace_number, replace_number, insert_text, insert_text, change_line, change_column, recode,
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """A damaged file that a reader did not cope with."""

    case: int
    mutator: str
    what: str
    content: bytes

    def __str__(self) -> str:
        return f"case {self.case} ({self.mutator}): {self.what}"


def damaged(
    content: bytes, mutators: tuple[Mutator, ...], seed: int, case: int
) -> tuple[str, bytes]:
    """The name of the last mutator and what became of the content; one in four is damaged twice."""
    rng = np.random.default_rng((seed, case))
    mutator = mutators[case % len(mutators)]
    content = mutator(content, rng)
    if rng.random() < 0.25 and content:
        mutator = mutators[rng.integers(len(mutators))]
        content = mutator(content, rng)
    return mutator.__name__, content


def fuzz(
    read: Callable[[], object],
    file: Path,
    count: int,
    seed: int = 0,
    mutators: tuple[Mutator, ...] = TEXT,
) -> list[Failure]:
    """Damage `file` in `count` ways and `read` it each time; the file is whole again afterwards."""
    original = file.read_bytes()
    failures = []
    try:
        for case in range(count):
            name, content = damaged(original, mutators, seed, case)
            file.write_bytes(content)
            what = problem_of(read)
            if what:
                failures.append(Failure(case, name, what, content))
    finally:
        file.write_bytes(original)
    return failures


def problem_of(read: Callable[[], object]) -> str:
    """What is wrong with how `read` ends; empty for an answer or a Maci2Error."""
    began = time.process_time()
    try:
        with limited():
            read()
    except Maci2Error as error:
        if not str(error).strip():
            return "an error without words"
        if hides_lack_of_memory(error):
            return f"asked for more than {MEMORY_LIMIT >> 20} MB and called it {error}"[:300]
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    seconds = time.process_time() - began
    return f"took {seconds:.1f} s" if seconds > TIME_LIMIT_S else ""


def hides_lack_of_memory(error: BaseException | None) -> bool:
    """Whether an error was raised because an allocation beyond the limit failed."""
    while error is not None:
        if isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Five seconds and a gigabyte; beyond, TimeoutError and MemoryError."""

    def stop(signal_number: int, frame: object) -> None:
        raise TimeoutError(f"did not end within {TIME_LIMIT_S:g} s of work")

    statm = Path("/proc/self/statm")
    before = resource.getrlimit(resource.RLIMIT_AS)
    previous = {number: signal.signal(number, stop) for number in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT_S)
    signal.setitimer(signal.ITIMER_REAL, BLOCKED_S)
    try:
        if statm.is_file():
            taken = int(statm.read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY_LIMIT, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in previous.items():
            signal.signal(number, handler)
