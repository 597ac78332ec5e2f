"""Fetches in a row of a map: where one lies whose elements follow one another, and those that lie anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text, write_node
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.engines.cpu.kernels.nodes import Text
    from anydml.ir.expressions import Expr


def write_start(text: Text, node: Expr, early: dict[Expr, str], base: str, strides: Sequence[str]) -> str:
    """Where the first element of a row lies, given the row's first leaves, each a vector of one."""
    for one in walk(*node.args, known=early):
        early[one] = write_node(text, one, early, 1)
    place = base
    for index, stride in zip(node.args, strides, strict=True):
        at = text.new(f"extractelement <1 x i64> {early[index]}, i32 0")
        on = text.new(f"mul i64 {at}, {stride}")
        place = text.new(f"getelementptr i8, ptr {place}, i64 {on}")
    return place


def write_lanes(text: Text, node: Expr, args: Sequence[str], base: str, strides: Sequence[str], lanes: int) -> str:
    """Elements that are each read for itself, given vectors of indices and of strides."""
    scalar, offset = scalar_text(kind_of(node.type)), "zeroinitializer"
    for index, stride in zip(args, strides, strict=True):
        on = text.new(f"mul <{lanes} x i64> {index}, {stride}")
        offset = text.new(f"add <{lanes} x i64> {offset}, {on}")
    value = "poison"
    for lane in range(lanes):
        on = text.new(f"extractelement <{lanes} x i64> {offset}, i32 {lane}")
        place = text.new(f"getelementptr i8, ptr {base}, i64 {on}")
        element = text.new(f"load {scalar}, ptr {place}, align 1")
        value = text.new(f"insertelement <{lanes} x {scalar}> {value}, {scalar} {element}, i32 {lane}")
    return value
