"""Nodes that ONNX has no answer for are refused, with the node, the input or the attribute, the rule and the value."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import helper, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from onnx_models import model, node

if TYPE_CHECKING:
    from collections.abc import Iterator

F32 = np.float32
MICROSOFT = "com.microsoft"
ONE = np.array(1, np.uint8)


def _ones(*shape: int) -> Any:
    return np.ones(shape, F32)


def _whole(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _words(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def _model(kind: str, inputs: dict[str, Any], attributes: dict[str, Any], known: tuple[str, ...] = ()) -> Any:
    """A node, and what it is fed: all inputs but those that are known; None stands for one that is left out."""
    attributes = dict(attributes)
    opset, outputs = attributes.pop("opset", 21), attributes.pop("outputs", 1)
    domain, _, name = kind.rpartition(".")
    names = [name if value is not None else "" for name, value in inputs.items()]
    made = helper.make_node(name, names, [f"y{i}" for i in range(outputs)], domain=domain, name="n", **attributes)
    fed = {name: value for name, value in inputs.items() if value is not None and name not in known}
    graph = helper.make_graph(
        [made],
        "graph",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in fed.items()
        ],
        [helper.make_empty_tensor_value_info(name) for name in made.output],
        [onnx.numpy_helper.from_array(inputs[name], name) for name in known],
    )
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), fed


def _answer(kind: str, inputs: dict[str, Any], attributes: dict[str, Any], known: tuple[str, ...] = ()) -> Any:
    proto, fed = _model(kind, inputs, attributes, known)
    return dml.onnx.load(proto, device="reference").run(fed)


UNPOOL = {"X": _ones(1, 1, 2, 2), "I": _whole(0, 2, 8, 10).reshape(1, 1, 2, 2)}
REGIONS = {"X": _ones(2, 1, 4, 4), "rois": np.array([[0, 0, 3, 3], [1, 1, 2, 2]], F32), "batch_indices": _whole(0, 1)}
POOLED = {"X": _ones(2, 1, 4, 4), "rois": np.array([[0, 0, 0, 3, 3], [1, 1, 1, 2, 2]], F32)}
FILTERED = {"X": _ones(1, 1, 4, 4), "W": _ones(1, 1, 3, 3)}
FRAMES = {"signal": _ones(1, 128, 1), "frame_step": np.array(8), "window": None, "frame_length": np.array(16)}
CHOSEN = {"indices": _whole(0, 2), "depth": np.array(3), "values": np.array([0, 1], F32)}
SCATTERED = {"past_cache": _ones(2, 1, 4, 2), "update": _ones(2, 1, 2, 2), "write_indices": _whole(0, 2)}
SKIPPED = {"input": _ones(2, 3, 8), "skip": _ones(2, 3, 8), "gamma": _ones(8), "beta": _ones(8), "bias": _ones(8)}
BLOCKS = {"A": _ones(3, 32), "B": np.ones((4, 2, 8), np.uint8), "scales": _ones(8), "zero_points": np.ones(4, np.uint8)}
GROUPED = {
    "query": _ones(1, 1, 16), "key": _ones(1, 1, 8), "value": _ones(1, 1, 8), "past_key": _ones(1, 1, 4, 8),
    "past_value": _ones(1, 1, 4, 8), "seqlens_k": _words(4), "total_sequence_length": np.array(5, np.int32),
}  # fmt: skip
PROMPT = GROUPED | {
    "query": _ones(1, 4, 16), "key": _ones(1, 4, 8), "value": _ones(1, 4, 8), "past_key": None, "past_value": None,
    "seqlens_k": _words(3), "total_sequence_length": np.array(4, np.int32),
}  # fmt: skip
LOSS = {"input": _ones(3, 5, 2), "target": np.ones((3, 2), np.int64), "weight": _ones(5)}
TURNED = {
    "X": _ones(1, 2, 3, 4),
    "cos_cache": _ones(8, 2),
    "sin_cache": _ones(8, 2),
    "position_ids": _whole(0, 1, 2)[None],
}
NODES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "MaxUnpool": (UNPOOL, {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "RoiAlign": (REGIONS, {"output_height": 2, "output_width": 2}),
    "MaxRoiPool": (POOLED, {"pooled_shape": [2, 2]}),
    "Conv": (FILTERED, {"kernel_shape": [3, 3]}),
    "ConvTranspose": (FILTERED, {}),
    "STFT": (FRAMES, {}),
    "MaxPool": ({"X": _ones(1, 1, 4, 4)}, {"kernel_shape": [2, 2], "outputs": 2}),
    "OneHot": (CHOSEN, {}),
    "TensorScatter": (SCATTERED, {"opset": 24}),
    f"{MICROSOFT}.SkipLayerNormalization": (SKIPPED, {}),
    f"{MICROSOFT}.MatMulNBits": (BLOCKS, {"K": 32, "N": 4, "bits": 4, "block_size": 16}),
    f"{MICROSOFT}.GroupQueryAttention": (GROUPED, {"num_heads": 2, "kv_num_heads": 1, "outputs": 3}),
    "NegativeLogLikelihoodLoss": (LOSS, {}),
    "SoftmaxCrossEntropyLoss": (LOSS, {}),
    "RotaryEmbedding": (TURNED, {"opset": 23}),
    "Split": ({"input": _ones(4), "split": _whole(2, 2)}, {"outputs": 2}),
    "GlobalAveragePool": ({"X": _ones(1, 2, 3)}, {}),
    "LayerNormalization": ({"X": _ones(2, 3), "Scale": _ones(3)}, {}),
    "CumSum": ({"x": _ones(3), "axis": np.array(0)}, {}),
    "QLinearMatMul": (
        {"a": np.ones((2, 3), np.uint8), "a_scale": _ones(), "a_zero": ONE, "b": np.ones((3, 2), np.uint8),
         "b_scale": _ones(), "b_zero": ONE, "y_scale": _ones(), "y_zero": ONE}, {},
    ),
    "AffineGrid": ({"theta": _ones(1, 2, 3), "size": _whole(1, 1, 4, 4)}, {}),
}  # fmt: skip
"""Nodes that are right, and then each with one thing changed."""


@pytest.mark.parametrize("kind", NODES)
def test_a_node_that_is_right_has_an_answer(kind: str) -> None:
    assert _answer(kind, *NODES[kind])


def _at(array: Any, place: Any, number: Any) -> Any:
    found = array.copy()
    found[place] = number
    return found


GQA, NBITS, SKIP = (f"{MICROSOFT}.{kind}" for kind in ("GroupQueryAttention", "MatMulNBits", "SkipLayerNormalization"))
WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("MaxUnpool", {"I": UNPOOL["I"] + 6}, r"I must lie in 0 \.\. 15, .* got 16"),
    ("MaxUnpool", {"I": -UNPOOL["I"]}, "I must lie in .* got -2"),
    ("MaxUnpool", {"I": UNPOOL["I"].reshape(1, 1, 4)}, r"shape \(1, 1, 2, 2\), that of X; got \(1, 1, 4\)"),
    ("MaxUnpool", {"I": UNPOOL["I"][..., :1, :1]}, "I must have the shape .*, that of X"),
    ("MaxUnpool", {"output_shape": _whole(2, 2, 4, 4)}, "output_shape must be .* of its batch and channels; got"),
    ("RoiAlign", {"batch_indices": _whole(0, 2)}, r"batch_indices must lie in 0 \.\. 1; got 2"),
    ("RoiAlign", {"batch_indices": _whole(-1, 0)}, r"batch_indices must lie in 0 \.\. 1; got -1"),
    ("RoiAlign", {"batch_indices": _whole(0, 2), "mode": "max"}, r"batch_indices must lie in 0 \.\. 1; got 2"),
    ("RoiAlign", {"rois": _at(REGIONS["rois"], (1, 2), np.nan)}, "rois must be finite numbers"),
    ("RoiAlign", {"rois": _at(REGIONS["rois"], (0, 0), np.inf), "mode": "max"}, "rois must be finite numbers"),
    ("MaxRoiPool", {"rois": _at(POOLED["rois"], (1, 0), 2)}, r"rois must begin with .* images, 0 \.\. 1; got 2"),
    ("MaxRoiPool", {"rois": _at(POOLED["rois"], (1, 0), np.nan)}, "rois must begin with the numbers of images"),
    ("Conv", {"kernel_shape": [3]}, r"kernel_shape must be that of the weights, \[3, 3\]; got \[3\]"),
    ("Conv", {"kernel_shape": [2, 3]}, "kernel_shape must be that of the weights"),
    ("Conv", {"pads": helper.make_attribute("pads", [], attr_type=7)}, "pads must be 4 numbers"),
    ("Conv", {"pads": [1, 1, 1, 1], "auto_pad": "SAME_UPPER"}, "pads must be left out with an auto_pad of SAME_UPPER"),
    ("ConvTranspose", {"kernel_shape": [3, 3, 3]}, "kernel_shape must be that of the weights"),
    ("ConvTranspose", {"output_shape": [6, 0]}, r"output_shape must be 2 numbers of at least 1, .* got \[6, 0\]"),
    ("ConvTranspose", {"output_shape": [1, 1, 6, 6]}, "output_shape must be 2 numbers"),
    ("ConvTranspose", {"pads": [3, 3, 3, 3]}, r"pads must leave an element of the result .* got \[0, 0\]"),
    ("ConvTranspose", {"group": 0}, "W must have .* a group of 0"),
    ("STFT", {"frame_step": np.array(0)}, "frame_step must be one number in .* got 0"),
    ("STFT", {"frame_length": np.array(0)}, "frame_length must be one number in .* got 0"),
    ("MaxPool", {"storage_order": 2}, "storage_order must be 0 or 1; got 2"),
    ("MaxPool", {"ceil_mode": -1}, "ceil_mode must be 0 or 1; got -1"),
    ("OneHot", {"indices": np.array(1)}, r"indices must have at least 1 dimension; got \(\)"),
    ("OneHot", {"depth": np.array(np.nan, F32)}, r"depth must be finite numbers; got \[nan\]"),
    ("TensorScatter", {"write_indices": _whole(0, 3)}, r"write_indices must lie in 0 \.\. 2; got 3"),
    ("TensorScatter", {"write_indices": _whole(-1, 0)}, r"write_indices must lie in 0 \.\. 2; got -1"),
    ("TensorScatter", {"write_indices": _whole(-1, 0), "mode": "circular"}, "write_indices is below 0 .* got -1"),
    ("TensorScatter", {"update": _ones(2, 1, 5, 2), "mode": "circular"}, "update must have past_cache's sizes"),
    ("TensorScatter", {"update": _ones(2, 1, 2, 1)}, "update must have past_cache's sizes"),
    ("TensorScatter", {"update": _ones(3, 1, 2, 2)}, "update must have past_cache's sizes"),
    (SKIP, {"gamma": _ones(1)}, r"gamma must have the shape \(8,\), .* got \(1,\)"),
    (SKIP, {"beta": _ones(3, 8)}, "beta must have the shape"),
    (SKIP, {"bias": _ones(1)}, "bias must have the shape"),
    (SKIP, {"skip": _ones(8)}, r"skip be of its sizes, \(2, 3, 8\), .* got \(2, 3, 8\) and \(8,\)"),
    (SKIP, {"skip": _ones(2, 1, 8)}, "skip be of its sizes"),
    (NBITS, {"block_size": 24}, "block_size must be a power of two from 16 on"),
    (NBITS, {"B": np.ones((4, 16), np.uint8)}, r"B must have the shape \(4, 2, 8\), .* got \(4, 16\)"),
    (NBITS, {"scales": _ones(2, 4)}, r"scales must have the shape \(8,\) or \(4, 2\)"),
    (NBITS, {"zero_points": np.ones(8, np.uint8)}, r"zero_points must have the shape \(4,\) or \(4, 1\)"),
    (NBITS, {"zero_points": _ones(4)}, r"zero_points must have the shape \(8,\) or \(4, 2\)"),
    (NBITS, {"g_idx": None, "bias": _ones(1)}, r"bias must have the shape \(4,\)"),
    (GQA, {"seqlens_k": _words(5)}, r"seqlens_k must lie in 0 \.\. 4; got 5"),
    (GQA, {"seqlens_k": _words(-1)}, r"seqlens_k must lie in 0 \.\. 4; got -1"),
    (GQA, {"seqlens_k": _words(4, 4)}, r"seqlens_k must have the shape \(1,\)"),
    (GQA, {"total_sequence_length": np.array(9, np.int32)}, r"total_sequence_length must be 5, the 4 keys"),
    (GQA, {"total_sequence_length": np.array(0, np.int32)}, "must be 5, the 4 keys .* from 1 to 4"),
    (GQA, PROMPT | {"total_sequence_length": np.array(6, np.int32)}, r"must be 4, the 0 keys of .*; got \[6\]"),
    (GQA, PROMPT | {"total_sequence_length": np.array(3, np.int32)}, r"must be 4, the 0 keys of .*; got \[3\]"),
    (GQA, PROMPT | {"seqlens_k": _words(4)}, r"seqlens_k must lie in 0 \.\. 3; got 4"),
    (GQA, {"query": _ones(1, 2, 16), "key": _ones(1, 2, 8), "value": _ones(1, 2, 8), "seqlens_k": _words(0),
           "total_sequence_length": np.array(6, np.int32)}, r"the length of the past, must lie in 0 \.\. 4; got -1"),
    (GQA, {"past_value": None}, "past_key and past_value must both be given"),
    (GQA, {"past_value": _ones(1, 1, 3, 8)}, "past_key and past_value must .* equally long"),
    (GQA, {"value": None}, "value must be given beside key"),
    (GQA, {"cos_cache": _ones(9, 4), "sin_cache": _ones(8, 4), "do_rotary": 1}, "sin_cache must have one shape"),
    ("RotaryEmbedding", {"sin_cache": _ones(7, 2)}, "cos_cache and sin_cache must have one shape"),
    ("NegativeLogLikelihoodLoss", {"target": np.ones((3, 1), np.int64)}, r"\(3, 5, 2\) and \(3, 1\)"),
    ("SoftmaxCrossEntropyLoss", {"target": np.ones((2, 2), np.int64)}, r"\(3, 5, 2\) and \(2, 2\)"),
    ("SoftmaxCrossEntropyLoss", {"weight": _ones(4)}, r"weights must have the shape \(5,\)"),
    ("Split", {"num_outputs": 2}, "split or num_outputs must be given, and not both"),
    ("Split", {"split": None}, "split or num_outputs must be given, and not both"),
    ("GlobalAveragePool", {"X": _ones(4)}, r"X must have at least 3 dimensions; got \(4,\)"),
    ("LayerNormalization", {"stash_type": 7}, "stash_type must be the number of a type of floats"),
    ("CumSum", {"exclusive": 2}, "exclusive must be 0 or 1; got 2"),
    ("QLinearMatMul", {"a": np.ones((), np.uint8)}, "a product needs vectors or matrices"),
    ("AffineGrid", {"size": _whole(1, 1, 2**31 - 1, 2**31 - 1)}, "memory must be at most .* the places of AffineGrid"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "changes", "message"), WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("is_known", [False, True], ids=["fed", "known"])
def test_a_node_that_is_wrong_is_refused(kind: str, changes: dict[str, Any], message: str, is_known: bool) -> None:
    """Whether what is wrong is a constant of the model, or comes with a run."""
    inputs, attributes = (dict(part) for part in NODES[kind])
    for name, value in changes.items():
        is_input = value is None or isinstance(value, np.ndarray)
        (inputs if is_input else attributes)[name] = value
    if "cos_cache" in changes and kind == GQA:  # which are the inputs behind the others
        order = [*GROUPED, "cos_cache", "sin_cache"]
        inputs = {name: inputs[name] for name in order}
    empty = {name: value for name, value in attributes.items() if isinstance(value, onnx.AttributeProto)}
    attributes = {name: value for name, value in attributes.items() if name not in empty}
    known = tuple(name for name in changes if is_known and isinstance(changes[name], np.ndarray))
    proto, fed = _model(kind, inputs, attributes, known)
    proto.graph.node[0].attribute.extend(empty.values())
    with pytest.raises(dml.DmlError, match=rf"node 'n' \({kind}\): .*{message}"):
        dml.onnx.load(proto, device="reference").run(fed)


@pytest.mark.parametrize("lengths", [np.array([2.7, 1.3], F32), np.array(np.nan, F32), np.array([True, True])])
def test_lengths_of_a_sequences_parts_are_whole_numbers(lengths: Any) -> None:
    proto, fed = _model("SplitToSequence", {"x": _ones(4, 2), "split": lengths}, {})
    with pytest.raises(dml.ModelError, match=r"node 'n' \(SplitToSequence\): split must be whole numbers; got"):
        dml.onnx.load(proto, device="reference").run(fed)


# Changed at random

BYTES = np.ones((2, 3), np.uint8)
LAYER = {"X": _ones(3, 2, 4), "B": None, "sequence_lens": _words(3, 2)}


def _layer(gates: int) -> tuple[dict[str, Any], dict[str, Any]]:
    weights = {"W": _ones(1, gates * 5, 4), "R": _ones(1, gates * 5, 5)}
    return {"X": LAYER["X"], **weights, "B": None, "sequence_lens": LAYER["sequence_lens"]}, {"hidden_size": 5}


OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "ArgMax": ({"data": _ones(2, 3)}, {"axis": 1, "keepdims": 0}),
    "AveragePool": ({"X": _ones(1, 1, 4, 4)}, {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [0, 0, 1, 1]}),
    "BatchNormalization": ({"X": _ones(2, 3, 4), **dict.fromkeys(("s", "b", "m", "v"), _ones(3))}, {"epsilon": 1e-5}),
    "CenterCropPad": ({"x": _ones(4, 5), "shape": _whole(3, 6)}, {"axes": [0, 1]}),
    "Clip": ({"x": _ones(3), "min": _ones(), "max": _ones()}, {}),
    "Col2Im": ({"x": _ones(1, 4, 9), "image": _whole(4, 4), "block": _whole(2, 2)}, {"strides": [1, 1]}),
    "Compress": ({"x": _ones(2, 3), "condition": np.array([True, False])}, {"axis": 0}),
    "Concat": ({"a": _ones(2, 3), "b": _ones(2, 1)}, {"axis": 1}),
    "ConstantOfShape": ({"shape": _whole(2, 3)}, {}),
    "ConvInteger": ({"x": np.ones((1, 1, 4, 4), np.uint8), "w": np.ones((1, 1, 3, 3), np.uint8), "z": BYTES[0, 0]}, {}),
    "DepthToSpace": ({"x": _ones(1, 8, 2, 2)}, {"blocksize": 2, "mode": "DCR"}),
    "DequantizeLinear": ({"x": BYTES, "s": _ones(3), "z": BYTES[0]}, {"axis": 1}),
    "Einsum": ({"a": _ones(2, 3), "b": _ones(3, 4)}, {"equation": "ij,jk->ik"}),
    "Expand": ({"x": _ones(3, 1), "shape": _whole(2, 3, 4)}, {}),
    "EyeLike": ({"x": _ones(3, 4)}, {"k": 1}),
    "Flatten": ({"x": _ones(2, 3, 4)}, {"axis": 1}),
    "Gather": ({"x": _ones(3, 4), "i": _whole(0, 2)}, {"axis": 0}),
    "GatherElements": ({"x": _ones(3, 4), "i": np.zeros((3, 2), np.int64)}, {"axis": 1}),
    "GatherND": ({"x": _ones(2, 3, 4), "i": np.zeros((2, 1), np.int64)}, {"batch_dims": 1}),
    "Gemm": ({"a": _ones(2, 3), "b": _ones(3, 4), "c": _ones(4)}, {"alpha": 0.5, "transA": 0}),
    "GridSample": ({"x": _ones(1, 1, 3, 3), "grid": _ones(1, 2, 2, 2)}, {"mode": "linear", "align_corners": 1}),
    "GroupNormalization": ({"x": _ones(2, 4, 3), "s": _ones(4), "b": _ones(4)}, {"num_groups": 2}),
    "GRU": _layer(3),
    "InstanceNormalization": ({"x": _ones(2, 3, 4), "s": _ones(3), "b": _ones(3)}, {}),
    "LpPool": ({"X": _ones(1, 1, 4, 4)}, {"kernel_shape": [2, 2], "p": 3}),
    "LRN": ({"X": _ones(1, 4, 3, 3)}, {"size": 3}),
    "LSTM": _layer(4),
    "MatMul": ({"a": _ones(2, 2, 3), "b": _ones(3, 4)}, {}),
    "MatMulInteger": ({"a": BYTES, "b": BYTES.T.copy(), "za": BYTES[0, 0], "zb": BYTES[0, 0]}, {}),
    "OneHot": NODES["OneHot"],
    "Pad": ({"x": _ones(2, 3), "pads": _whole(1, 0, 0, 1), "v": _ones(), "axes": _whole(0, 1)}, {"mode": "constant"}),
    "QuantizeLinear": ({"x": _ones(2, 3), "s": _ones(3), "z": BYTES[0]}, {"axis": 1}),
    "Range": ({"a": np.array(0), "b": np.array(5), "c": np.array(2)}, {}),
    "ReduceSum": ({"x": _ones(2, 3), "axes": _whole(1)}, {"keepdims": 1}),
    "Reshape": ({"x": _ones(2, 3), "shape": _whole(3, -1)}, {"allowzero": 0}),
    "ReverseSequence": ({"x": _ones(3, 2), "lens": _whole(3, 1)}, {"time_axis": 0, "batch_axis": 1}),
    "RNN": _layer(1),
    "ScatterElements": ({"x": _ones(3, 4), "i": np.zeros((3, 2), np.int64), "u": _ones(3, 2)}, {"axis": 1}),
    "ScatterND": ({"x": _ones(3, 4), "i": _whole(0, 2)[:, None], "u": _ones(2, 4)}, {}),
    "Slice": ({"x": _ones(4, 4), "s": _whole(1), "e": _whole(3), "a": _whole(0), "t": _whole(1)}, {}),
    "Softmax": ({"x": _ones(2, 3)}, {"axis": 1}),
    "Squeeze": ({"x": _ones(2, 1), "axes": _whole(1)}, {}),
    "Tile": ({"x": _ones(2, 3), "r": _whole(2, 1)}, {}),
    "TopK": ({"x": _ones(2, 3), "k": _whole(2)}, {"axis": 1, "outputs": 2}),
    "Transpose": ({"x": _ones(2, 3)}, {"perm": [1, 0]}),
    "Trilu": ({"x": _ones(2, 3), "k": np.array(1)}, {"upper": 1}),
    "Unsqueeze": ({"x": _ones(2, 3), "axes": _whole(0, 3)}, {}),
    "Where": ({"c": np.array([True, False, True]), "a": _ones(2, 3), "b": _ones(3)}, {}),
    f"{MICROSOFT}.BiasGelu": ({"a": _ones(2, 3), "b": _ones(3)}, {}),
    f"{MICROSOFT}.EmbedLayerNormalization": (
        {"ids": _words(0, 1)[None], "segments": _words(0, 0)[None], "w": _ones(4, 8), "p": _ones(4, 8),
         "s": _ones(2, 8), "gamma": _ones(8), "beta": _ones(8)}, {"outputs": 2},
    ),
    f"{MICROSOFT}.MultiHeadAttention": (
        {"q": _ones(1, 3, 8), "k": _ones(1, 5, 8), "v": _ones(1, 5, 8)}, {"num_heads": 2},
    ),
    f"{MICROSOFT}.RotaryEmbedding": (
        {"x": _ones(2, 3, 8), "p": np.zeros((2, 3), np.int64), "cos": _ones(8, 2), "sin": _ones(8, 2)},
        {"num_heads": 2},
    ),
    f"{MICROSOFT}.MRotaryEmbedding": (
        {"x": _ones(2, 3, 8), "p": np.zeros((3, 2, 3), np.int64), "cos": _ones(8, 2), "sin": _ones(8, 2)},
        {"num_heads": 2, "mrope_section": [1, 1, 0]},
    ),
}  # fmt: skip
"""Node types besides, whose rules have tests of their own."""


def _changed(draw: random.Random, kind: str, inputs: dict[str, Any], attributes: dict[str, Any]) -> Any:
    """A model with one attribute of a node changed, or one of its inputs, which may be known; and what it is fed."""
    inputs, attributes = dict(inputs), dict(attributes)
    names = [name for name in attributes if name not in ("opset", "outputs")]
    if names and draw.random() < 0.35:
        name = draw.choice(names)
        value = attributes[name]
        if isinstance(value, list):
            place = draw.randrange(len(value))
            more = [1] * draw.randrange(2)
            attributes[name] = [*value[:place], draw.choice([0, -1, 2, 99]), *value[place + 1 :], *more]
        elif isinstance(value, int):
            attributes[name] = draw.choice([0, -1, 1, 2, 7, 99, -(2**63)])
        else:
            attributes[name] = (
                draw.choice(["", "odd"]) if isinstance(value, str) else draw.choice([0.0, np.nan, np.inf])
            )
    else:
        name = draw.choice([name for name, value in inputs.items() if value is not None])
        inputs[name] = draw.choice([*_others(draw, np.asarray(inputs[name])), None])
    known = tuple(name for name, x in inputs.items() if x is not None and x.dtype == np.int64 and draw.random() < 0.5)
    return _model(kind, inputs, attributes, known)


def _others(draw: random.Random, x: Any) -> Iterator[Any]:
    """An input of other numbers, of another rank, size or type."""
    if x.dtype.kind == "i" and x.size:
        found = x.copy()
        found.reshape(-1)[draw.randrange(x.size)] = draw.choice([-1, 0, 1, 99, -99, 127])
        yield found
    yield np.array(x.reshape(-1)[0] if x.size else 0, x.dtype)
    yield x[None]
    yield x.reshape(-1)
    for k in range(x.ndim):
        yield np.take(x, range(max(x.shape[k] - 1, 0)), k)
        yield np.concatenate([x, np.take(x, range(min(x.shape[k], 1)), k)], k)
        yield np.take(x, np.zeros(0, int), k)
    yield x.astype(F32 if x.dtype.kind in "iu" else np.int32)


@pytest.mark.long
def test_whatever_is_changed_in_a_node_is_computed_or_refused() -> None:
    """One attribute or input at a time: never another error than one of the family."""
    draw, nodes = random.Random(20), NODES | OTHERS  # noqa: S311 - the same ones in each run
    refused = 0
    for kind, (inputs, attributes) in nodes.items():
        _answer(kind, inputs, attributes)
        for _ in range(10):
            proto, fed = _changed(draw, kind, inputs, attributes)
            try:
                dml.onnx.load(proto, strict=kind != "STFT", device="reference").run(fed)
            except dml.DmlError:
                refused += 1
    assert refused > 2 * len(nodes)


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
