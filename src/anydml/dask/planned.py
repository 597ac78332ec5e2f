"""Lazy arrays where `array.query-planning` is on: blocks of a layer, whose inputs may be rewritten before it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dask.array._array_expr._expr import ArrayExpr

from anydml.core.locks import cached_property

if TYPE_CHECKING:
    from anydml.dask.arrays import Chunks, Key


class Blocks(ArrayExpr):  # type: ignore[misc]  # Dask has no types
    """The blocks of a layer; its operands are the layer, the chunks, the meta, and the arrays that it reads."""

    _parameters = ("layer", "made_chunks", "made_meta")

    @cached_property
    def chunks(self) -> Chunks:  # noqa: D102 - Dask's
        found: Chunks = self.operand("made_chunks")
        return found

    @cached_property
    def _meta(self) -> Any:
        return self.operand("made_meta")

    @cached_property
    def _name(self) -> str:
        return f"{self.operand('layer').prefix}-{self.deterministic_token}"

    def _layer(self) -> dict[Key, Any]:
        inputs = self.operands[len(self._parameters) :]
        return dict(self.operand("layer").tasks(self._name, [x.name for x in inputs]))
