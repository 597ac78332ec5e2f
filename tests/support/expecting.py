"""What the oracle says of a random case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import anydml as dml
import moving_oracle
import oracle
from agreement import bits

if TYPE_CHECKING:
    from collections.abc import Callable

    from drawing import Array, Case, Operator

Values: TypeAlias = dict[oracle.Coordinate, Any]
TALLIES = (dml.CumulativeSummation, dml.CumulativeProduct)


def expected(case: Case, engine: str) -> list[Array]:
    """What comes out, output by output, in the order of the coordinates."""
    found = []
    for name, result in zip(case.outputs, _ORACLES[case.cls](case, engine), strict=True):
        tensor = case.tensors[name]
        ordered = [result[coordinate] for coordinate in oracle.coordinates(tensor.sizes)]
        assert len(ordered) == len(result)
        dtype = tensor.data_type.dtype
        found.append(np.array(ordered, dtype if computes(case) else f"u{dtype.itemsize}"))
    return found


def computes(case: Case) -> bool:
    """Whether numbers come out, rather than bits."""
    if case.cls is dml.Cast:
        return case.tensors["input_tensor"].data_type is not case.tensors["output_tensor"].data_type
    return case.cls in (*TALLIES, dml.FillValueConstant, dml.FillValueSequence)


def tensor_of(case: Case, name: str = "input_tensor", *, as_numbers: bool = False) -> Values:
    """An input as the oracle takes it: its bits, or its numbers."""
    tensor, content = case.tensors[name], case.contents[name]
    values = content if as_numbers or computes(case) else bits(content)
    return oracle.tensor(tensor.sizes, values[tensor.places].tolist())


# The six


def _slice(case: Case, engine: str) -> list[Values]:
    return [oracle.slice_(tensor_of(case), **case.attributes)]


def _slice1(case: Case, engine: str) -> list[Values]:
    offsets, sizes, strides = case.attributes.values()
    return [oracle.slice1(tensor_of(case), offsets, sizes, strides, case.tensors["output_tensor"].sizes)]


def _gathers(gather: Callable[..., Values]) -> Callable[[Case, str], list[Values]]:
    def find(case: Case, engine: str) -> list[Values]:
        indices = tensor_of(case, "indices_tensor", as_numbers=True)
        sizes, indices_sizes = (case.tensors[name].sizes for name in ("input_tensor", "indices_tensor"))
        options = dict(case.attributes)
        clamp = options.pop("index_mode") is dml.IndexMode.CLAMP
        return [gather(tensor_of(case), sizes, indices, indices_sizes, clamp=clamp, **options)]

    return find


def _tally(function: oracle.Function) -> Callable[[Case, str], list[Values]]:
    def tally(case: Case, engine: str) -> list[Values]:
        source = case.tensors["input_tensor"]
        axis, direction = case.attributes["axis"], case.attributes["axis_direction"]
        exclusive = any(case.attributes.get(f"has_exclusive_{name}") for name in ("sum", "product"))
        result = oracle.cumulative(
            tensor_of(case),
            source.sizes,
            axis,
            function,
            source.data_type.name,
            decreasing=direction is dml.AxisDirection.DECREASING,
            exclusive=exclusive,
            number=oracle.Apart if engine == "cuda" and function == "product" else float,
        )
        return [result]

    return tally


# The nine


def _cast(case: Case, engine: str) -> list[Values]:
    values = tensor_of(case)
    return [moving_oracle.cast(values, case.tensors["output_tensor"].data_type.name) if computes(case) else values]


def _join(case: Case, engine: str) -> list[Values]:
    axis, names = case.attributes["axis"], list(case.contents)
    lengths = [case.tensors[name].sizes[axis] for name in names]
    return [moving_oracle.join([tensor_of(case, name) for name in names], lengths, axis)]


def _split(case: Case, engine: str) -> list[Values]:
    axis = case.attributes["axis"]
    lengths = [case.tensors[name].sizes[axis] for name in case.outputs]
    return moving_oracle.split(tensor_of(case), lengths, axis)


def _fill(case: Case, engine: str) -> list[Values]:
    data_type, *numbers = case.attributes.values()
    start, delta = (*numbers, 0)[:2]
    return [moving_oracle.fill(case.tensors["output_tensor"].sizes, start, delta, data_type.name)]


def _reverse(case: Case, engine: str) -> list[Values]:
    lengths = tensor_of(case, "sequence_lengths_tensor", as_numbers=True)
    sizes, axis = case.tensors["input_tensor"].sizes, case.attributes["axis"]
    return [moving_oracle.reverse_subsequences(tensor_of(case), sizes, lengths, axis)]


_ORACLES: dict[Operator, Callable[[Case, str], list[Values]]] = {
    dml.Slice: _slice,
    dml.Slice1: _slice1,
    dml.GatherND: _gathers(oracle.gather_nd),
    dml.GatherND1: _gathers(oracle.gather_nd),
    dml.CumulativeSummation: _tally("sum"),
    dml.CumulativeProduct: _tally("product"),
    dml.Gather: _gathers(moving_oracle.gather),
    dml.GatherElements: _gathers(moving_oracle.gather_elements),
    dml.Cast: _cast,
    dml.Join: _join,
    dml.Split: _split,
    dml.FillValueConstant: _fill,
    dml.FillValueSequence: _fill,
    dml.ReverseSubsequences: _reverse,
}
