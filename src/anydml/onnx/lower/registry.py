"""How ONNX's nodes become DirectML's operators: by node type and the opset from which on the lowering holds.

A node type that is one element-wise operator is in no table: the operator declares it, or has its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.core.enums import ReduceFunction
from anydml.onnx.library import definition_of, node_kinds, node_rules
from anydml.onnx.lower import (
    attention,
    composite_elementwise,
    convolution_pooling,
    cumulative,
    data_movement,
    experts,
    fused_nodes,
    grid_sample,
    indexing,
    linear_attention,
    matmul,
    normalization,
    paged_attention,
    quantization,
    random_generation,
    recurrent,
    reductions,
    reshape,
    resize,
    roi,
    slicing,
)
from anydml.onnx.lower.bound_node import BoundNode
from anydml.onnx.lower.elementwise import is_one_to_one, one_to_one, operator_of
from anydml.onnx.signatures import check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.lower.values import Value

    Lowering = Callable[[BoundNode], Sequence[Value | None]]


def chosen_branch(node: BoundNode) -> list[Value | None]:
    """If, whose condition is known before anything runs: the nodes of the branch taken are put in its place."""
    cond = node.input(0)
    if cond.count != 1:
        node.refuse("cond", "cond must have one element", value=cond.shape)
    return node.inline("then_branch" if cond.values("cond").reshape(-1)[0] else "else_branch")


_REDUCTIONS = ("mean", "sum", "none")
"""Of a loss; ONNX has a definition for every other text too."""


def by_definition(node: BoundNode) -> list[Value | None]:
    """A node as ONNX makes it of others, differently for each set of attributes and types: those others, lowered."""
    node.one_of("reduction", _REDUCTIONS, "none")
    given = [node.optional(i) for i in range(node.input_count)]
    body = definition_of(node.origin, node.version, [None if value is None else value.element.name for value in given])
    if body is None:
        node.unsupported(node.kind, f"{node.kind} of these types and attributes has no definition")
    (version,), graph = body.opset_import.values(), body.graph
    known: dict[str, Value | None] = {"": None, **dict.fromkeys(info.name for info in graph.input)}
    known.update(zip((info.name for info in graph.input), given, strict=False))
    for origin in graph.node:
        inner = BoundNode(origin, version, [known[name] for name in origin.input], node.tracer)
        lowering = find_lowering(inner.kind, version)
        if lowering is None:
            node.unsupported(inner.kind, f"{node.kind} is made of {inner.kind} here, which is not supported")
        check_types(inner, [known[name] for name in origin.input])
        known.update(zip(origin.output, lowering(inner), strict=False))
    outputs = [info.name for info in graph.output]
    for formal, actual in zip(outputs, node.outputs, strict=False):
        if actual and known.get(formal) is None:
            node.unsupported(formal, f"{formal} is not made where {node.kind} has these inputs and attributes")
    return [known.get(formal) for formal in outputs]


def checked_attention(node: BoundNode) -> list[Value | None]:
    """Attention, as ONNX makes it of others."""
    attention.check_heads(node)
    return by_definition(attention.without_heads(node))


def checked_loss(node: BoundNode) -> list[Value | None]:
    """A loss, as ONNX makes it of others: by the class of each place that scores are for."""
    scores, target, weight = node.input(0).shape, node.input(1).shape, node.optional(2)
    if len(scores) < 2 or target != (scores[0], *scores[2:]):
        rule = "the scores must be (N, C, D1, .. Dk), and the classes (N, D1, .. Dk)"
        node.refuse(node.rules.inputs[1].name, rule, value=target, found=f"{scores} and {target}")
    node.check_shape(node.rules.inputs[2].name, weight, scores[1:2], why=", a number for each class")
    return by_definition(node)


def by_others(body: fused_nodes.Body) -> Lowering:
    """A node as the nodes that it stands for."""
    return lambda node: body(node, fused_nodes.Maker(node, find_lowering))


LOWERINGS: dict[str, dict[int, Lowering]] = {
    **{kind: {1: reductions.reduction} for kind in reductions.REDUCTIONS},
    "Abs": {1: composite_elementwise.absolute},
    "AffineGrid": {20: grid_sample.affine_grid},
    "ArgMax": {1: reductions.extreme("argmax")},
    "ArgMin": {1: reductions.extreme("argmin")},
    "Attention": {23: checked_attention},
    "AveragePool": {1: convolution_pooling.average_pool},
    "BatchNormalization": {1: normalization.batch_norm},
    "Bernoulli": {15: random_generation.bernoulli},
    "BitCast": {26: data_movement.bit_cast},
    "BitShift": {1: composite_elementwise.shift},
    "Cast": {1: data_movement.cast_by_name, 6: data_movement.cast},
    "CastLike": {15: data_movement.cast_like},
    "CenterCropPad": {18: data_movement.center_crop_pad},
    "Clip": {1: composite_elementwise.clip_by_attributes, 11: composite_elementwise.clip},
    "Col2Im": {18: data_movement.columns_to_image},
    "Compress": {9: indexing.compress},
    "Concat": {1: data_movement.concat_default, 4: data_movement.concat},
    "Constant": {1: reshape.constant},
    "ConstantOfShape": {9: reshape.constant_of_shape},
    "Conv": {1: convolution_pooling.convolution},
    "ConvInteger": {10: convolution_pooling.convolution_integer},
    "ConvTranspose": {1: convolution_pooling.transposed},
    "Crop": {1: slicing.crop},
    "CumProd": {26: cumulative.cum_prod},
    "CumSum": {11: cumulative.cum_sum},
    "DepthToSpace": {1: data_movement.depth_to_space},
    "DequantizeLinear": {10: quantization.dequantize},
    "Dropout": {1: random_generation.dropout_by_attributes, 12: random_generation.dropout},
    "DynamicSlice": {1: slicing.slice_by_inputs},
    "Einsum": {12: matmul.einsum},
    "Expand": {8: data_movement.expand},
    "EyeLike": {9: data_movement.eye_like},
    "Flatten": {1: reshape.flatten},
    "Gather": {1: indexing.gather},
    "GatherElements": {11: indexing.gather_elements},
    "GatherND": {11: indexing.gather_nd},
    "Gelu": {1: composite_elementwise.gelu},
    "Gemm": {1: matmul.gemm},
    "GlobalAveragePool": {1: convolution_pooling.global_pool(ReduceFunction.AVERAGE)},
    "GlobalLpPool": {1: convolution_pooling.global_lp_pool},
    "GlobalMaxPool": {1: convolution_pooling.global_pool(ReduceFunction.MAX)},
    "GridSample": {16: grid_sample.grid_sample},
    "GroupNormalization": {18: normalization.group_norm},
    "GRU": {1: recurrent.layer(dml.gru)},
    "Hardmax": {1: reductions.along_rest("hardmax1"), 13: reductions.along_axis("hardmax1")},
    "Identity": {1: reshape.identity},
    "If": {1: chosen_branch},
    "ImageScaler": {1: composite_elementwise.image_scaler},
    "InstanceNormalization": {1: normalization.instance_norm},
    "IsInf": {1: composite_elementwise.is_infinite},
    "LayerNormalization": {1: normalization.layer_norm},
    "LogSoftmax": {1: reductions.along_rest("log_softmax1"), 13: reductions.along_axis("log_softmax1")},
    "LpNormalization": {1: normalization.lp_norm},
    "LpPool": {1: convolution_pooling.lp_pool},
    "LRN": {1: normalization.local_response_norm},
    "LSTM": {1: recurrent.layer(dml.lstm)},
    "MatMul": {1: matmul.matmul},
    "MatMulInteger": {10: matmul.matmul_integer},
    "Max": {1: composite_elementwise.fold("max")},
    "MaxPool": {1: convolution_pooling.max_pool},
    "MaxRoiPool": {1: roi.max_roi_pool},
    "MaxUnpool": {9: convolution_pooling.max_unpool},
    "Mean": {1: composite_elementwise.mean},
    "MeanVarianceNormalization": {1: normalization.mean_variance_norm},
    "MemcpyFromHost": {1: reshape.identity},
    "MemcpyToHost": {1: reshape.identity},
    "Min": {1: composite_elementwise.fold("min")},
    "Mish": {1: composite_elementwise.mish},
    "Mod": {1: composite_elementwise.modulus},
    "Multinomial": {7: random_generation.multinomial},
    "NegativeLogLikelihoodLoss": {12: checked_loss},
    "NonZero": {9: indexing.nonzero},
    "OneHot": {9: indexing.one_hot},
    "Pad": {
        1: data_movement.pad_by_attributes("paddings"),
        2: data_movement.pad_by_attributes("pads"),
        11: data_movement.pad,
    },
    "Pow": {1: composite_elementwise.power},
    "PRelu": {1: composite_elementwise.prelu},
    "QLinearConv": {10: convolution_pooling.convolution_quantised},
    "QLinearMatMul": {10: matmul.qlinear_matmul},
    "QuantizeLinear": {10: quantization.quantize},
    "RandomNormal": {1: random_generation.fill_randomly(random_generation.normal)},
    "RandomNormalLike": {1: random_generation.fill_like(random_generation.normal)},
    "RandomUniform": {1: random_generation.fill_randomly(random_generation.uniform)},
    "RandomUniformLike": {1: random_generation.fill_like(random_generation.uniform)},
    "Range": {11: reshape.range_of},
    "Relu": {1: composite_elementwise.relu},
    "Reshape": {1: reshape.reshape_by_attribute, 5: reshape.reshape},
    "Resize": {10: resize.resize_by_scales, 11: resize.resize},
    "ReverseSequence": {10: cumulative.reverse_sequence},
    "RNN": {1: recurrent.layer(dml.rnn)},
    "RMSNormalization": {23: normalization.rms_norm},
    "RoiAlign": {10: roi.roi_align},
    "RotaryEmbedding": {1: attention.rotary_embedding},
    "Round": {1: composite_elementwise.rounded},
    "Scale": {1: composite_elementwise.scaled},
    "Scatter": {9: indexing.scatter_elements},
    "ScatterElements": {11: indexing.scatter_elements},
    "ScatterND": {11: indexing.scatter_nd},
    "Shape": {1: reshape.shape},
    "Shrink": {9: composite_elementwise.shrink},
    "Size": {1: reshape.size},
    "Slice": {1: slicing.slice_by_attributes, 10: slicing.slice_by_inputs},
    "Softmax": {1: reductions.along_rest("softmax1"), 13: reductions.along_axis("softmax1")},
    "SoftmaxCrossEntropyLoss": {12: checked_loss},
    "SpaceToDepth": {1: data_movement.space_to_depth},
    "Split": {1: slicing.split},
    "Squeeze": {1: reshape.squeeze},
    "SimplifiedLayerNormalization": {1: normalization.rms_norm},
    "Sum": {1: composite_elementwise.fold("add")},
    "TensorScatter": {24: by_others(indexing.tensor_scatter)},
    "Transpose": {1: data_movement.transpose},
    "Tile": {1: data_movement.tile_along_axis, 6: data_movement.tile},
    "TopK": {1: indexing.top_k_by_attribute, 10: indexing.top_k},
    "Trilu": {1: data_movement.triangle},
    "Unsqueeze": {1: reshape.unsqueeze},
    "Upsample": {1: resize.upsample},
    "Where": {9: composite_elementwise.choice},
    "com.microsoft.Attention": {1: attention.attention},
    "com.microsoft.CausalConvWithState": {1: linear_attention.causal_convolution},
    "com.microsoft.GatedAdd": {1: linear_attention.gated_add},
    "com.microsoft.GatedRMSNorm": {1: linear_attention.gated_norm},
    "com.microsoft.LinearAttention": {1: linear_attention.linear_attention},
    "com.microsoft.LinearAttentionGate": {1: linear_attention.linear_attention_gate},
    "com.microsoft.GroupQueryAttention": {1: attention.group_query_attention},
    "com.microsoft.MoE": {1: experts.mixture},
    "com.microsoft.MultiHeadAttention": {1: attention.multi_head_attention},
    "com.microsoft.PagedAttention": {1: paged_attention.paged_attention},
    "com.microsoft.SparseAttention": {1: by_others(paged_attention.sparse_attention)},
    "com.microsoft.RotaryEmbedding": {1: attention.rotary_embedding_by_positions},
    "com.microsoft.MRotaryEmbedding": {1: attention.rotary_embedding_by_sections},
    "com.microsoft.QMoE": {1: experts.mixture_quantised},
    "com.microsoft.QAttention": {1: attention.attention_quantised},
    "com.microsoft.GatherBlockQuantized": {1: quantization.gather_blocks},
    "com.microsoft.MatMulNBits": {1: quantization.matmul_bits},
    **{f"com.microsoft.{kind}": {1: by_others(body)} for kind, body in fused_nodes.BODIES.items()},
    "com.microsoft.QuantizeLinear": {1: quantization.quantize},
    "com.microsoft.DequantizeLinear": {1: quantization.dequantize},
    "com.microsoft.SkipLayerNormalization": {1: normalization.skip_norm(use_mean=True)},
    "com.microsoft.SkipSimplifiedLayerNormalization": {1: normalization.skip_norm(use_mean=False)},
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
