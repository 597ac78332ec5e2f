"""Legalisation: maps and reduces for an engine that lacks types, in the types that every engine has.

It stands between lowering and an engine's emission. What it gives computes with FLOAT32, INT32, UINT32 and truths:

- a 64-bit integer is a pair of words, UINT32 low and high, and lies in memory as two views of words;
- a FLOAT64 lies in memory as its two words, and is moved and converted exactly by them; one from memory, or of an
  integer of more than 16 bits, is added and multiplied by them too, and any other is a double-float;
- integers of 8 and 16 bits are computed with in 32 and wrapped, FLOAT16 in FLOAT32; in memory they are parts of words,
  cut out where they are read, and put together where they are written: by whole words where a row of the target has
  them, and else inserted into a word that other elements share (`Insertion`).

Integers and memory have the original's bits. The tree is the only description: an engine that has an instruction for a
part of it (a packed conversion, say) matches that part. Indices of elements are 32 bits wide.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from anydml.core.enums import DataType
from anydml.ir.expressions import FOLDS, Expr, ceil, const, coordinate, floor, load, number_of, where
from anydml.ir.numerics import expand
from anydml.ir.numerics.parts import Pair, select, to_half
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce, Write
from anydml.ir.views import View
from anydml.ir.words import (
    Words,
    absolute_of,
    add,
    bits_of_double,
    bits_product,
    bits_sum,
    bits_to_float,
    bits_to_words,
    choose,
    divide,
    double,
    double_less,
    double_of_bits,
    double_product,
    double_quotient,
    double_root,
    double_sum,
    double_to_words,
    equal,
    float_to_bits,
    float_to_words,
    less,
    magnitude,
    multiply,
    negate,
    negated,
    rounded,
    shift_left,
    shift_right,
    subtract,
    toward_zero,
    typed,
    words,
    words_to_bits,
    words_to_double,
    words_to_float,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

F32, I32, U32 = DataType.FLOAT32, DataType.INT32, DataType.UINT32
F16, F64, I64, U64 = DataType.FLOAT16, DataType.FLOAT64, DataType.INT64, DataType.UINT64
WORD = 4
"""Bytes."""


@dataclass(frozen=True, slots=True)
class Types:
    """The types that an engine has beside FLOAT32, INT32, UINT32 and truths."""

    int64: bool = False
    """INT64 and UINT64, in memory and to compute with."""
    float64: bool = False
    narrow: bool = False
    """Integers of 8 and 16 bits, and FLOAT16."""

    def has(self, type: DataType | None) -> bool:
        """Whether numbers of a type are left as they are."""
        if type in (None, F32, I32, U32):
            return True
        return self.int64 if type in (I64, U64) else self.float64 if type is F64 else self.narrow


class Double(NamedTuple):
    """A FLOAT64 by its bits, as it lies in memory and is moved."""

    words: Words
    known: Pair | None = None
    """The double-float, where that is at hand."""
    is_full: bool = False
    """Whether a double-float may not hold it: then it is added and multiplied by its bits."""

    @property
    def pair(self) -> Pair:
        """The double-float."""
        return self.known or double_of_bits(self.words)


Value: TypeAlias = "Expr | Words | Pair | Double"
"""A number of the original in types that the engine has: a narrow one in 32 bits, FLOAT16 by its bits."""


# Folds of pairs: an engine's loop carries both, and the tree has a fold of two arguments for each part.


def combine(fold: Expr, a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """Two partial results of a fold as one, in the order of its arguments."""
    if fold.args[0].type is F32:
        x, y = Pair(*a), Pair(*b)
        if fold.op in ("fold_sum", "fold_product"):
            return (double_sum if fold.op == "fold_sum" else double_product)(x, y)
        test = double_less(y, x) if fold.op == "fold_max" else double_less(x, y)
        return select(test | x.high.is_nan, x, y)
    is_signed = fold.args[1].type is I32
    m, n = (Words(low, high.bits(U32)) for low, high in (a, b))
    if fold.op in ("fold_sum", "fold_product"):
        found = (add if fold.op == "fold_sum" else multiply)(m, n)
    else:
        test = less(n, m, is_signed=is_signed) if fold.op == "fold_max" else less(m, n, is_signed=is_signed)
        found = choose(test, m, n)
    return found.low, found.high.bits(I32 if is_signed else U32)


# Narrow types


def _wrapped(x: Expr, type: DataType) -> Expr:
    """A number in 32 bits as one of a narrow type, in 32 bits still."""
    rest = 32 - 8 * type.size_in_bytes
    if type.is_signed:
        return (x.bits(U32) << rest).bits(I32) >> rest
    return x.bits(U32) & (1 << 8 * type.size_in_bytes) - 1


def half_to_float(x: Expr) -> Expr:
    """The FLOAT32 of a FLOAT16's bits: its exponent is moved, and denormals are what is above a power of two."""
    size = (x & 0x7FFF) << 13
    normal = (size + where((x & 0x7FFF) < 0x7C00, const(112 << 23, U32), 224 << 23)).bits(F32)
    least = (size + (113 << 23)).bits(F32) - 2.0**-14
    number = where((x & 0x7C00).equals(0), least, normal)
    return (number.bits(U32) | ((x & 0x8000) << 16)).bits(F32)


def float_to_half(x: Expr) -> Expr:
    """The bits of the nearest FLOAT16, ties to even, in an UINT32."""
    bits = x.bits(U32)
    size = bits & 0x7FFFFFFF
    # Below 2^-14 an addition of 0.5 rounds to multiples of 2^-24; else half a unit is added to what is cut off.
    least = (size.bits(F32) + 0.5).bits(U32) - 0x3F000000
    normal = (size + 0xFFF + ((size >> 13) & 1) - (112 << 23)) >> 13
    number = where(size < 113 << 23, least, normal)
    number = where(size >= 0x477FF000, const(0x7C00, U32), number)
    number = where(size > 0x7F800000, ((size >> 13) & 0x3FF) | 0x7E00, number)
    return number | ((bits >> 16) & 0x8000)


# Trees


class _Tree:
    """Trees of a verb, rewritten; what they load is asked of `read`."""

    def __init__(self, types: Types, read: _Reader) -> None:
        self.types, self._read, self._made = types, read, dict[Expr, Value]()
        self._folded: set[Expr] = set()
        """What folds take, which go on with double-floats."""
        self._placed: set[Expr] = set()
        """What is computed of coordinates, whose places double-floats are precise enough for."""

    def of(self, root: Expr) -> Value:
        self._folded |= {arg for node in walk(root) if node.op in FOLDS for arg in node.args}
        for node in walk(root):
            if node not in self._made:
                if node.op == "coordinate" or not self._placed.isdisjoint(node.args):
                    self._placed.add(node)
                self._made[node] = self._change(node, [self._made[arg] for arg in node.args])
        return self._made[root]

    def _change(self, node: Expr, args: list[Value]) -> Value:
        if node.op in ("load", "fetch"):
            return self._read.element(node, [_index(arg) for arg in args])
        if node.op == "coordinate":
            place = self._read.place(int(node.value))
            return place.to(I64) if self.types.int64 else Words(place.bits(U32), const(0, U32))
        kind = node.args[0].type if node.args else node.type
        if node.op == "where":
            return self._where(args)
        if node.op == "cast":
            return self._cast(args[0], kind, node.type)
        if node.op == "bits" and not (self.types.has(kind) and self.types.has(node.type)):
            return self._bits(args[0], node, kind)
        if self.types.has(kind) and self.types.has(node.type):
            return Expr(node.op, node.type, tuple(arg for arg in args if isinstance(arg, Expr)), node.value)
        if node.op in ("const", "given"):
            return self._constant(node)
        if kind in (I64, U64):
            return self._of_words(node, [arg for arg in args if isinstance(arg, Words)], is_signed=kind is I64)
        if kind is F64:
            bits = [arg for arg in args if isinstance(arg, Double)]
            is_full = len(bits) == len(args) and any(arg.is_full for arg in bits) and node not in self._placed
            if is_full and node.op in _BY_BITS and node not in self._folded:
                return Double(_BY_BITS[node.op](*(arg.words for arg in bits)), is_full=True)
            return self._of_doubles(node, [_pair(arg) for arg in args])
        plain = [arg for arg in args if isinstance(arg, Expr)]
        if kind is F16:
            return self._of_halves(node, plain)
        assert kind is not None  # noqa: S101 - for type checkers: truths are there
        return self._narrow(node, plain, kind)

    def _constant(self, node: Expr) -> Value:
        assert node.type is not None  # noqa: S101 - for type checkers: truths are there
        if node.type is F64:
            bits = words(int(np.array(node.value, np.float64).view(np.uint64)))
            own = Words(*(Expr(node.op, U32, (), part.value) for part in bits))
            return Double(own, double(node.value) if node.op == "const" else None)
        if node.type in (I64, U64):
            return Words(*(Expr(node.op, U32, (), part.value) for part in words(node.value)))
        number = number_of(node)
        if node.type is F16:
            return Expr(node.op, U32, (), int(number.view(np.uint16)))
        return Expr(node.op, _wide(node.type), (), int(number))

    def _where(self, args: list[Value]) -> Value:
        test, yes, no = args
        assert isinstance(test, Expr)  # noqa: S101 - for type checkers: a truth
        if isinstance(yes, Words) and isinstance(no, Words):
            return choose(test, yes, no)
        if isinstance(yes, Double) and isinstance(no, Double):
            return Double(choose(test, yes.words, no.words), is_full=yes.is_full or no.is_full)
        if isinstance(yes, (Pair, Double)):
            return select(test, yes if isinstance(yes, Pair) else yes.pair, _pair(no))
        assert isinstance(yes, Expr) and isinstance(no, Expr)  # noqa: S101, PT018 - for type checkers: they are alike
        return where(test, yes, no)

    def _cast(self, x: Value, of: DataType | None, to: DataType | None) -> Value:
        assert of is not None and to is not None  # noqa: S101, PT018 - for type checkers: truths are chosen by
        if of is F16:
            x, of = _plain(x).to(F32) if self.types.narrow else half_to_float(_plain(x)), F32
        if isinstance(x, Pair):
            return self._of_double(x, to)
        if isinstance(x, Double):
            return self._of_bits(x, to)
        if isinstance(x, Words):
            return self._of_word_pair(x, to, is_signed=of is I64)
        if to in (I64, U64) and not self.types.int64:
            return float_to_words(x, is_signed=to is I64) if of.is_float else _split(x)
        if to is F64 and not self.types.float64:
            if of.is_float:
                return Double(float_to_bits(x), Pair(x, const(0.0, F32)))
            whole = _split(x)
            pair = words_to_double(whole, is_signed=of.is_signed)
            return Double(words_to_bits(whole, is_signed=of.is_signed), pair, of.size_in_bytes >= WORD)
        if self.types.has(to):
            return x.to(to)
        if to is F16:
            if of is F64:
                high = x.to(F32)
                return float_to_half(to_half(Pair(high, (x - high.to(F64)).to(F32))))
            return float_to_half(x.to(F32))  # an integer past 2^24 is infinite
        if of.is_float:
            low, high_end = (float(end) for end in _ends(to))
            return where(x < low, const(low, of), where(x > high_end, const(high_end, of), x)).to(_wide(to))
        return _wrapped(x.to(U32), to)

    def _of_word_pair(self, x: Words, to: DataType, *, is_signed: bool) -> Value:
        if to in (I64, U64):
            return x
        if to is F64:
            if not self.types.float64:
                bits = words_to_bits(x, is_signed=is_signed)
                return Double(bits, words_to_double(x, is_signed=is_signed), is_full=True)
            return (x.high.bits(I32) if is_signed else x.high).to(F64) * 2.0**32 + x.low.to(F64)
        if to.is_float:
            return self._cast(words_to_float(x, is_signed=is_signed), F32, to)
        return self._cast(x.low, U32, to)

    def _of_double(self, x: Pair, to: DataType) -> Value:
        if to.is_float:
            return x if to is F64 else self._cast(to_half(x) if to is F16 else x.high, F32, to)
        if to in (I64, U64):
            found = double_to_words(x, is_signed=to is I64)
            return _joined(found, to) if self.types.int64 else found
        (low, high), whole = _ends(to), double_to_words(x, is_signed=True).low
        cut = where(double_less(double(high), x), const(high, U32), whole)
        return self._cast(where(double_less(x, double(low)), const(low % 2**32, U32), cut), U32, to)

    def _of_bits(self, x: Double, to: DataType) -> Value:
        if to is F64:
            return x
        if to is F16:
            return self._of_double(x.pair, to)
        if to.is_float:
            return bits_to_float(x.words)
        if to in (I64, U64):
            found = bits_to_words(x.words, is_signed=to is I64)
            return _joined(found, to) if self.types.int64 else found
        (low, high), whole = _ends(to), bits_to_words(x.words, is_signed=True)
        found = choose(less(words(high), whole, is_signed=True), words(high), whole)
        return self._cast(choose(less(whole, words(low), is_signed=True), words(low), found).low, U32, to)

    def _bits(self, x: Value, node: Expr, of: DataType | None) -> Value:
        to = node.type
        if isinstance(x, Double) and to in (I64, U64) and not self.types.int64:
            return x.words
        if isinstance(x, Words) and to is F64:
            return Double(x, is_full=True)
        if isinstance(x, Words) and to in (I64, U64):
            return x
        if isinstance(x, Expr) and of is not None and to is not None and to is not F64 and of is not F64:
            return x.bits(U32) & 0xFFFF if to is F16 else _wrapped(x, to)
        raise TypeError(f"the bits of a {of} as {to}, of an engine that lacks one of them")

    def _of_words(self, node: Expr, args: list[Words], *, is_signed: bool) -> Value:
        op, (a, *others) = node.op, args
        b = others[0] if others else a
        if op in _BY_WORD:
            return Words(*(Expr(op, U32, parts) for parts in zip(*args, strict=True)))
        if op in FOLDS:
            parts = a.low, a.high.bits(I32 if is_signed else U32)
            low, high = (Expr(op, part.type, parts, number) for number, part in enumerate(parts))
            return Words(low, high.bits(U32))
        if op in ("div", "rem"):
            quotient, rest = divide(*(map(magnitude, args) if is_signed else args))
            found, sign = (quotient, a.high ^ b.high) if op == "div" else (rest, a.high)
            return choose(sign.bits(I32) < 0, negate(found), found) if is_signed else found
        made: dict[str, Callable[[], Value]] = {
            "add": lambda: add(a, b),
            "sub": lambda: subtract(a, b),
            "mul": lambda: multiply(a, b),
            "neg": lambda: negate(a),
            "abs": lambda: magnitude(a) if is_signed else a,
            "shl": lambda: shift_left(a, b.low),
            "shr": lambda: shift_right(a, b.low, is_signed=is_signed),
            "lt": lambda: less(a, b, is_signed=is_signed),
            "le": lambda: ~less(b, a, is_signed=is_signed),
            "eq": lambda: equal(a, b),
        }
        return _made(made, node)

    def _of_doubles(self, node: Expr, args: list[Pair]) -> Value:
        op, a = node.op, args[0]
        b = args[1] if len(args) > 1 else a
        if op in FOLDS:
            return Pair(*(Expr(op, F32, tuple(a), number) for number in range(2)))
        made: dict[str, Callable[[], Value]] = {
            "add": lambda: _with_zero(a.high + b.high, double_sum(a, b)),
            "sub": lambda: _with_zero(a.high - b.high, double_sum(a, negated(b))),
            "mul": lambda: _with_zero(a.high * b.high, double_product(a, b)),
            "div": lambda: double_quotient(a, b),
            "fma": lambda: double_sum(double_product(a, b), args[2]),
            "sqrt": lambda: double_root(a),
            "neg": lambda: negated(a),
            "abs": lambda: absolute_of(a),
            "floor": lambda: rounded(a, floor),
            "ceil": lambda: rounded(a, ceil),
            "trunc": lambda: toward_zero(a),
            "lt": lambda: double_less(a, b),
            "le": lambda: double_less(a, b) | (a.high.equals(b.high) & a.low.equals(b.low)),
            "eq": lambda: a.high.equals(b.high) & a.low.equals(b.low),
        }
        return _made(made, node)

    def _of_halves(self, node: Expr, args: list[Expr]) -> Value:
        numbers = [half_to_float(arg) for arg in args]
        if node.op in FOLDS:
            return float_to_half(Expr(node.op, F32, (numbers[0],)))
        found = Expr(node.op, None if node.type is None else F32, tuple(numbers))
        return found if node.type is None else float_to_half(found)

    def _narrow(self, node: Expr, args: list[Expr], kind: DataType) -> Value:
        if node.type is None:
            return Expr(node.op, None, tuple(args))
        return _wrapped(Expr(node.op, _wide(kind), tuple(args)), kind)


def _made(made: dict[str, Callable[[], Value]], node: Expr) -> Value:
    if node.op not in made:
        raise TypeError(f"{node.op} of a type that the engine lacks: {node.type}")
    return made[node.op]()


_BY_WORD = ("and", "or", "xor", "not")
_BY_BITS: dict[str, Callable[..., Words]] = {
    "add": bits_sum,
    "sub": lambda a, b: bits_sum(a, Words(b.low, b.high ^ 0x80000000)),
    "mul": bits_product,
}


def _with_zero(first: Expr, found: Pair) -> Pair:
    """A double-float that has the sign of its first part where both are 0."""
    return select(first.equals(0) & found.high.equals(0), Pair(first, const(0.0, F32)), found)


def _pair(x: Value) -> Pair:
    """A FLOAT64 as it is computed with."""
    if isinstance(x, Double):
        return x.pair
    assert isinstance(x, Pair)  # noqa: S101 - for type checkers: a number of the type
    return x


def _plain(x: Value) -> Expr:
    assert isinstance(x, Expr)  # noqa: S101 - for type checkers: a type that takes no pair
    return x


def _wide(type: DataType) -> DataType:
    """The type of 32 bits that a narrow integer is computed in."""
    return I32 if type.is_signed else U32


def _ends(type: DataType) -> tuple[int, int]:
    bits = 8 * type.size_in_bytes
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if type.is_signed else (0, 2**bits - 1)


def _split(x: Expr) -> Words:
    """An integer that the engine has, as words."""
    if typed(x).size_in_bytes > WORD:
        return Words(x.to(U32), (x >> 32).to(U32))
    x = x.to(_wide(typed(x)))
    return Words(x.bits(U32), (x >> 31).bits(U32) if x.type is I32 else const(0, U32))


def _joined(x: Words, type: DataType) -> Expr:
    return ((x.high.to(U64) << 32) | x.low.to(U64)).bits(type)


def _index(x: Value) -> Expr:
    """An index that is computed, in 32 bits where it is a pair."""
    return x.low.bits(I32) if isinstance(x, Words) else _plain(x)


# Verbs


class Insertion(NamedTuple):
    """A part of a word that is written where other elements have the rest: at once, or not at all (atomically)."""

    target: View
    """All words of the tensor, one after the other."""
    word: Expr
    """Its number, INT32."""
    mask: Expr
    """Its bits that are written, UINT32."""
    value: Expr
    """What they become; the others are 0."""


@dataclass(frozen=True, slots=True)
class Legal:
    """A verb in types that an engine has."""

    sources: tuple[View, ...]
    sizes: tuple[int, ...]
    """Of the walk."""
    writes: tuple[Write, ...]
    insertions: tuple[Insertion, ...]

    def verb(self, of: Map | Reduce) -> Map | Reduce:
        """The original, changed: of one that inserts nothing."""
        if self.insertions:
            raise TypeError("elements that share words are no view's")
        first, *also = self.writes
        return replace(of, sources=self.sources, target=first.target, value=first.value, also=tuple(also))


def legalise(verb: Map | Reduce, types: Types, *, by_words: bool = True) -> Legal:
    """A map or a reduce in the types that an engine has.

    A map whose target has whole words of narrow elements in each row walks along words, and computes all elements of
    one; without `by_words` it walks as it did. Narrow sources are fetched from words, unless they lie as such a target
    does. Folds of pairs have two arguments, and `combine` says how an engine's loop goes on with them.
    """
    pairs = list(zip(verb.targets, verb.values, strict=True))
    parts = 1
    if isinstance(verb, Map) and by_words:
        parts = next((_count(target, types) for target, _ in pairs if _has_words(target, types)), 1)
        parts = parts if all(target.sizes == verb.sizes for target, _ in pairs) else 1
    reader = _Reader(verb, types)
    writes: list[Write] = []
    insertions: list[Insertion] = []
    packed: dict[int, Expr] = {}
    for part in range(parts):
        reader.part, reader.parts = part, parts
        tree = _Tree(types, reader)
        for number, (target, value) in enumerate(pairs):
            found = tree.of(expand(value))
            per = _count(target, types)
            if per > 1 and per == parts and _has_words(target, types):
                piece = _bits_of(found, target.data_type) << 8 * target.data_type.size_in_bytes * part
                packed[number] = packed[number] | piece if number in packed else piece
                if part == parts - 1:
                    writes.append(Write(_by_words(target, per), packed[number]))
            elif per > 1:
                insertions.append(_insertion(reader, target, found, per))
            elif isinstance(found, (Words, Double, Pair)):
                writes += map(Write, _word_views(reader.portion(target)), _in_memory(found))
            else:
                writes.append(Write(reader.portion(target), _plain(found)))
    sizes = verb.sizes if parts == 1 else (*verb.sizes[:-1], verb.sizes[-1] // parts)
    return Legal(tuple(reader.views), sizes, tuple(writes), tuple(insertions))


def _in_memory(x: Words | Double | Pair) -> Words:
    """The words of what is 64 bits wide."""
    return x if isinstance(x, Words) else x.words if isinstance(x, Double) else bits_of_double(x)


def _count(view: View, types: Types) -> int:
    """The elements of a word: 1 for types that are whole ones."""
    return 1 if types.has(view.data_type) else max(WORD // view.data_type.size_in_bytes, 1)


def _has_words(view: View, types: Types) -> bool:
    """Whether each row is whole words of narrow elements."""
    per = _count(view, types)
    if per == 1 or not view.sizes or view.strides[-1] != 1:
        return False
    return not any(number % per for number in (view.sizes[-1], view.offset, *view.strides[:-1]))


def _by_words(view: View, per: int) -> View:
    sizes, strides = (*view.sizes[:-1], view.sizes[-1] // per), (*(s // per for s in view.strides[:-1]), 1)
    return View(view.tensor, U32, sizes, strides, view.offset // per)


def _word_views(view: View) -> tuple[View, View]:
    """The low words and the high ones of 64-bit elements."""
    strides = tuple(2 * stride for stride in view.strides)
    low, high = (View(view.tensor, U32, view.sizes, strides, 2 * view.offset + k) for k in range(2))
    return low, high


def _flat(view: View, per: int) -> View:
    """All words up to a view's last element."""
    last = view.offset + sum(max(stride, 0) * (size - 1) for size, stride in zip(view.sizes, view.strides, strict=True))
    return View(view.tensor, U32, (last // per + 1,), (1,))


def _bits_of(x: Value, type: DataType) -> Expr:
    """A narrow element's bits, the lowest of a word."""
    return _plain(x).bits(U32) & (1 << 8 * type.size_in_bytes) - 1


def _insertion(reader: _Reader, target: View, found: Value, per: int) -> Insertion:
    bits = 8 * target.data_type.size_in_bytes
    index = reader.index(target)
    by = (index.bits(U32) & per - 1) * bits
    mask = const(2**bits - 1, U32) << by
    word = index.bits(U32) >> per.bit_length() - 1
    return Insertion(_flat(target, per), word.bits(I32), mask, _bits_of(found, target.data_type) << by)


class _Reader:
    """What trees load and fetch, as views of words: the sources of the new verb."""

    def __init__(self, verb: Map | Reduce, types: Types) -> None:
        self.sources, self.types, self.views = verb.sources, types, list[View]()
        self.last = len(verb.sizes) - 1
        self.part, self.parts = 0, 1
        """Of a walk along words, the element of each that is read."""

    def _slot(self, view: View) -> int:
        if view not in self.views:
            self.views.append(view)
        return self.views.index(view)

    def place(self, dimension: int) -> Expr:
        """The index in a dimension of the original walk, INT32."""
        found = coordinate(dimension).to(I32)
        return found * self.parts + self.part if self.parts > 1 and dimension == self.last else found

    def portion(self, view: View) -> View:
        """The elements that this part of a word is computed of, or is written to."""
        if self.parts == 1:
            return view
        rank = len(view.sizes)
        first, steps = (*(0,) * (rank - 1), self.part), (*(1,) * (rank - 1), self.parts)
        return view.window(first, steps, (*view.sizes[:-1], view.sizes[-1] // self.parts))

    def index(self, view: View, at: Sequence[Expr] | None = None) -> Expr:
        """The number of an element among its tensor's, INT32."""
        total = const(view.offset, I32)
        for k, stride in enumerate(view.strides):
            if stride:
                total = total + (self.place(k) if at is None else at[k].to(I32)) * stride
        return total

    def element(self, node: Expr, indices: list[Expr]) -> Value:
        """What a load or a fetch gives."""
        view = self.sources[int(node.value)]
        if view.data_type is not node.type:  # bits that are moved
            view = replace(view, data_type=typed(node))
        per = _count(view, self.types)
        if per > 1:
            return self._cut_out(view, per, indices if node.op == "fetch" else None)
        whole = view if node.op == "fetch" else self.portion(view)
        views = (whole,) if self.types.has(view.data_type) else _word_views(whole)
        found = [Expr(node.op, one.data_type, tuple(indices), self._slot(one)) for one in views]
        if len(found) == 1:
            return found[0]
        return Double(Words(*found), is_full=True) if view.data_type is F64 else Words(*found)

    def _cut_out(self, view: View, per: int, at: list[Expr] | None) -> Expr:
        bits = 8 * view.data_type.size_in_bytes
        if at is None and per == self.parts and _has_words(view, self.types):
            word = load(self._slot(_by_words(view, per)), U32) >> bits * self.part
        else:
            index = self.index(view, at).bits(U32)
            place = (index >> per.bit_length() - 1).bits(I32)
            word = Expr("fetch", U32, (place,), self._slot(_flat(view, per))) >> (index & per - 1) * bits
        return word & (1 << bits) - 1 if view.data_type is F16 else _wrapped(word, view.data_type)
