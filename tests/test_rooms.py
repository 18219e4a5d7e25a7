"""The one direction data flows, read from the imports."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import maci2

GROUND = {
    "types",
    "errors",
    "boundary",
    "field_docs",
    "text_tables",
    "findings",
    "gaussian",
    "lie",
    "files",
    "model_card",
    "compile",
    "calibration_prior",
}
SENSING = GROUND | {"sensors", "rigs", "datasets", "simulation"}
MEASURING = SENSING | {
    "imu", "vision", "feature_tracks", "premises", "estimator", "estimation", "calibration",
    "tracking",
}  # fmt: skip
PRODUCT = MEASURING | {"pipeline", "ground_truth", "noise", "watchdog"}
SCORING = PRODUCT | {"evaluation", "diagnostics", "baselines"}
SHOWING = SCORING | {"experiments", "reports"}
ALLOWED = {
    "types": set(),
    "errors": set(),
    "calibration_prior": set(),
    "boundary": {"errors", "types"},
    "field_docs": set(),
    "text_tables": set(),
    "findings": {"field_docs"},
    "files": {"errors", "types"},
    "compile": {"errors", "files"},
    "model_card": {"errors", "files"},
    "gaussian": {"compile", "errors", "types"},
    "lie": {"compile", "errors", "gaussian", "types"},
    "sensors": GROUND,
    "rigs": GROUND | {"sensors"},
    "datasets": GROUND | {"sensors", "rigs"},
    "simulation": GROUND | {"sensors", "datasets"},
    "imu": GROUND | {"sensors"},
    "vision": GROUND | {"sensors"},
    "feature_tracks": GROUND | {"sensors", "vision"},
    "premises": GROUND | {"imu", "vision"},
    # A result prints and draws itself with functions of `estimation`, imported when it does.
    "estimator": GROUND | {"imu", "vision", "estimation"},
    "estimation": GROUND | {"imu", "vision", "premises", "estimator"},
    "calibration": GROUND | {"sensors", "imu", "vision", "premises", "estimation", "estimator"},
    "tracking": GROUND | {"sensors", "imu", "vision", "premises", "estimation", "estimator"},
    "ground_truth": GROUND | {"sensors", "rigs", "datasets", "imu", "estimation", "estimator"},
    "pipeline": MEASURING | {"ground_truth"},
    "noise": MEASURING | {"ground_truth", "pipeline"},
    "watchdog": MEASURING | {"pipeline"},
    "evaluation": PRODUCT,
    "diagnostics": PRODUCT | {"evaluation"},
    "baselines": PRODUCT | {"evaluation"},
    "experiments": SCORING,
    "reports": SCORING | {"experiments"},
    "recording_calls": SCORING,
    "demo": SHOWING,
    "learn": PRODUCT | {"evaluation"},
    "benchmarks": SHOWING | {"learn"},
    "cli": SHOWING | {"demo", "recording_calls", "learn", "benchmarks"},
}
ASIDE = {"learn", "benchmarks"}
"""Imported inside functions only: nothing at run time needs them."""

HEAVY = {"torch", "lightning", "matplotlib", "gtsam", "rerun"}


class Import(NamedTuple):
    module: str
    """Absolute, such as maci2.sensors.types."""
    top_level: bool
    """Executed when the importing module is imported."""


def imports_of(node: ast.AST, package: str, top_level: bool = True) -> Iterator[Import]:
    """Every import below `node`; what only type checkers read is left out."""
    for child in ast.iter_child_nodes(node):
        if (
            isinstance(child, ast.Call)
            and ast.unparse(child.func).endswith("import_module")
            and isinstance(child.args[0], ast.Constant)
        ):
            yield Import(child.args[0].value, top_level)
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, top_level) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - child.level]
            base = ".".join([*parents, *filter(None, [child.module])]) if child.level else (
                child.module or ""
            )  # fmt: skip
            # `from maci2 import sensors` names a room; `from maci2 import __version__` does not.
            names = [alias.name for alias in child.names] if base == "maci2" else [""]
            yield from (Import(f"{base}.{name}".rstrip("."), top_level) for name in names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.orelse:
                yield from imports_of(ast.Module([statement], []), package, top_level)
        else:
            deeper = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_of(child, package, top_level and not deeper)


def room_of(module: str) -> str:
    parts = module.split(".")
    room = parts[1] if len(parts) > 1 else ""
    return "cli" if room == "__main__" else room


def violations(source: str, module: str) -> list[str]:
    """What one module, dotted, imports although it must not; packages end in __init__."""
    if module == "maci2.__init__":
        return [
            f"{module} imports {found.module} at once"
            for found in imports_of(ast.parse(source), "maci2")
            if found.top_level and found.module.split(".")[0] in HEAVY | {"maci2", "numpy", "numba"}
        ]
    room, package = room_of(module), module.rpartition(".")[0]
    if room not in ALLOWED:
        return [f"{module} is in no known room"]
    found_wrong = []
    for found in imports_of(ast.parse(source), package):
        top = found.module.split(".")[0]
        if top in HEAVY and found.top_level and not _may_be_heavy(module):
            found_wrong.append(f"{module} imports {top} outside a function")
        if top != "maci2":
            continue
        other = room_of(found.module)
        if other in ("", "__version__", room):
            continue
        if other not in ALLOWED[room]:
            found_wrong.append(f"{module} imports {found.module}")
        elif other in ASIDE and room not in ASIDE and found.top_level:
            found_wrong.append(f"{module} imports {found.module} outside a function")
    return found_wrong


def _may_be_heavy(module: str) -> bool:
    """All of `learn`; modules of `benchmarks` and `reports` that nobody gets by importing the
    room."""
    room = room_of(module)
    return room == "learn" or (room in ("benchmarks", "reports") and not module.endswith("init__"))


def test_no_module_imports_against_the_direction_of_data():
    root = Path(maci2.__file__).parent
    paths = sorted(root.rglob("*.py"))
    assert len(paths) > 30
    found_wrong = []
    for path in paths:
        module = ".".join(["maci2", *path.relative_to(root).with_suffix("").parts])
        found_wrong += violations(path.read_text(encoding="utf-8"), module)
    assert found_wrong == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("maci2.datasets.euroc", "from maci2.imu import preintegrate"),
        ("maci2.imu.preintegration", "from maci2.vision import RelativePoses"),
        ("maci2.vision.pose_sources", "import maci2.imu.measurements"),
        ("maci2.vision.pose_sources", "from maci2 import imu"),
        ("maci2.vision.pose_sources", "from ..imu import preintegrate"),
        ("maci2.vision.__init__", "from ..estimation import solve"),
        ("maci2.estimator.camera_imu", "from maci2.sensors import Rig"),
        ("maci2.estimator.camera_imu", "def late():\n    from maci2.sensors import Rig"),
        ("maci2.estimator.camera_imu", "from maci2.evaluation.metrics import score"),
        ("maci2.evaluation.metrics", "from maci2.cli.app import main"),
        ("maci2.evaluation.metrics", "def late():\n    from maci2.learn import train"),
        ("maci2.cli.app", "from maci2.learn import train"),
        ("maci2.cli.app", "import torch.nn"),
        ("maci2.cli.app", "if True:\n    import gtsam"),
        ("maci2.reports.__init__", "import matplotlib.pyplot as plt"),
        ("maci2.rigs.kalibr", "from maci2.datasets import open_recording"),
        ("maci2.pipeline.offline", "from maci2.evaluation.metrics import InitErrors"),
        ("maci2.evaluation.protocol", "import_module('maci2.learn.imu.train')"),
        ("maci2.learn.vision.train.train", "from maci2.cli.app import main"),
        ("maci2.lie", "from maci2.sensors import Rig"),
        ("maci2.errors", "from maci2.gaussian import nees"),
        ("maci2.__init__", "from maci2.estimation import initialize"),
        ("maci2.__init__", "import numpy"),
        ("maci2.attic.old", "import numpy"),
    ],
)
def test_a_forbidden_import_is_found(module, source):
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("maci2.vision.relative_poses", "from maci2 import __version__"),
        ("maci2.vision.pose_sources", "from .relative_poses import RelativePoses"),
        ("maci2.imu.measurements", "from maci2.sensors import ImuSamples"),
        ("maci2.cli.learn", "def train():\n    from maci2.learn import train"),
        ("maci2.reports.charts", "import matplotlib"),
        ("maci2.benchmarks.gtsam_problem", "def late():\n    import gtsam"),
        ("maci2.learn.vision.train.train", "import torch\nfrom maci2.imu import preintegrate"),
        ("maci2.__init__", "if TYPE_CHECKING:\n    from maci2.estimation import initialize"),
    ],
)
def test_an_allowed_import_is_let_pass(module, source):
    assert violations(source, module) == []


def loaded_after(statement: str) -> set[str]:
    """Names of the top packages in a fresh interpreter after one statement."""
    code = f"import sys\n{statement}\nprint(*{{m.split('.')[0] for m in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_neither_numpy_nor_numba():
    loaded = loaded_after("import maci2")
    assert "maci2" in loaded
    assert not loaded & ({"numpy", "numba", "scipy", "cv2"} | HEAVY)


def test_importing_every_room_but_learn_loads_no_heavy_library():
    rooms = ("estimation", "pipeline", "evaluation", "diagnostics", "reports", "cli.app")
    loaded = loaded_after("import " + ", ".join(f"maci2.{room}" for room in rooms))
    assert "numba" in loaded
    assert not loaded & HEAVY
