"""Code generation for expression trees: each node a vector operation of LLVM IR, and nodes that are computed only where
a lane asks for them.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.cpu.features import IS_ARM
from anydml.enums import DataType
from anydml.ir.expressions import const
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.engines.cpu.codegen.function import Text
    from anydml.ir.expressions import Expr, Number

# The nodes of an expression as text of LLVM, each a vector: a line for most, and nothing left to optimise.
#
# Text takes a twentieth of the time that llvmlite's objects take. Equal nodes are one object, and are written once.


_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
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


def number_text(number: Number, kind: str) -> str:
    """A constant in LLVM, exact for any bits."""
    if kind == "f16":
        return f"0xH{struct.pack('>e', number).hex().upper()}"
    if kind[0] == "f":
        return f"0x{struct.pack('>d', number).hex().upper()}"
    return str(int(number))


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


def _write_limit(text: Text, name: str, vector: str, lanes: int, value: str, limit: str) -> str:
    """An x86's instruction gives the second where one is NaN, as LLVM knows it: the limit if that is beyond."""
    if IS_ARM:
        return text.call(name, vector, [value, limit])
    test = text.new(f"fcmp {'olt' if name == 'maximum' else 'ogt'} {vector} {value}, {limit}")
    return text.new(f"select <{lanes} x i1> {test}, {vector} {limit}, {vector} {value}")


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


def write_node(text: Text, node: Expr, found: Mapping[Expr, str], lanes: int) -> str:
    """A constant or an operation, given the names of its arguments, and of theirs."""
    args = [found[arg] for arg in node.args]
    kind = kind_of(node.type)
    vector = f"<{lanes} x {scalar_text(kind)}>"
    op = node.op
    if op == "const":
        return f"splat ({scalar_text(kind)} {number_text(node.value, kind)})"
    of = kind_of(node.args[0].type)
    source = f"<{lanes} x {scalar_text(of)}>"
    if op in _TESTS:
        sign = _TESTS[op]["fiu".index(of[0])]
        return text.new(f"{'fcmp' if of[0] == 'f' else 'icmp'} {sign} {source} {args[0]}, {args[1]}")
    if op == "or" and (test := _is_above(node)):
        a, b = test.args
        return text.new(f"fcmp ult <{lanes} x {scalar_text(kind_of(a.type))}> {found[a]}, {found[b]}")
    if op == "where" and (limit := _limit(node)):
        return _write_limit(text, limit, vector, lanes, args[1], args[2])
    if op == "where" and _is_positive_part(node):
        return text.call("maximum", vector, args[1:])
    if op == "where":
        return text.new(f"select {source} {args[0]}, {vector} {args[1]}, {vector} {args[2]}")
    if op == "bits" and (both := _copies_sign(node)) and all(arg in found for arg in both):
        return text.call("copysign", vector, [found[arg] for arg in both])
    if op == "bits":
        return args[0] if source == vector else text.new(f"bitcast {source} {args[0]} to {vector}")
    if op == "cast" and (half := _half_of_product(node)) is not None:
        halves = text.new(f"bitcast {source} {found[half[0]]} to <{2 * lanes} x i32>")
        places = ", ".join(f"i32 {2 * lane + half[1]}" for lane in range(lanes))
        return text.new(
            f"shufflevector <{2 * lanes} x i32> {halves}, <{2 * lanes} x i32> poison, <{lanes} x i32> <{places}>"
        )
    if op == "cast" and IS_ARM and of == "f32" and kind in _SATURATED:
        return text.saturate(args[0], source, kind, vector)
    if op == "cast":
        from llvmlite import ir  # 10 ms, where something is compiled

        from anydml.engines.cpu.codegen.conversions import convert, scalar_of

        made: _Value = convert(_Builder(text), _Value(args[0], ir.VectorType(scalar_of(of), lanes)), of, kind)
        return made.text
    if op == "not":
        return text.new(f"xor {vector} {args[0]}, splat ({scalar_text(kind)} -1)")
    if op in ("neg", "abs") and kind[0] != "f":
        if op == "neg":
            return text.new(f"sub {vector} zeroinitializer, {args[0]}")
        return text.call("abs", vector, args, ", i1 false") if kind[0] == "i" else args[0]
    if op == "neg":
        return text.new(f"fneg {vector} {args[0]}")
    if op == "abs":
        return text.call("fabs", vector, args)
    if op == "fma" and IS_ARM and args[2].startswith("splat"):
        args[2] = text.number(vector, args[2])
    if op in _CALLS:
        return text.call(_CALLS[op], vector, args)
    names = _FLOAT if kind[0] == "f" else _SIGNED if kind[0] == "i" else _UNSIGNED
    return text.new(f"{names.get(op, op)} {vector} {args[0]}, {args[1]}")


class _Value:
    """The value that `number.convert` takes for a value of llvmlite's."""

    def __init__(self, text: str, type: Any) -> None:
        self.text, self.type = text, type

    def get_reference(self) -> str:
        return self.text


def _conversion(op: str) -> Callable[[_Builder, Any, Any], _Value]:
    def write(self: _Builder, value: Any, kind: Any) -> _Value:
        is_same = value.type == kind  # integers of one width
        return value if is_same else self.new(f"{op} {value.type} {value.get_reference()} to {kind}", kind)

    return write


_SIGNS = {"==": "eq", "!=": "ne", "<": "lt", ">": "gt", ">=": "ge"}


class _Builder:
    """The requests of `number.convert` to llvmlite's builder, as text: the rules of conversions stand there alone."""

    def __init__(self, text: Text) -> None:
        self._text = text

    def new(self, line: str, kind: Any) -> _Value:
        return _Value(self._text.new(line), kind)

    trunc, sext, zext, bitcast = map(_conversion, ("trunc", "sext", "zext", "bitcast"))
    fpext, fptrunc, sitofp, uitofp = map(_conversion, ("fpext", "fptrunc", "sitofp", "uitofp"))
    fptosi, fptoui = map(_conversion, ("fptosi", "fptoui"))

    def _two(self, op: str, a: Any, b: Any, kind: Any = None) -> _Value:
        return self.new(f"{op} {a.type} {a.get_reference()}, {b.get_reference()}", kind or a.type)

    def _test(self, op: str, a: Any, b: Any) -> _Value:
        from llvmlite import ir

        return self._two(op, a, b, ir.VectorType(ir.IntType(1), a.type.count))

    def add(self, a: Any, b: Any) -> _Value:
        return self._two("add", a, b)

    def and_(self, a: Any, b: Any) -> _Value:
        return self._two("and", a, b)

    def fcmp_ordered(self, sign: str, a: Any, b: Any) -> _Value:
        return self._test("fcmp ord" if sign == "ord" else f"fcmp o{_SIGNS[sign]}", a, b)

    def fcmp_unordered(self, sign: str, a: Any, b: Any) -> _Value:
        return self._test(f"fcmp u{_SIGNS[sign]}", a, b)

    def icmp_signed(self, sign: str, a: Any, b: Any) -> _Value:
        return self._test(f"icmp {'' if sign == '==' else 's'}{_SIGNS[sign]}", a, b)

    def icmp_unsigned(self, sign: str, a: Any, b: Any) -> _Value:
        return self._test(f"icmp {'' if sign == '==' else 'u'}{_SIGNS[sign]}", a, b)

    def select(self, test: Any, a: Any, b: Any) -> _Value:
        text = f"{a.type} {a.get_reference()}, {b.type} {b.get_reference()}"
        return self.new(f"select {test.type} {test.get_reference()}, {text}", a.type)


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


# A tree of an expression as text of LLVM: node after node, and twice where much of it is rare.


def write_tree(
    text: Text,
    nodes: Sequence[Expr],
    found: dict[Expr, str],
    lanes: int,
    fetch: Callable[[Expr, Sequence[str]], str] | None = None,
) -> str:
    """A tree, its nodes each after its arguments, into the names found so far, its leaves' among them. The last's.

    It may end in another block than it begins in. Fetches that are not found are written by `fetch`.
    """

    def write(some: Iterable[Expr], names: dict[Expr, str]) -> None:
        for node in some:
            if node in names:
                continue
            if node.op == "fetch" and fetch is not None:
                names[node] = fetch(node, [names[arg] for arg in node.args])
            else:
                names[node] = write_node(text, node, names, lanes)

    rare = find_rare(nodes)
    if rare is None:
        write(nodes, found)
        return found[nodes[-1]]
    asked, usual, both = text.label("rare"), text.label("usual"), text.label("both")
    test = None
    if rare.test not in found:  # of one that is, computed before a loop, the arguments may be nowhere any more
        write(walk(*rare.test.args, known=found), found)
        test = _write_extreme(text, rare.test, found, lanes)
    if test is None:
        write([rare.test], found)
        test = _write_fold(text, "or", f"<{lanes} x i1>", found[rare.test])
    text.add(f"br i1 {test}, label %{asked}, label %{usual}")
    ends = []
    for block in (asked, usual):
        text.open(block)
        names = dict(found)
        if block == usual:
            _write_usual(nodes, rare, names, write)
        else:
            write(nodes, names)
        ends.append(f"[ {names[nodes[-1]]}, %{text.block} ]")
        text.add(f"br label %{both}")
    text.open(both)
    vector = f"<{lanes} x {scalar_text(kind_of(nodes[-1].type))}>"
    found[nodes[-1]] = text.new(f"phi {vector} {', '.join(ends)}")
    return found[nodes[-1]]


def _write_fold(text: Text, name: str, vector: str, value: str) -> str:
    """One number of all lanes of a vector."""
    lanes, scalar = vector[1:-1].split(" x ")
    letter = {"float": "f32", "double": "f64"}.get(scalar, scalar)
    full = f"@llvm.vector.reduce.{name}.v{lanes}{letter}"
    text.declared[f"declare {scalar} {full}({vector})"] = None
    return text.new(f"call {scalar} {full}({vector} {value})")


def _write_extreme(text: Text, test: Expr, found: dict[Expr, str], lanes: int) -> str | None:
    """Whether the least, or the largest, of an Arm's floats passes a test with a constant; None for other tests.

    That is one comparison, where each lane for itself would be four, and their truths packed: gelu takes 0.97 of the
    time. A NaN counts as passing.
    """
    kind = kind_of(test.args[0].type) if test.args else ""
    if not IS_ARM or test.op != "lt" or kind not in ("f32", "f64") or all(arg.op != "const" for arg in test.args):
        return None
    a, b = test.args
    scalar, (name, value, limit) = scalar_text(kind), ("fminimum", a, b) if b.op == "const" else ("fmaximum", b, a)
    one = _write_fold(text, name, f"<{lanes} x {scalar}>", found[value])
    return text.new(f"fcmp u{'lt' if value is a else 'gt'} {scalar} {one}, {number_text(limit.value, kind)}")


def _write_usual(
    nodes: Sequence[Expr],
    rare: Rare,
    names: dict[Expr, str],
    write: Callable[[Iterable[Expr], dict[Expr, str]], None],
) -> None:
    """A tree where no lane asks for what is rare: choices are the second."""
    for node in nodes:
        if node in rare.choices and node not in rare.nodes:
            names[node] = names[node.args[2]]
        elif node not in rare.nodes:
            write([node], names)
