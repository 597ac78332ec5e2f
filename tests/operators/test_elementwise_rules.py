"""The element-wise operators' rules: types, sizes, levels, attributes and fused activations."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.operators.elementwise import ElementWise, Unary
from anydml.operators.schema import records
from anydml.operators.schema.fields import Input, OptionalInput, Output, Size2D, dml_name
from families.elementwise import ATTRIBUTES, ELEMENT_WISE, data_types, describe, missing_attributes

F32, F16, U8 = DataType.FLOAT32, DataType.FLOAT16, DataType.UINT8
SIZES = (2, 1, 3, 4)
T = dml.TensorDesc("float32", (2, 3))
each = pytest.mark.parametrize("cls", ELEMENT_WISE, ids=lambda cls: cls.type.name)


def changed(desc: dml.OperatorDesc, field: str, **parts: Any) -> dml.OperatorDesc:
    """The same with a tensor of another type or of other sizes."""
    own = desc.tensors()[field]
    tensor = dml.TensorDesc(**{"data_type": own.data_type, "sizes": own.sizes, **parts})
    return desc.with_tensors(lambda name, other: tensor if name == field else other)


@each
def test_tensors_are_alike_and_of_the_types_that_the_documents_list(cls: type[ElementWise]) -> None:
    desc = describe(cls, data_types(cls)[0], SIZES)
    assert desc.check()
    fields = list(desc.tensors())
    for field in fields:
        taken = cls.support.row_at(FeatureLevel.highest()).tensors[field].data_types
        for data_type in DataType:
            is_alike = data_type is desc.tensors()[field].data_type
            # Where all others are of its type, the first may have any.
            is_free = data_type in taken and (field in cls.free_types or field not in _pairs(cls, field))
            found = {fault.field for fault in changed(desc, field, data_type=data_type).check().faults}
            named = {f"{field}.DataType", *(f"{other}.DataType" for other in _pairs(cls, field)), "MinMaxDataType"}
            assert bool(found) != (is_alike or is_free), (field, data_type)
            assert found <= named
        first, others = fields[0], [*desc.inputs()][1:] or [*desc.outputs()]
        for sizes, part in (((2, 1, 3, 5), "Sizes"), ((1, 1, 2, 3, 4), "DimensionCount")):
            found = {fault.field for fault in changed(desc, field, sizes=sizes).check().faults}
            is_possible = len(sizes) in cls.support.row_at(FeatureLevel.highest()).tensors[field].dimension_counts
            assert found >= {f"{other}.{part}" for other in (others if field == first and is_possible else [field])}


def _pairs(cls: type[ElementWise], field: str) -> set[str]:
    """The tensors that share their type with one."""
    first = cls.typed_alike().get(field, field)
    group = {first, *(other for other, its_first in cls.typed_alike().items() if its_first == first)}
    return group if len(group) > 1 else set()


def test_what_is_said_of_tensors_that_are_not_alike() -> None:
    a, b = dml.TensorDesc(F32, SIZES), dml.TensorDesc(F16, (2, 1, 3, 5))
    with pytest.raises(dml.DescriptionError) as caught:
        dml.ElementWiseAdd.infer(a_tensor=a, b_tensor=b)
    assert str(caught.value).splitlines() == [
        "ELEMENT_WISE_ADD: 2 rules are broken",
        "  BTensor.DataType must be ATensor.DataType, FLOAT32; got FLOAT16",
        "  BTensor.Sizes must be (2, 1, 3, 4), ATensor.Sizes; got (2, 1, 3, 5)",
    ]


def test_an_output_is_of_the_inputs_type_or_of_bytes() -> None:
    def implied(cls: type[dml.OperatorDesc], *tensors: dml.TensorDesc, **attributes: Any) -> DataType:
        desc = cls.infer(**dict(zip(cls.input_names(), tensors, strict=True)), **attributes)
        (output,) = desc.outputs().values()
        assert desc.check()
        return output.data_type

    half, byte = dml.TensorDesc(F16, SIZES), dml.TensorDesc(U8, SIZES)
    assert implied(dml.ElementWiseAdd, half, half) is F16
    assert implied(dml.ElementWiseIf, byte, half, half) is F16
    assert implied(dml.ElementWiseLogicalLessThan, half, half) is U8
    assert implied(dml.ElementWiseIsNaN, half) is U8
    assert implied(dml.ElementWisePow, half, byte) is F16
    assert implied(dml.ActivationReluGrad, half, half) is F16


def test_rules_of_levels_that_concern_attributes() -> None:
    softplus = dml.ActivationSoftplus.infer(input_tensor=T, steepness=0.5)
    assert softplus.check("6_4")
    (fault,) = softplus.check("6_3").faults
    assert fault.rule == "Steepness below 1 needs DML_FEATURE_LEVEL_6_4"
    four = dml.TensorDesc(F32, SIZES), dml.TensorDesc(F16, SIZES)
    power = dml.ElementWisePow.infer(input_tensor=four[0], exponent_tensor=four[1])
    assert power.check("3_0")
    (fault,) = power.check("2_1").faults
    assert fault.rule == (
        "ExponentTensor.DataType other than InputTensor.DataType, FLOAT32, needs DML_FEATURE_LEVEL_3_0"
    )


@each
def test_numbers_that_are_none(cls: type[ElementWise]) -> None:
    """Each attribute names itself."""
    for name, kind in cls.field_types().items():
        if kind.type in ("FLOAT", "FLOAT_ARRAY", "SCALAR_UNION", "SCALE_BIAS", "UINT", "OPERATOR_DESC"):
            attributes = {**ATTRIBUTES.get(cls.type.name, [{}])[0], name: "7 of them"}
            attributes.setdefault("min_max_data_type", F32)
            known = {field: value for field, value in attributes.items() if field in cls.field_types()}
            tensors = dict.fromkeys((*cls.input_names(), *cls.output_names()), T)
            with pytest.raises(dml.DescriptionError) as caught:
                cls(**tensors, **known)
            assert [fault.field.partition("[")[0].partition(".")[0] for fault in caught.value.faults] == [
                dml_name(name)
            ]
    assert set(missing_attributes(cls)) <= {*ATTRIBUTES.get(cls.type.name, [{}])[0], "min_max_data_type"}


def test_numbers_are_float32_and_keep_their_zeros_sign() -> None:
    desc = dml.ActivationElu.infer(input_tensor=T, alpha=0.1)
    assert desc.alpha == float(np.float32(0.1))
    zeros = [dml.ActivationElu.infer(input_tensor=T, alpha=zero) for zero in (0.0, -0.0, np.float32(0))]
    assert zeros[0] != zeros[1]
    assert zeros[0] == zeros[2]
    assert len(set(zeros)) == 2
    assert dml.ActivationElu.infer(input_tensor=T, alpha=10**400).alpha == np.inf


def test_bounds_are_of_the_type_that_is_said() -> None:
    byte = dml.TensorDesc(U8, (3,))
    with pytest.raises(dml.DescriptionError, match=r"Max must lie in 0 \.\. 255 for UINT8; got 300"):
        dml.ElementWiseClip1.infer(input_tensor=byte, min_max_data_type="uint8", min=0, max=300)
    with pytest.raises(dml.DescriptionError, match=r"Min must be a whole number for UINT8; got 0\.5"):
        dml.ElementWiseClip1.infer(input_tensor=byte, min_max_data_type="uint8", min=0.5, max=3)
    desc = dml.ElementWiseClip1.infer(input_tensor=byte, min_max_data_type="int8", min=0, max=3)
    (fault,) = desc.check().faults
    assert str(fault) == "MinMaxDataType must be OutputTensor.DataType, UINT8; got INT8"


def test_a_bias_for_each_channel() -> None:
    image = dml.TensorDesc(F32, (2, 3, 2, 2))
    x = np.arange(24, dtype="float32").reshape(2, 3, 2, 2)
    desc = dml.ValueScale2D.infer(input_tensor=image, scale=2, bias=(1, 10, 100))
    assert desc.channel_count == 3
    got = dml.Device("reference").compile(desc)(x)
    np.testing.assert_array_equal(got, x * 2 + np.array([1, 10, 100], "float32").reshape(1, 3, 1, 1))
    for bias, match in (((1, 2), "Bias must have 1 or 3 values"), ((1,), r"InputTensor\.Sizes\[1\] must be 1")):
        with pytest.raises(dml.DescriptionError, match=match):
            dml.ValueScale2D.infer(input_tensor=image, scale=2, bias=bias)


# Fused activations


def test_an_activation_is_named_in_many_ways() -> None:
    elu = dml.FusedActivation("ACTIVATION_ELU", alpha=0.5)
    assert elu.type is dml.OperatorType.ACTIVATION_ELU
    assert elu.attributes == {"alpha": 0.5}
    assert repr(elu) == "FusedActivation('ACTIVATION_ELU', alpha=0.5)"
    spelled: list[Any] = [
        elu,
        dml.FusedActivation(dml.ActivationElu, alpha=0.5),
        dml.FusedActivation(dml.OperatorType.ACTIVATION_ELU, alpha=0.5),
        dml.FusedActivation("elu", alpha=0.5),
        {"Type": "ACTIVATION_ELU", "Alpha": 0.5},
        {"Type": "DML_OPERATOR_ACTIVATION_ELU", "Alpha": 0.5},
        copy.deepcopy(elu),
        pickle.loads(pickle.dumps(elu)),  # noqa: S301 - our own
    ]
    found = {dml.ElementWiseAdd1.infer(a_tensor=T, b_tensor=T, fused_activation=one) for one in spelled}
    assert len(found) == 1
    for one in ("RELU", dml.ActivationRelu, dml.OperatorType.ACTIVATION_RELU):
        desc = dml.ElementWiseAdd1.infer(a_tensor=T, b_tensor=T, fused_activation=one)
        assert desc.fused_activation == dml.FusedActivation("RELU")


@pytest.mark.parametrize(
    ("activation", "rule"),
    [
        ({"Type": "ACTIVATION_ELU", "Gamma": 1}, "FusedActivation.Gamma is not an attribute of ACTIVATION_ELU, which"),
        ({"Type": "RELU", "Alpha": 1}, "FusedActivation.Alpha is not an attribute of ACTIVATION_RELU, which has none"),
        ({"Type": "LINEAR", "Alpha": 1}, "FusedActivation.Beta must be given"),
        ({"Type": "ELU", "Alpha": "x"}, "FusedActivation.Alpha must be a number; got 'x'"),
        (7.5, "FusedActivation must be a FusedActivation, the name of an activation, or None; got 7.5"),
        ({}, "FusedActivation must be a FusedActivation, the name of an activation, or None; got {}"),
        ("GATHER", "FusedActivation.Type must be one of ACTIVATION_CELU, "),
        ("ELOO", "FusedActivation.Type must be one of ACTIVATION_CELU, "),
        ("SWISH", "FusedActivation.Type must be one of ACTIVATION_CELU, "),
    ],
)  # fmt: skip
def test_what_is_said_of_an_activation_that_cannot_be_fused(activation: Any, rule: str) -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        dml.ElementWiseAdd1.infer(a_tensor=T, b_tensor=T, fused_activation=activation)
    assert str(caught.value).startswith(f"ELEMENT_WISE_ADD1: {rule}")


def test_an_activation_has_its_own_level() -> None:
    four = dml.TensorDesc(F32, SIZES)

    def faults(level: str, activation: dml.FusedActivation) -> list[str]:
        desc = dml.ElementWiseAdd1.infer(a_tensor=four, b_tensor=four, fused_activation=activation)
        return [fault.rule for fault in desc.check(level).faults]

    gelu, soft = dml.FusedActivation("GELU"), dml.FusedActivation("SOFTPLUS", steepness=0.5)
    assert faults("5_1", gelu) == faults("6_4", soft) == []
    assert faults("5_0", gelu) == ["FusedActivation of ACTIVATION_GELU needs DML_FEATURE_LEVEL_5_1"]
    assert faults("6_3", soft) == ["FusedActivation.Steepness below 1 needs DML_FEATURE_LEVEL_6_4"]


# Adding an operator


def test_a_class_is_all_that_an_operator_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here one as if it were not built: a subclass enters itself by its name."""
    others = {kind: cls for kind, cls in dml.OPERATORS.items() if kind is not dml.OperatorType.TILE}
    monkeypatch.setattr("anydml.operators.schema.records.OPERATORS", others)

    class Tile(Unary):
        def value(self, x: Any) -> Any:
            return x + x

    kind = dml.OperatorType.TILE
    assert records.OPERATORS[kind] is Tile
    assert Tile.introduced() is FeatureLevel.LEVEL_1_0
    desc = Tile.infer(input_tensor=T)
    assert dml.Device("reference").compile(desc)(np.ones((2, 3), "float32")).tolist() == [[2.0] * 3] * 2


def test_tensors_may_be_optional_and_sizes_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that operators to come have: they are read, left out of what is bound, and kept away by a change."""
    monkeypatch.setattr("anydml.operators.schema.records.OPERATORS", dict(dml.OPERATORS))

    class ElementWiseQuantizeLinear(ElementWise):
        free_types = ("ZeroPointTensor", "OutputTensor")

        input_tensor: Input
        scale_tensor: Input
        zero_point_tensor: OptionalInput = None
        output_tensor: Output
        size: Size2D

        def value(self, x: Any, *others: Any) -> Any:
            return sum((other for other in others if other is not None), x)

    byte = dml.TensorDesc("int8", (2, 3))
    common: dict[str, Any] = {"input_tensor": T, "scale_tensor": T, "output_tensor": byte, "size": (2, 3)}
    desc = ElementWiseQuantizeLinear(**common)
    assert list(desc.inputs()) == ["InputTensor", "ScaleTensor"]
    moved = desc.with_tensors(lambda _, tensor: dml.TensorDesc(tensor.data_type, (3, 2)))
    assert moved.zero_point_tensor is None
    assert list(ElementWiseQuantizeLinear(**common, zero_point_tensor=byte).inputs())[-1] == "ZeroPointTensor"
    with pytest.raises(dml.DescriptionError, match="ZeroPointTensor must be a TensorDesc"):
        ElementWiseQuantizeLinear(**common, zero_point_tensor=3)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(dml.DescriptionError, match=r"Size must be a width and a height; got \(1, 2, 3\)"):
        ElementWiseQuantizeLinear(**{**common, "size": (1, 2, 3)})
    one = np.ones((2, 3), "float32")
    assert dml.Device("reference").compile(desc)(one, one).tolist() == [[2] * 3] * 2
