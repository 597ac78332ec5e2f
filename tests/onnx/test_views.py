"""Nodes that cost no pass: what a shape is computed from, views, constants and indices that are known."""

from __future__ import annotations

import numpy as np
import pytest

import anydml as dml
from onnx_answers import assert_same
from onnx_models import model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


def test_large_fills_are_nodes_and_small_ones_constants() -> None:
    for count, note in ((5, "folded"), (100_000, "folded"), (2_000_000, "")):
        proto = model(
            node("ConstantOfShape", "n", "y", value=onnx.numpy_helper.from_array(np.array([7], "uint16"))),
            {},
            "y",
            {"n": np.array([count])},
        )
        found = dml.onnx.load(proto, device="reference")()
        assert found.dtype == "uint16"
        assert found.tolist() == [7] * count
        (record,) = dml.onnx.check(proto).nodes
        assert record.note == note
        assert [type(desc) for desc in record.descs] == ([] if note else [dml.FillValueConstant])


def test_a_shape_that_is_computed_is_static() -> None:
    """Shape, Gather, Concat and Reshape cost nothing at a run: the model is a view of its input."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n minus", "t", axis=0),
        node("Reshape", "x t", "r"),
        node("Slice", "r zero n", "y"),
    ]
    constants = {"zero": np.array([0]), "minus": np.array([-1])}
    proto = model(nodes, {"x": ("float32", [2, 3, 4])}, "y", constants, dtypes={"y": "float32"})
    found = dml.onnx.check(proto)
    assert [record.note for record in found.nodes] == [
        "folded",
        "folded",
        "folded",
        "a view, no pass",
        "a view, no pass",
    ]
    x = np.arange(24, dtype="float32").reshape(2, 3, 4)
    assert_same(proto, {"x": x})


def test_what_moves_nothing_is_no_pass() -> None:
    nodes = [
        node("Transpose", "x", "a", perm=[1, 0, 2]),
        node("Expand", "a one", "b"),
        node("Flatten", "b", "c", axis=3),
        node("Slice", "c zero end", "y"),
    ]
    constants = {"one": np.array([1]), "zero": np.array([0]), "end": np.array([2**63 - 1])}
    proto = model(nodes, {"x": ("float32", [1, 3, 2])}, "y", constants)
    found = dml.onnx.check(proto)
    assert [(record.note, record.descs) for record in found.nodes] == [("a view, no pass", ())] * 4
    assert dml.onnx.load(proto).outputs["y"].shape == (6, 1)


def test_indices_that_are_known_are_checked_once() -> None:
    for kind, attributes in (("Gather", {}), ("GatherND", {}), ("GatherElements", {"axis": 0})):
        indices = np.array([[1], [0]]) if kind == "GatherND" else np.array([1, 0])
        known = model(node(kind, "x i", "y", **attributes), {"x": ("float32", [2])}, "y", {"i": indices})
        given = model(node(kind, "x i", "y", **attributes), {"x": ("float32", [2]), "i": ("int64", indices.shape)})
        modes = [getattr(dml.onnx.check(proto).nodes[0].descs[0], "index_mode") for proto in (known, given)]  # noqa: B009 - the base has no such field
        assert modes == [dml.IndexMode.CLAMP, dml.IndexMode.RAISE]


def test_a_transpose_that_a_slice_reads_is_no_pass() -> None:
    nodes = [node("Transpose", "x", "t"), node("Slice", "t s e", "y")]
    proto = model(nodes, {"x": ("float32", [8, 8])}, "y", {"s": np.array([2]), "e": np.array([5])})
    loaded = dml.onnx.load(proto)
    (program,) = loaded._programs.values()
    assert program.compiled is not None
    assert len(program.compiled.recipe.steps) == 1
    x = np.arange(64, dtype="float32").reshape(8, 8)
    assert np.array_equal(loaded(x), x.T[2:5])


def test_more_than_eight_dimensions_are_reshaped_and_nothing_else() -> None:
    shape = (1, 2, 1, 2, 1, 2, 1, 2, 1)
    x = np.arange(16, dtype="float32").reshape(shape)
    proto = model(node("Squeeze", "x", "y"), {"x": ("float32", shape)})
    assert dml.onnx.load(proto)(x).shape == (2, 2, 2, 2)
    squeezed = model([node("Squeeze", "x", "s"), node("Transpose", "s", "y")], {"x": ("float32", shape)})
    assert np.array_equal(dml.onnx.load(squeezed)(x), x.squeeze().T)
    with pytest.raises(
        dml.UnsupportedError, match=r"node of 'y' \(Transpose\): a tensor must have at most 8 dimensions"
    ):
        dml.onnx.load(model(node("Transpose", "x", "y"), {"x": ("float32", shape)}), strict=True)
