"""Small folders of ONNX Runtime GenAI that take sound or pictures: made-up weights, and the same models in NumPy."""

from __future__ import annotations

import io
import json
import math
import wave
from typing import TYPE_CHECKING, Any

import numpy as np

from genai_folders import BYTES, END, TEMPLATE, tokenizer
from onnx_models import helper, info, node, onnx

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    Array = np.ndarray[Any, Any]

WIDTH, HEADS, MELS, FRAMES, ROOM = 16, 2, 8, 100, 32
SIZE = WIDTH // HEADS
BEGIN = "<|startoftranscript|>"
WORDS = END + 2
RATE = 16000


def wav(samples: Array, rate: int = RATE, width: int = 2) -> bytes:
    """A WAV file of samples from -1 to 1, [n] or [n, channels], of so many bytes each."""
    given = samples.reshape(len(samples), -1)
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(given.shape[1])
        out.setsampwidth(width)
        out.setframerate(rate)
        if width == 1:
            held = np.round((given + 1) * 127.5).astype("u1").tobytes()
        else:
            whole = np.round(given * (2 ** (8 * width - 1) - 1)).astype("<i4")
            held = whole[..., None].view("u1")[..., :width].tobytes()
        out.writeframes(held)
    return file.getvalue()


def weights(seed: int) -> dict[str, Array]:
    """The weights of a model of speech."""
    rng = np.random.default_rng(seed)
    shapes = {"conv": (WIDTH, MELS, 3), "table": (WORDS, WIDTH), "places": (ROOM, WIDTH), "head": (WIDTH, WORDS)}
    shapes |= dict.fromkeys(("ck", "cv", "q", "k", "v", "o", "cq", "co"), (WIDTH, WIDTH))
    return {name: (rng.standard_normal(shape) * 0.5).astype(np.float32) for name, shape in shapes.items()}


def encoder(held: Mapping[str, Array], dtype: str = "float32") -> bytes:
    """Features to the keys and values that a decoder attends to."""
    inner = {"domain": "com.microsoft"}
    nodes = [
        node("Conv", "audio_features conv", "c", strides=[2], pads=[1, 1], kernel_shape=[3]),
        node("Gelu", "c", "g", **inner),
        node("Transpose", "g", "hidden_states", perm=[0, 2, 1]),
    ]
    outputs = [info("hidden_states", dtype, ["b", FRAMES // 2, WIDTH])]
    for part, name in (("key", "ck"), ("value", "cv")):
        nodes += [
            node("MatMul", f"hidden_states {name}", f"{part}m"),
            node("Reshape", f"{part}m heads", f"{part}r"),
            node("Transpose", f"{part}r", f"present_{part}_cross_0", perm=[0, 2, 1, 3]),
        ]
        outputs.append(info(f"present_{part}_cross_0", dtype, ["b", HEADS, FRAMES // 2, SIZE]))
    tensors = {name: held[name].astype(dtype) for name in ("conv", "ck", "cv")}
    tensors["heads"] = np.array([0, FRAMES // 2, HEADS, SIZE])
    return _saved(nodes, [info("audio_features", dtype, ["b", MELS, FRAMES])], outputs, tensors)


def decoder(held: Mapping[str, Array], dtype: str = "float32") -> bytes:
    """One layer: attention to earlier tokens, then to the sound."""
    own: dict[str, Any] = {"num_heads": HEADS, "domain": "com.microsoft"}
    nodes = [
        *(node("Shape", "input_ids", "s"), node("Gather", "s one", "count", axis=0)),
        *(node("Shape", "past_key_self_0", "p"), node("Gather", "p two", "past", axis=0)),
        *(node("Add", "past count", "end"), node("Slice", "places past end", "at")),
        *(node("Gather", "table input_ids", "words"), node("Add", "words at", "h0")),
        *(node("MatMul", f"h0 {name}", f"{name}m") for name in "qkv"),
        node(
            *("MultiHeadAttention", "qm km vm - - - past_key_self_0 past_value_self_0"),
            *("a0 present_key_self_0 present_value_self_0",), unidirectional=1, **own,
        ),
        *(node("MatMul", "a0 o", "p0"), node("Add", "h0 p0", "h1"), node("MatMul", "h1 cq", "cqm")),
        node("MultiHeadAttention", "cqm past_key_cross_0 past_value_cross_0", "a1", **own),
        *(node("MatMul", "a1 co", "p1"), node("Add", "h1 p1", "h2"), node("MatMul", "h2 head", "logits")),
    ]  # fmt: skip
    inputs = [info("input_ids", "int32", ["b", "s"])]
    outputs = [info("logits", dtype, ["b", "s", WORDS])]
    for part in ("key", "value"):
        inputs.append(info(f"past_{part}_self_0", dtype, ["b", HEADS, "p", SIZE]))
        inputs.append(info(f"past_{part}_cross_0", dtype, ["b", HEADS, FRAMES // 2, SIZE]))
        outputs.append(info(f"present_{part}_self_0", dtype, ["b", HEADS, "t", SIZE]))
    names = "table", "places", "head", "q", "k", "v", "o", "cq", "co"
    tensors = {name: held[name].astype(dtype) for name in names}
    return _saved(nodes, inputs, outputs, {**tensors, "one": np.array([1]), "two": np.array([2])})


def logits(held: Mapping[str, Array], features: Array, tokens: list[int]) -> Array:
    """What the decoder gives after the last token, in NumPy and FLOAT64: [vocab_size]."""
    own = {name: value.astype(np.float64) for name, value in held.items()}
    padded = np.pad(features.astype(np.float64), ((0, 0), (1, 1)))
    frames = np.stack([padded[:, at : at + 3] for at in range(0, FRAMES, 2)])
    sound = _gelu(np.einsum("tms,wms->tw", frames, own["conv"]))
    h = own["table"][tokens] + own["places"][: len(tokens)]
    h = h + _attention(h @ own["q"], h @ own["k"], h @ own["v"], is_causal=True) @ own["o"]
    h = h + _attention(h @ own["cq"], sound @ own["ck"], sound @ own["cv"], is_causal=False) @ own["co"]
    found: Array = h[-1] @ own["head"]
    return found


def _gelu(x: Array) -> Array:
    found: Array = x * 0.5 * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
    return found


def _attention(q: Array, k: Array, v: Array, *, is_causal: bool) -> Array:
    parts = [one.reshape(len(one), HEADS, SIZE).transpose(1, 0, 2) for one in (q, k, v)]
    scores = parts[0] @ parts[1].transpose(0, 2, 1) / np.sqrt(SIZE)
    if is_causal:
        scores = np.where(np.tri(len(q), len(k)) > 0, scores, -np.inf)
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = (shares / shares.sum(-1, keepdims=True)) @ parts[2]
    return found.transpose(1, 0, 2).reshape(len(q), WIDTH)


def speech_config(**search: Any) -> dict[str, Any]:
    """What genai_config.json says of a model of speech."""
    return {
        "model": {
            "type": "whisper",
            "vocab_size": WORDS,
            "context_length": ROOM,
            "bos_token_id": BYTES,
            "pad_token_id": BYTES,
            "eos_token_id": BYTES,
            "encoder": {
                "filename": "encoder.onnx",
                "inputs": {"audio_features": "audio_features"},
                "outputs": {
                    "encoder_hidden_states": "hidden_states",
                    "cross_present_key_names": "present_key_cross_%d",
                    "cross_present_value_names": "present_value_cross_%d",
                },
            },
            "decoder": {
                "filename": "decoder.onnx",
                "head_size": SIZE,
                "num_key_value_heads": HEADS,
                "num_hidden_layers": 1,
                "hidden_size": WIDTH,
                "inputs": {
                    "input_ids": "input_ids",
                    "past_key_names": "past_key_self_%d",
                    "past_value_names": "past_value_self_%d",
                    "cross_past_key_names": "past_key_cross_%d",
                    "cross_past_value_names": "past_value_cross_%d",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present_key_self_%d",
                    "present_value_names": "present_value_self_%d",
                },
            },
        },
        "search": {"max_length": 12, "past_present_share_buffer": False, **search},
    }


def speech_processor() -> dict[str, Any]:
    """What audio_processor_config.json says: a second of sound."""
    operations = [
        {"name": "decode", "type": "AudioDecoder", "attrs": {"max_samples": RATE}},
        {"name": "stft", "type": "STFTNorm", "attrs": {"n_fft": 400, "frame_length": 400, "hop_length": 160}},
        {"name": "mel", "type": "LogMelSpectrum",
         "attrs": {"chunk_size": 1, "hop_length": 160, "n_fft": 400, "n_mel": MELS, "_comment": "of Whisper"}},
    ]  # fmt: skip
    return {"feature_extraction": {"sequence": [{"operation": one} for one in operations]}}


def make_speech(path: Path, seed: int = 0, dtype: str = "float32") -> dict[str, Array]:
    """A whole folder of a model of speech; gives its weights."""
    held = weights(seed)
    path.mkdir(parents=True, exist_ok=True)
    (path / "encoder.onnx").write_bytes(encoder(held, dtype))
    (path / "decoder.onnx").write_bytes(decoder(held, dtype))
    (path / "genai_config.json").write_text(json.dumps(speech_config()))
    (path / "audio_processor_config.json").write_text(json.dumps(speech_processor()))
    write_tokenizer(path, BEGIN)
    return held


def write_tokenizer(path: Path, *more: str) -> None:
    """A tokenizer with further special tokens."""
    words = tokenizer()
    like = words["added_tokens"][0]
    words["added_tokens"] += [{**like, "id": END + 1 + place, "content": word} for place, word in enumerate(more)]
    (path / "tokenizer.json").write_text(json.dumps(words))
    (path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE}))


def _saved(nodes: list[Any], inputs: list[Any], outputs: list[Any], tensors: Mapping[str, Array]) -> bytes:
    made = [onnx.numpy_helper.from_array(np.ascontiguousarray(one), name) for name, one in tensors.items()]
    graph = helper.make_graph(nodes, "part", inputs, outputs, made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
