"""Tables: the file that was named, every column where its heading says, every fault by its line."""

import numpy as np
import pytest

from maci2.datasets.tables import read_table
from maci2.errors import DatasetError

REQUIRED = {"x": ("x", "px"), "y": ("y",)}
FILES = {"file": ("filename",)}
GOOD = "#timestamp [ns],x [m],y\n1,0.5,2\n2,1.5,3\n"


def table(tmp_path, content, **more):
    path = tmp_path / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_table(path, "positions", REQUIRED, {}, **more)


def message_of(tmp_path, content):
    with pytest.raises(DatasetError) as raised:
        table(tmp_path, content)
    assert "data.csv" in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        "\ufeff" + GOOD,
        GOOD.encode("utf-16"),
        GOOD.replace("1,0.5,2", '"1","0.5", "2"'),
        '"timestamp","x","y"\n' + GOOD.partition("\n")[2],
        GOOD.replace("0.5,2\n", "0.5,2,,\n\n , ,\n"),
        "y,t,x\n".replace("y,t,x", "t,y,px") + "1,2,0.5\n2,3,1.5\n",
        "1,0.5,2\n2,1.5,3",
    ],
    ids=["plain", "crlf", "bom", "utf-16", "quotes", "quoted heads", "blank", "order", "no heads"],
)
def test_one_table_written_in_many_ways_reads_the_same(tmp_path, content):
    read = table(tmp_path, content)
    np.testing.assert_array_equal(read.stamps_ns, [1, 2])
    np.testing.assert_array_equal(read.vector("", "xy"), [[0.5, 2.0], [1.5, 3.0]])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.5,3", '1.5,"3', "line 3: column y holds '\"3', needed a number"),
        ("1.5,3", "1.5", "line 3: column y holds nothing, needed a number"),
        ("1.5,3", "1.5,3,4", "line 3: has 4 fields, needed 3: timestamp, x, y"),
        ("1.5,3", "1.5,1e308", "line 3: y is 1e+308, needed at most 1e+09"),
        ("2,1.5", "2.5,1.5", "line 3: column timestamp holds '2.5', needed an integer"),
        ("2,1.5", "9223372036854775808,1.5", "needed an integer of nanoseconds"),
        ("2,1.5", "9223372036854775807,1.5", "106752.0 days; needed 0 or later, and at most 30"),
        ("1,0.5", "-1,0.5", "timestamps run from -1 to 2 ns"),
        ("1.5,3", "1_5,3", "line 3: column x holds '1_5'"),
        ("1.5,3", "1.5,\u0663", "line 3: column y holds '\u0663'"),
        ("x [m]", "z", "line 1: no column 'x'; found timestamp, z, y; needed timestamp, x, y"),
        ("#timestamp [ns],", "", "line 1: the first column is 'x'"),
        (",", ";", "line 1: the first column is 'timestamp;x;y'"),
        ("1.5,3", "1.5,\xe9", "needed a number"),
    ],
)
def test_a_fault_is_named_with_its_line(tmp_path, old, new, message):
    assert message in message_of(tmp_path, GOOD.replace(old, new))


def test_bytes_that_are_no_text_are_named_with_their_line(tmp_path):
    content = GOOD.encode()
    assert "line 2: byte 0xe9" in message_of(tmp_path, content.replace(b"0.5", b"0.5\xe9"))
    assert "line 3: holds a zero byte" in message_of(tmp_path, content.replace(b"1.5", b"1\x005"))


def test_a_file_without_heads_and_with_a_column_too_many_is_refused(tmp_path):
    assert "no column" not in message_of(tmp_path, "1,0.5,2\n2,1.5,3,7,8\n")


@pytest.mark.parametrize("name", ["run[1]", "run*", "run?", "~", "a b", "ü"])
def test_the_path_is_never_taken_as_a_pattern(tmp_path, name):
    """Next to a folder `run1`, a recording in `run[1]` once gave run1's samples."""
    for folder, number in (("run1", "7"), (name, "9")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(GOOD.replace("1.5", number))
    read = read_table(tmp_path / name / "data.csv", "positions", REQUIRED, {})
    assert read.columns["x"][1] == 9.0


def test_columns_of_text_are_kept_as_they_are(tmp_path):
    content = "#timestamp [ns],filename\n1,a b.png\n2,\n3,3.png\n"
    path = tmp_path / "data.csv"
    path.write_text(content)
    read = read_table(path, "images", {}, {}, FILES)
    assert read.texts == {"file": ["a b.png", "", "3.png"]}
    path.write_text("1,1.png\n2,2.png\n")
    assert read_table(path, "images", {}, {}, FILES).texts == {"file": ["1.png", "2.png"]}
    path.write_text("#timestamp [ns]\n1\n2\n")
    assert read_table(path, "images", {}, {}, FILES).texts == {}
