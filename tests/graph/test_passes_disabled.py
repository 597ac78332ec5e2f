"""Graph passes by name: each acts on a graph of its own, says so, can be left out, and leaves the answer as it was."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same
from anydml.engines.common.engine import NhwcLayout
from anydml.graph.pass_names import OF_MODELS, OLD_NAMES, read_disabled
from modelling import program
from onnx_models import model, node, slice_model
from spellings import SPELLINGS, spell

from anydml.onnx import compare, load  # isort: skip - after the models, which leave this out where onnx is missing

if TYPE_CHECKING:
    from collections.abc import Callable

    Case = Callable[[dml.Graph, Any], Any]

pytestmark = pytest.mark.check_bounds

CHANGES_ROUNDING = {"attention", "nhwc_layout", "split_k", "matrix_layout", "scale_folding", "weight_only"}
"""Those whose docstrings say that they round otherwise, or sum in another order."""
RNG = np.random.default_rng(7)


def numbers(*sizes: int) -> Any:
    return RNG.standard_normal(sizes).astype(np.float32)


def reversed_(x: Any) -> Any:
    sizes = x.sizes
    return dml.slice1(
        x, input_window_offsets=(0,) * len(sizes), input_window_sizes=sizes, input_window_strides=(-1,) * len(sizes)
    )


def turned(x: Any) -> Any:
    *outer, rows, columns = x.sizes
    return x.reinterpret((*outer, columns, rows), (2 * rows * columns, rows * columns, 1, columns))


def normalised(g: dml.Graph, x: Any) -> Any:
    mean, variance, scale, bias = (g.constant(abs(numbers(1, 2, 1, 1))) for _ in range(4))
    return dml.batch_normalization(x, mean, variance, scale, bias, epsilon=0.1)


def rotated(g: dml.Graph, x: Any) -> Any:
    low, high = dml.split(x, output_axis_sizes=(16, 16), axis=3)
    return dml.join([dml.negate(high), low], axis=3) * g.constant(numbers(1, 2, 48, 32))


def softened(x: Any) -> Any:
    return dml.softmax1(x, axes=[3])


def spelled(g: dml.Graph, x: Any) -> Any:
    power = dml.exp(x - dml.reduce(x, function="max", axes=[3]))
    return power / dml.reduce(power, function="sum", axes=[3])


def attention(g: dml.Graph, x: Any) -> Any:
    return dml.gemm(softened(dml.gemm(x, x, trans_b="transpose") * 0.25), x)


def convolved(g: dml.Graph, x: Any) -> Any:
    """Pictures of 16 channels between two convolutions, a pool and a join, which is half of another's input."""
    first = dml.convolution(x, g.constant(numbers(16, 2, 3, 3)), start_padding=(1, 1), end_padding=(1, 1))
    pooled = dml.max_pooling(dml.join([first, dml.sin(first)], axis=1), window_size=(2, 2), strides=(2, 2))
    return dml.convolution(pooled, g.constant(numbers(4, 32, 3, 3) / 64), start_padding=(1, 1), end_padding=(1, 1))


def long(g: dml.Graph, x: Any) -> Any:
    """A few sums of many terms: of a product, of windows that reach outside, and what is made of them."""
    product = dml.gemm(x.reinterpret((1, 1, 24, 128)), g.constant(numbers(1, 1, 128, 48) / 16))
    pictures = x.reinterpret((1, 64, 8, 6))
    windows = dml.convolution(
        pictures, g.constant(numbers(24, 64, 3, 3) / 32), start_padding=(1, 1), end_padding=(1, 1)
    )
    return windows + (dml.tanh(product) * product).reinterpret((1, 24, 8, 6))


def headed(g: dml.Graph, x: Any) -> Any:
    """Attention of two heads, whose queries are a product: what is made of them would lie head by head."""
    rows = dml.gemm(x.reinterpret((1, 1, 48, 64)), g.constant(numbers(1, 1, 64, 64) / 8))
    heads = dml.sin(rows.reinterpret((1, 2, 48, 32), (48 * 64, 32, 64, 1)))
    return dml.gemm(softened(dml.gemm(heads, x, trans_b="transpose") * 0.25), x)


def quantised(g: dml.Graph, x: Any) -> Any:
    rows = dml.slice(x, offsets=(0,) * 4, sizes=(1, 1, 1, 32), strides=(1,) * 4)
    weights = g.constant(RNG.integers(-128, 128, (1, 1, 48, 32)).astype(np.int8))
    scale = g.constant(np.full((1, 1, 48, 1), 0.01, np.float32))
    return dml.gemm(
        rows, dml.dequantize_linear(weights, scale, g.constant(np.zeros((1, 1, 48, 1), np.int8))), trans_b=True
    )


def to_bytes(g: dml.Graph, x: Any, scale: float = 0.02) -> Any:
    """Numbers as bytes, with a scale and a zero point that are constants."""
    sizes = (1,) * len(x.desc.sizes)
    point = g.constant(np.full(sizes, 120, np.uint8))
    return dml.quantize_linear(x, g.constant(np.full(sizes, scale, np.float32)), point)


def summed(g: dml.Graph, x: Any) -> Any:
    """Exact sums of products of bytes, less a zero point, with constants."""
    weights = g.constant(RNG.integers(-128, 128, (1, 2, 32, 40)).astype(np.int8))
    point = g.constant(np.full((1,) * 4, 120, np.uint8))
    return dml.matrix_multiply_integer(to_bytes(g, x), weights, a_zero_point=point)


def activated(g: dml.Graph, x: Any) -> Any:
    """An activation of bytes, as quantised networks have it."""
    scale, point = (g.constant(np.full((1,) * 4, one)) for one in (np.float32(0.02), np.uint8(120)))
    number = dml.dequantize_linear(to_bytes(g, x), scale, point)
    return to_bytes(g, number * dml.sigmoid(number), 0.015)


CASES: dict[str, Case] = {
    "store_forwarding": lambda g, x: reversed_(dml.cumulative_summation(x, axis=3)),
    "attention": attention,
    "nhwc_layout": convolved,
    "constant_folding": lambda g, x: x + dml.sin(g.constant(numbers(1, 2, 48, 32))),
    "dce": lambda g, x: dml.sin(dml.split(dml.cumulative_summation(x, axis=3), output_axis_sizes=(1, 1), axis=1)[0]),
    "scan_direction": lambda g, x: reversed_(dml.cumulative_summation(reversed_(x), axis=3)),
    "split_k": long,
    "copy_propagation": lambda g, x: dml.cumulative_summation(reversed_(x), axis=3),
    "fusion": lambda g, x: dml.sin(x) * x,
    "hoisting": normalised,
    "index_folding": lambda g, x: dml.gather(x, g.constant(np.array([5, 4, 3], np.uint32)), axis=3),
    "prepacking": lambda g, x: dml.gemm(x, g.constant(numbers(1, 2, 32, 64))),
    "matrix_layout": headed,
    "narrowing": lambda g, x: dml.slice(
        dml.cumulative_summation(x, axis=3), offsets=(0, 0, 1, 0), sizes=(1, 1, 5, 7), strides=(1,) * 4
    ),
    "layout_order": lambda g, x: dml.gemm(dml.sin(turned(x)), g.constant(numbers(1, 2, 48, 64))),
    "padding": lambda g, x: dml.convolution(
        x, g.constant(numbers(4, 2, 3, 3)), start_padding=(1, 1), end_padding=(1, 1)
    ),
    "part_fusion": rotated,
    "row_fusion": spelled,
    "scale_folding": lambda g, x: to_bytes(
        g, dml.cast(summed(g, x), "float32") * g.constant(numbers(1, 1, 1, 40) / 999)
    ),
    "cse": lambda g, x: dml.join([dml.sin(x), dml.sin(x)], axis=1),
    "lookup_tables": activated,
    "horizontal_fusion": lambda g, x: [dml.sin(x), dml.cos(x)],
    "weight_only": quantised,
    "zero_points": summed,
}


def test_every_one_has_a_case() -> None:
    assert {*CASES, *OF_MODELS} == {*dml.graph_passes()}


@pytest.mark.parametrize("name", CASES)
def test_each_acts_and_can_be_left_out(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    g = dml.Graph("reference" if name == "padding" else "cpu")
    traits = replace(
        g.device.engine.traits,
        masks_padding=name in ("padding", "nhwc_layout", "split_k"),
        chooses_matrix_layouts=name == "matrix_layout",
        nhwc={dml.DataType.FLOAT32: NhwcLayout()} if name == "nhwc_layout" else {},
    )
    monkeypatch.setattr(g.device.engine, "traits", traits)
    if name == "split_k":
        pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
        from anydml.engines.cuda.gemm import gemm

        monkeypatch.setattr(gemm, "LEAST_TERMS", 16)
        monkeypatch.setattr(gemm, "LAUNCH_TIME", 0)
        monkeypatch.setattr(g.device.engine, "split_k", lambda step: gemm.split_k(step, 132))
    given = numbers(1, 2, 48, 32)
    made = CASES[name](g, g.input(given, "x"))
    whole, less = (g.compile(made, disable_passes=names) for names in ((), [name]))
    assert name in whole.explain().did, whole.explain()
    assert name not in less.explain().did
    assert f"{name}: {whole.explain().did[name]}" in str(whole.explain())
    for got, want in zip(*(np.atleast_1d(each(given)) for each in (whole, less)), strict=True):
        if name in CHANGES_ROUNDING:
            np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)
        else:
            assert_same(got, want, name)


def test_a_model_without_any_gives_the_same_and_says_nothing(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(slice_model().SerializeToString())
    given = {"x": numbers(4, 4)}
    model = load(path, disable_passes=dml.graph_passes())
    assert model.explain().did == {}
    assert "Rewritten" not in model.explain().text()
    assert_same(model.run(given)["y"], load(path).run(given)["y"], "slice")
    told = program("explain", path, "--disable-passes", "copy_propagation")
    assert told.exit_code == 0
    assert "forward:" not in told.output
    assert program("run", path, "--disable-passes", "store_forwarding", "--disable-passes", "fusion").exit_code == 0


@pytest.mark.parametrize("wrong", ["attends", ["fusion", "atend"], 3, [3]])
def test_an_unknown_name_is_refused_with_those_that_there_are(wrong: Any) -> None:
    g = dml.Graph("reference")
    with pytest.raises(dml.DescriptionError, match=r"there are attention, constant_folding, .*, zero_points") as raised:
        g.compile(dml.sin(g.input(numbers(2))), disable_passes=wrong)
    assert raised.value.field == "disable_passes"
    with pytest.raises(dml.DescriptionError, match="load: disable_passes must name graph passes"):
        load(slice_model(), disable_passes=wrong)


def test_the_command_line_lists_the_names(tmp_path: Any) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(slice_model().SerializeToString())
    for command in ("run", "compare", "explain"):
        refused = program(command, path, "--disable-passes", "nothing")
        assert refused.exit_code == 2
        assert "there are attention, constant_folding," in refused.output
    helped = program("run", "--help").output
    assert all(name in helped for name in dml.graph_passes())


@pytest.mark.parametrize("name", SPELLINGS)
def test_what_exporters_spell_out_becomes_few_passes(name: str) -> None:
    given, feeds, passes = spell(name)
    model, plain = load(given, device="cpu"), load(given, device="reference", disable_passes=dml.graph_passes())
    assert len(model.explain().after) == passes, model.explain()
    assert len(plain.explain().after) > passes
    (got,), (want,) = (list(one.run(feeds).values()) for one in (model, plain))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_channels_stay_side_by_side_through_a_resize(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several pictures: their number and their channels are dimensions of their own in what it becomes."""
    engine = dml.Device("cpu").engine
    nhwc = {dml.DataType.FLOAT32: NhwcLayout()}
    traits = replace(engine.traits, chooses_matrix_layouts=True, masks_padding=True, nhwc=nhwc)
    monkeypatch.setattr(engine, "traits", traits)
    nodes = [
        node("Conv", "x first", "a"),
        node("Resize", "a - scales", "b", mode="linear"),
        node("Conv", "b then", "y", pads=[1] * 4),
    ]
    constants = {
        "first": numbers(16, 2, 3, 3),
        "then": numbers(4, 16, 3, 3) / 16,
        "scales": np.array([1, 1, 2, 2], "f4"),
    }
    given = numbers(3, 2, 10, 10)
    made = model(nodes, {"x": ("float32", given.shape)}, constants=constants, opset=19)
    whole, less = load(made), load(made, disable_passes=["nhwc_layout"])
    np.testing.assert_allclose(whole.run({"x": given})["y"], less.run({"x": given})["y"], rtol=2e-6, atol=2e-5)
    assert "into b[..., 1:14:2, :1, :]" in str(whole.explain())
    assert "into b[..., 1:14:2, :1, :]" not in str(less.explain())


def test_maps_between_transposes_lie_in_the_order_of_what_each_reads(engine: str) -> None:
    """The second reads the first, which lies in another order by then."""
    x, orders = numbers(2, 3, 4), list(itertools.permutations(range(3)))
    for first, second in itertools.product(orders, orders) if engine == "reference" else [(orders[1], orders[1])]:
        nodes = [
            *(node("Transpose", "x", "t", perm=first), node("Neg", "t", "a")),
            *(node("Transpose", "a", "b", perm=second), node("Neg", "b", "c"), node("Neg", "c", "y")),
        ]
        loaded = load(model(nodes, {"x": ("float32", x.shape)}), device=engine)
        np.testing.assert_array_equal(loaded(x), -x.transpose(first).transpose(second), str((first, second)))


def test_the_argument_of_before_is_taken_with_a_warning(tmp_path: Any) -> None:
    g = dml.Graph("reference")
    y = dml.sin(dml.sin(g.input(numbers(4), "x")))
    device, desc = g.device, g.desc(y)
    path = tmp_path / "model.onnx"
    path.write_bytes(slice_model().SerializeToString())
    given = {"x": numbers(4, 4)}
    doors: list[Callable[..., Any]] = [
        lambda **options: g.compile(y, **options),
        lambda **options: device.compile_graph(desc, **options),
        lambda **options: load(path, **options),
        lambda **options: compare(path, given, against="reference", **options),
    ]
    for door in doors:
        with pytest.warns(FutureWarning, match="without= is called disable_passes= now") as told:
            door(without=["fusion"])
        assert Path(told[0].filename).name == Path(__file__).name
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            door(disable_passes=["fusion"])
    with pytest.warns(FutureWarning):
        assert "fusion" not in g.compile(y, without="fusion").explain().did
    former = "rewritings"
    with pytest.warns(FutureWarning, match="graph_passes"):
        assert getattr(dml, former)() == dml.graph_passes()
    found = program("run", path, "--without", "fusion")
    assert found.exit_code == 0
    assert "--without is called --disable-passes now" in found.stderr


def test_a_name_that_was_changed_is_taken_with_a_warning() -> None:
    with pytest.warns(FutureWarning, match="'fuse' is called 'fusion' now"):
        assert read_disabled(["fuse", "dce"], "Graph") == {"fusion", "dce"}
    assert {*OLD_NAMES.values()} == {*dml.graph_passes()}
    assert OLD_NAMES.keys().isdisjoint(dml.graph_passes())
