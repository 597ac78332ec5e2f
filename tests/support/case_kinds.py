"""The kinds of cases: a description, its data, and what comes out, through descriptions and functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.api.describing import argument_name
from anydml.core.operator_type import function_name

if TYPE_CHECKING:
    from collections.abc import Sequence


FLOAT32, UINT32 = dml.DataType.FLOAT32, dml.DataType.UINT32


@dataclass(frozen=True)
class Case:
    """An operator, its data as small whole numbers that every type can hold, and what the document says comes out."""

    name: str
    operator: type[dml.OperatorDesc]
    sources: tuple[np.ndarray, ...]
    """The inputs of the data's type."""
    results: tuple[np.ndarray, ...]
    attributes: dict[str, Any] = field(default_factory=dict)
    indices: np.ndarray | None = None
    """Or lengths: the input whose type is its own."""

    def __str__(self) -> str:
        return self.name

    @property
    def x(self) -> np.ndarray:
        """The first input."""
        return self.sources[0]

    @property
    def expected(self) -> np.ndarray:
        """The first output."""
        return self.results[0]

    @property
    def rank(self) -> int:
        """The dimensions that a description has."""
        return self.expected.ndim

    @property
    def data_field(self) -> str:
        """The tensor whose type is the data's, where that is not the first."""
        return "ATensor"

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description, as the document has it. CAST alone has results of another type."""
        inputs = [dml.TensorDesc(data_type, x.shape) for x in self.sources]
        if self.indices is not None:
            inputs.append(dml.TensorDesc(index_type, self.indices.shape))
        outputs = [dml.TensorDesc(result_type or data_type, y.shape) for y in self.results]
        attributes = dict(self.attributes)
        for name in ("value_data_type", "padding_value_data_type"):
            if name in self.operator.field_types():
                attributes[name] = data_type
        tensors = {**by_field(self.operator, "input", inputs), **by_field(self.operator, "output", outputs)}
        return self.operator(**tensors, **attributes)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        arrays = [x.astype(data_type.dtype) for x in self.sources]
        if self.indices is not None:
            arrays.append(self.indices.astype(index_type.dtype))
        return arrays

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the document says, wrapped to the width of a narrow type (products reach 504)."""
        return [y.astype(result_type.dtype) for y in self.results]

    def row(self, level: dml.FeatureLevel) -> dml.LevelSupport | None:
        """What the level takes."""
        return dml.support(self.operator, level)

    def bare(self) -> Case:
        """The same without the leading 1s that a document writes, as the functions take it."""
        attributes, axis = dict(self.attributes), self.attributes.get("axis", self.rank)
        sources, results, indices = self.sources, self.results, self.indices
        counted = attributes.get("indices_dimension_count", attributes.get("index_dimensions"))
        lead = min(axis, *map(_leading_ones, sources if counted is not None else (*sources, *results)))
        for name, value in attributes.items():
            if isinstance(value, tuple) and name != "scale_bias":
                attributes[name] = value[lead:]
        if "axis" in attributes:
            attributes["axis"] -= self.rank  # the same axis, counted from the end
        if counted is None:
            results = tuple(_without(y, lead) for y in results)
        else:  # ranks are of each tensor's own
            results = tuple(_without(y, _leading_ones(y)) for y in results)
        if indices is not None:
            indices = _without(indices, lead if counted is None else indices.ndim - counted)
        sources = tuple(_without(x, lead) for x in sources)
        return replace(self, sources=sources, results=results, attributes=attributes, indices=indices)

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The same through the function door, which knows ranks by the arrays' own; several results are a list."""
        counts = {"input_dimension_count", "indices_dimension_count", "index_dimensions"}
        attributes = {name: value for name, value in self.attributes.items() if name not in counts}
        function = FUNCTIONS.get(self.operator) or getattr(dml, function_name(self.operator.type))
        if self.operator is dml.Join:
            return function(list(arrays), **attributes, **options)
        if self.operator is dml.Split:
            attributes["output_axis_sizes"] = [y.shape[attributes["axis"]] for y in self.results]
        elif not self.sources:
            arrays, options["data_type"] = (self.expected.shape,), result_type
        elif self.operator is dml.Cast:
            options["data_type"] = result_type
        elif not self.operator.implies_output and self.operator is not dml.DiagonalMatrix1:
            options["output_sizes"] = self.expected.shape
        return function(*arrays, **attributes, **options)


class NamedCase(Case):
    """An operator whose first inputs may be left out: its function takes them last."""

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function, its inputs by name."""
        inputs = dict(zip(map(argument_name, self.operator.input_names()), arrays, strict=True))
        return getattr(dml, function_name(self.operator.type))(**inputs, **self.attributes, **options)


def _leading_ones(array: np.ndarray) -> int:
    return next((i for i, size in enumerate(array.shape) if size != 1), array.ndim)


def _without(array: np.ndarray, lead: int) -> np.ndarray:
    return array.reshape(array.shape[lead:])


def by_field(cls: type[dml.OperatorDesc], kind: str, tensors: Sequence[Any]) -> dict[str, Any]:
    """Tensors in binding order as the fields of a description that they are for."""
    names = cls.input_names() if kind == "input" else cls.output_names()
    if any(cls.field_types()[name].is_tensor_array for name in names):
        return {names[0]: tuple(tensors)}
    return dict(zip(names, tensors, strict=not cls.optional_inputs()))


FUNCTIONS: dict[type[dml.OperatorDesc], Any] = {
    dml.Slice: dml.slice,
    dml.Slice1: dml.slice1,
    dml.GatherND: dml.gather_nd,
    dml.GatherND1: dml.gather_nd,
    dml.CumulativeSummation: dml.cumulative_summation,
    dml.CumulativeProduct: dml.cumulative_product,
    dml.Gather: dml.gather,
    dml.GatherElements: dml.gather_elements,
    dml.ElementWiseIdentity: dml.identity,
    dml.Cast: dml.cast,
    dml.Join: dml.join,
    dml.Split: dml.split,
    dml.FillValueConstant: dml.fill_value_constant,
    dml.FillValueSequence: dml.fill_value_sequence,
    dml.ReverseSubsequences: dml.reverse_subsequences,
    dml.DiagonalMatrix1: lambda x, **options: (
        dml.diagonal_matrix1(sizes=x, **options) if isinstance(x, tuple) else dml.diagonal_matrix1(x, **options)
    ),
}


def one_to_one(operator: type[dml.OperatorDesc], name: str, x: Any, expected: Any, **attributes: Any) -> Case:
    """A case with one input and one output."""
    indices = attributes.pop("indices", None)
    name = f"{operator.type.name} {name}"
    return Case(name, operator, (np.array(x),), (np.array(expected),), attributes, _array(indices))


def _array(values: Any) -> np.ndarray | None:
    return None if values is None else np.array(values)
