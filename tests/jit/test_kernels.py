"""Kernels: one switch for all, the same numbers on either side, a cache that is never stale."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maci2
from maci2.geometry import se3_exp, so3_exp
from maci2.jit import kernel
from maci2.jit.kernels import Kernel

PACKAGE = Path(maci2.__file__).parent


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


INITIALIZE = """
import json
from maci2.pipeline.warm_up import _short_window
from maci2 import initialize
imu, vision, T_b_c = _short_window()
result = initialize(imu, vision, T_b_c)
print(json.dumps({
    "gravity": result.state.gravity_c0.tolist(),
    "velocity": result.state.velocity_b.tolist(),
    "gyro_bias": result.state.gyro_bias.tolist(),
    "cov": result.posterior.gyro_bias.tolist(),
    "cost": result.report.cost,
}))
"""


def test_interpreted_and_compiled_kernels_give_the_same_numbers():
    compiled, interpreted = (
        json.loads(python(INITIALIZE, MACI2_KERNELS=mode).stdout)
        for mode in ("compiled", "interpreted")
    )
    for key in compiled:
        np.testing.assert_allclose(compiled[key], interpreted[key], rtol=1e-9, atol=1e-9)


def test_a_job_that_is_seldom_run_is_interpreted_until_the_cache_has_it(tmp_path):
    seldom = "from maci2.jit import seldom\nwith seldom('initialize'):\n"
    indented = "".join(f"    {line}\n" for line in INITIALIZE.strip().splitlines())
    folder = {"NUMBA_CACHE_DIR": str(tmp_path), "MACI2_KERNELS": "compiled"}
    first = json.loads(python(seldom + indented, **folder).stdout)
    assert not list(tmp_path.rglob("maci2.estimator*/*.nbi"))
    # What others call too is compiled.
    assert list(tmp_path.rglob("maci2.imu*/*.nbi"))
    again = python(f"{seldom}    pass\n{INITIALIZE}", **folder)
    assert list(tmp_path.rglob("maci2.estimator*/*.nbi"))
    compiled = json.loads(again.stdout)
    for key in compiled:
        np.testing.assert_allclose(compiled[key], first[key], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("switch", ["MACI2_KERNELS", "NUMBA_DISABLE_JIT"])
def test_interpreted_kernels_are_plain_functions_and_numba_is_not_loaded(switch):
    code = (
        "import sys; from maci2.geometry import so3_exp; "
        "print(type(so3_exp).__name__, 'numba' in sys.modules)"
    )
    value = "interpreted" if switch == "MACI2_KERNELS" else "1"
    assert python(code, **{switch: value}).stdout.split() == ["function", "False"]


@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_a_function_of_numba_may_call_kernels(mode):
    code = (
        "from maci2.geometry import so3_exp; from numba import njit; import numpy as np\n"
        "@njit\ndef trace(phi): return np.trace(so3_exp(phi))\n"
        "print(trace(np.zeros(3)))"
    )
    assert python(code, MACI2_KERNELS=mode).stdout.strip() == "3.0"


REFUSE = """
from maci2.jit import kernel

@kernel
def root(x):
    if x < 0.0:
        raise ValueError("a root of", x)
    return x ** 0.5

@kernel
def roots(x):
    return root(x) + root(x + 3.0)
"""


def test_an_error_in_a_part_reaches_python_compiled_or_cached(tmp_path):
    (tmp_path / "refusing.py").write_text(REFUSE)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from refusing import roots; print(roots(1.0))\n"
        "try: roots(-2.0)\nexcept ValueError as error: print(error.args)"
    )
    for _ in range(2):
        answer = python(code, MACI2_KERNELS="compiled", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert answer.stdout.splitlines() == ["3.0", "('a root of', -2.0)"], answer.stderr


HALVE = """
from maci2.jit import kernel

@kernel
def half(x):
    return x / 2.0
"""

HALVE_ONCE = """
from half import half
print(half(3.0), dict(half._compiled.stats.cache_hits) != {})
"""


def test_a_kernel_is_found_again_from_another_folder_and_at_another_time(tmp_path):
    """As in another checkout, environment or image with the same code."""
    cache = str(tmp_path / "cache")
    for name, hit in (("here", False), ("there", True)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.py").write_text(HALVE)
        code = f"import sys; sys.path.insert(0, {str(tmp_path / name)!r})\n" + HALVE_ONCE
        run = python(code, MACI2_KERNELS="compiled", NUMBA_CACHE_DIR=cache)
        assert run.stdout.split() == ["1.5", str(hit)], run.stderr
    (tmp_path / "there" / "half.py").write_text(HALVE.replace("2.0", "4.0"))
    run = python(code, MACI2_KERNELS="compiled", NUMBA_CACHE_DIR=cache)
    assert run.stdout.split() == ["0.75", "False"], run.stderr


def test_a_damaged_kernel_is_compiled_again(tmp_path):
    """As after a power failure: empty, cut in half, zeros, or with one wrong bit."""
    cache = tmp_path / "cache"
    (tmp_path / "half.py").write_text(HALVE)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + HALVE_ONCE

    def hit():
        run = python(code, MACI2_KERNELS="compiled", NUMBA_CACHE_DIR=str(cache))
        assert run.stdout.startswith("1.5"), run.stderr
        return run.stdout.split()[1] == "True"

    assert not hit()
    (file,) = cache.rglob("*.nbi")
    whole = file.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :]
    for damaged in (b"", whole[:middle], bytes(len(whole)), flipped):
        file.write_bytes(damaged)
        assert not hit()
        assert hit()


ROWS = """
import numpy as np
from maci2.jit import kernel

@kernel
def row(n):
    return np.ones(n)

@kernel
def rows(n):
    return row(n), row(n + 1)
"""


def test_a_part_that_python_calls_too_is_found_again_after_the_kernel_above_it(tmp_path):
    """Both are compiled and read again, in either order, in one process each time."""
    (tmp_path / "rows.py").write_text(ROWS)
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import rows\n"
        "print(*[sum(map(np.sum, {})) for np in [__import__('numpy')]])"
    )
    for calls in ("[*rows.rows(2), rows.row(3)]", "[rows.row(3), *rows.rows(2)]") * 2:
        run = python(
            code.format(calls), MACI2_KERNELS="compiled", NUMBA_CACHE_DIR=str(tmp_path / "cache")
        )
        assert run.stdout.split() == ["8.0"], run.stderr


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("use_kernels('fast')", "auto, compiled, interpreted; found 'fast'"),
        ("import maci2.geometry; use_kernels('auto')", "already"),
    ],
)
def test_a_choice_that_cannot_be_followed_is_an_error(code, message):
    run = python(f"from maci2.jit import use_kernels; {code}")
    assert run.returncode == 1
    assert message in run.stderr


def test_the_environment_overrides_the_program_and_may_not_be_misspelt():
    code = "from maci2.jit import are_interpreted, use_kernels; use_kernels('auto', ('x',)); "
    run = python(code + "print(are_interpreted())", MACI2_KERNELS="compiled")
    assert run.stdout.strip() == "False"
    run = python(code + "are_interpreted()", MACI2_KERNELS="fast")
    assert "MACI2_KERNELS is 'fast'" in run.stderr


def test_auto_interprets_until_the_cache_has_what_is_needed(tmp_path):
    code = (
        "from maci2.jit.cache import cache_folder\n"
        "from maci2.jit.kernels import are_interpreted, jobs_to_fill_aside, use_kernels\n"
        "use_kernels('auto', ('initialize',))\n"
        "print(are_interpreted(), jobs_to_fill_aside(), cache_folder())"
    )
    run = python(code, NUMBA_CACHE_DIR=str(tmp_path), MACI2_KERNELS="")
    assert run.stdout.startswith("True ('initialize',)")
    (Path(run.stdout.split()[-1]) / "initialize.filled").touch()
    run = python(code, NUMBA_CACHE_DIR=str(tmp_path), MACI2_KERNELS="")
    assert run.stdout.startswith("False ()")


BRIGHT = """
from maci2.jit import kernel, use_kernels
{choice}

@kernel
def plain(x):
    return x + 1.0

@kernel(per_pixel=True)
def brighter(x):
    return x * 2.0

@kernel(per_pixel=True)
def much_brighter(x):
    return brighter(brighter(x))

print(type(plain).__name__, plain(1.0), type(much_brighter).__name__, much_brighter(1.0))
"""


@pytest.mark.parametrize(
    ("mode", "kinds"),
    [("auto", ("function", "Kernel")), ("interpreted", ("function", "function"))],
)
def test_kernels_over_pixels_are_compiled_where_others_wait_for_a_cache(tmp_path, mode, kinds):
    plain, per_pixel = kinds
    (tmp_path / "bright.py").write_text(
        BRIGHT.format(choice=f"use_kernels({mode!r}, ('initialize',))")
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import bright"
    run = python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache"), MACI2_KERNELS="")
    assert run.stdout.split() == [plain, "2.0", per_pixel, "4.0"], run.stderr


def test_a_kernel_survives_pickling_and_keeps_its_name_and_docstring():
    assert pickle.loads(pickle.dumps(so3_exp)) is so3_exp
    assert so3_exp.__name__ == "so3_exp"
    assert so3_exp.__doc__ == "Rotation by the vector phi [rad]."


def test_a_kernel_calls_another_kernel_and_equals_its_own_source():
    xi = np.array([0.3, -0.2, 0.5, 0.4, 0.1, -0.7])
    assert isinstance(se3_exp, Kernel)
    np.testing.assert_allclose(se3_exp(xi), se3_exp.py_func(xi), rtol=1e-15)


def test_options_reach_the_compiler():
    @kernel(error_model="numpy")
    def divided(a: float, b: float) -> float:
        return a / b

    assert divided(1.0, 0.0) == np.inf


def test_nothing_but_the_compile_room_uses_the_compiler():
    """Whoever else did would have a cache that goes stale, and no switch."""
    users = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "compile" and "from numba import" in path.read_text("utf-8")
    ]
    assert users == []
