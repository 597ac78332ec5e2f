"""CumSum, CumProd and ReverseSequence: along one axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.core.enums import AxisDirection, DataType
from anydml.core.symbolic_sizes import is_open, name_of
from anydml.onnx.element_types import UINT64
from anydml.onnx.lower.data_movement import retyped

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Value


def cum_sum(node: BoundNode) -> list[Value]:
    """CumSum."""
    return [_running(node, dml.cumulative_summation)]


def cum_prod(node: BoundNode) -> list[Value]:
    """CumProd."""
    return [_running(node, dml.cumulative_product)]


def _running(node: BoundNode, function: Callable[..., Any]) -> Value:
    data, axis = node.input(0), node.input(1).ints("axis")
    if len(axis) != 1:
        node.refuse("axis", "axis must be one number", value=len(axis))
    direction = AxisDirection.DECREASING if node.integer("reverse", 0) else AxisDirection.INCREASING
    number, exclusive = node.axis(axis[0], len(data.shape)), bool(node.integer("exclusive", 0))
    # ONNX has sums of DOUBLE, and no user would take less precise ones for the sake of DirectML's table.
    return node.tracer.apply(function, [data], data.shape, number, direction, exclusive, allow_float64=True)


def reverse_sequence(node: BoundNode) -> list[Value]:
    """ReverseSequence: in each batch, as much of the time axis as its length says, from the last to the first.

    A length outside 0 .. the axis's size is refused, as ONNX Runtime does: DirectML takes it for all of the axis.
    """
    data, lengths = node.input(0), node.input(1)
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch, time} != {0, 1} or len(data.shape) < 2:
        node.refuse("time_axis", "batch_axis and time_axis must be 0 and 1, of at least 2 dimensions")
    node.check_shape("sequence_lens", lengths, (data.shape[batch],), why=", one for each batch")
    lengths = within(node, lengths, data.shape[time], UINT64)
    if 0 in data.shape:
        return [data]
    sizes = tuple(1 if k == time else n for k, n in enumerate(data.shape))
    strides = tuple(1 if k == batch else 0 for k in range(len(sizes)))
    return [_reverse(node, data, lengths, time, sizes, strides)]


def within(
    node: BoundNode, lengths: Value, most: int, element: ElementType, what: str = "sequence_lens", said: str = ""
) -> Value:
    """The lengths of sequences, which must lie in 0 .. the most, of an unsigned type of as many bits.

    `what` is the input that they are, and `said` what must lie there, where that is not the input itself.

    Those of a run are checked by a gather from 0, 1, .. the most, which gives the index itself: without their sign,
    those below 0 are outside as well.
    """
    start = f"{said or what} must lie in 0 .. "
    if lengths.known is not None:
        given = lengths.known.flat()
        if (outside := given[(given < 0) | (given > most)]).size:
            node.refuse(what, f"{start}{most}", value=int(outside[0]), found=str(outside[0]))
        return retyped(node, lengths, element)
    if not lengths.count:
        return lengths
    # The layers of a model have one length in common, which is looked at once.
    seen = node.tracer.tensor(lengths)
    key = (seen.source, seen.slot, seen.sizes, start, name_of(most))
    if (known := node.tracer.checked.get(key)) is not None:
        return known
    # Not a constant where it is of any length, which each length would have to compute.
    numbers = node.tracer.fill(dml.fill_value_sequence, element, (most + 1,), 0, 1, folds=not is_open(most))

    def call(x: Any, given: Any) -> Any:
        return dml.gather(x, given.reinterpret(data_type=element.data_type))

    found = node.tracer.apply(call, [numbers, lengths], lengths.shape)
    node.tracer.word_outside(found, what, start + "{most}", 8 * element.held.itemsize, most)
    node.tracer.checked[key] = found
    return found


def _reverse(
    node: BoundNode, data: Value, lengths: Value, time: int, sizes: tuple[int, ...], strides: tuple[int, ...]
) -> Value:
    """DirectML's lengths have the sizes of the data, and no sign: ONNX's are read so, each as often as it is needed."""

    def call(x: Any, given: Any, **options: Any) -> Any:
        if isinstance(given, np.ndarray):
            steps = [stride * given.itemsize for stride in strides]
            seen = np.lib.stride_tricks.as_strided(given.view(np.uint64), sizes, steps, writeable=False)
        else:
            seen = given.reinterpret(sizes, strides, DataType.UINT64)
        return dml.reverse_subsequences(x, seen, time, **options)

    return node.tracer.apply(call, [data, lengths], data.shape)
