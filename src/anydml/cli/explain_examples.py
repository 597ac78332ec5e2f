"""A command line for each operator that shows what it does: the one of its help."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from anydml.cli.describe import describe
from anydml.cli.options import options_of
from anydml.operators.schema.fields import FIELD_TYPES, PerDimension

if TYPE_CHECKING:
    from anydml.cli.values import Array
    from anydml.operators import OperatorDesc

_EXAMPLES = {
    "slice": "--sizes 1,1,4,4 --offsets 0,0,1,2 --window 1,1,3,2 --strides 1,1,1,1",
    "slice1": "--sizes 1,1,4,4 --offsets 0,0,0,1 --window 1,1,4,3 --strides 1,1,-2,2",
    "gather_nd": '--data "[[0,1],[2,3]]" --indices "[[1],[0]]"',
    "gather_nd1": '--sizes 3,2,2 --indices "[[[0,0]],[[1,1]],[[0,1]]]" --batch 1',
    "cumulative_summation": '--data "[[2,1,3,5],[3,8,7,3]]" --axis 1 --direction decreasing --exclusive',
    "cumulative_product": '--data "[[2,1,3,5],[3,8,7,3]]" --axis 1',
    "gather": "--sizes 3,4 --indices 3,3,0 --axis 1",
    "gather_elements": '--sizes 3,3 --indices "[[2,0,1]]" --axis 0',
    "element_wise_identity": '--data "[[1,2],[3,4]]" --scale-bias 2,0.5',
    "reduce": '--data "[[2,1,3],[3,8,7]]" --function sum --axes 1',
    "gemm": '--a-data "[[1,2],[3,4]]" --b-data "[[5,6],[7,8]]"',
    "convolution": "--data [[[[1,2,3,4],[5,6,7,8],[9,10,11,12]]]] --filter-data [[[[1,0],[-2,3]]]] --strides 1,2",
    "cast": "--data 1.5,-2,300 --to uint8",
    "join": '--data "[[1,2],[3,4]]" --data "[[5],[6]]" --axis 1',
    "split": "--sizes 2,6 --axis 1 --along 3,2,1",
    "fill_value_constant": "--sizes 2,3 --value 7 --type int32",
    "fill_value_sequence": "--sizes 2,3 --start 10 --delta 20 --type uint8",
    "max_unpooling": "--data [[[[5,7],[6,8]]]] --indices [[[[0,5],[8,10]]]] --output-sizes 1,1,3,4",
    "scatter": (
        "--data [[1,2,3],[4,5,6],[7,8,9]] --indices [[2,0,1],[2,1,1]] --updates [[10,20,30],[40,50,60]] --axis 0"
    ),
    "scatter_nd": "--data [[1,2],[3,4],[5,6]] --indices [[2],[0],[2]] --updates [[7,8],[9,10],[11,12]]",
    "top_k": "--data 3,9,4,9 --axis 0 --k 2",
    "top_k1": "--data 3,9,4,9 --axis 0 --k 3 --direction increasing",
    "random_generator": "--data 0,0,0,0,7,0 --output-sizes 2,3",
    "one_hot": '--data "[[1],[3]]" --type uint32 --values [[0,5]] --output-sizes 2,4 --axis 1',
    "adam_optimizer": "--sizes 1,1,1,3 --step [[[[1]]]] --learning-rate 0.5",
    "padding": "--sizes 2,3 --start-padding 0,1 --end-padding 1,2 --mode edge",
    "padding1": "--sizes 2,3 --start-padding 0,1 --end-padding 1,2 --value 9 --type int32",
    "tile": "--sizes 2,3 --repeats 2,2",
    "depth_to_space": "--sizes 1,4,1,2 --block-size 2",
    "depth_to_space1": "--sizes 1,4,1,2 --block-size 2 --order column_row_depth",
    "space_to_depth": "--sizes 1,1,2,4 --block-size 2",
    "space_to_depth1": "--sizes 1,2,2,2 --block-size 2 --order column_row_depth",
    "diagonal_matrix": "--sizes 3,4 --offset 1 --value 7",
    "diagonal_matrix1": "--sizes 3,4 --diagonal-fill-begin 0 --diagonal-fill-end 2 --value 9",
    "slice_grad": "--sizes 2,2 --output-sizes 3,4 --offsets 0,1 --window 3,3 --strides 2,-2",
    "roi_pooling": "--sizes 2,1,3,3 --roi [[[[1,0,0,2,2],[0,1,1,2,2]]]] --pooled-size 2,2",
    "roi_align": "--sizes 2,1,3,3 --roi [[0.5,0.5,2.5,2.5]] --indices [1] --output-sizes 1,1,2,2",
    "roi_align1": "--sizes 2,1,3,3 --roi [[0.5,0.5,2.5,2.5]] --indices [1] --output-sizes 1,1,2,2",
    "roi_align_grad": "--gradient-data [[[[1,2]]]] --roi [[0,0,4,2]] --indices [0] --output-gradient-sizes 2,1,2,4",
    "resample": "--data 4,8,16 --scales 2 --mode linear",
    "resample1": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample2": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --direction decreasing",
    "resample3": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --mode linear",
    "upsample_2d": "--sizes 1,1,2,2 --scale-size 2,2 --mode linear",
    "resample_grad": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample_grad1": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "rnn": (
        "--data [[[[1]],[[2]],[[-4]]]] --weight-data [[[[1]]]] --recurrence-data [[[[0.5]]]] --activation-descs relu"
    ),
    "lstm": (
        "--data [[[[1]],[[0.5]]]] --weight-data [[[[2],[1],[3],[-1]]]] "
        "--recurrence-data [[[[1],[2],[-1],[0.5]]]] --activation-descs sigmoid,tanh,tanh"
    ),
    "gru": (
        "--data [[[[1]],[[0.5]]]] --weight-data [[[[2],[1],[-1]]]] --recurrence-data [[[[1],[2],[0.5]]]] "
        "--activation-descs sigmoid,tanh"
    ),
    "quantize": "--data [[-1,0,0.3],[1,2.6,4]] --quantizations-data [[0.5]] --quantization-type scale",
    "dequantize": "--data [[-3,0,2],[7,4,1]] --type int8 --quantizations-data [[0.5]] --quantization-type scale",
    "unfold": "--sizes 1,1,4 --window-sizes 3",
    "fold": "--data [[[1,2],[10,20],[100,200]]] --output-sizes 1,1,4 --window-sizes 3",
    "multihead_attention": "--query-data [[[2,0],[0,2]]] --key-data [[[1,0],[0,1]]] --value-data [[[1,2],[3,4]]]",
    "multihead_attention1": (
        "--query-data [[[0,0,0,9]]] --key-data [[[9,0],[0,9]]] --value-data [[[1,2],[3,4]]] --query-head-count 2"
    ),
    "reverse_subsequences": "--sizes 3,4 --lengths 3,2,4 --axis 1",
    "element_wise_recip": "--data [[1,2,4],[-0.5,0.25,0]]",
    "element_wise_sqrt": "--data [[0,1,4],[2,9,-1]]",
    "element_wise_round": "--data [[-1.5,-0.5,0.4],[0.5,1.5,2.5]]",
    "element_wise_log": "--data [[0.5,1,2],[10,0,-1]]",
    "element_wise_asin": "--data [[-1,-0.5,0],[0.5,1,2]]",
    "element_wise_acos": "--data [[-1,-0.5,0],[0.5,1,2]]",
    "element_wise_acosh": "--data [[1,1.5,2],[5,10,0]]",
    "element_wise_atanh": "--data [[-0.9,-0.5,0],[0.5,1,2]]",
    "element_wise_modulus_truncate": "--a-data [[7,-7,7,-7]] --b-data [[3,3,-3,-3]]",
    "element_wise_modulus_floor": "--a-data [[7,-7,7,-7]] --b-data [[3,3,-3,-3]]",
    "element_wise_max": "--a-data [[1,5,3],[-2,0,4]] --b-data [[4,2,3],[-1,1,-4]]",
    "element_wise_min": "--a-data [[1,5,3],[-2,0,4]] --b-data [[4,2,3],[-1,1,-4]]",
    "element_wise_atan_yx": "--a-data [[0,1,1],[0,-1,-1]] --b-data [[1,1,0],[-1,-1,1]]",
    "element_wise_constant_pow": "--data [[1,2,3],[-2,0.5,0]] --exponent 3",
    "element_wise_pow": "--data [[2,2,9],[-2,4,0]] --exponent-data [[3,-1,0.5],[3,1.5,0]]",
    "element_wise_threshold": "--data [[-2,0,3],[5,1,-4]] --min 0",
    "element_wise_clip": "--data [[-2,0,3],[5,1,-4]] --min -1 --max 2",
    "element_wise_clip1": "--data [[-2,0,3],[5,1,-4]] --min -1 --max 2",
    "element_wise_clip_grad": "--data [[-2,0,3],[5,1,-4]] --gradient-data [[10,20,30],[40,50,60]] --min -1 --max 2",
    "element_wise_clip_grad1": "--data [[-2,0,3],[5,1,-4]] --gradient-data [[10,20,30],[40,50,60]] --min -1 --max 2",
    "value_scale_2d": "--sizes 1,1,2,3 --scale 2 --bias 1",
    "element_wise_logical_equals": "--a-data [[1,2,3],[4,5,6]] --b-data [[1,3,2],[4,0,9]]",
    "element_wise_logical_greater_than": "--a-data [[1,2,3],[4,5,6]] --b-data [[1,3,2],[4,0,9]]",
    "element_wise_logical_greater_than_or_equal": "--a-data [[1,2,3],[4,5,6]] --b-data [[1,3,2],[4,0,9]]",
    "element_wise_logical_less_than": "--a-data [[1,2,3],[4,5,6]] --b-data [[1,3,2],[4,0,9]]",
    "element_wise_logical_less_than_or_equal": "--a-data [[1,2,3],[4,5,6]] --b-data [[1,3,2],[4,0,9]]",
    "element_wise_logical_and": "--a-data [[1,1,0,0]] --b-data [[1,0,1,0]]",
    "element_wise_logical_or": "--a-data [[1,1,0,0]] --b-data [[1,0,1,0]]",
    "element_wise_logical_xor": "--a-data [[1,1,0,0]] --b-data [[1,0,1,0]]",
    "element_wise_is_nan": "--data [[1,NaN,0],[Infinity,-Infinity,-1]]",
    "element_wise_is_infinity": "--data [[1,NaN,0],[Infinity,-Infinity,-1]]",
    "element_wise_if": "--condition-data [[1,0,1],[0,0,1]] --a-data [[1,2,3],[4,5,6]] --b-data [[10,20,30],[40,50,60]]",
    "element_wise_bit_not": "--data [[0,1,7],[85,240,255]] --type uint8",
    "element_wise_bit_count": "--data [[0,1,7],[85,240,255]] --type uint8",
    "element_wise_bit_and": "--a-data [[12,12,255]] --b-data [[10,3,85]] --type uint8",
    "element_wise_bit_or": "--a-data [[12,12,255]] --b-data [[10,3,85]] --type uint8",
    "element_wise_bit_xor": "--a-data [[12,12,255]] --b-data [[10,3,85]] --type uint8",
    "element_wise_bit_shift_left": "--a-data [[1,3,200]] --b-data [[2,4,1]] --type uint8",
    "element_wise_bit_shift_right": "--a-data [[8,200,255]] --b-data [[2,4,7]] --type uint8",
    "activation_linear": "--sizes 2,3 --alpha 2 --beta 1",
    "activation_parametric_softplus": "--sizes 2,3 --alpha 2 --beta 3",
    "activation_thresholded_relu": "--data [[-1,0,0.5],[1,1.5,3]]",
    "activation_relu_grad": "--data [[-2,-1,0],[1,2,3]] --gradient-data [[10,20,30],[40,50,60]]",
    "activation_shrink": "--data [[-2,-1,-0.2],[0,0.4,1]]",
    "activation_parameterized_relu": "--data [[-2,-1,0],[1,2,3]] --slope-data [[0.5,0.25,0.5],[0.5,0.5,0.5]]",
    "activation_softmax": "--data [[1,2,3],[2,2,2]]",
    "activation_softmax1": "--data [[1,2,3],[2,2,2]] --axes 1",
    "activation_log_softmax": "--data [[1,2,3],[2,2,2]]",
    "activation_log_softmax1": "--data [[1,2,3],[2,2,2]] --axes 1",
    "activation_hardmax": "--data [[1,5,3],[4,4,2]]",
    "activation_hardmax1": "--data [[1,5,3],[4,4,2]] --axes 1",
    "argmax": "--data [[3,9,4,9],[5,1,2,0]] --axes 1",
    "argmin": "--data [[3,9,4,9],[5,1,0,0]] --axes 1",
    "lp_normalization": "--data [[3,4],[6,-8]] --axis 1",
    "mean_variance_normalization": "--data [[[[1,2],[3,6]]]]",
    "mean_variance_normalization1": "--data [[1,2,6],[4,4,7]] --axes 1",
    "mean_variance_normalization2": "--data [[1,2,6],[4,4,7]] --axes 1",
    "batch_normalization": (
        "--data [[[[1,3]],[[10,30]]]] --mean-data [[[[2]],[[20]]]] --variance-data [[[[4]],[[100]]]] "
        "--scale-data [[[[1]],[[2]]]] --bias-data [[[[0]],[[5]]]]"
    ),
    "batch_normalization_training": (
        "--data [[[[1,3]],[[10,30]]]] --scale-data [[[[1]],[[2]]]] --bias-data [[[[0]],[[5]]]]"
    ),
    "batch_normalization_grad": (
        "--data [[[[1,3]],[[10,30]]]] --gradient-data [[[[1,2]],[[3,4]]]] --mean-data [[[[2]],[[20]]]] "
        "--variance-data [[[[4]],[[100]]]] --scale-data [[[[1]],[[2]]]]"
    ),
    "batch_normalization_training_grad": (
        "--data [[[[1,3,5]]]] --gradient-data [[[[1,2,6]]]] --mean-data [[[[3]]]] "
        "--variance-data [[[[2.5]]]] --scale-data [[[[2]]]]"
    ),
    "local_response_normalization": "--data [[[[1,2]],[[3,4]],[[5,6]]]] --size 3 --alpha 0.5",
    "local_response_normalization_grad": (
        "--data [[[[1,2]],[[3,4]],[[5,6]]]] --gradient-data [[[[1,1]],[[2,1]],[[1,3]]]] --size 3 --alpha 0.5"
    ),
    "element_wise_quantize_linear": (
        "--data [[-1,0,0.26],[1,10,70]] --scale-data [[0.5,0.5,0.5],[0.5,0.5,0.5]] "
        "--zero-point-tensor-data [[10,10,10],[10,10,10]]"
    ),
    "element_wise_dequantize_linear": (
        "--data [[126,128,129],[130,148,255]] --type uint8 --scale-data [[0.5,0.5,0.5],[0.5,0.5,0.5]] "
        "--zero-point-tensor-data [[128,128,128],[128,128,128]]"
    ),
    "element_wise_quantized_linear_add": (
        "--a-data [[1,2,100]] --type int8 --b-data [[10,-20,100]] --a-scale-data [[0.5,0.5,0.5]] "
        "--b-scale-data [[0.25,0.25,0.25]] --output-scale-data [[0.5,0.5,0.5]]"
    ),
    "dynamic_quantize_linear": "--data [[-1,0,0.3],[1,2,4]]",
    "matrix_multiply_integer": "--a-data [[[[1,2],[3,4]]]] --type int8 --b-data [[[[5,6],[7,8]]]]",
    "matrix_multiply_integer_to_float": (
        "--a-data [[[[1,2],[3,4]]]] --type int8 --b-data [[[[5,6],[7,8]]]] --a-scale-data [[[[0.5]]]] "
        "--b-scale-data [[[[0.25]]]]"
    ),
    "quantized_linear_matrix_multiply": (
        "--a-data [[[[1,2],[3,4]]]] --type int8 --b-data [[[[5,6],[7,8]]]] --a-scale-data [[[[0.5]]]] "
        "--b-scale-data [[[[0.5]]]] --output-scale-data [[[[2]]]]"
    ),
    "convolution_integer": "--data [[[[1,2,3],[4,5,6],[7,8,9]]]] --type uint8 --filter-data [[[[1,4],[2,3]]]]",
    "quantized_linear_convolution": (
        "--data [[[[1,2,3],[4,5,6],[7,8,9]]]] --type int8 --filter-data [[[[1,-1],[2,3]]]] "
        "--input-scale-data [[[[0.5]]]] --filter-scale-data [[[[0.5]]]] --output-scale-data [[[[2]]]]"
    ),
    "average_pooling": "--data [[[[1,2,3],[4,5,6],[7,8,9]]]] --size 2,2 --strides 1,1",
    "average_pooling1": "--data [[[[1,2,3],[4,5,6],[7,8,9]]]] --size 2,2 --strides 1,1 --start-padding 1,0",
    "quantized_linear_average_pooling": (
        "--data [[[[1,2,3],[4,5,6],[7,8,9]]]] --type int8 --scale [[[[0.5]]]] --output-scale [[[[0.25]]]] "
        "--size 2,2 --strides 1,1"
    ),
    "lp_pooling": "--data [[[[3,-4,0],[0,0,12],[5,0,5]]]] --size 2,2 --strides 1,1",
    "lp_pooling1": "--data [[[[3,-4,0],[0,0,12],[5,0,5]]]] --size 2,2 --strides 1,1 --dilations 2,1",
    "max_pooling": "--data [[[[1,7,3],[4,5,6],[9,8,2]]]] --size 2,2 --strides 1,1",
    "max_pooling1": (
        "--data [[[[1,7,3],[4,5,7],[9,8,2]]]] --size 2,2 --strides 1,1 --output-indices-tensor-sizes 1,1,2,2"
    ),
    "max_pooling2": "--data [[[[1,7,3],[4,5,6],[9,8,2]]]] --size 2,2 --strides 1,1 --dilations 2,1",
    "average_pooling_grad": "--data [[[[4,8],[12,16]]]] --output-sizes 1,1,3,3 --size 2,2 --strides 1,1",
    "max_pooling_grad": (
        "--data [[[[1,7,3],[4,5,6],[9,8,2]]]] --gradient-data [[[[10,20],[30,40]]]] --size 2,2 --strides 1,1"
    ),
    "nonzero_coordinates": "--data [[0,7,0],[5,0,9]]",
}


def example_of(cls: type[OperatorDesc]) -> str:
    """Options that say enough: an example's own, or sizes, and a number for each attribute that must be given."""
    if (found := _EXAMPLES.get(cls.type.name.lower())) is not None:
        # Brackets are a pattern of file names for shells, and an error of zsh where no file has one.
        return " ".join(f'"{word}"' if "[" in word else word for word in shlex.split(found))
    needed = [option for option in options_of(cls) if option.required]
    several = [name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[PerDimension]]
    usual = {**dict.fromkeys(several, "1,1"), "axes": "1"}
    numbers = (f"{option.opts[-1]} {usual.get(option.name or '', 1)}" for option in needed)
    return " ".join(["--sizes 2,3", *numbers])


def example(cls: type[OperatorDesc]) -> tuple[OperatorDesc, list[Array | None]]:
    """The description and the data of the example; None for data that are made up."""
    command = click.Command("explain", params=[*options_of(cls)])
    with command.make_context("explain", shlex.split(example_of(cls))) as context:
        return describe(cls, dict(context.params))
