"""Open sizes of a model, and shapes that depend on values: bound at load, by a run, and kept apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import info, join_model, model, node, slice_model

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.program_cache import Programs  # isort: skip - likewise

X = np.arange(16, dtype="float32").reshape(4, 4)


def test_open_sizes_are_bound_by_the_arrays_of_each_run() -> None:
    loaded = dml.onnx.load(join_model())
    assert loaded.inputs["b"].shape == ("batch", "width")
    for batch, width in ((1, 3), (2, 1), (1, 3)):
        a, b = np.zeros((batch, 2), "float32"), np.ones((batch, width), "float32")
        assert loaded.run({"b": b, "a": a})["y"].tolist() == np.concatenate([a, b], 1).tolist()
    assert len(loaded._programs) == 2


def test_sizes_of_one_name_may_differ_where_nodes_take_them() -> None:
    """As ONNX Runtime compares none; where a node does not take them, the names say why."""
    a, b = np.zeros((2, 2), "float32"), np.ones((3, 1), "float32")
    with pytest.raises(
        dml.BindingError, match=r"input 'b' must have size 2 in dimension 0: 'batch' is 2; got \(3, 1\)"
    ):
        dml.onnx.load(join_model())(a, b)
    inputs = {"x": ("float32", ["n", "n"]), "y": ("float32", ["n"])}
    loaded = dml.onnx.load(model(node("Add", "x y", "z"), inputs, "z"))
    assert loaded(X[:2], X[0]).tolist() == (X[:2] + X[0]).tolist()


@pytest.mark.parametrize("sizes", ["????", "nnnn", ["-1"] * 4, [None] * 4, ["None", "*", "?", "n"]])
def test_a_shape_given_whole_is_taken_whatever_its_sizes_are_called(sizes: Any) -> None:
    """As a session takes it: exporters write "?" for each size that has no name."""
    proto = model(node("Relu", "x", "y"), {"x": ("float32", list(sizes))}, "y")
    x = np.zeros((1, 3, 48, 192), "float32")
    for given in ({}, {"x": x.shape}):
        assert dml.onnx.load(proto, shapes=given).run({"x": x})["y"].shape == x.shape
    assert dml.onnx.check(proto, shapes={"x": x.shape}).status == 0


def test_sizes_without_a_name_are_bound_as_they_are_told() -> None:
    proto = model(node("Relu", "x", "y"), {"x": ("float32", ["n", "?", None, 2])}, "y")
    assumed = dml.onnx.check(proto).assumed
    assert list(assumed) == ["n", "x[1]", "x[2]"]
    report = dml.onnx.check(proto, shapes={name: 5 + i for i, name in enumerate(assumed)})
    assert (report.status, report.assumed) == (0, {})
    loaded = dml.onnx.load(proto, shapes={"x[1]": 3})
    assert loaded.inputs["x"].shape == ("n", 3, None, 2)
    with pytest.raises(dml.BindingError, match=r"input 'x' must have size 3 in dimension 1: 'x\[1\]' is 3; got"):
        loaded.run({"x": np.zeros((1, 4, 1, 2), "float32")})
    assert loaded.run({"x": np.zeros((1, 3, 1, 2), "float32")})["y"].shape == (1, 3, 1, 2)


def test_the_shape_of_one_input_binds_the_sizes_of_another() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"b": (2, 3)})
    assert loaded.outputs["y"].shape == (2, 5)
    with pytest.raises(dml.BindingError, match=r"'batch' is 2; got \(1, 2\)"):
        loaded(np.zeros((1, 2), "float32"), np.zeros((2, 3), "float32"))


def test_open_sizes_are_bound_at_load() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"batch": 2, "b": (2, 3)})
    assert loaded.outputs["y"].shape == (2, 5)
    assert len(loaded._programs) == 1
    with pytest.raises(
        dml.BindingError, match=r"input 'a' must have size 2 in dimension 0: 'batch' is 2; got \(3, 2\)"
    ):
        loaded(np.zeros((3, 2), "float32"), np.zeros((3, 3), "float32"))
    with pytest.raises(dml.BindingError, match=r"input 'b' must have size 3 in dimension 1; got \(2, 4\)"):
        loaded(np.zeros((2, 2), "float32"), np.zeros((2, 4), "float32"))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"height": 2}, r"there is no 'height'; there are 'a', 'b', 'batch', 'width'"),
        ({"batch": -1}, r"shapes\['batch'\] must be at least 0"),
        ({"batch": 2.5}, r"shapes\['batch'\] must be a whole number"),
        ({"a": (2, "x")}, r"shapes\['a'\]\[1\] must be a whole number"),
        ({"a": (2, 3)}, r"input 'a' must have size 2 in dimension 1; got \(2, 3\)"),
        ({"a": (2, 2, 1)}, r"input 'a' must have 2 dimensions, \(batch, 2\); got \(2, 2, 1\)"),
        ({"batch": 3, "a": (2, 2)}, r"'batch' is 3; got \(2, 2\)"),
        ([1], "shapes must be a mapping of the names of inputs and of open sizes .*; got a list; such as"),
        (5, "shapes must be a mapping"),
        ("ab", "shapes must be a mapping"),
        ("", "shapes must be a mapping"),
        (X, "shapes must be a mapping"),
    ],
)
def test_shapes_that_cannot_be(shapes: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(join_model(), shapes=shapes)
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.check(join_model(), shapes=shapes)


def test_sizes_that_are_bound_are_shown() -> None:
    loaded = dml.onnx.load(join_model(), shapes={"batch": 3})
    assert [info.shape for info in loaded.inputs.values()] == [(3, 2), (3, "width")]
    assert loaded(np.zeros((3, 2), "float32"), np.zeros((3, 1), "float32")).shape == (3, 3)
    with pytest.raises(dml.BindingError, match="'batch' is 3"):
        loaded(np.zeros((2, 2), "float32"), np.zeros((2, 1), "float32"))
    assert loaded.assume_shapes({}) == ({"a": (3, 2), "b": (3, 2)}, {"width": 2})
    assert dml.onnx.load(join_model(), shapes={"b": (4, 5)}).inputs["a"].shape == (4, 2)


def test_open_outputs_have_the_models_names_alone() -> None:
    assert dml.onnx.load(join_model()).outputs["y"].shape == ("batch", None)
    declared = join_model()
    declared.graph.output[0].CopyFrom(info("y", "float32", ["batch", "both"]))
    assert dml.onnx.load(declared).outputs["y"].shape == ("batch", "both")
    assert dml.onnx.load(declared, shapes={"batch": 3}).outputs["y"].shape == (3, "both")


def test_a_slice_that_a_run_places_is_one_program_while_it_lies_within() -> None:
    bounds = [node("Add", "i three", "e"), node("Slice", "x i e zero", "v")]
    constants = {"three": np.array([3]), "zero": np.array([0])}
    inputs = {"x": ("float32", [4, 4]), "i": ("int64", [1])}
    taken = dml.onnx.load(model([*bounds, node("Neg", "v", "y")], inputs, "y", constants))
    sizes = dml.onnx.load(model([*bounds, node("Shape", "v", "y")], inputs, "y", constants, dtypes={"y": "int64"}))
    for i in (0, 1, 2, 5, -3, -1, 1):
        start, end = (bound + 4 if bound < 0 else bound for bound in (i, i + 3))
        part = X[start:end]
        assert taken(X, np.array([i])).tolist() == (-part).tolist()
        assert sizes(X, np.array([i])).tolist() == [*part.shape]  # though nothing is read of it
    assert len(taken._programs) == 1


def test_a_size_may_be_a_number_of_numpys() -> None:
    proto = model(node("Identity", "n", "y"), {"n": ("float32", ["n", 6])}, dtypes={"y": "float32"})
    three: Any
    for three in (3, np.int64(3), np.array(3)):
        assert dml.onnx.load(proto, shapes={"n": three}).inputs["n"].shape == (3, 6)
    assert dml.onnx.load(proto, shapes={"n": [3, 6]}).inputs["n"].shape == (3, 6)


def test_the_programs_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.runtime.plan_cache.MOST", 8)
    loaded = dml.onnx.load(model(node("Neg", "x", "y"), {"x": ("float32", ["n"])}, dtypes={"y": "float32"}))

    def run(*several: int) -> list[int]:
        for n in several:
            assert loaded(np.ones(n, "float32")).tolist() == [-1] * n
        return [dict(shapes)["x"][0] for shapes, _ in loaded._programs]

    assert run(*range(1, 11)) == list(range(3, 11))
    assert len(loaded._calls) <= 8
    run(*range(1, 11))
    made = []

    def counted(self: Any, *given: Any) -> Any:
        made.append(given)
        return make(self, *given)

    make = Programs._make
    monkeypatch.setattr(Programs, "_make", counted)
    run(*range(1, 11))
    assert len(made) <= 3  # of runs that go through more shapes than are kept, time and again, most are found


def test_a_shape_may_hang_on_the_values_of_an_input() -> None:
    proto = model(
        node("Reshape", "x shape", "y", name="r"),
        {"x": ("float32", [4, 4]), "shape": ("int64", ["rank"])},
        dtypes={"y": "float32"},
    )
    loaded = dml.onnx.load(proto)
    for shape in ([2, 8], [16], [2, -1], [2, 8]):
        assert loaded(X, np.array(shape)).tolist() == X.reshape(shape).tolist()
    assert len(loaded._programs) == 3
    with pytest.raises(dml.ModelError, match=r"node 'r' \(Reshape\): shape must have the 16 elements"):
        loaded(X, np.array([3, 3]))


def test_values_are_those_of_the_run() -> None:
    nodes = [node("Reshape", "x shape", "y"), node("Identity", "shape", "z")]
    loaded = dml.onnx.load(model(nodes, {"x": ("float32", [4, 4]), "shape": ("int64", [2])}, "y z"))
    shape = np.array([2, 8])
    assert loaded(X, shape)[1].tolist() == [2, 8]
    shape[:] = [8, 2]
    y, z = loaded(X, shape)
    assert (y.shape, z.tolist()) == ((8, 2), [8, 2])
    y, z = loaded(X, np.array([2, 8]))
    assert (y.shape, z.tolist()) == ((2, 8), [2, 8])


def test_a_shape_that_is_empty_is_known() -> None:
    proto = model(node("Reshape", "x shape", "y"), {"x": ("float32", [1]), "shape": ("int64", [0])})
    loaded = dml.onnx.load(proto)
    assert loaded.outputs["y"].shape == ()
    assert loaded(np.ones(1, "float32"), np.empty(0, "int64")) == 1


def test_a_shape_may_not_hang_on_a_large_input() -> None:
    nodes = [node("Gather", "x zero", "n"), node("Reshape", "x n", "y", name="r")]
    proto = model(nodes, {"x": ("int64", [70_000])}, "y", {"zero": np.array([0])})
    with pytest.raises(dml.ModelError, match="must depend on inputs of at most 65536 elements; input 'x' has 70000"):
        dml.onnx.load(proto, strict=True)
    large = np.full(70_000, 10)
    large[0] = -1
    assert np.array_equal(dml.onnx.load(proto)(large), large)  # cut before the Reshape


def test_what_is_too_large_is_so_whatever_ran_before() -> None:
    nodes = [node("Gather", "x zero", "n"), node("Reshape", "x n", "y", name="r")]
    proto = model(nodes, {"x": ("int64", ["k"])}, "y", {"zero": np.array([0])}, dtypes={"y": "int64"})
    loaded = dml.onnx.load(proto, strict=True)
    assert loaded(np.array([3, 1, 2])).tolist() == [3, 1, 2]
    large = np.full(70_000, 70_000)
    for one in (loaded, dml.onnx.load(proto, strict=True), loaded):
        with pytest.raises(dml.ModelError, match="at most 65536 elements; input 'x' has 70000"):
            one(large)


def test_initializers_that_are_inputs_may_be_left_out() -> None:
    proto = slice_model()
    proto.graph.input.append(info("starts", "int64", [1]))
    loaded = dml.onnx.load(proto)
    assert [i.is_optional for i in loaded.inputs.values()] == [False, True]
    for _ in range(2):
        assert loaded(X).tolist() == X[[3, 2]].tolist()
        assert loaded(X, np.array([-2])).tolist() == X[[2]].tolist()
        assert loaded(X, [-2]).tolist() == X[[2]].tolist()
