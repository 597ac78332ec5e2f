"""From a path, bytes or a ModelProto to a model that may be believed: its form, its names and its nodes are checked."""

from __future__ import annotations

import functools
import heapq
import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.core.errors import DescriptionError, Fault, ModelFileError, UnsupportedError, printable, show
from anydml.core.files import Files, open_plain
from anydml.core.limits import MemoryLimit, read_max_steps
from anydml.onnx.external_data import CAN_HOLD, HeldFile, Piece, as_bytes, cut_out
from anydml.onnx.functions import find_functions, inlined
from anydml.onnx.library import IR_VERSION, ONNX_DOMAINS, OPSET_VERSION, VERSION, ModelProto, own_domain
from anydml.onnx.lower.values import check_dimensions
from anydml.onnx.subgraphs import graphs_within, names_read, nodes_within
from anydml.onnx.tensors import Beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeAlias

    from anydml.onnx.functions import Key

    Given: TypeAlias = str | os.PathLike[str] | bytes | Any


# How many entries a protobuf has, counted in its bytes: two bytes of an empty one take hundreds once they are read


_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""How a field's value is written."""


def count_entries(data: bytes, most: int) -> int:
    """The fields of a model and of the messages within it; no more than one past `most` are counted.

    What is broken is told by whoever parses it.
    """
    pending: list[tuple[int, int, Any]] = [(0, len(data), ModelProto.DESCRIPTOR)]
    count = 0
    try:
        while pending and count <= most:
            at, end, kind = pending.pop()
            inner = _messages(kind)
            while at < end and count <= most:
                tag, at = _number(data, at)
                count += 1
                form = tag & 7
                if form == _VARINT:
                    _, at = _number(data, at)
                elif form == _BYTES:
                    size, at = _number(data, at)
                    if size and (found := inner.get(tag >> 3)) is not None:
                        pending.append((at, min(at + size, end), found))
                    at += size
                elif form in (_FIXED64, _FIXED32):
                    at += 8 if form == _FIXED64 else 4
                else:
                    return count
    except IndexError:
        return count
    return count


@functools.cache
def _messages(kind: Any) -> Mapping[int, Any]:
    """The fields of a message that are messages, by number."""
    return {field.number: field.message_type for field in kind.fields if field.message_type is not None}


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    byte = data[at]
    if byte < 128:
        return byte, at + 1
    found, shift = byte & 127, 7
    while True:
        at += 1
        byte = data[at]
        found |= (byte & 127) << shift
        if byte < 128:
            return found, at + 1
        shift += 7
        if shift > 63:
            raise IndexError


# Nodes in order, each after those that it reads: converters to FLOAT16 write models that are not, and ONNX Runtime
# takes them


def in_order(proto: Any, subject: str) -> Any:
    """A model whose nodes are in order: itself, or a copy. Nodes that read one another in a circle stay as they are."""
    if all(_is_ordered(graph) for graph in _graphs(proto, subject)):
        return proto
    found = type(proto)()
    found.CopyFrom(proto)
    for graph in reversed(_graphs(found, subject)):  # inner ones first: what a body reads depends on its order
        if not _is_ordered(graph):
            nodes = _ordered(list(graph.node))
            del graph.node[:]
            graph.node.extend(nodes)
    return found


def _graphs(proto: Any, subject: str) -> list[Any]:
    return [proto.graph, *graphs_within(proto.graph.node, subject)]


def _is_ordered(graph: Any) -> bool:
    later = {name for node in graph.node for name in node.output}
    for node in graph.node:
        if not later.isdisjoint(names_read(node)):
            return False
        later.difference_update(node.output)
    return True


def _ordered(nodes: list[Any]) -> list[Any]:
    """The nodes as early as they can be, those that need not move in the order in which they were."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in names_read(node) if name in makers} for node in nodes]
    readers: dict[int, list[int]] = {}
    for number, several in enumerate(needs):
        for maker in several:
            readers.setdefault(maker, []).append(number)
    left = [len(several) for several in needs]
    ready = [number for number, count in enumerate(left) if not count]
    order = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for reader in readers.get(number, ()):
            left[reader] -= 1
            if not left[reader]:
                heapq.heappush(ready, reader)
    return [nodes[number] for number in order] if len(order) == len(nodes) else nodes


# Models


_LARGE = 65_536
"""Bytes of an initializer from which on they are kept beside the message."""
_SHORT = 65_536
"""Bytes of a message that is read whatever is in it."""
_MOST_ENTRIES, _ENTRY_COST = 2**22, 256
"""Of a message, and the bytes that one may take: a node of two bytes took 190 each when it was read."""
_MOST_EACH = 100_000
"""Nodes, inputs, outputs and initializers."""
_MOST_BYTES = 2**31 - 1
"""Of a protobuf."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model as it was read."""

    name: str
    """The name in errors: its file, where it has one."""
    proto: Any
    opset: int
    """Of ONNX's own operators; 0 where it has none."""
    beside: Beside
    """Where its external data may lie, and the limit on its memory."""
    functions: Mapping[Key, Any]
    """Of the model's own, calls of which may have been left."""
    raw: Mapping[str, bytes | Piece] = field(default_factory=dict)
    """The bytes of large initializers, which were taken out of the message: it would keep them beside ours."""
    disabled_passes: frozenset[str] = frozenset()
    """The passes that its graphs are compiled without."""

    @property
    def whole(self) -> Any:
        """The message with the bytes of its initializers."""
        found = type(self.proto)()
        found.CopyFrom(self.proto)
        for tensor in found.graph.initializer:
            if tensor.name in self.raw:
                tensor.raw_data = as_bytes(self.raw[tensor.name])
        return found


def read_model(
    given: Given, *, max_memory: int | None = None, max_steps: int | None = None, is_kept: bool = False
) -> Source:
    """Read a model and check its form; what its nodes are is looked at by whoever traces them.

    With `is_kept` the source is kept, and has a message of its own: one that is given is its owner's to change. What
    was read already is given back as it is.
    """
    if isinstance(given, Source):
        return given
    folder, limit, steps = None, MemoryLimit(max_memory, "load"), read_max_steps(max_steps, "load")
    raw: dict[str, bytes | Piece] = {}
    if isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str):
        name = printable(os.fspath(given))
        proto, raw = _read_file(Path(given), name, limit, is_kept=is_kept)
        folder = Files(Path(given))
    elif isinstance(given, (bytes, bytearray, memoryview)):
        name = "model"
        proto = _parse(bytes(given), name, limit)
    elif isinstance(given, ModelProto):
        name, proto = "model", _copied(given) if is_kept else given
    else:
        rule = "the model must be a path, the bytes of one, or a ModelProto"
        raise DescriptionError("load", Fault(field="model", rule=rule, value=given, found=show(given)))
    opset, functions = _check_form(proto, name), find_functions(proto)
    whole = in_order(inlined(proto, functions, name), name)
    # What a model that only called functions of its own is made of needs an opset as well.
    opset = opset or _check_form(whole, name)
    if whole is not given:
        for tensor in whole.graph.initializer:
            if len(tensor.raw_data) >= _LARGE and tensor.name not in raw:
                raw[tensor.name] = tensor.raw_data
                tensor.ClearField("raw_data")
    # A message gives memory back with its last holder alone.
    beside = Beside(name, folder, limit, steps)
    return Source(name, _copied(whole) if raw else whole, opset, beside, functions, raw)


def _copied(proto: Any) -> Any:
    own = type(proto)()
    own.CopyFrom(proto)
    return own


def _read_file(path: Path, name: str, limit: MemoryLimit, *, is_kept: bool) -> tuple[Any, dict[str, bytes | Piece]]:
    """The message, and the initializers that are left in the file, which is then kept open."""
    try:
        with open_plain(path.resolve(), name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MOST_BYTES:
                rule = f"the file must have at most 2 GiB = {_MOST_BYTES} bytes, a protobuf's most"
                way_out = "save its tensors beside it, with onnx.save_model(..., save_as_external_data=True)"
                raise ModelFileError(name, Fault(field="", rule=rule, value=size, found=str(size), way_out=way_out))
            limit.take(size, "the file", name)
            found = cut_out(file, size, _LARGE) if is_kept and CAN_HOLD else None
            if found is not None and found[1]:
                proto = _parse(found[0], name, limit)
                tensors = proto.graph.initializer
                held = HeldFile(file, name)
                raw: dict[str, bytes | Piece] = {tensors[i - 1].name: Piece(held, *at) for i, at in found[1].items()}
                if len({tensor.name for tensor in tensors}) == len(tensors):
                    return proto, raw
            file.seek(0)
            data = file.read(size)
    except ModelFileError as error:
        raise ModelFileError(name, error.faults) from None
    except (OSError, ValueError, MemoryError, RuntimeError) as error:
        rule = f"the file cannot be read ({show(error)})"
        raise ModelFileError(name, Fault(field="", rule=rule)) from error
    return _parse(data, name, limit), {}


def _parse(data: bytes, name: str, limit: MemoryLimit) -> Any:
    if not data:
        raise ModelFileError(name, Fault(field="", rule="the file is empty"))
    # An entry has at least 2 bytes: what is too short to have too many is not counted, 4 us each.
    most = len(data) // 2
    if len(data) > _SHORT and (most > _MOST_ENTRIES or most * _ENTRY_COST > limit.left):
        entries = count_entries(data, _MOST_ENTRIES)
        if entries > _MOST_ENTRIES:
            rule = f"the model must have at most 2^22 = {_MOST_ENTRIES} entries, those of its nodes included"
            raise ModelFileError(name, Fault(field="", rule=rule, found="more"))
        limit.check(entries * _ENTRY_COST, "nodes, names and attributes", name)
    try:
        return ModelProto.FromString(data)
    except Exception as error:
        rule = f"the file must be an ONNX model: it is no protobuf of one, or cut short ({show(str(error), 60)})"
        way_out = "anydml.load_model reads a DxDispatch model" if name.lower().endswith(".json") else ""
        raise ModelFileError(name, Fault(field="", rule=rule, way_out=way_out)) from error


def _texts(proto: Any, name: str) -> list[Any]:
    """Every name that is looked at."""
    found: list[Any] = [entry.domain for entry in proto.opset_import]
    for function in proto.functions:
        found += (function.name, function.domain, function.overload, *function.input, *function.output)
        found += (attribute.name for attribute in function.attribute_proto)
        found += (entry.domain for entry in function.opset_import)
    several = [proto.graph.node, *(function.node for function in proto.functions)]
    graphs = [proto.graph, *graphs_within(itertools.chain(*several), name)]
    for nodes in (*several, *(graph.node for graph in graphs[1:])):
        for node in nodes:
            found += (node.name, node.op_type, node.domain, node.overload)
            found += node.input
            found += node.output
            for attribute in node.attribute:
                found += (attribute.name, attribute.ref_attr_name)
                if attribute.HasField("t"):
                    found += _texts_of_tensor(attribute.t)
    for graph in graphs:
        for info in (*graph.input, *graph.output):
            found.append(info.name)
            found += (dim.dim_param for dim in info.type.tensor_type.shape.dim)
        for tensor in graph.initializer:
            found += _texts_of_tensor(tensor)
    return found


def _texts_of_tensor(tensor: Any) -> Iterator[Any]:
    yield tensor.name
    for entry in tensor.external_data:
        yield from (entry.key, entry.value)


def _check_form(proto: Any, name: str) -> int:
    """The statements that every model must make; gives the opset of ONNX's own operators."""
    if not proto.HasField("graph"):
        raise ModelFileError(name, Fault(field="graph", rule="the model must have a graph"))
    graphs = [proto.graph, *graphs_within(proto.graph.node, name)]
    for what in ("node", "input", "output", "initializer"):
        if (count := max(len(getattr(graph, what)) for graph in graphs)) > _MOST_EACH:
            rule = f"the graph must have at most {_MOST_EACH} {what}s"
            raise UnsupportedError(name, Fault(field=what, rule=rule, value=count, found=str(count)))
    if proto.ir_version < 1:
        raise ModelFileError(name, Fault(field="ir_version", rule="the model must have an ir_version"))
    if not set(map(type, _texts(proto, name))) <= {str}:  # protobuf then gives bytes
        raise ModelFileError(name, Fault(field="", rule="the model's names must be UTF-8"))
    for graph in graphs:
        for what, infos in (("input", graph.input), ("output", graph.output)):
            for info in infos:
                check_dimensions(len(info.type.tensor_type.shape.dim), name, f"{what} '{printable(info.name)}'")
    newer = "upgrade onnx; this is {0}, which knows up to {1}"
    if proto.ir_version > IR_VERSION:
        rule = f"ir_version {proto.ir_version} is not supported"
        fault = Fault(field="ir_version", rule=rule, way_out=newer.format(VERSION, IR_VERSION))
        raise UnsupportedError(name, fault)
    pairs = {(own_domain(entry.domain), int(entry.version)) for entry in proto.opset_import}
    versions = dict(pairs)
    if len(versions) < len(pairs):  # the same one twice is what scikit-learn's converter writes
        raise ModelFileError(name, Fault(field="opset_import", rule="opset_import must give each domain one opset"))
    if "" not in versions:
        if all(node.domain not in ONNX_DOMAINS for node in nodes_within(proto.graph.node, name)):
            return 0
        rule = "opset_import must say which opset of ONNX's own operators the model is of"
        raise ModelFileError(name, Fault(field="opset_import", rule=rule, found=show([*versions])))
    if versions[""] < 1:
        rule = "opset_import must be at least 1"
        raise ModelFileError(name, Fault(field="opset_import", rule=rule, found=str(versions[""])))
    if versions[""] > OPSET_VERSION:
        rule = f"opset {versions['']} is not supported"
        fault = Fault(field="opset_import", rule=rule, way_out=newer.format(VERSION, OPSET_VERSION))
        raise UnsupportedError(name, fault)
    return versions[""]
