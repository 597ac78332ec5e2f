"""FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.builder import Graph
from anydml.calls import Attempt, make_call
from anydml.describing import described
from anydml.enums import DataType
from anydml.errors import DescriptionError, Fault, show
from anydml.operators import FillValueConstant, FillValueSequence
from anydml.operators.fields import dml_name
from anydml.operators.scalars import read_number
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
    return _fill(FillValueConstant, sizes, data_type, out, device, graph, {"value": value})


def fill_value_sequence(
    sizes: Sequence[int] | int,
    value_start: float,
    value_delta: float,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    allow_float64: bool = False,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """FILL_VALUE_SEQUENCE: start, start + delta, start + 2·delta and so on, in the elements' order.

    It is an expression where a graph is given. `allow_float64=True` takes float64 as well, which DirectML does not.

    >>> fill_value_sequence([2, 2], 10, 20, "uint8")
    array([[10, 30],
           [50, 70]], dtype=uint8)
    """
    numbers = {"value_start": value_start, "value_delta": value_delta}
    added = {"allow_float64": allow_float64}
    return _fill(FillValueSequence, sizes, data_type, out, device, graph, numbers, **added)


def _fill(
    cls: type[OperatorDesc],
    sizes: Any,
    data_type: Any,
    out: Any,
    device: Device | str | None,
    graph: Graph | None,
    values: dict[str, Any],
    **added: Any,
) -> Any:
    faults: list[Fault] = []
    kind = read_enum(DataType, data_type, "data_type", faults, DataType.FLOAT32)
    if graph is not None and not isinstance(graph, Graph):
        rule = "graph must be a Graph, or None"
        faults.append(Fault(field="graph", rule=rule, value=graph, found=show(graph)))
    numbers: dict[str, Any] = {name: read_number(value, dml_name(name), faults) for name, value in values.items()}
    if faults:
        raise DescriptionError(cls.type.name, faults)
    exact = [repr(number) if isinstance(number, float) else number for number in numbers.values()]  # -0.0 equals 0.0
    attempt = Attempt(cls, device, out, (), graph is None, kind, sizes, *exact, *added.values())
    if graph is None and (result := attempt.run()) is not None:
        return result
    output = described(cls, "OutputTensor", kind, sizes)
    call = make_call(cls, device, out, key=attempt.key, graph=graph)
    call.make_room(output.dimension_count)
    return call.run(outputs=[output], value_data_type=kind, **numbers, **added)
