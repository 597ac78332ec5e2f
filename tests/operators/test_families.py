"""What the table of families says of every operator; `test_random.py` draws descriptions by the same table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import anydml as dml
from doors import as_list
from families.table import FAMILIES, MEMBERS
from paths import PATHS, ROOT
from places import get, put
from refusals import check_refusal

if TYPE_CHECKING:
    from drawing import Operator
    from refusals import Broken


def each(classes: list[Operator]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("cls", classes, ids=[cls.type.name for cls in classes])


def test_every_operator_is_of_one_family() -> None:
    assert sum(len(family.operators) for family in FAMILIES) == len(MEMBERS)
    assert MEMBERS.keys() == {*dml.OPERATORS.values()}


@pytest.mark.sampled(4)
@each([cls for cls, family in MEMBERS.items() if family.examples])
def test_every_type_gives_what_the_oracle_gives(cls: Operator, engine: str) -> None:
    device, family = dml.Device(engine), MEMBERS[cls]
    assert family.examples
    for desc, arrays in family.examples(cls):
        results = as_list(device.compile(desc)(*(put(array, device) for array in arrays)))
        family.check(desc, [get(result) for result in results], family.expected(desc, arrays), engine)


@pytest.mark.parametrize("broken", [broken for family in FAMILIES for broken in family.rules], ids=str)
def test_a_broken_rule_is_worded(broken: Broken) -> None:
    check_refusal(broken)


JUDGES = {
    "the documents' cases": "test_documents.py::test_results_in_arrays_of_the_callers",
    "the oracle": "test_random.py::test_(copies_give|what_computes_gives)_what_the_oracle_gives|test_blocks_of_every",
    "broken rules": "test_random.py::test_a_typical_breakage_raises",
    "fields": "test_documents.py::test_descriptions_have_the_fields_that_the_reference_has",
    "graphs": "test_builder.py::",
    "DxDispatch": "dxdispatch/test_operators.py::",
}


@pytest.mark.long
def test_an_operators_name_finds_what_judges_it() -> None:
    """`pytest -k RESAMPLE3`."""
    names = ("operators/test_documents", "operators/test_random", "operators/test_blocks")
    more = ("operators/test_gradients", "graph/test_builder", "dxdispatch/test_operators")
    files = [f"tests/{name}.py" for name in (*names, *more)]
    path = os.pathsep.join([str(ROOT / "src"), *PATHS])
    listed = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n", "0", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "CI": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    judged: dict[str, set[str]] = {}
    for line in listed.splitlines():
        for name in re.findall(r"\b[A-Z][A-Z0-9_]+\b", line):
            judged.setdefault(name, set()).add(line)
    missing = {
        (cls.type.name, what)
        for cls in MEMBERS
        for what, test in JUDGES.items()
        if not any(re.search(test, line) for line in judged.get(cls.type.name, ()))
    }
    assert not missing
    gradients = [cls.type.name for cls in MEMBERS if cls.type.name.endswith(("_GRAD", "_GRAD1"))]
    assert all(any("test_gradients.py" in line for line in judged[name]) for name in gradients)
