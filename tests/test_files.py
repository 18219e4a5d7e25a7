"""Files appear whole or not at all."""

import pytest

from maci2.files import write_atomically


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_atomically(path, "one\n")
    write_atomically(path, b"two\n")
    assert path.read_bytes() == b"two\n"
    assert [file.name for file in path.parent.iterdir()] == ["b.txt"]


def test_nothing_is_left_behind_when_the_name_is_taken_by_a_folder(tmp_path):
    path = tmp_path / "b"
    (path / "full").mkdir(parents=True)
    with pytest.raises(OSError, match="b"):
        write_atomically(path, "x")
    assert [file.name for file in tmp_path.iterdir()] == ["b"]
