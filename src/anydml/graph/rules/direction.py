"""Direction: a scan of reversed elements into reversed places walks the other way instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.rules.steps import with_steps
from anydml.primitives import Scan, View

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe, Step


def direction(recipe: Recipe) -> Recipe:
    """Where both views of a scan run backwards along its axis, both are turned, and the scan with them."""
    return with_steps(recipe, [_turned(step) for step in recipe.steps])


def _turned(step: Step) -> Step:
    scan = step.primitive
    if not isinstance(scan, Scan) or scan.source.strides[scan.axis] >= 0 or scan.target.strides[scan.axis] >= 0:
        return step
    source, target = _backwards(scan.source, scan.axis), _backwards(scan.target, scan.axis)
    return replace(step, primitive=replace(scan, source=source, target=target, reverse=not scan.reverse))


def _backwards(view: View, axis: int) -> View:
    last = [size - 1 if k == axis else 0 for k, size in enumerate(view.sizes)]
    return view.window(last, [-1 if k == axis else 1 for k in range(len(view.sizes))], view.sizes)
