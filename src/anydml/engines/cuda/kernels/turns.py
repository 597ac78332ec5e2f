"""Kernels one after the other, where each gets ready while the one before still runs.

A kernel that is launched when another has ended leaves the device idle for a microsecond or two, which is a fifth of
what a product of a few rows takes. From Hopper on its programs may start as soon as all of the other have, and wait.
"""

import triton
from triton.language import core
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

WAIT = "griddepcontrol.wait"
"""The instruction, which a kernel must have to be launched before the one before it has ended."""


@core.extern
def take_turn(_semantic=None):
    """Wait until everything before has ended; then the next kernel may get ready. The first line of every kernel."""
    if _semantic.builder.options.launch_pdl:
        gdc_wait(_semantic=_semantic)
        gdc_launch_dependents(_semantic=_semantic)


@triton.jit
def _at_once():
    """Where a kernel ends before the next one begins."""
    return


if triton.knobs.runtime.interpret:
    take_turn = _at_once
