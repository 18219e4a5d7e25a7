"""`--truth audited`: which truth is audited, that it is kept, and that nothing else is touched."""

from dataclasses import replace

import numpy as np
import pytest

from maci2.errors import OptionError
from maci2.sensors import truth_at
from maci2.tools.ground_truth import audit_files
from maci2.tools.ground_truth.audit import audit_ground_truth
from maci2.tools.ground_truth.audit_files import cached_audit, write_audit
from maci2.tools.ground_truth.choose import capture_noise, require_known_truths, with_audited
from maci2_lab.evaluation.truth_states import audited_or_none
from tools.ground_truth.faulty_truths import FAULTY, TruthFaults, recording_with


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "maci2" / "audits"


@pytest.fixture(scope="module")
def faulty():
    return recording_with(FAULTY, seed=1, duration_s=15.0)


def kept(cache):
    return sorted(cache.glob("*.npz"))


def test_an_audit_is_kept_and_read_back_to_the_last_bit(cache, faulty):
    fresh, again = cached_audit(faulty), cached_audit(faulty)
    assert len(kept(cache)) == 1
    for name in ("stamps_ns", "Ts_w_b", "v_w", "bias_gyro", "bias_acc"):
        assert np.array_equal(getattr(fresh.truth, name), getattr(again.truth, name))
    for name in ("states", "neighbours", "with_constants", "constants"):
        stored = getattr(fresh.truth.covariance, name)
        assert np.array_equal(stored, getattr(again.truth.covariance, name))
    assert again.findings == fresh.findings
    assert again.constants == fresh.constants
    assert again.position_noise == fresh.position_noise


def test_other_data_or_another_data_sheet_is_another_audit(cache, faulty, monkeypatch):
    monkeypatch.setattr(audit_files, "audit_capture", lambda *_: pytest.fail("audited again"))
    name, truth = next(iter(faulty.truths.items()))
    moved = replace(truth, v_w=truth.v_w + 1e-9)
    noise = replace(faulty.rig.imu, walk_acc=2.0 * faulty.rig.imu.walk_acc)
    for other in (
        replace(faulty, truths={name: moved}),
        replace(faulty, rig=replace(faulty.rig, imu=noise)),
    ):
        with pytest.raises(pytest.fail.Exception, match="audited again"):
            cached_audit(other)


def test_a_damaged_file_is_made_anew(cache, faulty):
    cached_audit(faulty)
    kept(cache)[0].write_bytes(b"no archive")
    assert cached_audit(faulty).findings


def test_a_cache_that_cannot_be_written_costs_time_only(tmp_path, faulty, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached_audit(faulty).findings


def test_audited_is_made_from_the_named_truth_or_the_first(cache):
    recording = recording_with(TruthFaults(), seed=2, duration_s=15.0)
    first = next(iter(recording.truths.values()))
    late = replace(first, stamps_ns=first.stamps_ns + 5_000_000, source="late")
    both = replace(recording, truths={"first": first, "second": late})
    assert with_audited(both, ("first",)).truths == both.truths
    assert with_audited(both, ("audited",)).truth(("audited",)).source == f"audited {first.source}"
    chosen = with_audited(both, ("audited", "second"))
    assert chosen.truth(("audited", "second")).source == "audited late"
    assert list(both.truths) == ["first", "second"]
    without = replace(recording, truths={})
    assert with_audited(without, ("audited",)).truth(("audited",)) is None


def test_audited_is_a_known_name_and_its_source_must_exist(cache, faulty):
    require_known_truths([faulty], ("audited",))
    with pytest.raises(OptionError, match="no such source"):
        with_audited(faulty, ("audited:vicon7",))
    with pytest.raises(OptionError, match="which no recording has"):
        require_known_truths([faulty], ("audited", "nothing"))


def test_covariance_of_a_pair_is_that_of_the_whole_chain(faulty):
    """A pair's covariance from neighbours and constants equals the dense inverse's."""
    truth = audit_ground_truth(faulty).truth
    cov = truth.covariance
    i, j = 40, 52
    # What the states at i and j share through constants and chain, by conditioning step by step.
    joint = cov.pairs(np.full(3, i), np.array([i, i + 1, j]))
    assert np.allclose(joint[0, :15, 15:], cov.states[i], rtol=1e-6, atol=1e-15)
    assert np.allclose(joint[1, :15, 15:], cov.neighbours[i], rtol=1e-6, atol=1e-12)
    assert np.linalg.eigvalsh(joint[2]).min() > -1e-12
    # Positions a second apart share nearly all of their error, not all of it.
    relative = joint[2, 6:9, 6:9] + joint[2, 21:24, 21:24] - 2.0 * joint[2, 6:9, 21:24]
    assert 0.0 < np.trace(relative) < 2.0 * np.trace(cov.states[j][6:9, 6:9])
    assert truth_at(truth, truth.stamps_ns[10:12], 0.1).covariance is cov


def test_a_folder_that_was_written_is_chosen_with_its_covariance(cache, faulty, tmp_path):
    audit = audit_ground_truth(faulty)
    folder = tmp_path / "written"
    write_audit(audit, folder)
    names = (str(folder),)
    require_known_truths([faulty], names)
    chosen = with_audited(faulty, names).truth(names)
    assert np.array_equal(chosen.covariance.states, audit.truth.covariance.states)
    assert np.array_equal(chosen.stamps_ns, audit.truth.stamps_ns)
    # What is scored against it is not audited again.
    assert audited_or_none(faulty, names).covariance is not None
    assert kept(cache) == []


def test_raw_capture_states_the_noise_of_motions_between_its_rows(cache):
    faults = TruthFaults(std_deg=0.1, std_mm=0.2)
    capture = recording_with(faults, seed=2, duration_s=15.0, velocities=False, every=4)
    rotation, translation = capture_noise(capture, ())
    assert rotation == pytest.approx(np.sqrt(2.0) * np.radians(0.1), rel=0.15)
    assert translation == pytest.approx(np.sqrt(2.0) * 2e-4, rel=0.25)


def test_a_smoothed_truth_adds_no_noise_to_motions_made_from_it(cache, faulty):
    assert capture_noise(faulty, ()) == (0.0, 0.0)
    assert capture_noise(replace(faulty, truths={}), ()) == (0.0, 0.0)
    assert kept(cache) == []
