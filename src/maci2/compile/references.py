"""Counting references to arrays with few instructions.

Numba takes an array apart into all its fields, and a tuple of arrays into all of theirs, each time
it counts a reference: a third of the code that it hands to LLVM. Only one field is looked at.
"""

from typing import Any

from numba.core import types
from numba.core.runtime.context import NRTContext


class References(NRTContext):
    """Numba's counting of references, without fields that nobody looks at."""

    is_idle = False
    """What is being lowered takes no reference of its own."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[tuple[Any, Any]]:
        """Counters of a value's arrays, each with its type."""
        model = self._context.data_model_manager[ty]
        if isinstance(ty, types.Array):
            return [(ty, model.get(builder, val, "meminfo"))]
        return super().get_meminfos(builder, ty, val) if model.contains_nrt_meminfo() else []

    def incref(self, builder: Any, typ: Any, value: Any) -> None:
        """Count one reference more."""
        if not self.is_idle:
            super().incref(builder, typ, value)
