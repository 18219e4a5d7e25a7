"""The fuzzer finds what it is there to find."""

import numpy as np
import pytest

from fuzzing import BINARY, TEXT, damaged, fuzz, problem_of
from maci2.errors import DatasetError


def refuse():
    raise DatasetError("no.")


def refuse_for_lack_of_memory():
    try:
        np.ones(1 << 28)
    except MemoryError:
        raise DatasetError("the file is damaged.") from None


def loop():
    while True:
        pass


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda: 7, ""),
        (refuse, ""),
        (lambda: [][1], "IndexError: list index out of range"),
        (lambda: np.ones(1 << 28), "MemoryError"),
        (refuse_for_lack_of_memory, "asked for more than 1024 MB"),
        (lambda: exec("raise DatasetError()", {"DatasetError": DatasetError}), "without words"),
    ],
)
def test_only_answers_and_maci2_errors_are_no_problem(read, problem):
    assert problem in problem_of(read)
    assert bool(problem_of(read)) == bool(problem)


def test_a_loop_without_end_is_stopped(monkeypatch):
    monkeypatch.setattr("fuzzing.TIME_LIMIT_S", 0.05)
    assert "did not end" in problem_of(loop)


@pytest.mark.parametrize("mutators", [BINARY, TEXT])
def test_damage_is_the_same_for_one_seed_and_differs_between_cases(mutators):
    original = b"#t,x\n1,2\n2,3.5\n"
    made = [damaged(original, mutators, 1, case)[1] for case in range(60)]
    assert made == [damaged(original, mutators, 1, case)[1] for case in range(60)]
    assert len(set(made)) > 30


def test_the_file_is_whole_again_afterwards(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"1 2 3")
    failures = fuzz(lambda: float(path.read_text()), path, 20)
    assert failures
    assert all("Error" in str(failure) for failure in failures)
    assert path.read_bytes() == b"1 2 3"
