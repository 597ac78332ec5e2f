"""A model here and on another side: whether outputs agree, which node is the first that does not, and which is off.

Floats agree that are near each other for their size, or for the largest of their tensor: a sum's error is a share of
what was summed. Where they do not, both sides are held against float64, from which sound arithmetic may be as far.
"""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.core.display import Shown, Table, counted
from anydml.core.errors import DescriptionError, DmlError, Fault, MissingDependencyError, printable, show
from anydml.graph.pass_names import graph_passes, read_disabled
from anydml.onnx.arguments import hold
from anydml.onnx.library import run_onnxruntime
from anydml.onnx.model import load
from anydml.onnx.read import read_model
from anydml.onnx.tools.extract import cut, needed, self_contained
from anydml.onnx.tools.float64_reference import run_in_float64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anydml.onnx.ir import Model, Node
    from anydml.onnx.read import Given
    from anydml.runtime.device import Device


# One tensor as two sides have it: how far apart they are, and where


Array = np.ndarray[Any, Any]
MOST_SAMPLES = 6


class Sample(NamedTuple):
    """An element on both sides, in words."""

    where: tuple[int, ...]
    here: str
    there: str


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Difference:
    """One tensor on both sides."""

    name: str
    count: int
    """Elements that it has."""
    differing: int
    """Elements whose bits differ; two NaNs are the same."""
    agrees: bool
    """Whether all of them are close enough; whole numbers must be equal."""
    where: tuple[int, ...] | None = None
    """The first element that is too far off, or else the first that differs."""
    here: Any = None
    there: Any = None
    largest: float | None = 0.0
    """The largest difference, an infinity's included; None where none is a number."""
    relative: float | None = 0.0
    """The largest difference as a share of what is there; None for whole numbers, and where no share is a number."""
    ulps: int | None = 0
    """The largest difference in units of the last place, of numbers that are finite; None for whole numbers."""
    nans: tuple[int, int] = (0, 0)
    """NaNs, here and there."""
    infinities: tuple[int, int] = (0, 0)
    """Infinities, here and there."""
    type: str = ""
    """The type and the shape: `float32[2,3]`."""
    samples: tuple[Sample, ...] = ()
    """The first elements."""
    errors: tuple[float, float] | None = None
    """The largest errors of both sides against float64, as shares of the largest number; None where nobody asked."""
    other: str = "ONNX Runtime"
    """What the other side is called."""
    problem: str = ""
    """Why elements could not be compared: another shape or type, or what one side said instead."""

    def as_row(self) -> tuple[str, str, str, int, int, str]:
        """The figures of a table's row."""
        largest = self.problem or ("" if self.largest is None else f"{self.largest:.3g}")
        return self.name, self.type, "yes" if self.agrees else "no", self.count, self.differing, largest

    def __str__(self) -> str:
        if self.problem:
            return f"'{printable(self.name)}': {self.problem}"
        if not self.differing:
            return f"'{printable(self.name)}': all {self.count} elements are the same"
        most = "" if self.largest is None else f" by {self.largest:.3g} at most,"
        verdict = "within the tolerance" if self.agrees else "too far off"
        if self.errors is not None:
            mine, other = (f"{error:.2g}" for error in self.errors)
            off = "anydml" if self.errors[0] > self.errors[1] else self.other
            verdict = "more than the tolerance, but both as near to float64" if self.agrees else f"{off} is off"
            verdict += f": anydml's error is {mine} of the largest number, {self.other}'s {other}"
        return (
            f"'{printable(self.name)}': {self.differing} of {self.count} elements differ,"
            f"{most} {verdict};"
            f" the first at {list(self.where or ())}: {self.here} by anydml, {self.there} by {self.other}"
        )


def refused(name: str, problem: str) -> Difference:
    """A tensor that could not be compared."""
    return Difference(name, 0, 0, False, largest=None, relative=None, ulps=None, problem=problem)


_FEW_ULPS = 100
"""Units in the last place of a tensor's largest number that any of its numbers may be off by: sums of many terms, in
another order, are off by some tens of them."""
_MUCH_WORSE = 4
"""How many times the other side's error against float64 is still no worse: two orders of one sum differ by as much."""


def _share(dtype: np.dtype[Any], rtol: float) -> float:
    """Of a tensor's largest number, what all of its numbers may be off by."""
    return min(rtol, _FEW_ULPS * float(np.finfo(dtype).eps))


def differ(name: str, here: Any, there: Any, rtol: float, atol: float, *, other: str = "ONNX Runtime") -> Difference:
    """Compare what two sides have: arrays, lists of arrays, or nothing."""
    return replace(_differ(name, here, there, rtol, atol, other), other=other)


def _differ(name: str, here: Any, there: Any, rtol: float, atol: float, other: str) -> Difference:
    if isinstance(here, (list, tuple)) and isinstance(there, (list, tuple)):
        return _differ_lists(name, here, there, rtol, atol, other)
    if here is None or there is None:
        return (
            Difference(name, 0, 0, True)
            if here is there
            else refused(name, f"nothing by {'anydml' if here is None else other}")
        )
    here, there = np.asarray(here), np.asarray(there)
    for what, a, b in (("type", here.dtype, there.dtype), ("shape", here.shape, there.shape)):
        if a != b:
            return replace(refused(name, f"anydml makes {what} {a}, {other} {b}"), count=here.size, differing=here.size)
    is_float, is_text = here.dtype.kind == "f", here.dtype.kind in "OUS"
    found = Difference(
        name,
        here.size,
        0,
        True,
        relative=0.0 if is_float else None,
        ulps=0 if is_float else None,
        type=f"{here.dtype.name}[{','.join(map(str, here.shape))}]",
        samples=tuple(_sample(here, there, k) for k in range(min(here.size, MOST_SAMPLES))),
    )
    if is_text:
        return _tell(found, here, there, here == there)
    if not is_float:
        same = (_bits(here) == _bits(there)).reshape(here.shape)
        return _tell(replace(found, largest=_largest(here[~same], there[~same])), here, there, same)
    nans, infinities = ([test(side) for side in (here, there)] for test in (np.isnan, np.isinf))
    counts = [(int(np.sum(a)), int(np.sum(b))) for a, b in (nans, infinities)]
    found = replace(found, nans=counts[0], infinities=counts[1])
    same = (_bits(here) == _bits(there)).reshape(here.shape) | (nans[0] & nans[1])
    if same.all():
        return found
    apart = [side[~same] for side in (here, there)]
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(there), where=np.isfinite(there), initial=0).astype(np.float64)
        close = same | np.isclose(here, there, rtol, max(atol, float(largest) * _share(here.dtype, rtol)))
        found = replace(found, largest=_largest(*apart), relative=_relative(*apart), ulps=_ulps(*apart))
    return _tell(found, here, there, same, close)


def _tell(found: Difference, here: Array, there: Array, same: Array, close: Array | None = None) -> Difference:
    """The same with where it first differs; what is not close is told before what is only not the same."""
    close = same if close is None else close
    if same.all():
        return found
    first = _sample(here, there, int(np.argmax(~close if not close.all() else ~same)))
    count, agrees = int(np.sum(~same)), bool(close.all())
    return replace(found, differing=count, agrees=agrees, where=first.where, here=first.here, there=first.there)


def _sample(here: Array, there: Array, number: int) -> Sample:
    """An element by its number."""
    where = tuple(int(i) for i in np.unravel_index(number, here.shape))
    return Sample(
        where, *(show(side[where].item() if side.dtype.kind != "O" else side[where]) for side in (here, there))
    )


def _differ_lists(name: str, here: Any, there: Any, rtol: float, atol: float, other: str) -> Difference:
    """Sequences: the first of their tensors that does not agree, or the first that differs, or the first."""
    if len(here) != len(there):
        return refused(name, f"anydml makes {len(here)} tensors, {other} {len(there)}")
    parts = [
        differ(f"{name}[{i}]", a, b, rtol, atol, other=other) for i, (a, b) in enumerate(zip(here, there, strict=True))
    ]
    return min(parts, key=lambda one: (one.agrees, not one.differing), default=Difference(name, 0, 0, True))


def judge(found: Difference, here: Any, there: Any, exact: Any, rtol: float) -> Difference:
    """The verdict on two sides that do not agree, by the errors of both against float64."""
    if np.shape(exact) != np.shape(here):
        return found
    scale = float(np.max(np.abs(exact), where=np.isfinite(exact), initial=0)) or 1.0
    mine, theirs = (_error(np.asarray(side), exact) / scale for side in (here, there))
    is_right = mine <= max(_MUCH_WORSE * theirs, _share(here.dtype, rtol))
    agrees = is_right and theirs <= max(_MUCH_WORSE * mine, rtol) and math.isfinite(mine)
    return replace(found, agrees=agrees, errors=(mine, theirs))


def _error(side: Array, exact: Array) -> float:
    """The largest difference; infinite where one is no number, or another infinity."""
    with np.errstate(all="ignore"):
        wide = side.astype(np.float64)
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
        apart = np.abs(wide - exact)[~same]
    return 0.0 if not apart.size else math.inf if not np.isfinite(apart).all() else float(apart.max())


def _largest(here: Array, there: Array) -> float | None:
    """The largest difference; whole numbers are subtracted as such, which no float could tell apart."""
    if not here.size:
        return 0.0
    if here.dtype.kind != "f":
        low, high = (side.astype(np.uint64) for side in (np.minimum(here, there), np.maximum(here, there)))
        return float(np.max(high - low))
    apart = np.abs(here.astype(np.float64) - there.astype(np.float64))
    return None if np.isnan(apart).all() else float(np.nanmax(apart))


def _relative(here: Array, there: Array) -> float | None:
    wide = [side.astype(np.float64) for side in (here, there)]
    shares = np.abs(wide[0] - wide[1]) / np.abs(wide[1])
    return None if np.isnan(shares).all() else float(np.nanmax(shares))


def _ulps(here: Array, there: Array) -> int | None:
    """The numbers of the type that lie between two, and one more; zeros are one number."""
    finite = np.isfinite(here) & np.isfinite(there)
    if not finite.any():
        return None
    half = np.uint64(2 ** (8 * here.itemsize - 1))
    ranks = []
    for side in (here[finite], there[finite]):
        bits = _bits(side).astype(np.uint64)
        ranks.append(np.where(bits >= half, half - (bits - half), half + bits))
    return int(np.max(np.maximum(*ranks) - np.minimum(*ranks)))


def _bits(array: Array) -> Array:
    """The elements as whole numbers, in which 0.0 and -0.0 differ."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


# Two sides


RTOL, ATOL = 1e-3, 1e-7
"""Within which floats agree: those of ONNX's own backend tests."""
SIDES = {"onnxruntime": "ONNX Runtime", "reference": "the reference engine"}
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
    passes_at_fault: tuple[str, ...] = ()
    """Graph passes any one of which, disabled, makes the outputs agree."""

    def __bool__(self) -> bool:
        return all(output.agrees for output in self.outputs)

    def __getattr__(self, name: str) -> Any:
        if name != "rewritings":  # as it was called in the release before
            raise AttributeError(f"a Comparison has no attribute {name!r}", name=name, obj=self)
        warnings.warn("Comparison.rewritings is called passes_at_fault now", FutureWarning, stacklevel=2)
        return self.passes_at_fault

    def __str__(self) -> str:
        lines = [f"{sum(one.agrees for one in self.outputs)} of {counted(len(self.outputs), 'output')} agree"]
        lines += [f"  {one}" for one in self.outputs]
        lines += [f"  the first node that does not is {self.first_node}: {self.first}"] if self.first_node else []
        return "\n".join([*lines, *(f"  disabled, {name} makes them agree" for name in self.passes_at_fault)])

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
    disable_passes: Iterable[str] = (),
    without: Iterable[str] | None = None,
) -> Comparison:
    """Run a model here and on another side; where outputs do not agree, find the first node that does not.

    `against` is "onnxruntime", or "reference" for the reference engine. With `every` all that nodes make is compared;
    with `alone` each node is run once more on what the other side made: what is off then is off by itself. Nodes are
    compared as they are, one by one, as many at a time as `max_memory` has room for. `disable_passes` names graph
    passes to leave out, as `load` takes them.
    """
    rtol, atol = _tolerance(rtol, "rtol"), _tolerance(atol, "atol")
    if against not in SIDES:
        rule = f"against must be one of {', '.join(SIDES)}"
        raise DescriptionError("compare", Fault(field="against", rule=rule, value=against, found=show(against)))
    own = read_disabled(disable_passes, "compare", without=without)
    source = read_model(model, max_memory=max_memory)
    inputs = hold(inputs, source.name)

    def run(left_out: Iterable[str]) -> dict[str, Any]:
        return load(model, device=device, shapes=shapes, max_memory=max_memory, disable_passes=left_out).run(inputs)

    mine = run(own)
    given = {name: np.asarray(array) for name, array in inputs.items()}
    is_path = isinstance(model, (str, os.PathLike))
    theirs = _there(str(os.fspath(model)) if is_path else source.model, given, list(mine), against, max_memory)
    other, whole = SIDES[against], self_contained(source)
    court = _Court(whole, given, rtol)
    outputs = tuple(differ(name, mine[name], theirs[name], rtol, atol, other=other) for name in mine)
    outputs = tuple(court.judge([(one, mine[one.name], theirs[one.name]) for one in outputs]))
    is_right = all(output.agrees for output in outputs)
    if is_right and not (every or alone):
        return Comparison(outputs)

    def agrees(*left_out: str) -> bool:
        try:
            found = run({*own, *left_out})
        except DmlError:  # which takes more memory, or was never meant to run so
            return False
        found_now = [differ(name, found[name], theirs[name], rtol, atol) for name in theirs]
        return all(one.agrees for one in court.judge([(one, found[one.name], theirs[one.name]) for one in found_now]))

    known = graph_passes()
    at_fault = () if is_right or not agrees(*known) else tuple(name for name in known if agrees(name))
    nodes: list[NodeComparison] = []
    first = NodeComparison("", outputs[0])
    layers = _Layers(whole, given, device, against, max_memory, rtol, atol, court)
    for node in layers.compare([node for node in whole.graph.node if node.makes], alone=alone):
        nodes.append(node)
        if not first.label and not node.found.agrees and not node.found.problem.startswith(NOT_COMPARED):
            first = node
            if not (every or alone):
                break
    found = first.found if first.label else None
    return Comparison(outputs, first.label, found, tuple(nodes) if every or alone else (), at_fault)


NOT_COMPARED = "not compared: "
"""How the problem of a tensor begins that one side could not make."""
_MOST_JUDGED = 24
"""How often float64 is asked: it computes all that comes before, in NumPy."""


@dataclass(slots=True)
class _Court:
    """Judges tensors that do not agree by what the model makes of them in float64."""

    whole: Model
    inputs: Mapping[str, Any]
    rtol: float
    _known: dict[str, Array | None] = field(default_factory=dict)
    _asked: int = 0

    def judge(self, several: Sequence[tuple[Difference, Any, Any]]) -> Iterator[Difference]:
        """The verdicts on tensors of both sides."""
        apart = [one.name for one, here, _ in several if not (one.agrees or one.problem) and _is_float(here)]
        self._ask([name for name in apart if name not in self._known])
        for one, here, there in several:
            exact = self._known.get(one.name) if one.name in apart else None
            yield one if exact is None else judge(one, here, there, exact, self.rtol)

    def _ask(self, names: list[str]) -> None:
        """Ask for all at once, or else half by half, as one that cannot be had stops the others."""
        if not names or self._asked >= _MOST_JUDGED:
            return
        self._asked += 1
        found = run_in_float64(self.whole, self.inputs, names)
        if found is None and len(names) > 1:
            self._ask(names[: len(names) // 2])
            self._ask(names[len(names) // 2 :])
        else:
            self._known |= {name: (found or {}).get(name) for name in names}


def _is_float(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f"


def _there(model: Model | str, inputs: dict[str, Any], names: list[str], side: str, most: int | None) -> dict[str, Any]:
    """The other side's results of a model, its optimisations included."""
    if side == "onnxruntime":
        return run_onnxruntime(model, inputs, names)
    found = load(model, device="reference", max_memory=most).run(inputs)
    return {name: found[name] for name in names}


@dataclass(frozen=True, slots=True)
class _Layers:
    """A model's nodes on both sides."""

    whole: Model
    inputs: dict[str, Any]
    device: Device | str | None
    against: str
    max_memory: int | None
    rtol: float
    atol: float
    court: _Court

    def compare(self, nodes: Sequence[Node], *, alone: bool) -> Iterator[NodeComparison]:
        """The results of nodes, all at once, or else half by half: a failure is told of the one node that it is of."""
        names = [name for node in nodes for name in node.makes]
        try:
            read = {name for node in nodes for name in node.reads} & self._made if alone else set()
            theirs = self._there(names, read)
            mine = self._here(self._part(names), names)
        except MissingDependencyError:
            raise
        except DmlError as error:
            if len(nodes) > 1:
                half = len(nodes) // 2
                yield from self.compare(nodes[:half], alone=alone)
                yield from self.compare(nodes[half:], alone=alone)
                return
            yield from (self._refused(nodes[0], name, error) for name in names)
            return
        apart = [(self._differ(name, mine[name], theirs[name]), mine[name], theirs[name]) for name in names]
        verdicts = {found.name: found for found in self.court.judge(apart)}  # float64 is asked once for all
        for node in nodes:
            own = self._alone(node, theirs) if alone else {}
            for name in node.makes:
                yield NodeComparison(node.label, verdicts[name], own.get(name))

    @property
    def _made(self) -> set[str]:
        return {name for node in self.whole.graph.node for name in node.makes}

    def _part(self, names: list[str]) -> Model:
        """The model of what these names need, with them as its outputs."""
        return cut(self.whole, needed(self.whole.graph.node, names), names, {})

    def _here(self, part: Model, names: list[str], values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _run(part, {**self.inputs, **(values or {})}, names, self.device, self.max_memory)

    def _there(self, names: list[str], others: set[str]) -> dict[str, Any]:
        wanted = list(dict.fromkeys([*names, *sorted(others)]))
        part = self._part(wanted)
        if self.against == "reference":
            return _run(part, self.inputs, wanted, "reference", self.max_memory)
        read = {info.name for info in part.graph.input}
        given = {name: array for name, array in self.inputs.items() if name in read}
        return run_onnxruntime(part, given, wanted, is_plain=True)

    def _alone(self, node: Node, theirs: dict[str, Any]) -> dict[str, Difference]:
        """The results of a node for the other side's inputs."""
        names = node.makes
        values = {name: theirs[name] for name in node.reads if name in theirs}
        if not all(isinstance(value, np.ndarray) for value in values.values()):
            return {name: refused(name, f"{NOT_COMPARED}it reads what is no tensor") for name in names}
        part = cut(self.whole, [node], names, values)
        try:
            found = self._here(part, names, values)
        except DmlError as error:
            return {name: refused(name, f"{NOT_COMPARED}{error}") for name in names}
        court = _Court(part, {**self.inputs, **values}, self.rtol)
        apart = [(self._differ(name, found[name], theirs[name]), found[name], theirs[name]) for name in names]
        return {one.name: one for one in court.judge(apart)}

    def _differ(self, name: str, here: Any, there: Any) -> Difference:
        return differ(name, here, there, self.rtol, self.atol, other=SIDES[self.against])

    def _refused(self, node: Node, name: str, error: DmlError) -> NodeComparison:
        return NodeComparison(node.label, refused(name, f"{NOT_COMPARED}{error}"))


def _run(
    part: Model, inputs: Mapping[str, Any], names: list[str], device: Device | str | None, most: int | None
) -> dict[str, Any]:
    model = load(part, device=device, max_memory=most, disable_passes=graph_passes())
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
