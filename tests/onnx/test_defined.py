"""Node types that ONNX defines by others for the types and attributes at hand: attention and the losses of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

from anydml.onnx import load  # isort: skip - after the models, which leave this out where onnx is missing
import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.lower import lowering_cache, trace
from anydml.onnx.lower.lowering_cache import Kept
from anydml.onnx.read import read_model

RNG = np.random.default_rng(23)


def test_attention_with_an_open_length() -> None:
    heads = {"q_num_heads": 2, "kv_num_heads": 2, "is_causal": 1}
    inputs = dict.fromkeys("qkv", ("float32", (1, "n", 8)))
    found = load(model(node("Attention", "q k v", "y", **heads), inputs, "y", opset=23))
    for count in (3, 5, 1):
        q, k, v = RNG.standard_normal((3, 1, count, 8)).astype("float32")
        split = [x.astype(float).reshape(count, 2, 4).swapaxes(0, 1) for x in (q, k, v)]
        scores = np.where(np.tri(count) > 0, split[0] @ split[1].swapaxes(1, 2) / 2, -np.inf)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = (powers / powers.sum(-1, keepdims=True) @ split[2]).swapaxes(0, 1).reshape(1, count, 8)
        np.testing.assert_allclose(found.run({"q": q, "k": k, "v": v})["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("opset", [23, 24])
def test_attention_of_four_dimensions_that_says_its_heads(opset: int) -> None:
    """The numbers of heads are for 3 dimensions: with 4 they change nothing, whatever else is given."""
    heads = {"q_num_heads": 4, "kv_num_heads": 2}
    q, k, v = (RNG.standard_normal((2, count, 3, size)).astype("float32") for count, size in ((4, 4), (2, 4), (2, 5)))
    past = RNG.standard_normal((2, 2, 2, 9)).astype("float32")
    every = {"q": q, "k": k, "v": v, "mask": RNG.random((2, 1, 3, 5)) < 0.7, "pk": past[..., :4], "pv": past[..., 4:]}
    every["mask"][..., 0] = True
    for names, attributes in (
        ("q k v", {}),
        ("q k v", {"is_causal": 1, "softcap": 2.0}),
        ("q k v mask pk pv", {"scale": 0.5, "qk_matmul_output_mode": 2}),
    ):
        arrays = {name: np.ascontiguousarray(every[name]) for name in names.split()}
        inputs = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        outputs = "y present_key present_value scores" if "pk" in arrays else "y"
        found, wanted = (
            load(model(node("Attention", names, outputs, **attributes, **more), inputs, outputs, opset=opset)).run(
                arrays
            )
            for more in (heads, {})
        )
        assert found["y"].shape == (2, 4, 3, 5)
        for name, array in wanted.items():
            assert np.array_equal(found[name], array)


def test_attention_refuses_a_mask_that_fits_no_scores() -> None:
    inputs = {**dict.fromkeys("qkv", ("float32", (1, 2, 3, 4))), "m": ("float32", (3, 2))}
    with pytest.raises(dml.DmlError, match=r"attn_mask must have a shape that can be broadcast to \(1, 2, 3, 3\)"):
        load(model(node("Attention", "q k v m", "y"), inputs, opset=23))
    load(model(node("Attention", "q k v m", "y"), inputs, opset=24))  # where what is missing is masked


def test_a_loss_and_what_it_refuses() -> None:
    inputs = {"x": ("float32", ("n", 3)), "labels": ("int64", ("n",))}

    def loss(**attributes: object) -> Any:
        return load(model(node("SoftmaxCrossEntropyLoss", "x labels", "y", **attributes), inputs, "y"))

    x, labels = RNG.standard_normal((4, 3)).astype("float32"), np.array([2, 0, 1, 1])
    logs = np.log(np.exp(x.astype(float)) / np.exp(x.astype(float)).sum(1, keepdims=True))
    each = -logs[np.arange(4), labels]
    for reduction, wanted in (("none", each), ("sum", each.sum()), ("mean", each.mean())):
        got = loss(reduction=reduction).run({"x": x, "labels": labels})["y"]
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    ignoring = loss(ignore_index=1).run({"x": x, "labels": labels})["y"]
    np.testing.assert_allclose(ignoring, each[:2].mean(), rtol=1e-6)
    with pytest.raises(dml.DmlError, match="reduction must be mean, sum or none; got 'most'"):
        loss(reduction="most").run({"x": x, "labels": labels})
    with pytest.raises(dml.IndexRangeError, match="3"):
        loss().run({"x": x, "labels": np.array([2, 0, 3, 1])})


NUMBERS = np.random.default_rng(5)
WIDTH = 12  # squared, more elements than a node is told from others by


def layer(i: int, x: str, y: str, *, is_last: bool) -> tuple[list[Any], dict[str, Any]]:
    """A layer with what lowerings treat in ways of their own: weights that are moved, looked at, or read twice."""
    shown = np.array([*range(WIDTH)] * 6) if i % 2 else np.array([*reversed(range(WIDTH))] * 6)
    nodes = [
        node("Transpose", f"w{i}", f"t{i}", perm=[1, 0]),  # folded: of this layer alone
        node("MatMul", f"{x} t{i}", f"m{i}"),
        node("Identity", f"b{i}", f"i{i}"),
        node("Add", f"m{i} i{i}", f"a{i}"),
        node("Mul", f"a{i} a{i}", f"q{i}"),  # one tensor twice
        node("Mul", f"a{i} {x}", f"p{i}"),  # two tensors of the same shapes
        node("Sub", f"q{i} p{i}", f"s{i}"),
        node("Shape", f"s{i}", f"n{i}"),
        node("Gather", f"n{i} zero", f"k{i}", axis=0),
        node("Concat", f"k{i} two half", f"c{i}", axis=0),
        node("Reshape", f"s{i} c{i}", f"r{i}"),
        node("Reshape", f"r{i} whole", f"v{i}"),  # a view of a view
        node("Gather", f"v{i} g{i}", f"e{i}", axis=1),  # whose indices are looked at
        node("Slice", f"e{i} zero width one", f"z{i}"),
        node("Tanh", f"z{i}", y, name=f"tanh {i}"),
    ]
    weights = {f"w{i}": NUMBERS.standard_normal((WIDTH, WIDTH)), f"b{i}": NUMBERS.standard_normal(WIDTH)}
    return nodes[: 15 - is_last] + [node("Identity", f"z{i}", y)] * is_last, {
        **{name: array.astype("float32") for name, array in weights.items()},
        f"g{i}": shown,
    }


def layers(count: int) -> Any:
    nodes: list[Any] = []
    numbers = {"zero": [0], "one": [1], "two": [2], "half": [WIDTH // 2], "width": [WIDTH], "whole": [0, WIDTH]}
    constants: dict[str, Any] = {name: np.array(several) for name, several in numbers.items()}
    for i in range(count):
        is_last = i == count - 1
        more, weights = layer(i, f"y{i - 1}" if i else "x", "y" if is_last else f"y{i}", is_last=is_last)
        nodes += more
        constants |= weights
    return model(nodes, {"x": ("float32", ["rows", WIDTH])}, "y", constants)


def expected(proto: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    from onnx.reference import ReferenceEvaluator

    found: np.ndarray[Any, Any] = ReferenceEvaluator(proto).run(None, {"x": x})[0]
    return found


def test_equal_layers_are_lowered_once_and_give_the_bits_of_layers_that_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proto = layers(4)
    ours = anydml.onnx.load(proto)
    with monkeypatch.context() as patched:
        patched.setattr(trace, "key_of", lambda _: None)
        plain = {rows: anydml.onnx.load(proto)(np.full((rows, WIDTH), 0.1, "float32")) for rows in (3, 7)}
    for rows in (3, 7, 3):
        x = np.full((rows, WIDTH), 0.1, "float32")
        np.testing.assert_array_equal(ours(x), plain[rows])
        np.testing.assert_allclose(ours(x), expected(proto, x), rtol=1e-4)

    source, made = read_model(proto), Kept()
    found = [trace.trace_all(source, {"x": (rows, WIDTH)}, {}, ours.device, kept=made) for rows in (3, 3, 7)]
    by_output = [{record.node.output[0]: record for record in each.records} for each in found]
    first, second = by_output[0]["m0"].operators[0], by_output[0]["m1"].operators[0]
    assert first is second is by_output[1]["m2"].operators[0]
    assert first is not by_output[2]["m2"].operators[0]
    assert by_output[0]["t1"].note == by_output[0]["k1"].note == "folded"
    assert by_output[0]["r1"].note == "a view, no pass"
    assert not any(record.refusal for record in found[0].records)


def test_patterns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering_cache, "_MOST_PATTERNS", 3)
    proto, x = layers(2), np.full((2, WIDTH), 0.2, "float32")
    source, made = read_model(proto), Kept()
    trace.trace(source, {"x": x.shape}, {}, dml.Device(), kept=made)
    assert 0 < len(made.patterns) <= 3
    np.testing.assert_allclose(anydml.onnx.load(proto)(x), expected(proto, x), rtol=1e-4)


def test_an_error_tells_of_its_own_node() -> None:
    nodes = [node("Gather", f"x {name}", f"y{name}", name=f"take {name}") for name in "ab"]
    given = {"x": ("float32", [100]), "a": ("int64", [80]), "b": ("int64", [80])}
    gathers = anydml.onnx.load(model(nodes, given, "ya yb"))
    x, inside, outside = np.arange(100, dtype="float32"), np.arange(80), np.arange(80) + 30
    assert gathers(x, inside, inside)[1].tolist() == inside.tolist()
    for arrays, name in (((outside, inside), "take a"), ((inside, outside), "take b")):
        with pytest.raises(dml.DmlError, match=f"node '{name}'"):
            gathers(x, *arrays)
    kinds = [node("Cast", "x", "i", to=7), *(node("Reshape", f"x {n}", f"y{n}", name=f"shape {n}") for n in "pq")]
    wrong = model(kinds, {"x": ("float32", [6])}, "yp yq", {"p": np.array([2, 3]), "q": np.array([4, 2])})
    with pytest.raises(dml.DmlError, match="node 'shape q'"):
        anydml.onnx.load(wrong)
