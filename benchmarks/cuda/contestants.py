"""The contestants: each is bound to every set of inputs and outputs beforehand, and is then called again and again."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import anydml as dml
from benchmarks.chain import Chain
from benchmarks.cuda.kinds import Call, CudaRow
from benchmarks.cuda.maps import MapRow
from benchmarks.cuda.pool import Pool, Tensor, signed
from benchmarks.cuda.reduces import ReduceRow

Sets = Sequence[Sequence[Tensor]]


@dataclass
class Contestant:
    """What is timed: a call a set. A call writes to the set's output, or returns one of its own."""

    calls: list[Call]
    on_own_stream: bool = False
    """Whether the events of PyTorch's stream cannot see it: the host's clock times it, until it says it is done."""
    read: Callable[[Any], Tensor] = torch.as_tensor
    """Makes what a call returned a tensor."""

    def answer(self, out: Tensor) -> Tensor:
        """Call it on the first set, whose output this is."""
        returned = self.calls[0]()
        return out if returned is None or returned is out else signed(self.read(returned))


def ours(row: CudaRow, sets: Sets, outs: Sequence[Tensor], engine: dml.Device) -> Contestant:
    if row.function is not None:
        return Contestant([row.function(x, out) for (x,), out in zip(sets, outs, strict=True)], read=lambda _: outs[0])
    if isinstance(row, ReduceRow):
        return Contestant([row.bind(engine, x, out) for x, out in zip(sets, outs, strict=True)], read=lambda _: outs[0])
    chain = row.chain
    if chain is not None and row.family == "compile":
        calls = [_compiling(chain, engine, inputs, out) for inputs, out in zip(sets, outs, strict=True)]
        return Contestant(calls, read=lambda _: outs[0])
    graph = row if isinstance(row, MapRow) else chain
    compiled = engine.compile(row.desc) if graph is None else graph.compile(engine)
    calls = [compiled.bind(*inputs, out=out).dispatch for inputs, out in zip(sets, outs, strict=True)]
    return Contestant(calls, read=lambda _: outs[0])


def _compiling(chain: Chain, engine: dml.Device, inputs: Sequence[Tensor], out: Tensor) -> Call:
    return lambda: chain.compile(engine).bind(*inputs, out=out).dispatch()


def single(row: CudaRow, sets: Sets, outs: Sequence[Tensor], engine: dml.Device) -> Contestant | None:
    """The one operator that a chain amounts to, on views of its inputs."""
    chain = row.chain
    if chain is None or chain.single is None:
        return None
    compiled = engine.compile(row.desc)
    calls = [compiled.bind(*chain.read(*inputs), out=out).dispatch for inputs, out in zip(sets, outs, strict=True)]
    return Contestant(calls, read=lambda _: outs[0])


def copy(row: CudaRow, pool: Pool, footprint: int) -> Contestant:
    """A contiguous copy that moves as many bytes as the row must, in enough places to pass the cache."""
    count = (row.lines or row.bytes) // 2
    places = -(-footprint // (2 * count))
    sources = pool.bits("uint8", (count,), places)
    targets = pool.room("uint8", (count,), places, "copy")
    return Contestant([_bind(target.copy_, source) for source, target in zip(sources, targets, strict=True)])


def eager(row: CudaRow, sets: Sets, outs: Sequence[Tensor]) -> Contestant | None:
    return Contestant([row.torch(*inputs, out) for inputs, out in zip(sets, outs, strict=True)])


def compiled(row: CudaRow, sets: Sets, outs: Sequence[Tensor]) -> Contestant | None:
    if not row.compiled:
        return None
    importlib.import_module("torch._dynamo").reset()  # else the eighth row is no longer compiled
    expression = row.expression

    def graph(*arguments: Tensor) -> None:
        *inputs, out = arguments
        out.copy_(expression(*inputs))

    fast = torch.compile(graph, dynamic=False, fullgraph=True)
    return Contestant([_bind(fast, *inputs, out) for inputs, out in zip(sets, outs, strict=True)])


def cupy(row: CudaRow, sets: Sets, outs: Sequence[Tensor]) -> Contestant | None:
    """CuPy on the same memory; its default stream is PyTorch's."""
    if row.cupy is None:
        return None
    module = importlib.import_module("cupy")
    calls = [
        row.cupy(module, *[module.from_dlpack(x) for x in (*inputs, out)])
        for inputs, out in zip(sets, outs, strict=True)
    ]
    # cumsum and take return the output they were given.
    return Contestant(calls, read=torch.from_dlpack)


def jax(row: CudaRow, sets: Sets, outs: Sequence[Tensor]) -> Contestant | None:  # noqa: ARG001 - it has no out=
    if row.jax is None:
        return None
    module = importlib.import_module("jax")
    fast = module.jit(row.jax(module.numpy))
    arrays = [importlib.import_module("jax.dlpack").from_dlpack(x) for (x,) in sets]

    def call(x: Any) -> Any:
        return fast(x).block_until_ready()

    return Contestant([_bind(call, x) for x in arrays], on_own_stream=True, read=torch.from_dlpack)


def _bind(function: Callable[..., Any], *arguments: Any) -> Call:
    return lambda: function(*arguments)


def warm_up(name: str, place: str) -> None:
    """Import a peer and have it do something small, so that no row pays for it."""
    small = torch.ones(8, device=place)
    if name == "compile":
        # One kernel at a time needs no pool of processes, which takes seconds to start.
        os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
        torch.compile(lambda x: x + 1, dynamic=False)(small)
    elif name == "cupy":
        importlib.import_module("cupy").from_dlpack(small).sum()
    elif name == "jax":
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # else it takes most of the memory
        importlib.import_module("jax")
        importlib.import_module("jax.dlpack").from_dlpack(small).sum().block_until_ready()


PEERS: dict[str, Callable[[CudaRow, Sets, Sequence[Tensor]], Contestant | None]] = {
    "torch": eager,
    "compile": compiled,
    "cupy": cupy,
    "jax": jax,
}
