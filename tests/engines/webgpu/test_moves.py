"""The webgpu engine's scatters and sorts against the reference, bit for bit, with all memory around them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml.core.enums import DataType
from anydml.engines.webgpu import why_missing
from anydml.ir.verbs import IndexFault, Scatter, Sort
from on_webgpu import TYPES, agree, carried_out, contents, laid_out, packed

if TYPE_CHECKING:
    from random import Random

    from anydml.ir.views import View

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
U32, I64 = DataType.UINT32, DataType.INT64
RANDOMS = st.randoms(use_true_random=False)


@settings(deadline=None, max_examples=40)
@given(RANDOMS)
def test_random_scatters(random: Random) -> None:
    """Few tuples and many, which meet, count from the end and lie outside, where no check raises."""
    of, kind = random.choice((*TYPES, DataType.FLOAT64)), random.choice((I64, DataType.INT32, U32))
    batch = tuple(random.choice((1, 2, 3)) for _ in range(random.randint(0, 1)))
    tuples = tuple(random.choice((1, 2, 5, 40)) for _ in range(random.randint(1, 2)))
    indexed = tuple(random.choice((1, 3, 7)) for _ in range(random.randint(1, 2)))
    block = tuple(random.choice((1, 2, 4, 12, 64)) for _ in range(random.randint(0, 2)))
    source, target = (laid_out(random, name, of, (*batch, *indexed, *block)) for name in "xy")
    updates = laid_out(random, "u", of, (*batch, *tuples, *block), repeats=True)
    indices = packed("i", kind, (*batch, *tuples, len(indexed)))
    plain = Scatter((source, indices, updates), target, len(batch))
    is_checked = random.random() < 0.5
    verb = Scatter((source, indices, updates), target, len(batch), checks=(plain.check,)) if is_checked else plain
    arrays = contents(random, source, updates, target)
    count = math.prod(indices.sizes)
    rng, most = np.random.default_rng(random.getrandbits(32)), np.resize(np.array(indexed), count)
    low = -1 if kind.is_signed else 0
    numbers = rng.integers(low * most, most) if is_checked else rng.integers(9 * low, 9, count)
    arrays["i"] = numbers.astype(kind.dtype)
    agree(verb, arrays, offset=random.choice((0, 0, 4)))


@pytest.mark.parametrize("count", [3, 100])
def test_nothing_is_written_where_an_index_lies_outside(count: int) -> None:
    x, updates = np.zeros(50, np.float32), np.ones(count, np.float32)
    indices = np.arange(count) % 50
    indices[count // 2] = 50
    of = DataType.FLOAT32
    views: tuple[View, ...] = (packed("x", of, (50,)), packed("i", I64, (count, 1)), packed("u", of, (count,)))
    plain = Scatter(views, packed("x", of, (50,)), 0)
    verb = Scatter(views, packed("x", of, (50,)), 0, checks=(plain.check,))
    with pytest.raises(IndexFault) as caught:
        carried_out(verb, {"x": x, "i": indices, "u": updates})
    assert caught.value.position == (count // 2,)


@settings(deadline=None, max_examples=40)
@given(RANDOMS)
def test_random_sorts(random: Random) -> None:
    """Lines of every length, with equal numbers, infinities and NaN; all places, or the first few."""
    of = random.choice(TYPES)
    sizes = [random.choice((1, 2, 5)) for _ in range(random.randint(0, 2))]
    axis = random.randint(0, len(sizes))
    length = random.choice((1, 2, 7, 64, 65, 100, 1024, 1025, 3000, 5000))
    room = random.choice((length, length, 1, min(length, 5), min(length, 1500)))
    source = laid_out(random, "x", of, (*sizes[:axis], length, *sizes[axis:]), repeats=True)
    target = laid_out(random, "y", U32, (*sizes[:axis], room, *sizes[axis:]))
    style = random.choice(("small", "normal", "special", "wild"))
    agree(Sort((source,), target, axis, random.random() < 0.5), contents(random, source, target, style=style))


@pytest.mark.parametrize("length", [2049, 3000, 5000])
@pytest.mark.parametrize("room", [1, 1500, 2049])
def test_lines_of_odd_numbers_of_runs(length: int, room: int) -> None:
    """Side by side in scratch memory, equal numbers among them."""
    x = np.random.default_rng(length).integers(0, 50, 3 * length).astype(np.int32)
    source, target = packed("x", DataType.INT32, (3, length)), packed("y", U32, (3, room))
    agree(Sort((source,), target, 1, largest=True), {"x": x, "y": np.zeros(3 * room + 64, np.uint32)})
