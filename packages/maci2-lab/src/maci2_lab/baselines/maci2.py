"""maci2 as an initializer like the others."""

from dataclasses import replace

from maci2.consistency import initialize
from maci2.estimator import SolverConfig
from maci2.imu import ImuMeasurements
from maci2.pipeline.options import RunOptions
from maci2_lab.baselines.segment import Answer, Segment, stage

PAPER = RunOptions(vision="truth:0.05,0.003", paper=True).solver()


def maci2(segment: Segment) -> Answer:
    """MAC-I2 with the IMU model that made the segment's measurements."""
    return _initialize(segment, segment.measurements, SolverConfig())


def maci2_raw(segment: Segment) -> Answer:
    """maci2 on raw samples with data-sheet and vibration noise, whatever IMU model was chosen."""
    return _initialize(segment, segment.raw_vibrating, SolverConfig())


def maci2_paper(segment: Segment) -> Answer:
    """The paper's choices exactly, with raw samples and the data sheet's noise."""
    metric = replace(segment, vision=replace(segment.vision, std_scale=0.0))
    return _initialize(metric, segment.raw, PAPER)


def maci2_identity_imu(segment: Segment) -> Answer:
    """Corrections of the IMU model with equally weighted IMU residuals: an ablation."""
    return _initialize(segment, segment.measurements, SolverConfig(imu_identity=True))


def maci2_two_frame(segment: Segment) -> Answer:
    """MAC-I2 on tracks, two keyframes at a time (Eq. 5), as the paper's odometry does on images."""
    pairwise = replace(segment, vision=segment.tracks.relative_poses())
    return _initialize(pairwise, segment.measurements, SolverConfig())


@stage("joint solve")
def _initialize(segment: Segment, imu: ImuMeasurements, config: SolverConfig) -> Answer:
    """Answer from a result: `ok` is accepted, `weak` requires a better window."""
    config = replace(config, gravity_norm=segment.gravity_norm)
    result = initialize(imu, segment.vision, segment.T_b_c, config)
    reason = "; ".join(result.verdict.reasons)
    if result.state is None:
        return Answer(False, reason)
    status = result.verdict.status
    return Answer(status == "ok", reason, result.state, result.posterior, unsure=status == "weak")
