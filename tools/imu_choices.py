"""How the learned IMU model's choices were made: each training recording left out in turn.

    python tools/imu_choices.py turn ROOT        # how far truths are turned against the IMU
    python tools/imu_choices.py bias ROOT        # the tracker's constants
    python tools/imu_choices.py labels ROOT      # what the noise of the truth is made of
    python tools/imu_choices.py labels ROOT "per kind"    # one of its forms alone
    python tools/imu_choices.py gravity ROOT     # `maci2 evaluate` on the recording left out

ROOT holds EuRoC's recordings. Only those that `euroc` is trained and tuned on are opened. Means,
spreads and label noise come from the other five; variances of the accelerometer come from the
bundled network, the same for all that is compared.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maci2.pipeline.prepare import Inputs, open_inputs
from maci2.evaluation.integration_errors import integration_errors
from maci2.pipeline.options import RunOptions, parse_vision
from maci2.evaluation.protocol import estimate_window
from maci2.evaluation.rows import Row, window_row, windows_with_truth
from maci2.evaluation.summary import summarize
from maci2.ground_truth.states import Indices
from maci2.types import Array
from maci2.imu import BiasPrior, ImuMeasurements, bias_tracking, datasheet_model, stationary
from maci2.imu.bias_tracking import track_gyro_bias
from maci2.imu.learned_model import load_imu_model
from maci2.imu.network_shape import BLOCK
from maci2.imu.stationary import StationaryShift, block_length, stationary_blocks
from maci2.learn.imu import truth_frame
from maci2.learn.imu.recording_constants import align, bias_prior
from maci2.learn.imu.train import load_tracks, rest_shift
from maci2.learn.imu.recipes import EUROC
from maci2.learn.imu.truth_frame import imu_in_truth_body, turned
from maci2.learn.imu.training_windows import Track
from maci2.lie import so3_exp

HORIZONS_S = (0.1, 0.25, 1.0, 2.5)
PARTS = (slice(0, 3), slice(3, 6), slice(6, 9))
EARLY_S = 20.0


def others(tracks: list[Track], left_out: Track) -> BiasPrior:
    """Bias to expect of a recording, from all but it."""
    seen = [track for track in tracks if track is not left_out]
    return bias_prior([track.alignment for track in seen], [track.kind for track in seen])


def shift_of_others(tracks: list[Track], left_out: Track) -> StationaryShift:
    """What its gyroscope reads at rest beyond its bias in motion, likewise."""
    return rest_shift([track for track in tracks if track is not left_out])


def tracked(tracks: list[Track], track: Track) -> tuple[Array, Array]:
    """Gyroscope bias and its spread, as known without the recording itself."""
    return track_gyro_bias(track.imu, others(tracks, track), shift_of_others(tracks, track))


def compare_turn(tracks: list[Track], data: Path) -> None:
    """Turns by horizon, biases with and without them, and gravity on recordings left out."""
    given = [replace(track, states=turned(track.states, -track.turn)) for track in tracks]
    chosen_s = truth_frame.HORIZON_S
    for horizon_s in (0.25, 1.0, 2.5, 5.0):
        truth_frame.HORIZON_S = horizon_s
        truth_frame.STRIDE_S = min(0.5, horizon_s)
        found = [imu_in_truth_body(datasheet_model(t.imu, t.noise), t.states) for t in given]
        print(f"turn over {horizon_s} s [mrad]: {'; '.join(str(1e3 * turn) for turn in found)}")
    truth_frame.HORIZON_S, truth_frame.STRIDE_S = chosen_s, 0.5
    for name, some in (("as they are", [_turned(t, np.zeros(3)) for t in given]),
                       ("turned", tracks)):  # fmt: skip
        acc = np.array([track.alignment.bias[3:] for track in some])
        print(f"truths {name}: acc bias {acc.tolist()}, spread {acc.std(0, ddof=1)} m/s^2")
        options = RunOptions(parse_vision("truth:0.05,0.003", "camera", None))
        found = [
            summarize(
                _rows(replace(_levelled(data, track, options), imu=_measured(some, track)), options)
            ).mean["gravity_deg"]
            for track in some
        ]
        print(f"   gravity {np.mean(found):.4f} deg {np.array(found)}")


def _turned(track: Track, turn: Array) -> Track:
    states = turned(track.states, turn)
    alignment = align(datasheet_model(track.imu, track.noise), states)
    return replace(track, states=states, turn=turn, alignment=alignment)


def compare_bias(tracks: list[Track]) -> None:
    """Error and NEES of the tracked gyroscope bias, early and late."""
    # Compiled code keeps the constants it was compiled with.
    bias_tracking._track = bias_tracking._track.py_func
    at_rest = stationary.MAX_STD
    for walk, speed, max_std in (
        (4e-5, 2.5, at_rest),
        (2.5e-5, 2.5, at_rest),
        (1.5e-5, 2.5, at_rest),
        (2.5e-5, 1.5, at_rest),
        (2.5e-5, 4.0, at_rest),
        (2.5e-5, 2.5, (0.0, 0.0)),
    ):
        bias_tracking.WALK_GYRO, bias_tracking.STD_SPEED, stationary.MAX_STD = walk, speed, max_std
        rms, early, late = [], [], []
        for track in tracks:
            bias, std = tracked(tracks, track)
            error = bias - track.alignment.bias[:3]
            error[_after_rest(track)] = np.nan  # there it is the reading at rest
            cut = int(EARLY_S * track.imu.rate_hz)
            rms.append(np.nanmean(error[cut:] ** 2, axis=0))
            early.append(np.nanmean(error[:cut] ** 2 / std[:cut] ** 2, axis=0))
            late.append(np.nanmean(error[cut:] ** 2 / std[cut:] ** 2, axis=0))
        print(f"walk {walk:.1e} rad/s/sqrt(s), speed {speed} m/s, rest {max_std}: after {EARLY_S:.0f} s rms "
              f"{1e4 * np.sqrt(np.mean(rms, axis=0))} e-4 rad/s; NEES first {EARLY_S:.0f} s "
              f"{np.mean(early, axis=0)}, later {np.mean(late, axis=0)}")  # fmt: skip


def _after_rest(track: Track) -> Indices:
    """Samples whose block comes after one at rest."""
    period = block_length(track.imu)
    after = period * (np.flatnonzero(stationary_blocks(track.imu).still)[:, None] + 1)
    samples = (after + np.arange(period)).ravel()
    return samples[samples < len(track.imu)]


@dataclass(frozen=True)
class Noise:
    """What an error may be made of; see the table in `compare_labels`."""

    group: Callable[[Track], str]
    drift: bool = True
    tilt: bool = True
    gyro: bool = False
    """Whether the gyroscope's variance is learned, one for all."""

    shown: bool = True
    """Whether each truth may hide a share of the gyroscope's variance."""


def compare_labels(tracks: list[Track], wanted: list[str]) -> None:
    """Likelihood and NEES on the recording left out, label noise fitted to the others."""
    forms = {
        "per recording": Noise(lambda track: track.name),
        "per kind": Noise(lambda track: track.kind),
        "one for all": Noise(lambda _: "all"),
        "per recording, no drift": Noise(lambda track: track.name, drift=False),
        "per recording, no tilt": Noise(lambda track: track.name, tilt=False),
        "per recording, gyro noise learned": Noise(lambda track: track.name, gyro=True),
        "per recording, gyro noise counted": Noise(lambda track: track.name, shown=False),
    }
    data = {track.name: _errors(tracks, track) for track in tracks}
    for name, form in forms.items():
        if wanted and name not in wanted:
            continue
        likelihood, found, scales = [], [], []
        for track in tracks:
            seen = [other for other in tracks if other is not track]
            log_scale, log_std = _fit(data, seen, form)
            scales.append((0.5 * log_scale).exp().numpy())
            alike = [log_std[form.group(t)] for t in seen if t.kind == track.kind]
            mean = torch.stack(alike).mean(0)
            covs = [_cov(one, log_scale, mean, form) for one in data[track.name]]
            pairs = list(zip(data[track.name], covs, strict=True))
            likelihood.append(np.mean([float(_gaussian(one["e"], c).mean()) for one, c in pairs]))
            found.append([[_nees(one["e"][:, p], c[:, p, p]) for p in PARTS] for one, c in pairs])
        nees = np.array(found)
        # V2_03's motion capture is noisier than all others.
        usual = [
            one for one, track in zip(likelihood, tracks, strict=True) if track is not tracks[3]
        ]
        print(f"{name}: -ln L {np.round(likelihood, 1)}, without V2_03 {np.mean(usual):.2f}; "
              f"std of samples times {np.mean(scales, axis=0)}")  # fmt: skip
        for h, horizon_s in enumerate(HORIZONS_S):
            if horizon_s in (0.25, 1.0):
                print(f"   {horizon_s} s: rotation {nees[:, h, 0]}, velocity {nees[:, h, 1]}, "
                      f"position {nees[:, h, 2]}")  # fmt: skip


def _variances(track: Track, imu_gyro: Array) -> Array:
    """(n, 6) the data sheet's for the gyroscope, the bundled network's for the accelerometer."""
    model = load_imu_model("euroc")
    log_variance = model._run(np.concatenate([imu_gyro, track.imu.acc], axis=1))[1]
    return np.exp(log_variance)[np.arange(len(track.imu)) // BLOCK]


def _measured(tracks: list[Track], track: Track) -> ImuMeasurements:
    """A recording as a model sees it that knows the biases of the others only."""
    prior = others(tracks, track)
    bias, std = tracked(tracks, track)
    gyro = track.imu.gyro - bias
    variance = _variances(track, gyro)
    left = BiasPrior(np.zeros(3), prior.std_gyro, prior.mean_acc, prior.std_acc)
    return ImuMeasurements(track.imu.stamps_ns, gyro, track.imu.acc, variance[:, :3],
                           variance[:, 3:], np.zeros((9, 9)), left, track.name, std)  # fmt: skip


def _errors(tracks: list[Track], track: Track) -> list[dict[str, Tensor]]:
    """Windows of every horizon; `parts` (m, 6, 9, 9) is what each axis' noise adds."""
    imu = _measured(tracks, track)
    prior = imu.bias_prior
    imu = replace(imu, acc=imu.acc - prior.mean_acc)
    found = []
    for horizon_s in HORIZONS_S:
        parts = []
        for axis in range(6):
            only = np.full((len(imu.acc), 6), 1e-30)
            only[:, axis] = np.concatenate([imu.var_gyro, imu.var_acc], axis=1)[:, axis]
            alone = replace(imu, var_gyro=only[:, :3], var_acc=only[:, 3:])
            windows = integration_errors(
                alone, track.states, horizon_s, 2.5, track.alignment.gravity_w
            )
            parts.append(windows.cov_imu)
        std = np.concatenate(
            [windows.std_gyro_bias, np.broadcast_to(prior.std_acc, (len(windows.dt), 3))], axis=1
        )
        fields = {"e": windows.e, "parts": np.stack(parts, 1), "start": windows.e_D_start,
                  "bias": windows.e_D_bias * std[:, None], "first": windows.rates_first,
                  "last": windows.rates_last, "dt": windows.dt}  # fmt: skip
        found.append({name: torch.tensor(value) for name, value in fields.items()})
    return found


def _cov(one: dict[str, Tensor], log_scale: Tensor, log_std: Tensor, form: Noise) -> Tensor:
    std, start = log_std.exp(), one["start"]
    if form.shown:
        log_scale = torch.cat([log_scale[:3] + log_std[6], log_scale[3:]])
    cov = (one["parts"] * log_scale.exp()[:, None, None]).sum(1) + one["bias"] @ one["bias"].mT
    floor = torch.diag(std[:3].square().repeat_interleave(3))
    moved = [std[3] * one[end] for end in ("first", "last")]
    first, last = (floor + m[:, :, None] * m[:, None, :] for m in moved)
    cov = cov + start @ first @ start.mT + last
    rotation = (torch.arange(9) < 3).double()
    if form.drift:
        cov = cov + torch.diag(rotation) * (std[4] * one["dt"])[:, None, None].square()
    if form.tilt:
        tilted = std[5] * start[:, :, :3] * (1.0 - rotation)[:, None]
        cov = cov + tilted @ tilted.mT
    return cov


def _gaussian(e: Tensor, cov: Tensor) -> Tensor:
    lower = torch.linalg.cholesky(cov)
    white = torch.linalg.solve_triangular(lower, e[..., None], upper=False)[..., 0]
    return 0.5 * white.square().sum(-1) + lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _nees(e: Tensor, cov: Tensor) -> float:
    return float((torch.linalg.solve(cov, e[..., None])[..., 0] * e).sum(1).mean() / 3.0)


def _fit(
    data: dict[str, list[dict[str, Tensor]]], seen: list[Track], form: Noise
) -> tuple[Tensor, dict[str, Tensor]]:
    """Logarithms of what variances are multiplied by (6,), and of label noise by group (7,)."""
    first = torch.tensor([1e-3, 5e-3, 1e-3, 3e-4, 5e-4, 1e-3, 0.5], dtype=torch.float64).log()
    log_std = {form.group(track): first.clone().requires_grad_() for track in seen}
    log_scale = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    learned = torch.tensor([float(form.gyro)] * 3 + [1.0] * 3)
    optimizer = torch.optim.Adam([log_scale, *log_std.values()], lr=0.2)
    steps = 66
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.zeros(())
        for track in seen:
            for one in data[track.name]:
                cov = _cov(one, log_scale * learned, log_std[form.group(track)], form)
                loss = loss + _gaussian(one["e"], cov).mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for parameter in log_std.values():
                parameter.clamp_(-12.0, 0.0)
    fitted = {name: value.detach() for name, value in log_std.items()}
    return (log_scale * learned).detach(), fitted


def compare_gravity(tracks: list[Track], data: Path) -> None:
    """Gravity error and NEES of `maci2 evaluate`, truth levelled, on recordings left out."""
    options = RunOptions(parse_vision("truth:0.05,0.003", "camera", None))

    def spread(imu: ImuMeasurements, factor: float) -> ImuMeasurements:
        prior = replace(imu.bias_prior, std_acc=factor * imu.bias_prior.std_acc)
        return replace(imu, bias_prior=prior)

    changes: dict[str, Callable[[ImuMeasurements], ImuMeasurements]] = {
        "as chosen": lambda imu: imu,
        "one gyro spread for all times": lambda imu: replace(imu, std_gyro_bias=np.zeros((0, 3))),
        "spread of acc bias x 0.7": lambda imu: spread(imu, 0.7),
        "spread of acc bias x 1.29": lambda imu: spread(imu, 1.29),
        "spread of acc bias x 2": lambda imu: spread(imu, 2.0),
        "variances of acc x 2": lambda imu: replace(imu, var_acc=2.0 * imu.var_acc),
        "variances of acc alike on all axes": lambda imu: replace(
            imu, var_acc=np.full_like(imu.var_acc, imu.var_acc.mean())
        ),
    }
    levelled = [(track, _levelled(data, track, options)) for track in tracks]
    measured = [_measured(tracks, track) for track in tracks]
    for name, change in changes.items():
        found = [
            summarize(_rows(replace(inputs, imu=change(imu)), options))
            for imu, (_, inputs) in zip(measured, levelled, strict=True)
        ]
        gravity = np.array([one.mean["gravity_deg"] for one in found])
        nees = np.array([one.nees["gravity"] for one in found])
        print(f"{name}: gravity {gravity.mean():.4f} deg {gravity}, NEES {nees.mean():.2f} {nees}")


def _levelled(data: Path, track: Track, options: RunOptions) -> Inputs:
    """The recording with the IMU's own truth, its world turned until gravity is along z."""
    inputs = open_inputs(data / track.name, options)
    assert inputs.truth is not None
    down = track.alignment.gravity_w / np.linalg.norm(track.alignment.gravity_w)
    axis = np.cross(down, [0.0, 0.0, -1.0])
    world, body = np.eye(4), np.eye(4)
    world[:3, :3], body[:3, :3] = so3_exp(axis), so3_exp(track.turn)
    truth = inputs.truth
    truth = replace(truth, Ts_w_b=world @ truth.Ts_w_b @ body, v_w=truth.v_w @ world[:3, :3].T)
    return replace(inputs, truth=truth)


def _rows(inputs: Inputs, options: RunOptions) -> list[Row]:
    windows, _ = windows_with_truth(inputs, options)
    return [window_row(inputs, w, partial(estimate_window, options=options)) for w in windows]


def main() -> None:
    torch.set_num_threads(1)
    np.set_printoptions(precision=3, suppress=True, linewidth=150)
    what, data = sys.argv[1], Path(sys.argv[2])
    tracks = load_tracks(EUROC, EUROC.train + EUROC.tune, data)
    print(", ".join(track.name for track in tracks))
    if what in ("gravity", "turn"):
        {"gravity": compare_gravity, "turn": compare_turn}[what](tracks, data)
    elif what == "labels":
        compare_labels(tracks, sys.argv[3:])
    else:
        {"bias": compare_bias}[what](tracks)


if __name__ == "__main__":
    main()
