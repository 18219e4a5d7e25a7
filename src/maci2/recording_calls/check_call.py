"""`maci2 check` as a function."""

from pathlib import Path

from maci2.diagnostics.diagnose import examine_path
from maci2.diagnostics.diagnosis import Diagnosis
from maci2.pipeline.option_list import CheckOptions
from maci2.recording_calls.arguments import takes_options


@takes_options(CheckOptions)
def check_recording(path: Path, options: CheckOptions) -> Diagnosis:
    """Check what a recording contains and what is wrong with it, as `maci2 check` does.

    Returns:
        Findings, most important first, each with a remedy. If the recording cannot be read, that is
        the only finding.

    Raises:
        DatasetError: there is no such file or folder.
        OptionError: the source of camera motion is invalid.
    """
    return examine_path(
        path,
        options.rig,
        options.topics,
        options.vision,
        options.vision_frame,
        options.given,
        options.columns,
    )
