"""The cuda engine's products of matrices against the reference: on a GPU, or interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agreement import framed, padded, run, values, view
from anydml.core.enums import DataType
from anydml.engines.cuda import CudaEngine, is_interpreted
from anydml.engines.reference import ReferenceEngine
from anydml.ir import expressions as ex
from anydml.ir.blocked_weights import number_in
from anydml.ir.verbs import Reduce
from places import why_not_interpreted

pytestmark = pytest.mark.check_bounds

GemmProgram: Any = pytest.importorskip(
    "anydml.engines.cuda.gemm.gemm",
    reason="Triton is not installed: make test EXTRAS='torch triton'",
    exc_type=ImportError,
).GemmProgram
from anydml.engines.cuda.gemm import gemm as product_programs  # noqa: E402 - it needs Triton
from anydml.engines.cuda.gemm.gemm import TINY, GemmTile  # noqa: E402 - it needs Triton
from anydml.engines.cuda.quant.int4_mma import Int4MmaProgram  # noqa: E402 - it needs Triton
from anydml.engines.cuda.quant.weight_only import WeightOnlyProgram  # noqa: E402 - it needs Triton

if reason := why_not_interpreted():
    pytest.skip(reason, allow_module_level=True)

Array = np.ndarray[Any, Any]
CUDA, REFERENCE = CudaEngine(), ReferenceEngine()
F16, F32, I8, U8, I32 = (DataType(name) for name in ("float16", "float32", "int8", "uint8", "int32"))
WIDE = {F16: F32, F32: F32, I8: I32}
RTOL = {F16: 2e-3, F32: 1e-6, I8: 0.0}
SIZES = [(17, 5, 33), (1, 20, 16), (32, 3, 8)] if is_interpreted() else [
    (130, 200, 300), (1, 4096, 520), (512, 768, 1024), (300, 5, 64), (1024, 1024, 4096), (40, 40, 7),
]  # fmt: skip


def spread(x: Array, *places: int, rank: int) -> Array:
    """A matrix, or several, at some dimensions of a walk."""
    order = [slice(None) if k in places else None for k in range(rank)]
    return x[tuple(order)]


def product(
    a: Array, b: Array, target: Array, *others: Array, finish: Any = lambda total: total, engine: Any = CUDA
) -> Array:
    """a [..., m, k] · b [..., k, n], with whatever is made of each sum; others are of the target's sizes."""
    kind = DataType(a.dtype)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1], a.shape[-1])
    left = np.broadcast_to(a[..., :, None, :], shape)
    right = np.broadcast_to(np.swapaxes(b, -1, -2)[..., None, :, :], shape)
    more = [np.broadcast_to(x[..., None], shape) for x in others]
    named = {f"source{slot}": x for slot, x in enumerate((left, right, *more))}
    x, y = (ex.load(slot, kind).to(WIDE[kind]) for slot in (0, 1))
    loads = [ex.load(slot, DataType(x.dtype)) for slot, x in enumerate(more, 2)]
    views = tuple(view(name, array) for name, array in named.items())
    whole = Reduce(views, view("target", target[..., None]), finish(ex.fold("sum", x * y), *loads), 1)
    if engine is CUDA:
        assert isinstance(CUDA.compile(whole), GemmProgram)
    return run(engine, whole, **named, target=target[..., None])[..., 0]


def agree(a: Array, b: Array, target: Array, *others: Array, finish: Any = None) -> None:
    """Where nothing follows the sums, float64 is asked: the reference engine takes minutes for large matrices."""
    left, right = a.astype("float64"), b.astype("float64")
    if finish is None:
        got, wanted = product(a, b, target), left @ right
    else:
        got, wanted = (product(a, b, target, *others, finish=finish, engine=engine) for engine in (CUDA, REFERENCE))
    rtol = RTOL[DataType(a.dtype)]
    bound = rtol * np.abs(left) @ np.abs(right) if rtol else 0
    assert (np.abs(got.astype("float64") - wanted.astype("float64")) <= bound + 1e-3 * bool(rtol) * rtol).all()


def numbers(shape: tuple[int, ...], of: DataType, seed: int = 0) -> Array:
    return values(shape, of.dtype.name, seed)


@pytest.mark.parametrize("of", [F16, F32, I8])
@pytest.mark.parametrize("sizes", SIZES)
def test_products(of: DataType, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    a, b = numbers((m, k), of), numbers((k, n), of, 1)
    room = np.zeros((m, n), WIDE[of].dtype)
    for left in (a, np.asfortranarray(a)):
        for right in (b, np.asfortranarray(b)):
            agree(left, right, framed(room))
    agree(a[::-1, ::-1], b[:, ::-1], padded(room))


@pytest.mark.parametrize("has_more", [False, True], ids=["", "two parts"])
def test_what_follows_is_computed_of_each_sum(has_more: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where tiles have two parts, whose columns together are no power of two."""
    m, n, k = (17, 40, 33) if is_interpreted() and has_more else SIZES[0]
    if has_more:
        shape = TINY._replace(more=16) if is_interpreted() else GemmTile(64, 64, 64, 4, 3, more=32)
        monkeypatch.setattr(product_programs, "tile_of", lambda *_, **__: shape)
    a, b, c = numbers((m, k), F16), numbers((k, n), F16, 1), numbers((m, n), F16, 2)
    bias = np.broadcast_to(numbers((1, n), F32, 3), (m, n))
    each = np.broadcast_to(numbers((m, 1), F32, 4), (m, n))

    def finish(total: ex.Expr, c: ex.Expr, bias: ex.Expr, each: ex.Expr) -> ex.Expr:
        found = ex.maximum(total * ex.given(0.5, F32) + bias, 0.0) * each + c.to(F32)
        return (found + ex.coordinate(1).to(F32) * 0.125).to(F16)

    agree(a, b, framed(c), c, bias, each, finish=finish)


@pytest.mark.parametrize("of", [F16, F32])
def test_several_matrices(of: DataType) -> None:
    m, n, k = (65, 18, 20) if is_interpreted() else (256, 136, 192)  # fewer rows go as windows do
    a, b = numbers((2, 3, m, k), of), numbers((2, 3, k, n), of, 1)
    target = framed(np.zeros((2, 3, m, n), "float32"))
    agree(a, b, target)
    agree(a, b[:1, :1], target)
    agree(a, b[:1], target)
    a, b = a.transpose(1, 0, 2, 3), np.ascontiguousarray(b.transpose(1, 0, 2, 3))
    agree(a, b, framed(np.zeros((3, 2, m, n), "float32")))


@pytest.mark.parametrize("of", [F16, F32])
def test_what_is_no_number_stays_where_it_belongs(of: DataType) -> None:
    a, b = numbers((20, 40), of), numbers((40, 24), of, 1)
    a[3, 5], a[7, 1], b[2, 9] = np.inf, np.nan, -np.inf
    got = product(a, b, framed(np.zeros((20, 24), "float32")))
    wanted = product(a, b, framed(np.zeros((20, 24), "float32")), engine=REFERENCE)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(wanted))


def test_float32_is_as_precise_as_ieee() -> None:
    m, n, k = (16, 16, 64) if is_interpreted() else (512, 512, 4096)
    a, b = numbers((m, k), F32), numbers((k, n), F32, 1)
    got = product(a, b, framed(np.zeros((m, n), "float32")))
    exact = a.astype("float64") @ b.astype("float64")
    error = np.abs(got - exact).max() / np.abs(exact).max()
    assert error <= 2e-6


def test_factors_that_are_computed() -> None:
    """Differences of bytes, exactly; and numbers that are scaled before."""
    m, n, k = SIZES[0]
    u8 = DataType("uint8")
    a, b = numbers((m, k), u8), numbers((k, n), I8, 1)
    shape = (m, n, k)
    left, right = np.broadcast_to(a[:, None], shape), np.broadcast_to(b.T[None], shape)
    zeros, scales = np.broadcast_to(numbers((n,), I8, 2)[:, None], shape), values((n, k), "float32", 3)
    first = np.broadcast_to(np.uint8(7), shape)
    exact = (ex.load(0, u8).to(I32) - ex.load(2, u8).to(I32)) * (ex.load(1, I8).to(I32) - ex.load(3, I8).to(I32))
    scaled = ex.load(0, u8).to(F32) * (ex.load(1, I8).to(F32) * ex.maximum(ex.load(4, F32), 0.25))
    named = {"source0": left, "source1": right, "source2": first, "source3": zeros,
             "source4": np.broadcast_to(scales[None], shape)}  # fmt: skip
    for value, kind in ((exact, I32), (scaled, F32)):
        target = framed(np.zeros((m, n), kind.dtype))[..., None]
        views = tuple(view(name, x) for name, x in named.items())
        whole = Reduce(views, view("target", target), ex.fold("sum", value), 1)
        assert isinstance(CUDA.compile(whole), GemmProgram)
        got, wanted = (run(engine, whole, **named, target=target) for engine in (CUDA, REFERENCE))
        off = 0 if kind is I32 else 1e-6 * 255 * 128 * k * np.abs(scales).max()
        np.testing.assert_allclose(got, wanted, rtol=0, atol=off)


@pytest.mark.parametrize(
    ("data_type", "rows", "kind", "blocks"),
    [("uint4", 1, F32, 3), ("int4", 4, F16, 3), ("uint8 by block", 3, F32, 3), ("int8", 2, F16, 3),
     ("uint4", 8, F32, 3), ("uint4", 13, F16, 8), ("uint8", 9, F16, 1), ("uint4 by block", 10, F16, 3)],
)  # fmt: skip
def test_weights_of_few_bits(data_type: str, rows: int, kind: DataType, blocks: int) -> None:
    """Scales for blocks, zero points of one number or of blocks, FLOAT32 and FLOAT16, and what follows the sum."""
    columns, blocks = (6, blocks) if is_interpreted() else (1000, 13 * blocks)
    multiply_few_bits(data_type, rows, kind, (columns, blocks))


@pytest.mark.parametrize(
    ("data_type", "rows", "kind", "blocks", "block"),
    [("uint4", 1, F16, 4, 32), ("int4", 8, F16, 6, 32), ("uint4 by block", 5, F16, 12, 32), ("uint4", 3, F32, 8, 32),
     ("int4", 13, F16, 20, 32), ("uint4 by block", 4, F32, 6, 32), ("uint4 by block", 2, F16, 5, 128),
     ("int4", 7, F16, 2, 64), ("uint4", 7, F32, 3, 256), ("uint4", 2, F16, 1, 192), ("uint4 by block", 3, F32, 2, 64)],
)  # fmt: skip
@pytest.mark.parametrize("is_aligned", [True, False])
def test_prepacked_weights_of_4_bits(
    data_type: str, rows: int, kind: DataType, blocks: int, block: int, *, is_aligned: bool
) -> None:
    """Constant weights lie as tensor cores take them, in groups of two and four blocks; rows lie anywhere."""
    columns, more = (32, 1) if is_interpreted() else (1008, 7)
    multiply_few_bits(data_type, rows, kind, (columns, more * blocks), block, is_aligned=is_aligned)


@pytest.mark.parametrize("last", [np.inf, np.nan])
@pytest.mark.parametrize("kind", [F16, F32])
def test_infinity_and_nan_by_prepacked_weights(kind: DataType, last: float) -> None:
    """At the end of rows of which the warps have unequal parts."""
    multiply_few_bits("uint4", 3, kind, (32, 12 if is_interpreted() else 60), 32, last=last)


def multiply_few_bits(
    data_type: str, rows: int, kind: DataType, shape: tuple[int, int], block: int = 0, *, is_aligned: bool = True,
    last: float = 0,
) -> None:  # fmt: skip
    """With so many columns of blocks of constant weights; without a size of blocks, of weights that may change.

    The last number of a row may be infinity or NaN, of which the results' kinds are compared.
    """
    is_constant, (columns, blocks) = bool(block), shape
    name, by_block, _ = data_type.partition(" by block")
    of = DataType(name)
    bits, block = (4, block or 32) if of.is_half_byte else (8, 64)
    per = 8 // bits
    sizes = (rows, columns, blocks, block // per, *((per,) if per > 1 else ()))
    length = blocks * block
    byte = U8 if per > 1 else of
    left, packed = numbers((rows, length), kind), numbers((columns, length // per), byte, 1)
    if is_constant:
        room, first = np.zeros(left.size + 8, left.dtype), 8 if is_aligned else 1
        room[first : first + left.size] = left.ravel()
        left = room[first : first + left.size].reshape(left.shape)
        left[0, -1] = last or left[0, -1]
    scales, bias = (numbers(shape, kind, 2) for shape in ((columns, blocks), (columns,)))
    zeros = numbers((columns, blocks), byte, 3) & (2**bits - 1) if by_block else np.full((1, 1), 7, byte.dtype)
    more = (1,) * (len(sizes) - 3)
    named = {
        "source0": np.broadcast_to(left.reshape(rows, 1, *sizes[2:]), sizes),
        "source1": np.broadcast_to(packed.reshape(1, columns, blocks, -1, *more[1:]), sizes),
        "source2": np.broadcast_to(scales.reshape(1, columns, blocks, *more), sizes),
        "source3": np.broadcast_to(bias.reshape(1, columns, 1, *more), sizes),
        "source4": np.broadcast_to(zeros.reshape(1, *zeros.shape, *more), sizes),
    }
    x, weight, scale, added = (ex.load(k, t) for k, t in enumerate((kind, byte, kind, kind)))
    number = number_in(weight, of, ex.coordinate(4)) if per > 1 else weight
    zero = ex.load(4, byte) if by_block else ex.const(7, number.type)
    apart = (number.to(I32) - zero.to(I32)).to(F32)
    total = ex.fold("sum", x.to(F32) * apart * scale.to(F32))
    target = framed(np.zeros((rows, columns, 1, *more), kind.dtype))
    views = tuple(view(name, array) for name, array in named.items())
    whole = Reduce(views, view("target", target), ex.maximum(total + added.to(F32), 0.0).to(kind), len(sizes) - 2)
    constants = ("source1", "source2", "source4") if is_constant else ()
    program = CUDA.compile(whole, frozenset(constants))
    assert isinstance(program, Int4MmaProgram if is_constant else WeightOnlyProgram)
    got = run(CUDA, whole, constants, **named, target=target)
    wanted = run(REFERENCE, whole, **named, target=target)
    if not np.isfinite(last):
        for is_so in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(is_so(got), is_so(wanted))
        got, wanted = got[1:], wanted[1:]
    far = np.abs(wanted.astype("float64")).max()
    np.testing.assert_allclose(got, wanted, rtol=0, atol=far * (2e-3 if kind is F16 else 2e-6))
