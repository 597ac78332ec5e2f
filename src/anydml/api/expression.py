"""The stand-in for a tensor in a graph that is being built, and Python's operators on it: `a + b`, `a @ b`, `a < b`."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, NoReturn

from anydml.arrays.tensor import TensorDesc
from anydml.core.display import Shown, Table, describe
from anydml.core.errors import DescriptionError, Fault
from anydml.core.late_imports import import_alone
from anydml.graph.check import byte_span, has_gaps
from anydml.graph.description import SUBJECT
from anydml.graph.nodes import OperatorNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    import numpy as np

    from anydml.api.builder import Graph
    from anydml.core.enums import DataType
    from anydml.graph.nodes import Node

    Operand: TypeAlias = "Expression | float | np.number[Any] | Sequence[Any]"

operations: dict[str, Callable[..., Expression]] = {}
"""The function of each operator, by its name in the module `operator`: the functions enter it, a layer above."""


def _apply(name: str, *operands: object) -> Expression:
    """The result for operands that a graph can take, or for arrays, whose error names the way out."""
    if all(isinstance(x, (Arithmetic, numbers.Real, list, tuple)) or hasattr(x, "shape") for x in operands):
        return operations[name](*operands)
    return NotImplemented  # type: ignore[no-any-return]  # Python asks the other operand


_OF_UFUNCS = {
    "add": "add", "subtract": "sub", "multiply": "mul", "matmul": "matmul", "divide": "truediv", "remainder": "mod",
    "power": "pow", "bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor", "left_shift": "lshift",
    "right_shift": "rshift", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge",
}  # fmt: skip
"""The operators that stand between an array and an expression, by the ufuncs that an array calls for them."""
_REDUCED = {"add.reduce": "sum", "multiply.reduce": "prod", "maximum.reduce": "amax", "minimum.reduce": "amin"}


def _not_numpys(name: str, meant: str) -> str:
    """That a function of NumPy's has no numbers to compute with, and what takes its place."""
    import_alone("anydml.api.unknown")
    from anydml.api.unknown import word_in_place_of  # for errors alone

    return f"np.{name} takes arrays, and an Expression of a graph has no values yet; {word_in_place_of(meant)}"


class Arithmetic:
    """The operators of DirectMLX's expressions, each a function of DirectML's operators, with numbers, or
    lists of them, on either side.

    `%` has the sign of its first operand, as MODULUS_TRUNCATE; `&`, `|`, `^` and `~` are of bits; comparisons are 1 or
    0, of UINT8. `==` compares expressions, not their elements: that is `equals`.
    """

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What NumPy asks for `array + expression`, which is the expression's to say, and for `np.exp(expression)`."""
        is_in_place = len(options.get("out", ())) == 1 and options["out"][0] is inputs[0]  # array += expression
        is_operator = method == "__call__" and ufunc.__name__ in _OF_UFUNCS and (not options or is_in_place)
        if is_operator and not isinstance(inputs[0], Arithmetic):
            first = inputs[0][()] if getattr(inputs[0], "shape", None) == () else inputs[0]  # a number, made an array
            return _apply(_OF_UFUNCS[ufunc.__name__], first, inputs[1])
        if method == "__call__" and ufunc.__name__ in ("equal", "not_equal"):  # of expressions, not of their elements
            return (inputs[0] is inputs[1]) is (ufunc.__name__ == "equal")
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise TypeError(_not_numpys(name, ufunc.__name__ if method == "__call__" else _REDUCED.get(name, name)))

    def __array_function__(self, function: Any, _types: Any, args: Any, options: Any) -> Any:
        """What NumPy asks for `np.sum(expression)`: shapes are known, and elements are not."""
        of_shape: dict[str, Callable[[Any], Any]] = {"shape": tuple, "ndim": len, "size": math.prod}
        known = of_shape.get(function.__name__)
        if known is not None and len(args) == 1 and not options:
            return known(args[0].shape)
        name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")  # of linalg there are others
        raise TypeError(_not_numpys(name, name))

    def equals(self, other: Operand) -> Expression:
        """Whether elements are equal: LOGICAL_EQUALS."""
        return _apply("eq", self, other)

    def __bool__(self) -> NoReturn:
        rule = f"{self!r} is symbolic: its tensor has no values yet, so it is neither true nor false"
        way_out = "if_(condition, a, b) chooses by element, and compiled(…) gives an array"
        raise DescriptionError("Graph", Fault(field="expression", rule=rule, way_out=way_out))

    # fmt: off
    def __add__(self, other: Operand) -> Expression: return _apply("add", self, other)
    def __radd__(self, other: Operand) -> Expression: return _apply("add", other, self)
    def __sub__(self, other: Operand) -> Expression: return _apply("sub", self, other)
    def __rsub__(self, other: Operand) -> Expression: return _apply("sub", other, self)
    def __mul__(self, other: Operand) -> Expression: return _apply("mul", self, other)
    def __rmul__(self, other: Operand) -> Expression: return _apply("mul", other, self)
    def __matmul__(self, other: Operand) -> Expression: return _apply("matmul", self, other)
    def __rmatmul__(self, other: Operand) -> Expression: return _apply("matmul", other, self)
    def __truediv__(self, other: Operand) -> Expression: return _apply("truediv", self, other)
    def __rtruediv__(self, other: Operand) -> Expression: return _apply("truediv", other, self)
    def __mod__(self, other: Operand) -> Expression: return _apply("mod", self, other)
    def __rmod__(self, other: Operand) -> Expression: return _apply("mod", other, self)
    def __pow__(self, other: Operand) -> Expression: return _apply("pow", self, other)
    def __rpow__(self, other: Operand) -> Expression: return _apply("pow", other, self)
    def __and__(self, other: Operand) -> Expression: return _apply("and_", self, other)
    def __rand__(self, other: Operand) -> Expression: return _apply("and_", other, self)
    def __or__(self, other: Operand) -> Expression: return _apply("or_", self, other)
    def __ror__(self, other: Operand) -> Expression: return _apply("or_", other, self)
    def __xor__(self, other: Operand) -> Expression: return _apply("xor", self, other)
    def __rxor__(self, other: Operand) -> Expression: return _apply("xor", other, self)
    def __lshift__(self, other: Operand) -> Expression: return _apply("lshift", self, other)
    def __rlshift__(self, other: Operand) -> Expression: return _apply("lshift", other, self)
    def __rshift__(self, other: Operand) -> Expression: return _apply("rshift", self, other)
    def __rrshift__(self, other: Operand) -> Expression: return _apply("rshift", other, self)
    def __lt__(self, other: Operand) -> Expression: return _apply("lt", self, other)
    def __le__(self, other: Operand) -> Expression: return _apply("le", self, other)
    def __gt__(self, other: Operand) -> Expression: return _apply("gt", self, other)
    def __ge__(self, other: Operand) -> Expression: return _apply("ge", self, other)
    def __neg__(self) -> Expression: return _apply("neg", self)
    def __abs__(self) -> Expression: return _apply("abs", self)
    def __invert__(self) -> Expression: return _apply("invert", self)


@dataclass(slots=True, eq=False)
class Source:
    """The origin of an expression: an input of the graph, or a node."""

    is_input: bool
    number: int
    descs: tuple[TensorDesc, ...]
    """Of its memory: an input's one, or one for each output of the node."""
    name: str
    inputs: tuple[Expression, ...] = ()
    node: Node | None = None


class Reference(NamedTuple):
    """An expression by its place in a graph."""

    is_input: bool
    number: int
    slot: int
    desc: TensorDesc | None
    """That of a reinterpretation."""
    is_scalar: bool
    made: Any
    """The call that gave it, of a graph with symbolic sizes."""


class Expression(Arithmetic, Shown):
    """A tensor in a graph that is being built: an input, a constant, or what a function made of others.

    The functions take expressions where they take arrays, and then give one.
    """

    __slots__ = ("__weakref__", "_source", "desc", "graph", "is_given_back", "is_scalar", "made", "slot")

    def __init__(
        self, graph: Graph, source: Source, desc: TensorDesc, slot: int = 0, *, is_scalar: bool = False
    ) -> None:
        self.graph, self._source, self.desc, self.slot = graph, source, desc, slot
        self.is_scalar = is_scalar
        """Whether it has no dimensions, which its description, having one at least, does not say."""
        self.made: Any = None
        """The call that gave it, of a graph with symbolic sizes."""
        self.is_given_back = False
        """Whether that call was given it."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Its sizes: none for a single element, as the functions give it."""
        return () if self.is_scalar else self.desc.sizes

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes, by NumPy's name."""
        return self.sizes

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of its description, those of a packed tensor where it has none."""
        return () if self.is_scalar else self.desc.element_strides

    @property
    def data_type(self) -> DataType:
        """The data type of its description."""
        return self.desc.data_type

    @property
    def name(self) -> str:
        """The name of the input or node; empty where it has none."""
        return self._source.name

    @property
    def is_reinterpreted(self) -> bool:
        """Whether it is another description of an expression's memory."""
        return self.desc is not self._source.descs[self.slot]

    def named(self, name: str) -> Expression:
        """Name the node that gives this expression, for errors and pictures: `y = slice1(x, …).named("crop")`."""
        if self.is_reinterpreted:
            rule = "name must be given to the expression itself: a reinterpretation of it is no node"
            refuse(Fault(field="name", rule=rule, value=name))
        self.graph.rename(self._source, name)
        if self.graph.recording is not None:
            self.graph.recording.rename(self.graph, self, name)
        return self

    def given_back(self) -> Expression:
        """The same as another call's result."""
        made = Expression(self.graph, self._source, self.desc, self.slot, is_scalar=self.is_scalar)
        made.is_given_back = True
        return made

    def describe_anew(self, desc: TensorDesc) -> None:
        """Describe it by sizes of its own, which are the same for the example."""
        if not self.is_reinterpreted:
            descs = self._source.descs
            self._source.descs = (*descs[: self.slot], desc, *descs[self.slot + 1 :])
        self.desc = desc

    def reinterpret(
        self,
        sizes: Sequence[int] | int | None = None,
        strides: Sequence[int] | int | None = None,
        data_type: DataType | str | type | Any = None,
    ) -> Expression:
        """The same memory in another description; without strides a packed one, where sizes or type change.

        The bytes that it describes must lie within those of this expression.
        """
        if self.graph.recording is not None and not self.graph.recording.is_within:
            given: Any = (self, sizes, strides, data_type)
            made: Expression = self.graph.recording.call(self.graph, Expression.reinterpret, given, {})
            return made
        desc = self.desc
        same_shape = sizes is None and data_type is None
        try:
            other = TensorDesc(
                desc.data_type if data_type is None else data_type,
                desc.sizes if sizes is None else sizes,
                strides=desc.strides if strides is None and same_shape else strides,
                flags=desc.flags,
                signed_strides=desc.signed_strides and strides is None and same_shape,
            )
        except DescriptionError as error:
            raise error.within(SUBJECT, "reinterpret: ") from None
        is_scalar = self.is_scalar and sizes is None and strides is None
        return self.seen_as(other, is_scalar=is_scalar)

    def seen_as(self, other: TensorDesc, *, is_scalar: bool = False) -> Expression:
        """The same memory in another description, which lies within it."""
        if self.graph.recording is not None and not self.graph.recording.is_within:
            what = {"is_scalar": is_scalar}
            made: Expression = self.graph.recording.call(self.graph, Expression.seen_as, (self, other), what)
            return made
        own = self._source.descs[self.slot]
        if isinstance(self._source.node, OperatorNode) and has_gaps(own):
            rule = f"reinterpret: {self!r} must have no gaps: nobody writes there"
            refuse(Fault(field="reinterpret", rule=rule, value=own.strides))
        low, high = byte_span(self.desc)
        found = byte_span(other)
        if found[0] < low or found[1] > high:
            rule = f"reinterpret: the bytes must lie within the {low} .. {high} of {self!r}"
            refuse(Fault(field="reinterpret", rule=rule, value=other, found=f"{found[0]} .. {found[1]} of {other!r}"))
        return Expression(self.graph, self._source, other, self.slot, is_scalar=is_scalar)

    @property
    def source(self) -> Source:
        """Its origin in the graph."""
        return self._source

    @property
    def reference(self) -> Reference:
        """What it is in its graph, whichever that is."""
        desc = self.desc if self.is_reinterpreted else None
        return Reference(self._source.is_input, self._source.number, self.slot, desc, self.is_scalar, self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return _refer, (self.graph, self.reference)

    def __array__(self, *_args: object, **_options: object) -> NoReturn:
        rule = f"{self!r} is symbolic: its tensor has no values yet"
        refuse(Fault(field="expression", rule=rule, way_out="compile its graph, and call that"))

    def __getitem__(self, index: object) -> NoReturn:
        rule = f"{self!r} is symbolic: it has no index"
        way_out = "slice(x, offsets, sizes), slice1, gather(x, indices, axis) and split take parts of it"
        refuse(Fault(field="expression", rule=rule, value=index, way_out=way_out))

    __iter__: ClassVar[None] = None  # else Python would ask for [0], [1], …

    def _shown(self) -> Iterator[str | Table]:
        source, desc = self._source, self.desc
        kind = "input" if source.node is None else source.node.kind
        yield f"Expression: {describe(desc)} of {kind} {source.name}".rstrip()
        rows = [("type", desc.data_type.name), ("sizes", str(self.sizes)), ("strides", str(self.strides))]
        rows += [(f"reads [{k}]", repr(given)) for k, given in enumerate(source.inputs)]
        yield Table("", ("property", "value"), rows)

    def __repr__(self) -> str:
        source = self._source
        kind = "input" if source.node is None else source.node.kind
        name = f" {source.name!r}" if source.name else ""
        return f"Expression({kind}{name}, {self.desc!r})"


class Recorded:
    """Whether there is a graph with symbolic sizes in this process."""

    is_there = False


def recording_of(args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Any:
    """The graph with symbolic sizes that a call adds to; None where there is none."""
    for one in (*args, *named.values()) if named else args:
        first = one[0] if type(one) in (list, tuple) and one else one
        if isinstance(first, Expression):  # which is asked, and no object of others, whose attributes may be hostile
            return first.graph if getattr(first.graph, "recording", None) is not None else None
    graph = named.get("graph") if named else None
    return graph if getattr(graph, "recording", None) is not None else None


def _refer(graph: Graph, reference: Reference) -> Expression:
    """An expression as it is copied and pickled: with its graph."""
    return graph.refer(reference)


def refuse(fault: Fault) -> NoReturn:
    """Say what is wrong with a graph."""
    raise DescriptionError(SUBJECT, fault)
