"""How ONNX's nodes become DirectML's operators: by node type and the opset from which on the lowering holds.

A node type that is one element-wise operator is in no table: the operator declares it, or has its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anydml as dml
from anydml.core.enums import ReduceFunction
from anydml.core.errors import printable, show
from anydml.onnx.library import definition_of, node_kinds, node_rules
from anydml.onnx.lowerings import (
    attention,
    composing,
    drawing,
    fused,
    grids,
    indexing,
    moving,
    normalising,
    products,
    quantising,
    recurrent,
    reducing,
    regions,
    resizing,
    running,
    shaping,
    slicing,
    windows,
)
from anydml.onnx.lowerings.elementwise import is_one_to_one, one_to_one, operator_of
from anydml.onnx.nodes import Node
from anydml.onnx.signatures import check_types

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.values import Value

    Lowering = Callable[[Node], Sequence[Value | None]]


def chosen_branch(node: Node) -> list[Value | None]:
    """If, whose condition is known before anything runs: the nodes of the branch taken are put in its place."""
    cond = node.input(0)
    if cond.count != 1:
        node.refuse("cond", "cond must have one element", value=cond.shape, found=str(cond.shape))
    return node.inline("then_branch" if cond.values("cond").reshape(-1)[0] else "else_branch")


_REDUCTIONS = ("none", "sum", "mean")
"""Of a loss; ONNX has a definition for every other text too."""


def by_definition(node: Node) -> list[Value | None]:
    """A node as ONNX makes it of others, differently for each set of attributes and types: those others, lowered."""
    if "reduction" in node.rules.attributes and (found := node.text("reduction")) not in _REDUCTIONS:
        node.refuse("reduction", f"reduction must be one of {', '.join(_REDUCTIONS)}", found=printable(found))
    given = [node.optional(i) for i in range(len(node.proto.input))]
    body = definition_of(node.proto, node.version, [None if value is None else value.element.name for value in given])
    if body is None:
        node.unsupported(node.kind, f"{node.kind} of these types and attributes has no definition")
    (version,) = {int(entry.version) for entry in body.opset_import}
    known: dict[str, Value | None] = {"": None, **dict.fromkeys(body.input)}
    known.update(zip(body.input, given, strict=False))
    for proto in body.node:
        inner = Node(proto, version, [known[name] for name in proto.input], node.tracer)
        lowering = find_lowering(inner.kind, version)
        if lowering is None:
            node.unsupported(inner.kind, f"{node.kind} is made of {inner.kind} here, which is not supported")
        check_types(inner, [known[name] for name in proto.input])
        known.update(zip(proto.output, lowering(inner), strict=False))
    for formal, actual in zip(body.output, node.proto.output, strict=False):
        if actual and known.get(formal) is None:
            node.unsupported(formal, f"{formal} is not made where {node.kind} has these inputs and attributes")
    return [known.get(formal) for formal in body.output]


def checked_attention(node: Node) -> list[Value | None]:
    """Attention, as ONNX makes it of others."""
    attention.check_heads(node)
    return by_definition(attention.without_heads(node))


def checked_loss(node: Node) -> list[Value | None]:
    """A loss, as ONNX makes it of others: by the class of each place that scores are for."""
    scores, target, weight = node.input(0).shape, node.input(1).shape, node.optional(2)
    if len(scores) < 2 or target != (scores[0], *scores[2:]):
        rule = "the scores must be (N, C, D1, .. Dk), and the classes (N, D1, .. Dk)"
        node.refuse(node.rules.inputs[1].name, rule, value=target, found=f"{scores} and {target}")
    if weight is not None and weight.shape != scores[1:2]:
        rule = f"{node.rules.inputs[2].name} must have the shape {scores[1:2]}, a number for each class"
        node.refuse(node.rules.inputs[2].name, rule, value=weight.shape, found=str(weight.shape))
    if node.text("reduction") not in ("mean", "sum", "none"):
        node.refuse("reduction", "reduction must be mean, sum or none", found=show(node.text("reduction")))
    return by_definition(node)


def by_others(body: fused.Body) -> Lowering:
    """A node as the nodes that it stands for."""
    return lambda node: body(node, fused.Maker(node, find_lowering))


LOWERINGS: dict[str, dict[int, Lowering]] = {
    **{kind: {1: reducing.reduction} for kind in reducing.REDUCTIONS},
    "Abs": {1: composing.absolute},
    "AffineGrid": {20: grids.affine_grid},
    "ArgMax": {1: reducing.extreme("argmax")},
    "ArgMin": {1: reducing.extreme("argmin")},
    "Attention": {23: checked_attention},
    "AveragePool": {1: windows.average_pool},
    "BatchNormalization": {1: normalising.batch_norm},
    "Bernoulli": {15: drawing.bernoulli},
    "BitCast": {26: moving.bit_cast},
    "BitShift": {1: composing.shift},
    "Cast": {1: moving.cast_by_name, 6: moving.cast},
    "CastLike": {15: moving.cast_like},
    "CenterCropPad": {18: moving.center_crop_pad},
    "Clip": {1: composing.clip_by_attributes, 11: composing.clip},
    "Col2Im": {18: moving.columns_to_image},
    "Compress": {9: indexing.compress},
    "Concat": {1: moving.concat_default, 4: moving.concat},
    "Constant": {1: shaping.constant},
    "ConstantOfShape": {9: shaping.constant_of_shape},
    "Conv": {1: windows.convolution},
    "ConvInteger": {10: windows.convolution_integer},
    "ConvTranspose": {1: windows.transposed},
    "Crop": {1: slicing.crop},
    "CumProd": {26: running.cum_prod},
    "CumSum": {11: running.cum_sum},
    "DepthToSpace": {1: moving.depth_to_space},
    "DequantizeLinear": {10: quantising.dequantize},
    "Dropout": {1: drawing.dropout_by_attributes, 12: drawing.dropout},
    "DynamicSlice": {1: slicing.slice_by_inputs},
    "Einsum": {12: products.einsum},
    "Expand": {8: moving.expand},
    "EyeLike": {9: moving.eye_like},
    "Flatten": {1: shaping.flatten},
    "Gather": {1: indexing.gather},
    "GatherElements": {11: indexing.gather_elements},
    "GatherND": {11: indexing.gather_nd},
    "Gelu": {1: composing.gelu},
    "Gemm": {1: products.gemm},
    "GlobalAveragePool": {1: windows.global_pool(ReduceFunction.AVERAGE)},
    "GlobalLpPool": {1: windows.global_lp_pool},
    "GlobalMaxPool": {1: windows.global_pool(ReduceFunction.MAX)},
    "GridSample": {16: grids.grid_sample},
    "GroupNormalization": {18: normalising.group_norm},
    "GRU": {1: recurrent.layer(dml.gru)},
    "Hardmax": {1: reducing.along_rest("hardmax1"), 13: reducing.along_axis("hardmax1")},
    "Identity": {1: shaping.identity},
    "If": {1: chosen_branch},
    "ImageScaler": {1: composing.image_scaler},
    "InstanceNormalization": {1: normalising.instance_norm},
    "IsInf": {1: composing.is_infinite},
    "LayerNormalization": {1: normalising.layer_norm},
    "LogSoftmax": {1: reducing.along_rest("log_softmax1"), 13: reducing.along_axis("log_softmax1")},
    "LpNormalization": {1: normalising.lp_norm},
    "LpPool": {1: windows.lp_pool},
    "LRN": {1: normalising.local_response_norm},
    "LSTM": {1: recurrent.layer(dml.lstm)},
    "MatMul": {1: products.matmul},
    "MatMulInteger": {10: products.matmul_integer},
    "Max": {1: composing.fold("max")},
    "MaxPool": {1: windows.max_pool},
    "MaxRoiPool": {1: regions.max_roi_pool},
    "MaxUnpool": {9: windows.max_unpool},
    "Mean": {1: composing.mean},
    "MeanVarianceNormalization": {1: normalising.mean_variance_norm},
    "MemcpyFromHost": {1: shaping.identity},
    "MemcpyToHost": {1: shaping.identity},
    "Min": {1: composing.fold("min")},
    "Mish": {1: composing.mish},
    "Mod": {1: composing.modulus},
    "Multinomial": {7: drawing.multinomial},
    "NegativeLogLikelihoodLoss": {12: checked_loss},
    "NonZero": {9: indexing.nonzero},
    "OneHot": {9: indexing.one_hot},
    "Pad": {
        1: moving.pad_by_attributes("paddings"),
        2: moving.pad_by_attributes("pads"),
        11: moving.pad,
    },
    "Pow": {1: composing.power},
    "PRelu": {1: composing.prelu},
    "QLinearConv": {10: windows.convolution_quantised},
    "QLinearMatMul": {10: products.qlinear_matmul},
    "QuantizeLinear": {10: quantising.quantize},
    "RandomNormal": {1: drawing.fill_randomly(drawing.normal)},
    "RandomNormalLike": {1: drawing.fill_like(drawing.normal)},
    "RandomUniform": {1: drawing.fill_randomly(drawing.uniform)},
    "RandomUniformLike": {1: drawing.fill_like(drawing.uniform)},
    "Range": {11: shaping.range_of},
    "Relu": {1: composing.relu},
    "Reshape": {1: shaping.reshape_by_attribute, 5: shaping.reshape},
    "Resize": {10: resizing.resize_by_scales, 11: resizing.resize},
    "ReverseSequence": {10: running.reverse_sequence},
    "RNN": {1: recurrent.layer(dml.rnn)},
    "RMSNormalization": {23: normalising.rms_norm},
    "RoiAlign": {10: regions.roi_align},
    "RotaryEmbedding": {1: attention.rotary_embedding},
    "Round": {1: composing.rounded},
    "Scale": {1: composing.scaled},
    "Scatter": {9: indexing.scatter_elements},
    "ScatterElements": {11: indexing.scatter_elements},
    "ScatterND": {11: indexing.scatter_nd},
    "Shape": {1: shaping.shape},
    "Shrink": {9: composing.shrink},
    "Size": {1: shaping.size},
    "Slice": {1: slicing.slice_by_attributes, 10: slicing.slice_by_inputs},
    "Softmax": {1: reducing.along_rest("softmax1"), 13: reducing.along_axis("softmax1")},
    "SoftmaxCrossEntropyLoss": {12: checked_loss},
    "SpaceToDepth": {1: moving.space_to_depth},
    "Split": {1: slicing.split},
    "Squeeze": {1: shaping.squeeze},
    "SimplifiedLayerNormalization": {1: normalising.rms_norm},
    "Sum": {1: composing.fold("add")},
    "TensorScatter": {24: by_others(indexing.tensor_scatter)},
    "Transpose": {1: moving.transpose},
    "Tile": {1: moving.tile_along_axis, 6: moving.tile},
    "TopK": {1: indexing.top_k_by_attribute, 10: indexing.top_k},
    "Trilu": {1: moving.triangle},
    "Unsqueeze": {1: shaping.unsqueeze},
    "Upsample": {1: resizing.upsample},
    "Where": {9: composing.choice},
    "com.microsoft.Attention": {1: attention.attention},
    "com.microsoft.GroupQueryAttention": {1: attention.group_query_attention},
    "com.microsoft.MultiHeadAttention": {1: attention.multi_head_attention},
    "com.microsoft.RotaryEmbedding": {1: attention.rotary_embedding_by_positions},
    "com.microsoft.QAttention": {1: attention.attention_quantised},
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
