"""What a lowering is given: the node of an FX graph, the graph that is built, types and sizes of its results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

import anydml
from anydml.core.enums import DataType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.builder import Graph
    from anydml.api.expression import Expression

dml: Any = anydml
"""The functions, of expressions: to hold each call to overloads that are for arrays would take mypy minutes."""
DATA_TYPES: dict[Any, DataType] = {
    torch.float32: DataType.FLOAT32,
    torch.float16: DataType.FLOAT16,
    torch.int64: DataType.INT64,
    torch.int32: DataType.INT32,
    torch.int16: DataType.INT16,
    torch.int8: DataType.INT8,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.UINT8,
    torch.bfloat16: DataType.FLOAT32,
}
"""The types to compute in. Booleans are bytes of 0 and 1, as DirectML's comparisons give them."""
BITS = DataType.UINT16
"""Of bfloat16, which DirectML lacks, as it lies in memory: the upper half of a FLOAT32's bits."""
MOST_DIMENSIONS = 8


class NotLoweredError(Exception):
    """A node that DirectML's operators do not express as it is; PyTorch runs it. The text says why."""


class Context:
    """One node while it is lowered."""

    def __init__(self, graph: Graph, node: Any, number: Callable[[Any], Any], *, moves_bits: bool = False) -> None:
        self.graph, self.node = graph, node
        self._moves_bits = moves_bits
        """Whether tensors of bfloat16 are given as their bits."""
        self._number = number
        """A size or a number as the graph has it: symbols of PyTorch are symbolic sizes."""

    # The results

    def _result(self, k: int | None) -> Any:
        found = self.node.meta["val"]
        return found if k is None else found[k]

    def dtype(self, k: int | None = None) -> Any:
        """PyTorch's type of the result, or of the k-th."""
        return self._result(k).dtype

    def data_type(self, k: int | None = None) -> DataType:
        """The type of the result, or of the k-th."""
        dtype = self.dtype(k)
        return BITS if self._moves_bits and dtype is torch.bfloat16 else DATA_TYPES[dtype]

    def sizes(self, k: int | None = None) -> tuple[Any, ...]:
        """The sizes of the result, or of the k-th."""
        return tuple(map(self._number, self._result(k).shape))

    def is_read(self, k: int) -> bool:
        """Whether anybody reads the k-th result."""
        return any(user.args[1] == k and user.users for user in self.node.users)

    def refuse(self, why: str) -> NotLoweredError:
        """An error that has PyTorch run the node."""
        return NotLoweredError(why)

    # Its arguments

    def value(self, k: int) -> Any:
        """What PyTorch knows of an argument: a tensor without memory, or a number."""
        found = self.node.args[k]
        return found.meta["val"] if isinstance(found, torch.fx.Node) else found

    def common(self, *places: int) -> DataType:
        """The type in which PyTorch computes with these arguments."""
        kind = ELEMENTWISE_TYPE_PROMOTION_KIND.NO_OPMATH
        dtype, _ = elementwise_dtypes(*map(self.value, places or range(2)), type_promotion_kind=kind)
        if dtype not in DATA_TYPES:
            raise self.refuse(f"it computes in {dtype}")
        return DATA_TYPES[dtype]

    def is_boolean(self, k: int = 0) -> bool:
        """Whether an argument is of booleans."""
        found = self.value(k)
        return isinstance(found, bool) or getattr(found, "dtype", None) == torch.bool

    # Expressions

    def constant(self, number: float, data_type: DataType) -> Expression:
        """One number, without dimensions."""
        return self.graph.constant(np.asarray(number).astype(data_type.dtype))

    def full(self, number: float, data_type: DataType, sizes: Sequence[Any]) -> Expression:
        """One number in all places, which takes no memory."""
        return dml.broadcast_to(self.constant(number, data_type), tuple(sizes))  # type: ignore[no-any-return]  # an expression, as its argument is


class Nothing(NamedTuple):
    """A tensor without elements, which no graph of ours has."""

    sizes: tuple[int, ...]
    data_type: DataType


def is_empty(value: Any) -> bool:
    """Whether PyTorch's tensor has no elements, as far as its sizes are numbers."""
    return any(isinstance(size, int) and size == 0 for size in value.shape)


def cast(x: Any, data_type: DataType) -> Any:
    """An expression, or a number, in a type."""
    if not isinstance(x, dml.Expression):
        return float(x) if data_type.is_float else int(x)
    return x if x.data_type is data_type else dml.cast(x, data_type)


def axis_of(x: Expression, dim: int) -> int:
    """A dimension counted from the first."""
    rank = max(len(x.sizes), 1)
    return dim % rank


def as_list(given: Any, count: int) -> list[Any]:
    """As many numbers: one for all, or each its own."""
    listed = list(given) if isinstance(given, (list, tuple)) else [given]
    return listed * count if len(listed) == 1 else listed
