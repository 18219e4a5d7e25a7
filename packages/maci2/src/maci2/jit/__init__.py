"""Kernels, compiled or interpreted: the one place that knows the compiler and its cache."""

from maci2.jit.kernels import are_interpreted, kernel, seldom, use_kernels, warm_up

__all__ = ["are_interpreted", "kernel", "seldom", "use_kernels", "warm_up"]
