"""Expression trees as source code: a `Dialect` has a language's text for every operation, type and number, and `Lines`
writes a kernel with it, a node a line. An engine that generates text has its dialect, and its loads and stores, alone.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.symbolic_sizes import is_open
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.ir.expressions import Expr


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """How a language writes the operations of `ir.expressions`, by the kind of what they give.

    In an operation's text {0}, {1} and {2} are its arguments, {type} is the type of what it gives, {source} that of its
    first argument, {bits} the signed integer as wide as {type}; {zero}, {ones} and {sign} are constants: 0 and all bits
    of {type}, and the sign's bit alone, of {bits}.
    """

    types: Mapping[DataType | None, str]
    """By data type, and None of truths, the language's name."""
    floats: Mapping[str, str]
    integers: Mapping[str, str]
    truths: Mapping[str, str]
    literal: str
    """A constant: {value}, which is finite, of {type}."""
    narrow: str
    """The low bits of a wider integer {0} as {type}."""
    let: str = "{0} = {1}"
    """A name for a value."""
    update: str = "{0} = {1}"
    """Another value for a name."""
    quotient: str = "{0} // {1}"
    remainder: str = "{0} % {1}"
    """Of indices, which are not negative."""
    _known: dict[DataType, dict[str, str]] = field(default_factory=dict, init=False, repr=False)

    def text(self, node: Expr, names: Mapping[Expr, str]) -> str:
        """A node that reads no memory, of arguments that have names."""
        if node.op == "const":
            return self.constant(node)
        table = self.truths if node.type is None else self.floats if node.type.is_float else self.integers
        source = self.types[node.args[0].type]
        return table[node.op].format(*(names[arg] for arg in node.args), source=source, **self._words(node.type))

    def tree(self, value: Expr, names: dict[Expr, str], prefix: str) -> list[str]:
        """Lines for the nodes of a tree that have no names yet, which are numbered; they read no memory."""
        lines = []
        for number, node in enumerate(walk(value, known=names)):
            lines.append(self.let.format(f"{prefix}{number}", self.text(node, names)))
            names[node] = f"{prefix}{number}"
        return lines

    def _words(self, of: DataType | None) -> Mapping[str, str]:
        """What texts may name of a type; made once: a tree has 100 nodes of one type."""
        if of is None:
            return {}
        if of not in self._known:
            width, kind, bits = 8 * of.size_in_bytes, self.types[of], self.bits_type(of)
            ones = -1 if of.is_signed else 2**width - 1
            numbers = {"sign": (-1 << (width - 1), bits), "zero": (0, kind), "ones": (ones, kind)}
            found = {name: self.literal.format(value=number, type=type) for name, (number, type) in numbers.items()}
            self._known[of] = found | {"type": kind, "bits": bits}
        return self._known[of]

    def bits_type(self, of: DataType) -> str:
        """The signed integer as wide as a type."""
        return self.types[_SIGNED[of.size_in_bytes]]

    def constant(self, node: Expr) -> str:
        """A number of the operator's."""
        if node.type is None:
            return self.literal.format(value=int(node.value), type=self.types[None])
        if node.type.is_float and (not math.isfinite(node.value) or str(node.value) == "-0.0"):  # which lack literals
            bits = self.literal.format(value=bits_of(node), type=self.bits_type(node.type))
            return self.from_bits(bits, node.type)
        return self.literal.format(value=repr(node.value), type=self.types[node.type])

    def from_bits(self, text: str, of: DataType | None) -> str:
        """The number whose bits an integer ends with."""
        assert of is not None  # noqa: S101 - for type checkers: what is loaded has a type, which a truth has not
        if not of.is_float:
            return self.narrow.format(text, type=self.types[of])
        bits = self.bits_type(of)
        return self.floats["bits"].format(self.narrow.format(text, type=bits), type=self.types[of], source=bits)

    # Index arithmetic

    def coordinates(self, number: str, names: Sequence[str], sizes: Sequence[str]) -> list[str]:
        """Lines that take a running number apart, the fastest dimension first; what is left is the last coordinate."""
        lines = []
        for name, size in zip(names[:-1], sizes, strict=False):
            lines.append(self.let.format(name, self.remainder.format(number, size)))
            lines.append(self.update.format(number, self.quotient.format(number, size)))
        return [*lines, *(self.let.format(name, number) for name in names[-1:])]


_SIGNED = {of.size_in_bytes: of for of in (DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64)}


def offset(coordinates: Sequence[str], strides: Sequence[str], first: str = "") -> str:
    """first + Σ coordinate·stride."""
    parts = [f"{at} * {stride}" for at, stride in zip(coordinates, strides, strict=True)]
    return " + ".join([*([first] if first else []), *parts]) or "0"


def bits_of(node: Expr) -> int:
    """A number as kernels take it: the bits of its type, with the sign of an integer of 64."""
    assert node.type is not None  # noqa: S101 - for type checkers: a number that a user gives has a type
    if node.type.is_float:
        return int(np.array(node.value, node.type.dtype).view(f"i{node.type.size_in_bytes}"))
    value: Any = node.value
    return ((value if is_open(value) else int(value)) + 2**63) % 2**64 - 2**63


class Lines:
    """The text of a kernel as it grows, and the names of what its lines compute."""

    def __init__(self, dialect: Dialect, indent: str = "") -> None:
        self.dialect, self.indent = dialect, indent
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}
        """Of nodes."""
        self.known: dict[Any, str] = {}
        """By text, or what else a subclass tells values apart by, what has a name."""
        self.fresh = itertools.count()

    def say(self, *lines: str) -> None:
        """Write lines."""
        self.lines += [self.indent + line for line in lines]

    def line(self, text: str) -> str:
        """A line, and the name of what it computes."""
        name = f"v{next(self.fresh)}"
        self.say(self.dialect.let.format(name, text))
        return name

    def once(self, text: str) -> str:
        """The name of what a text computes, the same one for the same text."""
        if text not in self.known:
            self.known[text] = self.line(text)
        return self.known[text]

    def put(self, node: Expr, text: str) -> None:
        """Compute a node, under a name of its own."""
        self.names[node] = self.line(text)

    def operate(self, node: Expr) -> None:
        """Compute a node that reads no memory."""
        self.put(node, self.dialect.text(node, self.names))
