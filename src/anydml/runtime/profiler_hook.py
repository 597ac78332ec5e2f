"""The profiler hook: what is bound meanwhile tells how long each of its passes takes; nothing else is any slower."""

from __future__ import annotations

import contextlib
import functools
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.arrays.cuda import load_torch
from anydml.core.device_memory import memories
from anydml.core.memory import is_cuda
from anydml.ir.cost import Work, work_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anydml.core.enums import DataType
    from anydml.runtime.compiled import CompiledOperator
    from anydml.runtime.graph import CompiledGraph


_MOST_SPANS = 100_000
"""Of the last run that are kept one by one: a loop may have any number."""
WATCHER: ContextVar[Recorder | None] = ContextVar("watcher", default=None)
"""Whom passes that are bound now tell; mostly nobody. To ask takes 20 ns."""


_NONE: Mapping[str, str] = MappingProxyType({})


class Span(NamedTuple):
    """One call of a pass, in seconds from the beginning of its run."""

    number: int
    start: float
    seconds: float


@dataclass(slots=True)
class Watched:
    """A pass, and what it took in each run."""

    nodes: tuple[str, ...]
    work: Work
    """Of one call."""
    data_type: DataType | None
    """The type that it reads first; None for a pass on the host."""
    calls: int = 0
    """In the last run."""
    seconds: list[float] = field(default_factory=list)
    """Of each run, all calls together."""


class Recorder:
    """Keeps what passes take, by run."""

    def __init__(self, memory: str) -> None:
        self._clock = _clock_of(memory)
        self.passes: list[Watched] = []
        self.runs: list[float] = []
        """The seconds of each run, what lies between its passes included."""
        self.spans: list[Span] = []
        """Of the last run, the first 100,000."""
        self._numbers: dict[tuple[Any, int], int] = {}
        self._marks: list[tuple[int, Any, Any]] = []

    def watch(
        self,
        compiled: CompiledGraph | CompiledOperator,
        launches: dict[int, Callable[[], Any]],
        labels: Mapping[str, str] = _NONE,
    ) -> dict[int, Callable[[], Any]]:
        """The same launches, by the numbers of their steps, which are timed; labels are nodes' names for people."""
        found: dict[int, Callable[[], Any]] = {}
        for number, launch in launches.items():
            step = compiled.recipe.steps[number]
            nodes = tuple(dict.fromkeys(labels.get(node, node) for node in step.nodes))
            first = (*step.primitive.sources, step.target)[0]
            mine = self._number((compiled, number), nodes, work_of(step.primitive), first.data_type)
            found[number] = functools.partial(self._run, mine, self._clock.mark, launch)
        return found

    def time_host(self, nodes: tuple[str, ...], run: Callable[[], Any]) -> Any:
        """Run something on the host, and time it."""
        return self._run(self._number((nodes, -1), nodes, Work(0, 0), None), self._clock.mark_host, run)

    def routes(self) -> list[str]:
        """For each pass the route of the engine's decision table that it takes; of what runs on the host, that."""
        found = ["host"] * len(self.passes)
        schedules: dict[Any, Any] = {}
        for (compiled, number), place in self._numbers.items():
            if number >= 0:
                if compiled not in schedules:
                    schedules[compiled] = compiled.schedules
                found[place] = schedules[compiled][number].route
        return found

    def _number(self, key: tuple[Any, int], nodes: tuple[str, ...], work: Work, data_type: DataType | None) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.passes)
            self.passes.append(Watched(nodes, work, data_type))
        return self._numbers[key]

    def _run(self, number: int, mark: Callable[[], Any], launch: Callable[[], Any]) -> Any:
        start = mark()
        found = launch()
        self._marks.append((number, start, mark()))
        return found

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """One run: what passes took meanwhile belongs to it."""
        self._marks.clear()
        self._clock.begin()
        yield
        seconds = self._clock.end()
        self.runs.append(seconds)
        self.spans = []
        for one in self.passes:
            one.calls = 0
            one.seconds += [0.0] * (len(self.runs) - len(one.seconds))  # one that is new had none in earlier runs
        for number, start, end in self._marks:
            at, until = self._clock.since(start), self._clock.since(end)
            self.passes[number].calls += 1
            self.passes[number].seconds[-1] += until - at
            if len(self.spans) < _MOST_SPANS:
                self.spans.append(Span(number, at, until - at))


class _Clock:
    """The host's."""

    def __init__(self) -> None:
        self.mark = self.mark_host = time.perf_counter
        self._began = 0.0

    def begin(self) -> None:
        self._began = time.perf_counter()

    def end(self) -> float:
        return time.perf_counter() - self._began

    def since(self, mark: float) -> float:
        return mark - self._began


class _Waiting(_Clock):
    """The host's, which waits for a device before it looks: a pass has the time that its submission takes as well."""

    def __init__(self, memory: str) -> None:
        super().__init__()
        self._memory = memories[memory]
        self.mark = self._mark

    def _mark(self) -> float:
        self._memory.wait()
        return time.perf_counter()

    def begin(self) -> None:
        self._began = self._mark()

    def end(self) -> float:
        return self._mark() - self._began


class _Timestamps(_Clock):
    """A device's own, which it looks at between dispatches. The host's marks count from the same beginning."""

    def __init__(self, memory: str, stamps: Any) -> None:
        super().__init__()
        self._memory, self._stamps = memories[memory], stamps
        self.mark = stamps.mark

    def begin(self) -> None:
        self._stamps.begin()
        self._began = time.perf_counter()
        self.mark()

    def end(self) -> float:
        last = self.mark()
        self._stamps.end()
        return self.since(last)

    def since(self, mark: Any) -> float:
        return mark - self._began if isinstance(mark, float) else self._stamps.since_first(mark)


_CYCLES = 40_000
"""Of a GPU's, that it is kept busy for each pass to come: 20 us, in which the host launches it and marks both ends."""


class _Events:
    """A GPU's events, on the stream that a launch is put on. The host's marks count from the same beginning.

    Passes are launched while the GPU is kept busy, so that it waits for the host between none of them; but where
    something runs on the host in between.
    """

    def __init__(self, memory: str) -> None:
        self._torch, self._device = load_torch(), memory
        self._began, self._first, self._marks, self._has_host = 0.0, None, 0, False

    def mark(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record(self._torch.cuda.current_stream(self._device))
        self._marks += 1
        return event

    def mark_host(self) -> float:
        self._has_host = True
        return time.perf_counter()

    def begin(self) -> None:
        self._torch.cuda.synchronize(self._device)
        keep_busy = getattr(self._torch.cuda, "_sleep", None)  # which PyTorch does not promise
        if keep_busy is not None and not self._has_host:
            keep_busy(_CYCLES * self._marks)
        self._marks = 0
        self._first, self._began = self.mark(), time.perf_counter()

    def end(self) -> float:
        last = self.mark()
        self._torch.cuda.synchronize(self._device)
        return self.since(last)

    def since(self, mark: Any) -> float:
        if isinstance(mark, float):
            return mark - self._began
        return float(self._first.elapsed_time(mark)) / 1000  # type: ignore[attr-defined]  # PyTorch's, of no type here


def _clock_of(memory: str) -> Any:
    """The most exact clock that there is."""
    if is_cuda(memory):
        return _Events(memory)
    if memory not in memories:
        return _Clock()
    stamps = memories[memory].timestamps()
    return _Waiting(memory) if stamps is None else _Timestamps(memory, stamps)


@contextlib.contextmanager
def watching(recorder: Recorder) -> Iterator[None]:
    """Have what is bound on this thread meanwhile tell a recorder."""
    token = WATCHER.set(recorder)
    try:
        yield
    finally:
        WATCHER.reset(token)
