"""A tree of an expression as text of LLVM: node after node, and twice where much of it is rare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.nodes import kind_of, scalar_text, write_node
from anydml.engines.cpu.kernels.rare import find_rare
from anydml.ir.trees import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anydml.engines.cpu.kernels.nodes import Text
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
    write(walk(rare.test, known=found), found)
    kind, name = f"<{lanes} x i1>", f"@llvm.vector.reduce.or.v{lanes}i1"
    text.declared[f"declare i1 {name}({kind})"] = None
    asked, usual, both = text.label("rare"), text.label("usual"), text.label("both")
    test = text.new(f"call i1 {name}({kind} {found[rare.test]})")
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
