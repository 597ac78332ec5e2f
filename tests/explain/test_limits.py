"""What a picture leaves out, and what it says of it; values that are made up."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import anydml as dml
from anydml.core.enums import NUMPY_TYPES
from anydml.explain import Element, Limits, explain
from anydml.explain.layout import outline
from cases import CASES

F32 = dml.DataType.FLOAT32


# What is made up


@pytest.mark.parametrize("data_type", NUMPY_TYPES, ids=lambda t: t.name)
def test_made_up_values_are_of_the_type(data_type: dml.DataType) -> None:
    x = dml.TensorDesc(data_type, (5000,))
    picture = explain(
        dml.Slice1.infer(input_tensor=x, input_window_offsets=[0], input_window_sizes=[5000], input_window_strides=[-1])
    )
    for cell in picture.grids[-1].cells():
        (at,) = cell.sources[0].coordinate
        most = 2048 if data_type is dml.DataType.FLOAT16 else {1: 255, 2: 65535}.get(data_type.size_in_bytes, 10**9)
        most = most // 2 if data_type.is_signed and most < 10**9 else most
        assert cell.value == str(at % most + 1)
    assert any("from 1 again after" in note for note in picture.notes) == (most < 5000)


def test_a_repeated_element_has_one_value() -> None:
    x = dml.TensorDesc("float32", (3, 2), strides=(0, 1))
    picture = explain(dml.CumulativeSummation.infer(input_tensor=x, axis=0))
    assert [cell.value for cell in picture.grids[0].cells()] == ["1", "2"] * 3
    assert [cell.value for cell in picture.grids[1].cells()] == ["1", "2", "2", "4", "3", "6"]


def test_made_up_indices_are_valid_even_where_tuples_share_them() -> None:
    for strides in (None, (0, 1), (1, 0), (0, 0), (1, 1)):
        desc = dml.GatherND.infer(
            input_tensor=dml.TensorDesc("float32", (3, 2)),
            indices_tensor=dml.TensorDesc("uint32", (4, 2), strides=strides),
            input_dimension_count=2,
            indices_dimension_count=2,
        )
        picture = explain(desc)
        assert not any(cell.is_fault for grid in picture.grids for cell in grid.cells())
        assert any("No indices were given" in note for note in picture.notes)
        values: dict[int, set[str]] = {}
        for cell in picture.grids[1].cells():
            place = sum(c * stride for c, stride in zip(cell.element.coordinate, strides or (2, 1), strict=True))
            values.setdefault(place, set()).add(cell.value)
        assert all(len(found) == 1 for found in values.values())


# What is left out


def enormous() -> list[dml.OperatorDesc]:
    most = 2**32 - 1
    wide = dml.TensorDesc("float32", (2**16 - 1, 2**16))
    deep = dml.TensorDesc("uint8", (2**8, 1, 2**8, 1, 2**8, 1, 2**8 - 1, 1))
    line = dml.TensorDesc("float16", (most,))
    back = {"axis_direction": "decreasing"}
    return [
        dml.Slice.infer(input_tensor=line, offsets=[7], sizes=[most // 3], strides=[2]),
        dml.Slice1.infer(
            input_tensor=wide,
            input_window_offsets=(9, 5),
            input_window_sizes=(65000, 65000),
            input_window_strides=(-3, 1),
        ),
        dml.Slice1.infer(
            input_tensor=deep,
            input_window_offsets=(0,) * 8,
            input_window_sizes=deep.sizes,
            input_window_strides=(-1,) * 8,
        ),
        dml.CumulativeSummation.infer(input_tensor=line, axis=0),
        dml.CumulativeSummation.infer(input_tensor=line, axis=0, has_exclusive_sum=True, **back),
        dml.CumulativeProduct.infer(input_tensor=wide, axis=0, **back),
        dml.GatherND.infer(
            input_tensor=dml.TensorDesc("uint8", (most, 1)),
            indices_tensor=dml.TensorDesc("uint32", (most, 1)),
            input_dimension_count=2,
            indices_dimension_count=2,
        ),
        dml.GatherND1.infer(
            input_tensor=dml.TensorDesc("float32", (2**10, 2**10, 3)),
            indices_tensor=dml.TensorDesc("int64", (2**10, 2**20, 1)),
            input_dimension_count=3,
            indices_dimension_count=3,
            batch_dimension_count=1,
        ),
    ]


@pytest.mark.parametrize("desc", enormous(), ids=lambda desc: desc.type.name)
def test_an_enormous_tensor_has_a_small_picture(desc: dml.OperatorDesc) -> None:
    explain(desc).html()  # what is loaded once is not counted
    tracemalloc.start()
    picture = explain(desc)
    drawings = [picture.text(), picture.svg(), picture.html()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert picture.error is None
    assert peak < 4_000_000
    assert all(len(drawing) < 150_000 for drawing in drawings)
    assert any("left out" in note for note in picture.notes)
    for drawing in drawings:
        assert "left out" in drawing
    limits = Limits()
    for grid in picture.grids:
        assert len(grid.planes) <= limits.planes
        assert sum(row is not None for row in grid.rows) <= limits.rows
        assert sum(column is not None for column in grid.columns) <= limits.columns
    keys = {cell.element for grid in picture.grids for cell in grid.cells()}
    output = list(picture.grids[-1].cells())
    shown = [cell for cell in output if set(cell.sources) <= keys]
    assert shown == output


def test_a_cut_slice_keeps_its_corners_and_says_what_is_missing() -> None:
    desc = dml.Slice1.infer(
        input_tensor=dml.TensorDesc("float32", (3, 100, 200)),
        input_window_offsets=(1, 20, 30),
        input_window_sizes=(2, 60, 90),
        input_window_strides=(1, -1, 2),
    )
    picture = explain(desc)
    source, target = picture.grids
    assert source.left_out == "94 of 100 rows, 191 of 200 columns"
    rows, columns = [r for r in source.rows if r is not None], [c for c in source.columns if c is not None]
    assert {20, 79, 78, 77} <= set(rows)
    assert {30, 31, 32, 119} <= set(columns)
    assert target.rows == (0, 1, 2, None, 59)
    window = (range(20, 80), range(30, 120))
    assert [plane.window for plane in source.planes] == [None, window, window]
    for cell in target.cells():
        plane, row, column = cell.element.coordinate
        assert cell.sources == (Element("InputTensor", (1 + plane, 79 - row, 30 + 2 * column)),)
        assert cell.badge == str((plane * 60 + row) * 45 + column + 1)


def test_the_smallest_limits_show_something_and_none_is_refused() -> None:
    for case in CASES:
        picture = explain(case.desc(F32), limits=Limits(1, 1, 1))
        assert all(len(list(grid.cells())) == 1 for grid in picture.grids)
        assert picture.text()
    for wrong in (0, -1, 1.5, "2"):
        with pytest.raises(dml.DescriptionError, match="Limits: rows must"):
            Limits(rows=wrong)  # type: ignore[arg-type]  # wrong on purpose


def test_an_outline_is_open_where_the_window_goes_on_in_what_is_left_out() -> None:
    drawn = (None, 3, 4, None, 9, 10, None)
    assert outline(drawn, range(4, 10)) == (2, 4, True, True)
    assert outline(drawn, range(4, 20)) == (2, 6, True, False)
    assert outline(drawn, range(1, 4)) == (0, 1, False, True)
    assert outline(drawn, range(5, 8)) is None


def test_an_index_outside_is_named_though_it_is_not_shown() -> None:
    indices = np.zeros((1000, 1), "int32")
    indices[777] = -9
    desc = dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", (8, 2)),
        indices_tensor=dml.TensorDesc.of(indices),
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    picture = explain(desc, None, indices)
    assert not any(cell.is_fault for cell in picture.grids[-1].cells())
    assert any("indices[777] = (-9,) is outside dimension 0 of size 8" in note for note in picture.notes)
    indices[0], indices[1] = -8, 8
    picture = explain(desc, None, indices)
    assert picture.sentences[0] == (
        "indices[0] = (-8) counts from the end: (0), and picks row input[0,:], which lands in output[0,:]"
    )
    assert picture.sentences[1] == "indices[1] = (8) is outside dimension 0 of size 8: nothing is written"
