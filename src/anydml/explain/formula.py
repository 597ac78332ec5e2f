"""Expressions as people write them: `max(a + b, 0)`, with no bracket that need not be there, and bounded in length."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from anydml.explain.values import write_number, write_value
from anydml.ir.expressions import const

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.enums import DataType
    from anydml.ir.expressions import Expr

LONGEST = 72
"""Of a formula, in characters: what would make it longer is left out."""
_LEFT_OUT = "…"

# How tightly what is written holds together, from the loosest.
_CHOICE, _OR, _AND, _NOT, _TEST, _BITS, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _WHOLE = range(12)
_INFIX = {"add": ("+", _SUM), "sub": ("-", _SUM), "mul": ("*", _PRODUCT), "div": ("/", _PRODUCT),
          "shl": ("<<", _SHIFT), "shr": (">>", _SHIFT), "eq": ("==", _TEST)}  # fmt: skip
_TRUTHS = {"and": ("and", _AND), "or": ("or", _OR), "xor": ("!=", _TEST)}
_BY_BIT = {"and": ("&", _BITS), "or": ("|", _BITS), "xor": ("^", _BITS)}
_ORDER = {"lt": ("<", ">"), "le": ("<=", ">=")}
_UNCHAINED = (_TEST, _BITS)
"""Levels of which two stand beside one another in brackets alone: `(a & b) | c`."""


class _Shape(NamedTuple):
    """A node as it is written: text, and between it arguments, each with how tight it must be to need no brackets."""

    level: int
    parts: tuple[_Part, ...]

    def arguments(self) -> list[Expr]:
        return [part[0] for part in self.parts if not isinstance(part, str)]


_Part: TypeAlias = "str | tuple[Expr, int]"


class Formula:
    """A tree in text: with names for what it reads, or with numbers. Where it would be long, parts are left out."""

    def __init__(self, root: Expr, name: Callable[[Expr], str], longest: int = LONGEST) -> None:
        self._root = seen(root)
        self._shown = {self._root}
        pending = deque(_shape(self._root).arguments())
        while pending:  # the outermost first: what a formula begins with says the most of it
            node = seen(pending.popleft())
            if node in self._shown:
                continue
            self._shown.add(node)
            if len(self.text(name)) > longest and not _is_leaf(node):
                self._shown.remove(node)
            else:
                pending += _shape(node).arguments()

    def text(self, name: Callable[[Expr], str], *, is_chained: bool = False) -> str:
        """The formula, with names for loads and coordinates; between equals signs tests and choices have brackets."""

        def shape(node: Expr) -> _Shape:
            if node not in self._shown:
                return _Shape(_WHOLE, (_LEFT_OUT,))
            return _Shape(_WHOLE, (name(node),)) if node.op in ("load", "coordinate") else _shape(node)

        return self._whole(shape) if is_chained else _write(self._root, shape)[0]

    def numbers(self, value: Callable[[Expr], Any]) -> str:
        """The formula with numbers: of what is left out the result, and of two that one is chosen of that one."""

        def shape(node: Expr) -> _Shape:
            if node.op in ("load", "coordinate") or node not in self._shown:
                return _number(_write_result(value(node)))
            found = _shape(node)
            if found.level != _CHOICE:
                return found
            yes, test, no = found.arguments()
            return shape(seen(yes if value(test) else no))

        return self._whole(shape)

    def _whole(self, shape: Callable[[Expr], _Shape]) -> str:
        text, level = _write(self._root, shape)
        return f"({text})" if level <= _TEST else text


def _write(node: Expr, shape: Callable[[Expr], _Shape]) -> tuple[str, int]:
    found = shape(seen(node))
    text = ""
    for part in found.parts:
        if isinstance(part, str):
            text += part
            continue
        own, level = _write(part[0], shape)
        is_double = own.startswith("-") and text.endswith(("+ ", "- ", "-"))
        text += f"({own})" if level < part[1] or is_double else own
    return text, found.level


def _write_result(value: Any) -> str:
    return str(bool(value)).lower() if isinstance(value, (bool, np.bool_)) else write_value(value)


def _number(text: str) -> _Shape:
    return _Shape(_SIGN if text.startswith("-") else _WHOLE, (text,))


# What a node is written as


def seen(node: Expr) -> Expr:
    """A node without what goes without saying: rounding, conversions that keep the number, 1 for true and 0 for false.

    Guards of integer divisions go too: engines must not be given a divisor of 0.
    """
    while True:
        if node.op == "cast" and keeps_number(node.args[0].type, node.type):
            (node,) = node.args
        elif node.op == "where" and _is_truth(node):
            node = node.args[0]
        elif (inner := _unguarded(node)) is not None:
            node = inner
        else:
            return node


def keeps_number(before: DataType | None, after: DataType | None) -> bool:
    """Whether a conversion changes a number by rounding at most."""
    if before is None or after is None or after.is_float:
        return True
    if before.is_float:
        return False
    low, high = np.iinfo(before.dtype), np.iinfo(after.dtype)
    return bool(high.min <= low.min and low.max <= high.max)


def _is_leaf(node: Expr) -> bool:
    return not node.args


def _is_truth(node: Expr) -> bool:
    test, yes, no = node.args
    return test.type is None and (yes.op, no.op) == ("const", "const") and (yes.value, no.value) == (1, 0)


def _unguarded(node: Expr) -> Expr | None:
    """The division of integers that a choice by its divisor guards."""
    if node.op != "where" or node.type is None or node.type.is_float:
        return None
    test, _, no = node.args
    divisors = {_divisor(one) for one in _divisions(no)}
    return no if divisors and _tested(test) in divisors else None


def _divisions(node: Expr) -> list[Expr]:
    """The division that a node is, or is a choice of."""
    if node.op in ("div", "rem"):
        return [node]
    return _divisions(node.args[2]) if node.op == "where" else []


def _divisor(division: Expr) -> Expr:
    """The second argument, without what takes its place where it must not be one."""
    node = division.args[1]
    while node.op == "where" and node.args[1].op == "const":
        node = node.args[2]
    return node


def _tested(test: Expr) -> Expr | None:
    """What is compared with constants; None where that is not all of it."""
    if test.op in ("and", "or"):
        first, second = map(_tested, test.args)
        return first if second in (first, None) else None
    return test.args[0] if test.op == "eq" and test.args[1].op == "const" else None


def _shape(node: Expr) -> _Shape:
    for pattern in (_as_extreme, _as_not, _as_sum, _as_square):
        if (found := pattern(node)) is not None:
            return found
    op, args = node.op, node.args
    if op in ("const", "given"):
        return _number(str(node.value).lower() if node.type is None else write_number(node.value, node.type))
    if op in ("load", "coordinate"):
        return _Shape(_WHOLE, (f"{op}{node.value}",))
    if op == "where":
        return _Shape(_CHOICE, ((args[1], _OR), " if ", (args[0], _OR), " else ", (args[2], _CHOICE)))
    if op in _ORDER:
        return _compared(_ORDER[op], *args)
    infix = (_TRUTHS if node.type is None else _BY_BIT).get(op) or _INFIX.get(op)
    if infix is not None:
        second = _divisor(node) if op == "div" and not _is_float(node) else args[1]
        return _infix(*infix, args[0], second)
    if op == "neg" or (op == "not" and node.type is not None):
        return _Shape(_SIGN, ("-" if op == "neg" else "~", (args[0], _POWER)))
    if op == "fma":
        return _Shape(_SUM, ((args[0], _PRODUCT), " * ", (args[1], _SIGN), " + ", (args[2], _PRODUCT)))
    if op == "rem" and not _is_float(node):
        args = (args[0], _divisor(node))
    name = node.type.name.lower() if op == "cast" and node.type is not None else op
    return _called(name, *args)


def _is_float(node: Expr) -> bool:
    return node.type is not None and node.type.is_float


def _called(name: str, *args: Expr) -> _Shape:
    parts: list[_Part] = []
    for arg in args:
        parts += [", " if parts else f"{name}(", (arg, _CHOICE)]
    return _Shape(_WHOLE, (*parts, ")"))


def _infix(symbol: str, level: int, a: Expr, b: Expr) -> _Shape:
    return _Shape(level, ((a, level + (level in _UNCHAINED)), f" {symbol} ", (b, level + 1)))


def _compared(symbols: tuple[str, str], a: Expr, b: Expr) -> _Shape:
    """In the order of the sources, a number last: there is no greater than in a tree."""
    if _first_source(b) < _first_source(a):
        return _infix(symbols[1], _TEST, b, a)
    return _infix(symbols[0], _TEST, a, b)


def _first_source(node: Expr) -> float:
    while node.args:
        node = node.args[0]
    return float(node.value) if node.op == "load" else np.inf


def _as_extreme(node: Expr) -> _Shape | None:
    """The larger or the smaller of two, which may be NaN where one is."""
    if node.op != "where":
        return None
    test, a, b = node.args
    if test.op == "or" and _nan_of(test.args[1]) is a:
        test = test.args[0]
    if test.op not in _ORDER or set(test.args) != {a, b} or a is b:
        return None
    return _called("min" if test.args[0] is a else "max", a, b)


def _nan_of(test: Expr) -> Expr | None:
    """What is asked whether it is NaN."""
    equal = test.args[0] if test.op == "not" else test
    return equal.args[0] if test is not equal and equal.op == "eq" and equal.args[0] is equal.args[1] else None


def _as_not(node: Expr) -> _Shape | None:
    if node.op == "eq" and node.args[0] is node.args[1] and _is_float(node.args[0]):
        return _Shape(_NOT, ("not is_nan(", (node.args[0], _CHOICE), ")"))
    if node.op != "not" or node.type is not None:
        return None
    if (number := _nan_of(node)) is not None:
        return _called("is_nan", number)
    inner = seen(node.args[0])
    if inner.op == "eq":
        return _infix("!=", _TEST, *inner.args)
    return _Shape(_NOT, ("not ", (inner, _NOT)))


def _as_sum(node: Expr) -> _Shape | None:
    """A number below 0 that is added is taken away, and the other way round."""
    if node.op not in ("add", "sub"):
        return None
    a, b = node.args
    if b.op in ("const", "given") and b.value < 0 and b.value > -np.inf:
        b = const(-b.value, b.type)
    elif b.op == "neg":
        (b,) = b.args
    else:
        return None
    return _infix("-" if node.op == "add" else "+", _SUM, a, b)


def _as_square(node: Expr) -> _Shape | None:
    if node.op != "mul" or node.args[0] is not node.args[1]:
        return None
    return _Shape(_POWER, ((node.args[0], _WHOLE), " ** 2"))
