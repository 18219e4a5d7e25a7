"""What a stream says of its own constants, from windows that do not overlap."""

from dataclasses import replace

from maci2.imu import ImuMeasurements
from maci2.premises import PremiseEvidence, Premises, SampleRate
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

    def asks_for(self, vision: RelativePoses) -> bool:
        """Whether a window overlaps none that was added before it."""
        return self._until_ns is None or int(vision.stamps_ns[0]) >= self._until_ns

    def add(self, imu: ImuMeasurements, vision: RelativePoses) -> None:
        """Add a window; samples beyond both its ends tell a time offset."""
        self._evidence.add(imu, [vision])
        self._posterior = self._evidence.posterior()
        self._until_ns = int(vision.stamps_ns[-1])

    def posterior(self, rate: SampleRate | None) -> Premises | None:
        """The constants given all windows; None before the first."""
        return self._posterior and replace(self._posterior, sample_rate=rate)
