"""Results: one is an array, several are a named tuple by every door, and no option changes that."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api.derived import function_of
from anydml.api.functions import derived_classes
from anydml.api.signatures import family_of
from anydml.core.operator_type import function_name

X = np.random.default_rng(0).standard_normal((1, 2, 4, 4)).astype("float32")
FAMILIES = {function_name(cls.type) for cls in derived_classes().values() if len(family_of(cls)) > 1}


def kind_of(made: Any) -> str:
    """The operator that an expression is of."""
    return str(made.source.node.kind)


def test_several_results_are_named() -> None:
    found = dml.top_k(X, -1, 2)
    assert found._fields == ("values", "indices")
    values, indices = found
    np.testing.assert_array_equal(np.take_along_axis(X, indices.astype("int64"), -1), values)
    for other in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):  # noqa: S301 - what was pickled here
        assert type(other) is type(found)
        np.testing.assert_array_equal(other.values, found.values)
    assert dml.nonzero_coordinates(X).count.item() == X.size
    assert [type(dml.split(X, parts, 1)) for parts in (1, 2)] == [tuple, tuple]


def test_what_an_array_has_is_asked_of_one_of_several() -> None:
    found: Any = dml.multihead_attention(*(X[:, 0],) * 3, head_count=1)
    assert found.output.shape == X[:, 0].shape
    for wanted in ("shape", "astype"):
        with pytest.raises(AttributeError, match=rf"several results: output, .*; write \.output\.{wanted}$"):
            getattr(found, wanted)
    assert not hasattr(found, "__array_interface__")


def test_results_by_every_door() -> None:
    graph = dml.Graph()
    made = dml.top_k(graph.input(X, "x"), -1, 2)
    assert made._fields == ("values", "indices")
    found = graph.compile([made.values, made.indices])(X)
    np.testing.assert_array_equal(found[0], dml.top_k(X, -1, 2).values)
    assert found._fields == ("output0", "output1")
    other = dml.relu(made.values).named("best")
    np.testing.assert_array_equal(graph.compile([other, made.indices])(X).best, np.maximum(found[0], 0))
    outs = [np.empty_like(one) for one in found]
    again = graph.compile(list(made))(X, out=outs)
    assert all(one is out for one, out in zip(again, outs, strict=True))
    compiled = dml.Device().compile(dml.TopK1.infer(input_tensor=dml.TensorDesc.of(X), axis=3, k=2))
    np.testing.assert_array_equal(compiled(X).indices, found[1])
    assert compiled.bind(X, out=outs).dispatch().values is outs[0]
    assert dml.top_k(X, -1, 2, out=outs).values is outs[0]


def test_no_option_changes_the_type_of_a_result() -> None:
    asked, plain = (dml.max_pooling2(X, 2, output_indices=asked) for asked in (True, False))
    assert type(asked) is type(plain)
    assert plain.indices is None
    np.testing.assert_array_equal(asked.output, plain.output)
    for _ in range(2):  # found by what it is made of the second time
        out = np.empty_like(plain.output)
        assert dml.max_pooling2(X, 2, out=out).output is out
        np.testing.assert_array_equal(dml.max_pooling2(X, 2).output, dml.max_pooling(X, 2))
    state = np.arange(6, dtype="uint32")
    assert dml.random_generator(state, [4])._fields == ("output", "state")


def test_a_name_takes_the_newest_operator() -> None:
    assert {
        "softmax", "log_softmax", "hardmax", "top_k", "max_pooling", "average_pooling", "lp_pooling", "depth_to_space",
        "space_to_depth", "roi_align",
    } == FAMILIES, "and no other, whose newer versions mean other things by the same call"  # fmt: skip
    graph = dml.Graph()
    x = graph.input(X)
    assert kind_of(dml.softmax(x)) == "ACTIVATION_SOFTMAX1"
    assert kind_of(dml.max_pooling(x, 2)) == "MAX_POOLING2"
    assert kind_of(dml.max_pooling1(x, 2).output) == "MAX_POOLING1"
    old = dml.Graph(dml.Device(feature_level="2_0"))
    assert kind_of(dml.max_pooling(old.input(X), 2)) == "MAX_POOLING1"
    with pytest.raises(dml.FeatureLevelError, match="ACTIVATION_SOFTMAX1"):
        dml.softmax(X, axis=1, device=dml.Device(feature_level="4_0"))


def test_softmax_takes_any_rank() -> None:
    for axis in (-1, 1, 2):
        e = np.exp(X - X.max(axis, keepdims=True))
        np.testing.assert_allclose(dml.softmax(X, axis), e / e.sum(axis, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(np.exp(dml.log_softmax(X)), dml.softmax(X), rtol=1e-5)
    assert dml.hardmax(X[0, 0, 0]).sum() == 1


def test_whole_names_are_exactly_that_operator() -> None:
    graph = dml.Graph()
    whole: Any = dml.activation_softmax
    assert whole.__name__ == "activation_softmax"
    assert whole is function_of(dml.ActivationSoftmax)
    assert kind_of(whole(graph.input(X[0, 0]))) == "ACTIVATION_SOFTMAX"
    assert dml.activation_relu is dml.relu
    assert dml.element_wise_add is dml.add


def test_old_names_of_errors_are_taken_with_a_warning() -> None:
    for name in ("EngineMissingError", "PackageMissingError"):
        with pytest.warns(FutureWarning, match=f"anydml.{name} is anydml.MissingDependencyError now"):
            assert getattr(dml, name) is dml.MissingDependencyError


def test_indices_index_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    x = torch.from_numpy(X)
    for _ in range(2):
        values, indices = dml.top_k(x, -1, 2)
        assert torch.equal(torch.gather(x, -1, indices), values)
        assert indices.dtype == torch.int64
    assert dml.argmax(x, [-1]).dtype == torch.int64
    assert dml.cast(x, "uint32").dtype == torch.uint32


def test_indices_of_pytorch_are_taken_where_a_field_has_unsigned_ones() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    x = torch.from_numpy(np.random.default_rng(3).normal(size=(1, 2, 4, 6)).astype("float32"))
    want = torch.nn.functional.max_unpool2d(*torch.nn.functional.max_pool2d(x, 2, return_indices=True), 2)
    # Places count within a plane there, and over all of the output here.
    planes = torch.tensor([0, 24]).reshape(1, 2, 1, 1)
    for _ in range(2):
        values, indices = dml.max_pooling2(x, 2, strides=2, output_indices=True)
        assert indices.dtype == torch.int64
        assert torch.equal(dml.max_unpooling(values, indices, output_sizes=x.shape), want)
    _, theirs = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    assert torch.equal(indices, theirs + planes)
    with pytest.raises(dml.IndexRangeError, match="outside"):
        dml.max_unpooling(values, indices - 99, output_sizes=x.shape)
