"""Examples for the derived functions: small numbers, and what the reference engine makes of them."""

from __future__ import annotations

import math
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.api.derived import newest_function_of
from anydml.api.describing import argument_name
from anydml.api.functions import derived_classes
from anydml.api.signatures import arguments_of, parameters_of
from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType, FeatureLevel
from anydml.core.results import result_name
from anydml.ir.expressions import FUNCTIONS
from anydml.ir.trees import walk
from anydml.ir.verbs import Map, Reduce
from anydml.operators.reductions import AlongAxes, Folding
from anydml.operators.schema.fields import dml_name

if TYPE_CHECKING:
    from anydml.operators import OperatorDesc

# Tried in turn, until the results differ from one another and are numbers: for the first input, the second, ...
FLOATS = (
    ([-1.5, 0.5, 2.0], [5.0, 7.0, 9.0]),
    ([5.0, -7.0, 2.5], [2.0, 3.0, 0.5]),
    ([0.25, 0.5, 0.75], [0.5, 0.5, 2.0]),
    ([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]),
    ([1.0, math.nan, -math.inf], [1.0, 2.0, 3.0]),
)
INTEGERS = (([12, 5, 0], [2, 1, 3]), ([1, 1, 0], [1, 0, 0]))
ATTRIBUTES = {"min": 0, "max": 3, "alpha": 2, "beta": 0.5, "exponent": 2, "scale": 2, "bias": [1],
              "function": "SUM", "axes": [0], "axis": 0, "local_size": 3, "window_size": 1}  # fmt: skip

BESIDE = ("InputGradientTensor",)
"""The inputs of operators that fold which are like the first; the others repeat along it."""
INEXACT = {*FUNCTIONS, "sqrt", "div"}
"""Operations after which engines may differ in the last place, or numbers are long."""

_A, _B = 'np.array([[1, 2], [3, 4]], "{}")', 'np.array([[1, 0], [1, 1]], "{}")'
_IMAGE = 'np.arange(9, dtype="float32").reshape(1, 1, 3, 3)'
_BYTES = _IMAGE.replace("float32", "uint8")
_FILTER = 'np.array([[[[1, 0], [0, 1]]]], "{}")'
_POOLINGS = [("average", ""), ("average", "1"), ("lp", ""), ("lp", "1"), ("max", ""), ("max", "1"), ("max", "2")]
_HEADS = 'np.array({}, "float32")'
_LINE = 'np.array([-1.5, 0.5, 2], "float32")'
_STEPS = "np.array([1, 2, 3], 'float32').reshape(1, 3, 1, 1)"
_WEIGHTS = "np.ones((1, 1, {}, 1), 'float32')"
CALLS = {
    "gemm": f"gemm({_A.format('float32')}, {_B.format('float32')}, 10)",
    "matrix_multiply_integer": f"matrix_multiply_integer({_A.format('uint8')}, {_B.format('int8')}, 1)",
    "matrix_multiply_integer_to_float": (
        f"matrix_multiply_integer_to_float({_A.format('uint8')}, 0.5, {_B.format('int8')}, 0.25)"
    ),
    "quantized_linear_matrix_multiply": (
        f"quantized_linear_matrix_multiply({_A.format('uint8')}, 0.5, {_B.format('int8')}, 0.25, 0.125, 0, 0, 100)"
    ),
    "convolution": f"convolution({_IMAGE}, {_FILTER.format('float32')}, 10)",
    "convolution_integer": f"convolution_integer({_BYTES}, {_FILTER.format('int8')}, 1)",
    "quantized_linear_convolution": (
        f"quantized_linear_convolution({_BYTES}, 0.5, {_FILTER.format('int8')}, 0.25, 0.125)"
    ),
    **{f"{name}_pooling{more}": f"{name}_pooling{more}({_IMAGE}, 2)" for name, more in _POOLINGS},
    **{f"max_pooling{more}": f"max_pooling{more}({_IMAGE}, 2, output_indices=True)" for more in (1, 2)},
    "average_pooling_grad": f"average_pooling_grad({_IMAGE}, 2)",
    "max_pooling_grad": f"max_pooling_grad({_IMAGE}, {_FILTER.format('float32')}, 2)",
    "max_unpooling": (
        f'max_unpooling({_FILTER.format("float32")}, np.array([[[[0, 5], [7, 8]]]], "uint32"), [1, 1, 3, 3])'
    ),
    "quantized_linear_average_pooling": f"quantized_linear_average_pooling({_BYTES}, 0.5, 0.25, 2)",
    "quantize_linear": f"quantize_linear({_LINE}, 0.5, 128)",
    "dequantize_linear": 'dequantize_linear(np.array([125, 129, 132], "uint8"), 0.5, 128)',
    "quantized_linear_add": (
        'quantized_linear_add(np.array([1, 2, 3], "uint8"), 0.5, np.array([10, 20, 30], "uint8"), 0.25, 0.5)'
    ),
    "dynamic_quantize_linear": f"dynamic_quantize_linear({_LINE}).output",
    "padding": f'padding({_A.format("float32")}, [0, 1], [1, 0], "EDGE")',
    "padding1": f"padding1({_A.format('int32')}, [0, 1], [1, 0], padding_value=9)",
    "tile": f"tile({_A.format('int32')}, [1, 2])",
    "depth_to_space": "depth_to_space(np.array([[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]), 2)",
    "depth_to_space1": 'depth_to_space1(np.array([[[[1, 2]], [[3, 4]], [[5, 6]], [[7, 8]]]]), 2, "COLUMN_ROW_DEPTH")',
    "space_to_depth": "space_to_depth(np.array([[[[1, 2, 3, 4], [5, 6, 7, 8]]]]), 2).ravel()",
    "space_to_depth1": 'space_to_depth1(np.array([[[[1, 2, 3, 4], [5, 6, 7, 8]]]]), 2, "COLUMN_ROW_DEPTH").ravel()',
    "roi_pooling": (
        "roi_pooling(np.arange(16.0, dtype='float32').reshape(1, 1, 4, 4), np.array([[0, 0, 0, 3, 3]], 'float32'),"
        " [2, 1]).ravel()"
    ),
    "roi_align": (
        "roi_align(np.arange(16.0, dtype='float32').reshape(1, 1, 4, 4), np.array([[0, 0, 4, 2]], 'float32'),"
        " np.array([0], 'uint32'), [1, 1, 1, 2]).ravel()"
    ),
    "roi_align1": (
        "roi_align1(np.arange(16.0, dtype='float32').reshape(1, 1, 4, 4), np.array([[0, 0, 4, 2]], 'float32'),"
        " np.array([0], 'uint32'), [1, 1, 1, 2]).ravel()"
    ),
    "roi_align_grad": (
        "roi_align_grad(np.array([[[[1, 2]]]], 'float32'), np.array([[0, 0, 4, 2]], 'float32'),"
        " np.array([0], 'uint32'), output_sizes=[1, 1, 2, 4]).gradient.ravel()"
    ),
    "resample": f'resample({_A.format("float32")}, [1, 2], "LINEAR")',
    "resample1": f"resample1({_A.format('float32')}, [1, 2], [0, 0], [0, 0])",
    "resample2": f'resample2({_A.format("float32")}, [1, 2], [0, 0], [0, 0], rounding_direction="DECREASING")',
    "resample3": f'resample3({_A.format("float32")}, [1, 2], [0, 0], [0, 0], "LINEAR")',
    "upsample_2d": f'upsample_2d({_A.format("float32")}, [2, 1], "LINEAR")',
    "resample_grad": f"resample_grad({_A.format('float32')}, [2, 1], [1, 2], [0.5, 0.5], [-0.5, -0.5])",
    "resample_grad1": f"resample_grad1({_A.format('float32')}, [2, 1], [1, 2], [0, 0], [0, 0])",
    "unfold": "unfold(np.array([[[1, 2, 3, 4]]]), [3])",
    "fold": "fold(np.array([[[1, 2], [3, 4], [5, 6]]]), [1, 1, 4], [3])",
    "scatter": "scatter(np.array([[1, 2, 3], [4, 5, 6]]), np.array([[1, 0, 1]]), np.array([[7, 8, 9]]), axis=0)",
    **{
        name: (
            f"{name}({_STEPS}, {_WEIGHTS.format(rows)}, {_WEIGHTS.format(rows)}, activation_descs={functions})"
            ".sequence.ravel()"
        )
        for name, rows, functions in (
            ("rnn", 1, ["RELU"]),
            ("lstm", 4, ["RELU", "RELU", "IDENTITY"]),
            ("gru", 3, ["HARD_SIGMOID", "IDENTITY"]),
        )
    },
    "multihead_attention": (
        f"multihead_attention({_HEADS.format('[[[9, 0], [0, 9]]]')}, {_HEADS.format('[[[9, 0], [0, 9]]]')},"
        f" {_HEADS.format('[[[1, 2], [3, 4]]]')}).output"
    ),
    "multihead_attention1": (
        f"multihead_attention1({_HEADS.format('[[[9, 0, 0, 9]]]')}, {_HEADS.format('[[[9, 0], [0, 9]]]')},"
        f" {_HEADS.format('[[[1, 2], [3, 4]]]')}, query_head_count=2).output"
    ),
    "top_k": "top_k(np.array([3, 9, 4, 9]), axis=0, k=2)",
    "top_k1": "top_k1(np.array([3, 9, 4, 9]), 0, 3, 'INCREASING')",
    "nonzero_coordinates": "nonzero_coordinates(np.array([[0, 5], [7, 0]], 'int32'))",
    "random_generator": "random_generator(np.array([0, 0, 0, 0, 7, 0], 'uint32'), [2, 2], output_state=True)",
    "one_hot": "one_hot(np.array([[1], [3]]), np.array([[0, 5]]), [2, 4], axis=1)",
    "adam_optimizer": (
        "adam_optimizer(*(np.array([n, 0.5], 'float32') for n in (2, 0, 0, 8)), np.array([1], 'uint32'), 0.25)"
        ".parameters"
    ),
    "slice_grad": f"slice_grad({_A.format('int32')}, [3, 3], [0, 0], [3, 3], [2, -2])",
}
"""The calls whose inputs are of different sizes and types, or of more than one dimension."""


def examples() -> dict[str, list[str]]:
    """The call and the result of each function, by its name."""
    return {name: example_of(name, cls) for name, cls in sorted(derived_classes().items())}


def example_of(name: str, cls: type[OperatorDesc]) -> list[str]:
    """The first call that shows something, and its result."""
    if name in CALLS:
        return [CALLS[name], repr(eval(CALLS[name], {"np": np, name: _on_reference(cls)}))]  # noqa: S307 - the calls are written in this project
    row = cls.support.row_at(FeatureLevel.highest()).tensors
    given = arguments_of(cls)
    needed = [field for field in cls.input_names() if given[argument_name(field)] is MISSING]
    types = [row[dml_name(field)].data_types for field in needed]
    required = [repr(ATTRIBUTES[key]) for key, default in parameters_of(cls).items() if default is MISSING]
    is_float = DataType.FLOAT32 in types[-1] and "_BIT_" not in cls.type.name
    found: list[str] = []
    for numbers in FLOATS[len(types) > 1 :] if is_float else INTEGERS:
        values: list[Any] = list(numbers[: len(types)]) if len(types) < 3 else [[1, 0, 1], *numbers]
        if issubclass(cls, Folding):
            values = [numbers[k] if k < 1 or dml_name(field) in BESIDE else [2] for k, field in enumerate(needed)]
        words = [_array(own, allowed, is_float=is_float) for own, allowed in zip(values, types, strict=True)]
        call = f"{name}({', '.join([*words, *required])})"
        result = eval(call, {"np": np, name: _on_reference(cls)})  # noqa: S307 - the calls are written in this project
        if cls.gives_several():
            call, result = f"{call}.{result_name(cls.output_names()[0])}", result[0]
        if _is_rounded(cls):
            call, result = f"{call}.round(3)", result.round(3)
        found = found or [call, repr(result)]
        if np.isfinite(result).all() and len(set(result.tolist())) > (0 if issubclass(cls, AlongAxes) else 1):
            return [call, repr(result)]
    return found


def _on_reference(cls: type[OperatorDesc]) -> Any:
    return lambda *args, **named: newest_function_of(cls)(*args, device="reference", **named)


def _array(numbers: list[Any], allowed: frozenset[DataType], *, is_float: bool) -> str:
    kind = "float32" if is_float and DataType.FLOAT32 in allowed else "uint8" if DataType.UINT8 in allowed else "int32"
    texts = [f"{number:g}".replace("nan", "np.nan").replace("inf", "np.inf") for number in numbers]
    return f'np.array([{", ".join(texts)}], "{kind}")'


def _is_rounded(cls: type[OperatorDesc]) -> bool:
    """Whether engines may differ in the last place: the tree has functions that are not rounded correctly."""
    inexact = INEXACT if issubclass(cls, Folding) else FUNCTIONS
    row = cls.support.row_at(FeatureLevel.highest()).tensors
    inputs = {
        name: TensorDesc(
            DataType.FLOAT32 if DataType.FLOAT32 in (own := row[dml_name(name)].data_types) else min(own), (1, 1, 1, 2)
        )
        for name in cls.input_names()
    }
    required = {key: ATTRIBUTES[key] for key, default in parameters_of(cls).items() if default is MISSING}
    typed = {key: DataType.FLOAT32 for key in parameters_of(cls) if key.endswith("data_type")}
    usual = {"axes": ATTRIBUTES["axes"]} if issubclass(cls, AlongAxes) else {}
    verbs = cls.infer(**{**inputs, **required, **typed, **usual}).lower()
    return any(node.op in inexact for verb in verbs if isinstance(verb, (Map, Reduce)) for node in walk(verb.value))
