"""Node types of language models that ONNX has not: against float64, and ONNX Runtime where it has their form."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_answers import session_of
from onnx_models import helper, onnx

from anydml.onnx import load  # isort: skip - after the models, which leave this out where onnx is missing

pytest.importorskip("onnxruntime", reason="ONNX Runtime is what its node types are compared with")
RNG = np.random.default_rng(7)
HALF = np.float16


def _model(kind: str, inputs: dict[str, Any], outputs: list[str], **attributes: Any) -> Any:
    """A model of one node, whose weights are its own: those whose names begin with a capital letter."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    given = {name: value for name, value in inputs.items() if value is not None}
    node = helper.make_node(kind, names, outputs, name="n", domain="com.microsoft", **attributes)
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in given.items()
        if not name[0].isupper()
    ]
    weights = [onnx.numpy_helper.from_array(value, name) for name, value in given.items() if name[0].isupper()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "language", infos, results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _answers(kind: str, inputs: dict[str, Any], outputs: list[str], **attributes: Any) -> tuple[Any, Any]:
    """The model, and what the device makes of it."""
    proto = _model(kind, inputs, outputs, **attributes)
    feeds = {name: value for name, value in inputs.items() if value is not None and not name[0].isupper()}
    found = load(proto, strict=True).run(feeds)
    return (proto, feeds), [found[name] for name in outputs]


def _close(found: Any, wanted: Any, tolerance: float = 4e-6) -> None:
    assert found.shape == wanted.shape
    most = np.abs(wanted).max(initial=1e-3)
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=0, atol=tolerance * most)


def _theirs(made: tuple[Any, Any]) -> Any:
    proto, feeds = made
    return session_of(proto).run(None, feeds)


def _floats(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# Experts


def _mixed(x: Any, scores: Any, weights: list[Any], biases: list[Any], options: dict[str, Any], shares: Any) -> Any:
    """What experts make of tokens, one after the other."""
    rows, k, kind = x.reshape(-1, x.shape[-1]).astype(np.float64), options["k"], options["activation_type"]
    found = np.zeros_like(rows)
    for t, row in enumerate(rows):
        order = np.argsort(-scores[t])[:k]
        some = shares[t][order]
        for share, e in zip(
            some / some.sum() if options.get("normalize_routing_weights") else some, order, strict=True
        ):
            first = weights[0][e] @ row + biases[0][e]
            gate, other = first, None
            if kind == "swiglu" and weights[2] is not None:
                other = weights[2][e] @ row
            elif kind == "swiglu":
                half = len(first) // 2
                split = (first[:half], first[half:]) if options["swiglu_fusion"] == 2 else (first[::2], first[1::2])
                gate, other = split
            if other is not None:
                limit = options.get("swiglu_limit", math.inf)
                gate, other = np.minimum(gate, limit), np.clip(other, -limit, limit)
                curve = _sigmoid(options.get("activation_alpha", 1) * gate)
                made = gate * curve * (other + options.get("activation_beta", 0))
            elif kind == "gelu":
                made = gate * (1 + np.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))) / 2
            else:
                made = {"relu": np.maximum(gate, 0), "silu": gate * _sigmoid(gate), "identity": gate}[kind]
            found[t] += share * (weights[1][e] @ made + biases[1][e])
    return found.reshape(x.shape)


GPT = {"activation_alpha": 1.702, "activation_beta": 1.0, "swiglu_limit": 1.5}
MIXES: list[dict[str, Any]] = [
    {"activation_type": "relu", "k": 1},
    {"activation_type": "gelu", "k": 2, "normalize_routing_weights": 1},
    {"activation_type": "silu", "k": 3},
    {"activation_type": "swiglu", "swiglu_fusion": 1, "k": 2, "normalize_routing_weights": 1, **GPT},
    {"activation_type": "swiglu", "swiglu_fusion": 2, "k": 2},
    {"activation_type": "swiglu", "swiglu_fusion": 0, "k": 2},
]
COUNT, HIDDEN, INNER = 8, 32, 16


def _sizes(options: dict[str, Any]) -> list[tuple[int, int, int]]:
    wide = 2 * INNER if options.get("swiglu_fusion") else INNER
    third = [(COUNT, INNER, HIDDEN)] if options.get("swiglu_fusion") == 0 else []
    return [(COUNT, wide, HIDDEN), (COUNT, HIDDEN, INNER), *third]


@pytest.mark.parametrize("dtype", [np.float32, HALF])
@pytest.mark.parametrize("tokens", [1, 7])
@pytest.mark.parametrize("options", MIXES, ids=range(len(MIXES)))
def test_experts(options: dict[str, Any], tokens: int, dtype: Any) -> None:
    """Few tokens, whose experts are gathered, and many, which ask all of them."""
    x, scores = _floats(1, tokens, HIDDEN, dtype=dtype), _floats(tokens, COUNT, dtype=dtype)
    sizes = _sizes(options)
    weights = [(_floats(*shape) / 6).astype(dtype) for shape in sizes]
    biases = [_floats(*shape[:2], dtype=dtype) for shape in sizes[:2]]
    inputs = {"x": x, "scores": scores, "W1": weights[0], "B1": biases[0], "W2": weights[1], "B2": biases[1]}
    third = weights[2] if len(weights) > 2 else None
    made, (y,) = _answers("MoE", {**inputs, "W3": third}, ["y"], **options)
    wide = [w.astype(np.float64) for w in weights] + [None] * (3 - len(weights))
    terms = np.exp(scores.astype(np.float64))
    shares = terms / terms.sum(-1, keepdims=True)
    _close(
        y,
        _mixed(x, scores, wide, [b.astype(np.float64) for b in biases], options, shares),
        4e-3 if dtype is HALF else 4e-6,
    )
    if dtype is not HALF and options.get("swiglu_fusion", 1) == 1:
        _close(y, _theirs(made)[0])


def _packed(numbers: Any, bits: int) -> Any:
    """Numbers of few bits, the first in the lowest; each row is whole bytes."""
    each = 8 // bits
    padded = np.zeros((*numbers.shape[:-1], -(-numbers.shape[-1] // each) * each), np.uint8)
    padded[..., : numbers.shape[-1]] = numbers
    parts = padded.reshape(*padded.shape[:-1], -1, each)
    return np.bitwise_or.reduce(parts << (bits * np.arange(each, dtype=np.uint8)), -1).astype(np.uint8)


@pytest.mark.parametrize(("tokens", "dtype"), [(1, np.float32), (5, np.float32), (2, HALF)])
@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(("bits", "block"), [(4, 16), (8, 16), (4, 0), (8, 0), (2, 16), (2, 0)])
def test_experts_of_few_bits(bits: int, block: int, has_zeros: bool, tokens: int, dtype: Any) -> None:
    """A scale for each column or each block of 16, and zero points; shares of the router's or of another tensor."""
    options: dict[str, Any] = {**MIXES[3], "expert_weight_bits": bits, **({"block_size": block} if block else {})}
    x, scores = _floats(1, tokens, HIDDEN, dtype=dtype), _floats(tokens, COUNT, dtype=dtype)
    own = RNG.random((tokens, COUNT)).astype(dtype) if tokens > 1 else None
    inputs: dict[str, Any] = {"x": x, "scores": scores}
    weights, zeros, biases = [], [], []
    for i, (count, columns, length) in enumerate(_sizes(options)):
        blocks = length // block if block else 1
        numbers, scale = RNG.integers(0, 2**bits, (count, columns, length)), RNG.random((count, columns, blocks)) + 0.5
        scale = (scale / 2**bits / 2).astype(dtype)
        zero = RNG.integers(0, 2**bits, (count, columns, blocks)) if has_zeros else np.full((1, 1, 1), 2 ** (bits - 1))
        apart = numbers.reshape(count, columns, blocks, -1) - zero[..., None]
        weights.append((apart * scale.astype(np.float64)[..., None]).reshape(count, columns, length))
        biases.append(_floats(count, columns, dtype=dtype))
        zeros.append(_packed(zero if block else zero[..., 0], bits) if has_zeros else None)
        inputs |= {
            f"W{i}": _packed(numbers, bits),
            f"S{i}": scale if block else scale[..., 0],
            f"B{i}": biases[-1],
        }
    inputs |= {**dict.fromkeys(("W2", "S2", "B2")), "Z0": zeros[0], "Z1": zeros[1], "Z2": None, "own": own}
    made, (y,) = _answers("QMoE", inputs, ["y"], **options)
    terms = np.exp(scores.astype(np.float64)) if own is None else own.astype(np.float64)
    wanted = _mixed(x, scores, [*weights, None], [b.astype(np.float64) for b in biases], options, terms)
    _close(y, wanted, 6e-4 if dtype is HALF else 4e-6)
    if dtype is HALF:  # of which the result alone is rounded
        mine, least = (np.square(one.astype(np.float64) - wanted).mean() for one in (y, wanted.astype(HALF)))
        assert mine < 1.1 * least
    if dtype is not HALF and (block or bits != 2):
        _close(_theirs(made)[0], wanted, 0.02)  # which rounds rows


@pytest.mark.parametrize("tokens", [1, 7])
@pytest.mark.parametrize("normalises", [0, 1])
@pytest.mark.parametrize("k", [1, 2, 4])
def test_experts_of_no_positive_weight_are_left_out(k: int, normalises: int, tokens: int) -> None:
    """As ONNX Runtime: what is below 0 once weights were divided by their sum, or NaN, counts for nothing."""
    numbers, scale = RNG.integers(0, 256, (2, 4, 16, 8)).astype(np.uint8), np.full((4, 16), 0.02, np.float32)
    own = _floats(tokens, 4)
    own[0] = [-1, 2, 0, -3]
    if tokens > 1:
        own[1:4] = [[-1, -2, -1, -3], [np.nan, 1, 1, 1], [0, 0, 0, 0]]
    scores = np.tile(np.array([4, 3, 2, 1], np.float32), (tokens, 1))
    inputs = {"x": _floats(tokens, 16), "scores": scores, "W0": numbers[0], "S0": scale, "B0": None, "W1": numbers[1]}
    inputs |= {"S1": scale, "B1": None, **dict.fromkeys(("W2", "S2", "B2", "Z0", "Z1", "Z2")), "own": own}
    options = {"activation_type": "relu", "expert_weight_bits": 4, "k": k, "normalize_routing_weights": normalises}
    made, (y,) = _answers("QMoE", inputs, ["y"], **options)
    _close(y, _theirs(made)[0], 1e-4)
    assert not np.isnan(y).any()
    assert y[0].any() == (k > 1 or normalises == 1)


def test_the_sparse_mixer_chooses_two_whose_shares_are_by_scores_near_them() -> None:
    scores = np.array([[1.0, 2.0, 1.99, -3.0], [0.5, -0.2, 4.0, 3.0]], np.float32)
    weights = [np.tile(np.eye(8, dtype=np.float32) * (i + 1), (1, 1))[None] for i in range(4)]
    inputs = {"x": np.ones((2, 8), np.float32), "scores": scores, "W1": np.concatenate(weights), "B1": None}
    inputs["W2"] = np.tile(np.eye(8, dtype=np.float32), (4, 1, 1))
    _, (y,) = _answers("MoE", inputs, ["y"], k=2, activation_type="identity", use_sparse_mixer=1)
    near = 1 / (1 + math.exp(-0.01))  # of two scores within 2 %: 2.0 and 1.99; the second is compared without the first
    _close(y, np.array([[2 * near + 3.0] * 8, [3.0 + 4.0] * 8]))


# States of a fixed size


@pytest.mark.parametrize("dtype", [np.float32, HALF])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"activation": "silu"}, {"dilation": 2}, {"channels_last": 1, "activation": "swish"}, {"state_window": 3},
        {"state_window": 2, "channels_last": 1},
    ],
)  # fmt: skip
@pytest.mark.parametrize(("length", "taps"), [(1, 4), (6, 3), (2, 1)])
def test_causal_convolutions_carry_over_what_they_look_back_at(
    length: int, taps: int, options: dict[str, Any], dtype: Any
) -> None:
    batch, channels, back, window = 2, 5, (taps - 1) * options.get("dilation", 1), options.get("state_window", 0)
    x, weight, bias = (
        _floats(*shape, dtype=dtype) for shape in ((batch, channels, length), (channels, 1, taps), (channels,))
    )
    past = _floats(*([window] if window else []), batch, channels, back, dtype=dtype)

    def turned(one: Any) -> Any:
        return np.ascontiguousarray(np.swapaxes(one, -1, -2)) if options.get("channels_last") else one

    whole = np.concatenate([past[-1] if window else past, x], -1).astype(np.float64)
    step = options.get("dilation", 1)
    taken = [whole[..., j * step : j * step + length] * weight.astype(np.float64)[:, :, j] for j in range(taps)]
    y = sum(taken) + bias.astype(np.float64)[:, None]
    y = y * _sigmoid(y) if "activation" in options else y
    ends = [length - (window or 1) + 1 + j for j in range(window or 1)]
    states = np.stack([whole[..., end : end + back] if end > 0 else np.zeros((batch, channels, back)) for end in ends])
    inputs = {"x": turned(x), "weight": weight, "bias": bias, "past": turned(past)}
    made, found = _answers("CausalConvWithState", inputs, ["y", "state"], **options)
    tolerance = 2e-3 if dtype is HALF else 4e-6
    _close(found[0], turned(y), tolerance)
    np.testing.assert_array_equal(found[1], turned(states if window else states[0]))
    if options.keys() <= {"activation"} and dtype is not HALF:
        for one, wanted in zip(found, _theirs(made), strict=True):
            _close(one, wanted)


@pytest.mark.parametrize(("heads", "keys", "shared"), [(4, 2, 2), (1, 2, 2), (2, 1, 2)])
@pytest.mark.parametrize(
    ("rule", "length", "by_key", "window"),
    [
        ("linear", 3, False, 0), ("gated", 70, False, 0), ("gated", 21, True, 0), ("delta", 5, False, 0),
        ("gated_delta", 1, False, 0), ("gated_delta", 150, False, 0), ("gated_delta", 37, True, 2),
        ("gated_delta", 2, False, 3),
    ],
)  # fmt: skip
def test_linear_attention(
    rule: str, length: int, by_key: bool, window: int, heads: int, keys: int, shared: int
) -> None:
    """One token after the other: in one chunk, in several, and in those that the last does not fill."""
    batch, size, value_size = 2, 8, 6
    query, value = _floats(batch, length, heads, size), _floats(batch, length, shared, value_size)
    key = _floats(batch, length, keys, size)
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    decay = -np.abs(_floats(batch, length, shared, size if by_key else 1)) * RNG.choice(
        [0.05, 1, 30], (1, length, 1, 1)
    )
    decay = decay.astype(np.float32)
    rate, past = RNG.random((batch, length, shared)).astype(np.float32), _floats(batch, shared, size, value_size)
    state, states, outputs = past.astype(np.float64), [], []
    every = np.repeat(key, shared // keys, 2).astype(np.float64)
    for t in range(length):
        state = state * np.exp(decay[:, t, :, :, None].astype(np.float64)) if "gated" in rule else state
        new = value[:, t].astype(np.float64)
        if "delta" in rule:
            new = rate[:, t, :, None] * (new - np.einsum("bhkv,bhk->bhv", state, every[:, t]))
        state = state + np.einsum("bhk,bhv->bhkv", every[:, t], new)
        most = max(heads, shared)
        pairs = [(h * heads // most, h * shared // most) for h in range(most)]
        outputs.append(np.stack([np.einsum("bkv,bk->bv", state[:, s], query[:, t, q]) for q, s in pairs], 1))
        states.append(state)
    inputs: dict[str, Any] = {
        name: one.reshape(batch, length, -1) for name, one in (("q", query), ("k", key), ("v", value))
    }
    inputs["past"] = np.stack([past] * window) if window else past
    inputs |= {
        "decay": decay.reshape(batch, length, -1) if "gated" in rule else None,
        "rate": rate if "delta" in rule else None,
    }
    options: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": shared, "update_rule": rule, "scale": 0.5}
    made, found = _answers(
        "LinearAttention", inputs, ["y", "state"], **options, **({"state_window": window} if window else {})
    )
    _close(found[0], 0.5 * np.stack(outputs, 1).reshape(batch, length, -1))
    last = [states[t] if t >= 0 else np.zeros_like(state) for t in range(length - window, length)]
    _close(found[1], np.stack(last) if window else state)
    if not window:
        for one, wanted in zip(found, _theirs(made), strict=True):
            _close(one, wanted, 8e-6)


@pytest.mark.parametrize("dtype", [np.float32, HALF])
def test_gates(dtype: Any) -> None:
    tolerance = 2e-3 if dtype is HALF else 4e-6
    a, b, x, gate = (_floats(2, 3, width, dtype=dtype) for width in (4, 4, 12, 12))
    bias, scale, weight = _floats(4), _floats(4), _floats(4, dtype=dtype)
    _, found = _answers("LinearAttentionGate", {"a": a, "bias": bias, "scale": scale, "b": b}, ["decay", "beta"])
    _close(found[0], scale * np.log1p(np.exp(a.astype(np.float64) + bias)), tolerance)
    _close(found[1], _sigmoid(b.astype(np.float64)), tolerance)
    groups = x.astype(np.float64).reshape(2, 3, 3, 4)
    normal = groups / np.sqrt((groups**2).mean(-1, keepdims=True) + 1e-5) * weight
    for kind in ("silu", "sigmoid"):
        _, (y,) = _answers("GatedRMSNorm", {"x": x, "scale": weight, "gate": gate}, ["y"], activation=kind)
        curve = _sigmoid(gate.astype(np.float64))
        _close(y, normal.reshape(x.shape) * (curve if kind == "sigmoid" else gate * curve), tolerance)
    _, (y,) = _answers("GatedAdd", {"x": x, "y0": gate, "g": np.ascontiguousarray(x[..., :1])}, ["y"])
    _close(y, x + gate.astype(np.float64) * x[..., :1], tolerance)


def _for_cuda(weights: Any, bits: int, *, alternate: bool = True) -> Any:
    """Weights (experts, columns, bytes) as CUDA's tensor cores read them: (experts, rows, bytes).

    Tiles of some columns alternate for compute capability 8.0, and do not for 9.0.
    """
    each = 8 // bits
    fields = (weights[..., None] >> (bits * np.arange(each))) & (2**bits - 1)
    count, columns, length = weights.shape[0], weights.shape[1], weights.shape[2] * each
    rows, tile = 128 // bits, 64  # rows that an instruction takes, and those that lie together
    pairs = np.arange(rows // 2).reshape(-1, 4).T.reshape(-1)  # each thread's are apart by 8
    order = np.stack([2 * pairs, 2 * pairs + 1], 1).reshape(-1)
    found = fields.reshape(count, columns, length // rows, rows)[..., order]
    beside = 16 // bits if alternate else 1
    found = found.reshape(count, columns // beside, beside, length // tile, tile).swapaxes(2, 3)
    words = found.reshape(-1, 32 // bits)
    words = words[:, [0, 2, 4, 6, 1, 3, 5, 7] if bits == 4 else [0, 2, 1, 3]]
    held = (words.reshape(-1, each) << (bits * np.arange(each))).sum(1)
    return held.astype(np.uint8).reshape(count, length, columns // each)


@pytest.mark.parametrize("mode", [-1, 1])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_that_are_packed_for_cuda(bits: int, mode: int) -> None:
    """GenAI's builder writes them for cuda; the default of weights_prepacked takes them by their shape."""
    hidden, inner, count, each = 64, 128, 3, 8 // bits
    weights = [RNG.integers(0, 256, shape, np.uint8) for shape in ((count, 2 * inner, hidden), (count, hidden, inner))]
    first, second = (one[..., : one.shape[2] // each] for one in weights)
    options = {"k": 2, "activation_type": "swiglu", "swiglu_fusion": 1, "expert_weight_bits": bits, "block_size": 32}
    for tokens in (1, 5):
        inputs: dict[str, Any] = {
            "x": _floats(tokens, hidden), "scores": _floats(tokens, count),
            "W1": first, "S1": _floats(count, 2 * inner, hidden // 32) / 64, "B1": None,
            "W2": second, "S2": _floats(count, hidden, inner // 32) / 64,
        }  # fmt: skip
        given = {**inputs, "W1": _for_cuda(first, bits), "W2": _for_cuda(second, bits)}
        _, (wanted,) = _answers("QMoE", inputs, ["y"], weights_prepacked=0, **options)
        _, (found,) = _answers("QMoE", given, ["y"], weights_prepacked=mode, **options)
        np.testing.assert_array_equal(found, wanted)
    given["w1"] = given.pop("W1")
    with pytest.raises(dml.DmlError, match=r"fc1_experts_weights must have the shape|must be initializers"):
        _answers(
            "QMoE",
            {name: given[name] for name in ("x", "scores", "w1", "S1", "B1", "W2", "S2")},
            ["y"],
            weights_prepacked=mode,
            **options,
        )


def _fields(packed: Any, bits: int, count: int) -> Any:
    """Numbers of few bits in the bytes of rows."""
    found = (packed.reshape(len(packed), -1, 1) >> np.arange(0, 8, bits)) & (2**bits - 1)
    return found.reshape(len(packed), -1)[:, :count].astype(np.float64)


@pytest.mark.parametrize(
    ("rows", "length", "block", "dtype"),
    [(1, 256, 32, HALF), (1, 256, 32, np.float32), (2, 96, 16, HALF), (33, 100, 32, np.float32)],
)
@pytest.mark.parametrize(
    ("bits", "groups", "zeros"),
    [
        *((2, "", ""), (2, "", "packed"), (2, "", "floats"), (4, "", ""), (4, "", "packed"), (8, "", "")),
        *((4, "any", "packed"), (2, "any", "packed"), (8, "blocks", "floats"), (4, "any", "")),
    ],
)
def test_products_with_weights_of_few_bits(
    bits: int, groups: str, zeros: str, rows: int, length: int, block: int, dtype: Any
) -> None:
    """Weights, scales and zero points of the model or of the run; blocks follow one another, or g_idx says which."""
    columns, count = 18, -(-length // block)
    packed = RNG.integers(0, 256, (columns, count, block * bits // 8), np.uint8)
    points = RNG.integers(0, 256, (columns, -(-count * bits // 8)), np.uint8)
    scales = (RNG.random((columns, count)) / 2**bits).astype(dtype)
    whole = np.full((columns, count), 2.0 ** (bits - 1))
    if zeros:
        whole = _fields(points, bits, count)
    given: Any = points if zeros == "packed" else whole.astype(dtype) if zeros else None
    order = np.arange(length) // block
    order = RNG.integers(0, count, length) if groups == "any" else order
    x = _floats(rows, length, dtype=dtype)
    options = {"K": length, "N": columns, "bits": bits, "block_size": block}
    numbers = _fields(packed, bits, length)
    wanted = x.astype(np.float64) @ ((numbers - whole[:, order]) * scales[:, order].astype(np.float64)).T
    for names in (("B", "S", "Z", "G"), ("B", "s", "z", "g"), ("b", "s", "z", "g")):
        values = (packed, scales, given, order.astype(np.int32) if groups else None)
        _, (found,) = _answers("MatMulNBits", {"a": x, **dict(zip(names, values, strict=True))}, ["y"], **options)
        _close(found, wanted, 1e-3 if dtype is HALF else 4e-6)


@pytest.mark.parametrize("length", [32, 24])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_few_bits_are_rounded_once(bits: int, length: int) -> None:
    packed = RNG.integers(0, 256, (9, length * bits // 8), np.uint8)
    points = RNG.integers(0, 256, (9, -(-2 * bits // 8)), np.uint8)
    scales, words = _floats(9, 2, dtype=HALF), np.array([[3, -1], [0, 8]])
    numbers, whole = _fields(packed, bits, length), _fields(points, bits, 2)
    order = np.arange(length) // 16
    wanted = ((numbers - whole[:, order]) * scales[:, order].astype(np.float64)).astype(HALF)[words]
    inputs = {"D": packed, "words": words, "S": scales, "Z": points}
    _, (found,) = _answers("GatherBlockQuantized", inputs, ["y"], bits=bits, block_size=16)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", [1, 2])
@pytest.mark.parametrize("bits", [4, 8])
def test_products_with_weights_that_are_packed_for_cuda(bits: int, mode: int) -> None:
    """What matmulnbits_weights_prepacked makes: the same bytes in another order, of the same shape."""
    columns, length, block = 64, 192, 64
    plain = RNG.integers(0, 256, (columns, length // block, block * bits // 8), np.uint8)
    packed = _for_cuda(plain.reshape(1, columns, -1), bits, alternate=mode == 1).reshape(plain.shape)
    assert not np.array_equal(packed, plain)
    inputs: dict[str, Any] = {"a": _floats(3, length, dtype=HALF), "B": plain, "S": _floats(columns, 3, dtype=HALF)}
    options = {"K": length, "N": columns, "bits": bits, "block_size": block}
    _, (wanted,) = _answers("MatMulNBits", inputs, ["y"], **options)
    _, (found,) = _answers("MatMulNBits", {**inputs, "B": packed}, ["y"], weight_prepacked=mode, **options)
    np.testing.assert_array_equal(found, wanted)


# What is wrong


def _wrong(kind: str, inputs: dict[str, Any], outputs: list[str], message: str, **attributes: Any) -> None:
    with pytest.raises(dml.DmlError, match=rf"node 'n' \(com.microsoft.{kind}\): .*{message}"):
        _answers(kind, inputs, outputs, **attributes)


def test_what_is_wrong_is_told() -> None:
    experts = {
        "x": _floats(2, HIDDEN), "scores": _floats(2, COUNT), "W1": _floats(COUNT, INNER, HIDDEN), "B1": None,
        "W2": _floats(COUNT, HIDDEN, INNER),
    }  # fmt: skip
    _wrong("MoE", experts, ["y"], r"k must lie in 1 \.\. 8, .* got 9", k=9)
    _wrong("MoE", {**experts, "scores": _floats(3, COUNT)}, ["y"], r"router_probs must have the shape \(2, 8\), a row")
    _wrong("MoE", {**experts, "B1": _floats(COUNT, 3)}, ["y"], r"fc1_experts_bias must have the shape \(8, 16\)")
    _wrong("MoE", {**experts, "W1": _floats(COUNT, INNER, 5)}, ["y"], "fc1_experts_weights must have the shape")
    _wrong("MoE", experts, ["y"], "activation_type must be one of", activation_type="sine")
    packed = {
        "x": _floats(2, HIDDEN), "scores": _floats(2, COUNT), "W1": np.zeros((COUNT, INNER, HIDDEN // 2), np.uint8),
        "S1": _floats(COUNT, INNER), "B1": None, "W2": np.zeros((COUNT, HIDDEN, INNER // 2), np.uint8),
        "S2": _floats(COUNT, HIDDEN),
    }  # fmt: skip
    _wrong("QMoE", packed, ["y"], "quant_type must be int: .* of types that DirectML lacks; quantise", quant_type="fp4")
    _wrong("QMoE", packed, ["y"], "weights of 16 columns of .* are not packed for CUDA", weights_prepacked=1)
    _wrong("QMoE", packed, ["y"], "weights_prepacked must be -1, 0 or 1", weights_prepacked=2)
    _wrong("QMoE", {**packed, "S1": _floats(COUNT, 5)}, ["y"], r"fc1_scales must have the shape \(8, 16\)")
    _wrong("QMoE", packed, ["y"], "block_size must be 0, or a power of two", block_size=24)
    joined = {"x": _floats(1, 2, 8), "W": _floats(8, 32), "B": _floats(32)}
    _wrong(
        "Attention", joined, ["y", "p"], "present holds keys and values of one size: .* 8 and 16; leave present out",
        num_heads=2, qkv_hidden_sizes=[8, 8, 16],
    )  # fmt: skip
    sizes = {"K": 64, "N": 16, "bits": 8, "block_size": 32}
    given = {"a": _floats(1, 64), "B": np.zeros((16, 2, 32), np.uint8), "S": _floats(16, 2)}
    _wrong("MatMulNBits", given, ["y"], r"weight_prepacked must be 0, 1 \(.*; got 3", weight_prepacked=3, **sizes)
    few = {**given, "B": np.zeros((12, 2, 32), np.uint8), "S": _floats(12, 2)}
    _wrong(
        "MatMulNBits", few, ["y"], "of 12 columns .* are not packed for CUDA", weight_prepacked=1, **{**sizes, "N": 12}
    )
    given["b"] = given.pop("B")
    _wrong(
        "MatMulNBits", {name: given[name] for name in ("a", "b", "S")}, ["y"],
        "must be initializers; build the model with matmulnbits_weights_prepacked=0", weight_prepacked=1, **sizes,
    )  # fmt: skip
    conv = {"x": _floats(1, 4, 3), "weight": _floats(4, 1, 3), "bias": None, "past": _floats(1, 4, 5)}
    _wrong("CausalConvWithState", conv, ["y", "s"], r"past_state must have the shape \(1, 4, 2\), the state")
    _wrong("CausalConvWithState", conv, ["y", "s"], "an ndim of 2 is not supported", ndim=2)
    _wrong("CausalConvWithState", conv, ["y", "s"], r"state_window must lie in 0 \.\. 8; got 9", state_window=9)
    linear = {"q": _floats(1, 2, 8), "k": _floats(1, 2, 8), "v": _floats(1, 2, 8)}
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    _wrong("LinearAttention", linear, ["y", "s"], "decay must be given where update_rule is gated_delta", **heads)
    _wrong("LinearAttention", {**linear, "k": _floats(1, 3, 8)}, ["y", "s"], "key must have the batch", **heads)
    _wrong(
        "LinearAttention", linear, ["y", "s"], "query must have q_num_heads whole heads", q_num_heads=3, kv_num_heads=2
    )


# Caches in blocks, and blocks that are left out


def _attended(query: Any, keys: Any, values: Any, seen: Any, options: dict[str, Any], sinks: Any = None) -> Any:
    """One query, (heads, size), to keys and values, (keys, heads of theirs, size), of which it sees some."""
    found = []
    for h, row in enumerate(query.astype(np.float64)):
        own = h * keys.shape[1] // len(query)
        scores = keys[seen, own].astype(np.float64) @ row * (options.get("scale") or len(row) ** -0.5)
        scores = np.tanh(scores / options["softcap"]) * options["softcap"] if "softcap" in options else scores
        terms = np.exp(scores)
        total = terms.sum() + (0 if sinks is None else math.exp(sinks[h]))
        found.append(terms / total @ values[seen, own].astype(np.float64))
    return np.stack(found)


def _rotated(x: Any, cosine: Any, sine: Any) -> Any:
    half = cosine.shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]
    turned = [first * cosine - second * sine, first * sine + second * cosine, x[..., 2 * half :]]
    return np.concatenate(turned, -1)


PAGED: list[dict[str, Any]] = [
    {}, {"do_rotary": 1}, {"local_window_size": 3, "softcap": 1.5}, {"is_causal": 0, "local_window_size": 4},
    {"sinks": True, "scale": 0.3}, {"slots": True}, {"bits": 8}, {"bits": 4, "do_rotary": 1}, {"latent": 5},
    {"norms": True, "do_rotary": 1, "rotary_offset": 8},
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, HALF])
@pytest.mark.parametrize("change", PAGED, ids=range(len(PAGED)))
def test_paged_attention(change: dict[str, Any], dtype: Any) -> None:
    """Sequences of 3, 1 and 2 new tokens after 4, 20 and 0, in blocks that lie anywhere."""
    counts, past, heads, shared, size, block, blocks = (
        [3, 1, 2],
        [4, 20, 0],
        4,
        1 if "latent" in change else 2,
        16,
        16,
        6,
    )
    table = np.array([[4, -1], [2, 5], [0, -1]], np.int32)
    tokens, bits = sum(counts), change.get("bits", 0)
    query, key, value = (_floats(tokens, count * size, dtype=dtype) for count in (heads, shared, shared))
    options = {k: v for k, v in change.items() if k not in ("sinks", "slots", "bits", "latent", "norms")}
    cosine, sine = (f(RNG.random((32, 4)) * 6).astype(dtype) for f in (np.cos, np.sin))
    inputs: dict[str, Any] = {"query": query, "key": key, "value": None if "latent" in change else value}
    scales: list[Any] = [np.array([0.03 if bits == 8 else 0.4], np.float32)] * 2 if bits else [None, None]
    width = size // 2 if bits == 4 else size
    made = [_floats(blocks, block, shared, size, dtype=dtype) for _ in range(2)]
    if bits:
        made = [
            RNG.integers(0, 256, (blocks, block, shared, width)).astype(np.int8 if bits == 8 else np.uint8)
            for _ in made
        ]
        more = {"quant_type": "PER_TENSOR", **({"cache_dtype": "int4"} if bits == 4 else {})}
        options |= {f"{part}_{name}": text for part in "kv" for name, text in more.items()}
    inputs |= {"key_cache": made[0], "value_cache": None if "latent" in change else made[1]}
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    inputs |= {"ends": starts, "past": np.array(past, np.int32), "table": table}
    is_turned = "do_rotary" in change
    inputs |= {"cos": cosine if is_turned else None, "sin": sine if is_turned else None}
    places = [(b, past[b] + i) for b, count in enumerate(counts) for i in range(count)]
    slots = np.array([table[b, place // block] * block + place % block for b, place in places], np.int32)
    inputs["slots"] = np.where(np.arange(tokens) == 2, -1, slots).astype(np.int32) if "slots" in change else None
    sinks = _floats(heads, dtype=dtype) if "sinks" in change else None
    weights = [_floats(size, dtype=dtype) for _ in range(2)] if "norms" in change else [None, None]
    inputs |= {"sink": sinks, "qn": weights[0], "kn": weights[1], "ks": scales[0], "vs": scales[1]}
    if "latent" in change:
        options |= {"kv_cache_layout": "LATENT", "v_head_size": change["latent"]}
    # The same in float64.
    rows = [query.astype(np.float64).reshape(tokens, heads, size), key.astype(np.float64).reshape(tokens, shared, size)]
    for i, weight in enumerate(weights):
        if weight is not None:
            rows[i] = rows[i] / np.sqrt((rows[i] ** 2).mean(-1, keepdims=True) + 1e-6) * weight
        if is_turned:
            first, angles = change.get("rotary_offset", 0), [p for _, p in places]
            part = _rotated(rows[i][..., first:], *(one.astype(np.float64)[angles][:, None] for one in (cosine, sine)))
            rows[i] = np.concatenate([rows[i][..., :first], part], -1)
    wanted = [one.reshape(blocks * block, shared, width).copy() for one in made]
    for t, slot in enumerate(slots if inputs["slots"] is None else inputs["slots"]):
        for cache, row in zip(wanted, (rows[1][t].astype(dtype), value[t].reshape(shared, size)), strict=True):
            if slot >= 0 and not bits:
                cache[slot] = row
            elif slot >= 0:
                end = 2 ** (bits - 1)
                whole = np.clip(np.round(row.astype(np.float32) * (1 / scales[0])), -end, end - 1)
                cache[slot] = whole if bits == 8 else _packed((whole + 8).astype(np.uint8), 4)
    read = []
    for cache in wanted:
        numbers = cache.astype(np.float64)
        if bits == 4:
            numbers = np.stack([cache & 15, cache >> 4], -1).reshape(*cache.shape[:-1], size) - 8.0
        read.append(numbers * scales[0][0] if bits else numbers)
    lines = [np.concatenate([np.arange(block) + block * max(one, 0) for one in row]) for row in table]
    outputs = []
    for t, (b, place) in enumerate(places):
        limit = place + 1 if change.get("is_causal", 1) else past[b] + counts[b]
        first = max(place - change["local_window_size"] + 1, 0) if "local_window_size" in change else 0
        keys, values = read[0][lines[b]], (read[0] if "latent" in change else read[1])[lines[b]]
        values = values[..., : change.get("latent", size)]
        outputs.append(_attended(rows[0][t], keys, values, slice(first, limit), change, sinks))
    options |= {"num_heads": heads, "kv_num_heads": shared}
    names = ["y", "k"] + ([] if "latent" in change else ["v"])
    _, found = _answers("PagedAttention", inputs, names, **options)
    _close(found[0], np.stack(outputs).reshape(tokens, -1), 4e-3 if dtype is HALF else 4e-6)
    for one, cache in zip(found[1:], wanted, strict=False):
        assert one.dtype == cache.dtype
        apart = np.abs(one.reshape(cache.shape).astype(np.float64) - cache.astype(np.float64))
        assert apart.max() <= (4e-3 if dtype is HALF else 4e-6) * (1 if not bits else 0)


@pytest.mark.parametrize(("count", "total", "lengths"), [(20, 20, [20, 17]), (1, 40, [40, 33]), (9, 37, [37])])
@pytest.mark.parametrize("is_packed", [False, True])
def test_sparse_attention(count: int, total: int, lengths: list[int], is_packed: bool) -> None:
    """Two layouts of blocks of 16, of which the heads take turns."""
    batch, heads, shared, size, room = len(lengths), 4, 2, 16, 48
    masks = [np.tril(np.ones((3, 3), int)), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]])]
    lines = [np.concatenate([[0], np.cumsum(mask.sum(1))]) for mask in masks]
    named = [np.concatenate([np.flatnonzero(row) for row in mask]) for mask in masks]
    rows = np.stack(lines).astype(np.int32)
    columns = np.stack([np.pad(one, (0, 6 - len(one)), constant_values=-1) for one in named]).astype(np.int32)
    query, key, value = (_floats(batch, count, n * size) for n in (heads, shared, shared))
    past = [_floats(batch, shared, room, size) for _ in range(2)]
    angles = RNG.random((room, 8)) * 6
    inputs: dict[str, Any] = {"query": np.concatenate([query, key, value], -1) if is_packed else query}
    inputs |= {"key": None if is_packed else key, "value": None if is_packed else value}
    inputs |= {"past_key": past[0], "past_value": past[1], "rows": rows, "columns": columns}
    inputs |= {"Total": np.array([total], np.int32), "lengths": np.array(lengths, np.int32)}
    inputs |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    options = {"num_heads": heads, "kv_num_heads": shared, "sparse_block_size": 16, "do_rotary": 1, "scale": 0.3}
    names = ["y", "present_key", "present_value"]
    _, found = _answers("SparseAttention", inputs, names, **options)
    by_head = [one.astype(np.float64).reshape(batch, count, -1, size) for one in (query, key, value)]
    for b, length in enumerate(lengths):
        first = 0 if count == total else length - count
        cosine, sine = (f(angles)[first : first + count, None] for f in (np.cos, np.sin))
        turned = [_rotated(one[b], cosine, sine) for one in by_head[:2]]
        caches = [one[b].transpose(1, 0, 2).astype(np.float64) for one in past]
        for cache, new in zip(caches, (turned[1], by_head[2][b]), strict=True):
            cache[first : first + count] = new
        for mine, cache in zip(found[1:], caches, strict=True):
            _close(mine[b, :, :length], cache.transpose(1, 0, 2)[:, :length])
        for t in range(length - first):
            place = first + t
            seen = [np.flatnonzero(np.repeat(mask[place // 16], 16)[: place + 1]) for mask in masks]
            parts = [_attended(turned[0][t], caches[0], caches[1], one, options) for one in seen]
            wanted = np.stack([parts[h % 2][h] for h in range(heads)])
            _close(found[0][b, t], wanted.reshape(-1))
