"""A coordinate of a map: what is read there, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.reference.evaluate import evaluate
from anydml.explain.formula import name_index
from anydml.explain.picture import spoken
from anydml.explain.tale import element_at
from anydml.ir.expressions import coordinate
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.explain.picture import Coordinate, Element
    from anydml.explain.values import Values
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Map
    from anydml.tensor import TensorDesc


@dataclass(frozen=True, slots=True)
class Place:
    """A coordinate of a map: what is read there, and what comes of it."""

    primitive: Map
    tensors: Mapping[str, TensorDesc]
    values: Mapping[str, Values]
    at: Coordinate

    def element(self, node: Expr) -> Element:
        """The element that a load or a fetch reads."""
        view = self.primitive.sources[int(node.value)]
        at = self.at if node.op == "load" else [int(self.value(index)) for index in node.args]
        return element_at(view, at, self.tensors[view.tensor].sizes)

    def name(self, node: Expr) -> str:
        """The name of a leaf here."""
        if node.op == "fetch":
            return spoken(self.primitive.sources[int(node.value)].tensor)
        return str(self.element(node)) if node.op == "load" else name_index(node)

    def value(self, node: Expr) -> Any:
        """Have the reference engine compute it, so that a picture rounds and wraps as an operator does."""
        if node.op in ("load", "fetch"):
            element = self.element(node)
            return self.values[element.tensor].at(element.coordinate)
        shape = (1,) * len(self.at)
        known = {coordinate(k): np.full(shape, c) for k, c in enumerate(self.at)}
        known |= {one: np.full(shape, self.value(one)) for one in walk(node) if one.op in ("load", "fetch")}
        return np.broadcast_to(evaluate(node, (), shape, known=known), shape)[(0,) * len(shape)]
