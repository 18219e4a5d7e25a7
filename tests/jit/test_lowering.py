"""Kernels read, write and hold arrays as plain Python does, and give back all memory."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import maci2
from maci2.jit import kernel
from maci2.types import Array

SOURCES = str(Path(maci2.__file__).parents[1])


class Pair(NamedTuple):
    """Two arrays that travel together."""

    first: Array
    second: Array


@kernel
def turned_about(a: Array, out: Array, shift: int) -> int:
    """out = a backwards, rows and columns, read from the end; counts the elements."""
    n, m = a.shape
    count = 0
    for i in range(n):
        for j in range(m):
            out[i, j] = a[-1 - i, shift - j]
            count += 1
    return count


@kernel
def visited(start: int, stop: int, step: int, out: Array) -> int:
    """What loops over ranges of one, two and three numbers pass, inner ones left early."""
    count = 0
    for i in range(start, stop):
        for j in range(i):
            if j == 3:
                break
            out[count] = 100 * i + j
            count += 1
        else:
            out[count] = -i
            count += 1
    for i in range(start, stop, step):
        out[count] = i
        count += 1
    ahead = range(start, stop, step)
    for i in ahead:
        out[count] = i
        count += 1
    return count


@pytest.mark.parametrize("numbers", [(0, 5, 1), (-2, 6, 3), (4, 4, 1), (5, 1, -2), (3, -3, 2)])
def test_loops_pass_what_range_passes(numbers):
    compiled, interpreted = np.zeros(100), np.zeros(100)
    assert visited(*numbers, compiled) == visited.py_func(*numbers, interpreted)
    np.testing.assert_array_equal(compiled, interpreted)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("layout", ["C", "A", "F"])
def test_elements_are_found_from_either_end_in_arrays_of_any_kind(dtype, layout):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    if layout == "A":
        a = np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3]
    elif layout == "F":
        a = np.asfortranarray(a)
    out = np.zeros((3, 4), dtype)
    assert turned_about(a, out, -1) == 12
    np.testing.assert_array_equal(out, a[::-1, ::-1])


@kernel
def second_largest(rows: Array, at: Array) -> Array:
    """The row of the second largest sum, and where it was found in at[0]."""
    best, second = rows[0], rows[0]
    for k in range(1, len(rows)):
        row = rows[k]
        fresh = np.zeros(len(row))
        for i in range(len(row)):
            fresh[i] = 2.0 * row[i]
        if fresh[0] > 2.0 * best[0]:
            second, best = best, row
            at[0] = k
        else:
            second = fresh
    return second


@kernel
def kept(pair: Pair, own: bool) -> Array:
    """A part of what was given, or something new."""
    a, b = pair
    c = np.zeros(3)
    for i in range(3):
        c[i] = a[i] + b[i]
    chosen = pair.second
    if own:
        chosen = c
    return chosen


@kernel
def swapped(pair: Pair) -> Pair:
    """The other way round."""
    return Pair(pair.second, pair.first)


def test_what_a_kernel_returns_outlives_its_arguments():
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [2.0, 9.0]])
    at = np.zeros(1, dtype=np.int64)
    row = second_largest(rows[:2].copy(), at)
    np.testing.assert_array_equal(row, [1.0, 2.0])
    assert at[0] == 1
    np.testing.assert_array_equal(second_largest(rows, at), [4.0, 18.0])
    other = swapped(Pair(np.arange(3.0), np.ones(3)))
    np.testing.assert_array_equal(other.first, np.ones(3))
    np.testing.assert_array_equal(kept(other, True), [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(kept(other, False), np.arange(3.0))


REPEAT = """
import gc, sys, tracemalloc
import numpy as np
from test_lowering import Pair, kept, second_largest, swapped
from numba.core.runtime import rtsys

def once(n):
    rows, at = np.random.default_rng(n).normal(size=(5, 3)), np.zeros(1, dtype=np.int64)
    second_largest(rows, at)
    return kept(swapped(Pair(rows[0], rows[1].copy())), n % 2 == 0)

once(0), once(1)
argument = np.ones(3)
count = sys.getrefcount(argument)
before = rtsys.get_allocation_stats()
for n in range(200):
    once(n)
    kept(Pair(argument, argument), False)
after = rtsys.get_allocation_stats()
print(after.alloc - before.alloc == after.free - before.free, after.alloc > before.alloc,
      after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free,
      sys.getrefcount(argument) - count)
"""


def test_memory_is_given_back_and_arguments_are_let_go():
    paths = os.pathsep.join([SOURCES, str(Path(__file__).parent)])
    run = subprocess.run(
        [sys.executable, "-c", REPEAT],
        env={**os.environ, "PYTHONPATH": paths, "NUMBA_NRT_STATS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stdout.split() == ["True", "True", "True", "0"], run.stderr
