"""The tutorial as a Jupyter notebook, made of the page's own blocks."""

from __future__ import annotations

import json
import re
from typing import Any

PAGE, NOTEBOOK = "tutorial.md", "tutorial.ipynb"
_BLOCK = re.compile(r"```python\n(.*?)```\n(?:```output\n(.*?)```\n)?", re.DOTALL)
_OWN_LINK = re.compile(rf"^The same as a notebook: .*{re.escape(NOTEBOOK)}.*\n", re.MULTILINE)
_SITE_LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]+\)")


def notebook_of(markdown: str) -> dict[str, Any]:
    """Cells of prose and of code, with the outputs that the page shows."""
    prose = _SITE_LINK.sub(r"\1", _OWN_LINK.sub("", markdown))  # links of the site lead nowhere in a notebook
    cells, end = [], 0
    for block in _BLOCK.finditer(prose):
        cells += _prose(prose[end : block.start()])
        cells.append(_code(block[1], block[2]))
        end = block.end()
    cells += _prose(prose[end:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def write_notebook(markdown: str) -> str:
    """The notebook as a file."""
    return json.dumps(notebook_of(markdown), indent=1, ensure_ascii=False) + "\n"


def _prose(text: str) -> list[dict[str, Any]]:
    return [{"cell_type": "markdown", "metadata": {}, "source": text.strip()}] if text.strip() else []


def _code(source: str, output: str | None) -> dict[str, Any]:
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None}
    return {**cell, "source": source.rstrip("\n"), "outputs": outputs}
