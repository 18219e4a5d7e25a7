"""Files appear whole or not at all, and nothing but a regular file is ever replaced."""

import errno
import os
import stat
from pathlib import Path

import pytest

from maci2.errors import OutputError
from maci2.files import whole_folder, write_atomically, write_json, write_together


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def test_a_file_is_written_with_its_folders_and_replaced(tmp_path):
    path = tmp_path / "a" / "b.txt"
    write_atomically(path, "one\n")
    write_atomically(path, b"two\n")
    assert path.read_bytes() == b"two\n"
    assert names(path.parent) == ["b.txt"]


def test_nothing_is_left_behind_when_the_name_is_taken_by_a_folder(tmp_path):
    (tmp_path / "b").mkdir()
    with pytest.raises(OutputError, match="b: is a folder, needed the name of a file"):
        write_atomically(tmp_path / "b", "x")
    assert names(tmp_path) == ["b"]


def test_a_pipe_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OutputError, match="is a device, a pipe"):
        write_json(pipe, {})
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_is_never_replaced_not_even_behind_a_link(tmp_path):
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    for path in (Path("/dev/full"), link):
        with pytest.raises(OutputError, match="nothing was written"):
            write_json(path, {})
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert link.is_symlink()


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path):
    (tmp_path / "run-7.json").write_text("old")
    (tmp_path / "latest.json").symlink_to("run-7.json")
    write_atomically(tmp_path / "latest.json", "new")
    assert (tmp_path / "latest.json").is_symlink()
    assert (tmp_path / "run-7.json").read_text() == "new"


def test_permissions_of_a_replaced_file_stay(tmp_path):
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "path",
    ["file/inside", "a" * 300, "zero\0byte", "loop"],
    ids=["in a file", "long", "zero", "loop"],
)
def test_a_name_that_cannot_be_written_is_one_clear_error(tmp_path, path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    before = names(tmp_path)
    with pytest.raises(OutputError, match=r"cannot be written \(.*\); nothing was changed"):
        write_atomically(tmp_path / path, "x")
    assert names(tmp_path) == before


def test_a_full_disk_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(handle, mode):
        os.close(handle)
        return open("/dev/full", mode, buffering=0)

    monkeypatch.setattr("maci2.files.os.fdopen", full)
    with pytest.raises(OutputError, match="no space left on device"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert names(tmp_path) == ["result.json"]


def test_files_of_one_result_appear_together(tmp_path):
    paths = {tmp_path / "a": "1", tmp_path / "deep" / "b": b"2"}
    write_together(paths)
    assert [path.read_text() for path in paths] == ["1", "2"]


def test_one_file_that_cannot_be_written_keeps_back_the_others(tmp_path):
    (tmp_path / "taken").mkdir()
    with pytest.raises(OutputError, match="taken: is a folder"):
        write_together({tmp_path / "a": "1", tmp_path / "taken": "2"})
    assert names(tmp_path) == ["taken"]


def test_a_rename_that_fails_puts_back_what_was_there(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")
    rename = os.replace

    def fail_at_c(source, target):
        if Path(target).name == "c":
            raise PermissionError(13, "Permission denied")
        rename(source, target)

    monkeypatch.setattr("maci2.files.os.replace", fail_at_c)
    with pytest.raises(OutputError, match="c: cannot be written"):
        write_together({tmp_path / name: "new" for name in "abc"})
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_an_interrupt_right_after_a_rename_takes_it_back(tmp_path, monkeypatch):
    (tmp_path / "b").write_text("old")
    real = os.replace

    def interrupted(source, target):
        real(source, target)
        if Path(target).name == "b" and Path(target).read_text() == "new":
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_together({tmp_path / "a": "new", tmp_path / "b": "new", tmp_path / "c": "new"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("b", "old")]


def test_a_folder_appears_when_all_of_it_is_written(tmp_path):
    folder = tmp_path / "a" / "result"
    with whole_folder(folder) as unfinished:
        (unfinished / "x").write_text("1")
        assert not folder.exists()
    assert (folder / "x").read_text() == "1"
    assert names(folder.parent) == ["result"]


def test_a_folder_that_is_not_finished_leaves_nothing_behind(tmp_path):
    def write_half():
        with whole_folder(tmp_path / "result") as unfinished:
            (unfinished / "x").write_text("1")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half"):
        write_half()
    assert names(tmp_path) == []


def test_a_folder_is_never_written_over(tmp_path):
    (tmp_path / "result").mkdir()
    (tmp_path / "result" / "mine").write_text("1")
    with pytest.raises(OutputError, match="not an empty folder"), whole_folder(tmp_path / "result"):
        pass
    assert names(tmp_path / "result") == ["mine"]


def test_content_is_on_the_disk_before_its_name_and_the_name_before_the_return(
    tmp_path, monkeypatch
):
    """What a power cut leaves: the order of calls is all that can be tested of it."""
    done = []
    replace, sync = os.replace, os.fsync

    def synced(handle):
        done.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        sync(handle)

    def renamed(source, target):
        done.append(("rename", str(source)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    write_together({tmp_path / "a": "one", tmp_path / "b": "two"})
    renames = [k for k, (kind, _) in enumerate(done) if kind == "rename"]
    written = {name for kind, name in done[: renames[0]] if kind == "sync"}
    assert {done[k][1] for k in renames} == written
    assert done[-1] == ("sync", str(tmp_path))


def test_a_whole_folder_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    synced = []
    sync = os.fsync

    def synced_so_far(handle):
        synced.append((os.path.basename(os.readlink(f"/proc/self/fd/{handle}")), names(tmp_path)))
        sync(handle)

    monkeypatch.setattr(os, "fsync", synced_so_far)
    with whole_folder(tmp_path / "out") as temporary:
        (temporary / "data").mkdir()
        (temporary / "data" / "0.png").write_bytes(b"image")
    before = {name for name, there in synced if "out" not in there}
    assert {"0.png", "data"} < before
    assert synced[-1] == (tmp_path.name, ["out"])


def test_a_file_system_that_cannot_sync_folders_is_written_all_the_same(tmp_path, monkeypatch):
    sync = os.fsync

    def only_files(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "no folders")
        sync(handle)

    monkeypatch.setattr(os, "fsync", only_files)
    write_atomically(tmp_path / "a", "x")
    assert (tmp_path / "a").read_text() == "x"
