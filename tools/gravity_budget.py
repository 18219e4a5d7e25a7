"""What gravity's error of a window is made of, with days left out that a prior was learned from.

    python tools/gravity_budget.py EUROC

opens the recordings that `euroc` is trained and tuned on and prints mean gravity error [deg] and
NEES against their audited truths, from windows of 2.5 s with 10 keyframes: with camera motion from
the published truth, from the audited one and from an almost exact one, and with several kinds of
knowledge of the accelerometer's bias. Then: how much of the mean specific force's error over a
window physical regressors explain, with coefficients from the other days.
"""

import numpy as np
import sys
from collections.abc import (Callable)
from dataclasses import (dataclass, replace)
from maci2.consistency import (InitLimits, initialize)
from maci2_lab.evaluation.protocol import windows_with_truth
from maci2.metrics.window_errors import state_errors
from maci2.tools.ground_truth.audit_files import cached_audit
from maci2_lab.evaluation.truth_states import truth_states
from maci2_lab.training.imu.data import (RecordingBias, bias_prior, recording_bias)
from maci2_lab.training.imu.recipes import EUROC
from maci2.pipeline.options import (RunOptions)
from maci2.pipeline.prepare import (Inputs, open_inputs)
from maci2.sensors import (GroundTruth)
from maci2.types import (GRAVITY_W, NS, Array)
from pathlib import (Path)



WINDOW_S, STRIDE_S = 2.5, 1.25
VIBRATION_SAMPLES = 101

Bias = tuple[Array, Array]
"""Mean and standard deviation of the raw accelerometer's bias [m/s^2]."""


@dataclass(frozen=True)
class Known:
    """One recording, its audited truth and its bias."""

    name: str
    truth: GroundTruth
    bias: RecordingBias

    @property
    def day(self) -> str:
        """Recordings of one place are of one day."""
        return self.name[:2]


def open_all(data: Path) -> list[Known]:
    """The recordings with their audits."""
    found = []
    for name in sorted(EUROC.train + EUROC.tune):
        options = RunOptions(vision="truth:1,1")
        truth = cached_audit(open_inputs(data / name, options).recording).truth
        bias = np.hstack([truth.bias_gyro, truth.bias_acc])
        found.append(Known(name, truth, recording_bias(truth.stamps_ns, bias)))
    return found


def student(others: list[Known]) -> Bias:
    """What training expects of another recording."""
    prior = bias_prior([one.bias for one in others])
    return prior.mean_acc, prior.std_acc


def gaussian(others: list[Known]) -> Bias:
    """The same if the spread of so few were known."""
    means = np.array([one.bias.mean[3:] for one in others])
    within = np.mean([one.bias.wander[3:] for one in others], axis=0)
    return means.mean(axis=0), np.sqrt(means.var(axis=0, ddof=1) + within)


def scored(
    inputs: Inputs, known: Known, bias: Bias | None, options: RunOptions
) -> tuple[float, float]:
    """Mean gravity error [deg] and NEES of all windows; without `bias` the model's own prior."""
    angles, squares = [], []
    for window in windows_with_truth(inputs, options)[0]:
        imu = inputs.imu.between(window.start_ns, int(window.stamps_ns[-1]))
        if bias is not None:
            assert imu.removed_acc is not None
            mean = bias[0] - imu.removed_acc.mean(axis=0)
            prior = replace(imu.bias_prior, mean_acc=mean, std_acc=bias[1])
            imu = replace(imu, bias_prior=prior)
        vision = inputs.vision.motion(window.stamps_ns, window.index)
        result = initialize(
            imu, vision, inputs.T_b_c, options.solver(), InitLimits(trust_constants=True)
        )
        errors = state_errors(inputs, known.truth, result.state, result.posterior)
        if errors is not None and errors.nees.get("gravity") is not None:
            angles.append(errors.gravity_deg)
            squares.append(errors.nees["gravity"])
    return float(np.mean(angles)), float(np.mean(squares))


def print_budget(data: Path, recordings: list[Known]) -> None:
    def days_out(prior: Callable[[list[Known]], Bias]) -> Callable[[Known], Bias]:
        return lambda known: prior([one for one in recordings if one.day != known.day])

    exact = np.full(3, 0.002)
    biases: dict[str, Callable[[Known], Bias | None]] = {
        "the bundled model's prior": lambda _: None,
        "days left out, Gaussian": days_out(gaussian),
        "days left out, Student's": days_out(student),
        "the recording's own bias known": lambda known: (known.bias.mean[3:], exact),
    }
    for vision, truth in (
        ("truth:0.05,0.003", ()),
        ("truth:0.05,0.003", ("audited",)),
        ("truth:0.005,0.0003", ("audited",)),
    ):
        print(f"camera motion {vision} {' '.join(truth) or 'published'}")
        options = RunOptions(vision=vision, imu="euroc", truth=truth)
        opened = [open_inputs(data / known.name, options) for known in recordings]
        for title, bias in biases.items():
            rows = np.array(
                [scored(i, k, bias(k), options) for i, k in zip(opened, recordings, strict=True)]
            )
            print(f"   {title}: {rows[:, 0].mean():.3f} deg {rows[:, 0]}, NEES "
                  f"{rows[:, 1].mean():.2f}", flush=True)  # fmt: skip


def force_errors(data: Path, known: Known) -> dict[str, Array]:
    """(3 m, k) of every window: the error of the mean specific force [m/s^2], and regressors."""
    options = RunOptions(vision="truth:1,1")
    imu = open_inputs(data / known.name, options).recording.imu
    states = truth_states(imu, known.truth, known.name)
    acc = imu.acc[states.samples]
    gyro = imu.gyro[states.samples] - known.bias.mean[:3]
    rough = np.pad(np.diff(acc, n=2, axis=0) ** 2 / 6.0, ((1, 1), (0, 0)))
    mean = np.ones(VIBRATION_SAMPLES) / VIBRATION_SAMPLES
    vibration = np.stack([np.convolve(axis, mean, "same") for axis in rough.T], axis=1)
    signals = {"scale and misalignment": acc, "vibration energy": vibration, "rates": gyro,
               "rates squared": gyro**2, "force squared": acc**2}  # fmt: skip
    length = round(WINDOW_S * imu.rate_hz)
    rows: dict[str, list[Array]] = {name: [] for name in ("error", "bias", *signals)}
    for i in range(0, len(states) - length, round(STRIDE_S * imu.rate_hz)):
        j = i + length
        if states.run[i] != states.run[j] or states.samples[j] - states.samples[i] != length:
            continue
        R_bi_b = states.Rs_w_b[i].T @ states.Rs_w_b[i:j]
        dt = (imu.stamps_ns[states.samples[j]] - imu.stamps_ns[states.samples[i]]) / NS
        force = states.Rs_w_b[i].T @ ((states.v_w[j] - states.v_w[i]) / dt - GRAVITY_W)
        midway = 0.5 * (acc[i:j] + acc[i + 1 : j + 1])
        rows["error"].append((np.einsum("nij,nj->i", R_bi_b, midway) / length - force)[:, None])
        rows["bias"].append(R_bi_b.mean(axis=0))
        for name, signal in signals.items():
            turned = np.einsum("nij,nk->ijk", R_bi_b, signal[i:j]) / length
            rows[name].append(turned.reshape(3, -1))
    return {name: np.concatenate(values) for name, values in rows.items()}


def print_regressors(data: Path, recordings: list[Known]) -> None:
    found = {known.name: force_errors(data, known) for known in recordings}

    def without_bias(name: str, column: str) -> Array:
        B = found[name]["bias"]
        return np.asarray(found[name][column] - B @ (np.linalg.pinv(B) @ found[name][column]))

    rms = [np.sqrt(3.0 * np.mean(without_bias(k.name, "error") ** 2)) for k in recordings]
    print(f"mean specific force over {WINDOW_S} s, the recording's bias taken off: rms "
          f"{1e3 * np.array(rms)} mm/s^2")  # fmt: skip
    for column in list(found[recordings[0].name])[2:]:
        left = []
        for known in recordings:
            others = [one.name for one in recordings if one.day != known.day]
            A = np.concatenate([without_bias(name, column) for name in others])
            b = np.concatenate([without_bias(name, "error") for name in others])
            x = np.linalg.lstsq(A, b, rcond=1e-6)[0]
            error = without_bias(known.name, "error")
            rest = error - without_bias(known.name, column) @ x
            left.append(float(np.sum(rest**2) / np.sum(error**2)))
        print(f"   {column}: share of the variance left on the day left out {np.array(left)}")


def main() -> None:
    np.set_printoptions(precision=3, suppress=True, linewidth=120)
    data = Path(sys.argv[1])
    recordings = open_all(data)
    print(", ".join(known.name for known in recordings))
    print_regressors(data, recordings)
    print_budget(data, recordings)


if __name__ == "__main__":
    main()
