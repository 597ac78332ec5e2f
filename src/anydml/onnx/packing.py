"""Values as functions take them: packed, of not too many dimensions, and stand-ins that have shapes alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import Fault, UnsupportedError
from anydml.core.guards import tape_on
from anydml.core.memory import packed_strides
from anydml.core.symbolic_sizes import is_open

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.api.builder import Graph
    from anydml.api.expression import Expression
    from anydml.onnx.lower.values import Value

MOST_DIMENSIONS = 8


def depends_on_sizes(inputs: Sequence[Value], shape: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    """Whether what is computed depends on open sizes."""
    if tape_on() is None:
        return False
    return is_open(shape) or is_open(arguments) or any(one.known is not None and one.known.is_open for one in inputs)


def stand_in(graph: Graph, value: Value, shape: tuple[int, ...] | None = None) -> Expression:
    """A tensor without elements, for a function to check what it would be given."""
    sizes = (value.shape if shape is None else shape) or (1,)
    check_rank(sizes)
    return graph.input(TensorDesc(value.element.data_type, sizes))


def is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides are those of packed memory, wherever a dimension has more than one element."""
    packed = packed_strides(shape)
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, packed, strict=True))


def check_rank(shape: tuple[int, ...]) -> None:
    """Refuse more dimensions than DirectML's operators take."""
    if len(shape) > MOST_DIMENSIONS:
        rule = f"a tensor must have at most {MOST_DIMENSIONS} dimensions, DirectML's most, for anything but a reshape"
        raise UnsupportedError("onnx", Fault(field="shape", rule=rule, value=shape, found=str(len(shape))))
