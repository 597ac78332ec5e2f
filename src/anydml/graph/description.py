"""`GraphDesc`: a graph as DirectML describes it, nodes in a list, and edges that name them by their numbers. The
compiler begins with it: `check.py` checks it, `lower.py` makes it a recipe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import FeatureLevel
from anydml.core.errors import DescriptionError, Fault, raise_description_faults, show
from anydml.core.late_imports import import_alone
from anydml.core.parse import read_int
from anydml.graph.check import find_faults, find_remarks
from anydml.graph.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.operators import Report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.core.enums import LevelName
    from anydml.graph.nodes import Node

SUBJECT = "Graph"
"""Errors' name for a graph."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class GraphDesc:
    """DML_GRAPH_DESC: nodes, and the edges between them, the graph's inputs and its outputs.

    DirectML takes the description of an input from the nodes that it feeds, and that of an output from the node that
    it is of. `input_descs` and `output_descs` may say them, with None for those that need none. `input_names` are
    the keywords of a call; without, the edges' names are.

    A node that no output depends on is not run. The indices of every other gather are checked, though nothing that
    they pick may reach an output, whether the graph is optimised or not.
    """

    input_count: int
    output_count: int
    nodes: Sequence[Node]
    input_edges: Sequence[InputEdge] = ()
    output_edges: Sequence[OutputEdge] = ()
    intermediate_edges: Sequence[IntermediateEdge] = ()
    input_descs: Sequence[TensorDesc | None] | None = None
    output_descs: Sequence[TensorDesc | None] | None = None
    input_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        put = object.__setattr__
        put(self, "input_count", read_int(self.input_count, "InputCount", faults))
        put(self, "output_count", read_int(self.output_count, "OutputCount", faults))
        for name, allowed in _LISTS.items():
            put(self, name, _read_list(getattr(self, name), name, allowed, faults))
        self._read_descs("input", self.input_count, len(self.input_edges), faults)
        self._read_descs("output", self.output_count, len(self.output_edges), faults)
        if self.input_names is not None:
            names = _read_list(self.input_names, "input_names", (str,), faults)
            if len(names) != self.input_count:
                rule = f"input_names must be {self.input_count} names, as InputCount says"
                faults.append(Fault(field="input_names", rule=rule, value=names, found=str(len(names))))
            put(self, "input_names", names)
        if faults:
            raise DescriptionError(SUBJECT, faults)

    def _read_descs(self, kind: str, count: int, edges: int, faults: list[Fault]) -> None:
        """Read the descriptions of the inputs or the outputs: as many as there are, or none at all."""
        name, title = f"{kind}_descs", f"{kind.capitalize()}Count"
        given = getattr(self, name)
        if given is not None:
            descs = _read_list(given, name, (TensorDesc, type(None)), faults)
            if len(descs) != count:
                rule = f"{name} must have {count} entries, as {title} says"
                faults.append(Fault(field=name, rule=rule, value=descs, found=str(len(descs))))
        else:
            descs = (None,) * min(count, edges)
            if count > edges:
                rule = f"{title} must be at most {edges}, the {kind} edges: each {kind} has one"
                faults.append(Fault(field=title, rule=rule, value=count, found=str(count)))
        object.__setattr__(self, name, descs)

    def check(self, feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest()) -> Report:  # noqa: B008 - a constant
        """Check the graph and each of its operators at a feature level, and report rather than raise."""
        level = FeatureLevel(feature_level)
        faults = tuple(find_faults(self, level, f"this check is for {level}"))
        own = [fault for fault in faults if fault.level is None]
        lowest = None if own else next((lv for lv in FeatureLevel if not find_faults(self, lv, "")), None)
        return Report(SUBJECT, level, faults, () if faults else tuple(find_remarks(self)), lowest)

    def validate(self, feature_level: FeatureLevel | LevelName | str) -> None:
        """Raise where the graph is not valid on a device of this level."""
        level = FeatureLevel(feature_level)
        raise_description_faults(SUBJECT, find_faults(self, level, f"this device is {level}"))

    def _repr_html_(self) -> str:
        """A picture of the graph, in a notebook; for one that is not valid, its faults."""
        import_alone("anydml.explain")
        from anydml.explain import explain_desc

        report = self.check()
        return (explain_desc(self) if report else report)._repr_html_()

    def label(self, number: int) -> str:
        """The name of a node in errors."""
        node = self.nodes[number]
        return f"nodes[{number}] {node.name!r}" if node.name else f"nodes[{number}] ({node.kind})"


_LISTS: dict[str, tuple[type, ...]] = {
    "nodes": (OperatorNode, ConstantNode),
    "input_edges": (InputEdge,),
    "output_edges": (OutputEdge,),
    "intermediate_edges": (IntermediateEdge,),
}


def _read_list(values: Any, field: str, allowed: tuple[type, ...], faults: list[Fault]) -> tuple[Any, ...]:
    names = " or ".join("None" if cls is type(None) else cls.__name__ for cls in allowed)
    if not isinstance(values, (list, tuple)):
        rule = f"{field} must be a list of {names}"
        faults.append(Fault(field=field, rule=rule, value=values, found=show(values)))
        return ()
    for i, value in enumerate(values):
        if not isinstance(value, allowed):
            rule = f"{field}[{i}] must be {'an' if names[0] in 'IO' else 'a'} {names}"
            faults.append(Fault(field=f"{field}[{i}]", rule=rule, value=value, found=show(value)))
    return tuple(values)
