"""Nodes that run on the host: those without a DirectML operator, or of types that DirectML lacks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from anydml.arrays import on_host
from anydml.core.errors import Fault, ModelFileError, printable
from anydml.core.locks import make_lock
from anydml.onnx.element_types import ELEMENT_TYPES
from anydml.onnx.ir import SparseTensor, Tensor, graphs_within
from anydml.onnx.partition.host_evaluator import Evaluator, make_model
from anydml.onnx.partition.host_process import RemoteEvaluator, is_apart
from anydml.onnx.partition.part import Part
from anydml.onnx.tensors import decode_tensor
from anydml.runtime.call_cache import CallCache
from anydml.runtime.profiler_hook import WATCHER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.lower.values import Value
    from anydml.onnx.partition.scope import Scope

_MOST_EVALUATORS = 64


class HostPart(Part):
    """Neighbouring nodes that somebody else runs, in one go."""

    def __init__(self, nodes: Sequence[Node], takes: tuple[str, ...], gives: tuple[str, ...], scope: Scope) -> None:
        self.nodes, self.takes, self.gives = list(nodes), takes, gives
        self._scope = scope
        constants, tensors = scope.constants_of([*(name for node in nodes for name in node.reads), *gives])
        self._all, self._tensors = [*constants, *nodes], tensors
        for node in self._all:
            refuse_external(node)
        self._evaluators: CallCache[Evaluator | RemoteEvaluator] = CallCache(_MOST_EVALUATORS)
        self._known: CallCache[Evaluator | RemoteEvaluator] = CallCache(_MOST_EVALUATORS)
        """Those of arrays that were looked at, by types and shapes."""
        self._foreseen: CallCache[None] = CallCache(_MOST_EVALUATORS)
        """The shapes whose results are not too large."""
        self._lock = make_lock()
        self.copied = 0
        """Bytes that its last run read and made, which are copied where the device has memory of its own."""

    @property
    def label(self) -> str:
        """The name in errors."""
        others = f" and {len(self.nodes) - 1} more" if len(self.nodes) > 1 else ""
        return self.nodes[0].label + others

    @property
    def by(self) -> str:
        """Who ran it last, and why ONNX Runtime did not; nothing before the first run."""
        last = next(reversed(self._evaluators.values()), None)
        return "" if last is None else last.by + (f" ({last.why})" if last.why else "")

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run the nodes on values in the host's memory; arrays like those of an earlier run need no closer look."""
        arrays = {name: x for name in self.takes if type(x := values[name]) is np.ndarray}
        key = tuple([(x.dtype, x.shape) for x in arrays.values()]) if len(arrays) == len(self.takes) else None
        if key is not None and WATCHER.get() is None and (evaluator := self._known.get(key)) is not None:
            return self._checked(arrays, evaluator.run(arrays))
        given = {name: _given(values[name]) for name in self.takes}
        source = self._scope.source
        if may_grow(self.nodes[0]):
            inputs = [given[name] if name in given else self._constant(name) for name in self.nodes[0].input if name]
            source.beside.limit.check(grown_size(self.nodes[0], inputs), f"results of {self.label}", source.name)
        self._foresee(given)
        evaluator, recorder = self._evaluator(given), WATCHER.get()
        if recorder is None:
            results = evaluator.run(given)
        else:
            results = recorder.time_host(tuple(node.label for node in self.nodes), lambda: evaluator.run(given))
        if key is not None and not may_grow(self.nodes[0]) and all(given[name] is x for name, x in arrays.items()):
            self._known.keep(key, evaluator)
        return self._checked(given, results)

    def _checked(self, given: dict[str, Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results, where they are not too large."""
        source, made = self._scope.source, sum(map(_size, results))
        self.copied = made + sum(map(_size, given.values()))
        if made > source.beside.limit.left:
            source.beside.limit.check(made, f"results of {self.label}", source.name)
        return results

    def _foresee(self, given: dict[str, Any]) -> None:
        """Refuse results that shapes say are too large."""
        inputs = {name: (x.shape, x.itemsize) for name, x in given.items() if isinstance(x, np.ndarray)}
        key = tuple(inputs.values())
        if key not in self._foreseen:
            for name in self._tensors:
                tensor = self._scope.tensors[name]
                inputs[name] = tensor.dims, 1
            name, size = foreseen(self._all, inputs)
            source = self._scope.source
            source.beside.limit.check(size, f"'{printable(name)}', made by {self.label}", source.name)
            self._foreseen.keep(key, None)

    def _evaluator(self, given: dict[str, Any]) -> Evaluator | RemoteEvaluator:
        key = tuple(_type(value) for value in given.values())
        with self._lock:
            if (found := self._evaluators.get(key)) is None:
                tensors = [host_tensor(name, self._scope) for name in self._tensors]
                opsets = self._scope.source.model.opset_import
                model = make_model(self._all, given, self.gives, tensors, opsets)
                found = RemoteEvaluator(model, self.label) if is_apart() else Evaluator(model, given, self.label)
                self._evaluators.keep(key, found)
            return found

    def _constant(self, name: str) -> Any:
        """The value of a constant of the graph; None where only a run says."""
        tensor = self._scope.tensors.get(name)
        if tensor is None or tensor.data_type not in ELEMENT_TYPES:
            return None
        source = self._scope.source
        what = f"initializer '{printable(name)}'"
        return decode_tensor(tensor, source.name, what, source.beside).values(what)


def host_tensor(name: str, scope: Scope) -> Tensor:
    """An initializer with its elements, those in a file read as confined as for any other use."""
    tensor, what = scope.tensors[name], f"initializer '{printable(name)}'"
    if tensor.data_type in ELEMENT_TYPES:  # whose sizes are checked before anybody believes them
        return with_elements(tensor, decode_tensor(tensor, scope.source.name, what, scope.source.beside))
    if tensor.is_external:
        rule = f"{what} must have its elements in the model: DirectML lacks its type"
        raise ModelFileError(scope.source.name, Fault(field=name, rule=rule))
    return tensor


def with_elements(tensor: Tensor, value: Value) -> Tensor:
    """The tensor that was decoded to this value, with elements that lay in another file."""
    known = value.halves or value.known
    return replace(tensor, data=known.flat().tobytes()) if tensor.is_external and known is not None else tensor


def refuse_external(node: Node) -> None:
    """Refuse tensors of a node that lie in files, which would be read wherever they are; those of its bodies too."""
    within = [tensor for graph in graphs_within([node]) for tensor in _tensors_in(graph)]
    for name, tensor in (*_tensors_of(node), *((tensor.name, tensor) for tensor in within)):
        if tensor.is_external:
            rule = f"{printable(name)} must have its elements in the model, for a node on the host"
            raise ModelFileError(node.label, Fault(field=name, rule=rule))


def _tensors_in(graph: Graph) -> Iterator[Tensor]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from (tensor for _, tensor in _tensors_of(node))


def _tensors_of(node: Node) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a node has as attributes, by the attributes' names."""
    for each in node.attribute:
        for value in each.value if isinstance(each.value, tuple) else (each.value,):
            several = (value.values, value.indices) if isinstance(value, SparseTensor) else (value,)
            yield from ((each.name, tensor) for tensor in several if isinstance(tensor, Tensor))


def _given(value: Any) -> Any:
    """A value in the host's memory; texts as objects."""
    if isinstance(value, list):
        return [_given(each) for each in value]
    if value is None or isinstance(value, dict):
        return value
    found = on_host(value)
    return found.astype(object) if found.dtype.kind in "SU" else found


def _type(value: Any) -> Any:
    if isinstance(value, list):
        return (_type(value[0]) if value else None,)
    return getattr(value, "dtype", type(value))


def _size(value: Any) -> int:
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return value.nbytes
    if isinstance(value, list):
        return sum(map(_size, value))
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        return sum(len(text) if isinstance(text, (str, bytes)) else 8 for text in value.reshape(-1))
    return int(getattr(value, "nbytes", 0))


# Sizes of what nodes on the host will give, before somebody else allocates it.

# Node types whose result may be of any size, whatever they read


Array = np.ndarray[Any, Any]


def _product(sizes: Any) -> int:
    return math.prod(max(int(size), 0) for size in np.asarray(sizes).reshape(-1))


def _expanded(arrays: Sequence[Array]) -> int:
    to = [int(size) for size in arrays[1].reshape(-1)]
    shape = (1,) * (len(to) - arrays[0].ndim) + arrays[0].shape
    return _product([max(a, b) for a, b in zip(shape, (1,) * (len(shape) - len(to)) + tuple(to), strict=True)])


def _padded(arrays: Sequence[Array]) -> int:
    count, axes = len(arrays[1]) // 2, list(range(arrays[0].ndim))
    if len(arrays) > 3:
        axes = [int(axis) % arrays[0].ndim for axis in arrays[3].reshape(-1)]
    sizes = list(arrays[0].shape)
    for i, axis in zip(range(count), axes, strict=False):
        sizes[axis] += int(arrays[1][i]) + int(arrays[1][count + i])
    return _product(sizes)


def _resized(arrays: Sequence[Array]) -> int:
    *_, last = arrays
    scaled = _product(np.ceil(np.asarray(last, np.float64) * arrays[0].shape)) if len(last) == arrays[0].ndim else 0
    return _product(last) if last.dtype.kind == "i" else scaled


_COUNTS: dict[str, Callable[[Sequence[Array]], int]] = {
    "ConstantOfShape": lambda arrays: _product(arrays[0]),
    "Expand": _expanded,
    "MelWeightMatrix": lambda arrays: int(arrays[0].item()) * (int(arrays[1].item()) // 2 + 1),
    "OneHot": lambda arrays: arrays[0].size * int(arrays[1].item()),
    "Pad": _padded,
    "Range": lambda arrays: math.ceil((arrays[1].item() - arrays[0].item()) / arrays[2].item()),
    "Resize": _resized,
    "Tile": lambda arrays: _product(np.asarray(arrays[0].shape, object) * [int(n) for n in arrays[1]]),
    "Upsample": _resized,
}
"""By node type, the elements that it makes of its inputs."""


def may_grow(node: Node) -> bool:
    """Whether a node is looked at before it runs, for which it has a part of its own."""
    return node.op_type in _COUNTS


def grown_size(node: Node, inputs: Sequence[Any]) -> int:
    """The bytes that a node will make, at least; 0 where its inputs are at fault, which whoever runs it says."""
    arrays = [each for each in inputs if isinstance(each, np.ndarray)]
    try:
        count = _COUNTS[node.op_type](arrays)
    except Exception:  # noqa: BLE001 - inputs of any kind, of which nothing is known
        return 0
    return max(count, 0) * arrays[0].itemsize


# Sizes that shapes alone say


Shape: TypeAlias = tuple[int, ...]
_TRUTHS = ("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor")
_NUMBERS = (
    "Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Max", "Mean", "Min", "Mod", "Mul", "PRelu",
    "Pow", "Sub", "Sum", "Where",
)  # fmt: skip
_ALIKE = (
    "Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Round", "Sigmoid",
    "Sign", "Sin", "Softmax", "Sqrt", "Tanh",
)  # fmt: skip


def _matmul(_node: Node, a: Shape, b: Shape) -> Shape:
    rows, columns = a[-2:-1], b[-1:] if len(b) > 1 else ()
    return (*np.broadcast_shapes(a[:-2], b[:-2]), *rows, *columns)


def _gathered(node: Node, data: Shape, indices: Shape) -> Shape:
    axis = node.value("axis", 0) % len(data)
    return (*data[:axis], *indices, *data[axis + 1 :])


_RULES: dict[str, Callable[..., Shape]] = {
    **dict.fromkeys((*_TRUTHS, *_NUMBERS), lambda _node, *shapes: np.broadcast_shapes(*shapes)),
    **dict.fromkeys(_ALIKE, lambda _node, shape: shape),
    "Gather": _gathered,
    "MatMul": _matmul,
}
"""By node type, the shape of the first output."""


def foreseen(nodes: Sequence[Node], inputs: Mapping[str, tuple[Shape, int]]) -> tuple[str, int]:
    """The name and the bytes, at least, of the largest result; `inputs` have shapes and the bytes of an element."""
    known, largest = dict(inputs), ("", 0)
    for node in nodes:
        names = [name for name in node.input if name]
        rule = _RULES.get(node.op_type) if not node.domain else None
        if rule is None or not all(name in known for name in names):
            continue
        try:
            shape = rule(node, *(known[name][0] for name in names))
        except (ValueError, IndexError, TypeError, ZeroDivisionError):  # which whoever runs it says
            continue
        width = 1 if node.op_type in _TRUTHS else known[names[-1]][1]
        known[node.output[0]] = shape, width
        largest = max(largest, (node.output[0], math.prod(shape) * width), key=lambda one: one[1])
    return largest
