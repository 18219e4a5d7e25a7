"""The one direction data flows, read from the imports of both packages."""

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
    "validation",
    "field_docs",
    "text_tables",
    "findings",
    "geometry",
    "files",
    "model_card",
    "jit",
    "calibration_prior",
    "result_output",
}
SENSING = GROUND | {"sensors", "rigs", "datasets", "simulation"}
SOLVING = {"estimator", "consistency", "calibration", "odometry"}
ESTIMATING = SENSING | SOLVING | {"imu", "vision", "feature_tracks"}
PRODUCT = ESTIMATING | {"tools.ground_truth", "pipeline", "live", "metrics"}
TOOLS = PRODUCT | {"tools.imu_noise", "tools.watchdog", "tools.diagnostics"}
SHOWING = TOOLS | {"report", "api", "demo"}
ALLOWED = {
    "types": set(),
    "errors": set(),
    "field_docs": set(),
    "text_tables": set(),
    "validation": {"errors", "types"},
    "findings": {"field_docs"},
    "files": {"errors", "types"},
    "jit": {"errors", "files"},
    "model_card": {"errors", "files"},
    "geometry": {"jit", "errors", "types"},
    "calibration_prior": {"geometry", "types"},
    "result_output": {"errors", "files", "geometry", "text_tables", "types"},
    "sensors": GROUND,
    "rigs": GROUND | {"sensors"},
    "datasets": GROUND | {"sensors", "rigs"},
    "simulation": GROUND | {"sensors", "datasets"},
    "imu": GROUND | {"sensors"},
    "vision": GROUND | {"sensors"},
    "feature_tracks": GROUND | {"sensors", "vision"},
    "estimator": GROUND | {"sensors", "imu", "vision"},
    "consistency": GROUND | {"sensors", "imu", "vision", "estimator"},
    "calibration": GROUND | {"sensors", "imu", "vision", "estimator", "consistency"},
    "odometry": GROUND | {"sensors", "imu", "vision", "estimator", "consistency"},
    "tools": set(),
    "tools.ground_truth": GROUND | {"sensors", "rigs", "datasets", "imu", "estimator"},
    "pipeline": ESTIMATING | {"tools.ground_truth"},
    "live": ESTIMATING | {"pipeline"},
    "metrics": ESTIMATING | {"pipeline", "tools.ground_truth"},
    "tools.imu_noise": ESTIMATING | {"pipeline", "tools.ground_truth"},
    "tools.watchdog": ESTIMATING | {"pipeline"},
    "tools.diagnostics": PRODUCT,
    "report": TOOLS,
    "api": TOOLS,
    "demo": TOOLS | {"report"},
    "cli": SHOWING,
}
LAB = {
    "parallel": set(),
    "evaluation": {"parallel"},
    "weights": set(),
    "baselines": {"evaluation"},
    "training": {"evaluation"},
    "experiments": {"parallel", "evaluation", "baselines"},
    "benchmarks": {"training"},
    "reports": {"evaluation", "experiments"},
    "cli": {"parallel", "evaluation", "experiments", "reports", "training", "benchmarks"},
}
"""Rooms of maci2_lab and those rooms of it that they import; all of maci2 below them is open."""

for _room, _others in LAB.items():
    ALLOWED[f"lab.{_room}"] = SHOWING | {f"lab.{other}" for other in _others}
ALLOWED["lab.cli"] |= {"cli"}
ASIDE = {"lab.training", "lab.benchmarks"}
"""Imported inside functions only: nothing at run time needs them."""

HEAVY = {"torch", "lightning", "matplotlib", "gtsam", "rerun"}

MAX_ESTIMATOR_MODULES = 40
"""Modules of maci2 that `import maci2.estimator` may load."""


class Import(NamedTuple):
    """Import statement of a module."""

    module: str
    """Absolute, such as maci2.sensors.types."""
    top_level: bool
    """Executed when the importing module is imported."""


def imports_of(node: ast.AST, package: str, top_level: bool = True) -> Iterator[Import]:
    """Every import below `node`, except those for type checkers only."""
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
            above_rooms = base in ("maci2", "maci2.tools", "maci2_lab")
            names = [alias.name for alias in child.names] if above_rooms else [""]
            yield from (Import(f"{base}.{name}".rstrip("."), top_level) for name in names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.orelse:
                yield from imports_of(ast.Module([statement], []), package, top_level)
        else:
            deeper = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from imports_of(child, package, top_level and not deeper)


def room_of(module: str) -> str:
    """Room of a module: the part below the package; one part more below `tools`."""
    top, *parts = module.split(".")
    room = parts[0] if parts else ""
    if room == "tools" and len(parts) > 1 and parts[1] != "__init__":
        room = f"tools.{parts[1]}"
    if room == "__main__":
        room = "cli"
    if top == "maci2_lab":
        return "" if room in ("", "__init__") else f"lab.{room}"
    return room


def violations(source: str, module: str) -> list[str]:
    """Imports of one module, dotted, against the direction; packages end in __init__."""
    if module == "maci2.__init__":
        return [
            f"{module} imports {found.module} at once"
            for found in imports_of(ast.parse(source), "maci2")
            if found.top_level and found.module.split(".")[0] in HEAVY | {"maci2", "numpy", "numba"}
        ]
    room, package = room_of(module), module.rpartition(".")[0]
    if module == "maci2_lab.__init__":
        return [f"{module} imports {found.module}" for found in imports_of(ast.parse(source), "")]
    if room not in ALLOWED:
        return [f"{module} is in no known room"]
    found_wrong = []
    for found in imports_of(ast.parse(source), package):
        top = found.module.split(".")[0]
        if top in HEAVY and found.top_level and not _may_be_heavy(module):
            found_wrong.append(f"{module} imports {top} outside a function")
        if top not in ("maci2", "maci2_lab"):
            continue
        if top == "maci2_lab" and not module.startswith("maci2_lab"):
            found_wrong.append(f"{module} imports {found.module}")
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
    """All of training; modules of benchmarks and reports that importing the room does not load."""
    room = room_of(module)
    shown = ("lab.benchmarks", "lab.reports", "report")
    return room == "lab.training" or (room in shown and not module.endswith("init__"))


def test_no_module_imports_against_the_direction_of_data():
    import maci2_lab

    found_wrong = []
    for package in (maci2, maci2_lab):
        root = Path(package.__file__).parent
        paths = sorted(root.rglob("*.py"))
        assert len(paths) > 30
        for path in paths:
            module = ".".join([package.__name__, *path.relative_to(root).with_suffix("").parts])
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
        ("maci2.vision.__init__", "from ..estimator import solve"),
        ("maci2.estimator.solver", "from maci2.datasets import open_recording"),
        ("maci2.estimator.solver", "def late():\n    from maci2.datasets import open_recording"),
        ("maci2.estimator.solver", "from maci2.consistency import judge"),
        ("maci2.estimator.solver", "from maci2_lab.evaluation.rows import Row"),
        ("maci2.metrics.init_errors", "from maci2.cli.app import main"),
        ("maci2.metrics.init_errors", "def late():\n    from maci2_lab.training import train"),
        ("maci2.cli.app", "from maci2_lab.cli.evaluate import evaluate"),
        ("maci2.cli.app", "import maci2_lab"),
        ("maci2.cli.app", "import_module('maci2_lab.evaluation')"),
        ("maci2.cli.app", "import torch.nn"),
        ("maci2.cli.app", "if True:\n    import gtsam"),
        ("maci2.report.__init__", "import matplotlib.pyplot as plt"),
        ("maci2.rigs.kalibr", "from maci2.datasets import open_recording"),
        ("maci2.pipeline.offline", "from maci2.metrics.init_errors import InitErrors"),
        ("maci2.tools.ground_truth.audit", "from maci2.tools.watchdog import Alarm"),
        ("maci2.tools.ground_truth.audit", "from maci2.tools import watchdog"),
        ("maci2_lab.evaluation.protocol", "import_module('maci2_lab.training.imu.train')"),
        ("maci2_lab.training.train", "from maci2.cli.app import main"),
        ("maci2_lab.cli.train_imu", "from maci2_lab.training.imu.train import train_imu"),
        ("maci2_lab.__init__", "from maci2 import initialize"),
        ("maci2.geometry.so3", "from maci2.sensors import Rig"),
        ("maci2.errors", "from maci2.geometry.gaussian import nees"),
        ("maci2.__init__", "from maci2.estimator import initialize"),
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
        ("maci2.report.reliability", "import matplotlib"),
        ("maci2_lab.cli.train_imu", "def train():\n    from maci2_lab.training import train"),
        ("maci2_lab.benchmarks.gtsam_problem", "def late():\n    import gtsam"),
        ("maci2_lab.training.train", "import torch\nfrom maci2.imu import preintegrate"),
        ("maci2_lab.experiments.task", "from maci2_lab.baselines import INITIALIZERS"),
        ("maci2.tools.diagnostics.audit", "from maci2.tools.ground_truth import audit"),
        ("maci2.__init__", "if TYPE_CHECKING:\n    from maci2.estimator import initialize"),
    ],
)
def test_an_allowed_import_is_let_pass(module, source):
    assert violations(source, module) == []


def loaded_after(statement: str) -> set[str]:
    """Names of all modules in a fresh interpreter after one statement."""
    code = f"import sys\n{statement}\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_the_package_loads_neither_numpy_nor_numba():
    loaded = loaded_after("import maci2")
    assert "maci2" in loaded
    assert not loaded & ({"numpy", "numba", "scipy", "cv2", "maci2_lab"} | HEAVY)


def test_importing_all_of_the_library_loads_neither_the_lab_nor_a_heavy_library():
    names = ("estimator", "pipeline", "live", "metrics", "tools.diagnostics", "report", "api")
    loaded = loaded_after("import " + ", ".join(f"maci2.{room}" for room in names))
    assert "numba" in loaded
    assert not loaded & ({"maci2_lab"} | HEAVY)


def test_importing_the_estimator_loads_little_else():
    loaded = {name for name in loaded_after("import maci2.estimator") if name.startswith("maci2")}
    assert len(loaded) <= MAX_ESTIMATOR_MODULES, sorted(loaded)


def test_importing_commands_of_the_lab_loads_no_heavy_library():
    assert not loaded_after("import maci2.cli.app, maci2_lab.cli") & HEAVY
