"""What load refuses and says, and what the package is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from onnx_models import helper, model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from typing import Any

from cases import ENGINES

X = np.arange(16, dtype="float32").reshape(4, 4)


# What load refuses


def test_everything_that_is_not_supported_is_told_at_once() -> None:
    nodes = [
        node("Unique", "x", "a", name="r1"),
        node("Unique", "a", "b"),
        helper.make_node("Fused", ["b"], ["c"], domain="com.example"),
        node("Identity", "c", "y"),
    ]
    with pytest.raises(dml.UnsupportedError) as caught:
        dml.onnx.load(model(nodes, {"x": ("float32", [2])}), strict=True)
    message = str(caught.value)
    assert "node 'r1' (Unique) and 1 more: Unique is not supported" in message
    assert (
        "node of 'c' (com.example.Fused): com.example.Fused is not supported; `anydml support --onnx` lists the "
        in message
    )
    assert len(message) < 400
    assert [fault.value for fault in caught.value.faults] == [2, 1]


@pytest.mark.parametrize(
    ("number", "name"),
    [(8, "STRING"), (16, "BFLOAT16"), (14, "COMPLEX64"), (17, "FLOAT8E4M3FN"), (25, "UINT2"), (99, "element type 99")],
)
def test_types_that_directml_lacks_are_refused_by_name(number: int, name: str) -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])})
    proto.graph.input[0].type.tensor_type.elem_type = number
    with pytest.raises(dml.UnsupportedError, match=f"input 'x': DirectML has no {name}"):
        dml.onnx.load(proto, strict=True)


def test_an_output_is_of_the_type_that_it_is_declared_as() -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])}, dtypes={"y": "int64"})
    with pytest.raises(
        dml.ModelError, match=r"output 'y' must be of FLOAT, as the node that makes it has it; got INT64"
    ):
        dml.onnx.load(proto)


def test_kinds_that_directml_lacks_are_refused_by_name() -> None:
    proto = model(node("Identity", "x", "y"), {"x": ("float32", [2])})
    proto.graph.input[0].type.CopyFrom(helper.make_map_type_proto(1, helper.make_tensor_type_proto(1, [2])))
    with pytest.raises(dml.UnsupportedError, match="input 'x': DirectML has no maps"):
        dml.onnx.load(proto, strict=True)
    with pytest.raises(dml.UnsupportedError, match="value_string: DirectML has no STRING"):
        dml.onnx.load(model(node("Constant", "", "y", value_string="text"), {}), strict=True)


def test_a_models_own_functions_are_put_in_place() -> None:
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    body = [node("Transpose", "a", "b"), node("Transpose", "b", "c")]
    twice = helper.make_function("own", "Twice", ["a"], ["c"], body, opsets)
    proto = model(helper.make_node("Twice", ["x"], ["y"], domain="own"), {"x": ("float32", [4, 4])})
    proto.functions.append(twice)
    proto.opset_import.append(opsets[1])
    assert np.array_equal(dml.onnx.load(proto)(X), X)
    # Functions that call one another twice each would become 2^40 nodes
    for i in range(40):
        calls = [helper.make_node(f"F{i + 1}", ["a"], [name], domain="own") for name in ("b", "c")]
        proto.functions.append(helper.make_function("own", f"F{i}", ["a"], ["c"], calls, opsets))
    proto.functions.append(helper.make_function("own", "F40", ["a"], ["c"], body, opsets))
    proto.graph.node[0].op_type = "F0"
    with pytest.raises(dml.ModelFileError, match="functions must come to at most 100000 nodes"):
        dml.onnx.load(proto)
    proto.functions[-1].node[0].CopyFrom(helper.make_node("F0", ["a"], ["b"], domain="own"))
    with pytest.raises(dml.ModelFileError, match="function 'F0' must not call itself"):
        dml.onnx.load(proto)


def test_a_check_goes_on_to_the_end() -> None:
    nodes = [
        node("Slice", "x s e", "crop", name="crop"),
        node("Unique", "crop", "r"),
        node("Flatten", "r", "lost"),
        node("Reshape", "x t", "shaped"),
        node("Flatten", "x", "flat"),
        node("CumSum", "flat a", "y"),
    ]
    constants = {"s": np.array([0]), "e": np.array([2]), "a": np.array(1)}
    proto = model(nodes, {"x": ("float32", ["n", 4]), "t": ("int64", [1])}, "y lost shaped", constants)
    found = dml.onnx.check(proto, shapes={"n": 3}, strict=True)
    crop, unique, lost, shaped, flat, y = found.nodes
    assert crop.operators == ("SLICE",)
    assert isinstance(unique.error, dml.ModelError)
    assert found.blames[unique.error] == "host-only"
    assert "Unique is not supported" in str(unique.error)
    assert (lost.error, lost.note) == (None, "skipped: depends on a node that failed above")
    assert shaped.note == "known at a run: depends on the values of 't'"
    assert flat.note == "a view, no pass"
    assert y.descs[0].check().lowest_level == dml.FeatureLevel("4_0")
    assert y.lowest_level == dml.FeatureLevel("2_1")  # with leading 1s
    assert dml.onnx.check(proto, shapes={"n": 3}, values={"t": np.array([12])}).nodes[3].note == "a view, no pass"


# The package


def test_without_onnx_the_package_says_what_to_install() -> None:
    attempt = "try: import anydml.onnx\nexcept Exception as e: print(type(e).__name__, e)"
    code = f"import sys; sys.modules['onnx'] = None\n{attempt}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    expected = "MissingDependencyError anydml.onnx: reading ONNX models needs onnx; pip install 'anydml[onnx]'"
    assert found.stdout.strip() == expected


def test_onnx_enters_by_three_files() -> None:
    source = Path(dml.__file__).parent
    entries = set()
    for path in source.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in found.names] if isinstance(found, ast.Import) else []
            names += [found.module or ""] if isinstance(found, ast.ImportFrom) and not found.level else []
            entries |= {str(path.relative_to(source)) for name in names if name.partition(".")[0] == "onnx"}
    assert entries == {"onnx/protobuf.py", "onnx/library.py", "onnx/partition/host_evaluator.py"}


def test_known_values_need_no_feature_level() -> None:
    """Shapes are of INT64, which GATHER takes from 4_1 on: what is computed at load is no operator."""
    nodes = [node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Reshape", "x n", "y")]
    proto = model(nodes, {"x": ("float32", [1, 6])}, "y", {"one": np.array([1])})
    loaded = dml.onnx.load(proto, device=dml.Device("reference", feature_level="1_0"))
    assert loaded(np.ones((1, 6), "float32")).shape == (6,)


def test_what_the_package_shows() -> None:
    assert {"Backend", "Model", "TensorInfo", "check", "compare", "load"} <= set(dml.onnx.__all__)
    assert all(getattr(dml.onnx, name).__doc__ for name in dml.onnx.__all__)
    assert onnx.IR_VERSION >= 8


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
