"""Every example of the documents, at every type and level that allows it, through every door."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.engines.cuda import is_interpreted
from anydml.operators.schema.facts import runs_in_place
from anydml.operators.schema.fields import dml_name
from case_oracles import ElementWiseCase, FixedCase
from cases import CASES
from doors import all_through_objects, as_list, through_compiled
from places import get, put, wipe
from reference import fields_of

if TYPE_CHECKING:
    from anydml.operators.schema.facts import LevelSupport
    from case_kinds import Case

pytestmark = pytest.mark.sampled(30, interpreted=8)

AT_EVERY_LEVEL = {
    dml.Slice, dml.Slice1, dml.GatherND, dml.GatherND1, dml.CumulativeSummation, dml.CumulativeProduct,
}  # fmt: skip
IMPLIED = ("DimensionCount", "InputCount", "OutputCount", "ChannelCount", "AxisCount", "QuantizationTensorCount",
           "ActivationDescCount", "RepeatsCount", "ScaleCount")  # fmt: skip
"""What follows from the arrays."""


def levels_of(case: Case) -> list[FeatureLevel]:
    """Every level for the first six operators; for the others, where a row of the table begins, and the one below."""
    levels, begins = list(FeatureLevel), {row.level for row in case.operator.support}
    if case.operator in AT_EVERY_LEVEL:
        return levels
    first = levels.index(min(begins))
    return [level for i, level in enumerate(levels) if level in begins or i == first - 1]


at_its_levels = pytest.mark.parametrize(
    ("case", "level"), [(case, level) for case in CASES for level in levels_of(case)], ids=str
)


class Types(NamedTuple):
    """The types of a case's data, of its indices or lengths, and of its results."""

    data: DataType
    indices: DataType
    result: DataType


def allowed(case: Case, level: FeatureLevel) -> list[Types]:
    """The types that the level takes, for the case's dimension count."""
    row = case.row(level)
    if row is None or case.rank not in next(iter(row.tensors.values())).dimension_counts:
        return []
    return types_of(case, row, level)


def types_of(case: Case, row: LevelSupport, level: FeatureLevel) -> list[Types]:
    """Every type with every type of indices; those that CAST gives go round from level to level."""
    own = row.tensors.get("IndicesTensor", row.tensors.get("SequenceLengthsTensor"))
    data_types = sorted(row.tensors.get(case.data_field, next(iter(row.tensors.values()))).data_types)
    if isinstance(case, FixedCase):
        return [Types(DataType.FLOAT32, DataType.UINT32, DataType.FLOAT32)]
    if isinstance(case, ElementWiseCase):
        output = dml_name(case.operator.output_names()[0])
        other = None if output in case.operator.typed_alike() else max(row.tensors[output].data_types)  # type: ignore[attr-defined]  # an element-wise operator's
        return [Types(t, DataType.UINT32, other or t) for t in data_types]
    index_types = [DataType.UINT32] if own is None else sorted(own.data_types)
    first = list(FeatureLevel).index(level) if case.operator is dml.Cast else 0
    results = [data_types[(first + k) % len(data_types)] for k in range(len(data_types))]
    return [Types(t, i, r) for t, r in zip(data_types, results, strict=True) for i in index_types]


def some(case: Case, found: list[Types], level: FeatureLevel, engine: str) -> list[Types]:
    """What a level runs: all, or its share of what eight levels in a row run.

    Of an element-wise operator other engines than the reference run one type a level: they are checked on random trees.

    Where kernels are interpreted a share is all that there is time for, and for the later operators, most of which
    move bits as the first do, one of them. Of those the level at which a row of the table begins runs all otherwise:
    the other levels of the row run the very same kernels.
    """
    is_early, begins = case.operator in AT_EVERY_LEVEL, level in {row.level for row in case.operator.support}
    takes_all = engine == "reference" or not isinstance(case, ElementWiseCase)
    if takes_all and not is_interpreted() and (begins or is_early):
        return found
    number = list(FeatureLevel).index(level)
    if not takes_all or (is_interpreted() and not is_early):
        return [found[5 * number % len(found)]] if found else []  # of a row's levels each has another type
    return found[number % 8 % max(len(found), 1) :: 8]


def check_results(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for result, expected in zip(got, wanted, strict=True):
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        np.testing.assert_array_equal(result, expected)


def test_every_level_has_the_examples_that_it_should() -> None:
    at_first = {case.name: allowed(case, case.operator.introduced()) for case in CASES}
    # The documents give these examples in fewer dimensions than the operators' first levels take.
    assert [name for name, found in at_first.items() if not found] == [
        "GATHER_ND example 1",
        *(f"GATHER example {number}" for number in range(1, 6)),
        "GATHER_ELEMENTS example 1",
        "SCATTER example 1",
        "SCATTER_ND example 1",
        *(f"REDUCE example {number}" for number in range(1, 4)),
    ]
    level = FeatureLevel.LEVEL_3_0
    assert all(allowed(case, level) for case in CASES if case.operator.introduced() <= level)


@at_its_levels
def test_example_through_every_door(case: Case, level: FeatureLevel, engine: str) -> None:
    device = dml.Device(engine, feature_level=level)
    found = allowed(case, level)
    if not found:
        with pytest.raises(dml.FeatureLevelError, match="needs DML_FEATURE_LEVEL_"):
            device.create_operator(case.desc(DataType.FLOAT32))
    for types in some(case, found, level, engine):
        desc, arrays = case.desc(*types), case.inputs(types.data, types.indices)
        check_results(through_compiled(device, desc, arrays), case.outputs(types.result, types.data))
        check_results(all_through_objects(device, desc, arrays), case.outputs(types.result, types.data))


@at_its_levels
def test_example_through_the_functions_without_padding(case: Case, level: FeatureLevel, engine: str) -> None:
    """The leading 1s that a document writes are left away; the function adds what the level asks for."""
    device = dml.Device(engine, feature_level=level)
    # Without batch dimensions the function takes GATHER_ND, which is there from 2_1 on.
    operator = dml.GatherND if case.attributes.get("batch_dimension_count") == 0 else case.operator
    if (row := case.row(level) if operator is case.operator else dml.support(operator, level)) is None:
        with pytest.raises(dml.FeatureLevelError, match="the operator needs"):
            bare(case, Types(DataType.FLOAT32, DataType.UINT32, DataType.FLOAT32), device)
        return
    for types in some(case, types_of(case, row, level), level, engine):
        check_results(bare(case, types, device), case.bare().outputs(types.result, types.data))


def bare(case: Case, types: Types, device: dml.Device) -> list[np.ndarray]:
    """Call the function on arrays from which the leading 1s are gone."""
    bare_case = case.bare()
    arrays = [put(array, device) for array in bare_case.inputs(types.data, types.indices)]
    return [get(result) for result in as_list(bare_case.call(*arrays, result_type=types.result, device=device))]


@pytest.mark.parametrize("case", [c for c in CASES if c.operator.in_place and c.sources], ids=str)
def test_in_place_through_every_door(case: Case, engine: str) -> None:
    device = dml.Device(engine)
    desc = case.desc(DataType.FLOAT32)
    for run in (functools.partial(case.call, device=device), device.compile(desc)):
        x, *others = (put(array, device) for array in case.inputs(DataType.FLOAT32))
        outs = [x, *others][: len(case.results)]
        assert as_list(run(x, *others, out=outs if len(outs) > 1 else x))[0] is x
        check_results([get(out) for out in outs], case.outputs(DataType.FLOAT32))
    in_place = all_through_objects(device, desc, case.inputs(DataType.FLOAT32), in_place=True)
    check_results(in_place, case.outputs(DataType.FLOAT32))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_in_arrays_of_the_callers(case: Case, engine: str) -> None:
    """Other than what was in them, and where they lie in another order."""
    device, bare_case = dml.Device(engine), case.bare()
    arrays = [put(array, device) for array in bare_case.inputs(DataType.FLOAT32)]
    wanted = bare_case.outputs(DataType.FLOAT32)
    outs = [put(np.full(y.shape[::-1], 99, y.dtype).T, device) for y in wanted]
    given = outs if case.operator.gives_several() or len(outs) > 1 else outs[0]
    back = bare_case.call(*arrays, out=given, device=device)
    assert all(result is out for result, out in zip(as_list(back), outs, strict=True))
    check_results([get(out) for out in outs], wanted)


@pytest.mark.parametrize("case", [c for c in CASES if c.sources], ids=str)
def test_an_input_owned_by_dml(case: Case, engine: str) -> None:
    device, desc = dml.Device(engine), case.desc(DataType.FLOAT32)
    first = next(iter(desc.inputs()))
    tensor = dml.TensorDesc(desc.inputs()[first].data_type, case.x.shape, flags="DML_TENSOR_FLAG_OWNED_BY_DML")
    desc = desc.with_tensors(lambda field, own: tensor if field == first else own)
    x, *others = case.inputs(DataType.FLOAT32)
    wanted = case.outputs(DataType.FLOAT32)
    check_results(all_through_objects(device, desc, [x, *others], owned=True), wanted)
    given = put(x, device)
    run = device.compile(desc).initialize(given)
    wipe(given)  # the operator has a copy of its own
    check_results([get(result) for result in as_list(run(*(put(other, device) for other in others)))], wanted)


def test_the_sizes_that_the_gather_document_works_out() -> None:
    desc = dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", (3, 4, 5, 6, 7)),
        indices_tensor=dml.TensorDesc("uint32", (1, 1, 1, 2, 3)),
        input_dimension_count=5,
        indices_dimension_count=3,
    )
    assert desc.output_tensor.sizes == (1, 1, 2, 6, 7)


@pytest.mark.parametrize("cls", dml.OPERATORS.values(), ids=lambda cls: cls.type.name)
def test_descriptions_have_the_fields_that_the_reference_has(cls: type[dml.OperatorDesc]) -> None:
    fields = [
        (dml_name(field), kind.kind, kind.type) for field, kind in cls.field_types().items() if kind.kind != "extension"
    ]
    documented = fields_of(cls.type.name)
    assert fields == [(fact.name, fact.kind, fact.type) for fact in documented if fact.name not in IMPLIED]
    optional = {dml_name(field.name) for field in dataclasses.fields(cls) if field.default is None}
    assert optional == {fact.name for fact in documented if fact.is_optional}
    named = {fact.name for fact in documented if fact.kind != "attribute"}
    assert all(set(row.tensors) == named for row in cls.support)


def test_support_without_an_operator_is_that_of_all() -> None:
    for level in (FeatureLevel.highest(), FeatureLevel("1_0")):
        found = dml.support(feature_level=level)
        assert found == {kind.name: dml.support(cls, level) for kind, cls in dml.OPERATORS.items()}
    assert all(dml.support().values())


def test_the_facts_are_of_every_operator() -> None:
    kinds, named = set(), [kind for kind in dml.OperatorType if kind is not dml.OperatorType.INVALID]
    for kind in named:
        facts = fields_of(kind.name)
        kinds |= {fact.kind for fact in facts}
        assert len({fact.name for fact in facts}) == len(facts) > 0
        assert isinstance(runs_in_place(kind), bool)
    assert kinds == {"input", "output", "attribute"}


def test_every_operator_says_what_it_takes() -> None:
    """From its first level on and not before; and what few have is run by a case, but for 4 bits: test_blocks.py."""
    assert dml.OPERATORS.keys() == {*dml.OperatorType} - {dml.OperatorType.INVALID}
    for cls in dml.OPERATORS.values():
        found = {level: dml.support(cls, level) for level in FeatureLevel}
        assert [level for level, row in found.items() if row] == [x for x in FeatureLevel if x >= cls.introduced()]
        rows = [row.tensors.values() for row in found.values() if row]
        assert all(tensor.data_types and tensor.dimension_counts for tensors in rows for tensor in tensors)
    takers = {cls.type.name for cls in dml.OPERATORS.values() if _takes(cls, DataType.FLOAT64)}
    of_cases = {
        case.operator.type.name
        for case in CASES
        for level in levels_of(case)
        for types in allowed(case, level)
        if DataType.FLOAT64 in types
    }
    assert takers == of_cases
    assert len(takers) == 32
    for kind in (DataType.INT4, DataType.UINT4):
        assert {cls for cls in dml.OPERATORS.values() if _takes(cls, kind)} == {dml.Quantize, dml.Dequantize}


def _takes(cls: type[dml.OperatorDesc], kind: DataType) -> bool:
    return any(kind in tensor.data_types for row in cls.support for tensor in row.tensors.values())


def test_a_support_table_is_read_as_it_is_written() -> None:
    table = dml.Gather.support
    assert [str(row.level) for row in table] == ["4_1", "3_0", "2_1", "1_0"]
    assert table.row_at(FeatureLevel("2_1")).tensors["IndicesTensor"].data_types == {DataType.UINT32}
    assert table.row_at(FeatureLevel("3_0")).tensors["InputTensor"].dimension_counts == (1, 2, 3, 4, 5, 6, 7, 8)
    assert dml.Join.support.row_at(FeatureLevel("3_0")).tensors["InputTensors"].dimension_counts == (4, 5)
    assert DataType.UINT16 in dml.CumulativeSummation.support.at("2_1").tensors["InputTensor"].data_types  # type: ignore[union-attr]  # the edition of 2021
    assert DataType.UINT16 not in dml.CumulativeProduct.support.at("5_0").tensors["InputTensor"].data_types  # type: ignore[union-attr]  # the level has it
    in_place = {cls.type.name: cls.in_place for cls in dml.OPERATORS.values() if cls.input_names()}
    assert in_place["CUMULATIVE_SUMMATION"]
    assert in_place["ELEMENT_WISE_ADD"]
    assert not in_place["ELEMENT_WISE_LOGICAL_EQUALS"]
    assert sum(in_place.values()) == 76
