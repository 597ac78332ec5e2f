"""OperatorInitializer: hands compiled operators the tensors that they own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.core.display import Shown, Table, describe
from anydml.core.errors import BindingError, Fault, show
from anydml.runtime.binding import BindingProperties
from anydml.runtime.dispatchable import Compiled

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class OperatorInitializer(Shown):
    """IDMLOperatorInitializer: every compiled operator is initialized once, before it first runs from a command list.

    An operator with inputs flagged OWNED_BY_DML gets its copy of them then, in its persistent resource.
    """

    name = "OperatorInitializer"

    def __init__(self, operators: Sequence[Compiled] = ()) -> None:
        self.reset(operators)

    def __str__(self) -> str:
        return f"OperatorInitializer for {', '.join(one.name for one in self.operators) or 'nothing'}"

    def _shown(self) -> Iterator[str | Table]:
        yield str(self)
        rows = [
            (one.name, ", ".join(f"{name} {describe(desc)}" for name, desc in one.owned.items()) or "none", size)
            for one in self.operators
            for size in [one.binding_properties.persistent_resource_size]
        ]
        yield Table("", ("operator", "inputs owned by DML", "bytes of the persistent resource"), rows)

    def reset(self, operators: Sequence[Compiled] = ()) -> None:
        """Initialize another set of operators from now on."""
        if not isinstance(operators, (list, tuple)) or not all(isinstance(op, Compiled) for op in operators):
            rule = "operators must be a list of CompiledOperators"
            raise BindingError(self.name, Fault(field="operators", rule=rule, value=operators, found=show(operators)))
        self.operators = tuple(operators)

    @property
    def binding_properties(self) -> BindingProperties:
        """The resources to bind: the owned inputs, and the persistent resource of each operator that has one."""
        count = sum(len(op.owned) + 1 for op in self.operators if op.owned)
        return BindingProperties(count, 0, 0)
