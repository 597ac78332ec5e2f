"""Verbs as something to compile: parts of operators that are no operators themselves."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from anydml.core.results import gathering
from anydml.operators import OperatorDesc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import FeatureLevel, LevelName
    from anydml.core.errors import Fault
    from anydml.core.operator_type import OperatorType
    from anydml.ir.verbs import Primitive


class Verbs(OperatorDesc):
    """Some verbs of an operator, with the tensors that they read and write by name: valid by how they are made."""

    in_place = False

    if not TYPE_CHECKING:

        def __init__(
            self,
            kind: OperatorType,
            inputs: Mapping[str, TensorDesc],
            outputs: Mapping[str, TensorDesc],
            verbs: tuple[Primitive, ...],
        ) -> None:
            self.__dict__.update(type=kind, given=dict(inputs), made=dict(outputs), verbs=tuple(verbs))

    given: Any
    made: Any
    verbs: Any

    def _key(self) -> tuple[Any, ...]:
        return (self.type, tuple(self.given.items()), tuple(self.made.items()), self.verbs)

    def __repr__(self) -> str:
        return f"Verbs{self._key()!r}"

    @classmethod
    @functools.cache
    def gives_several(cls) -> bool:
        """Where there is one, it is no list."""
        return False

    def own_gatherer(self) -> Callable[[Sequence[Any]], Any]:
        """By the names of what they write."""
        return gathering("Results", tuple(self.made))

    def inputs(self) -> dict[str, TensorDesc]:
        """Their inputs."""
        return dict(self.given)

    def outputs(self) -> dict[str, TensorDesc]:
        """Their outputs."""
        return dict(self.made)

    def input_slots(self) -> dict[str, TensorDesc | None]:
        """All of it."""
        return dict(self.given)

    def output_slots(self) -> dict[str, TensorDesc | None]:
        """All of it."""
        return dict(self.made)

    def tensors(self) -> Mapping[str, TensorDesc]:
        """Both."""
        return {**self.given, **self.made}

    def with_tensors(self, change: Callable[[str, TensorDesc], TensorDesc], **others: Any) -> Verbs:
        """The same with inputs that lie otherwise."""
        given = {name: change(name, tensor) for name, tensor in self.given.items()}
        changed = {name: tensor for name, tensor in given.items() if tensor != self.given[name]}
        verbs = tuple(verb.reading(lambda view: _relaid(view, self.given, changed)) for verb in self.verbs)
        return Verbs(self.type, given, self.made, verbs, **others)  # type: ignore[call-arg]  # its own fields

    def rules(self) -> Iterator[Fault]:
        """None."""
        return iter(())

    output_rules = rules

    def validate(self, feature_level: FeatureLevel | LevelName | str) -> None:
        """Nothing is at fault: what they are parts of was checked."""

    def lower(self) -> tuple[Primitive, ...]:
        """The verbs."""
        found: tuple[Primitive, ...] = self.verbs
        return found


def _relaid(view: Any, before: Mapping[str, TensorDesc], after: Mapping[str, TensorDesc]) -> Any:
    """A view of a packed tensor, of one that lies otherwise: each stride is of one dimension."""
    if view.tensor not in after:
        return view
    old, new = before[view.tensor], after[view.tensor]
    strides = {a: b for a, b, size in zip(old.element_strides, new.element_strides, old.sizes, strict=True) if size > 1}
    return type(view)(
        view.tensor, view.data_type, view.sizes, tuple(strides.get(s, 0) for s in view.strides), view.offset
    )
