"""Drawings of graphs: every node, edge and pass, no box over another, text that stays text."""

from __future__ import annotations

import html.parser
import itertools
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import anydml as dml
from anydml.core.memory import word_bytes
from anydml.explain import explain_desc, recipes_of
from anydml.explain.layered import lay_out
from counting import count_operations
from graph_pictures import SVG, boxes, chain, crop_flip_sum_flip, forked, texts, told

T = dml.TensorDesc
X = T("float32", (6, 8))


@pytest.mark.parametrize("desc", [crop_flip_sum_flip(), forked(), chain(30)], ids=["one", "forked", "chain"])
def test_a_drawing_has_every_node_its_operator_edges_and_passes(desc: dml.GraphDesc) -> None:
    picture = explain_desc(desc)
    svg = picture.svg()
    found = texts(svg)
    for one, became in told(picture):
        assert {*one.nodes, one.operator} <= set(found)
        assert any(str(became) in text for text in found)
    for tensor in picture.tensors.values():
        assert tensor.name in found
        assert f"{tensor.data_type.name} {word_bytes(tensor.size_in_bytes)}" in found
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    reads = sum(len(one.reads) for one in picture.before)
    assert len(root.findall(f".//{SVG}path")) == reads + desc.output_count
    assert len(root.findall(f".//{SVG}title")) == len(boxes(svg))


def test_no_two_boxes_overlap_and_all_are_inside() -> None:
    svg = explain_desc(forked()).svg()
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    found = boxes(svg)
    assert len(found) == 2 + 5 + 3
    for i, (x, y, width, height) in enumerate(found):
        assert x >= 0
        assert x + width <= float(root.attrib["width"])
        assert y + height <= float(root.attrib["height"])
        for left, top, across, down in found[:i]:
            assert x >= left + across or left >= x + width or y >= top + down or top >= y + height


def test_nodes_of_one_pass_have_a_colour_and_a_frame() -> None:
    svg = explain_desc(crop_flip_sum_flip()).svg()
    assert svg.count('class="c h1"') == 4
    assert svg.count('class="w e1"') == 1
    assert "pass 1: 160 bytes" in texts(svg)
    assert texts(svg).count("in pass 1") == 3
    assert {"pass 1: 160 bytes", "pass 2: 160 bytes", "pass 3: 204 bytes"} <= set(texts(explain_desc(forked()).svg()))
    assert 'class="c h' not in explain_desc(chain(3)).svg()
    assert 'class="w' not in explain_desc(chain(3)).svg()


def test_a_drawing_stands_alone_in_light_and_in_dark() -> None:
    picture = explain_desc(forked())
    assert "prefers-color-scheme:dark" in picture.svg()
    for drawing in (picture.svg(), picture.html()):
        assert "<script" not in drawing
        bare = drawing.replace('xmlns="http://www.w3.org/2000/svg"', "")
        for word in ("http://", "https://", "src=", "href=", "@import", "url("):
            assert word not in bare


def test_every_rule_of_style_keeps_to_the_drawing() -> None:
    style = re.search("<style>(.*?)</style>", explain_desc(forked()).svg(), re.DOTALL)
    assert style
    rules = style[1].replace("@media (prefers-color-scheme:dark){", "")
    for selectors in re.findall(r"([^{}]+)\{", rules):
        assert all(".anydml-graph " in one for one in re.split(r",(?![^(]*\))", selectors)), selectors


HOSTILE = "</text><script>alert(1)</script>&\"'<!-- ]]> \x1b[31m\u202e\ud800\n\ttab"


def test_names_of_strangers_are_text_everywhere() -> None:
    for name in (HOSTILE, "x" * 10_000, "\U0001f600" * 40, "]]>", "%s{0}"):
        picture = explain_desc(crop_flip_sum_flip(name), title=name)
        svg = picture.svg()
        ElementTree.fromstring(svg.encode())  # noqa: S314 - our own
        page = picture.html()
        page.encode()
        for drawing in (svg, page, picture._repr_html_()):
            assert "<script" not in drawing
            assert "\x1b" not in drawing
            assert "\u202e" not in drawing
        html.parser.HTMLParser().feed(page)
        text = picture.text()
        assert len(text) < 4_000
        assert "\x1b" not in text
        assert len(text.splitlines()) == len(explain_desc(crop_flip_sum_flip(), title="t").text().splitlines())
    svg = explain_desc(crop_flip_sum_flip(HOSTILE)).svg()
    assert "</text><script>alert(1)</script…" in texts(svg)
    said = [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}title")]  # noqa: S314 - our own
    told_whole = "</text><script>alert(1)</script>&\"'<!-- ]]> \ufffd[31m\ufffd\ufffd tab: copy [4,5] from x[1:5, 2:7]"
    assert any(text and text.startswith(told_whole) for text in said)


def test_a_notebook_shows_the_drawing_and_the_tables() -> None:
    picture = explain_desc(forked())
    assert picture._repr_svg_() == picture.svg()
    assert picture.svg() in picture._repr_html_()
    assert "running sum along axis 1 of x[1:5, 2:7]" in picture._repr_html_()
    assert "<!doctype" not in picture._repr_html_()
    assert picture._repr_html_() in picture.html()


# Large graphs


def test_a_chain_of_twice_the_length_is_twice_the_work_to_draw() -> None:
    def count(length: int) -> int:
        desc = chain(length)
        made = recipes_of(desc)

        def draw() -> None:
            picture = explain_desc(desc, made)
            _ = str(picture), picture.svg()

        draw()  # what is done once is done by now
        return count_operations(draw)

    assert count(120) < 2.2 * count(60)


def test_a_long_chain_is_drawn() -> None:
    desc = chain(300)
    picture = explain_desc(desc, recipes_of(desc))
    text, svg = str(picture), picture.svg()
    for number in range(300):
        assert f"node number {number}" in text
    assert {f"node number {number}" for number in range(300)} <= set(texts(svg))
    assert "… and 276 more passes" in svg
    assert len(svg) < 500_000


def test_a_wide_graph_is_no_endless_row() -> None:
    g = dml.Graph("reference")
    x = g.input(X, "x")
    desc = g.desc([dml.cumulative_summation(x, 1, has_exclusive_sum=bool(n)).named(f"n{n}") for n in range(2)] * 40)
    svg = explain_desc(desc).svg()
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    assert float(root.attrib["width"]) < 4_000


def test_a_picture_of_a_graph_needs_no_library_of_the_command_line() -> None:
    code = (
        "import sys, anydml as dml; from anydml.explain import explain_desc;"
        "g = dml.Graph('reference'); x = g.input(dml.TensorDesc('float32', (4,)));"
        "p = explain_desc(g.desc(dml.cumulative_summation(x, 0))).html();"
        "print([m for m in ('rich', 'click', 'llvmlite') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert found.stdout == "[]\n"


def test_the_example_draws_what_it_says(tmp_path: Path) -> None:
    target = tmp_path / "graph.svg"
    example = Path(__file__).parents[2] / "examples" / "graph.py"
    command = [sys.executable, "-W", "error", str(example), "--svg", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own example
    assert "running sum along axis 1, decreasing, of x[1:5, 2:7]" in done.stdout
    assert {"crop", "flip", "sums", "back"} <= set(texts(target.read_text("utf-8")))


# The library that lays them out


def test_rows_keep_their_boxes_and_links_apart() -> None:
    widths = [40.0 + 30 * (n % 5) for n in range(60)]
    links = [(n // 3, n) for n in range(1, 60)] + [(0, 59), (5, 59), (7, 7)]
    found = lay_out(widths, links, gap=10, lane=6, most_in_row=8)
    held: dict[int, list[tuple[float, float]]] = {}
    for middle, row, width in zip(found.middles, found.rows, widths, strict=True):
        held.setdefault(row, []).append((middle - width / 2, middle + width / 2))
    for (source, target), path in zip(links, found.paths, strict=True):
        assert source == target or found.rows[source] < found.rows[target]
        passed = [row for one in path for row in range(one.first, one.last + 1)]
        assert passed == list(range(found.rows[source] + 1, found.rows[target]))
        for one in path:
            for row in range(one.first, one.last + 1):
                assert not any(left < one.x < right for left, right in held[row])
    for several in held.values():
        assert len(several) <= 8
        for (_, right), (left, _) in itertools.pairwise(sorted(several)):
            assert left - right > 9.99
    assert min(left for several in held.values() for left, _ in several) >= 0


@pytest.mark.parametrize("kind", ["chain", "star", "skips", "cycle", "apart"])
def test_a_layout_is_as_wide_as_its_rows_whatever_the_graph(kind: str) -> None:
    count = 2_000
    links = {
        "chain": [(n, n + 1) for n in range(count - 1)],
        "star": [link for n in range(1, count - 1) for link in ((0, n), (n, count - 1))],
        "skips": [link for n in range(1, count) for link in ((n - 1, n), (0, n))],
        "cycle": [(n, (n + 1) % count) for n in range(count)],
        "apart": [],
    }[kind]
    found = lay_out([100.0] * count, links, gap=20, lane=10, most_in_row=12)
    assert found.width < 6_000
    assert found.row_count <= count


def test_without_its_library_a_picture_is_its_tables_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "igraph", None)
    picture = explain_desc(forked())
    with pytest.raises(dml.UnsupportedError, match=r"needs igraph.*pip install 'anydml\[graph\]'"):
        picture.svg()
    assert picture._repr_svg_() is None
    for page in (picture.html(), picture._repr_html_()):
        assert "needs igraph" in page
        assert "running sum along axis 1 of x[1:5, 2:7]" in page
