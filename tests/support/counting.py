"""How much work something is, in Python's operations: the same on every machine, however busy."""

from __future__ import annotations

import cProfile
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any


def count_operations(work: Callable[[], object]) -> int:
    """How many of the interpreter's instructions `work` takes on this thread."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def count_calls(work: Callable[[], object]) -> int:
    """How many functions `work` calls on this thread, which takes less counting."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        work()
    finally:
        profile.disable()
    return sum(entry.callcount for entry in profile.getstats())
