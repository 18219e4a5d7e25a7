"""Methods that experiments compare: maci2's own rows, baselines on poses, baselines on tracks."""

from dataclasses import replace

from maci2.experiments import paper_numbers as paper
from maci2.experiments.method import DROID, HALF_PIXEL, ONE_PIXEL, TRUTH, Method


def on_both(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The same methods on noisy ground truth and on DROID-SLAM's trajectories."""
    return tuple(replace(method, vision=vision) for vision in (TRUTH, DROID) for method in methods)


LEARNED = Method("maci2, learned IMU", imu="euroc", knows_sensor=True, paper_row=paper.WITH)
RAW = Method("maci2, raw IMU", paper_row=paper.WITHOUT)
TWO_FRAME = Method("maci2, raw IMU, two frames at a time", "maci2-two-frame")
PRINTED = Method("as printed in the paper, raw IMU", "maci2-paper")
CONSTANT = Method("constant bias", "const-bias", knows_sensor=True)

BASELINES = (
    CONSTANT,
    Method("linear alignment", "linear"),
    Method("ORB-SLAM3 inertial-only", "orbslam3", paper_row="ORB-SLAM3"),
    Method("analytic (Zuniga-Noel)", "analytic"),
    Method("VINS alignment", "vins", paper_row="VINS-Fusion"),
    Method("VINS alignment, fixed", "vins-fixed"),
    Method("Kimera alignment", "kimera"),
    Method("naive static", "static"),
)

TRACK_BASELINES = (
    Method("VINS-Mono (mono)", "vins-mono", paper_row="VINS-Mono"),
    Method("VINS-Mono, fixed (mono)", "vins-mono-fixed"),
    Method("VINS-Fusion (stereo)", "vins-fusion", paper_row="VINS-Fusion"),
    Method("ORB-SLAM3 (stereo)", "orbslam3-full", paper_row="ORB-SLAM3"),
    Method("Stereo-NEC (stereo)", "stereo-nec", paper_row="Stereo-NEC"),
    Method("DRT-t (mono)", "drt-t", paper_row="DRT-t"),
    Method("DRT-l (mono)", "drt-l", paper_row="DRT-l"),
    Method("DRT-PNEC (mono)", "drt-pnec"),
    Method("sqrt-VINS mono", "sqrtvins-mono"),
    Method(
        "sqrt-VINS mono, bias guess",
        "sqrtvins-mono-guess",
        knows_sensor=True,
        paper_row="sqrt-VINS mono",
    ),
    Method("sqrt-VINS stereo", "sqrtvins-stereo"),
    Method(
        "sqrt-VINS stereo, bias guess",
        "sqrtvins-stereo-guess",
        knows_sensor=True,
        paper_row="sqrt-VINS stereo",
    ),
    Method("FF back end, stereo depth", "ff-back-end"),
    Method(
        "FF back end, stereo depth, bias guess",
        "ff-back-end-guess",
        knows_sensor=True,
        paper_row="FF-VIO-Init",
    ),
    Method("OpenVINS dynamic (stereo)", "openvins"),
    Method("OpenVINS dynamic (stereo), bias guess", "openvins-guess", knows_sensor=True),
    Method("OpenVINS static", "openvins-static"),
)
"""Methods that use feature tracks; those with a bias guess know EuRoC's IMU."""


def on_tracks(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The same methods on simulated tracks of 0.5 and of 1 px."""
    return tuple(
        replace(method, vision=vision) for vision in (HALF_PIXEL, ONE_PIXEL) for method in methods
    )


def from_images(methods: tuple[Method, ...]) -> tuple[Method, ...]:
    """The same methods on images: maci2's odometry, or tracks for those that take them."""
    return tuple(replace(method, vision="images") for method in methods)
