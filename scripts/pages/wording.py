"""An operator's own words, taken apart: what it does, its formula, and what the documents leave open."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scripts.pages.families import Operator

_SENTENCE = re.compile(r"(?<=[^.…]\.)\s+(?=[A-Z`])")
_CLAUSE = re.compile(r": (.+)$", re.DOTALL)
_MATHEMATICS = re.compile(
    r"[·√Σ/^()|⌈⌊²ˣ~&]|\w\[| (?:[=+<>≥≤-]|<<|>>) |^-x|\b(?:sin|cos|tan|ln|erf|a?sinh|a?cosh|a?tanh|asin|acos|atan)\b"
)
_PROSE = re.compile(r"(?:the|its|halves|each|a [a-z]+|\w+, the) ")


def sentences(cls: Operator) -> list[list[str]]:
    """The sentences of each paragraph."""
    paragraphs = cls.own_words().split("\n\n")
    return [_SENTENCE.split(" ".join(paragraph.split())) for paragraph in paragraphs]


def summary(cls: Operator) -> str:
    """The first sentence."""
    return sentences(cls)[0][0]


def formula(cls: Operator) -> str:
    """The formula in the first sentence that has one; "" where words say it all."""
    for sentence in (one for paragraph in sentences(cls) for one in paragraph):
        clause = _CLAUSE.search(sentence.removesuffix("."))
        text = clause[1] if clause else sentence.removesuffix(".")
        is_whole = clause is not None or re.match(r"\w+(\[[^\]]*\])? = |x/|Scale·x", text)
        if is_whole and _MATHEMATICS.search(text) and not _PROSE.match(text):
            return text
    return ""


def is_left_open(sentence: str) -> bool:
    """Whether a sentence tells what holds here where the documents say nothing, or contradict themselves."""
    return "documents" in sentence
