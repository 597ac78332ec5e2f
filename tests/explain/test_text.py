"""Pictures of descriptions at fault, hostile text, pages, notebooks and terminals."""

from __future__ import annotations

import html.parser
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

import anydml as dml
from anydml.explain import Picture, explain
from anydml.explain.text import as_ascii
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
def test_text_has_a_spelling_for_every_terminal() -> None:
    for case in CASES:
        assert as_ascii(explain(case.desc(F32), *case.inputs(F32)).text()).isascii()


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
