"""Frozen answers: comparison, storage and resumption."""

import json
import math

import pytest
from typer.testing import CliRunner

from maci2.cli.app import app
from maci2.errors import DatasetError, OptionError
from maci2_lab.cli.experiments import call_quietly
from maci2_lab.experiments import freeze as module
from maci2_lab.experiments.freeze import (
    ABSENT,
    FROZEN_0_11,
    PARTS,
    SIMULATED,
    are_equal,
    cases,
    compact,
    compare,
    freeze,
    read_frozen,
    write_frozen,
)
from maci2_lab.parallel import Pool

OLD = {
    "init DATA/a": {"status": "ok", "solves": 7, "v": [0.1, 0.2], "solve_ms": 3.0},
    "init DATA/b": {"status": "weak", "solves": 9, "reasons": ["too short"]},
    "truth DATA/a -o OUT": {"rows": 5},
}
"""Answers of a few command lines."""


def changed(line, **values):
    return {**OLD, line: OLD[line] | values}


def differences(new, parts=PARTS):
    return compare(OLD, new, parts).differences


@pytest.fixture
def few_cases(tmp_path, monkeypatch):
    """Three command lines with answers that need no recording, and a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(module, "cases", lambda parts: list(OLD))
    answered = []

    def answer(line, data, call):
        answered.append(line)
        return OLD[line]

    monkeypatch.setattr(module, "answer_of", answer)
    return answered


def test_equal_answers_have_no_difference_and_are_counted():
    comparison = compare(OLD, OLD, PARTS)
    assert comparison.differences == []
    assert comparison.parts["init"].answers == 2
    assert comparison.parts["init"].solves == [16, 16]
    assert "init: 0 of 2 answers differ, 7 keys compared; solves 16 -> 16" in comparison.lines()


def test_a_number_beyond_the_tolerance_is_listed_with_both_values():
    assert differences(changed("init DATA/a", v=[0.1, 0.2 + 0.9e-9])) == []
    new = changed("init DATA/a", v=[0.1, 0.2 + 3e-9])
    assert differences(new) == [("init DATA/a: v[1]", 0.2, 0.200000003)]
    assert "init DATA/a: v[1]: 0.2 -> 0.200000003" in compare(OLD, new, PARTS).lines()


def test_a_changed_verdict_is_a_difference_of_its_answer():
    comparison = compare(OLD, changed("init DATA/b", status="ok", reasons=[]), PARTS)
    assert comparison.differences == [
        ("init DATA/b: status", "weak", "ok"),
        ("init DATA/b: reasons[0]", "too short", ABSENT),
        ("init DATA/b: reasons", ABSENT, []),
    ]
    assert comparison.parts["init"].differing == 1


def test_keys_and_answers_on_one_side_only_are_listed():
    fewer = {line: answer for line, answer in OLD.items() if not line.startswith("truth")}
    assert differences(fewer) == [("truth DATA/a -o OUT", "present", ABSENT)]
    assert differences(fewer, ["init"]) == []
    new = changed("truth DATA/a -o OUT", jumps=1)
    assert differences(new) == [("truth DATA/a -o OUT: jumps", ABSENT, 1)]
    assert compare(fewer, OLD, PARTS).differences == [("truth DATA/a -o OUT", ABSENT, "present")]


def test_times_are_listed_and_are_no_difference():
    comparison = compare(OLD, changed("init DATA/a", solve_ms=9.0), PARTS)
    assert comparison.differences == []
    assert any("solve_ms 3 -> 9" in line for line in comparison.lines())
    bench = compare({"bench": {"ratio": 2.0}}, {"bench": {"ratio": 3.0}}, ["bench"])
    assert bench.differences == []
    assert "bench: ratio: 2.0 -> 3.0" in bench.lines()


@pytest.mark.parametrize(
    ("old", "new", "equal"),
    [
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (math.inf, math.inf, True),
        (math.inf, 1.0, False),
        (1, 1.0, True),
        (1_403_715_284_312_143_104, 1_403_715_284_312_143_105, False),
        (1e6, 1e6 + 1e-4, True),
        (1e6, 1e6 + 1e-2, False),
        (None, 0.0, False),
        (True, 1, False),
        ("ok", "ok", True),
    ],
)
def test_values_are_equal_to_the_tolerance_and_integers_exactly(old, new, equal):
    assert are_equal(old, new) is equal


def test_a_long_list_keeps_its_end_and_its_sum_so_that_a_change_inside_shows():
    poses = [[float(i), 0.5] for i in range(10)]
    summary = {"length": 10, "last": [9.0, 0.5], "sum": [45.0, 5.0]}
    assert compact({"poses": poses, "version": "1"}) == {"poses": summary}
    old = {"init": {"poses": poses}}
    moved = {"init": {"poses": [*poses[:4], [4.0, 0.6], *poses[5:]]}}
    keys = [key for key, *_ in compare(old, moved, ["init"]).differences]
    assert keys == ["init: poses.sum[1]"]


def test_findings_are_compared_by_name():
    findings = [{"what": "imu", "text": "fine"}, {"what": "axes", "text": "swapped"}]
    old, new = {"check": {"findings": findings}}, {"check": {"findings": findings[::-1]}}
    assert compare(old, new, ["check"]).differences == []


def test_what_is_written_is_read_back_without_a_difference(tmp_path):
    answers = changed("init DATA/a", v=[1 / 3, math.nan], T=[[i / 7, -i / 3] for i in range(9)])
    write_frozen(tmp_path / "frozen.json", answers)
    assert compare(read_frozen(tmp_path / "frozen.json"), answers, PARTS).differences == []


def test_a_file_without_answers_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"rows": []}')
    with pytest.raises(DatasetError, match="holds no frozen answers"):
        read_frozen(tmp_path / "other.json")


def test_an_unknown_part_is_refused(tmp_path):
    with pytest.raises(OptionError, match="--part is 'demo'; choose among init, calibrate"):
        freeze(tmp_path, ["demo"], Pool(1), call_quietly)


def test_an_interrupted_run_keeps_its_answers(few_cases, tmp_path, monkeypatch):
    working = module.answer_of

    def failing(line, data, call):
        if line.startswith("truth"):
            raise KeyboardInterrupt
        return working(line, data, call)

    monkeypatch.setattr(module, "answer_of", failing)
    with pytest.raises(KeyboardInterrupt):
        freeze(tmp_path, PARTS, Pool(1), call_quietly)
    monkeypatch.setattr(module, "answer_of", working)
    assert freeze(tmp_path, PARTS, Pool(1), call_quietly) == OLD
    assert few_cases == list(OLD)
    # A finished run leaves nothing to resume.
    assert freeze(tmp_path, PARTS, Pool(1), call_quietly) == OLD
    assert few_cases == 2 * list(OLD)


def test_the_command_stores_then_compares(few_cases, tmp_path, monkeypatch):
    (tmp_path / "data" / "a" / "mav0" / "imu0").mkdir(parents=True)
    words = ["freeze", "--data", str(tmp_path / "data"), "--jobs", "1"]
    frozen = str(tmp_path / "frozen.json")
    assert CliRunner().invoke(app, [*words, "-o", frozen]).exit_code == 0
    same = CliRunner().invoke(app, [*words, "--against", frozen])
    assert same.exit_code == 0
    assert "nothing differs" in same.output
    monkeypatch.setattr(
        module, "answer_of", lambda line, data, call: OLD[line] | {"status": "failed"}
    )
    other = CliRunner().invoke(app, [*words, "--against", frozen, "--json", "-"])
    assert other.exit_code == 1
    listed = json.loads(other.stdout)["differences"]
    assert {"key": "init DATA/a: status", "old": "ok", "new": "failed"} in listed


def test_an_answer_is_the_same_again(tmp_path):
    line = "init SIMULATED/0_handheld --vision truth:0.05,0.003"
    first, second = (module.answer_of(line, tmp_path, call_quietly) for _ in range(2))
    assert first["status"] in ("ok", "weak")
    assert compare({line: first}, {line: second}, ["init"]).differences == []


def test_an_error_is_an_answer_and_names_no_place_of_this_machine(tmp_path):
    answer = module.answer_of("init DATA/missing --vision truth:1,1", tmp_path, call_quietly)
    assert answer["error"] == "DatasetError: DATA/missing: no such file or folder; check the path."


def test_every_command_line_is_there_once_and_knows_its_recordings():
    lines = cases(PARTS)
    assert len(set(lines)) == len(lines)
    used = {word for line in lines for word in line.split() if word.startswith("SIMULATED/")}
    assert {word.removeprefix("SIMULATED/") for word in used} == set(SIMULATED)
    assert len(SIMULATED) > 20


def test_the_answers_of_version_0_11_are_those_of_these_command_lines():
    assert list(read_frozen(FROZEN_0_11)) == cases(PARTS)
