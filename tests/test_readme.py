"""README's blocks run, print what README says, and its table is the descriptions' own."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from support_matrix import BEGIN, END, README, table

BLOCK = re.compile(r"```python\n(.*?)```(?:\n```output\n(.*?)```)?", re.DOTALL)


def test_readme_blocks_print_what_they_say() -> None:
    namespace: dict[str, object] = {}
    blocks = BLOCK.findall(README.read_text())
    assert len(blocks) >= 6
    for code, expected in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), namespace)
        assert printed.getvalue() == expected, code


def test_readme_has_the_support_matrix() -> None:
    written = README.read_text().split(BEGIN)[1].split(END)[0]
    assert written == table(), "write it anew with `python tests/support_matrix.py`"


def test_changelog_has_the_version() -> None:
    import anydml

    assert f"## {anydml.__version__} " in (Path(README).parent / "CHANGELOG.md").read_text()
