"""BindingTable: raw buffers for the slots of a dispatchable, each checked when it is bound."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from anydml.core.display import Shown, Table, counted
from anydml.core.errors import BindingError, Fault, show
from anydml.runtime.binding import (
    PERSISTENT_BUFFER_ALIGNMENT,
    TEMPORARY_BUFFER_ALIGNMENT,
    Bound,
    BufferBinding,
    bind_range,
    bind_tensor,
    raise_binding_faults,
)
from anydml.runtime.dispatchable import Compiled
from anydml.runtime.initializer import OperatorInitializer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Dispatchable: TypeAlias = Compiled | OperatorInitializer


@dataclass(frozen=True, slots=True, eq=False)
class Bindings:
    """The state of a binding table at one moment, in the order of the dispatchable's slots."""

    inputs: tuple[object, ...] | None = None
    outputs: tuple[object, ...] | None = None
    temporary: object = None
    persistent: object = None


class BindingTable(Shown):
    """IDMLBindingTable: raw buffers for a dispatchable's slots.

    For a compiled operator, inputs and outputs are BufferBindings in the order of its fields, None for an input
    that is OWNED_BY_DML. For an initializer, inputs are one list for each operator (None where it owns nothing),
    with a BufferBinding for each owned input and None for the others; outputs are the persistent resources.
    """

    def __init__(self, dispatchable: Dispatchable | None = None) -> None:
        self.reset(dispatchable)

    def __str__(self) -> str:
        given = {"inputs": self.bindings.inputs, "outputs": self.bindings.outputs}
        bound = [f"{name} {'unbound' if value is None else f'bound: {len(value)}'}" for name, value in given.items()]
        name = "nothing" if self.dispatchable is None else self.dispatchable.name
        return f"BindingTable for {name}; {', '.join(bound)}"

    def _shown(self) -> Iterator[str | Table]:
        yield str(self)
        if isinstance(self.dispatchable, Compiled):
            yield Table("", ("slot", "tensor", "bound"), list(self._rows(self.dispatchable)))

    def _rows(self, operator: Compiled) -> Iterator[tuple[str, str, str]]:
        for tensors, given in ((operator.inputs, self.bindings.inputs), (operator.outputs, self.bindings.outputs)):
            for name, tensor in tensors.items():
                state = "by the initializer" if tensor.is_owned_by_dml else "no" if given is None else "yes"
                yield name, f"{tensor.data_type.name} {tensor.sizes}", state

    def reset(self, dispatchable: Dispatchable | None = None) -> None:
        """Forget every binding, and serve another dispatchable. What was recorded before stays as it was."""
        if dispatchable is not None and not isinstance(dispatchable, (Compiled, OperatorInitializer)):
            rule = "dispatchable must be a CompiledOperator or an OperatorInitializer"
            fault = Fault(field="dispatchable", rule=rule, value=dispatchable, found=show(dispatchable))
            raise BindingError("BindingTable", fault)
        self.dispatchable = dispatchable
        self.bindings = Bindings()

    def bind_inputs(self, bindings: Sequence[object] | None) -> None:
        """Bind every input; None unbinds all."""
        given = self._list(bindings, "inputs")
        self._check(Bindings(inputs=given))
        self.bindings = replace(self.bindings, inputs=given)

    def bind_outputs(self, bindings: Sequence[object] | None) -> None:
        """Bind every output; None unbinds all."""
        given = self._list(bindings, "outputs")
        self._check(Bindings(outputs=given))
        self.bindings = replace(self.bindings, outputs=given)

    def bind_temporary_resource(self, binding: BufferBinding | None) -> None:
        """Bind scratch memory, as much as `binding_properties` asks for."""
        self._check(Bindings(temporary=binding))
        self.bindings = replace(self.bindings, temporary=binding)

    def bind_persistent_resource(self, binding: BufferBinding | None) -> None:
        """Bind the memory that the operator's initializer filled."""
        self._check(Bindings(persistent=binding))
        self.bindings = replace(self.bindings, persistent=binding)

    def _list(self, bindings: object, field: str) -> tuple[object, ...] | None:
        if bindings is None:
            return None
        if not isinstance(bindings, (list, tuple)):
            fault = Fault(field=field, rule=f"{field} must be a list", value=bindings, found=show(bindings))
            raise BindingError("BindingTable", fault)
        return tuple(bindings)

    def _check(self, change: Bindings) -> None:
        """Refuse a change whose bindings do not fit, each by itself, before it replaces anything."""
        if self.dispatchable is None:
            rule, way_out = "the table serves no dispatchable", "reset() it with one"
            raise BindingError("BindingTable", Fault(field="dispatchable", rule=rule, way_out=way_out))
        faults: list[Fault] = []
        read(self.dispatchable, change, faults)
        raise_binding_faults(self.dispatchable.name, faults)


@dataclass(slots=True)
class Attached:
    """Bindings of one operator that were read: the memory of each slot."""

    inputs: list[Bound] = field(default_factory=list)
    outputs: list[Bound] = field(default_factory=list)
    temporary: Bound | None = None
    persistent: Bound | None = None


def read(dispatchable: Dispatchable, bindings: Bindings, faults: list[Fault]) -> list[Attached]:
    """Read bindings slot by slot, skipping what is not bound; one result for each operator concerned."""
    if isinstance(dispatchable, Compiled):
        return [_read_operator(dispatchable, bindings, faults)]
    return _read_initializer(dispatchable, bindings, faults)


def _read_operator(operator: Compiled, bindings: Bindings, faults: list[Fault]) -> Attached:
    attached = Attached()
    for what, tensors, given, bound in (
        ("inputs", operator.inputs, bindings.inputs, attached.inputs),
        ("outputs", operator.outputs, bindings.outputs, attached.outputs),
    ):
        if given is not None:
            given = _without_gaps(operator.gaps[what], what, len(tensors), given, faults)
        if given is None or not _has_length(given, len(tensors), what, f"for {', '.join(tensors)}", faults):
            continue
        for (name, desc), binding in zip(tensors.items(), given, strict=True):
            if desc.is_owned_by_dml:
                _must_be_none(binding, name, "is OWNED_BY_DML, and is bound for the initializer instead", faults)
            elif one := bind_tensor(
                name, desc, binding, is_output=what == "outputs", faults=faults, memory=operator.memory
            ):
                bound.append(one)
    needs = operator.binding_properties
    if bindings.temporary is not None:
        attached.temporary = bind_range(
            "TemporaryResource",
            bindings.temporary,
            needs.temporary_resource_size,
            TEMPORARY_BUFFER_ALIGNMENT,
            is_output=True,
            faults=faults,
            memory=operator.memory,
        )
    if bindings.persistent is not None:
        attached.persistent = _read_persistent(operator, "PersistentResource", bindings.persistent, faults)
    return attached


def _read_initializer(initializer: OperatorInitializer, bindings: Bindings, faults: list[Fault]) -> list[Attached]:
    operators = initializer.operators
    results = [Attached() for _ in operators]
    _must_be_none(bindings.persistent, "PersistentResource", "is bound as an output of the initializer", faults)
    for what, given in (("inputs", bindings.inputs), ("outputs", bindings.outputs)):
        if given is None or not _has_length(given, len(operators), what, "one for each operator", faults):
            continue
        for i, (operator, attached, binding) in enumerate(zip(operators, results, given, strict=True)):
            where = f"operators[{i}]"
            if what == "inputs":
                attached.inputs = _read_owned(operator, binding, where, faults)
            elif operator.owned or binding is not None:
                bound = _read_persistent(operator, f"{where}.PersistentResource", binding, faults)
                attached.outputs = [bound] if bound else []
    return results


def _read_owned(operator: Compiled, given: object, where: str, faults: list[Fault]) -> list[Bound]:
    if given is None and not operator.owned:
        return []
    tensors, bound = operator.inputs, []
    if not isinstance(given, (list, tuple)):
        rule = f"inputs for {where} must be a list, for {', '.join(tensors)}"
        faults.append(Fault(field="inputs", rule=rule, value=given, found=show(given)))
    elif _has_length(
        given := _without_gaps(operator.gaps["inputs"], "inputs", len(operator.inputs), given, faults),
        len(tensors),
        f"inputs for {where}",
        f"for {', '.join(tensors)}",
        faults,
    ):
        for (name, desc), binding in zip(tensors.items(), given, strict=True):
            if not desc.is_owned_by_dml:
                _must_be_none(binding, f"{where}.{name}", "is not OWNED_BY_DML, and is bound for the operator", faults)
            elif one := bind_tensor(
                f"{where}.{name}", desc, binding, is_output=False, faults=faults, memory=operator.memory
            ):
                bound.append(one)
    return bound


def _without_gaps(
    gaps: Sequence[int], what: str, count: int, given: Sequence[object], faults: list[Fault]
) -> tuple[object, ...]:
    """The bindings of the tensors that are there, where None stands for each optional one that is not."""
    if not gaps or len(given) != count + len(gaps):
        return tuple(given)
    for slot in gaps:
        _must_be_none(given[slot], f"{what}[{slot}]", "is of an optional tensor that the description has not", faults)
    return tuple(one for slot, one in enumerate(given) if slot not in gaps)


def _read_persistent(operator: Compiled, name: str, binding: object, faults: list[Fault]) -> Bound | None:
    size = operator.binding_properties.persistent_resource_size
    return bind_range(
        name, binding, size, PERSISTENT_BUFFER_ALIGNMENT, is_output=True, faults=faults, memory=operator.memory
    )


def _has_length(given: Sequence[object], length: int, what: str, whose: str, faults: list[Fault]) -> bool:
    if len(given) != length:
        rule = f"{what} must be {counted(length, 'binding')}, {whose}"
        faults.append(Fault(field=what, rule=rule, value=given, found=str(len(given))))
    return len(given) == length


def _must_be_none(binding: object, name: str, why: str, faults: list[Fault]) -> None:
    if binding is not None:
        faults.append(Fault(field=name, rule=f"{name} must be None: it {why}", value=binding))
