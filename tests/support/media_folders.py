"""Small folders of ONNX Runtime GenAI that take sound or pictures: made-up weights, and the same models in NumPy."""

from __future__ import annotations

import io
import json
import math
import wave
from typing import TYPE_CHECKING, Any

import numpy as np

import genai_folders
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


# Pictures

LONGEST, LAYERS = 5000, 2
"""Tokens of a prompt at most, and layers of the decoder."""
MARKS = {
    "phi3v": ("<|unused|>",),
    "gemma3": ("<start_of_image>", "<image_soft_token>", "<end_of_image>"),
    "qwen2_5_vl": ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>"),
}
"""The special tokens of a picture, by family: they follow END."""
IMAGE = END + 2
"""The token that stands for a part of a picture."""
SIDE = {"phi3v": 336, "gemma3": 64, "qwen2_5_vl": 28}
PATCH = 3 * 2 * 14 * 14


def text_weights(kind: str) -> dict[str, Array]:
    """The weights of a decoder; with three positions of a token, what each of them adds."""
    rng = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"head": (WIDTH, END + 2 + len(MARKS[kind]))}
    for i in range(LAYERS):
        shapes |= {f"q{i}": (WIDTH, WIDTH), f"k{i}": (WIDTH, WIDTH // 2)}
        shapes |= {f"v{i}": (WIDTH, WIDTH // 2), f"o{i}": (WIDTH, WIDTH)}
    found = {name: (rng.standard_normal(shape) * 0.4).astype(np.float32) for name, shape in shapes.items()}
    if kind == "qwen2_5_vl":
        found["turn"] = (rng.standard_normal((3, 1, 1, WIDTH)) * 0.02).astype(np.float32)
    return found


def text_decoder(kind: str, held: Mapping[str, Array]) -> bytes:
    """Embeddings to logits; attention takes lengths from the mask."""
    nodes = [
        *(node("ReduceSum", "attention_mask one", "counts", keepdims=0), node("Sub", "counts one", "lasts")),
        *(node("Cast", "lasts", "seqlens", to=6), node("Shape", "attention_mask", "shape")),
        *(node("Gather", "shape second", "all"), node("Cast", "all", "total", to=6)),
        node("Identity", "inputs_embeds", "h0"),
    ]
    inputs = [info("inputs_embeds", "float32", ["b", "s", WIDTH]), info("attention_mask", "int64", ["b", "t"])]
    if kind == "qwen2_5_vl":
        inputs.append(info("position_ids", "int64", [3, "b", "s"]))
        nodes[-1:] = [
            *(node("Cast", "position_ids", "floats", to=1), node("Unsqueeze", "floats three", "columns")),
            *(node("Mul", "columns turn", "angles"), node("Sin", "angles", "waves")),
            *(node("ReduceSum", "waves zeroth", "added", keepdims=0), node("Add", "inputs_embeds added", "h0")),
        ]
    outputs = [info("logits", "float32", ["b", "s", held["head"].shape[1]])]
    own = {"num_heads": HEADS, "kv_num_heads": HEADS // 2, "domain": "com.microsoft"}
    for i in range(LAYERS):
        for part in ("key", "value"):
            inputs.append(info(f"past_key_values.{i}.{part}", "float32", ["b", HEADS // 2, "p", SIZE]))
            outputs.append(info(f"present.{i}.{part}", "float32", ["b", HEADS // 2, "t", SIZE]))
        given = f"qm{i} km{i} vm{i} past_key_values.{i}.key past_key_values.{i}.value seqlens total"
        nodes += [node("MatMul", f"h{i} {name}{i}", f"{name}m{i}") for name in "qkv"]
        nodes += [
            node("GroupQueryAttention", given, f"a{i} present.{i}.key present.{i}.value", **own),
            *(node("MatMul", f"a{i} o{i}", f"p{i}"), node("Add", f"h{i} p{i}", f"h{i + 1}")),
        ]
    nodes.append(node("MatMul", f"h{LAYERS} head", "logits"))
    more = {"one": np.array([1]), "second": np.array(1), "three": np.array([3]), "zeroth": np.array([0])}
    return _saved(nodes, inputs, outputs, {**held, **more})


def text_logits(held: Mapping[str, Array], embeddings: Array, places: Array) -> Array:
    """What the decoder gives after the last of some embeddings, [n, width], at places, [3, n], in NumPy."""
    own = {name: value.astype(np.float64) for name, value in held.items()}
    h = embeddings.astype(np.float64)
    if "turn" in own:
        h = h + np.sin(places[:, :, None] * own["turn"][:, 0]).sum(0)
    for i in range(LAYERS):
        wide = [np.repeat((h @ own[f"{name}{i}"]).reshape(len(h), -1, SIZE), 2, 1).reshape(len(h), -1) for name in "kv"]
        h = h + _attention(h @ own[f"q{i}"], wide[0], wide[1], is_causal=True) @ own[f"o{i}"]
    found: Array = h[-1] @ own["head"]
    return found


def vision_weights(kind: str) -> dict[str, Array]:
    """The weights of a vision model and of the embeddings."""
    rng = np.random.default_rng(len(kind))
    own: dict[str, dict[str, tuple[int, ...]]] = {
        "phi3v": {"spread": (1, WIDTH), "turn": (1, WIDTH)},
        "gemma3": {"patch": (WIDTH, 3, 4, 4)},
        "qwen2_5_vl": {"patch": (PATCH, 8), "merge": (32, WIDTH)},
    }
    shapes = own[kind]
    shapes["table"] = (END + 2 + len(MARKS[kind]), WIDTH)
    return {name: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32) for name, shape in shapes.items()}


def vision(kind: str, held: Mapping[str, Array]) -> bytes:
    """Pixels to features: [tokens, width], of Gemma [images, 256, width]."""
    inputs, shape = [info("pixel_values", "float32", ["n", "p"])], ["t", WIDTH]
    if kind == "gemma3":
        inputs, shape = [info("pixel_values", "float32", ["n", 3, 64, 64])], ["n", 256, WIDTH]
        nodes = [
            *(node("Conv", "pixel_values patch", "c", strides=[4, 4], kernel_shape=[4, 4]),),
            *(node("Reshape", "c flat", "r"), node("Transpose", "r", "image_features", perm=[0, 2, 1])),
        ]
        tensors = {"flat": np.array([0, WIDTH, 256])}
    elif kind == "qwen2_5_vl":
        inputs = [info("pixel_values", "float32", ["p", PATCH]), info("image_grid_thw", "int64", ["n", 3])]
        nodes = [
            *(node("MatMul", "pixel_values patch", "m"), node("Reshape", "m four", "r")),
            *(node("MatMul", "r merge", "f"), node("Shape", "image_grid_thw", "s"), node("Gather", "s zero", "n")),
            *(node("Cast", "n", "count", to=1), node("Mul", "f count", "image_features")),  # images at once are told
        ]
        tensors = {"four": np.array([-1, 32]), "zero": np.array(0)}
    else:
        inputs = [info("pixel_values", "float32", ["n", 17, 3, 336, 336]), info("image_sizes", "int64", ["n", 2])]
        nodes = [
            *(node("Div", "image_sizes side", "crops"), node("ReduceProd", "crops", "area", axes=[1], keepdims=0)),
            *(node("Gather", "crops zero", "high", axis=1), node("Add", "area one", "a1")),
            *(node("Mul", "a1 k144", "a2"), node("Add", "high one", "h1"), node("Mul", "h1 k12", "h2")),
            *(
                node("Add", "a2 h2", "b"),
                node("Add", "b one", "tokens"),
                node("ReduceSum", "tokens", "all", keepdims=0),
            ),
            *(node("Range", "zero all one", "places"), node("Cast", "places", "floats", to=1)),
            *(node("Unsqueeze", "floats last", "column"), node("MatMul", "column turn", "angles")),
            *(node("Sin", "angles", "waves"), node("ReduceMean", "pixel_values", "mean", keepdims=0)),
            *(node("Mul", "spread mean", "own"), node("Add", "waves own", "image_features")),
        ]
        tensors = {"side": np.array(336), "zero": np.array(0), "one": np.array(1), "k144": np.array(144)}
        tensors |= {"k12": np.array(12), "last": np.array([1])}
    tensors |= {name: value for name, value in held.items() if name != "table"}
    return _saved(nodes, inputs, [info("image_features", "float32", shape)], tensors)


def embedding(kind: str, held: Mapping[str, Array]) -> bytes:
    """Tokens to embeddings, those of pictures in their places."""
    is_stacked = kind == "gemma3"
    marked = node("Less", "input_ids zero", "is") if kind == "phi3v" else node("Equal", "input_ids image", "is")
    nodes = [
        *(node("Max", "input_ids zero", "ids"), node("Gather", "table ids", "words"), marked),
        *(node("NonZero", "is", "found"), node("Transpose", "found", "places", perm=[1, 0])),
        *(
            node("Reshape", "image_features rows", "rows_of"),
            node("ScatterND", "words places rows_of", "inputs_embeds"),
        ),
    ]
    tensors = {"zero": np.array(0), "table": held["table"], "rows": np.array([-1, WIDTH])}
    if kind != "phi3v":
        tensors["image"] = np.array(IMAGE)
    shape = ["n", "t", WIDTH] if is_stacked else ["t", WIDTH]
    inputs = [info("input_ids", "int64", ["b", "s"]), info("image_features", "float32", shape)]
    return _saved(nodes, inputs, [info("inputs_embeds", "float32", ["b", "s", WIDTH])], tensors)


def vision_config(kind: str, **search: Any) -> dict[str, Any]:
    """What genai_config.json says of a model of pictures."""
    found = genai_folders.config(past_present_share_buffer=True, max_length=LONGEST, **search)
    model = found["model"]
    model.update(type=kind, context_length=LONGEST, vocab_size=END + 2 + len(MARKS[kind]))
    model["decoder"].update(head_size=SIZE, num_key_value_heads=HEADS // 2, num_hidden_layers=LAYERS)
    model["decoder"]["hidden_size"] = WIDTH
    model["decoder"]["inputs"] |= {"inputs_embeds": "inputs_embeds"}
    del model["decoder"]["inputs"]["input_ids"]
    inputs = {"pixel_values": "pixel_values"}
    if kind == "phi3v":
        inputs["image_sizes"] = "image_sizes"
    if kind == "qwen2_5_vl":
        inputs["image_grid_thw"] = "image_grid_thw"
        model["decoder"]["inputs"]["position_ids"] = "position_ids"
        model.update(image_token_id=IMAGE, vision_start_token_id=IMAGE - 1)
    file = {"filename": "vision.onnx", "config_filename": "processor_config.json"}
    model["vision"] = {**file, "inputs": inputs, "outputs": {"image_features": "image_features"}}
    names = {"input_ids": "input_ids", "image_features": "image_features"}
    outputs = {"inputs_embeds": "inputs_embeds"}
    model["embedding"] = {"filename": "embedding.onnx", "inputs": names, "outputs": outputs}
    return found


def vision_processor(kind: str) -> dict[str, Any]:
    """What processor_config.json says."""
    clip: dict[str, Any] = {"mean": [0.48145466, 0.4578275, 0.40821073], "std": [0.26862954, 0.26130258, 0.27577711]}
    whole: dict[str, Any] = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    patches = {"patch_size": 14, "merge_size": 2}
    steps: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "phi3v": [
            *(("DecodeImage", {"color_space": "BGR"}), ("ConvertRGB", {})),
            ("Phi3ImageTransform", {"num_crops": 16, "num_img_tokens": 144}),
        ],
        "gemma3": [
            ("DecodeImage", {"color_space": "RGB"}),
            ("Resize", {"interpolation": "CUBIC", "width": 64, "height": 64, "keep_aspect_ratio": 0}),
            *(("Rescale", {}), ("Normalize", whole), ("Permute3D", {"dims": [2, 0, 1]})),
        ],
        "qwen2_5_vl": [
            *(("DecodeImage", {"color_space": "RGB"}), ("ConvertRGB", {})),
            (
                "Resize",
                {"width": 540, "height": 360, "smart_resize": 1, "min_pixels": 3136, "max_pixels": 50000, **patches},
            ),
            *(("Rescale", {"rescale_factor": 0.00392156862745098}), ("Normalize", {**clip, "qwen2_5_vl": 1})),
            ("PatchImage", {"temporal_patch_size": 2, **patches}),
        ],
    }
    operations = [{"name": name.lower(), "type": name, "attrs": attrs} for name, attrs in steps[kind]]
    return {"processor": {"name": kind, "transforms": [{"operation": one} for one in operations]}}


def make_vision(path: Path, kind: str, **search: Any) -> dict[str, Array]:
    """A whole folder of a model of pictures; gives its weights."""
    held = vision_weights(kind)
    path.mkdir(parents=True, exist_ok=True)
    (path / "vision.onnx").write_bytes(vision(kind, held))
    (path / "embedding.onnx").write_bytes(embedding(kind, held))
    (path / "model.onnx").write_bytes(text_decoder(kind, text := text_weights(kind)))
    (path / "genai_config.json").write_text(json.dumps(vision_config(kind, **search)))
    (path / "processor_config.json").write_text(json.dumps(vision_processor(kind)))
    write_tokenizer(path, *MARKS[kind])
    return {**held, **{f"text.{name}": value for name, value in text.items()}}


def _saved(nodes: list[Any], inputs: list[Any], outputs: list[Any], tensors: Mapping[str, Array]) -> bytes:
    made = [onnx.numpy_helper.from_array(np.array(one, order="C"), name) for name, one in tensors.items()]
    graph = helper.make_graph(nodes, "part", inputs, outputs, made)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
