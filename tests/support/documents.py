"""The documents' examples as cases: of what copies and folds, what moves and what selects."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.api.describing import argument_name
from anydml.operators.schema.fields import dml_name
from case_kinds import UINT32, Case, NamedCase, one_to_one

if TYPE_CHECKING:
    from collections.abc import Sequence

GRID = np.arange(1, 17).reshape(1, 1, 4, 4)
ROWS = np.array([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]]).reshape(1, 1, 3, 4)
INCREASING, DECREASING = "DML_AXIS_DIRECTION_INCREASING", "DML_AXIS_DIRECTION_DECREASING"


def _slice(name: str, offsets: Any, sizes: Any, strides: Any, expected: Any) -> Case:
    shaped = np.array(expected).reshape(sizes)
    return one_to_one(dml.Slice, name, GRID, shaped, offsets=offsets, sizes=sizes, strides=strides)


def _slice1(name: str, strides: Any, expected: Any) -> Case:
    attributes = {
        "input_window_offsets": (0, 0, 0, 1),
        "input_window_sizes": (1, 1, 4, 3),
        "input_window_strides": strides,
    }
    return one_to_one(dml.Slice1, name, GRID, np.array(expected).reshape(1, 1, 2, 2), **attributes)


def _gather_nd(name: str, x: Any, indices: Any, expected: Any, counts: Any, batch: int | None = None) -> Case:
    attributes = {"input_dimension_count": counts[0], "indices_dimension_count": counts[1], "indices": indices}
    if batch is None:
        return one_to_one(dml.GatherND, name, x, expected, **attributes)
    return one_to_one(dml.GatherND1, name, x, expected, **attributes, batch_dimension_count=batch)


def _sum(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_sum": exclusive}
    return one_to_one(dml.CumulativeSummation, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _product(name: str, axis: int, direction: str, exclusive: bool, expected: Any) -> Case:
    attributes = {"axis": axis, "axis_direction": direction, "has_exclusive_product": exclusive}
    return one_to_one(dml.CumulativeProduct, name, ROWS, np.array(expected).reshape(ROWS.shape), **attributes)


def _gather(name: str, x: Any, indices: Any, expected: Any, axis: int, index_dimensions: int) -> Case:
    return one_to_one(dml.Gather, name, x, expected, indices=indices, axis=axis, index_dimensions=index_dimensions)


def _join(name: str, axis: int, sources: Sequence[np.ndarray], expected: Any, sizes: tuple[int, ...]) -> Case:
    return Case(f"JOIN {name}", dml.Join, tuple(sources), (np.array(expected).reshape(sizes),), {"axis": axis})


def _split(name: str, axis: int, *results: Any) -> Case:
    shaped = tuple(np.array(y)[None, None] for y in results)
    return Case(f"SPLIT {name}", dml.Split, (np.arange(1, 13).reshape(1, 1, 6, 2),), shaped, {"axis": axis})


def _fill(operator: type[dml.OperatorDesc], name: str, expected: Any, **numbers: float) -> Case:
    return Case(f"{operator.type.name} {name}", operator, (), (np.array(expected),), numbers)


def _reverse(name: str, axis: int, lengths: Any, expected: Any) -> Case:
    x, shaped = np.arange(1, 13).reshape(1, 1, 3, 4), np.array(expected).reshape(1, 1, 3, 4)
    return one_to_one(dml.ReverseSubsequences, name, x, shaped, indices=lengths, axis=axis)


BATCHES = [[[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]]
BATCH_INDICES = [[[[0, 0], [1, 1]], [[1, 1], [0, 0]], [[0, 1], [1, 0]]]]
PAIRS = [[1, 2], [3, 4], [5, 6]]
NESTED = [[[1, 2], [3, 4]], [[3, 4], [5, 6]]]
SQUARE = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
SQUARES = [np.arange(first, first + 4).reshape(1, 1, 2, 2) for first in (1, 5, 9)]

COPIES = [
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
    one_to_one(dml.GatherElements, "example 1", SQUARE, [[4, 8, 3], [7, 2, 3]], indices=[[1, 2, 0], [2, 0, 0]], axis=0),
    one_to_one(
        dml.GatherElements,
        "example 1 padded",
        [[SQUARE]],
        [[[[4, 8, 3], [7, 2, 3]]]],
        indices=[[[[1, 2, 0], [2, 0, 0]]]],
        axis=2,
    ),
    # The pages of these two have formulas, and no example; so have those of the other element-wise operators.
    one_to_one(dml.ElementWiseIdentity, "f(x) = x", GRID, GRID),
    one_to_one(dml.ElementWiseIdentity, "g(x) = x * scale + bias", GRID, GRID * 3 + 2, scale_bias=(3.0, 2.0)),
    one_to_one(dml.Cast, "of small numbers", GRID, GRID),
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
]


def _square(operator: type[dml.OperatorDesc], name: str, expected: Any, x: Any = None, **attributes: Any) -> Case:
    """Matrices of a number along diagonals."""
    sources = () if x is None else (np.array(x)[None, None],)
    return Case(f"{operator.type.name} {name}", operator, sources, (np.array(expected)[None, None],), attributes)


def _padding(mode: str, expected: Any, start: Any = (0, 1), end: Any = (1, 2), **attributes: Any) -> list[Case]:
    pads = {"start_padding": (0, 0, *start), "end_padding": (0, 0, *end)}
    x = np.arange(1, 7).reshape(1, 1, 2, 3)
    return [
        one_to_one(cls, mode, x, np.array(expected)[None, None], padding_mode=mode, **pads, **attributes)
        for cls in (dml.Padding, dml.Padding1)
    ]


def _depth(name: str, x: Any, expected: Any, *operators: type[dml.OperatorDesc], **attributes: Any) -> list[Case]:
    return [
        one_to_one(cls, name, x, expected, block_size=2, **(attributes if "order" in cls.field_types() else {}))
        for cls in operators
    ]


def _resampled(operator: type[dml.OperatorDesc], expected: Any, x: Any = ((4, 8), (12, 16)), **more: Any) -> Case:
    """Twice as many rows and columns, of whole numbers between which there are whole numbers."""
    attributes: dict[str, Any] = {"interpolation_mode": "LINEAR", "scales": (1.0, 1.0, 2.0, 2.0), **more}
    if "input_pixel_offsets" in operator.field_types():
        attributes |= {"input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5,) * 4}
    return one_to_one(operator, "of middles", np.array(x)[None, None], np.array(expected)[None, None], **attributes)


def _resample_gradient(operator: type[dml.OperatorDesc], expected: Any, **more: Any) -> Case:
    """The documents' own, whose offsets they do not say."""
    attributes = {
        "scales": (1.0, 1.0, 0.5, 1.5), "input_pixel_offsets": (0.5,) * 4, "output_pixel_offsets": (-0.5, -0.5, 0, 0),
    }  # fmt: skip
    return one_to_one(operator, "example 1", [[[[4, 5, 6]]]], np.array(expected)[None, None], **attributes, **more)


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
MOVING = [
    # Those of PADDING's page are in test_document_examples.py.
    *_padding("CONSTANT", [[9, 1, 2, 3, 9, 9], [9, 4, 5, 6, 9, 9], [9] * 6], padding_value=9),
    *_padding("EDGE", [[1, 1, 2, 3, 3, 3], [4, 4, 5, 6, 6, 6], [4, 4, 5, 6, 6, 6]]),
    *_padding("REFLECTION", [[2, 1, 2, 3, 2, 1], [5, 4, 5, 6, 5, 4], [2, 1, 2, 3, 2, 1]]),
    one_to_one(
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
    one_to_one(
        dml.SliceGrad,
        "example 1",
        [[[[1, 3], [9, 11]]]],
        [[[[1, 0, 3, 0], [0, 0, 0, 0], [9, 0, 11, 0], [0, 0, 0, 0]]]],
        input_window_offsets=(0, 0, 0, 0),
        input_window_sizes=(1, 1, 4, 4),
        input_window_strides=(1, 1, 2, 2),
    ),
    one_to_one(
        dml.SliceGrad,
        "of a window",
        [[[[1, 3], [2, 4]]]],
        [[[[0, 0, 0, 0], [0, 3, 1, 0], [0, 4, 2, 0]]]],
        input_window_offsets=(0, 0, 1, 1),
        input_window_sizes=(1, 1, 2, 2),
        input_window_strides=(1, 1, 1, -1),
    ),
]
RESAMPLED = [
    *(_resampled(cls, MIDDLES) for cls in (dml.Resample, dml.Resample1, dml.Resample2, dml.Resample3)),
    # The numbers of DxDispatch's dml_upsample_2d, four times as large.
    one_to_one(dml.Upsample2D, "of middles", [[[[4, 8], [12, 16]]]], [[MIDDLES]], scale_size=[2, 2],
               interpolation_mode=1),
    _resample_gradient(dml.ResampleGrad, [[9, 6], [0, 0]]),
    _resample_gradient(dml.ResampleGrad1, [[4, 11], [0, 0]], rounding_direction="INCREASING"),
    one_to_one(dml.Unfold, "of squares", NINES, np.stack(
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
    one_to_one(dml.Fold, "of ones", np.ones((2, 4, 4)), [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]] * 2, window_sizes=(2, 2)),
]  # fmt: skip


@dataclass(frozen=True)
class MixedCase(Case):
    """An operator whose inputs come in any order of types."""

    kinds: tuple[str, ...] = ()
    """Of each input and output: `data`, `index`, or a type of its own."""

    def _types(self, data_type: dml.DataType, index_type: dml.DataType) -> list[dml.DataType]:
        return [{"data": data_type, "index": index_type}.get(kind) or dml.DataType(kind) for kind in self.kinds]

    @property
    def data_field(self) -> str:
        """The first that is of the data's type."""
        fields = (*self.operator.input_names(), *self.operator.output_names())
        return dml_name(fields[self.kinds.index("data") if "data" in self.kinds else 0])

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description, as the document has it."""
        arrays = (*self.sources, *self.results)
        kinds = self._types(data_type, index_type)
        tensors = [dml.TensorDesc(kind, x.shape) for kind, x in zip(kinds, arrays, strict=True)]
        names = (*self.operator.input_names(), *self.operator.output_names())
        return self.operator(**dict(zip(names, tensors, strict=False)), **self.attributes)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        pairs = zip(self.sources, self._types(data_type, index_type), strict=False)
        return [x.astype(kind.dtype) for x, kind in pairs]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the document says."""
        kinds = self._types(data_type or result_type, UINT32)[len(self.sources) :]
        return [y.astype(kind.dtype) for y, kind in zip(self.results, kinds, strict=True)]

    def call(self, *arrays: Any, **options: Any) -> Any:
        """The function, asked for the outputs that are optional too."""
        names = {*self.operator.output_names()[: len(self.results)]}.intersection(self.operator.optional_outputs())
        asked: dict[str, Any] = dict.fromkeys(map(argument_name, names), True)
        return super().call(*arrays, **asked, **options)

    def bare(self) -> Case:
        """Without leading 1s; those of a scatter by tuples have ranks of their own."""
        if self.operator is dml.NonzeroCoordinates:  # of which a row has as many columns as the input has dimensions
            found = super().bare()
            count, rows = found.results
            return replace(found, results=(count, rows[..., rows.shape[-1] - found.x.ndim :]))
        if "input_dimension_count" not in self.attributes:
            return super().bare()
        counts = [self.attributes[f"{name}_dimension_count"] for name in ("input", "indices")]
        arrays: list[Any] = list(self.sources)
        x, indices = [one.reshape(one.shape[one.ndim - rank :]) for one, rank in zip(arrays, counts, strict=False)]
        updates = arrays[2].reshape(*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        return replace(self, sources=(x, indices, updates), results=(self.expected.reshape(x.shape),))


def _mixed(
    operator: type[dml.OperatorDesc], name: str, sources: Any, results: Any, kinds: str, **attributes: Any
) -> Case:
    given, wanted = (tuple(map(np.array, some)) for some in (sources, results))
    return MixedCase(f"{operator.type.name} {name}", operator, given, wanted, attributes, kinds=tuple(kinds.split()))


SCATTERED = "data index data data"
TEN = [[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]]
TIED = [[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]]
_ROWS = ([[[[11, 10], [9, 8], [7, 6]]]], [[[[3, 2], [2, 3], [3, 2]]]], 3, 2)
_COLUMNS = ([[[[4, 5, 10, 11], [3, 2, 9, 8]]]], [[[[2, 2, 0, 0], [1, 1, 1, 1]]]], 2, 2)
_TIES = ([[[[3, 2, 2], [5, 5, 4], [6, 6, 6]]]], [[[[3, 1, 2], [2, 3, 1], [0, 1, 2]]]], 3, 3)
_RISING = ([[[[1, 2, 2], [3, 4, 5], [6, 6, 6]]]], [[[[0, 1, 2]] * 3]], 3, 3)
TOPS: list[Any] = [
    *((cls, number, x, *found, {}) for cls in (dml.TopK, dml.TopK1)
      for number, x, found in ((1, TEN, _ROWS), (2, TEN, _COLUMNS), (3, TIED, _TIES))),
    (dml.TopK1, 4, TIED, *_RISING, {"axis_direction": "DML_AXIS_DIRECTION_INCREASING"}),
]  # fmt: skip
_ONES, _PI = [2**32 - 1], [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
VECTORS: list[Any] = [
    ("zeros", [0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [1, *[0] * 5]),
    ("ones", _ONES * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], [0] * 4 + _ONES * 2),
    ("the digits of pi", _PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1], [_PI[0] + 1, *_PI[1:]]),
]
SELECTING = [
    # The page of SCATTER has this input and these indices, of which one is there twice.
    _mixed(dml.Scatter, "example 1", [[0, 1, 2, 3, 4], [3, 1, 3, 0], [5, 6, 7, 8]], [[8, 6, 2, 7, 4]], SCATTERED,
           axis=0),
    _mixed(dml.Scatter, "of columns", [[[[[1, 2, 3], [4, 5, 6]]]], [[[[1, 0, 1]]]], [[[[7, 8, 9]]]]],
           [[[[[1, 8, 3], [7, 5, 9]]]]], SCATTERED, axis=2),
    _mixed(dml.ScatterND, "example 1", [[[1, 2, 3, 4, 5, 6, 7, 8]], [[4], [3], [1], [7]], [[9, 10, 11, 12]]],
           [[[1, 11, 3, 10, 9, 6, 7, 12]]], SCATTERED, input_dimension_count=1, indices_dimension_count=2),
    _mixed(dml.ScatterND, "of rows", [[[[[1, 2], [3, 4], [5, 6]]]], [[[[2], [0]]]], [[[[7, 8], [9, 10]]]]],
           [[[[[9, 10], [3, 4], [7, 8]]]]], SCATTERED, input_dimension_count=2, indices_dimension_count=2),
    _mixed(dml.OneHot, "example 1", [[[[[0], [3], [2]]]], [[[[0, 1]]]]],
           [[[[[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]]]], "index data data", axis=3),
    _mixed(dml.OneHot, "example 2", [[[[[0, 2, 1, 0]]]], [[[[0, 1]]]]],
           [[[[[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]]]], "index data data", axis=2),
    _mixed(dml.OneHot, "example 3", [[[[[0], [3], [2]]]], [[[[4], [2], [9]]]]],
           [[[[[2, 4, 4, 4], [4, 4, 4, 2], [4, 4, 2, 4]]]]], "index data data", axis=3),
    *(_mixed(cls, f"example {number}", [x], [values, places], "data data uint32", axis=axis, k=k, **more)
      for cls, number, x, values, places, axis, k, more in TOPS),
    _mixed(dml.NonzeroCoordinates, "example 1", [[[[[1, 0, 0, 2], [0, 3, 0, 5]]]]],
           [[[[[4]]]], [[[[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3], *[[0, 0, 0]] * 4]]]], "data uint32 uint32"),
    # Its fourth example, of negative indices, which unsigned types have not, is in test_document_examples.py.
    # The page of this one has a formula, and no example.
    _mixed(dml.AdamOptimizer, "of a first step", [[[[[1, 2]]]], [[[[0, 0]]]], [[[[0, 0]]]], [[[[4, -8]]]], [[[[1]]]]],
           [[[[[-1, 4]]]], [[[[4, -8]]]], [[[[16, 64]]]]], "data data data data uint32 data data data",
           learning_rate=2.0, beta1=0.0, beta2=0.0, epsilon=0.0),
    # The page of this one names the paper, whose library Random123 has these vectors.
    *(_mixed(dml.RandomGenerator, f"of {name}", [[[[state]]]], [[[[numbers]]], [[[after]]]], "uint32 uint32 uint32")
      for name, state, numbers, after in VECTORS),
]  # fmt: skip
