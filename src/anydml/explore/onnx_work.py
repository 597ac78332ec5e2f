"""Work on an ONNX model that the page asks for: its graphs, the check, weights, passes, times, other answers."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anydml.core.enums import FeatureLevel
from anydml.core.errors import DmlError, Fault, ModelError, show
from anydml.core.memory import word_bytes
from anydml.explore import categories
from anydml.explore.drawing import GraphNode, ModelGraph, Slot, tell
from anydml.explore.statistics import digest_of, statistics_of, word_milliseconds
from anydml.onnx import check, compare, load
from anydml.onnx.element_types import type_name
from anydml.onnx.ir import Node, Tensor, graphs_within
from anydml.onnx.library import node_rules
from anydml.onnx.read import read_model
from anydml.onnx.shapes import assumed_told, named_sizes
from anydml.onnx.tensors import decode_tensor
from anydml.onnx.tools.compare import NOT_COMPARED
from anydml.onnx.tools.random_inputs import make_up, refuse_made_up
from anydml.onnx.tools.report import inputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from anydml.cli.onnx_inputs import Given
    from anydml.explore.jobs import Say
    from anydml.onnx import Model, NodeReport, TensorInfo
    from anydml.onnx.ir import Attribute, Function, Graph, ValueInfo
    from anydml.onnx.read import Source
    from anydml.onnx.tools.compare import Difference
    from anydml.operators import OperatorDesc


# The graphs: its own, the bodies of its nodes, and its functions


_MOST_GRAPHS = 1_000
"""That the page is told of; a model may have as many as nodes."""
_MOST_ELEMENTS = 16
"""Of an attribute's list."""


def graphs_of(source: Source) -> list[ModelGraph]:
    """Every graph, the model's own first."""
    reader = _Reader(source)
    reader.add(source.model.graph, source.model.graph.name or "graph", None)
    called = {kind_name(function): reader.add_function(function) for function in source.model.functions}
    for node in (node for graph in reader.graphs for node in graph.nodes):
        if node.kind in called and not node.end:
            node.bodies.append(("function", called[node.kind]))
    return reader.graphs


def kind_name(function: Function) -> str:
    """The type of a node that calls a function."""
    return f"{function.domain}.{function.graph.name}" if function.domain else function.graph.name


def weights_of(graph: Graph) -> dict[str, Tensor | Node]:
    """By name, the tensors that a graph has as initializers, or as attributes of nodes without inputs."""
    found: dict[str, Tensor | Node] = {tensor.name: tensor for tensor in graph.initializer}
    outputs = {info.name for info in graph.output}
    for node in graph.node:
        if node.op_type == "Constant" and len(node.output) == 1 and node.output[0] not in outputs:
            found[node.output[0]] = node.value("value", node)
    return found


class _Reader:
    def __init__(self, source: Source) -> None:
        self._opset = source.opset
        self.graphs: list[ModelGraph] = []

    def add(self, graph: Graph, title: str, around: int | None) -> int:
        """Read a graph and those within it; gives its number."""
        number = len(self.graphs)
        weights = weights_of(graph)
        made = ModelGraph(title, around=around, types=_types(graph, weights))
        self.graphs.append(made)
        given = [(info.name, "") for info in graph.input if info.name not in weights]
        if around is not None:
            given += [(name, "of the graph around it") for name in sorted(graph.captures)]
        for name, where in given:
            node = GraphNode("Input", name, outputs=[Slot("", name)], end="input")
            node.attributes = [("from", where)] if where else []
            made.nodes.append(node)
        self._nodes(made, number, graph.node, weights)
        made.nodes += [GraphNode("Output", o.name, inputs=[Slot("", o.name)], end="output") for o in graph.output]
        return number

    def add_function(self, function: Function) -> int:
        """Read a function, whose calls were put in place where that could be."""
        number, graph = len(self.graphs), function.graph
        made = ModelGraph(f"function {graph.name}", around=0)
        self.graphs.append(made)
        made.nodes += [GraphNode("Input", i.name, outputs=[Slot("", i.name)], end="input") for i in graph.input]
        self._nodes(made, number, graph.node, weights_of(graph))
        made.nodes += [GraphNode("Output", o.name, inputs=[Slot("", o.name)], end="output") for o in graph.output]
        return number

    def _nodes(self, made: ModelGraph, number: int, nodes: Iterable[Node], weights: Mapping[str, Any]) -> None:
        for each in nodes:
            if each.op_type == "Constant" and len(each.output) == 1 and each.output[0] in weights:
                continue  # shown at the nodes that read it
            made.nodes.append(self._node(each, number, weights))

    def _node(self, given: Node, number: int, weights: Mapping[str, Any]) -> GraphNode:
        kind, rules = given.kind, node_rules(given.kind, self._opset)
        category = categories.CONTROL if given.bodies else categories.of_node(kind, self._opset)
        formal = ((), ()) if rules is None else (rules.inputs, rules.outputs)
        inputs, outputs = (
            [Slot(_slot_name(known, k), name, name in weights) for k, name in enumerate(names) if name]
            for known, names in zip(formal, (given.input, given.output), strict=True)
        )
        inputs += [Slot("read within", name, name in weights) for name in given.reads[len(inputs) :]]
        name = given.name or next(iter(given.output), "")
        node = GraphNode(
            kind, given.name, inputs, outputs, label=given.label, shown=tell(name, 100_000), category=category
        )
        inner = {own for own, _ in given.bodies}
        node.attributes = [(each.name, _value(each)) for each in given.attribute if each.name not in inner]
        for own, graph in given.bodies:
            if len(self.graphs) < _MOST_GRAPHS:
                node.bodies.append((own, self.add(graph, f"{own} of {given.name or kind}", number)))
        return node


def _slot_name(rules: tuple[Any, ...], number: int) -> str:
    if not rules:
        return str(number)
    rule = rules[min(number, len(rules) - 1)]
    return f"{rule.name}[{number - len(rules) + 1}]" if rule.is_variadic else str(rule.name)


def _value(attribute: Attribute) -> str:
    if attribute.refers:
        return f"the call's {attribute.refers}"
    kind, values = attribute.kind, attribute.value
    if kind == "TENSOR":
        return _tensor_type(values)
    if kind in ("FLOAT", "INT", "STRING"):
        return _word(values)
    if kind not in ("FLOATS", "INTS", "STRINGS"):
        return kind.lower()
    more = f", … {len(values)} in all" if len(values) > _MOST_ELEMENTS else ""
    return f"[{', '.join(map(_word, values[:_MOST_ELEMENTS]))}{more}]"


def _word(value: float | bytes) -> str:
    if isinstance(value, bytes):
        return value[:300].decode("utf-8", "replace")
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _types(graph: Graph, weights: Mapping[str, Any]) -> dict[str, str]:
    """The types that a graph says itself."""
    found = {info.name: _info_type(info) for info in (*graph.value_info, *graph.input, *graph.output)}
    found |= {name: _tensor_type(each) for name, each in weights.items() if isinstance(each, Tensor)}
    return {name: told for name, told in found.items() if told}


def _info_type(info: ValueInfo) -> str:
    declared = info.type
    if declared.kind != "tensor":
        return declared.kind
    sizes = [str(size) if isinstance(size, int) else tell(size or "", 40) or "?" for size in declared.shape or ()]
    element = type_name(declared.element).lower()
    return element if declared.shape is None else f"{element}[{','.join(sizes)}]"


def _tensor_type(tensor: Tensor) -> str:
    return f"{type_name(tensor.data_type).lower()}[{','.join(map(str, tensor.dims))}]"


# The work


_MOST_TYPED = 8
"""Elements of an input that the page has a field for."""
_RUNS = 5
"""Of a profile, after a first that does not count."""


class OnnxWork:
    """An ONNX model, and what may be asked of it."""

    kind = "ONNX"

    def __init__(self, path: Path, given: Given, engine: str | None, level: FeatureLevel | None) -> None:
        self._path, self._given, self._engine = path, given, engine
        self._level = level or FeatureLevel.highest()
        self._source = read_model(path, max_memory=given.max_memory, is_kept=True)
        self.graphs = graphs_of(self._source)
        model = self._source.model
        functions = [function.graph for function in model.functions]
        self._graphs = [model.graph, *graphs_within(model.graph.node), *functions]
        self._weights = weights_of(model.graph)
        self._descs: dict[str, Sequence[OperatorDesc]] = {}
        self.places: dict[str, list[str]] = {}
        for number, graph in enumerate(self.graphs):
            for k, node in enumerate(graph.nodes):
                for key in {node.label, node.shown} - {""}:
                    self.places.setdefault(key, []).append(f"{number}.{k}")
        self._made = {
            slot.tensor: f"{number}.{k}"
            for number, graph in enumerate(self.graphs)
            for k, node in enumerate(graph.nodes)
            if not node.end
            for slot in node.outputs
        }

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The page's words on the model as a whole."""
        model = self._source.model
        sets = ", ".join(f"{tell(name, 40) or 'ai.onnx'} {version}" for name, version in model.opset_import.items())
        made_by = tell(f"{model.producer_name} {model.producer_version}".strip(), 80)
        size = word_bytes(self._path.stat().st_size)
        found = [("format", f"ONNX, ir_version {model.ir_version}"), ("opset", sets), ("producer", made_by)]
        return [(name, text) for name, text in (*found, ("file", size)) if text]

    @property
    def jobs(self) -> dict[str, Callable[[Say], Any]]:
        """The jobs of the page; the comparison where ONNX Runtime is installed."""
        found: dict[str, Callable[[Say], Any]] = {
            "check": self._check,
            "passes": self._passes,
            "profile": self._profile,
        }
        if importlib.util.find_spec("onnxruntime") is not None:
            found["compare"] = self._compare
        return found

    def sizes(self) -> list[dict[str, Any]]:
        """The open sizes of its inputs, by names or by places, and inputs of few elements, on which a shape may depend.

        Each with what is given for it.
        """
        graph, given = self._source.model.graph, self._given.shapes()
        found: dict[str, dict[str, Any]] = {}
        for info in graph.input:
            whole = given.get(info.name)
            own = () if info.name in graph.constants else named_sizes(info.name, info.type.shape) or ()
            for axis, size in enumerate(own):
                if isinstance(size, int):
                    continue
                one = found.setdefault(size, {"name": tell(size, 80), "where": [], "value": None})
                one["where"].append(tell(f"{info.name}[{axis}]", 80))
                value = given.get(size)
                if value is None and isinstance(whole, list) and axis < len(whole):
                    value = whole[axis]
                one["value"] = value if isinstance(value, int) else one["value"]
        values = dict(text.partition("=")[::2] for text in self._given.inputs)
        small: list[dict[str, Any]] = [
            {"name": tell(info.name, 80), "where": [], "value": values.get(info.name), "is_value": True}
            for info in graph.input
            if info.name not in graph.constants and _is_small(info)
        ]
        return [*found.values(), *small]

    def descs(self, place: str) -> Sequence[OperatorDesc]:
        """The operators that a node becomes, once the model was checked."""
        return self._descs.get(place, ())

    def digest(self, name: str) -> str:
        """What tells a weight's values from others."""
        held = self._weights.get(name)
        if isinstance(held, Node):
            return str(held.attribute[0].value) if held.attribute else ""
        if held is None:
            return ""
        value = decode_tensor(held, self._source.name, f"tensor {show(name, 60)}", self._source.beside)
        assert value.known is not None  # noqa: S101 - for type checkers: a model's tensor is known
        return digest_of(value.known.flat())

    def weight(self, name: str) -> dict[str, Any]:
        """The figures of a weight."""
        for graph in self._graphs:
            held = weights_of(graph).get(name)
            if held is None:
                continue
            if isinstance(held, Node):
                raise ModelError("explore", Fault(field=tell(name), rule="it is a plain number, told at its node"))
            beside = self._source.beside
            value = decode_tensor(held, self._source.name, f"tensor {show(name, 60)}", beside)
            assert value.known is not None  # noqa: S101 - for type checkers: a model's tensor is known
            size = value.element.bytes_of(value.count)
            beside.limit.check(size, f"tensor {show(name, 60)}", self._source.name)
            return {"bytes": size, **statistics_of(value.known.flat())}
        raise ModelError("explore", Fault(field=tell(name), rule="there is no such weight"))

    # Work

    def _check(self, say: Say) -> dict[str, Any]:
        say("checking every node")
        options: dict[str, Any] = {"max_memory": self._given.max_memory, "strict": self._given.strict}
        arrays = self._given.arrays(lambda: inputs_of(self._path))
        report = check(self._path, self._level, shapes=self._given.shapes(), values=arrays, **options)
        nodes: dict[str, Any] = {}
        types: dict[str, str] = {}
        for name, given in report.inputs.items():
            if name in report.shapes:
                types[tell(name)] = _type(replace(given, shape=report.shapes[name]))
        for node in report.nodes:
            place = next((self._made[name] for name in node.makes if name in self._made), None)
            types |= {tell(name): _type(info) for name, info in node.makes.items() if info is not None}
            if place is not None:
                self._descs[place] = node.descs
                nodes[place] = _judged(node)
        refused, hosted = sum(report.refused.values()), report.hosted.total()
        told = [f"{report.count} nodes"]
        told.append(
            f"{refused} cannot run at level {report.level}" if refused else f"runs from {report.lowest_level} on"
        )
        told += [f"{hosted} run on the host"] if hosted else []
        told += [f"{report.unknown} known at a run alone"] if report.unknown else []
        if report.assumed:
            assumed = ", ".join(f"{tell(name, 40)}={size}" for name, size in list(report.assumed.items())[:4])
            told.append(f"assumed {assumed}")
        if report.doubt is not None:
            told.append("whether it fits together depends on sizes: --shape gives them")
        sizes = {
            tell(size, 80): shape[axis]
            for name, shape in report.shapes.items()
            if (declared := report.inputs.get(name)) is not None
            for axis, size in enumerate(named_sizes(name, declared.shape) or ())
            if isinstance(size, str) and axis < len(shape)
        }
        return {
            "nodes": nodes,
            "types": types,
            "says": ", ".join(told),
            "sizes": sizes,
            "faults": [str(one) for one in report.faults],
        }

    def _load(self, say: Say) -> Model:
        say("compiling the model")
        options: dict[str, Any] = {"max_memory": self._given.max_memory, "strict": self._given.strict}
        return load(self._path, device=self._engine, shapes=self._given.shapes(), **options)

    def _inputs(self, model: Model) -> dict[str, Any]:
        """Those of files, the others made up; dynamic sizes that nobody gives are assumed."""
        arrays = self._given.arrays(lambda: model.inputs)
        missing = {name: info for name, info in model.inputs.items() if name not in arrays and not info.is_optional}
        shapes, assumed = model.assume_shapes(arrays)
        try:
            if missing and (needed := model.values_needed(shapes, arrays)):
                raise refuse_made_up(model.name, needed)
            made = make_up(missing, shapes, model.index_limits(shapes), self._given.seed or 0, self._given.max_memory)
        except ModelError as error:
            raise assumed_told(error, assumed, shapes) from error
        return {**arrays, **made}

    def _passes(self, say: Say) -> dict[str, Any]:
        model = self._load(say)
        if self._given.inputs:  # on which it may depend what there is to run
            say("running it once")
            model.run(self._inputs(model))
        say("reading the passes")
        picture = model.explain()
        pictures = [picture, *picture.parts]
        passes = [
            {"does": one.does, "bytes": one.bytes_moved, "nodes": self._find(one.nodes), "once": is_once}
            for each in pictures
            for is_once, several in ((False, each.after), (True, each.once))
            for one in several
        ]
        count = sum(len(each.after) for each in pictures)
        return {"passes": passes, "says": picture.summary if picture.before else f"{count} passes in several parts"}

    def _find(self, names: Iterable[str]) -> list[str]:
        bare = dict.fromkeys(name if name in self.places else name.rpartition(" #")[0] for name in names)
        return [place for name in bare for place in self.places.get(name, ())[:1]]

    def _profile(self, say: Say) -> dict[str, Any]:
        model = self._load(say)
        inputs = self._inputs(model)
        say(f"running it {_RUNS} times")
        found = model.profile(inputs, runs=_RUNS)
        passes = [
            {
                "nodes": self._find(one.nodes),
                "ms": one.seconds * 1000,
                "bytes": one.work.bytes,
                "flops": one.work.flops,
                "calls": one.calls,
                "where": one.where,
            }
            for one in found.passes
        ]
        seed = self._given.seed or 0
        taken = found.seconds * 1000
        says = f"{word_milliseconds(taken)} a run on {found.device}, the median of {found.runs}; seed {seed}"
        return {"passes": passes, "ms": taken, "says": says}

    def _compare(self, say: Say) -> dict[str, Any]:
        model = self._load(say)
        inputs = self._inputs(model)
        del model
        say("running every node by anydml and by ONNX Runtime")
        options: dict[str, Any] = {"shapes": self._given.shapes(), "max_memory": self._given.max_memory}
        found = compare(self._path, inputs, device=self._engine, every=True, **options)
        outputs = {one.name: one for one in found.outputs}
        # A tensor has one verdict: an output's own is of the model as it runs, with all its passes.
        nodes = [(one.label, outputs.get(one.found.name, one.found)) for one in found.nodes]
        off = [label for label, one in nodes if _compared(one) and not one.agrees]
        agreed = sum(one.agrees for one in found.outputs)
        says = f"{agreed} of {len(outputs)} output{'s' if len(outputs) > 1 else ''} agree{'s' * (len(outputs) == 1)}"
        says += " with ONNX Runtime"
        if off and agreed == len(outputs):
            says += f"; on the way {len(off)} node{'s are' if len(off) > 1 else ' is'} off, the first {off[0]}"
        elif off:
            says += f"; the first node that is off is {off[0]}"
        tensors = {tell(one.name): _difference(one) for _, one in nodes}
        return {"tensors": tensors, "says": says, "outputs": [_difference(one) for one in found.outputs]}


def _compared(found: Difference) -> bool:
    return not found.problem.startswith(NOT_COMPARED)


def _is_small(info: ValueInfo) -> bool:
    sizes = info.type.shape
    is_known = info.type.kind == "tensor" and sizes is not None and all(isinstance(size, int) for size in sizes)
    return is_known and math.prod(size for size in sizes or () if isinstance(size, int)) <= _MOST_TYPED


def _type(info: TensorInfo) -> str:
    sizes = "" if info.shape is None else ",".join("?" if size is None else str(size) for size in info.shape)
    return tell(f"{info.element.name.lower()}[{sizes}]")


def _difference(found: Difference) -> dict[str, Any]:
    """A tensor on both sides, for a page."""
    return {
        "name": tell(found.name),
        "agrees": found.agrees,
        "compared": _compared(found),
        "largest": _number(found.largest),
        "ulps": found.ulps,
        "says": str(found),
        "samples": [[_place(one.where), one.here, one.there] for one in found.samples],
        "where": None if found.where is None else _place(found.where),
        "here": found.here,
        "there": found.there,
    }


def _place(where: tuple[int, ...]) -> str:
    return ",".join(map(str, where))


def _number(value: float | None) -> float | str | None:
    """A number that JSON has; an infinity is told in words."""
    return value if value is None or math.isfinite(value) else str(value)


def _judged(node: NodeReport) -> dict[str, Any]:
    state = "refused" if node.error else "host" if node.is_hosted else "" if node.is_known else "unknown"
    data = {
        "state": state,
        "note": str(node.error) if isinstance(node.error, DmlError) else node.note,
        "operators": list(dict.fromkeys(node.operators)),
        "level": None if node.lowest_level is None else str(node.lowest_level),
        "category": categories.of_operators(map(type, node.descs)) if node.descs else None,
    }
    return {key: value for key, value in data.items() if value}
