"""Bindings held against the tensors they are for, by the runtime's own rules, before there is any memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enum_parsing import suggest
from anydml.core.errors import show
from anydml.core.memory import numpy_view
from anydml.dxdispatch.findings import BINDING, MOST_FAULTS, NAME
from anydml.dxdispatch.serialized import GraphProgram
from anydml.operators.schema.fields import bare_name
from anydml.runtime.binding import Bound, BufferBinding, bind_tensor, hazards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from anydml.core.errors import Fault
    from anydml.dxdispatch.findings import Findings
    from anydml.dxdispatch.model import Binding, Resource
    from anydml.dxdispatch.source import Node
    from anydml.operators import OperatorDesc

    Bindings: TypeAlias = Mapping[str, tuple[Binding, ...]]
    Target: TypeAlias = OperatorDesc | GraphProgram

_PAGE = 4096
_HIGHEST = 2**62
_MOST_NAMES = 8
_BY_COMMAND, _BY_DISPATCHABLE = "the dispatch command", "the dispatchable's own bindings"


def name_of(desc: Target) -> str:
    """Errors' name for an operator, or a graph."""
    return desc.name if isinstance(desc, GraphProgram) else desc.type.name


def field_of(desc: Target, slot: str) -> str:
    """The name that a tensor is bound by: an operator's field, maybe one of several, or its own name in a graph."""
    return slot if isinstance(desc, GraphProgram) else bare_name(slot)


def slots_of(desc: Target, *, initialises: bool) -> dict[str, list[str]]:
    """By field, the tensors that are bound for a run, or for the initialisation: inputs that are OWNED_BY_DML."""
    owned = {slot for slot, tensor in desc.inputs().items() if tensor.is_owned_by_dml}
    found: dict[str, list[str]] = {}
    for slot in desc.tensors():
        if (slot in owned) == initialises:
            found.setdefault(field_of(desc, slot), []).append(slot)
    return found


def by_slot(desc: Target, bindings: Bindings, *, initialises: bool) -> dict[str, Binding]:
    """The binding of each tensor by its own name, such as `InputTensors[1]`, in a model that was found valid."""
    return {
        slot: binding
        for name, slots in slots_of(desc, initialises=initialises).items()
        for slot, binding in zip(slots, bindings.get(name, ()), strict=False)
    }


class Binder:
    """Checks bindings to resources as they will be.

    The rules are asked about buffers of the right size at addresses where nothing is: they look at ranges, and never
    at bytes.
    """

    def __init__(self, resources: Mapping[str, Resource], findings: Findings) -> None:
        self._resources, self._findings = resources, findings
        self._buffers: dict[str, np.ndarray[Any, Any]] = {}
        address = _PAGE
        for name, resource in resources.items():
            if resource.size_in_bytes is not None:
                self._buffers[name] = numpy_view(address, (resource.size_in_bytes,), (1,), np.dtype(np.uint8))
                address += (resource.size_in_bytes // _PAGE + 2) * _PAGE
                address = address if address < _HIGHEST else _PAGE  # no machine has memory for so many

    def check(self, desc: Target | None, bindings: Bindings, node: Node, *, initialises: bool, subject: str) -> None:
        """Check what is bound for a run, or for the initialisation that hands OWNED_BY_DML tensors over."""
        for binding in itertools.chain.from_iterable(bindings.values()):
            self._check_names(binding, subject)
        if desc is None:
            return
        here, there = _BY_COMMAND, f"{_BY_DISPATCHABLE}, being OWNED_BY_DML"
        if initialises:
            here, there = there, f"{here}, not being OWNED_BY_DML"
        wanted = slots_of(desc, initialises=initialises)
        self._check_points(desc, bindings, wanted, node, here, there)
        given: dict[str, Binding] = {}
        for name, slots in wanted.items():
            is_complete = name in bindings and self._check_count(desc, name, slots, node.get(name) or node, there)
            if is_complete and len(bindings[name]) == len(slots):  # one that could not be read is not among them
                given.update(zip(slots, bindings[name], strict=True))
        given = {slot: binding for slot, binding in given.items() if binding.resource in self._buffers}
        for fault in itertools.islice(self._faults(desc, given), MOST_FAULTS + 1):
            self._findings.put(BINDING, given[fault.field].node, reword(fault), subject)

    def _check_names(self, binding: Binding, subject: str) -> None:
        counter = binding.node.get("counter")
        names = [binding.resource] + ([counter.raw] if counter is not None and isinstance(counter.raw, str) else [])
        for name in names:
            if name not in self._resources:
                rule = f"there is no resource {show(name, 60)}"
                known = [show(other, 60) for other in itertools.islice(self._resources, _MOST_NAMES)]
                way_out = f"there are {', '.join(known)}" if 0 < len(self._resources) <= len(known) else ""
                way_out = suggest(name, self._resources) or way_out
                self._findings.add(NAME, binding.node, rule, found="", way_out=way_out, subject=subject)

    def _check_points(
        self,
        desc: Target,
        bindings: Bindings,
        wanted: Mapping[str, list[str]],
        node: Node,
        here: str,
        there: str,
    ) -> None:
        """Check that what must be bound here is, and nothing else."""
        operator = name_of(desc)
        names = list(dict.fromkeys(field_of(desc, slot) for slot in desc.tensors()))
        for name, several in bindings.items():
            at = several[0].node if several else node
            if name not in names:
                rule, way_out = f"there is no tensor {show(name, 60)}", f"there are {', '.join(names)}"
                self._findings.add(NAME, at, rule, found="", way_out=way_out, subject=operator)
            elif name not in wanted:
                rule = f"{name} must be bound by {there}"
                self._findings.add(BINDING, at, rule, field=name, found="", subject=operator)
        for name in wanted:
            if name not in bindings:
                rule = f"{name} must be bound by {here}"
                self._findings.add(BINDING, node, rule, field=name, found="", subject=operator)

    def _check_count(self, desc: Target, name: str, slots: Sequence[str], at: Node, there: str) -> bool:
        """Whether a field is given a resource for each of its tensors; an empty list was told already."""
        count = len(at) if at.is_list else 1
        if count and count != len(slots):
            rule, way_out = f"{name} must be bound to {_resources(len(slots))}", ""
            if len(slots) < sum(field_of(desc, slot) == name for slot in desc.tensors()):
                rule = f"{name} must be bound here to {_resources(len(slots))}, for {_listed(slots)}"
                way_out = f"the others are bound by {there}"
            elif len(slots) > 1:
                rule += ", one for each of its tensors"
            where = at.element(len(slots)) if at.is_list and count > len(slots) else at
            self._findings.add(
                BINDING, where, rule, field=name, found=str(count), way_out=way_out, subject=name_of(desc)
            )
        return count == len(slots)

    def _faults(self, desc: Target, given: Mapping[str, Binding]) -> Iterator[Fault]:
        """Hold the resources against the tensors that they are for, then against each other."""
        inputs: list[Bound] = []
        outputs: list[Bound] = []
        for tensors, bound in ((desc.inputs(), inputs), (desc.outputs(), outputs)):
            for slot in (slot for slot in tensors if slot in given):
                faults: list[Fault] = []
                offset = byte_offset(given[slot], self._resources)
                buffer = BufferBinding(self._buffers[given[slot].resource], offset)
                found = bind_tensor(slot, tensors[slot], buffer, is_output=bound is outputs, faults=faults)
                yield from faults
                if found is not None:
                    bound.append(found)
        near = _near_others([*inputs, *outputs])
        yield from hazards(
            [one for one in inputs if one.field in near],
            [one for one in outputs if one.field in near],
            in_place=desc.in_place,
            shares=desc.shares(),
        )


def _near_others(bound: Sequence[Bound]) -> set[str]:
    """Those whose ranges share memory with another's: of a thousand that lie apart no two are to be compared."""
    near: set[str] = set()
    last: Bound | None = None
    for one in sorted(bound, key=lambda one: one.memory.address):
        if last is not None and one.memory.address < last.memory.address + last.memory.size:
            near |= {one.field, last.field}
        if last is None or one.memory.address + one.memory.size > last.memory.address + last.memory.size:
            last = one  # reaches furthest so far
    return near


def _resources(count: int) -> str:
    return "one resource" if count == 1 else f"{count} resources"


def _listed(slots: Sequence[str]) -> str:
    return ", ".join(slots[:_MOST_NAMES]) + (", …" if len(slots) > _MOST_NAMES else "")


def byte_offset(binding: Binding, resources: Mapping[str, Resource]) -> int:
    """Where a binding begins: elements are of the size that it gives, else of the resource's type."""
    data_type = resources[binding.resource].data_type
    size = binding.element_size or (data_type.size_in_bytes if data_type else 0)
    return binding.element_offset * size


def reword(fault: Fault) -> Fault:
    """Give a way out in a model's own terms, which has no BufferBinding and no Python to speak of."""
    if "BufferBinding" in fault.way_out:
        return replace(fault, way_out="a binding reaches to the end of its resource: bind two resources")
    way_out = fault.way_out.replace('index_mode="clamp"', '"IndexMode": "clamp" in the desc')
    return replace(fault, way_out=way_out.replace("allow_float64=True", '"AllowFloat64": true in the desc'))
