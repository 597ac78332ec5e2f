"""Expressions as people write them: `max(a + b, 0)`, with no bracket that need not be there, and bounded in length.

Functions that trees are made of are recognised: the trees that the functions themselves make are the patterns.
"""

from __future__ import annotations

import functools
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.explain.values import write_number, write_value
from anydml.ir import numerics
from anydml.ir.expressions import FOLDS, Expr, const, maximum, minimum
from anydml.ir.fetches import nearest_to
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# Functions, recognised


_ANY = "any"
"""The leaf of a pattern that stands for every tree of its type."""
_OF_NUMBERS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "max": maximum,
    "min": minimum,
    "mean": numerics.mean,
}
_OF_WHOLE: dict[str, Callable[[Expr, Expr], Expr]] = {
    "/": numerics.divide,
    "%": numerics.modulus_floor,
    "fmod": numerics.modulus_truncate,
    "<<": numerics.shift_left,
    ">>": numerics.shift_right,
}


class Named(NamedTuple):
    """A function by its name or its sign, and what it is of."""

    name: str
    args: tuple[Expr, ...]


@functools.lru_cache(maxsize=1024)
def recognise(node: Expr) -> Named | None:
    """The function that a node is the result of."""
    if node.type is None or not node.args:
        return None
    for name, pattern in _patterns(node.type).get(node.op, ()):
        found: dict[int, Expr] = {}
        if _matches(pattern, node, found, set()):
            return Named(name, tuple(found[k] for k in sorted(found)))
    return None


@functools.cache
def _patterns(kind: DataType) -> dict[str, list[tuple[str, Expr]]]:
    """The patterns of a type, by the operation that stands outermost."""
    found = defaultdict(list)
    for name, pattern in _made(kind):
        found[pattern.op].append((name, pattern))
    return dict(found)


def _made(kind: DataType) -> Iterator[tuple[str, Expr]]:
    a, b = _any(0, kind), _any(1, kind)
    yield "sign", numerics.sign(a)
    yield from ((name, function(a, b)) for name, function in _OF_NUMBERS.items())
    if kind is DataType.FLOAT32:
        yield "%", numerics.modulus_floor(a, b)
    if kind.is_float:
        yield "round_half_away", numerics.round_half_away(a)
        return
    yield from ((name, function(a, b)) for name, function in _OF_WHOLE.items())
    if not kind.is_signed:
        yield "bit_count", numerics.bit_count(a)
    for other in NUMPY_TYPES:
        if not other.is_float:
            yield "pow", numerics.integer_power(a, _any(1, other))


def _any(position: int, kind: DataType) -> Expr:
    return Expr(_ANY, kind, (), position)


def _matches(pattern: Expr, node: Expr, found: dict[int, Expr], done: set[tuple[Expr, Expr]]) -> bool:
    if pattern.type is not node.type:
        return False
    if pattern.op == _ANY:
        return found.setdefault(int(pattern.value), node) is node
    if pattern is node or (pattern, node) in done:
        return True
    if pattern.op != node.op or not pattern.args:  # of leaves, equal ones are one object
        return False
    done.add((pattern, node))
    return all(_matches(a, b, found, done) for a, b in zip(pattern.args, node.args, strict=True))


# Formulas


LONGEST = 72
"""Of a formula, in characters: what would make it longer is left out."""
_LEFT_OUT = "…"
_LONGEST_TOLD = 300
"""Of the formulas of all steps."""
ROW = "row"
"""The leaf that stands for a load in a fold: all that is read along a row."""
ALONG = "along"
"""The leaf that stands for a coordinate in a fold."""
_NAMED = ("load", ROW, "coordinate", ALONG)

# How tightly what is written holds together, from the loosest.
_CHOICE, _OR, _AND, _NOT, _TEST, _BITS, _SHIFT, _SUM, _PRODUCT, _SIGN, _POWER, _WHOLE = range(12)
_INFIX = {"div": ("/", _PRODUCT), "shl": ("<<", _SHIFT), "shr": (">>", _SHIFT), "eq": ("==", _TEST)}
_TRUTHS = {"and": ("and", _AND), "or": ("or", _OR), "xor": ("!=", _TEST)}
_BY_BIT = {"and": ("&", _BITS), "or": ("|", _BITS), "xor": ("^", _BITS)}
_SIGNS = {"/": _PRODUCT, "%": _PRODUCT, "<<": _SHIFT, ">>": _SHIFT}
"""Of the functions that are written between their arguments."""
_UNCHAINED = (_TEST, _BITS)
"""Levels of which two stand beside one another in brackets alone: `(a & b) | c`."""


def is_readable(text: str) -> bool:
    """Whether a formula says more than what is left out of it hides: one gap is a detail, two are a riddle."""
    return text.count(_LEFT_OUT) < 2 and len(text) <= _LONGEST_TOLD


class Shape(NamedTuple):
    """A node as it is written: text, and between it arguments, each with how tight it must be to need no brackets."""

    level: int
    parts: tuple[_Part, ...]

    def arguments(self) -> list[Expr]:
        """What stands between the text."""
        return [part[0] for part in self.parts if not isinstance(part, str)]


_Part: TypeAlias = "str | tuple[Expr, int]"


class Formula:
    """A tree in text: with names for what it reads, or with numbers. Where it would be long, parts are left out."""

    def __init__(self, root: Expr, name: Callable[[Expr], str], longest: int = LONGEST) -> None:
        self._root = seen(root)
        self._shown = {self._root}
        self._is_cut = False
        pending = deque(_shape(self._root).arguments())
        while pending:  # the outermost first: what a formula begins with says the most of it
            node = seen(pending.popleft())
            if node in self._shown:
                continue
            self._shown.add(node)
            if node.args and len(self.text(name)) > longest:
                self._shown.remove(node)
                self._is_cut = True
            else:
                pending += _shape(node).arguments()

    def text(
        self,
        name: Callable[[Expr], str],
        *,
        is_chained: bool = False,
        value: Callable[[Expr], Any] | None = None,
    ) -> str:
        """The formula, with names for what it reads; between equals signs tests and choices have brackets.

        What follows from the place alone is written as a number, where its value is known.
        """

        def shape(node: Expr) -> Shape:
            if value is not None and is_by_place(node):
                return _number(write_value(np.asarray(value(node) + 0)[()]))
            if node not in self._shown:
                return Shape(_WHOLE, (_LEFT_OUT,))
            if node.op == "fetch" and not is_chained:
                opening, *parts = _called(name(node), node.args).parts
                return Shape(_WHOLE, (f"{str(opening)[:-1]}[", *parts[:-1], "]"))
            if node.op == "fetch":  # of one element, which is known
                return Shape(_WHOLE, (name(node),))
            return Shape(_WHOLE, (name(node),)) if node.op in _NAMED else _shape(node)

        return self._whole(shape) if is_chained else _write(self._root, shape)[0]

    def numbers(self, value: Callable[[Expr], Any], expand: Callable[[Expr], Shape | None] | None = None) -> str:
        """The formula with numbers: of what is left out the result, and of two that one is chosen of that one.

        Folds are written as results, or as `expand` writes them.
        """

        def shape(node: Expr) -> Shape:
            if expand is not None and node.op in FOLDS and node in self._shown and (found := expand(node)) is not None:
                return found
            if node.op in (*_NAMED, "fetch", *FOLDS) or node not in self._shown:
                return _number(_write_result(value(node)))
            if is_by_place(node):
                return _number(write_value(np.asarray(value(node) + 0)[()]))
            if node.op in ("add", "fma") and seen(node.args[-1]).args and not value(node.args[-1]):
                *factors, _ = node.args  # a correction that is 0 here
                return shape(seen(factors[0])) if len(factors) == 1 else _infix("*", _PRODUCT, *factors)
            found = _shape(node)
            if found.level != _CHOICE:
                return found
            yes, test, no = found.arguments()
            way = seen(yes if value(test) else no)
            is_bare = node is self._root and not way.args and not self._is_cut  # a number alone would not say why
            return found if is_bare else shape(way)

        return self._whole(shape)

    def _whole(self, shape: Callable[[Expr], Shape]) -> str:
        text, level = _write(self._root, shape)
        return f"({text})" if level <= _TEST else text


NOTHING = Shape(_WHOLE, ("0",))
"""A 0 that no reader has to see: what is added to it or multiplied by it is written without."""


def write_expanded(
    root: Expr, leaf: Callable[[Expr], Shape], value: Callable[[Expr], Any], *, drops: bool = False
) -> Shape:
    """A tree written whole, its leaves and folds as `leaf` writes them, of two that one is chosen of that one.

    Where it `drops`, corrections that are 0 here are left out.
    """

    def is_nothing(node: Expr) -> bool:
        node = seen(node)
        if node.op in (*_NAMED, "fetch", *FOLDS):
            return leaf(node) is NOTHING
        if drops and node.op in ("add", "sub", "fma") and is_correction(node):
            return is_nothing(node.args[0]) or (node.op == "fma" and is_nothing(node.args[1]))
        if node.op in ("add", "sub", "mul", "fma"):
            found = [is_nothing(arg) for arg in node.args]
            return any(found) if node.op == "mul" else all(found) if node.op != "fma" else any(found[:2]) and found[2]
        return False

    def is_correction(node: Expr) -> bool:
        return bool(seen(node.args[-1]).args) and not value(node.args[-1])

    def shape(node: Expr) -> Shape:
        if node.op in (*_NAMED, "fetch", *FOLDS):
            return leaf(node)
        if is_nothing(node):
            return NOTHING
        if is_by_place(node):
            return _number(write_value(np.asarray(value(node) + 0)[()]))
        if node.op == "fma" and any(map(is_nothing, node.args[:2])):
            return shape(seen(node.args[2]))
        is_sum = node.op in ("add", "sub", "fma")
        if is_sum and (is_nothing(node.args[-1]) or (drops and is_correction(node))):
            return shape(seen(node.args[0])) if node.op != "fma" else _infix("*", _PRODUCT, *node.args[:2])
        if node.op == "add" and is_nothing(node.args[0]):
            return shape(seen(node.args[1]))
        if node.op == "mul":
            for one, other in (node.args, node.args[::-1]):
                if is_by_place(one) and value(one) == 1:
                    return shape(seen(other))
        found = _shape(node)
        if found.level != _CHOICE:
            return found
        yes, test, no = found.arguments()
        return shape(seen(yes if value(test) else no))

    text, level = _write(root, shape)
    return NOTHING if is_nothing(root) else Shape(level, (text,))


def name_shape(text: str) -> Shape:
    """A name, or a number, which below 0 has brackets where it must."""
    return _number(text)


def function_shape(name: str, inner: Shape) -> Shape:
    """A function of what is written already: `sum(a * b)`."""
    return Shape(_WHOLE, (f"{name}({''.join(map(str, inner.parts))})",))


def term_text(shape: Shape, *, is_first: bool) -> str:
    """A term of a sum, in brackets where a sign or a choice would mislead."""
    text = "".join(map(str, shape.parts))
    return f"({text})" if shape.level < _SUM or (text.startswith("-") and not is_first) else text


def written_out(fold: str, terms: Sequence[str]) -> Shape:
    """A fold of numbers: `1·2 + 3·4`, or `max(1, 2)`."""
    if fold in ("fold_sum", "fold_product") and len(terms) > 1:
        is_sum = fold == "fold_sum"
        return Shape(_SUM if is_sum else _PRODUCT, ((" + " if is_sum else " * ").join(terms),))
    if fold in ("fold_sum", "fold_product"):
        return Shape(_SUM, tuple(terms))
    return Shape(_WHOLE, (f"{fold.removeprefix('fold_')}({', '.join(terms)})",))


def _write(node: Expr, shape: Callable[[Expr], Shape]) -> tuple[str, int]:
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


def _number(text: str) -> Shape:
    return Shape(_SIGN if text.startswith("-") else _WHOLE, (text,))


# What a node is written as


@functools.lru_cache(maxsize=1024)
def seen(node: Expr) -> Expr:
    """A node without what goes without saying.

    That is rounding, conversions that keep a number, 1 for what is true, x * 1, and an index's way inside.
    """
    while True:
        if node.op == "bits" or (node.op == "cast" and _keeps(node)):
            (node,) = node.args
        elif node.op == "where" and node.args[1:] == (const(1, node.type), const(0, node.type)):
            node = node.args[0]
        elif (index := nearest_to(node)) is not None:
            node = index
        elif node.op in _NEUTRAL and (kept := _kept(node)) is not None:
            node = kept
        else:
            return node


def _keeps(cast: Expr) -> bool:
    (before,) = cast.args
    return before.op == "coordinate" or keeps_number(before.type, cast.type)


_NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "div": 1}
"""The number that an operation does nothing with."""


def _kept(node: Expr) -> Expr | None:
    """The argument that an operation with a number leaves as it is."""
    args = [arg.args[0] if arg.op == "cast" else arg for arg in node.args]
    is_neutral = [arg.op in ("const", "given") and arg.value == _NEUTRAL[node.op] for arg in args]
    if is_neutral[1]:
        return node.args[0]
    return node.args[1] if is_neutral[0] and node.op in ("add", "mul") else None


def name_index(node: Expr) -> str:
    """The name of a coordinate."""
    return f"index[{node.value}]"


def keeps_number(before: DataType | None, after: DataType | None) -> bool:
    """Whether a conversion changes a number by rounding at most."""
    if before is None or after is None or after.is_float:
        return True
    if before.is_float:
        return False
    low, high = np.iinfo(before.dtype), np.iinfo(after.dtype)
    return bool(high.min <= low.min and low.max <= high.max)


@functools.lru_cache(maxsize=1024)  # tried with one part more at a time: 1.6 ms and not 8 for a long one
def _shape(node: Expr) -> Shape:
    op, args = node.op, node.args
    if op in ("const", "given"):
        return _number(str(node.value).lower() if node.type is None else write_number(node.value, node.type))
    if not args:
        return Shape(_WHOLE, (f"{op}{node.value}",))
    if (named := recognise(node)) is not None:
        level = _SIGNS.get(named.name)
        return _called(*named) if level is None else _infix(named.name, level, *named.args)
    if (shape := _SHAPES.get(op)) is not None:
        return shape(node)
    infix = (_TRUTHS if node.type is None else _BY_BIT).get(op) or _INFIX.get(op)
    if infix is not None:
        return _infix(*infix, *args)
    return _called(node.type.name.lower() if op == "cast" and node.type is not None else op, args)


@functools.lru_cache(maxsize=1024)
def is_by_place(node: Expr) -> bool:
    """Whether a number follows from its place alone: from coordinates, and not from what is read."""
    below = list(walk(node))
    return any(one.op == "coordinate" for one in below) and not any(
        one.op in ("load", "fetch", ROW, ALONG, _ANY, *FOLDS) for one in below
    )


def extreme_place(node: Expr) -> Named | None:
    """The place of the largest or the smallest along a row, and of what: the fold is of the places that have it."""
    if node.op not in ("fold_min", "fold_max") or node.args[0].op != "where":
        return None
    test, place, other = (seen(one) for one in node.args[0].args)
    found = [one for one in walk(test) if one.op == "eq" and one.args[1].op in ("fold_max", "fold_min")]
    if place.op not in ("coordinate", ALONG) or other.op not in ("const", "given") or not found:
        return None
    number, extreme = found[0].args
    return Named(f"arg{extreme.op.removeprefix('fold_')}", (number,))


def _called(name: str, args: Sequence[Expr]) -> Shape:
    parts: list[_Part] = []
    for arg in args:
        parts += [", " if parts else f"{name}(", (arg, _CHOICE)]
    return Shape(_WHOLE, (*parts, ")"))


def _infix(symbol: str, level: int, a: Expr, b: Expr) -> Shape:
    return Shape(level, ((a, level + (level in _UNCHAINED)), f" {symbol} ", (b, level + 1)))


def _choice(node: Expr) -> Shape:
    test, yes, no = node.args
    return Shape(_CHOICE, ((yes, _OR), " if ", (test, _OR), " else ", (no, _CHOICE)))


def _compared(node: Expr) -> Shape:
    """In the order of the sources, a number last: trees have no greater than."""
    a, b = node.args
    symbols = {"lt": "<>", "le": ("<=", ">=")}[node.op]
    if _first_source(b) < _first_source(a):
        return _infix(symbols[1], _TEST, b, a)
    return _infix(symbols[0], _TEST, a, b)


def _first_source(node: Expr) -> float:
    while node.args and node.op != "fetch":
        node = node.args[0]
    return float(node.value) if node.op in ("load", "fetch") else np.inf


def _not(node: Expr) -> Shape:
    inner = seen(node.args[0])
    if node.type is not None:
        return Shape(_SIGN, ("~", (inner, _POWER)))
    if inner.op != "eq":
        return Shape(_NOT, ("not ", (inner, _NOT)))
    a, b = inner.args
    return _called("is_nan", (a,)) if a is b else _infix("!=", _TEST, a, b)


def _sum(node: Expr) -> Shape:
    """A number below 0 that is added is taken away, and the other way round."""
    *factors, term = node.args
    signs, symbol = "+-", "-" if node.op == "sub" else "+"
    if term.op in ("const", "given") and -np.inf < term.value < 0:
        symbol, term = signs[symbol == "+"], const(-term.value, term.type)
    elif term.op == "neg":
        symbol, term = signs[symbol == "+"], term.args[0]
    first: tuple[_Part, ...] = ((factors[0], _SUM),)
    if node.op == "fma":
        first = ((factors[0], _PRODUCT), " * ", (factors[1], _SIGN))
    return Shape(_SUM, (*first, f" {symbol} ", (term, _PRODUCT)))


def _product(node: Expr) -> Shape:
    a, b = node.args
    return Shape(_POWER, ((a, _WHOLE), " ** 2")) if a is b else _infix("*", _PRODUCT, a, b)


_SHAPES: dict[str, Callable[[Expr], Shape]] = {
    "where": _choice, "lt": _compared, "le": _compared, "not": _not,
    "add": _sum, "sub": _sum, "fma": _sum, "mul": _product,
    "neg": lambda node: Shape(_SIGN, ("-", (node.args[0], _POWER))),
    "rint": lambda node: _called("round", node.args),
    **{op: lambda node: _called(*(extreme_place(node) or (node.op.removeprefix("fold_"), node.args))) for op in FOLDS},
}  # fmt: skip
