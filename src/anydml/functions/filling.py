"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.builder import Graph
from anydml.calls import Attempt, make_call
from anydml.describing import described
from anydml.enums import DataType
from anydml.errors import DescriptionError, Fault, show
from anydml.operators import FillValueConstant, FillValueSequence
from anydml.parse import read_enum

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device


def fill_value_constant(
    sizes: Sequence[int] | int,
    value: float,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """FILL_VALUE_CONSTANT: an array of one number, as `numpy.full` has it; an expression, where a graph is given.

    >>> fill_value_constant([2, 2], 7, "int32")
    array([[7, 7],
           [7, 7]], dtype=int32)
    """
    return _fill(FillValueConstant, sizes, data_type, out, device, graph, value=value)


def fill_value_sequence(
    sizes: Sequence[int] | int,
    value_start: float,
    value_delta: float,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """FILL_VALUE_SEQUENCE: start, start + delta, start + 2·delta and so on, in the elements' order.

    It is an expression where a graph is given.

    >>> fill_value_sequence([2, 2], 10, 20, "uint8")
    array([[10, 30],
           [50, 70]], dtype=uint8)
    """
    numbers = {"value_start": value_start, "value_delta": value_delta}
    return _fill(FillValueSequence, sizes, data_type, out, device, graph, **numbers)


def _fill(
    cls: type[OperatorDesc],
    sizes: Any,
    data_type: Any,
    out: Any,
    device: Device | str | None,
    graph: Graph | None,
    **values: Any,
) -> Any:
    faults: list[Fault] = []
    kind = read_enum(DataType, data_type, "data_type", faults, DataType.FLOAT32)
    if graph is not None and not isinstance(graph, Graph):
        rule = "graph must be a Graph, or None"
        faults.append(Fault(field="graph", rule=rule, value=graph, found=show(graph)))
    if faults:
        raise DescriptionError(cls.type.name, faults)
    attempt = Attempt(cls, device, out, (), graph is None, kind, sizes, *map(repr, values.values()))
    if graph is None and (result := attempt.run()) is not None:
        return result
    output = described(cls, "OutputTensor", kind, sizes)
    call = make_call(cls, device, out, key=attempt.key, graph=graph)
    call.make_room(output.dimension_count)
    return call.run(outputs=[output], value_data_type=kind, **values)
