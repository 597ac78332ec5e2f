"""Checks of indices: a kernel finds the first tuple with an index outside, and what follows writes nothing then."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.device_memory import memories
from anydml.core.enums import DataType
from anydml.engines.common.program import Checking, Program, one_at_a_time
from anydml.engines.webgpu.codegen.cells import read
from anydml.engines.webgpu.codegen.walks import take_apart
from anydml.engines.webgpu.codegen.wgsl import Body
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES, KernelProgram
from anydml.ir.expressions import const, where
from anydml.ir.loops import Loops
from anydml.ir.verbs import IndexFault
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.core.memory import Buffer
    from anydml.engines.webgpu.device import Gpu
    from anydml.engines.webgpu.launch import Kernel
    from anydml.engines.webgpu.memory import Memory
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Check

NONE = 0xFFFFFFFF
"""The verdict where no tuple has an index outside."""
U32 = DataType.UINT32


def _verdict(number: int) -> View:
    return View(f"\0verdict {number}", U32, (1,), (1,))


def guard(body: Body, checks: Sequence[Check]) -> None:
    """Lines that end an invocation where a check has found an index outside."""
    for number in range(len(checks)):
        body.say(f"if ({body.load(_verdict(number), '0u', U32)} != {NONE}u) {{ return; }}")


def guarded(checks: Sequence[Check], gpu: Gpu) -> Body:
    """A kernel's text that does nothing where a check has found an index outside."""
    body = Body.on(gpu)
    guard(body, checks)
    return body


def _kernels(number: int, check: Check, memory: Memory) -> list[Kernel]:
    """The kernel that makes a verdict anew, and the one that looks at all tuples."""
    view, verdict = check.indices, _verdict(number)
    fresh = Body.on(memory.gpu)
    fresh.say("if (lane == 0u) {")
    fresh.store(verdict, "0u", f"{NONE}u", U32)
    fresh.say("}")
    body = Body.on(memory.gpu)
    tuples = view.sizes[:-1]
    count = math.prod(tuples)
    body.say(f"let i = unit * {LANES}u + lane;", f"if (i >= {body.number(count, 'count')}) {{ return; }}")
    names = take_apart(body, "i", Loops(tuples, (), ()), "c")
    for k, size in enumerate(check.sizes):
        (found,) = read(body, view, U32, [*names, f"{k}u"], functools.partial(_outside, size=size))
        name = body.tensor(verdict, "atomic<u32>")
        body.say(f"if ({found} != 0u) {{ atomicMin(&{name}[{body.base(name)}], i); }}")
    return [fresh.kernel(1), *([body.kernel(-(-count // LANES))] if count else [])]


def _outside(index: Expr, *, size: int) -> Expr:
    """1 for an index outside of a dimension; a negative one of a signed type counts from the end."""
    assert index.type is not None  # noqa: S101 - for type checkers: an index is a number
    last = min(size, 2 ** (8 * index.type.size_in_bytes - index.type.is_signed) - 1)
    test = (index >= const(size, index.type)) if last == size else const(False, None)
    if index.type.is_signed:
        least = max(-size, -(2 ** (8 * index.type.size_in_bytes - 1)))
        test = test | (index < const(least, index.type))
    return where(test, const(1, U32), 0)


@dataclass(frozen=True, slots=True)
class CheckedProgram(Program):
    """Checks, and a program that looks at their verdicts; the host waits for these, once what follows is under way."""

    checks: tuple[Check, ...]
    looks: KernelProgram
    program: Program
    memory: str

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in, with a verdict for each check."""
        memory: Any = memories[self.memory]
        verdicts = [memory.reserve(WORD) for _ in self.checks]
        whole = {**places, **{_verdict(k).tensor: buffer.address for k, buffer in enumerate(verdicts)}}
        return _Checked(self, [self.looks.bind(whole), self.program.bind(whole)], memory, verdicts, places)


class _Checked(Checking):
    """Checks that are bound. Threads launch them one after the other, since verdicts are theirs together."""

    __slots__ = ("_launch", "_launches", "_memory", "_places", "_program", "_verdicts")

    def __init__(
        self,
        program: CheckedProgram,
        launches: Sequence[Callable[[], Any]],
        memory: Any,
        verdicts: Sequence[Buffer],
        places: Mapping[str, int],
    ) -> None:
        self._program, self._launches, self._memory = program, launches, memory
        self._verdicts, self._places = verdicts, places
        self._launch = one_at_a_time(self._launched, "gather")

    def start(self) -> Callable[[], None]:
        """Launch checks and program; the verdicts are on their way to the host."""
        return functools.partial(self._finish, self._launch())

    def _launched(self) -> list[Any]:
        for launch in self._launches:
            launch()
        if self._memory.is_recording:
            return []
        return [self._memory.begin_read(buffer.address) for buffer in self._verdicts]

    def _finish(self, reads: Sequence[Any]) -> None:
        found = [self._memory.end_read(read).view(np.uint32)[0] for read in reads]
        for check, number in zip(self._program.checks, found, strict=False):  # a recording has none
            if number != NONE:
                raise _fault(check, int(number), self._memory, self._places)


def _fault(check: Check, number: int, memory: Any, places: Mapping[str, int]) -> IndexFault:
    view = check.indices
    position = tuple(int(i) for i in np.unravel_index(number, view.sizes[:-1])) if len(view.sizes) > 1 else ()
    width = view.data_type.size_in_bytes
    found = []
    for k in range(len(check.sizes)):
        at = view.offset + sum(i * s for i, s in zip((*position, k), view.strides, strict=True))
        data = memory.read(places[view.tensor] + at * width, width)
        found.append(int(data.view(view.data_type.dtype)[0]))
    low = [-size if view.data_type.is_signed else 0 for size in check.sizes]
    outside = [not least <= index < size for least, index, size in zip(low, found, check.sizes, strict=True)]
    if True not in outside:
        return IndexFault((), (), 0, 0, check.node)  # the indices changed while they were looked at
    k = outside.index(True)
    return IndexFault(position, tuple(found), check.dimension + k, check.sizes[k], check.node)


def checked(checks: tuple[Check, ...], program: Program, memory: Memory) -> Program:
    """A program after its checks, where there are any."""
    if not checks:
        return program
    kernels = [kernel for number, check in enumerate(checks) for kernel in _kernels(number, check, memory)]
    return CheckedProgram(checks, KernelProgram.of(memory.name, *kernels), program, memory.name)
