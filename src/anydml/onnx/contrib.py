"""Node types of ONNX Runtime's own that models carry: what they take, as ONNX would say it.

A type of another domain than ONNX's is called by both names, `com.microsoft.MatMulNBits`.
"""

from __future__ import annotations

from typing import NamedTuple

_FLOATS = ("tensor(float)", "tensor(float16)")
_BYTES = ("tensor(uint8)",)
TYPES = {
    "T": _FLOATS,
    "T1": _BYTES,
    "T2": (*_BYTES, *_FLOATS),
    "T3": ("tensor(int32)",),
    "T4": ("tensor(int64)",),
    "U": ("tensor(float)",),
}
"""By a type variable, what it may be."""


class Contrib(NamedTuple):
    """A node type."""

    inputs: str
    """A name and a type variable each; with a question mark it may be left out."""
    outputs: str
    attributes: dict[str, int | float | str | tuple[()] | None]
    """By name, the default; None for a whole number that must be given, () for several that need not."""


_SKIP_OUTPUTS = "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?"
_ATTENTION: dict[str, int | float | str | tuple[()] | None] = {
    "num_heads": None, "unidirectional": 0, "mask_filter_value": -10000.0, "scale": 0.0,
}  # fmt: skip
CONTRIB = {
    "SimplifiedLayerNormalization": Contrib(
        "X:T scale:T", "Y:T inv_std_var:U?", {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
    ),
    "com.microsoft.SkipLayerNormalization": Contrib(
        "input:T skip:T gamma:T beta:T? bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.SkipSimplifiedLayerNormalization": Contrib(
        "input:T skip:T gamma:T bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.MatMulNBits": Contrib(
        "A:T B:T1 scales:T zero_points:T2? g_idx:T3? bias:T?",
        "Y:T",
        {"K": None, "N": None, "bits": 4, "block_size": None, "accuracy_level": 0},
    ),
    "com.microsoft.Attention": Contrib(
        "input:T weights:T bias:T? mask_index:T3? past:T? attention_bias:T? past_sequence_length:T3?",
        "output:T present:T?",
        {
            **_ATTENTION,
            "qkv_hidden_sizes": (),
            "past_present_share_buffer": 0,
            "do_rotary": 0,
            "rotary_embedding_dim": 0,
        },
    ),
    "com.microsoft.MultiHeadAttention": Contrib(
        "query:T key:T? value:T? bias:T? key_padding_mask:T3? attention_bias:T? past_key:T? past_value:T?"
        " past_sequence_length:T3? cache_indirection:T3?",
        "output:T present_key:T? present_value:T? qk:T?",
        _ATTENTION,
    ),
    "com.microsoft.GroupQueryAttention": Contrib(
        "query:T key:T? value:T? past_key:T? past_value:T? seqlens_k:T3 total_sequence_length:T3 cos_cache:T?"
        " sin_cache:T? position_ids:T4? attention_bias:T? head_sink:T? k_scale:U? v_scale:U? q_norm_weight:T?"
        " k_norm_weight:T?",
        "output:T present_key:T? present_value:T? output_qk:T?",
        {
            "num_heads": None,
            "kv_num_heads": None,
            "causal": 1,
            "scale": 0.0,
            "softcap": 0.0,
            "local_window_size": -1,
            "sliding_window_cache": 0,
            "do_rotary": 0,
            "rotary_interleaved": 0,
            "smooth_softmax": -1,
            "qk_output": 0,
            "k_quant_type": "NONE",
            "v_quant_type": "NONE",
            "kv_cache_bit_width": 0,
            "qk_norm_epsilon": 1e-6,
        },
    ),
    "com.microsoft.RotaryEmbedding": Contrib(
        "input:T position_ids:T4 cos_cache:T sin_cache:T",
        "output:T",
        {"scale": 1.0, "interleaved": 0, "rotary_embedding_dim": 0, "num_heads": 0, "is_packed_batching": 0},
    ),
}
