"""Files of tools and devices as small as they can be."""

import json

import numpy as np

CAMERA = """
Camera.fx: 400.0
Camera.fy: 410.0
Camera.cx: 320.0
Camera.cy: 240.0
Camera.k1: 0.1
Camera.k2: 0.01
Camera.p1: 0.001
Camera.p2: 0.002
Camera.width: 640
Camera.height: 480
Camera.fps: 20.0
"""
IMU = """
IMU.NoiseGyro: 1e-4
IMU.NoiseAcc: 2e-3
IMU.GyroWalk: 1e-5
IMU.AccWalk: 3e-3
IMU.Frequency: 200
"""
TBC = """
Tbc: !!opencv-matrix
   rows: 4
   cols: 4
   dt: f
   data: [0, -1, 0, 0.5,  1, 0, 0, 0.25,  0, 0, 1, 1.0,  0, 0, 0, 1]
"""
T_B_C = np.array([[0, -1, 0, 0.5], [1, 0, 0, 0.25], [0, 0, 1, 1.0], [0, 0, 0, 1]])
VINS_LENS = """
image_width: 640
image_height: 480
distortion_parameters:
   k1: 0.1
   k2: 0.01
   p1: 0.001
   p2: 0.002
"""
PINHOLE = """
model_type: PINHOLE
projection_parameters:
   fx: 400
   fy: 410
   cx: 320
   cy: 240
"""
MEI = """
model_type: MEI
mirror_parameters:
   xi: 1.25
projection_parameters:
   gamma1: 800
   gamma2: 810
   u0: 320
   v0: 240
"""

LENS = """
  camera_model: pinhole
  distortion_coeffs: [0.1, 0.01, 0.001, 0.002]
  distortion_model: radtan
  intrinsics: [400, 410, 320, 240]
  resolution: [640, 480]
"""
MSCKF = f"""
cam0:
  T_cam_imu:
    [0, 1, 0, -0.25, -1, 0, 0, 0.5, 0, 0, 1, -1.0, 0, 0, 0, 1]{LENS}T_imu_body:
  [1, 0, 0, 9, 0, 1, 0, 9, 0, 0, 1, 9, 0, 0, 0, 1]
"""
CAM1_CAM0 = "T_cam1_cam0: [1, 0, 0, -0.3, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]\n"
FOUR_SEASONS = f"cam0:{LENS}cam1:{LENS}{CAM1_CAM0}"
CAMERA_INFO = """image_width: 640
image_height: 480
camera_name: left
camera_matrix:
  rows: 3
  cols: 3
  data: [400, 0, 320, 0, 410, 240, 0, 0, 1]
distortion_model: plumb_bob
distortion_coefficients:
  rows: 1
  cols: 5
  data: [0.1, 0.01, 0.001, 0.002, 0]
"""
RECTIFIED = (
    CAMERA.replace("Camera.f", "Camera1.f")
    .replace("Camera.c", "Camera1.c")
    .replace("Camera1.fps", "Camera.fps")
    + "Stereo.b: 0.05\nCamera.type: Rectified\n"
    + TBC.replace("Tbc", "IMU.T_b_c1")
    + IMU
)
IMU_ERRORS = """
imu0:
  accelerometer_noise_density: 0.002
  accelerometer_random_walk: 0.003
  gyroscope_noise_density: 0.00016968
  gyroscope_random_walk: 1.9393e-05
  update_rate: 200.0
  model: scale-misalignment
  accelerometers:
    M: [[1.01, 0, 0], [0.002, 0.99, 0], [0.001, 0.003, 1.0]]
  gyroscopes:
    M: [[1.01, 0, 0], [0.002, 0.99, 0], [0.001, 0.003, 1.0]]
    C_gyro_i: [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    A: [[0, 0, 0.001], [0, 0, 0], [0, 0, 0]]
"""


BASALT = {
    "value0": {
        "T_imu_cam": [
            {"px": 0.5, "py": 0.25, "pz": 1.0, "qx": 0, "qy": 0, "qz": 0.5**0.5, "qw": 0.5**0.5}
        ],
        "intrinsics": [
            {
                "camera_type": "ds",
                "intrinsics": {
                    "fx": 160.0, "fy": 161.0, "cx": 255.0, "cy": 256.0, "xi": -0.17, "alpha": 0.59,
                },
            }
        ],
        "resolution": [[512, 512]],
        "imu_update_rate": 200.0,
        "accel_noise_std": [0.016, 0.016, 0.016],
        "gyro_noise_std": [0.0003, 0.0003, 0.0003],
        "accel_bias_std": [0.001, 0.001, 0.001],
        "gyro_bias_std": [0.0001, 0.0001, 0.0001],
        "calib_accel_bias": [0.1, 0.2, 0.3, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06],
        "calib_gyro_bias": [0.01, 0.02, 0.03, 0.1, 0, 0, 0, 0, 0, 0, 0, 0],
        "cam_time_offset_ns": 5_000_000,
    }
}  # fmt: skip


def oak(imu_socket=1, thin_prism=0.0):
    def camera(to, x_cm):
        rows = np.eye(3).tolist() if to >= 0 else []
        place = {"x": x_cm, "y": 0.0, "z": 0.0}
        return {
            "cameraType": 0,
            "distortionCoeff": [
                0.1,
                0.2,
                0.001,
                0.002,
                0.3,
                0.4,
                0.5,
                0.6,
                thin_prism,
                0,
                0,
                0,
                0,
                0,
            ],
            "extrinsics": {"rotationMatrix": rows, "toCameraSocket": to, "translation": place},
            "intrinsicMatrix": [[800.0, 0, 640.0], [0, 801.0, 360.0], [0, 0, 1]],
            "width": 1280,
            "height": 720,
        }

    imu = {
        "rotationMatrix": [[0, 1, 0], [-1, 0, 0], [0, 0, 1]] if imu_socket >= 0 else [[0] * 3] * 3,
        "toCameraSocket": imu_socket,
        "translation": {"x": 1.0, "y": 2.0, "z": 3.0},
    }
    cameras = [[0, camera(-1, 0.0)], [1, camera(2, -7.5)], [2, camera(0, 3.75)]]
    return json.dumps({"boardName": "OAK-D", "cameraData": cameras, "imuExtrinsics": imu})


ZED = """[LEFT_CAM_HD]
fx=700
fy=701
cx=640
cy=360
k1=-0.17
k2=0.02
[RIGHT_CAM_HD]
fx=702
fy=703
cx=641
cy=361
k1=-0.18
k2=0.03
[STEREO]
Baseline=120.0
TY=0.6
TZ=-0.3
CV_HD=0.0
RX_HD=0.0
RZ_HD=0.0
"""


def intrinsic(stream, size, focal, model="Brown Conrady", coefficients=(0, 0, 0, 0, 0)):
    width, height = size
    numbers = "  \t".join(str(c) for c in coefficients)
    return (
        f' Intrinsic of "{stream}" / {width}x{height} / {{Y8}}\n  Width:      \t{width}\n'
        f"  Height:     \t{height}\n  PPX:        \t{width / 2}\n  PPY:        \t{height / 2}\n"
        f"  Fx:         \t{focal}\n  Fy:         \t{focal}\n  Distortion: \t{model}\n"
        f"  Coeffs:     \t{numbers}  \n  FOV (deg):  \t90.1 x 58.3\n\n"
    )


def extrinsic(here, there, R, p):
    rows = "".join("   " + "   ".join(f"{v:g}" for v in row) + "  \n" for row in R)
    numbers = "  ".join(str(v) for v in p)
    return (
        f'Extrinsic from "{here}"\t  To\t  "{there}" :\n Rotation Matrix:\n{rows}\n'
        f" Translation Vector: {numbers}  \n\n"
    )


QUARTER = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
D435I = (
    "Device info: \n    Name                          : \tIntel RealSense D435I\n\n"
    "Intrinsic Parameters:\n"
    + intrinsic("Depth", (848, 480), 400)
    + intrinsic("Infrared 1", (640, 480), 380)
    + intrinsic("Infrared 1", (848, 480), 420)
    + intrinsic("Infrared 2", (640, 480), 381)
    + intrinsic("Infrared 2", (848, 480), 421)
    + "Motion Intrinsic Parameters:\nMotion Intrinsic of \"Gyro\"\t  MOTION_XYZ32F\n"
    + "Bias Variances: 0  0  0  \n\nExtrinsic Parameters:\n"
    + extrinsic("Infrared 1", "Infrared 1", np.eye(3), (0, 0, 0))
    + extrinsic("Infrared 1", "Infrared 2", np.eye(3), (-0.05, 0, 0))
    + extrinsic("Infrared 1", "Gyro", QUARTER, (-0.00552, 0.0051, 0.01174))
)  # fmt: skip
