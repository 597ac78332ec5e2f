"""Views in words, as NumPy would slice them, and verbs by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.memory import layout_of, packed_strides
from anydml.ir.views import trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.ir.verbs import Primitive
    from anydml.ir.views import Trace, View


def word_verb(primitive: Primitive) -> str:
    """A verb's name, as a word in a sentence."""
    return type(primitive).__name__.lower()


def word_view(view: View, whole: View | None, name: str) -> str:
    """A view of a store as NumPy would write it, where slices and an order of the dimensions say it; else by strides.

    It is the name alone where the view is the whole tensor, leading dimensions of size 1 aside.
    """
    if whole is None:
        return name if not view.offset and _is_packed(view) else f"{name}{_by_strides(view)}"
    kind = "" if view.data_type == whole.data_type else f" as {view.data_type.name}"
    if view.offset == whole.offset and layout_of(view.sizes, view.strides) == layout_of(whole.sizes, whole.strides):
        return name + kind
    found = trace(view, whole)
    told = None if found is None else _sliced(view, whole, found)
    return f"{name}{kind}{_by_strides(view) if told is None else told}"


def _is_packed(view: View) -> bool:
    return layout_of(view.sizes, view.strides) == layout_of(view.sizes, packed_strides(view.sizes))


def _by_strides(view: View) -> str:
    strides = "" if _is_packed(view) else f" by strides {word_sizes(view.strides)}"
    start = f" from element {view.offset}" if view.offset else ""
    return f" seen as {word_sizes(view.sizes)}{strides}{start}"


def _sliced(view: View, whole: View, found: Trace) -> str | None:
    """Slices for each dimension, what order they come in, and what is repeated; None where that does not say it."""
    homes: list[int | None] = []
    """The tensor's dimension that each of the view's walks along."""
    for m, size in enumerate(view.sizes):
        walked = [k for k, steps in enumerate(found.steps) if steps[m] and size > 1]
        if len(walked) > 1 or (walked and walked[0] in homes):
            return None
        homes.append(walked[0] if walked else None)
    slices = []
    for k, size in enumerate(whole.sizes):
        along = homes.index(k) if k in homes else None
        step, count = (1, 1) if along is None else (found.steps[k][along], view.sizes[along])
        slices.append(word_slice(found.first[k], step, count, size))
    order = [k for k in homes if k is not None]
    turned = ""
    if order != sorted(order):
        if len(homes) != len(whole.sizes):
            return None
        free = iter(k for k in range(len(whole.sizes)) if k not in homes)
        turned = f" transposed ({','.join(str(next(free) if k is None else k) for k in homes)})"
    again = [str(m) for m, (size, k) in enumerate(zip(view.sizes, homes, strict=True)) if size > 1 and k is None]
    repeated = f" repeated along axis {' and '.join(again)}" if again else ""
    return _bracketed(slices) + turned + repeated


def _bracketed(slices: Sequence[str]) -> str:
    full = next((k for k, text in enumerate(slices) if text != ":"), len(slices))
    if full == len(slices):
        return ""
    return f"[{', '.join((['...'] if full else []) + list(slices[full:]))}]"


def word_slice(start: int, step: int, count: int, size: int) -> str:
    """A slice as NumPy has it, with nothing in it that need not be said."""
    last = start + (count - 1) * step
    if step > 0:
        first, end = str(start or ""), "" if last + step >= size else str(last + 1)
    else:
        first, end = "" if start == size - 1 else str(start), "" if last + step < 0 else str(last - 1)
    return f"{first}:{end}" + (f":{step}" if step != 1 else "")


def word_sizes(sizes: Sequence[int]) -> str:
    """Sizes or strides: `[2,3]`."""
    return f"[{','.join(map(str, sizes))}]"
