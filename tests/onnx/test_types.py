"""What ONNX says of a node's inputs and a model's names, and what follows for models that break it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from cases import ENGINES
from onnx_models import helper, model, node

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing


def test_names_that_look_numbered_do_not_stop_a_trace() -> None:
    x = np.arange(12, dtype="float32").reshape(3, 4)
    nodes = [
        node("Transpose", "x", "a", name="g"),
        node("Transpose", "a", "b", name="g #2"),
        node("Transpose", "b", "c", name="g"),
        node("Slice", "c s e", "y", name="g"),
    ]
    proto = model(nodes, {"x": ("float32", [3, 4])}, "y", {"s": np.array([0]), "e": np.array([2])})
    assert np.array_equal(dml.onnx.load(proto, device="reference")(x), x.T[:2])


def test_an_output_that_is_left_out_is_no_input() -> None:
    """Slice's axes are left out too: they are not the part of the split that nobody named."""
    nodes = [node("Split", "i", "- rest"), node("Slice", "x s e - t", "y")]
    constants = {"s": np.array([0]), "e": np.array([1]), "t": np.array([1])}
    proto = model(nodes, {"x": ("float32", [3, 4]), "i": ("int64", [2])}, "y rest", constants)
    x = np.arange(12, dtype="float32").reshape(3, 4)
    found = dml.onnx.load(proto, device="reference").run({"x": x, "i": np.array([1, 1])})
    assert np.array_equal(found["y"], x[:1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (node("Reshape", "x nan", "y", name="r"), r"node 'r' \(Reshape\): shape must be of INT64; got FLOAT"),
        (node("Slice", "x i reals", "y", name="s"), r"node 's' \(Slice\): ends must be of INT32 or INT64; got FLOAT"),
        (node("Slice", "x i i i i32", "y"), "steps must be of INT64, as starts is; got INT32"),
        (node("ReverseSequence", "x i32", "y"), "sequence_lens must be of INT64; got INT32"),
        (node("ReverseSequence", "x nan", "y"), "sequence_lens must be of INT64; got FLOAT"),
        (node("ReverseSequence", "x run32", "y"), "sequence_lens must be of INT64; got INT32"),
        (node("Range", "t t t", "y"), "start must be of FLOAT, DOUBLE, INT16, INT32 or INT64; got BOOL"),
        (node("Range", "i i nan", "y"), "delta must be of INT64, as start is; got FLOAT"),
        (node("Concat", "x x i", "y", axis=0), r"inputs\[2\] must be of FLOAT, as inputs\[0\] is; got INT64"),
        (node("Expand", "x square", "y"), r"shape must have 1 dimension; got \(1, 1\)"),
        (node("Slice", "x one one", "y"), r"starts must have 1 dimension; got \(\)"),
        (node("ConstantOfShape", "one", "y"), r"input must have 1 dimension; got \(\)"),
        (node("Gather", "x u8", "y"), "indices must be of INT32 or INT64; got UINT8"),
    ],
)
def test_inputs_are_of_the_types_and_ranks_that_onnx_allows(wrong: Any, message: str) -> None:
    constants = {
        "nan": np.array([np.nan], "float32"),
        "reals": np.array([1.7], "float32"),
        "i": np.array([1]),
        "one": np.array(1),
        "square": np.array([[1]]),
        "i32": np.array([1], "int32"),
        "u8": np.array([1], "uint8"),
        "t": np.array(True),
    }
    proto = model(wrong, {"x": ("float32", [1, 1]), "run32": ("int32", [1])}, "y", constants)
    with pytest.raises(dml.ModelError, match=message):
        dml.onnx.load(proto)
    (found,) = dml.onnx.check(proto).nodes
    assert found.error is not None


def test_types_that_a_later_opset_allows_are_refused_before_it() -> None:
    for opset, error in ((11, "x must be of .* FLOAT or DOUBLE; got FLOAT16"), (14, "")):
        proto = model(node("CumSum", "x a", "y"), {"x": ("float16", [3])}, "y", {"a": np.array(0)}, opset=opset)
        if error:
            with pytest.raises(dml.ModelError, match=error):
                dml.onnx.load(proto)
        else:
            assert dml.onnx.load(proto)(np.ones(3, "float16")).tolist() == [1, 2, 3]


def test_both_names_of_onnx_own_domain_are_the_same() -> None:
    for imported in ("", "ai.onnx"):
        proto = model(node("Transpose", "x", "y", domain="ai.onnx", name="t"), {"x": ("float32", [2, 1])})
        proto.opset_import[0].domain = imported
        assert dml.onnx.load(proto)(np.ones((2, 1), "float32")).shape == (1, 2)
        assert dml.onnx.check(proto).nodes[0].error is None
    proto = model(node("Transpose", "x", "y", domain="ai.onnx", side=1), {"x": ("float32", [2, 1])})
    with pytest.raises(dml.ModelFileError, match=r"node of 'y' \(Transpose\): a Transpose has no attribute 'side'"):
        dml.onnx.load(proto)


def test_no_tensor_has_more_than_64_dimensions() -> None:
    shapes = {"k": np.ones(3, "float32"), "to": np.array([3, *[1] * 69]), "back": np.array([3])}
    for nodes in (
        [node("Reshape", "k to", "y", name="wide")],
        [node("Expand", "k to", "y", name="wide")],
        [node("Unsqueeze", "k axes", "y", name="wide")],
        [node("Reshape", "x tall", "e", name="wide"), node("Cast", "e", "y", to=9)],
    ):
        more = {"tall": np.array([0, *[1] * 69]), "axes": np.arange(1, 70)}
        with pytest.raises(dml.UnsupportedError, match=r"node 'wide' .* must have at most (64|8) dimensions"):
            dml.onnx.load(model(nodes, {"x": ("float32", [0])}, "y", {**shapes, **more}), strict=True)
    shapes["to"] = np.array([3, *[1] * 63])
    proto = model([node("Reshape", "x to", "a"), node("Reshape", "a back", "y")], {"x": ("float32", [3])}, "y", shapes)
    assert dml.onnx.load(proto)(np.ones(3, "float32")).shape == (3,)


def test_large_constants_are_known_and_larger_ones_are_told() -> None:
    x = np.arange(6, dtype="float32")
    for limit, message in ((100_000, ""), (2_000_000, r"node 'r' \(Reshape\): shape .* more than 2\^20 = 1048576 el")):
        nodes = [
            node("Range", "zero limit one", "all"),
            node("Gather", "all at", "to"),
            node("Reshape", "x to", "y", name="r"),
        ]
        numbers = {"zero": np.array(0), "limit": np.array(limit), "one": np.array(1), "at": np.array([2, 3])}
        proto = model(nodes, {"x": ("float32", [6])}, "y", numbers)
        if message:
            with pytest.raises(dml.UnsupportedError, match=message):
                dml.onnx.load(proto, strict=True)
        else:
            assert dml.onnx.load(proto)(x).shape == (2, 3)
    nodes = [node("Cast", "k", "c", to=7), node("Slice", "c s e", "to"), node("Reshape", "x to", "y")]
    known = {"k": np.arange(70_000, dtype="int32"), "s": np.array([2]), "e": np.array([4])}
    assert dml.onnx.load(model(nodes, {"x": ("float32", [6])}, "y", known))(x).shape == (2, 3)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("where", ["known", "given", "computed"])
def test_lengths_lie_in_the_time_axis(engine: str, where: str) -> None:
    x = np.arange(12, dtype="float32").reshape(4, 3)
    turn = node("ReverseSequence", "x n", "y", name="turn")

    def run(lengths: list[int]) -> Any:
        given = np.array(lengths)
        if where == "known":
            return dml.onnx.load(model(turn, {"x": ("float32", [4, 3])}, "y", {"n": given}), device=engine)(x)
        nodes = [node("CumSum", "m zero", "n"), turn] if where == "computed" else [turn]
        inputs = {"x": ("float32", [4, 3]), "m" if where == "computed" else "n": ("int64", [3])}
        proto = model(nodes, inputs, "y", {"zero": np.array(0)} if where == "computed" else {})
        return dml.onnx.load(proto, device=engine)(x, np.diff(given, prepend=0) if where == "computed" else given)

    assert run([2, 4, 0]).T.tolist() == [[3, 0, 6, 9], [10, 7, 4, 1], [2, 5, 8, 11]]
    for lengths, wrong in (([2, 9, 1], 9), ([2, 1, -1], -1), ([5, 0, 0], 5), ([0, -(2**63), 0], -(2**63))):
        with pytest.raises(dml.ModelError) as caught:
            run(lengths)
        assert str(caught.value) == f"node 'turn' (ReverseSequence): sequence_lens must lie in 0 .. 4; got {wrong}"
        assert (caught.value.field, caught.value.value) == ("sequence_lens", wrong)


@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_written_where_a_length_is_refused(engine: str) -> None:
    nodes = [node("Transpose", "x", "t"), node("ReverseSequence", "x n", "y")]
    proto = model(nodes, {"x": ("float32", [4, 3]), "n": ("int64", [3])}, "t y")
    out = {"t": np.full((3, 4), 7, "float32"), "y": np.full((4, 3), 7, "float32")}
    with pytest.raises(dml.ModelError, match=r"sequence_lens must lie in 0 .. 4; got 5"):
        dml.onnx.load(proto, device=engine).run({"x": np.ones((4, 3), "float32"), "n": np.array([1, 5, 2])}, out=out)
    assert all((array == 7).all() for array in out.values())


def calling(opset: int, functions: dict[str, str], overload: str = "") -> Any:
    """A model of opset 17 that calls one of its own functions, which have a node each, by overload."""
    proto = model(node("Turn", "x", "y", domain="own", name="t"), {"x": ("float32", [2, 1])})
    proto.ir_version = 10
    proto.opset_import.add(domain="own", version=1)
    for name, kind in functions.items():
        own = [helper.make_opsetid("", opset)]
        function = helper.make_function("own", "Turn", ["a"], ["b"], [node(kind, "a", "b")], own)
        function.overload = name
        proto.functions.append(function)
    proto.graph.node[0].overload = overload
    return proto


def test_a_function_of_another_opset_says_so() -> None:
    message = r"own\.Turn is not supported: it is a function of opset 16 in a model of opset 17"
    with pytest.raises(dml.UnsupportedError, match=message):
        dml.onnx.load(calling(16, {"": "Transpose"}))
    (found,) = dml.onnx.check(calling(16, {"": "Transpose"})).nodes
    assert "a function of opset 16 in a model of opset 17" in str(found.error)


def test_functions_are_told_apart_by_their_overload() -> None:
    x = np.ones((2, 1), "float32")
    functions = {"over": "Transpose", "not": "Identity"}
    for overload, shape in (("over", (1, 2)), ("not", (2, 1))):
        assert dml.onnx.load(calling(17, functions, overload))(x).shape == shape
    through = calling(17, functions, "over")  # one overload calls another, which is not itself
    through.functions[0].node[0].CopyFrom(node("Turn", "a", "b", domain="own", overload="not"))
    through.functions[0].opset_import.add(domain="own", version=1)
    assert dml.onnx.load(through)(x).shape == (2, 1)
    with pytest.raises(dml.UnsupportedError, match=r"own\.Turn is not supported; `anydml support --onnx`"):
        dml.onnx.load(calling(17, functions, "neither"))


def test_a_model_of_calls_alone_must_have_an_opset() -> None:
    proto = calling(17, {"": "Transpose"})
    del proto.opset_import[0]
    with pytest.raises(dml.ModelFileError, match="opset_import must say which opset of ONNX's own operators"):
        dml.onnx.load(proto)
