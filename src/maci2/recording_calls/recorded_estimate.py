"""Common part of the results of `initialize_recording` and `calibrate_recording`."""

from pathlib import Path
from typing import TYPE_CHECKING

from maci2.boundary import as_path
from maci2.estimation import CalibrationResult, InitResult, Posterior, Verdict, VIState
from maci2.estimation.result_output import Record
from maci2.files import write_json
from maci2.pipeline.prepare import Inputs

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RecordedEstimate:
    """An estimate together with the recording it was made from."""

    result: InitResult | CalibrationResult
    inputs: Inputs

    @property
    def verdict(self) -> Verdict:
        """Whether the result may be used, and the reasons if not."""
        return self.result.verdict

    @property
    def state(self) -> VIState | None:
        """Poses, velocities, gravity, biases and extrinsics; None if there is no estimate."""
        return self.result.state

    @property
    def posterior(self) -> Posterior | None:
        """Covariance of the state; None without a state."""
        return self.result.posterior

    def to_dict(self) -> Record:
        """The record that `--json` writes."""
        raise NotImplementedError

    def save(self, path: str | Path) -> None:
        """Write `to_dict()` as JSON, atomically."""
        write_json(as_path(path, "path"), self.to_dict())

    def plot(self) -> "Figure":
        """The estimate with its uncertainty (matplotlib, extra `report`)."""
        return self.result.plot()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.inputs.recording.name}: {self.result!r})"
