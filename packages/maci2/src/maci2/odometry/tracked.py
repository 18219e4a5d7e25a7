"""Results of tracking: states with covariance, and the outcome of each relative pose."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from maci2.consistency import MOST_MISSING
from maci2.estimator import InitResult, Verdict
from maci2.estimator.problem import Shared, States
from maci2.estimator.smoother import propagate
from maci2.field_docs import document_fields
from maci2.imu import ImuMeasurements
from maci2.types import Array, Mat4, Mat6, Stamps, Vec3

Health = Literal["initializing", "tracking", "bridging", "lost"]


@dataclass(frozen=True)
class TrackedState:
    """Tracked state at one timestamp, with its covariance."""

    stamp_ns: int
    """Timestamp on the IMU's clock [ns]."""

    T_w_b: Mat4
    """Pose of the IMU in a world whose z axis points up."""

    v_w: Vec3
    """(3,) velocity of the IMU in that world [m/s]."""

    gyro_bias: Vec3
    """(3,) gyroscope bias that remains in the samples after the IMU model [rad/s]."""

    acc_bias: Vec3
    """(3,) accelerometer bias that remains in the samples after the IMU model [m/s^2]."""

    cov: Array
    """(15, 15), order [phi (right), v, p, gyro bias, acc bias]."""

    health: Health
    """tracking; bridging: the IMU alone carries the state; lost: it has done so for too long."""

    segment: int
    """Number of the segment, counted from the first start; the track is continuous within one."""

    def at(self, stamp_ns: int, states: States, k: int, cov: Array) -> "TrackedState":
        """Another estimate in the same segment: state k, with its covariance."""
        T_w_b, v_w, gyro_bias, acc_bias = (values[k] for values in states)
        return TrackedState(
            stamp_ns, T_w_b, v_w, gyro_bias, acc_bias, cov, self.health, self.segment
        )

    def carried(
        self, imu: ImuMeasurements, stamps_ns: Stamps, shared: Shared, walks: tuple[float, float]
    ) -> list["TrackedState"]:
        """The state at later times, by the IMU alone."""
        if not len(stamps_ns):
            return []
        state = States(self.T_w_b[None], self.v_w[None], self.gyro_bias[None], self.acc_bias[None])
        span_ns = np.concatenate([[self.stamp_ns], stamps_ns])
        steps = propagate(imu, span_ns, state, self.cov, shared, walks)
        pairs = zip(map(int, stamps_ns), steps, strict=True)
        return [self.at(stamp_ns, step.state, 0, step.cov) for stamp_ns, step in pairs]


@dataclass(frozen=True)
class Keyframe:
    """Outcome of one relative pose."""

    stamp_ns: int
    innovation: float | None
    """Chi-square per degree of freedom against the IMU's prediction; None where unmeasured."""

    rejected: bool
    reason: str
    second_motion: bool = False
    """Whether the IMU chose the motion of fewer matches."""

    cov_T_ck_ck1: Mat6 | None = None
    """(6, 6) covariance that the relative pose was used with: as stated, with what innovations
    have shown; None where it was not used."""


@dataclass(frozen=True)
class Origin:
    """Origin of a segment's world: position and heading of the IMU at one keyframe."""

    stamp_ns: int
    T_w_b: Mat4


@dataclass(frozen=True)
class Track:
    """States at chosen timestamps, causal: each knows nothing of what came after it."""

    states: list[TrackedState]
    """States at the requested timestamps, in order of time."""

    keyframes: list[Keyframe]
    """Outcome of each relative pose."""

    starts: list[InitResult]
    """Results of the windows it started from."""

    log_scale: float = 0.0
    """Logarithm of true length over vision's, where vision left its scale in doubt."""

    slow_error_deg: float = 0.0
    """Standard deviation of errors of visual orientation that last for seconds, as the last state
    knows it [deg]; states' covariances include what they do."""

    slow_spread: Array = field(default_factory=lambda: np.ones(15))
    """(15,) factor by which they make the standard deviations of the last state larger."""

    origins: tuple[Origin, ...] = ()
    """One of each segment."""

    reasons: tuple[str, ...] = ()
    """What the whole recording says against stated constants (extrinsics, scale, clock, units);
    empty where they hold. With them wrong, errors are larger than the covariances say."""

    contradicted_ns: tuple[int, ...] = ()
    """When relative poses and IMU were found to contradict each other for so long that the state
    was forgotten: a bias that has jumped, images that show a thing which moves along."""

    @property
    def verdict(self) -> Verdict:
        """Whether the track may be used: `ok`, or `weak` with reasons, where stated constants do
        not hold, states were found wrong in flight or a third of them is lost."""
        return self.judged_by(self.states)

    def judged_by(self, states: list[TrackedState]) -> Verdict:
        """The verdict with the share of these states that are lost."""
        lost = sum(state.health == "lost" for state in states)
        reasons = self.reasons
        if self.contradicted_ns:
            times = ", ".join(str(stamp_ns) for stamp_ns in self.contradicted_ns[:3])
            reasons += (
                f"relative poses and IMU contradicted each other {len(self.contradicted_ns)} times "
                f"(found at timestamp {times} ns): states some seconds before are farther off than "
                "they say",
            )
        if lost >= MOST_MISSING * max(len(states), 1):
            reasons += (
                f"{lost} of {len(states)} states are lost: no relative pose was measured for "
                "more than 3 s before them",
            )
        return Verdict("weak" if reasons else "ok", reasons)


document_fields(__name__)
