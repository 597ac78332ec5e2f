"""The needs of a model, node by node: DirectML's operators and feature levels, or why a node cannot run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from anydml.arrays.view import describe
from anydml.core.display import Shown, Table, counted
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.errors import (
    FAULT,
    MISSING,
    UNDETERMINED,
    VERDICTS,
    BindingError,
    DmlError,
    DynamicSizesError,
    Fault,
    ModelError,
    UnsupportedError,
    printable,
    show,
)
from anydml.core.memory import HOST, word_bytes
from anydml.onnx.arguments import memory_told, take
from anydml.onnx.checks import (
    HOST_ONLY,
    NODE_TYPE,
    WITHOUT_STRICT,
    TensorInfo,
    blame,
    check_names,
    element_of,
    ends_table,
    is_host_type,
    word_lacking,
)
from anydml.onnx.checks import describe as describe_output
from anydml.onnx.example_sizes import Examples, find_example, refuse_doubtful
from anydml.onnx.lower.refusals import Why
from anydml.onnx.lower.trace import count_nodes, trace_all
from anydml.onnx.partition.control_flow import told
from anydml.onnx.partition.partitioned_model import hosts
from anydml.onnx.read import read_model
from anydml.onnx.shapes import Binder, refuse_large
from anydml.onnx.tools.random_inputs import word_needed
from anydml.operators.schema.fields import bare_name
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np

    from anydml.core.enums import LevelName
    from anydml.onnx.lower.trace import Record
    from anydml.onnx.lower.values import Value
    from anydml.onnx.read import Given, Source
    from anydml.operators import OperatorDesc


# The feature level that an operator asks for


def is_added(desc: OperatorDesc) -> bool:
    """Whether an operator has a FLOAT64 that it is allowed beyond what DirectML has."""
    is_allowed = bool(getattr(desc, "allow_float64", False))
    return is_allowed and any(tensor.data_type is DataType.FLOAT64 for tensor in desc.tensors().values())


def lowest_level(desc: OperatorDesc) -> FeatureLevel | None:
    """The lowest level that takes an operator with such tensors, leading dimensions of size 1 added where it asks.

    A FLOAT64 that is an extension of DirectML asks for no level: the operator's and its dimensions' is given.
    """
    may_be_double = is_added(desc)
    for level in FeatureLevel:
        row = desc.own_support().at(level)
        if row is not None and all(
            (tensor.data_type in support.data_types or (may_be_double and tensor.data_type is DataType.FLOAT64))
            and tensor.dimension_count <= max(support.dimension_counts)
            for tensor, support in ((tensor, row.tensors[bare_name(name)]) for name, tensor in desc.tensors().items())
        ):
            return level
    return None


# Faults that DirectML has no part in


def _own_fault(error: DmlError | None, record: Record, source: Source, blames: dict[DmlError, str]) -> DmlError | None:
    """A refusal as the model's fault, where nothing that could be built here would take the node."""
    node, refusal = record.node, record.refusal
    if error is None or refusal is None or refusal.why is not Why.DEVICE or not isinstance(error, UnsupportedError):
        return error
    why = blame(node, hosts(source))
    if not why:
        return error
    own = [replace(fault, way_out=fault.way_out or WITHOUT_STRICT) for fault in error.faults]
    found = ModelError(error.subject, word_lacking(source, node) if why == NODE_TYPE else own)
    blames[found] = why
    return found


# Reports


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NodeReport:
    """The result of checking one node."""

    label: str
    kind: str
    """ONNX's node type."""
    name: str
    descs: tuple[OperatorDesc, ...]
    """DirectML's operators that it becomes, in the order in which they run."""
    lowest_level: FeatureLevel | None
    """The feature level that has all of them, types that are an extension of DirectML aside; None where none has."""
    note: str
    """Why there are none, what is known at a run alone, or what of it is an extension of DirectML."""
    error: DmlError | None
    """Why it cannot run."""
    is_known: bool = True
    """Whether anything can be said of it before a run."""
    is_hosted: bool = False
    """Whether it runs on the host, because DirectML lacks the operator or the type."""
    needs: tuple[str, ...] = ()
    """The inputs whose values must be given for that."""
    makes: Mapping[str, TensorInfo | None] = field(default_factory=dict)
    """By the names of its outputs; None for one of which nothing is known."""

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
            "known": self.is_known,
            "host": self.is_hosted,
            "error": None if self.error is None else str(self.error),
        }


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class Report(Shown):
    """The result of checking a model. It is true where every node that is known before a run can run at the level."""

    file: str
    level: FeatureLevel
    nodes: tuple[NodeReport, ...]
    faults: tuple[DmlError, ...]
    """The faults of its inputs and outputs."""
    assumed: Mapping[str, int] = field(default_factory=dict)
    """Dynamic sizes that nobody gave, and what they were assumed to be."""
    inputs: Mapping[str, TensorInfo] = field(default_factory=dict)
    """As they are declared."""
    outputs: Mapping[str, TensorInfo] = field(default_factory=dict)
    """As the nodes make them of these inputs, or as they are declared where that is not known."""
    doubt: DynamicSizesError | None = None
    """That none of the sizes tried fits, and what to give: whether the model is at fault is undetermined."""
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The inputs' shapes that it was checked with."""
    blames: Mapping[DmlError, str] = field(default_factory=dict)
    """Of errors that nothing built here would mend, why: HOST_ONLY or NODE_TYPE."""

    def __bool__(self) -> bool:
        return not self.status

    def __str__(self) -> str:
        faults = "" if self else f", {counted(sum(self.refused.values()) + len(self.faults), 'fault')}"
        lines = [f"{self.file}: {self.verdict}{faults} at feature level {self.level}, {counted(self.count, 'node')}"]
        lines += [f"  {info}" for info in (*self.inputs.values(), *self.outputs.values())]
        lines += [f"  on the host: {kind} {count} times" for kind, count in self.hosted.items()]
        lines += [f"  {node.error}" for node in self.nodes if node.error is not None]  # which names the node
        lines += [f"  {self.doubt}"] if self.doubt is not None else []
        lines += [f"  {word_needed(self.needs)}"] if self.needs else []
        return "\n".join([*lines, *(f"  {fault}" for fault in self.faults)])

    def _shown(self) -> Iterator[str | Table]:
        yield str(self).partition("\n")[0]
        yield ends_table(self.inputs, self.outputs)
        yield Table("nodes by type", ("type", "nodes", "operators", "from level"), list(self._kinds()))
        refused = [(node.label, str(node.error)) for node in self.nodes if node.error is not None]
        yield Table("nodes that cannot run", ("node", "reason"), refused)
        yield from map(str, self.faults)

    def _kinds(self) -> Iterator[tuple[str, int, str, str]]:
        """Each type of node, the most frequent first, and the operators that its nodes become."""
        for kind, count in Counter(node.kind for node in self.nodes).most_common():
            own = [node for node in self.nodes if node.kind == kind]
            names = ", ".join(dict.fromkeys(name for node in own for name in node.operators))
            fates = {"cannot run": any(node.error for node in own), "on the host": any(node.is_hosted for node in own)}
            level = max((node.lowest_level for node in own if node.lowest_level), default=None)
            told = [names, *(fate for fate, holds in fates.items() if holds)]
            yield kind, count, "; ".join(filter(None, told)), str(level or "")

    @property
    def lowest_level(self) -> FeatureLevel:
        """From which every node can run that can run at all, and that anything is known of."""
        return max((node.lowest_level for node in self.nodes if node.lowest_level), default=min(FeatureLevel))

    @property
    def count(self) -> int:
        """The number of nodes, Constants aside: the same in all commands and on the page."""
        return count_nodes(node.kind for node in self.nodes)

    @property
    def unknown(self) -> int:
        """The number of nodes that depend on values known at a run alone, or on a node that cannot run."""
        return sum(not node.is_known for node in self.nodes)

    @property
    def hosted(self) -> Counter[str]:
        """How many nodes of each type run on the host."""
        return Counter(node.kind for node in self.nodes if node.is_hosted)

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

    @property
    def verdict(self) -> str:
        """What the model is: valid, invalid, unsupported, or undetermined."""
        return VERDICTS[self.status] if not self or self.doubt is None else UNDETERMINED

    @property
    def needs(self) -> tuple[str, ...]:
        """The inputs whose values nodes depend on, and that nobody gave."""
        return tuple(sorted({name for node in self.nodes for name in node.needs}))

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.file,
            "feature_level": str(self.level),
            "lowest_level": str(self.lowest_level),
            "verdict": self.verdict,
            "valid": bool(self) if self.doubt is None or not self else None,
            "undetermined": None if self.doubt is None else str(self.doubt),
            "unknown": self.unknown,
            "needs": list(self.needs),
            "assumed": dict(self.assumed),
            "faults": [str(fault) for fault in self.faults],
            "nodes": [node.as_data() for node in self.nodes],
        }


def check(
    model: Given,
    feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest(),  # noqa: B008 - a constant
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    values: Mapping[str, Any] | None = None,
    max_memory: int | None = None,
    strict: bool = False,
) -> Report:
    """Find what each node of an ONNX model needs, and whether a device of a feature level has it. Nothing runs.

    `shapes` sets dynamic sizes as `load` does. Of one that nobody gives several are tried, and the first with which
    the nodes fit together is taken; where none does, `doubt` says so. `values` are those of inputs that shapes depend
    on. `max_memory` is the most bytes that the model and what is computed for the check may take. With
    `strict` a node that would run on the host, for want of an operator or of a type, is refused.
    """
    level = FeatureLevel(feature_level)
    with memory_told("check"):
        source = read_model(model, max_memory=max_memory)
        bound, given = ({} if each is None else each for each in (shapes, values))
        return _check(source, level, bound, given, is_strict=bool(strict))


def _check(
    source: Source,
    level: FeatureLevel,
    shapes: Mapping[str, int | Sequence[int]],
    values: Mapping[str, Any],
    *,
    is_strict: bool,
) -> Report:
    check_names(source)
    infos, faults = _read_infos(source)
    takes = hosts(source, is_strict=is_strict)
    faults = [
        ModelError(fault.subject, fault.faults) if is_host_type(fault.value) else fault
        for fault in faults
        if not is_host_type(fault.value, is_strict=is_strict)
    ]
    blames: dict[DmlError, str] = {fault: HOST_ONLY for fault in faults if is_host_type(fault.value)}
    arrays = _take_values(source, infos, values)
    device = Device("reference")
    small = {name: array for name, array in arrays.items() if refuse_large(name, array.shape) is None}
    example = find_example(
        _examples(source, infos, shapes, arrays), lambda each: trace_all(source, each, small, device)
    )
    bound, found = example.shapes, example.trace
    judged: list[NodeReport] = []
    fates: dict[str, str] = {}
    for record in found.records:
        flow, earlier = told(record.node, source.opset), _earlier(record, fates)
        one = _judge(
            record,
            level,
            bound,
            flow,
            may_be_hosted=takes(record.node),
            doubtful=example.doubtful,
            earlier=earlier,
        )
        judged.append(replace(one, error=_own_fault(one.error, record, source, blames), makes=record.makes))
        if fate := _fate(one, record, example.doubtful, earlier):
            fates |= dict.fromkeys(record.node.makes, fate)
    nodes = tuple(judged)
    if any(node.error is not None for node in nodes) and (differing := Binder(source.name, infos, {}).differing(bound)):
        faults = [BindingError(source.name, differing), *faults]  # the likely reason
    outputs = {name: _output(name, value, source) for name, value in found.outputs.items()}
    known = {name: info for name, info in outputs.items() if info is not None}
    doubt = refuse_doubtful(source.name, example) if example.doubtful else None
    return Report(source.name, level, nodes, tuple(faults), example.assumed, infos, known, doubt, bound, blames)


def _output(name: str, value: Value | None, source: Source) -> TensorInfo | None:
    """An output as its node makes it; as it is declared, where that is not known."""
    if value is not None:
        return TensorInfo(name, value.element, value.shape)
    info = next(info for info in source.model.graph.output if info.name == name)
    try:
        return describe_output(info, source, "output")
    except DmlError:
        return None  # which is among the faults


def inputs_of(model: Given) -> dict[str, TensorInfo]:
    """A model's inputs as it declares them, those of types that no device takes left out."""
    return _read_infos(read_model(model))[0]


def _read_infos(source: Source) -> tuple[dict[str, TensorInfo], list[DmlError]]:
    """The inputs that a device can take, and what is wrong with the others and with outputs."""
    infos, faults = {}, []
    graph = source.model.graph
    own = graph.constants
    for what, several in (("input", graph.input), ("output", graph.output)):
        for info in several:
            try:
                element = element_of(info, source.name, what)
            except DmlError as error:
                faults.append(error)
                continue
            if what == "input" and element is not None:
                infos[info.name] = TensorInfo(info.name, element, info.type.shape, info.name in own)
    return infos, faults


def _take_values(source: Source, infos: Mapping[str, TensorInfo], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of inputs as arrays of the inputs' types."""
    if not isinstance(values, Mapping):
        rule = "values must be a mapping of names to arrays"
        raise BindingError(source.name, Fault(field="values", rule=rule, value=values, found=describe(values)))
    names = [info.name for info in source.model.graph.input]
    for name in values:
        if name not in names:
            takes = f"the model takes {', '.join(repr(printable(one)) for one in names) or 'none'}"
            fault = Fault(
                field="values", rule=f"there is no input {show(name)}", value=name, way_out=takes, is_slip=True
            )
            raise BindingError(source.name, fault)
    # An input of a type that DirectML lacks is a fault already, whatever its values are.
    return {name: take(array, infos[name], HOST) for name, array in values.items() if name in infos}


def _examples(
    source: Source,
    infos: Mapping[str, TensorInfo],
    given: Mapping[str, int | Sequence[int]],
    arrays: Mapping[str, np.ndarray[Any, Any]],
) -> Examples:
    """Shapes for all inputs, and numbers for the sizes in them that nobody gave."""
    shapes = Binder(source.name, infos, given).bind({name: array.shape for name, array in arrays.items()})
    binder = Binder(source.name, infos, {**given, **shapes})
    names = [name for name, info in infos.items() if name in arrays or not info.is_optional]
    return binder.examples(names, source.model.metadata_props)


_FAILED, _UNDETERMINED, _AT_RUN = "failed above", "is undetermined", "is known at a run alone"
"""What may become of a node, for those that read what it makes."""


def _earlier(record: Record, fates: Mapping[str, str]) -> str:
    """The fate of what a node reads: a failure before all."""
    found = {fates[name] for name in record.node.reads if name in fates}
    return next((fate for fate in (_FAILED, _UNDETERMINED, _AT_RUN) if fate in found), _FAILED)


def _fate(node: NodeReport, record: Record, doubtful: frozenset[tuple[str, str]], earlier: str) -> str:
    """What became of a node; nothing where all is known."""
    if node.error is not None:
        return _FAILED
    if node.is_known or record.refusal is None:
        return "" if node.is_known else _AT_RUN
    if record.refusal.why is Why.EARLIER:
        return earlier
    return _UNDETERMINED if (record.label, str(record.refusal.error)) in doubtful else _AT_RUN


def _judge(
    record: Record,
    level: FeatureLevel,
    shapes: Mapping[str, tuple[int, ...]],
    flow: str,
    *,
    may_be_hosted: bool,
    doubtful: frozenset[tuple[str, str]],
    earlier: str,
) -> NodeReport:
    refusal, note, is_known, is_hosted = record.refusal, record.note, True, False
    needs: tuple[str, ...] = ()
    error = None if refusal is None else refusal.error
    if refusal is not None and refusal.why is Why.VALUES:
        large = [fault for name in sorted(refusal.inputs) if (fault := refuse_large(name, shapes[name])) is not None]
        if large:
            error = ModelError(record.label, large)
        else:
            needs = tuple(sorted(refusal.inputs))
            names = ", ".join(map(repr, needs))
            note = f"known at a run: depends on the values of {names}{f'; {flow}' if flow else ''}"
            error, is_known = None, False
    elif refusal is not None and refusal.why is Why.EARLIER:
        note = f"skipped: depends on a node that {earlier}"
        error, is_known = None, False
    elif error is not None and (record.label, str(error)) in doubtful:
        note = f"undetermined with the sizes assumed: {error.faults[0].rule}"
        error, is_known = None, False
    elif may_be_hosted and refusal is not None and refusal.why is Why.DEVICE:
        if flow:
            return NodeReport(record.label, record.kind, record.name, (), None, flow, None, is_known=False)
        read = "" if record.read is None else f", which reads {word_bytes(record.read)}"
        note = f"runs on the host{read}: {refusal.error.faults[0].rule}"
        error, is_hosted = None, True
    levels = {desc: lowest_level(desc) for desc in record.operators}
    lowest = max((found for found in levels.values() if found is not None), default=None)
    if error is None and is_known:
        remarks = [remark for desc in levels if is_added(desc) for remark in desc.remarks()]
        note = "; ".join(dict.fromkeys(filter(None, (note, *remarks))))
    if error is None and lowest is not None and lowest > level:
        worst = next(desc for desc, found in levels.items() if found == lowest)
        rule = f"{worst.type.name} of these types and dimensions needs {lowest.dml_name}"
        error = DmlError(record.label, Fault(field="", rule=rule, way_out=f"this check is for {level}", level=lowest))
    found = record.operators
    return NodeReport(record.label, record.kind, record.name, found, lowest, note, error, is_known, is_hosted, needs)
