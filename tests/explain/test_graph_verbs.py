"""Pictures of graphs with maps, fills, reverses, joins and splits: what a pass does, and one box for each node."""

from __future__ import annotations

import textwrap
from xml.etree import ElementTree

import pytest

import anydml as dml
from anydml.explain import build, explain, explain_desc, explain_graph, graph_words
from anydml.explain.graph_svg import arrange
from anydml.ir import expressions as e
from anydml.ir.fetches import reversal
from anydml.ir.patterns import filled, scaled
from anydml.ir.verbs import Map, Scan
from cases import CASES
from graph_pictures import SVG, boxes, texts, told
from recipes import recipe, view
from tests.graph.test_explain import X

T, F32 = dml.TensorDesc, dml.DataType.FLOAT32


def joined_and_split() -> dml.GraphDesc:
    """A scaled input, a fill and the input itself are joined and taken apart; one part is added up."""
    g = dml.Graph("reference")
    x = g.input(X, "x")
    scaled = dml.identity(x, (2, 1)).named("scaled")
    seven = dml.fill_value_constant([1, 8], 7, graph=g).named("seven")
    first, second = dml.split(dml.join([scaled, seven, x], axis=0).named("cat"), [7, 6], axis=0)
    return g.desc([first, dml.cumulative_summation(second, 1).named("sum")])


def does(result: dml.Expression | tuple[dml.Expression, ...]) -> list[str]:
    """What the passes of a node do."""
    several = list(result) if isinstance(result, tuple) else [result]
    return [one.does for one in explain_desc(several[0].graph.desc(several)).before]


def test_every_verb_has_its_words() -> None:
    g = dml.Graph("reference")
    x, rows = g.input(X, "x"), g.input(T("uint32", (3,)), "rows")
    each, lengths = g.input(T("int32", (2, 8)), "each"), g.input(T("uint32", (6, 1)), "lengths")
    assert does(dml.cast(x, "int32")) == ["convert x to INT32"]
    assert does(dml.identity(x, (2, 1))) == ["scale x by 2, add 1"]
    assert does(dml.identity(x, (0.1, 0))) == ["scale x by 0.1"]
    assert does(dml.identity(x)) == ["copy [6,8] from x"]
    assert does(dml.reverse_subsequences(x, lengths, 1)) == ["reverse x along axis 1, as far as lengths says"]
    assert does(dml.gather(x, rows, 0)) == ["gather [3,8] from x by rows"]
    assert does(dml.gather(x, rows, 1, "clamp")) == ["gather [6,3] from x by rows, along axis 1, clamped"]
    elements = "gather [2,8] from x by each, element by element along axis 0"
    assert does(dml.gather_elements(x, each, 0)) == [elements]
    assert does(dml.gather_elements(x, each, 0, "clamp")) == [f"{elements}, clamped"]
    assert does(dml.fill_value_constant([2], -0.5, graph=g)) == ["fill [2] with -0.5"]
    assert does(dml.fill_value_sequence([2], 5, -2, "uint8", graph=g)) == ["fill [2] with 5, -2 more each time"]
    assert does(dml.split(x, [2, 4], 0)) == ["copy [2,8] from x[:2, :]", "copy [4,8] from x[2:, :]"]


def test_a_verb_without_words_of_its_own_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(build._TALES, Scan)
    monkeypatch.delitem(graph_words._VERBS, Scan)
    x = T("float32", (2, 2))
    picture = explain(dml.CumulativeSummation(input_tensor=x, output_tensor=x, axis=1))
    assert picture.summary == "computes 4 elements: scan of input"
    assert picture.sentences[-1] == "output[1,1] = scan of input = 7"
    large = T("float32", (500, 500))
    picture = explain(dml.CumulativeSummation(input_tensor=large, output_tensor=large, axis=1))
    assert picture.sentences[0] == "output[0,0] = scan of input = …"
    g = dml.Graph("reference")
    assert does(dml.cumulative_summation(g.input(X, "x"), 1)) == ["scan x"]


def test_parts_of_a_tensor_are_told_and_become_their_own_passes() -> None:
    picture = explain_desc(joined_and_split())
    assert str(picture) == textwrap.dedent("""\
        5 operators: one by one 8 passes that move 2.406 KiB, compiled 5 passes that move 1.594 KiB: 3 passes and 832 bytes (33%) less

        before  node                          work                                     from → to          moves  becomes
             1  ELEMENT_WISE_IDENTITY scaled  scale x by 2, add 1                      x → scaled     384 bytes  pass 1
             2  FILL_VALUE_CONSTANT seven     fill [1,8] with 7                        → seven         32 bytes  pass 2
             3  JOIN cat                      copy [6,8] from scaled, into cat[:6, :]  scaled → cat   384 bytes  pass 1
             4  JOIN cat                      copy [1,8] from seven, into cat[6:7, :]  seven → cat     64 bytes  pass 2
             5  JOIN cat                      copy [6,8] from x, into cat[7:, :]       x → cat        384 bytes  pass 3
             6  SPLIT node3                   copy [7,8] from cat[:7, :]               cat → output0  448 bytes  pass 4
             7  SPLIT node3                   copy [6,8] from cat[7:, :]               cat → node3.1  384 bytes  pass 5
             8  CUMULATIVE_SUMMATION sum      running sum along axis 1 of node3.1      node3.1 → sum  384 bytes  pass 5
                8 passes                                                                              2.406 KiB

        after  nodes        work                                    from → to          moves
            1  scaled, cat  scale x by 2, add 1, into cat[:6, :]    x → cat        384 bytes
            2  seven, cat   fill [1,8] with 7, into cat[6:7, :]     → cat           32 bytes
            3  cat          copy [6,8] from x, into cat[7:, :]      x → cat        384 bytes
            4  node3        copy [7,8] from cat[:7, :]              cat → output0  448 bytes
            5  node3, sum   running sum along axis 1 of cat[7:, :]  cat → sum      384 bytes
               5 passes                                                            1.594 KiB

        Between the passes: 512 bytes scratch memory.
        Rewritten by copy_propagation: 2 steps became 1; store_forwarding: 4 steps became 2.""")  # fmt: skip # noqa: E501 - as it is printed
    assert picture.tensors["cat"].sizes == (13, 8)


def test_a_node_of_several_passes_or_outputs_is_one_box() -> None:
    picture = explain_desc(joined_and_split())
    svg = picture.svg()
    found = texts(svg)
    assert [found.count(name) for name in ("JOIN", "SPLIT", "FILL_VALUE_CONSTANT")] == [1, 1, 1]
    assert {"passes 1, 2, 3", "passes 4, 5", "[7,8], [6,8]", "FLOAT32 416 bytes"} <= set(found)
    assert len(boxes(svg)) == 1 + 5 + 2
    plan = arrange(picture)
    edges = {(edge.source.name, edge.target.name) for edge in plan.edges}
    assert edges == {
        ("x", "scaled"), ("scaled", "cat"), ("seven", "cat"), ("x", "cat"),
        ("cat", "node3"), ("node3", "sum"), ("node3", "output0"), ("sum", "sum"),
    }  # fmt: skip
    cat = next(box for box in plan.boxes if box.name == "cat")
    assert "832 bytes by itself; passes 1, 2, 3" in cat.says
    root = ElementTree.fromstring(svg)  # noqa: S314 - our own
    assert len(root.findall(f".//{SVG}path")) == len(plan.edges)


def test_an_output_that_is_joined_is_told_by_its_parts() -> None:
    g = dml.Graph("reference")
    x = g.input(T("float32", (3,)), "x")
    picture = explain_desc(g.desc(dml.join([x, x], axis=0).named("y")))
    assert [(one.operator, one.does, str(became)) for one, became in told(picture)] == [
        ("JOIN", "copy [3] from x, into y[:3]", "pass 1"),
        ("JOIN", "copy [3] from x, into y[3:]", "pass 2"),
    ]
    assert len(boxes(picture.svg())) == 3
    assert "JOIN y" in str(picture)


def test_a_joined_output_that_is_held_back_is_told_by_its_parts_too() -> None:
    g = dml.Graph("reference")
    x, rows, others = g.input(X, "x"), g.input(T("uint32", (6,)), "rows"), g.input(T("uint32", (2,)), "others")
    joined = dml.join([x, dml.gather(x, rows, 0)], axis=1).named("y")
    picture = explain_desc(g.desc([joined, dml.gather(x, others, 1)]))
    assert [one.does for one in picture.after] == [
        "gather [6,8] from x by rows, into y held back[..., 8:]",
        "gather [6,2] from x by others, along axis 1",
        "copy [6,8] from x, into y held back[..., :8]",
        "copy [6,8] from y held back[..., 8:], into y[..., 8:]",
        "copy [6,8] from y held back[..., :8], into y[..., :8]",
    ]
    assert [(one.operator, str(became)) for one, became in told(picture)] == [
        ("GATHER", "passes 1, 4"),
        ("JOIN", "passes 3, 5"),
        ("JOIN", "passes 1, 4"),
        ("GATHER", "pass 2"),
    ]


def test_parts_become_their_passes_in_whatever_order_these_come() -> None:
    g = dml.Graph("reference")
    x = g.input(T("float32", (2,)), "x")
    seven = dml.fill_value_constant([2], 7, graph=g).named("seven")
    picture = explain_desc(g.desc(dml.join([x, seven, x], axis=0).named("y")))
    for one, became in told(picture):
        if one.operator == "JOIN":
            (number,) = became.passes
            assert one.does.partition("into")[2] == picture.after[number].does.partition("into")[2]


def test_a_copy_of_a_joined_output_is_a_pass_and_a_box_of_its_own() -> None:
    g = dml.Graph("reference")
    x = g.input(T("float32", (1,)), "x")
    y = dml.join([x, x], axis=0).named("y")
    picture = explain_desc(g.desc([y, y]))
    assert [one.operator for one in picture.before] == ["JOIN", "JOIN", "copy"]
    assert [str(became) for became in picture.became] == ["pass 1", "pass 2", "pass 3"]
    assert len(boxes(picture.svg())) == 1 + 2 + 2


def test_a_graph_of_fills_alone_has_no_inputs_to_draw() -> None:
    g = dml.Graph("reference")
    picture = explain_desc(g.desc(dml.fill_value_constant([2], 7, graph=g).named("seven")))
    assert "→ seven" in str(picture)
    for drawing in (picture.svg(), picture.html()):
        assert "fill [2] with 7" in drawing


def test_a_join_of_very_many_is_told_in_few_words() -> None:
    g = dml.Graph("reference")
    x = g.input(T("float32", (1,)), "x")
    parts = [dml.cumulative_summation(x, 0).named(f"part number {k}") for k in range(40)]
    picture = explain_desc(g.desc(dml.join(parts, axis=0).named("y")))
    box = next(box for box in arrange(picture).boxes if box.name == "y" and box.kind == "node")
    assert box.width < 1_000
    assert len(box.says) < 1_000
    assert box.lines[1].endswith("and 34 more")


def test_recipes_alone_say_what_their_verbs_are() -> None:
    made = recipe(
        {"input0": "input", "input1": "input", "a": "scratch", "b": "scratch", "output0": "output"},
        filled(view("a", (4,)), 1.0, 0.0),
        scaled(view("input0", (4,)), view("b", (4,)), 2.0, 0.0),
        reversal(view("b", (4,)), view("input1", (1,)), view("output0", (4,)), 0),
    )
    line, one = T("float32", (4,)), T("float32", (1,))
    picture = explain_graph(made, made, inputs={"x": line, "n": one}, outputs={"y": line}, arena_bytes=0)
    assert [one.operator for one in picture.before] == ["fill", "scale", "reverse"]
    assert [one.bytes_moved for one in picture.before] == [16, 32, 36]


def test_a_pass_that_computes_is_told_by_its_formula() -> None:
    x, y, z = (e.load(k, F32) for k in range(3))
    row, whole = view("input1", (2, 4), (0, 1)), view("input0", (2, 4))
    value = e.maximum(x * y + z, 0)
    made = recipe(
        {"input0": "input", "input1": "input", "a": "scratch", "output0": "output"},
        Map((whole, row, view("input0", (2, 4), (4, -1), 3)), view("a", (2, 4)), value),
        Map(
            (view("input0", (2, 4), (1, 2)), view("input0", (2, 4)), view("a", (2, 4))),
            view("output0", (2, 4)),
            x - y / z,
        ),
    )
    known = {"x": T("float32", (2, 4)), "a long name/with: signs": T("float32", (4,))}
    picture = explain_graph(made, made, inputs=known, outputs={"y": T("float32", (2, 4))}, arena_bytes=0)
    assert [(one.operator, one.does) for one in picture.before] == [
        (
            "map",
            "compute max(x * 'a long name/with: s…' + x[..., ::-1], 0), 'a long name/with: s…' repeated along axis 0",
        ),
        ("map", "compute x' - x / a, x' seen as [2,4] by strides [1,2]"),
    ]
    for drawing in (picture.text(), picture.svg(), picture.html()):
        assert "compute" in drawing


def test_a_pass_of_very_many_sources_is_told_in_few_words() -> None:
    value = e.load(0, F32)
    for k in range(1, 40):
        value = e.maximum(value + e.load(k, F32), 0)
    made = recipe(
        {**{f"input{k}": "input" for k in range(40)}, "output0": "output"},
        Map(tuple(view(f"input{k}", (4,), (0,)) for k in range(40)), view("output0", (4,)), value),
    )
    known = {f"input number {k} of very many": T("float32", (1,)) for k in range(40)}
    picture = explain_graph(made, made, inputs=known, outputs={"y": T("float32", (4,))}, arena_bytes=0)
    assert len(picture.after[0].does) < 250
    ElementTree.fromstring(picture.svg())  # noqa: S314 - our own


def test_a_graph_of_any_operator_is_drawn_as_one_box_of_its_own_passes() -> None:
    for case in {case.operator: case for case in CASES}.values():
        desc = case.desc(F32)
        node = dml.OperatorNode(desc, "one")
        inputs = [dml.InputEdge(k, 0, slot) for k, slot in enumerate(node.inputs)]
        outputs = [dml.OutputEdge(0, slot, k) for k, slot in enumerate(node.outputs)]
        picture = explain_desc(dml.GraphDesc(len(inputs), len(outputs), [node], inputs, outputs))
        assert {one.operator for one in picture.before} == {desc.type.name}, desc
        assert [box.name for box in arrange(picture).boxes if box.kind == "node"] == ["one"], desc
        assert picture.svg()


def test_outputs_that_are_no_list_are_told() -> None:
    g = dml.Graph("reference")
    x = dml.exp(g.input(X, "x"))
    with pytest.raises(dml.DescriptionError, match=r"Graph: outputs must be one list: g.compile\(\[a, b\]\)"):
        g.compile(x, x)  # type: ignore[arg-type]  # what people try
