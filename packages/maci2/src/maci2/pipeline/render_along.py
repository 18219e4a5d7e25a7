"""Rendering along a real recording: its ground truth is first put onto the IMU's clock."""

from dataclasses import replace

from maci2.sensors import Recording
from maci2.simulation.rendering.images import RenderConfig, stamps_to_render
from maci2.tools.ground_truth.clock import TruthClock, on_imu_clock, truth_clock


def rendered_on_imu_clock(
    recording: Recording, config: RenderConfig, truth_name: str = ""
) -> tuple[Recording, TruthClock | None]:
    """Recording with its ground truth on the IMU's clock over the part to be rendered, and the
    offset; unchanged and None where nothing had to be moved."""
    truth = recording.truth((truth_name,) if truth_name else ())
    if truth is None or not recording.camera_stamps_ns:
        return recording, None
    stamps_ns = stamps_to_render(recording, truth, config)
    clock = truth_clock(truth, recording.imu, int(stamps_ns[0]), int(stamps_ns[-1]))
    if clock is None or not clock.differs:
        return recording, None
    moved = on_imu_clock(truth, clock)
    truths = {name: moved if other is truth else other for name, other in recording.truths.items()}
    return replace(recording, truths=truths), clock
