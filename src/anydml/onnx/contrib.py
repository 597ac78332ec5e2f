"""Node types of ONNX Runtime's own that models carry: what they take, as ONNX would say it.

A type of another domain than ONNX's is called by both names, `com.microsoft.MatMulNBits`.
"""

from __future__ import annotations

from typing import NamedTuple

_FLOATS = ("tensor(float)", "tensor(float16)")
_BYTES = ("tensor(uint8)",)
TYPES = {
    "T": _FLOATS,
    "T1": _BYTES,
    "T2": (*_BYTES, *_FLOATS),
    "T3": ("tensor(int32)",),
    "U": ("tensor(float)",),
}
"""By a type variable, what it may be."""


class Contrib(NamedTuple):
    """A node type."""

    inputs: str
    """A name and a type variable each; with a question mark it may be left out."""
    outputs: str
    attributes: dict[str, int | float | None]
    """By name, the default; None for a whole number that must be given."""


_SKIP_OUTPUTS = "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?"
CONTRIB = {
    "SimplifiedLayerNormalization": Contrib(
        "X:T scale:T", "Y:T inv_std_var:U?", {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    ),
    "com.microsoft.SkipLayerNormalization": Contrib(
        "input:T skip:T gamma:T beta:T? bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.SkipSimplifiedLayerNormalization": Contrib(
        "input:T skip:T gamma:T bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.MatMulNBits": Contrib(
        "A:T B:T1 scales:T zero_points:T2? g_idx:T3? bias:T?",
        "Y:T",
        {"K": None, "N": None, "bits": 4, "block_size": None, "accuracy_level": 0},
    ),
}
