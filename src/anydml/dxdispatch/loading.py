"""From a path to a model, by way of JSON: every fault is collected, and reading goes on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.core.enum_parsing import suggest
from anydml.core.enums import ExecutionFlags
from anydml.core.errors import (
    DescriptionError,
    DmlError,
    Fault,
    MissingDependencyError,
    ModelFileError,
    UnsupportedError,
    printable,
    show,
)
from anydml.core.files import Files, read_plain
from anydml.core.limits import default_max_output, read_max_memory
from anydml.core.operator_type import OperatorType
from anydml.core.parse import UINT32_MAX, read_int, read_ints
from anydml.dxdispatch.findings import (
    DESCRIPTION,
    FILE,
    REMARK,
    UNSUPPORTED,
    Findings,
    TooManyFaultsError,
    raise_findings,
)
from anydml.dxdispatch.images import IMAGES, MODES, load_pillow
from anydml.dxdispatch.initialise import ValueReader
from anydml.dxdispatch.model import Binding, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.dxdispatch.named import read_data_type, read_flags
from anydml.dxdispatch.onnx_programs import OnnxProgram
from anydml.dxdispatch.operators import DescReader
from anydml.dxdispatch.parser import parse
from anydml.dxdispatch.remarks import remark_spelling, remark_unknown
from anydml.dxdispatch.serialized import read_graph
from anydml.dxdispatch.source import Node
from anydml.operators import OPERATORS, find_operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import TypeAlias

    from anydml.dxdispatch.model import Command
    from anydml.dxdispatch.serialized import GraphProgram
    from anydml.dxdispatch.syntax import Unread
    from anydml.operators import OperatorDesc

    Folders: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


# Members that several parts of a model have: strings, whole numbers, sizes and bindings


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


# Dispatchables that are no operators: ONNX models, serialized graphs, and shaders, which are refused by name


_OVERRIDES = "freeDimensionNameOverrides"
_RUNTIMES = ("sessionOptionsConfigEntries", "graphOptimizationLevel", "loggingLevel")
"""Options of ONNX Runtime's."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "onnx": ("sourcePath", _OVERRIDES, "freeDimensionDenotationOverrides", *_RUNTIMES),
    "dmlserializedgraph": ("sourcePath", "executionFlags", "bindings"),
    "hlsl": (),
}
"""The kinds, in lower case, and their fields."""


class ProgramReader:
    """Reads what is no operator."""

    def __init__(
        self, files: Files, findings: Findings, shapes: Mapping[str, tuple[int, ...]], max_memory: int
    ) -> None:
        self._files, self._findings, self._shapes, self._most = files, findings, shapes, max_memory

    def read(self, kind: str, where: Node, node: Node) -> OnnxProgram | GraphProgram | None:
        """A dispatchable of one of the kinds; None where it cannot be used."""
        if kind == "hlsl":
            rule = f"HLSL shaders are not run; {len(OPERATORS)} operators are, which `anydml support` lists"
            self._findings.add(UNSUPPORTED, where, rule, found="")
            return None
        remark_unknown(node, ("type", *PROGRAMS[kind]), self._findings)
        path = node.get("sourcePath")
        if path is None or not isinstance(path.raw, str):
            rule = "sourcePath must be a string"
            self._findings.add(FILE, path or node, rule, found="nothing" if path is None else None)
            return None
        try:
            found = self._files.find_source(path.raw)
            return read_graph(found, path.raw, self._files) if kind != "onnx" else self._onnx(found, path, node)
        except DmlError as error:
            for fault in error.faults:
                self._findings.put(UNSUPPORTED if isinstance(error, UnsupportedError) else FILE, path, fault)
            return None

    def _onnx(self, found: Path, path: Node, node: Node) -> OnnxProgram:
        for name in _RUNTIMES:
            if (option := node.get(name)) is not None:
                self._findings.add(REMARK, option, f"{name} is ONNX Runtime's, and has no effect here", found="")
        if (option := node.get("freeDimensionDenotationOverrides")) is not None:
            rule = "dynamic sizes are set by their names (-f), not by their denotations"
            self._findings.add(UNSUPPORTED, option, rule, found="", way_out=f"see {_OVERRIDES}")
        sizes: dict[str, int] = {}
        given = node.get(_OVERRIDES)
        if given is not None and not given.is_object:
            self._findings.add(FILE, given, f"{_OVERRIDES} must be an object")
        for name, child in given.members() if given is not None else ():
            if type(child.raw) is not int or not 0 <= child.raw <= UINT32_MAX:
                self._findings.add(FILE, child, f"a size must be a whole number in 0 .. {UINT32_MAX}")
            else:
                sizes[name] = child.raw
        sizes |= {name: shape[0] for name, shape in self._shapes.items() if len(shape) == 1}
        return OnnxProgram(found, path, sizes, self._shapes, self._most)


# The model


DEFERRED = "deferred"
"""The stand-in for the values of a resource that an ONNX model gives."""
_DISPATCHABLE_FIELDS = ("type", "Type", "desc", "Desc", "bindings", "executionFlags", "dmlCompileType")


class ModelReader(FieldReader):
    """Reads a model, and collects what it finds."""

    def __init__(self, root: Node, files: Files, shapes: Mapping[str, tuple[int, ...]], max_memory: int) -> None:
        self._root, self._files = root, files
        super().__init__(Findings())
        self._values = ValueReader(files, self.findings)
        self._programs = ProgramReader(files, self.findings, shapes, max_memory)

    def read(self, file: str, max_memory: int, max_output: int) -> Model:
        """The whole of it."""
        root = self._root
        if not root.is_object:
            self.findings.add(FILE, root, "a model must be an object")
        else:
            remark_unknown(root, ("resources", "dispatchables", "commands"), self.findings)
        resources = {name: self._read_resource(name, node) for name, node in self._section("resources")}
        dispatchables = {name: self._read_dispatchable(name, node) for name, node in self._section("dispatchables")}
        commands = [self._read_command(node) for _, node in self._section("commands")]
        self._remark_rest()
        return Model(
            file=file,
            source=root.source,
            resources=resources,
            dispatchables=dispatchables,
            commands=tuple(command for command in commands if command is not None),
            findings=tuple(self.findings),
            max_memory=max_memory,
            max_output=max_output,
        )

    def _section(self, name: str) -> Iterator[tuple[str, Node]]:
        node = self._root.get(name)
        is_list = name == "commands"
        if node is not None and (node.is_list if is_list else node.is_object):
            return node.members() if not is_list else (("", element) for element in node.elements())
        if self._root.is_object:
            rule = f"{name} must be {'a list' if is_list else 'an object'}"
            self.findings.add(FILE, node or self._root, rule, found="nothing" if node is None else None)
        return iter(())

    def _remark_rest(self) -> None:
        source = self._root.source
        rest = source.text[source.end :].rstrip("\0 \t\r\n")
        if rest:
            node = Node(source, None, source.end, "$")
            rule = "text after the model's end is not read, as in DxDispatch"
            way_out = "a bracket above may be one too many" if rest.startswith((",", "}", "]")) else ""
            self.findings.add(REMARK, node, rule, found=show(rest[:40], 20), way_out=way_out)

    # Resources

    def _read_resource(self, name: str, node: Node) -> Resource:
        values, data_type, size, offset = None, None, None, 0
        if not node.is_object:
            self.findings.add(FILE, node, "a resource must be an object")
        else:
            known = ("type", "initialValues", "initialValuesDataType", "sizeInBytes", "initialValuesOffsetInBytes")
            remark_unknown(node, (*known, "resampleSize", "resampleMode"), self.findings)
            kind, first = node.get("initialValuesDataType"), node.get("initialValues")
            if kind is not None and kind.raw not in ("UNKNOWN", "DML_TENSOR_DATA_TYPE_UNKNOWN"):
                data_type = read_data_type(kind, "initialValuesDataType", self.findings)
                kind = kind if data_type else None
            if first is None:
                self.findings.add(FILE, node, "initialValues must be given", found="")
            elif first.raw == DEFERRED:
                return Resource(
                    name=name, node=node, data_type=data_type, values=None, size_in_bytes=None, is_deferred=True
                )
            elif kind is not None or node.get("initialValuesDataType") is None:
                self._values.resample = self._read_resample(node)
                values, data_type = self._values.read(first, data_type)
            offset = self.read_whole(node, "initialValuesOffsetInBytes", 0, LARGEST_RESOURCE)
            if values is not None:
                implied = (values.size_in_bytes + 3) & ~3
                size = self.read_whole(node, "sizeInBytes", implied, LARGEST_RESOURCE, low=1)
                if values.size_in_bytes + offset > size:
                    rule = f"sizeInBytes must be at least {values.size_in_bytes + offset}, to hold initialValues"
                    self.findings.add(FILE, node.get("sizeInBytes") or node, rule, found=str(size))
        return Resource(
            name=name,
            node=node,
            data_type=data_type,
            values=values,
            size_in_bytes=size,
            values_offset=offset,
            has_given_size=node.get("sizeInBytes") is not None,
        )

    def _read_resample(self, node: Node) -> tuple[int, int, int] | None:
        """The channels, height and width that an image is made."""
        sizes, mode = self.read_sizes(node.get("resampleSize"), "resampleSize", low=1), node.get("resampleMode")
        if mode is not None and mode.raw != "scale":
            self.findings.add(FILE, mode, "resampleMode must be scale")
        if sizes is None or len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in MODES:
            return None
        return sizes[1], sizes[2], sizes[3]

    # Dispatchables

    def _read_dispatchable(self, name: str, node: Node) -> Dispatchable:
        cls, desc, partial, desc_node, flags, program = None, None, None, node, ExecutionFlags.NONE, None
        bindings: dict[str, tuple[Binding, ...]] = {}
        kind = node.get("Type", "type")
        if not node.is_object:
            self.findings.add(FILE, node, "a dispatchable must be an object")
        elif kind is None or not isinstance(kind.raw, str):
            self.findings.add(FILE, kind or node, "type must be a string", found=None if kind else "nothing")
        elif (other := str((node.get("type") or kind).raw).lower()) in PROGRAMS:
            program = self._programs.read(other, kind, node)
            flags = self._read_flags(node)
        else:
            desc_node = node.get("Desc", "desc") or node
            if (cls := self._find_operator(kind)) is not None:
                ignored = _DISPATCHABLE_FIELDS if desc_node is node else ()
                reader = DescReader(cls, desc_node, self.findings, ignored)
                desc, partial = reader.read(), reader.partial
            if (given := node.get("bindings")) is not None:
                bindings = self.read_bindings(given)
            flags = self._read_flags(node)
            compile_type = node.get("dmlCompileType")
            if compile_type is not None and compile_type.raw not in ("DmlCompileOp", "DmlCompileGraph"):
                self.findings.add(FILE, compile_type, "dmlCompileType must be DmlCompileOp or DmlCompileGraph")
            if desc_node is not node:
                remark_unknown(node, _DISPATCHABLE_FIELDS, self.findings)
        return Dispatchable(
            name=name,
            node=node,
            operator=cls.type if cls else None,
            desc=desc,
            desc_node=desc_node,
            flags=flags,
            bindings=bindings,
            program=program,
            partial=partial,
        )

    def _read_flags(self, node: Node) -> ExecutionFlags:
        flag = node.get("executionFlags")
        found = None if flag is None else read_flags(flag, "executionFlags", ExecutionFlags, self.findings)
        return ExecutionFlags.NONE if found is None else found

    def _find_operator(self, kind: Node) -> type[OperatorDesc] | None:
        try:
            cls = find_operator(OperatorType(kind.raw))
        except UnsupportedError as error:
            self.findings.put(UNSUPPORTED, kind, error.faults[0], error.subject)
        except DmlError as error:
            fault = error.faults[0]
            self.findings.add(DESCRIPTION, kind, f"type {fault.rule}", field="type", way_out=fault.way_out)
        else:
            remark_spelling(kind, cls.type, self.findings, cls.type.name)
            return cls
        return None

    # Commands

    def _read_command(self, node: Node) -> Command | None:
        if not node.is_object:
            self.findings.add(FILE, node, "a command must be an object")
            return None
        kind = self.read_string(node, "type")
        if kind is None:
            return None
        if kind.lower() == "dispatch":
            return self._read_dispatch(node)
        if kind.lower() not in ("print", "writefile"):
            way_out = suggest(kind, ("dispatch", "print", "writeFile"))
            rule = "type must be dispatch, print or writeFile"
            self.findings.add(FILE, node.get("type") or node, rule, way_out=way_out)
            return None
        resource = self.read_string(node, "resource")
        if kind.lower() == "writefile":
            return self._read_write(node, resource)
        verbose = node.get("verbose")
        if verbose is not None and not isinstance(verbose.raw, bool):
            self.findings.add(FILE, verbose, "verbose must be true or false")
        remark_unknown(node, ("type", "resource", "verbose"), self.findings)
        is_verbose = verbose is not None and verbose.raw is True
        return None if resource is None else Print(node=node, resource=resource, verbose=is_verbose)

    def _read_dispatch(self, node: Node) -> Dispatch | None:
        remark_unknown(node, ("type", "dispatchable", "bindings", "threadGroupCount"), self.findings)
        name, bindings = self.read_string(node, "dispatchable"), node.get("bindings")
        if bindings is None:
            self.findings.add(FILE, node, "bindings must be given", found="")
        given = {} if bindings is None else self.read_bindings(bindings)
        return None if name is None else Dispatch(node=node, dispatchable=name, bindings=given)

    def _read_write(self, node: Node, resource: str | None) -> WriteFile | None:
        remark_unknown(node, ("type", "resource", "targetPath", "dimensions"), self.findings)
        text, target = self.read_string(node, "targetPath"), None
        where = node.get("targetPath")
        if text is not None and where is not None:
            try:
                if text.lower().endswith(IMAGES):
                    load_pillow()
                target = self._files.find_target(text)
            except ModelFileError as error:
                self.findings.put(FILE, where, error.faults[0])
            except MissingDependencyError as error:
                self.findings.put(UNSUPPORTED, where, error.faults[0])
        dimensions = self.read_sizes(node.get("dimensions"), "dimensions", low=1) or ()
        if resource is None or text is None:
            return None
        return WriteFile(node=node, resource=resource, target=target, path=text, dimensions=dimensions)


# Its file


_TEXT_COST = 64
"""Bytes of memory that a byte of JSON may take once it is read: `[],` is the dearest."""
_SHORT_TEXT, _LONGEST_TEXT = 2**16, 2**28
"""Texts that are read whatever the limit, and none that is longer."""


def load_model(
    path: str | os.PathLike[str],
    *,
    allow_files: Folders = (),
    input_path: str | os.PathLike[str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    max_memory: int | None = None,
    max_output: int | None = None,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
) -> Model:
    """Read a DxDispatch model; what is no JSON is an error, and everything else is told by `Model.check`.

    The files that it names are kept inside its own folder and those allowed. `max_memory` and `max_output`, what it may
    write, are in bytes, and half of what is free where they are not given. `shapes` are those of inputs and outputs of
    ONNX models that it runs, and open sizes of theirs, by their names: the model's own count for nothing then.
    """
    try:
        return read_model(path, allow_files, input_path, output_path, max_memory, max_output, shapes)
    except TooManyFaultsError as error:
        raise_findings(printable(str(path)), error.findings)
        raise


def read_model(
    path: str | os.PathLike[str],
    allow_files: Folders = (),
    input_path: str | os.PathLike[str] | None = None,
    output_path: str | os.PathLike[str] | None = None,
    max_memory: int | None = None,
    max_output: int | None = None,
    shapes: Mapping[str, Sequence[int] | int] | None = None,
    data: bytes | None = None,
    unread: Unread | None = None,
) -> Model:
    """`load_model`, for callers that list too many faults, have the text already, or go on after syntax errors."""
    limit = read_max_memory(max_memory, "load_model")
    faults: list[Fault] = []
    most_written = None if max_output is None else read_int(max_output, "max_output", faults, 0, 2**63 - 1)
    model = _read_path(path, "path", faults)
    reads = None if input_path is None else _read_path(input_path, "input_path", faults)
    writes = None if output_path is None else _read_path(output_path, "output_path", faults)
    allowed = _read_folders(allow_files, faults)
    if not isinstance(shapes, Mapping | None):
        faults.append(Fault(field="shapes", rule="shapes must be a mapping of names to sizes", found=show(shapes)))
    bound = {str(name): read_ints(sizes, f"shapes[{name!r}]", faults) for name, sizes in (shapes or {}).items()}
    if faults:
        raise DescriptionError("load_model", faults)
    file = printable(str(path))
    if model.suffix.lower() == ".onnx":
        rule = "the file must be a DxDispatch model, and is an ONNX model"
        raise UnsupportedError(file, Fault(field="", rule=rule, way_out="anydml.onnx.load reads it"))
    root = parse(file, read_text(model, limit) if data is None else data, unread)
    files = Files(model, input_path=reads, output_path=writes, allowed=allowed)
    if most_written is None:
        most_written = default_max_output(files.output)
    return ModelReader(root, files, bound, limit).read(file, limit, most_written)


def read_text(path: Path, limit: int) -> bytes:
    """The text of a model, as long as the memory allows."""
    try:
        return read_plain(path, min(max(limit // _TEXT_COST, _SHORT_TEXT), _LONGEST_TEXT))
    except ModelFileError as error:
        raise ModelFileError(printable(str(path)), error.faults) from None


def _read_path(value: object, field: str, faults: list[Fault]) -> Path:
    try:
        path = Path(value)  # type: ignore[arg-type]  # whether it is one is what is asked
        if b"\0" not in os.fsencode(path):
            return path
    except Exception:  # noqa: BLE001, S110 - a hostile __fspath__ may raise anything
        pass
    faults.append(Fault(field=field, rule=f"{field} must be a path", value=value, found=show(value)))
    return Path()


def _read_folders(value: object, faults: list[Fault]) -> list[Path]:
    several = (value,) if isinstance(value, (str, os.PathLike)) else value
    if isinstance(several, (list, tuple)):
        return [_read_path(folder, f"allow_files[{i}]", faults) for i, folder in enumerate(several)]
    rule = "allow_files must be a path or a list of paths"
    faults.append(Fault(field="allow_files", rule=rule, value=value, found=show(value)))
    return []
