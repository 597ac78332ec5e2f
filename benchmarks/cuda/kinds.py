"""What a row of the cuda engine is: a description, its inputs on the device, and the same for each peer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

import anydml as dml
from benchmarks.chain import Chain
from benchmarks.cuda.pool import Pool, Tensor
from benchmarks.row import Row, Window

SECTOR = 32
"""Bytes that a read of the memory brings at the least."""

Call = Callable[[], Any]


@dataclass(kw_only=True)
class CudaRow(Row):
    """A row on tensors of the device, which are made when they are asked for.

    A peer is given its inputs and its output, and makes the call to be timed; the call writes to that output or
    returns one of its own.
    """

    sets: Callable[[int], list[list[Tensor]]]
    """So many sets of inputs, each in memory of its own."""
    expression: Callable[..., Tensor]
    """PyTorch's answer, of the inputs: what is wanted, and what torch.compile is given."""
    torch: Callable[..., Call]
    cupy: Callable[..., Call] | None = None
    """Given the module first."""
    jax: Callable[[Any], Callable[[Any], Any]] | None = None
    """Given jax.numpy, makes the function to be jitted."""
    compiled: bool = False
    """Whether torch.compile takes part."""
    quick: bool = False
    """Whether it is part of a quick run."""
    function: Callable[[Tensor, Tensor], Call] | None = None
    """What is measured of ours, where it is not a bound operator."""


def describe(dtype: str, tensor_shape: Sequence[int], strides: Sequence[int] | None = None) -> dml.TensorDesc:
    return dml.TensorDesc(dtype, tensor_shape, strides=strides)


def slice_row(
    name: str,
    pool: Pool,
    shape: Sequence[int],
    window: Sequence[slice],
    dtype: str = "float32",
    order: Sequence[int] | None = None,
    **options: Any,
) -> CudaRow:
    """A slice, as NumPy writes it, of a packed tensor, or of one whose dimensions are taken in another order."""
    strides = None
    if order is not None:
        packed = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
        strides, seen = [packed[d] for d in order], [shape[d] for d in order]
    else:
        seen = list(shape)
    cut = Window.of(window, seen)
    ahead, back = cut.ahead, cut.backwards
    desc = dml.Slice1.infer(
        input_tensor=describe(dtype, seen, strides),
        input_window_offsets=cut.offsets,
        input_window_sizes=cut.sizes,
        input_window_strides=cut.strides,
    )
    width, step = desc.input_tensor.data_type.size_in_bytes, abs(cut.strides[-1])
    if step > 1 and step * width <= SECTOR:
        options.setdefault("lines", (step + 1) * math.prod(desc.implied_output_sizes()) * width)

    def sets(count: int) -> list[list[Tensor]]:
        return [[x if order is None else x.permute(*order)] for x in pool.bits(dtype, shape, count)]

    def by_torch(x: Tensor, out: Tensor) -> Call:
        return partial(torch.flip, x[ahead], back) if back else partial(out.copy_, x[ahead])  # flip has no out=

    def by_cupy(cupy: Any, x: Any, out: Any) -> Call:
        return partial(cupy.copyto, out, x[tuple(window)])

    options.setdefault("share", 0.90)
    return CudaRow(
        name=name, family=options.pop("family", "slice"), desc=desc, sets=sets, torch=by_torch,
        cupy=by_cupy if dtype == "float32" else None,
        expression=lambda x: torch.flip(x[ahead], back) if back else x[ahead], **options,
    )  # fmt: skip


def scan_row(
    name: str,
    pool: Pool,
    shape: Sequence[int],
    axis: int,
    dtype: str = "float32",
    *,
    decreasing: bool = False,
    exclusive: bool = False,
    jax: bool = False,
    **options: Any,
) -> CudaRow:
    """A running sum. PyTorch's is of the tensor's own type, as ours."""
    desc = dml.CumulativeSummation.infer(
        input_tensor=describe(dtype, shape),
        axis=axis,
        axis_direction="decreasing" if decreasing else "increasing",
        has_exclusive_sum=exclusive,
    )
    plain = not decreasing and not exclusive

    def expression(x: Tensor) -> Tensor:
        source = torch.flip(x, [axis]) if decreasing else x
        sums = torch.cumsum(source, axis, dtype=x.dtype)
        if exclusive:
            sums = sums - source
        return torch.flip(sums, [axis]) if decreasing else sums

    def by_torch(x: Tensor, out: Tensor) -> Call:
        return partial(torch.cumsum, x, axis, dtype=x.dtype, out=out) if plain else partial(expression, x)

    def by_cupy(cupy: Any, x: Any, out: Any) -> Call:
        return partial(cupy.cumsum, x, axis=axis, dtype=x.dtype, out=out)

    def by_jax(numpy: Any) -> Callable[[Any], Any]:
        return partial(numpy.cumsum, axis=axis)

    options.setdefault("share", 0.85 if dtype == "float16" else 0.90)
    return CudaRow(
        name=name, family="scan", desc=desc, exact=not dtype.startswith("float"), expression=expression,
        sets=lambda count: [[x] for x in pool.values(dtype, shape, count)], torch=by_torch,
        cupy=by_cupy if plain and len(shape) == 1 else None, jax=by_jax if jax else None, **options,
    )  # fmt: skip


def gather_row(
    name: str,
    pool: Pool,
    shape: Sequence[int],
    count: int,
    coordinates: int = 1,
    indices: str = "int64",
    mode: str = "clamp",
    **options: Any,
) -> CudaRow:
    """A gather of rows by their number, or of scalars by two; the peers are given the coordinates one by one."""
    desc = dml.GatherND.infer(
        input_tensor=describe("float32", shape),
        indices_tensor=describe(indices, (count, coordinates)),
        input_dimension_count=len(shape),
        indices_dimension_count=2,
        index_mode=mode,
    )

    def sets(number: int) -> list[list[Tensor]]:
        limit = min(shape[:coordinates])
        return [[x, pool.indices(limit, (count, coordinates), indices)] for x in pool.bits("float32", shape, number)]

    def by_torch(x: Tensor, places: Tensor, out: Tensor) -> Call:
        keys = tuple(key.contiguous() for key in places.unbind(1))
        return partial(torch.index_select, x, 0, keys[0], out=out) if coordinates == 1 else lambda: x[keys]

    def by_cupy(cupy: Any, x: Any, places: Any, out: Any) -> Call:
        keys = tuple(cupy.ascontiguousarray(places[:, k]) for k in range(coordinates))
        return partial(cupy.take, x, keys[0], axis=0, out=out) if coordinates == 1 else lambda: x[keys]

    return CudaRow(
        name=name, family="gather", desc=desc, sets=sets, torch=by_torch, goal=3.0,
        cupy=by_cupy if mode == "clamp" and indices == "int64" else None,
        expression=lambda x, places: x[tuple(places.unbind(1))], **options,
    )  # fmt: skip


def chain_row(chain: Chain, pool: Pool, **options: Any) -> CudaRow:
    """A chain as PyTorch people write it; crops at its end are views. Its allocator has the memory of the last call."""
    expression, desc = chain.peer(torch), chain.desc

    def sets(number: int) -> list[list[Tensor]]:
        indices = [pool.indices(chain.limit, (chain.count, 1), "int64") for _ in range(number if chain.count else 0)]
        tensors = pool.values(chain.dtype, chain.shape, number)
        return [[x, *indices[i : i + 1]] for i, x in enumerate(tensors)]

    def by_torch(*arguments: Tensor) -> Call:
        *inputs, out = arguments
        return partial(expression, *inputs, out=out if chain.room == tuple(out.shape) else None)

    options.setdefault("family", "chain")
    return CudaRow(
        name=chain.name, desc=desc, chain=chain, sets=sets, expression=expression, torch=by_torch, exact=chain.exact, **options
    )  # fmt: skip


def launch_row(name: str, pool: Pool, *, bound: bool, **options: Any) -> CudaRow:
    """A slice of 4×4, where only the launch counts: of a bound operator, or by a function call that is not bound."""
    window = (slice(1, 3), slice(0, 4, 2))
    row = slice_row(name, pool, (4, 4), window, family="launch", share=0.0, goal=0.0, **options)
    if not bound:
        offsets, sizes, strides = Window.of(window, (4, 4))
        row.torch = lambda x, out: lambda: out.copy_(x[window])
        row.cupy = lambda cupy, x, out: lambda: cupy.copyto(out, x[window])
        row.function = lambda x, out: partial(dml.slice1, x, offsets, sizes, strides, out=out)
    return row
