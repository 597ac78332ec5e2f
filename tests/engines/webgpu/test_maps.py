"""The webgpu engine's maps against the reference, bit for bit, with all memory around them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anydml.core.enums import DataType
from anydml.core.errors import UnsupportedError
from anydml.engines.webgpu import why_missing
from anydml.engines.webgpu.rows import map as maps
from anydml.ir.expressions import Expr, const, coordinate, load, maximum
from anydml.ir.fetches import gathered, reversal
from anydml.ir.patterns import copy_of, filled
from anydml.ir.verbs import Map, Write
from anydml.ir.views import View
from on_webgpu import TYPES, agree, contents, laid_out, packed, webgpu

if TYPE_CHECKING:
    from random import Random


WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F32, F16, U8, I64 = DataType.FLOAT32, DataType.FLOAT16, DataType.UINT8, DataType.INT64
SIZES = (1, 2, 3, 4, 5, 8, 16, 31, 32, 40, 64, 300)
RANDOMS = st.randoms(use_true_random=False)
CHECKED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=[2**20, 1], ids=["few", "many"])
def _steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a step for each invocation, and with several."""
    monkeypatch.setattr(maps, "MANY", request.param)


def some_sizes(random: Random, most: int = 20_000) -> tuple[int, ...]:
    while True:
        sizes = tuple(random.choice(SIZES) for _ in range(random.randint(1, 4)))
        if np.prod(sizes) <= most:
            return sizes


def value_of(random: Random, sources: list[View], to: DataType) -> Expr:
    """An expression that has one right answer, of all sources and perhaps of a coordinate."""
    leaves = [load(k, view.data_type) for k, view in enumerate(sources)]
    if len(leaves) == 1 and leaves[0].type is to and random.random() < 0.5:
        return leaves[0]
    kind = to if not to.is_float else F32
    parts = [leaf.to(kind) for leaf in leaves]
    if random.random() < 0.2:
        parts.append(coordinate(random.randrange(len(sources[0].sizes))).to(kind))
    found = parts[0]
    for part in parts[1:]:
        found = found + part if random.random() < 0.7 else maximum(found, part)
    if random.random() < 0.3:
        found = found * const(2, kind)
    return found.to(to)


@settings(CHECKED, max_examples=40)
@given(RANDOMS)
def test_random_maps(random: Random) -> None:
    sizes = some_sizes(random)
    of = [random.choice(TYPES) for _ in range(random.randint(1, 3))]
    if random.random() < 0.5:
        of = [of[0]] * len(of)
    sources = [laid_out(random, f"x{k}", kind, sizes, repeats=True) for k, kind in enumerate(of)]
    names = [f"y{k}" for k in range(random.choice((1, 1, 2)))]
    targets = [laid_out(random, name, random.choice((of[0], *TYPES)), sizes) for name in names]
    values = [value_of(random, sources, target.data_type) for target in targets]
    also = tuple(Write(target, value) for target, value in zip(targets[1:], values[1:], strict=True))
    verb = Map(tuple(sources), targets[0], values[0], also=also)
    agree(verb, contents(random, *sources, *targets), offset=random.choice((0, 0, 0, 4, 8, 16)))


@settings(CHECKED, max_examples=25)
@given(RANDOMS)
def test_random_copies(random: Random) -> None:
    sizes, of = some_sizes(random, 100_000), random.choice((*TYPES, DataType.FLOAT64))
    source, target = laid_out(random, "x", of, sizes, repeats=True), laid_out(random, "y", of, sizes)
    agree(copy_of(source, target), contents(random, source, target), offset=random.choice((0, 0, 4, 16)))


@pytest.mark.parametrize("of", TYPES)
@pytest.mark.parametrize("count", [1, 1001, 4098])
def test_rows_of_every_length(of: DataType, count: int) -> None:
    """Whole steps of 16 bytes, and what is left."""
    random = np.random.default_rng(count)
    a, b = (random.integers(0, 100, count).astype(of.dtype) for _ in range(2))
    sources = (packed("a", of, (count,)), packed("b", of, (count,)))
    kind = F32 if of.is_float else of
    total = (load(0, of).to(kind) + load(1, of).to(kind)).to(of)
    verb = Map(sources, packed("y", of, (count,)), total)
    agree(verb, {"a": a, "b": b, "y": np.zeros(count + 32, of.dtype)})
    in_place = Map(sources, packed("a", of, (count,)), total)
    agree(in_place, {"a": a, "b": b})


@pytest.mark.parametrize("to", [F32, F16, U8, I64, DataType.INT16])
@pytest.mark.parametrize("of", [F32, F16, U8, I64, DataType.INT8])
@pytest.mark.parametrize("sizes", [(2048,), (2049,), (3, 16, 20)])
def test_conversions_of_rows(of: DataType, to: DataType, sizes: tuple[int, ...]) -> None:
    """Of one width, and of several: words of the narrow, with one element for each row beside."""
    count = math.prod(sizes)
    x, z = (np.random.default_rng(k).integers(0, 100, count + 8).astype(of.dtype) for k in range(2))
    row = View("z", of, sizes, (1, *(0,) * (len(sizes) - 1)), 3)
    value = maximum(load(0, of).to(F32), load(1, of).to(F32)).to(to)
    verb = Map((packed("x", of, sizes), row), packed("y", to, sizes), value)
    agree(verb, {"x": x, "z": z, "y": np.zeros(count + 32, to.dtype)})


@pytest.mark.parametrize("of", TYPES)
def test_fills(of: DataType) -> None:
    for sizes in ((5,), (1001,), (3, 64), (2, 1000)):
        agree(filled(packed("y", of, sizes, 8), 3, 1 if of.is_float else 2), {"y": np.zeros(4000, of.dtype)})
        agree(filled(packed("y", of, sizes), 1, 0), {"y": np.zeros(4000, of.dtype)})


@settings(CHECKED, max_examples=25)
@given(RANDOMS)
def test_random_gathers(random: Random) -> None:
    """Tuples of batches, by indices that count from the end and that lie outside."""
    of, kind = random.choice((*TYPES, DataType.FLOAT64)), random.choice((I64, DataType.INT32, DataType.UINT32))
    batch = tuple(random.choice((1, 2, 3)) for _ in range(random.randint(0, 2)))
    tuples = tuple(random.choice((1, 2, 5, 33, 301)) for _ in range(random.randint(0, 2)))
    indexed = tuple(random.choice((1, 3, 7)) for _ in range(random.randint(1, 2)))
    block = tuple(random.choice((1, 2, 4, 12, 64, 260)) for _ in range(random.randint(0, 2)))
    source = laid_out(random, "x", of, (*batch, *indexed, *block))
    target = laid_out(random, "y", of, (*batch, *tuples, *block))
    indices = packed("i", kind, (*batch, *tuples, len(indexed)))
    verb = gathered(source, indices, target, len(batch), clamp=random.random() < 0.5)
    arrays = contents(random, source, target)
    clamped, low = not verb.checks, 0 if not kind.is_signed else -1
    count = max(int(np.prod(indices.sizes)), 1)
    rng = np.random.default_rng(random.getrandbits(32))
    most = np.resize(np.array(indexed), count)
    numbers = rng.integers(-9 if low else 0, 9, count) if clamped else rng.integers(low * most, most)
    arrays["i"] = numbers.astype(kind.dtype)
    agree(verb, arrays)


@pytest.mark.parametrize("of", [F16, U8])
def test_one_narrow_element_is_gathered(of: DataType) -> None:
    indices = packed("i", DataType.UINT32, (1,))
    verb = gathered(packed("x", of, (2,)), indices, packed("y", of, ()), 0, clamp=True)
    agree(verb, {"x": np.array([7, 3], of.dtype), "i": np.array([1], np.uint32), "y": np.zeros(8, of.dtype)})


@settings(CHECKED, max_examples=15)
@given(RANDOMS)
def test_random_reversals(random: Random) -> None:
    sizes, of = some_sizes(random), random.choice(TYPES)
    axis = random.randrange(len(sizes))
    source, target = laid_out(random, "x", of, sizes), laid_out(random, "y", of, sizes)
    lengths = packed("n", DataType.UINT32, tuple(1 if k == axis else n for k, n in enumerate(sizes)))
    arrays = contents(random, source, target)
    count = int(np.prod(lengths.sizes))
    arrays["n"] = np.array([random.randrange(sizes[axis] + 3) for _ in range(count)], np.uint32)
    agree(reversal(source, lengths, target, axis), arrays)


@pytest.mark.parametrize("of", [F32, F16, U8, I64, DataType.FLOAT64])
@pytest.mark.parametrize("sizes", [(64, 32), (3, 100, 68), (2, 36, 20, 3), (40, 2, 50)])
@pytest.mark.parametrize("offset", [0, 8])
def test_transposed_copies(of: DataType, sizes: tuple[int, ...], offset: int) -> None:
    """Each dimension of the source as the inner one, whole tiles and parts of them."""
    x = np.random.default_rng(2).integers(0, 100, np.prod(sizes) + offset).astype(of.dtype)
    target = packed("y", of, sizes, offset)
    for k in range(len(sizes) - 1):
        order = [n for n in range(len(sizes)) if n != k] + [k]
        held = packed("x", of, tuple(sizes[n] for n in order), offset)
        agree(copy_of(held.pick([order.index(n) for n in range(len(sizes))]), target), {"x": x, "y": np.zeros_like(x)})


@pytest.mark.parametrize("of", [F32, F16, I64])
def test_tensors_past_the_largest_binding(of: DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, each with ranges of its own."""
    monkeypatch.setattr(webgpu()._memory.gpu, "largest_binding", 65536)
    x, sizes = np.random.default_rng(3).integers(0, 100, 90_000).astype(of.dtype), (300, 300)
    source, target = packed("x", of, sizes), packed("y", of, sizes)
    arrays = {"x": x, "y": np.zeros_like(x)}
    agree(copy_of(source, target), arrays)
    agree(copy_of(source.pick((1, 0)), target), arrays)
    kind = F32 if of.is_float else of
    agree(Map((source,), target, (load(0, of).to(kind) + coordinate(0).to(kind)).to(of)), arrays)
    indices = packed("i", I64, (2, 1))
    verb = gathered(source, indices, packed("y", of, (2, 300)), 0, clamp=True)
    with pytest.raises(UnsupportedError, match=r"of x are read at computed indices, and a kernel binds .* at most"):
        agree(verb, {**arrays, "i": np.zeros(2, np.int64)})


def test_more_tensors_than_can_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webgpu()._memory.gpu, "most_bindings", 3)
    views = [packed(name, F32, (100,)) for name in "abxy"]
    a, b, x, y = views
    arrays = {name: np.arange(100, dtype=np.float32) for name in "abxy"}
    total = load(0, F32) + load(1, F32)
    agree(Map((a, b), x, total, also=(Write(y, total * 2.0),)), arrays)
    with pytest.raises(UnsupportedError, match="a is written over, and 3 kernels read it"):
        agree(Map((a, b), a, total, also=(Write(x, total), Write(y, total))), arrays)
    with pytest.raises(UnsupportedError, match="a kernel takes 4 tensors, of which 3 are bound at most"):
        agree(Map((a, b, y), x, total + load(2, F32)), arrays)
