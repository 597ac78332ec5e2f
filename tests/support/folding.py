"""The table of the operators that fold: attributes to try, what the oracle says, and how a result is compared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from anydml.operators import normalization, reductions
from anydml.operators.schema.records import Computed
from elementwise import wrapped
from folding_oracle import ORACLE, Array

if TYPE_CHECKING:
    from collections.abc import Sequence

FAMILIES = {reductions, normalization}
FOLDING: list[type[Computed]] = [
    cls for cls in dml.OPERATORS.values() if issubclass(cls, Computed) and sys.modules[cls.__module__] in FAMILIES
]
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
