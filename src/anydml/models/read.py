"""From JSON to a model: every fault is collected, and reading goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.errors import DmlError, EngineMissingError, ModelFileError, UnsupportedError, show
from anydml.flags import ExecutionFlags
from anydml.models.findings import DESCRIPTION, FILE, REMARK, UNSUPPORTED, Findings
from anydml.models.images import IMAGES, MODES, load_pillow
from anydml.models.initialise import ValueReader, read_data_type
from anydml.models.model import Binding, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.models.operators import DescReader, read_flags
from anydml.models.programs import PROGRAMS, ProgramReader
from anydml.models.remarks import remark_spelling, remark_unknown
from anydml.models.source import Node
from anydml.operator_type import OperatorType
from anydml.operators import find_operator
from anydml.parse import UINT32_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.files import Files
    from anydml.models.model import Command
    from anydml.operators import OperatorDesc

LARGEST_RESOURCE = 2**48
"""More than any machine has; what is larger is a slip."""
DEFERRED = "deferred"
"""What stands for the values of a resource that an ONNX model gives."""
_DISPATCHABLE_FIELDS = ("type", "Type", "desc", "Desc", "bindings", "executionFlags", "dmlCompileType")


class ModelReader:
    """Reads a model, and collects what it finds."""

    def __init__(self, root: Node, files: Files, shapes: Mapping[str, tuple[int, ...]], max_memory: int) -> None:
        self._root, self._files = root, files
        self._findings = Findings()
        self._values = ValueReader(files, self._findings)
        self._programs = ProgramReader(files, self._findings, shapes, max_memory)

    def read(self, file: str, max_memory: int, max_output: int) -> Model:
        """The whole of it."""
        root = self._root
        if not root.is_object:
            self._findings.add(FILE, root, "a model must be an object")
        else:
            remark_unknown(root, ("resources", "dispatchables", "commands"), self._findings)
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
            findings=tuple(self._findings),
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
            self._findings.add(FILE, node or self._root, rule, found="nothing" if node is None else None)
        return iter(())

    def _remark_rest(self) -> None:
        source = self._root.source
        rest = source.text[source.end :].rstrip("\0 \t\r\n")
        if rest:
            node = Node(source, None, source.end, "$")
            rule = "what follows the model's end is not read, which is how DxDispatch has it"
            self._findings.add(REMARK, node, rule, found=show(rest[:40], 20))

    # Fields

    def _string(self, node: Node, name: str) -> str | None:
        child = node.get(name)
        if child is None:
            self._findings.add(FILE, node, f"{name} must be given", field=name, found="")
        elif not isinstance(child.raw, str):
            self._findings.add(FILE, child, f"{name} must be a string", field=name)
        else:
            return child.raw
        return None

    def _whole(self, node: Node, name: str, default: Any, high: int, low: int = 0) -> Any:
        child = node.get(name)
        if child is None:
            return default
        if type(child.raw) is not int or not low <= child.raw <= high:
            self._findings.add(FILE, child, f"{name} must be a whole number in {low} .. {high}", field=name)
            return default
        return child.raw

    # Resources

    def _read_resource(self, name: str, node: Node) -> Resource:
        values, data_type, size, offset = None, None, None, 0
        if not node.is_object:
            self._findings.add(FILE, node, "a resource must be an object")
        else:
            known = ("type", "initialValues", "initialValuesDataType", "sizeInBytes", "initialValuesOffsetInBytes")
            remark_unknown(node, (*known, "resampleSize", "resampleMode"), self._findings)
            kind, first = node.get("initialValuesDataType"), node.get("initialValues")
            if kind is not None and kind.raw not in ("UNKNOWN", "DML_TENSOR_DATA_TYPE_UNKNOWN"):
                data_type = read_data_type(kind, "initialValuesDataType", self._findings)
                kind = kind if data_type else None
            if first is None:
                self._findings.add(FILE, node, "initialValues must be given", found="")
            elif first.raw == DEFERRED:
                return Resource(
                    name=name, node=node, data_type=data_type, values=None, size_in_bytes=None, is_deferred=True
                )
            elif kind is not None or node.get("initialValuesDataType") is None:
                self._values.resample = self._read_resample(node)
                values, data_type = self._values.read(first, data_type)
            offset = self._whole(node, "initialValuesOffsetInBytes", 0, LARGEST_RESOURCE)
            if values is not None:
                implied = (values.size_in_bytes + 3) & ~3
                size = self._whole(node, "sizeInBytes", implied, LARGEST_RESOURCE, low=1)
                if values.size_in_bytes + offset > size:
                    rule = f"sizeInBytes must be at least {values.size_in_bytes + offset}, to hold initialValues"
                    self._findings.add(FILE, node.get("sizeInBytes") or node, rule, found=str(size))
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
        sizes, mode = self._read_sizes(node.get("resampleSize"), "resampleSize", low=1), node.get("resampleMode")
        if mode is not None and mode.raw != "scale":
            self._findings.add(FILE, mode, "resampleMode must be scale")
        if sizes is None or len(sizes) != 4 or sizes[0] != 1 or sizes[1] not in MODES:
            return None
        return sizes[1], sizes[2], sizes[3]

    # Dispatchables

    def _read_dispatchable(self, name: str, node: Node) -> Dispatchable:
        cls, desc, desc_node, flags, program = None, None, node, ExecutionFlags.NONE, None
        bindings: dict[str, tuple[Binding, ...]] = {}
        kind = node.get("Type", "type")
        if not node.is_object:
            self._findings.add(FILE, node, "a dispatchable must be an object")
        elif kind is None or not isinstance(kind.raw, str):
            self._findings.add(FILE, kind or node, "type must be a string", found=None if kind else "nothing")
        elif (other := str((node.get("type") or kind).raw).lower()) in PROGRAMS:
            program = self._programs.read(other, kind, node)
            flags = self._read_flags(node)
        else:
            desc_node = node.get("Desc", "desc") or node
            if (cls := self._find_operator(kind)) is not None:
                ignored = _DISPATCHABLE_FIELDS if desc_node is node else ()
                desc = DescReader(cls, desc_node, self._findings, ignored).read()
            if (given := node.get("bindings")) is not None:
                bindings = self._read_bindings(given)
            flags = self._read_flags(node)
            compile_type = node.get("dmlCompileType")
            if compile_type is not None and compile_type.raw not in ("DmlCompileOp", "DmlCompileGraph"):
                self._findings.add(FILE, compile_type, "dmlCompileType must be DmlCompileOp or DmlCompileGraph")
            if desc_node is not node:
                remark_unknown(node, _DISPATCHABLE_FIELDS, self._findings)
        return Dispatchable(
            name=name,
            node=node,
            operator=cls.type if cls else None,
            desc=desc,
            desc_node=desc_node,
            flags=flags,
            bindings=bindings,
            program=program,
        )

    def _read_flags(self, node: Node) -> ExecutionFlags:
        flag = node.get("executionFlags")
        found = None if flag is None else read_flags(flag, "executionFlags", ExecutionFlags, self._findings)
        return ExecutionFlags.NONE if found is None else found

    def _find_operator(self, kind: Node) -> type[OperatorDesc] | None:
        try:
            cls = find_operator(OperatorType(kind.raw))
        except UnsupportedError as error:
            self._findings.put(UNSUPPORTED, kind, error.faults[0], error.subject)
        except DmlError as error:
            self._findings.add(DESCRIPTION, kind, f"type {error.faults[0].rule}", field="type")
        else:
            remark_spelling(kind, cls.type, self._findings, cls.type.name)
            return cls
        return None

    def _read_bindings(self, node: Node) -> dict[str, tuple[Binding, ...]]:
        if not node.is_object:
            self._findings.add(FILE, node, "bindings must be an object")
            return {}
        found = {}
        for name, child in node.members():
            if child.is_list and len(child) == 0:
                self._findings.add(FILE, child, "a list of bindings must not be empty", found="")
            given = [self._read_binding(one) for one in (child.elements() if child.is_list else [child])]
            found[name] = tuple(binding for binding in given if binding is not None)
        return found

    def _read_binding(self, node: Node) -> Binding | None:
        if isinstance(node.raw, str):
            return Binding(resource=node.raw, node=node)
        if not node.is_object:
            self._findings.add(FILE, node, "a binding must be a resource's name, or an object with one")
            return None
        known = ("name", "elementCount", "elementSizeInBytes", "elementOffset", "format", "shape")
        remark_unknown(node, (*known, "counter", "counterOffsetBytes"), self._findings)
        name = self._string(node, "name")
        self._whole(node, "elementCount", 0, LARGEST_RESOURCE)
        offset = self._whole(node, "elementOffset", 0, LARGEST_RESOURCE)
        size = self._whole(node, "elementSizeInBytes", 0, LARGEST_RESOURCE)
        shape = self._read_sizes(node.get("shape"), "shape", low=0)
        if name is None:
            return None
        return Binding(resource=name, node=node, element_offset=offset, element_size=size, shape=shape)

    def _read_sizes(self, node: Node | None, field: str, low: int) -> tuple[int, ...] | None:
        """A list of sizes; None where there is none."""
        if node is None:
            return None
        if not node.is_list:
            self._findings.add(FILE, node, f"{field} must be a list of whole numbers")
            return None
        sizes = []
        for i, element in enumerate(node.elements()):
            if type(element.raw) is not int or not low <= element.raw <= UINT32_MAX:
                self._findings.add(FILE, element, f"{field}[{i}] must be a whole number in {low} .. {UINT32_MAX}")
                break
            sizes.append(element.raw)
        return tuple(sizes)

    # Commands

    def _read_command(self, node: Node) -> Command | None:
        if not node.is_object:
            self._findings.add(FILE, node, "a command must be an object")
            return None
        kind = self._string(node, "type")
        if kind is None:
            return None
        if kind.lower() == "dispatch":
            return self._read_dispatch(node)
        if kind.lower() not in ("print", "writefile"):
            self._findings.add(FILE, node.get("type") or node, "type must be dispatch, print or writeFile")
            return None
        resource = self._string(node, "resource")
        if kind.lower() == "writefile":
            return self._read_write(node, resource)
        verbose = node.get("verbose")
        if verbose is not None and not isinstance(verbose.raw, bool):
            self._findings.add(FILE, verbose, "verbose must be true or false")
        remark_unknown(node, ("type", "resource", "verbose"), self._findings)
        is_verbose = verbose is not None and verbose.raw is True
        return None if resource is None else Print(node=node, resource=resource, verbose=is_verbose)

    def _read_dispatch(self, node: Node) -> Dispatch | None:
        remark_unknown(node, ("type", "dispatchable", "bindings", "threadGroupCount"), self._findings)
        name, bindings = self._string(node, "dispatchable"), node.get("bindings")
        if bindings is None:
            self._findings.add(FILE, node, "bindings must be given", found="")
        given = {} if bindings is None else self._read_bindings(bindings)
        return None if name is None else Dispatch(node=node, dispatchable=name, bindings=given)

    def _read_write(self, node: Node, resource: str | None) -> WriteFile | None:
        remark_unknown(node, ("type", "resource", "targetPath", "dimensions"), self._findings)
        text, target = self._string(node, "targetPath"), None
        where = node.get("targetPath")
        if text is not None and where is not None:
            try:
                if text.lower().endswith(IMAGES):
                    load_pillow()
                target = self._files.find_target(text)
            except ModelFileError as error:
                self._findings.put(FILE, where, error.faults[0])
            except EngineMissingError as error:
                self._findings.put(UNSUPPORTED, where, error.faults[0])
        dimensions = self._read_sizes(node.get("dimensions"), "dimensions", low=1) or ()
        if resource is None or text is None:
            return None
        return WriteFile(node=node, resource=resource, target=target, path=text, dimensions=dimensions)
