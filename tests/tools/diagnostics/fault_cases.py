"""Name that the diagnosis must give to each fault."""

import imu_faults
import rig_faults
import stamp_faults
from degrading import Spoil, seen_by_vision_only, without_truth

FAULTS: dict[str, tuple[Spoil, str]] = {
    "IMU gap": (stamp_faults.gap, "imu: a gap"),
    "IMU samples dropped": (stamp_faults.imu_samples_dropped, "imu: dropped samples"),
    "duplicate timestamps": (stamp_faults.duplicate_stamps, "is a duplicate of timestamp"),
    "timestamps out of order": (stamp_faults.out_of_order, "is earlier than timestamp"),
    "not a number": (stamp_faults.not_a_number, "NaN"),
    "clock jump": (stamp_faults.clock_jump, "imu: the clock jumps"),
    "clock set back": (stamp_faults.clock_set_back, "The clock was set back"),
    "different clocks": (stamp_faults.different_clocks, "IMU and camera are on different clocks"),
    "timestamps in microseconds": (stamp_faults.microseconds, "look like microseconds"),
    "IMU timestamp jitter": (stamp_faults.imu_jitter, "imu: timestamps jitter"),
    "left-right offset": (stamp_faults.left_right_offset, "stereo: right timestamps are"),
    "unpaired frames": (stamp_faults.unpaired_frames, "stereo: frames without a partner"),
    "dropped frames": (stamp_faults.dropped_frames, "cam0: dropped frames"),
    "gyroscope in deg/s": (imu_faults.gyro_in_degrees, "the gyroscope is in deg/s"),
    "gyroscope in deg/s, no truth": (
        without_truth(imu_faults.gyro_in_degrees),
        "the gyroscope is in deg/s",
    ),
    "accelerometer in g": (imu_faults.acc_in_g, "the accelerometer is in g"),
    "accelerometer scale": (imu_faults.acc_scale, "the accelerometer's scale is wrong"),
    "gravity removed": (imu_faults.gravity_removed, "gravity is removed"),
    "axis stuck for a while": (imu_faults.stuck_axis, "is stuck"),
    "axis dead": (imu_faults.dead_axis, "is stuck"),
    "samples repeated": (imu_faults.repeated_samples, "samples are repeated"),
    "axis clipped": (imu_faults.clipped_axis, "is clipped (saturated)"),
    "columns swapped": (
        imu_faults.swapped_columns,
        "gyroscope and accelerometer columns are swapped",
    ),
    "gyroscope permuted": (imu_faults.gyro_permuted, "the gyroscope's axes are permuted"),
    "gyroscope permuted, no truth": (
        without_truth(imu_faults.gyro_permuted),
        "the gyroscope's axes are not the accelerometer's",
    ),
    "gyroscope axis flipped": (imu_faults.gyro_flipped, "axis is flipped"),
    "accelerometer permuted": (imu_faults.acc_permuted, "the accelerometer's axes are permuted"),
    "accelerometer permuted, vision only": (
        seen_by_vision_only(imu_faults.acc_permuted),
        "the accelerometer's axes are permuted",
    ),
    "accelerometer negated, vision only": (
        seen_by_vision_only(imu_faults.acc_negated),
        "the accelerometer's x and y and z axis is flipped",
    ),
    "IMU axes turned": (imu_faults.imu_turned, "the IMU's axes are permuted or rotated"),
    "left-handed axes": (imu_faults.left_handed, "the IMU's axes are left-handed"),
    "left-handed axes, vision only": (
        seen_by_vision_only(imu_faults.left_handed),
        "the IMU's axes are left-handed",
    ),
    "left-handed axes, no truth": (
        without_truth(imu_faults.left_handed),
        "the IMU's axes are left-handed",
    ),
    "noise understated": (imu_faults.noise_understated, "the gyroscope's noise density"),
    "noise overstated": (imu_faults.noise_overstated, "the accelerometer's noise density"),
    "gyroscope bias": (imu_faults.gyro_bias, "large gyroscope bias"),
    "accelerometer bias": (imu_faults.acc_bias, "large accelerometer bias"),
    "IMU rate": (rig_faults.rate_not_stated, "the IMU's rate is not the stated one"),
    "camera time offset": (rig_faults.camera_late, "vision: camera-IMU time offset"),
    "camera time offset, no truth": (
        without_truth(rig_faults.camera_late),
        "camera-IMU time offset",
    ),
    "camera clock drift": (rig_faults.camera_clock_drifts, "vision: clocks run apart"),
    "camera path without scale": (
        rig_faults.path_without_scale,
        "vision: the camera's path is not in metres",
    ),
    "camera path in millimetres": (
        rig_faults.path_in_millimetres,
        "they look like millimetres",
    ),
    "camera path too long": (
        rig_faults.path_too_long,
        "vision: the camera's path is not in metres",
    ),
    "camera path inverted": (
        rig_faults.path_inverted,
        "vision: the poses are inverted",
    ),
    "extrinsics inverted": (rig_faults.extrinsics_inverted, "the extrinsics T_b_c look inverted"),
    "extrinsics inverted, no truth": (
        without_truth(rig_faults.extrinsics_inverted),
        "the extrinsics T_b_c look inverted",
    ),
    "extrinsics rotated": (
        rig_faults.extrinsics_rotated,
        "the rotation of the camera-IMU extrinsics",
    ),
    "extrinsics moved": (rig_faults.extrinsics_moved, "the position of the camera-IMU extrinsics"),
    "extrinsics in millimetres": (
        rig_faults.extrinsics_in_millimetres,
        "Check the unit",
    ),
    "left and right swapped": (rig_faults.cameras_swapped, "left and right camera are swapped"),
    "truth late": (rig_faults.truth_late, "Wrong clock"),
    "truth inverted": (rig_faults.truth_inverted, "he poses are inverted"),
    "truth turned": (rig_faults.truth_turned, "after a rotation of the body frame"),
    "truth of another recording": (
        rig_faults.truth_of_another_recording,
        "No clock offset and no rotation",
    ),
    "truth in another unit": (rig_faults.truth_in_another_unit, "positions are in "),
    "truth mirrored": (rig_faults.truth_mirrored, "Positions are mirrored"),
    "truth upside down": (rig_faults.truth_upside_down, "its world is not level"),
    "truth lost": (rig_faults.truth_lost, "rows repeat one pose"),
    "truth hours off": (rig_faults.truth_hours_off, "Wrong clock"),
}
"""Name -> how to damage a recording and words that the first line must hold."""
