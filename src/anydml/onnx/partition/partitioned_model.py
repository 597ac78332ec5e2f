"""A whole model in parts: a caller's arrays in, the model's outputs out; and its parts in words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import DeviceArray, on_host, send
from anydml.core.errors import BindingError, Fault, printable, show
from anydml.core.locks import make_lock
from anydml.core.memory import HOST, word_bytes
from anydml.explain import GraphPicture
from anydml.onnx.arguments import check_apart, check_outputs, hand_over, take, take_out
from anydml.onnx.element_types import ForeignType, element_of_array
from anydml.onnx.lower.values import Value
from anydml.onnx.partition.control_flow import Flow
from anydml.onnx.partition.host import HostPart
from anydml.onnx.partition.host_evaluator import is_known
from anydml.onnx.partition.part import makers
from anydml.onnx.partition.partitioned_graph import Parts
from anydml.onnx.partition.scope import Scope
from anydml.onnx.partition.segment import Segment
from anydml.runtime.call_cache import NamedCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from anydml.onnx.checks import TensorInfo
    from anydml.onnx.ir import Node
    from anydml.onnx.partition.part import Part
    from anydml.onnx.program import Spares
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device
    from anydml.runtime.graph import CompiledGraph


# Parts in words: which nodes each runs, where, and what passes between them


_MOST_NAMED = 8
"""Nodes of a host part that are named."""


def picture_of(parts: Parts, title: str, within: str = "") -> GraphPicture:
    """Each part in order: the passes of a segment, and in words what else runs, with the parts of its bodies."""
    several = list(parts)
    found = []
    for i, part in enumerate(several, 1):
        head = f"{within}part {i} of {len(several)}"
        name = f"{head}: {_told(part)}"
        if isinstance(part, Segment):
            found.append(_passes(part, name))
        else:
            bodies = part.bodies.items() if isinstance(part, Flow) else ()
            inner = tuple(picture_of(body, f"{head}, {own}", f"{head}, {own}, ") for own, body in bodies)
            found.append(GraphPicture((), (), (), (), {}, 0, (), name, parts=inner))
    return GraphPicture((), (), (), (), {}, 0, (), title, parts=tuple(found))


def graphs_of(parts: Parts) -> Iterator[CompiledGraph]:
    """The graphs that segments compiled last, those of bodies included, in order."""
    for part in parts:
        if isinstance(part, Segment) and (compiled := _last(part)) is not None:
            yield compiled
        for body in part.bodies.values() if isinstance(part, Flow) else ():
            yield from graphs_of(body)


def _last(segment: Segment) -> CompiledGraph | None:
    return next((p.compiled for p in reversed(segment.programs) if p.compiled is not None), None)


def _passes(segment: Segment, title: str) -> GraphPicture:
    """The passes of the program that a segment compiled last."""
    if (compiled := _last(segment)) is not None:
        return replace(compiled.explain(), title=title)
    return GraphPicture((), (), (), (), {}, 0, ("not compiled yet",) * (not segment.programs), title)


def _told(part: Part) -> str:
    passed = f"reads {_names(part.takes)}, makes {_names(part.gives)}"
    if isinstance(part, Segment):
        return f"{_count(len(part.nodes))} compiled, {passed}"
    if isinstance(part, HostPart):
        labels = [node.label for node in part.nodes[:_MOST_NAMED]]
        more = f" and {len(part.nodes) - len(labels)} more" if len(part.nodes) > len(labels) else ""
        by = f" by {part.by}" if part.by else ""
        cost = f", {word_bytes(part.copied)} to and from the host at the last run" if part.by else ""
        return f"on the host{by}: {', '.join(labels)}{more}; {passed}{cost}"
    if isinstance(part, Flow):
        return f"{part.nodes[0].label}, {part.told}; {passed}"
    return f"{type(part).__name__}, {passed}"


def _count(nodes: int) -> str:
    return "1 node" if nodes == 1 else f"{nodes} nodes"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(repr(printable(name)) for name in names[:_MOST_NAMED])
    return (f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown) or "nothing"


# The model


def hosts(source: Source, *, is_strict: bool = False) -> Callable[[Node], bool]:
    """A function that says whether a part runs a node without a lowering; where that is strict, no part on the host."""
    if is_strict:
        return lambda node: node.kind in makers()
    return lambda node: node.kind in makers() or is_known(node, source.model.opset_import)


class Divided:
    """A model that runs in parts; for each set of initializers that runs give other values, other parts."""

    def __init__(self, source: Source, device: Device, spares: Spares, *, is_strict: bool = False) -> None:
        self._source = source
        self._scope = Scope(source, device, spares, is_strict=is_strict)
        self._memory = device.engine.memory
        self._own = source.model.graph.constants
        self._by_given: dict[frozenset[str], Parts] = {}
        self._calls = NamedCalls[Parts](self._memory)
        self._lock = make_lock()

    def recall(self, inputs: dict[str, Any]) -> Parts | None:
        """The parts that ran on arrays like these, which need no closer look."""
        return self._calls.find(inputs)

    def remember(self, inputs: dict[str, Any], taken: Mapping[str, Any]) -> None:
        """Let the next run on arrays like these find its parts, where they were taken as they are."""
        if self._memory == HOST and all(type(x) is np.ndarray and x is taken[n] for n, x in inputs.items()):
            self._calls.keep(inputs, self.parts(inputs))

    def parts(self, names: Iterable[str] = ()) -> Parts:
        """The parts for runs that are given inputs of these names."""
        given = frozenset(name for name in names if name in self._own)
        with self._lock:
            if given not in self._by_given:
                self._by_given[given] = Parts(self._source.model.graph, self._scope, given)
            return self._by_given[given]

    @property
    def has_run(self) -> bool:
        """Whether some part was compiled or run."""
        return any(segment.programs for segment in self._segments())

    @property
    def compile_seconds(self) -> float:
        """The seconds that the segments' programs took to compile so far."""
        return sum(segment.compile_seconds for segment in self._segments())

    def _segments(self) -> list[Segment]:
        return [part for parts in self._by_given.values() for part in parts if isinstance(part, Segment)]

    def run(
        self, values: Mapping[str, Any], out: Mapping[str, Any], like: Any, *, may_overlap: bool = False
    ) -> dict[str, Any]:
        """The outputs of inputs by name, in the library of `like`; `out` is written when all is read."""
        parts = self.parts(values)
        results = run_parts(parts, values)
        if out:
            check_outputs(out, results, self._source.name)
            taken = {name: self._take_out(name, out[name], results[name]) for name in out}
            if not may_overlap:
                check_apart(taken, {name: x for name, x in values.items() if element_of_array(x) is not None}, {})
            for name, array in taken.items():
                _write(array, results[name])
        return {name: out[name] if name in out else self._hand_over(each, like) for name, each in results.items()}

    def _take_out(self, name: str, array: Any, result: Any) -> Any:
        if (element := element_of_array(result)) is None:
            rule = f"output '{printable(name)}' is of a type that no array is written for"
            raise BindingError(self._source.name, Fault(field="out", rule=rule, value=name))
        return take_out(array, name, Value(element, tuple(result.shape)), self._memory)

    def _hand_over(self, result: Any, like: Any) -> Any:
        if isinstance(result, list):
            return [self._hand_over(each, like) for each in result]
        element = element_of_array(result)
        if element is None:
            return result
        memory = HOST if isinstance(result, np.ndarray) else self._memory
        if memory == HOST != self._memory and like is not None and not isinstance(like, np.ndarray):
            result, memory = send(result, self._memory), self._memory
        return hand_over([result], [element], memory, like)[0]


def run_parts(parts: Parts, values: Mapping[str, Any]) -> dict[str, Any]:
    """The outputs by name, where the parts made them."""
    found = parts.run(values)
    results = dict(zip(parts.gives, found, strict=True))
    return results if _are_new(found, values.values()) else _apart(results, values)


def _apart(results: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Results of which no two share memory, nor one and an input: a sequence may hold what it was made of."""
    seen = [each for value in values.values() for each in (value if isinstance(value, list) else [value])]

    def apart(value: Any) -> Any:
        if isinstance(value, list):
            return [apart(each) for each in value]
        is_seen = any(value is each or _share(value, each) for each in seen)
        seen.append(value)
        if value is None or not is_seen:
            return value
        return value.copy() if hasattr(value, "copy") else value.clone()

    return {name: apart(value) for name, value in results.items()}


def _are_new(results: Collection[Any], values: Collection[Any]) -> bool:
    """Whether each result is an array of NumPy's with memory of its own, as most are: a look takes 2 us less."""
    every = [*results, *values]
    for array in every:
        if type(array) is not np.ndarray:
            return False
    for array in results:
        if array.base is not None:
            return False
    return len(set(map(id, every))) == len(every)


def _share(value: Any, other: Any) -> bool:
    """Whether a part of NumPy's array may lie in another of NumPy's; those of a GPU are whole."""
    are_arrays = isinstance(value, np.ndarray) and isinstance(other, np.ndarray)
    return are_arrays and value.base is not None and np.may_share_memory(value, other)


def _write(array: Any, result: Any) -> None:
    if isinstance(array, np.ndarray):
        array[...] = on_host(result)
    elif isinstance(array, DeviceArray):
        array.copy_from(result)
    else:
        array.copy_(send(result, str(array.device)))


def take_value(given: Any, info: TensorInfo, memory: str) -> Any:
    """An input of any type: an array as programs take it, texts, a list of arrays, or None."""
    element = info.element
    if not isinstance(element, ForeignType):
        return take(given, info, memory)
    subject = f"input '{printable(info.name)}'"
    if not element.is_tensor:
        return list(given) if isinstance(given, (list, tuple)) else given
    try:
        found = np.asarray(given)
        found = found.astype(object) if found.dtype.kind in "SU" else found
    except Exception as error:
        rule = f"must be an array of the model's {element.name} ({show(error)})"
        raise BindingError(subject, Fault(field="array", rule=rule, value=given)) from error
    if found.dtype != element.dtype:
        rule = f"must be of {element.dtype.name}, the model's {element.name}"
        raise BindingError(subject, Fault(field="array", rule=rule, value=given, found=show(str(found.dtype))))
    return found
