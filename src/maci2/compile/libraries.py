"""Code of functions before it is machine code, and how the parts of a kernel come together."""

from collections.abc import Iterable
from typing import Any

from llvmlite.binding import Linkage
from numba.core.codegen import JITCodeLibrary


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
        """As numba does, but at the level that takes two thirds of the time.

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
