"""The case table: the documents' examples as data. It feeds every engine and every door."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
import folding
from anydml.describing import argument_name
from anydml.functions.derived import function_name
from anydml.operators.fields import dml_name
from anydml.operators.windows import Windowed
from elementwise import ELEMENT_WISE, data_types, describe, expected, small_example
from folding import SMALL
from products import PRODUCTS, in_order, infer
from products import SMALL as FIXED
from products import small_example as fixed_example

if TYPE_CHECKING:
    from collections.abc import Sequence

# `cuda` needs a process of its own: on a GPU, or with TRITON_INTERPRET=1 before Triton is first imported.
ENGINES = os.environ.get("ANYDML_TEST_ENGINES", "reference cpu").split()
GRID = np.arange(1, 17).reshape(1, 1, 4, 4)
ROWS = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]).reshape(1, 1, 3, 4)
INCREASING, DECREASING = "DML_AXIS_DIRECTION_INCREASING", "DML_AXIS_DIRECTION_DECREASING"
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


class ElementWiseCase(Case):
    """An element-wise operator, whose results are the oracle's; for a type that it does not take it has its first."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description: results of UINT8 or UINT32 are of UINT8, if not told."""
        taken = data_types(self.operator)
        own = data_type if data_type in taken else taken[0]
        name = self.operator.output_names()[0]
        is_result = (
            result_type in self.operator.support.row_at(dml.FeatureLevel.highest()).tensors[dml_name(name)].data_types
        )
        results: dict[str, Any] = {name: result_type} if result_type is not None and is_result else {}
        return describe(self.operator, own, self.x.shape, self.attributes, **results)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        tensors = self.desc(data_type).inputs().values()
        return [x.astype(tensor.data_type.dtype) for x, tensor in zip(self.sources, tensors, strict=True)]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        data_type = data_type or result_type
        return [expected(self.desc(data_type, result_type=result_type), self.inputs(data_type))]

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function."""
        return getattr(dml, function_name(self.operator.type))(*arrays, **self.attributes, **options)


class FixedCase(Case):
    """An operator whose tensors are of types that the case says, whichever is asked for."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description."""
        return infer(self.operator, dict(zip(self.fields, self.sources, strict=True)), self.attributes)

    @property
    def fields(self) -> list[str]:
        """The inputs that are there."""
        return list(in_order(self.operator, FIXED[self.operator.type.name][0]))

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        return [x.copy() for x in self.sources]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        return [y.copy() for y in self.results]

    def bare(self) -> Case:
        """The same without the first two dimensions, where those are not its own."""
        if issubclass(self.operator, Windowed):
            return self
        sources, results = (tuple(x.reshape(x.shape[2:]) for x in some) for some in (self.sources, self.results))
        return replace(self, sources=sources, results=results)

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function, which takes optional inputs last."""
        names = {"quantization_tensors[0]": "scale", "quantization_tensors[1]": "zero_point"}
        inputs = {names.get(name, argument_name(name)): x for name, x in zip(self.fields, arrays, strict=True)}
        attributes = {name: value for name, value in self.attributes.items() if name != "quantization_type"}
        return getattr(dml, function_name(self.operator.type))(**inputs, **attributes, **options)


def _fixed(operator: type[dml.OperatorDesc]) -> FixedCase:
    _, arrays, results = fixed_example(operator)
    attributes = FIXED[operator.type.name][1]
    name = f"{operator.type.name} of small numbers"
    return FixedCase(name, operator, tuple(arrays), tuple(results), attributes)


def _element_wise(operator: type[dml.OperatorDesc]) -> ElementWiseCase:
    sources, attributes = small_example(operator)
    case = ElementWiseCase(f"{operator.type.name} of small numbers", operator, sources, sources[:1], attributes)
    return replace(case, results=tuple(case.outputs(FLOAT32)))


class FoldingCase(ElementWiseCase):
    """An operator that folds, whose results are the oracle's."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description, with the outputs that it implies."""
        row = self.row(dml.FeatureLevel.highest())
        own = data_type if row and data_type in row.tensors["InputTensor"].data_types else FLOAT32
        inputs = [dml.TensorDesc(own, x.shape) for x in self.sources]
        return self.operator.infer(**by_field(self.operator, "input", inputs), **self.attributes)

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function, its inputs by name: what must be given stands before what need not."""
        inputs = dict(zip(map(argument_name, self.operator.input_names()), arrays, strict=True))
        return getattr(dml, function_name(self.operator.type))(**inputs, **self.attributes, **options)

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        desc = self.desc(data_type or result_type)
        answers = folding.expected(desc, self.inputs(data_type or result_type))
        return [
            np.ascontiguousarray(answer, output.data_type.dtype)
            for (answer, _), output in zip(answers, desc.outputs().values(), strict=True)
        ]

    def row(self, level: dml.FeatureLevel) -> dml.LevelSupport | None:
        """What the level takes, of the function where there are several."""
        table = self.operator.support
        return (table.of(self.attributes["function"]) if "function" in self.attributes else table).at(level)

    def bare(self) -> Case:
        """The same: what is folded is counted from the first dimension."""
        return self

    @property
    def rank(self) -> int:
        """The input's."""
        return self.x.ndim


def _folding(operator: type[dml.OperatorDesc], name: str, sources: Any, attributes: dict[str, Any]) -> FoldingCase:
    case = FoldingCase(f"{operator.type.name} {name}", operator, sources, sources[:1], attributes)
    return replace(case, results=tuple(case.outputs(FLOAT32)))


def _leading_ones(array: np.ndarray) -> int:
    return next(i for i, size in enumerate(array.shape) if size != 1)


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


def _of(operator: type[dml.OperatorDesc], name: str, x: Any, expected: Any, **attributes: Any) -> Case:
    """A case with one input and one output."""
    indices = attributes.pop("indices", None)
    name = f"{operator.type.name} {name}"
    return Case(name, operator, (np.array(x),), (np.array(expected),), attributes, _array(indices))


def _array(values: Any) -> np.ndarray | None:
    return None if values is None else np.array(values)


def _slice(name: str, offsets: Any, sizes: Any, strides: Any, expected: Any) -> Case:
    shaped = np.array(expected).reshape(sizes)
    return _of(dml.Slice, name, GRID, shaped, offsets=offsets, sizes=sizes, strides=strides)


def _slice1(name: str, strides: Any, expected: Any) -> Case:
    attributes = {
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": strides,
    }
    return _of(dml.Slice1, name, GRID, np.array(expected).reshape(1, 1, 2, 2), **attributes)


def _gather_nd(name: str, x: Any, indices: Any, expected: Any, counts: Any, batch: int | None = None) -> Case:
    attributes = {"input_dimension_count": counts[0], "indices_dimension_count": counts[1], "indices": indices}
    if batch is None:
        return _of(dml.GatherND, name, x, expected, **attributes)
    return _of(dml.GatherND1, name, x, expected, **attributes, batch_dimension_count=batch)


def _sum(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": exclusive}
    return _of(dml.CumulativeSummation, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _product(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_product": exclusive}
    return _of(dml.CumulativeProduct, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _gather(name: str, x: Any, indices: Any, expected: Any, axis: int, index_dimensions: int) -> Case:
    return _of(dml.Gather, name, x, expected, indices=indices, axis=axis, index_dimensions=index_dimensions)


def _join(name: str, axis: int, sources: Sequence[np.ndarray], expected: Any, sizes: tuple[int, ...]) -> Case:
    return Case(f"JOIN {name}", dml.Join, tuple(sources), (np.array(expected).reshape(sizes),), {"axis": axis})


def _split(name: str, axis: int, *results: Any) -> Case:
    shaped = tuple(np.array(y)[None, None] for y in results)
    return Case(f"SPLIT {name}", dml.Split, (np.arange(1, 13).reshape(1, 1, 6, 2),), shaped, {"axis": axis})


def _fill(operator: type[dml.OperatorDesc], name: str, expected: Any, **numbers: float) -> Case:
    return Case(f"{operator.type.name} {name}", operator, (), (np.array(expected),), numbers)


def _reverse(name: str, axis: int, lengths: Any, expected: Any) -> Case:
    x, shaped = np.arange(1, 13).reshape(1, 1, 3, 4), np.array(expected).reshape(1, 1, 3, 4)
    return _of(dml.ReverseSubsequences, name, x, shaped, indices=lengths, axis=axis)


def _square(operator: type[dml.OperatorDesc], name: str, expected: Any, x: Any = None, **attributes: Any) -> Case:
    """Matrices of a number along diagonals."""
    sources = () if x is None else (np.array(x)[None, None],)
    return Case(f"{operator.type.name} {name}", operator, sources, (np.array(expected)[None, None],), attributes)


def _padding(mode: str, expected: Any, start: Any = (0, 1), end: Any = (1, 2), **attributes: Any) -> list[Case]:
    pads = {"start_padding": (0, 0, *start), "end_padding": (0, 0, *end)}
    x = np.arange(1, 7).reshape(1, 1, 2, 3)
    return [
        _of(cls, mode, x, np.array(expected)[None, None], padding_mode=mode, **pads, **attributes)
        for cls in (dml.Padding, dml.Padding1)
    ]


def _depth(name: str, x: Any, expected: Any, *operators: type[dml.OperatorDesc], **attributes: Any) -> list[Case]:
    return [
        _of(cls, name, x, expected, block_size=2, **(attributes if "order" in cls.field_types() else {}))
        for cls in operators
    ]


BATCHES = [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]]
BATCH_INDICES = [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]
PAIRS = [[1, 2], [3, 4], [5, 6]]
NESTED = [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]
SQUARE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
SQUARES = [np.arange(first, first + 4).reshape(1, 1, 2, 2) for first in (1, 5, 9)]


def _resampled(operator: type[dml.OperatorDesc], expected: Any, x: Any = ((4, 8), (12, 16)), **more: Any) -> Case:
    """Twice as many rows and columns, of whole numbers between which there are whole numbers."""
    attributes: dict[str, Any] = {"interpolation_mode": "LINEAR", "scales": (1.0, 1.0, 2.0, 2.0), **more}
    if "input_pixel_offsets" in operator.field_types():
        attributes |= {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
    return _of(operator, "of middles", np.array(x)[None, None], np.array(expected)[None, None], **attributes)


def _resample_gradient(operator: type[dml.OperatorDesc], expected: Any, **more: Any) -> Case:
    """The documents' own, whose offsets they do not say."""
    attributes = {
        "scales": (1.0, 1.0, 0.5, 1.5), "input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5, -0.5, 0, 0),
    }  # fmt: skip
    return _of(operator, "example 1", [[[[4, 5, 6]]]], np.array(expected)[None, None], **attributes, **more)


ROIS = np.array([[0, 0, 0, 3, 3], [1, 1, 1, 2, 2]]).reshape(1, 1, 2, 5)
POOLED = np.array([[5, 7, 13, 15], [21, 22, 25, 26]]).reshape(2, 1, 2, 2)
# The regions of the documents' example of a gradient, and what they say that ROI_ALIGN1 makes of them.
QUARTERS = np.array([[0, 0, 2, 2], [2, 0, 4, 2], [0, 2, 2, 4], [2, 2, 4, 4]])
SAMPLED = np.array([[1, 1, 2], [3, 3, 4], [9, 9, 10], [11, 11, 12]]).reshape(4, 1, 1, 3)
NINES = np.arange(18).reshape(2, 1, 3, 3)
MIDDLES = [[4, 5, 7, 8], [6, 7, 9, 10], [10, 11, 13, 14], [12, 13, 15, 16]]
DEEP = np.concatenate([np.arange(9 * c, 9 * c + 6) for c in range(8)]).reshape(1, 8, 2, 3)
DEEP_COLUMN_ROW = np.array([
    [0, 18, 1, 19, 2, 20], [36, 54, 37, 55, 38, 56], [3, 21, 4, 22, 5, 23], [39, 57, 40, 58, 41, 59],
    [9, 27, 10, 28, 11, 29], [45, 63, 46, 64, 47, 65], [12, 30, 13, 31, 14, 32], [48, 66, 49, 67, 50, 68],
]).reshape(1, 2, 4, 6)  # fmt: skip
COLUMN_ROW_DEPTH = np.array([
    [0, 9, 1, 10, 2, 11], [18, 27, 19, 28, 20, 29], [3, 12, 4, 13, 5, 14], [21, 30, 22, 31, 23, 32],
    [36, 45, 37, 46, 38, 47], [54, 63, 55, 64, 56, 65], [39, 48, 40, 49, 41, 50], [57, 66, 58, 67, 59, 68],
]).reshape(1, 2, 4, 6)  # fmt: skip
DIGITS = [[4, 7, 3, 7, 9], [1, 2, 8, 6, 9], [9, 4, 1, 8, 7], [4, 3, 4, 2, 4]]

DOCUMENTS = [
    _slice("example 1", (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1), [7, 8, 11, 12, 15, 16]),
    _slice("example 2", (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3), [5, 8, 13, 16]),
    _slice1("example 1", (1, 1, 2, 2), [2, 4, 10, 12]),
    _slice1("example 2", (1, 1, -2, 2), [14, 16, 6, 8]),
    _gather_nd("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2)),
    # Level 2_1 takes four dimensions only: the same data, with leading 1s.
    _gather_nd("example 1 padded", [[[[0, 1], [2, 3]]]], [[[[1], [0]]]], [[[[2, 3], [0, 1]]]], (2, 2)),
    _gather_nd(
        "example 2",
        [[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]],
        [[[[0, 1], [1, 0]]]],
        [[[[2, 3], [4, 5]]]],
        (3, 2),
    ),
    _gather_nd("example 1", [[0, 1], [2, 3]], [[1], [0]], [[2, 3], [0, 1]], (2, 2), batch=0),
    _gather_nd("example 2", BATCHES, BATCH_INDICES, [[[[0, 3], [7, 4], [9, 10]]]], (3, 3), batch=1),
    _sum("example 1", 3, INCREASING, False, [2, 3, 6, 11, 3, 11, 18, 21, 9, 15, 17, 21]),
    _sum("example 2", 3, INCREASING, True, [0, 2, 3, 6, 0, 3, 11, 18, 0, 9, 15, 17]),
    _sum("example 3", 3, DECREASING, False, [11, 9, 8, 5, 21, 18, 10, 3, 21, 12, 6, 4]),
    _sum("example 4", 2, INCREASING, False, [2, 1, 3, 5, 5, 9, 10, 8, 14, 15, 12, 12]),
    _product("example 1", 3, INCREASING, False, [2, 2, 6, 30, 3, 24, 168, 504, 9, 54, 108, 432]),
    _product("example 2", 3, INCREASING, True, [1, 2, 2, 6, 1, 3, 24, 168, 1, 9, 54, 108]),
    _product("example 3", 3, DECREASING, False, [30, 15, 15, 5, 504, 168, 21, 3, 432, 48, 8, 4]),
    _product("example 4", 2, INCREASING, False, [2, 1, 3, 5, 6, 8, 21, 15, 54, 48, 42, 60]),
    _gather("example 1", [11, 12, 13, 14], [3, 1, 3, 0, 2], [14, 12, 14, 11, 13], 0, 1),
    _gather("example 2", PAIRS, [[0, 1, 1, 2]], [[1, 2], [3, 4], [3, 4], [5, 6]], 0, 1),
    # The document has IndexDimensions 2 here, which would give three dimensions; its own output has two.
    _gather("example 3", PAIRS, [[1, 0]], [[2, 1], [4, 3], [6, 5]], 1, 1),
    _gather("example 4", [SQUARE], [[[0, 2]]], [[[1, 3]], [[4, 6]], [[7, 9]]], 2, 2),
    _gather("example 5", [PAIRS], [[[0, 1], [1, 2]]], NESTED, 1, 2),
    # Levels below 3_0 take four dimensions only.
    _gather("example 5 padded", [[PAIRS]], [[[[0, 1], [1, 2]]]], [NESTED], 2, 2),
    _of(dml.GatherElements, "example 1", SQUARE, [[4, 8, 3], [7, 2, 3]], indices=[[1, 2, 0], [2, 0, 0]], axis=0),
    _of(
        dml.GatherElements,
        "example 1 padded",
        [[SQUARE]],
        [[[[4, 8, 3], [7, 2, 3]]]],
        indices=[[[[1, 2, 0], [2, 0, 0]]]],
        axis=2,
    ),
    # The pages of these two have formulas, and no example; so have those of the other element-wise operators.
    _of(dml.ElementWiseIdentity, "f(x) = x", GRID, GRID),
    _of(dml.ElementWiseIdentity, "g(x) = x * scale + bias", GRID, GRID * 3 + 2, scale_bias=(3.0, 2.0)),
    _of(dml.Cast, "of small numbers", GRID, GRID),
    _join(
        "example 1",
        3,
        [np.arange(1, 7).reshape(1, 1, 2, 3), np.arange(7, 15).reshape(1, 1, 2, 4)],
        [1, 2, 3, 7, 8, 9, 10, 4, 5, 6, 11, 12, 13, 14],
        (1, 1, 2, 7),
    ),
    _join("example 2, axis 1", 1, SQUARES, range(1, 13), (1, 3, 2, 2)),
    _join("example 2, axis 2", 2, SQUARES, range(1, 13), (1, 1, 6, 2)),
    _join("example 2, axis 3", 3, SQUARES, [1, 2, 5, 6, 9, 10, 3, 4, 7, 8, 11, 12], (1, 1, 2, 6)),
    _split("example 1", 2, [[1, 2], [3, 4]], [[5, 6]], [[7, 8], [9, 10], [11, 12]]),
    _split("example 2", 3, [[1], [3], [5], [7], [9], [11]], [[2], [4], [6], [8], [10], [12]]),
    _fill(dml.FillValueConstant, "example 1", [[[[13] * 4] * 2]], value=13.0),
    _fill(dml.FillValueSequence, "example 1", [[[[3, 5, 7]]]], value_start=3, value_delta=2),
    _fill(dml.FillValueSequence, "example 2", [[[[10, 8], [6, 4]]]], value_start=10, value_delta=-2),
    _reverse("example 1", 3, [[[[2], [4], [3]]]], [2, 1, 3, 4, 8, 7, 6, 5, 11, 10, 9, 12]),
    _reverse("example 2", 2, [[[[2, 3, 1, 0]]]], [5, 10, 3, 4, 1, 6, 7, 8, 9, 2, 11, 12]),
    # PADDING's page has no example.
    *_padding("CONSTANT", [[9, 1, 2, 3, 9, 9], [9, 4, 5, 6, 9, 9], [9] * 6], padding_value=9),
    *_padding("EDGE", [[1, 1, 2, 3, 3, 3], [4, 4, 5, 6, 6, 6], [4, 4, 5, 6, 6, 6]]),
    *_padding("REFLECTION", [[2, 1, 2, 3, 2, 1], [5, 4, 5, 6, 5, 4], [2, 1, 2, 3, 2, 1]]),
    _of(
        dml.Tile, "example 1", [[[[1, 2, 3], [4, 5, 6]]]], [[[[1, 2, 3] * 3, [4, 5, 6] * 3] * 3]], repeats=(1, 1, 3, 3)
    ),
    *_depth("example 1", DEEP, DEEP_COLUMN_ROW, dml.DepthToSpace, dml.DepthToSpace1),
    *_depth("example 2", DEEP, COLUMN_ROW_DEPTH, dml.DepthToSpace1, order="COLUMN_ROW_DEPTH"),
    *_depth("example 1", DEEP_COLUMN_ROW, DEEP, dml.SpaceToDepth, dml.SpaceToDepth1),
    *_depth("example 2", COLUMN_ROW_DEPTH, DEEP, dml.SpaceToDepth1, order="COLUMN_ROW_DEPTH"),
    _square(dml.DiagonalMatrix, "example 1", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    _square(dml.DiagonalMatrix, "example 2", [[0, 1, 0], [0, 0, 1], [0, 0, 0]], offset=1),
    _square(dml.DiagonalMatrix, "example 3", [[0, 0], [1, 0], [0, 1]], offset=-1),
    _square(dml.DiagonalMatrix, "example 4", [[0, 0], [0, 0], [0, 0]], offset=-3),
    _square(
        dml.DiagonalMatrix1,
        "example 3",
        [[0, 7, 3, 7, 9], [0, 0, 8, 6, 9], [0, 0, 0, 8, 7], [0, 0, 0, 0, 4]],
        DIGITS,
        value=0,
        diagonal_fill_begin=-(2**31),
        diagonal_fill_end=1,
    ),
    _square(
        dml.DiagonalMatrix1,
        "example 2",
        [[7, 7, 7, 0, 0], [0, 7, 7, 7, 0], [0, 0, 7, 7, 7], [0, 0, 0, 7, 7]],
        value=7,
        diagonal_fill_begin=0,
        diagonal_fill_end=3,
    ),
    _square(
        dml.DiagonalMatrix1,
        "example 4",
        [[4, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 2, 0]],
        DIGITS,
        value=0,
        diagonal_fill_begin=1,
        diagonal_fill_end=0,
    ),
    _of(
        dml.SliceGrad,
        "example 1",
        [[[[1, 3], [9, 11]]]],
        [[[[1, 0, 3, 0], [0, 0, 0, 0], [9, 0, 11, 0], [0, 0, 0, 0]]]],
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(1, 1, 4, 4),
        input_window_strides=(1, 1, 2, 2),
    ),
    _of(
        dml.SliceGrad,
        "of a window",
        [[[[1, 3], [2, 4]]]],
        [[[[0, 0, 0, 0], [0, 3, 1, 0], [0, 4, 2, 0]]]],
        input_window_offsets=(0, 0, 1, 1),
        input_window_sizes=(1, 1, 2, 2),
        input_window_strides=(1, 1, 1, -1),
    ),
]
DOCUMENTS += [
    *(_resampled(cls, MIDDLES) for cls in (dml.Resample, dml.Resample1, dml.Resample2, dml.Resample3)),
    # The numbers of DxDispatch's dml_upsample_2d, four times as large.
    _of(dml.Upsample2D, "of middles", [[[[4, 8], [12, 16]]]], [[MIDDLES]], scale_size=[2, 2], interpolation_mode=1),
    _resample_gradient(dml.ResampleGrad, [[9, 6], [0, 0]]),
    _resample_gradient(dml.ResampleGrad1, [[4, 11], [0, 0]], rounding_direction="INCREASING"),
    _of(dml.Unfold, "of squares", NINES, np.stack(
        [NINES[:, 0, i : i + 2, j : j + 2].reshape(2, 4) for i in range(2) for j in range(2)], 1), window_sizes=(2, 2)),
    Case("ROI_POOLING of squares", dml.RoiPooling, (np.arange(32).reshape(2, 1, 4, 4), ROIS), (POOLED,),
         {"pooled_size": [2, 2]}),
    *(Case(f"{cls.type.name} of quarters", cls, (np.arange(1, 17).reshape(1, 1, 4, 4), QUARTERS), (SAMPLED,),
           {"interpolation_mode": "NEAREST_NEIGHBOR", "maximum_samples_per_output": 1}, np.zeros(4, int))
      for cls in (dml.RoiAlign, dml.RoiAlign1)),
    NamedCase("ROI_ALIGN_GRAD example 1", dml.RoiAlignGrad,
              (np.arange(1, 17).reshape(1, 1, 4, 4), np.arange(1, 13).reshape(4, 1, 1, 3), QUARTERS),
              (np.array([[3, 3, 9, 6], [0] * 4, [15, 9, 21, 12], [0] * 4]).reshape(1, 1, 4, 4),),
              {"interpolation_mode": "NEAREST_NEIGHBOR", "maximum_samples_per_output": 1}, np.zeros(4, int)),
    _of(dml.Fold, "of ones", np.ones((2, 4, 4)), [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]] * 2, window_sizes=(2, 2)),
]  # fmt: skip
CASES = [
    *DOCUMENTS,
    *(_element_wise(cls) for cls in ELEMENT_WISE if cls not in (dml.Cast, dml.ElementWiseIdentity)),
    *(_folding(*example) for example in SMALL),
    *map(_fixed, PRODUCTS),
]
