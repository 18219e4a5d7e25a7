"""Ground truth of a recording as `--truth` chooses it, audited only if its states are needed."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from maci2.errors import DatasetError
from maci2.imu.model_choice import calibrated_samples
from maci2.sensors import GroundTruth, Recording, require_overlap, with_velocity


@dataclass(frozen=True)
class ChosenTruth:
    """Ground truth of a recording, resolved when it is first used."""

    recording: Recording
    """The recording as it was opened."""

    names: tuple[str, ...] = ()
    """Names of `--truth`."""

    imu: str = "raw"
    """IMU model, as `--imu` names it."""

    @cached_property
    def calibrated(self) -> Recording:
        """The recording as audits see it: samples without the device's errors that the IMU model
        knows. An audit that follows a wrong scale would call its correction an error."""
        return replace(self.recording, imu=calibrated_samples(self.imu, self.recording.imu))

    @cached_property
    def states(self) -> GroundTruth | None:
        """Ground truth with velocities; None if the recording has none."""
        truth = self._with_audits.truth(self.names)
        if truth is not None:
            require_overlap(truth, self.recording.imu)
            if np.isnan(truth.v_w).all():
                truth = with_velocity(truth)
        return truth

    @cached_property
    def motion_noise(self) -> tuple[float, float]:
        """Noise that raw motion capture adds to motion made from it [rad, m]; zero for others."""
        from maci2.tools.ground_truth.choose import capture_noise

        return capture_noise(self.calibrated, self.names)

    @cached_property
    def _with_audits(self) -> Recording:
        from maci2.tools.ground_truth.choose import with_audited

        return with_audited(self.calibrated, self.names)

    def require(self, why: str) -> GroundTruth:
        """The states; raises where there are none and `why` needs them."""
        if self.states is None:
            raise DatasetError(f"{self.recording.path}: no ground truth{why}")
        return self.states

    def require_names(self) -> None:
        """Raise unless the recording has every ground truth that is named."""
        from maci2.tools.ground_truth.choose import require_known_truths

        require_known_truths([self.recording], self.names)
