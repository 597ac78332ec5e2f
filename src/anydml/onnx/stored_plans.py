"""Programs of a model on disk: the next process neither traces nor plans them, but loads, and lays weights out.

The key of a plan is all that it depends on: the model without its large tensors, the shapes, values of shapes, and
the options; an engine adds its own code and CPU. Large tensors that were looked at while it was made are named in it,
with digests. All others may be of any values.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.shared import SharedData
from anydml.core.locks import cached_property
from anydml.onnx.library import VERSION
from anydml.onnx.lower.scope import Scope
from anydml.onnx.lower.tracer import MOST_FOLDED_BYTES
from anydml.onnx.program import Program
from anydml.runtime.graph import CompiledGraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.onnx.lower.lowering_cache import Kept
    from anydml.onnx.lower.values import Known, Value
    from anydml.onnx.program import Outline, Spares
    from anydml.onnx.read import Source
    from anydml.runtime.device import Device
    from anydml.runtime.planning import GraphPlan

FEWEST_NODES = 8
"""Of a model, or a part of one, whose plans are kept: others are planned as quickly."""
MOST_KEPT = 4
"""Programs of one model or part that are kept: lengths that grow by one with each run are not worth their files."""
_MOST_READ = 2**26
"""Bytes of large tensors to be compared before a plan is used."""
_MOST_WITHIN = 2**22
"""Bytes of tensors that lie in the plan itself, having been computed while it was made."""


class _UnfitError(Exception):
    """A plan that cannot be kept, or not be used."""


class PlansOnDisk:
    """The plans of a model's programs, where the engine keeps plans, and the model is not a small one."""

    def __init__(self, source: Source, device: Device, kept: Kept, *, assumes: bool) -> None:
        self._source, self._device, self._kept = source, device, kept
        self._assumes, self._left = assumes, MOST_KEPT
        is_large = len(source.model.graph.node) >= FEWEST_NODES
        # Where memory is short, less is computed while a model is traced.
        is_kept = is_large and source.beside.limit.left >= MOST_FOLDED_BYTES
        self._plans = device.engine.plans if is_kept else None

    def find(
        self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, np.ndarray[Any, Any]], spares: Spares
    ) -> Program | None:
        """The program for these shapes and values; None where there is none that can be used."""
        plans = self._plans
        data = None if plans is None else plans.read(self._key(shapes, values))
        if plans is None or data is None:
            return None
        try:
            read, within, told = plans.load(data, _no_name)
            if any(self._digest(name) != digest for name, digest in read.items()):
                return None
            outline, plan = plans.load(within, self._tensor)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is made
            return None
        return self._program(outline, plan.with_told(lambda: plans.load(told, self._tensor)), spares)

    def _program(self, outline: Outline, plan: GraphPlan, spares: Spares) -> Program | None:
        def make(left: int | None) -> CompiledGraph:
            if not plan.fits(left):
                raise _UnfitError
            return CompiledGraph.planned(self._device, plan, max_memory=left)

        with contextlib.suppress(_UnfitError):
            return Program(outline, self._device, spares, self._source.beside, make)
        return None

    def keep(
        self,
        shapes: Mapping[str, tuple[int, ...]],
        values: Mapping[str, np.ndarray[Any, Any]],
        program: Program,
        *,
        is_rare: bool = False,
    ) -> None:
        """Keep a program that was made, but for one that makes sense in this process alone.

        One that `is_rare` is kept where an earlier process made it too: to write it takes a third of planning.
        """
        plans = self._plans
        if plans is None or not self._left or program.outline.states:
            return
        self._left -= 1
        if not plans.can_write() or not self._is_plain:
            return
        if is_rare and plans.read(made := f"{self._key(shapes, values)} made") is None:
            plans.write(made, b"")
            return
        if (compiled := program.compiled) is None:
            return
        names, plan = _Names(self._tensors()), compiled.plan
        if not plan.fits(None):
            return
        plan.once.compile(self._device.engine)
        try:
            light, told = plan.dump(plans, names)
            within = plans.dump((program.outline, light), names)
            read = {name: self._digest(name) for name in self._looked_at()}
            plans.write(self._key(shapes, values), plans.dump((read, within, told), _nothing))
        except Exception:  # noqa: BLE001 - programs that have no form on disk, a disk that is full
            return

    def _key(self, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, np.ndarray[Any, Any]]) -> str:
        given = [(name, array.dtype.str, array.shape, array.tobytes()) for name, array in sorted(values.items())]
        return hashlib.sha256(repr((self._model, sorted(shapes.items()), given)).encode()).hexdigest()[:32]

    @cached_property
    def _model(self) -> str:
        """All that is the same for every program."""
        source, device = self._source, self._device
        functions = [part for _, one in sorted(source.functions.items()) for part in one.parts()]
        disabled, level = sorted(source.disabled_passes), str(device.feature_level)
        found = hashlib.sha256(repr((self._assumes, disabled, device.engine.name, level, VERSION)).encode())
        for part in itertools.chain(source.model.parts(), functions):
            found.update(f"{len(part)} ".encode() + part)
        return found.hexdigest()

    @property
    def _is_plain(self) -> bool:
        """Whether all tensors are the graph's own: those of bodies and attributes may lie in files beside it too."""
        attributes = (attribute for node in self._source.model.graph.node for attribute in node.attribute)
        return not any(
            one.kind in ("GRAPH", "GRAPHS", "TENSORS") or (one.kind == "TENSOR" and one.value.is_external)
            for one in attributes
        )

    # Tensors

    def _tensors(self) -> Iterator[tuple[str, Value]]:
        """The model's own, of those that a trace asked for."""
        names = self._source.model.graph.constants
        return ((name, value) for name, value in list(self._kept.items()) if name in names)

    def _looked_at(self) -> Iterator[str]:
        """The large ones that plans may depend on, not so large altogether that it takes long to compare them."""
        large = {tensor.name for tensor in self._source.model.graph.initializer if tensor.is_large}
        total = 0
        for name, value in self._tensors():
            if name in large and any(map(_was_read, (value.known, value.halves))):
                total += value.element.bytes_of(value.count)
                if total > _MOST_READ:
                    raise _UnfitError
                yield name

    @cached_property
    def _scope(self) -> Scope:
        return Scope(self._source, self._source.model.graph, self._kept)

    def _value(self, name: str) -> Value:
        found = self._scope.find(name)
        assert found is not None  # noqa: S101 - for type checkers: no name is ""
        return found

    def _digest(self, name: str) -> str:
        value = self._value(name)
        known = value.halves or value.known
        assert known is not None  # noqa: S101 - for type checkers: a tensor of the model's own
        return hashlib.sha256(known.flat().data).hexdigest()

    def _tensor(self, name: Any) -> SharedData:
        """The tensor of a name in a plan."""
        kind, which, size = name
        if kind == "bytes":
            return SharedData(size, lambda: np.frombuffer(which, np.uint8))
        value = self._value(which)
        known = value.halves if kind == "halves" else value.known
        assert known is not None  # noqa: S101 - for type checkers: the model is the same
        return known.data(size)


class _Names:
    """The names that tensors have in a plan, and the bytes of those that are in no file."""

    def __init__(self, tensors: Iterator[tuple[str, Value]]) -> None:
        self._known: dict[SharedData, tuple[str, str]] = {}
        self._room = _MOST_WITHIN
        for name, value in tensors:
            for kind, known in (("halves", value.halves), ("tensor", value.known)):
                if known is not None and known.shared is not None:
                    self._known[known.shared] = (kind, name)

    def __call__(self, found: Any) -> tuple[str, Any, int] | None:
        if type(found) is not SharedData:
            return None
        if found in self._known:
            return (*self._known[found], len(found))
        self._room -= len(found)
        if self._room < 0:
            raise _UnfitError
        return "bytes", found.array.tobytes(), len(found)


def _was_read(known: Known | None) -> bool:
    return known is not None and (known.was_read or (known.shared is not None and known.shared.was_read))


def _nothing(_: object) -> None:
    return None


def _no_name(name: object) -> object:
    raise LookupError(name)
