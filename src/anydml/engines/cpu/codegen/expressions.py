"""Code generation for expression trees: each node a vector operation of LLVM IR, conversions between element types, and
nodes that are computed only where a lane asks for them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from anydml.core.enums import DataType
from anydml.engines.cpu.features import IS_ARM, rounds_to_float16
from anydml.ir.expressions import const
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Function, Value
    from anydml.ir.expressions import Expr

# The nodes of an expression as text of LLVM, each a vector: a line for most, and nothing left to optimise.
#
# Equal nodes are one object, and are written once.


_SIGNED = {"div": "sdiv", "rem": "srem", "shr": "ashr"}
_UNSIGNED = {"div": "udiv", "rem": "urem", "shr": "lshr"}
_CALLS = {"fma": "fma", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven"}
_SATURATED = {"i8", "u8", "i16", "u16", "i32", "u32"}
"""The types that an Arm converts float32 to as `Map` says: the nearest end of the range, and 0 for NaN. 96 planes of
56 x 56, convolved and quantised, take 0.53 ms so, and 0.59 with the comparisons that an x86 needs."""
_TESTS = {"lt": ("olt", "slt", "ult"), "le": ("ole", "sle", "ule"), "eq": ("oeq", "eq", "eq")}


def kind_of(data_type: DataType | None) -> str:
    """A type as kernels name it: `f16`, `i32`, `u8`; a truth value is `u1`."""
    if data_type is None:
        return "u1"
    letter = "f" if data_type.is_float else "i" if data_type.is_signed else "u"
    return f"{letter}{data_type.size_in_bytes * 8}"


def scalar_text(kind: str) -> str:
    """A kind's type in LLVM."""
    return {"f64": "double", "f32": "float", "f16": "half"}.get(kind) or f"i{kind[1:]}"


def vector_type(node: Expr, lanes: int) -> str:
    """The type of a node's vectors."""
    return f"<{lanes} x {scalar_text(kind_of(node.type))}>"


def _is_above(node: Expr) -> Expr | None:
    """The test a < b of `(a < b) | isnan(…)`, where one of the two is a constant and the other may be NaN."""
    test, other = node.args
    if test.op != "lt" or other.op != "not" or other.args[0].op != "eq" or kind_of(test.args[0].type)[0] != "f":
        return None
    checked, same = other.args[0].args
    numbers = [arg.value for arg in test.args if arg is not checked and arg.op == "const"]
    is_limit = checked is same and checked in test.args and len(numbers) == 1 and not math.isnan(numbers[0])
    return test if is_limit else None


def _limit(node: Expr) -> str | None:
    """`maximum` or `minimum`, where it is that with a constant: one instruction, but of two zeros an x86's may take
    the first, and an Arm's takes the larger or the smaller."""
    test, a, b = node.args
    if test.op != "or" or (found := _is_above(test)) is None or b.op != "const":
        return None
    for name, args, sign in (("maximum", (b, a), 1), ("minimum", (a, b), -1)):
        if found.args == args and (b.value or (IS_ARM and math.copysign(1, b.value) == sign)):
            return name
    return None


def _write_limit(f: Function, name: str, value: Value, limit: Value) -> Value:
    """An x86's instruction gives the second where one is NaN, as LLVM knows it: the limit if that is beyond."""
    if IS_ARM:
        return f.overloaded(name, value, limit)
    return f.select(value < limit if name == "maximum" else value > limit, limit, value)


def _is_positive_part(node: Expr) -> bool:
    """Whether it is -0.0 where a float is below 0, and the float elsewhere: one instruction of an Arm."""
    test, a, b = node.args
    is_zero = a.op == "const" and a.value == 0 and math.copysign(1, a.value) < 0
    return IS_ARM and is_zero and test.op == "lt" and test.args[0] is b and test.args[1] is const(0.0, b.type)


def _copies_sign(node: Expr) -> tuple[Expr, Expr] | None:
    """The floats of `(bits of a & 0x7FFFFFFF) | (bits of b & 0x80000000)`, which is one instruction of an Arm."""
    if node.op != "bits" or node.type is not DataType.FLOAT32 or node.args[0].op != "or":
        return None
    found = []
    for part, mask in zip(node.args[0].args, (0x7FFFFFFF, 0x80000000), strict=True):
        if part.op != "and" or part.args[1].op != "const" or part.args[1].value != mask or part.args[0].op != "bits":
            return None
        found.append(part.args[0].args[0])
    return (found[0], found[1]) if all(arg.type is node.type for arg in found) else None


def _half_of_product(node: Expr) -> tuple[Expr, int] | None:
    """A product of 64 bits and which half of it is taken: LLVM would multiply once more for the lower, half as wide."""
    source = node.args[0]
    if kind_of(node.type) not in ("u32", "i32") or kind_of(source.type) != "u64":
        return None
    if source.op == "mul":
        return source, 0
    is_upper = source.op == "shr" and source.args[0].op == "mul" and source.args[1].op == "const"
    return (source.args[0], 1) if is_upper and source.args[1].value == 32 else None


def write_node(f: Function, node: Expr, found: Mapping[Expr, str], lanes: int) -> Value:
    """A constant or an operation, given the values of its arguments, and of theirs."""

    def value_of(one: Expr) -> Value:
        return f.value(found[one], vector_type(one, lanes))

    op, kind, vector = node.op, kind_of(node.type), vector_type(node, lanes)
    if op == "const":
        return f.value(node.value, vector)
    args, of = [value_of(arg) for arg in node.args], kind_of(node.args[0].type)
    if op in _TESTS:
        return f.compare(_TESTS[op]["fiu".index(of[0])], *args)
    if op == "or" and (test := _is_above(node)):
        return f.compare("ult", *map(value_of, test.args))
    if op == "where" and (limit := _limit(node)):
        return _write_limit(f, limit, *args[1:])
    if op == "where":
        return f.overloaded("maximum", *args[1:]) if _is_positive_part(node) else f.select(*args)
    if op == "bits" and (both := _copies_sign(node)) and all(arg in found for arg in both):
        return f.overloaded("copysign", *map(value_of, both))
    if op == "bits":
        return f.bitcast(args[0], vector)
    if op == "cast" and (half := _half_of_product(node)) is not None:
        halves = f.bitcast(value_of(half[0]), f"<{2 * lanes} x i32>")
        return f.shuffle(halves, None, range(half[1], 2 * lanes, 2))
    if op == "cast" and IS_ARM and of == "f32" and kind in _SATURATED:
        name = f"fpto{'s' if kind[0] == 'i' else 'u'}i.sat.v{lanes}i{kind[1:]}.v{lanes}f32"
        return f.intrinsic(name, args[0], result=vector)
    if op == "cast":
        return convert(f, args[0], of, kind)
    if op == "not":
        return ~args[0]
    if op == "neg":
        return -args[0]
    if op == "abs":
        if kind[0] == "f":
            return f.overloaded("fabs", args[0])
        return f.intrinsic(f"abs.v{lanes}i{kind[1:]}", args[0], f.value(0, "i1")) if kind[0] == "i" else args[0]
    if op == "fma" and IS_ARM and args[2].startswith("splat"):
        args[2] = f.number(args[2])
    if op in _CALLS:
        return f.overloaded(_CALLS[op], *args)
    return f.binary((_SIGNED if kind[0] == "i" else _UNSIGNED if kind[0] == "u" else {}).get(op, op), *args)


# Conversions between element types, of one number or of a vector. A kind of elements is a letter and bits.


def convert(f: Function, value: Value, source: str, target: str) -> Value:
    """A value as Direct3D converts it: see `Map`."""
    if source == target:
        return value
    if source[0] == target[0] == "f":
        if target < source:
            return _round(f, value, target)
        value = f.cast("fpext", value, "float")  # not at once to float64: code for that would call what is not there
        return f.cast("fpext", value, scalar_text(target))
    if source[0] == "f":
        return _to_whole(f, value, target)
    if target[0] == "f":  # float16 by float32, which rounds no integer below 65,520; from there on all are infinite
        number = f.cast("sitofp" if source[0] == "i" else "uitofp", value, "double" if target == "f64" else "float")
        return f.cast("fptrunc", number, scalar_text(target))
    if int(target[1:]) <= int(source[1:]):
        return f.cast("trunc", value, scalar_text(target))
    return f.cast("sext" if source[0] == "i" else "zext", value, scalar_text(target))


def _round(f: Function, value: Value, target: str) -> Value:
    """A float as a narrower one, rounded once."""
    if value.scalar == "double" and target == "f16" and not rounds_to_float16():
        value = _round_to_odd(f, value)
    return f.cast("fptrunc", value, scalar_text(target))


def _to_whole(f: Function, value: Value, target: str) -> Value:
    """Brought into the range first: LLVM has a conversion that does it, but by the element on an x86.

    32 bits from float32, 16 M of them, take 36 ms so, and 15 by the vector (two threads of a Xeon).
    """
    if value.scalar == "half":
        value = f.cast("fpext", value, "float")
    signed, bits = target[0] == "i", int(target[1:])
    above = 2 ** (bits - signed)
    # The last float of the range: above it is none, or only ones whose fractions are cut off.
    last = above - max(1, above >> (53 if value.scalar == "double" else 24))
    low, high = (f.value(float(number), value.type) for number in (-above if signed else 0, last))
    # Apart for an unsigned type too: of the rest LLVM makes an Arm's one instruction, which takes a signalling NaN on.
    number = f.select(f.compare("ord", value, value), value, f.value(0.0, value.type))
    number = f.select(number > low, number, low)
    number = f.select(number < high, number, high)
    if bits < 32:
        return f.cast("trunc", f.cast("fptosi", number, "i32"), scalar_text(target))
    whole = f.cast("fptosi" if signed else "fptoui", number, scalar_text(target))
    return whole if last == above - 1 else f.select(value >= float(above), f.value(above - 1, whole.type), whole)


def _round_to_odd(f: Function, value: Value) -> Value:
    """A float64 as float32, rounded so that rounding it on to float16 gives what rounding once would.

    Most x86 have no instruction from float64 to float16. A value between two float32 goes to the one whose last bit
    is 1, which no later rounding takes for a tie.
    """

    def magnitude(double: Value) -> Value:
        return f.cast("bitcast", double, "i64") & (2**63 - 1)

    nearest = f.cast("fptrunc", value, "float")
    back = f.cast("fpext", nearest, "double")
    bits = f.cast("bitcast", nearest, "i32")
    too_far = f.compare("ugt", magnitude(back), magnitude(value))
    odd = bits + f.select(too_far, f.value(-1, bits.type), f.value(1, bits.type))
    wrong = (bits & 1).eq(0) & back.ne(value)
    return f.cast("bitcast", f.select(wrong, odd, bits), "float")


# Nodes that a tree needs rarely: computed where a lane of the vector asks for it.
#
# `where` computes both of its choices, but nobody sees it where all lanes take the second: sin reduces arguments from
# 2^16 on by 60 operations in integers, and takes a third of the time without them. The tree is written twice, with and
# without: as one block each, gelu takes 2.75 ns an element where blocks that are joined again take 2.95.


MANY = 24
"""Nodes from which on a branch is less."""
FEW = 12
"""Nodes that make a second choice: fewer take the place of a result where there is none, as NaN does, and are the rare
ones."""


class Rare(NamedTuple):
    """The nodes that only the first choices of one test need."""

    test: Expr
    choices: frozenset[Expr]
    """Every `where` of the test."""
    nodes: frozenset[Expr]
    """The nodes that nothing else needs."""


def find_rare(nodes: Sequence[Expr]) -> Rare | None:
    """The most that a test saves, if it is much."""
    if len(nodes) <= 2 * MANY:
        return None
    tests = {node.args[0]: None for node in nodes if node.op == "where"}
    return max(filter(None, (_of_test(nodes, test) for test in tests)), key=lambda rare: len(rare.nodes), default=None)


def _of_test(nodes: Sequence[Expr], test: Expr) -> Rare | None:
    rare, usual = _only_by(nodes, test, 1), _only_by(nodes, test, 2)
    if len(rare) < MANY or len(usual) < FEW:
        return None
    return Rare(test, frozenset(node for node in nodes if _is_choice(node, test)), frozenset(rare))


def _only_by(nodes: Sequence[Expr], test: Expr, place: int) -> list[Expr]:
    """The nodes that nothing needs but the first, or the second, choices of a test."""
    kept = {nodes[-1]}
    for node in reversed(nodes):
        if node in kept:
            kept.update(arg for k, arg in enumerate(node.args) if k != place or not _is_choice(node, test))
    return [node for node in nodes if node not in kept]


def _is_choice(node: Expr, test: Expr) -> bool:
    return node.op == "where" and node.args[0] is test


# A tree of an expression: node after node, and twice where much of it is rare.


def write_tree(
    f: Function,
    nodes: Sequence[Expr],
    found: dict[Expr, str],
    lanes: int,
    fetch: Callable[[Expr, Sequence[str]], str] | None = None,
) -> Value:
    """A tree, its nodes each after its arguments, into the values found so far, its leaves' among them. The last's.

    It may end in another block than it begins in. Fetches that are not found are written by `fetch`.
    """

    def write(some: Iterable[Expr], names: dict[Expr, str]) -> None:
        for node in some:
            if node in names:
                continue
            if node.op == "fetch" and fetch is not None:
                names[node] = fetch(node, [names[arg] for arg in node.args])
            else:
                names[node] = write_node(f, node, names, lanes)

    def value_of(node: Expr, names: dict[Expr, str]) -> Value:
        return f.value(names[node], vector_type(node, lanes))

    last, rare = nodes[-1], find_rare(nodes)
    if rare is None:
        write(nodes, found)
        return value_of(last, found)
    test = None
    if rare.test not in found:  # of one that is, computed before a loop, the arguments may be nowhere any more
        write(walk(*rare.test.args, known=found), found)
        test = _write_extreme(f, rare.test, found, lanes)
    if test is None:
        write([rare.test], found)
        test = f.reduce("or", value_of(rare.test, found))
    result = [f.zero(vector_type(last, lanes))]
    with f.either(test, carry=result) as (asked, usual):
        with asked:
            names = dict(found)
            write(nodes, names)
            result[0] = value_of(last, names)
        with usual:  # no lane asks for what is rare: choices are the second
            names = dict(found)
            for node in nodes:
                if node in rare.choices and node not in rare.nodes:
                    names[node] = names[node.args[2]]
                elif node not in rare.nodes:
                    write([node], names)
            result[0] = value_of(last, names)
    found[last] = result[0]
    return result[0]


def _write_extreme(f: Function, test: Expr, found: dict[Expr, str], lanes: int) -> Value | None:
    """Whether the least, or the largest, of an Arm's floats passes a test with a constant; None for other tests.

    That is one comparison, where each lane for itself would be four, and their truths packed: gelu takes 0.97 of the
    time. A NaN counts as passing.
    """
    kind = kind_of(test.args[0].type) if test.args else ""
    if not IS_ARM or test.op != "lt" or kind not in ("f32", "f64") or all(arg.op != "const" for arg in test.args):
        return None
    a, b = test.args
    name, sign, value, limit = ("fminimum", "ult", a, b) if b.op == "const" else ("fmaximum", "ugt", b, a)
    one = f.reduce(name, f.value(found[value], vector_type(value, lanes)))
    return f.compare(sign, one, limit.value)
