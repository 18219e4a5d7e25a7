"""Kernels, compiled or interpreted: the one place that knows the compiler and its cache."""

from maci2.jit.cache import cache_folder, is_filled
from maci2.jit.fill import before_compiling, fill, fill_aside
from maci2.jit.kernels import kernel
from maci2.jit.mode import are_interpreted, chosen_mode, seldom, use_kernels

__all__ = [
    "are_interpreted",
    "before_compiling",
    "cache_folder",
    "chosen_mode",
    "fill",
    "fill_aside",
    "is_filled",
    "kernel",
    "seldom",
    "use_kernels",
]
