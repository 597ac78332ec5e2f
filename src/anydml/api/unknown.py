"""Names that anydml does not have: DirectML's own in C, other libraries' and misspelt ones, and what to use instead."""

from __future__ import annotations

import enum
import re
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from anydml.api.numpy_names import FAMILIAR
from anydml.api.signatures import RENAMED, arguments_of
from anydml.core.enum_parsing import squeeze, suggest
from anydml.core.late_imports import import_alone
from anydml.core.operator_type import OperatorType, function_name
from anydml.operators import OPERATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

_INSTEAD = {
    "adam_optimizer": "adam",
    "average_pooling": "avg_pool avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool2d average_pool global_average_pool",
    "batch_normalization": "batch_norm batch_norm2d",
    "cast": "astype to_type convert",
    "clip(x, 0, 6)": "relu6",
    "convolution": "conv conv1d conv2d conv3d",
    'convolution(x, filter, direction="backward")': "conv_transpose conv_transpose1d conv_transpose2d conv_transpose3d",
    "depth_to_space": "pixel_shuffle",
    "divide": "truediv",
    "fill_value_constant(sizes, value)": "zeros_like ones_like full_like constant_of_shape",
    "fill_value_sequence": "linspace range",
    "gather": "index_select",
    "matmul(a, b)": "mm bmm dot batch_matmul einsum tensordot",
    "matmul(x, transpose(weight))": "addmm",
    "anydml itself, which has relu and its kin": "nn functional linalg",
    "clip(x, low, high)": "hardtanh",
    "trunc": "fix",
    "divide(subtract(a, modulus_floor(a, b)), b)": "floor_divide",
    "divide(log(x), math.log(2))": "log2",
    "divide(log(x), math.log(10))": "log10",
    "log(add(x, 1))": "log1p",
    "subtract(exp(x), 1)": "expm1",
    "subtract(x[1:], x[:-1])": "diff",
    "subtract(amax(x), amin(x))": "ptp",
    "where(isnan(x), 0, x)": "nan_to_num",
    "where(mask, value, x)": "masked_fill",
    "less_equal(abs(subtract(a, b)), tolerance)": "isclose allclose",
    "repeat": "repeat_interleave",
    "split": "chunk",
    "top_k(x, axis, k)": "median",
    "nonzero_coordinates(x)": "nonzero",
    "identity": "copy clone",
    "where(condition, a, b)": "select",
    "concatenate": "concat hstack vstack",
    "log_softmax": "logsoftmax",
    "equal": "eq",
    "greater": "gt greater_than",
    "greater_equal": "ge greater_or_equal",
    "less": "lt less_than",
    "less_equal": "le less_or_equal",
    "max(a, b)": "fmax",
    "max_pooling": "max_pool1d max_pool2d max_pool3d max_pool",
    "layer_norm": "layer_normalization",
    "mean_variance_normalization2(x, axes)": "instance_norm instance_normalization",
    "rms_norm": "simplified_layer_normalization",
    "min(a, b)": "fmin",
    "multihead_attention": "attention scaled_dot_product_attention",
    "nonzero_coordinates": "argwhere",
    "random_generator": "rand randn random bernoulli random_uniform",
    "recip": "inv",
    "average(x, axis)": "avg reduce_mean",
    'reduce(x, "l2", axes)': "norm",
    "amax(x, axis)": "reduce_max",
    "amin(x, axis)": "reduce_min",
    "prod(x, axis)": "reduce_prod",
    "sum(x, axis)": "reduce_sum",
    "resample": "resize interpolate upsample",
    "round": "around rint",
    "flip(x, axis)": "fliplr flipud reverse",
    "Device().compile(desc), or Graph().compile(expression)": "compile function jit",
    "Device()": "create_device",
    'its name, "float32", or DataType.FLOAT32': "float32 float",
    'its name, "float16", or DataType.FLOAT16': "float16 half",
    'its name, "int32", or DataType.INT32': "int32 int",
    'its name, "int64", or DataType.INT64': "int64 long",
    'its name, "uint8", or DataType.UINT8': "uint8 bool",
    "arrays of NumPy or PyTorch as they are": "tensor array asarray",
    "pydirectml, which is Microsoft's module": "graph_builder input_tensor model binding",
    "anydml.dxdispatch.load_model or anydml.onnx.load": "load load_model",
    "anydml.onnxruntime.InferenceSession": "inference_session",
    "reshape(x, -1)": "ravel",
    "reshape": "view",
    "exp(multiply(x, math.log(2)))": "exp2",
    "matmul": "inner vdot",
    "sqrt(add(square(a), square(b)))": "hypot",
    "where(keep, x, 0)": "dropout",
    "multiply(x, tanh(softplus(x)))": "mish",
}  # fmt: skip
"""The names of NumPy, PyTorch, ONNX, DirectMLX and PyDirectML, by what takes their place."""
_STRUCTURES = {
    "DMLCreateDevice": "Device()",
    "DMLCreateDevice1": "Device()",
    "DML_BUFFER_TENSOR_DESC": "TensorDesc",
    "DML_TENSOR_DESC": "TensorDesc",
    "DML_OPERATOR_DESC": "OperatorDesc",
    "DML_BINDING_DESC": "BufferBinding",
    "DML_GRAPH_NODE_DESC": "OperatorNode",
    "DML_GRAPH_EDGE_DESC": "IntermediateEdge",
    "IDMLDispatchable": "CompiledOperator",
}
"""DirectML's names whose classes do not begin their description by them."""
_PLAIN = {
    "DMLCalcBufferTensorSize": "TensorDesc(...).total_tensor_size_in_bytes",
    "DML_BINDING_TYPE_NONE": "None",
    "DML_BUFFER_ARRAY_BINDING": "a list of BufferBindings",
    "DML_SCALAR_UNION": "a number",
    "DML_SIZE_2D": "a tuple, (width, height)",
}
"""DirectML's names that stand for something of Python's."""


_MOST_DECIMALS = 10
_MEANT = {
    "sort": "it gives the values alone, along axis=, as NumPy's does; top_k(x, axis, k) gives values and indices",
    "one_hot": "for n classes that is one_hot(indices[..., None], [[0, 1]], [*indices.shape, n], -1)",
}
"""Meanings of calls of functions that other libraries have by the same name and not by the same arguments."""


def word_meant(name: str) -> str:
    """The way out where another library's function of the same name is meant: `max`, `min`, `mean` of one array."""
    known = RENAMED.get(name, name)
    instead = instead_of(f"reduce_{known}") if known in ("max", "min", "mean") else ""
    return f"it works element by element: along axes {instead}" if instead else _MEANT.get(name, "")


_ARGUMENTS = {
    "axis": "axes axis_direction",
    "axes": "axis",
    "dim": "axis axes",
    "dims": "axes axis",
    "dtype": "data_type",
    "direction": "axis_direction",
    "reverse": "axis_direction",
    "exclusive": "has_exclusive_sum has_exclusive_product",
    "sections": "output_axis_sizes",
    "sizes": "input_window_sizes output_axis_sizes output_sizes",
    "shape": "sizes output_sizes",
    "starts": "offsets input_window_offsets",
    "steps": "strides input_window_strides",
    "stride": "strides",
    "kernel_size": "window_size window_sizes",
    "groups": "group_count",
    "activation": "fused_activation",
    "transpose_a": "trans_a",
    "transpose_b": "trans_b",
    "dilation": "dilations",
    "weight": "filter scale",
    "eps": "epsilon",
    "reps": "repeats",
    "mode": "interpolation_mode padding_mode index_mode reduction_function",
    "op": "function",
    "input": "x a",
    "other": "b",
    "index": "indices",
    "value": "constant_values padding_value",
    "negative_slope": "alpha",
    "largest": "axis_direction",
    "unbiased": "ddof",
}
"""Arguments of other libraries' functions, by the names that they may have here."""


def word_decimals(count: object) -> str:
    """The way to round to decimals, as NumPy's `round` does; nothing where the count is none."""
    number = index(count) if isinstance(count, SupportsIndex) else 0
    if not 0 < abs(number) < _MOST_DECIMALS:
        return ""
    first, last = ("multiply", "divide") if number > 0 else ("divide", "multiply")
    scale = 10 ** abs(number)
    return f"for decimals={number} write {last}(round({first}(x, {scale})), {scale})"


def word_arguments(name: str, named: Mapping[str, object], known: Mapping[str, object]) -> str:
    """The way out for arguments that a function lacks: its own name for them, or a newer version that has them."""
    for key in named.keys() - known.keys():
        if key in ("decimals", "digits"):
            return word_decimals(named[key])
        if key in ("keepdims", "keepdim"):
            return "all dimensions are kept; result.squeeze(axis) drops one"
        meant = [word for word in _ARGUMENTS.get(key, "").split() if word in known]
        if meant:
            return f"write {meant[0]}= instead of {key}="
        if key in ("padding", "pads", "pad") and "end_padding" in known:
            return "write start_padding= and end_padding="
        if hint := suggest(key, known):
            return hint
        for newer in (f"{name}1", f"{name}2"):
            has = _arguments_of(newer)
            for word in (key, *_ARGUMENTS.get(key, "").split()):
                if word in has:
                    return f"{newer} has {word}"
    return ""


def _arguments_of(name: str) -> Mapping[str, object]:
    """The arguments of a derived function, where there is one."""
    kind = next((kind for kind in OPERATORS if function_name(kind) == name), None)
    return {} if kind is None else arguments_of(OPERATORS[kind])


def word_unknown(name: str, public: Mapping[str, object]) -> str:
    """A sentence on a name that anydml does not have: what takes its place, or the count and where to look."""
    said = f"module 'anydml' has no attribute {name!r}"
    if name.startswith("_"):
        return said
    if (place := _of_directml(name, public)) is not None:
        return f"{said}; it is anydml.{place} here"
    if name.startswith(("DML", "IDML")):
        instead = _PLAIN.get(name)
        return f"{said}; " + (f"write {instead}" if instead else "the guide to porting DirectML code lists the names")
    built, there = len(OPERATORS), len(OperatorType) - 1  # INVALID is none
    count = "all of them here" if built == there else f"{built} of them here"
    # Of a class and a function that are spelt alike the last counts.
    names = sorted(public, key=lambda key: key[:1].isupper() == name[:1].isupper())
    short = re.sub("^(activation|element_wise)_", "", name)
    way_out = f"use {short}" if short != name and short in public else instead_of(name)
    way_out = way_out or _with_function(suggest(name, names)) or "`anydml support` lists them"
    return f"{said}: DirectML has {there} operators, {count}, and none of that name; {way_out}"


def _with_function(hint: str) -> str:
    """A suggestion; where it is a description, with the function of the operator first."""
    for kind, cls in OPERATORS.items():
        if hint == f"did you mean {cls.__name__}?":
            return f"did you mean {function_name(kind)}, the function, or {cls.__name__}, its description?"
    return hint


def instead_of(name: str) -> str:
    """The function in the place of another library's."""
    word = squeeze(name)
    return next((f"use {place}" for place, names in _INSTEAD.items() if word in map(squeeze, names.split())), "")


def word_in_place_of(name: str) -> str:
    """What to write for a function of NumPy's: the function of the same name, or the one that takes its place."""
    import_alone("anydml.api.functions")
    from anydml.api.functions import function_names  # which asks this module for words

    ours = {*function_names(), *(one.__name__ for one in FAMILIAR), *RENAMED}
    along_axes = instead_of(f"reduce_{name}") if name in ("max", "min", "mean") else ""
    way_out = along_axes or (f"use {name}" if name in ours else instead_of(name))
    return way_out.replace("use ", "use dml.", 1) or "`anydml support` lists the operators"


def operator_instead_of(name: str) -> str:
    """The operator that another library's name stands for, or that our function of that name is made of."""
    word, names = squeeze(name.rpartition(".")[2]), list(map(function_name, OPERATORS))  # of `torch.nn.Conv2d` the last
    if word != squeeze(name) and word in (found := {squeeze(one): one for one in names}):
        return f"use {found[word]}"
    return next((f"use {one}" for one in names if word in map(squeeze, words_of(one).split())), "")


def words_of(function: str) -> str:
    """The names of other libraries' functions that one of ours takes the place of, or is reached by."""
    kind = next((kind.name for kind in OPERATORS if function_name(kind) == function), function)
    heads = {one.__name__: (one.__doc__ or "").partition("\n\n")[0] for one in FAMILIAR}
    ours = [name for name, head in heads.items() if re.search(rf"\b{kind}\b", head)]
    ours += [name for name, known in RENAMED.items() if known == function]
    ours += [name for name, head in heads.items() if any(re.search(rf"`{one}`", head) for one in ours)]
    places = [names for place, names in _INSTEAD.items() if re.split(r"\W", place)[0] in (function, *ours)]
    places += ours
    return " ".join(places)


def _of_directml(name: str, public: Mapping[str, object]) -> str | None:
    """The class of an interface, a structure or an enumeration of DirectML, or the member of one."""
    if (match := re.fullmatch(r"DML_(\w+)_OPERATOR_DESC", name)) and (kind := OperatorType.__members__.get(match[1])):
        return OPERATORS[kind].__name__ if kind in OPERATORS else None
    if not name.startswith(("DML", "IDML")):
        return None
    if name in _STRUCTURES:
        return _STRUCTURES[name]
    without_version = re.escape(name.rstrip("0123456789"))
    for key, value in public.items():
        if isinstance(value, type) and re.match(rf"{without_version}\b", value.__doc__ or ""):
            return key
        if isinstance(value, type) and issubclass(value, enum.Enum):
            for member in value.__members__.values():
                if getattr(member, "dml_name", "") == name:
                    return f"{key}.{member.name}"
    return None
