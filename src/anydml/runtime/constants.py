"""The constants of a graph in memory of the engine's: those it was given, and what is computed of them once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from anydml.arrays import upload, wait
from anydml.arrays.shared import SharedData
from anydml.core.device_memory import identity
from anydml.core.errors import BindingError, DmlError, Fault, show
from anydml.core.memory import HOST, Buffer
from anydml.graph.arena import ALIGNMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

    from anydml.engines.common.engine import Engine
    from anydml.runtime.constant_program import Job, Once

Data: TypeAlias = bytes | SharedData
_SMALL = 65_536
"""Bytes below which shared data is copied to a GPU with the rest, at once."""
_BLOCK = 32 * 1024 * 1024
"""Bytes of memory that results share at most: each keeps all of it."""


@dataclass(slots=True, weakref_slot=True)
class _Made:
    """A result computed of shared data, which it keeps: other graphs find it by its origin."""

    buffer: Buffer
    roots: tuple[SharedData, ...]


class Constants:
    """The constants that every dispatch of a graph reads: where they lie, and the memory, which is kept with this.

    Data that graphs share is read where it lies. What `once` computes of shared data alone is shared as well, for as
    long as a graph reads it. What it reads alone, and no dispatch does, is not kept.
    """

    def __init__(
        self, engine: Engine, subject: str, data: Mapping[str, Data], once: Once, read: Collection[str]
    ) -> None:
        self._engine, self._subject = engine, subject
        self._memory: list[Buffer | _Made] = []
        self.places: dict[str, int] = {}
        self._bring({name: given for name, given in data.items() if name in read})
        if once.jobs:
            self._compute(once, {name: given for name, given in data.items() if name in once.reads})

    def __bool__(self) -> bool:
        return bool(self._memory)

    @property
    def held(self) -> dict[int, int]:
        """By address, the bytes of memory that is kept; other graphs may keep the same."""
        buffers = (one.buffer if isinstance(one, _Made) else one for one in self._memory)
        return {buffer.address: buffer.size for buffer in buffers}

    def _bring(self, data: Mapping[str, Data]) -> None:
        """Have data in memory of the engine's, as it is."""
        together = {}
        for name, given in data.items():
            if isinstance(given, SharedData) and (self._engine.memory == HOST or len(given) >= _SMALL):
                self._keep(name, self._share(given))
            else:
                together[name] = given if isinstance(given, bytes) else given.array.tobytes()
        self._copy(together)

    def _keep(self, name: str, buffer: Buffer) -> None:
        self.places[name] = buffer.address
        self._memory.append(buffer)

    def _share(self, data: SharedData) -> Buffer:
        try:
            return data.buffer(self._engine.memory)
        except DmlError:  # of what is read or computed when it is first asked for
            raise
        except Exception as error:
            raise self._no_room(len(data), error) from error

    def reserve(self, size: int) -> Buffer:
        """Memory of the engine's."""
        try:
            return self._engine.reserve(size)
        except DmlError:  # a device that is lost, or another process's
            raise
        except Exception as error:
            raise self._no_room(size, error) from error

    def _rooms(self, sizes: Sequence[int]) -> Iterator[Buffer]:
        """Memory for one result after the other: the host's lie together in blocks, which large pages make up."""
        block, used = None, 0
        for number, size in enumerate(sizes):
            if self._engine.memory != HOST or size >= _BLOCK:
                yield self.reserve(size)
                continue
            if block is None or used + size > block.size:
                left = sum(-(-each // ALIGNMENT) * ALIGNMENT for each in sizes[number:] if each < _BLOCK)
                block, used = self.reserve(min(left, _BLOCK)), 0
            yield Buffer(block.address + used, size, True, block.owner)
            used += -(-size // ALIGNMENT) * ALIGNMENT

    def _no_room(self, size: int, error: Exception) -> BindingError:
        rule = f"{size} bytes of {self._engine.memory} memory could not be allocated ({show(error)})"
        return BindingError(self._subject, Fault(field="constants", rule=rule, value=size))

    def _copy(self, data: Mapping[str, bytes]) -> None:
        """Copy data of the graph's own, one after the other, aligned."""
        if not data:
            return
        offsets, end = {}, 0
        for name, given in data.items():
            offsets[name] = end
            end += -(-len(given) // ALIGNMENT) * ALIGNMENT
        try:
            memory = np.zeros(end, np.uint8)
            for name, given in data.items():
                memory[offsets[name] : offsets[name] + len(given)] = np.frombuffer(given, np.uint8)
            buffer = upload(memory, self._engine.memory)
        except DmlError:  # as above
            raise
        except Exception as error:
            raise self._no_room(end, error) from error
        self._memory.append(buffer)
        self.places.update({name: buffer.address + offset for name, offset in offsets.items()})

    def _compute(self, once: Once, data: Mapping[str, Data]) -> None:
        origins = _trace(once, {name: given for name, given in data.items() if isinstance(given, SharedData)})
        needed = {*once.outputs}
        jobs: list[Job] = []
        for job in reversed(once.jobs):
            name = job.target
            if name not in needed:
                continue
            made = self._find(origins.get(name)) if name in once.outputs else None
            if made is not None:
                self.places[name] = made.buffer.address
                self._memory.append(made)
            else:
                jobs.append(job)
                needed.update(job.sources)
        if jobs:
            self._run(once, jobs[::-1], origins, {n: given for n, given in data.items() if n not in self.places})

    def _key(self, key: object) -> tuple[object, bool, object]:
        """What a result is known by, beside its roots: where it lies, and how exactly it was computed."""
        return identity(self._engine.memory), self._engine.is_precise, key

    def _find(self, origin: _Origin | None) -> _Made | None:
        """A result that another graph computed already."""
        found: _Made | None = None if origin is None else origin.roots[0].derived.get(self._key(origin.key))
        return found

    def _run(self, once: Once, jobs: list[Job], origins: Mapping[str, _Origin], passing: Mapping[str, Data]) -> None:
        """Run jobs; data that no dispatch reads is there from the first job that reads it to the last."""
        last = {name: number for number, job in enumerate(jobs) for name in job.sources}
        passed: dict[str, list[Buffer | _Made]] = {}
        scratch = self.reserve(once.arena.size_in_bytes) if once.arena.offsets else None
        stores = dict(once.arena.placed(self.places, scratch))
        rooms = self._rooms([once.outputs[job.target] for job in jobs if job.target in once.outputs])
        made: dict[str, Buffer] = {}
        window = _Window(self, passing.values())
        for number, job in enumerate(jobs):
            for source in job.sources:
                if source in passing and source not in passed:
                    if self._engine.memory == HOST and (seen := window.read(source, passing[source])):
                        passed[source], stores[source] = [], seen
                        continue
                    start = len(self._memory)
                    self._bring({source: passing[source]})
                    passed[source] = self._memory[start:]
                    del self._memory[start:]
                    stores[source] = self.places.pop(source)
            if job.target in once.outputs:
                made[job.target] = next(rooms)
                self._keep(job.target, made[job.target])
                stores[job.target] = made[job.target].address
            job.program(self._engine).bind(stores)()
            if self._engine.memory == HOST:
                for gone in [tensor for tensor in passed if last[tensor] == number]:
                    passed[gone].clear()
                    window.leave(gone)
        wait(self._engine.memory)  # whatever stream it is then read on
        for name, buffer in made.items():
            if (origin := origins.get(name)) is not None:
                found = _Made(buffer, origin.roots)
                self._memory.append(found)
                origin.roots[0].derived[self._key(origin.key)] = found


class _Window:
    """Host memory that one tensor after the other is read into, which would take longer into new memory."""

    def __init__(self, constants: Constants, several: Iterable[Data]) -> None:
        self._constants = constants
        self._sizes = [len(one) for one in several if isinstance(one, SharedData) and one.can_fill()]
        self._memory: Buffer | None = None
        self._reader = ""

    def read(self, name: str, data: Data) -> int | None:
        """Where a tensor was read to; None where that cannot be, or another tensor is there."""
        if self._reader or not isinstance(data, SharedData) or not data.can_fill():
            return None
        if self._memory is None:
            self._memory = self._constants.reserve(max(self._sizes))
        data.fill(self._memory.numpy(0, (len(data),), (1,), np.dtype(np.uint8)))
        self._reader = name
        return self._memory.address

    def leave(self, name: str) -> None:
        """A tensor is needed no more."""
        if self._reader == name:
            self._reader = ""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The origin of a constant: shared data, and the steps from there."""

    key: Hashable
    roots: tuple[SharedData, ...]


def _trace(once: Once, shared: Mapping[str, SharedData]) -> dict[str, _Origin]:
    """The origins of what jobs make of shared data alone."""
    origins = {name: _Origin(id(data), (data,)) for name, data in shared.items()}
    for job in once.jobs:
        if not job.sources or any(name not in origins for name in job.sources):
            continue
        roots = tuple(root for name in job.sources for root in origins[name].roots)
        origins[job.target] = _Origin((job.key, *(origins[name].key for name in job.sources)), roots)
    return origins
