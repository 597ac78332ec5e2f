"""A command line for each operator that shows what it does: the one of its help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.cli.options import options_of
from anydml.operators.schema.fields import FIELD_TYPES, PerDimension

if TYPE_CHECKING:
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
    "convolution": "--sizes 1,1,3,4 --filter-data [[[[1,0],[0,1]]]] --strides 1,2",
    "cast": "--data 1.5,-2,300 --to uint8",
    "join": '--data "[[1,2],[3,4]]" --data "[[5],[6]]" --axis 1',
    "split": "--sizes 2,6 --axis 1 --along 3,2,1",
    "fill_value_constant": "--sizes 2,3 --value 7 --type int32",
    "fill_value_sequence": "--sizes 2,3 --start 10 --delta 20 --type uint8",
    "max_unpooling": "--data [[[[5,7],[6,8]]]] --indices [[[[0,5],[8,10]]]] --output-sizes 1,1,3,4",
    "scatter": "--data [[1,2,3],[4,5,6]] --indices [[1,0,1]] --updates [[7,8,9]] --axis 0",
    "scatter_nd": "--data [[1,2],[3,4],[5,6]] --indices [[2],[0]] --updates [[7,8],[9,10]]",
    "top_k": "--data 3,9,4,9 --axis 0 --k 2",
    "top_k1": "--data 3,9,4,9 --axis 0 --k 3 --direction increasing",
    "random_generator": "--data 0,0,0,0,7,0 --output-sizes 2,3",
    "one_hot": '--data "[[1],[3]]" --type int64 --values [[0,5]] --output-sizes 2,4 --axis 1',
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
    "roi_pooling": "--sizes 1,1,4,4 --roi [[[[0,0,0,3,3]]]] --pooled-size 2,2",
    "roi_align": "--sizes 1,1,4,4 --roi [[0,0,4,4]] --indices [0] --output-sizes 1,1,2,2",
    "roi_align1": "--sizes 1,1,4,4 --roi [[0,0,4,4]] --indices [0] --output-sizes 1,1,2,2",
    "roi_align_grad": ("--gradient-data [[[[1,2]]]] --roi [[0,0,4,2]] --indices [0] --output-gradient-sizes 1,1,2,4"),
    "resample": "--data 4,8,16 --scales 2 --mode linear",
    "resample1": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample2": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --direction decreasing",
    "resample3": "--data 4,8,16 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0 --mode linear",
    "upsample_2d": "--sizes 1,1,2,2 --scale-size 2,2 --mode linear",
    "resample_grad": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "resample_grad1": "--data 1,2,3,4 --output-sizes 2 --scales 2 --input-pixel-offsets 0.5 --output-pixel-offsets 0",
    "rnn": "--sizes 1,2,1,2 --weight-sizes 1,1,2,2 --recurrence-sizes 1,1,2,2 --activation-descs relu",
    "lstm": "--sizes 1,2,1,1 --weight-sizes 1,1,4,1 --recurrence-sizes 1,1,4,1 --activation-descs sigmoid,tanh,tanh",
    "gru": "--sizes 1,2,1,1 --weight-sizes 1,1,3,1 --recurrence-sizes 1,1,3,1 --activation-descs sigmoid,tanh",
    "quantize": "--sizes 1,1,2,3 --quantization-type scale",
    "dequantize": "--sizes 1,1,2,3 --quantization-type scale",
    "unfold": "--sizes 1,1,4 --window-sizes 3",
    "fold": "--sizes 1,3,2 --output-sizes 1,1,4 --window-sizes 3",
    "multihead_attention": "--query-data [[[9,0],[0,9]]] --key-data [[[9,0],[0,9]]] --value-data [[[1,2],[3,4]]]",
    "multihead_attention1": (
        "--query-data [[[9,0,0,9]]] --key-data [[[9,0],[0,9]]] --value-data [[[1,2],[3,4]]] --query-head-count 2"
    ),
    "reverse_subsequences": "--sizes 3,4 --lengths 3,2,4 --axis 1",
}


def example_of(cls: type[OperatorDesc]) -> str:
    """Options that say enough: an example's own, or sizes, and a number for each attribute that must be given."""
    if (found := _EXAMPLES.get(cls.type.name.lower())) is not None:
        return found
    needed = [option for option in options_of(cls) if option.required]
    several = [name for name, kind in cls.field_types().items() if kind is FIELD_TYPES[PerDimension]]
    usual = {**dict.fromkeys(several, "1,1"), "axes": "3"}
    numbers = (f"{option.opts[-1]} {usual.get(option.name or '', 1)}" for option in needed)
    return " ".join(["--sizes 1,1,2,3", *numbers])
