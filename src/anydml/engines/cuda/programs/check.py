"""Checks of indices, planned: a pass before the kernel that they guard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from anydml.engines.cuda.kernels.gather import NONE_OUTSIDE, check_indices
from anydml.engines.cuda.launch import IS_INTERPRETED, Kernel
from anydml.engines.cuda.programs.shapes import ceil_power, fastest_first, kind_of, step_of, warps_for
from anydml.engines.cuda.scratch import DeviceWords, shared_words
from anydml.engines.exclusive import one_at_a_time
from anydml.ir.plan import Loops, merge, squeeze
from anydml.ir.verbs import IndexFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from anydml.engines.cuda.figures import Figures
    from anydml.engines.cuda.scratch import Words
    from anydml.ir.verbs import Check

CHECKED_TUPLES = 1024
"""Tuples that a program of the check looks at in one step."""


def check_kernel(check: Check, figures: Figures) -> Kernel:
    """The kernel that looks at every index."""
    indices = check.indices
    tuples = merge(squeeze(Loops(_looked_at(check), (indices.strides[:-1],), (0,))))
    sizes, strides = fastest_first(tuples.sizes, tuples.strides[0])
    step = min(ceil_power(tuples.count), CHECKED_TUPLES, figures.tile)
    programs = min(-(-tuples.count // step), 8 * figures.multiprocessors)
    constants = {
        "SIGNED": indices.data_type.is_signed,
        "INDEX_STEP": step_of(strides[0]),
        "TUPLES": step,
        "PROGRAMS": ceil_power(programs),
    }
    steps = -(-tuples.count // (step * programs))
    numbers = (tuples.count, strides[0], sizes, strides, indices.strides[-1], check.sizes, programs, steps)
    pointers = (kind_of(indices.data_type), "i64", "i64")
    return Kernel(check_indices, pointers, numbers, constants, programs, warps_for(step, 8), figures)


def bind_checked(
    checks: Sequence[Check],
    figures: Figures,
    places: Mapping[str, int],
    launch: Callable[[tuple[int, ...]], Callable[[], Any]],
) -> Callable[[], Any]:
    """A function that launches checks, and a kernel that takes the addresses of their verdicts."""
    if not checks:
        return launch(())
    looks = []
    for check in checks:
        kernel, view = check_kernel(check, figures), check.indices
        verdict = DeviceWords(2 + kernel.programs, figures.index)
        report, array = shared_words(1 + len(check.sizes))
        address = places[view.tensor] + view.offset * view.data_type.size_in_bytes
        looks.append(_Look(check, kernel.launch((address, verdict.address, report)), verdict, array))
    return one_at_a_time(_Checked(looks, launch(tuple(look.verdict.address for look in looks))), "gather")


class _Look:
    """One check, and what it found."""

    __slots__ = ("_check", "_report", "launch", "verdict")

    def __init__(self, check: Check, launch: Callable[[], Any], verdict: DeviceWords, report: Words) -> None:
        self._check, self.launch, self.verdict, self._report = check, launch, verdict, report

    def fault(self) -> IndexFault | None:
        """The first tuple with an index outside."""
        if self._report[0] == NONE_OUTSIDE.value:
            return None
        view, sizes = self._check.indices, self._check.sizes
        position = tuple(int(i) for i in np.unravel_index(int(self._report[0]), _looked_at(self._check)))
        most = 0 if view.data_type.is_signed else 2 ** (8 * view.data_type.size_in_bytes)
        found = tuple(int(i) % most if most else int(i) for i in self._report[1:])
        low = [-size if view.data_type.is_signed else 0 for size in sizes]
        outside = [not least <= index < size for least, index, size in zip(low, found, sizes, strict=True)]
        if True not in outside:
            return IndexFault((), (), 0, 0, self._check.node)  # the indices changed while they were looked at
        k = outside.index(True)
        return IndexFault(position, found, self._check.dimension + k, sizes[k], self._check.node)


class _Checked:
    """The bounds first, then the rest, which writes nothing where an index is outside; the host waits for the first."""

    __slots__ = ("_event", "_looks", "_run")

    def __init__(self, looks: Sequence[_Look], run: Callable[[], Any]) -> None:
        self._looks, self._run = looks, run
        self._event = None if IS_INTERPRETED else torch.cuda.Event()

    def __call__(self) -> None:
        for look in self._looks:
            look.verdict.enter()
            look.launch()
        if self._event is None:
            self._run()
        elif torch.cuda.is_current_stream_capturing():  # nobody can wait; a replay writes nothing for a bad index
            self._run()
            return
        else:
            self._event.record()
            self._run()
            for look in self._looks:
                look.verdict.leave()
            self._event.synchronize()
        for look in self._looks:
            if fault := look.fault():
                raise fault


def _looked_at(check: Check) -> tuple[int, ...]:
    """The sizes of the tuples that differ: those that a GATHER repeats for each batch are looked at once."""
    indices = check.indices
    return tuple(n if stride else 1 for n, stride in zip(indices.sizes[:-1], indices.strides[:-1], strict=True))
