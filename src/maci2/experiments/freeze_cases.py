"""Command lines whose answers are frozen: `DATA` is the folder of recordings, `OUT` a new folder,
`SIMULATED` the folder of simulated recordings."""

from itertools import product

EUROC = (
    "MH_01_easy", "MH_02_easy", "MH_03_medium", "MH_04_difficult", "MH_05_difficult",
    "V1_01_easy", "V1_02_medium", "V2_01_easy", "V2_03_difficult",
)  # fmt: skip
ROOMS = tuple(f"dataset-room{i}_512_16" for i in range(1, 6))
CLIP = "DATA/euroc/MH_01_clip"

TRUTH = "--vision truth:0.05,0.003"
DROID = "--vision trajectory:visual/droid_stereo_Twc_tum.txt"
IMAGES = "--vision images"

MOTIONS = ("handheld", "drone", "car", "driving", "static", "straight", "planar_yaw")
SEEDS = 20
SIMULATED = {
    f"{seed}_{MOTIONS[seed % 7]}": (
        f"--motion {MOTIONS[seed % 7]} --duration 12 --seed {seed} "
        f"--lens {'fisheye' if seed % 2 else 'pinhole'}"
    )
    for seed in range(SEEDS)
} | {"rendered": "--images --duration 5 --seed 3"}
"""Options of `maci2 simulate` for each simulated recording."""

STARTS_S = (5, 15, 27.5, 40, 55, 70)
"""Starts of the windows of a recording [s]."""


def _init() -> list[str]:
    recorded = [(f"DATA/euroc/{name}", "euroc") for name in EUROC]
    recorded += [(f"DATA/tumvi/{name}", "tumvi") for name in ROOMS]
    # Neighbours are different recordings: two workers then share no audit of a ground truth.
    lines = [
        f"{path} {TRUTH} --imu {imu} --start {start}"
        for start, imu_of, (path, learned) in product(STARTS_S, ("raw", "learned"), recorded)
        for imu in [learned if imu_of == "learned" else "raw"]
    ]
    lines += [f"DATA/euroc/{name} {DROID} --start {s}" for s in (10, 35, 60) for name in EUROC]
    v1, mh = "DATA/euroc/V1_02_medium", "DATA/euroc/MH_03_medium"
    for path, start in product((v1, mh, f"DATA/tumvi/{ROOMS[1]}"), (10, 30)):
        lines += [
            f"{path} {TRUTH} --start {start} {options}"
            for options in (
                "--time-offset", "--paper", "--trust-rig", "--keyframes 20 --window 5",
                "--imu datasheet", "--acc-bias-prior 0,0.1,0.05 --acc-bias-std 0.05",
            )
        ]  # fmt: skip
        lines.append(f"{path} --vision tracks:0.5 --start {start}")
    for path in (v1, mh):
        lines += [
            f"{path} {DROID} --start 20 --time-offset",
            f"{path} {DROID} --start 20 --imu euroc",
            f"{path} {DROID} --start 20 --vision-std 0.05,0.003,0.015 --vision-scale-std 0.01",
            f"{path} {TRUTH} --start 20 --imu euroc --paper",
            f"{path} {TRUTH} --start 20 --truth audited",
        ]
    lines += [
        f"DATA/euroc/V1_01_easy {TRUTH} --start 10 --truth audited:vicon0",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --start 4",
        f"{CLIP} {IMAGES} --start 2 --time-offset",
        f"{CLIP} --vision images:fixed --start 2",
        f"DATA/euroc/MH_01_static_clip {IMAGES} --window 1.4 --keyframes 5",
        f"SIMULATED/rendered {IMAGES}",
    ]
    lines += [f"SIMULATED/{name} {TRUTH}" for name in SIMULATED if name != "rendered"]
    lines += [f"SIMULATED/{name} {TRUTH} --time-offset" for name in list(SIMULATED)[:7]]
    return lines


def _calibrate() -> list[str]:
    places = ("V1_01_easy --start 20", "V2_01_easy --start 20", "MH_03_medium --start 40")
    return [
        *(f"DATA/euroc/{place} {vision}" for place in places for vision in (TRUTH, DROID)),
        f"DATA/euroc/V1_02_medium {TRUTH} --start 20 --imu euroc --no-time-offset",
        f"DATA/tumvi/{ROOMS[0]} {TRUTH} --start 20",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --all-cameras",
        *(f"SIMULATED/{name} {TRUTH}" for name in list(SIMULATED)[:5]),
    ]


def _track() -> list[str]:
    return [
        f"DATA/euroc/V1_01_easy {TRUTH} --start 110",
        f"DATA/euroc/V2_01_easy {DROID} --start 85",
        f"DATA/euroc/V1_02_medium {DROID} --start 55 --imu euroc",
        f"DATA/euroc/V1_02_medium {DROID} --start 55 --batch",
        f"DATA/tumvi/{ROOMS[2]} {TRUTH} --start 105",
        f"{CLIP} {IMAGES}",
        f"{CLIP} {IMAGES} --batch",
        f"{CLIP} {IMAGES} --lag 2 --no-adapt-noise",
        f"SIMULATED/rendered {IMAGES}",
        *(f"SIMULATED/{name} {TRUTH}" for name in list(SIMULATED)[:7]),
    ]


LINES: dict[str, list[str]] = {
    "init": _init(),
    "calibrate": _calibrate(),
    "track": _track(),
    "truth": [
        "DATA/euroc/V1_01_easy -o OUT --from vicon0",
        "DATA/euroc/MH_03_medium -o OUT",
        f"DATA/tumvi/{ROOMS[3]} -o OUT",
        "SIMULATED/0_handheld -o OUT",
    ],
    "noise": [
        "DATA/euroc/V1_01_easy",
        f"DATA/tumvi/{ROOMS[2]}",
        f"DATA/euroc/V2_01_easy {DROID} --start 20",
    ],
    "check": [
        "DATA/euroc/V2_03_difficult",
        f"DATA/tumvi/{ROOMS[0]}",
        f"{CLIP} {IMAGES}",
        "DATA/euroc/MH_01_static_clip",
        "SIMULATED/1_drone",
    ],
    "evaluate": [
        f"DATA/euroc/V1_02_medium {TRUTH} --stride 8 --start 3",
        f"DATA/euroc/MH_03_medium {DROID} --stride 8 --start 3",
        f"DATA/tumvi/{ROOMS[1]} {TRUTH} --stride 8 --start 3 --imu tumvi",
    ],
    "bench": [""],
}
"""Arguments of each command that is frozen."""

PARTS = tuple(LINES)
BENCH = "bench"
"""The part whose numbers are times: listed, and never a difference."""


def cases(parts: tuple[str, ...]) -> list[str]:
    """Command lines of these parts, in a fixed order."""
    return [f"{part} {line}".strip() for part in parts for line in LINES[part]]
