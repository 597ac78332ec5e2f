"""Chains of operators that people write, told once: as a graph, as NumPy and PyTorch have them, and as one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

import anydml as dml
from anydml.core.memory import packed_strides
from benchmarks.row import Window

if TYPE_CHECKING:
    from anydml.runtime.graph import CompiledGraph

ALL, BACK, SECOND = slice(None), slice(None, None, -1), slice(None, None, 2)


class Step(Protocol):
    """An operator of a chain."""

    def describe(self, x: dml.TensorDesc, *indices: dml.TensorDesc) -> dml.OperatorDesc:
        """The operator on such a tensor."""

    def peer(self, library: Any, x: dml.TensorDesc) -> Callable[..., Any]:
        """The same in NumPy or PyTorch, on such a tensor: a function of it, of the indices and of `out`."""


@dataclass(frozen=True)
class Crop:
    """NumPy's slices: a crop, or with a negative step a flip. Peers give a view where they can."""

    slices: tuple[slice, ...]

    def describe(self, x: dml.TensorDesc, *_: dml.TensorDesc) -> dml.OperatorDesc:
        offsets, sizes, strides = Window.of(self.slices, x.sizes)
        return dml.Slice1.infer(
            input_tensor=x,
            input_window_offsets=offsets,
            input_window_sizes=sizes,
            input_window_strides=strides,
        )

    def peer(self, library: Any, x: dml.TensorDesc) -> Callable[..., Any]:
        cut = Window.of(self.slices, x.sizes)
        ahead, back = cut.ahead, tuple(cut.backwards)
        if back:
            return lambda t, *_, out=None: library.flip(t[ahead], back)  # noqa: ARG005 - flip has no out=
        return lambda t, *_, out=None: t[ahead]  # noqa: ARG005 - a view needs none


@dataclass(frozen=True)
class Sum:
    """A running sum."""

    axis: int
    direction: str = "increasing"

    def describe(self, x: dml.TensorDesc, *_: dml.TensorDesc) -> dml.OperatorDesc:
        return dml.CumulativeSummation.infer(
            input_tensor=x, axis=self.axis, axis_direction=self.direction, has_exclusive_sum=False
        )

    def peer(self, library: Any, x: dml.TensorDesc) -> Callable[..., Any]:  # noqa: ARG002 - of any tensor
        axis = self.axis
        return lambda t, *_, out=None: library.cumsum(t, axis, dtype=t.dtype, out=out)


@dataclass(frozen=True)
class Gather:
    """Rows by their number."""

    mode: str

    def describe(self, x: dml.TensorDesc, *indices: dml.TensorDesc) -> dml.OperatorDesc:
        return dml.GatherND.infer(
            input_tensor=x,
            indices_tensor=indices[0],
            input_dimension_count=2,
            indices_dimension_count=2,
            index_mode=self.mode,
        )

    def peer(self, library: Any, x: dml.TensorDesc) -> Callable[..., Any]:  # noqa: ARG002 - of any tensor
        if library is np:
            return lambda t, places, out=None: np.take(t, places[:, 0], axis=0, out=out, mode="clip")
        return lambda t, places, out=None: library.index_select(t, 0, places[:, 0], out=out)


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Steps, each on what the one before gave; the indices of a gather are a second input."""

    name: str
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    single: Step | None = None
    """The one pass that they amount to, where there is one."""
    part: tuple[slice, ...] = (ALL, ALL)
    """What that pass reads of the input, which is described as it lies."""
    dtype: str = "float32"
    count: int = 0
    """How many rows are gathered."""
    limit: int = 0
    """The rows that there are to gather."""
    goal: float = 2.0
    """How far ahead of the best peer it should be."""

    @property
    def exact(self) -> bool:
        """Whether every right answer is the same to the bit: one that adds no floats."""
        return self.dtype == "int32" or not any(isinstance(step, Sum) for step in self.steps)

    @property
    def inputs(self) -> list[dml.TensorDesc]:
        indices = [dml.TensorDesc("int64", (self.count, 1))] if self.count else []
        return [dml.TensorDesc(self.dtype, self.shape), *indices]

    @property
    def operators(self) -> list[dml.OperatorDesc]:
        """One for each step."""
        made: list[dml.OperatorDesc] = []
        x, *indices = self.inputs
        for step in self.steps:
            made.append(step.describe(x, *indices))
            x = made[-1].tensors()["OutputTensor"]
        return made

    @property
    def desc(self) -> dml.OperatorDesc:
        """The operator of the single pass; where there is none, that of the last step."""
        if self.single is None:
            return self.operators[-1]
        bounds = [s.indices(n) for s, n in zip(self.part, self.shape, strict=True)]
        sizes = [len(range(*b)) for b in bounds]
        strides = [stride * step for stride, (_, _, step) in zip(packed_strides(self.shape), bounds, strict=True)]
        _, *indices = self.inputs
        return self.single.describe(dml.TensorDesc(self.dtype, sizes, strides=strides), *indices)

    def read(self, x: Any, *indices: Any) -> tuple[Any, ...]:
        """The single pass's inputs: a view of the chain's."""
        return (x[self.part], *indices)

    def compile(self, device: dml.Device) -> CompiledGraph:
        """The chain as a graph."""
        graph = dml.Graph(device)
        x, *indices = (graph.input(desc) for desc in self.inputs)
        for step in self.steps:
            given = (x, *indices) if isinstance(step, Gather) else (x,)
            desc = step.describe(*(expression.desc for expression in given))
            (x,) = graph.add(desc, given, list(desc.outputs().values()))
        return graph.compile([x])

    @property
    def room(self) -> tuple[int, ...] | None:
        """The sizes of what the last step that is no crop gives; crops after it are views of that."""
        made = [
            desc.tensors()["OutputTensor"].sizes
            for desc, step in zip(self.operators, self.steps, strict=True)
            if not isinstance(step, Crop)
        ]
        return made[-1] if made else None

    def peer(self, library: Any) -> Callable[..., Any]:
        """The chain in NumPy or PyTorch, a function of its inputs; `out` is for the step that `room` is about."""
        calls = [
            step.peer(library, desc.tensors()["InputTensor"])
            for step, desc in zip(self.steps, self.operators, strict=True)
        ]
        last = max((i for i, step in enumerate(self.steps) if not isinstance(step, Crop)), default=len(calls))

        def run(x: Any, *indices: Any, out: Any = None) -> Any:
            for i, call in enumerate(calls):
                x = call(x, *indices, out=out if i == last else None)
            return x

        return run


def chains(n: int, table: int, count: int, mode: str) -> list[Chain]:
    """The chains on a square of side `n`, and one that gathers so many rows of a table of rows in an index mode."""
    # Crops alone are views to a peer, so that NumPy's copy of them is one pass as well: there is nothing to be ahead by.
    h, q = n // 2, n // 4
    half, flip = slice(q, q + h), Crop((ALL, BACK))
    on_square = partial(Chain, shape=(n, n))
    # Rows table/4 to 3 table/4 of it, and of these all but the first eighth; columns 32 to 224, and of these 32 to 160.
    rows, kept = slice(table // 4, table // 4 + table // 2), slice(table // 16, table // 2)
    both = slice(table // 4 + table // 16, table // 4 + table // 2)
    return [
        on_square(name="chain, crop, running sum", steps=(Crop((half, half)), Sum(1)), part=(half, half), single=Sum(1)),
        on_square(name="chain, crop, running sum of rows", steps=(Crop((half, half)), Sum(0)), part=(half, half), single=Sum(0)),
        on_square(name="chain, flip, running sum, flip", steps=(flip, Sum(1), flip), single=Sum(1, "decreasing")),
        on_square(name="chain, running sum, strided crop", steps=(Sum(1), Crop((SECOND, slice(h)))), part=(SECOND, slice(h)), single=Sum(1)),
        on_square(name="chain, crop, flip, crop", steps=(Crop((half, ALL)), flip, Crop((ALL, half))), single=Crop((half, slice(n - 1 - q, n - 1 - q - h, -1))), goal=1.0),
        Chain(
            name="chain, two crops, gather rows of 128", shape=(table, 256), count=count, limit=kept.stop - kept.start,
            steps=(Crop((rows, slice(32, 224))), Crop((kept, slice(32, 160))), Gather(mode)),
            part=(both, slice(64, 192)), single=Gather(mode),
        ),
    ]  # fmt: skip


def twelve(side: int = 64) -> Chain:
    """Three times flip, running sum, flip and crop: twelve nodes of which three passes and more remain."""
    flip, name = Crop((ALL, BACK)), f"compile, 12 nodes on {side} x {side}"
    steps = [(flip, Sum(k % 2), flip, Crop((slice(1, side - k), slice(1, None)))) for k in range(3)]
    return Chain(name=name, shape=(side, side), dtype="int32", steps=tuple(step for four in steps for step in four))
