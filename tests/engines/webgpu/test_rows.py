"""The webgpu engine's reductions against the reference: rows that fit in registers, and longer ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anydml.core.enums import DataType
from anydml.engines.webgpu import why_missing
from anydml.engines.webgpu.rows import reduce as rows
from anydml.ir.expressions import Expr, call, coordinate, fold, load, maximum, sqrt
from anydml.ir.verbs import Reduce, Write
from anydml.ir.views import View
from on_webgpu import FRAME, agree, laid_out, packed

if TYPE_CHECKING:
    from random import Random

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F32, F16, F64, I64, I32, U8 = (DataType[n] for n in ("FLOAT32", "FLOAT16", "FLOAT64", "INT64", "INT32", "UINT8"))
LENGTHS = (1, 3, 16, 17, 20, 64, 100, 127, 260, 1000, 1024, 1025, 2052)
LONG = (4096, 4100, 5000, 8192, 9000, 9001)
RANDOMS = st.randoms(use_true_random=False)
CHECKED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(autouse=True, params=[2**17, 1], ids=["few", "many"])
def _rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With invocations of few elements, and of as many as they may have."""
    monkeypatch.setattr(rows, "BUSY", request.param)


def drawn(random: Random, of: DataType, sizes: tuple[int, ...], *names: str) -> list[View]:
    """Views of which some lie as quads do, and some as they like."""
    if random.random() < 0.5:
        return [packed(name, of, sizes, random.choice((0, 0, 4, 1))) for name in names]
    return [laid_out(random, name, of, sizes, repeats=name != "y") for name in names]


def whole_numbers(random: Random, *views: View) -> dict[str, np.ndarray]:
    """Numbers of which every sum is exact."""
    rng, found = np.random.default_rng(random.getrandbits(32)), {}
    for view in views:
        last = view.offset + sum(max(s, 0) * (n - 1) for n, s in zip(view.sizes, view.strides, strict=True))
        low = -4 if view.data_type.is_signed or view.data_type.is_float else 0
        found[view.tensor] = rng.integers(low, 5, last + 1 + FRAME).astype(view.data_type.dtype)
    return found


def of_rows(random: Random, x: Expr) -> tuple[Expr, bool]:
    """A fold of each kind, or what depends on one, in numbers that are exact; whether there is one for each element."""
    largest, total = fold("max", x), fold("sum", x)
    by_row = (total, largest, fold("sum", x - largest), fold("min", x) + total, fold("sum", maximum(x, 0) * x))
    each = (
        x - largest,
        x * 2 + total,
        total + coordinate(1).to(DataType.INT32).to(x.type or F32),
        fold("sum", x * x) - x,
    )
    by_element = random.random() < 0.5
    return random.choice(each if by_element else by_row), by_element


@settings(CHECKED, max_examples=20)
@given(RANDOMS)
def test_random_rows(random: Random) -> None:
    of = random.choice((F32, F32, F32, F16, I32, I64, U8))
    length = random.choice(LENGTHS if random.random() < 0.75 else LONG)
    sizes = (random.choice((1, 2, 5, 33)), length)
    x, y = drawn(random, of, sizes, "x", "y")
    to = F32 if of is F16 else of if of.size_in_bytes >= 4 else I32
    value, by_element = of_rows(random, load(0, of).to(to))
    y = View("y", to, sizes, y.strides, y.offset) if by_element else packed("y", to, (sizes[0], 1))
    arrays = whole_numbers(random, x, y)
    agree(Reduce((x,), y, value, 1, (length,)), arrays, offset=random.choice((0, 0, 4, 16)))


@pytest.mark.parametrize("length", [1, 17, 1000, 1026, 4096, 8192, 9000])
@pytest.mark.parametrize("of", [F32, F16])
def test_softmax_and_norms(length: int, of: DataType) -> None:
    """Within what the order of sums explains; a row and a column of factors beside."""
    sizes = (3, length)
    rng = np.random.default_rng(length)
    arrays = {name: rng.normal(size=3 * length).astype(of.dtype) for name in "xyz"}
    arrays |= {name: rng.normal(size=length).astype(of.dtype) for name in "ab"}
    x, y, z = (packed(name, of, sizes) for name in "xyz")
    a, b = (View(name, of, sizes, (0, 1)) for name in "ab")
    element, scale, bias = (load(k, of).to(F32) for k in range(3))
    power = call("exp", element - fold("max", element))
    far = 2.0 ** (-8 if of is F16 else -18)
    agree(Reduce((x,), y, (power / fold("sum", power)).to(of), 1, (length,)), arrays, near=True, error=far)
    apart = element - fold("sum", element) / float(length)
    norm = apart / sqrt(fold("sum", apart * apart) / float(length) + 1e-5) * scale + bias
    agree(Reduce((x, a, b), y, norm.to(of), 1, (length,)), arrays, near=True, error=4 * far)
    both = (Write(z, (element + fold("max", element)).to(of)),)
    agree(Reduce((x,), y, (-element).to(of), 1, (length,), also=both), arrays)
    in_place = (packed("x", of, sizes),)
    agree(Reduce(in_place, x, (element - fold("max", element)).to(of), 1, (length,)), arrays)


def test_more_than_registers_hold() -> None:
    """Each pass reads its row again."""
    length = 4096
    views = tuple(packed(f"x{k}", F32, (2, length)) for k in range(6))
    loads = [load(k, F32) for k in range(6)]
    total = fold("max", loads[0])
    for one in loads[1:]:
        total = total + fold("max", one)
    value = total
    for one in loads:
        value = value + one
    arrays = {view.tensor: np.arange(2 * length, dtype=np.float32) % (7 + k) for k, view in enumerate(views)}
    arrays["y"] = np.zeros(2 * length, np.float32)
    agree(Reduce(views, packed("y", F32, (2, length)), value, 1, (length,)), arrays)


@pytest.mark.parametrize("length", [100, 5000])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_what_is_no_number(length: int, number: float) -> None:
    x = np.ones(3 * length, np.float32)
    x[length + 77] = number
    views = packed("x", F32, (3, length)), packed("y", F32, (3, 1))
    for name in ("max", "min", "sum", "product"):
        verb = Reduce(views[:1], views[1], fold(name, load(0, F32)), 1, (length,))
        agree(verb, {"x": x, "y": np.zeros(3, np.float32)})
