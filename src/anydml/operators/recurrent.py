"""The recurrent networks of one layer: RNN, LSTM and GRU."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, RecurrentNetworkDirection
from anydml.core.errors import Fault
from anydml.core.memory import packed_strides
from anydml.ir.expressions import const, coordinate, fold, given, load, maximum, minimum, where
from anydml.ir.patterns import filled, scaled
from anydml.ir.verbs import Map, Reduce, Repeat, Write
from anydml.ir.views import View
from anydml.operators.fused import FUSED, Activations, FusedActivation, activation_faults
from anydml.operators.lowering import by_row
from anydml.operators.schema.fields import Float, Input, OptionalInput, OptionalOutput, Recurrence, dml_name
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import exact_sizes, fault, same_data_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.operators.schema.sizes import Sizes


# One direction as verbs: products with the input, then a repeat over its states


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
        return Reduce(tuple(reads.views), by_row(target, 1), value, 1)

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
        return Reduce(tuple(reads.views), by_row(target, 1), value, 1)

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


# The operators


_USUAL: Any = "usual"
"""Activations that are not given."""
_STATES = ("HiddenInitTensor", "CellMemInitTensor", "OutputSingleTensor", "OutputCellSingleTensor")


class _Recurrent(Computed):
    """A layer that goes through the steps of a sequence, and takes what it made of one to the next.

    A subclass has its fields and its gates.
    """

    leads = False
    result_rank = 4
    gates: ClassVar[int]
    """Matrices that lie one after another in the weights."""
    usual: ClassVar[tuple[str, ...]]
    """The activations of a direction that are meant where none are given."""
    states: ClassVar[tuple[str, ...]] = ("Hidden",)
    """The states that pass from one step to the next."""

    if TYPE_CHECKING:
        input_tensor: Input
        weight_tensor: Input
        recurrence_tensor: Input
        sequence_lengths_tensor: OptionalInput
        output_sequence_tensor: OptionalOutput
        output_single_tensor: OptionalOutput
        activation_descs: Activations
        direction: Recurrence

    def __post_init__(self) -> None:
        """Activations that are not given are the usual ones, for each direction."""
        is_given = self.activation_descs is not _USUAL
        if not is_given:
            object.__setattr__(self, "activation_descs", ())
        super().__post_init__()
        if not is_given:
            object.__setattr__(self, "activation_descs", tuple(map(FusedActivation, self.usual * self.ways())))

    @property
    def functions(self) -> int:
        """How many activations a direction has."""
        return len(self.usual)

    # What subclasses say

    def steps(self, way: Way, *functions: FusedActivation) -> tuple[Map | Reduce, ...]:
        """The verbs of each time, with the activations of a direction."""
        raise NotImplementedError

    # Sizes

    @property
    def activation_desc_count(self) -> int:
        """How many activations there are."""
        return len(self.activation_descs)

    def ways(self) -> int:
        """The directions that there are."""
        return 2 if self.direction is RecurrentNetworkDirection.BIDIRECTIONAL else 1

    def _sizes(self) -> dict[str, tuple[Sizes, str]]:
        """The sizes that each tensor must have, given the input's and the hidden size, and in words."""
        _, steps, batch, inputs = self.input_tensor.sizes
        ways, hidden = self.ways(), self.recurrence_tensor.sizes[3]
        rows = self.gates * hidden
        state, height = (1, ways, batch, hidden), "hidden size" if self.gates == 1 else f"{self.gates}·hidden size"
        found = {
            "InputTensor": ((1, steps, batch, inputs), "1, steps, batch, input size"),
            "WeightTensor": ((1, ways, rows, inputs), f"1, directions, {height}, input size"),
            "RecurrenceTensor": ((1, ways, rows, hidden), f"1, directions, {height}, hidden size"),
            "BiasTensor": ((1, 1, ways, 2 * rows), f"1, 1, directions, {2 * self.gates}·hidden size"),
            "SequenceLengthsTensor": ((1, 1, 1, batch), "1, 1, 1, batch"),
            "PeepholeTensor": ((1, 1, ways, 3 * hidden), "1, 1, directions, 3·hidden size"),
            "OutputSequenceTensor": ((steps, ways, batch, hidden), "steps, directions, batch, hidden size"),
            **dict.fromkeys(_STATES, (state, "1, directions, batch, hidden size")),
        }
        return {field: (sizes, f"{{{words}}}") for field, (sizes, words) in found.items()}

    @classmethod
    @functools.cache
    def optional_outputs(cls) -> tuple[str, ...]:
        """All but the sequence, which functions give always, and which a description may leave out too."""
        return super().optional_outputs()[1:]

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """One direction, and states of one element."""
        *_, batch, inputs = (1, 1, *first.sizes)
        sizes = {
            "WeightTensor": (1, 1, cls.gates, inputs),
            "RecurrenceTensor": (1, 1, cls.gates, 1),
            "BiasTensor": (1, 1, 1, 2 * cls.gates),
            "SequenceLengthsTensor": (1, 1, 1, batch),
            "PeepholeTensor": (1, 1, 1, 3),
        }
        kind = DataType.UINT32 if field == "SequenceLengthsTensor" else first.data_type
        return kind, sizes.get(field, (1, 1, batch, 1))

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """The hidden states of all steps, and the last."""
        sizes, kind = self._sizes(), self.input_tensor.data_type
        return tuple(TensorDesc(kind, sizes[dml_name(name)][0]) for name in self.output_names())

    def implied_output_sizes(self) -> Sizes:
        """The sequence's."""
        return self._sizes()["OutputSequenceTensor"][0]

    # Rules

    def rules(self) -> Iterator[Fault]:
        """The tensors fit the input and the hidden size, and there are activations enough."""
        counts = [tensor.dimension_count for tensor in (self.input_tensor, self.recurrence_tensor)]
        if counts == [4, 4]:  # others no level has
            yield from self._fitting(self.inputs())
        count = self.functions * self.ways()
        if len(self.activation_descs) != count:
            each = f"{self.functions} for each direction" if self.ways() > 1 else "as its direction takes"
            found = str(len(self.activation_descs))
            yield fault("ActivationDescs", f"must have {count}, {each}", self.activation_descs, found)
        for i, one in enumerate(self.activation_descs):
            yield from activation_faults(one, FUSED, f"ActivationDescs[{i}]")

    def _fitting(self, fields: Mapping[str, TensorDesc]) -> Iterator[Fault]:
        sizes = self._sizes()
        for field in fields:
            if field not in ("InputTensor", "SequenceLengthsTensor"):
                yield from same_data_type(self, field, "InputTensor")
            yield from exact_sizes(self, field, *sizes[field])

    def output_rules(self) -> Iterator[Fault]:
        """There is an output, and each has its sizes."""
        if not self.outputs():
            rule = "OutputSequenceTensor or OutputSingleTensor must be given"
            yield Fault(field="OutputSequenceTensor", rule=rule, found="none")
        yield from self._fitting(self.outputs())

    # What follows

    def lower(self) -> tuple[Primitive, ...]:
        """Each direction for itself: products with the input ahead, the steps, and the outputs from their states."""
        return self._lowered(is_told=False)

    def told(self) -> tuple[Primitive, ...]:
        """The same with memory of its own for each time."""
        return self._lowered(is_told=True)

    def _lowered(self, *, is_told: bool) -> tuple[Primitive, ...]:
        found: list[Primitive] = []
        for number in range(self.ways()):
            is_back = number == 1 or self.direction is RecurrentNetworkDirection.BACKWARD
            way = Way(self, number, is_back=is_back, is_told=is_told)
            own = self.activation_descs[self.functions * number : self.functions * (number + 1)]
            found += way.lower(self.steps(way, *own), self.states)
        return tuple(found)


class Rnn(_Recurrent):
    """A recurrent layer: H = f(X·Wᵀ + H·Rᵀ + Wb + Rb) at each step.

    Sums and states are of FLOAT32, for FLOAT16 too. Past a sequence's length OutputSequenceTensor is 0 and the state
    stays; a sequence of length 0 keeps HiddenInitTensor.
    """

    gates = 1
    usual = ("TANH",)

    input_tensor: Input
    weight_tensor: Input
    recurrence_tensor: Input
    bias_tensor: OptionalInput = None
    hidden_init_tensor: OptionalInput = None
    sequence_lengths_tensor: OptionalInput = None
    output_sequence_tensor: OptionalOutput = None
    output_single_tensor: OptionalOutput = None
    activation_descs: Activations = _USUAL
    direction: Recurrence = RecurrentNetworkDirection.FORWARD

    def steps(self, way: Way, *functions: FusedActivation) -> tuple[Map | Reduce, ...]:
        """A product, and what follows it."""
        (f,) = functions

        def finish(total: Expr, reads: Reads) -> Expr:
            return way.kept("Hidden", f.apply(total), reads)

        return (way.product(way.before("Hidden"), 0, 1, way.after("Hidden"), finish),)


class Lstm(_Recurrent):
    """A layer of long short-term memory: a cell C, its gates i, o, f and c, and H = o·h(C) at each step.

    i, f = f(X·Wᵀ + H·Rᵀ + P·C + Wb + Rb), c = g(X·Wᵀ + H·Rᵀ + Wb + Rb), C = f·C + i·c, and o is like i, of the new C.
    The gates lie in the weights in the order i, o, f, c, and the peepholes P in the order i, o, f. CoupleInputForget
    makes f 1 - i; ClipThreshold bounds what f and g are of. Sums and states are of FLOAT32, for FLOAT16 too. Past a
    sequence's length OutputSequenceTensor is 0 and the states stay.
    """

    gates = 4
    usual = ("SIGMOID", "TANH", "TANH")
    states = ("Hidden", "Cell")

    input_tensor: Input
    weight_tensor: Input
    recurrence_tensor: Input
    bias_tensor: OptionalInput = None
    hidden_init_tensor: OptionalInput = None
    cell_mem_init_tensor: OptionalInput = None
    sequence_lengths_tensor: OptionalInput = None
    peephole_tensor: OptionalInput = None
    output_sequence_tensor: OptionalOutput = None
    output_single_tensor: OptionalOutput = None
    output_cell_single_tensor: OptionalOutput = None
    activation_descs: Activations = _USUAL
    direction: Recurrence = RecurrentNetworkDirection.FORWARD
    clip_threshold: Float = 0.0
    use_clip_threshold: bool = False
    couple_input_forget: bool = False

    def rules(self) -> Iterator[Fault]:
        """The tensors fit, and a bound is at least 0."""
        yield from super().rules()
        if self.use_clip_threshold and not self.clip_threshold >= 0:
            yield fault("ClipThreshold", "must be at least 0 with UseClipThreshold", self.clip_threshold)

    def _clipped(self, x: Expr) -> Expr:
        if not self.use_clip_threshold:
            return x
        return minimum(maximum(x, given(-self.clip_threshold, F32)), given(self.clip_threshold, F32))

    def steps(self, way: Way, *functions: FusedActivation) -> tuple[Map | Reduce, ...]:
        """The sums of all gates, then the states."""
        f, g, h = functions
        gates, reads = way.room("Gates", 4), Reads()
        i, o, forget, c = (reads.of(way.gate(gates, k)) for k in range(4))
        cell = reads.of(way.before("Cell"))
        factors = [] if self.peephole_tensor is None else [reads.of(way.peephole(k)) for k in range(3)]

        def gate(x: Expr, k: int, cell: Expr) -> Expr:
            return f.apply(self._clipped(x + factors[k] * cell if factors else x))

        let_in = gate(i, 0, cell)
        kept = 1.0 - let_in if self.couple_input_forget else gate(forget, 2, cell)
        new = kept * cell + let_in * g.apply(self._clipped(c))
        hidden = gate(o, 1, new) * h.apply(new)
        product = way.product(way.before("Hidden"), 0, 4, gates)
        return product, way.stepped({"Hidden": hidden, "Cell": new}, reads)


class Gru(_Recurrent):
    """A layer of gated recurrent units: H = (1 - z)·h + z·H at each step.

    z, r = f(X·Wᵀ + H·Rᵀ + Wb + Rb), and h = g(X·Wᵀ + (r·H)·Rᵀ + Wb + Rb), or with LinearBeforeReset
    g(X·Wᵀ + Wb + r·(H·Rᵀ + Rb)). The gates lie in the weights in the order z, r, h. Sums and states are of FLOAT32,
    for FLOAT16 too. Past a sequence's length OutputSequenceTensor is 0 and the state stays.
    """

    gates = 3
    usual = ("SIGMOID", "TANH")

    input_tensor: Input
    weight_tensor: Input
    recurrence_tensor: Input
    bias_tensor: OptionalInput = None
    hidden_init_tensor: OptionalInput = None
    sequence_lengths_tensor: OptionalInput = None
    output_sequence_tensor: OptionalOutput = None
    output_single_tensor: OptionalOutput = None
    activation_descs: Activations = _USUAL
    direction: Recurrence = RecurrentNetworkDirection.FORWARD
    linear_before_reset: bool = False

    def steps(self, way: Way, *functions: FusedActivation) -> tuple[Map | Reduce, ...]:
        """The sums of the gates, then the state; in between what is reset, where the last gate's sum is of that."""
        f, g = functions
        before, reads = way.before("Hidden"), Reads()
        steps: list[Map | Reduce] = []
        if self.linear_before_reset:
            gates = way.room("Gates", 3)
            z, r, total = (reads.of(way.gate(gates, k)) for k in range(3))
            own = [reads.of(way.inputs(k)) for k in range(3)]
            z, new = f.apply(z + own[0]), g.apply(own[2] + f.apply(r + own[1]) * total)
            steps.append(way.product(before, 0, 3, gates))
        else:
            gates, reset, last = way.room("Gates", 2), way.room("Reset"), way.room("Last")
            first = Reads()
            value = f.apply(first.of(way.gate(gates, 1))) * first.of(before)
            z, new = f.apply(reads.of(way.gate(gates, 0))), g.apply(reads.of(last))
            steps += [
                way.product(before, 0, 2, gates), Map(tuple(first.views), reset, value), way.product(reset, 2, 1, last),
            ]  # fmt: skip
        return *steps, way.stepped({"Hidden": (1.0 - z) * new + z * reads.of(before)}, reads)
