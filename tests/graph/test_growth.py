"""The work of loading grows as the nodes do, for graphs in which a pass over pairs, or over all for each node, shows.

Calls of functions are counted, the same on every machine. Four times the nodes take about four times as many: 4.6 at
most, where a pass over pairs takes 16 times its own. A fused tree has up to 400 operations, and each link of a chain
goes through it: with light nodes that shows as growth up to some hundreds of them, which those graphs are to exceed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from counting import count_calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WIDTH = 8
X = np.linspace(-1, 1, WIDTH, dtype="f4")
KINDS = ("Relu", "Neg", "Abs", "Sigmoid")


class Nodes:
    """An ONNX model in the making: a value a name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        from onnx_models import helper  # here: graphs that are built need no onnx

        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def model(self, outputs: list[str], shape: tuple[int, ...] = (WIDTH,), **options: Any) -> Any:
        from onnx_models import model  # here: graphs that are built need no onnx

        return model(self.nodes, {"x": ("float32", shape)}, " ".join(outputs), self.constants, **options)


def chain(n: int) -> Any:
    made, last = Nodes(), "x"
    for k in range(n):
        last = made.add(KINDS[k % 4], last)
    return made.model([last])


def fan(n: int) -> Any:
    made = Nodes()
    return made.model([made.add("Add", "x", made.constant(np.float32(k))) for k in range(n)])


def alike(n: int) -> Any:
    """The same node over and over."""
    made = Nodes()
    return made.model([made.add("Sigmoid", "x") for k in range(n)])


def fan_sum(n: int) -> Any:
    made = Nodes()
    return made.model([made.add("Sum", *(made.add("Mul", "x", made.constant(np.float32(k))) for k in range(n)))])


def fan_concat(n: int) -> Any:
    made = Nodes()
    parts = [made.add("Mul", "x", made.constant(np.float32(k))) for k in range(n)]
    return made.model([made.add("Concat", *parts, axis=0)])


def tree(n: int) -> Any:
    made = Nodes()
    level = [made.add("Mul", "x", made.constant(np.float32(k))) for k in range(n // 2)]
    while len(level) > 1:
        level = [
            made.add("Add", *level[k : k + 2]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)
        ]
    return made.model(level)


def grid(n: int) -> Any:
    made, side = Nodes(), math.isqrt(n)
    above = ["x"] * side
    for _ in range(side):
        left, row = "x", []
        for k in range(side):
            left = made.add("Add", left, above[k])
            row.append(left)
        above = row
    return made.model([above[-1]])


def ladder(n: int) -> Any:
    made, a, b = Nodes(), "x", "x"
    for k in range(n):
        a, b = b, made.add(("Add", "Max", "Sub")[k % 3], a, b)
    return made.model([b])


def branches(n: int) -> Any:
    """Ifs in Ifs, whose condition is known at the run, each with nodes of values outside."""
    from onnx_models import helper, info, node  # here: see above

    depth = 24
    each = n // depth

    def scope(level: int) -> Any:
        last, nodes = f"s{level}_0" if level else "x", []
        for k in range(each):
            name = f"w{level}_{k}"
            nodes.append(node("Add" if k % 2 else "Mul", f"{last} x", name))
            last = name
        if level + 1 < depth:
            inner, own = scope(level + 1), f"s{level + 1}_0"
            nodes.append(node("Identity", last, own))
            other = helper.make_graph([node("Neg", own, f"e{level}")], "e", [], [info(f"e{level}", "f4", [WIDTH])])
            then = helper.make_graph(inner[0], "t", [], [info(inner[1], "f4", [WIDTH])])
            nodes.append(node("If", "c", f"i{level}", then_branch=then, else_branch=other))
            last = f"i{level}"
        return nodes, last

    nodes, last = scope(0)
    graph = helper.make_graph(
        nodes, "g", [info("x", "f4", [WIDTH]), info("c", "bool", [])], [info(last, "f4", [WIDTH])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def conditionals(n: int) -> Any:
    """One If after another, of values outside."""
    from onnx_models import helper, info, node  # here: see above

    nodes, last = [], "x"
    for k in range(n // 3):
        then, other = (
            helper.make_graph([node(kind, last, f"{kind}{k}")], "b", [], [info(f"{kind}{k}", "f4", [WIDTH])])
            for kind in ("Neg", "Abs")
        )
        nodes.append(node("If", "c", f"i{k}", then_branch=then, else_branch=other))
        last = f"i{k}"
    graph = helper.make_graph(
        nodes, "g", [info("x", "f4", [WIDTH]), info("c", "bool", [])], [info(last, "f4", [WIDTH])]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def functions(n: int) -> Any:
    """Functions that call one another, sixteen deep, and are called again and again."""
    from onnx_models import helper, info, node  # here: see above

    depth = 16
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    made = []
    for k in range(depth):
        inner = node("Relu", "a", "m") if not k else helper.make_node(f"F{k - 1}", ["a"], ["m"], domain="own")
        body = [inner, node("Neg", "m", "b")]
        made.append(helper.make_function("own", f"F{k}", ["a"], ["b"], body, opset))
    nodes, last = [], "x"
    for k in range(n // (depth + 1)):
        nodes.append(helper.make_node(f"F{depth - 1}", [last], [f"f{k}"], domain="own"))
        last = f"f{k}"
    graph = helper.make_graph(nodes, "g", [info("x", "f4", [WIDTH])], [info(last, "f4", [WIDTH])])
    return helper.make_model(graph, opset_imports=opset, ir_version=8, functions=made)


def initializers(n: int) -> Any:
    """A chain, each node with a tensor of its own."""
    made, last = Nodes(), "x"
    for k in range(n):
        last = made.add("Add", last, made.constant(np.full(WIDTH, k, "f4")))
    return made.model([last])


def constants(n: int) -> Any:
    """As many Constant nodes, and what is computed of them alone."""
    from onnx_models import onnx  # here: see above

    made, last = Nodes(), "x"
    for k in range(n // 3):
        one = made.add("Constant", value=onnx.numpy_helper.from_array(np.full(WIDTH, k % 5, "f4")))
        last = made.add("Add", last, made.add("Sqrt", one))
    return made.model([last])


def reduces(n: int) -> Any:
    """Reduces of one input, each of another power."""
    made = Nodes()
    kinds = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1")
    return made.model(
        [made.add(kinds[k % 4], made.add("Mul", "x", made.constant(np.float32(k)))) for k in range(n // 2)]
    )


def slices(n: int) -> Any:
    """Pieces of one tensor, put together again."""
    made = Nodes()
    many = n - 1
    tall = made.add("Relu", "x")
    parts = [made.add("Slice", tall, *(made.constant(np.array([v])) for v in (k, k + 1, 0))) for k in range(many)]
    return made.model([made.add("Concat", *reversed(parts), axis=0)], (many,))


def split(n: int) -> Any:
    made = Nodes()
    many = n // 2
    parts = made.add("Split", made.add("Relu", "x"), outputs=many, axis=0)
    return made.model([made.add(KINDS[k % 4], part) for k, part in enumerate(parts)], (many,))


def concats(n: int) -> Any:
    """A tensor that grows by another at each node, as keys do."""
    made, last = Nodes(), "x"
    for k in range(n // 2):
        last = made.add("Concat", last, made.add(KINDS[k % 4], "x"), axis=0)
    return made.model([last], (1,))


def residual(n: int) -> Any:
    """A sum that many branches are added to."""
    made, last = Nodes(), "x"
    for _k in range(n // 3):
        branch = made.add("MatMul", made.add("Sigmoid", last), "w")
        last = made.add("Add", last, branch)
    made.constants["w"] = np.eye(WIDTH, dtype="f4")
    return made.model([last], (2, WIDTH))


def heads(n: int) -> Any:
    """Products of one tensor, each with weights of its own."""
    made = Nodes()
    return made.model(
        [made.add("Relu", made.add("MatMul", "x", made.constant(np.full((WIDTH, 3), k, "f4")))) for k in range(n // 2)],
        (2, WIDTH),
    )


def shapes(n: int) -> Any:
    """Sizes that are computed, as exporters write them."""
    made, last = Nodes(), "x"
    for k in range(n // 4):
        shape = made.add("Shape", last)
        first = made.add("Gather", shape, made.constant(np.array([0])), axis=0)
        last = made.add("Relu", made.add("Reshape", last, made.add("Concat", first, axis=0) if k % 2 else first))
    return made.model([last])


def transposes(n: int) -> Any:
    made, last = Nodes(), "x"
    for k in range(n // 2):
        last = made.add("Transpose", made.add(KINDS[k % 4], last), perm=[1, 0])
    return made.model([last], (2, 3))


def windows(n: int) -> Any:
    made, last = Nodes(), "x"
    w = made.constant(np.ones((2, 2, 3, 3), "f4"))
    for _k in range(n // 2):
        last = made.add("Relu", made.add("Conv", last, w, pads=[1, 1, 1, 1]))
    return made.model([last], (1, 2, 4, 4))


ONNX: dict[str, Callable[[int], Any]] = {
    made.__name__: made
    for made in (
        chain, fan, alike, fan_sum, fan_concat, tree, grid, ladder, branches, conditionals, functions, initializers,
        constants, reduces, slices, split, concats, residual, heads, shapes, transposes, windows,
    )
}  # fmt: skip


# The graph builder's


def _chain(_: Any, x: Any, n: int) -> list[Any]:
    for k in range(n):
        x = (dml.relu, dml.negate, dml.abs, dml.sigmoid)[k % 4](x)
    return [x]


def _fan(_: Any, x: Any, n: int) -> list[Any]:
    return [x * float(k) for k in range(n)]


def _tree(_: Any, x: Any, n: int) -> list[Any]:
    level = [x * float(k) for k in range(n // 2)]
    while len(level) > 1:
        level = [level[k] + level[k + 1] if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level


def _join(_: Any, x: Any, n: int) -> list[Any]:
    return [dml.join([x * float(k) for k in range(n)], 0)]


def _grid(_: Any, x: Any, n: int) -> list[Any]:
    side = math.isqrt(n)
    above = [x] * side
    for _row in range(side):
        left, row = x, []
        for k in range(side):
            left = left + above[k]
            row.append(left)
        above = row
    return [above[-1]]


def _ladder(_: Any, x: Any, n: int) -> list[Any]:
    a, b = x, x
    for k in range(n):
        a, b = b, (a + b if k % 2 else a - b)
    return [b]


def _constants(graph: Any, x: Any, n: int) -> list[Any]:
    for k in range(n // 2):
        x = x + graph.constant(np.full(WIDTH, k, "f4"))
    return [x]


def _reduces(_: Any, x: Any, n: int) -> list[Any]:
    return [dml.reduce(x * float(k), "sum", [0]) for k in range(n // 2)]


BUILT: dict[str, Callable[..., list[Any]]] = {
    made.__name__[1:]: made for made in (_chain, _fan, _tree, _join, _grid, _ladder, _constants, _reduces)
}


MOST = 4.6


def grows_evenly(make: Callable[[int], Callable[[], object]], count: int) -> None:
    """Four times the nodes take about four times the calls; what is compiled or imported once is so before."""
    make(count // 5)()
    few, many = (count_calls(make(n)) for n in (count, 4 * count))
    assert many < MOST * few, (few, many, many / few)


def sized(quick: dict[str, int], long: dict[str, int]) -> list[Any]:
    """Names and their least nodes; some are for everybody."""
    several = [pytest.param(name, n, marks=pytest.mark.long) for name, n in long.items()]
    return [pytest.param(name, n) for name, n in quick.items()] + several


ONNX_LONG = {
    **dict.fromkeys(("fan", "fan_concat", "grid"), 250),
    **dict.fromkeys(("branches", "conditionals", "shapes"), 1000),  # fewer are compiled in one piece, or known at once
    **dict.fromkeys(("tree", "alike", "fan_sum", "initializers", "constants", "heads", "residual", "windows"), 100),
    **dict.fromkeys(("chain", "transposes"), 100),
}
BUILT_LONG = {"fan": 1000, "grid": 100, "constants": 100, "reduces": 100, "chain": 100}
CHECK_LONG = {"fan": 250, "ladder": 250, "branches": 250, "functions": 250, "slices": 100, "concats": 100}


@pytest.mark.parametrize(
    ("name", "count"), sized({"fan": 60, "reduces": 60, "slices": 60, "split": 60, "concats": 60}, ONNX_LONG)
)
def test_an_onnx_model_is_loaded_and_run_in_line_with_its_nodes(name: str, count: int) -> None:
    pytest.importorskip("onnx", reason="the models are ONNX's")
    load = pytest.importorskip("anydml.onnx").load

    def make(n: int) -> Callable[[], object]:
        proto = ONNX[name](n)
        shapes = {one.name: [d.dim_value for d in one.type.tensor_type.shape.dim] for one in proto.graph.input}
        feeds = {key: np.ones(shape, "bool" if key == "c" else "f4") for key, shape in shapes.items()}
        return lambda: load(proto).run(feeds)

    grows_evenly(make, count)


@pytest.mark.parametrize(("name", "count"), sized({"fan": 60, "join": 60}, BUILT_LONG))
def test_a_graph_is_built_and_run_in_line_with_its_nodes(name: str, count: int) -> None:
    def make(n: int) -> Callable[[], object]:
        def work() -> object:
            graph = dml.Graph("cpu")
            outputs = BUILT[name](graph, graph.input(dml.TensorDesc("float32", (WIDTH,)), "x"), n)
            return graph.compile(outputs)(X)

        return work

    grows_evenly(make, count)


@pytest.mark.parametrize(("name", "count"), sized({"fan": 100}, CHECK_LONG))
def test_a_model_is_checked_in_line_with_its_nodes(name: str, count: int, tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the models are ONNX's")

    def make(n: int) -> Callable[[], object]:
        path = tmp_path / f"{n}.onnx"
        path.write_bytes(ONNX[name](n).SerializeToString())

        def work() -> None:
            result = CliRunner().invoke(app, ["check", str(path)])
            assert result.exit_code == 0, result.output

        return work

    grows_evenly(make, count)
