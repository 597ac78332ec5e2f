"""Contractions, planned: which sides are rows and columns, how the factors are brought, and what a unit of work is."""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.build import IS_ARM, get_kernel
from anydml.engines.cpu.call import SMALL, make_dispatch
from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.contract import (
    ALONG_ROWS,
    ALONG_STEPS,
    AS_IT_LIES,
    BLOCK,
    COLUMNS,
    DOTS,
    LONG,
    RESULT,
    RIGHT,
    SIDE_BY_SIDE,
    STRIP,
    UNPACKED,
    WORDS,
    make_contract,
)
from anydml.engines.cpu.kernels.nodes import kind_of
from anydml.engines.cpu.kernels.octets import FOUR, Octets, make_mend, make_octets, make_total
from anydml.engines.cpu.kernels.pack import Packing, make_pack
from anydml.engines.cpu.kernels.rare import find_rare
from anydml.engines.cpu.kernels.row import Shape, givens
from anydml.engines.cpu.kernels.rows import OUTER_RANK, VIEWS
from anydml.engines.cpu.kernels.skinny import WIDE, Skinny, make_dots, make_strip
from anydml.engines.cpu.kernels.tile import CHAIN, Tile, make_tile
from anydml.engines.cpu.programs.map import VECTOR, lanes_of, row_kernel, row_letter, word_of
from anydml.engines.cpu.scratch import get_scratch
from anydml.engines.cpu.tiles import has_dots, tile_for
from anydml.engines.threads import get_num_threads
from anydml.enums import DataType
from anydml.ir.expressions import const, load
from anydml.ir.patterns import match_contraction
from anydml.ir.trees import rewrite, walk, write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cpu.build import Kernel
    from anydml.ir.expressions import Expr
    from anydml.ir.patterns import Contraction
    from anydml.ir.verbs import Reduce

SUMS = {DataType.FLOAT32: "f32", DataType.INT32: "i32", DataType.UINT32: "i32"}
"""Types of sums; integers wrap, whatever their sign."""
TURNS = 4
"""Units for each thread, so that one that is held up leaves its share to the others."""
FEW_TURNS = 2
"""Units for each thread of a product of a few rows: longer rows are read at higher speed."""
FLOPS = 4
"""Operations in the time that a byte is moved in."""
PACKING = 8
"""Products in the time that an element is packed in."""
SKINNY = 8
"""Rows up to which columns are not packed: each is read once, or twice."""


class Lie(NamedTuple):
    """A view as it lies along the dimensions of a contraction: strides in bytes."""

    tensor: str
    """Empty for a coordinate, and for what lies in the scratch."""
    offset: int
    strides: tuple[int, ...]
    """By dimension of the walk."""
    width: int

    def along(self, dimensions: Sequence[int]) -> int:
        """The stride of dimensions that are one."""
        return self.strides[dimensions[-1]] if dimensions else 0


@dataclass(frozen=True, slots=True)
class Section:
    """The words of a factor or of the result, with the places of addresses in them."""

    words: tuple[int, ...]
    tensors: tuple[tuple[str, int], ...]
    """Of each view, with its offset in bytes."""

    def bind(self, places: Mapping[str, int]) -> tuple[int, ...]:
        """The words with the addresses."""
        addresses = [places[tensor] + offset if tensor else offset for tensor, offset in self.tensors]
        return (*self.words[:3], *addresses, *self.words[3:])


@dataclass(frozen=True, slots=True)
class ContractProgram:
    """A contraction, planned."""

    kernel: Kernel
    fixed: tuple[int, ...]
    """After the scratch, and before the sections."""
    sections: tuple[Section, ...]
    units: int
    size: int

    def bind(self, places: Mapping[str, int]) -> Callable[[], Any]:
        """Put the addresses in."""
        words = [*get_scratch(), *self.fixed]
        for section in self.sections:
            words += section.bind(places)
        return make_dispatch(self.kernel, words, self.units, self.size)


class _Octets(NamedTuple):
    """A product of bytes."""

    factors: tuple[tuple[Section, Kernel], ...]
    """With what packs each."""
    zeros: tuple[Section, ...]
    """Of both zero points; empty where there is nothing to mend."""
    kernels: tuple[int, ...]


def _byte_less_zero(value: Expr) -> tuple[Expr, Expr] | None:
    """The load of a byte, and what is taken off it, in a factor of 32 bits; None for other factors."""
    number, zero = value.args if value.op == "sub" else (value, const(0, value.type))
    leaf = number.args[0] if number.op == "cast" else number
    is_byte = leaf.op == "load" and leaf.type in (DataType.INT8, DataType.UINT8)
    return (leaf, zero) if is_byte else None


def _folded(value: Expr) -> Expr:
    """A difference of constants as one."""
    if value.op == "sub" and all(arg.op == "const" for arg in value.args):
        return const(value.args[0].value - value.args[1].value, value.type)
    return value


def plan_contract(primitive: Reduce) -> ContractProgram | None:
    """Tiles over packed panels, for sums of FLOAT32 and of 32-bit integers."""
    found = match_contraction(primitive)
    if found is None or found.fold.type not in SUMS or not all(primitive.sizes):
        return None
    if any(node.op == "fetch" for node in walk(primitive.value)):
        return None
    plan = _Plan(primitive, found)
    return plan.make() if plan.fits else None


class _Plan:
    def __init__(self, primitive: Reduce, found: Contraction) -> None:
        self.primitive, self.found = primitive, found
        self.kind = SUMS[found.fold.type]  # type: ignore[index]  # asked before
        self.left, self.right = found.left, found.right
        self.sum = load(len(primitive.sources), found.fold.type)  # type: ignore[arg-type]
        self.finish = rewrite(primitive.value, lambda node: self.sum if node is found.fold else node)
        rank = len(found.sizes)
        target = primitive.target
        strides = (*target.strides, *[0] * (rank - len(target.strides)))
        width = target.data_type.size_in_bytes
        self.target = Lie(target.tensor, target.offset * width, tuple(s * width for s in strides), width)
        self._sort()

    def _lie(self, node: Expr) -> Lie:
        rank = len(self.found.sizes)
        if node is self.sum:
            return Lie("", 0, (0,) * rank, 4)
        if node.op == "coordinate":
            return Lie("", 0, tuple(int(k == node.value) for k in range(rank)), 1)
        view = self.primitive.sources[int(node.value)]
        width = view.data_type.size_in_bytes
        return Lie(view.tensor, view.offset * width, tuple(s * width for s in view.strides), width)

    def _lies(self, *values: Expr) -> list[Lie]:
        return [self._lie(node) for node in walk(*values) if node.op in ("load", "coordinate")]

    def _sort(self) -> None:
        """Make one dimension each of the rows, the columns and what is folded; others are of the batch."""
        found = self.found
        everyone = [*self._lies(self.left, self.right, self.finish), self.target]
        self.rows, more_rows = self._merge(found.rows, everyone)
        self.columns, more_columns = self._merge(found.columns, everyone)
        self.folded, self.unmerged = self._merge(found.folded, everyone)
        self.batch = (*found.batch, *more_rows, *more_columns)
        m, n = self.target.along(self.rows), self.target.along(self.columns)
        few = min(self._count(self.rows), self._count(self.columns)) <= SKINNY
        turned = self._count(self.rows) > self._count(self.columns) if few else m == self.target.width != n
        if turned:
            self.left, self.right, self.rows, self.columns = self.right, self.left, self.columns, self.rows
        self.m, self.n, self.k = map(self._count, (self.rows, self.columns, self.folded))

    def _count(self, dimensions: Sequence[int]) -> int:
        return math.prod(self.found.sizes[k] for k in dimensions)

    def _merge(self, dimensions: tuple[int, ...], lies: Sequence[Lie]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The most elements of some dimensions that lie as one does, and the dimensions that do not."""
        runs: list[tuple[int, ...]] = []
        for k in dimensions:
            size = self.found.sizes[k]
            if runs and all(lie.strides[runs[-1][-1]] == lie.strides[k] * size for lie in lies):
                runs[-1] += (k,)
            else:
                runs.append((k,))
        best = max(runs, key=self._count, default=())
        return best, tuple(k for run in runs if run is not best for k in run)

    @property
    def fits(self) -> bool:
        """Whether the tiles serve it."""
        views = len(self._lies(self.left, self.right, self.finish))
        return self.m * self.n > 1 and not self.unmerged and len(self.batch) <= OUTER_RANK and views < VIEWS

    def make(self) -> ContractProgram:
        """Choose tiles, kernels and units."""
        tile = tile_for(self.kind, self.m)
        skinny = self._skinny(tile)
        octets = None if skinny else self._octets(tile)
        if octets:
            tile = tile._replace(kind="i8")
        columns = tile.vectors * tile.lanes
        left, left_mode, pack_left = self._factor(self.left, self.rows, tile.rows, tile.pitch)
        right, right_mode, pack_right = self._factor(self.right, self.columns, columns, columns)
        is_direct = self.finish is self.sum and self.target.along(self.columns) == 4
        is_direct = is_direct and not skinny and not (octets and octets.zeros)
        row_panels, column_panels = -(-self.m // tile.rows), -(-self.n // columns)
        row_units, column_units, block = self._units(
            row_panels, column_panels, tile, is_direct and self.n % tile.lanes == 0, skinny is not None
        )
        lie = self._lies(self.right)[0]
        if right_mode == AS_IT_LIES and lie.along(self.columns) == lie.width:
            is_small = row_panels <= 2 * row_units or self.k * self.n <= 8192
            right_mode = UNPACKED if is_small and lie.width == 4 else SIDE_BY_SIDE
        if octets:
            (left, pack_left), (right, pack_right) = octets.factors
            left_mode, right_mode = AS_IT_LIES, SIDE_BY_SIDE if lie.along(self.columns) == 1 else AS_IT_LIES
        if skinny:
            right, right_mode = skinny
            if right_mode == DOTS:
                _, left, left_mode = self._computed(self.left, self.rows, is_along=True)
        tiles = [
            tile._replace(rows=rows, vectors=vectors)
            for rows in (tile.rows, self.m % tile.rows or tile.rows)
            for vectors in (tile.vectors, -(-(self.n % columns or columns) // tile.lanes))
        ]
        sections = (left, right, self._result(), *(octets.zeros if octets else ()))
        first = HEADER + len(WORDS) + len(self.batch)
        places = [first]
        for section in sections:
            places.append(places[-1] + len(section.words) + len(section.tensors))
        fixed = (
            self.m, self.n, self.k, row_units, column_units, row_panels, column_panels, tile.rows, columns, block,
            4 * tile.pitch, tile.lanes, pack_left.address, pack_right.address,
            *(get_kernel(each.name, functools.partial(make_tile, each)).address for each in tiles),
            left_mode, right_mode, int(is_direct), *places[:3], len(self.batch), FOUR if octets else 1,
            *((len(octets.zeros), *octets.kernels) if octets else (0,) * 4), *(places[3:5] if octets and octets.zeros else (0, 0)),
            *(self.found.sizes[k] for k in self.batch),
        )  # fmt: skip
        units = row_units * column_units * self._count(self.batch)
        return ContractProgram(get_kernel("contract", make_contract), fixed, sections, units, self._size())

    def _size(self) -> int:
        return 2 * self.m * self.n * self.k * self._count(self.batch) // FLOPS

    def _units(
        self, row_panels: int, column_panels: int, tile: Tile, is_direct: bool, is_skinny: bool
    ) -> tuple[int, int, int]:
        """Parts of the rows and of the columns, and the steps of a block.

        Of those with enough units for the threads the ones that take the least time, both factors' packing for each
        unit counted: a unit packs its rows and its columns.
        """
        threads, batch = get_num_threads(), self._count(self.batch)
        threads = 1 if self._size() <= SMALL else threads
        wanted = 1 if threads == 1 else (FEW_TURNS if is_skinny else TURNS) * threads
        width = tile.vectors * tile.lanes
        fewest = -(-column_panels // ((LONG if is_skinny else COLUMNS) // width))
        wanted = min(max(wanted, batch * fewest), batch * row_panels * column_panels)
        best = None
        for columns in range(fewest, min(column_panels, max(2 * wanted, fewest)) + 1):
            n = -(-column_panels // columns) * width
            block = self._block(n, tile.kind == "i8")
            lowest = -(-wanted // (batch * columns))
            if self.k > block and not is_direct:  # results lie in the scratch until the last block
                lowest = max(lowest, -(-row_panels // (RESULT // (4 * n) // tile.rows)))
            for rows in range(min(lowest, row_panels), min(2 * lowest, row_panels) + 1):
                m = -(-row_panels // rows) * tile.rows
                time = -(-batch * rows * columns // threads) * (m * n + PACKING * (m + n))
                if best is None or time < best[0]:
                    best = time, rows, columns, block
        assert best  # noqa: S101 - for type checkers: there is one column at least
        return best[1:]

    def _block(self, columns: int, is_bytes: bool) -> int:
        """The steps that are packed at once for so many columns, whole chains: sums do not depend on it."""
        most = max(min(RIGHT // (4 * columns), BLOCK) // CHAIN, 1) * (FOUR if is_bytes else 1)
        chains = -(-self.k // CHAIN)
        return -(-chains // -(-chains // most)) * CHAIN

    def _factor(self, value: Expr, across: tuple[int, ...], panel: int, pitch: int) -> tuple[Section, int, Kernel]:
        """The section of a factor, how it is brought, and what packs it."""
        leaf = value.args[0] if value.op == "cast" and value.args[0].type is DataType.FLOAT16 else value
        if leaf.op == "load":
            lie, kind = self._lie(leaf), self.kind if leaf is value else "f16"
            step, on = lie.along(self.folded), lie.along(across)
            lies = "p" if on == lie.width else "t" if step == lie.width else "s"
            section, mode = self._section((), [lie], [step], [on]), AS_IT_LIES
        else:
            lies, section, mode = self._computed(value, across)
            kind = self.kind
        packing = Packing(lies, kind, panel, pitch)
        return section, mode, get_kernel(packing.name, functools.partial(make_pack, packing))

    def _skinny(self, tile: Tile) -> tuple[Section, int] | None:
        """The section of a right factor that is read once, for a few rows; None where it lies neither way."""
        nodes = list(walk(self.right))
        leaves = tuple(node for node in nodes if node.op in ("load", "coordinate"))
        if self.m > SKINNY or self.n * self.k < SMALL // 8 or find_rare(nodes):
            return None
        is_across = self._is_across(self.right, self.columns)
        inner, outer = (self.columns, self.folded) if is_across else (self.folded, self.columns)
        lies = [self._lie(node) for node in leaves]
        letters = "".join(row_letter(2 if lie.along(inner) % lie.width else lie.along(inner) // lie.width) for lie in lies)
        if "p" not in letters or (not is_across and self.m * (self.k + 2 * WIDE) * 4 > RIGHT):
            return None
        shape = Skinny(self.m, tile.lanes, tile.pitch, tile.by_lane, leaves, letters)
        family, make = ("strip", make_strip) if is_across else ("dots", make_dots)
        key = f"{write(self.right, numbers=False)} {shape[:4]} {letters}"
        name = f"{family} {hashlib.sha256(key.encode()).hexdigest()[:32]}"
        kernel = get_kernel(name, functools.partial(make, self.right, shape))
        numbers = [word_of(node) for node in givens(nodes)]
        nowhere = Lie("", 0, (), 4)
        steps, across = [lie.along(inner) for lie in lies], [lie.along(outer) for lie in lies]
        section = self._section((kernel.address, *numbers), [*lies, nowhere], [*steps, 4], [*across, 0])
        return section, STRIP if is_across else DOTS

    def _octets(self, tile: Tile) -> _Octets | None:
        """How bytes less their zero points are multiplied by dot instructions; None where they are not, or cannot be."""
        found = [_byte_less_zero(value) for value in (self.left, self.right)]
        if self.kind != "i32" or None in found or not has_dots(tile.lanes):
            return None
        columns = tile.vectors * tile.lanes
        factors, zeros, totals = [], [], []
        for part, across, panel, pitch in (
            (found[0], self.rows, tile.rows, tile.pitch),
            (found[1], self.columns, columns, columns),
        ):
            assert part is not None  # noqa: S101 - for type checkers
            leaf, zero = part
            if self.folded and any(lie.along(self.folded) for lie in self._lies(zero)):
                return None
            lie, is_left = self._lie(leaf), across is self.rows
            step, on = lie.along(self.folded), lie.along(across)
            lies = "p" if on == 1 else "t" if step == 1 else "s"
            # An Arm takes signed bytes, an x86 unsigned ones on the left.
            flips = (leaf.type is DataType.UINT8) != (is_left and not IS_ARM)
            shape = Octets(lies, flips, panel, pitch, tile.lanes, IS_ARM, is_left)
            pack = get_kernel(f"octets {shape.name}", functools.partial(make_octets, shape))
            factors.append((self._section((), [lie], [step], [on]), pack))
            totals.append(get_kernel(f"total {shape.name}", functools.partial(make_total, shape)).address)
            offset = 0 if not flips else 128 if leaf.type is DataType.UINT8 else -128
            zeros.append((zero - offset, across))
        kernels = (*totals, get_kernel("mend", make_mend).address)
        if all(value.op == "const" and not value.value for value in (_folded(value) for value, _ in zeros)):
            return _Octets(tuple(factors), (), kernels)
        sections = tuple(self._mapped(value, across, (), Lie("", 0, (), 4), 4) for value, across in zeros)
        return _Octets(tuple(factors), sections, kernels)

    def _is_across(self, value: Expr, across: tuple[int, ...]) -> bool:
        """Whether more of a factor lies along its rows or columns than along what is folded."""
        lies = self._lies(value)
        return sum(lie.along(across) == lie.width for lie in lies) > sum(
            lie.along(self.folded) == lie.width for lie in lies
        )

    def _computed(self, value: Expr, across: tuple[int, ...], is_along: bool = False) -> tuple[str, Section, int]:
        """A factor that rows of a map compute: along what most of it lies along."""
        is_across = not is_along and self._is_across(value, across)
        inner, outer = (across, self.folded) if is_across else (self.folded, across)
        section = self._mapped(value, inner, outer, Lie("", 0, (), 4), 4)
        return ("p", section, ALONG_ROWS) if is_across else ("t", section, ALONG_STEPS)

    def _result(self) -> Section:
        return self._mapped(self.finish, self.columns, self.rows, self.target, self.target.along(self.columns))

    def _mapped(
        self, value: Expr, inner: tuple[int, ...], outer: tuple[int, ...], target: Lie, step: int
    ) -> Section:
        nodes = list(walk(value))
        leaves = [node for node in nodes if node.op in ("load", "coordinate")]
        # The sum comes first: the driver says where it lies.
        leaves.sort(key=lambda node: node is not self.sum)
        lies = [self._lie(node) for node in leaves]
        steps = [4 if node is self.sum else lie.along(inner) for node, lie in zip(leaves, lies, strict=True)]
        widths = [lie.width for lie in (*lies, target)]
        letters = "".join(row_letter(s // w if s % w == 0 else 2) for s, w in zip([*steps, step], widths, strict=True))
        widest = max(1 if node.type is None else node.type.size_in_bytes for node in nodes)
        row = row_kernel(value, Shape(tuple(leaves), letters, lanes_of(nodes, widest, letters, VECTOR), stream=False))
        numbers = [word_of(node) for node in givens(nodes)]
        across = [*(lie.along(outer) for lie in lies), target.along(outer) if target.strides else 0]
        return self._section((row.address, *numbers), [*lies, target], [*steps, step], across)

    def _section(
        self, line: tuple[int, ...], lies: Sequence[Lie], steps: Sequence[int], across: Sequence[int]
    ) -> Section:
        address, *numbers = line or (0,)
        batch = [lie.strides[k] if lie.strides else 0 for k in self.batch for lie in lies]
        words = (address, len(lies), len(numbers), *steps, *numbers, *across, *batch)
        return Section(words, tuple((lie.tensor, lie.offset) for lie in lies))
