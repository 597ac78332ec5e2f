"""Interpreted kernels of the cuda engine, watched: each element that one reads or writes lies inside of its tensors."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines.cuda import CudaEngine, scratch
from anydml.ir.bounds import BoundsError, Span, reaches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from anydml.ir.verbs import Primitive

Ranges = list[tuple[int, int]]
_here = threading.local()
"""By thread: `made`, the words that are made while something is bound; `ranges`, what may be touched by what runs."""


_known: dict[int, tuple[Any, dict[str, Span]]] = {}
"""Programs that were compiled, each kept so that its number stays its own, and what their verbs' views touch."""
_classes: set[type] = set()


def spans_of(program: Any) -> dict[str, Span]:
    """By tensor, the bytes that a program may touch."""
    return _known[id(program)][1]


def _watched(program: Any, primitive: Primitive) -> Any:
    """A program that may touch what its verb's views do, and words that are made when it is bound."""
    views = [*primitive.views, *(layout.target for layout in program.layouts.values())]
    spans = reaches(views)
    spans |= {name: spans[layout.target.tensor] for name, layout in program.layouts.items()}
    _known[id(program)] = (program, spans)
    kind = type(program)
    if kind not in _classes:
        _classes.add(kind)
        kind.bind = _watching(kind.bind)
    return program


def _watching(plain: Callable[..., Callable[[], Any]]) -> Callable[..., Callable[[], Any]]:
    def bind(self: Any, places: Mapping[str, int]) -> Callable[[], Any]:
        if id(self) not in _known:  # a part of another program, which is watched with it
            return plain(self, places)
        with _set("made", []):
            launch = plain(self, places)
            ranges = list(_here.made)
        ranges += [(places[name] + span.low, places[name] + span.high) for name, span in spans_of(self).items()]

        def run() -> Any:
            with _set("ranges", ranges):
                return launch()

        return run

    return bind


@contextlib.contextmanager
def _set(name: str, value: Any) -> Iterator[None]:
    before = getattr(_here, name, None)
    setattr(_here, name, value)
    try:
        yield
    finally:
        setattr(_here, name, before)


def look(places: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], width: int, what: str) -> None:
    """Raise where an element that is not masked lies outside of all that may be touched."""
    ranges = getattr(_here, "ranges", None)
    if ranges is None:
        return
    found = np.unique(np.broadcast_to(places, np.broadcast_shapes(places.shape, mask.shape))[mask != 0])
    inside = np.zeros(found.shape, bool)
    for low, high in ranges:
        inside |= (found >= np.uint64(low)) & (found + np.uint64(width) <= np.uint64(high))
    if not inside.all():
        near = ", ".join(f"{low:#x} .. {high:#x}" for low, high in ranges)
        raise BoundsError(f"{what} {width} bytes at {int(found[~inside][0]):#x}, outside of {near}")


def watch() -> None:
    """From now on, watch what Triton interprets, of programs that are compiled after this."""
    from triton.runtime.interpreter import InterpreterBuilder, _get_np_dtype

    def width(handle: Any) -> int:
        return int(np.dtype(_get_np_dtype(handle.get_element_ty())).itemsize)

    def looking(name: str, what: str, mask_at: int | None) -> None:
        plain = getattr(InterpreterBuilder, name)
        at = 1 if name == "create_atomic_rmw" else 0  # after what is done

        def access(self: Any, *given: Any) -> Any:
            pointers = given[at]
            mask = np.ones(1, bool) if mask_at is None else given[mask_at].data
            look(np.asarray(pointers.data), np.asarray(mask), width(pointers), what)
            return plain(self, *given)

        setattr(InterpreterBuilder, name, access)

    looking("create_masked_load", "reads", 1)
    looking("create_masked_store", "writes", 2)
    looking("create_atomic_rmw", "changes", 3)
    looking("create_atomic_cas", "changes", None)
    _note_words()
    compile_ = CudaEngine.compile

    def compile_watched(self: Any, primitive: Primitive, constants: frozenset[str] = frozenset()) -> Any:
        return _watched(compile_(self, primitive, constants), primitive)

    CudaEngine.compile = compile_watched  # type: ignore[method-assign]  # for as long as the tests run


def _note_words() -> None:
    """Have the words noted that are made while a program is bound."""
    make, share = scratch.DeviceWords.__init__, scratch.shared_words
    always = (scratch.NO_WORDS, scratch.NO_TALLIES + 16)

    def note(address: int, count: int) -> None:
        if (made := getattr(_here, "made", None)) is not None:
            made += [(address, address + 8 * count), always]

    def init(self: Any, count: int, index: int) -> None:
        make(self, count, index)
        note(self.address, count)

    def shared(count: int) -> tuple[int, Any]:
        address, array = share(count)
        note(address, count)
        return address, array

    scratch.DeviceWords.__init__ = init  # type: ignore[method-assign]  # as above
    from anydml.engines.cuda.move import gather as check

    setattr(check, "shared_words", shared)  # noqa: B010 - a name that the module has imported
