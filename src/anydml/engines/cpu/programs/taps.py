"""Depthwise convolutions and poolings, planned: which taps, and what a unit of planes is."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.engines.cpu.build import get_kernel
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.endings import COLUMN, FOLD, ROW, Ending
from anydml.engines.cpu.kernels.nodes import kind_of
from anydml.engines.cpu.kernels.planes import (
    AS_THEY_LIE,
    WEIGHTS,
    WEIGHTS_SIGNED,
    WEIGHTS_ZERO,
    WEIGHTS_ZERO_SIGNED,
    WORDS,
    ZERO,
    ZERO_SIGNED,
    make_planes,
)
from anydml.engines.cpu.kernels.room import RESULT, SCRATCH, SUMS_AT
from anydml.engines.cpu.kernels.rows import OUTER_RANK, VIEWS
from anydml.engines.cpu.kernels.taps import make_taps
from anydml.engines.cpu.kernels.taps_dots import make_dots, suits
from anydml.engines.cpu.kernels.taps_extremes import make_extremes
from anydml.engines.cpu.kernels.taps_masked import make_masked, masked
from anydml.engines.cpu.kernels.taps_masked import suits as suits_masked
from anydml.engines.cpu.kernels.taps_rolling import make_rolling
from anydml.engines.cpu.kernels.taps_shape import MOST, Taps
from anydml.engines.cpu.kernels.taps_wide import make_wide
from anydml.engines.cpu.programs.contracted import ContractProgram
from anydml.engines.cpu.programs.frames import NO_FRAME, match_frame
from anydml.engines.cpu.programs.sides import Sides, byte_less_zero
from anydml.engines.cpu.programs.taps_blocks import in_blocks, in_wide_blocks, suits_wide, with_margins
from anydml.engines.cpu.programs.units import FLOPS
from anydml.engines.cpu.tiles import has_dots, tile_for
from anydml.enums import DataType
from anydml.ir.expressions import FOLDS
from anydml.ir.patterns import Contraction, varies_along
from anydml.ir.trees import walk
from anydml.ir.verbs import Reduce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.programs.contracted import Section
    from anydml.engines.cpu.programs.frames import Frame
    from anydml.engines.cpu.programs.sides import Lie
    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive

F32, I32 = DataType.FLOAT32, DataType.INT32
_BYTES = (DataType.INT8, DataType.UINT8)
BYTES = 8
"""Bytes at once at least: as many of 16 bits fill a vector of an Arm's."""
SHORT = 48
"""Nodes of what is computed from folds up to which that is done where they are: it is written for each of 12 vectors.
144 planes of 56 x 56, convolved with a bias, take 323 us so, and 367 where folds are written first (one thread of an
Arm Neoverse-N1)."""
FAR = 16
"""The distances of taps at most: what is further apart is no window, and each has a kernel of its own."""
NEAR = 48 * 1024
"""Bytes of lines with margins that a part has: the first cache has them, and results."""
FRAMED = SUMS_AT - RESULT - 4096
"""Bytes of them that a scratch has room for."""
TOGETHER = 4
"""Rows of a part at least."""
PART = 4096
"""Results of a part of a plane: the first cache has them, with what they are folded from."""


class _Planes(Sides):
    """The last two dimensions that are kept are rows and columns of a plane."""

    def _sort(self, *, has_lines: bool) -> None:  # noqa: ARG002 - the class above has it
        found = self.found
        self.windows, self.unmerged = None, ()
        self.batch, self.rows, self.columns, self.folded = found.batch, found.rows, found.columns, found.folded


class _Found(NamedTuple):
    op: str
    x: Expr
    """The load of the input."""
    weight: Expr | None
    fold: Expr
    zero: Expr | None = None
    """Of bytes, what is taken off the input."""


def plan_framed(primitives: Sequence[Primitive], constants: frozenset[str]) -> ContractProgram | None:
    """Planes whose padding is made for a reduce alone, and that reduce; None for others."""
    *maps, last = primitives
    frame = match_frame(maps)
    if frame is None or not isinstance(last, Reduce) or last.checks or frame.inner.tensor in constants:
        return None
    return plan_taps(last, frame)


def plan_taps(primitive: Reduce, frame: Frame | None = None) -> ContractProgram | None:
    """Planes of FLOAT32 or bytes, whose windows are small; None where they are not, or lie otherwise.

    Whether it is so does not depend on what is computed from the folds, nor on the target: bits are the same.
    """
    found = _match(primitive)
    if found is None or not all(primitive.sizes) or any(node.op == "fetch" for node in walk(primitive.value)):
        return None
    kept = len(primitive.sizes) - primitive.depth
    wide = [k for k, size in enumerate(primitive.sizes) if size > 1]
    plane, folded = tuple(k for k in wide if k < kept)[-2:], tuple(k for k in wide if k >= kept)
    batch = tuple(k for k in wide if k < kept and k not in plane)
    if len(plane) < 2 or not 1 <= len(folded) <= 2 or len(batch) > OUTER_RANK:
        return None
    less = byte_less_zero(found.weight)[1] if found.zero is not None else None  # type: ignore[arg-type, index]  # there are weights
    others = ((found.weight, plane), (found.zero, (*plane, *folded)), (less, folded))
    if any(one is not None and not varies_along(one, primitive.sources).isdisjoint(over) for one, over in others):
        return None
    both = (found.x, found.x)  # weights have no part in how a plane lies
    sides = _Planes(primitive, Contraction(found.fold, *both, primitive.sizes, batch, plane[:1], plane[1:], folded))
    taps = _taps(sides, found)
    if taps is None or len(sides.lies(sides.finish)) >= VIEWS:
        return None
    if found.fold.type in _BYTES and (taps.ending is None or frame is not None):
        return None  # the scratch has sums of 32 bits, and margins of numbers or of zero points
    if frame is not None and not _is_framed(sides, found, taps, frame):
        return None
    return _program(sides, found, taps, frame)


def _is_framed(sides: Sides, found: _Found, taps: Taps, frame: Frame) -> bool:
    """Whether the input alone has margins, and windows are walked onward in it, from its first element on.

    The rows of results are a plane's: those of planes that give one row each are not.
    """
    lie = sides.lie(found.x)
    others = [view for slot, view in enumerate(sides.primitive.sources) if slot != found.x.value]
    is_onward = lie.tensor == frame.name and not lie.offset and min(_pair(sides, lie)) >= 0
    last = (sides.count(sides.columns) - 1) * taps.step + (taps.columns - 1) * taps.beside
    is_line = _pitch(sides, lie) % (frame.line * lie.width) == 0 and last < frame.line
    is_line = is_line and frame.lie(lie, sides.batch) is not None
    lowest = (sides.count(sides.rows) - 1) * lie.along(sides.rows) + (taps.rows - 1) * _pair(sides, lie)[0]
    is_line = is_line and (not frame.height or lowest < frame.height * frame.line * lie.width)
    return is_onward and is_line and all(view.tensor != frame.name for view in others)


def _match(primitive: Reduce) -> _Found | None:
    """The one fold of a reduce of one value a row: of loads, or the sum of their products with weights."""
    folds = [node for node in walk(primitive.value) if node.op in FOLDS]
    if len(folds) != 1 or primitive.also or not primitive.is_by_row:
        return None
    (fold,) = folds
    (term,) = fold.args
    is_plain = fold.type is F32 and fold.op in ("fold_max", "fold_min", "fold_sum")
    if term.op == "load" and (is_plain or _is_byte(fold, term)):
        return _Found(fold.op.removeprefix("fold_"), term, None, fold)
    if fold.op != "fold_sum" or term.op != "mul" or fold.type not in (F32, I32):
        return None
    kept = range(len(primitive.sizes) - primitive.depth)
    # The input is what varies along places, the weights what does not.
    x, weight = sorted(term.args, key=lambda arg: -len(varies_along(arg, primitive.sources).intersection(kept)))
    if fold.type is F32:
        return _Found("fma", x, weight, fold) if x.op == weight.op == "load" else None
    byte, other = byte_less_zero(x), byte_less_zero(weight)
    is_ours = byte is not None and other is not None and _is_plain(byte[1]) and _is_plain(other[1])
    return _Found("fma", byte[0], weight, fold, byte[1]) if byte and is_ours else None


def _is_byte(fold: Expr, term: Expr) -> bool:
    """Whether it is the largest or the smallest of bytes."""
    return fold.op in ("fold_max", "fold_min") and fold.type is term.type and fold.type in _BYTES


def _taps(sides: Sides, found: _Found) -> Taps | None:
    sizes, lie = sides.found.sizes, sides.lie(found.x)
    (rows,), (columns,) = sides.rows, sides.columns
    lanes, most = tile_for("f32", MOST).lanes, math.prod(sizes[k] for k in sides.folded)
    lanes = lanes if found.x.type is F32 else max(lanes, BYTES)
    while 4 < lanes > sizes[columns]:
        lanes //= 2
    (below, beside), pitch = _pair(sides, lie), _pitch(sides, lie)
    is_long = lanes <= sizes[columns] <= RESULT // (8 * TOGETHER) and sizes[rows] >= TOGETHER
    element = lie.width
    if not (is_long and pitch and lie.strides[columns] in (element, 2 * element) and most <= MOST):
        return None
    height, width = (1, *(sizes[k] for k in sides.folded))[-2:]
    distances = (lie.strides[rows] // pitch, lie.strides[columns] // element, below // pitch, beside // element)
    kind = kind_of(found.x.type)
    taps = Taps(found.op, height, width, *distances, lanes, IS_ARM, kind, ending=_ending(sides))
    return taps if max(map(abs, distances)) <= FAR else None


def _ending(sides: Sides) -> Ending | None:
    """The value computed from folds where they are, if it is short and no read varies along a plane.

    Elements that do may lie where the target does: rows that overlap would read them again.
    """
    leaves, lies = sides.leaves(sides.finish)
    plane = (*sides.rows, *sides.columns)
    moves = [FOLD if leaf is sides.sum else "" for leaf in leaves]
    for v, (leaf, lie) in enumerate(zip(leaves, lies, strict=True)):
        if leaf.op == "coordinate":
            moves[v] = {sides.rows[0]: ROW, sides.columns[0]: COLUMN}.get(int(leaf.value), "")
        elif any(lie.strides[k] for k in plane):
            return None
    is_short = len(list(walk(sides.finish))) <= SHORT and sides.target.along(sides.columns) == sides.target.width
    return Ending(sides.finish, sides.sum, tuple(leaves), tuple(moves)) if is_short else None


def _pair(sides: Sides, lie: Lie) -> tuple[int, int]:
    """The distances of taps, from line to line and along one."""
    found = [lie.strides[k] for k in sides.folded]
    return (found[0], found[1]) if len(found) == 2 else (0, found[0])


def _pitch(sides: Sides, lie: Lie) -> int:
    """The common divisor of the distances of lines."""
    return math.gcd(lie.strides[sides.rows[0]], _pair(sides, lie)[0])


def _program(sides: Sides, found: _Found, taps: Taps, frame: Frame | None) -> ContractProgram | None:
    sizes = sides.found.sizes
    (rows,), (columns,) = sides.rows, sides.columns
    height, line = sizes[rows], sizes[columns]
    x, target = sides.lie(found.x), sides.target
    results = [*sides.lies(sides.finish), target]
    is_whole = all(lie.strides[rows] == lie.strides[columns] * line for lie in results)
    parts = min(max(-(-height * line // PART), 1), height // TOGETHER)
    framing, filler, bound = NO_FRAME, sides.section((), [], [], []), x
    down, pitch = x.strides[rows], _pitch(sides, x)
    taps = in_blocks(taps, height // parts, line)
    is_masked = suits_masked(taps) and has_feature("avx512vnni") and has_feature("avx512bw")
    is_wide = suits_wide(taps) and (frame is None or not frame.number)
    far = (line - 1) * taps.step + (taps.columns - 1) * max(taps.beside, 0) + 1
    own = None
    if frame is not None and pitch == frame.line * x.width and not is_masked:
        length = frame.inner.sizes[-1]
        if is_wide:
            own = in_wide_blocks(taps, height // parts, line, length, frame.left)
        else:
            own = with_margins(taps, line, frame.left, length)
    if frame is not None and own is not None:
        taps = own
        framing, pitch, down = frame.lines(down // pitch), frame.inner.strides[-2] * x.width, 0
    elif frame is not None:
        pitch, (below, _) = frame.line * x.width, _pair(sides, x)
        step, reach = x.strides[rows] // pitch, (taps.rows - 1) * below // pitch + 1
        parts = min(max(parts, -(-height * step * pitch // NEAR)), height // TOGETHER)
        size = ((-(-height // parts) - 1) * step + reach) * pitch
        if size > FRAMED:
            return None
        taps = in_blocks(taps, height // parts, line)
        framing, pitch = frame.words(step, reach, size), _pitch(sides, x)
    if is_wide and own is None:
        taps = in_wide_blocks(taps, height // parts, line, far)
    if frame is not None:
        elements = frame.filler(len(sizes))
        filler = sides.section((), elements, [0] * len(elements), [0] * len(elements))
        bound = frame.lie(x, sides.batch) or x
    weights, bits, counts, pair = _weights(sides, found, taps)
    result = sides.result(is_written=taps.ending is None)
    sections: tuple[Section, ...] = (sides.section((), [bound], [0], [0]), weights, result, filler)
    places = [HEADER + len(WORDS) + len(sides.batch)]
    for section in sections:
        places.append(places[-1] + len(section.words) + len(section.tensors))
    places[3] = places[3] if filler.tensors else 0
    make = make_extremes if taps.is_by_line else make_taps
    if is_wide:
        make = make_wide if taps.together else make_rolling
    kernel = get_kernel(taps.name, functools.partial(make, taps))
    dots = 0
    if is_masked:
        wide = masked(taps, height // parts)
        if bits == WEIGHTS | WEIGHTS_SIGNED and counts[0] == 1 and pair[1] == 1:
            bits, wide = AS_THEY_LIE, wide._replace(has_bytes=True)
        dots = get_kernel(f"dots of {wide.name}", functools.partial(make_masked, wide)).address
    elif suits(taps) and has_dots(tile_for("i32", MOST).lanes):
        dots = get_kernel(f"dots of {taps.name}", functools.partial(make_dots, taps)).address
    fixed = (
        height, line, parts, down, pitch, *counts, *pair, kernel.address, dots, int(taps.ending is not None),
        int(is_whole), target.strides[rows], *framing, bits, *places[:4],
        len(sides.batch), *(sizes[k] for k in sides.batch),
    )  # fmt: skip
    size = 2 * math.prod(sizes) // FLOPS
    walk_ = get_kernel("planes", functools.partial(make_planes, SCRATCH, RESULT))
    return ContractProgram(walk_, fixed, sections, sides.count(sides.batch) * parts, size)


def _weights(sides: Sides, found: _Found, taps: Taps) -> tuple[Section, int, tuple[int, int], tuple[int, int]]:
    """Weights and zero points, what they are, rows and columns of weights, and how far those lie apart."""
    weight = found.weight
    if weight is None:
        return sides.section((), [], [], []), 0, (0, 0), (0, 0)
    leaf, less = byte_less_zero(weight) or (weight, None)
    bits, leaves = 0, [leaf]
    if found.zero is not None:
        bits = WEIGHTS | (WEIGHTS_SIGNED if leaf.type is DataType.INT8 else 0)
        for zero, own, sign in ((less, WEIGHTS_ZERO, WEIGHTS_ZERO_SIGNED), (found.zero, ZERO, ZERO_SIGNED)):
            if (number := _number(zero)) is not None:
                leaves.append(number)
                bits |= own | (sign if number.type is DataType.INT8 else 0)
    lies, none = [sides.lie(one) for one in leaves], [0] * len(leaves)
    pair, counts = _pair(sides, lies[0]), (taps.rows, taps.columns)
    if pair[0] == pair[1] * taps.columns:  # all are in one row
        counts = (1, taps.rows * taps.columns)
    return sides.section((), lies, none, none), bits, counts, pair


def _number(zero: Expr | None) -> Expr | None:
    """The load of a zero point; None where it is 0."""
    return None if zero is None or zero.op == "const" else zero.args[0] if zero.op == "cast" else zero


def _is_plain(zero: Expr) -> bool:
    """Whether a zero point is 0, or a byte."""
    number = _number(zero)
    return number is None or (number.op == "load" and number.type in (DataType.INT8, DataType.UINT8))
