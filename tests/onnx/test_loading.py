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
    assert isinstance(unique.error, dml.UnsupportedError)
    assert "Unique is not supported" in str(unique.error)
    assert (lost.error, lost.note) == (None, "not known: it depends on a node that cannot run, or is not known")
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
