"""From a path, bytes or a ModelProto to a model that may be believed: its form, its names and its nodes are checked."""

from __future__ import annotations

import functools
import heapq
import operator
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anydml.core.errors import DescriptionError, Fault, ModelFileError, UnsupportedError, printable, show
from anydml.core.files import Files, open_plain
from anydml.core.limits import MemoryLimit, read_max_steps
from anydml.onnx.external_data import CAN_HOLD, HeldFile, Piece, cut_out
from anydml.onnx.functions import find_functions, inlined
from anydml.onnx.ir import LARGE, Function, Graph, Model, Node, graphs_within, nodes_within, with_bodies
from anydml.onnx.library import IR_VERSION, OPSET_VERSION, VERSION
from anydml.onnx.lower.values import check_dimensions
from anydml.onnx.protobuf import MOST_DEEP, ModelProto, too_deep
from anydml.onnx.protobuf import read_model as read_message
from anydml.onnx.tensors import Beside

if TYPE_CHECKING:
    from collections.abc import Mapping
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


def in_order(graph: Graph) -> Graph:
    """A graph whose nodes are in order, itself or another. Nodes that read one another in a circle stay as they are."""
    several = [with_bodies(node, in_order) for node in graph.node]  # what a body reads depends on its order
    later = {name for node in several for name in node.output}
    is_ordered = True
    for node in several:
        if not later.isdisjoint(node.reads):
            is_ordered = False
            break
        later.difference_update(node.output)
    if is_ordered and all(map(operator.is_, several, graph.node)):
        return graph
    return replace(graph, node=tuple(several if is_ordered else _ordered(several)))


def _ordered(nodes: list[Node]) -> list[Node]:
    """The nodes as early as they can be, those that need not move in the order in which they were."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
    needs = [{makers[name] for name in node.reads if name in makers} for node in nodes]
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


FORMS = (str, os.PathLike, bytes, bytearray, memoryview, ModelProto)
"""Types of what a model is read from."""
_SHORT = 65_536
"""Bytes of a message that is read whatever is in it."""
_MOST_ENTRIES, _ENTRY_COST = 2**22, 256
"""Of a message, and the bytes that one may take: a node of two bytes took 190 each when it was read."""
_MOST_BYTES = 2**31 - 1
"""Of a protobuf."""


@dataclass(frozen=True, slots=True)
class Source:
    """A model as it was read."""

    name: str
    """The name in errors: its file, where it has one."""
    model: Model
    opset: int
    """Of ONNX's own operators; 0 where it has none."""
    beside: Beside
    """Where its external data may lie, and the limit on its memory."""
    functions: Mapping[Key, Function]
    """Of the model's own and of ONNX's, calls of which may have been left."""
    disabled_passes: frozenset[str] = frozenset()
    """The passes that its graphs are compiled without."""


def read_model(
    given: Given, *, max_memory: int | None = None, max_steps: int | None = None, is_kept: bool = False
) -> Source:
    """Read a model and check its form; what its nodes are is looked at by whoever traces them.

    With `is_kept` the source is kept, and large tensors of a file are left there. What was read already is given back
    as it is.
    """
    if isinstance(given, Source):
        return given
    folder, limit, steps = None, MemoryLimit(max_memory, "load"), read_max_steps(max_steps, "load")
    name = "model"
    if isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str):
        name = printable(os.fspath(given))
        model = _read_file(Path(given), name, limit, is_kept=is_kept)
        folder = Files(Path(given))
    elif isinstance(given, (bytes, bytearray, memoryview)):
        model = _convert(_parse(bytes(given), name, limit), name)
    elif isinstance(given, Model):
        model = given
    elif isinstance(given, ModelProto):
        model = _convert(given, name)
    else:
        rule = "the model must be a path, the bytes of one, or a ModelProto"
        raise DescriptionError("load", Fault(field="model", rule=rule, value=given, found=show(given)))
    opset, functions = _check_form(model, name), find_functions(model)
    whole = inlined(model, functions, name)
    if whole is not model:
        _check_depth(whole.graph, name)
        # What a model that only called functions of its own is made of needs an opset as well.
        opset = opset or _check_form(whole, name)
    whole = replace(whole, graph=in_order(whole.graph))
    return Source(name, whole, opset, Beside(name, folder, limit, steps), functions)


def _read_file(path: Path, name: str, limit: MemoryLimit, *, is_kept: bool) -> Model:
    """The model; to be kept, with large initializers left in the file, which is then kept open."""
    try:
        with open_plain(path.resolve(), name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MOST_BYTES:
                rule = f"the file must have at most 2 GiB = {_MOST_BYTES} bytes, a protobuf's most"
                way_out = "save its tensors beside it, with onnx.save_model(..., save_as_external_data=True)"
                raise ModelFileError(name, Fault(field="", rule=rule, value=size, found=str(size), way_out=way_out))
            limit.take(size, "the file", name)
            found = cut_out(file, size, LARGE) if is_kept and CAN_HOLD else None
            if found is not None and found[1]:
                held = HeldFile(file, name)
                pieces = {number: Piece(held, *at) for number, at in found[1].items()}
                return _convert(_parse(found[0], name, limit), name, pieces)
            file.seek(0)
            data = file.read(size)
    except ModelFileError as error:
        raise ModelFileError(name, error.faults) from None
    except (OSError, ValueError, MemoryError, RuntimeError) as error:
        rule = f"the file cannot be read ({show(error)})"
        raise ModelFileError(name, Fault(field="", rule=rule)) from error
    message = _parse(data, name, limit)
    del data
    return _convert(message, name)


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


def _convert(message: Any, name: str, pieces: Mapping[int, Piece] | None = None) -> Model:
    if not message.HasField("graph"):
        raise ModelFileError(name, Fault(field="graph", rule="the model must have a graph"))
    return read_message(message, name, pieces)


def _check_depth(graph: Graph, name: str, depth: int = 0) -> None:
    """Check how deep graphs lie within one another, functions having been put in place."""
    if depth > MOST_DEEP:
        raise too_deep(name)
    for node in graph.node:
        for _, inner in node.bodies:
            _check_depth(inner, name, depth + 1)


def _check_form(model: Model, name: str) -> int:
    """The statements that every model must make; gives the opset of ONNX's own operators."""
    if model.ir_version < 1:
        raise ModelFileError(name, Fault(field="ir_version", rule="the model must have an ir_version"))
    for graph in (model.graph, *graphs_within(model.graph.node)):
        for what, infos in (("input", graph.input), ("output", graph.output)):
            for info in infos:
                check_dimensions(len(info.type.shape or ()), name, f"{what} '{printable(info.name)}'")
    newer = "upgrade onnx; this is {0}, which knows up to {1}"
    if model.ir_version > IR_VERSION:
        rule = f"ir_version {model.ir_version} is not supported"
        fault = Fault(field="ir_version", rule=rule, way_out=newer.format(VERSION, IR_VERSION))
        raise UnsupportedError(name, fault)
    versions = model.opset_import
    if "" not in versions:
        if all(node.domain for node in nodes_within(model.graph.node)):
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
