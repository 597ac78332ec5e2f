"""A model's graph in a real browser: moving it, searching it, its nodes' details, light, dark and on a phone.

ANYDML_SCREENSHOTS=DIR keeps what was seen.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import browser
from anydml.explore import page as pages
from anydml.explore.drawing import GraphNode, ModelGraph, Slot
from anydml.explore.model import open_model, standalone
from tests.explore.test_model import HAS_ONNX, HOSTILE, MODELS, flow

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.skipif(browser.PROGRAM is None, reason="no browser here: install chromium"),
    pytest.mark.skipif(importlib.util.find_spec("websockets") is None, reason="needs requirements/browser.txt"),
]
needs_onnx = pytest.mark.skipif(not HAS_ONNX, reason="needs requirements/onnx.txt")
KEPT = os.environ.get("ANYDML_SCREENSHOTS")
VIEW = "document.querySelector('#model').view"
STILL = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.fixture(scope="module")
def page() -> Iterator[browser.Page]:
    with browser.start() as found:
        yield found


def show(page: browser.Page, path: Path, folder: Path, graphs: list[ModelGraph] | None = None, **options: Any) -> None:
    opened = open_model(path, {})
    if graphs is not None:
        opened.work.graphs[:] = graphs
    target = folder / "page.html"
    target.write_text(pages.standalone(*standalone(opened)), "utf-8")
    page.open(target, **options)
    limit = time.monotonic() + browser.PATIENCE
    while not page.run(f"Boolean({VIEW}?.done.check)"):
        assert time.monotonic() < limit, page.complaints()
        time.sleep(0.02)
    page.run(STILL)


def keep(page: browser.Page, name: str) -> None:
    if KEPT:
        page.screenshot(Path(KEPT) / f"{name}.png")


def large(count: int) -> ModelGraph:
    """Layers of a network: chains with a residual each."""
    nodes = [GraphNode("Input", "x", outputs=[Slot("", "t0")], end="input")]
    for k in range(1, count):
        back = k - 7 if k > 7 and k % 7 == 0 else k - 1
        kind = ("MatMul", "Add", "Relu", "Mul", "Transpose", "Softmax", "Gelu")[k % 7]
        nodes.append(
            GraphNode(
                kind, f"/layers.{k // 7}/{kind}", [Slot("A", f"t{k - 1}"), Slot("B", f"t{back}")], [Slot("C", f"t{k}")]
            )
        )
    return ModelGraph("large", nodes)


def test_moving_a_large_graph_draws_frames_and_rebuilds_nothing(page: browser.Page, tmp_path: Path) -> None:
    show(page, MODELS / "slice1.json", tmp_path, [large(1_000)])
    page.run(f"{VIEW}.stage.folds[1].click()")
    page.wait(f"{VIEW}.port.graph.boxes.length === 1000")
    elements = page.run("document.querySelectorAll('*').length")
    assert elements < 1_000  # boxes are no elements
    page.run(f"{VIEW}.port.fit()")
    before = page.run(f"[{VIEW}.port.scenes, {VIEW}.port.x]")
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=300, y=400, button="left", buttons=1, clickCount=1)
    for step in range(10):
        page.send("Input.dispatchMouseEvent", type="mouseMoved", x=310 + 5 * step, y=400, button="left", buttons=1)
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=355, y=400, button="left", clickCount=1)
    page.run(STILL)
    assert page.run(f"[{VIEW}.port.scenes, {VIEW}.port.x]") == [before[0], pytest.approx(before[1] + 55)]
    assert page.run("document.querySelectorAll('*').length") == elements
    page.send("Input.dispatchMouseEvent", type="mouseWheel", x=300, y=400, deltaX=0, deltaY=-300)
    page.run(STILL)
    assert page.run(f"{VIEW}.port.scale") > 0.01
    assert page.complaints() == []


def test_a_large_graph_has_a_map_that_moves_it(page: browser.Page, tmp_path: Path) -> None:
    show(page, MODELS / "slice1.json", tmp_path)
    assert page.run("document.querySelector('.minimap').hidden")
    show(page, MODELS / "slice1.json", tmp_path, [large(1_000)])
    assert page.run("document.querySelector('.minimap').hidden")  # folded it is small
    page.run(f"{VIEW}.stage.folds[1].click()")
    page.wait(f"{VIEW}.port.graph.boxes.length === 1000")
    page.run(STILL)
    frame = "document.querySelector('.minimap i').getBoundingClientRect().top"
    before = page.run(f"[{VIEW}.port.y, {frame}]")
    place = page.run(
        "(r => [r.x + r.width / 2, r.bottom - 20])(document.querySelector('.minimap').getBoundingClientRect())"
    )
    for kind in ("mousePressed", "mouseReleased"):
        page.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)
    page.run(STILL)
    after = page.run(f"[{VIEW}.port.y, {frame}]")
    assert after[0] < before[0]
    assert after[1] > before[1] + 50


def test_a_page_of_one_file_folds_and_unfolds_all(page: browser.Page, tmp_path: Path) -> None:
    """It has no server to ask for more."""
    show(page, MODELS / "slice1.json", tmp_path, [large(700)])
    assert page.run(f"{VIEW}.port.graph.boxes.length") < 10
    assert page.run(f"{VIEW}.graph.groups.some(one => one.count > 50)")
    page.run(f"{VIEW}.choose(300)")
    page.wait(f"{VIEW}.port.byItem.has(300) && {VIEW}.port.chosen === 300")
    assert page.run(f"{VIEW}.port.graph.boxes.length") == 700
    page.run(f"{VIEW}.stage.folds[0].click()")
    page.wait(f"{VIEW}.port.graph.boxes.length < 10")
    assert page.complaints() == []


def test_keys_move_and_zoom(page: browser.Page, tmp_path: Path) -> None:
    show(page, MODELS / "slice1.json", tmp_path)
    page.run("document.querySelector('canvas').focus()")
    x, scale = page.run(f"[{VIEW}.port.x, {VIEW}.port.scale]")
    page.press("ArrowRight", 39)
    assert page.run(f"{VIEW}.port.x") < x
    page.press("-", 189)
    assert page.run(f"{VIEW}.port.scale") < scale
    page.press("0", 48)
    assert page.run(f"[{VIEW}.port.x, {VIEW}.port.scale]") == [x, scale]


def test_a_model_without_anything_says_so(page: browser.Page, tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.write_text("{}", "utf-8")
    show(page, path, tmp_path)
    assert page.run("document.querySelector('.nothing').checkVisibility()")
    assert page.run("document.querySelector('.minimap').hidden")
    assert page.run("document.querySelector('.told').textContent").startswith("Check: 3 faults")
    assert "dispatchables must be an object" in page.run("document.querySelector('.report').textContent")
    assert page.complaints() == []


@needs_onnx
def test_a_search_finds_nodes_by_name_type_and_tensor(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path), tmp_path)
    names = "[...document.querySelectorAll('ol.nodes button span')].map(one => one.textContent)"
    for text, found in (("determ", ["determinant"]), ("matmul", ["mix"]), ("k", ["twice"]), ("nothing like it", [])):
        page.run(f"(s => {{s.value = {text!r}; s.dispatchEvent(new Event('input'))}})({VIEW}.panel.search)")
        assert page.run(names) == found
    keep(page, "search")


@needs_onnx
def test_enter_goes_through_what_was_found_and_escape_leaves_it(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path), tmp_path)
    page.type("input[type=search]", "m")
    names = page.run(f"{VIEW}.panel.results.map(k => {VIEW}.graph.nodes[k].name)")
    assert names == ["mix", "twice", "odd", "determinant"]  # MatMul and Mul before what only reads `m`
    title = "document.querySelector('.details h2').textContent"
    for kind in ("MatMul", "Mul"):
        page.press("Enter", 13)
        assert page.run(title) == kind
    assert page.run("document.querySelector('.back').textContent") == "← 2 of 4 found"
    page.press("Escape", 27)
    assert page.run("document.activeElement.textContent") == "Mul twice"
    page.press("Escape", 27)
    assert page.run(f"[{VIEW}.panel.search.value, {VIEW}.panel.results.length]") == ["", 10]


@needs_onnx
def test_a_mouse_over_a_box_is_told_its_whole_name(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path, "a name that is longer than any box has room for"), tmp_path)
    page.run(f"{VIEW}.port.centre({VIEW}.graph.nodes.findIndex(node => node.kind.endsWith('Mystery')))")
    page.hover("canvas")
    seen = "(one => [one.title, getComputedStyle(one).cursor])(document.querySelector('canvas'))"
    assert page.run(seen) == ["com.example.Mystery\na name that is longer than any box has room for", "pointer"]
    page.run(f"{VIEW}.port.pan(0, 70)")
    page.hover("canvas")
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=5, y=400)
    assert page.run(seen) == ["", "grab"]


@needs_onnx
def test_a_link_is_followed_and_one_to_nothing_leaves_the_graph(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path), tmp_path)
    for wanted, chosen, title, after in (
        ("#model/0/3", 3, "graph", "#model/0/3"),
        ("#model/2", -1, "then_branch of choose", "#model/2"),
        ("#model", -1, "then_branch of choose", "#model/2"),  # all stays as it was
        ("#model/99/99", -1, "graph", "#model"),
    ):
        page.run(f"location.hash = '{wanted}'")
        page.wait(f"location.hash === '{after}' && {VIEW}.graph.title === '{title}'")
        page.run(STILL)
        assert page.run(f"{VIEW}.chosen ?? -1") == chosen


@needs_onnx
def test_reports_lead_to_nodes(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path), tmp_path)
    report = "document.querySelector('.report')"
    assert "1 cannot run" in page.run(f"{report}.querySelector('summary').textContent")
    page.run(f"{report}.open = true")
    page.run(f"[...{report}.querySelectorAll('button')].find(one => one.textContent.includes('Det')).click()")
    assert page.run(f"{VIEW}.panel.search.value") == "Det"
    mix = page.run(f"{VIEW}.graph.nodes.findIndex(node => node.name === 'mix')")
    passes = [{"ms": 1, "nodes": []}, {"ms": 3, "nodes": [f"0.{mix}"]}]
    page.run(f"{VIEW}.finish('profile', {{says: '', ms: 4, passes: {json.dumps(passes)}}}, true)")
    page.run(f"{VIEW}.panel.find('')")
    rows = "[...document.querySelectorAll('.report[open] tbody tr')].map(one => one.textContent)"
    assert page.run(rows) == ["MatMul3 ms75 %", "pass 11 ms25 %"]
    page.run("document.querySelector('.report[open] tbody button').click()")
    side = {"name": "m", "agrees": True, "says": "near", "largest": 1e-7, "where": "1", "here": "2.1", "there": "2.0"}
    tensors = {"m": {**side, "samples": [["0", "1.0", "1.0"]]}}
    page.run(f"{VIEW}.finish('compare', {{says: '', outputs: [], tensors: {json.dumps(tensors)}}}, true)")
    cells = "[...document.querySelectorAll('.details tbody tr')].map(one => [one.className, one.textContent])"
    assert page.run(cells) == [["", "[0]1.01.0"], ["near", "[1]2.12.0"]]
    assert page.complaints() == []


@needs_onnx
def test_a_node_tells_its_reason_weights_neighbours_and_bodies(page: browser.Page, tmp_path: Path) -> None:
    show(page, flow(tmp_path, HOSTILE), tmp_path)
    text = "document.querySelector('.details').textContent"
    number = f"{VIEW}.graph.nodes.findIndex(node => node.kind === %r)"
    page.run(f"{VIEW}.choose({number % 'com.example.Mystery'})")
    assert "is not supported" in page.run(text)
    assert "<img src=x onerror=alert(1)>" in page.run(text)
    assert page.run("document.querySelectorAll('img').length") == 0
    page.run(f"{VIEW}.choose({number % 'MatMul'})")
    page.run("document.querySelector('.details details').open = true")
    page.run(STILL)
    assert "mean4" in page.run("document.querySelector('.figures').textContent")
    assert page.run("document.activeElement.tagName") == "H2"
    page.run(
        "[...document.querySelectorAll('.details button.node')].find(one => one.textContent.includes('twice')).click()"
    )
    assert "twice" in page.run(text)
    keep(page, "details")
    page.run(f"{VIEW}.choose({number % 'If'})")
    page.run(
        "[...document.querySelectorAll('.details button')].find(one => one.textContent === 'Open then_branch').click()"
    )
    page.run(STILL)
    assert page.run(f"{VIEW}.graph.title") == "then_branch of choose"
    assert page.complaints() == []


@needs_onnx
@pytest.mark.parametrize(
    ("width", "is_dark"), [(1280, False), (1280, True), (390, False)], ids=["light", "dark", "phone"]
)
def test_nothing_overlaps_or_is_cut(page: browser.Page, tmp_path: Path, width: int, is_dark: bool) -> None:
    show(page, flow(tmp_path), tmp_path, width=width, is_dark=is_dark)
    top = "document.querySelector('.stage').getBoundingClientRect().top"
    before = page.run(top)
    page.run(f"{VIEW}.status.textContent = 'one\\ntwo\\nthree\\nfour'")
    assert page.run(top) == before  # what work says moves nothing
    keep(page, f"model {width} {'dark' if is_dark else 'light'}")
    assert page.run("document.documentElement.scrollWidth") <= width
    boxes = page.run(
        "[...document.querySelectorAll('.bar,.facts,.told,.stage,aside')].map(one => one.getBoundingClientRect())"
        ".map(r => [r.left, r.top, r.right, r.bottom])"
    )
    for i, (left, top, right, bottom) in enumerate(boxes):
        assert right <= width + 0.5
        for x, y, to_x, to_y in boxes[:i]:
            assert left >= to_x - 0.5 or x >= right - 0.5 or top >= to_y - 0.5 or y >= bottom - 0.5
    page.run(f"{VIEW}.port.fit()")
    low = page.run(f"{VIEW}.port.y + {VIEW}.port.graph.height * {VIEW}.port.scale")
    foot = page.run("document.querySelector('.legend').offsetTop + document.querySelector('.foot').offsetTop")
    assert low <= foot  # nothing stands in front of a graph that is shown whole
    if width < 760:
        assert (
            page.run("document.querySelector('.stage').clientHeight / innerHeight") > 0.6
        )  # the list is a sheet below
        page.run("document.querySelector('canvas').scrollIntoView()")
        number = page.run(f"{VIEW}.graph.nodes.findIndex(node => node.name === 'mix')")
        page.run(f"{VIEW}.port.centre({number})")
        page.run(STILL)
        page.touch("canvas")
        assert page.run(f"{VIEW}.chosen") == number
        top, bottom = page.run(
            "(r => [r.top, r.bottom])(document.querySelector('.details h2').getBoundingClientRect())"
        )
        assert 0 < top < bottom < page.run("innerHeight")  # a finger need not scroll to what it asked for
        page.touch(".grip")
        assert page.run("document.querySelector('.details').offsetParent") is None
