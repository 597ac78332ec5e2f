"""Scan direction: a scan of reversed elements into reversed places walks the other way instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.passes.draft import Draft, redirect
from anydml.graph.views import through
from anydml.ir.verbs import Scan

if TYPE_CHECKING:
    from anydml.graph.recipe import Recipe, Step
    from anydml.ir.views import View


def scan_direction(recipe: Recipe) -> Recipe:
    """Where both views of a scan run backwards along its axis, both are turned, and the scan with them.

    A scratch result is laid out as the source lies, and its readers find it so: what reverses it again later, even
    behind other scans, meets the reversal there.
    """
    draft = Draft(recipe)
    for number in range(len(recipe.steps)):
        _make_alike(draft, number)
        if (turned := _turned(draft.steps[number])) is not draft.steps[number]:
            draft.put({number: turned})
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


def _turned(step: Step) -> Step:
    scan = step.primitive
    if not isinstance(scan, Scan) or scan.source.strides[scan.axis] >= 0 or scan.target.strides[scan.axis] >= 0:
        return step
    source, target = _backwards(scan.source, scan.axis), _backwards(scan.target, scan.axis)
    return replace(step, primitive=replace(scan, sources=(source,), target=target, reverse=not scan.reverse))


def _backwards(view: View, axis: int) -> View:
    last = [size - 1 if k == axis else 0 for k, size in enumerate(view.sizes)]
    return view.window(last, [-1 if k == axis else 1 for k in range(len(view.sizes))], view.sizes)
