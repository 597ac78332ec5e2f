"""The result of a model's check: every fault at once, the lowest level of each dispatchable, and remarks.

Indices that a model writes out are held against their dimensions, which a dispatch would do otherwise, and commands
that show or write a resource against what it has. Reports are data for JSON, and for code hosts SARIF 2.1.0.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from anydml import __version__
from anydml.arrays.tensor import TensorDesc
from anydml.core.display import Shown, Table, counted
from anydml.core.enum_parsing import suggest
from anydml.core.enums import FeatureLevel
from anydml.core.errors import MISSING, VERDICTS, DescriptionError, DmlError, ModelFileError, Place, printable, show
from anydml.core.limits import default_max_memory
from anydml.core.memory import NUMPY_DIMENSIONS, numpy_view, word_bytes
from anydml.dxdispatch.bind import Binder, by_slot, byte_offset, name_of, reword
from anydml.dxdispatch.constants import first_array
from anydml.dxdispatch.findings import (
    BINDING,
    COMMAND,
    DESCRIPTION,
    FILE,
    INDEX,
    KINDS,
    LEVEL,
    NAME,
    REMARK,
    UNSUPPORTED,
    Finding,
    Findings,
    TooManyFaultsError,
    raise_findings,
    status_of,
)
from anydml.dxdispatch.images import FLOATS, MODES
from anydml.dxdispatch.loading import read_model, read_text
from anydml.dxdispatch.model import Dispatch, WriteFile
from anydml.dxdispatch.onnx_programs import DispatchChecker, OnnxProgram, check_names, check_program
from anydml.dxdispatch.output import files_of, is_array, is_image
from anydml.dxdispatch.serialized import GraphProgram
from anydml.dxdispatch.source import locate
from anydml.dxdispatch.syntax import Unread
from anydml.engines.reference import find_outside
from anydml.operators import OperatorDesc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from anydml.core.enums import LevelName
    from anydml.core.errors import Fault
    from anydml.dxdispatch.loading import Folders
    from anydml.dxdispatch.model import Binding, Dispatchable, Model, Print, Resource
    from anydml.dxdispatch.source import Node
    from anydml.ir.verbs import Check, IndexFault
    from anydml.onnx.tools.report import Report


# Indices


_LARGEST = 2**26
"""Bytes of a resource that is read for its indices."""


def check_indices(command: Dispatch, model: Model, findings: Findings, written: set[str]) -> None:
    """Check the indices of a dispatch in which nothing else is at fault, unless an earlier one computes them."""
    dispatchable = model.dispatchables[command.dispatchable]
    desc = dispatchable.bound
    if not isinstance(desc, OperatorDesc):
        return
    given = by_slot(desc, dispatchable.bindings, initialises=True) | by_slot(desc, command.bindings, initialises=False)
    tensors = desc.inputs()
    for check in (check for primitive in desc.lower() for check in primitive.checks):
        slot = check.indices.tensor
        binding, tensor = given.get(slot), tensors.get(slot)
        if binding is None or tensor is None or binding.resource in written:
            continue
        if (model.resources[binding.resource].size_in_bytes or 0) > _LARGEST:
            continue
        try:
            array = first_array(model, binding, tensor)
        except (DmlError, OSError):  # a file that cannot be read is told when it is
            continue
        if array is None:
            continue
        view = check.indices
        address = array.__array_interface__["data"][0] + view.offset * array.itemsize
        if (outside := find_outside(check, numpy_view(address, view.sizes, view.strides, array.dtype, array))) is None:
            continue
        fault = reword(desc.word_index_fault(outside))
        findings.put(INDEX, _where(model, binding, check, outside), fault, desc.type.name)


def _where(model: Model, binding: Binding, check: Check, outside: IndexFault) -> Node:
    """The number itself where the model has it in a list, else the binding."""
    resource, view = model.resources[binding.resource], check.indices
    values = resource.node.get("initialValues")
    if values is None or not values.is_list or resource.data_type is not view.data_type:
        return binding.node
    place = (*outside.position, outside.dimension - check.dimension)
    number = view.offset + sum(i * stride for i, stride in zip(place, view.strides, strict=True))
    number += (byte_offset(binding, model.resources) - resource.values_offset) // view.data_type.size_in_bytes
    return values.element(number) if 0 <= number < len(values) else binding.node


# Commands that show a resource or write it


def check_output(command: Print | WriteFile, model: Model, findings: Findings, written: set[str]) -> None:
    """Check a command that shows a resource or writes it to a file."""
    resource = model.resources.get(command.resource)
    node = command.node.get("resource") or command.node
    if resource is None:
        rule = f"there is no resource {show(command.resource, 60)}"
        findings.add(NAME, node, rule, found="", way_out=suggest(command.resource, model.resources))
    elif resource.is_deferred and command.resource not in written:
        findings.add(COMMAND, node, "a deferred resource must be written by an earlier dispatch", found="")
    elif isinstance(command, WriteFile) and is_array(command) and resource.values is not None:
        _check_npy(command, resource, findings)
    elif isinstance(command, WriteFile) and is_image(command) and resource.values is not None:
        _check_image(command, resource, findings)


def _check_npy(command: WriteFile, resource: Resource, findings: Findings) -> None:
    if resource.data_type is None:
        rule = "a resource must have values of one type to be written as .npy"
        findings.add(COMMAND, command.node.get("resource") or command.node, rule, found="")
        return
    node = command.node.get("dimensions") or command.node
    if len(command.dimensions) > NUMPY_DIMENSIONS:
        rule = f"dimensions must be at most {NUMPY_DIMENSIONS} sizes, which is what NumPy reads"
        findings.add(COMMAND, node, rule, found=str(len(command.dimensions)))
        return
    _check_elements(command, resource, findings)


def _check_elements(command: WriteFile, resource: Resource, findings: Findings) -> None:
    assert resource.data_type  # noqa: S101 - for type checkers: the callers looked
    node = command.node.get("dimensions") or command.node
    most = (resource.size_in_bytes or 0) // resource.data_type.size_in_bytes
    count = math.prod(command.dimensions)
    if command.dimensions and count > most:
        rule = f"dimensions must multiply to at most {most}, the elements of the resource"
        findings.add(COMMAND, node, rule, found=str(count) if count < 10**20 else "more than 10^20")


def _check_image(command: WriteFile, resource: Resource, findings: Findings) -> None:
    if resource.data_type not in FLOATS:
        rule = f"a resource must be of {' or '.join(kind.name for kind in FLOATS)} to be written as an image"
        findings.add(COMMAND, command.node.get("resource") or command.node, rule, found="")
        return
    sizes, node = command.dimensions, command.node.get("dimensions") or command.node
    if len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in MODES:
        rule = "dimensions must be [1, channels, height, width] with 1, 3 or 4 channels, for an image"
        findings.add(COMMAND, node, rule, found=str(list(sizes[:8])))
    else:
        _check_elements(command, resource, findings)


# Reports


_SECTION = re.compile(r"\$([.[][^.[]*){0,2}")
"""The paths of a model, a section of it, and a resource, dispatchable or command: none can be named if unread."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class CheckedDispatchable:
    """A dispatchable that is a description, whether valid or not."""

    name: str
    operator: str
    lowest_level: FeatureLevel | None
    """The lowest level at which it is valid; None where it is valid at none."""


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class ModelReport(Shown):
    """The result of checking a model. It is true where the model can run."""

    file: str
    level: FeatureLevel
    findings: tuple[Finding, ...]
    """In the order of the file; faults and remarks."""
    dispatchables: tuple[CheckedDispatchable, ...] = ()
    memory_in_bytes: int = 0
    """The memory of the resources and of the operators' own copies."""
    output_in_bytes: int = 0
    """The disk space of the files that it writes, and of their folders."""
    path: str = ""
    """The file's name as the system has it; `file` is what may be shown of it."""
    text: str = field(default="", repr=False, compare=False)
    """The text of the file, which excerpts are taken from."""

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        faults = f", {counted(len(self.faults), 'fault')}" if self.faults else ""
        lines = [f"{self.file}: {VERDICTS[self.status]}{faults} at feature level {self.level}"]
        for one in self.dispatchables:
            since = "valid at no level" if one.lowest_level is None else f"valid from level {one.lowest_level} on"
            lines.append(f"  {one.name!r}: {one.operator}, {since}")
        return "\n".join([*lines, *(f"  {finding}" for finding in self.findings)])

    def _shown(self) -> Iterator[str | Table]:
        yield str(self).partition("\n")[0]
        rows = [(one.name, one.operator, str(one.lowest_level or "none")) for one in self.dispatchables]
        yield Table("dispatchables", ("name", "operator", "valid from level"), rows)
        places = [(finding.kind.name.lower(), str(finding)) for finding in self.findings]
        yield Table("what was found", ("kind", "fault or remark"), places)
        yield f"takes {word_bytes(self.memory_in_bytes)}"

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The faults that keep the model from running."""
        return tuple(finding for finding in self.findings if finding.kind.status)

    @property
    def remarks(self) -> tuple[Finding, ...]:
        """Remarks; none of them keeps the model from running."""
        return tuple(finding for finding in self.findings if not finding.kind.status)

    @property
    def status(self) -> int:
        """The program's exit status: 0 valid, 1 at fault, 2 unusable, 3 in need of what is not here."""
        return status_of(self.findings)

    def raise_faults(self) -> None:
        """Raise what was found, all of it at once."""
        raise_findings(self.file, self.findings)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "model": self.file,
            "feature_level": str(self.level),
            "valid": bool(self),
            "verdict": VERDICTS[self.status],
            "memory_in_bytes": self.memory_in_bytes,
            "output_in_bytes": self.output_in_bytes,
            "dispatchables": [
                {
                    "name": found.name,
                    "operator": found.operator,
                    "lowest_feature_level": None if found.lowest_level is None else str(found.lowest_level),
                }
                for found in self.dispatchables
            ],
            "findings": [finding.as_data() for finding in self.findings],
        }


def check_file(
    path: str | os.PathLike[str],
    feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest(),  # noqa: B008 - a constant
    *,
    allow_files: Folders = (),
    data: bytes | None = None,
) -> ModelReport:
    """Check a model file; one that is no JSON is reported as well, instead of raised.

    After a syntax error the rest is checked, but for values that depend on those that could not be read. With `data`
    that is the file's text, and the path is its name, where the files that it names are looked for.
    """
    level = FeatureLevel(feature_level)
    if data is None:
        with contextlib.suppress(DmlError, TypeError, ValueError):  # which reading it tells
            data = read_text(Path(path), default_max_memory())
    report = _check_file(path, level, allow_files, data)
    return replace(report, path=os.fspath(path), text=(data or b"").decode("utf-8-sig", "replace"))


def _check_file(
    path: str | os.PathLike[str], level: FeatureLevel, allow_files: Folders, data: bytes | None
) -> ModelReport:
    unread = Unread()
    try:
        model = read_model(path, allow_files, data=data, unread=unread)
    except TooManyFaultsError as error:
        return ModelReport(printable(str(path)), level, tuple(error.findings))
    except DescriptionError:  # of an argument, not of the file
        raise
    except DmlError as error:
        kind = FILE if isinstance(error, ModelFileError) else UNSUPPORTED
        faults = [Finding(kind, fault if fault.place else _at_start(fault, error.subject)) for fault in error.faults]
        return ModelReport(error.subject, level, tuple(faults))
    report = check_model(model, level)
    return report if not unread.faults else _past_errors(report, unread)


def _past_errors(report: ModelReport, unread: Unread) -> ModelReport:
    """The report of a model with syntax errors: those, and the findings that do not depend on them."""
    is_whole = not any(_SECTION.fullmatch(path) for path in unread.paths)
    known = [one for one in report.findings if not unread.touches(one.fault.place.path if one.fault.place else "$")]
    findings = [one for one in known if one.kind is not NAME or is_whole]
    findings += [Finding(FILE, fault) for fault in unread.faults]
    return replace(report, findings=tuple(sorted(findings, key=_order)), dispatchables=())


def _at_start(fault: Fault, file: str) -> Fault:
    return replace(fault, place=Place(file, 1, 1))


def check_model(model: Model, level: FeatureLevel) -> ModelReport:
    """Check a model that was read."""
    findings = Findings(model.findings)
    checked: list[CheckedDispatchable] = []
    with contextlib.suppress(TooManyFaultsError):
        _check_all(model, level, findings, checked)
    findings.sort(key=_order)
    output = sum(room for room, _ in files_of(model).values())
    return ModelReport(model.file, level, tuple(findings), tuple(checked), _memory(model), output)


def _check_all(model: Model, level: FeatureLevel, findings: Findings, checked: list[CheckedDispatchable]) -> None:
    at_fault = _around(finding for finding in model.findings if finding.kind is DESCRIPTION)
    binder = Binder(model.resources, findings)
    sound: set[str] = set()
    reports: list[tuple[OnnxProgram, Report | None]] = []
    for dispatchable in model.dispatchables.values():
        bound = dispatchable.bound
        if dispatchable.operator is not None:
            before = len(findings)
            checked.append(_check_desc(dispatchable, level, findings, at_fault))
            if not any(finding.kind.status for finding in findings[before:]):
                sound.add(dispatchable.name)
        elif isinstance(dispatchable.program, GraphProgram):
            checked.append(_check_graph(dispatchable.name, dispatchable.program, dispatchable.node, level, findings))
        elif dispatchable.program is not None:
            report = check_program(dispatchable.program, level, findings)
            reports.append((dispatchable.program, report))
            checked.append(CheckedDispatchable(dispatchable.name, "ONNX", report.lowest_level if report else None))
        where = dispatchable.node.get("bindings") or dispatchable.node
        subject = name_of(bound) if bound else ""
        binder.check(bound, dispatchable.bindings, where, initialises=True, subject=subject)
    if len(read := [(program, report) for program, report in reports if report is not None]) == len(reports):
        check_names(read, findings)
    onnx = DispatchChecker(model.resources, level, findings)
    written: set[str] = set()
    for command in model.commands:
        if isinstance(command, Dispatch):
            before = len(findings)
            _check_dispatch(command, model, binder, findings, onnx)
            if len(findings) == before and command.dispatchable in sound:
                check_indices(command, model, findings, written)
            written |= {one.resource for several in command.bindings.values() for one in several}
        else:
            check_output(command, model, findings, written)


def _order(finding: Finding) -> tuple[int, int]:
    place = finding.fault.place
    return (place.line, place.column) if place else (0, 0)


def _around(findings: Iterable[Finding]) -> set[str]:
    """The paths of everything that has a finding in it."""
    paths = [finding.fault.place.path for finding in findings if finding.fault.place]
    return {path[:end] for path in paths for end, c in enumerate(path) if c in ".["}


def _check_desc(
    dispatchable: Dispatchable, level: FeatureLevel, findings: Findings, at_fault: set[str]
) -> CheckedDispatchable:
    desc, partial = dispatchable.desc, dispatchable.partial
    if desc is None:
        name = dispatchable.operator.name if dispatchable.operator else ""
        for fault in partial.faults(level) if partial is not None else ():
            kind = DESCRIPTION if fault.level is None else LEVEL
            findings.put(kind, locate(dispatchable.desc_node, fault.field), fault, name)
        return CheckedDispatchable(dispatchable.name, name, None)
    report = desc.check(level)
    kind_node = dispatchable.node.get("Type", "type") or dispatchable.node
    for fault in report.faults:
        node = locate(dispatchable.desc_node, fault.field) if fault.field else kind_node
        findings.put(DESCRIPTION if fault.level is None else LEVEL, node, reword(fault), desc.type.name)
    for remark in report.remarks:
        findings.add(REMARK, kind_node, remark, found="", subject=desc.type.name)
    is_valid_nowhere = dispatchable.desc_node.path in at_fault or any(fault.level is None for fault in report.faults)
    return CheckedDispatchable(dispatchable.name, desc.type.name, None if is_valid_nowhere else report.lowest_level)


def _check_graph(
    name: str, program: GraphProgram, node: Node, level: FeatureLevel, findings: Findings
) -> CheckedDispatchable:
    report = program.graph.check(level)
    for fault in report.faults:
        kind, subject = DESCRIPTION if fault.level is None else LEVEL, fault.subject or "graph"
        findings.put(kind, node.get("sourcePath") or node, fault, subject)
    return CheckedDispatchable(name, "graph", report.lowest_level)


def _check_dispatch(command: Dispatch, model: Model, binder: Binder, findings: Findings, onnx: DispatchChecker) -> None:
    found = model.dispatchables.get(command.dispatchable)
    if found is None:
        rule = f"there is no dispatchable {show(command.dispatchable, 60)}"
        way_out = suggest(command.dispatchable, model.dispatchables)
        findings.add(NAME, command.node.get("dispatchable") or command.node, rule, found="", way_out=way_out)
    bound = found.bound if found is not None else None
    where = command.node.get("bindings") or command.node
    binder.check(bound, command.bindings, where, initialises=False, subject=name_of(bound) if bound else "")
    is_onnx = found is not None and isinstance(found.program, OnnxProgram)
    for binding in itertools.chain.from_iterable(command.bindings.values()):
        resource = model.resources.get(binding.resource)
        if resource is not None and resource.is_deferred and not is_onnx:
            rule = "a deferred resource must be bound to an output of an ONNX model"
            findings.add(BINDING, binding.node, rule, found="")
    if found is not None and isinstance(found.program, OnnxProgram):
        onnx.check(found.program, command)


def _memory(model: Model) -> int:
    """The resources, and the copies that operators keep of tensors that are OWNED_BY_DML."""
    total = sum(resource.size_in_bytes or 0 for resource in model.resources.values())
    for dispatchable in model.dispatchables.values():
        if isinstance(dispatchable.program, GraphProgram):
            total += dispatchable.program.size_in_bytes
        tensors = dispatchable.desc.tensors().values() if dispatchable.desc else ()
        owned = [TensorDesc(t.data_type, t.sizes) for t in tensors if t.is_owned_by_dml]
        total += sum(tensor.total_tensor_size_in_bytes + 255 for tensor in owned)
    return total


# SARIF


_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_sarif(*reports: ModelReport) -> dict[str, Any]:
    """Reports as data, to be written as JSON."""
    rules = [{"id": kind.name, "shortDescription": {"text": kind.what}} for kind in KINDS]
    driver = {"name": "anydml", "semanticVersion": __version__, "rules": rules}
    results = [_result(finding, _uri(report.path or report.file)) for report in reports for finding in report.findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _uri(file: str) -> str:
    """Relative to where the command runs, as hosts want it; whole for a file elsewhere."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - links stay as they are named
    if path.is_relative_to(Path.cwd()):
        return quote(os.fsencode(path.relative_to(Path.cwd()).as_posix()))  # a name need not be UTF-8
    return path.as_uri()


def _result(finding: Finding, uri: str) -> dict[str, Any]:
    fault, place = finding.fault, finding.fault.place
    said = "; ".join(part for part in (fault.rule, f"got {fault.found}" if fault.found else "", fault.way_out) if part)
    level = "note" if not finding.kind.status else "warning" if finding.kind.status == MISSING else "error"
    result: dict[str, Any] = {
        "ruleId": finding.kind.name,
        "level": level,
        "message": {"text": f"{fault.subject}: {said}" if fault.subject else said},
    }
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if place is not None:
        physical["region"] = {"startLine": place.line, "startColumn": place.column}
    location: dict[str, Any] = {"physicalLocation": physical}
    if place is not None and place.path:
        location["logicalLocations"] = [{"fullyQualifiedName": place.path}]
    return {**result, "locations": [location]}
