"""The table of the operators that fold: attributes to try, what the oracle says, and how a result is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from hypothesis import strategies as st

import anydml as dml
from anydml.operators.schema.fields import dml_name
from drawing import SEEDS, Case, Operator, draw_sizes, draw_tensor, make_case, pick, random_values, upto
from families.elementwise import activated, is_whole, wrapped
from families.family import Family
from refusals import Broken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from drawing import Tensor

Array = np.ndarray[Any, Any]
Answer = tuple[Array, Any]


def activate(x: Array, desc: Any) -> Array:
    return activated(x, desc.fused_activation)


def row_major(x: Array, axes: tuple[int, ...]) -> Array:
    """Rows as the last dimension."""
    kept = [k for k in range(x.ndim) if k not in axes]
    moved = x.transpose([*kept, *sorted(axes)])
    return moved.reshape(*moved.shape[: len(kept)], -1)


def index_of(x: Array, axes: tuple[int, ...], function: Any, *, last: bool = False) -> Array:
    rows = row_major(x, axes)
    found = function(rows[..., ::-1] if last else rows, axis=-1)
    found = rows.shape[-1] - 1 - found if last else found
    return np.expand_dims(found, sorted(axes)).astype(object)


def log_sum_exp(x: Array, axes: tuple[int, ...]) -> Array:
    largest = x.max(axes, keepdims=True)
    taken = np.where(np.isinf(largest), 0, largest)
    found: Array = np.log(np.exp(x - taken).sum(axes, keepdims=True)) + taken
    return found


def reduce(desc: Any, x: Array) -> list[Answer]:
    axes, name = tuple(desc.axes), desc.function.name
    if name in ("ARGMAX", "ARGMIN"):
        return [(index_of(x, axes, np.argmax if name == "ARGMAX" else np.argmin), 0)]
    total = np.abs(x).sum(axes, keepdims=True) if not is_whole(x) else 0
    count = np.prod([x.shape[k] for k in axes])
    links = min(count, 64)  # of the longest chain in a tree of FLOAT32
    functions: dict[str, Callable[[], Answer]] = {
        "AVERAGE": lambda: (x.mean(axes, keepdims=True), total * links / count),
        "L1": lambda: (np.abs(x).sum(axes, keepdims=True), total * links),
        "L2": lambda: (np.sqrt((x * x).sum(axes, keepdims=True)), 0),
        "LOG_SUM": lambda: (np.log(x.sum(axes, keepdims=True)), 1e-6 * total),
        "LOG_SUM_EXP": lambda: (log_sum_exp(x, axes), 4),
        "MAX": lambda: (x.max(axes, keepdims=True), 0),
        "MIN": lambda: (x.min(axes, keepdims=True), 0),
        "MULTIPLY": lambda: (x.prod(axes, keepdims=True), 0),
        "SUM": lambda: (x.sum(axes, keepdims=True), total * links),
        "SUM_SQUARE": lambda: ((x * x).sum(axes, keepdims=True), 0),
    }
    return [functions[name]()]


def arg(desc: Any, x: Array) -> list[Answer]:
    function = np.argmax if desc.type.name == "ARGMAX" else np.argmin
    return [(index_of(x, tuple(desc.axes), function, last=desc.axis_direction.name == "DECREASING"), 0)]


def axes_of(desc: Any, x: Array) -> tuple[int, ...]:
    return tuple(getattr(desc, "axes", (x.ndim - 1,)))


def softmax(desc: Any, x: Array) -> list[Answer]:
    """What is far below the largest has a rounded difference, which its exponential has as a share."""
    axes = axes_of(desc, x)
    less = x - x.max(axes, keepdims=True)
    power = np.exp(less)
    found = power / power.sum(axes, keepdims=True)
    return [(found, found * (8 + np.abs(less)) + 2.0**-120)]


def log_softmax(desc: Any, x: Array) -> list[Answer]:
    axes = axes_of(desc, x)
    less = x - x.max(axes, keepdims=True)
    return [(less - np.log(np.exp(less).sum(axes, keepdims=True)), 8 + 2 * np.abs(less))]


def hardmax(desc: Any, x: Array) -> list[Answer]:
    axes = axes_of(desc, x)
    rows = row_major(x, axes)
    found = (np.arange(rows.shape[-1]) == np.argmax(rows, -1)[..., None]).astype(np.float64)
    kept = [k for k in range(x.ndim) if k not in axes]
    order = [*kept, *sorted(axes)]
    return [(found.reshape([x.shape[k] for k in order]).transpose(np.argsort(order)), 0)]


def normalised(desc: Any, x: Array, scale: Any, bias: Any, axes: Any, *, mean: bool, variance: bool) -> list[Answer]:
    centred = x - x.mean(axes, keepdims=True) if mean else x
    found = centred
    if variance:
        found = centred / np.sqrt((centred * centred).mean(axes, keepdims=True) + desc.epsilon)
    scaled = found if scale is None else found * scale
    moved = scaled if bias is None else scaled + bias
    return [(activate(moved, desc), 8 * (np.abs(scaled) + np.abs(moved)))]


def mean_variance(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    axes = (1, 2, 3) if desc.cross_channel else (2, 3)
    return normalised(desc, x, scale, bias, axes, mean=True, variance=desc.normalize_variance)


def mean_variance1(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    return normalised(desc, x, scale, bias, tuple(desc.axes), mean=True, variance=desc.normalize_variance)


def mean_variance2(desc: Any, x: Array, scale: Any, bias: Any) -> list[Answer]:
    return normalised(desc, x, scale, bias, tuple(desc.axes), mean=desc.use_mean, variance=desc.use_variance)


def lp(desc: Any, x: Array) -> list[Answer]:
    norm = np.linalg.norm(x, desc.p, desc.axis, keepdims=True)
    found = x / np.maximum(norm, desc.epsilon)
    return [(found, 4 * np.abs(found))]


def batch(desc: Any, x: Array, mean: Array, variance: Array, scale: Array, bias: Array) -> list[Answer]:
    factor = scale / np.sqrt(variance + desc.epsilon)
    moved = (x - mean) * factor + bias
    return [(activate(moved, desc), 8 * (np.abs((x - mean) * factor) + np.abs(bias)))]


def small_axes(small: Array) -> tuple[int, ...]:
    return tuple(k for k, size in enumerate(small.shape) if size == 1)


def batch_training(desc: Any, x: Array, scale: Array, bias: Array, added: Any) -> list[Answer]:
    axes = small_axes(scale)
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + desc.epsilon) * scale
    moved = scaled + bias + (0 if added is None else added)
    slack = np.abs(scaled) + np.abs(bias) + (0 if added is None else np.abs(added))
    return [(activate(moved, desc), 8 * slack), (mean, 1e-6 * np.abs(x).max()), (variance, 1e-6 * variance)]


def sums(desc: Any, x: Array, dy: Array, mean: Array, variance: Array) -> list[Answer]:
    axes = small_axes(mean)
    terms = dy * (x - mean) / np.sqrt(variance + desc.epsilon)
    found = [each.sum(axes, keepdims=True) for each in (terms, np.broadcast_to(dy, x.shape))]
    return [(one, 1e-6 * np.abs(each).sum()) for one, each in zip(found, (terms, dy), strict=True)]


def batch_grad(desc: Any, x: Array, dy: Array, mean: Array, variance: Array, scale: Array) -> list[Answer]:
    found = dy * scale / np.sqrt(variance + desc.epsilon)
    return [(found, 8 * np.abs(found)), *sums(desc, x, dy, mean, variance)]


def batch_training_grad(desc: Any, x: Array, dy: Array, mean: Array, variance: Array, scale: Array) -> list[Answer]:
    axes = small_axes(mean)
    centred, factor = x - x.mean(axes, keepdims=True), scale / np.sqrt(variance + desc.epsilon)
    part = centred * (dy * centred).mean(axes, keepdims=True) / (variance + desc.epsilon)
    level = dy.mean(axes, keepdims=True)
    slack = (np.abs(dy) + np.abs(level) + np.abs(part)) * np.abs(factor)
    return [(factor * (dy - level - part), 8 * slack), *sums(desc, x, dy, mean, variance)]


def region_sums(desc: Any, x: Array, *, back: bool = False) -> Array:
    """The sum of each element's region, or of the elements whose regions it is in."""
    before = (desc.local_size - 1) // 2
    reach = (before, desc.local_size - 1 - before)[:: -1 if back else 1]
    for axis in (1,) if desc.cross_channel else (2, 3):
        size = x.shape[axis]
        parts = [
            np.take(x, range(max(k - reach[0], 0), min(k + reach[1], size - 1) + 1), axis).sum(axis)
            for k in range(size)
        ]
        x = np.stack(parts, axis)
    return x


def local_response(desc: Any, x: Array) -> list[Answer]:
    base = desc.bias + desc.alpha / desc.local_size * region_sums(desc, x * x)
    found = x / base**desc.beta
    return [(found, 16 * np.abs(found))]


def local_response_grad(desc: Any, x: Array, dy: Array) -> list[Answer]:
    factor = desc.alpha / desc.local_size
    base = desc.bias + factor * region_sums(desc, x * x)
    part = dy * x * base ** (-desc.beta - 1)
    first, second = dy * base**-desc.beta, 2 * factor * desc.beta * x * region_sums(desc, part, back=True)
    slack = np.abs(first) + np.abs(2 * factor * desc.beta * x) * region_sums(desc, np.abs(part), back=True)
    return [(first - second, 16 * slack)]


ORACLE: dict[str, Callable[..., list[Answer]]] = {
    "REDUCE": reduce,
    "ARGMAX": arg,
    "ARGMIN": arg,
    **dict.fromkeys(("ACTIVATION_SOFTMAX", "ACTIVATION_SOFTMAX1"), softmax),
    **dict.fromkeys(("ACTIVATION_LOG_SOFTMAX", "ACTIVATION_LOG_SOFTMAX1"), log_softmax),
    **dict.fromkeys(("ACTIVATION_HARDMAX", "ACTIVATION_HARDMAX1"), hardmax),
    "MEAN_VARIANCE_NORMALIZATION": mean_variance,
    "MEAN_VARIANCE_NORMALIZATION1": mean_variance1,
    "MEAN_VARIANCE_NORMALIZATION2": mean_variance2,
    "LP_NORMALIZATION": lp,
    "BATCH_NORMALIZATION": batch,
    "BATCH_NORMALIZATION_TRAINING": batch_training,
    "BATCH_NORMALIZATION_GRAD": batch_grad,
    "BATCH_NORMALIZATION_TRAINING_GRAD": batch_training_grad,
    "LOCAL_RESPONSE_NORMALIZATION": local_response,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": local_response_grad,
}


# The table


FOLDING: list[type[dml.OperatorDesc]] = [cls for kind, cls in dml.OPERATORS.items() if kind.name in ORACLE]
ACTIVATIONS = [None, "RELU", {"Type": "LINEAR", "Alpha": 0.5, "Beta": 1}]
LOCAL = [
    {"cross_channel": cross, "local_size": size, "alpha": alpha, "beta": beta, "bias": 1.5}
    for cross in (True, False)
    for size, alpha, beta in ((1, 0.5, 0.75), (2, 0.3, 1), (3, 0.1, 0.5), (4, 2, 0.75), (99, 1, 1))
]
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "REDUCE": [{"function": function} for function in dml.ReduceFunction],
    "ARGMAX": [{"axis_direction": direction} for direction in dml.AxisDirection],
    "ARGMIN": [{"axis_direction": direction} for direction in dml.AxisDirection],
    "LP_NORMALIZATION": [{"p": 1, "epsilon": 0.25}, {"p": 2}],
    "MEAN_VARIANCE_NORMALIZATION": [
        {"cross_channel": True}, {"normalize_variance": False}, {"epsilon": 0.5, "fused_activation": "RELU"},
    ],
    "MEAN_VARIANCE_NORMALIZATION1": [{}, {"normalize_variance": False}, {"epsilon": 0.5, "fused_activation": "RELU"}],
    "MEAN_VARIANCE_NORMALIZATION2": [
        {"use_mean": mean, "use_variance": variance} for mean in (True, False) for variance in (True, False)
    ],
    "BATCH_NORMALIZATION": [{"fused_activation": one} for one in ACTIVATIONS],
    "BATCH_NORMALIZATION_TRAINING": [{"fused_activation": one, "epsilon": 0.25} for one in ACTIVATIONS],
    "BATCH_NORMALIZATION_GRAD": [{"epsilon": 0.25}],
    "BATCH_NORMALIZATION_TRAINING_GRAD": [{"epsilon": 0.25}],
    "LOCAL_RESPONSE_NORMALIZATION": LOCAL,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": LOCAL,
}  # fmt: skip
"""Those of the others are axes alone."""
LIKE_INPUT = ("input_tensor", "input_gradient_tensor", "fused_add_tensor", "output_tensor", "output_gradient_tensor")
"""The tensors of normalisations that have the input's sizes: others repeat along it."""


def is_small(cls: type[dml.OperatorDesc], name: str) -> bool:
    """Whether a tensor repeats along the input."""
    return "NORMALIZATION" in cls.type.name and name not in LIKE_INPUT


def expected(desc: dml.OperatorDesc, arrays: Sequence[Array]) -> list[tuple[Array, Array]]:
    """The oracle's answers, and by how much each element may be off."""
    given = iter(arrays)
    numbers = [
        None if tensor is None else (array := next(given)).astype(np.float64 if array.dtype.kind == "f" else object)
        for tensor in desc.input_slots().values()
    ]
    found = []
    with np.errstate(all="ignore"):
        for (answer, slack), output in zip(
            ORACLE[desc.type.name](desc, *numbers), desc.outputs().values(), strict=True
        ):
            assert np.shape(answer) == output.sizes, (desc, np.shape(answer))
            dtype = output.data_type.dtype
            if dtype.kind != "f":
                found.append((wrapped(answer, dtype), np.zeros(output.sizes)))
                continue
            info = np.finfo(dtype)
            step = np.maximum(np.abs(answer) * info.eps, float(info.smallest_subnormal))
            most = np.asarray(1.01 * step + 2.0**-24 * np.asarray(slack))
            found.append((answer, np.broadcast_to(most, output.sizes)))
    return found


def assert_close(got: Array, wanted: tuple[Array, Array], about: object = "") -> None:
    """Compare with the oracle's answer: NaN is NaN, and integers are equal."""
    answer, most = (one.reshape(got.shape) for one in wanted)
    if got.dtype.kind != "f":
        assert np.array_equal(got, answer), (about, got, answer)
        return
    with np.errstate(all="ignore"):
        rounded = answer.astype(got.dtype)
        off = np.abs(got.astype(np.float64) - answer)
        good = (got == rounded) | (np.isnan(got) & np.isnan(answer)) | (off <= most)
        # Past the largest of the type, or nearly.
        good |= np.isinf(got) & (np.abs(answer) + most >= float(np.finfo(got.dtype).max)) & (np.sign(got) * answer > 0)
    assert good.all(), (about, np.argwhere(~good)[:3].tolist(), got[~good][:3], answer[~good][:3], most[~good][:3])


def axes_attribute(cls: type[dml.OperatorDesc], axes: Sequence[int]) -> dict[str, Any]:
    """The field that says what is folded, where there is one."""
    if "axes" in cls.field_types():
        return {"axes": tuple(axes)}
    return {"axis": axes[0]} if "axis" in cls.field_types() else {}


def describe(
    cls: type[dml.OperatorDesc],
    data_type: dml.DataType,
    sizes: tuple[int, ...],
    axes: Sequence[int],
    attributes: dict[str, Any] | None = None,
    left_out: Sequence[str] = (),
) -> dml.OperatorDesc:
    """A description of packed tensors: small ones have a size of 1 along the axes."""
    given = ATTRIBUTES.get(cls.type.name, [{}])[0] if attributes is None else attributes
    small = tuple(1 if k in axes else size for k, size in enumerate(sizes))
    inputs = {
        name: dml.TensorDesc(data_type, small if is_small(cls, name) else sizes)
        for name in cls.input_names()
        if name not in left_out
    }
    return cls.infer(**inputs, **{**axes_attribute(cls, axes), **given})


def values(desc: dml.OperatorDesc, seed: int = 0) -> list[Array]:
    """Numbers of moderate size; what stands under a root is not negative."""
    rng, found = np.random.default_rng(seed), []
    for field, tensor in desc.inputs().items():
        if tensor.data_type.is_float:
            one = (rng.standard_normal(tensor.sizes) * 2).astype(tensor.data_type.dtype)
        else:
            low = -9 if tensor.data_type.is_signed else 0
            one = rng.integers(low, 10, tensor.sizes).astype(tensor.data_type.dtype)
        is_root = field == "VarianceTensor" or getattr(desc, "function", None) is dml.ReduceFunction.LOG_SUM
        found.append(np.abs(one) if is_root else one)
    return found


def data_types(cls: type[dml.OperatorDesc], attributes: dict[str, Any], level: dml.FeatureLevel) -> list[dml.DataType]:
    """The types that an operator takes at a level, with a function where it has some."""
    table = cls.support.of(attributes["function"].name) if "function" in attributes else cls.support
    return sorted(table.row_at(level).tensors["InputTensor"].data_types)


# Examples of small whole numbers, with results that every engine has exactly

_SQUARES = np.array([[1, 2, 3], [3, 0, 4], [2, 4, 2]])
_ARG = np.array([[1, 2, 3], [3, 0, 4], [2, 5, 2]])
_CUBE = np.array([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]])
_PAIR, _ONE = np.array([[1, 3], [5, 1]]).reshape(1, 1, 2, 2), np.ones((1, 1, 1, 1), int)
_EQUAL = {"axes": (2, 3), "epsilon": 0}
_LOCAL = {"local_size": 1, "alpha": 3, "beta": 1, "bias": 1}
_GRAD = (_PAIR, _PAIR, _ONE, _ONE * 4, _ONE * 2)
SMALL: list[tuple[type[dml.OperatorDesc], str, tuple[Array, ...], dict[str, Any]]] = [
    *((dml.Reduce, f"example {k + 1}", (_SQUARES,), {"function": "SUM", "axes": axes})
      for k, axes in enumerate(((0,), (1,), (0, 1)))),
    *((dml.Argmax, f"example {k + 1}", (_ARG,), {"axes": axes}) for k, axes in enumerate(((0,), (1,), (0, 1)))),
    *((dml.Argmin, f"example {k + 1}", (_ARG,), {"axes": axes}) for k, axes in enumerate(((0,), (1,), (0, 1)))),
    *((dml.ActivationHardmax1, f"example {k + 1}", (_CUBE,), {"axes": axes})
      for k, axes in enumerate(((1,), (0,), (0, 2)))),
    (dml.ActivationHardmax, "of a matrix", (_ARG[None, None],), {}),
    (dml.ActivationSoftmax, "of equals", (_EQUALS := np.full((1, 1, 2, 4), 3),), {}),
    (dml.ActivationSoftmax1, "of equals", (_EQUALS,), {"axes": (2, 3)}),
    (dml.ActivationLogSoftmax, "of numbers far apart", (_FAR := np.array([[[[0, -1000], [1000, 0]]]]),), {}),
    (dml.ActivationLogSoftmax1, "of numbers far apart", (_FAR,), {"axes": (3,)}),
    (dml.LpNormalization, "of a sum of 4", (np.array([[[[1, 3], [2, -2]]]]),), {"axis": 3, "p": 1}),
    (dml.MeanVarianceNormalization, "of pairs", (_PAIR[..., :1, :], _ONE * 2, _ONE), {"epsilon": 0}),
    (dml.MeanVarianceNormalization1, "of pairs", (_PAIR[..., :1, :], _ONE * 2, _ONE), _EQUAL),
    (dml.MeanVarianceNormalization2, "of pairs", (_PAIR[..., :1, :], _ONE * 2, _ONE), _EQUAL),
    (dml.BatchNormalization, "of a variance of 4", (_PAIR, _ONE, _ONE * 4, _ONE * 2, _ONE), {"epsilon": 0}),
    (dml.BatchNormalizationTraining, "of pairs", (_PAIR[..., :1, :], _ONE * 2, _ONE, _PAIR[..., :1, :]),
     {"epsilon": 0}),
    (dml.BatchNormalizationGrad, "of a variance of 4", _GRAD, {"epsilon": 0}),
    (dml.BatchNormalizationTrainingGrad, "of a variance of 4", _GRAD, {"epsilon": 0}),
    (dml.LocalResponseNormalization, "of ones", (_PAIR * 0 + 1,), _LOCAL),
    (dml.LocalResponseNormalizationGrad, "of ones", (_PAIR * 0 + 1, _PAIR * 2), _LOCAL),
]  # fmt: skip
"""Operator, name, inputs and attributes: the documents' examples, and others of operators that have none."""


# Random descriptions: every level, type, layout, and set of axes


STYLES = ("small", "normal", "zeros")
LEVELS = tuple(reversed(dml.FeatureLevel))
OPTIONAL = ("scale_tensor", "bias_tensor", "fused_add_tensor")


@st.composite
def folding_cases(draw: st.DrawFn, classes: Sequence[Operator]) -> Case:
    """A valid description of one of these operators, with data."""
    cls = pick(draw, classes)
    level = pick(draw, tuple(level for level in LEVELS if level >= cls.introduced()))
    attributes: dict[str, Any] = dict(pick(draw, ATTRIBUTES.get(cls.type.name, [{}])))
    table = cls.support.of(attributes["function"].name) if "function" in attributes else cls.support
    row = table.row_at(level)
    data_type = pick(draw, data_types(cls, attributes, level))
    count = pick(draw, row.tensors["InputTensor"].dimension_counts)
    sizes = draw_sizes(draw, count, 64)
    if cls.type.name in ("ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX"):
        sizes = (*(1 for _ in sizes[:-2]), *sizes[-2:])
    mask = 1 + draw(upto(2**count - 2))
    axes = [k for k in range(count) if mask >> k & 1][:: -1 if mask % 3 == 0 else 1]
    attributes |= axes_attribute(cls, axes)
    if level < dml.FeatureLevel.LEVEL_5_1:
        attributes.pop("fused_activation", None)
    left_out = _left_out(draw, cls, level)
    shared = _small_sizes(draw, sizes, keeps_channels=level < dml.FeatureLevel.LEVEL_4_0)
    reduced = tuple(1 if k in axes else size for k, size in enumerate(sizes))
    tensors: dict[str, Tensor] = {}
    for name in (*cls.input_names(), *cls.output_names()):
        if name in left_out:
            continue
        taken = row.tensors[dml_name(name)].data_types
        own = data_type if data_type in taken else pick(draw, sorted(taken))
        is_output = name in cls.output_names()
        of_its_own = is_small(cls, name) and cls.type.name in FREE
        sized = _small_sizes(draw, sizes, keeps_channels=level < dml.FeatureLevel.LEVEL_4_0) if of_its_own else shared
        result = reduced if is_output and cls.type.name in ("REDUCE", "ARGMAX", "ARGMIN") else sizes
        tensors[name] = draw_tensor(draw, own, sized if is_small(cls, name) else result, is_output=is_output)
    contents = {}
    for name, tensor in tensors.items():
        is_root = name == "variance_tensor" or attributes.get("function") is dml.ReduceFunction.LOG_SUM
        if is_root and name not in cls.output_names():
            contents[name] = np.abs(random_values(tensor.data_type, tensor.extent, "normal", draw(SEEDS)))
    return make_case(draw, cls, level, tensors, attributes, contents=contents, styles=STYLES)


FREE = ("BATCH_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION", "MEAN_VARIANCE_NORMALIZATION1",
        "MEAN_VARIANCE_NORMALIZATION2")  # fmt: skip
"""The operators whose small tensors repeat each in its own way."""


def _left_out(draw: st.DrawFn, cls: Operator, level: dml.FeatureLevel) -> list[str]:
    """Optional tensors; before 5_2 scale and bias are left out together."""
    if cls.type.name == "BATCH_NORMALIZATION_TRAINING":
        return list(pick(draw, ((), ("fused_add_tensor",))))
    if not cls.type.name.startswith("MEAN_VARIANCE"):
        return []
    alone = (("scale_tensor",), ("bias_tensor",)) if level >= dml.FeatureLevel.LEVEL_5_2 else ()
    return list(pick(draw, ((), ("scale_tensor", "bias_tensor"), *alone)))


def _small_sizes(draw: st.DrawFn, sizes: tuple[int, ...], *, keeps_channels: bool) -> tuple[int, ...]:
    mask = draw(upto(2 ** len(sizes) - 1))
    return tuple(1 if mask >> k & 1 and not (keeps_channels and k == 1) else size for k, size in enumerate(sizes))


# Broken rules, each with its wording

T = dml.TensorDesc
X, HALF, ROW = T("float32", (2, 3, 4, 5)), T("float16", (2, 3, 4, 5)), T("float32", (1, 3, 1, 1))
NAN = float("nan")


def make(cls: Any, level: str = "6_4", **fields: Any) -> Any:
    """What creates a description on a device of a level."""
    return lambda: dml.Device("reference", feature_level=level).create_operator(cls.infer(**fields))


def with_output(cls: Any, output: dml.TensorDesc, **fields: Any) -> Any:
    """The same with another output."""
    return lambda: dml.Device("reference").create_operator(cls(output_tensor=output, **fields))


MVN: dict[str, Any] = {"input_tensor": X, "axes": (3,)}
BATCH: dict[str, Any] = {
    "input_tensor": X, "mean_tensor": ROW, "variance_tensor": ROW, "scale_tensor": ROW, "bias_tensor": ROW,
}  # fmt: skip
GRAD: dict[str, Any] = {**BATCH, "input_gradient_tensor": X}
del GRAD["bias_tensor"]
SUM: dict[str, Any] = {"function": "SUM", "input_tensor": X}
RULES = [
    Broken("no axes", make(dml.Reduce, **SUM, axes=()), "REDUCE: Axes must name at least one dimension; got none"),
    Broken(
        "an axis that is none",
        make(dml.Argmax, input_tensor=X, axes=(0, 4)),
        "ARGMAX: Axes[1] must be below InputTensor.DimensionCount, 4; got 4",
    ),
    Broken(
        "an axis twice",
        make(dml.ActivationSoftmax1, input_tensor=X, axes=(1, 2, 1)),
        "ACTIVATION_SOFTMAX1: Axes[2] must not repeat an earlier dimension of Axes; got 1",
    ),
    Broken(
        "an output of other sizes",
        with_output(dml.Reduce, X, **SUM, axes=(1,)),
        "REDUCE: OutputTensor.Sizes must be (2, 1, 4, 5), those of InputTensor, but 1 along Axes; got (2, 3, 4, 5)",
    ),
    Broken(
        "an output of other dimensions",
        with_output(dml.Argmin, T("uint32", (2, 4, 5)), input_tensor=X, axes=(1,)),
        "ARGMIN: OutputTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 3",
    ),
    Broken(
        "an output of another type",
        with_output(dml.Reduce, T("float16", (2, 1, 4, 5)), **SUM, axes=(1,)),
        "REDUCE: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16",
    ),
    Broken(
        "a type that the function does not take",
        make(dml.Reduce, function="L2", input_tensor=T("int32", (4,)), axes=(0,)),
        "REDUCE: InputTensor must be of FLOAT32 or FLOAT16; got INT32; no feature level takes it, so convert the data "
        "first",
    ),
    Broken(
        "a type that the function takes later",
        make(dml.Reduce, "4_1", function="L1", input_tensor=T("int32", (4,)), axes=(0,)),
        "REDUCE: InputTensor of INT32 needs DML_FEATURE_LEVEL_5_0; this device is 4_1",
        dml.FeatureLevelError,
    ),
    Broken(
        "a softmax of more than a matrix",
        make(dml.ActivationSoftmax, input_tensor=X),
        "ACTIVATION_SOFTMAX: InputTensor.Sizes must be 1 in all but the last two dimensions; got (2, 3, 4, 5); "
        "use ACTIVATION_SOFTMAX1, dml.softmax1(x, axes=...), which takes any sizes",
    ),
    Broken(
        "an epsilon below 0",
        make(dml.MeanVarianceNormalization2, **MVN, epsilon=-0.5),
        "MEAN_VARIANCE_NORMALIZATION2: Epsilon must be at least 0; got -0.5",
    ),
    Broken(
        "an epsilon that is none",
        make(dml.BatchNormalizationGrad, **GRAD, epsilon=NAN),
        "BATCH_NORMALIZATION_GRAD: Epsilon must be at least 0; got nan",
    ),
    Broken(
        "a norm of 3",
        make(dml.LpNormalization, input_tensor=X, axis=1, p=3),
        "LP_NORMALIZATION: P must be 1 or 2; got 3",
    ),
    Broken(
        "an axis of a norm that is none",
        make(dml.LpNormalization, input_tensor=X, axis=4),
        "LP_NORMALIZATION: Axis must be below InputTensor.DimensionCount, 4; got 4",
    ),
    Broken(
        "a scale that does not repeat along the input",
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (1, 2, 1, 1))),
        "MEAN_VARIANCE_NORMALIZATION1: ScaleTensor.Sizes[1] must be 3 as InputTensor.Sizes[1] is, or 1; got 2",
    ),
    Broken(
        "a scale of other dimensions",
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (3,))),
        "MEAN_VARIANCE_NORMALIZATION1: ScaleTensor.DimensionCount must be InputTensor.DimensionCount, 4; got 1",
    ),
    Broken(
        "a scale of another type",
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float16", (1, 3, 1, 1))),
        "MEAN_VARIANCE_NORMALIZATION1: ScaleTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16",
    ),
    Broken(
        "a scale without a bias",
        make(dml.MeanVarianceNormalization, "5_1", input_tensor=X, scale_tensor=ROW),
        "MEAN_VARIANCE_NORMALIZATION: ScaleTensor without BiasTensor needs DML_FEATURE_LEVEL_5_2; this device is 5_1",
        dml.FeatureLevelError,
    ),
    Broken(
        "a bias without a scale",
        make(dml.MeanVarianceNormalization1, "5_1", **MVN, bias_tensor=ROW),
        "MEAN_VARIANCE_NORMALIZATION1: BiasTensor without ScaleTensor needs DML_FEATURE_LEVEL_5_2; this device is 5_1",
        dml.FeatureLevelError,
    ),
    Broken(
        "a scale that repeats along the channels",
        make(dml.MeanVarianceNormalization1, "3_1", **MVN, scale_tensor=T("float32", (1, 1, 1, 5)), bias_tensor=ROW),
        "MEAN_VARIANCE_NORMALIZATION1: ScaleTensor that repeats along the channels needs DML_FEATURE_LEVEL_4_0; this "
        "device is 3_1",
        dml.FeatureLevelError,
    ),
    Broken(
        "an activation that is not fused",
        make(dml.MeanVarianceNormalization1, **MVN, fused_activation="ACTIVATION_SOFTMAX"),
        "MEAN_VARIANCE_NORMALIZATION1: FusedActivation.Type must be one of ACTIVATION_CELU, ACTIVATION_ELU, "
        "ACTIVATION_GELU, ACTIVATION_HARD_SIGMOID, ACTIVATION_IDENTITY, ACTIVATION_LEAKY_RELU, ACTIVATION_LINEAR, "
        "ACTIVATION_PARAMETRIC_SOFTPLUS, ACTIVATION_RELU, ACTIVATION_SCALED_ELU, ACTIVATION_SCALED_TANH, "
        "ACTIVATION_SHRINK, ACTIVATION_SIGMOID, ACTIVATION_SOFTPLUS, ACTIVATION_SOFTSIGN, ACTIVATION_TANH, "
        "ACTIVATION_THRESHOLDED_RELU; got ACTIVATION_SOFTMAX",
    ),
    Broken(
        "locations that are not spatial",
        make(dml.BatchNormalization, "3_1", **{**BATCH, "variance_tensor": X}, spatial=False),
        "BATCH_NORMALIZATION: MeanTensor that repeats along height or width without Spatial needs "
        "DML_FEATURE_LEVEL_4_0; this device is 3_1",
        dml.FeatureLevelError,
    ),
    Broken(
        "small tensors of different sizes",
        make(dml.BatchNormalizationGrad, **{**GRAD, "scale_tensor": T("float32", (1, 3, 1, 5))}),
        "BATCH_NORMALIZATION_GRAD: ScaleTensor.Sizes must be (1, 3, 1, 1), MeanTensor.Sizes; got (1, 3, 1, 5)",
    ),
    Broken(
        "a gradient of other sizes",
        make(dml.BatchNormalizationTrainingGrad, **{**GRAD, "input_gradient_tensor": ROW}),
        "BATCH_NORMALIZATION_TRAINING_GRAD: InputGradientTensor.Sizes must be (2, 3, 4, 5), InputTensor.Sizes; got "
        "(1, 3, 1, 1)",
    ),
    Broken(
        "a region of nothing",
        make(dml.LocalResponseNormalization, input_tensor=X, local_size=0),
        "LOCAL_RESPONSE_NORMALIZATION: LocalSize must be at least 1; got 0",
    ),
    Broken(
        "a gradient of another type",
        make(dml.LocalResponseNormalizationGrad, input_tensor=X, input_gradient_tensor=HALF, local_size=3),
        "LOCAL_RESPONSE_NORMALIZATION_GRAD: InputGradientTensor.DataType must be InputTensor.DataType, FLOAT32; got "
        "FLOAT16",
    ),
    Broken(
        "an output that is not like the input",
        with_output(dml.ActivationHardmax1, HALF, input_tensor=X, axes=(1,)),
        "ACTIVATION_HARDMAX1: OutputTensor.DataType must be InputTensor.DataType, FLOAT32; got FLOAT16",
    ),
    Broken(
        "a function that is none",
        make(dml.Reduce, function="MEDIAN", input_tensor=X, axes=(1,)),
        "REDUCE: Function must be one of ARGMAX, ARGMIN, AVERAGE, L1, L2, LOG_SUM, LOG_SUM_EXP, MAX, MIN, MULTIPLY, "
        "SUM, SUM_SQUARE; got 'MEDIAN'",
    ),
    Broken(
        "too few arrays for the outputs",
        lambda: dml.batch_normalization_training(
            *(np.ones((1, 1, 2), "float32"), np.ones(1, "float32"), np.ones(1, "float32")), out=[np.ones(1, "float32")]
        ),
        "BATCH_NORMALIZATION_TRAINING: out must be 3 arrays; got 1",
    ),
    Broken(
        "a vector for each channel, as other libraries take it",
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (1, 1, 1, 3)), bias_tensor=None),
        "MEAN_VARIANCE_NORMALIZATION1: ScaleTensor.Sizes[3] must be 5 as InputTensor.Sizes[3] is, or 1; got 3; sizes"
        " of (1, 3, 1, 1) are along the channels",
    ),
    Broken(
        "an axis of a function that is none",
        lambda: dml.softmax1(np.ones((2, 2), "float32"), (0, 2)),
        "ACTIVATION_SOFTMAX1: Axes[1] must lie in -2 .. 1; got 2",
    ),
]


# The row of the table


def examples(cls: Operator) -> Iterator[tuple[dml.OperatorDesc, list[Array]]]:
    """Every type that the highest level takes, with all attributes."""
    is_matrix = cls.type.name in ("ACTIVATION_SOFTMAX", "ACTIVATION_LOG_SOFTMAX", "ACTIVATION_HARDMAX")
    sizes, axes = ((1, 1, 4, 70), (3,)) if is_matrix else ((2, 3, 5, 7), (1, 3))
    for attributes in ATTRIBUTES.get(cls.type.name, [{}]):
        for data_type in data_types(cls, attributes, LEVELS[0]):
            desc = describe(cls, data_type, sizes, axes, attributes)
            yield desc, values(desc)


def check(desc: dml.OperatorDesc, got: list[Array], wanted: list[tuple[Array, Array]], engine: str) -> None:
    """Within what is rounded on the way."""
    for one, answer in zip(got, wanted, strict=True):
        assert_close(one, answer, desc)


FAMILY = Family(FOLDING, folding_cases, expected, check, examples, rules=RULES)
