"""Cells: an element of a view of any type at coordinates that a kernel has, read as a number and written from one.

Verbs that choose where elements go (scans, scatters, sorts) walk themselves, and have their elements by these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.memory import packed_strides
from anydml.engines.webgpu.codegen.walks import TYPES, Leaves, compute, places
from anydml.engines.webgpu.codegen.wgsl import WGSL
from anydml.ir.expressions import Expr, load
from anydml.ir.legalise import legalise
from anydml.ir.loops import Loops
from anydml.ir.verbs import Map
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.core.enums import DataType
    from anydml.engines.webgpu.codegen.wgsl import Body

_NOWHERE = "\0cell"


def _own(of: DataType, sizes: tuple[int, ...]) -> View:
    """A view that no memory has: of what the kernel holds."""
    return View(_NOWHERE, of, sizes, packed_strides(sizes))


def read(
    body: Body, view: View, to: DataType, coordinates: Sequence[str], change: Callable[[Expr], Expr] | None = None
) -> list[str]:
    """The names of an element's parts as a number of a type: one, or the words of 64 bits, the low one first.

    `change` makes another number of it first.
    """
    element = load(0, view.data_type)
    value = change(element) if change else element
    legal = legalise(Map((view,), _own(to, view.sizes), value.to(to)), TYPES, by_words=False)
    values = [write.value for write in legal.writes]
    leaves = Leaves.of(legal)
    loops = leaves.loops(view.sizes, ())
    loops = Loops(loops.sizes, loops.strides, loops.offsets[: len(loops.strides)])
    body.take(*values)
    with body.scope():
        found = places(body, loops, coordinates, f"{view.tensor} {id(view)}")
        compute(body, values, dict(zip((*leaves.loads, *leaves.coordinates), found, strict=True)), legal.sources)
        return [body.names[value] for value in values]


def write(body: Body, view: View, of: DataType, parts: Sequence[str], coordinates: Sequence[str]) -> None:
    """Write a number of a type, given by its parts, as an element."""
    own = _own(of, view.sizes)
    legal = legalise(Map((own,), view, load(0, of).to(view.data_type)), TYPES, by_words=False)
    leaves = Leaves.of(legal)
    strides = [target.strides for target in leaves.targets]
    loops = leaves.loops(view.sizes, strides)
    with body.scope():
        found = places(body, loops, coordinates, f"{view.tensor} {id(view)} to")
        read_count = len(leaves.loads)
        for node in leaves.loads:
            part = legal.sources[int(node.value)].offset if len(parts) > 1 else 0
            body.names[node] = _as(parts[part], of, node)
        texts = dict(zip((*leaves.loads, *leaves.coordinates), found, strict=False))
        body.take(*leaves.values)
        compute(body, leaves.values, texts, ())
        for one, at in zip(legal.writes, found[read_count + len(leaves.coordinates) :], strict=True):
            body.store(one.target, at, body.names[one.value], one.value.type)
        for insertion in legal.insertions:
            word, mask, value = (body.names[part] for part in insertion[1:])
            body.insert(insertion.target, word, mask, value)


def _as(name: str, of: DataType, node: Expr) -> str:
    """A part under the type that a tree takes it as."""
    return name if node.type is of or of.size_in_bytes > 4 else f"bitcast<{WGSL.types[node.type]}>({name})"
