"""The workspace layout of GEMMs and convolutions: where packed operands, sums and results lie in a thread's scratch."""

from __future__ import annotations

import functools
from typing import NamedTuple

from anydml.engines.cpu.families import figures

PANEL = 64
"""The most rows or columns of a tile."""
RIGHT_AT = 64
"""The right block, after the scratch's lock."""


class Workspace(NamedTuple):
    """Bytes of a scratch at which parts begin, and all of them."""

    left_at: int
    """The left panel."""
    stage_at: int
    """A factor's rows."""
    result_at: int
    totals_at: int
    """Zero-point compensation."""
    sums_at: int
    """Sums of a contraction: what lies before is not a contraction's alone."""
    size: int


@functools.cache
def workspace() -> Workspace:
    """The layout by the cache blocking of this CPU's family."""
    of = figures().gemm
    left_at = RIGHT_AT + of.right_bytes + 4 * of.k_block * PANEL
    stage_at = left_at + 4 * of.k_block * PANEL
    result_at = stage_at + 4 * PANEL * (max(of.n_block, of.k_block) + PANEL)
    totals_at = result_at + of.result_bytes
    sums_at = totals_at + 4 * 4 * (of.skinny_columns + 2 * PANEL) + 4096
    return Workspace(left_at, stage_at, result_at, totals_at, sums_at, sums_at + of.sum_bytes)
