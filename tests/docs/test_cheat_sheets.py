"""The tutorial's notebook runs, tables of other libraries' names are whole, and operators' pages have valid code."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml.operators import OPERATORS
from scripts.pages.cheat_sheets import fill_tables, other_names, same_names
from scripts.pages.families import families
from scripts.pages.notebook import NOTEBOOK, PAGE, notebook_of, write_notebook
from scripts.pages.operator import link_to_node, names_of, operator_page, reference_of

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.skipif(importlib.util.find_spec("onnx") is None, reason="needs onnx: make test EXTRAS=onnx")
def test_the_notebook_runs_and_prints_what_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(write_notebook((DOCS / PAGE).read_text("utf-8")))
    namespace: dict[str, object] = {}
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(codes) >= 9
    for cell in codes:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell["source"], NOTEBOOK, "exec"), namespace)
        assert printed.getvalue() == "".join(output["text"] for output in cell["outputs"]), cell["source"]


def test_the_notebook_has_the_whole_page_and_no_link_of_the_site() -> None:
    page = "# T\n\nThe same as a notebook: [tutorial.ipynb](tutorial.ipynb).\nSee [b](c.md), [d](https://e.f).\n\n```python\n1\n```\n\nEnd.\n"
    first, code, last = notebook_of(page)["cells"]
    assert first["source"] == "# T\n\nSee b, [d](https://e.f)."
    assert (code["source"], code["outputs"], last["source"]) == ("1", [], "End.")


def test_names_of_numpy_lead_to_functions() -> None:
    assert {"log2", "vstack", "zeros_like"} <= set(other_names(np))
    assert {"sum", "where", "broadcast_to"} <= set(same_names(np))
    assert not set(other_names(np)) & set(same_names(np))
    table = fill_tables("<!-- table: numpy -->")
    assert "| `log2` | `divide(log(x), math.log(2))` |" in table
    for name in re.findall(r"\| `(?:anydml\.)?([a-z_0-9]+)", table.replace("| `", "|", 1)):
        assert hasattr(dml, name) or hasattr(np, name), name


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: make test EXTRAS=torch")
def test_the_page_has_every_name_of_pytorch() -> None:
    import torch

    found = re.search(r"<!-- table: names (.*) -->", (DOCS / "coming_from/pytorch.md").read_text("utf-8"))
    assert found is not None
    assert found[1].split() == sorted({*other_names(torch), *other_names(torch.nn.functional)})


def test_every_table_of_names_is_filled() -> None:
    for page in (DOCS / "coming_from").glob("*.md"):
        filled = fill_tables(page.read_text("utf-8"))
        assert "<!--" not in filled, page
        assert "| `` |" not in filled, "a name that nothing takes the place of"


def test_every_node_of_the_operators_is_in_the_table() -> None:
    table = fill_tables("<!-- table: onnx -->")
    for cls in OPERATORS.values():
        for node in names_of(cls)["onnx"]:
            (row,) = [line for line in table.splitlines() if line.startswith(f"| {link_to_node(node)} |")]
            assert f"[{cls.type.name}]" in row


def test_links_to_nodes_are_those_of_onnx_and_of_onnx_runtime() -> None:
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed")
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    for cls in OPERATORS.values():
        for node in names_of(cls)["onnx"]:
            assert ("onnx.ai" in link_to_node(node)) is (node in known), node
            assert ("ContribOperators" in link_to_node(node)) is ("." in node), node


def test_microsofts_pages_are_named_by_the_structure() -> None:
    place = "https://learn.microsoft.com/windows"
    assert reference_of(dml.Slice1) == f"{place}/win32/api/directml/ns-directml-dml_slice1_operator_desc"
    assert reference_of(dml.Fold) == f"{place}/ai/directml/api/ns-directml-dml_fold_operator_desc"


@pytest.mark.parametrize("family", families())
def test_code_on_pages_of_operators_is_python(family: str) -> None:
    for cls in families()[family]:
        call, example = CODE.findall(operator_page(cls))
        compile(call, cls.__name__, "exec")
        compile(example, cls.__name__, "exec")
        assert "import anydml as dml" in example


def test_the_search_leaves_the_changelog_out() -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs: make test EXTRAS=docs")
    from scripts.pages.hooks import changelog

    head, _, text = changelog().removeprefix("---\n").partition("---\n")
    assert "search:\n  exclude: true" in head
    assert text.startswith("# ")


@pytest.mark.parametrize("page", sorted((DOCS / "coming_from").glob("*.md")), ids=lambda page: page.stem)
def test_a_table_of_the_site_alone_is_told_where_it_is_not(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.count("<!-- table: ") == text.count("(The table is made when the site is built, by `make docs`")
