"""The pages that are made: every operator has one, with its fields, levels, picture and an example that was run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from anydml.operators import OPERATORS
from anydml.operators.schema.fields import dml_name
from scripts import write_operators
from scripts.pages import running
from scripts.pages.drawing import PHONE
from scripts.pages.families import families
from scripts.pages.index import index_page
from scripts.pages.operator import names_of, operator_page
from scripts.pages.running import example_of
from scripts.pages.runs import runs, written_run
from scripts.pages.wording import formula

if TYPE_CHECKING:
    from scripts.pages.families import Operator

pytestmark = pytest.mark.sampled(4)


@pytest.mark.parametrize("family", families())
def test_pages_have_fields_levels_a_picture_and_an_example(family: str) -> None:
    for cls in families()[family]:
        page = operator_page(cls)
        assert page.startswith(f"# {cls.type.name}\n")
        for name in cls.field_types():
            assert f"| `{dml_name(name)}`<br>`{name}` |" in page
        for row in cls.support:
            assert f"\n| {row.level}" in page
        widths = [int(width) for width in re.findall(r'<svg [^>]*width="(\d+)"[^>]*aria-label', page)]
        assert min(widths) <= max(PHONE + 20, 60 + 10.6 * len(cls.type.name)), "a phone would scroll it"
        assert "<style>" not in page, "it would hold for the whole page"
        assert "import anydml as dml\n\ndml." in page


def test_the_index_has_every_operator_once() -> None:
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", index_page(is_linked=True), re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(kind.name for kind in OPERATORS)
    assert all(name.lower() == page for name, page in listed)


def test_the_index_is_up_to_date() -> None:
    assert write_operators.PAGE.read_text() == index_page(is_linked=False), "write it anew with `make written`"


def test_an_example_that_gives_something_else_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(*_: object) -> None:
        """Some sum.

        >>> add(1, 2)
        4
        """

    operator = next(cls for kind, cls in OPERATORS.items() if kind.name == "ELEMENT_WISE_ADD")
    monkeypatch.setattr(running, "function_of", lambda _: add)
    monkeypatch.setattr("anydml.add", lambda a, b: a + b)
    with pytest.raises(ValueError, match=r"gives\s3\s+where its docstring has\s4"):
        example_of(operator)


def test_formulas() -> None:
    by_name: dict[str, Operator] = {kind.name: cls for kind, cls in OPERATORS.items()}
    assert formula(by_name["ACTIVATION_GELU"]) == "x·(1 + erf(x/√2))/2"
    assert formula(by_name["ELEMENT_WISE_BIT_SHIFT_LEFT"]) == "a << b"
    assert formula(by_name["JOIN"]) == ""


def test_names_in_onnx_are_names_of_nodes() -> None:
    pytest.importorskip("onnx", reason="ONNX is not installed")
    from anydml.onnx.functions import is_made_of_others
    from anydml.onnx.lower.elementwise import operator_of
    from anydml.onnx.lower.registry import lowered_kinds

    kinds, newest = set(lowered_kinds()), 26
    for cls in OPERATORS.values():
        unknown = [name for name in names_of(cls)["onnx"] if name not in kinds and not is_made_of_others(name, newest)]
        assert not unknown, cls.type.name
    for kind in kinds:
        if (same := operator_of(kind)) is not None:
            assert kind in names_of(same)["onnx"], "the operator is the node"


@pytest.mark.parametrize("name", runs())
def test_logged_runs_have_a_chart_and_a_table(name: str) -> None:
    text = written_run(name)
    assert text.count("<svg ") == 2  # one for phones
    for row in runs()[name]["rows"]:
        assert f"\n| {row['name']} |" in text
