"""Parts of a model as models of their own: some of its nodes, with what they read from others given.

A node with bodies, such as an If, is one node: what its bodies read from outside, it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, ModelFileError, printable
from anydml.onnx.library import tensor_of, with_types
from anydml.onnx.lower.node import label_of
from anydml.onnx.partition.host import refuse_external
from anydml.onnx.tensors import decode_tensor, is_external

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np

    from anydml.onnx.read import Source

    Array = np.ndarray[Any, Any]

MOST_SIZES = 1024
"""Elements of whole numbers and truths that are taken for sizes, axes or indices rather than for data."""


def self_contained(source: Source) -> Any:
    """The message of a model with the tensors that lie beside it in itself."""
    whole = source.whole
    for tensor in whole.graph.initializer:
        if is_external(tensor):
            values = decode_tensor(tensor, source.name, f"initializer '{printable(tensor.name)}'", source.beside)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = values.values("").tobytes()
    _refuse_external(whole.graph)
    return whole


def _refuse_external(graph: Any) -> None:
    """Refuse tensors of nodes and bodies that lie in files: whoever runs a part would read them wherever they are."""
    for node in graph.node:
        refuse_external(node)
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                _refuse_external(body)
                if external := next(filter(is_external, body.initializer), None):
                    rule = f"initializer '{printable(external.name)}' of a body must have its elements in the model"
                    raise ModelFileError(label_of(node), Fault(field=attribute.name, rule=rule))


def reads(node: Any) -> list[str]:
    """The names that a node reads: its inputs, and what its bodies read from outside."""
    found = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            own = {info.name for info in body.input} | {tensor.name for tensor in body.initializer}
            for inner in body.node:
                found += [name for name in reads(inner) if name not in own]
                own.update(inner.output)
            found += [info.name for info in body.output if info.name and info.name not in own]
    return [name for name in dict.fromkeys(found) if isinstance(name, str)]  # bodies may have bytes, which are no text


def makes(node: Any) -> list[str]:
    """The names that a node makes."""
    return [name for name in node.output if name]


def needed(nodes: Sequence[Any], outputs: Iterable[str]) -> list[Any]:
    """The nodes that outputs need, in their order."""
    wanted, found = set(outputs), []
    for node in reversed(nodes):
        if not wanted.isdisjoint(makes(node)):
            found.append(node)
            wanted.update(reads(node))
    return found[::-1]


def missing(model: Any, nodes: Sequence[Any], outputs: Sequence[str]) -> list[str]:
    """Tensors that some nodes of a model read, or outputs are, and neither they make nor the model has."""
    has = {info.name for info in model.graph.input} | _own(model.graph)
    has.update(name for node in nodes for name in makes(node))
    return list(dict.fromkeys(n for n in (*(r for node in nodes for r in reads(node)), *outputs) if n not in has))


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """The same model with more of what its nodes make as outputs."""
    found = type(model)()
    found.CopyFrom(model)
    declared = {info.name for info in found.graph.output}
    for name in names:
        if name not in declared:
            found.graph.output.add(name=name)
    return found


def cut(
    model: Any,
    nodes: Sequence[Any],
    outputs: Sequence[str],
    values: Mapping[str, Any],
    *,
    is_fixed: bool = False,
) -> Any:
    """A model of some of the nodes, and of nothing else that they do not need.

    `values` has what other nodes made: arrays, that become inputs of their types and shapes, or with `is_fixed`
    constants; few whole numbers, which may be sizes, are constants in any case. Outputs among them have their types.
    """
    graph = model.graph
    version = max(model.ir_version, 4)  # from which on a constant need not be an input
    found = type(model)(ir_version=version, opset_import=model.opset_import, functions=model.functions)
    read = {name for node in nodes for name in reads(node)} | set(outputs)
    found.graph.name = "part"
    found.graph.node.extend(nodes)
    found.graph.input.extend(info for info in graph.input if info.name in read)
    found.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in read)
    found.graph.sparse_initializer.extend(s for s in graph.sparse_initializer if s.values.name in read)
    for name in missing(model, nodes, outputs):
        if is_fixed or is_size(values[name]):
            found.graph.initializer.append(tensor_of(values[name], name))
        else:
            with_types(found.graph.input.add(name=name), values[name], has_shape=True)
    declared = {info.name: info for info in (*graph.output, *graph.value_info)}
    for name in outputs:
        info = found.graph.output.add(name=name)
        if name in declared and name not in values:
            info.CopyFrom(declared[name])
        elif name in values:
            with_types(info, values[name], has_shape=False)
    return found


def is_size(array: Array) -> bool:
    """Whether elements are taken for sizes rather than for data."""
    return array.dtype.kind not in "fc" and array.size <= MOST_SIZES


def _own(graph: Any) -> set[str]:
    several = [tensor.name for tensor in graph.initializer], [sparse.values.name for sparse in graph.sparse_initializer]
    return {name for names in several for name in names}
