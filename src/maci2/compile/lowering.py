"""Translation of kernels from numba's form to LLVM's, in few instructions.

Most of what kernels do is reading and writing single numbers of arrays. Numba takes some fifty
instructions for one and leaves it to LLVM to find out that a dozen suffice; LLVM's time, and
numba's for writing and reading its text, goes with their number. Here it is a dozen at once. Also
references are not counted to arrays that the caller holds, and a number that is no longer needed
is not cleared. What is computed is the same.
"""

from typing import Any

from llvmlite import ir as llvm
from numba.core import ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

INDEX = types.int64
WORD = llvm.IntType(64)
BYTES = llvm.IntType(8).as_pointer()


class PartLower(Lower):
    """Numba's lowering of a function that is part of a kernel."""

    def lower(self) -> None:
        self._held = set() if self._disable_sroa_like_opt else arrays_of_the_caller(self)
        super().lower()

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        references = self.context.nrt
        references.is_idle = inst.target.name in self._held
        try:
            return super().lower_assign(ty, inst)
        finally:
            references.is_idle = False

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        if self._is_counted(name):
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, self.typeof(name))
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        if self._is_counted(name):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        array = self.typeof(value.name)
        indices = self._indices(array, index, signature.args[1])
        if indices is None or resty != array.dtype:
            return super().lower_getitem(resty, expr, value, index, signature)
        return self.builder.load(self._place(array, self.loadvar(value.name), indices))

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> Any:
        array = self.typeof(target_var.name)
        indices = self._indices(array, index_var, signature.args[1])
        value_type = self.typeof(value_var.name)
        if indices is None or not isinstance(value_type, types.Number | types.Boolean):
            return super().lower_setitem(target_var, index_var, value_var, signature)
        value = self.loadvar(value_var.name)
        value = self.context.cast(self.builder, value, value_type, array.dtype)
        place = self._place(array, self.loadvar(target_var.name), indices)
        self.builder.store(value, place)
        return None

    def _is_counted(self, name: str) -> bool:
        """References to what the variable holds are counted."""
        return self._disable_sroa_like_opt or (
            name not in self._held and holds_arrays(self, self.typeof(name))
        )

    def _indices(self, array: Any, index: Any, to: Any) -> list[Any] | None:
        """One whole number for each axis of an array of numbers; None where it is something else.

        `to` is the type of the index as numba would have it.
        """
        if self.context.enable_boundscheck or not _is_plain(array):
            return None
        kinds = tuple(to.types) if isinstance(to, types.UniTuple | types.Tuple) else (to,)
        if len(kinds) != array.ndim or any(kind != INDEX for kind in kinds):
            return None
        value = self.context.cast(
            self.builder, self.loadvar(index.name), self.typeof(index.name), to
        )
        if not isinstance(to, types.BaseTuple):
            return [value]
        return [self.builder.extract_value(value, i) for i in range(array.ndim)]

    def _place(self, array: Any, value: Any, indices: list[Any]) -> Any:
        """Pointer to the element; a negative index counts from the end."""
        builder = self.builder
        position = self.context.data_model_manager[array].get_field_position

        def field(name: str, *axis: int) -> Any:
            return builder.extract_value(value, [position(name), *axis])

        shape = [field("shape", axis) for axis in range(array.ndim)]
        indices = [self._from_start(i, n) for i, n in zip(indices, shape, strict=True)]
        data, offset = field("data"), indices[0]
        if array.layout == "C":
            for i, n in zip(indices[1:], shape[1:], strict=True):
                offset = builder.add(builder.mul(offset, n), i)
            return builder.gep(data, [offset])
        offset = builder.mul(offset, field("strides", 0))
        for axis in range(1, array.ndim):
            offset = builder.add(offset, builder.mul(indices[axis], field("strides", axis)))
        return builder.bitcast(builder.gep(builder.bitcast(data, BYTES), [offset]), data.type)

    def _from_start(self, index: Any, size: Any) -> Any:
        builder = self.builder
        is_negative = builder.icmp_signed("<", index, llvm.Constant(WORD, 0))
        return builder.select(is_negative, builder.add(index, size), index)


def arrays_of_the_caller(lower: Lower) -> set[str]:
    """Variables that only ever hold arguments, or parts of them: the caller keeps them alive."""
    sources: dict[str, list[list[str] | None]] = {}
    for block in lower.blocks.values():
        for inst in block.find_insts(ir.Assign):
            sources.setdefault(inst.target.name, []).append(_taken_from(lower, inst.value))
    held = {
        name
        for name, each in sources.items()
        if None not in each and holds_arrays(lower, lower.typeof(name))
    }
    while True:
        lost = {
            name
            for name in held
            if any(other not in held for each in sources[name] for other in each or ())
        }
        if not lost:
            return held
        held -= lost


def holds_arrays(lower: Lower, ty: Any) -> bool:
    """References to values of a type are counted."""
    return bool(lower.context.data_model_manager[ty].contains_nrt_meminfo())


def _taken_from(lower: Lower, value: Any) -> list[str] | None:
    """Variables that a value is a part of; None where it may be something new."""
    if isinstance(value, ir.Arg):
        return []
    if isinstance(value, ir.Var):
        return [value.name]
    if not isinstance(value, ir.Expr) or value.op not in ("getattr", "static_getitem", "getitem"):
        return None
    whole = lower.typeof(value.value.name)
    if isinstance(whole, types.BaseTuple):
        return [value.value.name]
    if value.op == "getattr" or not isinstance(whole, types.Array):
        return None
    index = value.index if value.op == "getitem" else value.index_var
    is_view = index is not None and _is_basic(lower.typeof(index.name))
    return [value.value.name] if is_view else None


def _is_basic(index: Any) -> bool:
    """An index that gives a view: whole numbers and slices."""
    parts = index.types if isinstance(index, types.UniTuple | types.Tuple) else (index,)
    return all(isinstance(part, types.Integer | types.SliceType) for part in parts)


def _is_plain(array: Any) -> bool:
    return (
        isinstance(array, types.Array)
        and array.layout in "CA"
        and array.aligned
        and array.ndim > 0
        and isinstance(array.dtype, types.Integer | types.Float)
    )


@register_pass(mutates_CFG=True, analysis_only=False)
class PartLowering(NativeLowering):
    """Numba's step that lowers a function, with the lowering of parts."""

    _name = "maci2_part_lowering"

    @property
    def lowering_class(self) -> Any:
        return PartLower
