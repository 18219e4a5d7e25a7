"""Hard images: the grid, pooled numbers, claims, and one small rendering."""

from dataclasses import replace
from pathlib import Path

import pytest

from maci2.simulation.rendering.difficulty import HARD
from maci2_lab.experiments.hard_images import (
    DEGRADATIONS,
    HardImages,
    hard_images_findings,
    hard_images_tasks,
)
from maci2_lab.experiments.recordings import Recordings


def row(model, **numbers):
    numbers = {
        "poses": 50,
        "measured": 50,
        "beyond_5_sigma": 0.0,
        "nees": 1.0,
        "translation_m": 0.001,
        "windows": 4,
        "success": 1.0,
        "accepted_wrong": 0.0,
        "fused_translation_m": 0.002 if model == "learned" else 0.003,
        "fused_rotation_deg": 0.02,
    } | numbers
    return {"model": model, **numbers}


def record(kind, **learned):
    return {"task": {"kind": kind}, "rows": [row("learned", **learned), row("fixed")]}


def test_every_cell_of_the_grid_has_a_file_of_its_own():
    flights = Recordings(Path("."), {"V1_02_medium": Path("a"), "V2_03_difficult": Path("b")})
    tasks = hard_images_tasks(flights, 0, 5.0, 2, True)
    # The kind `hard` has one strength.
    assert len(tasks) == 2 * 2 * (2 * len(DEGRADATIONS) - 1)
    assert len({task.key for task in tasks}) == len(tasks)
    assert len(hard_images_tasks(flights, 0, 5.0, 1, False)) == 2 * len(DEGRADATIONS)
    assert tasks[-1].options["degrade"] == ""
    # Rooms of one kind differ, and so do the parts of the flight that they are built around.
    options = [task.options for task in tasks if task.options["recording"] == "V1_02_medium"]
    rooms = {(one["seed"], one["start_s"]) for one in options}
    assert rooms == {(10, 25.0), (11, 33.0)}


def test_numbers_are_pooled_by_kind_and_over_all():
    findings = hard_images_findings(
        [record("rain"), record("rain", measured=40, nees=2.25), record("darkness")]
    )
    [table] = findings.tables
    assert [line.label for line in table.lines][::2] == [
        "rain, learned",
        "darkness, learned",
        "all kinds, learned",
    ]
    rain = [cell.value for cell in table.lines[0].cells]
    assert rain[:3] == [2, 100, 90.0]
    assert rain[4] == pytest.approx((50 * 1.0 + 40 * 2.25) / 90)


def test_the_spread_over_rooms_stands_beside_the_mean():
    renderings = [record("rain", fused_translation_m=error) for error in (0.001, 0.003, 0.005)]
    findings = hard_images_findings(renderings)
    rain = findings.tables[0].lines[0]
    shown = dict(zip(findings.tables[0].columns, rain.cells, strict=True))
    assert (shown["fused [mm]"].text(), shown["its spread [mm]"].text()) == ("3.00", "2.00")
    # Fixed noise has 3 mm in each of them.
    assert findings.claims[0].text.endswith("lower in 1 of 3 rooms")
    [alone] = hard_images_findings([record("rain")]).tables
    assert alone.lines[0].cells[9].text() == "-"


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({}, []),
        ({"fused_translation_m": 0.0028}, ["all kinds: fused error 0.93"]),
        ({"fused_translation_m": 0.0032}, ["rain: fused", "all kinds: fused"]),
        ({"measured": 40}, ["80.0 % measured"]),
        ({"beyond_5_sigma": 0.02}, ["2.00 % beyond 5 sigmas"]),
        ({"nees": 3.0}, ["NEES 3.00"]),
        ({"success": 0.5}, ["init: 50.0 % right"]),
        ({"accepted_wrong": 0.25}, ["init: 25.0 % ok and wrong"]),
    ],
)
def test_claims_fail_where_they_should(change, failing):
    claims = hard_images_findings([record("rain", **change)]).claims
    wrong = [claim.text for claim in claims if not claim.holds]
    assert len(wrong) == len(failing)
    for text, start in zip(wrong, failing, strict=True):
        assert text.startswith(start)


def test_nothing_measured_is_no_table():
    assert hard_images_findings([{"task": {"kind": "rain"}, "rows": []}]).tables == []


def test_a_task_names_all_that_decides_it():
    rain = HardImages("V1_02_medium", Path("x"), "rain", "rain=3", 25.0, 4.0, 1)
    assert replace(rain, degrade="").difficulty == HARD
    assert rain.task().options == {
        "recording": "V1_02_medium",
        "kind": "rain",
        "degrade": "rain=3",
        "start_s": 25.0,
        "duration_s": 4.0,
        "seed": 1,
    }
