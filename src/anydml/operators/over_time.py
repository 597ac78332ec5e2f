"""One direction of a recurrent network as verbs: products with the input, then a repeat over its states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.enums import DataType
from anydml.ir.expressions import const, coordinate, fold, load, where
from anydml.ir.patterns import filled, scaled
from anydml.ir.verbs import Map, Reduce, Repeat, Write
from anydml.ir.views import View
from anydml.memory import packed_strides

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

F32 = DataType.FLOAT32
INSIDE = "Inside"
"""The memory that says which steps are within the lengths of their sequences."""


class Reads:
    """The views that a step reads, and their elements as it computes with them."""

    def __init__(self, extended: int = 0) -> None:
        self.views: list[View] = []
        self._extended = extended
        """The products of a sum, along which views stay as they are."""

    def of(self, view: View) -> Expr:
        """An element, in FLOAT32 where it is a float."""
        if self._extended:
            view = _seen(view, (*view.sizes, self._extended), (*view.strides, 0))
        return self.factor(view)

    def factor(self, view: View) -> Expr:
        """The same of a view that has a dimension for the products."""
        if view not in self.views:
            self.views.append(view)
        element = load(self.views.index(view), view.data_type)
        return element.to(F32) if view.data_type.is_float else element


class Way:
    """A direction. Views of what is there for each time are {times, batch, elements}, in the order of the walk."""

    def __init__(self, desc: Any, number: int, *, is_back: bool, is_told: bool = False) -> None:
        self._desc, self._number, self._is_back, self._is_told = desc, number, is_back, is_told
        _, self.times, self.batch, self._inputs = desc.input_tensor.sizes
        self.size = desc.recurrence_tensor.sizes[3]
        self._name = "Backward" if is_back else "Forward"
        self._width = desc.gates * self.size
        self._reset_apart = bool(getattr(desc, "linear_before_reset", False))
        """Whether the recurrence's bias goes with the recurrence's product."""
        self._has_lengths = desc.sequence_lengths_tensor is not None

    # Views

    def _memory(self, name: str, sizes: Sequence[int]) -> View:
        return View(f"{self._name}{name}", F32, tuple(sizes), packed_strides(sizes))

    def _field(self, name: str) -> View | None:
        """A tensor's part for this direction: without the directions, and without the sizes of 1 before them."""
        tensor = getattr(self._desc, f"{name}_tensor", None)
        if tensor is None:
            return None
        view = View.of("".join(word.capitalize() for word in name.split("_")) + "Tensor", tensor)
        axis = 2 if name in ("bias", "peephole") else 1
        lead = slice(0, 1 if name == "output_sequence" else 0)
        sizes, strides = ((*of[lead], *of[axis + 1 :]) for of in (view.sizes, view.strides))
        return _seen(view, sizes, strides, self._number * view.strides[axis])

    def before(self, state: str) -> View:
        """A state as a step finds it: that of Hidden or of Cell."""
        return self._state(state, 0)

    def after(self, state: str) -> View:
        """The state as a step leaves it."""
        return self._state(state, 1)

    def _state(self, state: str, later: int) -> View:
        memory = self._memory(state, (self.times + 1, self.batch, self.size))
        return _seen(memory, (self.times, *memory.sizes[1:]), memory.strides, later * memory.strides[0])

    def room(self, name: str, count: int = 1) -> View:
        """Memory for some gates, which is written over each time; in a tale each time has its own."""
        memory = self._memory(name, (self.times, self.batch, count * self.size))
        return memory if self._is_told else _seen(memory, memory.sizes, (0, *memory.strides[1:]))

    def gate(self, view: View, number: int, count: int = 1) -> View:
        """Some gates of a view that has several."""
        return _seen(view, (*view.sizes[:2], count * self.size), view.strides, number * self.size * view.strides[2])

    def inputs(self, number: int, count: int = 1) -> View:
        """Some gates' products with the input."""
        return self.gate(self._in_order(self._memory("Inputs", (self.times, self.batch, self._width))), number, count)

    def peephole(self, number: int) -> View:
        """A gate's factors of the cell."""
        return self._constant("peephole", number * self.size, self.size)

    def _constant(self, field: str, first: int, count: int) -> View:
        """Some elements of a tensor that is the same for all times and sequences."""
        view = self._field(field)
        assert view is not None  # noqa: S101 - for type checkers: who asks for one knows that it is there
        (stride,) = view.strides
        return _seen(view, (self.times, self.batch, count), (0, 0, stride), first * stride)

    def _in_order(self, view: View) -> View:
        """The part for each time, in the order of the walk."""
        first, *rest = view.strides
        return _seen(view, view.sizes, (-first, *rest), (self.times - 1) * first) if self._is_back else view

    def _inside(self, elements: int) -> View:
        """Whether a time is within a sequence's length."""
        view = View(INSIDE, DataType.UINT8, (self.times, self.batch, elements), (self.batch, 1, 0))
        return self._in_order(view)

    # Steps

    def product(
        self, left: View, number: int, count: int, target: View, finish: Callable[[Expr, Reads], Expr] | None = None
    ) -> Reduce:
        """The product of states with some gates of the recurrence, plus that with the input, and what follows."""
        recurrence = self._field("recurrence")
        assert recurrence is not None  # noqa: S101 - for type checkers: it is always there
        down, across = recurrence.strides
        sizes = (self.times, self.batch, count * self.size, self.size)
        reads = Reads(self.size)
        one = reads.factor(_seen(left, sizes, (*left.strides[:2], 0, left.strides[2])))
        other = reads.factor(_seen(recurrence, sizes, (0, 0, down, across), number * self.size * down))
        total = fold("sum", one * other)
        if self._reset_apart:
            if self._field("bias") is not None:
                bias = self._constant("bias", self._width + number * self.size, count * self.size)
                total = total + reads.of(bias)
        else:
            total = total + reads.of(self.inputs(number, count))
        value = total if finish is None else finish(total, reads)
        return Reduce(tuple(reads.views), _seen(target, (*target.sizes, 1), (*target.strides, 0)), value, 1)

    def kept(self, state: str, value: Expr, reads: Reads) -> Expr:
        """A new state, or past a sequence's length the one before."""
        if not self._has_lengths:
            return value
        inside = reads.of(self._inside(self.size))
        return where(inside.equals(0), reads.of(self.before(state)), value)

    def stepped(self, states: Mapping[str, Expr], reads: Reads) -> Map:
        """A map of new states."""
        (first, value), *others = [(self.after(name), self.kept(name, new, reads)) for name, new in states.items()]
        also = tuple(Write(target, new) for target, new in others)
        return Map(tuple(reads.views), first, value, also=also)

    # All of it

    def lower(self, steps: Iterable[Map | Reduce], states: Sequence[str]) -> list[Primitive]:
        """The verbs before the steps, the steps, and the outputs."""
        found: list[Primitive] = [self._products(), *map(self._start, states)]
        if self._has_lengths and not self._number:
            found.insert(0, self._lengths())
        found += [one for step in steps for one in step.apart()] if self._is_told else [Repeat.of(tuple(steps))]
        sequence = self._field("output_sequence")
        if sequence is not None:
            found.append(self._sequence(sequence))
        for name, state in zip(("output_single", "output_cell_single"), states, strict=False):
            target = self._field(name)
            if target is not None:
                last = self.after(state)
                last = _seen(last, last.sizes[1:], last.strides[1:], (self.times - 1) * last.strides[0])
                found.append(scaled(last, target))
        return found

    def _products(self) -> Reduce:
        """The product of the input with the weights, for all times, and what is added to it."""
        x, weight = View.of("InputTensor", self._desc.input_tensor), self._field("weight")
        assert weight is not None  # noqa: S101 - for type checkers: it is always there
        target = self._memory("Inputs", (self.times, self.batch, self._width))
        reads, sizes = Reads(self._inputs), (*target.sizes, self._inputs)
        one = reads.factor(_seen(x, sizes, (*x.strides[1:3], 0, x.strides[3])))
        other = reads.factor(_seen(weight, sizes, (0, 0, *weight.strides)))
        value = fold("sum", one * other)
        if self._field("bias") is not None:
            for first in (0,) if self._reset_apart else (0, self._width):
                value = value + reads.of(self._constant("bias", first, self._width))
        return Reduce(tuple(reads.views), _seen(target, (*target.sizes, 1), (*target.strides, 0)), value, 1)

    def _start(self, state: str) -> Map:
        """The state before the first step."""
        target = self.before(state)
        target = _seen(target, target.sizes[1:], target.strides[1:])
        given = self._field({"Hidden": "hidden_init", "Cell": "cell_mem_init"}[state])
        return filled(target, 0.0) if given is None else scaled(given, target)

    def _lengths(self) -> Map:
        """Which times are within the lengths."""
        lengths = View.of("SequenceLengthsTensor", self._desc.sequence_lengths_tensor)
        sizes = (self.times, self.batch)
        source = _seen(lengths, sizes, (0, lengths.strides[3]))
        target = View(INSIDE, DataType.UINT8, sizes, (self.batch, 1))
        is_inside = coordinate(0) < load(0, DataType.UINT32).to(DataType.INT64)
        return Map((source,), target, is_inside.to(DataType.UINT8))

    def _sequence(self, target: View) -> Map:
        """The states after each step; 0 past a sequence's length."""
        target = self._in_order(target)
        states = self.after("Hidden")
        if not self._has_lengths:
            return scaled(states, target)
        reads = Reads()
        state, inside = reads.of(states), reads.of(self._inside(self.size))
        return Map(tuple(reads.views), target, where(inside.equals(0), const(0.0, F32), state).to(target.data_type))


def _seen(view: View, sizes: Sequence[int], strides: Sequence[int], further: int = 0) -> View:
    """A view's memory in other sizes, from an element on."""
    return View(view.tensor, view.data_type, tuple(sizes), tuple(strides), view.offset + further)
