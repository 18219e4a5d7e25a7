"""The steps from a function to LLVM's form of it: numba's own, less those that kernels need not."""

from typing import Any

from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    AnnotateTypes,
    DumpParforDiagnostics,
    InlineOverloads,
    NativeLowering,
    NopythonRewrites,
    NoPythonSupportedFeatureValidation,
)
from numba.core.untyped_passes import (
    FindLiterallyCalls,
    InlineClosureLikes,
    InlineInlinables,
    LiteralPropagationSubPipelinePass,
    LiteralUnroll,
    MakeFunctionToJitFunction,
    RewriteDynamicRaises,
    WithLifting,
)

from maci2.compile.lowering import PartLowering

NEEDLESS = (
    WithLifting,
    InlineClosureLikes,
    RewriteDynamicRaises,
    MakeFunctionToJitFunction,
    InlineInlinables,
    FindLiterallyCalls,
    LiteralUnroll,
    LiteralPropagationSubPipelinePass,
    InlineOverloads,
    NopythonRewrites,
    NoPythonSupportedFeatureValidation,
    AnnotateTypes,
    DumpParforDiagnostics,
)
"""Numba's steps for what this package's kernels do without: closures, `with`, messages made while
running, types that literals decide, whole-array expressions fused into loops. Each goes through
all of a function, and most make numba analyse it anew."""


class PartSteps(PassManager):
    """Steps without numba's analysis of the whole function after each of them.

    The steps that need an analysis make it themselves, the last one before lowering too.
    """

    _ENFORCING = False


def part_steps(state: Any) -> PassManager:
    """The steps for a function that is part of a kernel; numba's own functions take all of them."""
    standard = DefaultPassBuilder.define_nopython_pipeline(state)
    is_own = state.func_id.modname.startswith("maci2.")
    steps = PartSteps("maci2")
    for step, description in standard.passes:
        if not (is_own and step in NEEDLESS):
            steps.add_pass(PartLowering if step is NativeLowering else step, description)
    steps.finalize()
    return steps
