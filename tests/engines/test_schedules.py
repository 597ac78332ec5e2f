"""The decision tables of engines, and what they say of compiled operators, graphs and models."""

from __future__ import annotations

import importlib
import itertools
import operator
import subprocess
import sys
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from anydml.engines.common.routes import GENERIC, TAKEN, Route, always, choose
from anydml.engines.cpu import schedules
from anydml.engines.cpu.families import figures
from cases import CASES

if TYPE_CHECKING:
    from pathlib import Path

MOST_MODULES = 30
"""Of the cpu engine, that a first product imports where its kernels are in the cache."""
RNG = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype("f4")


def test_routes_have_names_and_conditions_of_their_own() -> None:
    tables = [*schedules.SCHEDULES.values(), schedules.JOINED]
    routes = list(itertools.chain.from_iterable(tables))
    assert all(isinstance(route, Route) and route.name and route.condition for route in routes)
    assert len({route.name for route in routes}) == len({route.plan for route in routes}) == len(routes)
    assert len({route.when for route in routes}) == len(routes)
    for module, _, name in (route.plan.partition(":") for route in routes):
        assert callable(operator.attrgetter(name)(importlib.import_module(f"anydml.engines.cpu.{module}")))


def test_a_planner_that_declines_leaves_no_way_behind() -> None:
    ways = [Route("never", lambda _: False), Route("any", always)]
    token = TAKEN.set([])
    try:
        assert choose(ways, 1).name == "any"
        assert [one.name for one in TAKEN.get() or ()] == ["any"]
        with mock.patch.object(schedules, "plan_nothing", return_value=None, create=True):
            assert Route("none", always, "schedules:plan_nothing").ask("anydml.engines.cpu", 1) is None
        assert TAKEN.get() == []
    finally:
        TAKEN.reset(token)


PLANNED = """
import sys
import numpy as np
import anydml as dml
dml.gemm(np.ones((64, 64), "f4"), np.ones((64, 64), "f4"))
print(*(name for name in sys.modules if name.startswith("anydml.engines.cpu")))
"""


def test_a_product_imports_what_products_need() -> None:
    for _ in range(2):  # what writes kernels is imported where they are not in the cache yet
        said = subprocess.run([sys.executable, "-c", PLANNED], capture_output=True, text=True, check=True).stdout  # noqa: S603 - this Python
    found = {name.removeprefix("anydml.engines.cpu").lstrip(".") for name in said.split()}
    assert not [name for name in found if name.startswith(("attention", "conv", "move"))]
    assert len(found) <= MOST_MODULES, sorted(found)


def test_a_convolution_says_how_it_is_carried_out() -> None:
    filters = dml.TensorDesc("float32", (32, 16, 3, 3), flags=dml.TensorFlags.OWNED_BY_DML)
    desc = dml.Convolution.infer(
        input_tensor=dml.TensorDesc("float32", (1, 16, 20, 20)), filter_tensor=filters, start_padding=(1, 1),
        end_padding=(1, 1),
    )  # fmt: skip
    (found,) = dml.Device("cpu").compile(desc).schedules
    assert found.nodes == ("CONVOLUTION",)
    if figures().conv.spreads_pixels:
        assert found.route == "direct convolution, padded"
    measured = f": {found.measured}" if found.measured else ""
    assert str(found) == f"CONVOLUTION: {found.route} ({found.when}; {found.values}){measured}"
    assert found.values == "M 400, N 32, K 144 of FLOAT32"
    several = dml.Device("reference").compile(desc).schedules
    assert {(one.route, one.when) for one in several} == {(GENERIC.name, GENERIC.condition)}


def test_each_pass_of_a_graph_has_a_route() -> None:
    g = dml.Graph("cpu")
    x = g.input(numbers(64, 256), "x")
    hidden = dml.relu(dml.gemm(x, g.constant(numbers(256, 96))))
    compiled = g.compile([dml.softmax(hidden), dml.cumulative_summation(hidden, axis=1)])
    found = compiled.schedules
    assert len(found) == len(compiled.recipe.steps)
    routes = {"GEMM, prepacked / prepacked panels", "reduction / along rows", "scan"}
    assert routes <= {one.route for one in found}
    assert str(found).splitlines()[0].startswith("1. ")
    np.testing.assert_allclose(compiled(numbers(64, 256))[0].sum(1), 1, 1e-5)  # they were not run, nor changed


@pytest.mark.parametrize(
    ("m", "n", "k", "is_transposed", "way", "condition"),
    [
        (1, 600, 600, False, "small-M", "side by side"),
        (1, 600, 600, True, "small-M dot products", "along K"),
        (200, 300, 400, False, "packed panels", "whatever is left"),
    ],
)
def test_a_product_says_how_its_right_factor_is_read(
    m: int, n: int, k: int, is_transposed: bool, way: str, condition: str
) -> None:
    b = dml.TensorDesc("float32", (1, 1, n, k) if is_transposed else (1, 1, k, n))
    desc = dml.Gemm.infer(
        a_tensor=dml.TensorDesc("float32", (1, 1, m, k)), b_tensor=b,
        trans_b="transpose" if is_transposed else "none",
    )  # fmt: skip
    (found,) = dml.Device("cpu").compile(desc).schedules
    assert found.route == f"GEMM / {way}"
    assert bool(found.measured) == ("small-M" in way)
    assert str(found).endswith(found.measured or ")")
    assert condition in found.when
    assert found.values == f"M {m}, N {n}, K {k} of FLOAT32"


@pytest.mark.parametrize(
    ("shape", "axes", "way"),
    [((64, 512), (1,), "along rows"), ((512, 64), (0,), "across rows"), ((2, 300_000), (1,), "segmented")],
)
def test_a_reduction_says_which_way_vectors_lie(shape: tuple[int, int], axes: tuple[int], way: str) -> None:
    desc = dml.Reduce.infer(input_tensor=dml.TensorDesc("float32", shape), axes=axes, function="sum")
    (found,) = dml.Device("cpu").compile(desc).schedules
    assert found.route == f"reduction / {way}"


def test_a_loop_and_a_verb_that_no_route_takes() -> None:
    (gru,) = [case for case in CASES if case.name == "GRU of small numbers"]
    found = dml.Device("cpu").compile(gru.desc(dml.DataType.FLOAT32)).schedules
    assert "loop" in {one.route for one in found}
    x = dml.TensorDesc("float32", (2, 900))
    order = dml.TopK1.infer(input_tensor=x, axis=1, k=900, axis_direction="decreasing")
    assert GENERIC.name in {one.route for one in dml.Device("cpu").compile(order).schedules}


def explained(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["explain", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_command_line_prints_the_routes_of_models(tmp_path: Path) -> None:
    status, said = explained("examples/models/slice1.json", "--schedules")
    assert status == 0
    assert said.splitlines()[0] == "1. crop: copy (bits are moved, and none changes; 1 x 1 x 2 x 2 of INT32)"
    status, said = explained("examples/models/slice1.json", "--schedules", "--svg", tmp_path / "x.svg")
    assert status == 2
    assert "--schedules prints text" in said
    status, said = explained("examples/models/slice1.json", "--schedules", "--engine", "reference")
    assert (status, "reference (any verb" in said) == (0, True), said
    status, said = explained("examples/models/slice1.json", "--engine", "reference")
    assert status == 2
    assert "--engine is for --schedules" in said
    assert not (tmp_path / "x.svg").exists()


def test_onnx_models_in_one_piece_and_in_parts(tmp_path: Path) -> None:
    pytest.importorskip("onnx", reason="the models are ONNX's")
    from onnx_models import model, node

    whole = model(
        [node("MatMul", "x w", "h"), node("Relu", "h", "y")], {"x": ("float32", [3, 64])}, "y", {"w": numbers(64, 32)}
    )
    path = tmp_path / "whole.onnx"
    path.write_bytes(whole.SerializeToString())
    status, said = explained(path, "--schedules")
    assert status == 0
    assert "GEMM" in said
    parts = model(
        [node("Relu", "x", "a"), node("Unique", "a", "b"), node("Neg", "b", "y")], {"x": ("float32", [6])}, "y"
    )
    found = pytest.importorskip("anydml.onnx").load(parts).schedules
    assert [one.route for one in found] == ["map", "map"]


def test_a_convolution_takes_the_same_route_by_itself_and_in_a_graph() -> None:
    x, w = numbers(1, 16, 20, 20), numbers(32, 16, 3, 3)
    filters = dml.TensorDesc("float32", w.shape, flags=dml.TensorFlags.OWNED_BY_DML)
    padding: Any = {"start_padding": (1, 1), "end_padding": (1, 1)}
    desc = dml.Convolution.infer(input_tensor=dml.TensorDesc("float32", x.shape), filter_tensor=filters, **padding)
    found, answers = [], []
    for device in ("cpu", "reference"):
        g = dml.Graph(device)
        compiled = g.compile([dml.convolution(g.input(x, "x"), g.constant(w), **padding)])
        found.append(compiled.schedules)
        answers.append(np.asarray(compiled(x)))
    by_itself = dml.Device("cpu").compile(desc).schedules
    assert [(one.route, one.when, one.values) for one in found[0]] == [
        (one.route, one.when, one.values) for one in by_itself
    ]
    assert len(found[1]) > len(found[0]) == 1 or not figures().conv.spreads_pixels
    np.testing.assert_allclose(answers[0].reshape(-1), answers[1].reshape(-1), rtol=1e-4, atol=1e-4)


def test_padding_that_another_reads_too_stays_a_pass() -> None:
    x = numbers(1, 16, 20, 20)
    g = dml.Graph("cpu")
    padded = dml.padding(g.input(x, "x"), start_padding=(0, 0, 1, 1), end_padding=(0, 0, 1, 1))
    made = dml.convolution(padded, g.constant(numbers(32, 16, 3, 3)))
    compiled = g.compile([made, dml.cumulative_summation(padded, axis=3)])
    assert not any(one.route.endswith("padded") for one in compiled.schedules)
    sums = np.cumsum(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), 3)
    np.testing.assert_allclose(np.asarray(compiled(x)[1]), sums, 1e-4, 1e-4)


@pytest.mark.parametrize("flags", [dml.TensorFlags.NONE, dml.TensorFlags.OWNED_BY_DML])
def test_padding_by_a_zero_point_is_no_pass_of_its_own(flags: dml.TensorFlags) -> None:
    """Nor where the zero point is a constant, which an input that is padded ahead would be."""
    one, each = (1, 1, 1, 1), (1, 32, 1, 1)
    tensors = {
        "input_scale_tensor": ("float32", one), "input_zero_point_tensor": ("uint8", one),
        "filter_tensor": ("int8", (32, 1, 3, 3)), "filter_scale_tensor": ("float32", each),
        "output_scale_tensor": ("float32", one), "output_zero_point_tensor": ("uint8", one),
    }  # fmt: skip
    desc = dml.QuantizedLinearConvolution.infer(
        input_tensor=dml.TensorDesc("uint8", (1, 32, 20, 20)),
        **{name: dml.TensorDesc(kind, sizes, flags=flags) for name, (kind, sizes) in tensors.items()},
        start_padding=1,
        end_padding=1,
        group_count=32,
    )
    (found,) = dml.Device("cpu").compile(desc).schedules
    assert found.route == "depthwise or pooling stencil, padded"


def padded_in(dimensions: tuple[int, ...], x: np.ndarray[Any, Any], window: str) -> Any:
    """By the cpu engine and by the reference: padding along some dimensions, and what reads it."""
    start, end = [0] * 4, [0] * 4
    for k in dimensions:
        start[k], end[k] = 1, x.shape[k]
    answers = []
    for device in ("cpu", "reference"):
        g = dml.Graph(device)
        padded = dml.padding(g.input(x, "x"), padding_value=7.0, start_padding=start, end_padding=end)
        if window == "pooling":
            made = dml.max_pooling(padded, window_size=(3, 3))
        else:
            w = np.random.default_rng(1).standard_normal((32, x.shape[1] + start[1] + end[1], 3, 3)).astype("f4")
            made = dml.convolution(padded, g.constant(w))
        answers.append(np.asarray(g.compile([made])(x)))
    return answers


@pytest.mark.parametrize("window", ["pooling", "convolution"])
@pytest.mark.parametrize("shape", [(1, 1, 9, 8), (1, 4, 9, 8), (2, 1, 9, 8), (2, 3, 9, 8)])
def test_padding_along_any_dimension(shape: tuple[int, ...], window: str) -> None:
    """Planes that padding adds are not margins of those that there are."""
    for count in range(1, 5):
        for dimensions in itertools.combinations(range(4), count):
            got, wanted = padded_in(dimensions, numbers(*shape), window)
            np.testing.assert_allclose(got, wanted, 1e-4, 1e-4, err_msg=str(dimensions))


def test_planes_in_reverse_are_no_margins() -> None:
    x = numbers(2, 4, 20, 24)
    answers = []
    for device in ("cpu", "reference"):
        g = dml.Graph(device)
        framed = dml.slice_grad(g.input(x, "x"), (2, 4, 22, 26), (0, 0, 1, 1), (2, 4, 20, 24), (-1, 1, 1, 1))
        answers.append(np.asarray(g.compile([dml.max_pooling(framed, window_size=(3, 3))])(x)))
    np.testing.assert_array_equal(answers[0], answers[1])
