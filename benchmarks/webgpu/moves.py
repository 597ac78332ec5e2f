"""The webgpu engine's maps, copies, gathers, rows, scans, scatters and sorts against its own copy speed.

    python -m benchmarks.webgpu.moves [--adapter N] [--mib 256] [--warm 0.25] [row …]

Each is dispatched again and again, and waited for once; the wait itself is taken out by the difference between many
dispatches and half of them. Bytes are what must be read and written once; a share is of the speed of `copy FLOAT32`.
What is asked of rows is a share of PyTorch's speed, which is measured beside where PyTorch finds the same GPU by CUDA.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.engines.webgpu import WebGpuEngine, why_missing
from anydml.ir.expressions import Expr, call, const, fma, fold, load, maximum, sqrt
from anydml.ir.fetches import gathered
from anydml.ir.patterns import copy_of
from anydml.ir.verbs import Map, Reduce, Scan, Scatter, Sort
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.verbs import Primitive

F32, F16, U8, U32, I64 = (DataType[name] for name in ("FLOAT32", "FLOAT16", "UINT8", "UINT32", "INT64"))
COPY = "copy FLOAT32"
LONGEST = 2.0
"""Seconds that the dispatches of one row take at most."""


@dataclass(frozen=True)
class Row:
    """A verb, the bytes that it moves, and the share of copy speed that is asked of it."""

    name: str
    verb: Primitive
    bytes: int
    asked: float | None = None
    eager: Callable[[Any], Callable[[], Any]] | None = None
    """The same by PyTorch, given its module: then the share that is asked is of its speed."""


def packed(tensor: str, of: DataType, *sizes: int) -> View:
    """A view without gaps."""
    return View(tensor, of, sizes, tuple(math.prod(sizes[k + 1 :]) for k in range(len(sizes))))


def rows(size: int) -> Iterator[Row]:
    """All rows, for tensors of about so many bytes."""
    count = size // 4
    a, b, c, y = (packed(name, F32, count) for name in "abcy")
    x, other, third = (load(k, F32) for k in range(3))
    yield Row(COPY, copy_of(a, y), 2 * size, 0.95)
    yield Row("copy FLOAT16", copy_of(packed("a", F16, 2 * count), packed("y", F16, 2 * count)), 2 * size, 0.95)
    yield Row("copy UINT8", copy_of(packed("a", U8, size), packed("y", U8, size)), 2 * size, 0.9)
    yield Row("a + b", Map((a, b), y, x + other), 3 * size, 0.95)
    yield Row("relu(a·b + c)", Map((a, b, c), y, maximum(x * other + third, const(0.0, F32))), 4 * size, 0.95)
    for name, asked in (("exp", 0.95), ("gelu", 0.65), ("sin", 0.3)):
        yield Row(name, Map((a,), y, call(name, x)), 2 * size, asked)
    yield Row("pow", Map((a, b), y, call("pow", x, other)), 3 * size, 0.3)
    halves = packed("a", F16, count), packed("y", F16, count)
    half: Expr = call("exp", load(0, F16).to(F32)).to(F16)
    yield Row("exp FLOAT16", Map(halves[:1], halves[1], half), size)
    side = math.isqrt(count) // 64 * 64
    matrix, inner = packed("a", F32, side, side), packed("y", F32, side - 2, side - 2)
    window = matrix.window((1, 1), (1, 1), (side - 2, side - 2))
    yield Row("slice [1:-1, 1:-1]", copy_of(window, inner), 8 * (side - 2) ** 2, 0.75)
    yield Row("a + row", Map((matrix, View("b", F32, (side, side), (0, 1))), packed("y", F32, side, side), x + other),
              8 * side * side)  # fmt: skip
    yield Row("transpose", copy_of(matrix.pick((1, 0)), packed("y", F32, side, side)), 8 * side * side, 0.85)
    shorts = packed("a", F16, side, side).pick((1, 0)), packed("y", F16, side, side)
    yield Row("transpose FLOAT16", copy_of(*shorts), 4 * side * side)
    many = count // 1024
    table, target = packed("a", F32, many, 1024), packed("y", F32, many, 1024)
    indices = packed("i", I64, many, 1)
    yield Row("gather rows of 4 KiB", gathered(table, indices, target, 0, clamp=True), 2 * size, 0.9)
    yield Row("scatter rows of 4 KiB", Scatter((table, indices, packed("b", F32, many, 1024)), target, 0), 4 * size)
    lines = packed("a", F32, many, 1024), packed("y", F32, many, 1024)
    yield Row("running sum of rows", Scan(lines[:1], lines[1], 1, "sum", reverse=False, exclusive=False), 2 * size, 0.9)
    yield Row("running sum of a line", Scan((a,), y, 0, "sum", reverse=False, exclusive=False), 2 * size, 0.55)
    yield Row("exclusive sum of rows", Scan(lines[:1], lines[1], 1, "sum", reverse=False, exclusive=True), 2 * size)
    yield from reduced(max(count // 8192, 1))
    few = max(many // 64, 1)
    source = packed("a", F32, few, 65536)
    yield Row("sort lines of 65,536", Sort((source,), packed("y", U32, few, 65536), 1, largest=False), few * 2**19)
    yield Row("top 16 of lines of 65,536", Sort((source,), packed("y", U32, few, 16), 1, largest=True), few * 2**18)


def reduced(many: int) -> Iterator[Row]:
    """Softmax, norms and sums of so many rows."""
    for of, length, asked in ((F32, 1024, 0.9), (F32, 4096, 0.9), (F32, 64, None), (F16, 1024, None)):
        x, y = packed("a", of, many, length), packed("y", of, many, length)
        element = load(0, of).to(F32)
        apart = element - fold("max", element)
        power = call("exp", apart)
        size, name = many * length * of.size_in_bytes, f"{many}x{length} {of.name}"
        soft = (power / fold("sum", power)).to(of)
        yield Row(f"softmax {name}", Reduce((x,), y, soft, 1), 2 * size, asked, along(of, many, length, "softmax"))
    log = apart - call("log", fold("sum", power))
    yield Row(
        f"log softmax {name}", Reduce((x,), y, log.to(of), 1), 2 * size, None, along(of, many, length, "log_softmax")
    )
    for length in (1024, 4096):
        x, y = packed("a", F32, many, length), packed("y", F32, many, length)
        scale, bias = (View(key, F32, (many, length), (0, 1)) for key in "bc")
        element, size, name = load(0, F32), 4 * many * length, f"{many}x{length}"
        apart = element - fold("sum", element) / float(length)
        by = 1.0 / sqrt(fold("sum", apart * apart) / float(length) + 1e-5)
        norm = fma(apart * by, load(1, F32), load(2, F32))
        yield Row(f"layer norm {name}", Reduce((x, scale, bias), y, norm, 1), 2 * size, None, normed(many, length))
        root = 1.0 / sqrt(fold("sum", element * element) / float(length) + 1e-5)
        yield Row(f"RMS norm {name}", Reduce((x, scale), y, element * root * load(1, F32), 1), 2 * size)
        total = Reduce((x,), packed("y", F32, many, 1), fold("sum", element), 1)
        yield Row(f"sum of rows {name}", total, size, None, along(F32, many, length, "sum"))


def along(of: DataType, many: int, length: int, name: str) -> Callable[[Any], Callable[[], Any]]:
    """A method of PyTorch's along rows."""

    def make(torch: Any) -> Callable[[], Any]:
        x = torch.randn(many, length, device="cuda").to(torch.float16 if of is F16 else torch.float32)
        return lambda: getattr(x, name)(-1)

    return make


def normed(many: int, length: int) -> Callable[[Any], Callable[[], Any]]:
    """PyTorch's layer norm."""

    def make(torch: Any) -> Callable[[], Any]:
        x, scale, bias = (torch.randn(*sizes, device="cuda") for sizes in ((many, length), (length,), (length,)))
        return lambda: torch.nn.functional.layer_norm(x, (length,), scale, bias)

    return make


def by_torch(row: Row) -> float | None:
    """The seconds that PyTorch takes; None without it."""
    if row.eager is None or importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    run, times = row.eager(torch), 100
    for _ in range(times):
        run()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / times / 1e3


def contents(view: View, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Numbers for a tensor."""
    count = view.offset + sum(stride * (n - 1) for n, stride in zip(view.sizes, view.strides, strict=True)) + 1
    if view.tensor == "i":
        return rng.permutation(count)
    block = rng.normal(size=min(count, 2**20)).astype(np.float32)
    return np.resize(block.astype(view.data_type.dtype), count)


def memory_of(engine: WebGpuEngine) -> Memory:
    """The memory that an engine works in, by whose device it is waited for."""
    memory: Memory = engine._memory  # noqa: SLF001 - a device of `anydml` measures more than kernels
    return memory


def bound(engine: WebGpuEngine, verb: Primitive) -> tuple[Callable[[], Any], list[Any]]:
    """A verb on memory of its own, which is kept with it."""
    rng, memory = np.random.default_rng(0), memory_of(engine)
    kept, places = [], {}
    for view in verb.views:
        if view.tensor not in places:
            data = contents(view, rng)
            kept.append(engine.reserve(data.nbytes + 256))
            places[view.tensor] = kept[-1].address
            memory.write(kept[-1].address, data.view(np.uint8).reshape(-1))
    return engine.compile(verb).bind(places), kept


def seconds(engine: WebGpuEngine, launch: Callable[[], Any], warm: float) -> float:
    """The time of one dispatch among many."""

    memory = memory_of(engine)

    def run(times: int) -> float:
        memory.wait()
        begin = time.perf_counter()
        for _ in range(times):
            launch()
        memory.wait()
        return time.perf_counter() - begin

    run(1)  # which compiles
    once, end = run(1), time.perf_counter() + warm
    while time.perf_counter() < end:  # a GPU that was idle is slow at first
        run(4)
    times = max(min(int(LONGEST / 5 / max(once, 1e-6)), 200), 2) // 2 * 2
    return min(max(run(times) - run(times // 2), 1e-9) / (times // 2) for _ in range(3))


def main() -> None:
    """Print the rows, each as it is measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.webgpu.moves", description=__doc__)
    parser.add_argument("--adapter", type=int, default=0)
    parser.add_argument("--mib", type=int, default=256, help="of each tensor")
    parser.add_argument("--warm", type=float, default=0.25, help="seconds that each row runs before it is timed")
    parser.add_argument("rows", nargs="*", help="parts of the names of rows; all without")
    options = parser.parse_args()
    if reason := why_missing():
        raise SystemExit(reason)
    engine = WebGpuEngine(options.adapter)
    print(memory_of(engine).gpu.info)
    speed = 0.0
    for row in rows(options.mib << 20):
        if row.name != COPY and options.rows and not any(part in row.name for part in options.rows):
            continue
        launch, kept = bound(engine, row.verb)
        taken = seconds(engine, launch, options.warm)
        del launch, kept
        speed = speed or row.bytes / taken
        share, asked = row.bytes / taken / speed, "" if row.asked is None else f"asked {row.asked:.2f}"
        if (eager := by_torch(row)) is not None:
            asked = f"{eager / taken:.2f} of PyTorch's, {eager * 1e6:.1f} us  {asked}"
        elif row.eager is not None and asked:
            asked += " of PyTorch's"
        print(f"{row.name:28} {taken * 1e6:10.1f} us {row.bytes / taken / 1e9:9.1f} GB/s {share:6.2f} of copy  {asked}")


if __name__ == "__main__":
    main()
