"""Maps of any expression on the cpu engine: the reference's bits, for every operation, type and layout."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import anydml as dml
from agreement import assert_same
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.engines.cpu import CpuEngine
from anydml.engines.cpu.codegen.expressions import find_rare
from anydml.engines.cpu.families import figures
from anydml.engines.cpu.launch.program import KernelProgram
from anydml.engines.cpu.rows.walk import ROWS
from anydml.engines.reference import ReferenceEngine, ReferenceProgram
from anydml.ir import expressions as ex
from anydml.ir.expressions import Expr, coordinate, load, where
from anydml.ir.numerics import ULPS, expand
from anydml.ir.trees import walk, write
from anydml.ir.verbs import Map
from guarded import guarded
from tests.engines.cpu.test_maps import run, view
from trees import Trees, fetched_of, operations, plain_bits, room, shape_of, source
from trees import numbers as numbers_by

pytestmark = [pytest.mark.sampled(3), pytest.mark.check_bounds]

Array = np.ndarray[Any, Any]
F32, F16 = DataType.FLOAT32, DataType.FLOAT16
TYPES = list(NUMPY_TYPES)
INTEGERS = [t for t in TYPES if not t.is_float]
X, Y, Z = (load(i, F32) for i in range(3))


def numbers(shape: int | tuple[int, ...], data_type: DataType, seed: int = 0) -> Array:
    """Numbers of every size that a type has."""
    return numbers_by(np.random.default_rng(seed), (shape,) if isinstance(shape, int) else tuple(shape), data_type)


def mapped(value: Expr, sources: list[Array], target: Array) -> Map:
    return Map(tuple(view(f"x{i}", x) for i, x in enumerate(sources)), view("y", target), value)


def compute(engine: CpuEngine | ReferenceEngine, value: Expr, sources: list[Array], target: Array) -> Array:
    run(engine, mapped(value, sources, target), {**{f"x{i}": x for i, x in enumerate(sources)}, "y": target})
    return target


def check(value: Expr, sources: list[Array], target: Array, whole: Array | None = None) -> None:
    """The reference's bits, and nothing beside them: the target may lie in a larger array, which is compared whole."""
    whole = target if whole is None else whole
    before = whole.copy()
    compute(ReferenceEngine(), value, sources, target)
    wanted = whole.copy()
    whole[...] = before
    compute(CpuEngine(), value, sources, target)
    assert_same(whole, wanted, write(value))


def choose(values: list[Expr]) -> Expr:
    """One for each index of the first dimension."""
    value = values[0]
    for i, other in enumerate(values[1:], 1):
        value = where(coordinate(0).equals(i), other, value)
    return value


@pytest.mark.parametrize("data_type", TYPES)
def test_every_operation(data_type: DataType) -> None:
    values = operations(*(load(i, data_type) for i in range(3)))
    sources = [numbers((len(values), 300), data_type, seed) for seed in range(3)]
    check(choose(values), sources, np.zeros_like(sources[0]))


@pytest.mark.parametrize("data_type", [t for t in TYPES if t.is_float])
def test_limits(data_type: DataType) -> None:
    """Constants that one instruction may compare with, and those that it may not: zeros of either sign, NaN."""
    x = load(0, data_type)
    limits = [ex.const(c, data_type) for c in (0.0, -0.0, 1.5, -2.0, np.inf, np.nan)]
    values = [limit(*pair) for limit in (ex.maximum, ex.minimum) for c in limits for pair in ((x, c), (c, x))]
    source = numbers((len(values), 200), data_type)
    check(choose(values), [source], np.zeros_like(source))


@pytest.mark.parametrize("data_type", TYPES)
def test_every_conversion(data_type: DataType) -> None:
    bits = {2: DataType.UINT16, 4: DataType.UINT32, 8: DataType.UINT64}
    casts = [load(0, data_type).to(t) for t in TYPES]
    values = [
        (plain_bits(cast, bits[t.size_in_bytes]) if t.is_float else cast).to(DataType.UINT64)
        for cast, t in zip(casts, TYPES, strict=True)
    ]
    source = numbers((len(values), 500), data_type)
    check(choose(values), [source], np.zeros(source.shape, "uint64"))


@pytest.mark.parametrize("part", range(6))
def test_random_trees_and_layouts(part: int) -> None:
    for seed in range(part, 60, 6):
        chance = np.random.default_rng(seed)
        slots = [TYPES[k] for k in chance.integers(len(TYPES), size=1 + seed % 4)]
        shape, data_type = shape_of(chance, 4000), TYPES[seed % len(TYPES)]
        elsewhere = fetched_of(chance, shape, TYPES)
        value = Trees(seed, slots, shape, fetched=elsewhere).grow(data_type, 4)
        sources = [source(chance, shape, slot) for slot in slots]
        sources += [source(chance, sizes, slot) for slot, sizes in elsewhere]
        whole = room(chance, (*shape, 2), data_type)
        check(value, sources, whole[..., 0], whole)


@pytest.mark.parametrize("at_end", [True, False])
def test_tails_of_every_length_stay_inside_their_views(at_end: bool) -> None:
    byte = load(1, DataType.UINT8)
    for n in range(71):
        x, y, b = (guarded(numbers(max(n, 1), t), at_end)[:n] for t in (F32, F32, DataType.UINT8))
        check(X * Y + 1.0, [x, y], guarded(np.zeros(max(n, 1), "f4"), at_end)[:n])
        check((X.to(DataType.UINT8) ^ byte), [x, b], guarded(np.zeros(max(n, 1), "u1"), at_end)[:n])
        wide, spaced = guarded(numbers((n + 1) * 3, F32), at_end), guarded(np.zeros((n + 1) * 2, "f4"), at_end)
        check(X * Y + 1.0, [wide[2::3][:n], np.broadcast_to(x[:1], n) if n else x], spaced[::2][:n])
        check(X * Y + 1.0, [x[::-1], wide[::3][:n]], guarded(np.zeros(max(n, 1), "f4"), at_end)[:n])


@pytest.mark.parametrize("at_end", [False, True])
def test_every_other_element_is_read_and_nothing_past_the_last(at_end: bool) -> None:
    for count, kind in ((1, F32), (5, F16), (8, F32), (17, F32), (33, F16), (70, DataType.UINT8)):
        even = guarded(numbers((3, 2 * count - 1), kind), at_end)[:, ::2]
        odd = guarded(numbers((3, 2 * count), kind, 1), at_end)[:, 1::2]
        check(load(0, kind) + load(1, kind), [even, odd], guarded(np.zeros((3, count), even.dtype), at_end))


def test_in_place() -> None:
    for shape in ((5,), (16,), (37,), (1000,), (3, 21), (400_001,)):
        for cut in (slice(None), slice(None, None, 2)):
            x, y = numbers(shape, F32)[..., cut], numbers(shape, F32, 1)[..., cut]
            wanted = compute(ReferenceEngine(), X * Y - X, [x.copy(), y], np.zeros(x.shape, "f4"))
            primitive = mapped(X * Y - X, [x, y], x)
            run(CpuEngine(), primitive, {"x0": x, "x1": y, "y": x})
            assert_same(x, wanted)


def test_many_sources_and_dimensions() -> None:
    shape = (2, 3, 2, 2, 1, 3, 2, 5)
    rng = np.random.default_rng(0)
    sources = []
    for i in range(16):
        order = rng.permutation(8)
        whole = numbers(tuple(shape[k] for k in order), F32, i).transpose(np.argsort(order))
        cut = tuple(slice(0, 1) if rng.integers(4) == 0 else slice(None) for _ in shape)
        sources.append(np.broadcast_to(whole[cut], shape))
    value = load(0, F32)
    for i in range(1, 16):
        value = ex.maximum(value, load(i, F32) * 0.5)
    place = coordinate(0) * 100 + coordinate(7) * 10 + coordinate(5)
    check(value + place.to(F32), sources, np.zeros(shape, "f4"))


def test_more_views_than_a_walk_has_room_for_are_the_references() -> None:
    x, y = numbers((2, 3), F32), np.zeros((2, 3), "f4")
    value = sum((load(i, F32) for i in range(1, 64)), start=load(0, F32))
    assert isinstance(CpuEngine().compile(mapped(value, [x] * 64, y)), ReferenceProgram)
    check(value, [x] * 64, y)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("stream_from", [0, 2**60])
def test_large_maps_through_the_threads(monkeypatch: pytest.MonkeyPatch, threads: int, stream_from: int) -> None:
    monkeypatch.setattr(figures().rows, "stream_from", stream_from)
    before = dml.get_num_threads()
    dml.set_num_threads(threads)
    try:
        x, y = numbers((3, 1_000_003), F32), numbers((1_000_003,), F32, 1)
        check(ex.maximum(X * Y + Z, 0.0), [x, np.broadcast_to(y, x.shape), x[:, ::-1]], np.zeros_like(x))
        for first in (1, 15):  # a target that begins within a line of the cache
            long, whole = numbers(70_001, F32), np.zeros(70_032, "f4")
            check(X + Y, [long, long[::-1].copy()], whole[first : first + long.size], whole)
        a = numbers((1024, 700), F32)
        place = (coordinate(1) - coordinate(0)).to(F32)
        check(X + Y * place, [a, a.reshape(700, 1024).T], np.zeros(a.shape, "f4"))
        check(X + Y * place, [a.T, a.reshape(700, 1024)], np.zeros((1024, 700), "f4").T)
    finally:
        dml.set_num_threads(before)


@pytest.mark.parametrize("name", ex.FUNCTIONS)
def test_functions(name: str) -> None:
    """Within the distance that each declares from the exact result, which the reference rounds once."""
    args = [load(i, F32) for i in range(ex.FUNCTIONS[name])]
    sources = [numbers((3000,), F32, i) for i in range(len(args))]
    wanted = compute(ReferenceEngine(), ex.call(name, *args), sources, np.zeros(3000, "f4"))
    got = compute(CpuEngine(), ex.call(name, *args), sources, np.zeros(3000, "f4"))
    assert_same(np.isnan(got).view("u1"), np.isnan(wanted).view("u1"), name)
    apart = np.abs(_steps(got) - _steps(wanted))[~np.isnan(wanted)]
    assert apart.max() <= ULPS[name], (name, [x[~np.isnan(wanted)][apart.argmax()] for x in sources])


def test_functions_of_every_float16() -> None:
    """The reference rounds them from float64."""
    x = np.arange(1 << 16, dtype="u2").view("f2")
    for name in (name for name, count in ex.FUNCTIONS.items() if count == 1):
        tree = ex.call(name, load(0, F16).to(F32)).to(F16)
        wanted, got = (compute(engine, tree, [x], np.zeros_like(x)) for engine in (ReferenceEngine(), CpuEngine()))
        assert_same(np.isnan(got).view("u1"), np.isnan(wanted).view("u1"), name)
        assert_same(got[~np.isnan(wanted)].view("u2"), wanted[~np.isnan(wanted)].view("u2"), name)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "gelu"])
def test_what_is_rare_is_computed_where_a_lane_asks(name: str) -> None:
    tree = expand(ex.call(name, X))
    rare = find_rare(list(walk(tree)))
    assert rare is not None
    assert len(rare.choices) == (6 if name == "gelu" else 3)
    for place in range(0, 40, 3):
        x = np.linspace(-4, 4, 40, dtype="f4")
        x[place] = 1e30 if place % 2 else -np.inf
        x.view("u4")[(place + 8) % 40] = 0x7F800001  # a NaN that signals: an Arm's least and largest may lose the other
        got = compute(CpuEngine(), tree, [x], np.zeros(40, "f4"))
        assert_same(got, compute(ReferenceEngine(), tree, [x], np.zeros(40, "f4")), name)
    assert find_rare(list(walk(expand(ex.call("log", X))))) is None


def _steps(x: Array) -> Array:
    """How many floats lie between 0 and each."""
    bits = x.view("i4").astype("i8")
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def test_one_kernel_serves_all_numbers_of_the_users() -> None:
    x, y = numbers((4, 4), F32), np.zeros((4, 4), "f4")
    programs = [CpuEngine().compile(mapped(X * ex.given(k, F32) + X, [x], y)) for k in (2.0, -0.0, 0.5)]
    words = [program.record.words for program in programs if isinstance(program, KernelProgram)]
    assert len(words) == 3
    assert len({own[ROWS.word("line")] for own in words}) == 1
    for t in INTEGERS:
        a, b = numbers(9, t), np.zeros(9, t.dtype)
        check(load(0, t) + ex.given(int(np.iinfo(t.dtype).max), t), [a], b)


COLD = """
import sys, numpy as np, anydml as dml
x = np.ones((4, 4), np.float32)
dml.multiply(x, x, device="cpu")
print([name for name in ("anydml.engines.cpu.codegen.translate", "torch", "triton") if name in sys.modules])
"""


def test_maps_are_compiled_without_the_translator(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANYDML_CHECK_BOUNDS", raising=False)  # proofs ask for more
    monkeypatch.setenv("ANYDML_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True, check=True)  # noqa: S603 - a Python of ours
    assert done.stdout.strip() == "[]"
    assert [path.suffix for path in tmp_path.glob("map-*")] == [".o"]


def test_trees_of_any_depth_are_written_pickled_and_copied() -> None:
    deep = load(0, F32)
    for i in range(3000):
        deep = where(deep < 0.0, -deep, deep + i)
    assert pickle.loads(pickle.dumps(deep)) is deep  # noqa: S301 - our own
    assert copy.copy(deep) is deep
    assert copy.deepcopy(deep) is deep
    assert repr(deep).count("where") == 3000
