"""Node types of ONNX Runtime's own that models carry: what they take, as ONNX would say it.

A type of another domain than ONNX's is called by both names, `com.microsoft.MatMulNBits`. In ONNX's own domain ONNX
Runtime has what was experimental there and is gone, as Affine, or has come back in another form, as ThresholdedRelu.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

_FLOATS = ("tensor(float)", "tensor(float16)")
_BYTES = ("tensor(uint8)",)
_BYTES_SIGNED = ("tensor(uint8)", "tensor(int8)")
_ALL_FLOATS = (*_FLOATS, "tensor(double)")
_WHOLE = tuple(f"tensor({sign}int{bits})" for sign in ("", "u") for bits in (32, 64))
TYPES = {
    "T": _FLOATS,
    "F": _ALL_FLOATS,
    "V": _ALL_FLOATS,
    "K": _FLOATS,
    "C": (*_FLOATS, *_BYTES_SIGNED),
    "M": (*_ALL_FLOATS, *_WHOLE),
    "S": ("tensor(float)", "tensor(double)"),
    "A": (
        *_ALL_FLOATS, *_WHOLE, *_BYTES_SIGNED, "tensor(uint16)", "tensor(int16)", "tensor(bool)", "tensor(string)",
        "tensor(complex64)", "tensor(complex128)",
    ),
    "T1": _BYTES,
    "T2": (*_BYTES, *_FLOATS),
    "T3": ("tensor(int32)",),
    "T4": ("tensor(int64)",),
    "U": ("tensor(float)",),
    "Q": _BYTES_SIGNED,
    "W": _BYTES_SIGNED,
    "Y": (*_BYTES_SIGNED, "tensor(float)"),
    "N": (*_BYTES_SIGNED, *(f"tensor({kind})" for kind in ("uint16", "int16", "uint4", "int4"))),
    "D": (*_BYTES_SIGNED, *(f"tensor({kind})" for kind in ("uint16", "int16", "uint4", "int4", "int32"))),
    "B": ("tensor(bool)",),
    "G": (*_BYTES, "tensor(uint4)", "tensor(int4)"),
    "I": ("tensor(int32)", "tensor(int64)"),
}  # fmt: skip
"""By a type variable, what it may be of what DirectML or NumPy has; a value of any other type is the host's."""

OTHERWISE = {"C": "T", "K": "T"}
"""By a type variable that no input may be of, the one that its outputs are of then: those of a cache without a past."""

Attributes: TypeAlias = dict[str, int | float | str | tuple[float, ...] | type[float] | None]
ALWAYS = 2**31 - 1
"""The opset before which there is what every opset has."""


class Contrib(NamedTuple):
    """A node type."""

    inputs: str
    """A name and a type variable each; with a question mark it may be left out, with a star there are any number."""
    outputs: str
    attributes: Attributes
    """By name, the default; None for a whole number that must be given, `float` for another. Several numbers need not:
    () whole ones, (0.0,) others."""
    before: int = ALWAYS
    """The opset of ONNX's own operators from which on there is no such type, or ONNX's instead."""


_SKIP_OUTPUTS = "output:T mean:U? inv_std_var:U? input_skip_bias_sum:T?"
_ATTENTION: Attributes = {
    "num_heads": None, "unidirectional": 0, "mask_filter_value": -10000.0, "scale": 0.0,
}  # fmt: skip
_ONE, _TWO = "X:Q X_scale:U X_zero_point:Q?", "A:Q A_scale:U A_zero_point:Q? B:Q B_scale:U B_zero_point:Q?"
_RESULT = "Y_scale:U Y_zero_point:Q?"
_WINDOWS: Attributes = {"auto_pad": "NOTSET", "kernel_shape": (), "pads": (), "strides": ()}
_FACTORS: Attributes = {"alpha": 1.0, "transA": 0, "transB": 0, "transBatchA": 0, "transBatchB": 0}
_ACTIVATION: Attributes = {"activation": ""}
_NUMBERS: Attributes = {f"activation_{name}": 0.0 for name in ("alpha", "beta", "gamma")}
_EXPERTS: Attributes = {
    "activation_type": "relu", "activation_alpha": 1.0, "activation_beta": 0.0, "k": 1, "normalize_routing_weights": 0,
    "swiglu_fusion": 0, "swiglu_limit": math.inf, "use_sparse_mixer": 0,
}  # fmt: skip
FUSED = {
    "QLinearAdd": Contrib(f"{_TWO} {_RESULT}", "C:Q", {}),
    "QLinearMul": Contrib(f"{_TWO} {_RESULT}", "C:Q", {}),
    "QLinearSigmoid": Contrib(f"{_ONE} {_RESULT}", "Y:Q", {}),
    "QLinearLeakyRelu": Contrib(f"{_ONE} {_RESULT}", "Y:Q", {"alpha": 0.01}),
    "QLinearSoftmax": Contrib(f"{_ONE} {_RESULT}", "Y:Q", {"axis": -1, "opset": None}),
    "QLinearGlobalAveragePool": Contrib(f"{_ONE} {_RESULT}", "Y:Q", {"channels_last": 0}),
    "QLinearAveragePool": Contrib(
        f"{_ONE} {_RESULT}", "Y:Q", {**_WINDOWS, "ceil_mode": 0, "count_include_pad": 0, "channels_last": 0}
    ),
    "QLinearConv": Contrib(
        "x:Q x_scale:U x_zero_point:Q w:W w_scale:U w_zero_point:W y_scale:U y_zero_point:Y B:T3?",
        "y:Y",
        {**_WINDOWS, "dilations": (), "group": 1, "channels_last": 0},
    ),
    "NhwcConv": Contrib("X:F W:F B:F?", "Y:F", {**_WINDOWS, "dilations": (), "group": 1}),
    "NhwcMaxPool": Contrib("x:Q", "y:Q", {**_WINDOWS, "dilations": (), "ceil_mode": 0}),
    "QLinearConcat": Contrib("Y_scale:U Y_zero_point:Q inputs:Y*", "Y:Q", {"axis": None}),
    "QLinearWhere": Contrib(f"condition:B {_TWO} {_RESULT}", "Z:Q", {}),
    "QGemm": Contrib(
        "A:Q a_scale:U a_zero_point:Q B:W b_scale:U b_zero_point:W C:T3? y_scale:U? y_zero_point:Y?",
        "Y:Y",
        {"alpha": 1.0, "transA": 0, "transB": 0},
    ),
    "MatMulIntegerToFloat": Contrib("A:Q B:W a_scale:T b_scale:T a_zero_point:Q? b_zero_point:W? bias:T?", "Y:T", {}),
    "DynamicQuantizeMatMul": Contrib("A:U B:W b_scale:U b_zero_point:W? bias:U?", "Y:U", {}),
    "QAttention": Contrib(
        "input:Q weight:W bias:T input_scale:T weight_scale:T mask_index:T3? input_zero_point:Q? weight_zero_point:W?"
        " past:T?",
        "output:T present:T?",
        {**_ATTENTION, "do_rotary": 0, "past_present_share_buffer": 0},
    ),
    "GatherBlockQuantized": Contrib(
        "data:G indices:I scales:T zero_points:G?",
        "output:T",
        {"gather_axis": 0, "quantize_axis": 1, "block_size": 128, "bits": 4},
    ),
    "QuantizeLinear": Contrib("x:T y_scale:T y_zero_point:N?", "y:N", {"axis": 1}),
    "DequantizeLinear": Contrib("x:D x_scale:T x_zero_point:D?", "y:T", {"axis": 1}),
    "FusedMatMul": Contrib("A:F B:F", "Y:F", _FACTORS),
    "FusedMatMulActivation": Contrib(
        "A:F B:F",
        "Y:F",
        {**_FACTORS, "activation_axis": 0, **_ACTIVATION, **_NUMBERS},
    ),
    "TransposeMatMul": Contrib("A:F B:F", "Y:F", {"alpha": 1.0, "transA": 0, "transB": 0}),
    "FusedConv": Contrib(
        "X:F W:F B:F? Z:F?",
        "Y:F",
        {**_WINDOWS, "dilations": (), "group": 1, **_ACTIVATION, "activation_params": (0.0,)},
    ),
    "FusedGemm": Contrib(
        "A:M B:M C:M?",
        "Y:M",
        {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0, **_ACTIVATION, **_NUMBERS},
    ),
    "Gelu": Contrib("X:F", "Y:F", {}),
    "BiasAdd": Contrib("X:T bias:T skip:T", "Y:T", {}),
    "BiasSplitGelu": Contrib("X:T bias:T", "Y:T", {}),
    "GroupNorm": Contrib(
        "X:T gamma:K beta:K", "Y:T", {"activation": None, "groups": None, "channels_last": 1, "epsilon": 1e-5}
    ),
    "BiasGelu": Contrib("A:F B:F", "C:F", {}),
    "FastGelu": Contrib("X:F bias:F?", "Y:F", {}),
    "QuickGelu": Contrib("X:F", "Y:F", {"alpha": 1.702}),
    "EmbedLayerNormalization": Contrib(
        "input_ids:T3 segment_ids:T3? word_embedding:T position_embedding:T segment_embedding:T? gamma:T beta:T"
        " mask:T3? position_ids:T3?",
        "output:T mask_index:T3? embedding_sum:T?",
        {"epsilon": 1e-12, "mask_index_type": 0},
    ),
}
"""Node types of ONNX Runtime's quantiser and optimiser, of the domain com.microsoft."""
_NORM: Attributes = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
_CURVE: Attributes = {"alpha": float, "beta": float}
EXPERIMENTAL = {
    "Affine": Contrib("X:F", "Y:F", {"alpha": 1.0, "beta": 0.0}, before=10),
    "Crop": Contrib("input:F", "output:F", {"border": (), "scale": ()}, before=10),
    "DynamicSlice": Contrib("data:A starts:I ends:I axes:I?", "output:A", {}, before=10),
    "ImageScaler": Contrib("input:F", "output:F", {"bias": (0.0,), "scale": 1.0}, before=10),
    "LayerNormalization": Contrib("X:F Scale:V B:V?", "Y:V Mean:S? InvStdDev:S?", _NORM, before=17),
    "MeanVarianceNormalization": Contrib(
        "input:F", "output:F", {"across_channels": 0, "normalize_variance": 1}, before=9
    ),
    "ParametricSoftplus": Contrib("X:F", "Y:F", _CURVE, before=10),
    "Scale": Contrib("input:F", "output:F", {"scale": 1.0}, before=10),
    "ScaledTanh": Contrib("input:F", "output:F", _CURVE, before=10),
    "ThresholdedRelu": Contrib("X:F", "Y:F", {"alpha": 1.0}, before=10),
}
"""Node types of ONNX's own domain that ONNX has dropped, or had no schema for at first."""
CONTRIB = {
    **EXPERIMENTAL,
    "MemcpyFromHost": Contrib("X:A", "Y:A", {}),
    "MemcpyToHost": Contrib("X:A", "Y:A", {}),
    "SimplifiedLayerNormalization": Contrib("X:F scale:V", "Y:V inv_std_var:S?", _NORM),
    "com.microsoft.SkipLayerNormalization": Contrib(
        "input:T skip:T gamma:T beta:T? bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.SkipSimplifiedLayerNormalization": Contrib(
        "input:T skip:T gamma:T bias:T?", _SKIP_OUTPUTS, {"epsilon": 1e-12}
    ),
    "com.microsoft.MatMulNBits": Contrib(
        "A:T B:T1 scales:T zero_points:T2? g_idx:T3? bias:T?",
        "Y:T",
        {"K": None, "N": None, "bits": 4, "block_size": None, "accuracy_level": 0, "weight_prepacked": 0},
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
        "output:T present_key:T? present_value:T? qk:K?",
        _ATTENTION,
    ),
    "com.microsoft.GroupQueryAttention": Contrib(
        "query:T key:T? value:T? past_key:C? past_value:C? seqlens_k:T3 total_sequence_length:T3 cos_cache:T?"
        " sin_cache:T? position_ids:T4? attention_bias:T? head_sink:T? k_scale:U? v_scale:U? q_norm_weight:T?"
        " k_norm_weight:T?",
        "output:T present_key:C? present_value:C? output_qk:T?",
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
    "com.microsoft.MoE": Contrib(
        "input:T router_probs:T fc1_experts_weights:T fc1_experts_bias:T? fc2_experts_weights:T fc2_experts_bias:T?"
        " fc3_experts_weights:T? fc3_experts_bias:T?",
        "output:T",
        _EXPERTS,
    ),
    "com.microsoft.QMoE": Contrib(
        "input:T router_probs:T fc1_experts_weights:T1 fc1_scales:K? fc1_experts_bias:T? fc2_experts_weights:T1"
        " fc2_scales:K? fc2_experts_bias:T? fc3_experts_weights:T1? fc3_scales:K? fc3_experts_bias:T?"
        " fc1_zero_points:T1? fc2_zero_points:T1? fc3_zero_points:T1? router_weights:T? fc1_global_scale:U?"
        " fc2_global_scale:U? fc1_act_scale:U? fc2_act_scale:U? fc1_act_block_scale:K? fc2_act_block_scale:K?",
        "output:T",
        {
            **_EXPERTS,
            "expert_weight_bits": 4,
            **{f"fc{i}_expert_weight_bits": 0 for i in (1, 2, 3)},
            "block_size": 0,
            "quant_type": "int",
            "weights_prepacked": -1,
            "accuracy_level": 0,
        },
    ),
    "com.microsoft.CausalConvWithState": Contrib(
        "input:T weight:T bias:T? past_state:T?",
        "output:T present_state:T",
        {"ndim": 1, "activation": "none", "dilation": 1, "channels_last": 0, "state_window": 0},
    ),
    "com.microsoft.LinearAttention": Contrib(
        "query:T key:T value:T past_state:K? decay:T? beta:T?",
        "output:T present_state:K",
        {
            "q_num_heads": None,
            "kv_num_heads": None,
            "update_rule": "gated_delta",
            "scale": 0.0,
            "chunk_size": 64,
            "state_window": 0,
        },
    ),
    "com.microsoft.LinearAttentionGate": Contrib("a:T dt_bias:U decay_scale:U b:T?", "decay:T beta:T?", {}),
    "com.microsoft.GatedRMSNorm": Contrib("X:T scale:T gate:T", "Y:T", {"activation": "silu", "epsilon": 1e-5}),
    "com.microsoft.GatedAdd": Contrib("X:T Y:T gate:T", "output:T", {}),
    "com.microsoft.PagedAttention": Contrib(
        "query:T key:T? value:T? key_cache:C value_cache:C? cumulative_sequence_length:T3 past_seqlens:T3"
        " block_table:T3 cos_cache:T? sin_cache:T? slot_mapping:T3? head_sink:T? q_norm_weight:T? k_norm_weight:T?"
        " k_scale:U? v_scale:U? attention_metadata:T3?",
        "output:T key_cache_out:C? value_cache_out:C?",
        {
            "num_heads": None,
            "kv_num_heads": None,
            "is_causal": 1,
            "scale": 0.0,
            "softcap": 0.0,
            "local_window_size": -1,
            "do_rotary": 0,
            "rotary_interleaved": 0,
            "rotary_offset": 0,
            "kv_cache_layout": "SEPARATE",
            "v_head_size": 0,
            **{f"{part}_{what}": text for part in "kv" for what, text in (("quant_type", "NONE"), ("cache_dtype", ""))},
            "qk_norm_epsilon": 1e-6,
        },
    ),
    "com.microsoft.SparseAttention": Contrib(
        "query:T key:T? value:T? past_key:T past_value:T block_row_indices:T3 block_col_indices:T3"
        " total_sequence_length:T3 key_total_sequence_lengths:T3 cos_cache:T? sin_cache:T?",
        "output:T present_key:T present_value:T",
        {
            "num_heads": None,
            "kv_num_heads": None,
            "sparse_block_size": None,
            "scale": 0.0,
            "do_rotary": 0,
            "rotary_interleaved": 0,
        },
    ),
    "com.microsoft.RotaryEmbedding": Contrib(
        "input:T position_ids:T4 cos_cache:T sin_cache:T",
        "output:T",
        {"scale": 1.0, "interleaved": 0, "rotary_embedding_dim": 0, "num_heads": 0, "is_packed_batching": 0},
    ),
    "com.microsoft.MRotaryEmbedding": Contrib(
        "input:T position_ids:T4 cos_cache:T sin_cache:T",
        "output:T",
        {
            "mrope_section": (),
            "mrope_layout": 0,
            "scale": 1.0,
            "interleaved": 0,
            "rotary_embedding_dim": 0,
            "num_heads": 0,
            "is_packed_batching": 0,
        },
    ),
    **{f"com.microsoft.{name}": found for name, found in FUSED.items()},
}
