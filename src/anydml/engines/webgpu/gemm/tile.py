"""Register tiles: a workgroup has a tile of a product's results, an invocation some of them in registers.

Both factors are read in steps along the sum, whatever they are computed of, into workgroup memory, of which there are
two buffers, so that a step has one barrier; what follows the sums is computed of them in registers. Windows are
factors whose elements may lie outside of their source.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.engines.webgpu.codegen.leaves import QUAD, Leaf, outside_text, own_views, steps_along, take_leaves
from anydml.engines.webgpu.codegen.walks import COMPUTED, TYPES, Leaves, compute, places, take_apart
from anydml.engines.webgpu.codegen.wgsl import WGSL, sum_of
from anydml.engines.webgpu.device import WORD
from anydml.engines.webgpu.launch import LANES
from anydml.engines.webgpu.rows.map import write
from anydml.ir.expressions import Expr, coordinate, load
from anydml.ir.legalise import legalise
from anydml.ir.loops import Loops, runs
from anydml.ir.trees import loads, rewrite, walk
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.engines.webgpu.codegen.wgsl import Body
    from anydml.engines.webgpu.launch import Kernel
    from anydml.ir.contraction import Contraction
    from anydml.ir.legalise import Legal
    from anydml.ir.verbs import Reduce

F16, F32 = DataType.FLOAT16, DataType.FLOAT32
_PARTS = "xyzw"


class TileShape(NamedTuple):
    """How a product is cut: rows, columns and terms of a workgroup's tile, rows and columns of an invocation."""

    rows: int
    columns: int
    depth: int
    down: int
    across: int
    alone: float = 0.1
    """Microseconds that a tile takes for a term on a processor of its own."""
    among: float = 0.1
    """The same where several share one."""

    @property
    def memory(self) -> int:
        """Bytes of workgroup memory: two steps of both factors."""
        return 2 * self.depth * (self.rows + self.columns) * WORD

    @property
    def quads(self) -> int:
        """Of columns, an invocation's."""
        return self.across // QUAD


# Factors


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor of a contraction: a tree of numbers of 32 bits over its leaves."""

    value: Expr
    leaves: tuple[Leaf, ...]
    loads: dict[Expr, int]
    """By node of the tree, the number of its leaf."""
    coordinates: tuple[Expr, ...]

    @property
    def is_read(self) -> bool:
        """Whether it is read and no more."""
        return self.value in self.loads


def factor_of(value: Expr, primitive: Reduce) -> Factor | None:
    """A factor, if it is computed of elements of at most 32 bits, coordinates and numbers."""
    taken = take_leaves([value], primitive)
    if taken is None or value.type not in COMPUTED:
        return None
    (tree,), leaves = taken
    sizes = primitive.sizes
    own = own_views(leaves, sizes)
    legal = legalise(Map(own, View("\0value", value.type, sizes, packed_strides(sizes)), tree), TYPES)
    if len(legal.writes) != 1 or legal.insertions:
        return None
    root = legal.writes[0].value
    nodes = list(walk(root))
    if any(node.op == "fetch" for node in nodes):
        return None
    names = {view.tensor: k for k, view in enumerate(own)}
    loads = {node: names[legal.sources[int(node.value)].tensor] for node in nodes if node.op == "load"}
    return Factor(root, leaves, loads, tuple(node for node in nodes if node.op == "coordinate"))


# The walk


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction by runs of dimensions that lie as one does; of rows and of columns the last run is the fastest."""

    primitive: Reduce
    found: Contraction
    left: Factor
    right: Factor
    batch: tuple[tuple[int, ...], ...]
    rows: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[int, ...], ...]
    terms: tuple[tuple[int, ...], ...]

    def size(self, run: tuple[int, ...]) -> int:
        """The elements of a run."""
        return self.found.count(run)

    def sizes(self, group: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
        """Of some runs."""
        return tuple(map(self.size, group))

    def count(self, group: Sequence[tuple[int, ...]]) -> int:
        """The elements of some runs."""
        return math.prod(self.sizes(group))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, columns and terms."""
        return self.count(self.rows), self.count(self.columns), self.count(self.terms)


def product_of(primitive: Reduce, found: Contraction) -> Product | None:
    """A contraction with its results laid out so that neighbours in memory are of neighbouring columns.

    None where the factors or the sum are not computed in 32 bits.
    """
    if not found.folded or found.fold.type not in COMPUTED or primitive.checks:
        return None
    target = primitive.target.strides
    kept = [k for k in (*found.rows, *found.columns) if target[k]]
    nearest = min(kept, key=lambda k: (abs(target[k]), -k), default=None)
    if nearest is not None and nearest in found.rows:
        found = found.transposed
    left, right = factor_of(found.left, primitive), factor_of(found.right, primitive)
    if left is None or right is None:
        return None
    rank = len(primitive.sizes)
    counted = {int(node.value) for node in walk(primitive.value, known=(found.fold,)) if node.op == "coordinate"}
    counted |= {int(node.value) for factor in (left, right) for node in factor.coordinates}
    leaves = (*left.leaves, *right.leaves)
    rows: list[tuple[int, ...]] = [(*target, *(0,) * (rank - len(target)))]
    rows += [leaf.strides for leaf in leaves]
    rows += [tuple(axis.steps.get(k, 0) for k in range(rank)) for leaf in leaves for axis in leaf.limits]
    rows += [tuple(int(k == one) for k in range(rank)) for one in counted]
    rows += [
        primitive.sources[int(node.value)].strides
        for node in walk(primitive.value, known=(found.fold,))
        if node.op == "load"
    ]

    def in_runs(group: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        # Along the target's memory, the fastest last: so are stores, and words of narrow elements.
        ordered = sorted(group, key=lambda k: (-abs(rows[0][k]), k))
        return tuple(runs(ordered, found.sizes, rows))

    return Product(primitive, found, left, right, *map(in_runs, (found.batch, found.rows, found.columns, found.folded)))


# The kernel


def tile_kernel(
    product: Product, shape: TileShape, body: Body, *, has_quads: bool = True
) -> tuple[Kernel, frozenset[str]]:
    """The kernel of a product in tiles of a shape, and the tensors of which it moves four elements at once.

    Those must lie at multiples of 16 bytes; without quads there are none.
    """
    tile = _Tile(product, shape, body, has_quads=has_quads)
    kernel = tile.kernel()
    sides = [side for side in (tile.left, tile.right) if side.has_quads]
    read = {leaf.view.tensor for side in sides for leaf in side.factor.leaves}
    return kernel, frozenset(read | tile.aligned)


class _Side:
    """A factor's tile: which invocation reads which of its elements, and where they lie."""

    def __init__(self, tile: _Tile, name: str, factor: Factor, lines: int, has_quads: bool) -> None:
        self.tile, self.body, self.name, self.factor, self.lines = tile, tile.body, name, factor, lines
        product = tile.product
        self.group = product.rows if name == "left" else product.columns
        self.depth = tile.shape.depth
        self.kind = WGSL.types[product.found.fold.type]
        last, inner = (self.group[-1] if self.group else None), tile.inner
        along = last[-1] if last else None

        def fits(run: tuple[int, ...] | None) -> bool:
            if run is None or not has_quads or product.size(run) % QUAD:
                return False
            leaves = factor.leaves
            of_run = run[-1]
            wide = any(leaf.strides[of_run] for leaf in leaves)
            return wide and all(leaf.has_quads(of_run, product.size(run)) for leaf in leaves)

        self.by_line_quads = fits(last)
        self.by_term_quads = not self.by_line_quads and inner is not None and fits(inner)
        self.has_quads = self.by_line_quads or self.by_term_quads
        near_line = along is not None and any(abs(leaf.strides[along]) == 1 for leaf in factor.leaves)
        deepest = tile.term_order[-1][-1]
        near_term = any(abs(leaf.strides[deepest]) == 1 for leaf in factor.leaves)
        self.is_by_line = self.by_line_quads or (not self.by_term_quads and (near_line or not near_term))
        """Whether neighbouring invocations read neighbouring lines: rows of the left factor, columns of the right."""
        wide = (QUAD if self.by_line_quads else 1, QUAD if self.by_term_quads else 1)
        self.units = (self.lines // wide[0], self.depth // wide[1])
        """Of the tile: along lines, along terms."""
        total = math.prod(self.units)
        self.slots = max(total // LANES, 1)
        self.is_partial = total < LANES
        """Whether some invocations read nothing."""

    @property
    def element(self) -> str:
        """The type of what an invocation reads at once."""
        return f"vec4<{self.kind}>" if self.has_quads else self.kind

    @property
    def line_slots(self) -> int:
        """Lines that an invocation reads of."""
        return 1 if self.is_by_line else self.slots

    @property
    def term_slots(self) -> int:
        """Terms that an invocation reads at a step."""
        return self.slots if self.is_by_line else 1

    def begin(self, first: str, size: str) -> None:
        """Lines of where an invocation's elements lie, and the variables that hold them."""
        body, product, name = self.body, self.tile.product, self.name
        lines, terms = self.units
        if self.is_by_line:
            body.say(f"let {name}_l0 = lane % {lines}u;", f"let {name}_part = lane / {lines}u;")
            for i in range(self.slots):
                body.say(f"let {name}_t{i} = {name}_part * {self.slots}u + {i}u;")
        else:
            body.say(f"let {name}_t0 = lane % {terms}u;", f"let {name}_part = lane / {terms}u;")
            for i in range(self.slots):
                body.say(f"let {name}_l{i} = {name}_part + {i * (LANES // terms)}u;")
        wide = QUAD if self.by_line_quads else 1
        for i in range(self.line_slots):
            # Past the end the last line is read again: what comes of it is not written.
            last = f"{size} - {wide}u"
            body.say(f"let {name}_line{i} = min({first} + {name}_l{i} * {wide}u, {last});")
            coords = (
                take_apart(body, f"{name}_line{i}", Loops(product.sizes(self.group), (), ()), f"{name}_c{i}_")
                if self.group
                else []
            )
            groups = (*product.batch, *self.group)
            names = [*self.tile.batch_names, *coords]
            for k, leaf in enumerate(self.factor.leaves):
                body.say(f"let {name}_at{i}_{k} = {self._sum(names, groups, leaf.strides, leaf.start, (name, k))};")
                for m, axis in enumerate(leaf.limits):
                    steps = steps_along(axis, len(leaf.strides))
                    text = self._sum(names, groups, steps, axis.first, (name, k, "limit", m))
                    body.say(f"let {name}_in{i}_{k}_{m} = {text};")
        for slot in range(self.slots):
            body.say(f"var {name}_g{slot}: {self.element};")
        if self.tile.inner is not None:
            for i, (k, leaf) in itertools.product(range(self.line_slots), enumerate(self.factor.leaves)):
                body.say(f"var {name}_p{i}_{k}: u32;", *[f"var {name}_is{i}_{k}: bool;"] * self._is_held(leaf))

    def _is_held(self, leaf: Leaf) -> bool:
        """Whether all elements of a line along the steps' run lie inside, or none does."""
        inner = self.tile.inner
        return bool(leaf.limits) and inner is not None and not any(axis.steps.get(inner[-1]) for axis in leaf.limits)

    def _is_quad(self, leaf: Leaf) -> bool:
        along = self.group[-1][-1] if self.by_line_quads else self.tile.term_order[-1][-1]
        return self.has_quads and leaf.strides[along] != 0

    def _is_indexed(self, leaf: Leaf) -> bool:
        """Whether the index in the array is what goes on with the steps; else it is the element's number."""
        return not leaf.limits or self._is_held(leaf)

    def restart(self) -> None:
        """Lines that find where the elements of a line lie, and whether they do, at the first step along a run."""
        body, name, tile = self.body, self.name, self.tile
        order = tile.term_order
        names = [*tile.outer_names, f"{name}_t0" + (f" * {QUAD}u" if self.by_term_quads else "")]
        for i, (k, leaf) in itertools.product(range(self.line_slots), enumerate(self.factor.leaves)):
            shift = self._sum(names, order, leaf.strides, None, (name, k))
            at = f"{name}_at{i}_{k}" + (f" + {shift}" if shift != "0u" else "")
            index = leaf.place_of(body, at, is_quad=self._is_quad(leaf)) if self._is_indexed(leaf) else at
            body.say(f"{name}_p{i}_{k} = {index};")
            if self._is_held(leaf):
                body.say(f"{name}_is{i}_{k} = {self._inside(i, k, leaf, names)};")

    def _inside(self, line: int, k: int, leaf: Leaf, names: Sequence[str]) -> str:
        """Whether an element lies within its source."""
        body, name, tests = self.body, self.name, []
        for m, axis in enumerate(leaf.limits):
            steps = steps_along(axis, len(leaf.strides))
            moved = self._sum(names, self.tile.term_order, steps, None, (name, k, "limit", m))
            place = f"{name}_in{line}_{k}_{m}" + (f" + {moved}" if moved != "0u" else "")
            tests.append(f"{place} < {body.number(axis.size, (name, k, 'limit', m, 'size'))}")
        return " && ".join(tests)

    def advance(self) -> None:
        """Lines that go on to the next step along the run."""
        for i, (k, leaf) in itertools.product(range(self.line_slots), enumerate(self.factor.leaves)):
            if far := self._far(k, leaf, self.depth):
                self.body.say(f"{self.name}_p{i}_{k} += {far};")

    def _far(self, k: int, leaf: Leaf, terms: int) -> str:
        """By how much the index of an element goes on with so many terms; nothing where it stays."""
        assert self.tile.inner is not None  # noqa: S101 - for type checkers: without it there is no index
        step = leaf.strides[self.tile.inner[-1]] * terms
        step //= QUAD if self._is_quad(leaf) and self._is_indexed(leaf) else 1
        return self.body.number(step, (self.name, k, "on", terms)) if step else ""

    def _sum(
        self,
        names: Sequence[str],
        groups: Sequence[tuple[int, ...]],
        strides: Sequence[int],
        first: int | None,
        key: tuple[object, ...],
    ) -> str:
        steps = [strides[run[-1]] for run in groups]
        texts = [
            self.body.number(step, (*key, run) if step not in (0, 1) else None)
            for step, run in zip(steps, groups, strict=True)
        ]
        start = "" if first is None else self.body.number(first, (*key, "first") if first else None)
        return sum_of(start, names, texts)

    def fetch(self) -> None:
        """Lines that read the elements of a step into the variables."""
        body, name, tile, product = self.body, self.name, self.tile, self.tile.product
        if self.is_partial:
            body.say(f"if (lane < {math.prod(self.units)}u) {{")
        wide = QUAD if self.by_term_quads else 1
        terms = product.count(product.terms) if tile.inner is None else product.size(tile.inner)
        with body.scope():
            by_term = []
            for t in range(self.term_slots):
                body.say(f"let {name}_k{t} = deep + {name}_t{t}{f' * {wide}u' if wide > 1 else ''};")
                if tile.inner is not None:
                    names = [*tile.outer_names, f"{name}_k{t}"]
                else:
                    loops = Loops(product.sizes(product.terms), (), ())
                    names = take_apart(body, f"{name}_k{t}", loops, f"{name}_d{t}_")
                by_term.append(names)
            is_guarded = terms % self.depth != 0
            for i in range(self.line_slots):
                read = {} if is_guarded else self._held(i)
                for t, names in enumerate(by_term):
                    guard = f"{name}_k{t} < {tile.terms}" if is_guarded else ""
                    self._read(max(t, i), i, t, names, guard, read)
        if self.is_partial:
            body.say("}")

    def _outside(self, leaf: Leaf, variable: str) -> None:
        """A variable for what is read, which holds the number that stands outside."""
        kind = WGSL.types[leaf.wide]
        kind = f"vec4<{kind}>" if self._is_quad(leaf) else kind
        self.body.say(f"var {variable} = {kind}({outside_text(self.body, leaf)});")

    def _held(self, line: int) -> dict[tuple[int, int], str]:
        """Read the elements of a line whose place is tested once for all; their variables, by term and leaf."""
        found = {}
        for k, leaf in enumerate(self.factor.leaves):
            if not self._is_held(leaf):
                continue
            for t in range(self.term_slots):
                found[t, k] = f"{self.name}_x{max(t, line)}_{k}"
                self._outside(leaf, found[t, k])
            self.body.say(f"if ({self.name}_is{line}_{k}) {{")
            for t in range(self.term_slots):
                self.body.say(f"{found[t, k]} = {self._element(line, t, k, leaf, ())};")
            self.body.say("}")
        return found

    def _element(self, line: int, term: int, k: int, leaf: Leaf, names: Sequence[str]) -> str:
        """What a leaf reads, at coordinates where steps go along all terms."""
        body, name, is_quad = self.body, self.name, self._is_quad(leaf)
        if self.tile.inner is not None:
            far = self._far(k, leaf, term) if term else ""
            at = f"{name}_p{line}_{k}" + (f" + {far}" if far else "")
        else:
            shift = self._sum(names, self.tile.term_order, leaf.strides, None, (name, k))
            at = f"{name}_at{line}_{k}" + (f" + {shift}" if shift != "0u" else "")
        if self.tile.inner is None or not self._is_indexed(leaf):
            at = leaf.place_of(body, at, is_quad=is_quad)
        return leaf.element(body, at, is_quad=is_quad)

    def _read(
        self, slot: int, line: int, term: int, names: Sequence[str], guard: str, known: Mapping[tuple[int, int], str]
    ) -> None:
        """Read one element, or four, of a line at a term's coordinates."""
        body, name, factor = self.body, self.name, self.factor
        if guard:
            body.say(f"{name}_g{slot} = {self.element}(0);", f"if ({guard}) {{")
        else:
            body.say("{")
        with body.scope():
            read: list[tuple[str, bool]] = []
            for k, leaf in enumerate(factor.leaves):
                variable = known.get((term, k), f"{name}_x{slot}_{k}")
                if not leaf.limits:
                    variable = body.line(self._element(line, term, k, leaf, names))
                elif (term, k) not in known:
                    inside = f"{name}_is{line}_{k}" if self._is_held(leaf) else self._inside(line, k, leaf, names)
                    self._outside(leaf, variable)
                    body.say(f"if ({inside}) {{")
                    body.say(f"{variable} = {self._element(line, term, k, leaf, names)};", "}")
                read.append((variable, self._is_quad(leaf)))
            if factor.is_read:
                text, is_quad = read[factor.loads[factor.value]]
                body.say(f"{name}_g{slot} = {text if is_quad or not self.has_quads else f'{self.element}({text})'};")
            else:
                parts = [self._computed(read, names, line, part) for part in range(QUAD if self.has_quads else 1)]
                body.say(
                    f"{name}_g{slot} = {self.element}({', '.join(parts)});"
                    if self.has_quads
                    else f"{name}_g{slot} = {parts[0]};"
                )
        body.say("}")

    def _computed(self, read: Sequence[tuple[str, bool]], names: Sequence[str], line: int, part: int) -> str:
        body, factor, product = self.body, self.factor, self.tile.product
        with body.scope():
            for node, k in factor.loads.items():
                text, is_quad = read[k]
                body.names[node] = f"{text}.{_PARTS[part]}" if is_quad else text
            lines = [f"{self.name}_c{line}_{k}" for k in range(len(self.group))]
            runs_of = (*product.batch, *self.group, *self.tile.term_order)
            own = dict(zip(runs_of, (*self.tile.batch_names, *lines, *names), strict=True))
            of_dimension = {run[0]: text for run, text in own.items() if len(run) == 1}
            moving = (self.group[-1] if self.by_line_quads else self.tile.term_order[-1])[0] if self.has_quads else None
            texts = {}
            for node in factor.coordinates:
                dimension = int(node.value)
                text = of_dimension.get(dimension, "0u")
                texts[node] = f"{text} + {part}u" if dimension == moving and part else text
            compute(body, [factor.value], texts, ())
            return body.names[factor.value]

    def store(self) -> None:
        """Lines that put what was read into a buffer of workgroup memory, by term and line."""
        body, name, quads = self.body, self.name, self.lines // QUAD
        if self.is_partial:
            body.say(f"if (lane < {math.prod(self.units)}u) {{")
        for slot in range(self.slots):
            line, term = (f"{name}_l0", f"{name}_t{slot}") if self.is_by_line else (f"{name}_l{slot}", f"{name}_t0")
            value = f"{name}_g{slot}"
            start = f"now * {self.depth * quads}u"
            if self.by_line_quads:
                body.say(f"{name}[{start} + {term} * {quads}u + {line}] = {value};")
            elif self.by_term_quads:
                for k, part in enumerate(_PARTS):
                    place = f"{start} + ({term} * 4u + {k}u) * {quads}u + {line} / 4u"
                    body.say(f"{name}[{place}][{line} % 4u] = {value}.{part};")
            else:
                body.say(f"{name}[{start} + {term} * {quads}u + {line} / 4u][{line} % 4u] = {value};")
        if self.is_partial:
            body.say("}")


class _Tile:
    def __init__(self, product: Product, shape: TileShape, body: Body, *, has_quads: bool) -> None:
        self.product, self.shape, self.body, self.has_quads = product, shape, body, has_quads
        self.aligned: set[str] = set()
        """The tensors of which four elements are read or written at once."""
        self.outer, self.inner = steps_of(product, shape.depth)
        self.term_order = [*self.outer, self.inner] if self.inner is not None else list(product.terms)
        self.outer_names = [f"o{k}" for k in range(len(self.outer))]
        self.batch_names: list[str] = []
        self.terms = body.number(
            product.size(self.inner) if self.inner is not None else product.count(product.terms), "terms"
        )
        self.left = _Side(self, "left", product.left, shape.rows, has_quads)
        self.right = _Side(self, "right", product.right, shape.columns, has_quads)

    def kernel(self) -> Kernel:
        product, shape, body = self.product, self.shape, self.body
        body.take(product.left.value, product.right.value)
        rows, columns, _ = product.shape
        tiles = (-(-rows // shape.rows), -(-columns // shape.columns))
        units = math.prod(tiles) * product.count(product.batch)
        kind = WGSL.types[product.found.fold.type]
        for side in (self.left, self.right):
            body.share(side.name, f"vec4<{kind}>", 2 * shape.depth * side.lines // QUAD)
        body.say(f"if (unit >= {body.number(units, 'units')}) {{ return; }}")
        across = body.number(tiles[1], "tiles")
        if product.batch:
            each = body.number(math.prod(tiles), "tiles of one")
            body.say(f"let matrix = unit / {each};", f"let tile = unit - matrix * {each};")
            self.batch_names = take_apart(body, "matrix", Loops(product.sizes(product.batch), (), ()), "m")
        else:
            body.say("let tile = unit;")
        body.say(
            f"let tile_row = tile / {across};",
            f"let row0 = tile_row * {shape.rows}u;",
            f"let column0 = (tile - tile_row * {across}) * {shape.columns}u;",
            f"let ty = lane / {shape.columns // shape.across}u;",
            f"let tx = lane % {shape.columns // shape.across}u;",
        )
        row_count, column_count = body.number(rows, "rows"), body.number(columns, "columns")
        self.left.begin("row0", row_count)
        self.right.begin("column0", column_count)
        for i in range(shape.down):
            for j in range(shape.quads):
                body.say(f"var c{i}_{j} = vec4<{kind}>(0);")
        self._loop()
        self._finish(row_count, column_count)
        return replace(body.kernel(units), rereads=True)

    def _loop(self) -> None:
        """The steps along the sum: the next one's elements are read while this one's are multiplied."""
        product, shape, body = self.product, self.shape, self.body
        inner = product.size(self.inner) if self.inner is not None else product.count(product.terms)
        steps = -(-inner // shape.depth) * product.count(self.outer)
        count = body.number(steps, "steps")
        body.say("var deep = 0u;", *(f"var {name} = 0u;" for name in self.outer_names), "var now = 0u;", "{")
        self._fetch(is_first=True)
        self._store()
        body.say("}", "workgroupBarrier();", f"for (var step = 1u; step <= {count}; step++) {{")
        body.say(f"let more = step < {count};", "if (more) {", f"deep += {shape.depth}u;")
        self._fetch(is_first=False)
        body.say("}")
        self._multiply()
        body.say("now = 1u - now;", "if (more) {")
        self._store()
        body.say("}", "workgroupBarrier();", "}")

    def _fetch(self, *, is_first: bool) -> None:
        """Read the elements of a step: the first one, or the next, which may begin along the run anew."""
        product, body, sides = self.product, self.body, (self.left, self.right)
        if self.outer and not is_first:
            body.say(f"if (deep >= {self.terms}) {{", "deep = 0u;")
            for k in reversed(range(len(self.outer))):
                size = body.number(product.size(self.outer[k]), ("outer", k))
                body.say(f"o{k} += 1u;")
                if k:
                    body.say(f"if (o{k} >= {size}) {{", f"o{k} = 0u;")
            body.say("}" * (len(self.outer) - 1))
        for side in sides if self.inner is not None and (is_first or self.outer) else ():
            side.restart()
        if self.outer and not is_first:
            body.say("} else {")
        for side in sides if self.inner is not None and not is_first else ():
            side.advance()
        if self.outer and not is_first:
            body.say("}")
        for side in sides:
            side.fetch()

    def _store(self) -> None:
        self.left.store()
        self.right.store()

    def _multiply(self) -> None:
        shape, body = self.shape, self.body
        rows, columns = shape.rows // QUAD, shape.columns // QUAD
        bands = max(shape.down // QUAD, 1)
        of = self.product.found.fold.type
        body.say(f"let left0 = now * {shape.depth * rows}u;", f"let right0 = now * {shape.depth * columns}u;")
        kind = WGSL.types[of]
        for k in range(shape.depth):
            for i in range(bands):
                if shape.down < QUAD:
                    body.say(f"let l{k}_{i} = left[left0 + {k * rows}u + ty / 4u][ty % 4u];")
                else:
                    body.say(f"let l{k}_{i} = left[left0 + {k * rows + i * rows // bands}u + ty];")
            for j in range(shape.quads):
                body.say(f"let r{k}_{j} = right[right0 + {k * columns + j * columns // shape.quads}u + tx];")
            for i in range(shape.down):
                number = f"l{k}_{i // QUAD}" + (f".{_PARTS[i % QUAD]}" if shape.down >= QUAD else "")
                for j in range(shape.quads):
                    c, a, b = f"c{i}_{j}", f"vec4<{kind}>({number})", f"r{k}_{j}"
                    body.say(f"{c} = fma({a}, {b}, {c});" if of is F32 else f"{c} = {c} + {a} * {b};")

    def _finish(self, row_count: str, column_count: str) -> None:
        """What follows the sums: written out for each where it is short, else a loop whose text is there once."""
        shape, body = self.shape, self.body
        kind = WGSL.types[self.product.found.fold.type]
        count = shape.down * shape.quads
        epilogue = _Epilogue.of(self)
        pairs = list(itertools.product(range(shape.down), range(shape.quads)))
        band, across = shape.rows // max(shape.down // QUAD, 1), shape.columns // shape.quads
        if count * QUAD * epilogue.nodes <= MOST_WRITTEN_OUT:
            quads = [f"across{j}" for j in range(shape.quads)]
            for j, quad in enumerate(quads):
                body.say(f"let {quad} = column0 + {j * across}u + tx * 4u;")
            starts = [self._first_column(epilogue, quad) for quad in quads]
            for i in range(shape.down):
                row = f"{i // QUAD * band}u + ty * 4u + {i % QUAD}u" if shape.down >= QUAD else "ty"
                body.say(f"let down{i} = row0 + {row};", f"if (down{i} < {row_count}) {{")
                down = self._row(f"down{i}")
                for j, (quad, start) in enumerate(zip(quads, starts, strict=True)):
                    body.say(f"if ({quad} < {column_count}) {{")
                    self._write(epilogue, down, quad, start, f"c{i}_{j}", column_count)
                    body.say("}")
                body.say("}")
            return
        body.say(f"for (var q = 0u; q < {count}u; q++) {{", f"var total = vec4<{kind}>(0);", "switch q {")
        for number, (i, j) in enumerate(pairs):
            label = f"case {number}u" if number < count - 1 else "default"
            body.say(f"{label}: {{ total = c{i}_{j}; }}")
        body.say("}", f"let qi = q / {shape.quads}u;")
        row = f"(qi / 4u) * {band}u + ty * 4u + qi % 4u" if shape.down >= QUAD else "ty"
        body.say(f"let row = row0 + {row};", f"let quad = column0 + (q % {shape.quads}u) * {across}u + tx * 4u;")
        body.say(f"if (row < {row_count} && quad < {column_count}) {{")
        start = self._first_column(epilogue, "quad")
        self._write(epilogue, self._row("row"), "quad", start, "total", column_count)
        body.say("}", "}")

    def _row(self, row: str) -> list[str]:
        """The coordinates of a row."""
        sizes = self.product.sizes(self.product.rows)
        return take_apart(self.body, row, Loops(sizes, (), ()), f"{row}_") if sizes else []

    def _column(self, column: str, prefix: str) -> list[str]:
        sizes = self.product.sizes(self.product.columns)
        return take_apart(self.body, column, Loops(sizes, (), ()), prefix) if sizes else []

    def _first_column(self, epilogue: _Epilogue, quad: str) -> list[str]:
        """The coordinates of the first of four columns, where all are of one run."""
        return self._column(quad, f"{quad}_") if epilogue.is_wide else []

    def _write(
        self,
        epilogue: _Epilogue,
        down: Sequence[str],
        quad: str,
        first: Sequence[str],
        total: str,
        column_count: str,
    ) -> None:
        """What follows four sums side by side, and its writes."""
        product, body, legal = self.product, self.body, epilogue.legal
        loops = epilogue.leaves.loops(legal.sizes, [view.strides for view in epilogue.leaves.targets])
        results = []
        body.take(*epilogue.leaves.values)
        for e in range(0, QUAD, epilogue.parts):
            with body.scope():
                if epilogue.is_wide:
                    last = [*first[:-1], f"({first[-1]} + {e}u)" if e else first[-1]]
                else:
                    body.say("{" if not e else f"if ({quad} + {e}u < {column_count}) {{")
                    last = self._column(f"({quad} + {e}u)", f"{quad}_")
                if epilogue.parts > 1:
                    last = [*last[:-1], f"({last[-1]} / {epilogue.parts}u)"]
                runs_of = (*product.batch, *product.rows, *product.columns)
                named = dict(zip(runs_of, (*self.batch_names, *down, *last), strict=True))
                found = places(body, loops, [named[run] for run in epilogue.order], "f")
                for node in epilogue.sums:
                    body.names[node] = f"{total}[{e + legal.sources[int(node.value)].offset}u]"
                leaves = epilogue.leaves
                texts = dict(zip((*leaves.loads, *leaves.coordinates), found, strict=False))
                compute(body, leaves.values, texts, legal.sources)
                found = found[len(leaves.loads) + len(leaves.coordinates) :]
                if not epilogue.is_wide:
                    write(body, legal, found)
                    body.say("}")
                    continue
                if not e:
                    body.say(f"let to = {found[0]};")
                results.append(f"bitcast<u32>({body.names[legal.writes[0].value]})")
        if epilogue.is_wide:
            target = legal.writes[0].target
            self.aligned.add(target.tensor)
            name = body.tensor(target, "vec4<u32>")
            body.say(f"{name}[({body.base(name)} + to) / 4u] = vec4<u32>({', '.join(results)});")


@dataclass(frozen=True, slots=True)
class _Epilogue:
    """What follows the sums, as a map over runs, the sum being read."""

    legal: Legal
    leaves: Leaves
    order: tuple[tuple[int, ...], ...]
    """The runs of the map."""
    sums: tuple[Expr, ...]
    """The nodes that read a sum."""
    is_wide: bool
    """Whether four results side by side are four words of memory, wherever they begin."""

    @property
    def parts(self) -> int:
        """Results that a write takes."""
        return 1 + max(self.legal.sources[int(node.value)].offset for node in self.sums)

    @property
    def nodes(self) -> int:
        """Of all trees: how long the text is."""
        return sum(1 for _ in walk(*self.leaves.values))

    @classmethod
    def of(cls, tile: _Tile) -> _Epilogue:
        """Of a product."""
        legal, order = _legal(tile.product)
        leaves = Leaves.of(legal)
        nodes = [n for n in walk(*leaves.values) if n.op == "load" and legal.sources[int(n.value)].tensor == _SUM]
        made = cls(legal, leaves, tuple(order), tuple(nodes), is_wide=False)
        return replace(made, is_wide=tile.has_quads and made._has_wide_target(tile.product))

    def _has_wide_target(self, product: Product) -> bool:
        if len(self.legal.writes) != 1 or self.legal.insertions or not product.columns or self.parts > 1:
            return False
        target, at = self.legal.writes[0].target, self.order.index(product.columns[-1])
        others = [step for k, step in enumerate(target.strides) if k != at]
        size = product.size(product.columns[-1])
        return target.strides[at] == 1 and not any(n % QUAD for n in (size, target.offset, *others))


def _legal(product: Product) -> tuple[Legal, list[tuple[int, ...]]]:
    """What follows as a map over runs, the sum being read; and the runs in its order."""
    primitive, fold = product.primitive, product.found.fold
    assert fold.type is not None  # noqa: S101 - for type checkers: truths are not folded
    order = [*product.batch, *product.rows, *product.columns]
    sizes = tuple(map(product.size, order))
    place = {run[0]: k for k, run in enumerate(order) if len(run) == 1}
    sum_of_products = load(len(primitive.sources), fold.type)

    def change(node: Expr) -> Expr:
        if node is fold:
            return sum_of_products
        if node.op == "coordinate":
            return coordinate(place[int(node.value)]) if int(node.value) in place else _ZERO
        return node

    value = rewrite(primitive.value, lambda node: sum_of_products if node is fold else node)
    value = rewrite(value, change)
    loaded = {int(node.value) for node in loads(value)}

    def cut(view: View) -> View:
        return View(view.tensor, view.data_type, sizes, tuple(view.strides[run[-1]] for run in order), view.offset)

    sources = [cut(view) if k in loaded else view for k, view in enumerate(primitive.sources)]
    own = View(_SUM, fold.type, sizes, packed_strides(sizes))
    return legalise(Map((*sources, own), cut(primitive.target), value), TYPES), order


_SUM = "\0sum"
_ZERO = Expr("const", DataType.INT64, (), 0)


def steps_of(product: Product, depth: int) -> tuple[list[tuple[int, ...]], tuple[int, ...] | None]:
    """The run of terms that steps go along, the one that leaves the least of a tile empty, after the other runs.

    None where all are too short: then steps go along all of the terms.
    """
    if len(product.terms) == 1:
        return [], product.terms[0]
    leaves = (*product.left.leaves, *product.right.leaves)
    limited = {k for leaf in leaves for axis in leaf.limits for k in axis.steps}

    def waste(run: tuple[int, ...]) -> float:
        size = product.size(run)
        return -(-size // depth) * depth / size

    best = min(product.terms, key=lambda run: (waste(run), not limited.isdisjoint(run), -product.size(run)))
    whole = product.count(product.terms)
    if waste(best) > MOST_WASTE * -(-whole // depth) * depth / whole:
        return [], None
    return [run for run in product.terms if run != best], best


MOST_WRITTEN_OUT = 512
"""Nodes of what follows the sums of an invocation, each written out."""
MOST_WASTE = 1.6
"""Of a step's terms, what may be empty before their coordinates are rather computed one by one."""
