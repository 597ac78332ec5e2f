"""Operators with windows: PyTorch agrees, sizes that are free, levels, and what is said of what does not fit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import anydml as dml
from families.products import expected
from places import get, put

T = dml.TensorDesc


def test_sizes_that_are_free(engine: str) -> None:
    """As Microsoft's candy sample has it: where nothing is spread to there is the bias."""
    device, x = dml.Device(engine), np.ones((1, 1, 3, 3), "float32")
    given: dict[str, Any] = {"direction": "BACKWARD", "strides": 2, "start_padding": 1, "end_padding": 1}
    found = dml.convolution(put(x, device), put(x, device), put(np.full(1, 7, "float32"), device), **given,
                            output_sizes=(1, 1, 6, 6), device=device)  # fmt: skip
    least = dml.convolution(put(x, device), put(x, device), **given, device=device)
    assert (found.shape, least.shape) == ((1, 1, 6, 6), (1, 1, 5, 5))
    np.testing.assert_array_equal(get(found)[..., :5, :5], get(least) + 7)
    np.testing.assert_array_equal(get(found)[0, 0, 5], [8, 9, 8, 9, 8, 8])
    g = dml.Graph(device)
    a, b = g.input(x), g.constant(x)
    made = g.compile(dml.convolution(a, b, output_sizes=(1, 1, 6, 6), **given))
    np.testing.assert_array_equal(get(made(put(x, device))), get(found) - 7)


def test_padding_of_the_result_is_zero(engine: str) -> None:
    device, x = dml.Device(engine), np.ones((1, 1, 2, 2), "float32")
    found = dml.convolution(put(x, device), put(x[..., :1, :1].copy(), device), output_padding=(1, 2), device=device,
                            fused_activation=dml.FusedActivation("LINEAR", alpha=2, beta=1))  # fmt: skip
    np.testing.assert_array_equal(get(found)[0, 0], [[3, 3, 0, 0], [3, 3, 0, 0], [0, 0, 0, 0]])


def test_indices_are_asked_for(engine: str) -> None:
    device, x = dml.Device(engine), np.array([[[[1, 3, 3], [3, 2, 1]]]], "float32")
    only, none = dml.max_pooling1(put(x, device), 2, device=device)
    assert none is None
    values, indices = dml.max_pooling1(put(x, device), 2, output_indices=True, device=device)
    np.testing.assert_array_equal(get(only), get(values))
    np.testing.assert_array_equal(get(indices), np.array([[[[1, 1]]]], "uint32"))
    outs: Any = [put(np.empty((1, 1, 1, 2), kind), device) for kind in ("float32", "uint64")]
    assert dml.max_pooling1(put(x, device), 2, output_indices=True, out=outs, device=device)[1] is outs[1]
    np.testing.assert_array_equal(get(outs[1]), [[[[1, 1]]]])
    g = dml.Graph(device)
    both: Any = dml.max_pooling2(g.input(x), 2, output_indices=True)
    np.testing.assert_array_equal(get(g.compile(both[1])(put(x, device))), [[[[1, 1]]]])
    # A window larger than the input is there once, and indices never point at padding.
    low = np.full((1, 1, 2, 2), -np.inf, "float32")
    values, indices = dml.max_pooling2(put(low, device), 4, start_padding=1, output_indices=True, device=device)
    assert (get(values).item(), get(indices).item()) == (-np.inf, 0)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_pytorch_agrees(engine: str, rank: int) -> None:
    torch = pytest.importorskip("torch", reason="its functions are the oracle")
    functions, rng, device = torch.nn.functional, np.random.default_rng(3), dml.Device(engine)
    x = rng.standard_normal((2, 4, *(7, 6, 5)[:rank])).astype("float32")
    for step, by, pad, groups in ((2, 1, 1, 1), (1, 2, 2, 2), (3, 1, 0, 4)):
        w = rng.standard_normal((8, 4 // groups, *(3, 2, 2)[:rank])).astype("float32")
        bias = rng.standard_normal(8).astype("float32")
        tensors = [torch.from_numpy(one) for one in (x, w, bias)]
        options = {"stride": step, "dilation": by, "padding": pad, "groups": groups}
        wanted = getattr(functions, f"conv{rank}d")(*tensors, **options).numpy()
        given: dict[str, Any] = {
            "strides": step,
            "dilations": by,
            "start_padding": pad,
            "end_padding": pad,
            "group_count": groups,
        }
        there: Any = [put(one, device) for one in (x, w, bias)]
        np.testing.assert_allclose(get(dml.convolution(*there, **given, device=device)), wanted, 1e-4, 1e-5)
        back = w.reshape(4, 8 // groups, *w.shape[2:])
        tensors[1], there[1] = torch.from_numpy(back), put(back, device)
        wanted = getattr(functions, f"conv_transpose{rank}d")(*tensors, **options, output_padding=step - 1).numpy()
        given |= {"direction": "BACKWARD", "output_sizes": wanted.shape}
        found = dml.convolution(*there, **given, device=device)
        np.testing.assert_allclose(get(found), wanted, 1e-4, 1e-5)


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_windows_of_many_pixels_are_summed_exactly(kind: str) -> None:
    """By the tiles of the cpu engine: whole panels and parts of them, strides, gaps, and filters from their ends."""
    rng, device = np.random.default_rng(6), dml.Device("cpu")
    x = rng.integers(-2, 3, (2, 18, 19, 23)).astype(kind)
    for step, by, groups, mode, direction in (
        (1, 1, 1, "CROSS_CORRELATION", "FORWARD"), (2, 1, 2, "CONVOLUTION", "FORWARD"),
        (1, 2, 18, "CROSS_CORRELATION", "FORWARD"), (2, 1, 1, "CROSS_CORRELATION", "BACKWARD"),
        (3, 2, 3, "CONVOLUTION", "BACKWARD"),
    ):  # fmt: skip
        sizes = (18, 36 // groups) if direction == "BACKWARD" else (36, 18 // groups)
        w = rng.integers(-2, 3, (*sizes, 3, 2)).astype(kind)
        bias = rng.integers(-9, 10, (1, 36, 1, 1)).astype(kind)
        desc = dml.Convolution.infer(
            **{f"{name}_tensor": T.of(one) for name, one in (("input", x), ("filter", w), ("bias", bias))},
            strides=step, dilations=by, group_count=groups, mode=mode, direction=direction, start_padding=(1, 0),
            end_padding=(0, 1), fused_activation="RELU",
        )  # fmt: skip
        (wanted,) = expected(desc, {"InputTensor": x, "FilterTensor": w, "BiasTensor": bias})
        np.testing.assert_array_equal(device.compile(desc)(x, w, bias), wanted)


@pytest.mark.parametrize(("padding", "stride", "more"), [(1, 2, 1), (2, 3, 2), (2, 4, 3), (0, 2, 1)])
def test_a_transposed_convolution_leaves_an_element_before_its_padding(
    engine: str, padding: int, stride: int, more: int
) -> None:
    """The smallest output is one element where less than one would be left, and OutputPadding comes after it."""
    x, w = (put(np.ones((1, 1, 1, 1), "float32"), engine) for _ in range(2))
    options: dict[str, Any] = {
        "strides": stride,
        "start_padding": padding,
        "output_padding": more,
        "direction": "BACKWARD",
    }
    found = get(dml.convolution(x, w, **options, device=engine))
    wanted = np.zeros((1, 1, 1 + more, 1 + more))
    wanted[0, 0, 0, 0] = padding == 0
    np.testing.assert_array_equal(found, wanted)
    desc: dict[str, Any] = {"input_tensor": T("float32", (1, 1, 1, 1)), "filter_tensor": T("float32", (1, 1, 1, 1))}
    described = dml.Convolution(**desc, output_tensor=T("float32", (1, 1, more, more)), **options)
    rule = rf"OutputTensor\.Sizes\[2\] must be {1 + more}"
    assert re.search(rule, str(described.check().faults[0]))


def test_a_transposed_convolution_of_which_nothing_is_left() -> None:
    x = np.ones((1, 1, 1, 1), "float32")
    with pytest.raises(dml.DescriptionError, match=r"StartPadding\[0\] and EndPadding\[0\] must leave an element"):
        dml.convolution(x, x, start_padding=2, output_padding=5, direction="BACKWARD")
