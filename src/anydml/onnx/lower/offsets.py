"""Whole numbers that a run gives, as sums: two bounds of a slice may be known to be so far apart, wherever they are."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.core.symbolic_sizes import is_open

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.api.expression import Expression
    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.tracer import Tracer
    from anydml.onnx.lower.values import Value

Sum: TypeAlias = "Counter[Any]"
"""By a number that is not known, how often it is added; by None, what is added to those."""
MOST_ELEMENTS = 64
"""Of a tensor whose elements are looked at."""
_MOST_NODES = 64
"""Back from a bound."""
_WHOLE = ("INT32", "INT64")
_AS_THEY_ARE = ("Cast", "Reshape", "Squeeze", "Unsqueeze")


def is_offset(value: Value) -> bool:
    """Whether it is remembered what made a value: a few whole numbers, not known."""
    if value.known is not None or value.element.name not in _WHOLE or is_open(count := value.count):
        return False
    return 0 < count <= MOST_ELEMENTS


def remember(node: BoundNode, inputs: Sequence[Value | None], made: Sequence[Value | None]) -> None:
    """Keep which node made a few whole numbers that are not known."""
    for value in made:
        if value is not None and is_offset(value) and not any(value is each for each in inputs):
            node.tracer.offsets[id(value)] = (value, node)


def sums(value: Value, tracer: Tracer, left: list[int] | None = None) -> list[Sum]:
    """Each element of a value as a sum; of what no node here says anything, the element itself."""
    left = [_MOST_NODES] if left is None else left
    if value.known is not None:
        return [Counter({None: int(number)}) for number in value.known.flat()]
    left[0] -= 1
    maker = tracer.offsets.get(id(value)) if left[0] >= 0 else None
    found = None if maker is None else _made(maker[1], tracer, left)
    if found is None or len(found) != value.count:
        return [Counter({(id(value), i): 1}) for i in range(value.count)]
    return found


def _made(node: BoundNode, tracer: Tracer, left: list[int]) -> list[Sum] | None:
    """The sums that a node makes of sums; None where the result is no sum."""
    inputs, kind = [node.input(i) for i in range(node.input_count) if node.optional(i) is not None], node.kind
    if any(value.element.name not in _WHOLE or value.count > MOST_ELEMENTS for value in inputs):
        return None
    if kind in _AS_THEY_ARE:
        # What a number of 64 bits loses as one of 32 is no sum.
        is_cut = kind == "Cast" and inputs[0].element.name == "INT64"
        return None if is_cut else sums(inputs[0], tracer, left)
    if kind == "Concat" and all(len(value.shape) == 1 for value in inputs):
        return list(itertools.chain.from_iterable(sums(value, tracer, left) for value in inputs))
    if kind == "Gather" and len(inputs[0].shape) == 1 and inputs[1].known is not None:
        several = sums(inputs[0], tracer, left)
        return [several[int(i)] for i in inputs[1].known.flat()]
    if kind not in ("Add", "Mul", "Sub"):
        return None
    return _computed(kind, [sums(value, tracer, left) for value in inputs])


def _computed(kind: str, operands: Sequence[list[Sum]]) -> list[Sum] | None:
    first, second = (each * max(map(len, operands)) if len(each) == 1 else each for each in operands)
    if len(first) != len(second):
        return None
    found = []
    for a, b in zip(first, second, strict=True):
        if kind == "Mul":
            if not (is_fixed(a) or is_fixed(b)):
                return None
            factor, other = (a[None], b) if is_fixed(a) else (b[None], a)
            found.append(Counter({root: factor * times for root, times in other.items()}))
        else:
            total = Counter(a)
            total.update(b) if kind == "Add" else total.subtract(b)
            found.append(total)
    return found


def names_in(outputs: Iterable[Expression | None]) -> set[str]:
    """The names of all nodes of a graph that outputs depend on."""
    pending = [output.source for output in outputs if output is not None]
    seen = {id(source): source for source in pending}
    while pending:
        for one in pending.pop().inputs:
            if id(one.source) not in seen:
                seen[id(one.source)] = one.source
                pending.append(one.source)
    return {source.name for source in seen.values()}


def is_fixed(number: Sum) -> bool:
    """Whether it is the same in every run."""
    return not any(times for root, times in number.items() if root is not None)


def apart(start: Sum, end: Sum) -> int | None:
    """How far one number lies behind another; None where that is not the same in every run."""
    between = Counter(end)
    between.subtract(start)
    return between[None] if is_fixed(between) else None
