"""The way of one command through the code: few frames to the first residual, few files."""

import json
import subprocess
import sys

import pytest

import maci2

MOST_FRAMES, MOST_FILES = 10, 72
"""Frames of the project from the command line to the first residual of the estimator, both ends
left out, and files with functions that run."""

TRACED = """
import json, os, sys, threading

root, estimator = sys.argv.pop(1), ("estimator", "estimation", "chain")
files, way, state = set(), [], threading.local()

def room(code):
    return os.path.relpath(code.co_filename, root).split(os.sep)[0]

def called(frame, event, argument):
    code = frame.f_code
    if code.co_name == "<module>":  # what an import executes is no part of the way
        state.depth = getattr(state, "depth", 0) + {"call": 1, "return": -1}.get(event, 0)
        return
    if event != "call" or getattr(state, "depth", 0) or not code.co_filename.startswith(root):
        return
    files.add(code.co_filename)
    if not way and "residual" in code.co_name and room(code) in estimator:
        while frame is not None:
            if frame.f_code.co_filename.startswith(root) and frame.f_code.co_name[0] != "<":
                way.insert(0, f"{room(frame.f_code)}: {frame.f_code.co_name}")
            frame = frame.f_back

from maci2.cli.app import main

threading.setprofile(called)
sys.setprofile(called)
try:
    main()
finally:
    sys.setprofile(None)
    with open(os.environ["WALK"], "w") as output:
        names = sorted(os.path.relpath(file, root) for file in files)
        json.dump({"files": names, "way": way}, output)
"""


@pytest.mark.dataset
def test_init_reaches_its_first_residual_by_few_steps_through_few_files(
    data_root, tmp_path, monkeypatch
):
    path = tmp_path / "walk.json"
    monkeypatch.setenv("WALK", str(path))
    # Interpreted kernels are functions like all others, and no kernel is compiled on the way.
    monkeypatch.setenv("MACI2_KERNELS", "interpreted")
    root = str(maci2.__file__).rpartition("maci2")[0]
    words = ["init", str(data_root / "euroc" / "MH_01_clip"), "--vision", "images"]
    run = subprocess.run(
        [sys.executable, "-c", TRACED, f"{root}maci2", *words], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    walk = json.loads(path.read_text())
    way = [step for step in walk["way"] if "main" not in step][:-1]
    assert len(way) <= MOST_FRAMES, way
    assert len(walk["files"]) <= MOST_FILES, walk["files"]
