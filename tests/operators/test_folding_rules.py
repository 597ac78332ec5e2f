"""The rules of the operators that fold, each with its wording, and their levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import FeatureLevel
from anydml.operators.schema.fields import dml_name
from families.folding import ATTRIBUTES, FOLDING, describe
from refusals import Broken, check_refusal

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
        "ACTIVATION_SOFTMAX1: Axes[2] must be a dimension that Axes does not name before; got 1",
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
        "REDUCE: InputTensor must be of FLOAT32, FLOAT16; got INT32; no feature level takes it, so convert the data "
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
        "ACTIVATION_SOFTMAX: InputTensor.Sizes must be 1 but for the last two; got (2, 3, 4, 5); ACTIVATION_SOFTMAX1 "
        "takes any sizes",
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


@pytest.mark.parametrize("broken", RULES, ids=str)
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


def test_every_rule_has_the_field_that_it_is_of() -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (5, 3, 3, 5)), epsilon=-1)()
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["Epsilon", "ScaleTensor.Sizes[0]", "ScaleTensor.Sizes[2]"]


@pytest.mark.parametrize("cls", FOLDING, ids=lambda cls: cls.type.name)
def test_the_first_level_has_it_and_the_one_before_has_not(cls: type[dml.OperatorDesc]) -> None:
    sizes = (1, 1, 2, 3)
    for attributes in ATTRIBUTES.get(cls.type.name, [{}])[:1]:
        desc = describe(cls, dml.DataType.FLOAT32, sizes, (3,), attributes)
        assert desc.check().lowest_level is not None
        for level in FeatureLevel:
            report = desc.check(level)
            if level < cls.introduced():
                assert str(report.faults[0]).startswith("the operator needs ")
        assert desc.check(cls.introduced()).lowest_level == desc.check().lowest_level


def test_functions_have_rows_of_their_own() -> None:
    """As the page lists them, function by function: the lowest level that takes each type."""
    wanted: dict[str, dict[str, str | None]] = {
        "SUM": {"float32": "1_0", "int32": "2_1", "int64": "5_0", "int8": None},
        "AVERAGE": {"float16": "1_0", "int32": None},
        "L1": {"float32": "1_0", "int32": "5_0", "uint64": "5_0", "int16": None},
        "MAX": {"int32": "2_1", "int8": "3_0", "int64": "5_0"},
        "ARGMAX": {"float32": "1_0", "int8": "2_1", "int64": "4_1"},
    }
    for function, levels in wanted.items():
        for kind, level in levels.items():
            desc = dml.Reduce.infer(function=function, input_tensor=T(kind, (1, 1, 2, 2)), axes=(3,))
            if function == "ARGMAX":
                desc = dml.Reduce(
                    function=function, input_tensor=T(kind, (1, 1, 2, 2)), output_tensor=T("uint32", (1, 1, 2, 1)),
                    axes=(3,),
                )  # fmt: skip
            found = desc.check().lowest_level
            assert (found if found is None else str(found)) == level, (function, kind)
    assert {row.functions for row in dml.Reduce.support} == {
        ("ARGMIN", "ARGMAX"), ("AVERAGE", "L2", "LOG_SUM", "LOG_SUM_EXP"), ("L1", "SUM_SQUARE"), ("MIN", "MAX"),
        ("MULTIPLY", "SUM"),
    }  # fmt: skip
    row = dml.support("REDUCE", "2_1")
    assert row is not None
    assert dml.DataType.INT8 in row.tensors["InputTensor"].data_types  # ARGMIN and ARGMAX take it


def test_optional_tensors_keep_their_numbers() -> None:
    """In graphs' edges and in binding tables, as DirectML counts them."""
    g = dml.Graph("reference")
    x, bias = g.input(np.ones((2, 4), "float32")), g.input(np.ones((1, 4), "float32"))
    desc = g.desc(dml.mean_variance_normalization2(x, 1, bias=bias))
    assert [edge.to_node_input_index for edge in desc.input_edges] == [0, 2]
    wrong = dml.GraphDesc(2, 1, desc.nodes, [desc.input_edges[0], dml.InputEdge(1, 0, 1)], desc.output_edges, [])
    with pytest.raises(dml.DmlError, match=r"ToNodeInputIndex must be a tensor that .* has: this one is optional"):
        dml.Device("reference").compile_graph(wrong)
    node = desc.nodes[0]
    assert isinstance(node, dml.OperatorNode)
    device = dml.Device("reference")
    compiled = device.compile_operator(device.create_operator(node.desc))
    table = device.create_binding_table(compiled)
    buffers = [dml.BufferBinding(bytearray(64)) for _ in range(3)]
    table.bind_inputs([buffers[0], None, buffers[1]])
    table.bind_inputs(buffers[:2])
    with pytest.raises(dml.BindingError, match=r"inputs\[1\] must be None: it is of an optional tensor"):
        table.bind_inputs(buffers)


def test_counts_follow_from_the_axes() -> None:
    assert dml.Reduce.infer(**SUM, axes=(1, 3)).axis_count == 2
    assert dml_name("axis_count") == "AxisCount"
