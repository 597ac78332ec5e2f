"""Constants that an engine has laid out ahead: the same bits, held once, in graphs and in operators that own them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.memory import numpy_address, reserve_host
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.families import columns_of_panel, figures
from anydml.engines.cpu.features import multiplies_bytes
from anydml.engines.cpu.quant.weight_only import lay_out_words
from anydml.ir.expressions import fold, load
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from anydml.runtime.prepacked import size_of
from contractions import draw, product

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.sampled(4)

Array = np.ndarray[Any, Any]
CPU = dml.Device("cpu")
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


def run_ahead(primitive: Reduce, arrays: dict[str, Array]) -> bool:
    """Run with every source a constant; whether something was laid out, and read from there alone."""
    engine = CpuEngine()
    places = {name: int(array.__array_interface__["data"][0]) for name, array in arrays.items()}
    program = engine.compile(primitive, frozenset(places) - {"target"})
    held, wanted = [], program.layouts
    plain = {layout.sources[0].tensor for layout in wanted.values()}
    ahead = {name: place for name, place in places.items() if name not in plain}
    for name, layout in wanted.items():
        held.append(reserve_host(size_of(layout.target)))
        engine.compile(layout).bind({**places, name: held[-1].address})()
        ahead[name] = held[-1].address
    program.bind(ahead)()
    return bool(held)


@pytest.mark.parametrize("seed", range(2))
def test_any_contraction_of_constants_has_the_same_bits(seed: int) -> None:
    rng, ahead = np.random.default_rng(seed), 0
    for _ in range(40):
        drawn = draw(rng)
        before = drawn.target.copy()
        places = {name: int(array.__array_interface__["data"][0]) for name, array in drawn.arrays.items()}
        CpuEngine().compile(drawn.primitive).bind(places)()
        wanted = drawn.target.copy()
        drawn.target[...] = before
        ahead += run_ahead(drawn.primitive, drawn.arrays)
        assert drawn.target.tobytes() == wanted.tobytes(), drawn.primitive
    assert ahead > 6


@pytest.mark.parametrize(
    ("m", "n", "k"), [*itertools.product((1, 3, 8), (96, 1000), (300, 9000)), (9, 770, 700), (200, 516, 1100)]
)
def test_what_is_laid_out_ahead_changes_no_bit_for_any_number_of_threads(m: int, n: int, k: int) -> None:
    left, right = RNG.standard_normal((m, k), np.float32), RNG.standard_normal((k, n), np.float32)
    right = right.astype(np.float16).astype(np.float32)
    found = set()
    for turned, threads, kind in itertools.product((False, True), (1, 2, 5), (np.float32, np.float16)):
        dml.set_num_threads(threads)
        held = (np.ascontiguousarray(right.T).T if turned else right).astype(kind)
        arrays = {"left": left, "right": held, "target": np.empty((m, n), np.float32)}
        assert run_ahead(product(left, held, arrays["target"]), arrays)
        found.add(arrays["target"].tobytes())
    CpuEngine().compile(product(left, right, arrays["target"])).bind(
        {name: int(a.__array_interface__["data"][0]) for name, a in {**arrays, "right": right}.items()}
    )()
    assert found == {arrays["target"].tobytes()}


@pytest.mark.parametrize("kinds", [*itertools.product((np.uint8, np.int8), repeat=2)])
def test_bytes_that_are_laid_out_ahead_give_exact_products(kinds: tuple[type[Any], type[Any]]) -> None:
    for m, n, k in ((1, 999, 4099), (8, 96, 40_001), (21, 770, 1_101), (70, 516, 2_500)):
        left, right = (
            RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, size).astype(kind)
            for kind, size in zip(kinds, ((m, k), (k, n)), strict=True)
        )
        zeros = RNG.integers(0, 128, m).astype(kinds[0]), RNG.integers(0, 128, n).astype(kinds[1])
        views, numbers = [], []
        for number, (array, strides) in enumerate(
            ((left, (k, 0, 1)), (right, (0, 1, n)), (zeros[0], (1, 0, 0)), (zeros[1], (0, 1, 0)))
        ):
            views.append(View(f"source{number}", dml.DataType(array.dtype), (m, n, k), strides))
            numbers.append(load(number, views[-1].data_type).to(dml.DataType.INT32))
        a, b, za, zb = numbers
        arrays = {f"source{i}": array for i, array in enumerate((left, right, *zeros))}
        arrays["target"] = np.empty((m, n), np.int32)
        target = View("target", dml.DataType.INT32, (m, n, 1), (n, 1, 0))
        is_ahead = run_ahead(Reduce(tuple(views), target, fold("sum", (a - za) * (b - zb)), 1), arrays)
        assert is_ahead == multiplies_bytes(figures().gemm.lanes)
        wide = [x.astype(np.float64) for x in (left, right, *zeros)]
        assert (arrays["target"] == (wide[0] - wide[2][:, None]) @ (wide[1] - wide[3])).all()


def multiplied(weights: Array, rows: int, *, owned: bool = False) -> tuple[Any, Any]:
    """x · w: a graph with a constant, or with an input that it owns."""
    g = dml.Graph(CPU)
    x = g.input(dml.TensorDesc("float32", (rows, weights.shape[0])), "x")
    desc = dml.TensorDesc.of(weights)
    if owned:
        desc = dml.TensorDesc(desc.data_type, desc.sizes, flags=dml.TensorFlags.OWNED_BY_DML)
    w = g.input(desc, "w") if owned else g.constant(weights)
    return g, dml.gemm(x, w)


def test_a_graph_keeps_what_is_laid_out_and_not_the_constant() -> None:
    weights, x = RNG.standard_normal((64, 120), np.float32), RNG.standard_normal((20, 64), np.float32)
    g, y = multiplied(weights, 20)
    compiled = g.compile(y)
    assert list(compiled._constants.places) == ["constant0 laid out"]
    assert len(compiled._constants._memory) == 1
    assert compiled(x).tobytes() == dml.gemm(x, weights).tobytes()
    told = str(compiled.explain())
    assert "laid out" in told.split("\nonce")[1]
    assert "computed once" not in told


def test_an_operator_owns_what_is_laid_out() -> None:
    weights, x = RNG.standard_normal((64, 125), np.float32), RNG.standard_normal((20, 64), np.float32)
    wanted = dml.gemm(x, weights)
    size = 64 * 132 * 4  # eleven panels of twelve columns on an Arm, and four of 32 on an x86 of 512 bits
    desc = dml.TensorDesc("float32", weights.shape, flags=dml.TensorFlags.OWNED_BY_DML)
    operator = CPU.compile(dml.Gemm.infer(a_tensor=dml.TensorDesc.of(x), b_tensor=desc))
    assert weights.nbytes < operator.binding_properties.persistent_resource_size <= size + 256
    held = weights.copy()
    operator.initialize(held)
    held[...] = np.nan
    assert operator(x).tobytes() == wanted.tobytes()
    g, y = multiplied(weights, 20, owned=True)
    graph = g.compile(y)
    assert graph.binding_properties.persistent_resource_size <= size + 256
    held = weights.copy()
    graph.initialize(held)
    held[...] = np.nan
    assert graph(x).tobytes() == wanted.tobytes()


def test_gaps_of_an_owned_tensor_are_left_out() -> None:
    weights, x = RNG.standard_normal((64, 120), np.float32), RNG.standard_normal((20, 64), np.float32)
    desc = dml.TensorDesc("float32", weights.shape, strides=(130, 1), flags=dml.TensorFlags.OWNED_BY_DML)
    operator = CPU.compile(dml.Gemm.infer(a_tensor=dml.TensorDesc.of(x), b_tensor=desc))
    wide = np.full((64, 130), np.nan, np.float32)
    wide[:, :120] = weights
    operator.initialize(wide[:, :120])
    assert operator(x).tobytes() == dml.gemm(x, weights).tobytes()


@pytest.mark.parametrize("columns", [32, 40])
@pytest.mark.parametrize("start", [0, 1, 2, 4, 6])
def test_words_of_weights_are_laid_out_wherever_they_begin(start: int, columns: int) -> None:
    """As words where their place in the tensor is one of words, though the tensor may begin at any byte."""
    length = 64
    if (lanes := columns_of_panel(4)) == 0:
        pytest.skip("weights of 4 bits lie in panels of columns on an x86 alone")
    memory = RNG.integers(0, 256, 3 + start + columns * length // 2, np.uint8)
    for first in range(3):  # of the tensor, in memory
        held = memory[first:]
        view = View("w", dml.DataType.UINT8, (columns, length), (length // 2, 1), start)
        primitive = Reduce(
            (view,), View("y", dml.DataType.FLOAT32, (columns, 1), (1, 0)), fold("sum", load(0, view.data_type)), 1
        )
        layout = lay_out_words(primitive, view, 0, length, 4)
        assert layout is not None
        assert (layout.target.data_type is dml.DataType.UINT32) == (start % 4 == 0)
        made = np.zeros(size_of(layout.target), np.uint8)
        places = {"w": numpy_address(held), layout.target.tensor: numpy_address(made)}
        CpuEngine().compile(layout).bind(places)()
        words = held[start : start + columns * length // 2].reshape(columns, length // 8, 4)
        found = made.reshape(-1, length // 8, lanes, 4).transpose(0, 2, 1, 3).reshape(-1, length // 8, 4)
        assert (found[:columns] == words).all()
