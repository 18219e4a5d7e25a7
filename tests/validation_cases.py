"""Wrong values for every argument of every public entry point; run in a process of its own.

    python tests/validation_cases.py SEED

prints what is tried before it is tried, so that the last line of a crash names its cause, and ends
with the number of cases. Whatever is not refused with a Maci2Error is listed on stderr.
"""

import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import maci2
from maci2.datasets import write_euroc
from maci2.sensors.stereo import Frames, StereoPair
from maci2.types import NS

RANDOM_SHAPES = 4
"""Arrays of random shape and type that are tried for every array argument."""

STAMPS_NS = 1_700_000_000 * NS + np.arange(11) * 50_000_000

Value = object


@dataclass(frozen=True)
class Entry:
    """A public entry point with arguments that it takes."""

    call: Callable[..., Value]
    arguments: dict[str, Value]
    wrong: dict[str, list[Value]]
    """Values that an argument must refuse, besides those of another type."""

    listed_only: tuple[str, ...] = ()
    """Arguments for which only what `wrong` lists is tried: texts for messages, names with a choice
    of their own, where infinity or another length has a meaning."""


class Still:
    """Stereo pairs of one grey image, or of whatever `image` is."""

    stamps_ns = STAMPS_NS
    source = "still"
    unpaired = 0

    def __init__(self, image: Value) -> None:
        self.image = image

    def __len__(self) -> int:
        return len(self.stamps_ns)

    index_of = Frames.index_of

    def left(self, index: int) -> Value:
        return self.image

    right = left

    def pair(self, index: int) -> StereoPair:
        return StereoPair(int(self.stamps_ns[index]), self.image, self.image)


class NoTracker:
    """A tracker that never sees a keyframe."""

    T_b_c = np.eye(4)
    first_ns = last_ns = None

    def add(self, pair: Value) -> bool:
        return False

    def clear(self) -> None:
        """Nothing is kept."""


def wrong_objects() -> list[Value]:
    return [None, "text", b"bytes", object(), {}, 3 + 4j, [[1, 2], [3]], lambda: 0, np.ma.masked]


def wrong_arrays(valid: np.ndarray, rng: np.random.Generator) -> Iterator[Value]:
    """What is not an array of this shape and kind."""
    yield from wrong_objects()
    yield from (True, valid.astype(str), valid.astype(object), valid.astype(complex), valid[None])
    yield from (valid[..., None], valid[:-1], valid.ravel()[:-1], valid[..., :-1], valid[:0])
    if valid.ndim > 1 and valid.T.shape != valid.shape:
        yield valid.T
    if valid.dtype.kind == "f":
        yield from (
            valid * np.nan,
            np.where(np.arange(valid.size).reshape(valid.shape), valid, np.inf),
        )
    for _ in range(RANDOM_SHAPES):
        shape = tuple(int(n) for n in rng.integers(0, 7, size=rng.integers(0, 5)))
        if shape != valid.shape:
            yield rng.standard_normal(shape).astype(rng.choice(["f4", "f8", "i8", "u1", "i2"]))


def wrong_stamps(valid: np.ndarray, rng: np.random.Generator) -> Iterator[Value]:
    yield from wrong_arrays(valid, rng)
    yield from (valid / NS, valid.astype(float), valid // NS, valid // 1000, valid[::-1], valid * 0)
    yield from (valid.astype(np.uint64) + np.uint64(2**63), valid.astype("datetime64[ns]"))
    yield np.where(np.arange(len(valid)) == 2, -(2**63), valid)


def wrong_transforms(valid: np.ndarray, rng: np.random.Generator) -> Iterator[Value]:
    yield from wrong_arrays(valid, rng)
    yield from (
        1.1 * valid,
        valid @ np.diag([1.1, 1.1, 1.1, 1.0]),
        valid @ np.diag([1, 1, -1, 1.0]),
    )
    yield from (np.zeros_like(valid), np.swapaxes(valid, -1, -2) + np.diag([0, 0, 0, 1.0]))
    yield valid[..., :3, :3]


def wrong_values(name: str, valid: Value, rng: np.random.Generator) -> Iterator[Value]:
    """Values of another kind than the valid one."""
    if isinstance(valid, np.ndarray):
        kind = wrong_arrays
        if name.startswith("stamps"):
            kind = wrong_stamps
        elif name.startswith("T"):
            kind = wrong_transforms
        yield from kind(valid, rng)
    elif isinstance(valid, bool):
        yield from ("yes", None, 3, np.zeros(2))
    elif isinstance(valid, int | float):
        yield from ("text", None, [1.0], np.zeros(2), np.nan, np.inf, -1e300, {}, True)
    elif isinstance(valid, str | Path):
        yield from (None, 7, 1.5, [], {}, object(), b"bytes", np.zeros(2))
    else:
        yield from ("text", 7, [], {}, object(), np.zeros((4, 4)), maci2)


def dataclass_entry(
    instance: Value, listed_only: tuple[str, ...] = (), **wrong: list[Value]
) -> Entry:
    """The constructor of an instance's class, with the instance's own fields."""
    fields = {name: getattr(instance, name) for name in instance.__dataclass_fields__}
    return Entry(type(instance), fields, wrong, listed_only)


def entries(folder: Path) -> dict[str, Entry]:
    """Every public entry point."""
    recording = maci2.simulate(maci2.SimulationConfig(kind="drone", duration_s=6.0, seed=1))
    write_euroc(recording, folder / "flight")
    rig, camera, samples = recording.rig, recording.rig.cameras[0], recording.imu
    imu = maci2.raw_model(samples, rig.imu)
    stamps_ns = recording.camera_stamps_ns[0][10:60:5].copy()
    truth = recording.truth()
    rows = np.searchsorted(truth.stamps_ns, stamps_ns)
    Ts_w_c = truth.Ts_w_b[rows] @ camera.T_b_c
    covs = np.tile(1e-6 * np.eye(6), (len(stamps_ns), 1, 1))
    vision = maci2.RelativePoses.from_absolute(stamps_ns, Ts_w_c, covs, "independent")
    measurements = {"imu": imu, "vision": vision}
    not_measurements = {"imu": [samples, vision, None], "vision": [imu, samples, None]}
    bad_covs = [-covs, covs + np.triu(np.ones((6, 6)), 1), 0.0 * covs]
    online = maci2.OnlineInitializer(rig, tracker=NoTracker())
    image = np.zeros(camera.resolution[::-1], dtype=np.uint8)
    images = [None, "x", image.T, image[None], image[1:], image.astype(np.uint16), image > 0,
              image.astype(float), image.tolist(), np.zeros((0, 0), np.uint8)]  # fmt: skip
    odometry = maci2.StereoOdometry(Still(image), rig)
    recorded = {
        "path": folder / "flight", "vision": "truth:0.05,0.003", "imu": "raw", "window_s": 2.5,
        "keyframes": 6, "start_s": 0.5, "seed": 0, "topics": "", "vision_frame": "camera",
        "time_offset": False,
    }  # fmt: skip
    not_recorded = {
        "path": ["", "absent", "a\0b", folder], "vision": ["", "truth", "truth:x", "radar"],
        "imu": ["nothing"], "keyframes": [3, 2.5, -4], "window_s": [0.0, 1e9], "seed": [-1, 1.5],
        "start_s": [-1.0, 1e6], "vision_frame": ["lens"], "truth": [7, [7]], "rig": [7, "absent"],
        "acc_bias_prior": ["x", 7, np.zeros(4), [np.nan] * 3],
        "acc_bias_std": ["x", -1.0, 0.0], "vision_std": [7, "x"], "vision_scale_std": ["x", 3.0],
    }  # fmt: skip
    return {
        "ImuSamples": dataclass_entry(samples, ("source",)),
        "ImuNoise": dataclass_entry(rig.imu, density_gyro=[0.0, -1.0], walk_acc=[-1.0]),
        "ImuMeasurements": dataclass_entry(
            replace(imu, std_gyro_bias=imu.var_gyro),
            ("source", "std_gyro_bias", "rate_hz"),
            std_gyro_bias=["x", 7, imu.gyro.T], rate_hz=["x", 0.0, -200.0, np.nan, [200.0, 200.0]],
            var_acc=[-imu.var_acc],
        ),
        "BiasPrior": dataclass_entry(
            maci2.BiasPrior(), ("std_gyro", "std_acc"),
            std_gyro=["x", None, np.ones(4), 7], std_acc=[-np.ones(3), np.zeros(3), np.eye(3)],
        ),
        "Camera": dataclass_entry(
            camera, ("distortion_model", "resolution", "rate_hz", "topic", "distortion",
                     "camera_model", "model_parameters"),
            distortion_model=["lens", None, 7], camera_model=["lens", None, 7, []],
            model_parameters=["x", np.zeros(1), np.eye(2), None],
            intrinsics=[-camera.intrinsics], distortion=["x", np.eye(4), [np.nan]],
            resolution=[None, (0, 480), (1e9, 1e9), (1.5, 2), "ab", (1, 2, 3)],
        ),
        "Rig": dataclass_entry(
            rig, ("source", "time_offset_s", "cameras"),
            cameras=[7, None, [samples], "text"], time_offset_s=["x", None, np.nan],
        ),
        "GroundTruth": dataclass_entry(
            truth, ("source", "v_w", "bias_gyro", "bias_acc"),
            v_w=[truth.v_w.T, "x", None], bias_gyro=[truth.v_w[1:], 7], bias_acc=[truth.v_w[0]],
        ),
        "RelativePoses": dataclass_entry(
            replace(vision, std_scale=0.1), ("reasons", "frame", "motions"), std_scale=[0.7, -0.1],
            covs_T_ck_ck1=[bad[1:] for bad in bad_covs], frame=["lens", None, 7],
            reasons=[("",), "text", 7, None, [1] * 9],
            motions=[((),), "text", 7, None, [1] * 9],
        ),
        "RelativePoses.from_absolute": Entry(
            maci2.RelativePoses.from_absolute,
            {"stamps_ns": stamps_ns, "Ts_w_c": Ts_w_c, "covs": covs, "errors": "independent"},
            {"covs": bad_covs, "errors": ["none", "accumulated", "relative"]},
        ),
        "raw_model": Entry(maci2.raw_model, {"samples": samples, "noise": rig.imu},
                           {"bias_prior": ["x", 7]}),
        "datasheet_model": Entry(maci2.datasheet_model, {"samples": samples, "noise": rig.imu},
                                 {"bias_prior": ["x", 7]}),
        "initialize": Entry(
            maci2.initialize, measurements | {"T_b_c": camera.T_b_c},
            not_measurements | {"config": ["x", 7], "limits": ["x", maci2.CalibrationLimits()]},
        ),
        "calibrate": Entry(
            maci2.calibrate, measurements,
            not_measurements | {"config": ["x", 7], "limits": ["x", maci2.InitLimits()]},
        ),
        "SolverConfig": dataclass_entry(
            maci2.SolverConfig(), ("rule",), rule=["simpson", None], max_iterations=[0],
            gravity_norm=[0.0, -9.81],
        ),
        "InitLimits": dataclass_entry(maci2.InitLimits(), velocity=[0.0, -1.0]),
        "CalibrationLimits": dataclass_entry(maci2.CalibrationLimits(), translation=[0.0]),
        "SimulationConfig": dataclass_entry(
            maci2.SimulationConfig(), ("kind", "lens", "bias_walk", "white_noise"),
            kind=[7, None, []], lens=[7, None], duration_s=[1e12, 0.0], imu_rate_hz=[1e12],
        ),
        "simulate": Entry(
            maci2.simulate, {"config": maci2.SimulationConfig(duration_s=1.0)},
            {"config": [unmade(kind="boat"), unmade(lens="mirror")]},
        ),
        "open_recording": Entry(
            maci2.open_recording, {"path": folder / "flight"},
            {"path": ["", "absent", "a\0b", folder], "rig_path": [7, "absent"], "topics": [7, "x"]},
        ),
        "stereo_frames": Entry(maci2.stereo_frames, {}, {"recording": [None, "x", recording]}),
        "load_imu_model": Entry(
            maci2.load_imu_model, {"name_or_path": "euroc"}, {"name_or_path": ["absent", folder]}
        ),
        "ImuModel.measure": Entry(
            maci2.load_imu_model("euroc").measure, {}, {"samples": [None, "x", imu, vision, 7]}
        ),
        "initialize_recording": Entry(maci2.initialize_recording, recorded, not_recorded),
        "calibrate_recording": Entry(
            maci2.calibrate_recording, recorded | {"window_s": 5.0}, not_recorded, ("keyframes",)
        ),
        "check_recording": Entry(
            maci2.check_recording, {"path": folder / "flight", "vision": "", "topics": ""},
            {"path": ["", "absent", "a\0b", 7], "vision": [7, "radar"], "rig": [7]},
        ),
        "track_recording": Entry(
            maci2.track_recording,
            {"path": folder / "flight", "vision": "truth:0.05,0.003", "imu": "raw"},
            {"path": not_recorded["path"], "vision": not_recorded["vision"], "imu": ["nothing"],
             "interval_s": [0.0, np.nan, "x", 1e9], "lag_s": [0.0, np.nan, "x"], "start_s": [1e6],
             "batch": [7], "adapt_noise": ["x"], "at_imu_rate": [None], "truth": [7, [7]]},
        ),
        "watch_recording": Entry(
            maci2.watch_recording,
            {"path": folder / "flight", "odometry": folder / "absent.txt"},
            {"path": not_recorded["path"], "odometry": [7, "absent", ""], "frame": [7, "world"],
             "imu": ["nothing"], "interval_s": [0.0, "x"], "sigmas": [0.0, np.nan, "x"]},
        ),
        "audit_ground_truth": Entry(
            maci2.audit_ground_truth, {"recording": recording},
            {"recording": [None, 7, "flight", imu], "source_name": [7, "absent"]},
        ),
        "StereoOdometry": Entry(
            maci2.StereoOdometry, {"frames": Still(image), "rig": rig},
            {"rig": [None, replace(rig, cameras=()), replace(rig, cameras=rig.cameras[:1])]},
        ),
        "StereoOdometry.poses": Entry(
            odometry.poses, {"stamps_ns": STAMPS_NS[::2]},
            {"stamps_ns": [*wrong_objects(), STAMPS_NS + 1, STAMPS_NS / NS, STAMPS_NS[::-1],
                           STAMPS_NS[:1], STAMPS_NS[:, None], STAMPS_NS[:0], STAMPS_NS[0]]},
            ("stamps_ns",),
        ),
        "StereoOdometry on images": Entry(
            lambda image: maci2.StereoOdometry(Still(image), rig).poses(STAMPS_NS[:2]),
            {}, {"image": images},
        ),
        "OnlineConfig": dataclass_entry(
            maci2.OnlineConfig(), window_s=[0.0], keyframes=[3, 4.5], waiting_pairs=[0]
        ),
        "OnlineTrackerConfig": dataclass_entry(
            maci2.OnlineTrackerConfig(), interval_s=[0.0], waiting_pairs=[0], waiting_results=[0.5]
        ),
        "OnlineTracker": Entry(
            maci2.OnlineTracker, {"rig": rig, "tracker": NoTracker()},
            {"rig": [None, replace(rig, cameras=())], "config": ["x", 7], "on_state": [None, 7]},
            ("tracker",),
        ),
        "OnlineInitializer": Entry(
            maci2.OnlineInitializer, {"rig": rig, "tracker": NoTracker()},
            {"rig": [None, replace(rig, cameras=())], "config": ["x", 7], "on_result": [None, 7]},
            ("tracker",),
        ),
        "OnlineInitializer.add_imu": Entry(
            online.add_imu, {"stamp_ns": 7, "gyro": np.zeros(3), "acc": np.ones(3)},
            {"stamp_ns": [1.5, 2**80, -(2**80)]},
        ),
        "OnlineInitializer.add_stereo": Entry(
            online.add_stereo, {"stamp_ns": 7, "left": image, "right": image},
            {"stamp_ns": [1.5, 2**80], "left": images, "right": images}, ("left", "right"),
        ),
    }  # fmt: skip


def unmade(**changes: Value) -> maci2.SimulationConfig:
    """A configuration that only `simulate` itself can refuse."""
    return replace(maci2.SimulationConfig(duration_s=1.0), **changes)


def attempts(entry: Entry, rng: np.random.Generator) -> Iterator[tuple[str, Value]]:
    """Each argument with each value that it must refuse."""
    for argument in dict.fromkeys([*entry.arguments, *entry.wrong]):
        if argument in entry.arguments and argument not in entry.listed_only:
            for value in wrong_values(argument, entry.arguments[argument], rng):
                yield argument, value
        for value in entry.wrong.get(argument, []):
            yield argument, value


def say(text: str) -> None:
    sys.stdout.write(text.replace("\n", " ") + "\n")
    sys.stdout.flush()


def main(seed: int) -> int:
    rng = np.random.default_rng(seed)
    cases, let_pass = 0, []
    with tempfile.TemporaryDirectory() as folder:
        known = entries(Path(folder))
        for name, entry in known.items():
            for argument, value in attempts(entry, rng):
                say(f"{name}({argument}={str(value)[:40]!r})")
                cases += 1
                try:
                    entry.call(**entry.arguments | {argument: value})
                except maci2.Maci2Error as error:
                    if not str(error).strip():
                        let_pass.append(f"{name}({argument}): an empty message")
                except Exception as error:
                    let_pass.append(
                        f"{name}({argument}={str(value)[:60]!r}): {type(error).__name__}: {error}"
                    )
                else:
                    let_pass.append(f"{name}({argument}={str(value)[:60]!r}): taken")
    say(f"entry points: {' '.join(known)}")
    say(f"cases: {cases}")
    sys.stderr.write("\n".join(let_pass))
    return 1 if let_pass else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
