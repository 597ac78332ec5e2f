"""Messages of the library in the words of the command line: options instead of Python's arguments."""

from __future__ import annotations

import re

_WORDS = {
    r'use Device\("(\w+)"\)': r"use --engine \1",
    r"use Device\(\)": "leave --engine out",
    r"--max-memory, or max_memory=, allows": "--max-memory allows",
    r"\bshapes must name": "--shape must name",
    r"allow_float64=True": "--allow-float64",
    r"; in Python (an array by its name|arrays by their names)": "",
    "without strict it": "without --strict it",
    r'index_mode="clamp"': "--index-mode clamp",
}


def as_options(text: str) -> str:
    """A message that speaks of options."""
    for pattern, words in _WORDS.items():
        text = re.sub(pattern, words, text)
    return text
