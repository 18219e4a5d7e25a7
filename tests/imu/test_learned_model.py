"""The learned IMU model at run time: bundled files, checks, streaming."""

import hashlib
import json
from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from maci2.errors import DatasetError, OptionError
from maci2.imu import learned_model as model_module
from maci2.imu.learned_model import BLOCK, RECEPTIVE_FIELD, WEIGHTS, bundled_models, load_imu_model
from maci2.sensors import ImuSamples

NS = 1_000_000_000


def level_stream(seconds=20.0, rate_hz=200.0, seed=0, up=(9.1, 0.1, -3.5)):
    """A gently shaken IMU whose mean specific force is EuRoC's."""
    rng = np.random.default_rng(seed)
    n = int(seconds * rate_hz)
    t = np.arange(n) / rate_hz
    sway = np.stack([np.sin(0.7 * t), np.cos(1.1 * t), np.sin(0.5 * t)], axis=1)
    gyro = np.array([-0.002, 0.022, 0.078]) + 0.05 * sway + 1e-3 * rng.standard_normal((n, 3))
    acc = np.array(up) + 0.1 * sway + 0.02 * rng.standard_normal((n, 3))
    return ImuSamples(np.round(t * NS).astype(np.int64) + 10**18, gyro, acc, "test IMU")


@pytest.fixture(scope="module")
def euroc():
    return load_imu_model("euroc")


@pytest.mark.parametrize("name", sorted(bundled_models()))
def test_every_bundled_model_is_small_and_has_its_listed_checksum(name):
    file, digest = model_module._weight_files()[name]
    data = file.read_bytes()
    assert hashlib.sha256(data).hexdigest() == digest == bundled_models()[name]
    assert len(data) < 5_000_000
    card = load_imu_model(name).about
    assert card.name == name
    assert not set(card.trained_on) & set(card.tuned_on)
    assert name in load_imu_model(name).card()


def test_an_installed_package_adds_its_weights_by_an_entry_point(monkeypatch, tmp_path):
    folder = tmp_path / "more_weights"
    folder.mkdir()
    (folder / "__init__.py").touch()
    data = (WEIGHTS / "euroc.onnx").read_bytes()
    (folder / "euroc-other.onnx").write_bytes(data)
    line = f"{hashlib.sha256(data).hexdigest()}  euroc-other.onnx\n"
    (folder / "SHA256SUMS").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("other", "more_weights", model_module.FURTHER_WEIGHTS)
    monkeypatch.setattr(model_module, "entry_points", lambda group: [entry])
    assert set(bundled_models()) >= {"euroc", "tumvi", "euroc-other"}
    assert load_imu_model("euroc-other").about == load_imu_model("euroc").about


def test_a_baseline_that_is_not_installed_is_named_with_the_way_to_install_it(monkeypatch):
    bundled = {name: model_module._weight_files()[name] for name in ("euroc", "tumvi")}
    monkeypatch.setattr(model_module, "_weight_files", lambda: bundled)
    with pytest.raises(OptionError, match=r"euroc-paper.*pip install maci2-lab.*euroc, tumvi"):
        load_imu_model("euroc-paper")
    with pytest.raises(OptionError, match="neither a bundled IMU model"):
        load_imu_model("euroc-papers")


def test_test_recordings_are_in_no_bundled_model():
    kept_aside = ("MH_02", "MH_04", "V1_01", "V1_03", "V2_02", "room2", "room4", "room6")
    for name in bundled_models():
        about = load_imu_model(name).about
        used = " ".join(about.trained_on + about.tuned_on)
        assert not any(one in used for one in kept_aside)


def test_measurements_are_finite_positive_and_of_the_stream_s_length(euroc):
    samples = level_stream()
    measured = euroc.measure(samples)
    assert measured.gyro.shape == measured.var_acc.shape == samples.gyro.shape
    assert np.isfinite(measured.gyro).all()
    assert np.isfinite(measured.acc).all()
    assert (measured.var_gyro > 0).all()
    assert (measured.var_acc > 0).all()
    # The gyroscope's turn-on bias of 0.078 rad/s is gone to within its spread.
    assert np.abs(measured.gyro.mean(0)).max() < 0.01


def test_pieces_carry_the_state_and_give_what_the_whole_gives(euroc, monkeypatch):
    samples = level_stream(seconds=30.0)
    whole = euroc.measure(samples)
    monkeypatch.setattr(model_module, "CHUNK_BLOCKS", 37)
    pieces = euroc.measure(samples)
    np.testing.assert_allclose(pieces.gyro, whole.gyro, atol=1e-6)
    np.testing.assert_allclose(pieces.var_acc, whole.var_acc, rtol=1e-4)


def test_samples_beyond_the_look_ahead_change_nothing_before(euroc):
    samples = level_stream(seconds=8.0)
    cut = 900
    damaged = replace(samples, acc=samples.acc.copy(), gyro=samples.gyro.copy())
    damaged.acc[cut:] += 0.5
    damaged.gyro[cut:] += 0.1
    one, other = euroc.measure(samples), euroc.measure(damaged)
    causal = cut - euroc.about.lookahead_samples - BLOCK
    np.testing.assert_array_equal(one.acc[:causal], other.acc[:causal])
    np.testing.assert_array_equal(one.gyro[:causal], other.gyro[:causal])
    assert not np.array_equal(one.var_acc[causal:], other.var_acc[causal:])


def test_a_faster_imu_is_resampled_and_keeps_its_noise_density(euroc):
    slow, fast = level_stream(rate_hz=200.0), level_stream(rate_hz=400.0)
    ratio = np.median(euroc.measure(fast).var_acc / 400.0) / np.median(
        euroc.measure(slow).var_acc / 200.0
    )
    assert 0.5 < ratio < 2.0


@pytest.mark.parametrize("rate_hz", [100.0, 150.0, 2000.0])
def test_a_rate_the_model_does_not_take_is_refused(euroc, rate_hz):
    with pytest.raises(DatasetError, match=r"Hz; the model 'euroc' takes 196 to 1000 Hz"):
        euroc.measure(level_stream(seconds=4.0, rate_hz=rate_hz))


def test_another_order_of_axes_is_refused(euroc):
    samples = level_stream(up=(0.1, -3.5, 9.1))
    with pytest.raises(DatasetError, match="order and signs of the axes"):
        euroc.measure(samples)
    assert len(euroc.measure(samples, check_mounting=False).gyro) == len(samples)


def test_wrong_units_are_refused(euroc):
    samples = level_stream()
    with pytest.raises(DatasetError, match="looks like g"):
        euroc.measure(replace(samples, acc=samples.acc / 9.81))
    with pytest.raises(DatasetError, match="deg/s"):
        euroc.measure(replace(samples, gyro=np.degrees(samples.gyro)))


def test_a_gap_is_refused_and_located(euroc):
    samples = level_stream()
    stamps_ns = samples.stamps_ns.copy()
    stamps_ns[1000:] += NS // 2
    with pytest.raises(DatasetError, match=f"0.505 s after timestamp {stamps_ns[999]}"):
        euroc.measure(replace(samples, stamps_ns=stamps_ns))


def test_a_recording_shorter_than_the_receptive_field_is_refused(euroc):
    short = level_stream(seconds=(RECEPTIVE_FIELD - 1) / 200.0)
    with pytest.raises(DatasetError, match=f"needed at least {RECEPTIVE_FIELD}"):
        euroc.measure(short)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(OptionError, match="euroc"):
        load_imu_model("no_such_model")


def copy_of(name, tmp_path):
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(model_module._weight_files()[name][0].read_bytes())
    return path


def test_a_changed_file_is_refused_by_its_checksum(tmp_path):
    path = copy_of("euroc-paramnet", tmp_path)
    data = bytearray(path.read_bytes())
    digest = hashlib.sha256(data).hexdigest()
    path.with_name(path.name + ".sha256").write_text(f"{digest}  {path.name}\n")
    assert load_imu_model(path).about.form == "paramnet"
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(OptionError, match="SHA-256"):
        load_imu_model(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = copy_of("euroc", tmp_path)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(OptionError, match="not an ONNX file"):
        load_imu_model(path)


def test_weights_of_another_format_are_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = copy_of("euroc-paramnet", tmp_path)
    proto = onnx.load(str(path))
    for entry in proto.metadata_props:
        if entry.key == "maci2_imu_model":
            entry.value = json.dumps({**json.loads(entry.value), "format": 99})
    onnx.save(proto, str(path))
    with pytest.raises(OptionError, match="weight format 99"):
        load_imu_model(path)


def test_an_onnx_file_of_something_else_is_refused(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = copy_of("euroc-paramnet", tmp_path)
    proto = onnx.load(str(path))
    del proto.metadata_props[:]
    onnx.save(proto, str(path))
    with pytest.raises(OptionError, match="not an IMU model of maci2"):
        load_imu_model(path)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(tmp_path, value):
    onnx = pytest.importorskip("onnx")
    proto = onnx.load_from_string((WEIGHTS / "euroc.onnx").read_bytes())
    for tensor in proto.graph.initializer:
        numbers = onnx.numpy_helper.to_array(tensor)
        if numbers.dtype == np.float32:
            damaged = np.full_like(numbers, value)
            tensor.CopyFrom(onnx.numpy_helper.from_array(damaged, tensor.name))
    path = tmp_path / "nan.onnx"
    onnx.save(proto, str(path))
    with pytest.raises(OptionError, match="they give NaN or infinity"):
        load_imu_model(path)


def test_an_empty_checksum_file_is_passed_over(tmp_path):
    path = tmp_path / "own.onnx"
    path.write_bytes((WEIGHTS / "euroc.onnx").read_bytes())
    (tmp_path / "own.onnx.sha256").write_text("")
    assert load_imu_model(path).about.name
