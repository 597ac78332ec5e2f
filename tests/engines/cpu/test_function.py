"""The builder of kernel functions: small functions, compiled and run."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anydml.engines.cpu.codegen.function import Function, link
from anydml.engines.cpu.features import load_llvm, make_machine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def run() -> Iterator[Any]:
    """run(text, *arguments): the function `kernel` of i64, called with arrays' addresses and numbers."""
    engines = []

    def call(text: str, *args: Any, result: Any = None) -> Any:
        llvm = load_llvm()
        module = llvm.parse_assembly(text)
        module.verify()
        engine = llvm.create_mcjit_compiler(module, make_machine())
        engines.append(engine)
        engine.finalize_object()
        given = [arg.ctypes.data if isinstance(arg, np.ndarray) else arg for arg in args]
        kind = ctypes.CFUNCTYPE(result, *[ctypes.c_int64] * len(given))
        return kind(engine.get_function_address("kernel"))(*given)

    yield call
    engines.clear()


def test_loop_that_carries_values(run: Any) -> None:
    f = Function("kernel", "numbers count", "i64")
    numbers, count = f.args
    state = {"sum": f.value(0, "i64"), "most": f.value(-(2**62), "i64")}
    with f.loop(0, count, carry=state) as i:
        one = f.load("i64", numbers + i * 8)
        state["sum"] += one
        state["most"] = f.max(state["most"], one)
    text = f.end(state["sum"] * 1000 + state["most"])
    given = np.array([3, 9, 4], np.int64)
    assert run(text, given, 3, result=ctypes.c_int64) == 16009
    assert run(text, given, 1, result=ctypes.c_int64) == 3003
    assert run(text, given, 0, result=ctypes.c_int64) == -(2**62)


@pytest.mark.parametrize("is_entered", [False, True])
def test_nested_loops(run: Any, is_entered: bool) -> None:
    f = Function("kernel", "rows columns", "i64")
    rows, columns = f.args
    total, weight = [f.value(0, "i64")], [f.value(1, "i64")]
    with f.loop(1, rows + 1, carry=(total, weight), is_entered=is_entered) as i:
        with f.loop(0, columns, 2, carry=total, is_entered=is_entered) as j:
            total[0] += (i * 10 + j) * weight[0]
        weight[0] *= 3
    wanted = sum((i * 10 + j) * 3 ** (i - 1) for i in range(1, 5) for j in range(0, 7, 2))
    assert run(f.end(total[0]), 4, 7, result=ctypes.c_int64) == wanted


def test_loop_that_is_left(run: Any) -> None:
    """The first place of a number, and how many were even before it; the count where it is not there."""
    f = Function("kernel", "numbers count wanted", "i64")
    numbers, count, wanted = f.args
    even, at = [f.value(0, "i64")], [f.value(0, "i64")]
    with f.loop(0, count, carry=(even, at)) as i:
        one = f.load("i64", numbers + i * 8)
        f.leave_if(one.eq(wanted))
        with f.when((one % 2).eq(0), carry=even):
            even[0] += 1
        at[0] = i + 1
    text = f.end(at[0] * 100 + even[0])
    given = np.array([4, 5, 6, 7, 8], np.int64)
    assert [run(text, given, 5, number, result=ctypes.c_int64) for number in (4, 7, 8, 9)] == [0, 302, 402, 503]


def test_loop_without_a_count(run: Any) -> None:
    f = Function("kernel", "n", "i64")
    state = {"n": f.args[0], "steps": f.value(0, "i64")}
    with f.forever(carry=state):
        f.leave_if(state["n"].eq(1))
        with f.either((state["n"] & 1).eq(1), carry=state) as (odd, even):
            with odd:
                state["n"] = state["n"] * 3 + 1
            with even:
                state["n"] >>= 1
        state["steps"] += 1
    assert run(f.end(state["steps"]), 27, result=ctypes.c_int64) == 111


def test_arms_that_return(run: Any) -> None:
    f = Function("kernel", "n", "i64")
    (n,) = f.args
    with f.either(n < 0) as (yes, no):
        with yes:
            f.ret(-1)
        with no, f.when(n > 9):
            f.ret(9)
    assert [run(f.end(n), k, result=ctypes.c_int64) for k in (-5, 3, 12)] == [-1, 3, 9]


@pytest.mark.parametrize("scalar", ["i8", "half", "float", "double"])
def test_tails_of_every_count(run: Any, scalar: str) -> None:
    """Neither is more read than there is, nor more written."""
    kind = {"i8": np.int8, "half": np.float16, "float": np.float32, "double": np.float64}[scalar]
    f = Function("kernel", "source target count")
    source, target, count = f.args
    mask = f.tail_mask(count, 8)
    f.store(f.load(f"<8 x {scalar}>", source, mask=mask), target, mask=mask)
    text = f.end()
    given = np.arange(1, 9).astype(kind)
    for some in range(9):
        found = np.full(8, 99, kind)
        run(text, given, found, some)
        assert found.tolist() == [*given[:some].tolist(), *[99] * (8 - some)]


@pytest.mark.parametrize("there", [range(8), range(3), range(2, 5), range(0)])
def test_lanes_that_are_known(run: Any, there: range) -> None:
    f = Function("kernel", "source target other")
    source, target, other = f.args
    f.store(f.load("<8 x i32>", source, mask=there), target)
    f.store(f.load("<8 x i32>", source), other, mask=there)
    text, given = f.end(), np.arange(1, 9, dtype=np.int32)
    assert ("masked" in text) == (there != range(8))
    found, written = np.full(8, 99, np.int32), np.full(8, 99, np.int32)
    run(text, given, found, written)
    assert found.tolist() == [given[k] if k in there else 0 for k in range(8)]
    assert written.tolist() == [given[k] if k in there else 99 for k in range(8)]


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_transpose(run: Any, lanes: int) -> None:
    for rows in (1, lanes // 2, lanes - 1, lanes):
        f = Function("kernel", "source target")
        source, target = f.args
        given = [f.load(f"<{lanes} x float>", source + 4 * lanes * i) for i in range(rows)]
        for j, column in enumerate(f.transpose(given)):
            f.store(column, target + 4 * rows * j, mask=range(rows))
        matrix = np.arange(rows * lanes, dtype=np.float32).reshape(rows, lanes)
        found = np.zeros((lanes, rows), np.float32)
        run(f.end(), matrix, found)
        assert (found == matrix.T).all()


def test_operators(run: Any) -> None:
    f = Function("kernel", "a b target")
    a, b, target = f.args
    made = [a + b, a - b, 7 - a, a * b, 3 * a, a // b, a % b, a & b, a | b, a ^ b, a << 2, a >> 1, -a, ~a]
    made += [f.min(a, b), f.max(a, 50), f.select(a < b, a, 0), f.select(a.eq(b), 1, b), f.cast("sext", a > b, "i64")]
    for k, one in enumerate(made):
        f.store(one, target + 8 * k)
    found = np.zeros(len(made), np.int64)
    run(f.end(), 23, 5, found)
    wanted = [28, 18, -16, 115, 69, 4, 3, 23 & 5, 23 | 5, 23 ^ 5, 92, 11, -23, ~23, 5, 50, 0, 5, -1]
    assert found.tolist() == wanted


def test_vectors_of_floats(run: Any) -> None:
    f = Function("kernel", "source target")
    source, target = f.args
    x, y = f.load("<4 x float>", source), f.splat(f.load("float", source + 8), 4)
    two = f.value(2.0, "<4 x float>")
    results = [
        x + y,
        x - 1.0,
        x * two,
        x / y,
        -x,
        f.fmuladd(x, y, two),
        f.select(x < y, x, y),
        f.shuffle(x, y, [3, 0, 4, 1]),
    ]
    for k, one in enumerate(results):
        f.store(one, target + 16 * k)
    f.store(f.reduce("fadd", x, 0.5), target + 16 * len(results))
    f.store(f.insert(x, f.extract(x, 3), 0), target + 16 * len(results) + 4)
    given = np.array([1, 2, 4, 8], np.float32)
    found = np.zeros(4 * len(results) + 5, np.float32)
    run(f.end(), given, found)
    rows = [given + 4, given - 1, given * 2, given / 4, -given, given * 4 + 2, [1, 2, 4, 4], [8, 1, 4, 2]]
    assert found.tolist() == [*np.array(rows).ravel().tolist(), 15.5, 8, 2, 4, 8]


def test_memory_that_threads_share(run: Any) -> None:
    f = Function("kernel", "words", "i64")
    (words,) = f.args
    before = f.atomic_update("add", words, 5)
    is_taken = f.compare_exchange(words + 8, 0, 1)
    is_refused = f.compare_exchange(words + 8, 0, 2)
    f.store(f.load("i64", words, atomic="acquire"), words + 16, atomic="release")
    both = f.cast("zext", is_taken, "i64") * 10 + f.cast("zext", is_refused, "i64")
    given = np.array([7, 0, 0], np.int64)
    assert run(f.end(before * 100 + both), given, result=ctypes.c_int64) == 710
    assert given.tolist() == [12, 1, 12]


def test_stack_and_calls(run: Any) -> None:
    """Memory is reserved once, however often a loop comes past."""
    helper = Function("private_double", "at")
    helper.store(helper.load("i64", helper.args[0]) * 2, helper.args[0])
    f = Function("kernel", "count", "i64")
    with f.loop(0, f.args[0]):
        word = f.stack("i64")
        f.store(1, word, align=8)
    place = f.address(f.stack("i64", 4))
    f.store(21, place)
    f.invoke("@private_double", place)
    text = link(helper.end(), f.end(f.load("i64", place)))
    assert run(text, 10**6, result=ctypes.c_int64) == 42


def test_declarations_are_linked_once(run: Any) -> None:
    parts = []
    for name in ("kernel", "other"):
        f = Function(name, "x", "i64")
        parts.append(f.end(f.overloaded("ctpop", f.args[0])))
    assert run(link(*parts), 255, result=ctypes.c_int64) == 8


def test_no_value_is_a_condition_of_pythons() -> None:
    f = Function("kernel", "n")
    with pytest.raises(TypeError, match="not known when a kernel is written"):
        bool(f.args[0] < 3)


def test_rotated_loop(run: Any) -> None:
    """A loop whose test stands at its end, with one before it: none, one and several iterations."""
    f = Function("kernel", "start stop", "i64")
    start, stop = f.args
    total = [f.value(0, "i64")]
    with f.rotated_loop(start, stop, 3, carry=total) as i:
        total[0] = total[0] * 100 + i
    text = f.end(total[0])
    assert [run(text, *each, result=ctypes.c_int64) for each in ((5, 5), (6, 5), (4, 5), (2, 9))] == [0, 0, 4, 20508]


def test_region_that_is_left(run: Any) -> None:
    """Rows of numbers searched for one: its row and column; from two loops and a branch there is one way out."""
    f = Function("kernel", "numbers rows columns wanted", "i64")
    numbers, rows, columns, wanted = f.args
    found = [f.value(-1, "i64")]
    with f.region(carry=found) as leave:
        with f.loop(0, rows) as row, f.rotated_loop(0, columns) as column:
            one = f.load("i64", numbers + (row * columns + column) * 8)
            with f.when(one.eq(wanted)):
                found[0] = row * 10 + column
                leave()
        found[0] = f.value(-2, "i64")
    text = f.end(found[0])
    given = np.arange(12, dtype=np.int64)
    assert [run(text, given, 3, 4, number, result=ctypes.c_int64) for number in (0, 6, 11, 12)] == [0, 12, 23, -2]


def test_blocks_that_are_joined(run: Any) -> None:
    """Three ways to one block, each with a number: what the translation of Python is written by."""
    f = Function("kernel", "number", "i64")
    (number,) = f.args
    small, rest, large, done = (f.label(name) for name in ("small", "rest", "large", "done"))
    f.branch(number < 10, small, rest)
    f.open(small)
    ends = [(f.block, [number * 2])]
    f.go(done)
    f.open(rest)
    ends.append((f.block, [f.value(7, "i64")]))
    f.branch(number < 100, done, large)
    f.open(large)
    ends.append((f.block, [number]))
    f.go(done)
    f.open(done)
    text = f.end(f.join(ends)[0])
    assert [run(text, number, result=ctypes.c_int64) for number in (4, 50, 200)] == [8, 7, 200]


def test_lanes_of_two_places(run: Any) -> None:
    """The first lanes from one place, and the others from another."""
    f = Function("kernel", "first second target count")
    first, second, target, count = f.args
    mask = f.tail_mask(count, 4)
    one = f.load("<4 x i32>", first, mask=mask)
    f.store(f.load("<4 x i32>", second, mask=~mask, otherwise=one), target)
    text, found = f.end(), np.zeros(4, np.int32)
    for some in range(5):
        run(text, np.arange(4, dtype=np.int32), np.arange(10, 14, dtype=np.int32), found, some)
        assert found.tolist() == [*range(some), *range(10 + some, 14)]
