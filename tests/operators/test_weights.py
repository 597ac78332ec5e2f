"""Products of a few rows with weights of 4 and 8 bits, which they read as they lie."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import anydml as dml
from anydml.arrays.nibbles import pack
from anydml.core.memory import HOST, numpy_address
from anydml.engines import find_engine
from anydml.engines.cpu import schedules
from anydml.engines.cpu.features import IS_ARM, has_feature
from anydml.engines.cpu.quant import weight_only as programs
from anydml.engines.cpu.quant.column_per_lane import END, ColumnPerLane, LaneSums
from anydml.engines.cpu.threads.scratch import workspace
from anydml.graph.passes import constant_folding as constants
from anydml.ir.blocked_weights import SHORT_BLOCK, match_weights
from anydml.ir.verbs import Reduce
from assembled import assembly
from cases import ENGINES

pytestmark = [pytest.mark.judges("GEMM", "DEQUANTIZE"), pytest.mark.sampled(5)]

FEW = 32
LIMITS = {"uint4": (0, 16), "int4": (-8, 8), "uint8": (0, 256), "int8": (-128, 128)}


@pytest.fixture(autouse=True)
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """From how many rows on weights are dequantised is a matter of the CPU and of their bits."""
    kinds = itertools.product((dml.DataType.FLOAT32, dml.DataType.INT8), (4, 8))
    traits = replace(find_engine("cpu").traits, weight_only_rows=dict.fromkeys(kinds, FEW))
    monkeypatch.setattr(find_engine("cpu"), "traits", traits)


class Weights(NamedTuple):
    """A product with quantised weights."""

    kind: str
    rows: int
    columns: int
    length: int
    block: int
    """Of weights that share a scale; all of a column where it is 0."""
    zeros: bool = False
    turned: bool = True
    """Whether the weights lie along the sum."""
    are_inputs: bool = False
    fused: bool = False
    rounded: bool = False
    """Whether the rows are rounded to 8 bits before."""

    def compile(self, engine: str, optimise: bool = True) -> tuple[dml.CompiledGraph, list[Any], Any, Any]:
        """The graph, what it takes, and in float64 what it gives and the sum of the products' sizes."""
        rng = np.random.default_rng([*map(int, self[2:7])])
        low, high = LIMITS[self.kind]
        held = np.int8 if low else np.uint8
        shape = (self.columns, self.length) if self.turned else (self.length, self.columns)
        blocks = list(shape)
        blocks[int(self.turned)] = self.length // (self.block or self.length)
        q, z = rng.integers(low, high, shape).astype(held), rng.integers(low, high, blocks).astype(held)
        s, a = (
            rng.random(blocks).astype("f") + np.float32(0.1),
            rng.standard_normal((self.rows, self.length)).astype("f"),
        )
        g, fed = dml.Graph(engine), [a]

        def tensor(numbers: Any) -> Any:
            is_half = self.kind.endswith("4")
            desc, data = dml.TensorDesc(self.kind, numbers.shape), pack(numbers) if is_half else numbers
            if self.are_inputs:
                fed.append(data)
                return g.input(desc)
            return g.constant(data.tobytes(), desc=desc)

        x = g.input(a)
        if self.rounded:
            by = np.abs(a).reshape(self.rows, -1, self.block or self.length).max(2) / np.float32(127)
            x = dml.dequantize(dml.quantize(x, g.constant(by), data_type="int8"), g.constant(by))
            by = np.repeat(by, self.block or self.length, 1)
            a = np.rint(a / by).astype(float) * by
        parts = [tensor(q), g.constant(s), *([tensor(z)] if self.zeros else [])]
        y = dml.gemm(x, dml.dequantize(*parts), trans_b="transpose" if self.turned else "none")
        bias = np.linspace(-9, 9, self.columns, dtype="f")
        y = dml.relu(y + g.constant(bias)) if self.fused else y
        less: Any = z.astype(int) if self.zeros else 0 if low else high // 2
        long, axis = self.block or self.length, int(self.turned)
        w = (q.astype(int) - (np.repeat(less, long, axis) if self.zeros else less)) * np.repeat(
            s.astype(float), long, axis
        )
        w = w.T if self.turned else w
        exact, size = a.astype(float) @ w, np.abs(a).astype(float) @ np.abs(w)
        return g.compile(y, optimise=optimise), fed, np.maximum(exact + bias, 0) if self.fused else exact, size


def product_of(graph: dml.CompiledGraph) -> Reduce:
    (found,) = (step.primitive for step in graph.recipe.steps if isinstance(step.primitive, Reduce))
    return found


CASES = [
    Weights(kind, *sizes, zeros=zeros, turned=turned)
    for kind in LIMITS
    for sizes, zeros, turned in [
        ((1, 41, 128, 32), False, True), ((1, 6, 96, 0), True, False), ((3, 7, 160, 32), True, True),
        ((2, 66, 256, 64), False, False), ((8, 70, 512, 128), True, False), ((5, 34, 384, 128), False, True),
        ((7, 8, 1088, 32), True, True),
    ]
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_are_read_as_they_lie(case: Weights) -> None:
    made, fed, exact, size = case.compile("cpu")
    assert programs.plan_weight_only(product_of(made)) is not None
    y = made(*fed)
    assert (np.abs(y - exact) <= 1.2e-7 * size).all()
    plain, *_ = case.compile("cpu", optimise=False)
    assert np.array_equal(plain(*fed), y), "the same bits"
    threads = dml.get_num_threads()
    try:
        dml.set_num_threads(3 - min(threads, 2))
        other, *_ = case.compile("cpu")
        assert np.array_equal(other(*fed), y), "for any number of threads"
    finally:
        dml.set_num_threads(threads)
    for same in (case._replace(are_inputs=True), case._replace(fused=True), case._replace(rounded=True)):
        before = y
        made, fed, exact, size = same.compile("cpu")
        y = made(*fed)
        assert not (same.are_inputs and same.turned) or np.array_equal(before, y), "nothing is laid out ahead"
        assert not same.rounded or (
            (found := match_weights(product_of(made))) is not None
            and found.rounded
            and programs.plan_weight_only(product_of(made))
            and np.array_equal(same.compile("cpu", optimise=False)[0](*fed), y)
        )
        assert (np.abs(y - exact) <= 4e-7 * size + 1e-6 * same.fused).all()
        assert not same.fused or (
            made.recipe.steps[-1].primitive is product_of(made) and programs.plan_weight_only(product_of(made))
        )


@pytest.mark.parametrize("rows", [1, 3])
def test_results_in_another_order(rows: int) -> None:
    """As heads of attention are: columns that lie apart."""
    rng = np.random.default_rng(rows)
    g = dml.Graph("cpu")
    q, s = rng.integers(-8, 8, (24, 64)).astype("int8"), rng.random((24, 2)).astype("f")
    a = rng.standard_normal((rows, 64)).astype("f")
    y = dml.gemm(g.input(a), dml.dequantize(g.constant(q), g.constant(s)), trans_b="transpose")
    heads = dml.identity(y.reinterpret((4, rows, 6), (6, 24, 1)) * 2)
    made = g.compile(heads)
    assert len(made.recipe.steps) == 1
    assert programs.plan_weight_only(product_of(made)) is not None
    weights = q * np.repeat(s.astype(float), 32, 1)
    exact, room = (2 * x.astype(float) @ w.T for x, w in ((a, weights), (abs(a), abs(weights))))
    error = abs(made(a) - exact.reshape(rows, 4, 6).swapaxes(0, 1))
    assert (error <= 2e-7 * room.reshape(rows, 4, 6).swapaxes(0, 1)).all()


@pytest.mark.parametrize("engine", [engine for engine in ENGINES if engine != "cpu"])
@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_other_engines_have_what_they_stand_for(case: Weights, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though they know the product as well."""
    rows = [row for row in schedules.SCHEDULES[Reduce] if not row.with_constants]
    monkeypatch.setitem(schedules.SCHEDULES, Reduce, rows)
    made, fed, exact, size = case.compile(engine)
    assert match_weights(product_of(made)) is None
    assert (np.abs(made(*fed) - exact) <= 4e-7 * size).all()
    own = find_engine(engine)
    if own.memory != HOST:
        return
    merged, *_ = case.compile("cpu")
    places = {name: merged._constants.places[name] for name, s in merged.recipe.stores.items() if s.kind == "constant"}
    y = np.empty_like(fed[0], shape=exact.shape)
    for step in merged.recipe.steps:
        if step.target.tensor == "output0":
            bound = {**places, "input0": numpy_address(fed[0]), "output0": numpy_address(y)}
            own.compile(step.primitive).bind(bound)()
            assert (np.abs(y - exact) <= 4e-7 * size).all()


@pytest.mark.parametrize("lanes", [4, 8])
def test_cpus_without_dot_instructions(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "has_dots", lambda _: False)
    monkeypatch.setattr(programs, "_lanes", lambda: lanes)
    monkeypatch.setattr(programs, "columns_of_panel", lambda _: 0)
    for case in CASES[2::7] + CASES[::7]:
        made, fed, exact, size = case.compile("cpu")
        assert (np.abs(made(*fed) - exact) <= 1.2e-7 * size).all(), case


@pytest.mark.skipif(IS_ARM or not has_feature("avx2"), reason="it is written for an x86's bytes")
@pytest.mark.parametrize("lanes", [8, 16])
def test_columns_of_a_lane_each(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Laid out ahead or turned as they are read: the same bits, for rows and panels that are left over too."""
    if lanes == 16 and not has_feature("avx512bw"):
        pytest.skip("this CPU has no such vectors")
    monkeypatch.setattr(programs, "columns_of_panel", lambda bits: lanes if bits == 4 else 0)
    monkeypatch.setattr(
        find_engine("cpu"), "traits", replace(find_engine("cpu").traits, weight_only_blocks={4: SHORT_BLOCK})
    )
    for case in (
        Weights("uint4", 2, 80, 128, 32), Weights("int4", 13, 37, 256, 64, zeros=True),
        Weights("uint4", 9, 41, 176, 16, zeros=True),
    ):  # fmt: skip
        for one in (case, case._replace(rounded=True)):
            made, fed, exact, size = one.compile("cpu")
            assert "prepacking" in made.plan.ahead.did({})
            y = made(*fed)
            assert (np.abs(y - exact) <= 1.2e-7 * size).all(), one
            others, fed, *_ = one._replace(are_inputs=True).compile("cpu")
            assert np.array_equal(others(*fed), y), one
        most, fed, *_ = case._replace(rows=FEW).compile("cpu")
        with monkeypatch.context() as patch:
            patch.setattr(programs, "get_num_threads", lambda: 16)
            patch.setattr(programs, "SMALL", 0)
            others, *_ = case._replace(rows=FEW).compile("cpu")
        assert np.array_equal(most(*fed), others(*fed)), "units of fewer rows"
        many, fed, exact, size = case._replace(rows=FEW + 1).compile("cpu")
        with monkeypatch.context() as patch:
            patch.setattr(constants, "MOST_READ_OFTEN", -1)
            lean, *_ = case._replace(rows=FEW + 1).compile("cpu")
        assert np.array_equal(lean(*fed), many(*fed)), "many rows read the same layout"


@pytest.mark.parametrize("kind", ["uint4", "int4", "uint8"])
def test_rounded_rows_are_read_as_such_however_many(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the bits that a few of them have; on a CPU that takes others for many, those are as near."""
    traits = find_engine("cpu").traits
    traits = replace(traits, weight_only_rows={**traits.weight_only_rows, (dml.DataType.INT8, 4): 2**40})
    monkeypatch.setattr(find_engine("cpu"), "traits", traits)
    case = Weights(kind, FEW + 9, 37, 256, 64, zeros=True, rounded=True)
    made, fed, exact, size = case.compile("cpu")
    found = match_weights(product_of(made))
    assert (found is not None and found.rounded is not None) is (kind != "uint8")
    y = made(*fed)
    assert (np.abs(y - exact) <= 4e-7 * size).all()
    few, some, *_ = case._replace(rows=3).compile("cpu")
    assert kind == "uint8" or np.array_equal(few(*some), y[:3])
    plain, *_ = case._replace(rounded=False).compile("cpu")
    assert match_weights(product_of(plain)) is None


@pytest.mark.parametrize("kind", ["uint4", "int4"])
def test_bytes_of_a_portion_have_room(kind: str) -> None:
    """The least byte of rows times the most that a weight is: sums of a portion are exact."""
    g, most = dml.Graph("cpu"), LIMITS[kind][1] - 1
    by, a = g.constant(np.ones((2, 2), "f")), np.full((2, 64), -128, "f")
    x = dml.dequantize(dml.quantize(g.input(a), by, data_type="int8"), by)
    desc = dml.TensorDesc(kind, (16, 64))
    held = g.constant(pack(np.full((16, 64), most, np.uint8)).tobytes(), desc=desc)
    zeros = g.constant(bytes(16), desc=dml.TensorDesc(kind, (16, 2)))
    w = dml.dequantize(held, g.constant(np.ones((16, 2), "f")), zeros)
    made = g.compile(dml.gemm(x, w, trans_b="transpose"))
    assert (found := match_weights(product_of(made)))
    assert found.rounded
    assert np.all(made(a) == -128 * most * 64)


def test_long_columns_of_a_lane_each_have_room() -> None:
    assert workspace().size >= END
    case = Weights("uint4", 6, 33, 32 * 1024, 128, zeros=True)
    made, fed, exact, size = case.compile("cpu")
    assert (np.abs(made(*fed) - exact) <= 1.2e-7 * size).all()


@pytest.mark.parametrize(
    "shape", [ColumnPerLane(5, 4, 16, False, False, 8, False), ColumnPerLane(8, 2, 16, True, True, 0, False)], ids=str
)
def test_sums_of_a_lane_each_stay_in_registers(shape: ColumnPerLane) -> None:
    """A store for each sum at the start, after a portion and in the end, and no more: none is put down between."""
    lines = assembly(LaneSums(shape).write(), "x86_64-unknown-linux-gnu", "skylake-avx512").splitlines()
    stores = [
        line for line in lines if line.lstrip().startswith(("vmovaps\t%zmm", "vmovups\t%zmm")) and line.endswith(")")
    ]
    assert len(stores) == 6 * shape.rows * shape.panels


@pytest.mark.parametrize(
    "case",
    [
        Weights("uint4", FEW + 1, 16, 64, 32), Weights("int4", 1, 8, 100, 20), Weights("int8", 1, 8, 48, 16),
        Weights("uint4", 2, 8, 64, 32, turned=False, are_inputs=True),
    ],
    ids=str,
)  # fmt: skip
def test_others_are_dequantised_before(case: Weights) -> None:
    """Many rows, blocks that are short, and what does not lie along the sum and is no constant."""
    made, fed, exact, size = case.compile("cpu")
    assert match_weights(product_of(made)) is None
    assert (np.abs(made(*fed) - exact) <= 4e-7 * size).all()


@pytest.mark.parametrize("kind", ["uint4", "int8"])
def test_many_weights_are_unpacked_as_they_are_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By products of many rows: with the bits of weights that are unpacked once."""
    for case in (
        Weights(kind, FEW + 1, 41, 384, 128), Weights(kind, FEW + 9, 80, 1088, 32, zeros=True, fused=True),
        Weights(kind, FEW + 5, 66, 96, 0), Weights(kind, FEW + 2, 40, 144, 16, fused=True),
    ):  # fmt: skip
        made, fed, exact, size = case.compile("cpu")
        with monkeypatch.context() as patch:
            patch.setattr(constants, "MOST_READ_OFTEN", -1)
            lean, *_ = case.compile("cpu")
        assert not any(step.target.data_type.is_float for step in lean.once.steps)
        assert lean.temporary_size == 0
        y = lean(*fed)
        assert np.array_equal(y, made(*fed)), case
        assert (np.abs(y - exact) <= 4e-7 * size + 1e-6 * case.fused).all(), case


def test_others_are_unpacked_at_every_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where two columns share a byte, into memory that products share."""
    case = Weights("uint4", FEW + 1, 32, 64, 32, turned=False)
    made, fed, *_ = case.compile("cpu")
    assert made.once.steps
    assert made.temporary_size == 0
    monkeypatch.setattr(constants, "MOST_UNPACKED", 4 * 32 * 64 - 1)
    lean, *_ = case.compile("cpu")
    assert lean.temporary_size >= 4 * 32 * 64
    assert np.array_equal(lean(*fed), made(*fed))


def test_a_result_that_others_read_is_computed() -> None:
    g = dml.Graph("cpu")
    w = dml.dequantize(g.constant(np.ones((8, 64), "int8")), g.constant(np.ones((8, 2), "float32")))
    made = g.compile([dml.gemm(g.input(np.ones((1, 64), "f")), w, trans_b="transpose"), w])
    y, same = made(np.ones((1, 64), "float32"))
    assert np.all(y == 64)
    assert np.all(same == 1)


@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(("length", "zeros"), [(128, False), (160, True)])
@pytest.mark.parametrize("by_digits", [False, True])
def test_numbers_that_have_no_digits(
    kind: str, length: int, zeros: bool, by_digits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Infinities and NaN give what they give in FLOAT32; whole numbers are exact, and so are zeros."""
    if by_digits:
        monkeypatch.setattr(programs, "columns_of_panel", lambda _: 0)
    case = Weights(kind, 4, 9, length, 32, zeros=zeros)
    made, *_ = case.compile("cpu")
    plain, *_ = case._replace(rows=FEW + 4).compile("cpu")
    rng = np.random.default_rng(1)
    a = rng.integers(-1000, 1000, (4, length)).astype("f")
    a[1, 40], a[2, 3], a[3] = np.inf, np.nan, 0
    y, wanted = made(a), plain(np.concatenate([a, np.zeros((FEW, length), "f")]))[:4]
    np.testing.assert_array_equal(np.isnan(y), np.isnan(wanted))
    np.testing.assert_array_equal(y[1], wanted[1])
    assert np.isinf(y[1]).any()
    assert np.isnan(y[2]).all()
    assert not y[3].any()


def test_large_and_small_numbers() -> None:
    case = Weights("uint4", 4, 9, 128, 32)
    made, fed, exact, size = case.compile("cpu")
    for scale in (1e30, 1e-28, 2.0**-100):
        y = made(fed[0] * np.float32(scale))
        assert (np.abs(y - exact * scale) <= 2e-7 * size * scale).all(), scale
    most = np.full((4, 128), np.finfo("f").max)
    assert np.isfinite(made(most * np.float32(1e-4))).all()
    assert not np.isnan(made(most)).all()
