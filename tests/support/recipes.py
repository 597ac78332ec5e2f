"""Recipes to try rules on: short ways to write them, and a way to run them on any engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.core.enums import DataType
from anydml.core.memory import numpy_address, span
from anydml.engines import find_engine
from anydml.graph.arena import ALIGNMENT, lay_out
from anydml.graph.recipe import Recipe, Step, Store
from anydml.ir.fetches import gathered as gather
from anydml.ir.verbs import Map, Scan
from anydml.ir.views import View
from drawing import Array, packed, places
from places import WIPED, get_bytes, is_on_gpu, put_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.graph.recipe import StoreKind
    from anydml.ir.verbs import Primitive
    from random_recipes import Drawn


F32 = DataType.FLOAT32


# Writing


def view(tensor: str, sizes: Sequence[int], strides: Sequence[int] | None = None, offset: int = 0) -> View:
    """A FLOAT32 view; packed unless it says how else."""
    return View(tensor, F32, tuple(sizes), tuple(packed(sizes) if strides is None else strides), offset)


def recipe(stores: Mapping[str, StoreKind], *steps: Primitive) -> Recipe:
    """A recipe whose stores hold a hundred elements each and whose nodes are named a, b, c."""
    held = {name: Store(kind, 400) for name, kind in stores.items()}
    return Recipe(held, tuple(Step(step, (name,)) for step, name in zip(steps, "abcdefghijkl", strict=False)))


def summed(source: View, target: View, axis: int = 0, *, reverse: bool = False, exclusive: bool = False) -> Scan:
    return Scan((source,), target, axis, "sum", reverse, exclusive)


def gathered(source: View, indices: View, target: View, *, batch: int = 0, clamp: bool = False) -> Map:
    return gather(source, replace(indices, data_type=DataType.UINT32), target, batch, clamp=clamp)


def made(stores: dict[str, StoreKind], *steps: tuple[Primitive, str], **sizes: int) -> Recipe:
    """What a rule should have made: steps with their nodes, and stores whose size in bytes changed."""
    held = {name: Store(kind, sizes.get(name, 400)) for name, kind in stores.items()}
    return Recipe(held, tuple(Step(primitive, tuple(nodes)) for primitive, nodes in steps))


# Running


def check(made: Recipe) -> None:
    """Every view lies in its store, every element that is read was written before, and none is written twice.

    Inputs and constants are there from the start, so that writing to them is writing twice.
    """
    there = {
        name: np.full(store.size_in_bytes, store.kind in ("input", "constant")) for name, store in made.stores.items()
    }
    for step in made.steps:
        for part in (*step.sources, *step.targets):
            low, high = span(part.sizes, part.strides)
            end = (part.offset + high + 1) * part.data_type.size_in_bytes
            assert part.offset + low >= 0, step
            assert end <= made.stores[part.tensor].size_in_bytes, step
        for source in step.sources:
            assert there[source.tensor][_bytes_of(source)].all(), step
        for target in step.targets:
            written = _bytes_of(target)
            assert not there[target.tensor][written].any(), step
            there[target.tensor][written] = True
    assert all(there[name].any() for name, store in made.stores.items() if store.kind == "output")


def _bytes_of(of: View) -> Array:
    """Where the bytes of a view's elements lie."""
    width = of.data_type.size_in_bytes
    found = np.array([of.offset * width])
    for size, stride in (*zip(of.sizes, of.strides, strict=True), (width, None)):
        found = np.add.outer(found, np.arange(size) * (1 if stride is None else stride * width))
    return found.ravel()


def run(made: Recipe, engine: str, contents: Mapping[str, Array], *, shares: bool = False) -> dict[str, bytes]:
    """Run the steps in order; what every output's store holds then. Scratch stores lie apart, or share an arena."""
    check(made)
    arena = lay_out(made) if shares else None
    starts, size = {}, ALIGNMENT
    for name, store in made.stores.items():
        if arena is None or store.kind != "scratch":
            starts[name] = size
            size += (store.size_in_bytes // ALIGNMENT + 2) * ALIGNMENT
    if arena is not None:
        starts |= {name: size + offset for name, offset in arena.offsets.items()}
        size += arena.size_in_bytes
    whole = np.full(size + ALIGNMENT, WIPED, np.uint8)
    raw = whole[-numpy_address(whole) % ALIGNMENT :][:size]
    for name, content in contents.items():
        if name in starts:
            raw[starts[name] :][: content.nbytes] = content.view(np.uint8)
    before = raw.copy()
    there: Any = put_bytes(raw) if is_on_gpu(engine) else None
    base = numpy_address(raw) if there is None else there.data_ptr()
    at = {name: base + start for name, start in starts.items()}
    for step in made.steps:
        find_engine(engine).compile(step.primitive).bind(at)()
    after = raw if there is None else np.frombuffer(get_bytes(there), np.uint8)
    held = {name: slice(starts[name], starts[name] + made.stores[name].size_in_bytes) for name in starts}
    for name, store in made.stores.items():
        if store.kind in ("input", "constant"):
            np.testing.assert_array_equal(after[held[name]], before[held[name]])
    return {name: after[held[name]].tobytes() for name, store in made.stores.items() if store.kind == "output"}


def assert_same_outputs(got: Mapping[str, bytes], wanted: Mapping[str, bytes], drawn: Drawn) -> None:
    """Compare every byte of the outputs, gaps too; one NaN is as good as another where a scan made it."""
    assert got.keys() == wanted.keys()
    for name, data in wanted.items():
        data_type = next(step.target.data_type for step in drawn.recipe.steps if step.target.tensor == name)
        a, b = (np.frombuffer(bytes_, data_type.dtype) for bytes_ in (got[name], data))
        differ = a.view(f"u{a.itemsize}") != b.view(f"u{b.itemsize}")
        if name in drawn.blurred and data_type.is_float:
            differ &= ~(np.isnan(a) & np.isnan(b))
        assert not differ.any(), (name, np.flatnonzero(differ), a, b)


def elements(of: View) -> list[int]:
    """Where a view's elements lie, in the order of its indices."""
    return [of.offset + place for place in places(of.sizes, of.strides)]
