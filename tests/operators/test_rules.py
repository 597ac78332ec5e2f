"""Every rule, broken alone, with the message that a user reads."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.core.display import listed
from anydml.operators import OPERATORS
from anydml.operators.schema.fields import bare_name, dml_name
from cases import CASES
from families.copies import LONG, PARTS, VALID, total
from families.folding import MVN, SUM, make
from reference import fields_of
from refusals import Broken, check_refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from anydml.operators.schema.facts import TensorSupport

T = dml.TensorDesc
F4 = T("float32", (1, 1, 4, 4))


TENSORS = [
    Broken("size 0", lambda: T("float32", (2, 0)), "TensorDesc: Sizes[1] must be at least 1; got 0"),
    Broken(
        "size too large",
        lambda: T("float32", (2**32,)),
        "TensorDesc: Sizes[0] must be at most 4294967295; got 4294967296",
    ),
    Broken("no dimension", lambda: T("float32", ()), "TensorDesc: Sizes must have 1 to 8 dimensions; got 0"),
    Broken("nine dimensions", lambda: T("float32", (1,) * 9), "TensorDesc: Sizes must have 1 to 8 dimensions; got 9"),
    Broken(
        "too many elements",
        lambda: T("uint8", (65536, 65536)),
        "TensorDesc: Sizes must multiply to at most 2^32 - 1 = 4294967295 elements; got 4294967296",
    ),
    Broken(
        "an extent that wraps in 32 bits",
        lambda: T("uint8", (3,), strides=(2**31,)),
        "TensorDesc: Sizes and Strides must span at most 2^32 - 1 = 4294967295 elements; got 4294967297",
    ),
    Broken(
        "strides of another length",
        lambda: T("float32", (2, 2), strides=(1,)),
        "TensorDesc: Strides must have as many dimensions as Sizes, 2; got 1",
    ),
    Broken(
        "negative stride",
        lambda: T("float32", (2,), strides=(-1,)),
        "TensorDesc: Strides[0] must be at least 0; got -1; signed_strides=True describes an array that runs backwards",
    ),
    Broken(
        "total too small",
        lambda: T("float16", (3,), total_tensor_size_in_bytes=6),
        "TensorDesc: TotalTensorSizeInBytes must be at least the 8 that sizes, strides and type imply; got 6",
    ),
    Broken(
        "total too large",
        lambda: T("uint8", (3,), total_tensor_size_in_bytes=2**33),
        "TensorDesc: TotalTensorSizeInBytes must be at most 2^32 - 1 elements, 4294967295 for UINT8; got 8589934592",
    ),
    Broken(
        "alignment no power of two",
        lambda: T("uint8", (3,), guaranteed_base_offset_alignment=24),
        "TensorDesc: GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the element's size,"
        " 1 for UINT8; got 24",
    ),
    Broken(
        "alignment below the element",
        lambda: T("float64", (3,), guaranteed_base_offset_alignment=4),
        "TensorDesc: GuaranteedBaseOffsetAlignment must be 0 or a power of two of at least the element's size,"
        " 8 for FLOAT64; got 4",
    ),
    Broken(
        "signed strides",
        lambda: T("float32", (2,), signed_strides="no"),  # type: ignore[arg-type]  # wrong on purpose
        "TensorDesc: signed_strides must be True or False; got 'no'",
    ),
    Broken(
        "unknown type",
        lambda: T("float8", (3,)),
        "TensorDesc: DataType must be one of FLOAT32, FLOAT16, UINT32, UINT16, UINT8, INT32, INT16, INT8, FLOAT64,"
        " UINT64, INT64, UINT4, INT4; got 'float8'; did you mean FLOAT64?",
    ),
    Broken(
        "unknown flag",
        lambda: T("uint8", (3,), flags=2),
        "TensorDesc: Flags must be one of NONE, OWNED_BY_DML; got 2",
    ),
    Broken(
        "sizes that are no list",
        lambda: T("uint8", "4"),  # type: ignore[arg-type]  # wrong on purpose
        "TensorDesc: Sizes must be a list of whole numbers, one for each dimension; got '4'",
    ),
    Broken(
        "a size that is no number",
        lambda: T("uint8", (2, 1.5)),  # type: ignore[arg-type]  # wrong on purpose
        "TensorDesc: Sizes[1] must be a whole number; got 1.5",
    ),
]


@pytest.mark.parametrize("broken", TENSORS, ids=str)
def test_rule(broken: Broken) -> None:
    check_refusal(broken)


def test_faults_are_reported_together() -> None:
    desc = dml.Slice1(
        input_tensor=T("float64", (1, 4, 4)),
        output_tensor=T("float64", (1, 2, 2), strides=(0, 0, 0), flags="OWNED_BY_DML"),
        input_window_offsets=(0, 0, 2),
        input_window_sizes=(1, 0, 3),
        input_window_strides=(1, 0, 2),
    )
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device(feature_level="2_1").create_operator(desc)
    assert [fault.field for fault in caught.value.faults] == [
        "InputTensor.DataType",
        "InputTensor.DimensionCount",
        "InputWindowStrides[1]",
        "InputWindowSizes[1]",
        "InputWindowOffsets[2]",
        "OutputTensor.Flags",
        "OutputTensor.Strides",
    ]
    assert str(caught.value).startswith("SLICE1: 7 rules are broken\n  InputTensor of FLOAT64 needs")


def test_a_check_reports_without_raising() -> None:
    desc = dml.CumulativeSummation.infer(input_tensor=T("uint16", (2, 3)), axis=1)
    report = desc.check("2_1")
    assert not report
    assert str(report.faults[0]) == (
        "InputTensor of 2 dimensions needs DML_FEATURE_LEVEL_4_0; this check is for 2_1, which takes 4"
    )
    assert report.lowest_level == dml.FeatureLevel("4_0")
    assert report.remarks == ("UINT16 is listed for CUMULATIVE_SUMMATION by the documents' edition of 2021 only",)
    assert desc.check()
    assert dml.Device().create_operator(desc).remarks == report.remarks
    never = dml.CumulativeSummation(input_tensor=T("float64", (2,)), output_tensor=T("float64", (2,)), axis=0)
    assert never.check().lowest_level is None


def test_levels_are_spelled_in_every_way() -> None:
    desc = dml.CumulativeSummation.infer(input_tensor=F4, axis=3)
    desc.validate("2_1")
    assert dml.Slice1.support.at("DML_FEATURE_LEVEL_2_1") == dml.support("SLICE1", "2_1")
    wrong: Any = np.arange(3)
    for act in (lambda: desc.check("9"), lambda: desc.validate("9"), lambda: dml.support(dml.Slice, wrong)):
        with pytest.raises(dml.DescriptionError, match="FeatureLevel: must be one of 1_0, "):
            act()


def test_support_is_data() -> None:
    row = dml.support(dml.GatherND, "2_1")
    assert row is not None
    assert row == pickle.loads(pickle.dumps(row))  # noqa: S301 - our own bytes
    assert len({row, dml.support(dml.GatherND, "2_1")}) == 1
    assert dml.support(dml.GatherND, "2_0") is None


def test_a_stride_without_meaning_may_be_of_any_size() -> None:
    far = T("float32", (1, 4), strides=(2**32 - 1, 1))
    desc = dml.Slice(
        input_tensor=far, output_tensor=T("float32", (1, 4)), offsets=(0, 0), sizes=(1, 4), strides=(2**32 - 1, 1)
    )
    x = np.arange(4, dtype="float32").reshape(1, 4)
    np.testing.assert_array_equal(dml.Device().compile(desc)(x), x)


# Rules that every operator has, by the support table and its fields alone

EXAMPLES = {case.operator: case.desc(dml.DataType.FLOAT32) for case in reversed(CASES)}
LEVELS = list(dml.FeatureLevel)
each_operator = pytest.mark.parametrize("desc", EXAMPLES.values(), ids=lambda desc: desc.type.name)


def replaced(desc: dml.OperatorDesc, field: str, tensor: dml.TensorDesc) -> dml.OperatorDesc:
    return desc.with_tensors(lambda name, other: tensor if name == field else other)


def rules(desc: dml.OperatorDesc, level: dml.FeatureLevel | None = None) -> list[str]:
    return [fault.rule for fault in (desc.check(level) if level else desc.check()).faults]


def check_needs(desc: dml.OperatorDesc, field: str, what: str, takes: Callable[[TensorSupport], bool]) -> bool:
    """Which level it needs is said by the one before, and not by that level; gives whether there is one."""
    first = min((row.level for row in desc.own_support() if takes(row.tensors[bare_name(field)])), default=None)
    if first is not None:
        needs = f"of {what} needs {first.dml_name}"
        assert f"{field} {needs}" not in rules(desc, first)
        if first > desc.introduced():  # of several tensors that lack the same the first is named
            below = rules(desc, LEVELS[LEVELS.index(first) - 1])
            assert any(f"{one} {needs}" in below for one in desc.tensors()), below
    return first is not None


def test_every_operator_has_an_example() -> None:
    assert set(EXAMPLES) == set(OPERATORS.values())


@pytest.mark.sampled(4)
@each_operator
def test_the_first_level_has_it_and_the_one_before_has_not(desc: dml.OperatorDesc) -> None:
    first, lowest = LEVELS.index(desc.introduced()), desc.check().lowest_level
    assert lowest is not None
    assert [bool(desc.check(level)) for level in LEVELS] == [level >= lowest for level in LEVELS]
    assert all(f"the operator needs {LEVELS[first].dml_name}" in rules(desc, level) for level in LEVELS[:first])
    assert not any("the operator needs" in rule for level in LEVELS[first:] for rule in rules(desc, level))


@pytest.mark.sampled(4)
@each_operator
def test_types_and_dimension_counts_that_a_level_lacks_are_told(desc: dml.OperatorDesc) -> None:
    for field, tensor in desc.tensors().items():
        known = {t for row in desc.own_support() for t in row.tensors[bare_name(field)].data_types}
        for kind in dml.DataType:
            broken = replaced(desc, field, T(kind, tensor.sizes))
            if not check_needs(broken, field, kind.name, lambda row, kind=kind: kind in row.data_types):  # type: ignore[misc]  # mypy infers no lambda with a default
                (fault,) = [one for one in broken.check().faults if one.rule.startswith(f"{field} must be of ")]
                assert fault.rule == f"{field} must be of {listed(t.name for t in dml.DataType if t in known)}"
                assert (fault.field, fault.found) == (f"{field}.DataType", kind.name)
                told = (
                    "DirectML takes it in " if kind.is_half_byte else "no feature level takes it, so convert the data"
                )
                assert fault.way_out.startswith(told)
        for count in range(1, 9):
            broken = replaced(desc, field, T(tensor.data_type, (1,) * count))
            what = f"{count} dimension{'s' * (count > 1)}"
            if not check_needs(broken, field, what, lambda row, count=count: count in row.dimension_counts):  # type: ignore[misc]  # as above
                faults = [fault.field for fault in broken.check().faults]
                assert any(name.endswith((".DimensionCount", ".Sizes")) for name in faults), (broken, faults)
                given = {name: getattr(broken, name) for name in broken.field_types()}
                implied = dict.fromkeys(broken.usual_outputs(), True) if broken.implies_output else {}
                type(broken).draft(**{name: x for name, x in given.items() if name not in implied})


@pytest.mark.sampled(4)
@each_operator
def test_an_output_is_its_callers_and_each_element_has_a_place(desc: dml.OperatorDesc) -> None:
    for field, tensor in desc.outputs().items():
        owned = replaced(desc, field, T(tensor.data_type, tensor.sizes, flags="OWNED_BY_DML"))
        assert f"{field}.Flags must not have OWNED_BY_DML, which is for inputs" in rules(owned)
        sizes = (*tensor.sizes[:-1], max(tensor.sizes[-1], 2))
        folded = replaced(desc, field, T(tensor.data_type, sizes, strides=(0,) * len(sizes)))
        (fault,) = [one for one in folded.check().faults if one.field == f"{field}.Strides"]
        assert fault.rule == f"{field}.Strides must give every coordinate an element of its own"
        assert fault.found == f"strides {(0,) * len(sizes)} for sizes {sizes}"


@pytest.mark.sampled(4)
@each_operator
def test_a_tensor_that_is_missing_is_asked_for(desc: dml.OperatorDesc) -> None:
    asked = {one.name for one in fields_of(desc.type.name) if one.type == "TENSOR_DESC" and not one.is_optional}
    given = {name: getattr(desc, name) for name in desc.field_types()}
    for name in given:
        if dml_name(name) in asked:
            with pytest.raises(dml.DescriptionError) as caught:
                type(desc)(**{**given, name: None})
            assert "must be a TensorDesc; got None; describe an array with TensorDesc.of(array)" in str(caught.value)
            assert caught.value.field == dml_name(name)


@pytest.mark.parametrize("name", VALID)
def test_what_the_broken_ones_start_from_is_valid(name: str) -> None:
    assert isinstance(VALID[name]()(), dml.Operator)


def test_faults_of_several_tensors_are_reported_together() -> None:
    desc = dml.Join(
        input_tensors=[T("int8", (2, 3)), T("float64", (2, 4)), T("int8", (2,))],
        output_tensor=T("int8", (2, 9), strides=(0, 1), flags="OWNED_BY_DML"),
        axis=5,
    )
    with pytest.raises(dml.DescriptionError) as caught:
        dml.Device(feature_level="1_0").create_operator(desc)
    assert [fault.field for fault in caught.value.faults] == [
        "InputTensors[0].DataType",
        "InputTensors[0].DimensionCount",
        "InputTensors[1].DataType",
        "InputTensors[2].DimensionCount",
        "Axis",
        "InputTensors[1].DataType",
        "InputTensors[2].DimensionCount",
        "OutputTensor.Flags",
        "OutputTensor.Strides",
    ]
    assert str(caught.value).startswith("JOIN: 9 rules are broken\n  InputTensors[0] of INT8 needs")


def test_what_a_draft_implies() -> None:
    """The outputs that the other fields imply; operators that imply none are given theirs."""
    joined = dml.Join.infer(input_tensors=PARTS, axis=3)
    assert (joined.output_tensor, joined.input_count) == (LONG, 2)
    gathered = dml.Gather.infer(
        input_tensor=T("int8", (1, 3, 2)), indices_tensor=T("int64", (1, 2, 2)), axis=1, index_dimensions=2
    )
    assert gathered.output_tensor == T("int8", (2, 2, 2))
    single = dml.Gather.infer(
        input_tensor=T("int8", (3, 2)), indices_tensor=T("int64", (1, 1)), axis=0, index_dimensions=0
    )
    assert single.output_tensor == T("int8", (1, 2))
    parts = dml.Split.infer(input_tensor=LONG, output_tensors=PARTS, axis=3)
    assert parts.output_count == 2
    with pytest.raises(TypeError, match="output_tensors"):
        dml.Split.infer(input_tensor=LONG, axis=3)


def test_descriptions_with_numbers_are_told_apart() -> None:
    """0.0 and -0.0 are equal, and NaN is not; what they describe is otherwise."""

    def fill(value: float) -> dml.OperatorDesc:
        return dml.FillValueConstant(output_tensor=T("float32", 2), value_data_type="float32", value=value)

    assert fill(0.0) != fill(-0.0)
    assert fill(float("nan")) == fill(float("nan"))
    assert len({fill(0.0), fill(-0.0), fill(0.0), fill(float("nan")), fill(float("nan"))}) == 3
    assert dml.ScaleBias(1, 0.0) != dml.ScaleBias(1, -0.0)
    assert dml.ScaleBias(0.1, 0).scale == 0.10000000149011612  # a FLOAT


def test_errors_carry_what_a_caller_needs() -> None:
    with pytest.raises(dml.FeatureLevelError) as caught:
        total(input_tensor=T("int64", (2, 2)), output_tensor=T("int64", (2, 2)), axis=0, level="2_1")()
    error = caught.value
    assert error.needed == dml.FeatureLevel("5_0")
    assert (error.subject, error.field, error.value) == (
        "CUMULATIVE_SUMMATION",
        "InputTensor.DataType",
        dml.DataType.INT64,
    )
    assert error.hresult == 0x887A0004
    assert isinstance(error, ValueError)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes: errors cross process pools
    assert str(copy) == str(error)


def test_every_rule_has_the_field_that_it_is_of() -> None:
    with pytest.raises(dml.DescriptionError) as caught:
        make(dml.MeanVarianceNormalization1, **MVN, scale_tensor=T("float32", (5, 3, 3, 5)), epsilon=-1)()
    fields = [fault.field for fault in caught.value.faults]
    assert fields == ["Epsilon", "ScaleTensor.Sizes[0]", "ScaleTensor.Sizes[2]"]


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
