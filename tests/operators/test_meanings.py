"""Every field of every operator has a meaning, and no line about meanings is left over."""

from __future__ import annotations

from anydml.operators import OPERATORS, Gather, Gemm
from anydml.operators.schema.meanings import choices_of, lines, meaning_of


def test_every_field_has_a_meaning_and_every_meaning_a_field() -> None:
    told = {
        (cls.type.name, name): meaning_of(cls, name)
        for kind, cls in OPERATORS.items()
        if kind is cls.type
        for name in cls.field_types()
    }
    assert not [where for where, meaning in told.items() if not meaning.endswith(".")]
    assert {meaning for several in lines().values() for _, meaning in several} == set(told.values())


def test_the_last_line_that_matches_holds() -> None:
    assert meaning_of(Gather, "indices_tensor").startswith("The indices along the axis")
    assert meaning_of(Gather, "no_such_field") == ""


def test_choices_are_those_of_the_enumeration() -> None:
    assert choices_of(Gemm, "trans_a") == ["NONE", "TRANSPOSE"]
    assert choices_of(Gemm, "alpha") == []
