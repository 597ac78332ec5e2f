"""Bindings held against the tensors they are for, by the runtime's own rules, before there is any memory."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import show
from anydml.memory import numpy_view
from anydml.models.findings import BINDING, NAME
from anydml.operators.fields import dml_name
from anydml.runtime.binding import Bound, BufferBinding, bind_tensor, hazards

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anydml.errors import Fault
    from anydml.models.findings import Findings
    from anydml.models.model import Binding, Resource
    from anydml.models.source import Node
    from anydml.operators import OperatorDesc

_PAGE = 4096
_HIGHEST = 2**62


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

    def check(
        self,
        desc: OperatorDesc | None,
        bindings: Mapping[str, tuple[Binding, ...]],
        node: Node,
        *,
        initialises: bool,
        subject: str,
    ) -> None:
        """Check what is bound for a run, or for the initialisation that hands OWNED_BY_DML tensors over."""
        for binding in itertools.chain.from_iterable(bindings.values()):
            self._check_names(binding, subject)
        if desc is None:
            return
        given = {name: several[0] for name, several in bindings.items() if several}
        for name, several in bindings.items():
            if len(several) > 1:
                rule = f"{show(name, 60)} must be bound to one resource"
                self._findings.add(BINDING, several[1].node, rule, found=str(len(several)), subject=subject)
        inputs = {dml_name(name) for name in desc.input_names()}
        wanted = [name for name, t in desc.tensors().items() if (t.is_owned_by_dml and name in inputs) == initialises]
        self._check_points(desc, bindings, wanted, node, initialises)
        faults: dict[str, list[Fault]] = {}
        bound: dict[str, Bound] = {}
        for name, tensor in desc.tensors().items():
            bound_to = given.get(name)
            if bound_to is None or bound_to.resource not in self._buffers or name not in wanted:
                continue
            given_range = BufferBinding(self._buffers[bound_to.resource], byte_offset(bound_to, self._resources))
            mine = faults.setdefault(name, [])
            found = bind_tensor(name, tensor, given_range, is_output=name not in inputs, faults=mine)
            if found is not None:
                bound[name] = found
        outputs = [one for name, one in bound.items() if name not in inputs]
        for fault in hazards([one for name, one in bound.items() if name in inputs], outputs, in_place=desc.in_place):
            faults.setdefault(fault.field, []).append(fault)
        for name, found_faults in faults.items():
            for fault in found_faults:
                self._findings.put(BINDING, given[name].node, reword(fault), subject)

    def _check_names(self, binding: Binding, subject: str) -> None:
        counter = binding.node.get("counter")
        names = [binding.resource] + ([counter.raw] if counter is not None and isinstance(counter.raw, str) else [])
        for name in names:
            if name not in self._resources:
                rule = f"there must be a resource {show(name, 60)}"
                known = [show(other, 60) for other in itertools.islice(self._resources, 8)]
                way_out = f"there are {', '.join(known)}" if 0 < len(self._resources) <= len(known) else ""
                self._findings.add(NAME, binding.node, rule, found="", way_out=way_out, subject=subject)

    def _check_points(
        self,
        desc: OperatorDesc,
        bindings: Mapping[str, tuple[Binding, ...]],
        wanted: list[str],
        node: Node,
        initialises: bool,
    ) -> None:
        operator, tensors = desc.type.name, desc.tensors()
        here, there = "the dispatch command", "the dispatchable's own bindings, being OWNED_BY_DML"
        if initialises:
            here, there = there, f"{here}, not being OWNED_BY_DML"
        for name, several in bindings.items():
            at = several[0].node if several else node
            if name not in tensors:
                rule, way_out = f"there is no tensor {show(name, 60)}", f"there are {', '.join(tensors)}"
                self._findings.add(NAME, at, rule, found="", way_out=way_out, subject=operator)
            elif name not in wanted:
                rule = f"{name} must be bound by {there}"
                self._findings.add(BINDING, at, rule, field=name, found="", subject=operator)
        for name in wanted:
            if name not in bindings:
                rule = f"{name} must be bound by {here}"
                self._findings.add(BINDING, node, rule, field=name, found="", subject=operator)


def byte_offset(binding: Binding, resources: Mapping[str, Resource]) -> int:
    """Where a binding begins: elements are of the size that it gives, else of the resource's type."""
    data_type = resources[binding.resource].data_type
    size = binding.element_size or (data_type.size_in_bytes if data_type else 0)
    return binding.element_offset * size


def reword(fault: Fault) -> Fault:
    """Give a way out in a model's own terms, which has no BufferBinding and no Python to speak of."""
    if "BufferBinding" in fault.way_out:
        return replace(fault, way_out="a binding reaches to the end of its resource: bind two resources")
    return replace(fault, way_out=fault.way_out.replace('index_mode="clamp"', '"IndexMode": "clamp" in the desc'))
