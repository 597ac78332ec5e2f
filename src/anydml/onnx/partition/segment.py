"""Neighbouring nodes that DirectML's operators can do, as one program for each set of shapes and needed values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import send
from anydml.core.errors import DmlError, Fault, UnsupportedError, printable, show
from anydml.core.locks import make_lock
from anydml.core.memory import HOST
from anydml.onnx.arguments import host_copy, take
from anydml.onnx.checks import TensorInfo
from anydml.onnx.element_types import element_of_array
from anydml.onnx.ir import Graph, Model, Node, ValueInfo, ValueType
from anydml.onnx.lower.refusals import Refusal, Why
from anydml.onnx.lower.trace import trace_all
from anydml.onnx.partition.part import Bound, Part, Recut, makers
from anydml.onnx.program import not_exact
from anydml.onnx.program_cache import Programs
from anydml.onnx.protobuf import ELEMENT_NUMBERS
from anydml.runtime.call_cache import NamedCalls

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.lower.trace import Record, Trace
    from anydml.onnx.partition.scope import Scope
    from anydml.onnx.program import Program
    from anydml.onnx.read import Source

_MOST_LOOKED_AT = 64
"""Elements up to which a program is made for each value of what sizes depend on, rather than a cut."""
_MOST_VALUES = 8
"""Programs for one set of shapes, each for other values."""
_SIZED_BY_DATA = ("Compress", "NonZero")
"""Node types whose result has a size that depends on all of their data: no program could be used twice."""


def looks_at(need: Refusal, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a program is made for each value of the inputs that a node needs."""
    is_small = all(math.prod(shapes[name]) <= _MOST_LOOKED_AT for name in need.inputs)
    return is_small and need.kind not in _SIZED_BY_DATA


def trace_constants(scope: Scope, names: Iterable[str], kept: Kept) -> list[Record]:
    """The fates of the nodes that constants of these names are made by."""
    nodes, tensors = scope.constants_of(names)
    if not nodes:
        return []
    graph = Graph(nodes, initializer=[scope.tensors[name] for name in tensors])
    return trace_all(_source(scope, graph), {}, {}, scope.device, kept=kept).records


def _source(scope: Scope, graph: Graph) -> Source:
    """A part of a model as a model of its own."""
    return replace(scope.source, model=Model(graph, scope.source.model.opset_import))


class Segment(Part):
    """Nodes of one graph, with the constants that they read."""

    def __init__(
        self,
        nodes: Iterable[Node],
        takes: tuple[str, ...],
        gives: Sequence[ValueInfo],
        scope: Scope,
        kept: Kept,
        numbers: Sequence[int] = (),
    ) -> None:
        """`gives` are declared outputs; `numbers` are those of the nodes in their graph."""
        nodes = list(nodes)
        self.takes, self.gives = takes, tuple(info.name for info in gives)
        self.nodes = nodes
        self._scope, self._outputs, self._kept = scope, list(gives), kept
        self._numbers = {id(node): number for node, number in zip(nodes, numbers, strict=True)}
        """By the nodes' ids; the constants' have none, as they are this segment's only to read."""
        constants, tensors = scope.constants_of([*(name for node in nodes for name in node.reads), *self.gives])
        self._all, self._tensors = [*constants, *nodes], [scope.tensors[name] for name in tensors]
        self._made = {name for node in nodes for name in node.makes}
        self._memory = scope.device.engine.memory
        self._calls = NamedCalls["Program"](self._memory)
        self._by_types: dict[tuple[ElementType, ...], Programs] = {}
        self._pinned: set[str] = set()
        """Inputs whose values are looked at, however many: there is nothing to cut them off from."""
        self._lock = make_lock()

    @property
    def programs(self) -> list[Program]:
        """Those that it has compiled."""
        return [program for several in self._by_types.values() for program in several.values()]

    @property
    def compile_seconds(self) -> float:
        """The seconds that they took to compile so far."""
        return sum(several.seconds for several in self._by_types.values())

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...] | Recut:
        """Run the program for the shapes, and for the values that a shape depends on."""
        held = {name: values[name] for name in self.takes}
        if (program := self._calls.find(held)) is not None and (made := program.run(held)) is not None:
            return tuple(made)
        elements: dict[str, ElementType] = {}
        for name, value in held.items():
            if (element := element_of_array(value)) is None:
                return self._leave_to_host(name, value)
            elements[name] = element
        arrays = {name: take(held[name], TensorInfo(name, elements[name], None), self._memory) for name in held}
        if isinstance(found := self._find(elements, arrays), Recut):
            return found
        program, valued = found
        there = arrays if self._memory == HOST else {name: send(array, self._memory) for name, array in arrays.items()}
        if (results := program.run(there)) is not None:
            with self._lock:
                self._calls.keep(held, program, valued)
            return tuple(results)
        if isinstance(exact := self._find(elements, arrays, is_exact=True), Recut):
            return exact
        if (results := exact[0].run(there)) is None:
            raise not_exact(self._scope.source.name)
        return tuple(results)

    def recall(self, values: Mapping[str, Any]) -> Program | None:
        """The program that earlier values like these were run by, where it is one for all values."""
        is_valued = any(several.valued for several in self._by_types.values())
        return None if is_valued else self._calls.find({name: values[name] for name in self.takes})

    def bind(self, values: Mapping[str, Any], into: Mapping[str, Any], fixed: frozenset[str]) -> Bound | None:
        """The program that earlier values like these were run by, bound."""
        arrays = {name: values[name] for name in self.takes}
        if (program := self.recall(arrays)) is None:
            return None
        made = {name: into.get(name) for name in self.gives}
        for name, value in program.results():
            if made[name] is None:
                made[name] = np.empty(value.shape, value.element.dtype)
            elif not program.fits(value, made[name]):
                return None
        launch = program.bound(arrays, list(made.values()), fixed)
        if launch is None:
            return None
        return Bound(launch, made, arrays, program.temporary_size, program.guard)

    def _leave_to_host(self, name: str, value: Any) -> Recut:
        """Have nodes run on the host that read what DirectML has no type for."""
        kind = getattr(value, "dtype", "a sequence" if isinstance(value, list) else "an optional value")
        rule = f"'{printable(name)}' must be of a type that DirectML has, for {self.nodes[0].label}"
        reason = UnsupportedError(self._scope.source.name, Fault(field=name, rule=rule, found=show(str(kind))))
        return Recut(reason, frozenset(self._numbers[id(node)] for node in self.nodes if name in node.reads))

    def _find(
        self, elements: dict[str, ElementType], arrays: dict[str, Any], *, is_exact: bool = False
    ) -> tuple[Program, list[str]] | Recut:
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        with self._lock:
            types = tuple(elements.values())
            if (programs := self._by_types.get(types)) is None:
                scope = self._scope
                programs = self._by_types[types] = Programs(
                    self._source(elements), scope.device, self._kept, scope.spares, self._calls.forget, self._looks_at
                )
            programs = programs.exact() if is_exact else programs
            while True:
                program = programs.find(shapes, arrays)
                if isinstance(program, Refusal):
                    if (recut := self._learn(program, shapes, arrays, programs)) is not None:
                        return recut
                    continue
                if len(programs) > _MOST_VALUES and programs.valued and not self._scope.is_strict:
                    return self._host_valued(shapes, programs) or (program, programs.valued)
                return program, programs.valued

    def _source(self, elements: Mapping[str, ElementType]) -> Source:
        """The nodes as a model of their own."""
        types = {name: ValueType("tensor", ELEMENT_NUMBERS[element.name]) for name, element in elements.items()}
        infos = [ValueInfo(*each) for each in types.items()]
        return _source(self._scope, Graph(self._all, infos, self._outputs, self._tensors))

    def _looks_at(self, need: Refusal, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        is_pinned = need.inputs <= self._pinned and (self._scope.is_strict or need.kind not in _SIZED_BY_DATA)
        return is_pinned or looks_at(need, shapes)

    def _learn(
        self, first: Refusal, shapes: dict[str, tuple[int, ...]], arrays: Mapping[str, Any], programs: Programs
    ) -> Recut | None:
        """Find all nodes that stand in the way, and where to cut; the user is told where there are none.

        None where it is a matter of values to be looked at, which are more from then on.
        """
        found = self._trace(programs, shapes, {name: host_copy(arrays[name]) for name in programs.valued})
        hosted: set[int] = set()
        cut: set[int] = set()
        pinned: set[str] = set()
        is_inner = False
        for record in found.records:
            refusal = None if record.refusal is None or record.refusal.why is Why.EARLIER else record.refusal
            if record.depth:  # which a branch that runs as parts may do without a lowering, or with values at hand
                is_inner = is_inner or refusal is not None
                continue
            node, number = record.node, self._numbers.get(id(record.node))
            if is_inner and number is not None:
                hosted.add(number)
                is_inner = False
            elif refusal is None:
                continue
            elif number is None:  # a constant that the device was found to make, and does not after all
                raise refusal.error
            elif refusal.why is Why.VALUES:
                if refusal.kind in _SIZED_BY_DATA and not self._scope.is_strict:
                    hosted.add(number)
                elif self._made.isdisjoint(node.input) or looks_at(refusal, shapes):
                    pinned |= refusal.inputs
                else:
                    cut.add(number)
            elif refusal.why is Why.DEVICE and not (self._scope.is_strict and node.kind not in makers()):
                hosted.add(number)
            else:
                raise refusal.error
        if hosted or cut:
            return Recut(first.error, frozenset(hosted), frozenset(cut))
        if pinned <= self._pinned:
            raise first.error
        self._pinned |= pinned
        return None

    def _host_valued(self, shapes: dict[str, tuple[int, ...]], programs: Programs) -> Recut | None:
        """Leave nodes to the host that need other values time and again: to compile one takes 100 times as long."""
        key = tuple(shapes.items())
        if sum(each[0] == key for each in programs) <= _MOST_VALUES:
            return None
        reason: DmlError | None = None
        is_inner, hosted = False, set()
        for record in self._trace(programs, shapes, {}).records:
            if record.refusal is not None and record.refusal.why is Why.VALUES:
                is_inner, reason = True, record.refusal.error
            if is_inner and not record.depth:
                hosted.add(self._numbers[id(record.node)])
                is_inner = False
        return None if reason is None else Recut(reason, frozenset(hosted))

    def _trace(self, programs: Programs, shapes: dict[str, tuple[int, ...]], values: Mapping[str, Any]) -> Trace:
        """Walk on past refusals, which the nodes' records have."""
        device, assumes = self._scope.device, programs.assumes
        return trace_all(programs.source, shapes, values, device, kept=self._kept, assumes=assumes)
