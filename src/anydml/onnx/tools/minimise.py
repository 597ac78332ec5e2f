"""A model cut down to the smallest that still shows a fault."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.errors import BindingError, DescriptionError, DmlError, Fault, ModelError, ModelFileError, show
from anydml.onnx.arguments import hold, memory_told
from anydml.onnx.checks import check_names, describe
from anydml.onnx.library import run_onnxruntime
from anydml.onnx.model import load
from anydml.onnx.protobuf import model_message
from anydml.onnx.read import read_model
from anydml.onnx.shapes import Binder
from anydml.onnx.tools.extract import cut, missing, needed, self_contained, with_outputs
from anydml.onnx.tools.random_inputs import make_up

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from anydml.onnx.ir import Model, Node
    from anydml.onnx.read import Given, Source

_MOST_BYTES = 2**31 - 1
"""Of a protobuf."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Reduction:
    """A model that shows the fault, smaller than those before."""

    part: Model
    runs: int
    """Of `fails`, so far."""

    @property
    def model(self) -> Any:
        """A ModelProto, with all its tensors in itself."""
        return model_message(self.part)

    @property
    def nodes(self) -> int:
        """How many it has."""
        return len(self.part.graph.node)

    def __str__(self) -> str:
        graph = self.part.graph
        counts = {"node": graph.node, "input": graph.input, "initializer": graph.initializer, "output": graph.output}
        told = [f"{len(several)} {what}{'' if len(several) == 1 else 's'}" for what, several in counts.items()]
        return f"{', '.join(told)}, after {self.runs} run{'' if self.runs == 1 else 's'}"


def reduce(
    model: Given,
    fails: Callable[[str], object],
    inputs: Mapping[str, Any] | None = None,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    seed: int = 0,
    max_memory: int | None = None,
) -> Reduction:
    """The smallest model found for which `fails`, given the path of an .onnx file, says something true.

    `inputs` are what values between nodes are computed from, by ONNX Runtime, or else by the reference engine: where
    the model is cut, they become inputs of the same type and shape, or constants. What is not given is made up from
    the seed, open sizes being 2 unless `shapes` binds them. The model itself must fail.
    """
    *_, last = reductions(model, fails, inputs, shapes=shapes, seed=seed, max_memory=max_memory)
    return last


def reductions(
    model: Given,
    fails: Callable[[str], object],
    inputs: Mapping[str, Any] | None = None,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    seed: int = 0,
    max_memory: int | None = None,
) -> Generator[Reduction]:
    """The same one step after another: each is smaller than the last, and the first is the model as a whole."""
    if not callable(fails):
        rule = "fails must be a function that takes a path"
        raise DescriptionError("reduce", Fault(field="fails", rule=rule, value=fails, found=show(fails)))
    with memory_told("reduce"), tempfile.TemporaryDirectory(prefix="anydml-reduce-") as folder:
        source = read_model(model, max_memory=max_memory)
        check_names(source)
        given = {} if inputs is None else hold(inputs, source.name)
        search = _Search(source, fails, Path(folder) / "model.onnx")
        # Before the first run, which may take long: a name that is misspelt is told whatever the model does.
        search.inputs = _made_up(source, {name: np.asarray(array) for name, array in given.items()}, shapes, seed)
        search.begin()
        yield Reduction(search.best, search.runs)
        yield from search.run()


def _made_up(source: Source, given: dict[str, Any], shapes: Any, seed: int) -> dict[str, Any] | None:
    """An array for each input; None where they cannot be made up, and nothing can be computed."""
    graph = source.model.graph
    own = graph.constants
    for name in given:
        if name not in {info.name for info in graph.input}:
            raise BindingError(
                source.name, Fault(field="inputs", rule=f"there is no input {show(name)}", value=name, is_slip=True)
            )
    try:
        infos = {info.name: describe(info, source, "input") for info in graph.input if info.name not in own}
    except DmlError:  # of what is no tensor
        return None
    bound = {**(shapes or {}), **{name: array.shape for name, array in given.items() if name in infos}}
    binder = Binder(source.name, infos, bound)
    names = [name for name in infos if name not in given]
    indices = {name: 2 for node in graph.node for name in node.input[1:]}
    try:
        examples = binder.examples(names, {})
        sizes = examples.fill(next(examples.assignments()))
        made = make_up({name: infos[name] for name in names}, sizes, indices, seed, source.beside.limit.left)
    except DmlError:  # too large, or of any shape
        return None
    return {**given, **made}


class _Search:
    """The best so far, and ways to make it smaller."""

    def __init__(self, source: Source, fails: Callable[[str], object], path: Path) -> None:
        self._name, self._limit, self._fails, self._path = source.name, source.beside.limit.most, fails, path
        self.best = self_contained(source)
        self.inputs: dict[str, Any] | None = None
        """Of the best."""
        self.runs = 0
        self._seen: set[bytes] = set()

    def begin(self) -> None:
        """See the model fail, as it will be written."""
        if not self._shows(self.best):
            rule = "the model must fail, and does not"
            way_out = "a command shows a fault by a status other than 0 and 125, a function by something true"
            raise ModelError(self._name, Fault(field="fails", rule=rule, way_out=way_out))

    def run(self) -> Iterator[Reduction]:
        """From the outputs, from the inputs, then anywhere, in pieces of half of the nodes, a quarter, …, one."""
        from_end = self._halving(lambda nodes, piece: nodes[: len(nodes) - piece])
        from_start = self._halving(lambda nodes, piece: nodes[piece:])
        for accepted in (from_end, from_start, self._anywhere(), self._outputs()):
            for _ in accepted:
                yield Reduction(self.best, self.runs)

    def _halving(self, keep: Callable[[list[Node], int], list[Node]]) -> Iterator[None]:
        piece = len(self.best.graph.node) // 2
        while piece:
            if self._keeps(keep(list(self.best.graph.node), piece)):
                yield
                piece = min(piece, len(self.best.graph.node) // 2)
            else:
                piece //= 2

    def _anywhere(self) -> Iterator[None]:
        piece = len(self.best.graph.node) // 2
        while piece:
            end, is_better = len(self.best.graph.node), False
            while end > 0:
                nodes = list(self.best.graph.node)
                if self._keeps([*nodes[: max(end - piece, 0)], *nodes[end:]]):
                    is_better = True
                    yield
                end = min(end - piece, len(self.best.graph.node))
            if not is_better or len(self.best.graph.node) < 2 * piece:
                piece //= 2

    def _outputs(self) -> Iterator[None]:
        for name in [info.name for info in self.best.graph.output]:
            others = [info.name for info in self.best.graph.output if info.name != name]
            if others and self._tries(list(self.best.graph.node), others):
                yield

    def _keeps(self, nodes: list[Node]) -> bool:
        """Whether some of the nodes fail alone: with the outputs that they make, or with what the others read too."""
        made = {name for node in nodes for name in node.makes}
        outputs = [info.name for info in self.best.graph.output if info.name in made]
        kept = {node.output for node in nodes}
        others = {name for node in self.best.graph.node if node.output not in kept for name in node.reads}
        frontier = sorted(name for name in made if name in others and name not in outputs)
        tries = [outputs, [*outputs, *frontier]] if frontier else [outputs]
        return any(self._tries(nodes, some) for some in tries if some)

    def _tries(self, nodes: Sequence[Node], outputs: list[str]) -> bool:
        """Whether nodes fail with values between nodes as inputs, or as constants."""
        nodes = needed(nodes, outputs)
        lacking = missing(self.best, nodes, outputs)
        values = self._values([*lacking, *outputs])
        if not nodes or (values is None and lacking):
            return False
        for is_fixed in (False, True) if lacking else (False,):
            candidate = cut(self.best, nodes, outputs, values or {}, is_fixed=is_fixed)
            if self._shows(candidate):
                has = {info.name for info in candidate.graph.input}
                everything = {**(self.inputs or {}), **(values or {})}
                self.best = candidate
                self.inputs = None if self.inputs is None else {n: v for n, v in everything.items() if n in has}
                return True
        return False

    def _values(self, names: list[str]) -> dict[str, Any] | None:
        """The results of a run of the best for these; None where nothing can run it, or they are no plain tensors."""
        if self.inputs is None or not names:
            return None if names else {}
        every = with_outputs(self.best, names)
        for run in (_on_onnxruntime, _on_reference):
            try:
                found = run(every, self.inputs, names, self._limit)
            except DmlError:
                continue
            if all(isinstance(a, np.ndarray) and a.dtype.kind in "fiub" for a in found.values()):
                return found
        return None

    def _shows(self, candidate: Model) -> bool:
        """Whether a candidate shows the fault; one that was tried before does not."""
        message = model_message(candidate)
        data = message.SerializeToString() if message.ByteSize() <= _MOST_BYTES else None
        if data is None:
            rule = "the model with its tensors in itself must have at most 2 GiB, a protobuf's most"
            raise ModelFileError(self._name, Fault(field="", rule=rule))
        key = hashlib.sha256(data).digest()
        if key in self._seen:
            return False
        self._seen.add(key)
        self._path.write_bytes(data)
        self.runs += 1
        return bool(self._fails(str(self._path)))


def _on_onnxruntime(model: Model, inputs: dict[str, Any], names: list[str], _most: int) -> dict[str, Any]:
    return run_onnxruntime(model, inputs, names)


def _on_reference(model: Model, inputs: dict[str, Any], names: list[str], most: int) -> dict[str, Any]:
    found = load(model, device="reference", max_memory=most).run(inputs)
    return {name: np.asarray(found[name]) for name in names}
