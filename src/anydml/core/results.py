"""Several results of one call: a named tuple, `(values, indices)`, which is pickled wherever it was made."""

from __future__ import annotations

import functools
import re
from collections import namedtuple
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_PLURALS = {"value": "values", "index": "indices"}
"""TOP_K's fields, of which each tensor has many."""


def result_name(field: str) -> str:
    """A result's name: `mean` for `output_mean_tensor`, `output` for `output_tensor`."""
    name = field.removesuffix("_tensor").removeprefix("output_")
    return _PLURALS.get(name, name)


@functools.lru_cache(maxsize=1024)
def result_type(name: str, fields: tuple[str, ...]) -> type[Any]:
    """The class of several results; a name that is no identifier has `_` for what is none, or its number."""
    spelt = [re.sub(r"\W", "_", field).lstrip("_") for field in fields]
    make: Any = namedtuple  # noqa: PYI024 - whose names type checkers would have to know
    base = make(name, spelt, rename=True)

    def reduce(self: Any) -> tuple[Any, ...]:
        return results, (name, fields, tuple(self))

    def refuse(self: Any, wanted: str) -> Any:
        several = ", ".join(self._fields)
        way_out = f"write .{base._fields[0]}.{wanted}" if wanted[0] != "_" else f"an array is .{base._fields[0]}"
        raise AttributeError(f"{name} are several results: {several}; {way_out}", name=wanted, obj=self)

    own = {"__slots__": (), "__module__": "anydml", "__reduce__": reduce, "__getattr__": refuse}
    return type(name, (base,), own)


def results(name: str, fields: Sequence[str], values: Iterable[Any]) -> Any:
    """Several results by their names."""
    return result_type(name, tuple(fields))(*values)


def gathering(name: str, fields: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
    """What hands results over: one alone, several by their names."""
    if len(fields) == 1:
        return _only
    made: Callable[[Sequence[Any]], Any] = result_type(name, tuple(fields))._make
    return made


def _only(values: Sequence[Any]) -> Any:
    return values[0]
