"""Arrays from .npz files: checked before memory is taken, never pickled."""

import io
import zipfile

import numpy as np
import pytest

from fuzzing import BINARY, fuzz
from maci2.errors import MeasurementError
from maci2.files import NpzField, read_npz, write_npz

FIELDS = {
    "stamps_ns": NpzField("iu", ("m", 2)),
    "cov": NpzField("f", ("m", 6, 6)),
    "frame": NpzField("U", ()),
    "reasons": NpzField("U", ("m",), optional=True),
}
ARRAYS = {
    "stamps_ns": np.array([[1, 2], [2, 3]]),
    "cov": np.arange(72, dtype=np.float32).reshape(2, 6, 6),
    "frame": "rectified",
}


@pytest.fixture
def path(tmp_path):
    write_npz(tmp_path / "poses.npz", ARRAYS)
    return tmp_path / "poses.npz"


def message_of(path):
    with pytest.raises(MeasurementError) as raised:
        read_npz(path, FIELDS, "relative poses")
    return str(raised.value)


def test_arrays_are_read_as_they_were_written(path):
    arrays = read_npz(path, FIELDS, "relative poses")
    np.testing.assert_array_equal(arrays["stamps_ns"], ARRAYS["stamps_ns"])
    np.testing.assert_array_equal(arrays["cov"], ARRAYS["cov"])
    assert str(arrays["frame"]) == "rectified"
    assert "reasons" not in arrays


def test_columns_first_and_foreign_byte_order_are_read_as_well(tmp_path):
    path = tmp_path / "a.npz"
    cov = np.asfortranarray(ARRAYS["cov"].astype(">f8"))
    write_npz(path, ARRAYS | {"cov": cov, "reasons": ["", "dark"]})
    arrays = read_npz(path, FIELDS, "relative poses")
    np.testing.assert_array_equal(arrays["cov"], ARRAYS["cov"])
    assert arrays["cov"].dtype == np.float64
    assert arrays["reasons"].tolist() == ["", "dark"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"cov": np.zeros((3, 6, 6))}, "cov has shape (3, 6, 6), needed (2, 6, 6)"),
        ({"cov": np.zeros((2, 36))}, "cov has shape (2, 36), needed (2, 6, 6)"),
        ({"stamps_ns": np.zeros((2, 2))}, "stamps_ns: holds float64, needed integers"),
        ({"frame": np.array({"a": 1}, dtype=object)}, "frame: holds object, needed text"),
    ],
)
def test_an_array_of_another_kind_or_shape_is_refused(path, changed, message):
    np.savez(path, **(ARRAYS | changed), allow_pickle=True)
    assert message in message_of(path)


def test_a_missing_array_is_named_beside_those_found(path):
    np.savez(path, stamps_ns=ARRAYS["stamps_ns"], other=1)
    assert "lacks cov, frame; holds other, stamps_ns" in message_of(path)


def test_a_header_that_states_51_gigabytes_is_refused_by_the_size_of_the_file(path):
    content = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (178_000_000, 6, 6)}
    np.lib.format.write_array_header_1_0(content, header)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("reasons.npy", content.getvalue())
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (entries | {"cov.npy": content.getvalue()}).items():
            archive.writestr(name, data)
    assert "needs 51264000000 bytes, found 0" in message_of(path)


def test_a_small_file_that_unpacks_to_gigabytes_is_refused(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("stamps_ns", "cov", "frame"):
            archive.writestr(f"{name}.npy", bytes(100_000_000))
    assert path.stat().st_size < 1_000_000
    assert "would unpack to 300 MB" in message_of(path)


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all"])
def test_what_is_no_archive_is_refused(path, content):
    path.write_bytes(content)
    assert "is no readable .npz file" in message_of(path)


def test_damaged_files_raise_nothing_else(path):
    assert fuzz(lambda: read_npz(path, FIELDS, "poses"), path, 60, mutators=BINARY) == []
