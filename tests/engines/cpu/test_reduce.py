"""Reduces on the cpu engine: the reference's answers, for any tree, type and layout, on any number of threads."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.families import AVX2, AVX512, figures
from anydml.engines.cpu.features import has_lanes
from anydml.engines.cpu.rows import reduce as planning
from anydml.engines.reference import ReferenceEngine, ReferenceProgram
from anydml.ir import expressions as ex
from anydml.ir.expressions import Expr, coordinate, fold, load, where
from anydml.ir.numerics import expand
from anydml.ir.trees import write
from anydml.ir.verbs import Map, Reduce
from guarded import guarded
from tests.engines.cpu.test_maps import run, view
from trees import Trees, fetched_of, numbers, room, shape_of, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cpu.families import Family

pytestmark = [pytest.mark.sampled(3), pytest.mark.check_bounds]

Array = np.ndarray[Any, Any]
F32, F64 = DataType.FLOAT32, DataType.FLOAT64
TYPES = list(NUMPY_TYPES)
X = load(0, F32)
RAISED = ex.call("exp", X - fold("max", X))
SOFTMAX = RAISED * (1 / fold("sum", RAISED))


def normal(count: int) -> Expr:
    """Layer normalisation of rows of so many."""
    centred = X - fold("sum", X) / count
    return centred / ex.sqrt(fold("sum", centred * centred) / count + 1e-5)


def reduced(value: Expr, sources: list[Array], target: Array, depth: int, rows: tuple[int, ...] = ()) -> Reduce:
    views = tuple(view(f"x{i}", x) for i, x in enumerate(sources))
    return Reduce(views, view("y", target), value, depth, rows=rows)


def compute(
    value: Expr, sources: list[Array], target: Array, depth: int = 1, threads: int = 0, rows: tuple[int, ...] = ()
) -> Array:
    """On the cpu engine with so many threads, or on the reference engine."""
    primitive, before = reduced(value, sources, target, depth, rows), dml.get_num_threads()
    program = CpuEngine().compile(primitive) if threads else ReferenceEngine().compile(primitive)
    assert isinstance(program, ReferenceProgram) == (not threads)
    places = {**{f"x{i}": x for i, x in enumerate(sources)}, "y": target}
    dml.set_num_threads(threads or 1)
    try:
        program.bind({name: int(array.__array_interface__["data"][0]) for name, array in places.items()})()
    finally:
        dml.set_num_threads(before)
    return target


def unsigned(array: Array) -> Array:
    """A copy without -0.0: which of two zeros is the largest is left open."""
    return np.where(array == 0, np.zeros_like(array), array)


def check(
    value: Expr,
    sources: list[Array],
    target: Array,
    depth: int = 1,
    whole: Array | None = None,
    rows: tuple[int, ...] = (),
) -> None:
    """The reference's numbers, and nothing beside them: the target may lie in an array, which is compared whole."""
    whole = target if whole is None else whole
    before = whole.copy()
    compute(value, sources, target, depth, rows=rows)
    wanted = unsigned(whole)
    for threads in (1, 2):
        whole[...] = before
        compute(value, sources, target, depth, threads, rows)
        assert_same(unsigned(whole), wanted, write(value))


@pytest.mark.parametrize("part", range(6))
def test_random_trees_and_layouts(part: int) -> None:
    for seed in range(part, 60, 6):
        chance = np.random.default_rng(seed)
        slots = [TYPES[k] for k in chance.integers(len(TYPES), size=seed % 4)]
        shape, data_type = shape_of(chance, 4000) or (3,), TYPES[seed % len(TYPES)]
        depth = int(chance.integers(1, len(shape) + 1))
        elsewhere = fetched_of(chance, shape, TYPES) if seed % 3 else []
        trees = Trees(seed, slots, shape, depth, elsewhere)
        trees.by_row = bool(seed % 5 < 3)
        value = trees.fold(data_type, 2) if seed % 2 else trees.grow(data_type, 3)
        sources = [source(chance, shape, slot) for slot in slots]
        sources += [source(chance, sizes, of) for of, sizes in elsewhere]
        sizes = (*shape[:-depth], *[1] * depth) if trees.by_row else shape
        whole = room(chance, (*sizes, 2), data_type)
        check(value, sources, whole[..., 0], depth, whole, shape[-depth:])


def test_random_trees_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rows are that are few and long."""
    monkeypatch.setattr(figures().reduce, "segment", 16)
    monkeypatch.setattr(figures().reduce, "few_rows", 1000)
    for part in (2, 3):
        test_random_trees_and_layouts(part)


def sums(x: Array) -> Array:
    """Of rows, exact but for a rounding."""
    return np.array([[math.fsum(row)] for row in x.tolist()])


@pytest.mark.parametrize("data_type", [t for t in TYPES if t.is_float])
def test_sums_of_floats(data_type: DataType) -> None:
    """Along and across rows, of any length: off by less than a rounding an addition."""
    chance = np.random.default_rng(1)
    wide = F64 if data_type is F64 else F32
    value = fold("sum", load(0, data_type).to(wide)).to(data_type)
    for rows, count in ((3, 1), (300, 3), (5, 37), (70, 100), (2, 5000), (100, 17), (17, 64)):
        x = chance.standard_normal((rows, count)).astype(data_type.dtype)
        for layout in (x, x[:, ::-1], x[::2], np.asfortranarray(x)):
            exact, sizes = sums(layout), sums(np.abs(layout))
            got = compute(value, [layout], np.empty((len(layout), 1), data_type.dtype), threads=2)
            bound = count * np.finfo(wide.dtype).eps * sizes + np.finfo(data_type.dtype).eps * np.abs(exact)
            assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("data_type", [F32, F64, DataType.INT64])
def test_sums_are_the_same_for_any_number_of_threads(data_type: DataType) -> None:
    numbers = load(0, data_type)
    for shape, depth in (((1, 700_001), 1), ((3, 210_000), 1), ((70_000, 9), 1), ((300, 999), 2), ((2, 40_000, 5), 2)):
        x = np.random.default_rng(0).integers(-1000, 1000, shape).astype(data_type.dtype)
        x = x / 7 if data_type.is_float else x
        for layout in (x, x.transpose(*range(len(shape) - depth, len(shape)), *range(len(shape) - depth))):
            folded = depth if layout is x else len(shape) - depth
            if not folded:
                continue
            target = np.empty((*layout.shape[: len(shape) - folded], *[1] * folded), data_type.dtype)
            one, two, five = (
                compute(
                    fold("sum", numbers.to(data_type)), [np.asarray(layout, data_type.dtype)], target, folded, k
                ).copy()
                for k in (1, 2, 5)
            )
            assert_same(one, two)
            assert_same(one, five)
            exact = np.sum(
                layout, axis=tuple(range(len(shape) - folded, len(shape))), keepdims=True, dtype=data_type.dtype
            )
            np.testing.assert_allclose(one, exact, rtol=1e-3, atol=0.5)


@pytest.mark.parametrize("shape", [(5, 70), (130, 9), (9, 130), (40, 3), (2, 9007), (1, 300_001)])
def test_values_for_each_element(shape: tuple[int, ...]) -> None:
    """Softmax and layer normalisation along and across, also in place, with equal bits on two threads."""
    for turned in (False, True):
        x = np.random.default_rng(2).standard_normal(shape).astype("f4") * 3
        x = x.T if turned else x
        for value in (SOFTMAX, normal(x.shape[1])):
            wanted = compute(value, [x.astype("f8").astype("f4")], np.empty_like(x))
            got = compute(value, [x], np.empty_like(x), threads=1)
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)
            place = x.copy(order="K")
            assert_same(compute(value, [place], place, threads=2), got)


@pytest.mark.parametrize("at_end", [True, False])
def test_rows_of_every_length_stay_inside_their_views(at_end: bool) -> None:
    chance = np.random.default_rng(0)
    largest = ex.maximum(fold("max", X), fold("min", X) * 2.0)
    for n in (*range(1, 20), 31, 32, 33, 47, 63, 64, 65, 70):
        for shape in ((1, n), (3, n), (n, 3)):
            x = guarded(numbers(chance, (shape[0] * shape[1],), F32), at_end).reshape(shape)
            check(largest, [x], guarded(np.zeros(shape[0], "f4"), at_end).reshape(-1, 1))
            check(largest, [x.T], guarded(np.zeros(shape[1], "f4"), at_end).reshape(-1, 1))
            check(X - fold("max", X), [x], guarded(np.zeros(x.size, "f4"), at_end).reshape(shape))
            check(X - fold("max", X), [x.T], guarded(np.zeros(x.size, "f4"), at_end).reshape(shape).T)


def test_sums_of_many_steps_across_rows_are_near() -> None:
    x = np.random.default_rng(8).random((8192, 16), np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(0))
    wanted = powers / powers.sum(0)
    found = dml.softmax1(x, axes=[0], device="cpu")
    assert (np.abs(found - wanted) / np.spacing(wanted.astype(np.float32))).max() < 4  # one sum of FLOAT32: 40 to 60


def test_the_largest_is_nan_where_one_is() -> None:
    for data_type in (t for t in TYPES if t.is_float):
        for n in (5, 33, 100):
            x = np.random.default_rng(n).standard_normal((n, n)).astype(data_type.dtype)
            np.fill_diagonal(x, np.nan)
            for layout in (x, x.T):
                for function in ("max", "min"):
                    target = np.zeros((n, 1), data_type.dtype)
                    assert np.isnan(compute(fold(function, load(0, data_type)), [layout], target, threads=1)).all()


def test_the_place_of_the_largest() -> None:
    value = fold("min", where(X.equals(fold("max", X)), coordinate(1), ex.const(10**6, DataType.INT64)))
    for shape in ((7, 1000), (1000, 7), (1, 300_000)):
        x = np.random.default_rng(0).integers(0, 50, shape).astype("f4")
        got = compute(value, [x], np.empty((shape[0], 1), "i8"), threads=2)
        assert_same(got[:, 0], x.argmax(1))


def test_the_exponential_of_what_is_not_above_0_has_the_bits_of_any() -> None:
    x = -np.concatenate([[0.0], np.linspace(0, 110, 9999), np.geomspace(1e-30, 120, 9999), [np.inf]], dtype="f4")[None]
    got = compute(ex.call("exp", X - fold("max", X)), [x], np.empty_like(x), threads=1)
    wanted = np.empty_like(x)
    run(CpuEngine(), Map((view("x", x),), view("y", wanted), ex.call("exp", X)), {"x": x, "y": wanted})
    assert_same(got, wanted)


@pytest.mark.parametrize("value", [SOFTMAX, RAISED / fold("sum", RAISED), RAISED, fold("max", X) + RAISED * 0])
@pytest.mark.parametrize("at", [0, 7, 40])
def test_a_nan_is_found_whoever_finds_it(value: Expr, at: int) -> None:
    """A softmax leaves it to its sum, where the result depends on that, and other uses of the largest do not."""
    x = np.linspace(-3, 3, 2 * 41, dtype=np.float32).reshape(2, 41)
    x[1, at] = np.nan
    got = compute(value, [x], np.zeros_like(x), threads=1)
    assert np.isnan(got[1]).all()
    assert not np.isnan(got[0]).any()


def text_of(value: Expr, x: Array, target: Array, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel of a reduce along rows."""
    texts: list[str] = []

    def keep(_: str, write: Callable[[], str]) -> SimpleNamespace:
        """It stands for a kernel that nobody runs."""
        texts.append(write())
        return SimpleNamespace(address=0)

    monkeypatch.setattr(planning, "get_kernel", keep)
    planning.plan_reduce(reduced(expand(value), [x], target, 1, (x.shape[-1],)))
    return texts[-1]


@pytest.mark.parametrize("family", [AVX512, AVX2], ids=["avx512", "avx2"])
def test_powers_of_a_softmax_take_turns_where_a_vector_is_a_register(
    monkeypatch: pytest.MonkeyPatch, family: Family
) -> None:
    monkeypatch.setattr(figures().reduce, "vectors_at_once", family.reduce.vectors_at_once)
    for x in (np.ones((4, 100), "f"), np.ones((100, 80), "f").T):
        text = text_of(SOFTMAX, x, x.copy("K"), monkeypatch)
        assert ("fmul <64 x float>" in text) == (family is AVX512)
        assert "fmul <16 x float>" in text


@pytest.mark.parametrize(("lengths", "is_first"), [((4, 100), True), ((100, 4), False)])
def test_rows_are_read_up_to_the_first_extreme(
    lengths: tuple[int, int], is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones(lengths, "f")
    value = fold("min", where(X.equals(fold("max", X)), coordinate(1), 100))
    text = text_of(value, x, np.empty((lengths[0], 1), "i8"), monkeypatch)
    assert ("llvm.cttz" in text) == is_first


@pytest.mark.parametrize("function", ["argmax", "argmin"])
@pytest.mark.parametrize("kind", ["float32", "float16", "uint8"])
def test_the_first_extreme_is_found_wherever_it_lies(function: str, kind: str) -> None:
    x = np.random.default_rng(1).integers(1, 200, (201, 200)).astype(kind)
    for number, row in enumerate(x[:200]):
        row[number::5] = 255 if function == "argmax" else 0
    if kind != "uint8":
        x[:100, 130], x[50, 60:] = np.nan, np.nan
    for rows in (x, x[:, :77].copy()):
        wanted = getattr(np, function)(rows, 1, keepdims=True)
        np.testing.assert_array_equal(getattr(dml, function)(rows, [1], device="cpu"), wanted)


def test_targets_are_fetched_before_the_pass_that_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ones((4, 100), "f")
    first, *_, last = text_of(normal(100), x, x.copy(), monkeypatch).split("store <16 x float>")
    assert ", i32 1, i32 3, i32 1)" in first
    assert ", i32 1, i32 3, i32 1)" not in last.partition("declare")[0]


@pytest.mark.skipif(not has_lanes(), reason="this CPU reads whole vectors")
@pytest.mark.parametrize("width", [7, 13])
def test_fewer_rows_than_lanes_are_one_vector(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = guarded(np.random.default_rng(width).standard_normal((2, 37, width)).astype("f"), True)
    y = guarded(np.zeros_like(x), True)
    turned = [x.transpose(0, 2, 1), y.transpose(0, 2, 1)]
    compute(SOFTMAX, turned[:1], turned[1], threads=1, rows=(37,))
    powers = np.exp(x.astype("f8"))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=5e-7)
    text = text_of(SOFTMAX, turned[0], turned[1], monkeypatch)
    assert "@llvm.masked.load" in text
    assert f"fmul <{64 if width > 8 else 32} x float>" in text


def test_what_is_true_of_a_row_is_true_of_no_other_across() -> None:
    """Several vectors of rows are computed as one."""
    x = np.random.default_rng(0).standard_normal((3, 200)).astype("float32")
    value = fold("sum", where(fold("max", X) < 1.0, ex.call("exp", X), ex.call("sin", X)))
    got, wanted = (compute(value, [x.T], np.zeros((200, 1), "float32"), threads=threads) for threads in (1, 0))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
