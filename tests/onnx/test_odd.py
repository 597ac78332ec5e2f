"""Models of odd values: whatever a file says, the process lives, and what is wrong is an error of ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models import helper, info, model, node, onnx  # isort: skip - it asks for onnx
import anydml as dml
import anydml.onnx
import anydml.onnx.library as library
from anydml.onnx.read import read_model
from paths import PATHS

X = np.arange(12, dtype="float32").reshape(3, 4)
BOUNDS = {"s": np.array([0]), "e": np.array([2])}


def sliced() -> Any:
    """Before a Slice, an input whose first size is -1."""
    return model(node("Slice", "x s e", "y"), {"x": ("float32", [-1, 4])}, "y", BOUNDS)


def batches() -> Any:
    """Batches counted from the end, which GatherND has not."""
    inputs = {"x": ("float32", ["n", 4]), "i": ("int64", ["n", 1])}
    return model(node("GatherND", "x i", "y", batch_dims=-3), inputs)


RUN = """
import sys
sys.path[:0] = {paths!r}
import numpy as np, anydml as dml, anydml.onnx, tests.onnx.test_odd as models
proto = models.{name}()
try:
    found = dml.onnx.load(proto)
    dml.onnx.check(proto)
    inputs = {{"x": models.X, "i": np.zeros((3, 1), np.int64)}}
    print(found.outputs["y"], found.run({{name: inputs[name] for name in found.inputs}})["y"].shape)
except dml.DmlError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("sliced", "y: float[?,4] (2, 4)\n"),
        ("batches", "node of 'y' (GatherND): batch_dims must lie in 0 .. 1; got -3\n"),
    ],
)
def test_the_process_lives(name: str, told: str) -> None:
    code = RUN.format(paths=PATHS, name=name)
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - our own code
    assert (found.returncode, found.stdout) == (0, told), found.stderr[-2000:]


def test_nothing_of_onnx_that_can_abort_is_called() -> None:
    """Of onnx there are its messages, its tables of operators, and helpers that are written in Python."""
    text = Path(library.__file__).read_text()
    for name in ("checker", "shape_inference", "inliner", "version_converter", "parser", "compose"):
        assert name not in text


def test_a_size_below_0_is_open() -> None:
    loaded = dml.onnx.load(sliced())
    assert loaded.inputs["x"].shape == (None, 4)
    for rows in (3, 5):
        x = np.arange(rows * 4, dtype="float32").reshape(rows, 4)
        assert loaded(x).tolist() == x[:2].tolist()
    with pytest.raises(dml.BindingError, match="input 'x' must have size 4 in dimension 1"):
        loaded(np.zeros((2, 3), "float32"))


# What is known of outputs that are not declared


def shapes(nodes: Any, inputs: Any, outputs: str = "y", constants: Any = None) -> list[tuple[str, Any]]:
    found = dml.onnx.load(model(nodes, inputs, outputs, constants)).outputs.values()
    return [(one.element_type, one.shape) for one in found]


def test_open_outputs_are_inferred() -> None:
    x = {"x": ("float32", ["n", "m", 4])}
    assert shapes(node("Transpose", "x", "y"), x) == [("FLOAT", (4, "m", "n"))]
    assert shapes(node("Shape", "x", "y"), x) == [("INT64", (3,))]
    assert shapes(node("Slice", "x s e", "y"), x, "y", BOUNDS) == [("FLOAT", (None, "m", 4))]
    assert shapes(node("Cast", "x", "y", to=7), x) == [("INT64", ("n", "m", 4))]
    assert shapes(node("Flatten", "x", "y"), x) == [("FLOAT", ("n", None))]
    two = {"x": ("float32", ["n", 4]), "z": ("float32", ["m", 4])}
    assert shapes(node("Concat", "x z", "y", axis=0), two) == [("FLOAT", (None, 4))]
    assert shapes(node("Concat", "x z", "y", axis=1), two) == [("FLOAT", (None, 8))]  # where n is m


def test_an_open_size_that_is_cut_off_has_no_name() -> None:
    """Up to 512 it would be the input's."""
    ends = {"s": np.array([0]), "e": np.array([512])}
    assert shapes(node("Slice", "x s e", "y"), {"x": ("float32", ["n"])}, "y", ends) == [("FLOAT", (None,))]


def test_of_many_open_sizes_none_has_the_name_of_another() -> None:
    names = [f"n{i}" for i in range(30)]
    nodes = [node("Identity", f"x{name}", f"y{name}") for name in names]
    inputs = {f"x{name}": ("float32", [name]) for name in names}
    found = shapes(nodes, inputs, " ".join(f"y{name}" for name in names))
    assert all(shape in ((name,), (None,)) for name, (_, shape) in zip(names, found, strict=True))


def test_outputs_whose_shape_hangs_on_values_have_a_type() -> None:
    x = {"x": ("float16", ["n", 4]), "t": ("int64", [2])}
    nodes = [
        node("Reshape", "x t", "r"),
        node("Transpose", "r", "y"),
        node("Cast", "r", "c", to=6),
        node("ConstantOfShape", "t", "f"),
        node("Shape", "r", "h"),
    ]
    found = shapes(nodes, x, "y c f h")
    assert found == [("FLOAT16", None), ("INT32", None), ("FLOAT", None), ("INT64", None)]


def test_declared_outputs_are_believed() -> None:
    proto = sliced()
    proto.graph.output[0].CopyFrom(info("y", "float32", ["k", 4]))
    assert dml.onnx.load(proto).outputs["y"].shape == ("k", 4)


# What a node says of itself


def edited(kind: str, edit: Any, inputs: str = "x", **attributes: Any) -> Any:
    nodes = [node(kind, inputs, "y", **attributes), node("Identity", "x", "w")]
    proto = model(nodes, {"x": ("float32", [2, 2])}, "w", {"p": np.array([0, 1])})
    edit(proto.graph.node[0])
    return proto


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (edited("Gather", lambda n: None, "x"), r"a Gather must have 2 inputs; got 1"),
        (edited("Gather", lambda n: None, "x p p"), r"a Gather must have 2 inputs; got 3"),
        (edited("Slice", lambda n: None, "x p p p p p"), r"a Slice must have 3 .. 5 inputs; got 6"),
        (edited("Concat", lambda n: n.ClearField("input"), axis=0), r"a Concat must have at least 1 input; got 0"),
        (edited("Gather", lambda n: None, "x -"), r"indices must be given"),
        (edited("Transpose", lambda n: n.output.append("z")), r"a Transpose must have 1 output; got 2"),
        (edited("Transpose", lambda n: n.ClearField("output")), r"a Transpose must have 1 output; got 0"),
        (edited("Transpose", lambda n: n.output.__setitem__(0, "")), r"transposed must have a name"),
        (edited("Gather", lambda n: None, "x p", axis=1.5), r"axis must be of INT; got FLOAT"),
        (edited("Gather", lambda n: None, "x p", side=1), r"a Gather has no attribute 'side'"),
        (edited("Cast", lambda n: None), r"to must be given"),
        (edited("Cast", lambda n: n.attribute.extend([n.attribute[0]]), to=1), r"to must be given once"),
        (edited("Cast", lambda n: setattr(n.attribute[0], "ref_attr_name", "t"), to=1), r"to must be a value"),
    ],
)
def test_what_a_node_must_say(proto: Any, message: str) -> None:
    with pytest.raises(dml.ModelFileError, match=rf"node .*: {message}"):
        dml.onnx.load(proto)
    found = dml.onnx.check(proto)
    assert found.status == 1


# A model's own functions


def calling(body: list[Any], inputs: str = "a", outputs: str = "b", call: Any = None, **options: Any) -> Any:
    """A model that calls a function twice, the second time on what the first gives."""
    own = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    nodes = call or [node("F", "x", "h", domain="own"), node("F", "h", "y", domain="own")]
    proto = model(nodes, {"x": ("float32", [3, 4])})
    proto.functions.append(helper.make_function("own", "F", inputs.split(), outputs.split(), body, own, **options))
    proto.opset_import.append(own[1])
    return proto


def test_functions_have_names_of_their_own() -> None:
    proto = calling([node("Transpose", "a", "h"), node("Identity", "h", "b")])
    assert np.array_equal(dml.onnx.load(proto)(X), X)


def test_functions_take_attributes_and_defaults() -> None:
    turn = helper.make_node("Transpose", ["a"], ["b"])
    turn.attribute.add(name="perm", ref_attr_name="order", type=onnx.AttributeProto.INTS)
    calls = [node("F", "x", "y", domain="own", order=[0, 1])]
    assert dml.onnx.load(calling([turn], call=calls, attributes=["order"]))(X).shape == (3, 4)
    calls = [node("F", "x", "y", domain="own")]
    assert dml.onnx.load(calling([turn], call=calls, attributes=["order"]))(X).shape == (4, 3)
    default = [helper.make_attribute("order", [0, 1])]
    assert dml.onnx.load(calling([turn], call=calls, attribute_protos=default))(X).shape == (3, 4)


def test_functions_that_give_what_they_take() -> None:
    proto = calling([node("Transpose", "a", "b")], outputs="a", call=[node("F", "x", "y", domain="own")])
    assert np.array_equal(dml.onnx.load(proto)(X), X)
    proto = calling([node("Transpose", "a", "b")], outputs="b b", call=[node("F", "x", "z y", domain="own")])
    assert np.array_equal(dml.onnx.load(proto)(X), X.T)
    proto = calling([node("Split", "a s", "b c")], "a s", "b c", [node("F", "x", "- y", domain="own")])
    with pytest.raises(dml.DmlError, match="a size of 3 must be a multiple of the 2 outputs"):
        dml.onnx.load(proto)


def test_functions_of_many_names_are_not_put_in_place() -> None:
    wide = node("Concat", " ".join(["a"] * 2**16), "b", axis=0)
    calls = [node("F", "x", f"y{i}", domain="own") for i in range(99)] + [node("F", "x", "y", domain="own")]
    with pytest.raises(dml.ModelFileError, match="functions must come to at most 4194304 names; got 6553700"):
        dml.onnx.load(calling([wide], call=calls))


def test_calls_of_a_function_share_its_tensors() -> None:
    table = helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(np.zeros(2**20)))
    calls = [node("F", "x", f"y{i}", domain="own") for i in range(99)] + [node("F", "x", "y", domain="own")]
    source = read_model(calling([table, node("Identity", "a", "b")], call=calls))
    assert len({id(each.value("value")) for each in source.model.graph.node if each.op_type == "Constant"}) == 1
