"""Control flow that is known at a run only: If, Loop and Scan, whose bodies are parts of their own."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anydml.arrays import on_host
from anydml.core.errors import Fault, ModelError, ModelFileError, printable
from anydml.onnx.ir import nodes_within
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.lower.registry import find_lowering
from anydml.onnx.partition.constants import Constants
from anydml.onnx.partition.part import Bound, Part, makers, part_of
from anydml.onnx.partition.partitioned_graph import Parts
from anydml.onnx.partition.repeated_body import Gathered, Repeated, Stepping
from anydml.onnx.program import OutsideError
from anydml.runtime.launches import in_a_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anydml.core.limits import StepLimit
    from anydml.onnx.ir import Graph, Node, ValueInfo
    from anydml.onnx.partition.scope import Scope


class Flow(Part):
    """A node with bodies: what they share."""

    _carried = 0
    """How many values go from step to step."""
    _scanned: Sequence[ValueInfo] = ()
    """The declared results of a step that are put together with those of other steps."""

    def __init__(self, node: Node, scope: Scope) -> None:
        self.nodes = [node]
        self.told = told(node, scope.source.opset)
        """The contents of its bodies, in words."""
        self._names = list(node.input)
        self._label, self._source = node.label, scope.source
        self._limit, self._steps = scope.source.beside.limit, scope.source.beside.steps
        self._graphs = dict(node.bodies)
        self.bodies = {name: Parts(graph, scope) for name, graph in self._graphs.items()}
        """By the names of the attributes."""
        captures = [name for body in self.bodies.values() for name in body.captures]
        self._constants = Constants(scope, Kept())
        names = [name for name in (*self._names, *captures) if name and not self._constants.has(name)]
        self.takes = tuple(dict.fromkeys(names))
        self.gives = tuple(node.makes)
        self._outputs = list(node.output)
        self._given = [(name, self._constants.has(name)) for name in self._names]

    def _inputs(self, values: Mapping[str, Any]) -> list[Any]:
        """The node's inputs; None for one that is left out."""
        value = self._constants.value
        return [None if not name else value(name) if is_known else values[name] for name, is_known in self._given]

    def _named(self, results: list[Any]) -> tuple[Any, ...]:
        """Those of the results that have names."""
        if len(self.gives) == len(results):
            return tuple(results)
        return tuple(value for name, value in zip(self._outputs, results, strict=False) if name)

    def _gather(self) -> list[Gathered]:
        """For each result of a step that is put together with those of other steps, the place for them."""
        return [Gathered(info, self._label, self._source) for info in self._scanned]

    def _array(self, value: Any, field: str) -> np.ndarray[Any, Any]:
        """A tensor in the host's memory."""
        if not hasattr(value, "dtype"):
            self._refuse(field, f"{field} must be a tensor", found="a sequence" if value is not None else "nothing")
        return on_host(value)

    def _truth(self, value: Any, field: str) -> bool:
        found = value if type(value) is np.ndarray else self._array(value, field)
        if found.size != 1 or found.dtype.kind != "b":
            self._refuse(
                field, f"{field} must have one element, a boolean", found=f"{found.dtype} of shape {found.shape}"
            )
        return bool(found.item())

    def _number(self, value: Any, field: str) -> int:
        found = value if type(value) is np.ndarray else self._array(value, field)
        if found.size != 1 or found.dtype.kind not in "iu":
            self._refuse(
                field, f"{field} must have one element, a whole number", found=f"{found.dtype} of shape {found.shape}"
            )
        return int(found.item())

    def _numbers(self, value: Any, field: str) -> list[int]:
        found = self._array(value, field)
        if found.dtype.kind not in "iu":
            self._refuse(field, f"{field} must be whole numbers", found=str(found.dtype))
        return [int(n) for n in found.reshape(-1)]

    def _expect(self, field: str, what: str, wanted: int, found: int) -> None:
        """Check how many inputs or outputs a body has."""
        if wanted != found:
            rule = f"{field} must have {wanted} {what}"
            raise ModelFileError(self._label, Fault(field=field, rule=rule, value=found, found=str(found)))

    def _refuse(self, field: str, rule: str, found: str = "") -> NoReturn:
        raise ModelError(self._label, Fault(field=field, rule=rule, found=found))


@part_of("If")
class Choice(Flow):
    """One of two bodies."""

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        for name, graph in self._graphs.items():
            self._expect(name, "outputs, as many as the node", len(self._outputs), len(graph.output))

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run the branch that the condition says."""
        inputs = self._inputs(values)
        body = self.bodies["then_branch" if self._truth(inputs[0], "cond") else "else_branch"]
        return self._named(body.run(values))

    def bind(self, values: Mapping[str, Any], into: Mapping[str, Any], fixed: frozenset[str]) -> Bound | None:
        """Both branches bound, to arrays of their own; one that never ran is outside of what is bound."""
        cond = values.get(self._names[0])
        if type(cond) is not np.ndarray or cond.size != 1:
            return None
        launches: dict[str, Callable[[], Any]] = {}
        results, held = list[Any](), list[Bound]()
        for key, body in self.bodies.items():
            if (bound := body.bind(values, {}, fixed)) is None:
                launches[key] = self._go_outside
                continue
            made = [bound.made[name] for name in body.gives]
            results = results or [into.get(name, np.empty_like(x)) for name, x in zip(self._outputs, made, strict=True)]
            pairs = list(zip(results, made, strict=True))
            if not all(type(x) is np.ndarray and (x.shape, x.dtype) == (y.shape, y.dtype) for y, x in pairs):
                return None
            held.append(bound)
            launches[key] = in_a_row([bound.guarded(), *(functools.partial(np.copyto, *pair) for pair in pairs)])
        if not results:
            return None
        first, second = launches["then_branch"], launches["else_branch"]
        named = {name: array for name, array in zip(self._outputs, results, strict=True) if name}
        scratch = sum(bound.scratch for bound in held)
        return Bound(lambda: first() if cond.item() else second(), named, held, scratch)

    def _go_outside(self) -> NoReturn:
        raise OutsideError(self._label, Fault(field="cond", rule="cond must choose a branch that ran before"))


@part_of("Loop")
class Repetition(Flow):
    """A body run again and again: a number of times, while a condition holds, or both."""

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._carried = len(self._names) - 2
        graph, body = self._graphs["body"], self.bodies["body"]
        self._expect("body", "inputs, 2 more than the Loop carries", self._carried + 2, len(body.inputs))
        if len(graph.output) < self._carried + 1 or len(self._outputs) > len(graph.output) - 1:
            self._expect("body", "outputs, 1 more than the Loop gives", len(self._outputs) + 1, len(graph.output))
        self._scanned = list(graph.output)[self._carried + 1 :]
        ranks = [len(info.type.shape or ()) for info in graph.input][:2]
        number_shape, cond_shape = ((1,) if rank == 1 else () for rank in ranks)
        number, condition, *carried = body.inputs

        def make(step: int) -> np.ndarray[Any, Any]:
            return np.array([step] if number_shape else step, np.int64)  # a seventh of np.full's time

        self._repeated = Repeated(body, [number], carried, make, {condition: np.full(cond_shape, fill_value=True)})

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run the body until it is enough."""
        inputs = self._inputs(values)
        most = self._number(inputs[0], "M") if self._names[0] else None
        goes_on = self._truth(inputs[1], "cond") if self._names[1] else True
        captured = [values[name] for name in self._repeated.body.captures]
        if goes_on and (most is not None or not self._scanned):
            found = self._repeated.run(captured + inputs[2:], None, most, self._steps, self._limit)
            if found is not None:
                return self._named(found)
        gathered = self._gather()
        stepping, step = Stepping(self._repeated, captured, inputs[2:]), 0
        with self._steps as steps:
            while goes_on and (most is None or step < most):
                end = step + steps.left if most is None else min(most, step + steps.left)
                before, (step, goes_on) = step, stepping.sweep(step, end, gathered)
                steps.add(self._label, step - before)
                if goes_on and step != most:
                    steps.add(self._label)
                    goes_on = self._truth(stepping.step(step, gathered), "cond")
                    step += 1
        return self._named([*stepping.end(), *[one.stacked() for one in gathered]])


@part_of("Scan")
class Sweep(Flow):
    """A body run over the slices of arrays, in Scan-8 for each entry of a batch."""

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        graph, body = self._graphs["body"], self.bodies["body"]
        self._is_batched = scope.source.opset < 9
        self._count: int = node.value("num_scan_inputs")
        first = 1 if self._is_batched else 0
        self._carried = len(self._names) - first - self._count
        if self._count < 1 or self._carried < 0:
            rule = f"num_scan_inputs must lie in 1 .. {len(self._names) - first}"
            raise ModelFileError(self._label, Fault(field="num_scan_inputs", rule=rule, found=str(self._count)))
        self._expect("body", "inputs, as many as the Scan", self._carried + self._count, len(body.inputs))
        if len(graph.output) < max(self._carried, len(self._outputs)):
            self._expect("body", "outputs, as many as the Scan", len(self._outputs), len(graph.output))
        self._scanned = list(graph.output)[self._carried :]
        self._repeated = Repeated(body, body.inputs[self._carried :], body.inputs[: self._carried], np.asarray)

        def ints(name: str, count: int) -> list[int]:
            found = list(node.value(name, [0] * count))
            if len(found) != count:
                rule = f"{name} must have {count} numbers"
                raise ModelFileError(self._label, Fault(field=name, rule=rule, found=str(len(found))))
            return found

        directions = "directions" if self._is_batched else "scan_input_directions"
        self._in_back, self._out_back = (
            [bool(n) for n in ints(name, count)]
            for name, count in ((directions, self._count), ("scan_output_directions", len(self._scanned)))
        )
        self._in_axes = ints("scan_input_axes", self._count)
        self._out_axes = ints("scan_output_axes", len(self._scanned))
        ways = (*self._in_axes, *self._out_axes, *self._in_back, *self._out_back)
        self._is_plain = not (self._is_batched or any(ways))
        """Whether rows are read and made as they lie."""

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run the body over every slice."""
        inputs = self._inputs(values)
        known = [values[name] for name in self._repeated.body.captures]
        if self._is_plain:
            states, slices = inputs[: self._carried], inputs[self._carried :]
            lengths = {x.shape[:1] for x in slices if type(x) is np.ndarray}
            if len(lengths) == 1 and (length := lengths.pop()):
                found = self._repeated.run(known + states, slices, length[0], self._steps, self._limit)
                if found is not None:
                    return self._named(found)
        with self._steps as steps:
            if not self._is_batched:
                states, slices = inputs[: self._carried], inputs[self._carried :]
                results = self._sweep(states, self._slices(slices), None, known, steps)
            else:
                results = self._sweep_batch(inputs, known, steps)
        return self._named(results)

    def _slices(self, arrays: list[Any]) -> list[Any]:
        """The arrays with the axis that is swept first, packed, in the order in which they are swept."""
        found = []
        for i, array in enumerate(arrays):
            held, axis = self._array(array, "scan inputs"), self._in_axes[i]
            if not -held.ndim <= axis < held.ndim:
                self._refuse("scan_input_axes", f"scan_input_axes[{i}] must be an axis of {held.shape}", str(axis))
            moved = held if axis in (0, -held.ndim) else np.moveaxis(held, axis, 0)
            found.append(np.ascontiguousarray(moved[::-1] if self._in_back[i] else moved))
        if len({len(array) for array in found}) > 1:
            self._refuse("inputs", "scan inputs must have the same length", str([len(array) for array in found]))
        return found

    def _sweep(
        self, states: list[Any], slices: list[Any], length: int | None, known: list[Any], steps: StepLimit
    ) -> list[Any]:
        stepping = Stepping(self._repeated, known, states, slices)
        gathered = self._gather()
        count = len(slices[0]) if length is None else length
        step = 0
        while step < count:
            before, (step, _) = step, stepping.sweep(step, min(count, step + steps.left), gathered)
            steps.add(self._label, step - before)
            if step < count:
                steps.add(self._label)
                stepping.step(step, gathered)
                step += 1
        ways = zip(gathered, self._out_axes, self._out_back, strict=True)
        return [*stepping.end(), *[one.stacked(axis, is_back=is_back) for one, axis, is_back in ways]]

    def _sweep_batch(self, inputs: list[Any], known: list[Any], steps: StepLimit) -> list[Any]:
        """Scan-8: the first axis is a batch's, the second is swept, as far as each entry is long."""
        lengths, *arrays = inputs
        held = [self._array(array, "inputs") for array in arrays]
        slices = held[self._carried :]
        if any(array.ndim < 2 for array in slices) or len({array.shape[:1] for array in held}) > 1:
            self._refuse("inputs", "states and scan inputs must have a batch's axis of one size")
        most = slices[0].shape[1]
        each = [most] * len(held[0]) if lengths is None else self._numbers(lengths, "sequence_lens")
        if len(each) != len(held[0]) or not all(0 <= n <= most for n in each):
            self._refuse("sequence_lens", f"sequence_lens must have {len(held[0])} numbers in 0 .. {most}", str(each))
        rows = []
        for b, length in enumerate(each):
            turned = [array[b][:length][::-1] if back else array[b] for array, back in self._turned(slices)]
            states = [np.ascontiguousarray(array[b]) for array in held[: self._carried]]
            rows.append(self._sweep(states, list(map(np.ascontiguousarray, turned)), length, known, steps))
        if not rows:
            self._refuse("inputs", "a batch must have an entry")
        return list(self._batched(rows, most))

    def _turned(self, slices: list[Any]) -> Iterator[tuple[Any, bool]]:
        return zip(slices, self._in_back, strict=True)

    def _batched(self, rows: list[list[Any]], most: int) -> Iterator[Any]:
        """The results of a batch's entries together; what is shorter than the longest ends in zeros."""
        for i in range(len(rows[0])):
            several = [self._array(row[i], "results") for row in rows]
            if i >= self._carried:
                longest = max(several, key=len)
                padded = [np.zeros((most, *longest.shape[1:]), longest.dtype) for _ in several]
                for whole, part in zip(padded, several, strict=True):
                    whole[: len(part)] = part
                several = padded
            yield np.stack(several)


# The contents of nodes that are parts of their own, in words.


def told(node: Node, opset: int) -> str:
    """The contents of a control flow node's bodies, or that it is of sequences; nothing for any other."""
    if node.kind not in makers():
        return ""
    several = [f"{name} has {_nodes(graph, opset)}" for name, graph in node.bodies]
    return (
        f"control flow: {'; '.join(several)}" if several else "of sequences and optional values, which the host holds"
    )


def _nodes(graph: Graph, opset: int) -> str:
    counts = Counter(node.kind for node in nodes_within(graph.node))
    total = sum(counts.values())
    listed = ", ".join(f"{printable(kind)}{f' {n}' * (n > 1)}" for kind, n in sorted(counts.items()))
    hosted = [kind for kind in sorted(counts) if kind not in makers() and find_lowering(kind, opset) is None]
    beside = f", of which the host runs {', '.join(map(printable, hosted))}" if hosted else ""
    return f"{total} node{'s' * (total != 1)} ({listed}){beside}"
