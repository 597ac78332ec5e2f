"""NHWC layout: pictures between passes lie with the channels of a place side by side, where convolutions read them so.

This is no rule of the optimiser's rounds: it takes no step away, and is for engines whose convolutions read pictures
fastest that way. What a graph is given, and what it gives, lies as its tensors say.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from anydml.graph.recipe import Recipe
from anydml.ir.contraction import ConvolutionAxes, match_contraction
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce
from anydml.ir.views import View

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anydml.engines.common.engine import NhwcLayout
    from anydml.enums import DataType
    from anydml.graph.recipe import Step


FEW = 16
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

    def turned(self, view: View) -> View | None:
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
    """Turn the stores that convolutions of many channels read, and those beside them in other steps.

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
        if one.places == 1 or any(one.turned(view) is None for view in seen[name]):
            del found[name]
    for name in [name for name in found if _is_alone(name, recipe, kinds, found)]:
        del found[name]
    if not found:
        return recipe

    def turn(view: View) -> View:
        one = found.get(view.tensor)
        return view if one is None else one.turned(view) or view

    steps = []
    for step in recipe.steps:
        is_touched = any(view.tensor in found for view in step.primitive.views)
        steps.append(replace(step, primitive=step.primitive.reading(turn).writing(turn)) if is_touched else step)
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
        if view.tensor not in seen or view.sizes[axis] < FEW:
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
    if axis < 1 or math.prod(made.sizes[1:axis]) > 1 or made.sizes[axis] < FEW:
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
