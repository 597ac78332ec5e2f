"""Random descriptions: valid ones give what the oracle gives, bit for bit; broken ones raise errors of the family."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
import oracle
from agreement import assert_same, bits
from breakages import Broken, breakages_of, broken, typical
from breaking import ALWAYS_WRONG, EVERY
from cases import ENGINES
from drawing import OPERATORS, Array, Case, Operator
from families import copies
from families.elementwise import ELEMENT_WISE
from families.table import FAMILIES, MEMBERS, cases
from places import WIPED, get, put
from running import Memory, check_other_bytes, run

pytestmark = [pytest.mark.sampled(6), pytest.mark.check_bounds]

IS_CI = bool(os.environ.get("CI"))
# Where every example costs a kernel's compilation, or its interpretation.
FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))

# Hypothesis's own profile for CI would try the same examples every time.
random_settings = settings(deadline=None, derandomize=False, print_blob=True)
# Tests of equal length, several for each operator, so that workers share them evenly.
SHARDS = range(2 if IS_CI and not FEW else 1)
MANY = settings(random_settings, max_examples=FEW * 4 // 5 or (100 if IS_CI else 40))
FEWER = settings(random_settings, max_examples=max(FEW // 10, 1) if FEW else (10 if IS_CI else 3))
BROKEN = settings(random_settings, max_examples=120 if IS_CI else 34)
EXACT = settings(random_settings, max_examples=FEW or (150 if IS_CI else 40))


def name_of(value: object) -> str:
    return value.type.name if isinstance(value, type) and issubclass(value, dml.OperatorDesc) else str(value)


REST = tuple(cls for cls in ELEMENT_WISE if cls not in OPERATORS)
"""The element-wise operators, which are drawn like one another."""
each_operator = pytest.mark.parametrize(
    "classes",
    [*((cls,) for cls in OPERATORS), REST[::3], REST[1::3], REST[2::3]],
    ids=lambda several: name_of(several[0]),
)
BLOCKS = (dml.Quantize, dml.Dequantize)
"""`test_blocks.py` draws these."""
COPYING = list(copies.FAMILY.operators)
COMPUTING = [
    cls
    for family in FAMILIES
    for cls in family.operators
    if family is not copies.FAMILY and (family.is_drawn_on_cuda or "cuda" not in ENGINES) and cls not in BLOCKS
]
"""There are many, and much of what they do is shared."""
all_engines = pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
"""In one test, so that what is drawn serves them all."""


# Valid descriptions


@pytest.mark.parametrize("shard", SHARDS)
@pytest.mark.parametrize("cls", COPYING, ids=name_of)
@all_engines
@MANY
@given(data=st.data())
def test_copies_give_what_the_oracle_gives(cls: Operator, shard: int, engines: list[str], data: st.DataObject) -> None:
    check_answers(data.draw(cases(cls)), engines)


@pytest.mark.parametrize("cls", COMPUTING, ids=name_of)
@all_engines
@FEWER
@given(data=st.data())
def test_what_computes_gives_what_the_oracle_gives(cls: Operator, engines: list[str], data: st.DataObject) -> None:
    check_answers(data.draw(cases(cls)), engines)


def check_answers(case: Case, engines: list[str]) -> None:
    """Within the tolerance of the operator's family, and with every other byte of memory as it was."""
    family = MEMBERS[case.cls]
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        try:
            wanted = family.wanted(case, engine)
        except oracle.OutsideError as outside:
            check_index_error(case, memory, outside, engine)
        else:
            family.check(case.description(), list(run(case, memory, engine)), wanted, engine)
        check_other_bytes(case, memory, before)


def check_index_error(case: Case, memory: Memory, outside: oracle.OutsideError, engine: str) -> None:
    """An index outside its dimension is an error that names the first such tuple, and nothing is written."""
    with pytest.raises(dml.IndexRangeError) as caught:
        run(case, memory, engine)
    assert caught.value.value == outside.indices
    assert f"[{', '.join(map(str, outside.position))}]" in str(caught.value) or not outside.position
    what = f"dimension {outside.dimension}" if "input_dimension_count" in case.attributes else "the axis"
    assert f"is outside {what} of size {outside.size}; take" in str(caught.value)
    where = case.tensors["output_tensor"].places
    assert (bits(memory.elements("output_tensor"))[where].copy().view(np.uint8) == WIPED).all()


# Broken descriptions


@each_operator
@BROKEN
@given(data=st.data())
def test_a_broken_description_raises_an_error_of_the_family(classes: tuple[Operator, ...], data: st.DataObject) -> None:
    description = data.draw(broken(data.draw(st.sampled_from(classes))))
    try:
        made = description.create()
    except dml.DmlError as error:
        check_error(error)
    else:
        assert not description.must_raise
        assert isinstance(made, dml.Operator)


def check_error(error: dml.DmlError) -> None:
    assert str(error).strip()
    assert len(str(error).splitlines()) == (1 if len(error.faults) == 1 else 1 + len(error.faults))
    assert isinstance(error.hresult, int)
    assert error.faults


@pytest.mark.parametrize("cls", EVERY, ids=name_of)
def test_a_typical_breakage_raises(cls: Operator) -> None:
    case = typical(cls)
    assert Broken(case, (), 0).create().desc == case.description()
    for breakage in breakages_of(cls):
        for seed in range(24 if cls in OPERATORS else 3):
            with pytest.raises(dml.DmlError) as caught:
                Broken(case, (breakage,), seed).create()
            check_error(caught.value)


def test_every_breakage_concerns_some_operator() -> None:
    assert {breakage for cls in EVERY for breakage in breakages_of(cls)} == set(ALWAYS_WRONG)


# FLOAT16 sums are exact until they are written


@st.composite
def finite_float16(draw: st.DrawFn) -> Array:
    """Finite numbers of any size, from a handful to hundreds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, largest = draw(st.integers(1, 150)), draw(st.integers(0, 30))
    # The exponents up to the largest: with a small one, sums stay far from infinity.
    magnitudes = rng.integers(0, (largest + 1) * 2**10, count, np.uint16)
    signs = rng.integers(0, 2, count, np.uint16) * np.uint16(0x8000)
    return (magnitudes | signs).view(np.float16)


@all_engines
@EXACT
@given(values=finite_float16(), direction=st.sampled_from(dml.AxisDirection), exclusive=st.booleans())
def test_a_float16_sum_is_the_exact_one_rounded_once(
    engines: list[str], values: Array, direction: dml.AxisDirection, exclusive: bool
) -> None:
    decreasing = direction is dml.AxisDirection.DECREASING
    wanted = oracle.exact_float16_sums(values.tolist(), decreasing=decreasing, exclusive=exclusive)
    for engine in engines:
        got = get(dml.cumulative_summation(put(values, engine), 0, direction, exclusive, device=engine))
        assert_same(got, np.array(wanted, np.float16))
