"""Readers of recordings: folders and bags of many data sets and tools."""

from maci2.datasets.euroc import read_euroc, read_tumvi, write_euroc
from maci2.datasets.open import open_recording, open_rig
from maci2.datasets.tables import read_trajectory

__all__ = [
    "open_recording",
    "open_rig",
    "read_euroc",
    "read_trajectory",
    "read_tumvi",
    "write_euroc",
]
