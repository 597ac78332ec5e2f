"""The number of a row's first element that meets a condition, as ARGMAX has it: nothing is read after that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.folds import vector_of
from anydml.engines.cpu.kernels.nodes import kind_of, number_text
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.engines.cpu.kernels.passes import Pass
    from anydml.engines.cpu.kernels.reduce import Writer
    from anydml.ir.expressions import Expr

TOGETHER, MOST = 4, 64
"""Vectors that are looked at before one decides, and their lanes at most, which are bits of a word then."""
LEAST = 8
"""Lanes of a vector at least."""


def is_first(writer: Writer, step: Pass) -> bool:
    """Whether a pass finds such a number alone: the least of numbers that grow along the row, or more than all."""
    if len(step.folds) != 1 or step.keeps or step.kept or writer.shape.rank != 1 or writer.shape.lanes < LEAST:
        return False
    (fold,), (root,) = step.folds, step.roots
    if fold.op != "fold_min" or root.op != "where" or root.args[2].op != "const":
        return False
    nodes = list(walk(root.args[1]))
    grows = all(
        node.op in ("coordinate", "add", "mul") or (node.op == "const" and float(node.value) >= 0) for node in nodes
    )
    varying = [leaf for leaf in step.leaves if writer.varies(leaf)]
    are_packed = all(writer.shape.letters[writer.shape.leaves.index(leaf)] == "p" for leaf in varying)
    return grows and are_packed and any(leaf in nodes for leaf in varying)


def wide_of(lanes: int) -> int:
    """The lanes of several vectors."""
    return min(lanes * TOGETHER, MOST)


def write_first(
    writer: Writer, step: Pass, lanes: int, read: Callable[[Expr, str, int], str], same: dict[int, dict[Expr, str]]
) -> str:
    """Look at some vectors, then at one at a time; the last overlaps the one before. The number, in one lane.

    `read` gives a leaf's vector at an index; `same` what is the same for the whole row, by lanes.
    """
    text, size = writer.text, writer.sizes[-1]
    (root,) = step.roots
    condition, number, none = root.args
    kind = vector_of(number, 1)
    done = text.label("done")
    found: list[tuple[str, str]] = []
    """The numbers found, and the blocks that they come from."""

    def leaves(node: Expr, i: str, lanes: int) -> dict[Expr, str]:
        parts = set(walk(node, known=same[lanes]))
        varying = [leaf for leaf in step.leaves if leaf in parts and writer.varies(leaf)]
        return {**same[lanes], **{leaf: read(leaf, i, lanes) for leaf in varying}}

    def look(begin: str, end: str, lanes: int) -> None:
        head, hit, latch, after = (text.label(stem) for stem in ("look", "hit", "latch", "after"))
        before, i = text.block, f"%i.{head}"
        guard = text.new(f"icmp slt i64 {begin}, {end}")
        text.add(f"br i1 {guard}, label %{head}, label %{after}")
        text.open(head)
        at = len(text.lines)
        (mask,) = writer.tree([condition], leaves(condition, i, lanes), lanes)
        bits = text.new(f"bitcast <{lanes} x i1> {mask} to i{lanes}")
        is_any = text.new(f"icmp ne i{lanes} {bits}, 0")
        text.add(f"br i1 {is_any}, label %{hit}, label %{latch}")
        text.open(latch)
        following = text.new(f"add i64 {i}, {lanes}")
        again = text.new(f"icmp slt i64 {following}, {end}")
        text.add(f"br i1 {again}, label %{head}, label %{after}")
        text.lines.insert(at, f"{i} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        text.open(hit)
        text.declared[f"declare i{lanes} @llvm.cttz.i{lanes}(i{lanes}, i1)"] = None
        first = text.new(f"call i{lanes} @llvm.cttz.i{lanes}(i{lanes} {bits}, i1 true)")
        first = first if lanes == 64 else text.new(f"zext i{lanes} {first} to i64")
        place = text.new(f"add i64 {i}, {first}")
        (value,) = writer.tree([number], leaves(number, place, 1), 1)
        found.append((value, text.block))
        text.add(f"br label %{done}")
        text.open(after)

    wide = wide_of(lanes)
    many, whole = (text.new(f"and i64 {size}, {-each}") for each in (wide, lanes))
    look("0", many, wide)
    look(many, whole, lanes)
    last = text.new(f"sub i64 {size}, {lanes}")
    is_over = text.new(f"icmp slt i64 {whole}, {size}")
    end = text.new(f"select i1 {is_over}, i64 {size}, i64 {last}")
    look(last, end, lanes)
    found.append((f"splat ({kind[5:-1]} {number_text(none.value, kind_of(none.type))})", text.block))
    text.add(f"br label %{done}")
    text.open(done)
    return text.new(f"phi {kind} " + ", ".join(f"[ {value}, %{block} ]" for value, block in found))
