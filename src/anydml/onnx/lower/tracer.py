"""The tools of lowerings: DirectML's functions on values, run at once where everything is known and small."""

from __future__ import annotations

import functools
import itertools
import math
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.api.builder import Graph
from anydml.arrays.tensor import MAX_DIMENSIONS, TensorDesc
from anydml.core.enums import DataType
from anydml.core.errors import DescriptionError, Fault, ModelError, UnsupportedError, printable
from anydml.core.guards import tape_on
from anydml.core.memory import packed_strides
from anydml.core.symbolic_sizes import as_numbers, is_open, name_of
from anydml.graph.nodes import OperatorNode
from anydml.graph.symbolic_folding import fold
from anydml.onnx.element_types import element_of
from anydml.onnx.lower.values import MOST_KNOWN, Known, Value
from anydml.runtime.device import device_named

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.api.expression import Expression
    from anydml.graph.nodes import ConstantNode
    from anydml.onnx.element_types import ElementType
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.tensors import Beside
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import Device

MOST_FOLDED = 65_536
"""Elements of a graph input whose values a shape may depend on, and of initializers kept for the next trace."""
MOST_FOLDED_BYTES = 2**28
"""Of everything larger that is computed of known values; what is beyond that is left to the graph."""
AT_ONCE = 64
"""Elements up to which it is computed at once."""
_WORD = element_of(DataType.UINT32)


class Tracer:
    """The graph that a model becomes, and what a node added to it."""

    def __init__(self, device: Device, beside: Beside, *, assumes: bool = True) -> None:
        self.graph = Graph(device)
        self.beside = beside
        self.assumes = assumes
        """Whether bounds that a run gives may be taken for such as need no clamping."""
        self.assumed: set[str] = set()
        """The names of gathers that a run finds outside where they were not such."""
        self.offsets: dict[int, tuple[Value, BoundNode]] = {}
        """By its id, each value of a few whole numbers that are not known, and the node that made it."""
        self.inputs: dict[str, None] = {}
        """The graph inputs that something reads, in the order of the graph's."""
        self._shown: set[str] = set()
        """The inputs' names as a terminal may show them."""
        self.added: list[OperatorDesc] = []
        """The operators that the present node added."""
        self.folded = False
        """Whether something of the present node was computed at once."""
        self.note = ""
        """The fate of the present node, where it added nothing for a reason of its own."""
        self.label = ""
        """Of the present node."""
        self.name = ""
        """By which the graph is to call what it adds."""
        self.labels: dict[str, str] = {}
        """By the name that a node has in the graph, what errors call it."""
        self.rules: dict[str, tuple[str, str, int, int]] = {}
        """By the name of what checks its indices, the field and the rule that they break, their bits, and the most."""
        self.checked: dict[tuple[Any, ...], Value] = {}
        """By what was checked and the rule, what a gather made of it."""
        self.states: dict[str, np.ndarray[Any, Any]] = {}
        """By the name among the inputs, the key of a generator whose state each run gives."""
        self._counted: dict[tuple[str, str], Value] = {}
        """By type and count, the numbers from 0 on."""
        self._constants: dict[int, tuple[ConstantNode, list[Expression]]] = {}
        """By its id, each constant of patterns."""
        # NumPy computes what is known, of whatever level it would be: it is little, and no operator comes of it.
        self._host = device_named("reference")
        self.left = min(MOST_FOLDED_BYTES, beside.limit.left)
        """Bytes of known values that may still be computed."""

    def begin(self, label: str, name: str) -> None:
        """Turn to the next node."""
        self.added, self.folded, self.label, self.name, self.note = [], False, label, name, ""

    # What a lowering calls

    def apply(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Value],
        shape: tuple[int, ...],
        *arguments: Any,
        element: ElementType | None = None,
        folds: bool = True,
        **options: Any,
    ) -> Value:
        """The result of a function for tensors: a value of that shape, and of the first tensor's type or the one given.

        What does not fold is left to the graph, be it known.
        """
        element = inputs[0].element if element is None else element
        needs = frozenset[str]().union(*(value.needs for value in inputs))
        if 0 in shape:
            return Value(element, shape)
        if folds and self._folds(shape, element, inputs):

            def compute() -> Any:
                arrays = [np.atleast_1d(value.values("")) for value in inputs]
                return function(*arrays, *as_numbers(arguments), device=self._host, **options)

            def describe(graph: Graph) -> list[Expression]:
                return [function(*[stand_in(graph, value) for value in inputs], *arguments, **options)]

            depends = depends_on_sizes(inputs, shape, arguments)
            if depends and (rows := _fold_symbols(describe, inputs, [shape], arguments, self._host)) is not None:
                self.folded = True
                return Value.of(element, rows[0])
            return self._fold(element, shape, compute, describe, depends=depends)
        tensors = [self.tensor(value) for value in inputs]
        return Value(element, shape, None, self.name_node(function(*tensors, *arguments, **options)), needs=needs)

    def apply_to_list(
        self, function: Callable[..., Any], inputs: Sequence[Value], shape: tuple[int, ...], *arguments: Any
    ) -> Value:
        """The same with a function that takes its tensors as a list."""

        def call(*several: Any, **options: Any) -> Any:
            return function(list(several[: len(inputs)]), *arguments, **options)

        return self.apply(call, inputs, shape)

    def apply_for_list(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Value],
        shapes: Sequence[tuple[int, ...]],
        *arguments: Any,
        **options: Any,
    ) -> list[Value]:
        """The same with a function that gives a list, of values of those shapes."""
        element, total = inputs[0].element, sum(map(math.prod, shapes))
        needs = frozenset[str]().union(*(value.needs for value in inputs))
        if self._folds((total,), element, inputs):
            made: list[Any] = []
            depends = depends_on_sizes(inputs, tuple(shapes), arguments)

            def part(i: int) -> Any:
                if depends or not made:
                    made.clear()
                    arrays = [np.atleast_1d(value.values("")) for value in inputs]
                    made.extend(function(*arrays, *as_numbers(arguments), device=self._host, **options))
                return made[i]

            def describe(graph: Graph) -> list[Expression]:
                return list(function(*[stand_in(graph, value) for value in inputs], *arguments, **options))

            if depends and (rows := _fold_symbols(describe, inputs, shapes, arguments, self._host)) is not None:
                self.folded = True
                return [Value.of(element, row) for row in rows]
            computed = (functools.partial(part, i) for i in range(len(shapes)))
            pairs = zip(shapes, computed, strict=True)
            return [self._fold(element, s, one, describe, depends=depends) for s, one in pairs]
        parts = function(*[self.tensor(value) for value in inputs], *arguments, **options)
        named = [self.name_node(part) for part in parts[:1]] + list(parts[1:])
        return [Value(element, s, None, part, needs=needs) for part, s in zip(named, shapes, strict=True)]

    def fill(
        self,
        function: Callable[..., Any],
        element: ElementType,
        shape: tuple[int, ...],
        *numbers: Any,
        folds: bool = True,
    ) -> Value:
        """The result of a function for numbers alone, which is known where it is small and `folds`."""
        if 0 in shape:
            return Value(element, shape)
        sizes = shape or (1,)
        if folds and self._folds(shape, element, ()):

            def compute() -> Any:
                return function(as_numbers(sizes), *as_numbers(numbers), element.data_type, device=self._host)

            def describe(graph: Graph) -> object:
                plain = (0 if is_open(number) else number for number in numbers)
                return function(sizes, *plain, element.data_type, graph=graph)

            return self._fold(element, shape, compute, describe, depends=depends_on_sizes((), shape, numbers))
        expression = function(sizes, *numbers, element.data_type, graph=self.graph)
        return Value(element, shape, None, self.name_node(expression))

    def count_up(self, element: ElementType, count: int) -> Value:
        """So many whole numbers from 0 on, [1, count]: every layer of a decoder asks for the same."""
        key = element.name, name_of(count)
        if key not in self._counted:
            self._counted[key] = self.fill(dml.fill_value_sequence, element, (1, count), 0, 1, folds=not is_open(count))
        found = self._counted[key]
        self.folded |= found.is_known
        return found

    def draw(self, shape: tuple[int, ...], seed: float | None) -> Value:
        """Random words, other ones at each run; of two draws with one seed the same."""
        if 0 in shape:
            return Value(_WORD, shape)
        check_rank(shape)
        key = draw_key() if seed is None else np.float64(seed).tobytes()
        name = f"\0state {len(self.states)}"  # which no input of a model is called
        self.inputs[name], self.states[name] = None, np.frombuffer(key, np.uint32)
        state = self.graph.input(TensorDesc(DataType.UINT32, (6,)))
        drawn: Any = dml.random_generator(state, shape or (1,)).output
        return Value(_WORD, shape, None, self.name_node(drawn))

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The same memory in another shape of as many elements."""
        if (value.known is not None or tape_on() is None) and math.prod(shape) != value.count:
            rule = f"a tensor must have the {math.prod(shape)} elements of {shape}"
            raise ModelError("onnx", Fault(field="shape", rule=rule, value=value.shape, found=str(value.shape)))
        if not value.is_known:
            self.expression(value)
        return value.reshaped(shape)

    def word_outside(self, made: Value, field: str, rule: str, bits: int = 64, most: int = 0) -> None:
        """Have an index that a run finds outside told as a rule of the node's input, by what found it.

        Those of so many bits were read without their sign. `{most}` in a rule is a number that may be an open size.
        """
        if made.expression is not None:
            self.rules[made.expression.name] = (field, rule, bits, most)

    def restride(self, value: Value, shape: tuple[int, ...], strides: tuple[int, ...]) -> Value:
        """The elements at those strides in a value's memory: packed anew."""
        if 0 in shape:
            return Value(value.element, shape)
        if is_packed(shape, strides) and math.prod(shape) == value.count:
            return self.reshape(value, shape)
        check_rank(shape)
        if self._folds(shape, value.element, [value]):
            steps = [stride * value.element.held.itemsize for stride in strides]

            def compute() -> Any:
                if sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) >= value.count:
                    message = f"strides {strides} of the shape {shape} must stay within {value.count} elements"
                    raise IndexError(message)
                seen = np.lib.stride_tricks.as_strided(value.values(""), shape, steps, writeable=False)
                return dml.identity(seen, device=self._host)

            depends = depends_on_sizes([value], shape, strides)
            if depends and not is_open(strides):

                def seen(graph: Graph) -> list[Expression]:
                    return [dml.identity(stand_in(graph, value).reinterpret(shape, strides))]

                if (rows := _fold_symbols(seen, [value], [shape], (), self._host)) is not None:
                    self.folded = True
                    return Value.of(value.element, rows[0])
            return self._fold(
                value.element,
                shape,
                compute,
                lambda graph: dml.identity(stand_in(graph, value, shape)),
                depends=depends,
            )
        view = self.expression(value).reinterpret(shape, strides, value.element.data_type)
        return Value(value.element, shape, None, self.name_node(dml.identity(view)), needs=value.needs)

    # What it builds of

    def _folds(self, shape: tuple[int, ...], element: ElementType, inputs: Sequence[Value]) -> bool:
        """Whether what has that shape is computed for itself: it is known, not large, and there are not too many."""
        count = math.prod(shape)
        if count > MOST_KNOWN or not all(value.is_known for value in inputs):
            return False
        if not is_open(count) and count <= AT_ONCE:
            return True
        self.left -= count * element.held.itemsize
        return self.left >= 0

    def _fold(
        self,
        element: ElementType,
        shape: tuple[int, ...],
        compute: Callable[[], Any],
        describe: Callable[[Graph], object],
        *,
        depends: bool,
    ) -> Value:
        """The value computed of known ones: a small one at once, another once it is needed, and described now.

        What `depends` on open sizes is small or not as they are.
        """
        self.folded = True
        if not depends and math.prod(shape) <= AT_ONCE:
            return Value.of(element, np.reshape(compute(), shape))
        describe(Graph(self._host))
        return Value(element, shape, Known(make=lambda: np.asarray(compute(), element.held), is_open=depends))

    def constant(self, node: ConstantNode, descs: tuple[TensorDesc, ...]) -> list[Expression]:
        """A constant that patterns of several nodes have, once."""
        if (found := self._constants.get(id(node))) is None:
            found = self._constants[id(node)] = node, self.graph.put(node, (), descs)
        return found[1]

    def expression(self, value: Value) -> Expression:
        """The expression of a value, in whatever shape, and of whatever type of as many bits, the graph has it."""
        if value.expression is None:
            if value.known is not None:
                data = value.known.data(value.count * value.element.held.itemsize)
                value.expression = self.graph.constant(data, desc=self.packed(value))
            else:
                value.expression = self._input(value)
        return value.expression

    def tensor(self, value: Value) -> Expression:
        """A value as a function takes it, in its own shape."""
        shape = value.shape or (1,)
        check_rank(shape)
        found = self.expression(value)
        data_type = value.element.data_type
        is_same = found.sizes == shape and found.data_type == data_type
        return found if is_same else found.reinterpret(shape, data_type=data_type)

    @staticmethod
    def packed(value: Value) -> TensorDesc:
        """How the graph has a value that it is given: as it is, unless it has no dimensions, or too many."""
        sizes = value.shape if 1 <= len(value.shape) <= MAX_DIMENSIONS else (value.count,)
        return TensorDesc(value.element.data_type, sizes)

    def _input(self, value: Value) -> Expression:
        try:
            desc = self.packed(value)
        except DescriptionError as error:
            raise error.within(f"input {printable(value.source)!r}", "") from None
        name = printable(value.source)
        is_free = name != "out" and name not in self.labels and name not in self._shown
        self.inputs[value.source] = None
        self._shown.add(name)
        return self.graph.input(desc, name if is_free else None)

    def name_node(self, expression: Expression) -> Expression:
        """Remember an operator that was added, and by which name the graph calls it."""
        node = expression.source.node
        assert isinstance(node, OperatorNode)  # noqa: S101 - for type checkers: functions give nodes of operators
        self.added.append(node.desc)
        name = base = self.name or self.label
        numbers = itertools.count(len(self.labels))
        while name in self.labels or name in self._shown:
            name = f"{base} #{next(numbers)}"
        self.labels[name] = self.label
        return expression.named(name)


# Values as functions take them: packed, of not too many dimensions, and stand-ins that have shapes alone.


def depends_on_sizes(inputs: Sequence[Value], shape: tuple[Any, ...], arguments: tuple[Any, ...]) -> bool:
    """Whether what is computed depends on open sizes."""
    if tape_on() is None:
        return False
    return is_open(shape) or is_open(arguments) or any(one.known is not None and one.known.is_open for one in inputs)


def _fold_symbols(
    describe: Callable[[Graph], list[Expression]],
    inputs: Sequence[Value],
    shapes: Sequence[tuple[int, ...]],
    arguments: tuple[Any, ...],
    host: Device,
) -> list[np.ndarray[Any, Any]] | None:
    """What a function gives for symbolic sizes, in arrays of those shapes; None where it cannot be told of symbols."""
    if is_open([*shapes]) or is_open(arguments) or sum(map(math.prod, shapes)) > AT_ONCE:
        return None
    rows = [_symbols(value) for value in inputs]
    given = [row for row in rows if row is not None]
    if len(given) < len(rows):
        return None
    graph = Graph(host)
    made = fold(graph.desc(describe(graph)), given, [value.element.data_type for value in inputs])
    if made is None:
        return None
    return [row[: math.prod(shape)].reshape(shape) for row, shape in zip(made, shapes, strict=True)]


def _symbols(value: Value) -> np.ndarray[Any, Any] | None:
    """A few whole numbers, of which some may be symbolic sizes; None where they are none."""
    known = value.known
    if known is None or value.element.data_type.is_float or value.element.is_half:
        return None
    if known.opened is not None:
        return known.opened
    if known.is_open or value.count > AT_ONCE:
        return None
    return np.array([int(number) for number in known.flat().reshape(-1)], object)


def stand_in(graph: Graph, value: Value, shape: tuple[int, ...] | None = None) -> Expression:
    """A tensor without elements, for a function to check what it would be given."""
    sizes = (value.shape if shape is None else shape) or (1,)
    check_rank(sizes)
    return graph.input(TensorDesc(value.element.data_type, sizes))


def is_packed(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether strides are those of packed memory, wherever a dimension has more than one element."""
    packed = packed_strides(shape)
    return all(size == 1 or a == b for size, a, b in zip(shape, strides, packed, strict=True))


def check_rank(shape: tuple[int, ...]) -> None:
    """Refuse more dimensions than DirectML's operators take."""
    if len(shape) > MAX_DIMENSIONS:
        rule = f"a tensor must have at most {MAX_DIMENSIONS} dimensions, DirectML's most, for anything but a reshape"
        raise UnsupportedError("onnx", Fault(field="shape", rule=rule, value=shape, found=str(len(shape))))


# Keys for random numbers whose node has no seed: chance's own, until somebody sets a seed for all of them.

_draw = os.urandom


def draw_key() -> bytes:
    """A key of 8 bytes, another one at each call."""
    return _draw(8)


def set_seed(seed: int) -> None:
    """Let nodes without a seed, of models that are compiled from now on, draw the same numbers at each start."""
    global _draw
    _draw = random.Random(seed).randbytes  # noqa: S311 - numbers that can be had again are what it is for
