"""Substitution in plans: values of values with some of their parts changed, as re-planning puts other sizes in the
place of symbolic ones. What has none of those parts stays the very object it is.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from anydml.ir.expressions import Expr
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.core.enums import DataType


FILLED = {"is_filled": True}
"""Metadata of a record's field: a dict that its methods add to, so that a record which is made of it has its own."""


class Rebuilt:
    """Changes parts by their types, wherever they lie in tuples, lists, dicts, trees and dataclasses.

    Which parts of an object change is found out once: those that do are of the types that change, whatever they become.
    So all that is given must be held for as long as this.
    """

    def __init__(self, changes: Mapping[type, Callable[[Any], Any]]) -> None:
        self._changes = changes
        self._same: set[int] = set()
        """The ids of objects in which nothing changes."""
        self._forms: dict[int, tuple[Callable[[list[Any]], Any], list[Any], list[int]]] = {}
        """By the id of an object, what puts its parts together, the parts, and the numbers of those that change."""
        self._nodes: dict[int, list[Expr]] = {}
        """By the id of a tree, those of its nodes that change, each after its arguments: trees may be deep."""

    def __call__(self, found: Any) -> Any:
        """The same with other parts; an object that is there twice is made once.

        Nothing of a call outlives it: a child process may be forked in the middle of one, a signal's handler begin
        another.
        """
        return self._changed(found, {})

    def _changed(self, found: Any, done: dict[int, Any]) -> Any:
        name = id(found)
        if name in self._same:
            return found
        if name in done:
            return done[name]
        if (change := self._changes.get(type(found))) is not None:
            made = done[name] = change(found)
            return made
        if type(found) is Expr:
            return self._tree_changed(found, done)
        return self._put_together(found, done)

    def _tree_changed(self, root: Expr, done: dict[int, Any]) -> Any:
        nodes = self._nodes.get(id(root))
        made: Any = root
        for node in walk(root) if nodes is None else nodes:
            made = done[id(node)] if id(node) in done else self._put_together(node, done)
        if nodes is None:
            self._nodes[id(root)] = [node for node in walk(root) if id(node) not in self._same]
        return made

    def _put_together(self, found: Any, done: dict[int, Any]) -> Any:
        """The same with other parts, those of a tree's node being in other forms already."""
        name = id(found)
        if (form := self._forms.get(name)) is None:
            return found if name in self._same else self._learn(found, done)
        make, parts, places = form
        parts = parts.copy()
        for place in places:
            parts[place] = self._changed(parts[place], done)
        made = done[name] = make(parts)
        return made

    def _learn(self, found: Any, done: dict[int, Any]) -> Any:
        kind: Any = type(found)
        apart = _apart(kind)
        if apart is None:
            return found
        make, before = apart(found)
        parts = [self._changed(one, done) for one in before]
        places = [k for k, one in enumerate(parts) if one is not before[k]]
        if not places:
            self._same.add(id(found))
            return found
        self._forms[id(found)] = make, before, places
        made = done[id(found)] = make(parts)
        return made


@functools.cache
def _apart(kind: type) -> Callable[[Any], tuple[Callable[[list[Any]], Any], list[Any]]] | None:
    """How a type is taken apart, which says how its parts are put together; None for one that has none."""
    if issubclass(kind, (enum.Enum, str, int, float, bytes)):
        return None
    if kind is Expr:
        return lambda tree: (
            functools.partial(_tree, tree.op, tree.type),
            [tree.value, *tree.args],
        )
    if issubclass(kind, (tuple, list)):
        make = (lambda parts: kind(*parts)) if hasattr(kind, "_fields") else kind
        return lambda row: (make, list(row))
    if kind is dict:
        return lambda found: (_dict, [*found, *found.values()])
    if not is_dataclass(kind):
        return None
    # A field that no caller gives begins empty in each new record, and is filled by its own methods.
    own = {one.name: one.default_factory for one in fields(kind) if not one.init and one.default_factory is not MISSING}
    names = [one.name for one in fields(kind) if one.name not in own]
    copied = {one.name for one in fields(kind) if one.metadata.get("is_filled")}
    make = functools.partial(_record, kind, names, own, copied)
    return lambda record: (make, [getattr(record, name) for name in names])


def _dict(parts: list[Any]) -> dict[Any, Any]:
    half = len(parts) // 2
    return dict(zip(parts[:half], parts[half:], strict=True))


def _record(kind: type, names: list[str], own: Mapping[str, Any], copied: set[str], parts: list[Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, make in own.items():
        object.__setattr__(made, name, make())
    for name, one in zip(names, parts, strict=True):
        object.__setattr__(made, name, one.copy() if name in copied else one)
    return made


def _tree(op: str, type_: DataType | None, parts: list[Any]) -> Expr:
    value, *args = parts
    return Expr(op, type_, tuple(args), value)
