"""Values of values with some parts in other forms."""

from __future__ import annotations

from dataclasses import dataclass, field

from anydml.core.enums import DataType
from anydml.ir.expressions import const, load
from anydml.ir.substitution import Rebuilt


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    others: tuple[Record, ...] = ()
    kept: list[str] = field(default_factory=list, init=False, compare=False)
    """What was found out of the name."""


def test_what_a_record_found_out_is_not_anothers() -> None:
    """Programs of layers that are alike are one with other names: what the first is bound by is not the second's."""
    names = {"a": "b"}
    rename = Rebuilt({str: lambda text: names.get(text, text)})
    first, same = Record("a"), Record("c")
    first.kept.append("of a")
    other, still = rename((first, same))
    assert (other, still) == (Record("b"), same)
    assert other.kept == []
    assert still is same


def test_an_object_that_is_there_twice_is_made_once() -> None:
    inner = Record("a")
    made = Rebuilt({str: str.upper})(Record("x", (inner, inner)))
    assert made == Record("X", (Record("A"), Record("A")))
    assert made.others[0] is made.others[1]


def test_a_call_in_the_middle_of_another_has_nothing_of_it() -> None:
    """As a signal's handler begins one, or a child process that was forked there."""
    size, both = 1, (Record("a"), Record("b"))

    def change(text: str) -> str:
        nonlocal size
        if text == "b" and size == 1:
            size = 2
            assert rebuild(both) == (Record("a2"), Record("b2"))
            size = 1
        return f"{text}{size}"

    rebuild = Rebuilt({str: change})
    assert rebuild(both) == (Record("a1"), Record("b1"))


def test_trees_may_be_deeper_than_calls() -> None:
    """Such as a thousand sums, fused."""
    trees = {number: load(0, DataType.FLOAT32) for number in (0.5, 2.5)}
    for _ in range(500):
        trees = {number: tree + const(number, DataType.FLOAT32) for number, tree in trees.items()}
    rebuild = Rebuilt({float: lambda number: number + 2})
    both = trees[0.5], trees[0.5].args[0]
    for _ in range(2):
        assert rebuild(both) == (trees[2.5], trees[2.5].args[0])
    assert rebuild((load(0, DataType.FLOAT32) * load(1, DataType.FLOAT32),))[0].op == "mul"
