"""The documents' examples of operators that pad, tile, resample and cut regions, as data."""

from __future__ import annotations

from typing import Any

import numpy as np

import anydml as dml
from case_kinds import Case, NamedCase, one_to_one


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
