"""NumPy's and PyTorch's names give what NumPy gives, of arrays and in graphs, and their errors name the rule."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.api.functions import function_names
from anydml.api.numpy_names import FAMILIAR
from anydml.api.signatures import RENAMED

Array = np.ndarray[Any, Any]
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
Y = np.random.default_rng(1).standard_normal((2, 3, 4)).astype("float32")
ROW = np.random.default_rng(2).standard_normal(4).astype("float32")
TABLE = np.random.default_rng(3).standard_normal((4, 5)).astype("float32")
ODD = np.array([1, np.nan, np.inf, -np.inf, 0], "float32")
WHOLE = np.arange(24, dtype="int64").reshape(2, 3, 4)


def normal(x: Array, axes: tuple[int, ...], use_mean: bool = True) -> Array:
    x = x.astype("float64")
    middle = x.mean(axes, keepdims=True) if use_mean else 0.0
    made: Array = (x - middle) / np.sqrt(((x - middle) ** 2).mean(axes, keepdims=True) + 1e-5)
    return made


def grouped(x: Array) -> Array:
    return normal(x.reshape(2, 3, 4), (2,)).reshape(x.shape)


GROUPED = X.reshape(2, 6, 2)
# By what is written: the function, its arrays, other arguments, and NumPy's result.
CASES: list[tuple[str, list[Array], tuple[Any, ...], dict[str, Any], Any]] = [
    ("transpose", [X], (), {}, X.transpose()),
    ("transpose", [X], ((1, 2, 0),), {}, X.transpose(1, 2, 0)),
    ("permute", [X], ((-1, 0, 1),), {}, X.transpose(2, 0, 1)),
    ("reshape", [X], ((4, -1),), {}, X.reshape(4, -1)),
    ("reshape", [X], (-1,), {}, X.reshape(-1)),
    ("expand_dims", [X], (1,), {}, np.expand_dims(X, 1)),
    ("expand_dims", [X], ((0, -1),), {}, np.expand_dims(X, (0, -1))),
    ("squeeze", [X[:, :1, :1]], (), {}, X[:, 0, 0]),
    ("squeeze", [X[:, :1, :1]], (1,), {}, X[:, 0, :1]),
    ("broadcast_to", [X[:, :1]], ((5, 2, 3, 4),), {}, np.broadcast_to(X[:, :1], (5, 2, 3, 4))),
    ("flip", [X], (), {}, np.flip(X)),
    ("flip", [X], ((0, -1),), {}, np.flip(X, (0, -1))),
    ("pad", [X], (1,), {}, np.pad(X, 1)),
    ("pad", [X], (((1, 0), (0, 2), (1, 1)), "edge"), {}, np.pad(X, ((1, 0), (0, 2), (1, 1)), "edge")),
    ("pad", [X], ((1, 1), "reflect"), {}, np.pad(X, 1, "reflect")),
    ("pad", [WHOLE], (2,), {"constant_values": 7}, np.pad(WHOLE, 2, constant_values=7)),
    *[
        (name, [X], args, {"keepdims": kept}, getattr(np, name)(X.astype("f8"), *args, keepdims=kept))
        for name in ("sum", "prod", "average", "amax", "amin", "var", "std")
        for args in ((), (1,), ((0, -1),))
        for kept in (False, True)
    ],
    ("var", [X], (2,), {"ddof": 1}, X.var(2, ddof=1)),
    ("sum", [WHOLE.astype("uint8")], (0,), {}, WHOLE.sum(0).astype("uint64")),
    ("logsumexp", [X], (1,), {}, np.log(np.exp(X).sum(1))),
    ("cumsum", [X], (), {}, np.cumsum(X)),
    ("cumsum", [X], (1,), {}, np.cumsum(X, 1)),
    ("cumprod", [X], (-1,), {}, np.cumprod(X, -1)),
    ("sort", [X], (), {}, np.sort(X)),
    ("sort", [X], (0,), {"descending": True}, -np.sort(-X, 0)),
    ("argsort", [X], (1,), {}, np.argsort(X, 1)),
    ("argsort", [np.ones((2, 9), "float32")], (), {}, np.tile(np.arange(9), (2, 1))),
    ("take", [X], ([5, 0],), {}, np.take(X, [5, 0])),
    ("take", [X], ([1, 0], 2), {}, np.take(X, [1, 0], 2)),
    ("equal", [WHOLE, WHOLE[:1]], (), {}, np.equal(WHOLE, WHOLE[:1])),
    ("not_equal", [WHOLE, WHOLE[:1]], (), {}, np.not_equal(WHOLE, WHOLE[:1])),
    ("greater", [X, Y], (), {}, X > Y),
    ("greater_equal", [X, Y], (), {}, X >= Y),
    ("less", [X, ROW], (), {}, X < ROW),
    ("less_equal", [X, ROW], (), {}, X <= ROW),
    ("isnan", [ODD], (), {}, np.isnan(ODD)),
    ("isinf", [ODD], (), {}, np.isinf(ODD)),
    ("isfinite", [ODD], (), {}, np.isfinite(ODD)),
    ("any", [(X > 1).astype("uint8")], (1,), {}, (X > 1).any(1)),
    ("all", [X], (), {}, np.array(True)),
    ("where", [(X > 0).astype("uint8"), X, Y], (), {}, np.where(X > 0, X, Y)),
    ("square", [X], (), {}, X * X),
    ("rsqrt", [X * X], (), {}, 1 / np.abs(X)),
    ("matmul", [X, TABLE], (), {}, X @ TABLE),
    ("matmul", [X, TABLE[:, 0]], (), {}, X @ TABLE[:, 0]),
    ("matmul", [ROW, X.swapaxes(1, 2)], (), {}, ROW @ X.swapaxes(1, 2)),
    ("matmul", [ROW, ROW], (), {}, ROW @ ROW),
    ("matmul", [X[:, None], Y[None].swapaxes(2, 3)], (), {}, X[:, None] @ Y[None].swapaxes(2, 3)),
    ("layer_norm", [X], (4,), {}, normal(X, (2,))),
    ("layer_norm", [X], ((3, 4),), {}, normal(X, (1, 2))),
    ("rms_norm", [X], (4,), {}, normal(X, (2,), use_mean=False)),
    ("group_norm", [GROUPED], (3,), {}, grouped(GROUPED)),
    ("swapaxes", [X], (0, -1), {}, X.swapaxes(0, -1)),
    ("moveaxis", [X], (0, -1), {}, np.moveaxis(X, 0, -1)),
    ("moveaxis", [X], ((2, 0), (0, 1)), {}, np.moveaxis(X, (2, 0), (0, 1))),
    ("flatten", [X], (), {}, X.reshape(-1)),
    ("flatten", [X], (1,), {}, X.reshape(2, 12)),
    ("flatten", [X.swapaxes(0, 1)], (0, 1), {}, X.swapaxes(0, 1).reshape(6, 4)),
    ("unsqueeze", [X], (-1,), {}, X[..., None]),
    ("roll", [X], (5,), {}, np.roll(X, 5)),
    ("roll", [X], (-1, 1), {}, np.roll(X, -1, 1)),
    ("roll", [X], (6, 1), {}, X),
    ("repeat", [X], (3,), {}, np.repeat(X, 3)),
    ("repeat", [X], (2, -2), {}, np.repeat(X, 2, -2)),
    *[(name, [X], (k,), {}, getattr(np, name)(X, k)) for name in ("tril", "triu") for k in (-9, -1, 0, 2, 9)],
    ("trunc", [X * 3], (), {}, np.trunc(X * 3)),
    ("count_nonzero", [WHOLE % 3], (1,), {}, np.count_nonzero(WHOLE % 3, 1)),
    ("outer", [X, ROW], (), {}, np.outer(X, ROW)),
    ("sum", [WHOLE.astype("int32")], (1,), {"dtype": "float32"}, WHOLE.sum(1).astype("float32")),
    ("prod", [WHOLE.astype("int8") % 3 + 1], (2,), {"dtype": np.int32}, np.prod(WHOLE % 3 + 1, 2, dtype="int32")),
]  # fmt: skip
EXACT = {"sum", "prod", "average", "var", "std", "cumsum", "cumprod", "matmul", "logsumexp", "rsqrt"}


def same(found: Any, want: Any, name: str) -> None:
    assert found.shape == want.shape
    if want.dtype.kind == "f":
        tolerance = 2e-6 if name in EXACT or name.endswith("norm") else 0
        np.testing.assert_allclose(found, want.astype("float32"), rtol=tolerance, atol=tolerance)
    else:
        assert found.dtype == want.dtype
        np.testing.assert_array_equal(found, want)


def number(case: tuple[Any, ...]) -> str:
    return f"{case[0]}-{case[2]}-{case[3]}"


@pytest.mark.parametrize("case", CASES, ids=number)
def test_arrays(case: Any) -> None:
    name, arrays, args, named, want = case
    same(getattr(dml, name)(*arrays, *args, **named), want, name)


@pytest.mark.parametrize("case", CASES, ids=number)
def test_in_a_graph(case: Any) -> None:
    """Booleans are UINT8 there, as DirectML has them; whatever follows reads memory that is described anew."""
    name, arrays, args, named, want = case
    graph = dml.Graph(dml.Device())
    made = getattr(dml, name)(*map(graph.input, arrays), *args, **named)
    found = graph.compile(dml.identity(made))(*arrays)
    same(found, want.astype("uint8") if want.dtype == bool else want, name)


def test_weights_of_normalisation() -> None:
    weight, bias = (np.random.default_rng(k).standard_normal((3, 4)).astype("float32") for k in range(2))
    same(dml.layer_norm(X, (3, 4), weight, bias), normal(X, (1, 2)) * weight + bias, "layer_norm")
    same(dml.rms_norm(X, 4, ROW), normal(X, (2,), use_mean=False) * ROW, "rms_norm")
    scale, shift = np.arange(6, dtype="float32"), np.arange(6, 12, dtype="float32")
    want = grouped(GROUPED) * scale[:, None] + shift[:, None]
    same(dml.group_norm(GROUPED, 3, scale, shift), want, "group_norm")
    out = np.zeros_like(GROUPED)
    for weights in ((None, None), (scale, None), (None, shift), (scale, shift)):
        assert dml.group_norm(GROUPED, 3, *weights, out=out) is out
        same(out, np.array(dml.group_norm(GROUPED, 3, *weights)), "group_norm")


def test_joined() -> None:
    same(dml.concatenate([X, Y], axis=1), np.concatenate([X, Y], 1), "concatenate")
    same(dml.concatenate([X, Y], axis=None), np.concatenate([X, Y], None), "concatenate")
    same(dml.cat([X, Y], -1), np.concatenate([X, Y], -1), "cat")
    same(dml.stack([X, Y], axis=-1), np.stack([X, Y], -1), "stack")
    graph = dml.Graph(dml.Device())
    x, y = graph.input(X), graph.input(Y)
    found = graph.compile([dml.stack([x, y]), dml.concatenate([x, y], None)])(X, Y)
    same(found[0], np.stack([X, Y]), "stack")
    same(found[1], np.concatenate([X, Y], None), "concatenate")
    indices = np.array([[[1], [0], [3]]] * 2)
    same(dml.take_along_axis(X, indices, 2), np.take_along_axis(X, indices, 2), "take_along_axis")
    same(dml.embedding([2, 0], TABLE), TABLE[[2, 0]], "embedding")


MADE: list[tuple[str, tuple[Any, ...], Any]] = [
    ("zeros", ((2, 3),), np.zeros((2, 3), "float32")),
    ("ones", (4, "int32"), np.ones(4, "int32")),
    ("full", ((2, 2), -1.5, np.float16), np.full((2, 2), -1.5, "float16")),
    ("arange", (5,), np.arange(5)),
    ("arange", (7, -3, -2), np.arange(7, -3, -2)),
    ("arange", (0, 1, 0.25), np.arange(0, 1, 0.25, "float32")),
    ("arange", (3, 5, 1, "uint8"), np.arange(3, 5, 1, "uint8")),
    ("eye", (3,), np.eye(3, dtype="float32")),
    ("eye", (2, 4, -1, "int64"), np.eye(2, 4, -1, dtype="int64")),
]


@pytest.mark.parametrize(("name", "args", "want"), MADE, ids=[f"{name}-{args}" for name, args, _ in MADE])
def test_made_of_numbers(name: str, args: tuple[Any, ...], want: Array) -> None:
    np.testing.assert_array_equal(getattr(dml, name)(*args), want, strict=True)
    graph = dml.Graph("reference")
    made = getattr(dml, name)(*args, graph=graph)
    np.testing.assert_array_equal(graph.compile(dml.identity(made))(), want, strict=True)


def test_pytorchs_call_of_top_k() -> None:
    values, indices = dml.topk(X, 2)
    np.testing.assert_array_equal(values, -np.sort(-X)[..., :2])
    np.testing.assert_array_equal(np.take_along_axis(X, indices.astype("int64"), -1), values)
    np.testing.assert_array_equal(dml.topk(X, 1, 0, largest=False).values, X.min(0, keepdims=True))


def test_results_go_where_they_are_told() -> None:
    out = np.full((2, 8), 9, "float32")[:, ::2]
    assert dml.sum(X, axis=1, out=out) is out
    same(out, X.sum(1), "sum")
    column = np.zeros((2, 3), "float32")
    assert dml.matmul(X, ROW, out=column) is column
    same(column, X @ ROW, "matmul")
    truths = np.zeros((2, 3, 4), bool)
    assert dml.greater(X, 0.5, out=truths) is truths
    np.testing.assert_array_equal(truths, X > 0.5)
    for name, args in (("var", (1, False, 1)), ("std", (1,)), ("amax", (1,)), ("logsumexp", (1,)), ("prod", (1,))):
        made = np.zeros((2, 4), "float32")
        assert getattr(dml, name)(X, *args, out=made) is made
        same(made, getattr(dml, name)(X, *args), name)


def test_lists_and_numbers() -> None:
    assert dml.sum([1, 2, 3]) == 6
    assert dml.amax([[1.0, 5.0], [2.0, 3.0]], axis=0).tolist() == [2, 5]
    np.testing.assert_array_equal(dml.matmul([[1.0, 2.0]], np.array([[3], [4]], "float32")), [[11]])
    assert dml.sum(np.array(3.0, "float32")) == 3
    assert dml.reshape([1, 2, 3, 4], (2, 2)).tolist() == [[1, 2], [3, 4]]
    assert dml.sum(np.ones(300, bool)) == 300


def test_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    x = torch.from_numpy(X)
    assert dml.greater(x, 0).dtype == torch.bool
    assert torch.equal(x[dml.argsort(x[:, 0, 0])], x[torch.argsort(x[:, 0, 0])])
    for name, args in (("sum", (1,)), ("transpose", ((2, 0, 1),)), ("reshape", ((6, 4),)), ("squeeze", ()),
                       ("expand_dims", (1,)), ("broadcast_to", ((5, 2, 3, 4),)), ("average", ())):  # fmt: skip
        found = getattr(dml, name)(x, *args)
        assert isinstance(found, torch.Tensor), name
        same(found.numpy(), np.array(getattr(dml, name)(X, *args)), "sum")
    assert dml.sum(torch.ones(300, dtype=torch.bool)).item() == 300
    assert dml.sum(torch.ones(300, dtype=torch.uint8)).dtype == torch.int64
    layer = torch.nn.functional.layer_norm(x, (4,), torch.from_numpy(ROW))
    torch.testing.assert_close(dml.layer_norm(x, 4, torch.from_numpy(ROW)), layer)


WRONG: list[tuple[Any, str]] = [
    (lambda: dml.sum(X, axis=3), r"sum: axis must lie in -3 \.\. 2; got 3"),
    (lambda: dml.sum(X, axis=(0, -3)), "sum: axis must name no dimension twice"),
    (lambda: dml.sum(X, axis=1.5), "sum: axis must be an integer, or a list of them; got 1.5"),  # type: ignore[arg-type]  # what is asked
    (lambda: dml.sum(np.array(1.0, "float32"), axis=0), "sum: axis must be None; got 0"),
    (lambda: dml.transpose(X, (0, 1)), "transpose: axes must name each of the 3 dimensions once"),
    (lambda: dml.squeeze(X, 0), r"squeeze: axis must name dimensions of size 1 of \(2, 3, 4\); got 0"),
    (lambda: dml.broadcast_to(X, (3, 3, 4)), "broadcast_to: shape must be one that"),
    (lambda: dml.pad(X, (1, 2, 3)), "pad: pad_width must be a number"),
    (lambda: dml.pad(X, 1, "wrap"), "pad: mode must be one of constant, edge, reflect, symmetric; got 'wrap'"),
    (lambda: dml.var(X, 0, ddof=2), "var: ddof must be less than the 2 elements"),
    (lambda: dml.matmul(X, X), r"matmul: the last size of a must be that of b before its last, 3; got \(2, 3, 4\)"),
    (lambda: dml.matmul(X, np.float32(2)), "matmul: a and b must have dimensions.*use multiply"),
    (lambda: dml.layer_norm(X, 3), r"layer_norm: normalized_shape must be the last of the sizes \(2, 3, 4\); got 3"),
    (lambda: dml.group_norm(X, 2), "group_norm: num_groups must divide the channels"),
    (lambda: dml.sum(X.astype("complex64")), "complex64"),
    (lambda: dml.arange(3, 3), "arange: stop must be such that some number lies between it and 3; got 3"),
    (lambda: dml.flatten(X, 2, 1), "flatten: end_dim must not lie before start_dim, 2; got 1"),
    (lambda: dml.moveaxis(X, (0, 1), 2), "moveaxis: destination must name 2 places; got 2"),
    (lambda: dml.repeat(X, 0), "repeat: repeats must be at least 1; got 0"),
    (lambda: dml.roll(X, 1.5), "roll: shift must be an integer, or a list of them; got 1.5"),  # type: ignore[arg-type]  # what is asked
    (lambda: dml.roll(X, 1, (0, 1)), r"roll: axis must be an integer; got \(0, 1\)"),  # type: ignore[arg-type]  # what is asked
    (lambda: dml.repeat(X, [1, 2], 0), r"repeat: repeats must be an integer; got \[1, 2\]"),  # type: ignore[arg-type]  # as above
    (lambda: dml.triu(X, "a"), "triu: k must be an integer"),  # type: ignore[arg-type]  # as above
    (lambda: dml.swapaxes(X, 0, 3), r"swapaxes: axis2 must lie in -3 \.\. 2; got 3"),
    (lambda: dml.reshape(X, (5, 5)), r"reshape: shape must have the 24 elements of \(2, 3, 4\); got \(5, 5\)"),
    (lambda: dml.broadcast_to(ROW, (2**63, 4)), "broadcast_to: shape must be one that an array can have"),
    (lambda: dml.sum(X, np.ones(2)), "sum: axis must be an integer, or a list of them"),  # type: ignore[arg-type]  # as above
    (lambda: dml.reshape(X, "a"), "reshape: shape must be an integer, or a list of them"),  # type: ignore[arg-type]  # as above
    (lambda: dml.arange("a"), "arange: start must be a number; got 'a'"),  # type: ignore[arg-type]  # as above
    (lambda: dml.tril(ROW), r"tril: x must have at least 2 dimensions; got \(4,\)"),
    (lambda: dml.matmul(X.astype("int32"), TABLE), "GEMM"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message[:30] for _, message in WRONG])
def test_what_is_wrong_is_named(call: Any, message: str) -> None:
    with pytest.raises(dml.DmlError, match=message):
        call()


def test_reshape_in_a_graph_names_the_count() -> None:
    graph = dml.Graph(dml.Device())
    x = graph.input(X)
    with pytest.raises(dml.DescriptionError, match=r"reshape: shape must have the 24 elements of \(2, 3, 4\)"):
        dml.reshape(x, (5, -1))
    same(graph.compile(dml.reshape(dml.transpose(x), -1))(X), X.T.reshape(-1), "reshape")  # which is no view


@pytest.mark.parametrize("name", ["max", "min", "mean"])
def test_an_axis_is_no_second_tensor(name: str) -> None:
    """Where NumPy and PyTorch have an axis: nothing is computed with its number, known calls included."""
    function: Any = getattr(dml, name)
    element_wise: Any = {"max": dml.maximum, "min": dml.minimum}.get(name, lambda x, y: function(y, x))
    graph = dml.Graph("reference")
    for b in (0, -1, np.int64(1), (0, 1), [2, 0]):
        for x in (X, graph.input(X)):
            if x is X and np.ndim(b) == 0:
                for _ in range(2):
                    element_wise(x, b)
            with pytest.raises(
                dml.DescriptionError, match=rf"^{name}: b must not be a whole number.* along axes write a"
            ):
                function(x, b)
    same(function(X, 1.0), function(1, X), name)
    assert function(X, np.array([1], "float32")).shape == function(X, X[:1]).shape == X.shape


def test_names_of_pytorch_stand_for_those_of_numpy() -> None:
    positive = abs(X) + 1
    for name in ("sum", "prod", "average", "amax", "amin", "logsumexp", "any", "all"):
        function: Any = getattr(dml, name)
        named, own = function(positive, dim=1, keepdim=True), function(positive, axis=1, keepdims=True)
        np.testing.assert_array_equal(named, own, strict=True)
        np.testing.assert_array_equal(function(positive, dim=(0, 2)), function(positive, (0, 2)), strict=True)
    for name in ("cumsum", "cumprod", "argsort"):
        function = getattr(dml, name)
        same(function(positive, dim=1), function(positive, axis=1), name)
    same(dml.stack([X, X], dim=1), np.stack([X, X], 1), "stack")
    same(dml.cat([X, X], axis=1), np.concatenate([X, X], 1), "cat")
    same(dml.flip(X, dims=(0, 1)), np.flip(X, (0, 1)), "flip")
    same(dml.squeeze(X[None], dim=0), X, "squeeze")
    same(dml.var(X, dim=1, correction=1), X.var(1, ddof=1), "var")
    graph = dml.Graph("reference")
    x = graph.input("float32", ("n", *X.shape[1:]), "x")
    found = graph.compile(dml.sum(x, dim=1, keepdim=True))(X)
    same(found, X.sum(1, keepdims=True), "sum")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dml.sum(X, axis=0, dim=1), r"sum\(\) got axis twice"),
        (lambda: dml.sum(X, 0, dim=1), "multiple values for argument 'axis'"),
        (lambda: dml.std(X, dim=0), "must be told correction="),
        (lambda: dml.sort(X, dim=1), "values alone.*top_k"),  # type: ignore[call-arg]
        (lambda: dml.sum(X, dimension=1), "unexpected keyword argument 'dimension'"),  # type: ignore[call-arg]
    ],
)
def test_a_call_that_means_something_else_elsewhere_is_refused(call: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_names_are_nobody_elses() -> None:
    names = {function.__name__ for function in FAMILIAR}
    assert names.isdisjoint(function_names())
    assert set(RENAMED).isdisjoint({*names, *function_names()})
    assert {*names, *RENAMED} <= set(dml.__all__)
    assert dml.absolute is dml.abs
    assert {name for name, *_ in CASES} | {
        "arange", "cat", "concatenate", "embedding", "eye", "full", "ones", "stack", "take_along_axis", "topk", "zeros",
    } == names  # fmt: skip


def test_examples_in_docstrings_run() -> None:
    runner, parser = doctest.DocTestRunner(), doctest.DocTestParser()
    known = {"np": np, **{function.__name__: function for function in FAMILIAR}}
    for function in FAMILIAR:
        example = parser.get_doctest(function.__doc__ or "", known, function.__name__, None, 0)
        assert example.examples
        assert runner.run(example).failed == 0
        assert list(inspect.signature(function).parameters)
