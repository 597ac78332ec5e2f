"""The dispatchables of a model, and the values that the model gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.errors import Fault, ModelError, show
from anydml.models import Dispatch
from anydml.models.constants import first_array
from anydml.operators.fields import bare_name, dml_name
from anydml.spelling import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy as np

    from anydml.models import Binding, Dispatchable, Model
    from anydml.operators import OperatorDesc


def choose(model: Model, name: str | None) -> list[Dispatchable]:
    """The dispatchable of a name, or all of them."""
    if not model.dispatchables:
        raise ModelError(model.file, Fault(field="dispatchables", rule="there is no dispatchable to show"))
    if name is not None and name not in model.dispatchables:
        known = ", ".join(show(other, 60) for other in list(model.dispatchables)[:8])
        rule = f"there is no dispatchable {show(name, 60)}"
        near = suggest(name, map(repr, model.dispatchables))
        fault = Fault(field="dispatchables", rule=rule, way_out="; ".join(filter(None, (f"there are {known}", near))))
        raise ModelError(model.file, fault)
    return [dispatchable for own, dispatchable in model.dispatchables.items() if name in (None, own)]


def first_inputs(model: Model, dispatchable: Dispatchable, desc: OperatorDesc) -> Iterator[np.ndarray[Any, Any] | None]:
    """The inputs of a dispatchable at its first dispatch, in a model that was found valid.

    None where the model does not give the values, but computes them on its way, or they pass its memory limit.
    """
    bindings: Mapping[str, tuple[Binding, ...]] = {}
    written: set[str] = set()
    for command in model.commands:
        if not isinstance(command, Dispatch):
            continue
        if command.dispatchable == dispatchable.name:
            bindings = command.bindings
            break
        other = model.dispatchables[command.dispatchable].desc
        outputs = [dml_name(name) for name in other.output_names()] if other is not None else []
        written |= {binding.resource for name in outputs for binding in command.bindings.get(name, ())}
    left = model.max_memory
    slots = [(bare_name(name), tensor.is_owned_by_dml) for name, tensor in desc.inputs().items()]
    for k, ((field, is_owned), tensor) in enumerate(zip(slots, desc.inputs().values(), strict=True)):
        # Of a field's tensors those that are owned have their bindings in the dispatchable, the others in the command.
        several = (dispatchable.bindings if is_owned else bindings).get(field, ())
        one = several[slots[:k].count(slots[k])] if len(several) == slots.count(slots[k]) else None
        size = model.resources[one.resource].size_in_bytes if one is not None else None
        if one is None or size is None or size > left or one.resource in written:
            yield None
        else:
            left -= size
            yield first_array(model, one, tensor)
