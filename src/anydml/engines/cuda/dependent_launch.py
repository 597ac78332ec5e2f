"""Programmatic dependent launch: a kernel gets ready while the one before still runs, and waits before it reads."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import core
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

WAIT = "griddepcontrol.wait"
"""The instruction, which a kernel must have to be launched before the one before it has ended."""


@core.extern
def wait_for_previous(_semantic=None):
    """Wait until everything before has ended; then the next kernel may get ready. Kernels read and write after it."""
    if _semantic.builder.options.launch_pdl:
        gdc_wait(_semantic=_semantic)
        gdc_launch_dependents(_semantic=_semantic)


@core.extern
def ask_for(place, size, _semantic=None):
    """Have bytes brought to the cache that all programs share: a multiple of 16, at one.

    A kernel before may still write them: nothing is read here, and what is read there after its end is new.
    """
    if _semantic.builder.options.launch_pdl:
        core.inline_asm_elementwise(
            "{ .reg .pred any; setp.gt.s32 any, $2, 0;"
            " @any cp.async.bulk.prefetch.L2.global [$1], $2; mov.b32 $0, 0; }",
            "=r,l,r",
            [place, size],
            dtype=core.int32,
            is_pure=False,
            pack=1,
            _semantic=_semantic,
        )


@triton.jit
def _at_once():
    """Where a kernel ends before the next one begins."""
    return


@triton.jit
def _in_time(place, size):
    return


if triton.knobs.runtime.interpret:
    wait_for_previous, ask_for = _at_once, _in_time

PIECE = tl.constexpr(512)
"""Bytes that a thread asks for at the least: by 128, or 2048, a row by 4096^2 of 4 bits takes 3 % longer on a H200."""


@triton.jit
def ask_for_lines(matrix, stride, first, lines, length, COUNT: tl.constexpr, LANES: tl.constexpr):
    """Ask for COUNT lines of a matrix of so many, from one on: what is done before a kernel's turn, and saves a fifth.

    So many LANES ask for a part of a line each.
    """
    SIZE: tl.constexpr = matrix.dtype.element_ty.primitive_bitwidth // 8
    PARTS: tl.constexpr = PIECE * max(LANES // COUNT, 1)
    lane = tl.arange(0, LANES)
    line, whole = first + lane % COUNT, length * SIZE
    part = (whole + PARTS - 1) // PARTS * PIECE
    start = lane // COUNT * part
    size = tl.where(line < lines, tl.minimum(whole - start, part), 0)
    place = (matrix + line.to(tl.int64) * stride).to(tl.int64) + start
    end, place = (place + size) & -16, place & -16
    ask_for(place, (end - place).to(tl.int32))
