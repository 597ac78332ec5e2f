"""From a sum of products, and the expression around it, to a Triton function: a tile of the result a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from anydml.engines.cuda.emit import from_bits, function_of, text_of, type_of
from anydml.engines.cuda.emit_lines import Lines
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.ir.expressions import Expr
    from anydml.ir.patterns import Contraction

Way: TypeAlias = Literal["blocks", "pointers", "lines", "computed"]
"""How factors are read: blocks by descriptor, elements by pointer, elements that are multiplied one by one, or elements
that factors are then computed from."""
AROUND = {"left": ("row", "term"), "right": ("term", "column"), "rest": ("row", "column")}
"""By part of the expression, what goes down a tile of it, and what goes across."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The leaves of a contraction: loads first, then coordinates."""

    left: tuple[Expr, ...]
    right: tuple[Expr, ...]
    rest: tuple[Expr, ...]
    """Outside of the sum."""

    @classmethod
    def of(cls, value: Expr, found: Contraction) -> Parts:
        """Those of the factors, and of what is around the sum."""
        parts = [list(walk(found.left)), list(walk(found.right)), list(walk(value, known=(found.fold,)))]
        return cls(*(tuple(n for op in ("load", "coordinate") for n in nodes if n.op == op) for nodes in parts))

    @property
    def views(self) -> list[tuple[str, Expr]]:
        """Every leaf with its part, in the order of a kernel's views."""
        return [(part, leaf) for part in AROUND for leaf in getattr(self, part)]


@dataclass(frozen=True, slots=True)
class EmittedProduct:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes pointers, the walk's numbers, the coordinates' first ones, the user's numbers, TILE and a Line a view."""
    given: tuple[Expr, ...]


def emit_product(
    value: Expr, found: Contraction, way: Way, is_small: bool, spans: Callable[[int], tuple[bool, bool]],
    *, has_more: bool = False,
) -> EmittedProduct:  # fmt: skip
    """A kernel; `spans` says if a view varies down a tile, and across it, `has_more` if tiles have columns beside.

    `is_small` where factors are integers of -255 to 255: as FLOAT16 they have exact products, of which 256 have an
    exact sum in FLOAT32.
    """
    parts = Parts.of(value, found)
    given = [node for node in walk(value) if node.op == "given"]
    writer = _Writer(parts, spans)
    last = len(parts.views)
    loads = [f"p{view}" for view, (_, leaf) in enumerate(parts.views) if leaf.op == "load"]
    numbers = ["shape", "sizes", "apart", *(f"{of}{view}" for view in range(last + 1) for of in ("strides", "matrix"))]
    starts = [f"start{view}" for view, (_, leaf) in enumerate(parts.views) if leaf.op == "coordinate"]
    chosen = [f"given{number}" for number in range(len(given))]
    constants = [f"{name}: tl.constexpr" for name in ("TILE", *(f"LINE{view}" for view in range(last + 1)))]
    further = ["further"] if way == "blocks" and has_more else []
    arguments = [*loads, "target", *further, *numbers, *starts, *chosen, *constants]
    assert found.fold.type is not None  # noqa: S101 - for type checkers
    kind = type_of(found.fold.type)
    writer.say("@triton.jit", f"def generated_product({', '.join(arguments)}):")
    writer.indent = "    "
    writer.say("high, wide, matrix = products.corner(shape, TILE)", "row = products.within(high, TILE.rows)")
    for node, number in zip(given, chosen, strict=True):
        writer.put(node, from_bits(f"{number}.to(tl.int64)", node.type))
    parts_of = {"columns": "total", "more": "beside"} if has_more else {"columns": "total"}
    ends = f"high, wide, matrix, shape, apart, {kind}, TILE"
    if way == "blocks" and has_more:
        writer.say(f"total, beside = products.multiply_pairs(p0, p1, further, {ends})")
    elif way == "blocks":
        writer.say(f"total = products.multiply_blocks(p0, p1, {ends})")
    elif way in ("pointers", "lines"):
        for view in (0, 1):
            writer.say(f"at{view} = products.to_matrix(p{view}, matrix, sizes, matrix{view}, LINE{view}.align)")
    outside = dict(writer.names)
    for part, total in parts_of.items():
        writer.names = dict(outside)
        writer.say(f"column = products.{'columns_of' if part == 'columns' else 'more_columns_of'}(wide, TILE)")
        writer.say("is_row, is_column = products.there(row, column, shape, TILE)")
        if way in ("pointers", "lines"):
            multiply = "multiply" if way == "pointers" else "multiply_lines"
            ends = f"shape, strides0, strides1, {kind}, TILE, LINE0, LINE1"
            writer.say(f"{total} = products.{multiply}(at0, at1, row, column, {ends})")
        elif way == "computed":
            writer.loop(found, kind, is_small)
        writer.names[found.fold] = total
        writer.compute("rest", value)
        full = f"tl.broadcast_to({writer.names[value]}, (TILE.rows, TILE.{part}))"
        writer.say(f"tl.store({writer.place('target', last, 'rest', True, True)}, {full}, mask=is_row & is_column)")
    return EmittedProduct(function_of("\n".join(writer.lines) + "\n"), tuple(given))


class _Writer(Lines):
    def __init__(self, parts: Parts, spans: Callable[[int], tuple[bool, bool]]) -> None:
        self.views: Sequence[tuple[str, Expr]] = parts.views
        self.spans = spans
        super().__init__()

    def place(self, base: str, view: int, part: str, down: bool, across: bool) -> str:
        """Where a tile lies in a view."""
        text = f"products.to_matrix({base}, matrix, sizes, matrix{view}, LINE{view}.align)"
        names = AROUND[part]
        if down:
            text = f"products.down({text}, {names[0]}, strides{view}[0], LINE{view}.row_step, LINE{view}.align)"
        if across:
            text = f"products.across({text}, {names[1]}, strides{view}[1], LINE{view}.step, LINE{view}.align)"
        return text

    def masks(self, part: str) -> Mapping[str, str]:
        return {"row": "is_row", "column": "is_column", "term": "more[None, :]" if part == "left" else "more[:, None]"}

    def compute(self, part: str, value: Expr) -> None:
        """The nodes of one part."""
        own = {leaf: view for view, (of, leaf) in enumerate(self.views) if of == part}
        for node in walk(value, known=self.names):
            if node in own:
                view, spans = own[node], self.spans(own[node])
                base = f"p{view}" if node.op == "load" else f"start{view}.to(tl.int64)"
                place = self.place(base, view, part, *spans)
                inside = [self.masks(part)[name] for name, varies in zip(AROUND[part], spans, strict=True) if varies]
                masked = f", mask={' & '.join(inside)}, other=0" if inside else ""
                self.put(node, f"tl.load({place}{masked})" if node.op == "load" else place)
            else:
                self.put(node, text_of(node, self.names))

    def loop(self, found: Contraction, kind: str, is_small: bool) -> None:
        """Compute the factors' blocks, 0 past their ends, and add up their products."""
        self.say(f"total = tl.full((TILE.rows, TILE.columns), 0, {kind})")
        self.say("for step in range(0, (shape[2].to(tl.int32) + TILE.depth - 1) // TILE.depth):")
        outside, self.indent = dict(self.names), self.indent + "    "
        self.say("term = step * TILE.depth + tl.arange(0, TILE.depth)")
        self.say("more = term < products.known(shape[2], TILE.aligns[2])")
        sizes = {"left": "TILE.rows, TILE.depth", "right": "TILE.depth, TILE.columns"}
        for part, value in (("left", found.left), ("right", found.right)):
            self.compute(part, value)
            name = self.names[value]
            inside = " & ".join(self.masks(part)[of] for of in AROUND[part])
            whole = f"tl.where({inside}, {name}, tl.full((), 0, {kind}))"
            self.say(f"{part} = tl.broadcast_to({whole}, ({sizes[part]}))")
            self.names = dict(outside)
        if is_small:
            product = "tl.dot(left.to(tl.float16), right.to(tl.float16))"
            self.say(f"total += {product}.to({kind})")
        else:
            self.say("total = tl.dot(left, right, total, input_precision=TILE.precision)")
        self.indent = self.indent[:-4]
