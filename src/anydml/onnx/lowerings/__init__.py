"""How ONNX's nodes become DirectML's operators: by node type and the opset from which on the lowering holds.

A node type that is one element-wise operator is in no table: the operator declares it, or has its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.enums import ReduceFunction
from anydml.onnx.library import node_kinds, node_rules
from anydml.onnx.lowerings import (
    attending,
    attention,
    branching,
    composing,
    convolving,
    defined,
    detours,
    drawing,
    einsum,
    filling,
    fused,
    gathering,
    grids,
    moving,
    normalising,
    pooling,
    products,
    quantising,
    rearranging,
    recurrent,
    reducing,
    regions,
    resizing,
    running,
    scattering,
    selecting,
    shaping,
    slicing,
)
from anydml.onnx.lowerings.elementwise import is_one_to_one, one_to_one, operator_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value

    Lowering = Callable[[Node], Sequence[Value | None]]


def by_definition(node: Node) -> list[Value | None]:
    """A node as ONNX makes it of others."""
    return defined.lower(node, find_lowering)


def checked_attention(node: Node) -> list[Value | None]:
    """Attention, as ONNX makes it of others."""
    attention.check_heads(node)
    return by_definition(attention.without_heads(node))


def by_others(body: fused.Body) -> Lowering:
    """A node as the nodes that it stands for."""
    return lambda node: body(node, fused.Maker(node, find_lowering))


LOWERINGS: dict[str, dict[int, Lowering]] = {
    **{kind: {1: reducing.reduction} for kind in reducing.REDUCTIONS},
    "Abs": {1: detours.absolute},
    "AffineGrid": {20: grids.affine_grid},
    "ArgMax": {1: reducing.extreme("argmax")},
    "ArgMin": {1: reducing.extreme("argmin")},
    "Attention": {23: checked_attention},
    "AveragePool": {1: pooling.average_pool},
    "BatchNormalization": {1: normalising.batch_norm},
    "Bernoulli": {15: drawing.bernoulli},
    "BitCast": {26: moving.bit_cast},
    "BitShift": {1: detours.shift},
    "Cast": {1: moving.cast_by_name, 6: moving.cast},
    "CastLike": {15: moving.cast_like},
    "CenterCropPad": {18: rearranging.center_crop_pad},
    "Clip": {1: composing.clip_by_attributes, 11: composing.clip},
    "Col2Im": {18: rearranging.columns_to_image},
    "Compress": {9: selecting.compress},
    "Concat": {1: moving.concat_default, 4: moving.concat},
    "Constant": {1: filling.constant},
    "ConstantOfShape": {9: filling.constant_of_shape},
    "Conv": {1: convolving.convolution},
    "ConvInteger": {10: convolving.convolution_integer},
    "ConvTranspose": {1: convolving.transposed},
    "Crop": {1: slicing.crop},
    "CumProd": {26: running.cum_prod},
    "CumSum": {11: running.cum_sum},
    "DepthToSpace": {1: rearranging.depth_to_space},
    "DequantizeLinear": {10: quantising.dequantize},
    "Dropout": {1: drawing.dropout_by_attributes, 12: drawing.dropout},
    "DynamicSlice": {1: slicing.slice_by_inputs},
    "Einsum": {12: einsum.einsum},
    "Expand": {8: moving.expand},
    "EyeLike": {9: rearranging.eye_like},
    "Flatten": {1: shaping.flatten},
    "Gather": {1: gathering.gather},
    "GatherElements": {11: gathering.gather_elements},
    "GatherND": {11: gathering.gather_nd},
    "Gelu": {1: composing.gelu},
    "Gemm": {1: products.gemm},
    "GlobalAveragePool": {1: pooling.global_pool(ReduceFunction.AVERAGE)},
    "GlobalLpPool": {1: pooling.global_lp_pool},
    "GlobalMaxPool": {1: pooling.global_pool(ReduceFunction.MAX)},
    "GridSample": {16: grids.grid_sample},
    "GroupNormalization": {18: normalising.group_norm},
    "GRU": {1: recurrent.layer(dml.gru)},
    "Hardmax": {1: reducing.along_rest("hardmax1"), 13: reducing.along_axis("hardmax1")},
    "Identity": {1: shaping.identity},
    "If": {1: branching.choose},
    "ImageScaler": {1: composing.image_scaler},
    "InstanceNormalization": {1: normalising.instance_norm},
    "IsInf": {1: composing.is_infinite},
    "LayerNormalization": {1: normalising.layer_norm},
    "LogSoftmax": {1: reducing.along_rest("log_softmax1"), 13: reducing.along_axis("log_softmax1")},
    "LpNormalization": {1: normalising.lp_norm},
    "LpPool": {1: pooling.lp_pool},
    "LRN": {1: normalising.local_response_norm},
    "LSTM": {1: recurrent.layer(dml.lstm)},
    "MatMul": {1: products.matmul},
    "MatMulInteger": {10: products.matmul_integer},
    "Max": {1: composing.fold("max")},
    "MaxPool": {1: pooling.max_pool},
    "MaxRoiPool": {1: regions.max_roi_pool},
    "MaxUnpool": {9: pooling.max_unpool},
    "Mean": {1: composing.mean},
    "MeanVarianceNormalization": {1: normalising.mean_variance_norm},
    "MemcpyFromHost": {1: shaping.identity},
    "MemcpyToHost": {1: shaping.identity},
    "Min": {1: composing.fold("min")},
    "Mish": {1: composing.mish},
    "Mod": {1: composing.modulus},
    "Multinomial": {7: drawing.multinomial},
    "NegativeLogLikelihoodLoss": {12: by_definition},
    "NonZero": {9: selecting.nonzero},
    "OneHot": {9: selecting.one_hot},
    "Pad": {
        1: rearranging.pad_by_attributes("paddings"),
        2: rearranging.pad_by_attributes("pads"),
        11: rearranging.pad,
    },
    "Pow": {1: composing.power},
    "PRelu": {1: detours.prelu},
    "QLinearConv": {10: convolving.convolution_quantised},
    "QLinearMatMul": {10: products.qlinear_matmul},
    "QuantizeLinear": {10: quantising.quantize},
    "RandomNormal": {1: drawing.fill_randomly(drawing.normal)},
    "RandomNormalLike": {1: drawing.fill_like(drawing.normal)},
    "RandomUniform": {1: drawing.fill_randomly(drawing.uniform)},
    "RandomUniformLike": {1: drawing.fill_like(drawing.uniform)},
    "Range": {11: filling.range_of},
    "Relu": {1: detours.relu},
    "Reshape": {1: shaping.reshape_by_attribute, 5: shaping.reshape},
    "Resize": {10: resizing.resize_by_scales, 11: resizing.resize},
    "ReverseSequence": {10: running.reverse_sequence},
    "RNN": {1: recurrent.layer(dml.rnn)},
    "RMSNormalization": {23: normalising.rms_norm},
    "RoiAlign": {10: regions.roi_align},
    "RotaryEmbedding": {1: attention.rotary_embedding},
    "Round": {1: composing.rounded},
    "Scale": {1: composing.scaled},
    "Scatter": {9: scattering.scatter_elements},
    "ScatterElements": {11: scattering.scatter_elements},
    "ScatterND": {11: scattering.scatter_nd},
    "Shape": {1: shaping.shape},
    "Shrink": {9: detours.shrink},
    "Size": {1: shaping.size},
    "Slice": {1: slicing.slice_by_attributes, 10: slicing.slice_by_inputs},
    "Softmax": {1: reducing.along_rest("softmax1"), 13: reducing.along_axis("softmax1")},
    "SoftmaxCrossEntropyLoss": {12: by_definition},
    "SpaceToDepth": {1: rearranging.space_to_depth},
    "Split": {1: slicing.split},
    "Squeeze": {1: shaping.squeeze},
    "SimplifiedLayerNormalization": {1: normalising.rms_norm},
    "Sum": {1: composing.fold("add")},
    "TensorScatter": {24: by_others(scattering.tensor_scatter)},
    "Transpose": {1: moving.transpose},
    "Tile": {1: rearranging.tile_along_axis, 6: rearranging.tile},
    "TopK": {1: selecting.top_k_by_attribute, 10: selecting.top_k},
    "Trilu": {1: rearranging.triangle},
    "Unsqueeze": {1: shaping.unsqueeze},
    "Upsample": {1: resizing.upsample},
    "Where": {9: detours.choice},
    "com.microsoft.Attention": {1: attending.attention},
    "com.microsoft.GroupQueryAttention": {1: attending.group_query_attention},
    "com.microsoft.MultiHeadAttention": {1: attending.multi_head_attention},
    "com.microsoft.RotaryEmbedding": {1: attention.rotary_embedding_by_positions},
    "com.microsoft.QAttention": {1: attending.attention_quantised},
    "com.microsoft.GatherBlockQuantized": {1: quantising.gather_blocks},
    "com.microsoft.MatMulNBits": {1: quantising.matmul_bits},
    **{f"com.microsoft.{kind}": {1: by_others(body)} for kind, body in fused.BODIES.items()},
    "com.microsoft.QuantizeLinear": {1: quantising.quantize},
    "com.microsoft.DequantizeLinear": {1: quantising.dequantize},
    "com.microsoft.SkipLayerNormalization": {1: normalising.skip_norm(use_mean=True)},
    "com.microsoft.SkipSimplifiedLayerNormalization": {1: normalising.skip_norm(use_mean=False)},
}


def find_lowering(kind: str, version: int) -> Lowering | None:
    """The lowering of a node type at an opset; None where there is none, or ONNX has no such type there."""
    if (several := LOWERINGS.get(kind)) is not None:
        found = [since for since in several if since <= version]
        return several[max(found)] if found and node_rules(kind, version) else None
    cls = operator_of(kind)
    return one_to_one if cls is not None and is_one_to_one(cls, kind, version) else None


def lowered_kinds() -> list[str]:
    """The node types that have a lowering at some opset."""
    return [kind for kind, versions in node_kinds().items() if any(find_lowering(kind, since) for since in versions)]
