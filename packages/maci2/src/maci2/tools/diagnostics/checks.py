"""The table of checks: faults of a recording that are measured, with limit, texts and remedy."""

import math
from typing import NamedTuple

from maci2.findings import Finding, Level, fault
from maci2.imu.rotation_rates import MIN_CORRELATION
from maci2.sensors.validation import IN_DEGREES


class Check(NamedTuple):
    """A fault: its texts, in which measured numbers are put, and the limit of what is accepted."""

    name: str
    found: str
    needed: str
    remedy: str
    level: Level = "warn"
    limit: float = math.nan
    """Largest accepted value of what is measured, or the smallest one; NaN if there is no such
    number. It is `{limit}` in the texts."""

    def finding(self, what: str, serious: bool = False, /, **measured: object) -> Finding:
        """Finding about a sensor or file, with measured numbers in its texts; an error where it is
        `serious` or always one."""
        texts = (text.format(limit=self.limit, **measured) for text in self[:4])
        return fault("error" if serious else self.level, what, *texts)


# Timestamps

WRONG_UNIT = Check(
    "timestamps are not nanoseconds, they look like {unit}",
    "{rate_hz:.0f} samples a second",
    "at most {highest_hz:.0f}",
    "Multiply the timestamps by {factor}.",
    "error",
)
CLOCK_JUMP = Check(
    "the clock jumps",
    "a step of {jump_s:.3f} s after timestamp {stamp_ns} ns that no other sensor shares",
    "one clock that runs on",
    "Subtract {jump_s:.3f} s from all later timestamps of {name}, or use one side of the jump "
    "only; stamp by a monotonic clock.",
    "error",
    limit=1.0,  # smallest jump of a clock that was set or restarted [s]
)
OTHER_CLOCK = Check(
    "IMU and camera are on different clocks",
    "no common time, the IMU begins {apart_s:+.3f} s after the camera",
    "one clock, or at least overlapping times",
    "Add {apart_s:.3f} s to the camera's timestamps if both were started together; better record "
    "again with one clock.",
    "error",
)
LITTLE_OVERLAP = Check(
    "IMU and camera overlap little",
    "{shared_s:.1f} s in common, the IMU begins {apart_s:+.1f} s after the camera",
    "{needed_s:.1f} s",
    "Check that both are stamped by one clock and were recorded together.",
    limit=0.5,  # share of the shorter stream
)
SLOW_IMU = Check(
    "the IMU is read too slowly",
    "{timing.rate_hz:.1f} Hz",
    "{limit:.0f} Hz or more, better 200",
    "Raise the IMU's output rate.",
    limit=50.0,  # motion of hands and vehicles reaches 10 Hz
)
GAPS = Check(
    "{gaps}",
    "{timing.longest_step_s:.3f} s after timestamp {stamp_ns} ns",
    "steps of {period_ms:.1f} ms",
    "Leave out the windows that touch a gap; check cable, driver and disk speed.",
)
DROPPED = Check(
    "dropped {kind}",
    "{timing.dropped} of {expected} missing ({share_pct:.1f} %)",
    "at most {limit:.0f} %",
    "Check bandwidth, exposure time and disk speed, then record again.",
    limit=2.0,  # keyframes can be chosen around fewer
)
JITTER = Check(
    "timestamps jitter",
    "steps spread by {timing.jitter_pct:.0f} % of the period ({jitter_ms:.1f} ms)",
    "at most {limit:.0f} %",
    "Use the sensor's own timestamps, not those of arrival at the computer.",
    # Spread of the intervals (5 to 95 %). Hardware timestamps stay below 1 %; those taken on
    # arrival at a computer come in bursts.
    limit=20.0,
)
STEREO_LATE = Check(
    "right timestamps are {later} than left ones",
    "{typical_ms:+.2f} ms in {common_pct:.0f} % of the frames",
    "within {limit:.0f} ms",
    "Trigger both cameras together; if they are, give both images of a pair one timestamp.",
    limit=1.0,
)
UNPAIRED = Check(
    "frames without a partner",
    "{found}",
    "{limit:.0f} %",
    "Check that both cameras are triggered together and that none drops frames.",
    limit=98.0,
)

# Rig

IMPOSSIBLE_BASELINE = Check(
    "the stereo baseline cannot be",
    "{length:.4g} m",
    "{low} to {high:.0f} m",
    "Check the unit of the extrinsics (metres) and that they are T_b_c of both cameras.",
    "error",
)
SWAPPED_CAMERAS = Check(
    "left and right camera are swapped",
    "cam1 lies {aside:.3f} m to the left of cam0",
    "to its right",
    "Exchange cam0 and cam1, images and calibration alike, or check whether the extrinsics are "
    "inverted.",
)

# IMU

NOISE_DENSITY = Check(
    "the {sensor}'s noise density is not what the calibration states",
    "{density:.2e} {unit}/sqrt(Hz) in the quietest second, {ratio:.2g} times the stated "
    "{stated:.2e}",
    "{low:g} to {high:g} times",
    "Correct the noise densities (per sqrt(Hz), in rad/s and m/s^2, no variances).",
)
LARGE_BIAS = Check(
    "large {sensor} bias on {axis}",
    "{bias:+.3f} {unit} {where}",
    "within {largest} {unit}",
    "Calibrate the {sensor} (let it warm up, then measure at rest) and subtract the bias.",
)
SWAPPED_COLUMNS = Check(
    "gyroscope and accelerometer columns are swapped",
    "a rate of {rate:.2f} rad/s and a force of {force:.2f} m/s^2",
    "a force of 9.81 m/s^2",
    "Exchange the two groups of columns: gyroscope first, then accelerometer.",
    "error",
)
STUCK = Check(
    "{sensor} {axis} is stuck",
    "{value:g} {unit} for {length_s:.2f} s from timestamp {stamp_ns} ns on",
    "noise in every sample (another axis repeats {others} times at most)",
    "Check the sensor and its driver; leave out that time.",
    "error",
)
REPEATED_SAMPLES = Check(
    "samples are repeated",
    "{share_pct:.1f} % are copies of the sample before, up to {longest} in a row",
    "a new reading in every sample",
    "Read the IMU no faster than it measures, and leave out copies: the true rate is about "
    "{rate_hz:.0f} Hz.",
    limit=2.0,  # per cent of all samples; noise alone makes it rarer than one in a million
)
CLIPPED = Check(
    "{sensor} {axis} is clipped (saturated)",
    "{samples} samples ({share_pct:.2f} %) at {value:.4g} {unit}, up to {longest} in a row",
    "readings inside the range",
    "Raise the sensor's range setting or move more gently.",
    limit=1.0,  # per cent, above which it is an error
)
DEGREES = Check(
    IN_DEGREES,
    "{found}",
    "rad/s",
    "Multiply the gyroscope columns by pi/180 = 0.017453.",
    "error",
)
AXES_DIFFER = Check(
    "the axes of gyroscope and accelerometer differ",
    "gyroscope {gyro}, accelerometer {acc} in {whose} axes",
    "(x, y, z) for both",
    "Read the gyroscope's columns as {gyro}, the accelerometer's as {acc}.",
    "error",
)
OTHER_AXES = Check(
    "{name}",
    "{whose} (x, y, z) are the {sensors}'s {axes}",
    "the same axes, right-handed",
    "Read the columns of the {sensors} as {axes}{other}.",
    "error",
)
AXES_AGAINST_GRAVITY = Check(
    "{name}",
    "{forces}with the gyroscope's columns read as {axes}",
    "below 1.5",
    "Read the gyroscope's columns as {axes}{other}",
    "error",
)

# Camera or ground truth against the IMU

CLOCK_OFFSET = Check(
    "{name}",
    "{offset}",
    "within 3 ms",
    "Add {offset_ms:.2f} ms to its timestamps{other}",
    limit=0.003,  # [s]: 0.17 deg at 1 rad/s, the noise of a good odometry
)
CLOCK_DRIFT = Check(
    "clocks run apart",
    "the offset to the IMU changes by {drift_ms:+.1f} ± {std_ms:.1f} ms from beginning to end",
    "within 5 ms",
    "Stamp both by one clock, or correct the timestamps by a straight line.",
    limit=0.005,  # [s] over a recording
)
INVERTED_POSES = Check(
    "the poses are inverted (world in body)",
    "a correlation of {correlation:.2f} of the rates within 1 s of offset, {inverted:.2f} with "
    "inverse poses",
    "{limit} or more",
    "Invert them: needed are poses of the sensor in the world.",
    "error",
    limit=MIN_CORRELATION,
)
OTHER_ROTATION = Check(
    "it does not rotate as the gyroscope does",
    "a correlation of {correlation:.2f} of the rates within 1 s of offset",
    "{limit} or more",
    "Wrong clock, wrong recording, or one that lost track: check that both belong together.",
    "error",
    limit=MIN_CORRELATION,
)
MIRRORED_IMU = Check(
    "the IMU's axes are left-handed (mirrored)",
    "gyroscope rates that match vision's only when mirrored",
    "right-handed axes",
    "Flip one axis of the gyroscope, such as {flipped}; if the accelerometer's is mirrored too, "
    "flip the same there.",
    "error",
)
INVERTED_EXTRINSICS = Check(
    "the extrinsics T_b_c look inverted",
    "{apart}",
    "below 1 deg and 30 mm",
    "Invert the transform: T_b_c takes points of the camera to the IMU (p_b = T p_c).",
    "error",
)
WRONG_EXTRINSICS = Check(
    "the {part}camera-IMU extrinsics is wrong",
    "{apart}",
    "below 1 deg and 30 mm",
    "Calibrate again (`maci2 calibrate`); this motion says p_b_c = ({p[0]:.3f}, {p[1]:.3f}, "
    "{p[2]:.3f}) m.",
)
WRONG_ROTATION = Check(
    "the rotation of the camera-IMU extrinsics is wrong",
    "{angle_deg:.1f} deg between given and found",
    "below 1 deg",
    "Calibrate again (`maci2 calibrate`), or invert T_b_c if it is T_c_b.",
    "error",
)
WRONG_SCALE = Check(
    "the camera's path is not in metres",
    "distances that must be multiplied by {factor} ± {std:.2g} to fit the accelerometer",
    "1 within {far:.2g}",
    "Multiply the positions by {factor}{hint}",
    limit=0.1,  # above which it is an error; stereo odometry stays within 6 %
)
TILTED_WORLD = Check(
    "its world is not level",
    "up along ({x:.2f}, {y:.2f}, {z:.2f})",
    "(0, 0, 1)",
    "Rotate its world, or score against --truth audited, which is level.",
    "error",
)
FAR_CLOCK = Check(
    "Wrong clock: the truth's time offset",
    "{offset_s:+.2f} s",
    "within 0.01 s",
    "Add {offset_s:+.2f} s to its timestamps.",
    "error",
)

# Images of one camera

BLACK = Check(
    "images are black",
    "{blank} of {images} images of mean grey {grey:.0f} with standard deviation {contrast:.1f}",
    "{least:g} or more",
    "Take the cap off or uncover the lens, and check exposure and trigger.",
    limit=16.0,  # mean grey level below which an image without content is called black
)
BLANK = BLACK._replace(
    name="images show nothing",
    remedy="Uncover the lens, and do not point it at a plain wall.",
)
FROZEN = Check(
    "the image is frozen",
    "{repeated} of {images} images are identical to the next one",
    "none, for every sensor has noise",
    "Check the camera's driver: it returns old buffers. Drop the copies and record again.",
    "error",
    limit=0.5,  # share of the images; below it they are repeated
)
REPEATED = FROZEN._replace(name="images are repeated", level="warn")
DARK = Check(
    "images are too dark",
    "only a twentieth of the pixels is above grey {bright:.0f} of 255",
    "{limit:.0f}",
    "Add light, or raise exposure time or gain.",
    limit=50.0,  # grey level that the brightest twentieth of a well exposed image reaches
)
SATURATED_GREY = 250
OVEREXPOSED = Check(
    "images are overexposed (saturated)",
    f"{{images.saturated_pct:.0f}} % of the pixels at {SATURATED_GREY} or more",
    "at most {limit:.0f} %",
    "Shorten the exposure or lower the gain.",
    limit=25.0,  # windows and lamps cover up to a tenth
)
FLICKER = Check(
    "brightness flickers",
    "{images.change_pct:.0f} % of change from one image to the next (median)",
    "at most {limit:.0f} %",
    "Fix exposure and gain, or make the exposure a multiple of the lamps' period (10 ms at 50 Hz).",
    limit=8.0,  # motion at 10 Hz causes 2 %
)
BLURRED = Check(
    "images are blurred",
    "edges are {columns_px:.0f} px wide along the rows, {rows_px:.0f} px along the columns",
    "at most {limit:g} px",
    "Focus the lens and clean it; where only fast parts are blurred, shorten the exposure.",
    limit=9.5,  # 6 for a sharp image, this for a blur of 3 px standard deviation
)
SMEARED = BLURRED._replace(
    name="images are smeared along the {along}",
    remedy="Shorten the exposure, add light, or move slower.",
)
UNUSABLE_FILES = Check(
    "{name}: images cannot be used",
    "{unusable} of {listed} ({kinds}), the first {first}, which {reason}",
    "every listed image, whole",
    "Copy these images again; until then they are skipped{exist}.",
    limit=50.0,  # per cent, above which the camera is unusable
)

# Stereo images

UNEQUAL = Check(
    "left and right differ in brightness",
    "the {darker} images are {times:.1f} times darker",
    "at most {most:.1f} times",
    "Give both cameras one exposure and one gain.",
    limit=0.35,  # natural logarithm: a factor of 1.4
)
ONE_IMAGE = Check(
    "left and right are one image",
    "all {pairs} sampled pairs contain the same image twice",
    "two cameras",
    "Check the topics or folders: one camera is given for both.",
    "error",
)
OFF_ROWS = Check(
    "the stereo calibration does not fit the images",
    "{off}, {explained_pct:.0f} % of the points on them",
    "within {limit:g} px (median)",
    "Matches lie off their rows, {cause}. Give the calibration that belongs to these images, or "
    "calibrate again.",
    limit=1.0,  # median row error from which on it is reported; `vo` refuses from a larger one on
)
SWAPPED_IMAGES = OFF_ROWS._replace(
    name="left and right images are swapped",
    remedy="Exchange cam0 and cam1: {other_pct:.0f} % of the points are on their rows then.",
)
LAGGING = OFF_ROWS._replace(
    name="left and right images are not synchronized",
    remedy="Right images are taken {lag} frames {later} than their timestamps say ({lag_ms:.0f} "
    "ms): trigger both cameras together and timestamp them when triggered.",
)
SCATTERED = LAGGING._replace(
    remedy="Rows move from pair to pair by {scatter:.1f} px, as when one camera exposes later "
    "while the device rotates: trigger both together.",
)
UNMATCHED = OFF_ROWS._replace(
    name="left and right images do not match",
    remedy="Check that both are of one device and one moment, and that the calibration belongs to "
    "them.",
)
NEGATIVE_DISPARITY = Check(
    OFF_ROWS.name,
    "{beyond_pct:.0f} % of the matches have negative disparity",
    "at most {limit:.0f} %",
    "The cameras are rotated against each other about the vertical axis (T_BS); give the "
    "calibration that belongs to these images, or calibrate again.",
    "error",
    limit=25.0,
)
