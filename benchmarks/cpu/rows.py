"""The rows of the cpu engine: what is measured, as arrays and a description, and the same for each peer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.chain import Chain, chains, twelve
from benchmarks.formula import Formula, formulas
from benchmarks.row import Row, Window


@dataclass(kw_only=True)
class CpuRow(Row):
    """A row on NumPy arrays."""

    inputs: list[np.ndarray]
    numpy: Callable[[np.ndarray], object] | None
    """Computes into the output array given, or gives one of its own; None where NumPy has not the function."""
    torch: Callable[[Any], Any] | None = None
    """Given the torch module, makes a function that computes into a tensor."""
    onnx: dict[str, Any] | None = None
    owned: list[np.ndarray] = field(default_factory=list)
    """Inputs of ours that the operator owns, given when it is initialized."""
    is_model: bool = False
    """Whether ours is an ONNX model's run, results allocated by it, beside the operator called likewise."""


def slice_row(name: str, x: np.ndarray, window: tuple[slice, ...], **options: Any) -> CpuRow:
    """A slice, as NumPy writes it."""
    cut = Window.of(window, x.shape)
    offsets, sizes, steps = cut
    desc = dml.Slice1.infer(
        input_tensor=dml.TensorDesc.of(x),
        input_window_offsets=offsets,
        input_window_sizes=sizes,
        input_window_strides=steps,
    )

    def by_torch(torch: Any) -> Any:
        t = torch.from_numpy(x)
        back, ahead = cut.backwards, cut.ahead
        if not back:
            return lambda out: out.copy_(t[ahead])
        if all(abs(s) == 1 for s in steps) and tuple(t[ahead].shape) == tuple(t.shape):
            return lambda _out: torch.flip(t, back)  # it has no out=
        return lambda out: out.copy_(
            torch.flip(t[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))], back)[
                tuple(slice(None, None, abs(s)) for s in steps)
            ]
        )

    ends = [
        (w.stop if w.stop is not None else (np.iinfo(np.int64).max if s > 0 else np.iinfo(np.int64).min))
        for w, s in zip(window, steps, strict=True)
    ]
    starts = [w.indices(n)[0] for w, n in zip(window, x.shape, strict=True)]
    onnx = {"op": "Slice", "constants": [starts, ends, list(range(x.ndim)), steps]} if x.flags.c_contiguous else None
    family = options.pop("family", "slice")
    return CpuRow(
        name=name, family=family, inputs=[x], desc=desc, torch=by_torch, onnx=onnx,
        numpy=lambda out: np.copyto(out, x[window]), **options,
    )  # fmt: skip


def scan_row(
    name: str, x: np.ndarray, axis: int, direction: str = "increasing", exclusive: bool = False, **options: Any
) -> CpuRow:
    """A running sum."""
    desc = dml.CumulativeSummation.infer(
        input_tensor=dml.TensorDesc.of(x), axis=axis, axis_direction=direction, has_exclusive_sum=exclusive
    )
    options.setdefault("goal", 1.5)

    def by_numpy(out: np.ndarray) -> None:
        source, target = (np.flip(x, axis), np.flip(out, axis)) if direction == "decreasing" else (x, out)
        if not exclusive:
            np.cumsum(source, axis, out=target)
            return
        head, rest = [[slice(None)] * x.ndim for _ in range(2)]
        head[axis], rest[axis] = slice(0, -1), slice(1, None)
        np.cumsum(source[tuple(head)], axis, out=target[tuple(rest)])
        head[axis] = slice(0, 1)
        target[tuple(head)] = 0

    def by_torch(torch: Any) -> Any:
        t = torch.from_numpy(x)
        if direction == "increasing" and not exclusive:
            return lambda out: torch.cumsum(t, axis, out=out, dtype=t.dtype)

        def run(out: Any) -> None:
            source = torch.flip(t, [axis]) if direction == "decreasing" else t
            sums = torch.cumsum(source, axis, dtype=t.dtype)
            if exclusive:
                sums = sums - source
            out.copy_(torch.flip(sums, [axis]) if direction == "decreasing" else sums)

        return run

    onnx = None
    if x.dtype in (np.float32, np.int32):
        attributes = {"exclusive": int(exclusive), "reverse": int(direction == "decreasing")}
        onnx = {"op": "CumSum", "constants": [np.array(axis, np.int64)], "attributes": attributes}
    family = options.pop("family", "scan")
    return CpuRow(
        name=name, family=family, inputs=[x], desc=desc, numpy=by_numpy, torch=by_torch, onnx=onnx,
        exact=x.dtype.kind != "f", **options,
    )  # fmt: skip


def gather_row(name: str, x: np.ndarray, indices: np.ndarray, **options: Any) -> CpuRow:
    """A gather."""
    out_rank = indices.ndim - 1 + x.ndim - indices.shape[-1]
    rank = max(x.ndim, indices.ndim, out_rank)
    desc = dml.GatherND.infer(
        input_tensor=dml.TensorDesc.of(x).padded(rank),
        indices_tensor=dml.TensorDesc.of(indices).padded(rank),
        input_dimension_count=x.ndim,
        indices_dimension_count=indices.ndim,
    )
    keys = tuple(indices[..., k] for k in range(indices.shape[-1]))

    def by_numpy(out: np.ndarray) -> None:
        shaped = out.reshape(indices.shape[:-1] + x.shape[indices.shape[-1] :])
        if len(keys) == 1:
            np.take(x, keys[0], axis=0, out=shaped, mode="clip")
        else:
            shaped[...] = x[keys]

    def by_torch(torch: Any) -> Any:
        t, i = torch.from_numpy(x), [torch.from_numpy(np.ascontiguousarray(k)) for k in keys]
        if len(i) == 1:
            return lambda out: torch.index_select(t, 0, i[0], out=out.view(-1, *t.shape[1:]))
        return lambda out: out.view(-1).copy_(t[tuple(i)])

    family, onnx = options.pop("family", "gather"), {"op": "GatherND", "constants": []}
    return CpuRow(
        name=name, family=family, inputs=[x, indices], desc=desc, numpy=by_numpy, torch=by_torch, onnx=onnx, **options
    )


def chain_row(chain: Chain, rng: np.random.Generator, **options: Any) -> CpuRow:
    """A chain as NumPy and PyTorch people write it: what they compute last goes to memory made beforehand."""
    desc, sizes = chain.desc, chain.shape
    x = rng.random(sizes, dtype=np.float32) if chain.dtype == "float32" else rng.integers(0, 100, sizes, chain.dtype)
    inputs = [x, rng.integers(0, chain.limit, (chain.count, 1))] if chain.count else [x]
    room = None if chain.room is None else np.empty(chain.room, x.dtype)
    with_numpy = chain.peer(np)

    def by_numpy(out: np.ndarray) -> Any:
        answer = with_numpy(*inputs, out=room)
        return np.copyto(out, answer) if room is None else answer  # crops alone are but a view

    def by_torch(torch: Any) -> Any:
        compute, tensors = chain.peer(torch), [torch.from_numpy(array) for array in inputs]
        target = None if room is None else torch.from_numpy(np.empty_like(room))
        return lambda _out: compute(*tensors, out=target)

    return CpuRow(
        name=chain.name, inputs=inputs, desc=desc, chain=chain, numpy=by_numpy, torch=by_torch, exact=chain.exact, **options
    )  # fmt: skip


def formula_row(formula: Formula, rng: np.random.Generator, **options: Any) -> CpuRow:
    """A formula, of numbers above 0 and up to 1."""
    inputs = [1 - rng.random(formula.shape, dtype=np.float32) for _ in range(formula.count)]

    def by_torch(torch: Any) -> Any:
        compute, tensors = formula.torch(torch), [torch.from_numpy(array) for array in inputs]
        return lambda out: compute(*tensors, out=out)

    compute = formula.numpy
    goals: dict[str, Any] = {"family": "map", "goal": formula.goal, "share": formula.share}
    return CpuRow(
        name=formula.name, inputs=inputs, desc=formula.desc, formula=formula, torch=by_torch, exact=False, rtol=1e-5, atol=1e-6,
        numpy=None if compute is None else lambda out: compute(*inputs, out=out),
        onnx={"op": formula.onnx, "constants": []} if formula.onnx else None,
        **goals | options,
    )  # fmt: skip


def as_model(make: Callable[[], CpuRow], **goals: float) -> CpuRow:
    """The same row as a model of one ONNX node, run by name; its peer is ONNX Runtime."""
    row = make()
    cleared: dict[str, Any] = {"share": 0.0, "lines": 0, "numpy": None, "torch": None, **goals}
    return replace(row, name=f"model of {row.name.removeprefix('tiny, ')}", is_model=True, **cleared)


def rows(quick: bool, growth: bool = True, seed: int = 0, side: int | None = None) -> list[Callable[[], CpuRow]]:
    """Every row, made when its turn comes: only one row's arrays are in memory at a time."""
    from benchmarks.cpu.images import images  # which have rows of this kind
    from benchmarks.cpu.reduces import reduces

    rng = np.random.default_rng(seed)
    n = side or (4096 if quick else 8192)

    def square(dtype: str = "float32") -> np.ndarray:
        if dtype.startswith("f"):
            return rng.random((n, n), dtype=np.float32).astype(dtype, copy=False)
        return rng.integers(0, 100, (n, n), dtype)

    every, back, second = slice(None), slice(None, None, -1), slice(None, None, 2)
    h = n // 2
    few = 100_000 * n * n // 4096**2
    many = 20 * few
    made: list[Callable[[], CpuRow]] = [
        lambda: slice_row("slice, block of half by half", square(), (slice(h // 2, h // 2 + h),) * 2, goal=2.0, share=0.85),
        lambda: slice_row("slice, last axis, stride 2", square()[:h], (every, second), goal=2.0, share=0.7, lines=h * n * 4 + h * n * 2),
        lambda: slice_row("slice, last axis reversed", square(), (every, back), goal=2.0, share=0.85),
        lambda: slice_row("slice, rows reversed", square(), (back, every), goal=2.0, share=0.85),
        lambda: slice_row("slice, last axis, stride -2, float16", square("float16"), (every, slice(None, None, -2)), goal=2.0, share=0.7, lines=n * n * 2 + n * n),
        lambda: slice_row("slice, last axis, stride 3", square(), (every, slice(None, None, 3)), goal=2.0, share=0.7, lines=n * n * 4 + (n * -(-n // 3)) * 4),
        lambda: slice_row("slice, everything (one contiguous run)", square(), (every, every), share=0.85),
        lambda: slice_row("slice, uint8, last axis reversed", square("uint8"), (every, back), goal=2.0, share=0.85),
        lambda: slice_row("slice, 5 dimensions, strided", rng.random((8, 16, 32, n // 64, n // 8), dtype=np.float32), (second, every, slice(None, None, -2), every, second), goal=2.0, share=0.7, lines=3 * (4 * 16 * 16 * (n // 64) * (n // 16) * 4)),
        lambda: slice_row("slice, broadcast input", np.broadcast_to(rng.random((1, n), dtype=np.float32), (n, n)), (every, every), goal=1.0, lines=n * n * 4 + n * 4),
        lambda: slice_row("slice, NHWC described as NCHW", rng.random((16, n // 32, n // 32, 256), dtype=np.float32).transpose(0, 3, 1, 2), (every,) * 4, goal=2.0),
        lambda: scan_row("running sum, last axis", square(), 1, share=0.6),
        lambda: scan_row("running sum, axis 2 (rows)", square(), 0, share=0.75),
        lambda: scan_row("running sum, last axis, float16", square("float16"), 1, share=0.6),
        lambda: scan_row("running sum, one row", square().reshape(-1), 0, share=0.6),
        lambda: scan_row("running sum, last axis, int32", square("int32"), 1, share=0.6),
        lambda: scan_row("running sum, last axis, uint16", square("uint16"), 1, share=0.6),
        lambda: scan_row("running sum, exclusive", square(), 1, "increasing", True, share=0.6),
        lambda: scan_row("running sum, decreasing", square(), 1, "decreasing", share=0.6),
        lambda: scan_row("running sum, axis 1 of [64, 1024, 1024]", rng.random((64, n // 8, n // 8), dtype=np.float32), 1, share=0.75),
        lambda: gather_row("gather rows of 128", rng.random((few // 2, 128), dtype=np.float32), rng.integers(0, few // 2, (few, 1)), goal=1.3, share=0.6),
        lambda: gather_row("gather rows of 8", rng.random((few, 8), dtype=np.float32), rng.integers(0, few, (few * 8, 1)), goal=1.3),
        lambda: gather_row("gather scalars by 2-D index", rng.random((2048, 2048), dtype=np.float32), rng.integers(0, 2048, (many, 2)), goal=1.5),
    ]  # fmt: skip
    for mib in () if not growth else (1, 4, 16, 64) if quick else (1, 4, 16, 64, 256, 1024):
        width = 1024 if mib < 16 else 8192
        height = mib * 2**20 // 4 // width

        def growth_slice(height: int = height, width: int = width, mib: int = mib) -> CpuRow:
            return slice_row(
                f"growth, last axis reversed, {mib} MiB", rng.random((height, width), dtype=np.float32), (every, back)
            )

        def growth_scan(height: int = height, width: int = width, mib: int = mib) -> CpuRow:
            return scan_row(
                f"growth, running sum, {mib} MiB", rng.random((height, width), dtype=np.float32), 1, goal=1.0
            )

        made += [growth_slice, growth_scan]
    small = rng.random((4, 4), dtype=np.float32)
    made += [
        lambda: slice_row("tiny, slice of 4 x 4", small, (slice(1, 3), slice(0, 4, 2)), family="tiny"),
        lambda: scan_row("tiny, running sum of 4 x 4", small, 1, family="tiny", goal=1.0),
        lambda: gather_row("tiny, gather 2 rows of 4 x 4", small, np.array([[2], [0]]), family="tiny"),
        lambda: chain_row(twelve(), rng, family="compile", goal=0.0, compile_ms=50.0),
    ]
    made += [partial(as_model, make, goal=1.0) for make in made[-4:-1]]
    made += [
        partial(formula_row, replace(formula, name=f"{formula.name}, {k * k * 4 // 2**20} MiB"), rng)
        for k in ((n,) if quick or side else (n // 2, n))
        for formula in formulas((k, k))
    ]
    made += [
        partial(formula_row, replace(formula, name=f"tiny, {formula.name[5:]} of 4 x 4"), rng, family="tiny", share=0.0)
        for formula in formulas((4, 4))[:4]
    ]
    width = min(n // 4, 1024)
    for shape in ((128, width), (n // 8 + 1, max(width - 23, 3)), (2 * n, width)):
        made += reduces(shape, rng)
    made += [partial(as_model, make, goal=1.0, vs_single=1.05) for make in (made[0], made[11], made[20])]
    made += images(rng, 64 if n > 1000 else 4, min(max(n // 64, 16), 112))
    made += [
        partial(chain_row, chain, rng, family="chain", goal=chain.goal, vs_single=1.15)
        for chain in chains(n, few, few, "raise")
    ]
    return made
