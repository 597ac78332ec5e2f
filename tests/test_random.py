"""Random descriptions: valid ones give what the oracle gives, bit for bit; broken ones raise errors of the family."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
import oracle
from agreement import assert_agrees, assert_same, bits
from breakages import ALWAYS_WRONG, Broken, breakages_of, broken
from cases import ENGINES
from gpu import OnGpu
from places import WIPED, get, get_bytes, is_on_gpu, put, put_bytes
from strategies import OPERATORS, Array, Case, Operator, Tensor, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Values: TypeAlias = dict[oracle.Coordinate, Any]

IS_CI = bool(os.environ.get("CI"))
# Where every example costs a kernel's compilation, or its interpretation.
FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))
# Tests of equal length, several for each operator, so that workers share them evenly.
SHARDS = range(2 if FEW else 6 if IS_CI else 1)
GUARD = 32
PERSISTENT_ALIGNMENT = 256

# Hypothesis's own profile for CI would try the same examples every time.
random_settings = settings(deadline=None, derandomize=False, print_blob=True)
VALID = settings(random_settings, max_examples=FEW or (560 if IS_CI else 250))
BROKEN = settings(random_settings, max_examples=840 if IS_CI else 84)
EXACT = settings(random_settings, max_examples=FEW or (500 if IS_CI else 100))


def name_of(value: object) -> str:
    return value.type.name if isinstance(value, type) and issubclass(value, dml.OperatorDesc) else str(value)


each_operator = pytest.mark.parametrize("cls", OPERATORS, ids=name_of)
all_engines = pytest.mark.parametrize("engines", [ENGINES], ids="+".join)
"""In one test, so that what is drawn serves them all."""


# Memory


@dataclass(slots=True)
class Memory:
    """One buffer with every tensor of a case in it, sentinels between and within them."""

    raw: Array
    tensors: dict[str, Tensor]
    starts: dict[str, int]
    there: Any = None
    """The same bytes on a GPU, which tensors are then bound in."""

    @classmethod
    def of(cls, case: Case, engine: str) -> Memory:
        starts: dict[str, int] = {}
        size = GUARD
        shift = -(-case.shift // 8) * 8 if is_on_gpu(engine) else case.shift  # a GPU takes whole elements alone
        for name, tensor in case.tensors.items():
            if case.is_in_place and name == "output_tensor":
                starts[name] = starts["input_tensor"]
                continue
            starts[name] = size + shift
            size += -(-(shift + tensor.total_bytes) // 16) * 16 + GUARD
        memory = cls(_aligned_bytes(size), case.tensors, starts)
        for name, content in case.contents.items():
            where = case.tensors[name].places
            memory.elements(name)[where] = content[where]
        if is_on_gpu(engine):
            memory.there = put_bytes(memory.raw)
        return memory

    def elements(self, name: str) -> Array:
        """The elements that a tensor spans, gaps included."""
        tensor, start = self.tensors[name], self.starts[name]
        width = tensor.data_type.size_in_bytes
        return self.raw[start : start + tensor.extent * width].view(tensor.data_type.dtype)

    def array(self, name: str, *, is_written: bool = False) -> Any:
        """A tensor as an array, laid out as described."""
        tensor, start = self.tensors[name], self.starts[name]
        dtype = tensor.data_type.dtype
        steps = tuple(stride * dtype.itemsize for stride in tensor.element_strides)
        if self.there is not None:
            data = (self.there.data_ptr() + start, not is_written)
            return OnGpu(tensor.sizes, typestr=dtype.str, strides=steps, data=data)
        array = np.ndarray(tensor.sizes, dtype, self.raw, start, steps)
        array.flags.writeable = is_written
        return array

    def binding(self, name: str) -> dml.BufferBinding:
        """A tensor as a range of the buffer."""
        where = self.raw if self.there is None else self.there
        return dml.BufferBinding(where, self.starts[name], self.tensors[name].total_bytes)

    def come_back(self) -> None:
        """Fetch what was written on a GPU."""
        if self.there is not None:
            self.raw[...] = np.frombuffer(get_bytes(self.there), np.uint8)

    def wipe(self, name: str) -> None:
        """Overwrite a tensor's elements with the sentinel."""
        bits(self.elements(name))[self.tensors[name].places] = int.from_bytes(
            bytes([WIPED] * self.tensors[name].data_type.size_in_bytes)
        )
        if self.there is not None:
            self.there.copy_(put_bytes(self.raw))


def _aligned_bytes(size: int) -> Array:
    whole = np.full(size + 64, WIPED, np.uint8)
    first = -whole.__array_interface__["data"][0] % 64
    return whole[first : first + size]


# Running


def run(case: Case, memory: Memory, engine: str) -> Array:
    """Run it by its door; the output's elements in the order of their coordinates."""
    output = case.tensors["output_tensor"]
    try:
        result = (run_on_table if case.door == "table" else run_on_arrays)(case, memory, engine)
    finally:
        memory.come_back()
    if result is not None:
        assert result.shape == output.sizes
        assert result.dtype == output.data_type.dtype
        return result.ravel()
    return memory.elements("output_tensor")[output.places]


def run_on_arrays(case: Case, memory: Memory, engine: str) -> Array | None:
    """Compile and call with arrays; the result, where it is not in the memory."""
    device = dml.Device(engine, feature_level=case.level)
    compiled = device.compile(case.description())
    owned = [name for name, tensor in case.tensors.items() if tensor.is_owned]
    if owned:
        compiled.initialize(*(memory.array(name) for name in owned))
        for name in owned:
            memory.wipe(name)
    inputs = [memory.array(name) for name in case.contents if name not in owned]
    if case.door == "call":
        return get(compiled(*inputs))
    output = memory.array("output_tensor", is_written=True)
    if case.is_in_place:
        inputs = [output]
    assert compiled(*inputs, out=output) is output
    return None


def run_on_table(case: Case, memory: Memory, engine: str) -> Array | None:
    """Bind raw buffers, record and execute: the way of DirectML itself."""
    device = dml.Device(engine, feature_level=case.level)
    compiled = device.compile_operator(device.create_operator(case.description()))
    commands, recorder = device.create_command_list(), device.create_command_recorder()
    initializer = device.create_operator_initializer([compiled])
    table = device.create_binding_table(initializer)
    given_inputs = [None if case.tensors[name].is_owned else memory.binding(name) for name in case.contents]
    owned = [memory.binding(name) if case.tensors[name].is_owned else None for name in case.contents]
    size = compiled.binding_properties.persistent_resource_size
    room = bytearray(PERSISTENT_ALIGNMENT + size)
    where = put_bytes(room) if is_on_gpu(device) else room
    persistent = dml.BufferBinding(where, PERSISTENT_ALIGNMENT, size)
    if any(owned):
        table.bind_inputs([owned])
        table.bind_outputs([persistent])
    recorder.record_dispatch(commands, initializer, table)
    table.reset(compiled)
    table.bind_inputs(given_inputs)
    table.bind_outputs([memory.binding("output_tensor")])
    if any(owned):
        table.bind_persistent_resource(persistent)
    recorder.record_dispatch(commands, compiled, table)
    device.execute(commands)
    return None


# Expecting


def expected(case: Case, engine: str) -> Array:
    """What the oracle says, in the order of the output's coordinates."""
    source, target = case.tensors["input_tensor"], case.tensors["output_tensor"]
    is_copy = case.cls not in (dml.CumulativeSummation, dml.CumulativeProduct)
    content = case.contents["input_tensor"]
    values = _tensor(source, bits(content) if is_copy else content)
    result = _ORACLES[case.cls](case, values, engine)
    ordered = [result[coordinate] for coordinate in oracle.coordinates(target.sizes)]
    assert len(ordered) == len(result)
    return np.array(ordered, bits(content).dtype if is_copy else content.dtype)


def _tensor(tensor: Tensor, content: Array) -> Values:
    return oracle.tensor(tensor.sizes, content[tensor.places].tolist())


def _slice(case: Case, values: Values, engine: str) -> Values:
    return oracle.slice_(values, **case.attributes)


def _slice1(case: Case, values: Values, engine: str) -> Values:
    offsets, sizes, strides = case.attributes.values()
    return oracle.slice1(values, offsets, sizes, strides, case.tensors["output_tensor"].sizes)


def _gather(case: Case, values: Values, engine: str) -> Values:
    tensor = case.tensors["indices_tensor"]
    indices = _tensor(tensor, case.contents["indices_tensor"])
    counts = dict(case.attributes)
    clamp = counts.pop("index_mode") is dml.IndexMode.CLAMP
    return oracle.gather_nd(values, case.tensors["input_tensor"].sizes, indices, tensor.sizes, clamp=clamp, **counts)


def _tally(function: oracle.Function) -> Callable[[Case, Values, str], Values]:
    def tally(case: Case, values: Values, engine: str) -> Values:
        source = case.tensors["input_tensor"]
        axis, direction, exclusive = case.attributes.values()
        decreasing = direction is dml.AxisDirection.DECREASING
        number = oracle.Apart if engine == "cuda" and function == "product" else float
        return oracle.cumulative(
            values,
            source.sizes,
            axis,
            function,
            source.data_type.name,
            decreasing=decreasing,
            exclusive=exclusive,
            number=number,
        )

    return tally


_ORACLES: dict[Operator, Callable[[Case, Values, str], Values]] = {
    dml.Slice: _slice,
    dml.Slice1: _slice1,
    dml.GatherND: _gather,
    dml.GatherND1: _gather,
    dml.CumulativeSummation: _tally("sum"),
    dml.CumulativeProduct: _tally("product"),
}


def check_answer(case: Case, got: Array, wanted: Array, engine: str) -> None:
    """Bit for bit, where an engine adds and multiplies one by one as the oracle does."""
    if engine == "cuda":
        assert_agrees(case.cls, case.contents["input_tensor"], got, wanted)
    else:
        assert_same(got, wanted)


# Valid descriptions


@pytest.mark.parametrize("shard", SHARDS)
@each_operator
@all_engines
@VALID
@given(data=st.data())
def test_a_valid_description_gives_what_the_oracle_gives(
    cls: Operator, shard: int, engines: list[str], data: st.DataObject
) -> None:
    case = data.draw(cases(cls))
    for engine in engines:
        memory = Memory.of(case, engine)
        before = memory.raw.copy()
        try:
            wanted = expected(case, engine)
        except oracle.OutsideError as outside:
            check_index_error(case, memory, outside, engine)
        else:
            check_answer(case, run(case, memory, engine).view(wanted.dtype), wanted, engine)
        check_other_bytes(case, memory, before)


def check_other_bytes(case: Case, memory: Memory, before: Array) -> None:
    """Whatever is not an element of the output is as it was."""
    memory, untouched = (Memory(raw, memory.tensors, memory.starts) for raw in (memory.raw, before))
    names = [name for name, tensor in case.tensors.items() if tensor.is_owned and case.door != "table"]
    for name in ("output_tensor", *names):
        memory.wipe(name)
        untouched.wipe(name)
    assert np.array_equal(memory.raw, untouched.raw)


def check_index_error(case: Case, memory: Memory, outside: oracle.OutsideError, engine: str) -> None:
    """An index outside its dimension is an error that names the first such tuple, and nothing is written."""
    with pytest.raises(dml.IndexRangeError) as caught:
        run(case, memory, engine)
    assert caught.value.value == outside.indices
    assert f"[{', '.join(map(str, outside.position))}]" in str(caught.value) or not outside.position
    assert f"dimension {outside.dimension} of size {outside.size}" in str(caught.value)
    where = case.tensors["output_tensor"].places
    assert (bits(memory.elements("output_tensor"))[where].copy().view(np.uint8) == WIPED).all()


# Broken descriptions


@each_operator
@BROKEN
@given(data=st.data())
def test_a_broken_description_raises_an_error_of_the_family(cls: Operator, data: st.DataObject) -> None:
    description = data.draw(broken(cls))
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


def _typical(cls: Operator) -> Case:
    """A valid description with nothing odd about it."""
    data_type = dml.DataType.FLOAT32
    sizes = (1, 2, 3, 4)
    tensors = {"input_tensor": Tensor(data_type, sizes), "output_tensor": Tensor(data_type, sizes)}
    attributes: dict[str, Any] = {"axis": 3, "axis_direction": "increasing"}
    if cls in (dml.GatherND, dml.GatherND1):
        tensors = {
            "input_tensor": Tensor(data_type, sizes),
            "indices_tensor": Tensor(dml.DataType.UINT32, (1, 2, 3, 1)),
            "output_tensor": Tensor(data_type, (1, 2, 3, 4) if cls is dml.GatherND1 else (2, 3, 3, 4)),
        }
        attributes = {"input_dimension_count": 3, "indices_dimension_count": 3, "index_mode": "raise"}
        if cls is dml.GatherND1:
            attributes["batch_dimension_count"] = 1
    elif cls is dml.Slice:
        attributes = {"offsets": [0] * 4, "sizes": list(sizes), "strides": [1] * 4}
    elif cls is dml.Slice1:
        names = ("input_window_offsets", "input_window_sizes", "input_window_strides")
        attributes = dict(zip(names, ([0] * 4, list(sizes), [-1] * 4), strict=True))
    else:
        attributes["has_exclusive_sum" if cls is dml.CumulativeSummation else "has_exclusive_product"] = False
    return Case(cls, dml.FeatureLevel.highest(), tensors, attributes, {})


@each_operator
def test_what_is_broken_below_was_valid_before(cls: Operator) -> None:
    operator = Broken(_typical(cls), (), 0).create()
    assert operator.desc == _typical(cls).description()


@pytest.mark.parametrize(("cls", "breakage"), [(cls, b) for cls in OPERATORS for b in breakages_of(cls)], ids=name_of)
def test_a_typical_breakage_raises(cls: Operator, breakage: str) -> None:
    for seed in range(60):
        with pytest.raises(dml.DmlError) as caught:
            Broken(_typical(cls), (breakage,), seed).create()
        check_error(caught.value)


def test_every_breakage_concerns_some_operator() -> None:
    assert {breakage for cls in OPERATORS for breakage in breakages_of(cls)} == set(ALWAYS_WRONG)


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


# The oracle itself, on the documents' examples


def _grid(rows: Sequence[Sequence[int]]) -> dict[oracle.Coordinate, int]:
    return oracle.tensor((1, 1, len(rows), len(rows[0])), [value for row in rows for value in row])


SQUARE = _grid([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]])
TALLIED = _grid([[2, 1, 3, 5], [3, 8, 7, 3], [9, 6, 2, 4]])


def test_the_oracle_slices_as_the_documents_do() -> None:
    assert oracle.slice_(SQUARE, (0, 0, 1, 2), (1, 1, 3, 2), (1, 1, 1, 1)) == _grid([[7, 8], [11, 12], [15, 16]])
    assert oracle.slice_(SQUARE, (0, 0, 1, 0), (1, 1, 2, 2), (1, 1, 2, 3)) == _grid([[5, 8], [13, 16]])
    window, output = ((0, 0, 0, 1), (1, 1, 4, 3)), (1, 1, 2, 2)
    assert oracle.slice1(SQUARE, *window, (1, 1, 2, 2), output) == _grid([[2, 4], [10, 12]])
    assert oracle.slice1(SQUARE, *window, (1, 1, -2, 2), output) == _grid([[14, 16], [6, 8]])


def test_the_oracle_gathers_as_the_documents_do() -> None:
    square, column = oracle.tensor((2, 2), [0, 1, 2, 3]), oracle.tensor((2, 1), [1, 0])
    assert oracle.gather_nd(square, (2, 2), column, (2, 1), 2, 2) == oracle.tensor((2, 2), [2, 3, 0, 1])
    cube, pairs = oracle.tensor((1, 2, 2, 2), range(8)), oracle.tensor((1, 1, 2, 2), [0, 1, 1, 0])
    result = oracle.gather_nd(cube, (1, 2, 2, 2), pairs, (1, 1, 2, 2), 3, 2)
    assert result == oracle.tensor((1, 1, 2, 2), [2, 3, 4, 5])
    batches = oracle.tensor((1, 3, 2, 2), [0, 0, 1, 1, 1, 1, 0, 0, 0, 1, 1, 0])
    result = oracle.gather_nd(oracle.tensor((1, 3, 2, 2), range(12)), (1, 3, 2, 2), batches, (1, 3, 2, 2), 3, 3, 1)
    assert result == oracle.tensor((1, 1, 3, 2), [0, 3, 7, 4, 9, 10])


def test_the_oracle_reads_negative_indices_and_clamps() -> None:
    row = oracle.tensor((3,), [10, 11, 12])
    for index, value in ((-1, 12), (-3, 10)):
        assert oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1) == {(0,): value}
    for index, value in ((-4, 10), (3, 12), (2**64 - 1, 12), (-(2**63), 10)):
        assert oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1, clamp=True) == {(0,): value}
        with pytest.raises(oracle.OutsideError):
            oracle.gather_nd(row, (3,), {(0,): index}, (1,), 1, 1)


@pytest.mark.parametrize(
    ("function", "axis", "decreasing", "exclusive", "rows"),
    [
        ("sum", 3, False, False, [[2, 3, 6, 11], [3, 11, 18, 21], [9, 15, 17, 21]]),
        ("sum", 3, False, True, [[0, 2, 3, 6], [0, 3, 11, 18], [0, 9, 15, 17]]),
        ("sum", 3, True, False, [[11, 9, 8, 5], [21, 18, 10, 3], [21, 12, 6, 4]]),
        ("sum", 2, False, False, [[2, 1, 3, 5], [5, 9, 10, 8], [14, 15, 12, 12]]),
        ("product", 3, False, False, [[2, 2, 6, 30], [3, 24, 168, 504], [9, 54, 108, 432]]),
        ("product", 3, False, True, [[1, 2, 2, 6], [1, 3, 24, 168], [1, 9, 54, 108]]),
        ("product", 3, True, False, [[30, 15, 15, 5], [504, 168, 21, 3], [432, 48, 8, 4]]),
        ("product", 2, False, False, [[2, 1, 3, 5], [6, 8, 21, 15], [54, 48, 42, 60]]),
    ],
)
def test_the_oracle_tallies_as_the_documents_do(
    function: oracle.Function, axis: int, decreasing: bool, exclusive: bool, rows: list[list[int]]
) -> None:
    for data_type in ("FLOAT32", "INT32"):
        result = oracle.cumulative(
            TALLIED, (1, 1, 3, 4), axis, function, data_type, decreasing=decreasing, exclusive=exclusive
        )
        assert result == _grid(rows)


def test_the_oracle_wraps_integers() -> None:
    assert oracle.wrapped(2**31, "INT32") == -(2**31)
    assert oracle.wrapped(-1, "UINT16") == 2**16 - 1
    assert oracle.wrapped(2**64 + 5, "UINT64") == 5
    assert oracle.wrapped(-(2**63) - 1, "INT64") == 2**63 - 1


@given(numerator=st.integers(-(2**41), 2**41), denominator=st.sampled_from((2**25, 2**26, 3 * 2**24)))
@settings(random_settings, max_examples=100)
def test_the_oracle_rounds_fractions_to_float16(numerator: int, denominator: int) -> None:
    number = Fraction(numerator, denominator)
    nearest = oracle.float16_of(number)
    if denominator != 3 * 2**24:  # in float64 exactly, so the other way of rounding has nothing to round twice
        assert nearest == oracle.rounded(float(number), "FLOAT16")
    if abs(number) < 65520:
        with np.errstate(over="ignore"):
            neighbours = np.nextafter(np.float16(nearest), np.array([-np.inf, np.inf], np.float16))
        for neighbour in (float(value) for value in neighbours if np.isfinite(value)):
            assert abs(number - Fraction(nearest)) <= abs(number - Fraction(neighbour))
    else:
        assert nearest == (np.inf if number > 0 else -np.inf)
