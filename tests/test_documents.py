"""Every example of the documents, at every type and level that allows it, through every door."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml import DataType, FeatureLevel
from anydml.engines.cuda import is_interpreted
from anydml.operators.fields import dml_name
from cases import CASES, Case
from doors import through_compiled, through_objects
from places import get, put, wipe

if TYPE_CHECKING:
    from anydml.operators.tables import LevelSupport

FACTS: dict[str, Any] = json.loads((Path(__file__).parent / "facts.json").read_text())
UNSIGNED = [t for t in DataType if not t.is_float and not t.is_signed]


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def allowed(case: Case, level: FeatureLevel) -> list[tuple[DataType, DataType]]:
    """The pairs of a data type and an index type that the level takes, for the case's dimension count."""
    row = dml.support(case.operator, level)
    if row is None or case.x.ndim not in row.tensors["InputTensor"].dimension_counts:
        return []
    return pairs_of(case, row)


def pairs_of(case: Case, row: LevelSupport) -> list[tuple[DataType, DataType]]:
    index_types = row.tensors["IndicesTensor"].data_types if case.indices is not None else {DataType.UINT32}
    return [(t, i) for t in sorted(row.tensors["InputTensor"].data_types) for i in sorted(index_types)]


def some(pairs: list[tuple[DataType, DataType]], level: FeatureLevel) -> list[tuple[DataType, DataType]]:
    """What a level runs: all, or where kernels are interpreted its share, so that eight levels in a row run all."""
    if not is_interpreted():
        return pairs
    first = list(FeatureLevel).index(level) % 8
    return pairs[first % max(len(pairs), 1) :: 8]


def expect(case: Case, data_type: DataType) -> np.ndarray:
    """What the document says, wrapped to the width of a narrow type (products reach 504)."""
    return case.expected.astype(data_type.dtype)


def test_every_level_has_the_examples_that_it_should() -> None:
    at_first = {case.name: allowed(case, case.operator.introduced()) for case in CASES}
    # The document gives this example in two dimensions, which the operator's first level does not take.
    assert [name for name, pairs in at_first.items() if not pairs] == ["GATHER_ND example 1"]
    assert all(allowed(case, FeatureLevel.LEVEL_3_0) for case in CASES if "PRODUCT" not in case.name)


@pytest.mark.parametrize("level", FeatureLevel, ids=str)
def test_example_through_every_door(case: Case, level: FeatureLevel, engine: str) -> None:
    device = dml.Device(engine, feature_level=level)
    pairs = allowed(case, level)
    if not pairs:
        with pytest.raises(dml.FeatureLevelError, match="needs DML_FEATURE_LEVEL_"):
            device.create_operator(case.desc(DataType.FLOAT32))
    for data_type, index_type in some(pairs, level):
        desc, arrays = case.desc(data_type, index_type), case.inputs(data_type, index_type)
        expected = expect(case, data_type)
        by_compiled = through_compiled(device, desc, arrays)
        by_objects = through_objects(device, desc, arrays)
        for result in (by_compiled, by_objects):
            assert result.dtype == data_type.dtype
            np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("level", FeatureLevel, ids=str)
def test_example_through_the_functions_without_padding(case: Case, level: FeatureLevel, engine: str) -> None:
    """The leading 1s that a document writes are left away; the function adds what the level asks for."""
    device = dml.Device(engine, feature_level=level)
    # Without batch dimensions the function takes GATHER_ND, which is there from 2_1 on.
    operator = dml.GatherND if case.attributes.get("batch_dimension_count") == 0 else case.operator
    if (row := dml.support(operator, level)) is None:
        with pytest.raises(dml.FeatureLevelError, match="the operator needs"):
            bare(case, np.float32, np.uint32, device)
        return
    for data_type, index_type in some(pairs_of(case, row), level):
        result = bare(case, data_type.dtype, index_type.dtype, device)
        assert result.dtype == data_type.dtype
        np.testing.assert_array_equal(result, expect(case, data_type).reshape(result.shape))
        assert result.shape == tuple(n for n in case.expected.shape if n != 1)


def bare(case: Case, dtype: Any, index_dtype: Any, device: dml.Device) -> np.ndarray:
    """Call the function on arrays from which the leading 1s are gone."""
    bare_case = case.bare()
    arrays = bare_case.inputs(DataType(dtype), DataType(index_dtype))
    return get(bare_case.call(*(put(array, device) for array in arrays), device=device))


@pytest.mark.parametrize("case", [c for c in CASES if c.operator.in_place], ids=str)
def test_in_place_through_every_door(case: Case, engine: str) -> None:
    device = dml.Device(engine)
    desc, expected = case.desc(DataType.FLOAT32), expect(case, DataType.FLOAT32)
    for run in (functools.partial(case.call, device=device), device.compile(desc)):
        x = put(case.inputs(DataType.FLOAT32)[0], device)
        assert run(x, out=x) is x
        np.testing.assert_array_equal(get(x), expected)
    in_place = through_objects(device, desc, case.inputs(DataType.FLOAT32), in_place=True)
    np.testing.assert_array_equal(in_place, expected)


def test_an_input_owned_by_dml(case: Case, engine: str) -> None:
    device = dml.Device(engine)
    desc = case.desc(DataType.FLOAT32)
    tensor = dml.TensorDesc("float32", case.x.shape, flags="DML_TENSOR_FLAG_OWNED_BY_DML")
    desc = type(desc)(**{**{name: getattr(desc, name) for name in desc.field_types()}, "input_tensor": tensor})
    x, *others = case.inputs(DataType.FLOAT32)
    np.testing.assert_array_equal(through_objects(device, desc, [x, *others], owned=True), case.expected)
    given = put(x, device)
    run = device.compile(desc).initialize(given)
    wipe(given)  # the operator has a copy of its own
    np.testing.assert_array_equal(get(run(*(put(other, device) for other in others))), case.expected)


def test_the_sizes_that_the_gather_document_works_out() -> None:
    desc = dml.GatherND.infer(
        input_tensor=dml.TensorDesc("float32", (3, 4, 5, 6, 7)),
        indices_tensor=dml.TensorDesc("uint32", (1, 1, 1, 2, 3)),
        input_dimension_count=5,
        indices_dimension_count=3,
    )
    assert desc.output_tensor.sizes == (1, 1, 2, 6, 7)


@pytest.mark.parametrize("name", FACTS)
def test_descriptions_say_what_the_reference_says(name: str) -> None:
    facts, cls = FACTS[name], dml.OPERATORS[dml.OperatorType(name)]
    assert cls.introduced() == FeatureLevel(facts["introduced"])
    assert cls.in_place == facts["in_place"]
    assert {row.level for row in cls.support} == {FeatureLevel(row["level"]) for row in facts["support"]}
    extra = {DataType.UINT16} if name == "CUMULATIVE_SUMMATION" else set()  # the edition of 2021
    for row in facts["support"]:
        tensors = cls.support.row_at(FeatureLevel(row["level"])).tensors
        assert list(tensors) == list(row["tensors"])
        for tensor, fact in row["tensors"].items():
            assert list(tensors[tensor].dimension_counts) == fact["dims"]
            assert tensors[tensor].data_types == {DataType(t) for t in fact["types"]} | extra
    fields = [
        {"name": dml_name(field), "kind": kind.kind, "type": kind.type}
        for field, kind in cls.field_types().items()
        if kind.kind != "addition"
    ]
    documented = [{k: v for k, v in field.items() if k != "enum"} for field in facts["fields"]]
    assert fields == [field for field in documented if field["name"] != "DimensionCount"]  # it follows from the arrays
