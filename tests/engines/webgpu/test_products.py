"""The webgpu engine's products of matrices against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from adapter_runs import agree, route
from agreement import values
from anydml.core.enums import DataType
from anydml.engines.webgpu import why_missing
from anydml.engines.webgpu.gemm import gemm
from anydml.ir import expressions as ex
from anydml.ir.blocked_weights import number_in
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
F16, F32, I8, U8, I32 = (DataType(name) for name in ("float16", "float32", "int8", "uint8", "int32"))
WIDE = {F16: F32, F32: F32, I8: I32, U8: I32, I32: I32}
RTOL = {F16: 2e-3, F32: 4e-6}


def check(
    sizes: tuple[int, int, int], of: DataType, *, to: DataType | None = None, batch: int = 1, offset: int = 0,
    is_left_turned: bool = False, is_right_turned: bool = False, is_result_turned: bool = False,
    finish: Callable[..., ex.Expr] = lambda total: total, factor: Callable[[ex.Expr], ex.Expr] | None = None,
    more: Mapping[str, tuple[tuple[int, ...], DataType]] | None = None, way: str = "GEMM", first: int = 0,
) -> None:  # fmt: skip
    """A product of matrices; `more` has what else is read after the sums, with strides along batch, rows, columns."""
    m, n, k = sizes
    to = to or WIDE[of]
    walk = (batch, m, n, k)
    left = View("a", of, walk, (m * k, *((1, 0, m) if is_left_turned else (k, 0, 1))), offset)
    right = View("b", of, walk, (n * k, *((0, k, 1) if is_right_turned else (0, 1, n))), offset)
    target = View("y", to, (batch, m, n, 1), (m * n, *((1, m) if is_result_turned else (n, 1)), 0), offset)
    arrays = {
        "a": values((batch * m * k + offset,), of.dtype.name, 1),
        "b": values((batch * n * k + offset,), of.dtype.name, 2),
        "y": np.zeros(batch * m * n + offset, to.dtype),
    }
    others = []
    for number, (name, (strides, kind)) in enumerate((more or {}).items()):
        others.append(View(name, kind, walk, (*strides, 0)))
        arrays[name] = values((batch * m * n,), kind.dtype.name, 3 + number)
    numbers = [ex.load(slot, of).to(WIDE[of]) for slot in range(2)]
    if factor:
        numbers = [factor(number) for number in numbers]
    loads = [ex.load(slot, view.data_type) for slot, view in enumerate(others, 2)]
    total = ex.fold("sum", numbers[0] * numbers[1])
    verb = Reduce((left, right, *others), target, finish(total, *loads), 1, (k,))
    assert route(verb) == way
    agree(verb, arrays, RTOL[to] if to.is_float else 0, first)


@pytest.mark.parametrize("shape", gemm.SHAPES, ids=lambda shape: f"{shape.rows}x{shape.columns}x{shape.depth}")
def test_tiles(shape: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm, "shape_for", lambda *_: shape)
    check((shape.rows + 4, shape.columns + 4, 36), F32)


@pytest.mark.parametrize("of", [F32, F16, I8], ids=lambda of: of.name)
def test_tiles_of_sizes_that_are_no_multiples(of: DataType) -> None:
    check((65, 67, 35), of, is_right_turned=True)


@pytest.mark.parametrize("of", [F32, F16, I8, U8, I32], ids=lambda of: of.name)
@pytest.mark.parametrize("sizes", [(36, 40, 20), (17, 5, 33)], ids=str)
def test_operands_lie_in_any_order(of: DataType, sizes: tuple[int, int, int]) -> None:
    for number in range(8) if of is F32 else (1, 2):
        turned, also, result = (bool(number & bit) for bit in (1, 2, 4))
        check(sizes, of, is_left_turned=turned, is_right_turned=also, is_result_turned=result)


@pytest.mark.parametrize(("offset", "first"), [(1, 0), (4, 0), (8, 4), (0, 32)])
def test_memory_begins_anywhere(offset: int, first: int) -> None:
    for of in (F32, F16, I8):
        check((36, 40, 20), of, offset=offset, first=first)


def test_long_sums_of_few_tiles_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a workgroup's, and what follows is computed of their sums."""
    assert gemm.parts_for(64, 64, 65536, 1, 16384, 65536) == 64
    assert gemm.parts_for(2048, 2048, 2048, 1, 32768, 2048) == gemm.parts_for(64, 64, 65536, 1, 16384, 1) == 1
    monkeypatch.setattr(gemm, "parts_for", lambda *_: 4)

    def finish(total: ex.Expr, c: ex.Expr, bias: ex.Expr) -> ex.Expr:
        return ex.maximum(total * ex.given(0.5, F32) + bias.to(F32) + ex.coordinate(2).to(F32), c)

    more = {"c": ((0, 40, 1), F32), "bias": ((0, 0, 1), F16)}
    check((36, 40, 80), F32, finish=finish, more=more)
    check((17, 38, 80), F16, to=F16, finish=lambda total: total.to(F16), batch=2, is_right_turned=True)
    check((36, 40, 80), I8, is_result_turned=True)


def test_several_matrices() -> None:
    for of in (F32, F16):
        check((35, 36, 20), of, batch=3)
        check((36, 36, 20), of, batch=3, is_left_turned=True)


@pytest.mark.parametrize("columns", [40, 39, 38])
def test_narrow_results_share_words(columns: int) -> None:
    check((36, columns, 20), F16, to=F16, finish=lambda total: total.to(F16))
    check((36, columns, 20), F16, to=F16, finish=lambda total: total.to(F16), is_result_turned=True)
    check((36, columns, 20), I8, to=I8, finish=lambda total: (total.to(F32) * 0.001).to(I8))


def test_what_follows_is_computed_of_each_sum() -> None:
    def finish(total: ex.Expr, c: ex.Expr, bias: ex.Expr, each: ex.Expr) -> ex.Expr:
        found = ex.call("gelu", total * ex.given(0.5, F32) + bias) * each.to(F32) + c
        return found + ex.coordinate(1).to(F32) * 0.125 + ex.coordinate(2).to(F32)

    more = {"c": ((0, 40, 1), F32), "bias": ((0, 0, 1), F32), "each": ((0, 1, 0), F16)}
    check((36, 40, 20), F32, finish=finish, more=more)
    check((36, 40, 20), F32, finish=finish, more=more, is_result_turned=True)


def test_factors_are_computed() -> None:
    """Zero points, numbers of rows and columns, and functions."""
    check((36, 40, 20), U8, factor=lambda x: x - ex.given(7, I32))
    check((36, 40, 20), F16, factor=lambda x: ex.call("exp", x) - 1.0)
    check((36, 39, 20), F32, factor=lambda x: x * 0.5 + (ex.coordinate(3).to(F32) - 3.0))


@pytest.mark.parametrize("of", [F32, F16, I8], ids=lambda of: of.name)
def test_few_rows(of: DataType) -> None:
    for rows in (1, 3, 8):
        check((rows, 41, 136), of, way="GEMV")
        check((rows, 40, 136), of, is_right_turned=True, way="GEMV")
    check((2, 40, 133), of, is_right_turned=True, batch=3, way="GEMV")
    check((40, 2, 136), of, way="GEMV", offset=4)
    check((2, 40, 136), of, is_right_turned=True, way="GEMV", offset=1)
    check((2, 40, 136), of, is_right_turned=True, way="GEMV", first=4)


def test_what_follows_sums_of_few_rows() -> None:
    def finish(total: ex.Expr, c: ex.Expr, bias: ex.Expr) -> ex.Expr:
        return (ex.maximum(total + bias, 0.0) + c + ex.coordinate(1).to(F32) + ex.coordinate(2).to(F32)).to(F16)

    more = {"c": ((0, 40, 1), F32), "bias": ((0, 0, 1), F32)}
    check((3, 40, 136), F16, to=F16, is_right_turned=True, finish=finish, more=more, way="GEMV")
    check((3, 40, 136), U8, factor=lambda x: x - ex.given(7, I32), is_right_turned=True, way="GEMV")


WEIGHTS = ["uint4", "int4", "uint4 by block", "int4 by block", "uint8", "int8", "int8 by block"]


@pytest.mark.parametrize("kind", [F32, F16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("data_type", WEIGHTS)
@pytest.mark.parametrize("is_rounded", [False, True], ids=["", "rounded"])
def test_weights_of_few_bits(data_type: str, kind: DataType, is_rounded: bool) -> None:
    """Scales for blocks, zero points of one number or of blocks, and what follows the sum."""
    name, by_block, _ = data_type.partition(" by block")
    of = DataType(name)
    per = 2 if of.is_half_byte else 1
    columns, blocks, block = 23, 5, 32
    byte = U8 if per > 1 else of
    packed = (block // per, *((per,) if per > 1 else ()))
    more = (0,) * (len(packed) - 1)
    length = blocks * block // per
    for rows in (1, 3, 20):
        sizes = (rows, columns, blocks, *packed)
        views = (
            View("a", kind, sizes, (blocks * block, 0, block, per, *((1,) if per > 1 else ()))),
            View("q", byte, sizes, (0, length, block // per, 1, *more)),
            View("s", kind, sizes, (0, blocks, 1, 0, *more)),
            View("bias", kind, sizes, (0, 1, 0, 0, *more)),
            View("z", byte, sizes, (0, blocks, 1, 0, *more)),
        )
        arrays = {
            "a": values((rows * blocks * block,), kind.dtype.name, 1),
            "q": values((columns * length,), byte.dtype.name, 2),
            "s": values((columns * blocks,), kind.dtype.name, 3),
            "bias": values((columns,), kind.dtype.name, 4),
            "z": values((columns * blocks,), byte.dtype.name, 5) & (15 if per > 1 else -1 if byte is I8 else 255),
            "y": np.zeros(rows * columns, kind.dtype),
        }
        x, weight, scale, added = (ex.load(slot, of) for slot, of in enumerate((kind, byte, kind, kind)))
        number = number_in(weight, of, ex.coordinate(4)) if per > 1 else weight
        zero = ex.load(4, byte) if by_block else ex.const(7, number.type or byte)
        apart = (number.to(I32) - zero.to(I32)).to(F32)
        left = x.to(F32)
        total = ex.fold("sum", left * (apart * scale.to(F32)) if is_rounded else left * apart * scale.to(F32))
        target = View("y", kind, (rows, columns, 1, *(1 for _ in packed)), (columns, 1, 0, *(0 for _ in packed)))
        used = views if by_block else views[:4]
        verb = Reduce(used, target, ex.maximum(total + added.to(F32), 0.0).to(kind), 1 + len(packed), sizes[2:])
        many = "weight-only GEMM" if not is_rounded else "implicit GEMM"
        assert route(verb) == ("GEMV" if rows < 8 else many)
        agree(verb, arrays, RTOL[kind])


def test_what_has_no_tile_goes_by_rows() -> None:
    check((3, 9, 70), F32, way="reduction")
    int64 = DataType.INT64
    views = tuple(View(name, int64, (8, 8, 8), strides) for name, strides in (("a", (8, 0, 1)), ("b", (0, 1, 8))))
    target = View("y", int64, (8, 8, 1), (8, 1, 0))
    verb = Reduce(views, target, ex.fold("sum", ex.load(0, int64) * ex.load(1, int64)), 1, (8,))
    assert route(verb) == "reduction"


def test_what_is_no_number_stays_where_it_belongs() -> None:
    m, n, k = 20, 24, 42
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)
    a[3, 5], a[7, 1], b[2, 9] = np.inf, np.nan, -np.inf
    views = View("a", F32, (m, n, k), (k, 0, 1)), View("b", F32, (m, n, k), (0, 1, n))
    verb = Reduce(views, View("y", F32, (m, n, 1), (n, 1, 0)), ex.fold("sum", ex.load(0, F32) * ex.load(1, F32)), 1)
    agree(verb, {"a": a.reshape(-1), "b": b.reshape(-1), "y": np.zeros(m * n, np.float32)}, 4e-6)
