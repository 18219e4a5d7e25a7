"""Renderings of experiments: taken where they are, made where they are not, never twice."""

from dataclasses import replace

from maci2.datasets import open_recording
from maci2_lab.experiments import recordings as module
from maci2_lab.experiments.recordings import Rendering, find_recordings, with_renderings
from maci2_lab.parallel import Pool

DRIVE = Rendering("drive_1", motion="driving", scene="street", duration_s=0.2, seed=1)
FLIGHT = Rendering("MH_02_rendered", "MH_02_easy", 2.0, duration_s=0.1)


def test_what_is_missing_is_rendered_once(simulated_root, tmp_path, monkeypatch):
    found = find_recordings(simulated_root)
    absent = replace(FLIGHT, name="nowhere", along="MH_04_difficult")
    there = with_renderings((DRIVE, FLIGHT, absent), found, tmp_path)
    assert set(there.by_name) == {*found.by_name, "drive_1", "MH_02_rendered"}
    drive = open_recording(there.by_name["drive_1"])
    assert len(drive.camera_stamps_ns[0]) == 4
    assert len(list((drive.path / "mav0" / "cam1" / "data").glob("*.png"))) == 4
    monkeypatch.setattr(module, "_render", lambda *_: (_ for _ in ()).throw(AssertionError))
    again = with_renderings((DRIVE, FLIGHT, absent), found, tmp_path)
    assert again.by_name == there.by_name


def test_several_workers_render_the_same_images(simulated_root, tmp_path):
    found, told = find_recordings(simulated_root), []
    one, two = (
        with_renderings(
            (DRIVE, FLIGHT),
            found,
            tmp_path / str(jobs),
            Pool(jobs),
            lambda name, done, total: told.append((name, done, total)),
        )
        for jobs in (1, 2)
    )
    for name in ("drive_1", "MH_02_rendered"):
        images = sorted((one.by_name[name] / "mav0").rglob("*.png"))
        assert images
        for image in images:
            other = two.by_name[name] / image.relative_to(one.by_name[name])
            assert image.read_bytes() == other.read_bytes()
    assert [(done, total) for _, done, total in told] == [(1, 2), (2, 2)] * 2
    assert {name for name, _, _ in told} == {"rendering drive_1", "rendering MH_02_rendered"}


def test_a_rendering_among_the_recordings_is_taken(simulated_root, tmp_path):
    found = find_recordings(simulated_root)
    there = with_renderings((replace(DRIVE, name="V1_01_easy"),), found, tmp_path)
    assert there.by_name == found.by_name
    assert list(tmp_path.iterdir()) == []
