"""Small networks as exporters spell them: PyTorch's, TensorFlow's by tf2onnx, Hugging Face's BERT, GPT-2 and Llama."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from onnx_models import helper, onnx

if TYPE_CHECKING:
    from collections.abc import Callable

WIDTH, LENGTH, HEADS, SHARED = 64, 32, 4, 2
"""Of a token, of a text, and of attention: every two heads share keys and values."""
DEPTH = WIDTH // HEADS
LOWEST = float(np.finfo(np.float32).min)


class Spelled:
    """A model in the making: `m.Add(x, 1.0)` adds a node, whose output it gives by name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.inputs: list[Any] = []
        self.feeds: dict[str, Any] = {}
        self.rng = np.random.default_rng(3)

    def input(self, name: str, array: Any) -> str:
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.feeds[name] = array
        return name

    def numbers(self, *sizes: int) -> Any:
        return self.rng.standard_normal(sizes).astype(np.float32) / 4

    def constant(self, array: Any, dtype: Any = np.float32) -> str:
        self.tensors.append(onnx.numpy_helper.from_array(np.asarray(array, dtype), f"c{len(self.tensors)}"))
        return str(self.tensors[-1].name)

    def weights(self, *sizes: int) -> str:
        return self.constant(self.numbers(*sizes))

    def ints(self, *numbers: int) -> str:
        return self.constant(numbers, np.int64)

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        def add(*inputs: str | float, count: int = 1, **attributes: Any) -> Any:
            names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
            outputs = [f"{kind}{len(self.nodes)}.{k}" for k in range(count)]
            self.nodes.append(helper.make_node(kind, names, outputs, f"{kind}{len(self.nodes)}", **attributes))
            return outputs[0] if count == 1 else outputs

        return add

    def model(self, output: str) -> Any:
        made = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "spelled", self.inputs, [made], self.tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def layer_norm(m: Spelled, x: str) -> str:
    less = m.Sub(x, m.ReduceMean(x, axes=[-1]))
    spread = m.Sqrt(m.Add(m.ReduceMean(m.Pow(less, 2.0), axes=[-1]), 1e-5))
    return str(m.Add(m.Mul(m.Div(less, spread), m.weights(WIDTH)), m.weights(WIDTH)))


def rms_norm(m: Spelled, x: str) -> str:
    spread = m.Sqrt(m.Add(m.ReduceMean(m.Pow(x, 2.0), axes=[-1]), 1e-6))
    return str(m.Mul(m.weights(WIDTH), m.Mul(x, m.Div(1.0, spread))))


def gelu_by_erf(m: Spelled, x: str) -> str:
    return str(m.Mul(m.Mul(x, m.Add(m.Erf(m.Div(x, 2**0.5)), 1.0)), 0.5))


def gelu_by_tanh(m: Spelled, x: str) -> str:
    inner = m.Mul(m.Add(x, m.Mul(m.Pow(x, 3.0), 0.044715)), 0.7978845608)
    return str(m.Mul(m.Mul(x, 0.5), m.Add(m.Tanh(inner), 1.0)))


def hard_swish(m: Spelled, x: str) -> str:
    return str(m.Div(m.Mul(x, m.Clip(m.Add(x, 3.0), 0.0, 6.0)), 6.0))


def linear(m: Spelled, x: str, outputs: int = WIDTH, inputs: int = WIDTH) -> str:
    """As PyTorch has it: the weights transposed."""
    return str(m.Add(m.weights(outputs), m.MatMul(x, m.Transpose(m.weights(outputs, inputs), perm=[1, 0]))))


def heads(m: Spelled, x: str, count: int = HEADS, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
    return str(m.Transpose(m.Reshape(x, m.ints(0, 0, count, DEPTH)), perm=perm))


def attended(m: Spelled, query: str, key: str, value: str, mask: Callable[[str], str]) -> str:
    scores = mask(m.Div(m.MatMul(query, key), float(np.sqrt(DEPTH))))
    found = m.Transpose(m.MatMul(m.Softmax(scores, axis=-1), value), perm=[0, 2, 1, 3])
    return str(m.Reshape(found, m.ints(0, 0, WIDTH)))


def bert(m: Spelled, x: str) -> str:
    seen = m.input("mask", np.array([[1] * (LENGTH - 2) + [0] * 2], np.int64))
    wide = m.Cast(m.Unsqueeze(m.Unsqueeze(seen, m.ints(1)), m.ints(2)), to=onnx.TensorProto.FLOAT)
    mask = m.Mul(m.Sub(1.0, wide), -10000.0)
    query, value = heads(m, linear(m, x)), heads(m, linear(m, x))
    found = attended(m, query, heads(m, linear(m, x), perm=(0, 2, 3, 1)), value, lambda s: str(m.Add(s, mask)))
    x = layer_norm(m, m.Add(linear(m, found), x))
    return layer_norm(m, m.Add(linear(m, gelu_by_erf(m, linear(m, x, 2 * WIDTH)), WIDTH, 2 * WIDTH), x))


def gpt2(m: Spelled, x: str) -> str:
    flat = m.Reshape(layer_norm(m, x), m.ints(-1, WIDTH))
    both = m.Reshape(m.Gemm(flat, m.weights(WIDTH, 3 * WIDTH), m.weights(3 * WIDTH)), m.ints(1, LENGTH, 3 * WIDTH))
    query, key, value = m.Split(both, m.ints(WIDTH, WIDTH, WIDTH), count=3, axis=2)
    before = m.constant(np.tril(np.ones((1, 1, LENGTH, LENGTH), bool)), bool)
    key = heads(m, key, perm=(0, 2, 3, 1))
    found = attended(m, heads(m, query), key, heads(m, value), lambda s: str(m.Where(before, s, LOWEST)))
    x = m.Add(linear(m, found), x)
    return str(m.Add(x, linear(m, gelu_by_tanh(m, linear(m, layer_norm(m, x))))))


def rotary(m: Spelled, x: str, cos: str, sin: str) -> str:
    low, high = (m.Slice(x, m.ints(k), m.ints(k + DEPTH // 2), m.ints(3)) for k in (0, DEPTH // 2))
    return str(m.Add(m.Mul(x, cos), m.Mul(m.Concat(m.Neg(high), low, axis=-1), sin)))


def llama(m: Spelled, x: str) -> str:
    angles = m.numbers(LENGTH, DEPTH // 2)
    angles = m.input("angles", np.concatenate((angles, angles), -1))
    cos, sin = m.Cos(angles), m.Sin(angles)
    normal = rms_norm(m, x)
    query = rotary(m, heads(m, linear(m, normal)), cos, sin)
    key, value = (heads(m, linear(m, normal, SHARED * DEPTH), SHARED) for _ in range(2))
    repeats = m.ints(1, SHARED, HEADS // SHARED, LENGTH, DEPTH)
    key, value = (
        m.Reshape(m.Expand(m.Unsqueeze(one, m.ints(2)), repeats), m.ints(1, HEADS, LENGTH, DEPTH))
        for one in (rotary(m, key, cos, sin), value)
    )
    mask = m.constant(np.triu(np.full((1, 1, LENGTH, LENGTH), LOWEST), 1))
    key = m.Transpose(key, perm=[0, 1, 3, 2])
    x = m.Add(x, linear(m, attended(m, query, key, value, lambda s: str(m.Add(s, mask)))))
    normal = rms_norm(m, x)
    gate = linear(m, normal, 2 * WIDTH)
    gated = m.Mul(m.Mul(gate, m.Sigmoid(gate)), linear(m, normal, 2 * WIDTH))
    return str(m.Add(x, linear(m, gated, WIDTH, 2 * WIDTH)))


def normalised(m: Spelled, x: str, channels: int) -> str:
    spread = m.constant(abs(m.numbers(channels)) + 0.5)
    return str(m.BatchNormalization(x, m.weights(channels), m.weights(channels), m.weights(channels), spread))


def inverted(m: Spelled, x: str) -> str:
    """TensorFlow's: what lies channel by channel is transposed for each convolution, and back."""

    def convolved(x: str, outputs: int, inputs: int, size: int = 1, groups: int = 1, *, is_normal: bool = False) -> str:
        filters, pads = m.weights(outputs, inputs // groups, size, size), [size // 2] * 4
        y = m.Conv(m.Transpose(x, perm=[0, 3, 1, 2]), filters, pads=pads, group=groups)
        y = m.Transpose(normalised(m, y, outputs) if is_normal else y, perm=[0, 2, 3, 1])
        return str(y if is_normal else m.Add(y, m.weights(outputs)))

    wide = m.Clip(convolved(x, 48, 16), 0.0, 6.0)
    wide = m.Clip(convolved(wide, 48, 48, 3, 48, is_normal=True), 0.0, 6.0)
    return str(m.Add(x, convolved(wide, 16, 48)))


TEXT, IMAGE = (1, LENGTH, WIDTH), (1, 14, 14, 16)
SPELLINGS: dict[str, tuple[Callable[[Spelled, str], str], tuple[int, ...], int]] = {
    "layer_norm": (layer_norm, TEXT, 1),
    "rms_norm": (rms_norm, TEXT, 1),
    "gelu_by_erf": (gelu_by_erf, TEXT, 1),
    "gelu_by_tanh": (gelu_by_tanh, TEXT, 1),
    "hard_swish": (hard_swish, TEXT, 1),
    "linear": (linear, TEXT, 1),
    "bert": (bert, TEXT, 10),
    "gpt2": (gpt2, TEXT, 7),
    "llama": (llama, TEXT, 13),
    "inverted": (inverted, IMAGE, 7),
}
"""By name what is spelled, for an input of which sizes, and the passes that it takes on a processor."""


def spell(name: str) -> tuple[Any, dict[str, Any], int]:
    """A model, its inputs, and the passes that it is to become."""
    build, sizes, passes = SPELLINGS[name]
    m = Spelled()
    output = build(m, m.input("x", m.numbers(*sizes)))
    return m.model(output), m.feeds, passes
