"""Members that several parts of a model have: strings, whole numbers, sizes and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.models.findings import FILE
from anydml.models.model import Binding
from anydml.models.remarks import remark_unknown
from anydml.parse import UINT32_MAX

if TYPE_CHECKING:
    from anydml.models.findings import Findings
    from anydml.models.source import Node

LARGEST_RESOURCE = 2**48
"""More than any machine has; what is larger is a slip."""


class FieldReader:
    """Reads members, and collects what it finds."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings

    def read_string(self, node: Node, name: str) -> str | None:
        """A member that must be a string."""
        child = node.get(name)
        if child is None:
            self.findings.add(FILE, node, f"{name} must be given", field=name, found="")
        elif not isinstance(child.raw, str):
            self.findings.add(FILE, child, f"{name} must be a string", field=name)
        else:
            return child.raw
        return None

    def read_whole(self, node: Node, name: str, default: Any, high: int, low: int = 0) -> Any:
        """A member that is a whole number of a range, where it is given."""
        child = node.get(name)
        if child is None:
            return default
        if type(child.raw) is not int or not low <= child.raw <= high:
            self.findings.add(FILE, child, f"{name} must be a whole number in {low} .. {high}", field=name)
            return default
        return child.raw

    def read_bindings(self, node: Node) -> dict[str, tuple[Binding, ...]]:
        """Resources by the names of tensors."""
        if not node.is_object:
            self.findings.add(FILE, node, "bindings must be an object")
            return {}
        found = {}
        for name, child in node.members():
            if child.is_list and len(child) == 0:
                self.findings.add(FILE, child, "a list of bindings must not be empty", found="")
            given = [self.read_binding(one) for one in (child.elements() if child.is_list else [child])]
            found[name] = tuple(binding for binding in given if binding is not None)
        return found

    def read_binding(self, node: Node) -> Binding | None:
        """A resource, or a part of one."""
        if isinstance(node.raw, str):
            return Binding(resource=node.raw, node=node)
        if not node.is_object:
            self.findings.add(FILE, node, "a binding must be a resource's name, or an object with one")
            return None
        known = ("name", "elementCount", "elementSizeInBytes", "elementOffset", "format", "shape")
        remark_unknown(node, (*known, "counter", "counterOffsetBytes"), self.findings)
        name = self.read_string(node, "name")
        self.read_whole(node, "elementCount", 0, LARGEST_RESOURCE)
        offset = self.read_whole(node, "elementOffset", 0, LARGEST_RESOURCE)
        size = self.read_whole(node, "elementSizeInBytes", 0, LARGEST_RESOURCE)
        shape = self.read_sizes(node.get("shape"), "shape", low=0)
        if name is None:
            return None
        return Binding(resource=name, node=node, element_offset=offset, element_size=size, shape=shape)

    def read_sizes(self, node: Node | None, field: str, low: int) -> tuple[int, ...] | None:
        """A list of sizes; None where there is none."""
        if node is None:
            return None
        if not node.is_list:
            self.findings.add(FILE, node, f"{field} must be a list of whole numbers")
            return None
        sizes = []
        for i, element in enumerate(node.elements()):
            if type(element.raw) is not int or not low <= element.raw <= UINT32_MAX:
                self.findings.add(FILE, element, f"{field}[{i}] must be a whole number in {low} .. {UINT32_MAX}")
                break
            sizes.append(element.raw)
        return tuple(sizes)
