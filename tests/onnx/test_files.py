"""Model files from strangers: whatever is in them, a clear error, and nothing outside their folder is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.core.enums import NUMPY_TYPES
from onnx_flow import MODELS, flow_model
from onnx_models import helper, info, model, node, onnx, slice_model

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T = onnx.TensorProto
X = np.arange(16, dtype="float32").reshape(4, 4)
TABLE = np.arange(20, dtype="float32").reshape(5, 4)


def gather_model() -> Any:
    """A table that indices point into."""
    return model(node("Gather", "table i", "y"), {"i": ("int64", [2])}, "y", {"table": TABLE})


def external(tmp_path: Path, **entries: Any) -> Path:
    """The same with the table in another file, and entries that say where."""
    proto = gather_model()
    table = proto.graph.initializer[0]
    (tmp_path / "table.bin").write_bytes(b"head" + table.raw_data + b"tail")
    table.ClearField("raw_data")
    table.data_location = T.EXTERNAL
    for key, value in {"location": "table.bin", "offset": 4, "length": TABLE.nbytes, **entries}.items():
        if value is not None:
            table.external_data.add(key=key, value=str(value))
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_model_is_loaded_from_a_path_bytes_or_a_proto(tmp_path: Path) -> None:
    proto = slice_model()
    path = tmp_path / "crop.onnx"
    path.write_bytes(proto.SerializeToString())
    for form in (path, str(path), proto, proto.SerializeToString(), bytearray(proto.SerializeToString())):
        assert dml.onnx.load(form)(X).tolist() == X[[3, 2]].tolist()
    assert "crop.onnx" in repr(dml.onnx.load(path))
    for wrong in (None, 5, [proto], proto.graph):
        with pytest.raises(dml.DescriptionError, match="the model must be a path, the bytes of one, or a ModelProto"):
            dml.onnx.load(wrong)


def test_files_that_are_none(tmp_path: Path) -> None:
    for name, message in (("missing.onnx", "no such file"), ("", "must name a plain file"), ("a\0b", "path|null")):
        with pytest.raises(dml.ModelFileError, match=message):
            dml.onnx.load(str(tmp_path / name))
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(dml.ModelFileError, match=r"empty.onnx: the file is empty"):
        dml.onnx.load(tmp_path / "empty.onnx")
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: opening it would never end
    with pytest.raises(dml.ModelFileError, match=r"must name a plain file"):
        dml.onnx.load(tmp_path / "pipe")
    (tmp_path / "text.onnx").write_text("this is no protobuf")
    with pytest.raises(dml.ModelFileError, match=r"text.onnx: the file must be an ONNX model"):
        dml.onnx.load(tmp_path / "text.onnx")
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(dml.ModelFileError, match=r"anydml.load_model reads a DxDispatch model"):
        dml.onnx.load(tmp_path / "model.json")
    with (tmp_path / "large.onnx").open("wb") as file:
        file.truncate(2**31)
    with pytest.raises(dml.ModelFileError, match=r"at most 2 GiB .* save_as_external_data=True"):
        dml.onnx.load(tmp_path / "large.onnx")


def change(edit: Callable[[Any], object], proto: Any = None) -> Any:
    proto = slice_model() if proto is None else proto
    edit(proto)
    return proto


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda p: p.ClearField("graph"), "the model must have a graph"),
        (lambda p: p.ClearField("ir_version"), "the model must have an ir_version"),
        (lambda p: setattr(p, "ir_version", 10**6), "ir_version 1000000 is not supported; upgrade onnx; this is"),
        (lambda p: p.ClearField("opset_import"), "opset_import must say which opset"),
        (lambda p: setattr(p.opset_import[0], "version", 10**6), "opset 1000000 is not supported; upgrade onnx"),
        (lambda p: setattr(p.opset_import[0], "version", -1), "opset_import must be at least 1; got -1"),
        (lambda p: p.opset_import.add(domain="ai.onnx", version=3), "opset_import must give each domain one opset"),
        (lambda p: p.graph.ClearField("output"), "the graph must have outputs"),
        (lambda p: p.graph.output.add(name="y"), "outputs must have unique names"),
        (lambda p: setattr(p.graph.output[0], "name", "w"), "output 'w' is produced by no node"),
        (
            lambda p: p.graph.node[0].input.__setitem__(1, "w"),
            r"input 'w' must be produced by an earlier node; nothing makes it",
        ),
        (
            lambda p: p.graph.node[0].input.__setitem__(1, "y"),
            r"input 'y' must be produced by an earlier node; a l",
        ),
        (
            lambda p: p.graph.node.append(p.graph.node[0]),
            r"node 'crop' \(Slice\): 'y' must be produced by one node only",
        ),
        (lambda p: p.graph.node[0].output.__setitem__(0, "x"), "'x' must be produced by one node only"),
        (lambda p: p.graph.input.append(p.graph.input[0]), "inputs must have unique names; got 'x'"),
        (
            lambda p: p.graph.initializer.append(p.graph.initializer[0]),
            "initializers must have unique names",
        ),
        (lambda p: p.graph.input[0].ClearField("type"), "input 'x' must have an element type"),
        (
            lambda p: p.graph.input.append(info("axes", "float32", [1])),
            "initializer 'axes' must be of FLOAT, as its input is declared; got INT64",
        ),
        (lambda p: p.graph.sparse_initializer.add(), "DirectML has no sparse tensors"),
    ],
)
def test_models_that_are_not_well_formed(edit: Any, message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(change(edit))


def test_names_are_printed_as_they_may_be() -> None:
    proto = slice_model()
    proto.graph.node[0].name, proto.graph.node[0].op_type = "a\x1b[31m\nb", "Relu\x07"
    with pytest.raises(dml.UnsupportedError) as caught:
        dml.onnx.load(proto)
    assert r"node 'a\x1b[31m\nb' (Relu\x07)" in str(caught.value)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            lambda t: setattr(t, "raw_data", t.raw_data[:-1]),
            r"initializer 'table' must have 80 bytes of raw_data, .* got 79",
        ),
        (lambda t: setattr(t, "raw_data", t.raw_data + b"more"), "must have 80 bytes of raw_data, .* got 84"),
        (lambda t: setattr(t, "raw_data", b""), "must have 80 bytes of raw_data, for 20 elements of FLOAT; got 0"),
        (lambda t: t.dims.__setitem__(0, -5), r"must have sizes of at least 0; got \[-5, 4\]"),
        (
            lambda t: t.dims.extend([1] * 95),
            r"initializer 'table' must have at most 64 dimensions, NumPy's most; got 97",
        ),
        (lambda t: t.dims.__setitem__(0, 2**62), "must have at most 2\\^32 - 1 = 4294967295 elements"),
        (lambda t: t.dims.extend([2**31, 2**31]), "must have at most 2\\^32 - 1"),
        (lambda t: t.dims.__setitem__(0, 2**29), "must have 8589934592 bytes of raw_data"),
        (lambda t: t.ClearField("raw_data"), "must have 20 elements in float_data, or raw_data; got 0"),
        (lambda t: setattr(t, "data_type", 0), "initializer 'table': DirectML has no UNDEFINED"),
        (lambda t: setattr(t, "data_type", 77), "initializer 'table': DirectML has no element type 77"),
        (lambda t: t.segment.__setattr__("end", 3), "a tensor in segments is not supported"),
        (lambda t: setattr(t, "data_location", T.EXTERNAL), "load the model by its path"),
    ],
)
def test_tensors_that_are_not_what_they_say(edit: Any, message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(change(lambda p: edit(p.graph.initializer[0]), gather_model()))


@pytest.mark.parametrize("dtype", [*(data_type.name.lower() for data_type in NUMPY_TYPES), "bool"])
def test_tensors_element_by_element_or_as_bytes(dtype: str) -> None:
    right = np.array([0, 1, 1]).astype(dtype) if dtype == "bool" else np.array([0, 1, 100]).astype(dtype)
    number = helper.np_dtype_to_tensor_dtype(right.dtype)
    for tensor in (helper.make_tensor("k", number, [3], right), onnx.numpy_helper.from_array(right, "k")):
        found = dml.onnx.load(model(node("Constant", "", "y", value=tensor), {}))()
        assert found.dtype == right.dtype
        assert np.array_equal(found, right)


def test_every_byte_but_0_is_true() -> None:
    tensor = T(name="k", data_type=T.BOOL, dims=[3], raw_data=b"\x00\x02\xff")
    found = dml.onnx.load(model(node("Constant", "", "y", value=tensor), {}))()
    assert found.view("uint8").tolist() == [0, 1, 1]


def test_elements_outside_their_type_are_refused() -> None:
    tensor = T(name="k", data_type=T.UINT8, dims=[1], int32_data=[300])
    with pytest.raises(dml.ModelFileError, match="value must have values of UINT8 in int32_data; got 300"):
        dml.onnx.load(model(node("Constant", "", "y", value=tensor), {}))


# External data


def test_external_data_is_read(tmp_path: Path) -> None:
    found = dml.onnx.load(external(tmp_path))(np.array([4, 0]))
    assert np.array_equal(found, TABLE[[4, 0]])
    (tmp_path / "sub").mkdir()
    path = external(tmp_path, location="sub/other.bin", offset=None, length=None)
    (tmp_path / "sub" / "other.bin").write_bytes(TABLE.tobytes())
    assert np.array_equal(dml.onnx.load(path)(np.array([1, -1])), TABLE[[1, -1]])


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret.bin"}, "initializer 'table': external data: the path must not have \"..\""),
        ({"location": "/etc/hostname"}, "external data: the path must not be absolute"),
        ({"location": "C:\\secret"}, "external data: the path must not be absolute"),
        ({"location": "link.bin"}, "must not lead out of the model's folder"),
        ({"location": "pipe"}, "must name a plain file"),
        ({"location": "."}, "must name a plain file"),
        ({"location": ""}, "must name a file"),
        ({"location": None}, "must name a file"),
        ({"location": "missing.bin"}, "the file cannot be read .no such file"),
        ({"offset": 9}, r"must lie within the 88 bytes of 'table.bin'; got 9 .. 89"),
        ({"offset": 2**63}, "must lie within the 88 bytes"),
        ({"offset": -4}, "must have a whole number for its external offset; got '-4'"),
        ({"offset": "4e9999"}, "must have a whole number"),
        ({"offset": "9" * 5000}, "must have a whole number"),
        ({"length": 79}, "must have a length of 80 bytes, for 20 elements of FLOAT; got 79"),
        ({"length": 2**62}, "must have a length of 80 bytes"),
    ],
)
def test_external_data_is_confined_and_checked(tmp_path: Path, entries: dict[str, Any], message: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret.bin").write_bytes(b"s" * 100)
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    os.mkfifo(folder / "pipe")
    with pytest.raises(dml.ModelFileError, match=message):
        dml.onnx.load(external(folder, **entries))


def test_external_data_that_nothing_reads_is_not_read(tmp_path: Path) -> None:
    proto = onnx.load(external(tmp_path, location="missing.bin"), load_external_data=False)
    proto.graph.node[0].CopyFrom(node("Identity", "i", "y"))
    path = tmp_path / "unused.onnx"
    path.write_bytes(proto.SerializeToString())
    assert dml.onnx.load(path)(np.array([3, 4])).tolist() == [3, 4]


def test_a_large_shape_promises_no_memory(tmp_path: Path) -> None:
    """15 GiB are promised, and not a byte is allocated before the file is found to have 88."""
    path = external(tmp_path, length=None)
    proto = onnx.load(path, load_external_data=False)
    proto.graph.initializer[0].dims[0] = 2**30 - 1
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(dml.ModelFileError, match="must lie within the 88 bytes"):
        dml.onnx.load(path)


# Noise


def run_whatever(data: bytes) -> None:
    """Load and run; an error of ours is well, any other is not."""
    try:
        loaded = dml.onnx.load(data, device="reference", shapes={}, max_steps=100)
        inputs = {}
        for name, declared in loaded.inputs.items():
            sizes = [n if isinstance(n, int) else 2 for n in declared.shape or ()]
            if np.prod(sizes, dtype="float64") > 10_000:
                return
            inputs[name] = np.zeros(sizes, declared.element.dtype)
        loaded.run(inputs)
    except dml.DmlError as error:
        assert str(error).isprintable() or "\n" in str(error)  # noqa: PT017 - that it can be read at all


SEEDS = [proto.SerializeToString() for proto in (slice_model(), gather_model(), *map(flow_model, MODELS))]


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(SEEDS), st.data())
def test_noise_in_a_file_is_an_error_of_ours_or_none(seed: bytes, data: st.DataObject) -> None:
    noisy = bytearray(seed)
    for _ in range(data.draw(st.integers(0, 4))):
        noisy[data.draw(st.integers(0, len(noisy) - 1))] = data.draw(st.integers(0, 255))
    run_whatever(bytes(noisy[: data.draw(st.integers(len(noisy) // 4, len(noisy)))]))


def test_every_end_of_a_file_may_be_cut_off() -> None:
    for end in range(0, len(SEEDS[0]), 3):
        run_whatever(SEEDS[0][:end])


def test_graphs_that_nest_without_end_are_refused() -> None:
    def wrapped(field: int, payload: bytes) -> bytes:
        size, left = b"", len(payload)
        while left > 127:
            size, left = size + bytes([left & 127 | 128]), left >> 7
        return bytes([field << 3 | 2]) + size + bytes([left]) + payload

    body = b""
    for _ in range(20_000):  # a graph, in an attribute of a node, in a graph
        body = wrapped(1, wrapped(5, wrapped(6, body)))
    with pytest.raises(dml.ModelFileError, match="the file must be an ONNX model"):
        dml.onnx.load(wrapped(7, body))
