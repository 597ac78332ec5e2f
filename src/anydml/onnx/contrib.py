"""Node types of ONNX Runtime's own that models carry: what they take, as ONNX would say it.

A type of another domain than ONNX's is called by both names, `com.microsoft.MatMulNBits`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import onnx
from onnx.defs import OpSchema

_FLOATS = ("tensor(float)", "tensor(float16)")
_BYTES = ("tensor(uint8)",)
_TYPES = {
    "T": _FLOATS,
    "T1": _BYTES,
    "T2": (*_BYTES, *_FLOATS),
    "T3": ("tensor(int32)",),
    "U": ("tensor(float)",),
}
"""By a type variable, what it may be."""


class _Contrib(NamedTuple):
    inputs: str
    """A name and a type variable each; with a question mark it may be left out."""
    outputs: str
    attributes: dict[str, int | float | None]
    """By name, the default; None for a whole number that must be given."""


_SKIP_OUTPUTS = "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?"
_CONTRIB = {
    "SimplifiedLayerNormalization": _Contrib(
        "X:T scale:T", "Y:T inv_std_var:U?", {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    ),
    "com.microsoft.SkipLayerNormalization": _Contrib(
        "input:T skip:T gamma:T beta:T? bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.SkipSimplifiedLayerNormalization": _Contrib(
        "input:T skip:T gamma:T bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.MatMulNBits": _Contrib(
        "A:T B:T1 scales:T zero_points:T2? g_idx:T3? bias:T?",
        "Y:T",
        {"K": None, "N": None, "bits": 4, "block_size": None, "accuracy_level": 0},
    ),
}
KINDS = tuple(_CONTRIB)


@functools.cache
def contrib_schema(kind: str) -> Any:
    """What a node type takes; None for one that is not known here."""
    if (found := _CONTRIB.get(kind)) is None:
        return None
    domain, _, name = kind.rpartition(".")
    attributes = [_attribute(key, default) for key, default in found.attributes.items()]
    used = {text.rstrip("?").partition(":")[2] for text in f"{found.inputs} {found.outputs}".split()}
    return OpSchema(
        name,
        domain,
        1,
        inputs=[_parameter(text) for text in found.inputs.split()],
        outputs=[_parameter(text) for text in found.outputs.split()],
        type_constraints=[(variable, list(_TYPES[variable]), "") for variable in sorted(used)],
        attributes=attributes,
    )


def _parameter(text: str) -> Any:
    name, _, variable = text.rstrip("?").partition(":")
    options = OpSchema.FormalParameterOption
    option = options.Optional if text.endswith("?") else options.Single
    return OpSchema.FormalParameter(name, variable, param_option=option)


def _attribute(name: str, default: float | None) -> Any:
    if default is None:
        return OpSchema.Attribute(name, OpSchema.AttrType.INT, required=True)
    return OpSchema.Attribute(name, default_value=onnx.helper.make_attribute(name, default))
