"""From JSON to a model: every fault is collected, and reading goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.errors import DmlError, EngineMissingError, ModelFileError, UnsupportedError, show
from anydml.flags import ExecutionFlags
from anydml.models.fields import LARGEST_RESOURCE, FieldReader
from anydml.models.findings import DESCRIPTION, FILE, REMARK, UNSUPPORTED, Findings
from anydml.models.images import IMAGES, MODES, load_pillow
from anydml.models.initialise import ValueReader
from anydml.models.model import Binding, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.models.named import read_data_type, read_flags
from anydml.models.operators import DescReader
from anydml.models.programs import PROGRAMS, ProgramReader
from anydml.models.remarks import remark_spelling, remark_unknown
from anydml.models.source import Node
from anydml.operator_type import OperatorType
from anydml.operators import find_operator
from anydml.spelling import suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.files import Files
    from anydml.models.model import Command
    from anydml.operators import OperatorDesc

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
            except EngineMissingError as error:
                self.findings.put(UNSUPPORTED, where, error.faults[0])
        dimensions = self.read_sizes(node.get("dimensions"), "dimensions", low=1) or ()
        if resource is None or text is None:
            return None
        return WriteFile(node=node, resource=resource, target=target, path=text, dimensions=dimensions)
