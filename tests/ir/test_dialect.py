"""Expressions as source code: an engine of a dialect in NumPy, executed, against the reference; and Triton's table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from agreement import assert_same, run, view
from anydml.core.enums import NUMPY_TYPES, DataType
from anydml.core.memory import HOST, Buffer, numpy_view, reserve_host
from anydml.engines.common.dialect import Dialect, Lines, bits_of, offset
from anydml.engines.common.engine import Engine
from anydml.engines.common.program import Program
from anydml.engines.reference import ReferenceEngine
from anydml.engines.reference.evaluate import _fma, convert
from anydml.ir.expressions import OPERATIONS, const, given, load
from anydml.ir.trees import walk
from anydml.ir.verbs import Map
from trees import Fetched, Trees, fetched_of, room, shape_of, source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.ir.expressions import Expr
    from anydml.ir.verbs import Primitive
    from anydml.ir.views import View

Array = np.ndarray[Any, Any]
TYPES = list(NUMPY_TYPES)
SEEDS = range(30)
MOST = 200

_ANY = {
    "lt": "np.less({0}, {1})", "le": "np.less_equal({0}, {1})", "eq": "np.equal({0}, {1})",
    "where": "np.where({0}, {1}, {2})", "abs": "np.abs({0})",
    "and": "({0} & {1})", "or": "({0} | {1})", "xor": "({0} ^ {1})",
    "shl": "np.left_shift({0}, {1})", "shr": "np.right_shift({0}, {1})",
    "cast": "cast({0}, {source}, {type})", "bits": "np.asarray({0}).view({type})",
    "add": "np.add({0}, {1})", "sub": "np.subtract({0}, {1})", "mul": "np.multiply({0}, {1})",
}  # fmt: skip
NUMPY = Dialect(
    types={None: "np.bool_", **{of: f"np.{of.dtype.name}" for of in DataType}},
    floats=_ANY | {
        "div": "np.true_divide({0}, {1})", "fma": "fma({0}, {1}, {2})", "sqrt": "np.sqrt({0})",
        "neg": "(np.asarray({0}).view({bits}) ^ {sign}).view({type})",
        **{name: f"np.{name}({{0}})" for name in ("floor", "ceil", "trunc", "rint")},
    },
    integers=_ANY | {
        "div": "np.floor_divide({0} - np.fmod({0}, {1}), {1})", "rem": "np.fmod({0}, {1})",
        "neg": "np.subtract({zero}, {0})", "not": "({0} ^ {ones})",
    },
    truths=_ANY | {"not": "np.invert({0})"},
    literal="{type}({value})",
    narrow="np.asarray({0}).astype({type})",
    let="{0} = {1};",  # unlike another value for a name, as languages with declarations have it
    quotient="np.floor_divide({0}, {1})",
    remainder="np.remainder({0}, {1})",
)  # fmt: skip


def cast(number: Any, source: type, target: type) -> Array:
    """A conversion, whose text says from which type."""
    assert np.asarray(number).dtype == source
    return convert(np.asarray(number), np.dtype(target))


class Written(Engine):
    """Maps, each by a function of NumPy's operations whose text was written."""

    name, memory = "reference", HOST  # whose arrays it takes

    def compile(self, primitive: Primitive, constants: frozenset[str] = frozenset()) -> WrittenMap:
        assert isinstance(primitive, Map)
        return WrittenMap(primitive, *written(primitive))

    def reserve(self, size: int) -> Buffer:
        return reserve_host(size)


@dataclass(frozen=True)
class WrittenMap(Program):
    """A map as text."""

    primitive: Map
    text: str
    bits: list[int]

    def bind(self, places: Mapping[str, int]) -> Callable[[], None]:
        space: dict[str, Any] = {"np": np, "cast": cast, "fma": _fma}
        exec(self.text, space)
        memory = [_memory(one, places[one.tensor]) for one in self.primitive.views]
        strides = [one.strides for one in self.primitive.views]

        def dispatch() -> None:
            with np.errstate(all="ignore"):
                space["kernel"](memory, strides, self.primitive.sizes, self.bits)

        return dispatch


def written(primitive: Map) -> tuple[str, list[int]]:
    """The text of a map over running numbers, and the bits of the user's numbers."""
    names = [f"c{k}" for k in range(len(primitive.sizes))]
    lines = Lines(NUMPY)
    lines.say("def kernel(memory, strides, sizes, bits):")
    lines.indent = "    "
    lines.say("number = np.arange(np.prod(sizes, dtype=np.int64))", "here = 0 * number")
    lines.say(*NUMPY.coordinates("number", names[::-1], [f"sizes[{k}]" for k in range(len(names))][::-1]))

    def at(view: int, indices: list[str]) -> str:
        return offset(indices, [f"strides[{view}][{k}]" for k in range(len(indices))], f"here + memory[{view}][1]")

    bits: list[int] = []
    for node in walk(primitive.value):
        if node.op == "load":
            lines.put(node, f"memory[{node.value}][0][{at(int(node.value), names)}]")
        elif node.op == "fetch":
            place = at(int(node.value), [lines.names[arg] for arg in node.args])
            lines.put(node, f"memory[{node.value}][0][{place}]")
        elif node.op == "coordinate":
            lines.put(node, names[int(node.value)])
        elif node.op == "given":
            lines.put(node, NUMPY.from_bits(f"np.int64(bits[{len(bits)}])", node.type))
            bits.append(bits_of(node))
        else:
            lines.operate(node)
    lines.say(f"memory[-1][0][{at(-1, names)}] = {lines.names[primitive.value]}")
    return "\n".join(lines.lines) + "\n", bits


def _memory(of: View, place: int) -> tuple[Array, int]:
    """The memory that a view touches, and where its first element lies there."""
    ends = [(size - 1) * stride for size, stride in zip(of.sizes, of.strides, strict=True)]
    low, high = sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
    first = place + (of.offset + low) * of.data_type.size_in_bytes
    return numpy_view(first, (high - low + 1,), (1,), of.data_type.dtype), -low


def drawn(seed: int) -> tuple[Expr, list[Fetched], tuple[int, ...]]:
    """A random tree, of the type that the seed says, what it reads, and the sizes of the walk."""
    chance = np.random.default_rng(seed)
    sources = [TYPES[k] for k in chance.integers(0, len(TYPES), chance.integers(0, 4))]
    shape = shape_of(chance, MOST)
    elsewhere = fetched_of(chance, shape, TYPES)
    value = Trees(seed, sources, shape, fetched=elsewhere).grow(TYPES[seed % len(TYPES)], 4)
    return value, [*((one, shape) for one in sources), *elsewhere], shape


@pytest.mark.parametrize("seed", SEEDS)
def test_an_engine_of_text_agrees_with_the_reference(seed: int) -> None:
    value, sources, shape = drawn(seed)
    assert value.type is not None
    chance = np.random.default_rng(seed)
    target = room(chance, shape, value.type)
    arrays = {f"source{k}": source(chance, sizes, of) for k, (of, sizes) in enumerate(sources)}
    views = tuple(view(name, array) for name, array in arrays.items())
    primitive = Map(views, view("target", target), value)
    wanted, got = (run(engine, primitive, **arrays, target=target) for engine in (ReferenceEngine(), Written()))
    assert_same(got, wanted, value)


def test_the_trees_are_of_every_operation() -> None:
    assert {*OPERATIONS} <= {node.op for seed in SEEDS for node in walk(drawn(seed)[0])}


def check_whole(dialect: Dialect) -> None:
    """Whether a table has every operation for every kind that it gives, and every type."""
    tests, bitwise = {"lt", "le", "eq"}, {"and", "or", "xor", "not"}
    of_floats = {"fma", "sqrt", "floor", "ceil", "trunc", "rint"}
    of_integers = {"rem", "shl", "shr"} | bitwise
    assert {*OPERATIONS} - tests - of_integers <= {*dialect.floats}
    assert {*OPERATIONS} - tests - of_floats <= {*dialect.integers}
    assert tests | bitwise | {"where"} <= {*dialect.truths}
    assert {None, *NUMPY_TYPES} <= {*dialect.types}


def test_a_dialect_has_every_operation() -> None:
    check_whole(NUMPY)
    with pytest.raises(AssertionError):
        check_whole(replace(NUMPY, floats={name: text for name, text in NUMPY.floats.items() if name != "fma"}))


def test_triton_has_every_operation() -> None:
    pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
    from anydml.engines.cuda.codegen.expressions import TRITON

    check_whole(TRITON)


def test_numbers_without_literals_are_written_by_their_bits() -> None:
    for of, number in ((DataType.FLOAT32, -0.0), (DataType.FLOAT16, np.inf), (DataType.FLOAT64, np.nan)):
        text = NUMPY.constant(const(number, of))
        assert "view" in text
        assert_same(np.asarray(eval(text, {"np": np})), np.array(number, of.dtype))  # noqa: S307 - text of our own
    assert bits_of(given(2**64 - 1, DataType.UINT64)) == -1


def test_declarations_and_updates_are_told_apart() -> None:
    c_like = replace(NUMPY, let="let {0} = {1};", update="{0} = {1};", quotient="{0} / {1}", remainder="{0} % {1}")
    wanted = ["let x = i % 4;", "i = i / 4;", "let y = i % h;", "i = i / h;", "let z = i;"]
    assert c_like.coordinates("i", ["x", "y", "z"], ["4", "h", "d"]) == wanted
    assert c_like.coordinates("i", [], []) == []
    assert offset(["x", "y"], ["1", "4"], "first") == "first + x * 1 + y * 4"
    assert offset([], []) == "0"
    lines = Lines(c_like)
    x = load(0, DataType.FLOAT32)
    lines.put(x, "p[i]")
    lines.operate(x * x)
    assert [lines.once("a"), lines.once("b"), lines.once("a")] == ["v2", "v3", "v2"]
    assert lines.lines[:2] == ["let v0 = p[i];", "let v1 = np.multiply(v0, v0);"]
