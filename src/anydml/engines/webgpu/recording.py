"""Recordings: what a run would have a device do, as data that another program carries out: a page in a browser.

A recording is a memory of no device. Kernels are planned for what every browser has; what is dispatched, and the bytes
that are written, are kept in their order.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from anydml.core.device_memory import memories
from anydml.core.errors import Fault, UnsupportedError
from anydml.core.memory import Buffer, word_bytes
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import GRANULE, QUAD, numbers_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self

    from anydml.core.device_memory import Bytes
    from anydml.engines.webgpu.launch import Kernel

Result = TypeVar("Result")

_numbers = itertools.count()


@dataclass(frozen=True)
class CoreGpu:
    """What kernels may rely on in any browser, in the place of an open device."""

    info = "a browser"
    features = frozenset[str]()
    arithmetic = None
    fuses = "fma"
    """GPUs round it once. Where one does not, functions are off by some units of the last place: in parts, as other
    devices have it, SwiftShader takes minutes to compile tanh."""
    is_exact = False
    is_precise = True
    most_bindings = 8
    offset_alignment = GRANULE
    largest_binding = 2**31 - GRANULE
    largest_buffer = 2**31 - GRANULE
    immediate_words = 0
    workgroup_memory = 16 * 1024

    def check(self) -> None:
        """It is never lost."""


class Place(NamedTuple):
    """Bytes of a buffer, by its number."""

    buffer: int
    offset: int
    size: int


class Write(NamedTuple):
    """Bytes that are copied to a buffer."""

    place: Place
    data: bytes


class Copy(NamedTuple):
    """Bytes of one buffer that are copied to another."""

    source: Place
    target: Place


class Dispatched(NamedTuple):
    """A kernel that runs on parts of buffers."""

    text: str
    bindings: tuple[Place, ...]
    numbers: tuple[int, ...]
    groups: tuple[int, int, int]


@dataclass
class Recording:
    """A memory that records."""

    name: str = field(default_factory=lambda: f"webgpu:recording {next(_numbers)}")
    gpu: Any = field(default_factory=CoreGpu)
    alignment = WORD
    is_recording = True
    sizes: list[int] = field(default_factory=list)
    """Of the buffers."""
    setup: list[Write | Copy | Dispatched] = field(default_factory=list)
    """What is done once."""
    steps: list[Write | Copy | Dispatched] = field(default_factory=list)
    """What is done at every run."""
    is_running: bool = False
    """Whether a run is recorded."""

    def __enter__(self) -> Self:
        memories[self.name] = self
        return self

    def __exit__(self, *_: object) -> None:
        del memories[self.name]

    def record(self, run: Callable[[], Result]) -> Result:
        """Record a run, after one that does what is done once; what the second gives."""
        run()
        self.is_running = True
        return run()

    @property
    def _now(self) -> list[Write | Copy | Dispatched]:
        return self.steps if self.is_running else self.setup

    def reserve(self, size: int) -> Buffer:
        """A buffer of its own."""
        whole = max(-(-size // GRANULE), 1) * GRANULE
        if whole > self.gpu.largest_buffer:
            raise MemoryError(f"{word_bytes(size)} in one piece: browsers have 2 GiB at most")
        self.sizes.append(whole)
        return Buffer(len(self.sizes) << 40, size, True, self, self.name)

    def place(self, address: int, size: int) -> Place:
        """The bytes at an address."""
        return Place((address >> 40) - 1, address & (1 << 40) - 1, size)

    def write(self, address: int, data: Bytes) -> None:
        """Bytes that are written, in whole words: what follows a tensor's end in its buffer is nobody's."""
        self._now.append(Write(self.place(address, data.size), data.tobytes() + bytes(-data.size % WORD)))

    def read(self, address: int, size: int) -> Bytes:
        """Nothing has run: what the host would compute with is not there."""
        rule = "a part of the model runs on the host, or needs numbers that are known in a run alone"
        way_out = "`anydml check MODEL` names the nodes that run elsewhere"
        raise UnsupportedError(
            "export", Fault(field="model", rule=rule, value=self.place(address, size), way_out=way_out)
        )

    def wait(self) -> None:
        """Nothing runs."""

    def timestamps(self) -> None:
        """Nothing takes time."""

    def dispatch(self, kernel: Kernel, places: Mapping[str, int]) -> Callable[[], None]:
        """A function that records a dispatch."""
        found, words = [], []
        for binding in kernel.bindings:
            whole = self.place(places[binding.tensor] + binding.first, binding.size)
            aligned = whole.offset // GRANULE * GRANULE
            words.append((whole.offset - aligned) // WORD)
            size = -(-(whole.offset - aligned + binding.size) // QUAD) * QUAD
            found.append(Place(whole.buffer, aligned, size))
        numbers = (0, *words, *kernel.numbers)
        text = kernel.text.replace("{NUMBERS}", numbers_text(len(found), len(numbers), is_immediate=False))

        def record() -> None:
            apart = list(found)
            for k, place in enumerate(found):
                # A browser binds no bytes twice to be written: what is read there as well is copied first.
                if not kernel.bindings[k].is_written and any(_meet(place, o) for o in (*apart[:k], *found[k + 1 :])):
                    apart[k] = self._copied(place)
            for a, b in itertools.combinations(apart, 2):
                if _meet(a, b):
                    rule = "a kernel writes to two tensors in one place, which a browser does not allow"
                    raise UnsupportedError("export", Fault(field="model", rule=rule, value=a))
            self._now.append(Dispatched(text, tuple(apart), numbers, kernel.groups))

        return record

    def _copied(self, place: Place) -> Place:
        self.sizes.append(-(-place.size // GRANULE) * GRANULE)
        copy = Place(len(self.sizes) - 1, 0, place.size)
        self._now.append(Copy(place, copy))
        return copy


def _meet(a: Place, b: Place) -> bool:
    return a.buffer == b.buffer and a.offset < b.offset + b.size and b.offset < a.offset + a.size
