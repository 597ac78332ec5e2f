"""The words that people bring along from other libraries, for suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_OTHER_WORDS = {
    "AVERAGE": "mean avg",
    "BACKWARD": "back reverse reversed transposed transpose",
    "BIDIRECTIONAL": "both",
    "COLUMN_ROW_DEPTH": "crd",
    "CONSTANT": "zero zeros",
    "DECREASING": "down back backward backwards reverse reversed descending desc right_to_left",
    "DEPTH_COLUMN_ROW": "dcr",
    "EDGE": "replicate nearest border",
    "FLOAT32": "bfloat16 tfloat32 tf32 real",
    "HALVES_TO_NEAREST_EVEN": "even nearest round rint",
    "INCREASING": "up forward forwards ascending asc left_to_right",
    "LINEAR": "bilinear trilinear",
    "MULTIPLY": "prod product mul",
    "NEAREST_NEIGHBOR": "nearest",
    "REFLECTION": "reflect mirror",
    "TOWARD_ZERO": "trunc truncate",
    "TRANSPOSE": "t",
    "UINT8": "bool boolean byte",
    "WRAP": "circular periodic",
    "'clamp'": "clip",
    "'raise'": "error strict",
    "'cpu'": "host llvm",
    "'cuda'": "gpu nvidia dml directml dx12 d3d12 triton",
    "'reference'": "numpy oracle",
}
"""By the name that is meant, as errors write it."""


def meant_by(word: str, names: Iterable[str]) -> str | None:
    """The one of some names that a word of another library stands for."""
    word = word.strip().lower().replace("-", "_")
    return next((name for name in names if word in _OTHER_WORDS.get(name, "").split()), None)
