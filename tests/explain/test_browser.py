"""The page in a real browser: pointing at an element lights the right ones, and nothing overlaps or is cut.

ANYDML_SCREENSHOTS=DIR keeps what was seen.
"""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
import browser
from anydml.explain import Element, Picture, explain
from case_oracles import ElementWiseCase
from cases import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.sampled(4),
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser here: install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="needs requirements/browser.txt"),
]
KEPT = os.environ.get("ANYDML_SCREENSHOTS")


def _pictures() -> dict[str, Picture]:
    # Of the element-wise operators, which are drawn alike, those with the longest names.
    alike = sorted((case for case in CASES if isinstance(case, ElementWiseCase)), key=lambda case: -len(str(case)))
    cases = [case for case in CASES if case not in alike[4:]]
    found = {str(case): explain(case.desc(F32), *case.inputs(F32)) for case in cases}
    tensor = dml.TensorDesc
    found["cut, 8-D"] = explain(
        dml.Slice1.infer(
            input_tensor=tensor("float16", (2, 1, 3, 1, 5, 4, 2000, 15000)),
            input_window_offsets=(0, 0, 1, 0, 2, 0, 700, 5),
            input_window_sizes=(2, 1, 2, 1, 3, 4, 900, 900),
            input_window_strides=(-1, 1, 1, 1, 2, -3, -7, 3),
        )
    )
    long = tensor("float32", (2**32 - 1,))
    found["cut, one row"] = explain(dml.CumulativeSummation(input_tensor=long, output_tensor=long, axis=0))
    wide = tensor("uint16", (2**16 - 1, 2**16))
    decreasing = dml.CumulativeSummation(input_tensor=wide, output_tensor=wide, axis=0, axis_direction="decreasing")
    found["cut, upwards"] = explain(decreasing)
    for mode in dml.IndexMode:
        desc = dml.GatherND.infer(
            input_tensor=tensor("float32", (30, 8)),
            indices_tensor=tensor("int64", (5, 1)),
            input_dimension_count=2,
            indices_dimension_count=2,
            index_mode=mode,
        )
        values = (np.arange(240, dtype="float32") * -1.375).reshape(30, 8)
        found[f"outside, {mode.name}"] = explain(desc, values, np.array([[-1], [2], [30], [3], [-31]]))
    bad = dml.Slice1(
        input_tensor=tensor("float32", (4, 4)),
        output_tensor=tensor("float32", (2, 2)),
        input_window_offsets=(0, 2),
        input_window_sizes=(4, 3),
        input_window_strides=(0, 1),
    )
    found["faults"] = explain(bad, title="dispatchable 'crop'")
    found |= {f"example of {cls.type.name}": explain(cls) for cls in (dml.TopK, dml.Scatter, dml.MaxPooling1)}
    return found


F32 = dml.DataType.FLOAT32
PICTURES = _pictures()
each_picture = pytest.mark.parametrize("name", PICTURES)
TOGETHER = [list(PICTURES)[i : i + 12] for i in range(0, len(PICTURES), 12)]
"""Pictures that share a page, as in a notebook: a page takes the browser as long as they do."""


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.start() as found:
        yield found


def keep(page: browser.Page, name: str) -> None:
    if KEPT:
        page.screenshot(Path(KEPT) / (re.sub(r"\W+", "_", name) + ".png"))


def keys_of(picture: Picture) -> dict[Element, str]:
    """How the page names the elements."""
    return {cell.element: f"{k}.{i}" for k, grid in enumerate(picture.grids) for i, cell in enumerate(grid.cells())}


def lit(page: browser.Page, root: str = "") -> tuple[set[str], set[str]]:
    script = """name => [...document.querySelectorAll(`%s .${name}`)].map(c => c.dataset.k)""" % root  # noqa: UP031 - braces are the script's
    return set(page.run(f"({script})('point')")), set(page.run(f"({script})('lit')"))


def at(key: str, root: str = "") -> str:
    return f'{root} [data-k="{key}"]'


def open_page(page: browser.Page, picture: Picture, folder: Path, **options: Any) -> None:
    path = folder / "page.html"
    path.write_text(picture.html(), "utf-8")
    page.open(path, **options)


POINTED = [str(CASES[i]) for i in (3, 8, 9, 11, 12)] + ["outside, CLAMP", "cut, 8-D"]


@pytest.mark.parametrize("name", POINTED)
def test_pointing_at_an_element_lights_what_belongs_to_it(page: browser.Page, tmp_path: Path, name: str) -> None:
    picture = PICTURES[name]
    keys = keys_of(picture)
    open_page(page, picture, tmp_path)
    goes_to: dict[str, set[str]] = {key: set() for key in keys.values()}
    for cell in list(picture.grids[-1].cells())[:24]:
        expected = {keys[e] for e in (*cell.sources, *cell.chosen_by) if e in keys}
        page.hover(at(keys[cell.element]))
        assert lit(page) == ({keys[cell.element]}, expected)
        assert page.run("document.querySelector('.says').textContent") == cell.says
    keep(page, f"pointed {name}")
    for cell in picture.grids[-1].cells():
        for element in (*cell.sources, *cell.chosen_by):
            if element in keys:
                goes_to[keys[element]].add(keys[cell.element])
    for cell in [cell for grid in picture.grids[:-1] for cell in grid.cells()][:24]:
        page.hover(at(keys[cell.element]))
        assert lit(page) == ({keys[cell.element]}, goes_to[keys[cell.element]])
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=999, y=799)
    assert lit(page) == (set(), set())
    assert page.complaints() == []


def test_what_was_compared_is_outlined(page: browser.Page, tmp_path: Path) -> None:
    picture = PICTURES["example of SCATTER"]
    keys = {str(element): key for element, key in keys_of(picture).items()}
    open_page(page, picture, tmp_path)
    near = "[...document.querySelectorAll('.near')].map(c => c.dataset.k)"
    page.hover(at(keys["output[0,1]"]))
    assert lit(page) == ({keys["output[0,1]"]}, {keys["updates[0,1]"], keys["indices[0,1]"]})
    assert page.run(near) == [keys["indices[1,1]"]]
    keep(page, "compared")
    page.hover(at(keys["indices[1,1]"]))
    assert set(page.run(near)) == {keys["output[0,1]"], keys["output[2,1]"]}
    hint = "document.querySelector('.says').textContent"
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=999, y=799)
    assert page.run(hint).endswith("to see what belongs to it; what was compared is outlined.")


def test_keys_move_from_element_to_element(page: browser.Page, tmp_path: Path) -> None:
    picture = PICTURES["CUMULATIVE_SUMMATION example 1"]
    open_page(page, picture, tmp_path)
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=999, y=799)
    focus = "document.activeElement.dataset.k"
    page.press("Tab", 9)
    assert page.run(focus) == "0.0"
    assert lit(page) == ({"0.0"}, {"1.0", "1.1", "1.2", "1.3"})
    page.press("Tab", 9)
    assert page.run(focus) == "1.0"
    for key, code, expected in (
        ("ArrowRight", 39, "1.1"),
        ("ArrowDown", 40, "1.5"),
        ("ArrowDown", 40, "1.9"),
        ("ArrowDown", 40, "1.9"),  # there is no further row
        ("ArrowUp", 38, "1.5"),
        ("ArrowLeft", 37, "1.4"),
        ("ArrowLeft", 37, "1.4"),
    ):
        page.press(key, code)
        assert page.run(focus) == expected
    assert lit(page) == ({"1.4"}, {"0.4"})
    label = "document.activeElement.getAttribute('aria-label')"
    assert page.run(label) == "output[0,0,1,0] = 3"
    keep(page, "focus")


def test_a_finger_lights_and_leaves_it_lit(page: browser.Page, tmp_path: Path) -> None:
    open_page(page, PICTURES["SLICE1 example 2"], tmp_path, width=360)
    page.touch(at("1.2"))
    assert lit(page) == ({"1.2"}, {"0.5"})
    # Not every browser moves its focus to what a finger touches.
    page.run("document.querySelectorAll('td').forEach(cell => cell.removeAttribute('tabindex'))")
    page.touch(at("1.0"))
    assert lit(page) == ({"1.0"}, {"0.13"})
    keep(page, "touched")


def split(picture: Picture) -> tuple[str, str]:
    """A notebook's fragment without its script, and the script."""
    fragment = picture._repr_html_()
    script = re.findall(r"<script>.*?</script>", fragment, re.DOTALL)
    assert len(script) == 1
    return fragment.replace(script[0], ""), script[0]


@pytest.mark.parametrize("scripts", ["as they come", "at the end"])
def test_pictures_on_one_page_do_not_mix(page: browser.Page, tmp_path: Path, scripts: str) -> None:
    pairs = [split(PICTURES["SLICE1 example 2"]), split(PICTURES["GATHER_ND example 1"])]
    if scripts == "at the end":  # as where a notebook inserts what it has before it runs anything
        pairs = [(body, "") for body, _ in pairs] + [("", script) for _, script in pairs]
    path = tmp_path / "notebook.html"
    divisions = (f'<div id="{i}">{body}{script}</div>' for i, (body, script) in enumerate(pairs))
    path.write_text(f"<meta charset=utf-8>{''.join(divisions)}", "utf-8")
    page.open(path)
    page.hover(at("2.0", '[id="1"]'))
    assert lit(page, '[id="0"]') == (set(), set())
    assert lit(page, '[id="1"]') == ({"2.0"}, {"0.2", "1.0"})
    page.hover(at("1.0", '[id="0"]'))
    assert lit(page, '[id="0"]') == ({"1.0"}, {"0.13"})
    assert lit(page, '[id="1"]') == (set(), set())
    assert page.complaints() == []


NOTEBOOK = """
.jp-RenderedHTMLCommon table { table-layout: fixed; margin: 1em auto; width: 100%; border: 3px solid red; }
.jp-RenderedHTMLCommon :not(pre) td, .rendered_html td { text-align: right; vertical-align: top; padding: 2em; }
.jp-RenderedHTMLCommon th, .rendered_html.rendered_html th { text-align: right; padding: 2em; font-weight: 900; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd), .rendered_html tbody tr:nth-child(odd) { background: rgb(1, 2, 3); }
.jp-RenderedHTMLCommon tbody tr:hover { background: rgb(4, 5, 6); }
.jp-RenderedHTMLCommon ul:not(.list-inline), .rendered_html ul:not(.list-inline) { padding-left: 3em; margin: 2em; }
.jp-RenderedHTMLCommon ul.x, .jp-RenderedHTMLCommon ul:not(.y) li { list-style: disc; margin-left: 2em; }
.jp-RenderedHTMLCommon p { margin: 3em; text-align: justify; }
"""
LOOKS = """(() => [...document.querySelectorAll('.anydml-picture *')].map(e => {
  const s = getComputedStyle(e);
  return [e.tagName, e.className, s.textAlign, s.backgroundColor, s.padding, s.margin, s.verticalAlign, s.width,
          s.fontWeight, s.borderTopWidth, s.listStyleType].join(' ');
}))()"""


@pytest.mark.parametrize("name", ["SLICE1 example 2", "GATHER_ND example 1"])
def test_a_notebooks_own_styles_do_not_leak_in(page: browser.Page, tmp_path: Path, name: str) -> None:
    body, script = split(PICTURES[name])
    looks = []
    for style in ("", f"<style>{NOTEBOOK}</style>"):
        path = tmp_path / "notebook.html"
        division = f'<div class="jp-RenderedHTMLCommon rendered_html">{body}{script}</div>'
        path.write_text(f"<!doctype html><meta charset=utf-8>{style}{division}", "utf-8")
        page.open(path)
        page.hover(at("1.0"))
        looks.append(page.run(LOOKS))
    assert len(looks[0]) > 20
    assert looks[0] == looks[1]


def test_nor_into_tables(page: browser.Page, tmp_path: Path) -> None:
    """Nor do they in the dark: words have the notebook's own colour."""
    looks = []
    for style in ("", f"<style>{NOTEBOOK}</style>"):
        path = tmp_path / "notebook.html"
        division = f'<div class="jp-RenderedHTMLCommon rendered_html">{dml.Gemm.support._repr_html_()}</div>'
        path.write_text(f"<!doctype html><meta charset=utf-8>{style}<body style='color:#eee'>{division}", "utf-8")
        page.open(path)
        looks.append(page.run(LOOKS.replace(".anydml-picture *", ".rendered_html *")))
    assert len(looks[0]) > 20
    assert looks[0] == looks[1]
    assert page.run("getComputedStyle(document.querySelector('td')).color") == "rgb(238, 238, 238)"


def test_without_scripts_there_is_the_picture_and_tooltips(page: browser.Page, tmp_path: Path) -> None:
    picture = PICTURES["SLICE1 example 2"]
    path = tmp_path / "notebook.html"
    path.write_text(f"<meta charset=utf-8>{split(picture)[0]}", "utf-8")
    page.open(path)
    page.hover(at("1.0"))
    assert lit(page) == (set(), set())
    title = page.run("document.querySelector('[data-k=\"1.0\"]').title")
    assert title == next(picture.grids[-1].cells()).says
    assert page.run("getComputedStyle(document.querySelector('.says')).display") == "none"


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["GATHER_ND1 example 2", "outside, RAISE", "faults"])
def test_text_can_be_read_in_either_scheme(page: browser.Page, tmp_path: Path, name: str, is_dark: bool) -> None:
    open_page(page, PICTURES[name], tmp_path, is_dark=is_dark)
    if PICTURES[name].grids:
        page.hover(at("2.0"))
    contrast, where = page.run(browser.CONTRAST)
    assert contrast >= 4.5, where
    ground = page.run("getComputedStyle(document.querySelector('.anydml-picture')).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") is not is_dark


# Elements that are cut off, reach out of the page, or whose number lies on their value.
SPOILT = """[...document.querySelectorAll('td.c')].filter(c => {
  const value = document.createRange(), badge = c.querySelector('sup');
  value.selectNodeContents(c.querySelector('b') || c.firstChild);
  const v = value.getBoundingClientRect(), b = badge && badge.getBoundingClientRect(), r = c.getBoundingClientRect();
  const meet = b && v.right > b.left + 0.5 && v.top + 4 < b.bottom - 1 && v.left < b.right;
  return v.left < r.left || v.right > r.right || meet;
}).map(c => c.outerHTML)"""


@pytest.mark.parametrize("width", [360, 1000])
@pytest.mark.parametrize("names", TOGETHER, ids=lambda names: f"{names[0]} and others")
def test_nothing_overlaps_or_is_cut(page: browser.Page, tmp_path: Path, names: list[str], width: int) -> None:
    path = tmp_path / "page.html"
    head = '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    path.write_text(head + "".join(PICTURES[name]._repr_html_() for name in names), "utf-8")
    page.open(path, width=width, is_dark=width == 360)
    keep(page, f"page {names[0]} {width}")
    assert page.run("document.querySelectorAll('td.c').length") > 0
    assert page.run(SPOILT) == []
    assert page.run("document.documentElement.scrollWidth") <= width
    assert page.complaints() == []


# Texts that leave the drawing, values that leave their cell, and texts that lie on one another.
SPOILT_SVG = """(() => {
  const whole = document.documentElement.viewBox.baseVal, found = [];
  const texts = [...document.querySelectorAll('text')].map(t => [t, t.getBBox()]);
  const grow = (b, by) => ({l: b.x + by, r: b.x + b.width - by, t: b.y + by, b: b.y + b.height - by});
  for (const [t, b] of texts) {
    if (b.x < 0 || b.y < 0 || b.x + b.width > whole.width || b.y + b.height > whole.height) found.push(t.outerHTML);
    if (t.parentElement.tagName !== 'g') continue;
    const cell = t.parentElement.querySelector('rect').getBBox();
    if (b.x < cell.x || b.x + b.width > cell.x + cell.width) found.push('out of its cell: ' + t.outerHTML);
  }
  const boxes = texts.filter(([t]) => t.textContent.trim()).map(([t, b]) => [t, grow(b, 2.5)]);
  for (let i = 0; i < boxes.length; i++) for (let k = 0; k < i; k++) {
    const [a, b] = [boxes[i][1], boxes[k][1]];
    if (a.l < b.r && b.l < a.r && a.t < b.b && b.t < a.b) found.push(boxes[i][0].outerHTML + boxes[k][0].outerHTML);
  }
  return found;
})()"""


@each_picture
def test_a_drawing_has_room_for_everything(page: browser.Page, tmp_path: Path, name: str) -> None:
    path = tmp_path / "picture.svg"
    path.write_text(PICTURES[name].svg(), "utf-8")
    page.open(path, width=1100, height=900, is_dark="2" in name)
    keep(page, f"svg {name}")
    assert page.run(SPOILT_SVG) == []
    assert page.complaints() == []
