"""The IR of models: what is read of messages, and what is written of it."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnx_models import helper, info, model, node, onnx  # isort: skip - it asks for onnx
import anydml as dml
import anydml.onnx
from anydml.onnx import ir, protobuf
from anydml.onnx.external_data import ExternalData
from anydml.onnx.read import read_model

SOURCE = Path(dml.__file__).parent
_WORDS = ("doc_string", "denotation", "metadata_props")


def plain(message: Any) -> Any:
    """A message without what means nothing to whoever runs it, and with one name for ONNX's domain."""
    found = type(message)()
    found.CopyFrom(message)
    pending = [found]
    while pending:
        each = pending.pop()
        for field, value in each.ListFields():
            is_word = field.name in _WORDS and type(each).__name__ not in ("ModelProto", "GraphProto", "Dimension")
            if is_word or value == "" or (field.name == "domain" and value == "ai.onnx"):
                each.ClearField(field.name)
            elif field.message_type is not None and not field.message_type.GetOptions().map_entry:
                pending += [value] if hasattr(value, "ListFields") else value
    return found


def again(message: Any) -> Any:
    """The same, through the IR."""
    return protobuf.model_message(protobuf.read_model(message, "model"))


def test_the_models_of_all_node_tests_are_the_same_again() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests are made of divisions by zero, among others
        from onnx.backend.test.loader import load_model_tests

        several = {test.name: plain(test.model) for test in load_model_tests(kind="node")}
    assert len(several) > 1_000
    assert [name for name, message in several.items() if plain(again(message)) != message] == []


def test_all_that_a_model_may_hold_is_the_same_again() -> None:
    kinds = {"a": 1.5, "b": 3, "c": "text", "d": [1.5, 2], "e": [3, 4], "f": ["one", "two"]}
    table = onnx.numpy_helper.from_array(np.arange(3.0), "table")
    sparse = onnx.SparseTensorProto(values=table, indices=helper.make_tensor("i", 7, [3], [0, 2, 5]), dims=[6])
    branch = helper.make_graph([node("Neg", "x", "y")], "branch", [], [info("y", "float32")], [table])
    told = helper.make_tensor_type_proto(1, ["n", 3, None])
    types = [helper.make_sequence_type_proto(told), helper.make_optional_type_proto(told)]
    types += [helper.make_map_type_proto(7, told), helper.make_sparse_tensor_type_proto(1, [2])]
    values = {**kinds, "g": table, "h": branch, "i": sparse, "j": types[0]}
    values |= {"k": [table, table], "l": [branch], "m": [sparse], "n": types}
    every = helper.make_node("Any", ["x", ""], ["y"], "name", domain="own", **values)
    every.overload = "over"
    message = model([every], {"x": ("float32", ["n", 3])}, "y z", dtypes={"z": "int64"})
    message.graph.input.extend(onnx.ValueInfoProto(name=f"t{i}", type=each) for i, each in enumerate(types))
    message.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    message.graph.sparse_initializer.append(sparse)
    message.graph.value_info.append(onnx.ValueInfoProto(name="between", type=told))
    external = message.graph.initializer.add(name="w", data_type=1, dims=[3], data_location=1)
    external.external_data.add(key="location", value="w.bin")
    inner = [node("Relu", "a", "b")]
    inner[0].attribute.add(name="alpha", ref_attr_name="slope", type=1)
    opsets = [helper.make_opsetid("", 17)]
    message.functions.append(helper.make_function("own", "Any", ["a"], ["b"], inner, opsets, ["slope"]))
    message.metadata_props.add(key="author", value="one")
    message.producer_name, message.model_version, message.doc_string = "p", 7, "words"
    assert plain(again(message)) == plain(message)


@pytest.mark.parametrize("name", ["raw", "int32_data", "int64_data", "float_data", "double_data", "uint64_data"])
def test_elements_are_as_they_were(name: str) -> None:
    number = {"int32_data": 10, "int64_data": 7, "float_data": 1, "double_data": 11, "uint64_data": 12, "raw": 1}[name]
    tensor = helper.make_tensor("t", number, [2], [1, 2])
    if name == "raw":
        tensor = onnx.numpy_helper.from_array(np.array([1, 2], np.float32), "t")
    held = protobuf.Reader().tensor(tensor)
    assert (held.name, held.data_type, held.dims) == ("t", number, (2,))
    assert protobuf.tensor_message(held) == tensor
    assert np.array_equal(protobuf.array_of(held), onnx.numpy_helper.to_array(tensor))


def test_names_that_are_no_texts_are_refused_wherever_they_are() -> None:
    def broken(at: bytes) -> bytes:
        relu = helper.make_node("Relu", ["xxxx"], ["yyyy"], "nnnn")
        message = model([relu], {"xxxx": ("float32", [2])}, "yyyy")
        message.graph.value_info.append(helper.make_tensor_value_info("vvvv", 1, ["ssss"]))
        return bytes(message.SerializeToString().replace(at, b"\xff" * 4))

    for at in (b"xxxx", b"yyyy", b"nnnn", b"vvvv", b"ssss", b"Relu"):
        with pytest.raises(dml.ModelFileError, match="the model's names must be UTF-8"):
            read_model(broken(at))


def test_a_digest_tells_models_apart_but_not_by_large_initializers() -> None:
    def parts(value: float, *, count: int, **attributes: Any) -> list[bytes]:
        nodes = [helper.make_node("LeakyRelu", ["x"], ["a"], **attributes), node("Add", "a w", "y")]
        constants = {"w": np.full(count, value, np.float32)}
        return list(read_model(model(nodes, {"x": ("float32", [2])}, "y", constants)).model.parts())

    assert parts(1, count=4) == parts(1, count=4) != parts(2, count=4)
    assert parts(1, count=2**14) == parts(2, count=2**14) != parts(1, count=2**14 + 1)
    assert parts(1, count=4, alpha=0.0) != parts(1, count=4, alpha=-0.0)
    assert parts(1, count=4, alpha=0.1) != parts(1, count=4, beta=0.1)


def test_numbers_of_attributes_are_those_of_float32() -> None:
    assert ir.make_attribute("alpha", 0.1).value == float(np.float32(0.1))
    assert ir.make_attribute("alpha", [0.1]).value == (float(np.float32(0.1)),)


def test_what_lies_in_a_file_is_not_read() -> None:
    message = onnx.TensorProto(name="w", data_type=1, dims=[2**20], data_location=1)
    message.external_data.add(key="location", value="nowhere")
    held = protobuf.Reader().tensor(message)
    assert held.is_external
    assert held.is_large
    assert held.data == ExternalData({"location": "nowhere"})


def test_messages_are_for_the_reader_and_the_writer() -> None:
    """Protobuf's types are named where models are read and messages written, and nowhere else."""
    named = set()
    for path in SOURCE.rglob("*.py"):
        for found in ast.walk(ast.parse(path.read_text())):
            name = getattr(found, "id", getattr(found, "attr", getattr(found, "name", None)))
            if isinstance(name, str) and name.endswith("Proto"):
                named.add(str(path.relative_to(SOURCE)))
    assert named == {"onnx/protobuf.py", "onnx/library.py", "onnx/read.py"}
