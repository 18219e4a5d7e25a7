"""Where compiled kernels are kept."""

import os

import pytest

from maci2.jit import cache

FOLDER = "kernels-0123"


@pytest.fixture(autouse=True)
def two_places(monkeypatch, tmp_path):
    """First beside the package, then the user's."""
    bases = [tmp_path / "package", tmp_path / "user"]
    monkeypatch.setattr(cache, "_bases", lambda: bases)
    monkeypatch.setattr(cache, "_digest", lambda: "0123")
    cache.cache_folder.cache_clear()
    yield bases
    cache.cache_folder.cache_clear()


@pytest.fixture
def forbid(monkeypatch):
    """Makes folders unwritable, whoever runs the test."""
    forbidden = []
    writable = cache._is_writable
    monkeypatch.setattr(
        cache, "_is_writable", lambda path: path.parent not in forbidden and writable(path)
    )
    return forbidden.append


def fill(base):
    (base / FOLDER / "imu").mkdir(parents=True)
    (base / FOLDER / "imu" / "one.nbi").write_text("kernel")
    (base / FOLDER / "initialize.filled").touch()


def test_kernels_are_kept_beside_the_package(two_places):
    assert cache.cache_folder() == two_places[0] / FOLDER
    assert not cache.is_filled("initialize")


def test_kernels_of_a_package_that_cannot_be_written_to_are_the_users(two_places, forbid):
    forbid(two_places[0])
    assert cache.cache_folder() == two_places[1] / FOLDER


def test_without_any_place_there_is_no_folder_and_nothing_is_filled(two_places, forbid):
    forbid(two_places[0])
    forbid(two_places[1])
    assert cache.cache_folder() is None
    assert not cache.is_filled("initialize")


def test_what_was_filled_in_advance_is_read_where_it_is(two_places, forbid):
    fill(two_places[0])
    forbid(two_places[0])
    assert cache.cache_folder() == two_places[1] / FOLDER
    assert cache.is_filled("initialize")
    forbid(two_places[1])
    cache.cache_folder.cache_clear()
    assert cache.cache_folder() is None
    assert cache.is_filled("initialize")


@pytest.mark.skipif(os.name == "nt", reason="file modes")
def test_a_folder_under_a_file_is_not_writable(tmp_path):
    (tmp_path / "file").touch()
    assert not cache._is_writable(tmp_path / "file" / FOLDER)


def test_a_change_in_any_source_of_kernels_gives_another_folder(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    kernels, other = tmp_path / "so3.py", tmp_path / "page.py"
    kernels.write_text("from maci2.jit import kernel\nA = 1\n")
    other.write_text("A = 1\n")

    def digest():
        cache._digest.cache_clear()
        return cache._digest()

    before = digest()
    other.write_text("A = 2\n")
    assert digest() == before
    kernels.write_text("from maci2.jit import kernel\nA = 2\n")
    assert digest() != before
    cache._digest.cache_clear()
