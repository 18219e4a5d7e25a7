"""What a stream says of its own constants, from windows that do not overlap."""

from dataclasses import replace

from maci2.estimation.premises import PremiseEvidence, Premises, SampleRate
from maci2.imu import ImuMeasurements
from maci2.types import Array
from maci2.vision import RelativePoses


class StreamPremises:
    """Posterior of extrinsic rotation, axes, scale and clocks over the whole stream so far."""

    def __init__(self, T_b_c: Array) -> None:
        self._T_b_c = T_b_c
        self.clear()

    def clear(self) -> None:
        self._evidence = PremiseEvidence(self._T_b_c)
        self._until_ns: int | None = None
        self._posterior: Premises | None = None

    def seen(
        self, imu: ImuMeasurements, vision: RelativePoses, rate: SampleRate | None
    ) -> Premises | None:
        """The posterior, this window included where it overlaps none before it."""
        start_ns, end_ns = int(vision.stamps_ns[0]), int(vision.stamps_ns[-1])
        if self._until_ns is None or start_ns >= self._until_ns:
            self._evidence.add(imu, [vision])
            self._posterior = self._evidence.posterior()
            self._until_ns = end_ns
        return self._posterior and replace(self._posterior, sample_rate=rate)
