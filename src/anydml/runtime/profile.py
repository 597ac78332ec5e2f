"""A profile: for each pass its time, its bytes and its arithmetic, and how near it comes to the machine."""

from __future__ import annotations

import functools
import json
import math
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.arrays import allocate
from anydml.arrays.tensor import TensorDesc
from anydml.core.display import Shown, Table
from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.core.memory import packed_strides, word_bytes
from anydml.core.operator_type import OperatorType
from anydml.engines.common.threads import get_num_threads
from anydml.operators import find_operator
from anydml.runtime.device import device_named
from anydml.runtime.profiler_hook import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml.ir.cost import Work
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device
    from anydml.runtime.profiler_hook import Span

_LONGEST = 60
"""Of the nodes in a table's row."""

_KIND = re.compile(r"\((\w+)\)$")
"""The node type in the label of an ONNX model's node."""
_HEADS = ("pass", "ms", "of time", "calls", "moves", "GB/s", "GFLOP", "GFLOP/s", "of peak", "nodes")


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PassTime:
    """One pass over memory, or what runs on the host: all its calls in a run."""

    nodes: tuple[str, ...]
    """The nodes that it carries out."""
    seconds: float
    """The median of the runs."""
    calls: int
    work: Work
    """Of all calls together."""
    peak: Peak | None
    """The most that the device does; None for a pass on the host."""
    route: str = ""
    """The row of the engine's decision table that it takes."""

    @property
    def kind(self) -> str:
        """The types of its nodes, each once: what is fused has one time."""
        kinds = (found[1] if (found := _KIND.search(node)) is not None else node for node in self.nodes)
        return ", ".join(dict.fromkeys(kinds))

    @property
    def where(self) -> str:
        """Where it runs: `device` or `host`."""
        return "host" if self.peak is None else "device"

    @property
    def shares(self) -> tuple[float, float]:
        """Of the device's speed at copying, and of its speed at arithmetic; past 1 where caches hold what is read."""
        if self.peak is None or not self.seconds:
            return 0.0, 0.0
        return self.work.bytes / self.seconds / self.peak.bytes, self.work.flops / self.seconds / self.peak.flops

    @property
    def share(self) -> float:
        """The larger of the two: how near it comes to what the device can do."""
        return max(self.shares)


class Total(NamedTuple):
    """Passes that have something in common."""

    name: str
    passes: int
    seconds: float


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class Profile(Shown):
    """The time of a run, pass by pass. It prints as a table; `.json()` is for machines, `.trace()` for Perfetto."""

    device: str
    runs: int
    seconds: float
    """A whole run, the median: what lies between the passes, and the watching itself, included."""
    peak: Peak
    passes: tuple[PassTime, ...]
    """In the order in which they first ran."""
    spans: tuple[Span, ...]
    """The calls of the last run, each by the number of its pass."""

    @classmethod
    def of(cls, recorder: Recorder, device: Device) -> Profile:
        """The profile of a recorder; the device is measured where it was not before."""
        passes: list[PassTime] = []
        routes = recorder.routes()
        numbers: dict[int, int] = {}
        for number, one in enumerate(recorder.passes):
            if not one.calls:  # what ran before the model was cut otherwise
                continue
            numbers[number] = len(passes)
            peak = None if one.data_type is None else peak_of(device, one.data_type)
            work = type(one.work)(*(each * one.calls for each in one.work))
            passes.append(PassTime(one.nodes, median(one.seconds), one.calls, work, peak, routes[number]))
        spans = tuple(span._replace(number=numbers[span.number]) for span in recorder.spans)
        return cls(device.name, len(recorder.runs), median(recorder.runs), peak_of(device), tuple(passes), spans)

    @property
    def between(self) -> float:
        """Seconds of a run in no pass."""
        return max(self.seconds - sum(one.seconds for one in self.passes), 0.0)

    def as_data(self) -> dict[str, Any]:
        """All figures, as JSON has them."""
        return {
            "device": self.device,
            "runs": self.runs,
            "milliseconds": self.seconds * 1000,
            "between_milliseconds": self.between * 1000,
            "peak": {"bytes_per_second": self.peak.bytes, "flops_per_second": self.peak.flops},
            "passes": [self._pass(one) for one in self.passes],
            "by_node_type": self._sums(self.by_kind),
            "by_route": self._sums(self.by_route),
        }

    @staticmethod
    def _sums(totals: Sequence[Total]) -> list[dict[str, Any]]:
        return [{"name": one.name, "passes": one.passes, "milliseconds": one.seconds * 1000} for one in totals]

    @property
    def by_kind(self) -> tuple[Total, ...]:
        """The time of each node type, or of those that are fused; most first."""
        return self._totals(lambda one: one.kind)

    @property
    def by_route(self) -> tuple[Total, ...]:
        """The time of each route; most first."""
        return self._totals(lambda one: one.route)

    def _totals(self, name: Callable[[PassTime], str]) -> tuple[Total, ...]:
        groups: defaultdict[str, list[PassTime]] = defaultdict(list)
        for one in self.passes:
            groups[name(one)].append(one)
        totals = (Total(what, len(several), sum(one.seconds for one in several)) for what, several in groups.items())
        return tuple(sorted(totals, key=lambda total: -total.seconds))

    def _pass(self, one: PassTime) -> dict[str, Any]:
        memory, arithmetic = one.shares
        return {
            "nodes": list(one.nodes),
            "where": one.where,
            "route": one.route,
            "calls": one.calls,
            "milliseconds": one.seconds * 1000,
            "share_of_time": one.seconds / self.seconds if self.seconds else 0.0,
            "bytes": one.work.bytes,
            "flops": one.work.flops,
            "share_of_copy_speed": memory,
            "share_of_flops": arithmetic,
        }

    def json(self) -> str:
        """All figures."""
        return json.dumps(self.as_data(), indent=2) + "\n"

    def trace(self) -> str:
        """The last run's passes on a line of time, in Chrome's format: chrome://tracing and Perfetto show it."""
        threads = {"device": 1, "host": 2}
        events: list[dict[str, Any]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": number, "args": {"name": name}}
            for name, number in {f"{self.device}, passes": 1, "host": 2}.items()
        ]
        for span in self.spans:
            one = self.passes[span.number]
            each = {"pass": span.number, "nodes": list(one.nodes)}
            each |= {"bytes": one.work.bytes // one.calls, "flops": one.work.flops // one.calls}
            times = {"ts": span.start * 1e6, "dur": span.seconds * 1e6}
            name = ", ".join(one.nodes) or "pass"
            events.append({"name": name, "ph": "X", "pid": 1, "tid": threads[one.where], **times, "args": each})
        return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}) + "\n"

    def __str__(self) -> str:
        return self.table()

    def table(self, top: int | None = None) -> str:
        """The passes as text, the slowest first, of which `top` are shown; then sums by node type and by route.

        Passes have the numbers that `explain()` gives them.
        """
        shown = self._slowest()[:top]
        rows = [self._row(number, self.passes[number]) for number in shown]
        left = [one for number, one in enumerate(self.passes) if number not in shown]
        seconds = sum(one.seconds for one in left)
        more = ("", f"{seconds * 1000:.4f}", _percent(seconds, self.seconds), *[""] * 6, f"{len(left)} more passes")
        between = ("", f"{self.between * 1000:.4f}", _percent(self.between, self.seconds), *[""] * 6, "between passes")
        whole = ("", f"{self.seconds * 1000:.4f}", "", "", *[""] * 5, f"a run, the median of {self.runs}")
        rows += [*([more] if left else []), between, whole]
        lines = list(_table([_HEADS, *rows]))
        for head, totals in (("by node type", self.by_kind), ("by route", self.by_route)):
            if len(totals) > 1:
                sums = [
                    (
                        f"{one.seconds * 1000:.4f}",
                        _percent(one.seconds, self.seconds),
                        str(one.passes),
                        _short(one.name),
                    )
                    for one in totals[:top]
                ]
                lines += ["", *_table([("ms", "of time", "passes", head), *sums])]
        return "\n".join([*lines, "", self._peak()])

    def _slowest(self) -> list[int]:
        return sorted(range(len(self.passes)), key=lambda number: -self.passes[number].seconds)

    def _shown(self) -> Iterator[str | Table]:
        between = f"{self.between * 1000:.4g} ms between passes"
        yield f"{self.seconds * 1000:.4g} ms a run on {self.device}, the median of {self.runs}; {between}"
        rows = [self._row(number, self.passes[number]) for number in self._slowest()]
        yield Table("the slowest pass first", _HEADS, rows)
        for head, totals in (("by node type", self.by_kind), ("by route", self.by_route)):
            told = [(one.name, str(one.passes), f"{one.seconds * 1000:.4g}") for one in totals]
            yield Table(head, ("name", "passes", "ms"), told)
        yield self._peak()

    def _peak(self) -> str:
        memory, arithmetic = (f"{each / 1e9:.1f}" for each in (self.peak.bytes, self.peak.flops))
        return f"Peak of {self.device}: {memory} GB/s, {arithmetic} GFLOP/s, measured."

    def _row(self, number: int, one: PassTime) -> tuple[str, ...]:
        first = (str(number + 1), f"{one.seconds * 1000:.4f}", _percent(one.seconds, self.seconds), str(one.calls))
        nodes = _short(", ".join(one.nodes))
        if one.peak is None:
            return (*first, *[""] * 5, f"{nodes}, on the host")
        speed = [each / one.seconds / 1e9 if one.seconds else 0.0 for each in one.work]
        memory, arithmetic = one.shares
        peak = f"{one.share:.0%} {'memory' if memory >= arithmetic else 'arithmetic'}"
        flops = f"{one.work.flops / 1e9:.4g}"
        return (*first, word_bytes(one.work.bytes), f"{speed[0]:.1f}", flops, f"{speed[1]:.1f}", peak, nodes)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _percent(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need, set to the right but for the last."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        *numbers, last = row
        yield "  ".join([*(f"{cell:>{width}}" for cell, width in zip(numbers, widths, strict=False)), last]).rstrip()


# The most that a machine was seen to do: bytes copied and products summed in a second, measured when first asked.


_SIZES = {"cpu": (2**23, 256), "cuda": (2**26, 4096), "webgpu": (2**25, 2048)}
"""By engine, the elements of a copy, past the caches, and the rows of a product for each thread: a sample takes 3 ms at
most, or other programs that run meanwhile are part of every one."""
_SLOW = (2**14, 32)
"""For engines that are not meant to be fast."""
_SECONDS, _FEWEST = 0.2, 5
"""For each of the two: the best counts, and other programs take their share of time."""


class Peak(NamedTuple):
    """The most that a device does in a second."""

    bytes: float
    """Moved by a copy, read and written."""
    flops: float
    """Of a product of matrices."""


def peak_of(device: Device, data_type: DataType = DataType.FLOAT32) -> Peak:
    """The best of a few copies and products; of FLOAT16 on a GPU, and else of FLOAT32. Measured once a process."""
    is_half = device.engine.name == "cuda" and data_type is DataType.FLOAT16
    return _measure(device.name, get_num_threads(), DataType.FLOAT16 if is_half else DataType.FLOAT32)


@functools.lru_cache(maxsize=16)
def _measure(name: str, threads: int, data_type: DataType) -> Peak:
    device = device_named(name)
    count, rows = _SLOW if _is_slow(device) else _SIZES.get(device.engine.name, _SLOW)
    rows = int(rows * threads ** (1 / 3)) // 32 * 32 if device.engine.name == "cpu" else rows
    flat, square = TensorDesc(data_type, (count,)), TensorDesc(data_type, (1, 1, rows, rows))
    copy = find_operator(OperatorType.ELEMENT_WISE_IDENTITY).infer(input_tensor=flat)
    product = find_operator(OperatorType.GEMM).infer(a_tensor=square, b_tensor=square)
    return Peak(2 * flat.total_tensor_size_in_bytes / _best(copy, device), 2 * rows**3 / _best(product, device))


def _is_slow(device: Device) -> bool:
    """Whether a CPU stands in for a GPU."""
    engine = device.engine
    if engine.name == "webgpu":
        webgpu = import_alone("anydml.engines.webgpu")
        if webgpu.why_missing():  # a double of it runs
            return True
        return any(one.kind == "CPU" and engine.memory == f"webgpu:{one.index}" for one in webgpu.adapters())
    return engine.name == "cuda" and engine.memory == "cpu"


def _best(desc: OperatorDesc, device: Device) -> float:
    """The seconds of the quickest dispatch."""
    memory, compiled = device.engine.memory, device.compile(desc)
    arrays = [
        allocate(each.data_type, each.sizes, packed_strides(each.sizes), memory=memory, like=None)
        for each in (*desc.inputs().values(), *desc.outputs().values())
    ]
    for array in arrays:
        array[...] = 1  # new memory has no pages yet, and may hold numbers that are slow to compute with
    bound = compiled.bind(*arrays[:-1], out=arrays[-1])
    recorder, began, best = Recorder(memory), time.perf_counter(), math.inf
    while len(recorder.runs) < _FEWEST or time.perf_counter() - began < _SECONDS:
        with recorder.run():
            bound.dispatch()
        best = min(best, recorder.runs[-1])
    return best
