"""Steps again and again, in one call: `kernel(words, begin, end)` calls kernels in turn, and moves their words on.

After the header: how often, how many steps, the words of all steps together, and what shares a kernel out among
threads. Then for each step its kernel, its units, whether threads share them, how many words it has and how many of
them move; those words; and of each that moves its place among them, in bytes, and by how much.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels import HEADER
from anydml.engines.cpu.kernels.steps import Steps

WORDS = ("times", "count", "total", "share")
STEP = ("kernel", "units", "is_shared", "length", "moves")
MOST_WORDS = 4096
"""Of all steps: they lie on the stack, since others may be at the same work with the same words."""


def make_repeat() -> str:
    """The text of the kernel."""
    text = Steps()
    for i, name in enumerate(WORDS):
        text.read(name, f"words + {8 * (HEADER + i)}")
    text.let("first", f"words + {8 * (HEADER + len(WORDS))}")
    text.room("own", MOST_WORDS)
    text.room("at", 2)  # of a step: its description, and its words on the stack
    _reset(text)
    with text.loop("step", 0, "count"):
        _read_step(text, "copied")
        with text.loop("word", 0, "copied_length"):
            text.read("copied_word", "copied_words + word * 8")
            text.put("copied_own + word * 8", "copied_word")
        _go_on(text, "copied")
    with text.loop("time", 0, "times"):
        _reset(text)
        with text.loop("turn", 0, "count"):
            _read_step(text, "run")
            with text.when("run_is_shared != 0"):
                text.invoke("share", "run_own")
            with text.when("run_is_shared == 0"):
                text.invoke("run_kernel", "run_own", 0, "run_units")
            with text.loop("move", 0, "run_moves"):
                text.let("pair", "run_words + (run_length + 2 * move) * 8")
                text.read("place", "pair")
                text.read("by", "pair + 8")
                text.read("old", "run_own + place")
                text.put("run_own + place", "old + by")
            _go_on(text, "run")
    text.add("ret i64 0")
    return text.define("i64 @kernel(i64 %words, i64 %begin, i64 %end)")


def _reset(text: Steps) -> None:
    """Turn to the first step."""
    text.put("at", "first")
    text.put("at + 8", "own")


def _read_step(text: Steps, name: str) -> None:
    """The facts of a step, and the place of its words: those given, and those on the stack."""
    text.read(f"{name}_at", "at")
    text.read(f"{name}_own", "at + 8")
    for i, part in enumerate(STEP):
        text.read(f"{name}_{part}", f"{name}_at + {8 * i}")
    text.let(f"{name}_words", f"{name}_at + {8 * len(STEP)}")


def _go_on(text: Steps, name: str) -> None:
    """Turn to the next step."""
    text.put("at", f"{name}_words + ({name}_length + 2 * {name}_moves) * 8")
    text.put("at + 8", f"{name}_own + {name}_length * 8")
