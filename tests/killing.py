"""Commands that are killed at a chosen moment, and what they leave behind.

A moment is a number of file operations below a folder: opening an image, creating, renaming or
removing a file. It is the same in every run, however slow the machine is, and it hits the moments
between two files. Each run is a child forked from this process, which has imported everything, so
that a run takes as long as its work.

    python tests/killing.py FOLDER COMMAND SIGNAL MOMENTS SEED    prints one line of JSON
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

COUNTED = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate")
LONGEST_S = 600
"""Wall time after which a child that hangs is given up."""

TIMES = ("times", "times_ms", "solve_ms", "seconds", "processor_ms")
"""Keys and folders that hold wall times, which no two runs share."""


def arguments(command: str, folder: Path, output: Path) -> list[str]:
    """A command line on the small recordings of `folder`, all of whose results are in `output`."""
    euroc = folder / "euroc"
    given = {
        "vo": ["vo", folder / "images", "-o", output / "poses.npz"],
        "evaluate": ["evaluate", euroc / "MH_02_easy", euroc / "V1_01_easy",
                     "--vision", "truth:0.05,0.003", "-o", output],
        "reproduce": ["reproduce", "gyro-bias", "--data", folder, "--jobs", "1", "-o", output],
        "train-imu": ["train-imu", "mine", "--data", euroc, "--train", "MH_02_easy",
                      "--tune", "V1_01_easy", "--epochs", "2", "--held-out-epochs", "1",
                      "-o", output / "mine.onnx"],
        "calibrate": ["calibrate", euroc / "V1_01_easy", "--vision", "truth:0.05,0.003",
                      "-o", output / "camchain-imucam.yaml"],
        "track": ["track", euroc / "MH_02_easy", "--vision", "truth:0.05,0.003", "-o", output],
        "truth": ["truth", euroc / "V1_01_easy", "-o", output / "audited"],
        "noise": ["noise", euroc / "MH_02_easy", euroc / "V1_01_easy", "-o", output / "imu.yaml",
                  "--tools", output, "--json", output / "noise.json"],
        "convert": ["convert", euroc / "MH_02_easy", output, "--to", "openvins"],
    }  # fmt: skip
    return [str(word) for word in given[command]]


TOGETHER = ("track", "truth", "convert")
"""Commands whose files are one result: after an interrupt all of them are there, or none."""


def run(
    words: list[str], watched: Path, moment: int | None, number: int, said: int | None = None
) -> tuple[int, int]:
    """Run a command in a child that sends itself a signal at the moment-th operation; returns its
    wait status and how many operations it did. Its standard error goes to the file `said`."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _work(words, watched, moment, number, writing, said)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return status, int(text or 0)


def _work(
    words: list[str], watched: Path, moment: int | None, number: int, pipe: int, said: int | None
) -> None:
    from maci2.cli.app import main

    count, root = 0, str(watched)

    def hook(event: str, details: tuple[object, ...]) -> None:
        nonlocal count
        if event in COUNTED and details and str(details[0]).startswith(root):
            count += 1
            if count == moment:
                os.kill(os.getpid(), number)

    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(said if said is not None and stream == 2 else quiet, stream)
    signal.alarm(LONGEST_S)
    # A shell's background jobs inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["maci2", *words]
    sys.addaudithook(hook)
    code = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except KeyboardInterrupt:
        code = 130
    finally:
        os.write(pipe, str(count).encode())
        os._exit(code)


def results(output: Path) -> dict[str, bytes]:
    """Every result by its name, without wall times; temporary names begin with a dot."""
    found = {}
    for path in sorted(output.rglob("*")):
        parts = path.relative_to(output).parts
        hidden = any(part.startswith(".") or part.endswith(".training") for part in parts)
        if path.is_file() and not hidden and TIMES[0] not in parts:
            found["/".join(parts)] = _timeless(path)
    return found


def _timeless(path: Path) -> bytes:
    if path.suffix != ".json":
        return path.read_bytes()
    return json.dumps(_without_times(json.loads(path.read_text()))).encode()


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_times(part) for key, part in value.items() if key not in TIMES}
    return [_without_times(part) for part in value] if isinstance(value, list) else value


def damaged(output: Path, expected: dict[str, bytes]) -> list[str]:
    """Results that a killed command left and that are not whole."""
    try:
        left = results(output)
    except ValueError as error:
        return [f"unreadable JSON: {error}"]
    return [name for name in left if name in expected and left[name] != expected[name]]


def unclear(status: int, said: str) -> list[str]:
    """What an interrupted command did not do: end with code 130 and one line that says so."""
    if status == 0:
        return []
    problems = [] if os.waitstatus_to_exitcode(status) == 130 else [f"ended with {status}"]
    lines = [line for line in said.splitlines() if line.strip()]
    if lines[-1:] != ["interrupted"] or "Traceback" in said:
        problems.append(f"said {said[-300:]!r}")
    return problems


def kill(
    folder: Path, command: str, number: int, moments: int, seed: int, ignored: tuple[str, ...] = ()
) -> dict[str, object]:
    """Kill a command at random moments and let it go on each time; what went wrong is listed."""
    output = folder / "out" / command
    shutil.rmtree(output, ignore_errors=True)
    words = arguments(command, folder, output)
    status, total = run(words, folder, None, number)
    expected = {k: v for k, v in results(output).items() if not k.endswith(ignored or ("\0",))}
    problems = [] if status == 0 and expected else [f"undisturbed run ended with {status}"]
    rng = np.random.default_rng(seed)
    chosen = rng.integers(1, max(total, 1) + 1, moments)
    killed = 0
    for moment in map(int, chosen):
        shutil.rmtree(output, ignore_errors=True)
        with tempfile.TemporaryFile() as said:
            status, _ = run(words, folder, moment, number, said.fileno())
            said.seek(0)
            text = said.read().decode(errors="replace")
        killed += status != 0
        problems += [f"{moment}: {name} is not whole" for name in damaged(output, expected)]
        if number == signal.SIGINT:
            problems += [f"{moment}: {problem}" for problem in unclear(status, text)]
            left = len(results(output).keys() & expected.keys())
            if command in TOGETHER and left not in (0, len(expected)):
                problems.append(f"{moment}: {left} of {len(expected)} files are there")
        status, _ = run(words, folder, None, number)
        if status != 0:
            problems.append(f"{moment}: resumed run ended with {status}")
        again = results(output)
        problems += [
            f"{moment}: {name} differs after resuming"
            for name in expected
            if again.get(name) != expected[name]
        ]
    return {"operations": total, "killed": killed, "moments": moments, "problems": problems}


def main() -> None:
    folder, command, number, moments, seed = sys.argv[1:]
    import maci2.vision.odometry as odometry
    from maci2.pipeline import offline, vo  # noqa: F401

    # Small recordings have few relative poses; every fourth save is worth interrupting.
    odometry.SAVE_EVERY = 4
    if command == "train-imu":
        from maci2_lab.training.imu import stages, train  # noqa: F401

        # The files of a training do not depend on how long its epochs are.
        whole = stages.training_config
        stages.training_config = lambda *chosen: replace(whole(*chosen), steps_per_epoch=2)
    if command == "reproduce":
        from maci2_lab.experiments import reproduce  # noqa: F401
    outcome = kill(
        Path(folder), command, getattr(signal, number), int(moments), int(seed), (".html",)
    )
    sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main()
