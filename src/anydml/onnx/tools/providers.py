"""A forecast: which nodes one of ONNX Runtime's providers takes to a GPU, which stay on the CPU and why, and the copies
between the two.

It follows from the kernels that a version of ONNX Runtime documents, and from its rule that what computes shapes stays
on the CPU. `scripts/provider_kernels.py` derives the tables. They do not have what kernels ask of attributes, and a
driver may lack types: what is foretold to run on the GPU may run on the CPU all the same.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.display import counted
from anydml.core.errors import DmlError, printable
from anydml.core.package_data import read_json
from anydml.onnx.library import node_kinds, optimized, type_variables
from anydml.onnx.lower.trace import count_nodes
from anydml.onnx.protobuf import ELEMENT_NAMES
from anydml.onnx.read import read_model
from anydml.onnx.tools.extract import self_contained
from anydml.onnx.tools.report import check

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anydml.onnx.ir import Graph, Node
    from anydml.onnx.read import Given, Source

PROVIDERS = {"cuda": "CUDA", "dml": "DirectML", "webgpu": "WebGPU"}


def _who(provider: str) -> str:
    """The provider, and not what it is named after: DirectML has operators for which its provider has no kernel."""
    return f"ONNX Runtime's {PROVIDERS[provider]} provider"


_UNPUBLISHED = ("float32", "float16", "int32", "uint32", "bool", "uint8")
"""What WebGPU's kernels take, whose types no table has."""
_SMALL = 100
"""Elements of a constant with which a node that computes shapes stays on the CPU."""
_NARROW = ("float16", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1")
"""Types with which no node is kept on the CPU for computing shapes."""
_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


class Why(NamedTuple):
    """A reason why nodes stay on the CPU."""

    kind: str
    """`no kernel`, `opset`, `data type` or `shape`."""
    text: str
    way_out: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, and where it runs."""

    label: str
    kind: str
    why: Why | None = None
    """Why it stays on the CPU; None for one on the GPU."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A tensor that is copied between the CPU and the GPU."""

    name: str
    to_gpu: bool
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a provider does with a model."""

    provider: str
    """`cuda`, `dml` or `webgpu`."""
    version: str
    """Of ONNX Runtime, whose kernels these are."""
    nodes: tuple[Placed, ...]
    copies: tuple[Copy, ...]
    remarks: tuple[str, ...] = field(default=())
    written: int = 0
    """How many nodes the model has before ONNX Runtime optimises it, Constants aside."""

    @property
    def on_gpu(self) -> int:
        """How many nodes the provider takes."""
        return sum(node.why is None for node in self.nodes)

    def __str__(self) -> str:
        name, left = PROVIDERS[self.provider], len(self.nodes) - self.on_gpu
        taken = f"{self.on_gpu} of {counted(len(self.nodes), 'node')}"
        if self.written > len(self.nodes):
            taken = f"{taken} that ONNX Runtime makes of the model's {self.written}"
        stay = f"{left or 'none'} {'stays' if left == 1 else 'stay'} on the CPU{':' if left else ''}"
        lines = [f"{name}'s provider of ONNX Runtime {self.version} takes {taken}; {stay}"]
        groups: dict[Why, list[Placed]] = {}
        for node in self.nodes:
            if node.why is not None:
                groups.setdefault(node.why, []).append(node)
        for why, nodes in groups.items():
            kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(node.kind for node in nodes).most_common())
            lines += [f"  {kinds}: {why.text}", f"    {_first(nodes)}", f"    {why.way_out}"]
        for to_gpu in (False, True):
            several = [copy for copy in self.copies if copy.to_gpu is to_gpu]
            if several:
                where = "to the GPU" if to_gpu else "to the CPU"
                shown = ", ".join(f"'{printable(copy.name)}' for {copy.readers[0]}" for copy in several[:3])
                more = f" and {len(several) - 3} more" if len(several) > 3 else ""
                lines.append(f"  {counted(len(several), 'tensor')} copied {where}: {shown}{more}")
        return "\n".join([*lines, *(f"  Note: {remark}" for remark in self.remarks)])

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        left = [{"node": n.label, "type": n.kind, **n.why._asdict()} for n in self.nodes if n.why is not None]
        return {
            "provider": self.provider,
            "onnxruntime": self.version,
            "nodes": len(self.nodes),
            "nodes_of_model": self.written,
            "on_gpu": self.on_gpu,
            "on_cpu": left,
            "copies": [{"tensor": c.name, "to_gpu": c.to_gpu, "for": list(c.readers)} for c in self.copies],
            "notes": list(self.remarks),
        }


def _first(nodes: Sequence[Placed]) -> str:
    shown = ", ".join(node.label for node in nodes[:3])
    return f"{shown} and {len(nodes) - 3} more" if len(nodes) > 3 else shown


# Kernels


class _Kernel(NamedTuple):
    """A row of the tables."""

    first: int
    last: int | None
    """None for a kernel of the opset `first` alone, as ONNX Runtime has those without an end."""
    types: Mapping[str, Sequence[str]]
    """By type variable."""
    cpu_in: Sequence[int]
    cpu_out: Sequence[int]

    def takes(self, since: int) -> bool:
        """Whether it is one for node types that an opset changed last."""
        return self.first == since if self.last is None else self.first <= since <= self.last


@cache
def _tables() -> Any:
    return read_json(__file__, "provider_kernels.json")


@cache
def _kernels(provider: str, kind: str) -> tuple[_Kernel, ...]:
    data = _tables()
    found = []
    for opsets, (types, *places) in data["providers"][provider].get(kind, {}).items():
        first, *last = (int(one) for one in re.findall(r"\d+", opsets))
        named = {variable: data["type_sets"][number] for variable, number in types.items()}
        placed = places[0] if places else {}
        row = (first, last[0] if last else None, named, placed.get("cpu_in", ()), placed.get("cpu_out", ()))
        found.append(_Kernel(*row))
    return tuple(found)


@dataclass(slots=True)
class _Search:
    """The kernels of a graph's nodes."""

    provider: str
    opset: int
    types: Mapping[str, str]
    """By the tensors' names; those of which nothing is known are left out."""

    def kernel(self, node: Node) -> _Kernel | Why:
        """The kernel that takes a node, or why there is none."""
        kernels = _kernels(self.provider, node.kind)
        if not kernels:
            return Why(
                "no kernel", f"{_who(self.provider)} has no kernel for {node.kind}", "express it by other node types"
            )
        since = self._since(node.kind)
        fitting = [kernel for kernel in kernels if kernel.takes(since)]
        if not fitting:
            return self._of_opset(node.kind, since, kernels)
        faults = [self._of_types(node, since, kernel) for kernel in fitting]
        return next((kernel for kernel, fault in zip(fitting, faults, strict=True) if fault is None), faults[0])  # type: ignore[return-value]  # a fault where there is no kernel

    def _since(self, kind: str) -> int:
        return max((opset for opset in node_kinds().get(kind, [1]) if opset <= self.opset), default=1)

    def _of_opset(self, kind: str, since: int, kernels: Sequence[_Kernel]) -> Why:
        last = max((one.first if one.last is None else one.last) for one in kernels)
        text = f"{_who(self.provider)} has kernels for {kind} up to its opset {last}, and the model's is {since}"
        if since < min(one.first for one in kernels):
            text = text.replace(f"up to its opset {last}", f"from opset {kernels[0].first} on")
            return Why("opset", text, "export the model with a newer opset")
        newer = [opset for opset in node_kinds().get(kind, []) if opset > last]
        older = f"export the model with opset {min(newer) - 1}" if newer else "export the model with an older opset"
        return Why("opset", text, older)

    def _of_types(self, node: Node, since: int, kernel: _Kernel) -> Why | None:
        """Why a kernel does not take a node's types; None where it does, as far as they are known."""
        variables = _tables()["slots"].get(node.kind) or type_variables(node.kind, since)
        if variables is None:
            return None
        slots = [(node.input, variables[0], kernel.cpu_in), (node.output, variables[1], ())]
        for names, variable_of, read_on_cpu in slots:
            for place, tensor in enumerate(names):
                variable = variable_of[min(place, len(variable_of) - 1)] if variable_of else ""
                found = self.types.get(tensor)
                taken = kernel.types.get(variable)
                if taken is None and self.provider == "webgpu" and place == 0 and place not in read_on_cpu:
                    taken = (*_UNPUBLISHED, "int64") if kernel.cpu_out or node.kind in _VIEWS else _UNPUBLISHED
                if found is not None and taken and found not in taken and place not in read_on_cpu:
                    listed = ", ".join(taken)
                    text = f"{_who(self.provider)}'s {node.kind} takes {listed}, and no {found}"
                    return Why("data type", text, _cast(found, taken))
        return None


_VIEWS = ("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Gather")
"""Of WebGPU, those that move whole numbers of 64 bits as well."""


def _cast(found: str, taken: Sequence[str]) -> str:
    nearest = {"int64": "int32", "uint64": "uint32", "float64": "float32", "bfloat16": "float16", "bool": "uint8"}
    to = nearest.get(found, "float32")
    return f"a Cast to {to} in front of it takes it to the GPU" if to in taken else "compute it in one of those types"


# Placement


def forecast(model: Given, provider: str, *, max_memory: int | None = None) -> Forecast:
    """Foretell where ONNX Runtime runs each node of a model with one of its providers: `dml`, `cuda` or `webgpu`."""
    source = read_model(model, max_memory=max_memory)
    written = count_nodes(node.kind for node in source.model.graph.node)
    source, remarks = _optimised(source)
    types = _types(source)
    search = _Search(provider, source.opset, types)
    nodes = [node for node in source.model.graph.node if count_nodes([node.kind])]
    found = {id(node): search.kernel(node) for node in nodes}
    kernels = {key: kernel for key, kernel in found.items() if isinstance(kernel, _Kernel)}
    kept = _kept_on_cpu(source.model.graph, nodes, kernels, types)
    placed = []
    for node in nodes:
        kernel = found[id(node)]
        why = _SHAPES if id(node) in kept else kernel if isinstance(kernel, Why) else None
        placed.append(Placed(node.label, node.kind, why))
    on_gpu = {key: kernel for key, kernel in kernels.items() if key not in kept}
    remarks += [_UNKNOWN]
    if provider == "webgpu":
        remarks.append("data types of WebGPU's kernels are not published: those of its tensors were assumed")
    if any(node.bodies for node in nodes):
        remarks.append("nodes within If, Loop and Scan are not counted")
    copies = tuple(_copies(nodes, on_gpu))
    return Forecast(provider, _tables()["version"], tuple(placed), copies, tuple(remarks), written)


_SHAPES = Why(
    "shape",
    "they read small values that lie on the CPU alone, as shapes do; ONNX Runtime keeps them there by choice",
    "nothing is lost; onnxruntime.tools.make_dynamic_shape_fixed fixes sizes, so that they are folded away",
)
_UNKNOWN = (
    "no published table has the attributes that a kernel refuses, nor the types that a driver lacks; and what is fused"
    " after nodes are dealt out is counted by its parts"
)


def _optimised(source: Source) -> tuple[Source, list[str]]:
    """The model as ONNX Runtime deals it out, where it is installed; and what is to be said of it."""
    as_is = "nodes are those of the file: ONNX Runtime folds constants and merges shapes before it deals them out"
    graph = source.model.graph
    if any(_numbered(info.type.element) in _NARROW for info in graph.input) or any(
        _numbered(tensor.data_type) in _NARROW for tensor in graph.initializer
    ):
        return source, [f"{as_is}, which cannot be seen on a CPU for a model of {'/'.join(_NARROW[:2])}"]
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = optimized(self_contained(source), folder)
        return read_model(found), []
    except ImportError:
        return source, [f"{as_is}; install onnxruntime to have that done here"]
    except Exception:  # noqa: BLE001 - ONNX Runtime refuses a model in many ways, and aborts in none of them
        return source, [f"{as_is}; the ONNX Runtime here refuses the model"]


def _element(name: str) -> str:
    """The kernels' name of an element type, by ONNX's."""
    return _NAMES.get(name, name.lower())


def _numbered(number: int) -> str:
    """The same by ONNX's number; nothing for one that it does not have."""
    return _element(ELEMENT_NAMES.get(number, "")) if number else ""


def _types(source: Source) -> dict[str, str]:
    """The element types of tensors, by name: as the model declares them, and else as nodes make them."""
    graph = source.model.graph
    found = {info.name: _numbered(info.type.element) for info in (*graph.input, *graph.value_info, *graph.output)}
    found |= {tensor.name: _numbered(tensor.data_type) for tensor in graph.initializer}
    found = {name: element for name, element in found.items() if element}
    if any(name not in found for node in graph.node for name in node.makes):
        try:
            report = check(source)
        except DmlError:
            return found
        made = {name: info for node in report.nodes for name, info in node.makes.items() if info is not None}
        found = {name: _element(info.element.name) for name, info in made.items()} | found
    return found


def _kept_on_cpu(
    graph: Graph, nodes: Sequence[Node], kernels: Mapping[int, _Kernel], types: Mapping[str, str]
) -> set[int]:
    """Nodes that ONNX Runtime keeps on the CPU: those that read nothing but what lies there already."""
    small = {tensor.name for tensor in graph.initializer if math.prod(tensor.dims) <= _SMALL}
    small |= {info.name for info in graph.input}
    small |= {name for node in graph.node if node.op_type == "Constant" for name in node.makes}
    on_cpu: set[str] = set()
    for node in nodes:
        if (kernel := kernels.get(id(node))) is not None:
            on_cpu |= {node.output[place] for place in kernel.cpu_out if place < len(node.output)}
    kept: set[int] = set()
    reached = set(on_cpu)
    for node in nodes:  # in order: what a node reads is decided before it
        if reached.isdisjoint(node.input):
            continue
        kernel = kernels.get(id(node))
        read_on_cpu = () if kernel is None else kernel.cpu_in
        is_small = all(
            types.get(name) not in _NARROW and (name in small or (name in on_cpu and place not in read_on_cpu))
            for place, name in enumerate(node.input)
            if name
        )
        if is_small:
            kept.add(id(node))
        if is_small or kernel is None:
            on_cpu |= {*node.makes}
            reached |= {*node.makes}
    return kept


def _copies(nodes: Sequence[Node], on_gpu: Mapping[int, _Kernel]) -> Iterator[Copy]:
    """Tensors that a node makes on one side and others read on the other."""
    side: dict[str, bool] = {}
    for node in nodes:
        kernel = on_gpu.get(id(node))
        for place, name in enumerate(node.output):
            side[name] = kernel is not None and place not in kernel.cpu_out
    readers: dict[tuple[str, bool], list[str]] = {}
    for node in nodes:
        kernel = on_gpu.get(id(node))
        for place, name in enumerate(node.input):
            wants_gpu = kernel is not None and place not in kernel.cpu_in
            if name in side and side[name] is not wants_gpu:
                readers.setdefault((name, wants_gpu), []).append(node.label)
    for (name, to_gpu), labels in readers.items():
        yield Copy(name, to_gpu, tuple(dict.fromkeys(labels)))
