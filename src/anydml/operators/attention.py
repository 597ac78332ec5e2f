"""MULTIHEAD_ATTENTION, and its form with grouped heads and a cache."""

from __future__ import annotations

from anydml.enums import MultiheadAttentionMaskType
from anydml.operators.attention_rules import NOT_GIVEN, Attention
from anydml.operators.fields import (  # noqa: TC001 - read at run time
    AttentionMask,
    Float,
    OptionalInput,
    OptionalOutput,
    Output,
    Uint,
)

FILTER = -10000.0
"""The usual number that masks add."""


class MultiheadAttention(Attention):
    """Attention of several heads: softmax(Scale·Q·Kᵀ + RelativePositionBias + mask)·V, for each head by itself.

    Query, key and value are (batch, sequence, heads·head size) each, or stacked as (batch, sequence, heads, 2 or 3,
    head size). Bias is added to them first; the past's keys and values stand before the new ones, with which they come
    out as the present's, and may be the only ones. Scale is 1/√(head size) where it is NaN, or not given.

    A mask adds MaskFilterValue, where the documents say "set" as well: to keys where it is 0 (BOOLEAN), from a length
    on (KEY_SEQUENCE_LENGTH), or outside of an end and a start (KEY_SEQUENCE_END_START), counted with the past's. Of
    KEY_QUERY_SEQUENCE_LENGTH_START_END they are the keys outside of keyStart … keyStart + keyLength, and all keys of
    queries outside of queryStart … the next one's, counted through the whole batch, which the documents leave open.

    Sums are of FLOAT32, and so are the softmax and what goes into it; what Bias was added to is of the tensors' type.
    """

    counted_by = ("head_count", "head_count")

    query_tensor: OptionalInput = None
    key_tensor: OptionalInput = None
    value_tensor: OptionalInput = None
    stacked_query_key_tensor: OptionalInput = None
    stacked_key_value_tensor: OptionalInput = None
    stacked_query_key_value_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    mask_tensor: OptionalInput = None
    relative_position_bias_tensor: OptionalInput = None
    past_key_tensor: OptionalInput = None
    past_value_tensor: OptionalInput = None
    output_tensor: Output
    output_present_key_tensor: OptionalOutput = None
    output_present_value_tensor: OptionalOutput = None
    scale: Float = NOT_GIVEN
    mask_filter_value: Float = FILTER
    head_count: Uint = 1
    mask_type: AttentionMask = MultiheadAttentionMaskType.NONE


class MultiheadAttention1(Attention):
    """MULTIHEAD_ATTENTION with fewer heads of keys and values, and with a cache: neither is in the documents yet.

    QueryHeadCount is a multiple of KeyValueHeadCount: as many heads on end share a key and a value. With
    PastSequenceLengths, as ONNX Runtime uses it, the present's keys and values are a cache of a fixed size: the new
    ones are written from there on, and a query looks at what lies before it and at itself. The cache is the past's
    tensors, or without them the outputs' own memory, which keeps what it has elsewhere. A length outside of the cache
    is the nearest inside; it is a number of INT32, as ONNX Runtime has it, or a float, as the documents do.
    """

    counted_by = ("query_head_count", "key_value_head_count")

    query_tensor: OptionalInput = None
    key_tensor: OptionalInput = None
    value_tensor: OptionalInput = None
    stacked_query_key_tensor: OptionalInput = None
    stacked_key_value_tensor: OptionalInput = None
    stacked_query_key_value_tensor: OptionalInput = None
    bias_tensor: OptionalInput = None
    mask_tensor: OptionalInput = None
    relative_position_bias_tensor: OptionalInput = None
    past_key_tensor: OptionalInput = None
    past_value_tensor: OptionalInput = None
    past_sequence_lengths_tensor: OptionalInput = None
    output_tensor: Output
    output_present_key_tensor: OptionalOutput = None
    output_present_value_tensor: OptionalOutput = None
    scale: Float = NOT_GIVEN
    mask_filter_value: Float = FILTER
    query_head_count: Uint = 1
    key_value_head_count: Uint = 1
    mask_type: AttentionMask = MultiheadAttentionMaskType.NONE
