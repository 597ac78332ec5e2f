"""A model here and on another side: whether outputs agree, which node is the first that does not, and which is off."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import DescriptionError, DmlError, EngineMissingError, Fault, show
from anydml.graph.without import read_without, rewritings
from anydml.onnx.cutting import cut, makes, needed, reads, self_contained
from anydml.onnx.differences import Difference, differ, refused
from anydml.onnx.feeding import hold
from anydml.onnx.library import run_onnxruntime
from anydml.onnx.loading import load
from anydml.onnx.nodes import label_of
from anydml.onnx.reading import read_model
from anydml.shown import Shown, Table, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.onnx.reading import Given
    from anydml.runtime.device import Device

RTOL, ATOL = 1e-3, 1e-7
"""Within which floats agree: those of ONNX's own backend tests."""
SIDES = ("onnxruntime", "reference")
"""The sides to compare a model with: ONNX Runtime, or the reference engine."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class NodeComparison:
    """The results of a node, on both sides."""

    label: str
    """Errors' name for the node."""
    found: Difference
    alone: Difference | None = None
    """The difference for the other side's inputs: not close, the node itself is off. None where nobody asked."""


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class Comparison(Shown):
    """A model on both sides. It is true where every output agrees."""

    outputs: tuple[Difference, ...]
    first_node: str = ""
    """The first node that makes something that does not agree."""
    first: Difference | None = None
    nodes: tuple[NodeComparison, ...] = ()
    """Every output of every node, in the model's order, where that was asked for."""
    rewritings: tuple[str, ...] = ()
    """Rewritings of the graph any one of which, left out, makes the outputs agree."""

    def __bool__(self) -> bool:
        return all(output.agrees for output in self.outputs)

    def __str__(self) -> str:
        lines = [f"{sum(one.agrees for one in self.outputs)} of {counted(len(self.outputs), 'output')} agree"]
        lines += [f"  {one}" for one in self.outputs]
        lines += [f"  the first node that does not is {self.first_node}: {self.first}"] if self.first_node else []
        return "\n".join([*lines, *(f"  left out, {name} makes them agree" for name in self.rewritings)])

    def _shown(self) -> Iterator[str | Table]:
        head, *lines = str(self).split("\n")
        yield head
        heads = ("output", "type", "agrees", "elements", "differing", "largest difference")
        yield Table("outputs", heads, [one.as_row() for one in self.outputs])
        yield from lines[len(self.outputs) :]
        yield Table("nodes", ("node", *heads), [(node.label, *node.found.as_row()) for node in self.nodes])

    @property
    def off(self) -> tuple[NodeComparison, ...]:
        """The nodes that are off by themselves, where that was asked for."""
        return tuple(node for node in self.nodes if node.alone is not None and not node.alone.agrees)


def compare(
    model: Given,
    inputs: Mapping[str, Any],
    *,
    device: Device | str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    max_memory: int | None = None,
    against: str = "onnxruntime",
    every: bool = False,
    alone: bool = False,
    without: Iterable[str] = (),
) -> Comparison:
    """Run a model here and on another side; where outputs do not agree, find the first node that does not.

    `against` is "onnxruntime", or "reference" for the reference engine. With `every` all that nodes make is compared;
    with `alone` each node is run once more on what the other side made: what is off then is off by itself. Nodes are
    compared as they are, one by one, as many at a time as `max_memory` has room for. `without` names rewritings of the
    graph to leave out, as `load` takes them.
    """
    rtol, atol = _tolerance(rtol, "rtol"), _tolerance(atol, "atol")
    if against not in SIDES:
        rule = f"against must be one of {', '.join(SIDES)}"
        raise DescriptionError("compare", Fault(field="against", rule=rule, value=against, found=show(against)))
    source = read_model(model, max_memory=max_memory)
    inputs = hold(inputs, source.name)

    def run(left_out: Iterable[str]) -> dict[str, Any]:
        return load(model, device=device, shapes=shapes, max_memory=max_memory, without=left_out).run(inputs)

    own = read_without(without, "compare")
    mine = run(own)
    given = {name: np.asarray(array) for name, array in inputs.items()}
    is_path = isinstance(model, (str, os.PathLike))
    theirs = _there(os.fspath(model) if is_path else source.whole, given, list(mine), against, max_memory)
    outputs = tuple(differ(name, mine[name], theirs[name], rtol, atol) for name in mine)
    is_right = all(output.agrees for output in outputs)
    if is_right and not (every or alone):
        return Comparison(outputs)

    def agrees(*left_out: str) -> bool:
        try:
            found = run({*own, *left_out})
        except DmlError:  # which takes more memory, or was never meant to run so
            return False
        return all(differ(name, found[name], theirs[name], rtol, atol).agrees for name in theirs)

    known = rewritings()
    at_fault = () if is_right or not agrees(*known) else tuple(name for name in known if agrees(name))
    nodes: list[NodeComparison] = []
    first, whole = NodeComparison("", outputs[0]), self_contained(source)
    layers = _Layers(whole, given, device, against, max_memory, rtol, atol)
    for node in layers.compare([node for node in whole.graph.node if makes(node)], alone=alone):
        nodes.append(node)
        if not first.label and not node.found.agrees and not node.found.problem.startswith(_NOT_COMPARED):
            first = node
            if not (every or alone):
                break
    found = first.found if first.label else None
    return Comparison(outputs, first.label, found, tuple(nodes) if every or alone else (), at_fault)


_NOT_COMPARED = "not compared: "


def _there(model: Any, inputs: dict[str, Any], names: list[str], side: str, most: int | None) -> dict[str, Any]:
    """The other side's results of a model, its optimisations included."""
    if side == "onnxruntime":
        return run_onnxruntime(model, inputs, names)
    found = load(model, device="reference", max_memory=most).run(inputs)
    return {name: found[name] for name in names}


@dataclass(frozen=True, slots=True)
class _Layers:
    """A model's nodes on both sides."""

    whole: Any
    inputs: dict[str, Any]
    device: Device | str | None
    against: str
    max_memory: int | None
    rtol: float
    atol: float

    def compare(self, nodes: Sequence[Any], *, alone: bool) -> Iterator[NodeComparison]:
        """The results of nodes, all at once, or else half by half: a failure is told of the one node that it is of."""
        names = [name for node in nodes for name in makes(node)]
        try:
            read = {name for node in nodes for name in reads(node)} & self._made if alone else set()
            theirs = self._there(names, read)
            mine = self._here(self._part(names), names)
        except EngineMissingError:
            raise
        except DmlError as error:
            if len(nodes) > 1:
                half = len(nodes) // 2
                yield from self.compare(nodes[:half], alone=alone)
                yield from self.compare(nodes[half:], alone=alone)
                return
            yield from (self._refused(nodes[0], name, error) for name in names)
            return
        for node in nodes:
            own = self._alone(node, theirs) if alone else {}
            for name in makes(node):
                found = differ(name, mine[name], theirs[name], self.rtol, self.atol)
                yield NodeComparison(label_of(node), found, own.get(name))

    @property
    def _made(self) -> set[str]:
        return {name for node in self.whole.graph.node for name in makes(node)}

    def _part(self, names: list[str]) -> Any:
        """The model of what these names need, with them as its outputs."""
        return cut(self.whole, needed(self.whole.graph.node, names), names, {})

    def _here(self, part: Any, names: list[str], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _run(part, {**self.inputs, **(values or {})}, names, self.device, self.max_memory)

    def _there(self, names: list[str], others: set[str]) -> dict[str, Any]:
        wanted = list(dict.fromkeys([*names, *sorted(others)]))
        part = self._part(wanted)
        if self.against == "reference":
            return _run(part, self.inputs, wanted, "reference", self.max_memory)
        read = {info.name for info in part.graph.input}
        given = {name: array for name, array in self.inputs.items() if name in read}
        return run_onnxruntime(part, given, wanted, is_plain=True)

    def _alone(self, node: Any, theirs: dict[str, Any]) -> dict[str, Difference]:
        """The results of a node for the other side's inputs."""
        names = makes(node)
        values = {name: theirs[name] for name in reads(node) if name in theirs}
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            return {name: refused(name, f"{_NOT_COMPARED}it reads what is no tensor") for name in names}
        try:
            found = self._here(cut(self.whole, [node], names, values), names, values)
        except DmlError as error:
            return {name: refused(name, f"{_NOT_COMPARED}{error}") for name in names}
        return {name: differ(name, found[name], theirs[name], self.rtol, self.atol) for name in names}

    def _refused(self, node: Any, name: str, error: DmlError) -> NodeComparison:
        return NodeComparison(label_of(node), refused(name, f"{_NOT_COMPARED}{error}"))


def _run(
    part: Any, inputs: Mapping[str, Any], names: list[str], device: Device | str | None, most: int | None
) -> dict[str, Any]:
    model = load(part, device=device, max_memory=most, without=rewritings())
    found = model.run({name: array for name, array in inputs.items() if name in model.inputs})
    return {name: found[name] for name in names}


def _tolerance(given: Any, name: str) -> float:
    """The most that elements may be off by."""
    try:
        found = math.nan if isinstance(given, (bool, str, bytes)) else float(given)
    except Exception:  # noqa: BLE001 - no number, whatever it is
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        rule = f"{name} must be a number, 0 or more"
        raise DescriptionError("compare", Fault(field=name, rule=rule, value=given, found=show(given)))
    return found
