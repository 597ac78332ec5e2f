"""Rows of reduces: rows that are folded and written in one pass, sums, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.nn import functional

import anydml as dml
from anydml.core.enums import DataType
from anydml.ir.blocked_weights import number_in
from anydml.ir.expressions import Expr, call, const, coordinate, fold, load, maximum, sqrt
from anydml.ir.verbs import Reduce
from anydml.ir.views import View
from benchmarks.cuda.kinds import Call, CudaRow, describe
from benchmarks.cuda.pool import Pool, Tensor

F32, F64 = DataType.FLOAT32, DataType.FLOAT64
EPSILON = 1e-5
BLOCK = 32
"""Weights of 4 bits that share a scale."""


@dataclass(kw_only=True)
class ReduceRow(CudaRow):
    """A row of sums, which are right within an error: one verb, given to the engine itself, or an operator."""

    primitive: Reduce | None = None
    """None where the row is its whole operator."""
    moved: int
    """Bytes that are read and written."""
    error: float
    """How far ours may be from what float64 gives, as a part of the largest."""

    @property
    def bytes(self) -> int:
        return self.moved

    def bind(self, engine: dml.Device, inputs: Sequence[Tensor], out: Tensor) -> Call:
        """Our call on a set."""
        if self.primitive is None:
            return engine.compile(self.desc).bind(*inputs, out=out).dispatch
        places = {f"x{slot}": x.data_ptr() for slot, x in enumerate(inputs)} | {"out": out.data_ptr()}
        return engine.engine.compile(self.primitive).bind(places)

    def fault(self, inputs: Sequence[Tensor], got: Tensor) -> str:
        """What is wrong with ours, or nothing."""
        wanted = self.expression(*(x.double() for x in inputs)).reshape(got.shape)
        off = float((got.double() - wanted).abs().max() / wanted.abs().max())
        return "" if off <= self.error else f"{off:.3g} of the largest off, and not {self.error:g}"


def reduce_row(
    name: str, pool: Pool, views: Sequence[View], target: View, value: Expr, depth: int, *,
    shapes: Sequence[Sequence[int]], expression: Callable[..., Tensor], moved: int, **options: Any,
) -> ReduceRow:  # fmt: skip
    """A verb over views `x0`, `x1`, … and `out` of packed tensors."""
    dtypes = [view.data_type.dtype.name for view in views]

    def sets(count: int) -> list[list[Tensor]]:
        by_type = {dtype: [k for k, one in enumerate(dtypes) if one == dtype] for dtype in set(dtypes)}
        lent: dict[int, list[Tensor]] = {}
        for dtype, slots in by_type.items():
            sizes = [math.prod(shapes[slot]) for slot in slots]
            starts = [sum(-(-n // 64) * 64 for n in sizes[:k]) for k in range(len(sizes) + 1)]
            for one in pool.values(dtype, (starts[-1],), count):
                for slot, start, n in zip(slots, starts, sizes, strict=False):
                    lent.setdefault(slot, []).append(one[start : start + n].view(*shapes[slot]))
        return [[lent[slot][k] for slot in range(len(views))] for k in range(count)]

    def by_torch(*arguments: Tensor) -> Call:
        *given, out = arguments
        return lambda: (
            out.copy_(expression(*given).reshape(out.shape)) if out.dtype == torch.int32 else expression(*given)
        )

    tensor = describe(target.data_type.dtype.name, tuple(target.sizes))
    return ReduceRow(
        name=name, family=options.pop("family", "rows"), desc=dml.ActivationIdentity.infer(input_tensor=tensor)
        if target.data_type.is_float else dml.ElementWiseIdentity.infer(input_tensor=tensor), exact=False,
        sets=sets, expression=expression, torch=options.pop("torch", by_torch),
        primitive=Reduce(tuple(views), target, value, depth), moved=moved, **options,
    )  # fmt: skip


def _normal(x: Expr, length: int, scale: Expr, bias: Expr | None) -> Expr:
    """Layer norm, or without a bias RMS norm."""
    apart = x - fold("sum", x) / float(length) if bias is not None else x
    spread = sqrt(fold("sum", apart * apart) / float(length) + EPSILON)
    return apart / spread * scale + bias if bias is not None else apart / spread * scale


def row_rows(pool: Pool, count: int, *, quick: bool = False) -> list[ReduceRow]:
    """Rows of so many elements in all, each read once and written once; and sums along either end."""
    made = []
    for dtype in ("float32", "float16"):
        kind = DataType(dtype)
        x, scale, bias = (load(slot, kind).to(F32) for slot in range(3))
        for times in (1, 4, 16, 64):
            length = min(256, count // 64) * times
            shape = (count // length, length)
            whole, line = View("x0", kind, shape, (length, 1)), View("x1", kind, shape, (0, 1))
            out, more = View("out", kind, shape, (length, 1)), View("x2", kind, shape, (0, 1))
            power = call("exp", x - fold("max", x))
            common: dict[str, Any] = {
                "share": 0.93, "goal": 1.0, "compiled": True, "vs_compile": 0.95, "moved": 2 * count * kind.size_in_bytes,
                "error": 1e-6 if dtype == "float32" else 1e-3, "quick": quick,
            }  # fmt: skip
            lines = (shape, (length,), (length,))
            inverse = const(1.0, F32) / fold("sum", power)  # as the operator has it
            norms: dict[str, Any] = {"softmax": ((whole,), power * inverse, partial(torch.softmax, dim=-1))}
            if times in (4, 64):
                norms |= {
                    "layer norm": (
                        (whole, line, more),
                        _normal(x, length, scale, bias),
                        partial(_by_layer_norm, length),
                    ),
                    "RMS norm": ((whole, line), _normal(x, length, scale, None), partial(_by_rms_norm, length)),
                }
            for what, (views, value, theirs) in norms.items():
                made.append(reduce_row(
                    f"reduce, {what}, rows of {length}, {dtype}", pool, views, out, value.to(kind), 1,
                    shapes=lines[: len(views)], expression=theirs, **common,
                ))  # fmt: skip
    side = math.isqrt(count)
    ways = {"last axis": ((side, side), (side, 1), -1), "first axis": ((side, side), (1, side), 0),
            "all": ((1, side * side), (0, 1), None)}  # fmt: skip
    for what, (shape, strides, axis) in ways.items():
        value = fold("sum", load(0, F32).to(F64)).to(F32)
        source, out = View("x0", F32, shape, strides), View("out", F32, (shape[0], 1), (1, 0))
        made.append(reduce_row(
            f"reduce, sum, {what}, float32", pool, (source,), out, value, 1, shapes=((side, side),), share=0.90, goal=1.0,
            expression=partial(torch.sum, dim=axis), moved=4 * (side * side + shape[0]), error=1e-6, compiled=True,
            vs_compile=0.95, quick=quick,
        ))  # fmt: skip
    return made


def _by_layer_norm(length: int, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return functional.layer_norm(x, (length,), scale, bias, EPSILON)


def _by_rms_norm(length: int, x: Tensor, scale: Tensor) -> Tensor:
    return functional.rms_norm(x, (length,), scale, EPSILON)


def product_row(
    name: str, pool: Pool, sizes: tuple[int, int, int], dtype: str, *, is_turned: bool = False, is_finished: bool = False,
    **options: Any,
) -> ReduceRow:  # fmt: skip
    """A product of matrices, the second one described by columns where it is turned; finished by a bias and a relu."""
    m, n, k = sizes
    kind, wide, walk = DataType(dtype), DataType("int32" if dtype == "int8" else "float32"), (m, n, k)
    views = [View("x0", kind, walk, (k, 0, 1)), View("x1", kind, walk, (0, k, 1) if is_turned else (0, 1, n))]
    total = fold("sum", load(0, kind).to(wide) * load(1, kind).to(wide))
    if is_finished:
        views.append(View("x2", kind, walk, (0, 1, 0)))
        total = maximum(total + load(2, kind).to(wide), 0.0)
    result = wide if dtype == "int8" else kind

    def expression(a: Tensor, b: Tensor, *bias: Tensor) -> Tensor:
        other = b.T if is_turned else b
        if bias:
            return torch.relu(torch.addmm(bias[0], a, other))
        return torch._int_mm(a, other) if a.dtype == torch.int8 else torch.mm(a, other)  # noqa: SLF001 - PyTorch's only product of bytes

    width = kind.size_in_bytes
    options = {
        "family": "product",
        "error": 1e-3 if dtype == "float16" else 2e-6 if dtype == "float32" else 0.0,
    } | options
    return reduce_row(
        name, pool, views, View("out", result, (m, n, 1), (n, 1, 0)), total.to(result), 1,
        shapes=((m, k), (n, k) if is_turned else (k, n), (n,))[: len(views)], expression=expression,
        moved=(m * k + k * n) * width + m * n * result.size_in_bytes, **options,
    )  # fmt: skip


def weights_row(name: str, pool: Pool, rows: int, side: int, dtype: str, **options: Any) -> ReduceRow:
    """Some rows times a square of weights of 4 bits; PyTorch multiplies with what they stand for."""
    kind, walk, by = DataType(dtype), (rows, side, side // BLOCK, BLOCK // 2, 2), (side, side // BLOCK)
    views = [
        View("x0", kind, walk, (side, 0, BLOCK, 2, 1)),
        View("x1", DataType.UINT8, walk, (0, side // 2, BLOCK // 2, 1, 0)),
        View("x2", kind, walk, (0, by[1], 1, 0, 0)),
    ]
    number = number_in(load(1, DataType.UINT8), DataType.UINT4, coordinate(4)).to(DataType.INT32)
    number -= const(8, DataType.UINT8).to(DataType.INT32)
    total = fold("sum", load(0, kind).to(F32) * number.to(F32) * load(2, kind).to(F32))

    def whole(packed: Tensor, scales: Tensor) -> Tensor:
        numbers = torch.stack((packed & 15, packed >> 4), -1).reshape(side, side // BLOCK, BLOCK).to(scales.dtype) - 8
        return (numbers * scales[..., None]).reshape(side, side).T

    def by_torch(a: Tensor, packed: Tensor, scales: Tensor, out: Tensor) -> Call:
        return partial(torch.mm, a, whole(packed, scales), out=out.view(rows, side))

    return reduce_row(
        name, pool, views, View("out", kind, (rows, side, 1, 1, 1), (side, 1, 0, 0, 0)), total.to(kind), 3,
        shapes=((rows, side), (side, side // 2), by), torch=by_torch, family="product", goal=1.0, share=0.85,
        expression=lambda a, packed, scales: torch.mm(a, whole(packed.to(torch.uint8), scales)),
        moved=side * side // 2 + (math.prod(by) + 2 * rows * side) * kind.size_in_bytes,
        error=1e-3 if dtype == "float16" else 2e-6, **options,
    )  # fmt: skip


def product_rows(pool: Pool, n: int, *, quick: bool = False) -> list[ReduceRow]:
    """Squares up to a side, and a few rows by a square of half of it."""
    row, half = partial(product_row, pool=pool, quick=quick), n // 2
    made = [
        row(f"product, {side}^3, float16", sizes=(side,) * 3, dtype="float16", goal=0.95)
        for side in (n // 8, n // 4, n // 2, n)
    ]
    made += [
        row(f"product, {half}^3, float16, bias, relu", sizes=(half,) * 3, dtype="float16", is_finished=True, goal=1.0),
        row(f"product, {half}^3, float16, turned", sizes=(half,) * 3, dtype="float16", is_turned=True, goal=0.95),
    ]
    for is_turned in (False, True):
        more = ", turned" * is_turned
        for side in (n // 8, half):
            name = f"product, {side}^3, float32{more}"
            made.append(row(name, sizes=(side,) * 3, dtype="float32", is_turned=is_turned, goal=1.0))
        for rows in (1, 4, 16):
            name = f"product, {rows} by {half}^2, float16{more}"
            made.append(row(name, sizes=(rows, half, half), dtype="float16", is_turned=is_turned, share=0.85, goal=1.0))
        name = f"product, 1 by {half}^2, float32{more}"
        made.append(row(name, sizes=(1, half, half), dtype="float32", is_turned=is_turned, share=0.85, goal=1.0))
    side = max(half, BLOCK)
    for dtype in ("float16", "float32"):
        for rows in (1, 4, 8, 16):
            name = f"product, {rows} by {side}^2 of 4 bits, {dtype}"
            made.append(weights_row(name, pool, rows, side, dtype, quick=quick))
    return made
