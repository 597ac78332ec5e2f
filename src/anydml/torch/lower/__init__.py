"""ATen operators as DirectML's: a table by their names, of families."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.torch.lower import (
    attention,
    convolution,
    elementwise,
    gemm,
    gradients,
    grids,
    histograms,
    indexing,
    movement,
    normalization,
    orthogonal,
    quantization,
    reductions,
    resampling,
    scatter,
    segments,
    special,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Callable

_FAMILIES = (
    elementwise,
    reductions,
    gemm,
    convolution,
    normalization,
    attention,
    movement,
    indexing,
    scatter,
    segments,
    special,
    orthogonal,
    windows,
    gradients,
    grids,
    histograms,
    quantization,
    resampling,
)
LOWERINGS: dict[str, Callable[..., Any]] = {
    name if name.startswith(("prims.", "quantized_decomposed.", "anydml.")) else f"aten.{name}": lowering
    for family in _FAMILIES
    for name, lowering in family.LOWERINGS.items()
}
"""By the name of an operator and its overload, what builds it: with a `Context` and the node's arguments."""
