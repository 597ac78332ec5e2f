"""The webgpu engine's running sums and products against the reference: bit for bit where sums are exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agreement import sum_error
from anydml.core.enums import DataType
from anydml.engines.webgpu import why_missing
from anydml.ir.verbs import Scan
from anydml.ir.views import View
from on_webgpu import FRAME, agree, laid_out, packed

if TYPE_CHECKING:
    from random import Random

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
Array = np.ndarray[Any, Any]
F32, F16, F64 = DataType.FLOAT32, DataType.FLOAT16, DataType.FLOAT64
TYPES = (F32, F16, DataType.INT32, DataType.UINT32, DataType.INT64, DataType.UINT64, DataType.UINT8)
RANDOMS = st.randoms(use_true_random=False)


def numbers(random: Random, of: DataType, size: int, function: str = "sum") -> Array:
    rng = np.random.default_rng(random.getrandbits(32))
    if function == "product":
        found = rng.choice(np.array([1, 1, 1, 1, 2, 3, 0.5 if of.is_float else 5]), size)
        return np.asarray(found, of.dtype)
    return np.asarray(rng.integers(-4 if of.is_signed or of.is_float else 0, 5, size)).astype(of.dtype)


@settings(deadline=None, max_examples=60)
@given(RANDOMS)
def test_random_scans(random: Random) -> None:
    """Lines of every length and layout; whole numbers, whose sums are exact."""
    of = random.choice(TYPES)
    function: Literal["sum", "product"] = random.choice(("sum", "sum", "product"))
    sizes = [random.choice((1, 2, 3, 8)) for _ in range(random.randint(0, 2))]
    axis = random.randint(0, len(sizes))
    sizes.insert(axis, random.choice((1, 5, 63, 64, 255, 300, 1024, 4096, 5000, 9004)))
    source, target = laid_out(random, "x", of, tuple(sizes)), laid_out(random, "y", of, tuple(sizes))
    verb = Scan((source,), target, axis, function, random.random() < 0.5, random.random() < 0.5)
    arrays = {}
    for view in (source, target):
        last = view.offset + sum(max(s, 0) * (n - 1) for n, s in zip(view.sizes, view.strides, strict=True))
        arrays[view.tensor] = numbers(random, of, last + 1 + FRAME, function)
    agree(verb, arrays, offset=random.choice((0, 0, 4, 16)), near=function == "product")


@pytest.mark.parametrize("of", [F32, F16])
@pytest.mark.parametrize("size", [300, 20_000])
def test_sums_of_any_floats(of: DataType, size: int) -> None:
    """Rounded once: FLOAT16 is exact."""
    rng = np.random.default_rng(3)
    x = (rng.normal(size=size) * 2.0 ** rng.integers(-8, 8, size)).astype(of.dtype)
    verb = Scan((packed("x", of, (size,)),), packed("y", of, (size,)), 0, "sum", reverse=False, exclusive=False)
    arrays = {"x": x, "y": np.zeros_like(x)}
    if of is F16:
        agree(verb, arrays)
    else:
        agree(verb, arrays, near=True, error=sum_error(x) + float(np.abs(x).sum()) * 2.0**-44)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_goes_on(number: float) -> None:
    x = np.ones(5000, np.float32)
    x[1234] = number
    verb = Scan((packed("x", F32, (5000,)),), packed("y", F32, (5000,)), 0, "sum", reverse=False, exclusive=False)
    agree(verb, {"x": x, "y": np.zeros_like(x)})


@pytest.mark.parametrize("of", [F32, F16, DataType.INT64, DataType.UINT32])
@pytest.mark.parametrize("size", [7, 300, 9000])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_blocks_that_go_on_from_one_another(of: DataType, size: int, flags: int) -> None:
    tally = F64 if of.is_float else of
    rng = np.random.default_rng(size)
    x = rng.integers(-4 if of.is_signed else 0, 5, 3 * size).astype(of.dtype)
    before = View("b", tally, (3, size), (1, 0))
    before = View("b", tally, (3, 1), (1, 0))
    after = View("a", tally, (3, 1), (1, 0))
    verb = Scan(
        (packed("x", of, (3, size)), before), packed("y", of, (3, size)), 1, "sum",
        reverse=bool(flags & 1), exclusive=bool(flags & 2), after=after,
    )  # fmt: skip
    start = np.array([100, 0, 7] if not of.is_signed else [100.0, -3, 0]).astype(tally.dtype)
    agree(verb, {"x": x, "y": np.zeros_like(x), "b": start, "a": np.zeros(3, tally.dtype)})


def test_in_place() -> None:
    x = np.arange(6000, dtype=np.int32)
    for size in (50, 6000):
        view = packed("x", DataType.INT32, (6000 // size, size))
        agree(Scan((view,), view, 1, "sum", reverse=False, exclusive=True), {"x": x})


@pytest.mark.parametrize("of", [F32, F16])
@pytest.mark.parametrize("size", [7, 64, 300, 9000])
@pytest.mark.parametrize("flags", [0, 1, 2, 3])
def test_sums_of_negative_zeros_are_negative(of: DataType, size: int, flags: int) -> None:
    """But for what comes before the first."""
    x = np.full((3, size), -0.0, of.dtype)
    x[1, size // 2 :] = 1
    views = packed("x", of, x.shape), packed("y", of, x.shape)
    verb = Scan(views[:1], views[1], 1, "sum", reverse=bool(flags & 1), exclusive=bool(flags & 2))
    agree(verb, {"x": x.reshape(-1), "y": np.ones(3 * size, of.dtype)})
