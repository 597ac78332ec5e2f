"""Products, convolutions and attention of the webgpu engine, timed, beside PyTorch where it has a CUDA device.

    python -m benchmarks.webgpu.products [--tiles] [part of a name …]

A time is that of one dispatch among many that follow one another, which wait for each other: they write the same memory.
PyTorch multiplies FLOAT32 without TF32, and its share is how many times as long it takes. With `--tiles` each tile shape
is forced in turn.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.webgpu import WebGpuEngine
from anydml.engines.webgpu.conv import implicit_gemm
from anydml.engines.webgpu.gemm import gemm
from anydml.ir import expressions as ex
from anydml.ir.attention import Attend
from anydml.ir.blocked_weights import number_in
from anydml.ir.fetches import Line
from anydml.ir.padded_reads import reach
from anydml.ir.verbs import Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anydml.engines.webgpu.gemm.tile import TileShape

    Beside = Callable[[Mapping[str, Any]], Any]

F16, F32, I32, U8 = DataType.FLOAT16, DataType.FLOAT32, DataType.INT32, DataType.UINT8
WARM, LEAST, TIMES = 0.25, 0.05, 5
"""Seconds until a device's clock is up, seconds of a measurement, and how many of them: the least counts."""


class Work(NamedTuple):
    """A verb, the elements of its tensors, and what it computes and moves."""

    name: str
    verb: Reduce | Attend
    sizes: Mapping[str, tuple[int, DataType]]
    multiplications: int
    beside: Beside | None = None
    """The same by PyTorch, of the tensors."""

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return sum(count * of.size_in_bytes for count, of in self.sizes.values())


def product(m: int, n: int, k: int, of: DataType = F32, *, is_tall: bool = False) -> Work:
    """A product of matrices; of a tall right one neighbours in memory are of one column."""
    views = View("a", of, (m, n, k), (k, 0, 1)), View("b", of, (m, n, k), (0, k, 1) if is_tall else (0, 1, n))
    total = ex.fold("sum", ex.load(0, of).to(F32) * ex.load(1, of).to(F32)).to(of)
    verb = Reduce(views, View("y", of, (m, n, 1), (n, 1, 0)), total, 1, (k,))
    name = f"product {of.name} {m} x {n} x {k}{' tall' if is_tall else ''}"

    def beside(t: Mapping[str, Any]) -> Any:
        right = t["b"].view(n, k).T if is_tall else t["b"].view(k, n)
        return t["a"].view(m, k) @ right

    return Work(name, verb, {"a": (m * k, of), "b": (k * n, of), "y": (m * n, of)}, m * n * k, beside)


def attention(heads: int, queries: int, keys: int, size: int, of: DataType = F32, *, is_causal: bool = False) -> Work:
    """Attention in one pass."""
    walk, views = (heads, queries, keys), []
    for name, count in (("q", queries), ("k", keys), ("v", keys), ("y", queries)):
        views.append(View(name, of, (heads, count, size), (count * size, size, 1)))
    limit = ex.coordinate(1) + (keys - queries + 1) if is_causal else None
    verb = Attend(tuple(views[:3]), views[3], ex.load(0, F32) * ex.const(size**-0.5, F32), limit)

    def beside(t: Mapping[str, Any]) -> Any:
        import torch

        q, k, v = (t[view.tensor].view(1, *view.sizes) for view in views[:3])
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    name = f"attention {of.name} {heads} x {queries} x {keys} x {size}{' causal' if is_causal else ''}"
    sizes = {view.tensor: (math.prod(view.sizes), of) for view in views}
    return Work(name, verb, sizes, 2 * math.prod(walk) * size // (2 if is_causal else 1), beside)


def weights(m: int, n: int, k: int, block: int = 32) -> Work:
    """A product with weights of 4 bits."""
    blocks, half = k // block, block // 2
    sizes = (m, n, blocks, half, 2)
    views = (
        View("a", F32, sizes, (k, 0, block, 2, 1)),
        View("q", U8, sizes, (0, k // 2, half, 1, 0)),
        View("s", F32, sizes, (0, blocks, 1, 0, 0)),
    )
    number = (number_in(ex.load(1, U8), DataType.UINT4, ex.coordinate(4)).to(I32) - ex.const(8, U8).to(I32)).to(F32)
    total = ex.fold("sum", ex.load(0, F32) * number * ex.load(2, F32))
    verb = Reduce(views, View("y", F32, (m, n, 1, 1, 1), (n, 1, 0, 0, 0)), total, 3, sizes[2:])
    sizes_of = {"a": (m * k, F32), "q": (n * k // 2, U8), "s": (n * blocks, F32), "y": (m * n, F32)}
    return Work(f"product uint4 {m} x {n} x {k}", verb, sizes_of, m * n * k)


def convolution(
    batch: int, channels: int, filters: int, size: int, taps: int, *, stride: int = 1, is_last: bool = False,
    groups: int = 1,
) -> Work:  # fmt: skip
    """A square image, with a border that keeps its size; channels and filters are those of a group."""
    pad, count = taps // 2, (size + 2 * (taps // 2) - taps) // stride + 1
    walk = (batch, groups, filters, count, count, channels, taps, taps)
    lines = [Line(-pad, ((3 + k, stride), (6 + k, 1))).value for k in range(2)]
    inputs, outputs, plane = groups * channels, groups * filters, size * size
    strides: tuple[int, ...]
    target: tuple[int, ...]
    if is_last:
        strides = (plane * inputs, channels, 1, size * inputs, inputs)
        target = (count * count * outputs, filters, 1, count * outputs, outputs)
    else:
        strides = packed_strides((batch, groups, channels, size, size))
        target = packed_strides((batch, groups, filters, count, count))
    image = View("x", F32, (batch, groups, channels, size, size), strides)
    steps = packed_strides((groups, filters, channels, taps, taps))
    kernel = View("w", F32, walk, (0, *steps[:2], 0, 0, *steps[2:]))
    indices = [ex.coordinate(0), ex.coordinate(1), ex.coordinate(5), *lines]
    number = reach(0, F32, indices, [None, None, None, *([size, size] if pad else [None, None])], ex.const(0, F32))
    written = View("y", F32, (*walk[:5], 1, 1, 1), (*target, 0, 0, 0))
    verb = Reduce((image, kernel), written, ex.fold("sum", number * ex.load(1, F32)), 3, walk[5:])
    counts = {"x": batch * inputs * plane, "w": math.prod((groups, filters, channels, taps, taps))}
    counts["y"] = batch * outputs * count * count
    name = f"convolution {batch} x {inputs} to {outputs}{f' in {groups} groups' if groups > 1 else ''}, {size}², {taps} x {taps}"
    name += (f" by {stride}" if stride > 1 else "") + (" channels last" if is_last else "")

    def beside(t: Mapping[str, Any]) -> Any:
        import torch

        x, w = t["x"].view(batch, inputs, size, size), t["w"].view(outputs, channels, taps, taps)
        if is_last:
            x = t["x"].view(batch, size, size, inputs).permute(0, 3, 1, 2)
            w = w.to(memory_format=torch.channels_last)
        return torch.nn.functional.conv2d(x, w, stride=stride, padding=pad, groups=groups)

    return Work(name, verb, {key: (n, F32) for key, n in counts.items()}, math.prod(walk), beside)


def works() -> Iterator[Work]:
    """What is timed."""
    for n in (256, 512, 1024, 2048, 4096):
        yield product(n, n, n)
    yield product(4096, 4096, 4096, is_tall=True)
    yield product(4095, 4095, 4095)
    yield product(128, 768, 768)
    yield product(128, 3072, 768)
    yield product(64, 64, 65536)
    for n in (1024, 4096):
        yield product(n, n, n, F16)
    for m in (1, 4):
        yield product(m, 4096, 4096)
        yield product(m, 4096, 4096, is_tall=True)
        yield product(m, 4096, 4096, F16, is_tall=True)
        yield weights(m, 4096, 4096)
    yield weights(512, 4096, 4096)
    for is_last in (False, True):
        yield convolution(32, 64, 64, 56, 3, is_last=is_last)
        yield convolution(32, 256, 256, 14, 3, is_last=is_last)
        yield convolution(32, 3, 64, 224, 7, stride=2, is_last=is_last)
        yield convolution(32, 64, 256, 56, 1, is_last=is_last)
        yield convolution(32, 1, 1, 56, 3, groups=256, is_last=is_last)
    yield convolution(32, 512, 512, 7, 3)
    yield convolution(32, 1, 1, 56, 3, groups=256, stride=2)
    for of in (F32, F16):
        yield attention(12, 512, 512, 64, of)
        yield attention(32, 2048, 2048, 128, of)
        yield attention(32, 2048, 2048, 128, of, is_causal=True)


def microseconds(gpu: WebGpuEngine, work: Work) -> float:
    """The time of one dispatch."""
    random = np.random.default_rng(0)
    buffers = {}
    for name, (count, of) in work.sizes.items():
        buffers[name] = gpu.reserve(count * of.size_in_bytes)
        data = (
            random.random(count, np.float32).astype(of.dtype)
            if of.is_float
            else random.integers(0, 256, count, np.uint8)
        )
        gpu._memory.write(buffers[name].address, data.view(np.uint8))  # noqa: SLF001 - what arrays go by
    launch = gpu.compile(work.verb).bind({name: buffer.address for name, buffer in buffers.items()})

    def run(times: int) -> float:
        gpu._memory.wait()  # noqa: SLF001 - as above
        begin = time.perf_counter()
        for _ in range(times):
            launch()
        gpu._memory.wait()  # noqa: SLF001 - as above
        return time.perf_counter() - begin

    return _least(run)


def _least(run: Callable[[int], float]) -> float:
    """The microseconds of one of many, once the clock is up."""
    times, begin = 1, time.perf_counter()
    while (took := run(times)) < LEAST or time.perf_counter() - begin < WARM:
        times = times * 2 if took < LEAST else times
    return min(run(times) for _ in range(TIMES)) / times * 1e6


def microseconds_beside(work: Work) -> float | None:
    """The time of PyTorch, where it has a CUDA device."""
    beside = work.beside
    if beside is None or importlib.util.find_spec("torch") is None:
        return None
    import torch

    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    tensors = {}
    for name, (count, of) in work.sizes.items():
        tensors[name] = torch.rand(count, device="cuda").to(getattr(torch, of.dtype.name))

    def run(times: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(times):
            beside(tensors)
        torch.cuda.synchronize()
        return time.perf_counter() - begin

    return _least(run)


@contextlib.contextmanager
def forced(shape: TileShape | None) -> Iterator[None]:
    """Every product in tiles of a shape; as it is chosen without one."""
    with contextlib.ExitStack() as stack:
        for module in (gemm, implicit_gemm) if shape is not None else ():
            stack.enter_context(mock.patch.object(module, "shape_for", return_value=shape))
        yield


def main() -> None:
    """A line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="parts of a name")
    parser.add_argument("--tiles", action="store_true", help="each tile shape in turn")
    given = parser.parse_args()
    gpu = WebGpuEngine()
    for work in works():
        if not all(word in work.name for word in given.words):
            continue
        way = gpu.route([work.verb], frozenset()).name
        has_tiles = given.tiles and way in ("GEMM", "implicit GEMM", "weight-only GEMM")
        beside = microseconds_beside(work)
        for shape in gemm.SHAPES if has_tiles else (None,):
            with forced(shape):
                took = microseconds(gpu, work)
            tile = f" {shape.rows} x {shape.columns} x {shape.depth}" if shape else ""
            speed = f"{2e-6 * work.multiplications / took:8.2f} TFLOP/s {1e-3 * work.bytes / took:8.0f} GB/s"
            share = f"{beside / took:6.2f} of PyTorch's {beside:.1f}" if beside else ""
            print(f"{work.name:60} {way + tile:32} {took:10.1f} us {speed} {share}", flush=True)


if __name__ == "__main__":
    main()
