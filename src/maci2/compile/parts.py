"""Functions that only kernels call: typed and optimized, but not made machine code on their own.

Numba emits machine code for every function, then once more inside every caller, although nobody
can call the first: it has no wrapper for Python. That is a third of the compiler's time. Also it
optimizes each function fully before the caller does it again; loops that are vectorised and
unrolled already are several times as much code to go through.

This reaches into numba. Where a version of it looks different it is left as it is: kernels then
take longer to compile and are the same.
"""

import logging
from functools import lru_cache
from importlib import import_module
from types import MethodType
from typing import Any

_LOG = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def compile_parts_once() -> None:
    """Change how this process compiles what kernels call."""
    try:
        _emit_kernels_only()
        _optimize_kernels_as_a_whole()
    except (AttributeError, ImportError) as error:
        _LOG.info("this version of numba compiles functions of kernels twice: %s", error)


def _emit_kernels_only() -> None:
    lowering: Any = import_module("numba.core.typed_passes").BaseNativeLowering
    context: Any = import_module("numba.core.cpu").CPUContext
    make_function: Any = import_module("numba._dynfunc").make_function
    run_pass, get_executable = lowering.run_pass, context.get_executable

    def run_pass_of_part(self: Any, state: Any) -> Any:
        flags = state.flags
        if state.library is None and flags.no_cpython_wrapper:
            flags.no_cfunc_wrapper = True
            state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.library._finalize_final_module = MethodType(_finish_part, state.library)
        return run_pass(self, state)

    def get_executable_of_part(self: Any, library: Any, fndesc: Any, env: Any) -> Any:
        if "_finalize_final_module" not in vars(library):
            return get_executable(self, library, fndesc, env)
        library._ensure_finalized()
        # A name for the code inside kernels; without a wrapper its address is zero anyway.
        name = fndesc.qualname.split(".")[-1]
        return make_function(fndesc.lookup_module(), name, "", 0, env, (library,))

    lowering.run_pass, context.get_executable = run_pass_of_part, get_executable_of_part


def _finish_part(library: Any) -> None:
    """What `CPUCodeLibrary._finalize_final_module` does, without machine code."""
    library._finalize_dynamic_globals()
    library._verify_declare_only_symbols()
    library._finalized = True


def _optimize_kernels_as_a_whole() -> None:
    config: Any = import_module("numba").config
    event: Any = import_module("numba.core.event")
    whole, part = (config.OPT, config.LOOP_VECTORIZE), (type(config.OPT)(OPT_OF_PARTS), 0)

    class Depth(event.Listener):
        depth = 0

        def on_start(self, _: Any) -> None:
            self._move(1)

        def on_end(self, _: Any) -> None:
            self._move(-1)

        def _move(self, step: int) -> None:
            self.depth += step
            config.OPT, config.LOOP_VECTORIZE = part if self.depth > 1 else whole

    event.register("numba:compile", Depth())


OPT_OF_PARTS = 0
"""Optimization level: enough to make code small, without what makes it large."""
