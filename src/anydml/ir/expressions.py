"""Expressions: the arithmetic of one element, as a typed tree over the elements that a map or a reduce reads.

A node is an operation of `OPERATIONS`, which every engine has, a leaf of `LEAVES`, a `fetch`, a fold of `FOLDS`, or a
function of `FUNCTIONS`, which `numerics` writes out in operations: an engine calls `expand` first, but for the
reference engine, which has NumPy's. Equal nodes are one object: a tree computes nothing twice, and is quick to compare.

Types are explicit. Nothing is converted or rounded but where the tree says so: FLOAT32 operations round to FLOAT32,
FLOAT16 is converted to FLOAT32 to be computed with, integers wrap. A type of None is a truth value.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anydml.core.enums import DataType
from anydml.core.late_imports import import_alone
from anydml.core.symbolic_sizes import is_open, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEAVES = ("load", "const", "given", "coordinate")
"""An element of a source; a number of the operator's; a number of the user's; the index in a dimension, INT64."""
OPERATIONS = {
    # name: the number of arguments
    "add": 2, "sub": 2, "mul": 2, "div": 2, "rem": 2, "fma": 3, "neg": 1, "abs": 1, "sqrt": 1,
    "floor": 1, "ceil": 1, "trunc": 1, "rint": 1,
    "lt": 2, "le": 2, "eq": 2, "where": 3,
    "and": 2, "or": 2, "xor": 2, "not": 1, "shl": 2, "shr": 2,
    "cast": 1, "bits": 1,
}  # fmt: skip
"""`div` and `rem` of integers cut toward 0, and must not be given a divisor of 0, or of -1 for a signed type; shifts
must be below the width, and `shr` continues the sign of a signed type. Comparisons with NaN are false. `cast` converts
as `Map` says; `bits` is the same bits as another type of the width. `rint` rounds halves to even. `fma` rounds once.
`and`, `or`, `xor` and `not` are of integers, by bit, and of truths."""
FUNCTIONS = {
    "exp": 1, "expm1": 1, "log": 1, "log1p": 1,
    "sin": 1, "cos": 1, "tan": 1, "asin": 1, "acos": 1, "atan": 1, "atan2": 2,
    "sinh": 1, "cosh": 1, "tanh": 1, "asinh": 1, "acosh": 1, "atanh": 1,
    "erf": 1, "pow": 2, "sigmoid": 1, "softplus": 1, "gelu": 1, "fmod": 2,
}  # fmt: skip
"""Of FLOAT32. `softplus` is ln(1 + e^x), `gelu` x·(1 + erf(x/√2))/2, and `fmod` the exact remainder of the division
that cuts toward 0, with the sign of its first argument."""
FOLDS = {"fold_sum": 1, "fold_product": 1, "fold_max": 1, "fold_min": 1}
"""In a reduce: of an expression over all coordinates of the folded dimensions, in the expression's type. Integers wrap;
the largest and the smallest of floats are NaN where one is NaN, and which of two zeros is left open."""

Number: TypeAlias = "int | float | bool"
_nodes: weakref.WeakValueDictionary[tuple[Any, ...], Expr] = weakref.WeakValueDictionary()


class Expr:
    """A node of a tree. Equal ones are the same object; make them with the functions below."""

    __slots__ = ("__weakref__", "args", "below", "op", "type", "value")

    op: str
    type: DataType | None
    args: tuple[Expr, ...]
    value: Number
    """Of a constant the number, of a load or fetch the source's position, of a coordinate the dimension; else 0."""
    below: tuple[Expr, ...] | None  # the other nodes of its tree, once that was walked

    def __new__(cls, op: str, type: DataType | None, args: tuple[Expr, ...] = (), value: Number = 0) -> Expr:  # noqa: D102, PYI034 - what the fields are
        key = (op, type, args, name_of(value))  # 0.0 and -0.0 are equal, and 1 and 1.0
        found = _nodes.get(key)
        if found is None:
            found = super().__new__(cls)
            found.op, found.type, found.args, found.value, found.below = op, type, args, value, None
            found = _nodes.setdefault(key, found)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        import_alone("anydml.ir.trees")
        from anydml.ir.trees import put_together, take_apart  # which are made of nodes

        return put_together, (take_apart(self),)

    def __repr__(self) -> str:
        import_alone("anydml.ir.trees")
        from anydml.ir.trees import write  # which is made of nodes

        return write(self)

    # Arithmetic, with another node of the type or a number

    def __add__(self, other: Expr | Number) -> Expr:
        return _make("add", self, other)

    def __radd__(self, other: Number) -> Expr:
        return like(other, self) + self

    def __sub__(self, other: Expr | Number) -> Expr:
        return _make("sub", self, other)

    def __rsub__(self, other: Number) -> Expr:
        return like(other, self) - self

    def __mul__(self, other: Expr | Number) -> Expr:
        return _make("mul", self, other)

    def __rmul__(self, other: Number) -> Expr:
        return like(other, self) * self

    def __truediv__(self, other: Expr | Number) -> Expr:
        return _make("div", self, other)

    def __rtruediv__(self, other: Number) -> Expr:
        return like(other, self) / self

    def __mod__(self, other: Expr | Number) -> Expr:
        return _make("rem", self, other)

    def __lshift__(self, other: Expr | Number) -> Expr:
        return _make("shl", self, other)

    def __rshift__(self, other: Expr | Number) -> Expr:
        return _make("shr", self, other)

    def __and__(self, other: Expr | Number) -> Expr:
        return _make("and", self, other)

    def __or__(self, other: Expr | Number) -> Expr:
        return _make("or", self, other)

    def __xor__(self, other: Expr | Number) -> Expr:
        return _make("xor", self, other)

    def __invert__(self) -> Expr:
        return Expr("not", self.type, (self,))

    def __neg__(self) -> Expr:
        return Expr("neg", self.type, (self,))

    def __lt__(self, other: Expr | Number) -> Expr:
        return _test("lt", self, other)

    def __le__(self, other: Expr | Number) -> Expr:
        return _test("le", self, other)

    def __gt__(self, other: Expr | Number) -> Expr:
        return like(other, self) < self

    def __ge__(self, other: Expr | Number) -> Expr:
        return like(other, self) <= self

    def equals(self, other: Expr | Number) -> Expr:
        """Whether two numbers are equal: `==` compares nodes."""
        return _test("eq", self, other)

    @property
    def is_nan(self) -> Expr:
        """Whether it is a NaN."""
        return ~self.equals(self)

    def to(self, type: DataType) -> Expr:
        """The number in another type."""
        if self.type is None:
            return where(self, const(1, type), const(0, type))
        return self if self.type is type else Expr("cast", type, (self,))

    def bits(self, type: DataType) -> Expr:
        """The same bits as another type."""
        return self if self.type is type else Expr("bits", type, (self,))


def _make(op: str, a: Expr, b: Expr | Number) -> Expr:
    b = like(b, a)
    _check_alike(op, a, b)
    return Expr(op, a.type, (a, b))


def _test(op: str, a: Expr, b: Expr | Number) -> Expr:
    b = like(b, a)
    _check_alike(op, a, b)
    return Expr(op, None, (a, b))


def _check_alike(op: str, *args: Expr) -> None:
    if len({arg.type for arg in args}) > 1:
        raise TypeError(f"{op} of {', '.join(str(arg.type) for arg in args)}: convert one of them")


# Leaves


def load(slot: int, type: DataType) -> Expr:
    """The element of a source at the current coordinates; the source is given by its position."""
    return Expr("load", type, (), slot)


def fetch(slot: int, type: DataType, indices: Sequence[Expr]) -> Expr:
    """The element of a source at INT64 indices, one for each of the source's dimensions: bits are moved.

    Such a source has sizes of its own, and is not loaded from beside. Indices lie inside them, whatever is read: trees
    clamp those that come from memory, which somebody may write to after a check.
    """
    if any(index.type is not DataType.INT64 for index in indices):
        raise TypeError("fetch takes indices of INT64")
    return Expr("fetch", type, tuple(indices), slot)


def fetch_or(slot: int, type: DataType, indices: Sequence[Expr], sizes: Sequence[int], outside: Expr) -> Expr:
    """The element of a source of these sizes at indices that may lie outside of them, where it is another number."""
    inside, near = const(True, None), []
    for index, size in zip(indices, sizes, strict=True):
        last = given(size - 1, DataType.INT64)
        inside = inside & (index >= 0) & (index <= last)
        near.append(minimum(maximum(index, 0), last))
    return where(inside, fetch(slot, type, near), outside)


def const(value: Number, type: DataType | None) -> Expr:
    """A number that belongs to the operator: kernels have it in their code."""
    return Expr("const", type, (), _rounded(value, type))


def given(value: Number, type: DataType) -> Expr:
    """A number that the user chose: kernels take it as an argument, and one kernel serves all. Integers wrap."""
    return Expr("given", type, (), _rounded(value, type))


def coordinate(dimension: int) -> Expr:
    """The index of the current element in a dimension of the map, as INT64."""
    return Expr("coordinate", DataType.INT64, (), dimension)


def _rounded(value: Number, type: DataType | None) -> Number:
    if type is None:
        return bool(value)
    if is_open(value) and not type.is_float:
        return next((plain for plain in (0, 1) if value == plain), value)  # which trees are told apart by
    if not type.is_float:
        return int(value)
    return _nearest(value, repr(value), type)


@functools.lru_cache(maxsize=512)  # operators have few numbers, and NumPy takes 5 us
def _nearest(value: Number, _text: str, type: DataType) -> float:
    """The nearest of a type; the text tells 0.0 from -0.0."""
    with np.errstate(over="ignore"):
        return float(type.dtype.type(value))


def number_of(node: Expr) -> np.ndarray[Any, Any]:
    """The number of a constant in its own type, integers wrapped to it."""
    if node.type is None or node.type.is_float:
        return np.array(node.value, bool if node.type is None else node.type.dtype)
    width = node.type.size_in_bytes
    return np.array(int(node.value) % 2 ** (8 * width), f"u{width}").view(node.type.dtype)


def like(value: Expr | Number, other: Expr) -> Expr:
    """A number as a constant of a node's type; a node as it is."""
    return value if isinstance(value, Expr) else const(value, other.type)


# What Python has no operator for


def where(test: Expr, yes: Expr, no: Expr | Number) -> Expr:
    """One of two, by a truth value. Both are computed."""
    no = like(no, yes)
    _check_alike("where", yes, no)
    return Expr("where", yes.type, (test, yes, no))


def fma(a: Expr, b: Expr | Number, c: Expr | Number) -> Expr:
    """a·b + c, rounded once; of FLOAT32 or FLOAT64."""
    b, c = like(b, a), like(c, a)
    _check_alike("fma", a, b, c)
    return Expr("fma", a.type, (a, b, c))


def maximum(a: Expr, b: Expr | Number) -> Expr:
    """The larger; NaN where one is NaN; the second of two zeros."""
    b = like(b, a)
    larger = b < a
    return where(larger | a.is_nan if a.type is not None and a.type.is_float else larger, a, b)


def minimum(a: Expr, b: Expr | Number) -> Expr:
    """The smaller; NaN where one is NaN; the second of two zeros."""
    b = like(b, a)
    smaller = a < b
    return where(smaller | a.is_nan if a.type is not None and a.type.is_float else smaller, a, b)


def _unary(op: str) -> Callable[[Expr], Expr]:
    def make(x: Expr) -> Expr:
        return Expr(op, x.type, (x,))

    make.__name__, make.__doc__ = op, f"The operation `{op}`."
    return make


absolute, sqrt, floor, ceil, trunc, rint = map(_unary, ("abs", "sqrt", "floor", "ceil", "trunc", "rint"))


def call(function: str, *args: Expr) -> Expr:
    """A function of `FUNCTIONS`, of FLOAT32 arguments."""
    if len(args) != FUNCTIONS[function] or any(arg.type is not DataType.FLOAT32 for arg in args):
        raise TypeError(f"{function} takes {FUNCTIONS[function]} of FLOAT32")
    return Expr(function, DataType.FLOAT32, args)


def fold(function: str, x: Expr) -> Expr:
    """The `sum`, `product`, `max` or `min` of an expression along the rows of a reduce."""
    return Expr(f"fold_{function}", x.type, (x,))
