"""Pictures of descriptions at fault, hostile text, pages and notebooks; what a picture leaves out, and says so."""

from __future__ import annotations

import html.parser
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import numpy as np
import pytest

import anydml as dml
from anydml.core.enums import NUMPY_TYPES
from anydml.explain import Element, Limits, Picture, explain
from anydml.explain.layout import outline
from cases import CASES

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = dml.DataType.FLOAT32


# Descriptions at fault, and hostile text


def at_fault(title: str = "") -> Picture:
    desc = dml.Slice1(
        input_tensor=dml.TensorDesc("float32", (4, 4)),
        output_tensor=dml.TensorDesc("float32", (2, 2)),
        input_window_offsets=(0, 2),
        input_window_sizes=(4, 3),
        input_window_strides=(0, 1),
    )
    return explain(desc, title=title)


def test_a_description_at_fault_is_shown_by_its_faults() -> None:
    picture = at_fault()
    assert isinstance(picture.error, dml.DescriptionError)
    assert len(picture.error.faults) == 2
    assert picture.grids == ()
    for drawing in (picture.text(), picture.svg(), picture.html(), picture._repr_html_()):
        assert "InputWindowStrides[0] must not be 0" in drawing
        assert "Traceback" not in drawing


def test_a_level_that_lacks_the_operator_is_a_fault() -> None:
    x = dml.TensorDesc("int64", (1, 1, 2, 3))
    desc = dml.CumulativeSummation.infer(input_tensor=x, axis=3)
    assert explain(desc).error is None
    error = explain(desc, feature_level="4_0").error
    assert isinstance(error, dml.FeatureLevelError)
    assert str(error.needed) == "5_0"


HOSTILE = "</title></style></script><script>alert(1)</script><b onclick='x' a=\"y\">&amp;\x00\x1b[31m\ud800\N{BELL}"


class Tags(html.parser.HTMLParser):
    """The tags of a page, and the texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "make", [at_fault, lambda title: explain(CASES[0].desc(F32), title=title)], ids=["bad", "good"]
)
def test_hostile_text_stays_text(make: Callable[[str], Picture]) -> None:
    hostile, harmless = make(HOSTILE), make("crop")
    tags, expected = Tags(), Tags()
    tags.feed(hostile.html())
    expected.feed(harmless.html())
    assert tags.tags == expected.tags
    assert "<script>alert(1)</script>" in tags.text
    root = ElementTree.fromstring(hostile.svg())  # noqa: S314 - our own
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names <= {"svg", "style", "rect", "text", "g", "title", "path"}
    assert "alert(1)" in "".join(root.itertext())
    hostile.html().encode("utf-8")
    assert "\x1b" not in hostile.text()


def test_a_page_needs_nothing_from_anywhere() -> None:
    page = explain(CASES[0].desc(F32)).html()
    assert "default-src 'none'" in page
    for word in ("http://", "https://", "src=", "href=", "@import", "url("):
        assert word not in page


# Notebooks


def test_descriptions_and_compiled_operators_show_themselves() -> None:
    desc = CASES[2].desc(F32)
    compiled = dml.Device("reference").compile(desc)
    assert desc._repr_html_() == compiled._repr_html_() == explain(desc)._repr_html_()
    assert "<!doctype" not in desc._repr_html_()
    assert " id=" not in desc._repr_html_()


def test_a_picture_needs_no_library_of_the_command_line() -> None:
    code = (
        "import sys, anydml as dml; assert 'anydml.explain' not in sys.modules;"
        "x = dml.TensorDesc('float32', (4,));"
        "p = dml.CumulativeSummation.infer(input_tensor=x, axis=0)._repr_html_();"
        "print([m for m in ('rich', 'click', 'llvmlite') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert found.stdout == "[]\n"


@pytest.mark.long
def test_grids_stand_below_one_another_where_a_terminal_is_narrow() -> None:
    picture = explain(CASES[0].desc(F32))
    lines = picture.text(width=50).splitlines()
    grids = [line for line in lines if "Tensor {" in line]
    assert [line.split()[0] for line in grids] == ["InputTensor", "OutputTensor"]
    assert max(map(len, lines[:20])) <= 50


def test_a_title_from_a_stranger_is_one_line_in_the_order_it_is_written() -> None:
    x = dml.TensorDesc("float32", (2,))
    desc = dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=0)
    picture = explain(desc, title="a\n\tb\u202ec\x1b[31m\u2066")
    for drawing in (picture.text(), picture.svg(), picture.html()):
        assert "a b\ufffdc\ufffd[31m\ufffd: CUMULATIVE_SUMMATION" in drawing


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
    for case in {case.operator: case for case in CASES}.values():
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
