"""The first lanes of a vector, read and written where elements for the others are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.nodes import scalar_text

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.steps import Steps


def load_some(text: Steps, kind: str, lanes: int, count: int, place: str, align: int) -> str:
    """The vector of a kind of elements at a place; lanes from `count` on are 0."""
    return load_part(text, kind, lanes, range(count), place, align)


def load_part(text: Steps, kind: str, lanes: int, there: range, place: str, align: int) -> str:
    """Some lanes of the vector at a place; the others are 0."""
    vector = f"<{lanes} x {scalar_text(kind)}>"
    if there == range(lanes):
        return text.new(f"load {vector}, ptr {place}, align {align}")
    return load_masked(text, kind, lanes, _mask(lanes, there), place, align)


def load_masked(text: Steps, kind: str, lanes: int, mask: str, place: str, align: int) -> str:
    """The lanes of a mask of the vector at a place; the others are 0."""
    vector, load = f"<{lanes} x {scalar_text(kind)}>", _name("load", kind, lanes)
    text.declared[f"declare {vector} {load}(ptr, i32, <{lanes} x i1>, {vector})"] = None
    given = f"ptr {place}, i32 {align}, <{lanes} x i1> {mask}, {vector} zeroinitializer"
    return text.new(f"call {vector} {load}({given})")


def store_some(text: Steps, kind: str, lanes: int, count: int, value: str, place: str, align: int) -> None:
    """Write the first lanes of a vector to a place."""
    vector = f"<{lanes} x {scalar_text(kind)}>"
    if count == lanes:
        text.add(f"store {vector} {value}, ptr {place}, align {align}")
        return
    store = _name("store", kind, lanes)
    text.declared[f"declare void {store}({vector}, ptr, i32, <{lanes} x i1>)"] = None
    mask = f"<{lanes} x i1> {_mask(lanes, range(count))}"
    text.add(f"call void {store}({vector} {value}, ptr {place}, i32 {align}, {mask})")


def _name(way: str, kind: str, lanes: int) -> str:
    return f"@llvm.masked.{way}.v{lanes}{kind if kind[0] == 'f' else f'i{kind[1:]}'}.p0"


def _mask(lanes: int, there: range) -> str:
    return f"<{', '.join(f'i1 {int(k in there)}' for k in range(lanes))}>"
