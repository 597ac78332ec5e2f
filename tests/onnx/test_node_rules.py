"""What is wrong with a node is told at load, with the node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node("Slice", "x s e a", "y", name="n"), r"node 'n' \(Slice\): starts, ends, axes and steps must be as many"),
        (node("Slice", "x p p axes2", "y", name="n"), r"axes must name each axis once; got \[0, -2\]"),
        (node("Slice", "x s e a z", "y", name="n"), r"steps\[0\] must not be 0"),
        (node("Gather", "x p", "y", axis=2), r"node of 'y' \(Gather\): axis must lie in -2 .. 1; got 2"),
        (
            node("Gather", "x nine", "y", name="g"),
            r"node 'g' \(Gather\): indices\[0\] = 9 is outside dimension 0 of size 4",
        ),
        (node("GatherND", "x nine", "y", name="g"), r"node 'g' \(GatherND\): indices\[0\] = 9 is outside dimension 0"),
        (node("Gather", "x four", "y"), r"indices\[1\] = 4 is outside dimension 0 of size 4; take -4 .. 3"),
        (node("ReverseSequence", "x nines", "y"), r"sequence_lens must lie in 0 .. 4"),
        (node("GatherElements", "x nine", "y"), "indices must have 2 dimensions, as data has"),
        (node("Reshape", "x nine", "y"), r"shape must have the 16 elements of data, \(4, 4\); got \[9\]"),
        (node("Squeeze", "x p", "y"), "dimension 0 must be of size 1 to be left out; got 4"),
        (node("Transpose", "x", "y", perm=[0, 0]), "perm must name each of 0 .. 1 once"),
        (node("Expand", "x nine", "y"), r"shape must be one that \(4, 4\) can be broadcast to; got \[9\]"),
        (node("Concat", "x p", "y", axis=0), r"inputs\[1\] must be of FLOAT, as inputs\[0\] is; got INT64"),
        (node("Split", "x p", "y w"), r"split must have sizes that add up to 4; got \[0, 1\]"),
        (node("CumSum", "x p", "y"), "axis must be one number; got 2"),
        (node("Flatten", "x", "y", axis=3), "axis must lie in -2 .. 2; got 3"),
        (node("ReverseSequence", "x p", "y"), r"sequence_lens must have the shape \(4,\)"),
        (node("Range", "nine nine z", "y"), "delta must not be 0; got 0"),
        (node("Range", "f nan f", "y"), "must be finite, and delta not 0; got 1.0, nan, 1.0"),
        (node("BitShift", "u u", "y", direction="\x1b[31m"), r"must be LEFT or RIGHT; got '\\x1b\[31m'$"),
        (node("Einsum", "x", "y", equation="\x1b[31m"), r"letters, as many .*; got '\\x1b\[31m'$"),
        (node("Einsum", "x", "y", equation="i" * 9999), "; got 'i{118}…$"),
        (node("Einsum", "x", "y", equation="...i..."), "or have one ellipsis; got '...i...'$"),
        (node("Einsum", "x", "y", equation="ij->...i...j"), "each once, and so must the ellipsis; got '...i...j'$"),
        (node("Einsum", "row", "y", equation="ii->i"), "must have one size: i has 1 and 4; got 4$"),
        (node("QuantizeLinear", "x row", "y", block_size=-4), "block_size must be at least 0; got -4$"),
        (node("Slice", "x", "y"), r"node of 'y' \(Slice\): a Slice must have 3 .. 5 inputs; got 1"),
        (node("Gather", "x p", "y", axis=1.5), "axis must be of INT; got FLOAT"),
        (node("Gather", "x p", "y", side=1), "a Gather has no attribute 'side'; it has axis"),
    ],
)
def test_what_is_wrong_with_a_node_is_told_at_load(wrong: Any, message: str) -> None:
    constants = {
        "s": np.array([0]),
        "e": np.array([1, 2]),
        "a": np.array([0, 1]),
        "axes2": np.array([0, -2]),
        "p": np.array([0, 1]),
        "z": np.array([0]),
        "nine": np.array([9]),
        "nines": np.array([4, 0, 1, 5]),
        "four": np.array([-4, 4]),
        "row": np.ones((1, 4), "f"),
        "f": np.array(1, "f"),
        "u": np.array([1], "uint8"),
        "nan": np.array(np.nan, "f"),
    }
    if "z" in wrong.input and wrong.op_type == "Slice":
        constants |= {"e": np.array([1]), "a": np.array([0])}
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(model(wrong, {"x": ("float32", [4, 4])}, "y", constants, opset=21))


@pytest.mark.parametrize(
    ("shapes", "heads", "message"),
    [
        (
            ["q 2 3 32", "k 2 5 32", "v 2 5 32"],
            {},
            "q_num_heads must be given for 3 dimensions, .* 32, a multiple .* 0$",
        ),
        (["q 2 3 32", "k 2 5 30", "v 2 5 30"], {"q_num_heads": 4, "kv_num_heads": 4}, "kv_num_heads must .* 30, a mul"),
        (
            ["q 2 4 3 8", "k 2 3 5 8", "v 2 3 5 8"],
            {},
            "the heads of Q must be a multiple of those of K and V, 3; got 4",
        ),
        (["q 2 4 3 8", "k 2 4 5 8", "v 2 2 5 8"], {}, r"V must have as many heads as K, 4; got \(2, 2, 5, 8\)"),
        (["q 2 4 3 8", "k 2 4 5 8", "v 2 4 6 8"], {}, r"V must have the length of K, 5; got \(2, 4, 6, 8\)"),
        (["q 3 8", "k 5 8", "v 5 8"], {}, r"Q, K and V must have 3 dimensions each, or 4 each; got \(3, 8\), \(5, 8\)"),
    ],
)
def test_heads_that_do_not_go_together(shapes: list[str], heads: dict[str, Any], message: str) -> None:
    inputs = {name: ("float32", [*map(int, sizes)]) for name, *sizes in map(str.split, shapes)}
    with pytest.raises(dml.DmlError, match=rf"node of 'y' \(Attention\): {message}"):
        dml.onnx.load(model(node("Attention", "q k v", "y", **heads), inputs, opset=23))


def test_types_that_an_operator_lacks_are_refused_with_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX refuses UINT8 itself; of a node type whose rules onnx does not know, DirectML is asked."""
    monkeypatch.setattr("anydml.onnx.signatures.node_rules", lambda *_: None)
    proto = model(node("CumSum", "x a", "y", name="sums"), {"x": ("uint8", [3])}, "y", {"a": np.array(0)})
    with pytest.raises(dml.UnsupportedError, match=r"node 'sums' \(CumSum\): CUMULATIVE_SUMMATION: .* got UINT8"):
        dml.onnx.load(proto, strict=True)


def test_a_level_that_lacks_an_operator_is_told_with_the_node() -> None:
    proto = model(node("CumSum", "x a", "y", name="sums"), {"x": ("int64", [1, 1, 2, 3])}, "y", {"a": np.array(3)})
    with pytest.raises(dml.FeatureLevelError, match=r"node 'sums' \(CumSum\): .* needs DML_FEATURE_LEVEL_5_0"):
        dml.onnx.load(proto, device=dml.Device(feature_level="4_0"))
