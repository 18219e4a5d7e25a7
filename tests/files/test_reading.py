"""Text and JSON from files of any content."""

import os

import pytest

from maci2.errors import CalibrationError, DatasetError
from maci2.files import read_bytes, read_json, read_lines, read_text


@pytest.mark.parametrize(
    "content",
    [
        b"a\nb\n",
        b"a\r\nb\r\n",
        b"a\rb",
        b"\xef\xbb\xbfa\nb",
        "a\nb\n".encode("utf-16"),
        b"\xfe\xff" + "a\nb\n".encode("utf-16-be"),
    ],
)
def test_lines_are_the_same_in_every_encoding_and_with_every_line_end(tmp_path, content):
    path = tmp_path / "text"
    path.write_bytes(content)
    assert read_lines(path, "two lines") == ["a", "b"]


def test_only_line_ends_separate_lines(tmp_path):
    path = tmp_path / "text"
    path.write_text("a\u2028b\x0cc\n\n", encoding="utf-8")
    assert read_lines(path, "a line") == ["a\u2028b\x0cc", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\nb\xe9\n", "text, line 2: byte 0xe9 is not UTF-8 text. Save the file as UTF-8"),
        (b"a\n\nb\0\n", "text, line 3: holds a zero byte, needed text"),
        (b"\xff\xfea", "text, line 1: byte 0x61 is not UTF-16-LE text"),
    ],
)
def test_what_is_not_text_is_named_with_its_line(tmp_path, content, message):
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(DatasetError) as raised:
        read_text(path, "words")
    assert message in str(raised.value)


def test_the_error_is_of_the_kind_asked_for_and_says_what_was_expected(tmp_path):
    with pytest.raises(CalibrationError, match="file not found; it should hold a calibration"):
        read_text(tmp_path / "absent", "a calibration", error=CalibrationError)
    with pytest.raises(DatasetError, match="is a folder, needed a file"):
        read_text(tmp_path, "words")
    with pytest.raises(DatasetError, match="file not found"):
        read_text(tmp_path / "absent" / "deeper", "words")
    with pytest.raises(DatasetError, match="cannot be opened"):
        read_text(tmp_path / ("a" * 300), "words")


def test_a_pipe_is_refused_at_once_although_nobody_writes_to_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DatasetError, match="is a device or a pipe"):
        read_bytes(tmp_path / "pipe", "bytes")


def test_a_file_beyond_the_limit_is_refused_with_both_sizes(tmp_path):
    path = tmp_path / "large"
    path.write_bytes(b"x" * 2_000_001)
    assert len(read_bytes(path, "bytes", limit=2_000_001)) == 2_000_001
    with pytest.raises(DatasetError, match=r"has 2.0 MB, needed at most 1.0 MB for bytes"):
        read_bytes(path, "bytes", limit=1_000_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n}', "line 2: is no JSON"),
        ("[1, 2]", "holds a JSON list, needed an object"),
        ("[" * 100_000, "is no usable JSON"),
        ('{"a": ' + "9" * 5000 + "}", "is no usable JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(tmp_path, text, message):
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(DatasetError) as raised:
        read_json(path, "a record")
    assert message in str(raised.value)
