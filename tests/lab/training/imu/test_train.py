"""Training end to end on simulated recordings: splits, resume, stages, export."""

import signal
from dataclasses import replace

import numpy as np
import pytest

from bag_files import ODOMETRY, recording_items, write_items
from maci2.datasets import open_recording, write_euroc
from maci2.errors import DatasetError, OptionError
from maci2.imu import BiasPrior, datasheet_model
from maci2.imu.learned_model import FORMAT, UNITS, ModelCard, load_imu_model
from maci2.rigs import write_rig
from maci2.simulation import SimulationConfig, simulate
from maci2_lab.evaluation.audited_integration import AuditedWindows
from maci2_lab.evaluation.imu_report import imu_report, model_predictor, unlearned_predictor
from maci2_lab.training.imu.data import Windows
from maci2_lab.training.imu.export import disagreement, to_onnx
from maci2_lab.training.imu.likelihood import (
    ErrorModel,
    errors,
    integrate_windows,
    negative_log_likelihood,
)
from maci2_lab.training.imu.network import build
from maci2_lab.training.imu.recipes import FORMS, Recipe, form_named
from maci2_lab.training.imu.stages import TrainingConfig
from maci2_lab.training.imu.train import load_tracks, train_imu

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")
pytest.importorskip("onnx")

# Lightning and torch warn about each other.
pytestmark = pytest.mark.filterwarnings("ignore")


TINY = TrainingConfig(epochs=2, held_out_epochs=1, steps_per_epoch=2, batch_size=4)
NAMES = ("sim_a", "sim_b", "sim_c")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Three simulated flights of one IMU."""
    root = tmp_path_factory.mktemp("recordings")
    for seed, name in enumerate(NAMES):
        config = SimulationConfig(
            kind="drone", duration_s=22.0, seed=seed, bias_gyro_std=2e-3, bias_acc_std=0.03
        )
        write_euroc(simulate(config), root / name)
    return root


@pytest.fixture(scope="module")
def recipe():
    return Recipe("sim", NAMES[:2], NAMES[2:], {"sim": "exact"})


def small_card():
    return ModelCard(
        format=FORMAT, name="x", form="paper", package_version="0", seed=0, trained_on=["a"],
        tuned_on=[], rate_hz=200.0, rate_tolerance=0.02, units=UNITS, lookahead_samples=12,
        mean_force=(1.0, 0.0, 0.0), max_force_angle_deg=60.0, turn_on_mean=[], turn_on_std=[],
        rest_shift_mean=[], rest_shift_std=[], correction_kept=[], bias_mean=[0.0] * 6,
        bias_std=[], cov_0=[], label_noise={}, truth_kinds={}, figures={}, limits=[],
    )  # fmt: skip


def weights(path):
    samples = torch.randn(1, 9 * 30 + 16, 6, generator=torch.Generator().manual_seed(0)).numpy()
    model = load_imu_model(path)
    states = [np.zeros((1, 1, e.shape[-1]), np.float32) for e in model.session.get_inputs()[1:]]
    feed = {"samples": samples, "state_1": states[0], "state_2": states[1]}
    return np.concatenate([one.ravel() for one in model.session.run(None, feed)[:2]])


def test_recordings_to_train_on_may_be_bags(data, recipe, tmp_path):
    recording = open_recording(data / NAMES[0])
    write_items(
        tmp_path / "sim_a.bag",
        "ros1",
        lambda bag: recording_items(bag, recording, truth="/odom", kind=ODOMETRY),
    )
    write_rig(tmp_path / "rig", recording.rig, "kalibr")
    of_bags = Recipe(
        "sim", ("sim_a.bag",), (), {"sim": "exact"}, rig=tmp_path / "rig", topics="truth=/odom"
    )
    (track,) = load_tracks(of_bags, of_bags.train, tmp_path)
    (own,) = load_tracks(recipe, NAMES[:1], data)
    assert track.name == own.name
    np.testing.assert_array_equal(track.imu.gyro, own.imu.gyro)
    np.testing.assert_allclose(track.published.v_w, own.published.v_w, atol=1e-12)


def test_training_writes_a_model_that_runs_and_reports(data, recipe, tmp_path):
    path = tmp_path / "sim.onnx"
    card = train_imu(recipe, data, path, "separated", tmp_path / "work", TINY, progress=False)
    assert card.trained_on == list(NAMES[:2])
    assert card.tuned_on == [NAMES[2]]
    assert (tmp_path / "work" / "first" / "log" / "version_0" / "metrics.csv").is_file()
    model = load_imu_model(path)
    assert np.isfinite(model.bias_prior.std_gyro).all()
    assert not model.about.cov_0
    report = imu_report(
        [open_recording(data / NAMES[2])],
        {"sim": model_predictor(model), "raw": unlearned_predictor("datasheet")},
        growth_s=(0.25, 1.0),
        bins=5,
    )
    numbers = report["sequences"][NAMES[2]]["models"]["sim"]
    assert set(numbers["nees"]["0.25"]) == {"rotation", "velocity", "position"}
    assert numbers["rms"]["1.0"]["velocity"] < report["average"]["raw"]["rms"]["1.0"]["velocity"]
    assert [len(rows) for rows in report["bins"]["sim"]["1.0"].values()] == [5, 5, 5]


class Stop(Exception):
    pass


@pytest.mark.parametrize(("stop_at", "stop"), [(2, Stop), (3, KeyboardInterrupt)])
def test_resuming_after_an_interruption_gives_the_same_weights(
    data, recipe, tmp_path, stop_at, stop
):
    whole, resumed = tmp_path / "whole.onnx", tmp_path / "resumed.onnx"
    train_imu(recipe, data, whole, "paper", tmp_path / "a", TINY, progress=False)

    from maci2_lab.training.imu import stages as training

    original, handler = training.Trainee.training_step, signal.getsignal(signal.SIGINT)

    def interrupted(self, step, index):
        if self.stage == "first" and self.global_step == stop_at:
            raise stop
        return original(self, step, index)

    training.Trainee.training_step = interrupted
    try:
        with pytest.raises(stop):
            train_imu(recipe, data, resumed, "paper", tmp_path / "b", TINY, progress=False)
    finally:
        training.Trainee.training_step = original
    assert signal.getsignal(signal.SIGINT) is handler
    assert not resumed.exists()
    assert (tmp_path / "b" / "first" / "last.ckpt").is_file()
    train_imu(recipe, data, resumed, "paper", tmp_path / "b", TINY, progress=False)
    np.testing.assert_allclose(weights(resumed), weights(whole), atol=1e-6)


def test_a_training_folder_may_be_moved_between_two_runs(data, recipe, tmp_path):
    """The best epoch comes before the move: what follows must not replace it."""
    from maci2_lab.training.imu.stages import Trainee, run_stage

    tracks = load_tracks(recipe, NAMES[2:], data)
    windows = Windows(tracks, 2, (0.0, 1.0))
    form = FORMS["paramnet"]

    def run(folder, epochs, step):
        torch.manual_seed(0)
        model = build(form, torch.zeros(6), torch.ones(6), torch.full((6,), 1e-2))
        config = replace(TINY, epochs=epochs, learning_rate=step)
        error_model = ErrorModel(form, torch.ones(6))
        run_stage(Trainee(model, error_model, config, "first", windows, windows), folder, False)
        return model.constant.detach().clone()

    best = run(tmp_path / "here", 1, 1e-3)
    (tmp_path / "here").rename(tmp_path / "there")
    # Steps of 10 rad/s damage every later epoch.
    last = torch.load(tmp_path / "there" / "last.ckpt", weights_only=False)
    for group in last["optimizer_states"][0]["param_groups"]:
        group["first_lr"] = 10.0
    torch.save(last, tmp_path / "there" / "last.ckpt")
    assert torch.equal(run(tmp_path / "there", 3, 10.0), best)


def test_training_expects_the_errors_that_a_report_does(data, recipe):
    """Errors and covariance of training windows are those of `audited_windows`."""
    tracks = load_tracks(recipe, NAMES[2:], data)
    batch = Windows(tracks, 1, (0.0, 1.0)).batch(np.arange(40, 43))
    raw = datasheet_model(tracks[0].imu, tracks[0].noise)
    variance = torch.tensor(np.r_[raw.var_gyro[0], raw.var_acc[0]], dtype=torch.float32)
    spread = torch.tensor([1e-3] * 3 + [0.02] * 3)
    for name in ("separated", "paper"):
        form = FORMS[name]
        model = build(form, torch.zeros(6), torch.ones(6), variance).eval()
        with torch.no_grad():
            found, log_variance = integrate_windows(model, batch)
            error_model = ErrorModel(form, spread)
            e, cov = errors(found, batch), error_model(found, batch)
        expected_log = np.log(raw.var_acc[0]).mean()
        np.testing.assert_allclose(log_variance, expected_log, rtol=1e-5)
        own = replace(raw, cov_0=error_model.cov_0().detach().numpy()) if name == "paper" else raw
        prior = BiasPrior(std_gyro=spread[:3], std_acc=spread[3:]) if form.bias_spread else None
        for k, steps in enumerate((3, 10, 25)):
            first = np.arange(40, 43)
            seen, own_cov = tracks[0].audited.seen_and_own(first, first + steps)
            states = tracks[0].audited.states
            windows = AuditedWindows(states, first, first + steps, seen, own_cov, 0)
            expected = windows.errors(own)
            np.testing.assert_allclose(e[:, k], expected.e, rtol=1e-5, atol=1e-7)
            scale = np.sqrt(np.einsum("mii->mi", windows.cov(expected, prior)))
            apart = (cov[:, k].numpy() - windows.cov(expected, prior)) / (
                scale[:, :, None] * scale[:, None, :]
            )
            assert np.abs(apart).max() < 1e-3


def test_the_held_out_stage_moves_uncertainties_only(data, recipe, tmp_path):
    form = FORMS["paper"]
    torch.manual_seed(0)
    model = build(form, torch.zeros(6), torch.ones(6), torch.full((6,), 1e-2))
    from maci2_lab.training.imu.stages import Trainee, run_stage

    tracks = load_tracks(recipe, NAMES[2:], data)
    windows = Windows(tracks, 2, (0.0, 1.0))
    error_model = ErrorModel(form, torch.ones(6))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    cov_0 = error_model.cov_0().detach()
    trainee = Trainee(model, error_model, TINY, "held-out", windows, windows)
    run_stage(trainee, tmp_path / "held-out", progress=False)
    moved = {name for name, value in model.state_dict().items() if not value.equal(before[name])}
    assert moved
    assert all(name == "log_variance" or name.startswith("uncertainty_head") for name in moved)
    assert not torch.equal(error_model.cov_0().detach(), cov_0)


@pytest.mark.parametrize("name", FORMS)
def test_torch_and_onnx_agree(name):
    card = small_card()
    torch.manual_seed(1)
    model = build(FORMS[name], torch.zeros(6), torch.ones(6), torch.full((6,), 1e-2))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    assert disagreement(model, to_onnx(model, card)) < 1e-5


def test_a_split_that_overlaps_is_refused():
    with pytest.raises(OptionError, match="MH_01 is in both"):
        Recipe("mine", ("MH_01", "MH_02"), ("MH_01",), {})


def test_a_recording_named_by_two_paths_is_still_one():
    with pytest.raises(OptionError, match="sim_a is in both"):
        Recipe("x", ("here/sim_a",), ("sim_a",), {})


def test_a_recording_left_out_is_in_neither_part(recipe):
    shorter = recipe.without([NAMES[1]])
    assert (shorter.train, shorter.tune) == (NAMES[:1], NAMES[2:])
    assert recipe.without(NAMES[1:]).tune == ()
    with pytest.raises(OptionError, match="--leave-out sim_z: not in recipe 'sim'"):
        recipe.without(["sim_z"])


def damaged(data, tmp_path, **changes):
    """A copy of the first recording with other IMU samples."""
    recording = open_recording(data / NAMES[0])
    imu = replace(recording.imu, **{n: change(recording.imu) for n, change in changes.items()})
    write_euroc(replace(recording, imu=imu), tmp_path / "damaged")


def test_training_data_in_other_units_is_refused(data, recipe, tmp_path):
    damaged(data, tmp_path, acc=lambda imu: imu.acc / 9.81)
    with pytest.raises(DatasetError, match="It looks like g"):
        load_tracks(recipe, ("damaged",), tmp_path)


def test_training_data_with_a_gap_is_refused_and_located(data, recipe, tmp_path):
    def late(imu):
        stamps_ns = imu.stamps_ns.copy()
        stamps_ns[2000:] += 200_000_000
        return stamps_ns

    damaged(data, tmp_path, stamps_ns=late)
    with pytest.raises(DatasetError, match=r"no IMU sample for 0\.205 s after timestamp"):
        load_tracks(recipe, ("damaged",), tmp_path)


def test_recordings_of_two_rates_are_refused(data, recipe, tmp_path):
    damaged(
        data,
        tmp_path,
        stamps_ns=lambda imu: imu.stamps_ns[::2],
        gyro=lambda imu: imu.gyro[::2],
        acc=lambda imu: imu.acc[::2],
    )
    (tmp_path / NAMES[1]).symlink_to(data / NAMES[1])
    with pytest.raises(DatasetError, match="must have one rate"):
        load_tracks(recipe, ("damaged", NAMES[1]), tmp_path)


def test_a_recipe_without_recordings_is_refused():
    with pytest.raises(OptionError, match="no recording to train on"):
        Recipe("mine", (), (), {})


def test_a_held_out_stage_without_recordings_is_refused(data, tmp_path):
    recipe = Recipe("sim", NAMES[:2], (), {})
    with pytest.raises(OptionError, match="held-out"):
        train_imu(recipe, data, tmp_path / "x.onnx", "paper", tmp_path / "w", TINY, False)


def test_a_missing_recording_is_named(tmp_path):
    recipe = Recipe("sim", ("nowhere",), ("elsewhere",), {})
    with pytest.raises(DatasetError, match="nowhere: not found under"):
        train_imu(recipe, tmp_path, tmp_path / "x.onnx", "paper", tmp_path / "w", TINY, False)


def test_training_data_without_truth_is_refused(data, tmp_path):
    import shutil

    shutil.copytree(data / NAMES[0], tmp_path / "blind")
    shutil.rmtree(tmp_path / "blind" / "mav0" / "state_groundtruth_estimate0")
    recipe = Recipe("sim", ("blind",), (), {})
    with pytest.raises(DatasetError, match="holds no ground truth"):
        train_imu(recipe, tmp_path, tmp_path / "x.onnx", "paramnet", tmp_path / "w", TINY, False)


def test_an_unknown_form_lists_the_known_ones():
    with pytest.raises(OptionError, match="separated, paper"):
        form_named("transformer")


def test_the_likelihood_is_smallest_at_the_true_covariance():
    generator = torch.Generator().manual_seed(3)
    lower = 0.01 * (torch.eye(9) + 0.3 * torch.randn(9, 9, generator=generator).tril(-1)).double()
    cov = lower @ lower.T
    e = torch.randn(4000, 1, 9, generator=generator).double() @ lower.T
    valid = torch.ones(4000, 1, dtype=torch.bool)

    def score(factor, form):
        scaled = factor * cov.expand(4000, 1, 9, 9)
        return float(negative_log_likelihood(e, scaled, valid, form))

    for form in (FORMS["separated"], FORMS["paper"]):
        assert score(1.0, form) < min(score(0.8, form), score(1.25, form))
