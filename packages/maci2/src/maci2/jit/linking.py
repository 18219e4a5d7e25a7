"""A kernel and the functions it calls, linked into one piece of machine code.

Numba optimizes each function together with all that it calls and turns each into machine code:
what lies five calls deep is optimized six times and emitted six times. Here functions, also
numba's own, are only lowered: they are parts. A kernel that Python calls is its part with a
wrapper for Python, linked with all the parts below it, optimized and emitted once. Numba itself
stays as it is: these are subclasses of its own classes and a target of their own, for kernels
alone.

Measured with an empty cache, processor time for the kernels of `initialize`: 12 s with lowering,
typing and reference counts rewritten, too, 14 s as it is here, and 33 s with `numba.njit` for each
kernel and nothing of this module.
"""

import copy
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from llvmlite.binding import Linkage
from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.cpu import CPUContext
from numba.core.dispatcher import _FunctionCompiler  # type: ignore[attr-defined]
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target
from numba.core.target_extension import (
    CPU,
    dispatcher_registry,
    jit_registry,
    target_override,
    target_registry,
)

TARGET = "maci2-part"
"""Name under which numba finds how functions below a kernel are compiled."""


class PartLibrary(JITCodeLibrary):
    """Code of a function that kernels call: never run by itself, so not made into machine code.

    It holds the function alone. What that calls is linked once, into the kernel: a part of parts
    would be copied as often as there are calls above it.
    """

    def finalize(self) -> None:
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = Linkage.linkonce_odr
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def own_module(self) -> Any:
        """The function alone."""
        self._ensure_finalized()
        return self._final_module

    def _get_module_for_linking(self) -> Any:
        """The function with all that it calls, for a function of numba that is no kernel."""
        module = self.own_module().clone()
        for library in with_parts_below(self._linking_libraries):
            module.link_in(_module_of(library), preserve=True)
        return module

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class EntryLibrary(JITCodeLibrary):
    """Code of a kernel with all that it calls."""

    def finalize(self) -> None:
        for library in with_parts_below(self._linking_libraries):
            self._final_module.link_in(_module_of(library), preserve=True)
        self._linking_libraries = []
        super().finalize()

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        """Numba's optimization at the level that takes two thirds of the time.

        First what must be inlined, so that references which cancel are found, then all.
        """
        codegen = self._codegen
        for options in ({"opt": 0, "loop_vectorize": False, "cost": "cheap"}, {"opt": 2}):
            passes, builder = codegen._module_pass_manager(**options)
            passes.run(self._final_module, builder)


def with_parts_below(libraries: Iterable[Any]) -> dict[Any, None]:
    """Libraries and those that their functions call, each once."""
    found: dict[Any, None] = {}
    waiting = list(libraries)
    while waiting:
        library = waiting.pop()
        if library not in found:
            found[library] = None
            if isinstance(library, PartLibrary):
                waiting.extend(library._linking_libraries)
    return found


def _module_of(library: Any) -> Any:
    is_part = isinstance(library, PartLibrary)
    return library.own_module() if is_part else library._get_module_for_linking()


class PartCodegen(JITCPUCodegen):
    """Numba's code generator, with libraries that are not emitted."""

    _library_class = PartLibrary

    def __init__(self, codegen: JITCPUCodegen) -> None:
        self.__dict__ = copy.copy(codegen.__dict__)

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing yet: the kernel that the part is linked into sets it."""


class Part(CPU):
    """Target in numba's sense: this processor, for functions below a kernel."""


class PartContext(CPUContext):
    """Numba's context of lowering, with parts' code generator."""

    def __init__(self, context: CPUContext) -> None:
        self.__dict__ = copy.copy(context.__dict__)
        self._internal_codegen = PartCodegen(context.codegen())
        self.target = Part


class PartTarget(CPUTarget):
    """This processor, with parts' contexts."""

    @cached_property
    def typing_context(self) -> Any:
        return cpu_target.typing_context

    @cached_property
    def target_context(self) -> Any:
        return PartContext(cpu_target.target_context)


class NumbaPart(CPUDispatcher):
    """A function of numba's own (`np.zeros`) as kernels find it."""

    targetdescr = PartTarget(TARGET)
    _compiler: Any

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        options = dict(targetoptions or {})
        options |= {
            "nopython": True,
            "boundscheck": None,
            "no_cpython_wrapper": True,
            "no_cfunc_wrapper": True,
        }
        super().__init__(py_func, locals, options)


class PartDispatcher(NumbaPart):
    """A function of this package as kernels find it."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """One part for all integers, not one for each constant that it is called with."""
        kinds = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), kinds)


class EntryCompiler(_FunctionCompiler):
    """Turns a part into a kernel that Python calls."""

    def __init__(self, part: PartDispatcher) -> None:
        super().__init__(part.py_func, cpu_target, part.targetoptions, {}, Compiler)
        self._part = part

    def _compile_core(self, args: Any, return_type: Any) -> Any:
        with target_override(TARGET):
            self._part.compile(args)
        lowered: Any = self._part.overloads[args]
        # The wrapper keeps constants; the part's own are pickled with every kernel that calls it.
        function = copy.copy(lowered.fndesc)
        function.env_name += "_entry"
        environment = Environment.from_fndesc(function)
        context = cpu_target.target_context.subtarget(enable_nrt=True)
        library = EntryLibrary(context.codegen(), function.qualname)
        library.enable_object_caching()
        nogil = bool(self.targetoptions.get("nogil"))
        context.create_cpython_wrapper(
            library, function, environment, lowered.call_helper, release_gil=nogil
        )
        library.add_linking_library(lowered.library)
        result = lowered._replace(
            library=library,
            fndesc=function,
            environment=environment,
            entry_point=context.get_executable(library, function, environment),
            target_context=context,
            metadata={},
        )
        for referenced in result._find_referenced_environments():
            library.codegen.set_env(referenced.env_name, referenced)
        return result


class EntryDispatcher(CPUDispatcher):
    """A kernel as Python finds it."""

    def __init__(self, part: PartDispatcher) -> None:
        super().__init__(part.py_func, targetoptions=part.targetoptions)
        self._compiler = EntryCompiler(part)


def _numba_part(**options: Any) -> Any:
    return lambda function: NumbaPart(function, targetoptions=options)


target_registry[TARGET] = Part
dispatcher_registry[Part] = NumbaPart
jit_registry[Part] = _numba_part
