"""Stated constants of a rig, questioned by every window of a stream while it is tracked."""

from maci2.errors import DatasetError
from maci2.imu import ImuMeasurements
from maci2.premises import contradicted_axes, contradictions
from maci2.premises.evidence import window_rate
from maci2.premises.live_channels import dead_channels
from maci2.tracking.stream_premises import StreamPremises
from maci2.types import Mat4
from maci2.vision import RelativePoses

AROUND_NS = 20_000_000
"""Samples beyond a window, where there are any, that it is asked for a time offset with [ns]."""


class QuestionedConstants:
    """Takes windows; says what they have against extrinsics, scale, clock, axes and units."""

    def __init__(self, T_b_c: Mat4, gravity_norm: float) -> None:
        self._premises = StreamPremises(T_b_c)
        self._gravity_norm = gravity_norm
        self.clear()

    def clear(self) -> None:
        """Forget all windows."""
        self._premises.clear()
        self._faulty_samples: tuple[str, ...] = ()  # of the first window that has any
        self.reasons: tuple[str, ...] = ()  # what all windows say against the stated constants
        self.wrong_axes: tuple[str, ...] = ()  # those of them with which no state means anything

    def asks_for(self, window: RelativePoses) -> bool:
        """Whether a window overlaps none that was asked before it."""
        return self._premises.asks_for(window)

    def question(self, imu: ImuMeasurements, window: RelativePoses) -> None:
        """Ask every window that overlaps no earlier one."""
        if not self.asks_for(window):
            return
        first_ns, last_ns = int(window.stamps_ns[0]), int(window.stamps_ns[-1])
        if first_ns < imu.stamps_ns[0] or last_ns > imu.stamps_ns[-1]:
            return
        inside = imu.between(first_ns, last_ns)
        dead = dead_channels(inside)
        if dead:
            # What such samples say of the constants is no evidence.
            when = f"up to timestamp {window.stamps_ns[-1]} ns "
            self._faulty_samples = self._faulty_samples or tuple(when + reason for reason in dead)
        else:
            # A time offset shows in samples beyond the window.
            around = imu.between(first_ns - AROUND_NS, last_ns + AROUND_NS)
            try:
                self._premises.add(around, window)
            except DatasetError:
                return  # a gap of the IMU: what is left speaks for itself
        premises = self._premises.posterior(window_rate(inside))
        against = []
        if premises is not None:
            against = contradictions(premises, self._gravity_norm, False)
            self.wrong_axes = tuple(contradicted_axes(premises))
        self.reasons = (*self._faulty_samples, *against)
