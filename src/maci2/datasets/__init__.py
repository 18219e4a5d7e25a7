"""Readers of recordings: folders and bags of many data sets and tools."""

from maci2.datasets.euroc import read_euroc
from maci2.datasets.euroc_writer import write_euroc
from maci2.datasets.open import open_recording, open_rig
from maci2.datasets.tum_trajectory import read_trajectory
from maci2.datasets.tumvi import read_tumvi

__all__ = [
    "open_recording",
    "open_rig",
    "read_euroc",
    "read_trajectory",
    "read_tumvi",
    "write_euroc",
]
