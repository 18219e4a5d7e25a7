"""Commands of the lab: they prove and train what `maci2` uses."""

from maci2_lab.cli.experiments import bench, freeze, report, reproduce
from maci2_lab.cli.scores import evaluate, imu_report, vo_report
from maci2_lab.cli.training import train_imu, train_vision

COMMANDS = (
    evaluate, reproduce, report, freeze, bench, imu_report, vo_report, train_imu, train_vision,
)  # fmt: skip
"""Entry points of the group `maci2.commands`."""
