"""Node types that ONNX defines by others for the types and attributes at hand: attention and the losses of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_models import model, node

from anydml.onnx import load  # isort: skip - after the models, which leave this out where onnx is missing

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
