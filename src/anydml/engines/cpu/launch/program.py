"""Programs of one kernel: the kernel, its argument record, and the relocations by which it is bound to tensors."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from anydml.core.late_imports import import_alone
from anydml.core.locks import cached_property
from anydml.engines.common.program import Place, Program
from anydml.engines.cpu.launch.call import dispatch, header_of, lay_out
from anydml.engines.cpu.launch.record import HEADER, WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.common.program import OpenSeries
    from anydml.engines.cpu.kernel import Kernel
    from anydml.engines.cpu.launch.record import Record
    from anydml.ir.verbs import Map, Reduce

_word = struct.Struct("q")
_pack = _word.pack


class Alignment(Protocol):
    """How a program depends on its target's address: the exception, of kernels that write past the cache."""

    @property
    def target(self) -> int:
        """The number of the target's relocation."""

    def choose(self, program: KernelProgram, address: int) -> KernelProgram:
        """The program for a target at an address."""


class Command(NamedTuple):
    """A kernel to run."""

    words: list[int]
    """As a kernel reads them, header and all, without the addresses of arrays."""
    size: int
    relocations: Sequence[tuple[int, int, int]]
    """Bytes from the record's first, the number of an array, and bytes after its first element."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Another kernel for a target that is not aligned to some bytes."""

    target: int
    alignment: int
    kernel: Kernel

    def choose(self, program: KernelProgram, address: int) -> KernelProgram:
        """The program, with the other kernel where that is needed."""
        return replace(program, kernel=self.kernel, alignment=None) if address % self.alignment else program


@dataclass(frozen=True, eq=False)
class KernelProgram(Program):
    """A verb made ready: one kernel, to be given its record with the addresses of tensors."""

    kernel: Kernel
    record: Record
    work_items: int
    size: int
    """In bytes, or as much: what threads share work out by."""
    layouts: Mapping[str, Map | Reduce] = field(default_factory=dict)
    """Constants that are laid out ahead."""
    alignment: Alignment | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        values = (self.kernel, self.record, self.work_items, self.size, dict(self.layouts), self.alignment)
        return type(self), values  # without what is made of them for this process

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        own = self
        if self.alignment is not None:
            _, tensor, offset = self.record.relocations[self.alignment.target]
            own = self.alignment.choose(self, places[tensor] + offset)
        return dispatch(own.kernel, own.laid_out(places), own.work_items, own.size)

    def laid_out(self, places: Mapping[str, int]) -> bytes:
        """The whole record, header and addresses and all; a target is aligned as it should be."""
        parts = self._parts.copy()
        for number, (_, tensor, offset) in enumerate(self._relocations):
            parts[2 * number + 1] = _pack(places[tensor] + offset)
        return b"".join(parts)

    def direct(self, tensors: Sequence[str]) -> Callable[..., Any] | None:
        """A function of arrays."""
        return make_series([self], [{tensor: Place(number, 0) for number, tensor in enumerate(tensors)}])

    def kernels(self, _places: Mapping[str, Place]) -> Sequence[KernelProgram] | None:
        """The kernels of a command list; None where they are chosen by addresses."""
        return (self,) if self.alignment is None else None

    def command(self, places: Mapping[str, Place]) -> Command:
        """It as a part of a command list, for arrays that come with the call."""
        words, relocations = [*self.header, *self.record.words], list[tuple[int, int, int]]()
        for word, tensor, offset in self.record.relocations:
            array, far = places[tensor]
            if array is None:
                words[HEADER + word] = far + offset
            else:
                relocations.append((WORD * (HEADER + word), array, far + offset))
        return Command(words, self.size, relocations)

    @property
    def header(self) -> tuple[int, ...]:
        """The words that belong to whoever calls."""
        return header_of(self.kernel, self.work_items, self.size)

    @cached_property
    def _template(self) -> bytes:
        return lay_out(self.kernel, self.record.words, self.work_items, self.size)

    @cached_property
    def _parts(self) -> list[bytes]:
        """What stands before each address, the address, and what stands behind the last: joined they are a record."""
        parts, done = list[bytes](), 0
        for at, _, _ in self._relocations:
            parts += [self._template[done:at], b""]
            done = at + WORD
        return [*parts, self._template[done:]]

    @cached_property
    def _relocations(self) -> list[tuple[int, str, int]]:
        """By bytes from the record's first."""
        return [(WORD * (HEADER + word), tensor, offset) for word, tensor, offset in self.record.relocations]


@runtime_checkable
class Listed(Protocol):
    """A program that may become part of a command list."""

    def kernels(self, places: Mapping[str, Place]) -> Sequence[KernelProgram] | None:
        """The kernels that it runs, one after the other; None where it does more, or chooses them by addresses."""


def make_series(programs: Sequence[Program], places: Sequence[Mapping[str, Place]]) -> Callable[..., Any] | None:
    """A command list of all the kernels: see `Engine.series`."""
    if (commands := _commands(programs, places)) is None:
        return None
    import_alone("anydml.engines.cpu.launch.commands")
    from anydml.engines.cpu.launch.commands import make_command_list

    return make_command_list(commands)


def make_open_series(programs: Sequence[Program], places: Sequence[Mapping[str, Place]]) -> OpenSeries | None:
    """A command list of kernels with words that are open sizes: see `Engine.open_series`."""
    if (commands := _commands(programs, places)) is None:
        return None
    import_alone("anydml.engines.cpu.launch.commands")
    from anydml.engines.cpu.launch.commands import OpenCommandList

    return OpenCommandList.of(commands)


def _commands(programs: Sequence[Program], places: Sequence[Mapping[str, Place]]) -> list[Command] | None:
    """The commands of all kernels; None where there is something else to do, or addresses choose kernels."""
    commands = list[Command]()
    for program, own in zip(programs, places, strict=True):
        kernels = program.kernels(own) if isinstance(program, Listed) else None
        if kernels is None:
            return None
        commands += [kernel.command(own) for kernel in kernels]
    return commands
