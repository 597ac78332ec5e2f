"""A tree of an expression as text of LLVM: node after node, and twice where much of it is rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.features import IS_ARM
from anydml.engines.cpu.kernels.nodes import kind_of, number_text, scalar_text, write_node
from anydml.engines.cpu.kernels.rare import find_rare
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anydml.engines.cpu.kernels.function_text import Text
    from anydml.engines.cpu.kernels.rare import Rare
    from anydml.ir.expressions import Expr


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
