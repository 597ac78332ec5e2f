"""From the expression around a sum of products to a Triton function: a tile of the result a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.engines.cuda.emit import bounded, from_bits, function_of, text_of, type_of
from anydml.ir.trees import rewrite, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.ir.expressions import Expr


@dataclass(frozen=True, slots=True)
class EmittedProduct:
    """A kernel, and what it is to be given."""

    function: Any
    """Takes both matrices and other pointers, the walk's numbers, the coordinates' first ones, the user's numbers,
    TILE, and a Line for each matrix and view."""
    leaves: tuple[Expr, ...]
    """The loads and the coordinates outside of the sum: its views, before the target."""
    given: tuple[Expr, ...]


def emit_product(
    value: Expr, fold: Expr, by_blocks: bool, spans: Callable[[Expr], tuple[bool, bool]]
) -> EmittedProduct:
    """A kernel; `spans` says if a leaf varies from row to row of the result, and from column to column."""
    inner = [node.op for node in walk(fold)]
    assert "where" not in inner  # noqa: S101 - the sum's own node stays
    value = rewrite(value, bounded)
    nodes = list(walk(value, known=(fold,)))
    loads, coordinates, given = ([node for node in nodes if node.op == op] for op in ("load", "coordinate", "given"))
    views = {node: number for number, node in enumerate((*loads, *coordinates))}
    last = len(views)
    pointers = ["left", "right", *(f"p{view}" for view in range(len(loads))), "target"]
    numbers = ["shape", "sizes", "apart", "left_strides", "left_matrix", "right_strides", "right_matrix"]
    numbers += [f"{of}{view}" for view in range(last + 1) for of in ("strides", "matrix")]
    starts = [f"start{number}" for number in range(len(coordinates))]
    chosen = [f"given{number}" for number in range(len(given))]
    names = ("TILE", "LEFT", "RIGHT", *(f"LINE{view}" for view in range(last + 1)))
    constants = [f"{name}: tl.constexpr" for name in names]
    assert fold.type is not None  # noqa: S101 - for type checkers
    kind = type_of(fold.type)
    lines = [
        "@triton.jit",
        f"def generated_product({', '.join([*pointers, *numbers, *starts, *chosen, *constants])}):",
        "    high, wide, matrix = products.corner(shape, TILE)",
        "    row, column = products.within(high, TILE.rows), products.within(wide, TILE.columns)",
        "    is_row, is_column = products.there(row, column, shape, TILE)",
    ]
    if by_blocks:
        lines.append(f"    total = products.multiply_blocks(left, right, high, wide, matrix, shape, apart, {kind}, TILE)")
    else:
        lines += [
            f"    at_{side} = products.to_matrix({side}, matrix, sizes, {side}_matrix, {side.upper()}.align)"
            for side in ("left", "right")
        ]
        lines.append(
            "    total = products.multiply(at_left, at_right, row, column, shape, left_strides, right_strides, "
            f"{kind}, TILE, LEFT, RIGHT)"
        )
    texts = {fold: "total"}
    texts |= {node: from_bits(f"{number}.to(tl.int64)", node.type) for node, number in zip(given, chosen, strict=True)}
    for node, view in views.items():
        base = f"p{view}" if node.op == "load" else f"start{view - len(loads)}.to(tl.int64)"
        place = _place(base, view, *spans(node))
        mask = " & ".join(name for name, is_on in zip(("is_row", "is_column"), spans(node), strict=True) if is_on)
        texts[node] = f"tl.load({place}{', mask=' + mask if mask else ''})" if node.op == "load" else place
    computed = {fold: "total"}
    for node in (*texts, *nodes):
        if node not in computed:
            computed[node] = f"v{len(computed)}"
            lines.append(f"    {computed[node]} = {texts.get(node) or text_of(node, computed)}")
    full = f"tl.broadcast_to({computed[value]}, (TILE.rows, TILE.columns))"
    lines.append(f"    tl.store({_place('target', last, True, True)}, {full}, mask=is_row & is_column)")
    return EmittedProduct(function_of("\n".join(lines) + "\n"), tuple(views), tuple(given))


def _place(base: str, view: int, by_row: bool, by_column: bool) -> str:
    """Where a tile lies in a view."""
    text = f"products.to_matrix({base}, matrix, sizes, matrix{view}, LINE{view}.align)"
    if by_row:
        text = f"products.down({text}, row, strides{view}[0], LINE{view}.row_step, LINE{view}.align)"
    if by_column:
        text = f"products.across({text}, column, strides{view}[1], LINE{view}.step, LINE{view}.align)"
    return text
