"""FILL_VALUE_CONSTANT, FILL_VALUE_SEQUENCE, DIAGONAL_MATRIX and DIAGONAL_MATRIX1 as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.builder import Graph
from anydml.calls import Attempt, make_call
from anydml.describing import described
from anydml.enums import DataType
from anydml.errors import DescriptionError, Fault, show
from anydml.operators import DiagonalMatrix, DiagonalMatrix1, FillValueConstant, FillValueSequence
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


def diagonal_matrix(
    sizes: Sequence[int] | int,
    offset: int = 0,
    value: float = 1.0,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """DIAGONAL_MATRIX: matrices with a number on a diagonal, `offset` columns right of the main one, and 0 elsewhere.

    It is an expression where a graph is given.

    >>> diagonal_matrix([2, 3], 1, 7, "int32")
    array([[0, 7, 0],
           [0, 0, 7]], dtype=int32)
    """
    return _fill(DiagonalMatrix, sizes, data_type, out, device, graph, {"value": value}, offset=offset)


def diagonal_matrix1(
    x: Any = None,
    diagonal_fill_begin: int = 0,
    diagonal_fill_end: int = 1,
    value: float = 1,
    sizes: Sequence[int] | int | None = None,
    data_type: DataType | str | type | Any = DataType.FLOAT32,
    *,
    out: Any = None,
    device: Device | str | None = None,
    graph: Graph | None = None,
) -> Any:
    """DIAGONAL_MATRIX1: matrices with a number on some diagonals, and elsewhere `x`; or 0, where `sizes` are given.

    It is on those from `diagonal_fill_begin` columns right of the main one on, up to `diagonal_fill_end` and without
    that; with a begin above the end on all others. With `sizes` it is of `data_type`, and an expression where a graph
    is given.

    >>> diagonal_matrix1(np.array([[1, 2, 3], [4, 5, 6]]), 0, 2, 9)
    array([[9, 9, 3],
           [4, 9, 9]])
    """
    bounds: dict[str, Any] = {"diagonal_fill_begin": diagonal_fill_begin, "diagonal_fill_end": diagonal_fill_end}
    if (x is None) is (sizes is None):
        rule, found = "either x or sizes must be given", "neither" if x is None else "both"
        raise DescriptionError(DiagonalMatrix1.type.name, Fault(field="sizes", rule=rule, found=found))
    if x is None:
        return _fill(DiagonalMatrix1, sizes, data_type, out, device, graph, {"value": value}, **bounds)
    exact = (type(value), repr(value)) if isinstance(value, float) else (type(value), value)
    attempt = Attempt(DiagonalMatrix1, device, out, (x,), *exact, *bounds.values())
    if (result := attempt.run()) is not None:
        return result
    call = make_call(DiagonalMatrix1, device, out, x, key=attempt.key)
    kind = call.inputs[0].data_type
    output = described(DiagonalMatrix1, "OutputTensor", kind, call.inputs[0].sizes)
    return call.run(outputs=[output], value_data_type=kind, value=value, **bounds)


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
    call = make_call(cls, device, out, key=attempt.key, graph=graph, names=())
    call.make_room(output.dimension_count)
    if "value_data_type" in cls.field_types():
        added["value_data_type"] = kind
    return call.run(outputs=[output], **numbers, **added)
