"""What a model needs, node by node: DirectML's operators and feature levels, or why a node cannot run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.enums import FeatureLevel
from anydml.errors import DmlError, Fault, UnsupportedError
from anydml.onnx.graphs import TensorInfo, check_names, element_of, shape_of
from anydml.onnx.reading import read_model
from anydml.onnx.shapes import Binder
from anydml.onnx.tracing import UnknownError, trace
from anydml.onnx.values import NeedsValueError
from anydml.operators.fields import bare_name
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from anydml.onnx.reading import Given, Source
    from anydml.onnx.tracing import Record
    from anydml.operators import OperatorDesc

FAULT, MISSING = 1, 3
"""The program's exit statuses."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """What one node needs."""

    label: str
    kind: str
    """ONNX's node type."""
    name: str
    descs: tuple[OperatorDesc, ...]
    """DirectML's operators that it becomes, in the order in which they run."""
    lowest_level: FeatureLevel | None
    """Which all of them are there from; None where there are none, or where one is of no level."""
    note: str
    """Why there are none, or what is known at a run alone."""
    error: DmlError | None
    """Why it cannot run."""

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators' names."""
        return tuple(desc.type.name for desc in self.descs)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "type": self.kind,
            "operators": list(self.operators),
            "lowest_level": None if self.lowest_level is None else str(self.lowest_level),
            "note": self.note,
            "error": None if self.error is None else str(self.error),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What a model needs. It is true where every node can run at the level."""

    file: str
    level: FeatureLevel
    nodes: tuple[NodeReport, ...]
    faults: tuple[DmlError, ...]
    """What is wrong with its inputs and outputs."""
    assumed: Mapping[str, int] = field(default_factory=dict)
    """Open sizes that nobody bound, and what they were taken for."""

    def __bool__(self) -> bool:
        return not self.status

    @property
    def lowest_level(self) -> FeatureLevel:
        """From which every node can run that can run at all."""
        return max((node.lowest_level for node in self.nodes if node.lowest_level), default=min(FeatureLevel))

    @property
    def refused(self) -> Counter[str]:
        """How many nodes of each type cannot run."""
        return Counter(node.kind for node in self.nodes if node.error is not None)

    @property
    def status(self) -> int:
        """The program's exit status: 0, 1 for what is at fault, 3 for what is not here."""
        errors = [*self.faults, *(node.error for node in self.nodes if node.error is not None)]
        if not errors:
            return 0
        return FAULT if any(not isinstance(error, UnsupportedError) for error in errors) else MISSING

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.file,
            "feature_level": str(self.level),
            "lowest_level": str(self.lowest_level),
            "valid": bool(self),
            "assumed": dict(self.assumed),
            "faults": [str(fault) for fault in self.faults],
            "nodes": [node.as_data() for node in self.nodes],
        }


def check(
    model: Given,
    feature_level: FeatureLevel | str = FeatureLevel.highest(),  # noqa: B008 - a constant
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Report:
    """Find what each node of an ONNX model needs, and whether a device of a feature level has it. Nothing runs.

    `shapes` binds open sizes as `load` does; one that nobody binds is taken for 1. `values` are those of inputs that
    shapes hang on.
    """
    level = FeatureLevel(feature_level)
    source = read_model(model)
    check_names(source)
    infos, faults = _read_infos(source)
    bound, assumed = _bind(source, infos, shapes or {}, values or {})
    device = Device("reference")
    found = trace(source, bound, values or {}, device, keep_going=True)
    nodes = tuple(_judge(record, level) for record in found.records)
    return Report(source.name, level, nodes, tuple(faults), assumed)


def _read_infos(source: Source) -> tuple[dict[str, TensorInfo], list[DmlError]]:
    """The inputs that a device can take, and what is wrong with the others and with outputs."""
    infos, faults = {}, []
    graph = source.proto.graph
    own = {tensor.name for tensor in graph.initializer}
    for what, several in (("input", graph.input), ("output", graph.output)):
        for info in several:
            try:
                element = element_of(info, source.name, what)
            except DmlError as error:
                faults.append(error)
                continue
            if what == "input" and element is not None:
                infos[info.name] = TensorInfo(info.name, element, shape_of(info), info.name in own)
    return infos, faults


def _bind(
    source: Source,
    infos: Mapping[str, TensorInfo],
    given: Mapping[str, int | Sequence[int]],
    values: Mapping[str, np.ndarray[Any, Any]],
) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """A shape for each input, and the open sizes that were taken for something."""
    binder = Binder(source.name, infos, {**given, **{name: array.shape for name, array in values.items()}})
    return binder.assume([name for name, info in infos.items() if name in values or not info.is_optional])


def _judge(record: Record, level: FeatureLevel) -> NodeReport:
    error, note = record.error, record.note
    if isinstance(error, NeedsValueError):
        names = ", ".join(sorted(map(repr, error.inputs)))
        error, note = None, f"known at a run: hangs on the values of {names}"
    elif isinstance(error, UnknownError):
        error, note = None, "not known: hangs on a node that is not"
    levels = {desc: lowest_level(desc) for desc in record.operators}
    found = [found for found in levels.values() if found is not None]
    lowest = max(found) if found and len(found) == len(levels) else None
    if error is None and len(found) < len(levels):
        note = "; ".join(remark for desc, found in levels.items() if found is None for remark in desc.remarks())
    if error is None and lowest is not None and lowest > level:
        worst = next(desc for desc, found in levels.items() if found == lowest)
        rule = f"{worst.type.name} of these types and dimensions needs {lowest.dml_name}"
        error = DmlError(record.label, Fault(field="", rule=rule, way_out=f"this check is for {level}", level=lowest))
    return NodeReport(record.label, record.kind, record.name, record.operators, lowest, note, error)


def lowest_level(desc: OperatorDesc) -> FeatureLevel | None:
    """The lowest level that takes an operator with such tensors, leading dimensions of size 1 added where it asks.

    None where no level does, for what is an addition to DirectML.
    """
    for level in FeatureLevel:
        row = desc.support.at(level)
        if row is not None and all(
            tensor.data_type in row.tensors[bare_name(name)].data_types
            and tensor.dimension_count <= max(row.tensors[bare_name(name)].dimension_counts)
            for name, tensor in desc.tensors().items()
        ):
            return level
    return None
