"""How a kernel and the functions it calls become one piece of machine code.

Numba optimizes each function together with all that it calls and turns each into machine code:
what lies five calls deep is optimized six times and emitted six times. Here only a kernel that
Python calls is. The functions below it, its parts, are linked into it as they were lowered.
Numba itself stays as it is: these are subclasses of its own classes, for kernels alone.
"""

import copy
from typing import Any, ClassVar

from numba.core import types
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler, Flags
from numba.core.registry import CPUDispatcher, CPUTarget, cpu_target

PART_OPTIONS = {"nopython": True, "boundscheck": None, "no_cpython_wrapper": True}


class PartLibrary(JITCodeLibrary):
    """Code of a function that kernels call: never run by itself, so not made into machine code."""

    def finalize(self) -> None:
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout


class PartCodegen(JITCPUCodegen):
    """Numba's code generator, with libraries that are not emitted."""

    _library_class = PartLibrary

    def __init__(self, codegen: JITCPUCodegen) -> None:
        self.__dict__ = copy.copy(codegen.__dict__)

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing yet: the kernel that the part is linked into sets it."""


class PartTarget(CPUTarget):
    """This processor, with parts' code generator."""

    _context: Any = None

    @property
    def typing_context(self) -> Any:
        return cpu_target.typing_context

    @property
    def target_context(self) -> Any:
        if self._context is None:
            context = cpu_target.target_context
            self._context = context.subtarget(_internal_codegen=PartCodegen(context.codegen()))
        return self._context


class CallerFlags(Flags):
    """Options of a kernel as numba compares them when it looks for what the kernel calls.

    It does so tens of thousands of times. Whether a kernel gets a wrapper for Python does not
    matter to what it calls.
    """

    __slots__ = ("_hash",)

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags)
        for name in ("no_cpython_wrapper", "no_cfunc_wrapper"):
            self.discard(name)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or bool(super().__eq__(other))

    def copy(self) -> Flags:
        return Flags(self)


class KernelFlags(Flags):
    """Options of a kernel; their copy is what numba shows to the functions it calls."""

    __slots__ = ()
    _seen: ClassVar[dict[CallerFlags, CallerFlags]] = {}

    def copy(self) -> CallerFlags:
        flags = CallerFlags(self)
        return self._seen.setdefault(flags, flags)


class PartCompiler(Compiler):
    """Compiler of functions that kernels call."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.state.flags = KernelFlags(self.state.flags)


class KernelCompiler(PartCompiler):
    """Compiler of kernels that Python calls."""

    def compile_extra(self, func: Any) -> Any:
        result = super().compile_extra(func)
        for environment in result._find_referenced_environments():
            result.library.codegen.set_env(environment.env_name, environment)
        return result


class PartDispatcher(CPUDispatcher):
    """A function as kernels find it."""

    targetdescr = PartTarget("cpu")

    def __init__(self, function: Any, options: dict[str, Any]) -> None:
        super().__init__(
            function, targetoptions=PART_OPTIONS | options, pipeline_class=PartCompiler
        )

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """One part for all integers, not one for each constant that it is called with."""
        kinds = {name: types.unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(tuple(map(types.unliteral, args)), kinds)
