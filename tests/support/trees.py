"""Random expressions over all operations, and arrays of random layouts for them to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.ir import expressions as ex
from anydml.ir.expressions import Expr
from anydml.ir.fetches import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

Array = np.ndarray[Any, Any]
Fetched = tuple[DataType, tuple[int, ...]]
"""A source that is fetched from: its type and sizes."""
FLOATS = (DataType.FLOAT32, DataType.FLOAT64)
"""What is computed in; FLOAT16 is converted before."""
WIDE = {8 * size: [one for one in NUMPY_TYPES if one.size_in_bytes == size] for size in (1, 2, 4, 8)}


class Trees:
    """Trees made by chance: every node is computed with numbers that its operation is defined for."""

    def __init__(
        self,
        seed: int,
        sources: list[DataType],
        shape: tuple[int, ...],
        folded: int = 0,
        fetched: Sequence[Fetched] = (),
    ) -> None:
        """Of sources, and after them those that are fetched from."""
        self.chance = np.random.default_rng(seed)
        self.sources, self.fetched, self.folded = sources, fetched, folded
        self.shape, self.rank = shape, len(shape)
        self.by_row = False
        """Whether what stands outside of folds is the same for a whole row."""

    def pick(self, of: Any) -> Any:
        return of[int(self.chance.integers(len(of)))]

    def leaf(self, of: DataType) -> Expr:
        if self.by_row:
            kept = self.rank - self.folded
            kind = self.pick(["fold", "fold", "given", "coordinate"])
            if kind == "fold":
                return self.fold(of, 0)
            if kind == "coordinate" and kept:
                return ex.coordinate(int(self.chance.integers(kept))).to(of)
            return ex.given(numbers(self.chance, (), of).item(), of)
        slots = [slot for slot, one in enumerate(self.sources) if one is of]
        kind = self.pick(["load", "load", "const", "given", "coordinate"])
        if kind == "load" and (slots or self.sources):
            slot = self.pick(slots or range(len(self.sources)))
            return ex.load(slot, self.sources[slot]).to(of)
        if kind == "coordinate" and self.rank:
            return ex.coordinate(int(self.chance.integers(self.rank))).to(of)
        value = numbers(self.chance, (), of).item()
        return ex.given(value, of) if kind == "given" else ex.const(value, of)

    def fetch(self, depth: int) -> Expr:
        """An element of a source: on a line along the walk, at a place that a source says, or anywhere."""
        number = int(self.chance.integers(len(self.fetched)))
        of, sizes = self.fetched[number]
        indices = [self.index(size, depth - 1) for size in sizes]
        if self.rank and sizes[-1] == self.shape[-1] and not self.by_row and self.chance.random() < 0.4:
            indices[-1] = ex.coordinate(self.rank - 1)
        if self.chance.random() < 0.3:
            return ex.fetch_or(
                len(self.sources) + number, of, [i - 1 for i in indices], sizes, self.grow(of, depth - 1)
            )
        return ex.fetch(len(self.sources) + number, of, indices)

    def index(self, size: int, depth: int) -> Expr:
        varying = self.rank - self.folded if self.by_row else self.rank
        fitting = [k for k, count in enumerate(self.shape[:varying]) if count <= size]
        kind = self.pick(["line", "line", "nearest", "number"])
        if kind == "line" and fitting:
            k = fitting[-1] if self.chance.random() < 0.5 else self.pick(fitting)
            step = int(self.chance.choice([1, 1, -1, 2])) if self.shape[k] * 2 <= size + 1 else 1
            start = self.shape[k] - 1 if step < 0 else 0
            return ex.coordinate(k) * step + start if (start, step) != (0, 1) else ex.coordinate(k)
        if kind == "number":
            return ex.given(int(self.chance.integers(size)), DataType.INT64)
        return nearest(self.grow(self.pick([DataType.INT64, DataType.UINT32, DataType.INT8]), depth), size)

    def truth(self, depth: int) -> Expr:
        if depth > 0 and self.chance.random() < 0.3:
            kind = self.pick(["and", "or", "xor", "not", "where"])
            a, b = self.truth(depth - 1), self.truth(depth - 1)
            return ~a if kind == "not" else ex.where(a, b, ~b) if kind == "where" else Expr(kind, None, (a, b))
        of = self.pick(list(NUMPY_TYPES))
        return Expr(self.pick(["lt", "le", "eq"]), None, (self.grow(of, depth - 1), self.grow(of, depth - 1)))

    def grow(self, of: DataType, depth: int) -> Expr:
        """A tree that gives a type, at most so deep."""
        if depth <= 0:
            return self.leaf(of)
        kinds = ["where", "cast", "bits"] + ["fold"] * 8 * bool(self.folded) + ["fetch"] * 3 * bool(self.fetched)
        if of in FLOATS:
            kinds += ["add", "sub", "mul", "div", "fma", "neg", "abs", "sqrt", "floor", "ceil", "trunc", "rint"] * 2
        elif not of.is_float:
            kinds += ["add", "sub", "mul", "div", "rem", "neg", "abs", "and", "or", "xor", "not", "shl", "shr"] * 2
        kind = self.pick(kinds)
        if kind == "fold":
            return self.fold(of, depth - 1)
        if kind == "where":
            return ex.where(self.truth(depth - 1), self.grow(of, depth - 1), self.grow(of, depth - 1))
        if kind == "fetch":
            return self.fetch(depth).to(of)
        if kind == "cast":
            return self.grow(self.pick(list(NUMPY_TYPES)), depth - 1).to(of)
        if kind == "bits":
            return plain_bits(self.grow(self.pick(WIDE[8 * of.size_in_bytes]), depth - 1), of)
        count = 3 if kind == "fma" and of is DataType.FLOAT32 else ex.OPERATIONS[kind] if kind != "fma" else 2
        args = tuple(self.grow(of, depth - 1) for _ in range(count))
        if kind == "fma" and count == 2:  # of FLOAT64 the reference has none
            kind = "mul"
        if kind in ("div", "rem") and not of.is_float:
            args = (args[0], _divisor(args[1]))
        if kind in ("shl", "shr"):
            args = (args[0], _shift(args[1]))
        return Expr(kind, of, args)

    def fold(self, of: DataType, depth: int) -> Expr:
        """A fold that is exact in any order: floats are added where they are few and whole, multiplied where ±1."""
        function, outside, self.by_row = self.pick(["sum", "product", "max", "min"]), self.by_row, False
        made, of = of, DataType.FLOAT32 if of is DataType.FLOAT16 else of
        fetches = bool(self.fetched) and self.chance.random() < 0.5
        if of.is_float and function == "product":
            term = ex.where(self.truth(depth), ex.const(1, of), ex.const(-1, of))
        else:
            is_sum = of.is_float and function == "sum"
            kind = DataType.INT32 if is_sum else of
            term = self.fetch(max(depth, 1)).to(kind) if fetches else self.grow(kind, depth)
            term = (term & 15).to(of) if is_sum else term
        self.by_row = outside
        return ex.fold(function, term).to(made)


def plain_bits(x: Expr, of: DataType) -> Expr:
    """The bits of a number; every NaN, of which engines make different ones, has the same."""
    if x.type is not None and x.type.is_float:
        x = ex.where(x.is_nan, ex.const(1, x.type), x)
    return x.bits(of)


def _divisor(x: Expr) -> Expr:
    """Neither 0 nor -1, by which the operations do not divide."""
    assert x.type is not None
    bad = x.equals(0) | x.equals(-1) if x.type.is_signed else x.equals(0)
    return ex.where(bad, ex.const(3, x.type), x)


def operations(a: Expr, b: Expr, c: Expr) -> list[Expr]:
    """Every operation of three numbers of a type that gives one of it, and every test as a number."""
    data_type = a.type
    assert data_type is not None
    tests = [a < b, a <= b, a.equals(b), (a < b) & (b < c), (a < b) | ~(b < c), (a < b) ^ (a < c)]
    found = [test.to(data_type) for test in tests]
    found += [-a, ex.absolute(a), ex.where(a < b, a, c), ex.maximum(a, b), ex.minimum(a, b)]
    if data_type is DataType.FLOAT16:
        return found
    found += [a + b, a - b, a * b]
    if data_type.is_float:
        found += [a / b, ex.sqrt(a), *(rounding(a) for rounding in (ex.floor, ex.ceil, ex.trunc, ex.rint))]
        found += [ex.fma(a, b, c)] if data_type is DataType.FLOAT32 else []
        return found
    found += [a / _divisor(b), a % _divisor(b), a & b, a | b, a ^ b, ~a]
    return [*found, a << _shift(b), a >> _shift(b), a / 7, a % 10]


def _shift(x: Expr) -> Expr:
    """A number that may be shifted by."""
    assert x.type is not None
    return x & (8 * x.type.size_in_bytes - 1)


def numbers(chance: np.random.Generator, shape: tuple[int, ...], of: DataType) -> Array:
    """Numbers of every size that a type has; of floats also zeros, infinities, NaN and the smallest."""
    bits = chance.integers(0, 256, (*shape, of.size_in_bytes), np.uint8).view(of.dtype).reshape(shape)
    if not of.is_float:
        few = bits >> chance.integers(0, 8 * of.size_in_bytes, dtype=bits.dtype)
        limits = np.iinfo(of.dtype)
        ends = chance.choice(np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max], of.dtype), shape)
        kind = chance.random(shape)
        return np.where(kind < 0.4, few, np.where(kind < 0.8, bits, ends)).astype(of.dtype)
    common = (chance.standard_normal(shape) * 2.0 ** chance.integers(-3, 12, shape)).astype(of.dtype)
    least = np.finfo(of.dtype).smallest_subnormal
    with np.errstate(over="ignore"):
        borders = [s * 2.0**k + d for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (-1, 1) for d in (-1, -0.5, 0)]
        odd = [0.0, -0.0, np.inf, -np.inf, np.nan, least, -least, 0.5, -2.5, 65519, 65520, 1e-8]
        special = chance.choice(np.array([*odd, *odd, *borders], of.dtype), shape)
    kind = chance.random(shape)
    return np.asarray(np.where(kind < 0.6, common, np.where(kind < 0.85, bits, special)), of.dtype)


def fetched_of(chance: np.random.Generator, shape: tuple[int, ...], types: Sequence[DataType]) -> list[Fetched]:
    """Up to two sources to fetch from, some of their sizes those of the walk."""
    found = []
    for _ in range(int(chance.integers(3))):
        sizes = [int(chance.choice([*shape, 1, 3, 7])) for _ in range(int(chance.integers(0, 3)))]
        found.append((types[int(chance.integers(len(types)))], (*sizes, shape[-1] if shape else 5)))
    return found


def shape_of(chance: np.random.Generator, most: int) -> tuple[int, ...]:
    """Up to 8 sizes that hold at most so many elements."""
    sizes: list[int] = []
    for _ in range(int(chance.integers(0, 9))):
        left = most // int(np.prod(sizes, dtype=int))
        sizes.append(int(chance.integers(1, max(2, min(left, 40) + 1))))
        if int(np.prod(sizes)) * 2 > most:
            break
    chance.shuffle(sizes)
    return tuple(sizes)


def room(chance: np.random.Generator, shape: tuple[int, ...], of: DataType) -> Array:
    """Zeros of a shape, its dimensions in any order in memory, with gaps, and backwards."""
    order = chance.permutation(len(shape))
    steps = [int(chance.choice([1, 1, 1, 2, -1, -2])) for _ in shape]
    sizes = [size * abs(step) for size, step in zip(shape, steps, strict=True)]
    held = np.zeros([sizes[k] for k in order], of.dtype).transpose(np.argsort(order))
    cut: tuple[Any, ...] = (..., *(slice(None, None, step) for step in steps))
    found: Array = held[cut]
    return found


def source(chance: np.random.Generator, shape: tuple[int, ...], of: DataType) -> Array:
    """Numbers in such room, some dimensions of one element repeated."""
    once = tuple(1 if chance.random() < 0.2 else size for size in shape)
    held = room(chance, once, of)
    held[...] = numbers(chance, once, of)
    return np.broadcast_to(held, shape)
