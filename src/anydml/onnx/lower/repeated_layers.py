"""Nodes that repeat: what one became is put in the place of each that is equal, with other tensors.

The layers of a network are equal, and so is most of what a model computes with shapes. A node is lowered with tensors
that stand for any of their shape and type; those of few elements have their values, of which shapes are made. Where a
lowering looks at other values, what it makes is of that node alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from anydml.api.expression import Expression
from anydml.core.errors import DmlError
from anydml.graph.nodes import ConstantNode
from anydml.onnx.lower.tracer import AT_ONCE, Tracer
from anydml.onnx.lower.values import Known, OpenData, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from anydml.api.expression import Source
    from anydml.arrays.tensor import TensorDesc
    from anydml.graph.nodes import Node
    from anydml.onnx.element_types import ElementType

_MOST_BYTES = 4096
"""Of a constant that a pattern holds."""


class ParticularError(Exception):
    """A lowering looked at what differs between equal nodes."""


class Hidden(Known):
    """Elements that are known, and not to be looked at."""

    __slots__ = ()

    def flat(self) -> NoReturn:
        """The elements."""
        raise ParticularError

    def data(self, size: int) -> NoReturn:  # noqa: ARG002 - as all have it
        """The elements as graphs share them."""
        raise ParticularError


class _Place(NamedTuple):
    """A tensor that a node reads or makes."""

    number: int
    """Of a node of the pattern; below 0 the node's own inputs, from -1 down."""
    slot: int
    desc: TensorDesc | None
    """In which it is read; None where that is its own."""


class _Step(NamedTuple):
    """A node that is added to the graph."""

    node: Node
    reads: tuple[_Place, ...]
    descs: tuple[TensorDesc, ...]
    is_named: bool
    rule: tuple[str, str, int, int] | None = None
    """That of an index which it finds outside: see `Tracer.rules`."""


class _Made(NamedTuple):
    """A value that comes out."""

    element: ElementType
    shape: tuple[int, ...]
    needs: tuple[int, ...]
    """The inputs whose needs it has."""
    known: Known | None = None
    own: int | None = None
    """The input whose memory it is."""
    is_same: bool = False
    """Whether it is that input, unchanged."""
    has_source: bool = False
    has_halves: bool = False
    place: _Place | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """The nodes in place of one, whatever tensors it is given of the shapes and types that were looked at."""

    steps: tuple[_Step, ...]
    made: tuple[_Made | None, ...]
    folded: bool
    note: str
    bytes_folded: int
    known: tuple[tuple[ElementType, tuple[int, ...], Known], ...] | None
    """The results, where they are known, and none of them is an input."""

    def put(self, tracer: Tracer, inputs: Sequence[Value | None]) -> list[Value | None] | None:
        """Add it to a graph; None where a limit on what is computed before a run is reached."""
        if self.bytes_folded > tracer.left:
            return None
        tracer.left -= self.bytes_folded
        tracer.folded, tracer.note = self.folded, self.note
        if self.known is not None:  # most of what is computed with shapes
            return [Value(*one) for one in self.known]
        graph, added = tracer.graph, list[list[Expression]]()

        def read(place: _Place) -> Expression:
            number, slot, desc = place
            if number >= 0:
                found = added[number][slot]
            else:
                value = inputs[~number]
                assert value is not None  # noqa: S101 - for type checkers: one that stood for it was read
                found = tracer.expression(value)
            return found if desc is None or found.desc == desc else Expression(graph, found.source, desc, found.slot)

        for step in self.steps:
            if isinstance(step.node, ConstantNode):  # of equal layers the same
                added.append(tracer.constant(step.node, step.descs))
                continue
            several = graph.put(step.node, tuple(map(read, step.reads)), step.descs)
            if step.is_named:
                named = tracer.name_node(several[0])
                if step.rule is not None:
                    tracer.rules[named.name] = step.rule
            added.append(several)
        return [None if one is None else _value(one, inputs, read) for one in self.made]


NEW = Pattern((), (), folded=False, note="", bytes_folded=0, known=None)
"""Stands for one that nobody looked for yet."""


def _value(one: _Made, inputs: Sequence[Value | None], read: Callable[[_Place], Expression]) -> Value | None:
    own = None if one.own is None else inputs[one.own]
    if one.is_same:
        return own
    needs = frozenset[str]().union(*(value.needs for i in one.needs if (value := inputs[i]) is not None))
    source = own.source if own is not None and one.has_source else ""
    if own is not None and own.known is not None:
        halves = own.halves if one.has_halves else None
        return Value(one.element, one.shape, own.known, own.expression, source, needs, halves)
    expression = None if one.place is None else read(one.place)
    return Value(one.element, one.shape, one.known, expression, source, needs)


def key_of(inputs: Sequence[Value | None]) -> Hashable:
    """All that a lowering may look at; None where there is nothing to be read, which lowerings tell apart."""
    found: list[Hashable] = []
    for value in inputs:
        if value is None:
            found.append(None)
            continue
        shape, known = value.shape, value.known
        count = math.prod(shape)
        if not count:
            return None
        if known is None:
            found.append((value.element.name, shape))
        elif known.opened is not None:
            found.append((value.element.name, shape, tuple(known.opened)))
        elif known.is_open or count > AT_ONCE or known.is_readable:
            found.append((value.element.name, shape, value.halves is not None))
        else:
            found.append((value.element.name, shape, known.text()))
    return tuple(found)


def _is_seen(value: Value) -> bool:
    """Whether the values of a tensor that is known are part of what nodes are told apart by."""
    known = value.known
    if known is None or known.is_open:
        return known is not None and known.opened is not None
    return not known.is_readable and value.count <= AT_ONCE


class _Sketch(Tracer):
    """A graph of one node, whose inputs stand for others."""

    def __init__(self, tracer: Tracer, inputs: Sequence[Value | None]) -> None:
        super().__init__(tracer.graph.device, tracer.beside, assumes=tracer.assumes)
        self.left = self._first = tracer.left
        self.label = self.name = "node"
        self.inputs_given = [None if value is None else self._stand_in(i, value) for i, value in enumerate(inputs)]

    def _stand_in(self, i: int, value: Value) -> Value:
        element, shape, source = value.element, value.shape, str(i)
        if _is_seen(value):
            return Value(element, shape, value.known, source=source, halves=value.halves)
        halves = None if value.halves is None else Hidden()
        known, needs = (None, frozenset([source])) if value.known is None else (Hidden(), frozenset[str]())
        return Value(element, shape, known, self.graph.input(self.packed(value)), source, needs, halves)

    def _folds(self, shape: tuple[int, ...], element: ElementType, inputs: Sequence[Value]) -> bool:
        found = super()._folds(shape, element, inputs)
        if self.left < 0 or (found and any(isinstance(value.known, Hidden) for value in inputs)):
            raise ParticularError
        return found

    def pattern(self, made: Sequence[Value | None]) -> Pattern:
        """The nodes that were added, and the results."""
        if self.states or self.assumed:
            raise ParticularError
        places: dict[int, int] = {}
        """By a source, its number as places have it."""
        for i, value in enumerate(self.inputs_given):
            if value is not None and value.expression is not None:
                places[id(value.expression.source)] = ~i

        def place(expression: Expression) -> _Place:
            source, desc = expression.source, expression.desc
            number = places[id(source)]
            is_own = number >= 0 and not expression.is_reinterpreted
            return _Place(number, expression.slot, None if is_own else desc)

        steps = list(self._steps(places, place))
        several = tuple(None if value is None else self._made(value, place) for value in made)
        known = [(one.element, one.shape, one.known) for one in several if one is not None and one.known is not None]
        is_known = not steps and len(known) == len(several)
        taken = self._first - self.left
        return Pattern(tuple(steps), several, self.folded, self.note, taken, tuple(known) if is_known else None)

    def _steps(self, places: dict[int, int], place: Callable[[Expression], _Place]) -> Iterator[_Step]:
        others = (source for source in self.graph.sources if id(source) not in places)
        for number, source in enumerate(list(others)):
            places[id(source)] = number
            reads, name = tuple(map(place, source.inputs)), source.name
            yield _Step(_small(source), reads, source.descs, bool(name), self.rules.get(name) if name else None)

    def _made(self, value: Value, place: Callable[[Expression], _Place]) -> _Made:
        own = self._own(value)
        needs = tuple(map(int, value.needs))
        if own is not None:
            given = self.inputs_given[own]
            assert given is not None  # noqa: S101 - for type checkers: it was found
            where = None if value.known is not None or value.expression is None else place(value.expression)
            if where is not None and value.expression is given.expression:
                where = where._replace(desc=None)  # in whatever description the graph has it
            what = (value is given, bool(value.source), value.halves is not None)
            return _Made(value.element, value.shape, needs, None, own, *what, where)
        if value.known is not None and value.known.opened is None:
            if value.known.is_open or value.halves is not None:
                raise ParticularError
            if value.count * value.element.held.itemsize > _MOST_BYTES:
                raise ParticularError
            value.known.flat()  # which tells what it is made of
        if value.known is not None:
            return _Made(value.element, value.shape, needs, value.known)
        where = None if value.expression is None else place(value.expression)
        return _Made(value.element, value.shape, needs, place=where)

    def _own(self, value: Value) -> int | None:
        """The input that a value is, or is another view of."""
        for i, given in enumerate(self.inputs_given):
            if given is None:
                continue
            if value is given or (value.known is not None and value.known is given.known):
                return i
            if value.known is None and given.known is None and _source(value) is _source(given) is not None:
                return i
        return None


def _source(value: Value) -> Source | None:
    return None if value.expression is None else value.expression.source


def _small(source: Source) -> Node:
    """A node that is no input; a constant must be small, and not made of what is hidden."""
    node = source.node
    assert node is not None  # noqa: S101 - for type checkers: inputs are those that stand for others
    if isinstance(node, ConstantNode):
        if isinstance(node.data, OpenData) or len(node.data) > _MOST_BYTES:
            raise ParticularError
        _ = node.data if isinstance(node.data, bytes) else node.data.array
    return node


def sketch(
    tracer: Tracer, inputs: Sequence[Value | None], lower: Callable[[Tracer, Sequence[Value | None]], Any]
) -> Pattern | None:
    """The nodes in place of one, whatever its tensors; None where they depend on them, or fail: it is lowered alone."""
    try:
        drawn = _Sketch(tracer, inputs)
        return drawn.pattern(lower(drawn, drawn.inputs_given))
    except (DmlError, ParticularError):
        return None
