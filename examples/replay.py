"""Initialize while sensors run: a recording replayed at real time, or faster.

    python examples/replay.py SEQ [SPEED]

Replace `replay` by your drivers' callbacks: `add_imu` and `add_stereo` may be called from one thread
or from two, in any order of arrival.
"""

import sys
from pathlib import Path

from maci2 import open_recording
from maci2.live import OnlineInitializer
from maci2.live.replay import replay


def main(path: Path, speed: float) -> None:
    recording = open_recording(path)

    def tell(result):
        if result.state is not None:
            gravity = ", ".join(f"{value:.3f}" for value in result.state.gravity_c0)
            print(
                f"{result.verdict.status}: gravity_c0 {gravity} +- {result.gravity_std_deg:.2f} deg"
            )

    with OnlineInitializer(recording.rig, on_result=tell) as online:
        replay(recording, online, speed)
        online.drain(60.0)
        print(online.status)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 1.0)
