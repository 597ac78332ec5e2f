"""Legalised verbs compute what the originals do: bit for bit, but for double-floats."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st

import trees as growing
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.reference import ReferenceEngine
from anydml.engines.reference.evaluate import evaluate
from anydml.ir import legalise as of
from anydml.ir.expressions import FOLDS, LEAVES, OPERATIONS, Expr, const, coordinate, fold, load, sqrt, where
from anydml.ir.numerics.parts import Pair
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View
from anydml.ir.words import double, double_product, double_quotient, double_sum
from trees import Trees, fetched_of, numbers, operations, room, shape_of, source

Array = np.ndarray[Any, Any]
CORE = of.Types()
F32, F64, F16, U8 = DataType.FLOAT32, DataType.FLOAT64, DataType.FLOAT16, DataType.UINT8
EXACT = [one for one in NUMPY_TYPES if one is not F64]
FLOAT32 = st.floats(width=32, allow_nan=False, min_value=-(2.0**40), max_value=2.0**40)


class Memory:
    """Tensors, in words."""

    def __init__(self) -> None:
        self.held: dict[str, Array] = {}

    def view(self, name: str, array: Array) -> View:
        """The elements of an array, laid out as they are there."""
        extents = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        low, high = sum(min(e, 0) for e in extents), sum(max(e, 0) for e in extents) + array.itemsize
        low -= low % -array.itemsize
        held = np.full(-(-(high - low) // 8) * 8 + 8, 0xA5, np.uint8)
        strides = tuple(stride // array.itemsize for stride in array.strides)
        made = View(name, DataType(array.dtype), array.shape, strides, -low // array.itemsize)
        self.held[name] = held
        self.of(made)[...] = array
        return made

    def of(self, view: View) -> Array:
        """The elements of a view."""
        dtype = view.data_type.dtype
        flat = self.held[view.tensor].view(dtype)[view.offset :]
        strides = [stride * dtype.itemsize for stride in view.strides]
        return np.lib.stride_tricks.as_strided(flat, view.sizes, strides)

    def copy(self) -> Memory:
        made = Memory()
        made.held = {name: held.copy() for name, held in self.held.items()}
        return made


def original(verb: Map | Reduce, memory: Memory) -> Memory:
    memory = memory.copy()
    ReferenceEngine().compile(verb).bind({name: held.ctypes.data for name, held in memory.held.items()})()
    return memory


def folded(value: Expr, arrays: list[Array], sizes: tuple[int, ...], depth: int) -> dict[Expr, Array]:
    """The folds of pairs, by `combine`, one element after the other."""
    known: dict[Expr, Array] = {}
    for node in walk(value):
        if node.op in FOLDS and len(node.args) == 2 and node not in known:
            kept = sizes[: len(sizes) - depth]
            parts = [np.broadcast_to(evaluate(arg, arrays, sizes, depth, known), sizes) for arg in node.args]
            rows = [part.reshape(*kept, -1) for part in parts]
            total = [row[..., 0] for row in rows]
            kinds = [arg.type for arg in node.args]
            a, b = ([load(2 * k + i, kind) for i, kind in enumerate(kinds) if kind] for k in range(2))
            combined = of.combine(node, (a[0], a[1]), (b[0], b[1]))
            for n in range(1, rows[0].shape[-1]):
                given = [*total, *(row[..., n] for row in rows)]
                total = [np.broadcast_to(evaluate(one, given, kept), kept) for one in combined]
            for number, part in enumerate(total):
                known[Expr(node.op, kinds[number], node.args, number)] = part.reshape(*kept, *[1] * depth)
    return known


def legalised(verb: Map | Reduce, memory: Memory, types: of.Types = CORE) -> Memory:
    """What the legalised verb writes, by the reference's arithmetic; its trees have no other types than they may."""
    memory, legal = memory.copy(), of.legalise(verb, types)
    depth = verb.depth if isinstance(verb, Reduce) else 0
    arrays = [memory.of(view) for view in legal.sources]
    assert all(types.has(view.data_type) for view in legal.sources)

    def value(root: Expr) -> Array:
        for node in walk(root):
            assert types.has(node.type) or node.op == "coordinate", node.op
            assert node.op in (*LEAVES, "fetch", *OPERATIONS, *FOLDS)
        found = evaluate(root, arrays, legal.sizes, depth, folded(root, arrays, legal.sizes, depth))
        return np.array(np.broadcast_to(found, legal.sizes))

    written = [(write.target, value(write.value)) for write in legal.writes]
    inserted = [[value(part) for part in one[1:]] for one in legal.insertions]
    for target, values in written:
        memory.of(target)[...] = values[tuple(map(slice, target.sizes))]
    for one, (places, masks, values) in zip(legal.insertions, inserted, strict=True):
        held = memory.of(one.target)
        cut = tuple(map(slice, verb.target.sizes))
        for place, mask, bits in zip(*(part[cut].ravel().tolist() for part in (places, masks, values)), strict=True):
            assert bits & ~mask == 0
            held[place] = (int(held[place]) & ~mask) | bits
    return memory


def assert_same(verb: Map | Reduce, memory: Memory, types: of.Types = CORE) -> None:
    """All memory is, but for the bits of NaN."""
    before, after = original(verb, memory), legalised(verb, memory, types)
    for target in verb.targets:
        wanted, found = before.of(target), after.of(target)
        if target.data_type.is_float:
            nan = np.isnan(wanted)
            np.testing.assert_array_equal(np.isnan(found), nan)
            found[nan] = wanted[nan] = 0
    for name in memory.held:
        np.testing.assert_array_equal(after.held[name], before.held[name])


def mapped(value: Expr, sources: list[Array], target: Array) -> tuple[Map, Memory]:
    memory = Memory()
    views = tuple(memory.view(f"x{k}", x) for k, x in enumerate(sources))
    return Map(views, memory.view("y", target), value), memory


# Every operation


@pytest.mark.parametrize("data_type", EXACT, ids=lambda one: one.name)
def test_every_operation(data_type: DataType) -> None:
    chance = np.random.default_rng(1)
    sources = [numbers(chance, (96,), data_type) for _ in range(3)]
    a, b, c = (load(k, data_type) for k in range(3))
    for value in operations(a, b, c):
        assert_same(*mapped(value, sources, np.zeros(96, data_type.dtype)))


@pytest.mark.parametrize("data_type", EXACT, ids=lambda one: one.name)
def test_every_conversion(data_type: DataType) -> None:
    x = numbers(np.random.default_rng(2), (640,), data_type)
    for other in EXACT:
        assert_same(*mapped(load(0, data_type).to(other), [x], np.zeros(640, other.dtype)))


@pytest.mark.parametrize(
    "types", [of.Types(float64=True), of.Types(int64=True, float64=True), of.Types(float64=True, narrow=True)], ids=repr
)
def test_conversions_of_float64_that_is_there(types: of.Types) -> None:
    chance = np.random.default_rng(3)
    for other in EXACT:
        x, y = numbers(chance, (320,), F64), numbers(chance, (320,), other)
        assert_same(*mapped(load(0, F64).to(other), [x], np.zeros(320, other.dtype)), types)
        assert_same(*mapped(load(0, other).to(F64), [y], np.zeros(320, "f8")), types)


edges = st.sampled_from([s * 2**k + d for k in (0, 31, 32, 33, 62) for s in (-1, 1) for d in (-1, 0, 1)])
integers = edges | st.sampled_from([2**63 - 1, -(2**63)]) | st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40)


@settings(max_examples=12, deadline=None)
@drawn(st.lists(st.tuples(integers, integers), min_size=1, max_size=20), st.booleans())
def test_64_bits_at_their_edges(pairs: list[tuple[int, int]], is_signed: bool) -> None:
    data_type = DataType.INT64 if is_signed else DataType.UINT64
    sources = [np.array(part, np.int64).view(data_type.dtype) for part in zip(*pairs, strict=True)]
    a, b = load(0, data_type), load(1, data_type)
    by = b & 63
    for value in (a + b, a - b, a * b, a << by, a >> by, (a < b).to(data_type), a.to(F32).to(data_type)):
        assert_same(*mapped(value, sources, np.zeros(len(pairs), data_type.dtype)))
    divisors = [sources[0], np.where(np.isin(sources[1].view(np.int64), (0, -1)), 3, sources[1].view(np.int64))]
    divisors[1] = divisors[1].view(data_type.dtype)
    for value in (a / b, a % b):
        assert_same(*mapped(value, divisors, np.zeros(len(pairs), data_type.dtype)))


def test_every_half() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    assert_same(*mapped(load(0, F16).to(F32), [bits.view(np.float16)], np.zeros(2**16, "f4")))
    middles = (bits.astype(np.int64) << 13) + (112 << 23)  # halves' neighbourhoods: ties, and what lies beside them
    near = np.concatenate([middles + 0x1000 + k for k in (-1, 0, 1)]).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        assert_same(*mapped(load(0, F32).to(F16), [np.concatenate([near, -near * 2**-20])], np.zeros(6 * 2**16, "f2")))


# Whole trees


@pytest.mark.parametrize(
    "types", [CORE, of.Types(int64=True), of.Types(narrow=True), of.Types(int64=True, narrow=True)], ids=repr
)
def test_random_trees(types: of.Types, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "NUMPY_TYPES", EXACT)
    monkeypatch.setitem(growing.WIDE, 64, [one for one in growing.WIDE[64] if one is not F64])
    for seed in range(36 if types == CORE else 12):
        chance = np.random.default_rng(seed)
        shape = shape_of(chance, 200)
        slots = [EXACT[k] for k in chance.integers(len(EXACT), size=2)]
        elsewhere = fetched_of(chance, shape, EXACT)
        grown = Trees(seed, slots, shape, 0, elsewhere)
        data_type = EXACT[seed % len(EXACT)]
        value = grown.grow(data_type, 3)
        sources = [source(chance, shape, one) for one in slots] + [source(chance, s, one) for one, s in elsewhere]
        assert_same(*mapped(value, sources, room(chance, shape, data_type)), types)


def test_random_reduces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "NUMPY_TYPES", EXACT)
    monkeypatch.setitem(growing.WIDE, 64, [one for one in growing.WIDE[64] if one is not F64])
    for seed in range(24):
        chance = np.random.default_rng(seed)
        shape = (*shape_of(chance, 20), 7)
        slots = [EXACT[k] for k in chance.integers(len(EXACT), size=2)]
        data_type = EXACT[seed % len(EXACT)]
        grown = Trees(seed, slots, shape, 1)
        grown.by_row = True
        value = grown.fold(data_type, 2)
        memory = Memory()
        views = tuple(memory.view(f"x{k}", source(chance, shape, one)) for k, one in enumerate(slots))
        target = memory.view("y", room(chance, (*shape[:-1], 1), data_type))
        assert_same(Reduce(views, target, value, 1, (7,)), memory)


def test_several_targets_of_all_widths() -> None:
    memory, chance = Memory(), np.random.default_rng(4)
    views = tuple(memory.view(f"x{k}", numbers(chance, (3, 8), one)) for k, one in enumerate((U8, DataType.INT64)))
    value = load(0, U8).to(DataType.INT64) * load(1, DataType.INT64) + coordinate(1)
    first, *others = (Write(memory.view(one.name, np.zeros((3, 8), one.dtype)), value.to(one)) for one in EXACT)
    assert_same(Map(views, first.target, first.value, also=tuple(others)), memory)


# Memory


def test_rows_of_whole_words_are_written_by_words() -> None:
    verb, memory = mapped(load(0, U8) + 200, [numbers(np.random.default_rng(0), (5, 16), U8)], np.zeros((5, 16), "u1"))
    legal = of.legalise(verb, CORE)
    assert not legal.insertions
    assert [view.sizes for view in (*legal.sources, legal.writes[0].target)] == [(5, 4)] * 2  # no element is fetched
    whole = legal.verb(verb)
    after = memory.copy()
    ReferenceEngine().compile(whole).bind({name: held.ctypes.data for name, held in after.held.items()})()
    np.testing.assert_array_equal(after.held["y"], original(verb, memory).held["y"])


@pytest.mark.parametrize("cut", [np.s_[:, 1:], np.s_[:, :5], np.s_[::-1, ::2]])
def test_elements_that_share_words_are_inserted(cut: Any) -> None:
    target = np.zeros((4, 12), "f2")[cut]
    x = numbers(np.random.default_rng(0), target.shape, F32)
    verb, memory = mapped(load(0, F32).to(F16), [x], target)
    assert len(of.legalise(verb, CORE).insertions) == 1
    with pytest.raises(TypeError, match="share words"):
        of.legalise(verb, CORE).verb(verb)
    assert_same(verb, memory)


def test_a_float64_that_is_moved_is_words() -> None:
    x = numbers(np.random.default_rng(0), (30,), F64)
    verb, memory = mapped(load(0, F64), [x], np.zeros(30, "f8"))
    np.testing.assert_array_equal(legalised(verb, memory).held["y"], original(verb, memory).held["y"])


@pytest.mark.parametrize("types", [CORE, of.Types(int64=True), of.Types(narrow=True)], ids=repr)
def test_conversions_of_float64_by_its_words(types: of.Types) -> None:
    """Exact, or rounded once, as where it is there."""
    chance = np.random.default_rng(4)
    bits = chance.integers(0, 2**64, 640, np.uint64).view(np.float64)
    near = np.ldexp(chance.normal(size=640), chance.integers(-160, 140, 640))
    ties = np.ldexp(chance.integers(0, 2**26, 640) * 2.0 + 1, chance.integers(-175, 110, 640))
    beside = np.nextafter(chance.integers(0, 2**12, 640) * 16.0 + 2048, chance.choice([0, 1e9], 640))
    for other in EXACT:
        for x in (
            numbers(chance, (640,), F64),
            bits,
            near,
            ties,
            beside,
            chance.integers(-(2**62), 2**62, 640).astype("f8"),
        ):
            assert_same(*mapped(load(0, F64).to(other), [x], np.zeros(640, other.dtype)), types)
        y = numbers(chance, (640,), other)
        assert_same(*mapped(load(0, other).to(F64), [y], np.zeros(640, "f8")), types)
    wide = chance.integers(0, 2**64, 640, np.uint64) >> chance.integers(0, 64, 640).astype(np.uint64)
    for y in (wide, wide.view(np.int64)):
        assert_same(*mapped(load(0, DataType(y.dtype)).to(F64), [y], np.zeros(640, "f8")), types)


def test_float64_that_is_computed_is_written_as_such() -> None:
    x = np.random.default_rng(5).normal(size=300)
    for value in (load(0, F64) * 3.7 + 1, -load(0, F64), where(load(0, F64) < 0, load(0, F64), const(0.1, F64))):
        verb, memory = mapped(value, [x], np.zeros(300, "f8"))
        found, wanted = (made(verb, memory).held["y"][:2400].view("f8") for made in (legalised, original))
        np.testing.assert_allclose(found, wanted, rtol=2.0**-44, atol=2.0**-44)


def test_sums_and_products_of_float64_are_rounded_once() -> None:
    """Of numbers of every size, denormals and what is none; and of integers with more bits than a double-float."""
    chance = np.random.default_rng(6)
    ends = [0.0, -0.0, 5e-324, 2.0**-1022, 1.7976931348623157e308, np.inf, -np.inf, np.nan, 1.0, -1.0]
    x, y = (part.ravel() for part in np.meshgrid(ends, ends))
    bits = chance.integers(0, 2**64, (2, 400), np.uint64).view("f8")
    near = chance.normal(size=400) * 2.0 ** chance.integers(-60, 60, 400)
    like = near * (1 + chance.integers(-3, 4, 400) * 2.0**-52) * chance.choice([-1, 1], 400)
    tiny = chance.integers(0, 2**53, (2, 200), np.uint64).view("f8")
    x, y = np.concatenate([x, bits[0], near, tiny[0]]), np.concatenate([y, bits[1], like, tiny[1] * 0.75])
    a, b = load(0, F64), load(1, F64)
    with np.errstate(all="ignore"):
        for value in (a + b, a - b, a * b, a * b + a):
            assert_same(*mapped(value, [x, y], np.zeros(len(x), "f8")))
        for kind in (DataType.INT64, DataType.UINT64, DataType.INT32):
            whole = numbers(chance, (300,), kind)
            value = load(0, kind).to(F64) * const(0.1, F64) + const(-0.7, F64)
            assert_same(*mapped(value.to(kind), [whole], np.zeros(300, kind.dtype)))


def test_zeros_of_double_floats_have_signs() -> None:
    x, y = (part.ravel().astype(np.float32) for part in np.meshgrid([0.0, -0.0, 1, -1], [0.0, -0.0, 1, -1]))
    a, b = load(0, F32).to(F64), load(1, F32).to(F64)
    for value in (a + b, a - b, a * b, a * b + b):
        assert_same(*mapped(value.to(F32), [x, y], np.zeros(16, "f4")))


# Double-floats


def evaluated(pair: tuple[Expr, ...], *arrays: Array) -> list[Fraction | None]:
    """The exact numbers that pairs stand for; None for what is none."""
    high, low = (np.broadcast_to(evaluate(part, arrays, arrays[0].shape), arrays[0].shape) for part in pair)
    parts = zip(high.tolist(), low.tolist(), strict=True)
    return [Fraction(h) + Fraction(w) if math.isfinite(h + w) else None for h, w in parts]


@settings(max_examples=50, deadline=None)
@drawn(st.lists(st.tuples(*[FLOAT32] * 4), min_size=1, max_size=12))
def test_double_floats_have_46_bits(given: list[tuple[float, ...]]) -> None:
    lows = [[a, b * 2.0**-30, c, d * 2.0**-66] for a, b, c, d in given]
    arrays = [np.array(part, np.float32) for part in zip(*lows, strict=True)]
    a, b = (Pair(load(2 * k, F32), load(2 * k + 1, F32)) for k in range(2))
    a, b = (double_sum(pair, double(0.0)) for pair in (a, b))  # as pairs are
    numbers_of = list(zip(evaluated(a, *arrays), evaluated(b, *arrays), strict=True))
    for made, exact in (
        (double_sum(a, b), [x + y for x, y in numbers_of if x is not None and y is not None]),
        (double_product(a, b), [x * y for x, y in numbers_of if x is not None and y is not None]),
        (double_quotient(a, b), [x / y if y else None for x, y in numbers_of if x is not None]),
    ):
        for found, want in zip(evaluated(made, *arrays), exact, strict=True):
            # Where it is too small for what is missing of it, or too large, it is no better than FLOAT32.
            if found is not None and want is not None and 2.0**-60 < abs(want) < 2.0**100:
                assert abs(found - want) <= abs(want) * Fraction(1, 2**44)


@settings(max_examples=20, deadline=None)
@drawn(st.lists(FLOAT32, min_size=1, max_size=60))
def test_sums_of_float64_are_rounded_once_or_nearly(values: list[float]) -> None:
    x = np.array([values], np.float32)
    memory = Memory()
    views = (memory.view("x", x),)
    target = memory.view("y", np.zeros((1, 1), "f4"))
    verb = Reduce(views, target, fold("sum", load(0, F32).to(F64)).to(F32), 1, (len(values),))
    found = float(legalised(verb, memory).of(target)[0, 0])
    exact, size = math.fsum(values), math.fsum(map(abs, values))
    assert abs(found - exact) <= abs(exact) * 2.0**-23 + size * len(values) * 2.0**-46 + 2.0**-140


def test_infinities_and_nan_pass_through_double_floats() -> None:
    x = np.array([np.inf, -np.inf, np.inf, np.nan, 1, 0, 3e38], np.float32)
    y = np.array([1, 1, -np.inf, 1, 0, 0, 3e38], np.float32)
    a, b = load(0, F32).to(F64), load(1, F32).to(F64)
    for value in (a + b, a + b + 1, a * b, a - b, a / b, sqrt(a), -a, (a < b).to(F64), (a <= b).to(F64)):
        verb, memory = mapped(value.to(F32), [x, y], np.zeros(7, "f4"))
        with np.errstate(all="ignore"):
            assert_same(verb, memory)


def test_integers_through_double_floats() -> None:
    chance = np.random.default_rng(5)
    for data_type in EXACT:
        if data_type.is_float:
            continue
        x = numbers(chance, (300,), data_type) >> (24 if data_type.size_in_bytes == 8 else 0)
        for other in EXACT:
            if not other.is_float:
                assert_same(*mapped((load(0, data_type).to(F64) * 0.5).to(other), [x], np.zeros(300, other.dtype)))
    ends = [s * 2.0**k for k in (31, 32, 63, 64) for s in (-1, 1)]
    x = np.array([0.5, -0.5, *ends, 1e30, -1e30, np.nan, 255.5, -128.5], np.float32)
    for other in EXACT:
        assert_same(*mapped((load(0, F32).to(F64) * const(0.75, F64)).to(other), [x], np.zeros(len(x), other.dtype)))
