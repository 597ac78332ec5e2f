"""Layout: the order in which a result lies in memory, and in which a scan walks it.

`layout_order` and `scan_direction` are passes of the optimiser's rounds. The others take no step away, run once, after
those, and are for engines that ask for them (`Traits`): `matrix_layout` where attention reads heads where they lie,
`nhwc_layout` where convolutions read pictures fastest with channels last. What a graph is given, and what it gives,
lies as its tensors say.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.memory import packed_strides
from anydml.graph.passes.draft import Draft, redirect
from anydml.graph.recipe import Recipe, Step, distinct_sizes
from anydml.graph.views import through
from anydml.ir.attention import Attend
from anydml.ir.contraction import ConvolutionAxes, is_product, match_contraction
from anydml.ir.patterns import is_plain
from anydml.ir.trees import fetched, walk
from anydml.ir.verbs import Map, Reduce, Scan
from anydml.ir.views import View, trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.core.enums import DataType
    from anydml.engines.common.engine import NhwcLayout
    from anydml.ir.verbs import Primitive


# The order of what is read


MOST_REPEATS = 8
"""How often a map may repeat what it reads, and still lie in its order: as heads share keys."""


def layout_order(recipe: Recipe) -> Recipe:
    """Layout order: a map lays its result out in the order of what it reads, and who reads that goes along by strides.

    Transposes go through maps, to be met by others or become a product's strides.

    A model of TensorFlow's has one before and one after each convolution: what is computed in between lies as the
    convolution wrote it, and the two cancel each other. Written across its rows a depthwise convolution takes three
    times as long (one thread of an Arm Neoverse-N1).
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        step = draft.steps[number]  # which may read already what lies in another order
        made = step.primitive
        if not is_plain(made) or not draft.is_own(made.target) or draft.is_constant(step):
            continue
        nested = None if any(node.op in ("coordinate", "fetch") for node in walk(made.value)) else _nested(made)
        readers = draft.readers(made.target.tensor) if nested else {}
        if nested and all(_goes_along(reader.primitive) for reader in readers.values()):
            reordered = _reordered(made, nested)
            new = reordered.target.pick([nested.index(k) for k in range(len(nested))])
            change = functools.partial(through, target=made.target, source=new)
            changed = redirect(readers, made.target.tensor, change)
            if changed is not None:
                draft.put({**changed, number: replace(step, primitive=reordered)})
    return draft.recipe()


def _goes_along(reader: Primitive) -> bool:
    """Whether a reader takes no longer for elements that lie in another order."""
    if isinstance(reader, Reduce):
        return is_product(reader)
    return isinstance(reader, Map) and not reader.checks and not fetched(*reader.values)


def _nested(made: Map) -> list[int] | None:
    """A map's dimensions in the order of the largest of its sources; None where it lies so, or no source is large."""
    target = made.target
    wide = [k for k, size in enumerate(target.sizes) if size > 1]
    inner = min(wide, key=lambda k: abs(target.strides[k]), default=None)
    large = [view for view in made.sources if math.prod(distinct_sizes(view)) * MOST_REPEATS >= math.prod(target.sizes)]
    if inner is None or not large or any(abs(view.strides[inner]) == 1 for view in large):
        return None
    source = max(large, key=lambda view: math.prod(distinct_sizes(view)))
    if not any(abs(source.strides[k]) == 1 for k in wide):
        return None

    def rank(k: int) -> tuple[bool, int]:
        """Repeated dimensions come first, as they lie in the target."""
        stride = abs(source.strides[k])
        return (stride > 0, -stride if stride else -abs(target.strides[k]))

    return [*(k for k in range(len(target.sizes)) if k not in wide), *sorted(wide, key=rank)]


def _reordered(made: Map, nested: list[int]) -> Map:
    """A map that goes through its dimensions in another order, and leaves no gaps."""
    target = made.target.pick(nested)
    strides = [s if n > 1 else 0 for s, n in zip(packed_strides(target.sizes), target.sizes, strict=True)]
    target = replace(target, strides=tuple(strides), offset=0)
    return replace(made, sources=tuple(view.pick(nested) for view in made.sources), target=target)


# The direction of scans


def scan_direction(recipe: Recipe) -> Recipe:
    """Scan direction: a scan of reversed elements into reversed places walks the other way instead.

    Where both views of a scan run backwards along its axis, both are turned, and the scan with them.

    A scratch result is laid out as the source lies, and its readers find it so: what reverses it again later, even
    behind other scans, meets the reversal there.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        _make_alike(draft, number)
        if (backward := _reversed(draft.steps[number])) is not draft.steps[number]:
            draft.put({number: backward})
    return draft.recipe()


def _make_alike(draft: Draft, number: int) -> None:
    step = draft.steps[number]
    scan = step.primitive
    if not isinstance(scan, Scan) or scan.source.strides[scan.axis] * scan.target.strides[scan.axis] >= 0:
        return
    old, new = scan.target, _backwards(scan.target, scan.axis)
    if draft.is_own(old):
        readers = draft.readers(old.tensor)
        changed = redirect(readers, old.tensor, lambda view: through(view, old, new))
        if changed is not None:
            draft.put({**changed, number: step.writing(new)})


def _reversed(step: Step) -> Step:
    scan = step.primitive
    if not isinstance(scan, Scan) or scan.source.strides[scan.axis] >= 0 or scan.target.strides[scan.axis] >= 0:
        return step
    source, target = _backwards(scan.source, scan.axis), _backwards(scan.target, scan.axis)
    return replace(step, primitive=replace(scan, sources=(source,), target=target, reverse=not scan.reverse))


def _backwards(view: View, axis: int) -> View:
    last = [size - 1 if k == axis else 0 for k, size in enumerate(view.sizes)]
    return view.window(last, [-1 if k == axis else 1 for k in range(len(view.sizes))], view.sizes)


# Matrices for attention


def matrix_layout(recipe: Recipe) -> Recipe:
    """Matrix layout: what a product makes for attention alone lies as its rows and columns, and not head by head.

    A product that writes matrices of one head each is twelve small ones, or writes every number by itself. The stores
    are turned that one product writes, and attention alone reads.
    """
    writers: dict[str, list[Step]] = {}
    readers: dict[str, list[Step]] = {}
    for step in recipe.steps:
        for view in step.targets:
            writers.setdefault(view.tensor, []).append(step)
        for view in step.sources:
            readers.setdefault(view.tensor, []).append(step)
    moved: dict[str, tuple[View, View]] = {}
    for name, (first, *others) in writers.items():
        is_between = recipe.stores[name].kind == "scratch" and not others
        if is_between and all(isinstance(step.primitive, Attend) for step in readers.get(name, [first])):
            old, new = first.target, _by_rows(first)
            views = [view for step in readers[name] for view in step.sources if view.tensor == name]
            if new is not None and all(_seen(view, old, new) for view in views):
                moved[name] = old, new
    if not moved:
        return recipe

    def read(view: View) -> View:
        return _seen(view, *moved[view.tensor]) or view if view.tensor in moved else view

    steps = list[Step]()
    for step in recipe.steps:
        made = step.reading(read) if any(view.tensor in moved for view in step.sources) else step
        steps.append(made.writing(moved[step.target.tensor][1]) if step.target.tensor in moved else made)
    return Recipe(recipe.stores, tuple(steps))


def _by_rows(step: Step) -> View | None:
    """The target of a product with its columns side by side, row after row; None where it is so, or is no product."""
    made, target = step.primitive, step.target
    found = match_contraction(made) if isinstance(made, Reduce) else None
    if found is None or found.batch or not found.rows or not found.columns or target.offset:
        return None
    strides, reach = [0] * len(target.strides), 1
    for k in (*reversed(found.columns), *reversed(found.rows)):
        strides[k], reach = reach, reach * target.sizes[k]
    new = replace(target, strides=tuple(strides))
    return None if new.strides == target.strides else new


def _seen(view: View, old: View, new: View) -> View | None:
    """The part of the old layout that a view has, in the new one; None where it runs on from line to line."""
    found = trace(view, old)
    if found is None:
        return None
    pairs = list(zip(found.steps, new.strides, strict=True))
    strides = tuple(sum(steps[m] * stride for steps, stride in pairs) for m in range(len(view.sizes)))
    return replace(view, strides=strides, offset=sum(a * b for a, b in zip(found.first, new.strides, strict=True)))


# NHWC


FEW_CHANNELS = 16
"""Channels below which a convolution has no need of them side by side."""
LINE = 64
"""Bytes that pixels are padded by which would share cache sets."""


class _Pictures(NamedTuple):
    """A store of pictures, channel by channel: how many places a channel has, and channels a picture."""

    channels: int
    places: int
    pitch: int
    """Elements from one place to the next, where channels lie side by side."""

    def parts(self, distance: int) -> tuple[int, int, int]:
        """The pictures, channels and places that a distance in memory is made of."""
        return distance // self.channels // self.places, distance // self.places % self.channels, distance % self.places

    def channels_last(self, view: View) -> View | None:
        """The same elements where channels lie side by side; None for a view that goes from one into the next."""
        start = self.parts(view.offset)
        units = (self.pitch * self.places, 1, self.pitch)
        last, strides = list(start), list[int]()
        for size, stride in zip(view.sizes, view.strides, strict=True):
            if size <= 1 or not stride:
                strides.append(0)
                continue
            ways = [k for k, part in enumerate(self.parts(stride)) if part]
            if stride < 0 or len(ways) != 1:
                return None
            step = self.parts(stride)[ways[0]]
            last[ways[0]] += (size - 1) * step
            strides.append(step * units[ways[0]])
        if last[1] >= self.channels or last[2] >= self.places:
            return None
        offset = sum(part * unit for part, unit in zip(start, units, strict=True))
        return View(view.tensor, view.data_type, view.sizes, tuple(strides), offset)


def nhwc_layout(recipe: Recipe, kinds: Mapping[DataType, NhwcLayout]) -> Recipe:
    """NHWC layout: pictures between passes lie with the channels of a place side by side, where convolutions read
    them so.

    Turn the stores that convolutions of many channels read, and those beside them in other steps.

    `kinds` has the types of such pictures, and how each is to lie.
    """
    if not kinds:
        return recipe
    seen = _views(recipe, kinds)
    found = {
        view.tensor: one
        for step in recipe.steps
        for view, one in _read_by_convolution(step, recipe, kinds, seen)
        if not kinds[view.data_type].needs_constant_weights or _has_constant(step, recipe)
    }
    before = -1
    while len(found) > before:
        before = len(found)
        for step in recipe.steps:
            found |= {view.tensor: one for view, one in _beside(step, recipe, kinds, found, seen)}
            found |= {view.tensor: one for view, one in _written_by_convolution(step, recipe, kinds, found, seen)}
    for name, one in list(found.items()):
        if one.places == 1 or any(one.channels_last(view) is None for view in seen[name]):
            del found[name]
    for name in [name for name in found if _is_alone(name, recipe, kinds, found)]:
        del found[name]
    if not found:
        return recipe

    def nhwc(view: View) -> View:
        one = found.get(view.tensor)
        return view if one is None else one.channels_last(view) or view

    steps = []
    for step in recipe.steps:
        is_touched = any(view.tensor in found for view in step.primitive.views)
        steps.append(replace(step, primitive=step.primitive.reading(nhwc).writing(nhwc)) if is_touched else step)
    stores = dict(recipe.stores)
    for name, one in found.items():
        size = stores[name].size_in_bytes // one.channels * one.pitch
        stores[name] = replace(stores[name], size_in_bytes=size)
    return Recipe(stores, tuple(steps))


def _is_alone(name: str, recipe: Recipe, kinds: Mapping[DataType, NhwcLayout], found: Mapping[str, _Pictures]) -> bool:
    """Whether pictures are copied from such as lie otherwise, and no convolution of them writes such as lie so.

    An engine that `needs_both_sides` reads them as they are then: 64 channels into 64 of 56 x 56, 3 x 3, in a graph
    of their own take 1.9 ms so, and 3.1 turned (a Xeon).
    """
    touching = [step.primitive for step in recipe.steps if any(view.tensor == name for view in step.primitive.views)]
    writers = [made for made in touching if any(target.tensor == name for target in made.targets)]
    readers = [made for made in touching if made not in writers]
    is_needed = any(
        kinds[view.data_type].needs_both_sides for made in readers for view in made.views if view.tensor == name
    )
    is_copied = all(
        isinstance(made, Map) and not any(view.tensor in found for view in made.sources) for made in writers
    )
    return is_needed and is_copied and not any(made.target.tensor in found for made in readers)


def _has_constant(step: Step, recipe: Recipe) -> bool:
    return any(recipe.stores[view.tensor].kind == "constant" for view in step.sources)


def _views(recipe: Recipe, kinds: Mapping[DataType, NhwcLayout]) -> dict[str, list[View]]:
    """By store of such pictures between steps, its views; but those of steps that need rows side by side."""
    seen: dict[str, list[View]] = {name: [] for name, store in recipe.stores.items() if store.kind == "scratch"}
    for step in recipe.steps:
        made = step.primitive
        is_plain = isinstance(made, Map) or (isinstance(made, Reduce) and made.is_by_row)
        for view in made.views:
            if not is_plain or made.checks or view.data_type not in kinds:
                seen.pop(view.tensor, None)
            elif view.tensor in seen:
                seen[view.tensor].append(view)
    return {name: views for name, views in seen.items() if len({view.data_type for view in views}) == 1}


def _pictures(view: View, axis: int, recipe: Recipe, kinds: Mapping[DataType, NhwcLayout]) -> _Pictures | None:
    """A store as pictures, whose channels a dimension of a view goes along."""
    width, conflict = view.data_type.size_in_bytes, kinds[view.data_type].conflict_bytes
    elements = recipe.stores[view.tensor].size_in_bytes // width
    count, places = view.sizes[axis], view.strides[axis]
    if count < 2 or places < 1 or elements % (count * places):
        return None
    conflicts = conflict and count * width % conflict == 0
    return _Pictures(count, places, count + LINE // width if conflicts else count)


def _axes_along(made: Map | Reduce, way: int) -> Iterator[tuple[View, int]]:
    """The views of a step, and of each the dimension that goes along one of the walk."""
    for node in walk(*made.values):
        if node.op == "load":
            yield made.sources[int(node.value)], way
        elif node.op == "fetch":
            for axis, index in enumerate(node.args):
                if any(one.op == "coordinate" and one.value == way for one in walk(index)):
                    yield made.sources[int(node.value)], axis
    yield from ((target, way) for target in made.targets)


def _read_by_convolution(
    step: Step, recipe: Recipe, kinds: Mapping[DataType, NhwcLayout], seen: Mapping[str, list[View]]
) -> Iterator[tuple[View, _Pictures]]:
    """The pictures that a convolution reads."""
    if (made := _convolution(step)) is None:
        return
    for view, axis in _axes_along(made, ConvolutionAxes.of(len(made.sizes), made.depth).inputs):
        if view.tensor not in seen or view.sizes[axis] < FEW_CHANNELS:
            continue
        if (one := _pictures(view, axis, recipe, kinds)) is not None:
            yield view, one


def _convolution(step: Step) -> Reduce | None:
    """A step that sums products over windows of pictures; None of others."""
    made = step.primitive
    if not isinstance(made, Reduce) or made.depth < 2:
        return None
    return None if match_contraction(made) is None else made


def _written_by_convolution(
    step: Step,
    recipe: Recipe,
    kinds: Mapping[DataType, NhwcLayout],
    found: Mapping[str, _Pictures],
    seen: Mapping[str, list[View]],
) -> Iterator[tuple[View, _Pictures]]:
    """The whole result of a convolution that reads pictures which are turned: it is written as they are read.

    SqueezeNet's last one, 512 channels into 1,000 of 14 x 14, takes 1.47 ms so, and 1.70 channel by channel (a Xeon).
    """
    if (made := _convolution(step)) is None:
        return
    target, axes = made.target, ConvolutionAxes.of(len(made.sizes), made.depth)
    if target.tensor not in seen or target.tensor in found or not kinds[target.data_type].includes_outputs:
        return
    axis = axes.channel
    if axis < 1 or math.prod(made.sizes[1:axis]) > 1 or made.sizes[axis] < FEW_CHANNELS:
        return
    one = _pictures(target, axis, recipe, kinds)
    whole = recipe.stores[target.tensor].size_in_bytes // target.data_type.size_in_bytes
    is_all = one is not None and made.sizes[0] * one.channels * one.places == whole
    if one is not None and is_all and any(view.tensor in found for view, _ in _axes_along(made, axes.inputs)):
        yield target, one


def _beside(
    step: Step,
    recipe: Recipe,
    kinds: Mapping[DataType, NhwcLayout],
    found: Mapping[str, _Pictures],
    seen: Mapping[str, list[View]],
) -> Iterator[tuple[View, _Pictures]]:
    """The views that a step reads and writes along the channels of pictures that are turned."""
    made = step.primitive
    if not isinstance(made, (Map, Reduce)) or not any(view.tensor in found for view in made.views):
        return
    for way in range(len(made.sizes) - made.depth):
        views = [(view, axis) for view, axis in _axes_along(made, way) if view.sizes[axis] > 1]
        if any(view.tensor in found and found[view.tensor].places == view.strides[axis] for view, axis in views):
            for view, axis in views:
                if view.tensor in seen and view.tensor not in found:
                    one = _pictures(view, axis, recipe, kinds)
                    if one is not None:
                        yield view, one
