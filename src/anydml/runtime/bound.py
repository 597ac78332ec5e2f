"""A compiled operator with its memory attached, and what a call needs to find it attached already."""

from __future__ import annotations

import functools
import sys
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self

from anydml.arrays.fingerprints import described_key, glance
from anydml.core.display import Shown, Table
from anydml.core.errors import BindingError, Fault, show
from anydml.core.memory import is_cuda, span
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.errors import IndexRangeError


class BoundOperator(Shown):
    """A compiled operator or graph with its memory attached, which it keeps alive."""

    __slots__ = ("__weakref__", "_launch", "_memory", "_name", "_out", "_word")

    def __init__(
        self,
        name: str,
        word: Callable[[IndexFault], IndexRangeError],
        launch: Callable[[], Any],
        memory: object,
        out: object,
    ) -> None:
        self._name, self._word, self._launch, self._memory, self._out = name, word, launch, memory, out

    def __str__(self) -> str:
        return f"{self._name}, bound to its arrays: dispatch() runs it"

    def _shown(self) -> Iterator[str | Table]:
        yield str(self)
        outputs = self._out if isinstance(self._out, (list, tuple)) else [self._out]
        kinds = [(str(getattr(one, "dtype", "")), tuple(getattr(one, "shape", ()))) for one in outputs]
        rows = [(f"[{k}]" if len(kinds) > 1 else "out", kind, str(shape)) for k, (kind, shape) in enumerate(kinds)]
        yield Table("what it writes", ("output", "type", "shape"), rows)

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        rule = "a bound operator runs on the very memory of its arrays, and can be neither deep-copied nor pickled"
        raise TypeError(f"{self._name}: {rule}; bind the compiled operator to copies of the arrays")

    def forgetful(self) -> BoundOperator:
        """The same without its hold on the memory, for whoever makes sure of that at each dispatch."""
        return BoundOperator(self._name, self._word, self._launch, None, None)

    def dispatch(self) -> Any:
        """Run it: everything was checked and planned before, but for the values of indices. Returns the output."""
        run(self._launch, self._name, self._word)
        return self._out


def run(launch: Callable[[], Any], name: str, word: Callable[[IndexFault], IndexRangeError]) -> None:
    """Run what is bound: its errors are told of the operator."""
    try:
        launch()
    except IndexFault as fault:
        raise word(fault) from None
    except MemoryError as error:
        rule = f"memory ran out while the operator ran ({show(error)})"
        raise BindingError(name, Fault(field="", rule=rule)) from error


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout that an array must have to be bound without a closer look."""

    field: str
    key: tuple[Any, ...]
    """That of a plain array laid out so."""
    below: int
    """Bytes from the first element to the lowest, at most 0."""
    above: int
    """Bytes from the first element past the highest."""
    alignment: int

    @classmethod
    def of(cls, field: str, tensor: TensorDesc, memory: str) -> Layout:
        """The layout of a described tensor."""
        return _layout(field, tensor, memory, sys.modules.get("torch"))


@functools.lru_cache(maxsize=1024)
def _layout(field: str, tensor: TensorDesc, memory: str, _torch: object) -> Layout:
    """The same, which a decoder's next length asks of nearly all of its caches again; keys have PyTorch's types."""
    width = tensor.data_type.size_in_bytes
    below, above = tensor.data_type.byte_range(*span(tensor.sizes, tensor.element_strides))
    key = described_key(tensor.data_type, tensor.sizes, tensor.element_strides, memory)
    alignment = max(tensor.guaranteed_base_offset_alignment, width if is_cuda(memory) else 0)
    return Layout(field, key, below, above, alignment)


def are_apart(
    layouts: Sequence[Layout],
    addresses: Sequence[int],
    outputs: Collection[str],
    shares: Mapping[str, str],
    in_place: bool,
) -> bool:
    """Whether plain arrays, the outputs last, are aligned, and each output is apart from all else, or in its place."""
    for i in range(len(layouts) - len(outputs), len(layouts)):
        target, written = layouts[i], addresses[i]
        if target.alignment and written % target.alignment:
            return False
        low, high = written + target.below, written + target.above
        other = shares.get(target.field)
        for layout, address in zip(layouts[:i], addresses, strict=False):
            is_apart = low >= address + layout.above or address + layout.below >= high
            may = in_place or layout.field == other
            if not is_apart and not (address == written and layout.key == target.key and may):
                return False
            if layout.alignment and address % layout.alignment:
                return False
    return True


MOST_KNOWN = 64
"""Calls that an operator remembers."""


class Known:
    """A call's arrays, held weakly, and what they are bound to, for the next call that has the same."""

    __slots__ = ("_arrays", "_first", "_first_glance", "_out", "_out_glance", "dispatch")

    def __init__(self, inputs: tuple[Any, ...], out: Any, bound: BoundOperator) -> None:
        self._arrays: list[tuple[Any, Any]] = [(weakref.ref(array), glance(array)) for array in inputs]
        self._first: Any = None
        self._first_glance: Any = None
        if len(inputs) == 1:
            ((self._first, self._first_glance),) = self._arrays
        self._out: Any = weakref.ref(out)
        self._out_glance, self.dispatch = glance(out), bound.forgetful().dispatch

    def is_of(self, inputs: tuple[object, ...], out: Any) -> bool:
        """Whether these are the same arrays, and nobody changed one's memory, layout, type or flags."""
        if out is not self._out() or not self._out_glance.is_same():
            return False
        if self._first is not None:  # without the loop, which would take longer than all the rest
            return self._first() is inputs[0] and bool(self._first_glance.is_same())
        return all(held() is a and seen.is_same() for a, (held, seen) in zip(inputs, self._arrays, strict=True))
