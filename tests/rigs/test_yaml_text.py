"""Text of calibration files: what people's editors leave in them, and what must not hang."""

import json

import pytest

from maci2.errors import CalibrationError
from maci2.rigs.yaml_files import MAX_DEPTH, OpenSchema, load_yaml, validate


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "rig.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path):
    return load_yaml(path, "a calibration")


def refusal(path):
    with pytest.raises(CalibrationError) as raised:
        read(path)
    assert str(path) in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize(
    "text",
    [
        "%YAML:1.0\n---\na: 1.5\nb: [1, 2]\n",
        "%YAML 1.0\n---\na: 1.5\nb: [1, 2]\n",
        "# first\n%YAML:1.0\na: 1.5\nb: [1, 2]\n",
        "\ufeff%YAML:1.0\r\n---\r\na: 1.5\r\nb: [1, 2]\r\n",
        "a: 1.5\nb:[1, 2]\n",
        "a:1.5\nb: [1, 2]\n",
        "%YAML:1.0\na:1.5\nb:[1, 2]\n",
        "a: 1.5\t# tab before a comment\nb:\t[1,\t2]\n",
        '{"a": 1.5, "b": [1, 2]}',
        '\n{"a": 1.5, "b": [1, 2]}\n',
        "a: 15e-1\nb: [1, 2]\n---\nc: 3\n",
    ],
)
def test_one_content_is_read_from_many_ways_of_writing_it(write, text):
    assert read(write(text)) == {"a": 1.5, "b": [1, 2]}


def test_matrices_of_opencv_are_read_with_their_tag(write):
    text = "%YAML:1.0\nT: !!opencv-matrix\n   rows: 1\n   cols: 2\n   dt: d\n   data: [ 1., 2. ]\n"
    assert read(write(text))["T"]["data"] == [1.0, 2.0]


def test_dates_stay_text_and_numbers_with_an_exponent_are_numbers(write):
    data = read(write("bag: 2016-10-22\nnoise: 1e-3\nwalk: 3.e-03\n"))
    assert data == {"bag": "2016-10-22", "noise": 0.001, "walk": 0.003}


def test_bytes_that_are_no_text_are_let_pass_in_comments_and_named_elsewhere(write):
    assert read(write(b"a: 1 # 90\xb0 to the left\n")) == {"a": 1}
    assert "line 2: byte 0xb0 is not UTF-8" in refusal(write(b"a: 1\nb: 90\xb0\n"))


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_nesting_is_bounded(write, opening):
    closing = {"[": "]", "{a: ": "}"}[opening]
    text = "a: " + opening * 500 + "1" + closing * 500
    assert f"line 1: not a YAML file: values are nested deeper than {MAX_DEPTH}" in refusal(
        write(text)
    )
    for depth in (500, 100_000):
        deep = '{"a": ' + "[" * depth + "]" * depth + "}"
        assert f"nested deeper than {MAX_DEPTH}" in refusal(write(deep))


def test_references_that_multiply_are_refused_at_once(write):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join(9 * [f'*a{i - 1}'])}]" for i in range(1, 12)]
    assert "more than 200000 values" in refusal(write("\n".join(lines)))
    assert "stands inside what it refers to" in refusal(write("a: &a [1, *a]\n"))


def test_a_reference_as_pythons_yaml_writes_it_is_read(write):
    assert read(write("a: &id001 [1, 2]\nb: *id001\n"))["b"] == [1, 2]


def test_sizes_are_bounded(write):
    assert "needed at most 1" in refusal(write("a: " + 2_000_000 * "x"))
    assert "5.0 MB" in refusal(write(b" " * 6_000_000))


def test_a_value_that_stands_twice_is_refused_only_where_it_is_needed(write):
    class Needed(OpenSchema):
        a: float

    path = write("a: 1\nb: 1\nb: 2\na: 1\n")
    assert validate(Needed, read(path), path).a == 1.0
    path = write("a: 1\nb: 1\na: 2\n")
    with pytest.raises(CalibrationError, match=r"line 3: key 'a' occurs twice"):
        validate(Needed, read(path), path)
    path = write('{"a": 1, "a": 2}')
    with pytest.raises(CalibrationError, match=r"key 'a' occurs twice"):
        validate(Needed, read(path), path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("x", "key 'a' is 'x', needed a number"),
        (None, "key 'a' is None, needed a number"),
        ([1, 2], "key 'a' is a list of 2, needed a number"),
        ({"b": 1}, "key 'a' is a group of 1 keys, needed a number"),
        (".inf", "key 'a' is inf, needed a finite number"),
        ("y" * 1000, "key 'a' is 'yyyy"),
    ],
)
def test_wrong_values_are_named_in_plain_words(write, value, words):
    class Needed(OpenSchema):
        a: float

    path = write(f"a: {json.dumps(value) if value != '.inf' else value}\n")
    with pytest.raises(CalibrationError) as raised:
        validate(Needed, read(path), path)
    assert words in str(raised.value)
    assert len(str(raised.value)) < len(str(path)) + 160
    assert "Input should be" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "kind"), [("", "nothing"), ("- 1\n", "a list"), ("3\n", "a number")]
)
def test_what_holds_no_keys_is_named(write, text, kind):
    assert f"holds {kind}, needed keys and values" in refusal(write(text))


def test_the_place_of_a_fault_is_named(write):
    assert "line 4: not a YAML file" in refusal(write("a: 1\nb: 2\nc: [1, 2\nd: }\n"))
    folder = write("a: 1").parent
    assert "is a folder, needed a file" in refusal(folder)
    assert "file not found" in refusal(folder / "absent.yaml")
