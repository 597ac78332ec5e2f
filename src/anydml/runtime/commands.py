"""Recording and running dispatches over binding tables, as DirectML does on a Direct3D 12 command list."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from anydml.core.display import Shown, Table, counted, describe
from anydml.core.enums import ExecutionFlags
from anydml.core.errors import BindingError, Fault, show
from anydml.engines.common.program import one_at_a_time
from anydml.runtime.binding import hazards, raise_binding_faults
from anydml.runtime.dispatchable import Compiled
from anydml.runtime.table import BindingTable, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.runtime.initializer import OperatorInitializer
    from anydml.runtime.table import Attached, Bindings, Dispatchable


class CommandList(Shown):
    """A list of dispatches, in the order in which they run: the counterpart of a Direct3D 12 command list."""

    def __init__(self) -> None:
        self.reset()
        self.run = one_at_a_time(self._run, "CommandList")
        """Run what was recorded, in order; a second thread waits until the first is done with all of it."""

    def __str__(self) -> str:
        state = "closed" if self.is_closed else "open"
        return f"CommandList, {state}; {counted(len(self.commands), 'command')} recorded"

    def _shown(self) -> Iterator[str | Table]:
        yield str(self)
        rows = [(k, str(one.name), *_reads_and_writes(one)) for k, one in enumerate(self._recorded)]
        yield Table("in the order of execution", ("", "dispatchable", "reads", "writes"), rows)

    def reset(self) -> None:
        """Forget what was recorded, and record anew."""
        self.commands: list[Callable[[], None]] = []
        self._recorded: list[Dispatchable] = []
        self.is_closed = False

    def record(self, dispatchable: Dispatchable, command: Callable[[], None]) -> None:
        """Add a dispatch, which runs by a call of the command."""
        self.commands.append(command)
        self._recorded.append(dispatchable)

    def close(self) -> None:
        """Record no more."""
        self.is_closed = True

    def __reduce__(self) -> NoReturn:
        rule = "what is recorded runs on the very memory that was bound, and can be neither copied nor pickled"
        raise TypeError(f"CommandList: {rule}; record the dispatches anew")

    def _run(self) -> None:
        for command in self.commands:
            command()


class CommandRecorder(Shown):
    """IDMLCommandRecorder: records dispatches of compiled operators and initializers."""

    def __str__(self) -> str:
        return "CommandRecorder: record_dispatch(command_list, dispatchable, bindings)"

    def record_dispatch(self, command_list: CommandList, dispatchable: Dispatchable, bindings: BindingTable) -> None:
        """Record a dispatch, which runs when the list is executed.

        Every binding is checked now, and kept as it is now; for an operator compiled with DESCRIPTORS_VOLATILE
        both happen when the list is executed.
        """
        for name, value, expected in (
            ("command_list", command_list, CommandList),
            ("bindings", bindings, BindingTable),
        ):
            if not isinstance(value, expected):
                rule = f"{name} must be a {expected.__name__}"
                raise BindingError("CommandRecorder", Fault(field=name, rule=rule, value=value, found=show(value)))
        if command_list.is_closed:
            fault = Fault(field="command_list", rule="the command list is closed", way_out="reset() it first")
            raise BindingError("CommandRecorder", fault)
        if dispatchable is None or bindings.dispatchable is not dispatchable:
            raise _foreign_table(bindings)
        if isinstance(dispatchable, Compiled) and ExecutionFlags.DESCRIPTORS_VOLATILE in dispatchable.flags:
            command_list.record(dispatchable, lambda: _prepare_late(dispatchable, bindings)())
        else:
            command_list.record(dispatchable, _prepare(dispatchable, bindings.bindings))


def _reads_and_writes(dispatchable: Dispatchable) -> tuple[str, str]:
    """The tensors of a dispatch, in words; an initializer names its operators."""
    if not isinstance(dispatchable, Compiled):
        return ", ".join(one.name for one in dispatchable.operators), "persistent resources"
    kinds = (dispatchable.inputs, dispatchable.outputs)
    reads, writes = (", ".join(f"{name} {describe(desc)}" for name, desc in kind.items()) for kind in kinds)
    return reads, writes


def _foreign_table(bindings: BindingTable) -> BindingError:
    rule = "bindings must be a table made for this dispatchable"
    return BindingError("CommandRecorder", Fault(field="bindings", rule=rule, value=bindings))


def _prepare_late(operator: Compiled, bindings: BindingTable) -> Callable[[], None]:
    if bindings.dispatchable is not operator:
        raise _foreign_table(bindings)
    return _prepare(operator, bindings.bindings)


def _prepare(dispatchable: Dispatchable, bindings: Bindings) -> Callable[[], None]:
    """Check that everything is bound and nothing collides; the result runs it."""
    faults: list[Fault] = []
    attached = read(dispatchable, bindings, faults)
    if isinstance(dispatchable, Compiled):
        faults += _unbound(dispatchable, bindings)
        if not faults:
            faults += _collisions(dispatchable, attached[0])
        raise_binding_faults(dispatchable.name, faults)
        return _operator_run(dispatchable, attached[0])
    if not faults:
        faults += _initializer_faults(dispatchable, attached)
    raise_binding_faults(dispatchable.name, faults)
    return _initializer_run(dispatchable, attached)


def _unbound(operator: Compiled, bindings: Bindings) -> Iterator[Fault]:
    if bindings.inputs is None and len(operator.owned) < len(operator.inputs):
        yield Fault(field="inputs", rule="inputs must be bound", way_out="call bind_inputs()")
    if bindings.outputs is None:
        yield Fault(field="outputs", rule="outputs must be bound", way_out="call bind_outputs()")
    if operator.owned and bindings.persistent is None:
        rule = "PersistentResource must be bound, because an input is OWNED_BY_DML"
        yield Fault(field="PersistentResource", rule=rule, way_out="call bind_persistent_resource()")
    if operator.temporary_size and bindings.temporary is None:
        rule = f"TemporaryResource must be bound, of {operator.temporary_size} bytes, as binding_properties says"
        yield Fault(field="TemporaryResource", rule=rule, way_out="call bind_temporary_resource()")


def _collisions(operator: Compiled, attached: Attached) -> Iterator[Fault]:
    yield from hazards(attached.inputs, attached.outputs, in_place=operator.in_place, shares=operator.shares)
    pairs = [(attached.persistent, other) for other in attached.outputs]
    pairs += [(attached.temporary, other) for other in (*attached.inputs, *attached.outputs)]
    if attached.persistent:
        pairs.append((attached.temporary, attached.persistent))
    for resource, other in pairs:
        if resource and resource.touches(other):
            yield Fault(field=resource.field, rule=f"{resource.field} must not overlap {other.field}")


def _operator_run(operator: Compiled, attached: Attached) -> Callable[[], None]:
    everything = (*attached.inputs, *attached.outputs)
    persistent = attached.persistent.memory if attached.persistent and operator.owned else None
    temporary = attached.temporary.memory if attached.temporary else None
    bound = operator.attach(everything, persistent, temporary)

    def run() -> None:
        if not operator.is_initialized:
            rule = "the operator must be initialized before it runs"
            way_out = "record a dispatch of an OperatorInitializer for it first"
            raise BindingError(operator.name, Fault(field="", rule=rule, way_out=way_out))
        filled = operator.persistent
        if persistent is not None and (filled is None or filled.address != operator.at_device(persistent).address):
            rule = "PersistentResource must be the memory that the initializer filled"
            raise BindingError(operator.name, Fault(field="PersistentResource", rule=rule))
        bound.dispatch()

    return run


def _initializer_faults(initializer: OperatorInitializer, attached: list[Attached]) -> Iterator[Fault]:
    for i, (operator, bound) in enumerate(zip(initializer.operators, attached, strict=True)):
        if operator.owned and not bound.inputs:
            yield Fault(field="inputs", rule=f"operators[{i}]: its inputs that are OWNED_BY_DML must be bound")
        if operator.owned and not bound.outputs:
            yield Fault(field="outputs", rule=f"operators[{i}]: its persistent resource must be bound")
    outputs = [output for bound in attached for output in bound.outputs]
    yield from hazards([], outputs, in_place=False)
    for given in (given for bound in attached for given in bound.inputs):
        if any(given.resource.overlaps(output.resource) for output in outputs):
            rule = f"{given.field} must not be in the buffer of a persistent resource, which is written"
            yield Fault(field=given.field, rule=rule)


def _initializer_run(initializer: OperatorInitializer, attached: list[Attached]) -> Callable[[], None]:
    pairs = list(zip(initializer.operators, attached, strict=True))

    def run() -> None:
        for operator, bound in pairs:
            operator.check_not_initialized()
            sources = {given.field.rpartition(".")[2]: given for given in bound.inputs}
            operator.copy_owned(sources, bound.outputs[0].memory if operator.owned else None)

    return run
