"""Models that are not one program: nodes on the host, sizes that depend on values, and what is told of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from onnx_answers import ENGINE, run_there
from onnx_models import helper, model, node, onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.partition import host_evaluator, partitioned_model  # isort: skip - likewise

RNG = np.random.default_rng(19)
X = RNG.standard_normal((4, 5)).astype("f")
WIDE = RNG.standard_normal((9, 11)).astype("f")
BOXES = np.concatenate([low := RNG.random((1, 30, 2)), low + RNG.random((1, 30, 2))], -1).astype("f")
SCORES = RNG.random((1, 1, 30)).astype("f")
LENGTHS = np.full(100, 3)
LENGTHS[50] = 5


def chain(nodes: list[Any], inputs: dict[str, Any], constants: dict[str, Any] | None = None, y: Any = "float32") -> Any:
    infos = {name: (array.dtype, [None] * array.ndim) for name, array in inputs.items()}
    return model(nodes, infos, "y", constants, dtypes={"y": y}, opset=20), inputs


def detection() -> Any:
    """Boxes that are picked, and what is made of them: in a network of detection all behind the picking is small."""
    nodes = [
        node("Mul", "b two", "wide"),
        node("NonMaxSuppression", "wide s most overlap", "picked"),
        node("Gather", "picked last", "at", axis=1),
        node("Squeeze", "wide first", "rows"),
        node("Gather", "rows at", "found"),
        node("ReduceMax", "found", "y", keepdims=0),
    ]
    numbers = {"two": np.float32(2), "most": np.array([9]), "overlap": np.array([0.5], "f"), "last": np.array(2)}
    return chain(nodes, {"b": BOXES, "s": SCORES}, {**numbers, "first": np.array([0])})


PARTS = {
    "no operator": (
        chain([node("Relu", "x", "a"), node("Unique", "a", "u"), node("Exp", "u", "y")], {"x": X}),
        ["device", "host", "device"],
    ),
    "a size by data": (
        chain(
            [
                node("Relu", "x", "a"), node("NonZero", "a", "n"), node("Transpose", "n", "t"),
                node("GatherND", "a t", "g"), node("Neg", "g", "y"),
            ],
            {"x": X},
        ),
        ["device", "host", "device"],
    ),
    "DOUBLE": (
        chain([node("Add", "d d", "a"), node("Cast", "a", "c", to=1), node("Exp", "c", "y")], {"d": X.astype("d")}),
        ["host", "device"],
    ),
    "a computed size": (
        chain(
            [
                node("ReduceMax", "n", "m"), node("Concat", "m rest", "to", axis=0), node("Exp", "x", "e"),
                node("Reshape", "e to", "r"), node("Neg", "r", "y"),
            ],
            {"x": X, "n": LENGTHS},
            {"rest": np.array([-1])},
        ),
        ["device", "device"],
    ),
    "detection": (detection(), ["device", "host", "device"]),
    "texts": (chain([node("StringConcat", "a a", "y")], {"a": np.array(["one", "two"], object)}, y=object), ["host"]),
    "a constant of the host's": (
        chain([node("Unique", "k", "u"), node("Sub", "x u", "y")], {"x": X}, {"k": np.array([3], "f")}),
        ["host", "device"],
    ),
}  # fmt: skip


def places(loaded: Any) -> list[str]:
    return ["host" if hasattr(part, "copied") else "device" for part in loaded._divided.parts()]


@pytest.mark.parametrize("name", PARTS)
def test_parts_give_what_onnx_runtime_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (proto, inputs), wanted = PARTS[name]
    (theirs,) = run_there(proto, inputs)
    loaded = dml.onnx.load(proto, device=ENGINE)
    for _ in range(2):
        mine = loaded.run(inputs)["y"]
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        if mine.dtype == object:
            assert mine.tolist() == theirs.tolist()
        else:
            np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)
    assert places(loaded) == wanted
    out = np.empty_like(mine)
    if mine.dtype != object:
        assert loaded.run(inputs, out={"y": out})["y"] is out
        assert np.array_equal(out, mine)
    monkeypatch.setattr(host_evaluator, "runtime", lambda: None)  # which onnx's own evaluator stands in for
    again = dml.onnx.load(proto, device=ENGINE).run(inputs)["y"]
    assert again.tolist() == mine.tolist() if mine.dtype == object else np.allclose(again, mine, 1e-5)
    told = loaded.explain()
    assert loaded._divided is not None
    assert len(told.parts) == len(list(loaded._divided.parts()))
    assert all(f"part {i} of" in told.text() for i in range(1, len(told.parts) + 1))
    assert all(bool(part.after) == ("compiled" in part.title) for part in told.parts)
    assert told.svg().count("<svg ") == 2 + len(told.parts)
    if name not in ("a computed size", "a size by data"):  # of which strict=True makes a program for each value
        with pytest.raises(dml.UnsupportedError):
            dml.onnx.load(proto, device=ENGINE, strict=True).run(inputs)


def test_other_shapes_are_other_programs_of_the_same_parts() -> None:
    proto, _ = PARTS["a size by data"][0]
    loaded = dml.onnx.load(proto, device=ENGINE)
    for x in (X, WIDE, -abs(X), X):
        assert np.array_equal(loaded(x), -x[x > 0])


def test_an_initializer_that_is_given_is_no_constant() -> None:
    proto = chain([node("Add", "x k", "a"), node("Unique", "a", "y")], {"x": X}, {"k": np.array([1], "f")})[0]
    proto.graph.input.append(helper.make_tensor_value_info("k", 1, [1]))
    loaded = dml.onnx.load(proto, device=ENGINE)
    for given in ({}, {"k": np.array([5], "f")}, {}):
        assert np.allclose(loaded.run({"x": X, **given})["y"], np.unique(X + given.get("k", 1)))


def test_a_large_initializer_of_a_file_reaches_the_host(tmp_path: Any) -> None:
    """Its bytes stay in the file until somebody reads them."""
    starts = np.arange(5000, dtype="f")[:, None] * 10
    boxes, scores = (
        np.concatenate([starts, starts, starts + 1, starts + 1], 1)[None],
        RNG.random((1, 1, 5000)).astype("f"),
    )
    constants = {"boxes": boxes, "most": np.array([5])}
    proto = chain([node("NonMaxSuppression", "boxes s most", "y")], {"s": scores}, constants, "int64")[0]
    onnx.save(proto, tmp_path / "m.onnx")
    made = dml.onnx.load(tmp_path / "m.onnx", device=ENGINE).run({"s": scores})["y"]
    assert np.array_equal(made[:, 2], np.argsort(-scores[0, 0])[:5])


def test_what_nobody_knows_is_refused_and_what_is_known_is_told(tmp_path: Any) -> None:
    strange = helper.make_node("Fused", ["a"], ["y"], domain="com.example")
    proto = chain([node("Unique", "x", "a"), strange], {"x": X})[0]
    with pytest.raises(dml.UnsupportedError, match=r"com\.example\.Fused is not supported") as caught:
        dml.onnx.load(proto)
    assert "Unique" not in str(caught.value)
    path = tmp_path / "detection.onnx"
    onnx.save(detection()[0], path)
    report = dml.onnx.check(path, shapes={"b": [1, 30, 4], "s": [1, 1, 30]})
    assert report
    assert dict(report.hosted) == {"NonMaxSuppression": 1}
    assert f"on the host, which reads {BOXES.nbytes + SCORES.nbytes + 12} bytes" in report.nodes[1].note
    told = CliRunner().invoke(app, ["check", str(path)], env={"COLUMNS": "300"}).output
    assert "1 of 6 nodes run on the host: 1 NonMaxSuppression; DirectML has no operator" in told
    assert "2 nodes by DirectML's operators, from 1_0 on" in told
    assert "and 1 on the host" in told
    assert "which run" not in told
    for command in ("run", "check", "explain"):
        refused = CliRunner().invoke(app, [command, str(path), "--strict", "--shape", "b=1,3,4", "--shape", "s=1,1,3"])
        assert refused.exit_code == 1, command
    shown = CliRunner().invoke(app, ["explain", str(path), "--shape", "b=1,3,4", "--shape", "s=1,1,3"]).output
    assert "node of 'picked' (NonMaxSuppression)" in shown


def test_a_host_node_reaches_no_file_and_no_more_memory_than_it_may(tmp_path: Any) -> None:
    (tmp_path / "secret").write_bytes(np.ones(4, "f").tobytes())
    tensor = onnx.TensorProto(dims=[4], data_type=1, data_location=onnx.TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=str(tmp_path / "secret"))
    nodes = [node("Constant", "", "k", value=tensor), node("Unique", "k", "u"), node("Add", "x u", "y")]
    with pytest.raises(dml.DmlError, match="must have its elements in the model"):
        dml.onnx.load(chain(nodes, {"x": X})[0]).run({"x": X})
    short = np.ones(1, helper.tensor_dtype_to_np_dtype(onnx.TensorProto.BFLOAT16))
    for kind in ("Expand", "Tile"):
        proto, inputs = chain([node(kind, "x to", "y")], {"x": short}, {"to": np.array([2**33])}, y=short.dtype)
        with pytest.raises(dml.ModelFileError, match="memory must be at most 256 MiB; got 16 GiB of results of node"):
            dml.onnx.load(proto, max_memory=2**28).run(inputs)
    # A table of all pairs, before anybody has made it.
    nodes = [node("Neg", "x", "n"), node("Add", "n row", "pairs")]
    nodes += [node("Mul", "pairs pairs", "p"), node("ReduceMax", "p", "y", keepdims=0)]
    given = {"x": np.repeat(short, 2**16).reshape(-1, 1), "row": np.repeat(short, 2**16).reshape(1, -1)}
    proto, inputs = chain(nodes, given, y=short.dtype)
    with pytest.raises(dml.ModelFileError, match="at most 256 MiB; got 8 GiB of 'pairs', made by node"):
        dml.onnx.load(proto, max_memory=2**28).run(inputs)


def test_results_of_the_host_and_of_a_gpu_are_told_apart() -> None:
    """NumPy must not be asked about memory that it cannot read: it raises."""

    class There:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError("it lies on a GPU")

    base = np.arange(6.0)
    results: dict[str, Any] = {"there": There(), "part": base[2:], "again": base[1:]}
    found = partitioned_model._apart(results, {"x": There()})
    assert found["part"] is results["part"]
    assert not np.shares_memory(found["again"], base)
