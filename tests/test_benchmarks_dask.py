"""The benchmark of dask arrays: its answers agree, and what it writes. No test looks at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("distributed", reason="Dask is not installed: make test EXTRAS='dask'")

from benchmarks.dask import Case, cases, check, main

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.long
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    code = main(["--gib", "0.01", "--block", "2", "--rounds", "1", "--only", "running sum", "--json", str(file)])
    found = json.loads(file.read_text())
    assert [one["name"] for one in found] == [case.name for case in cases(100) if "running sum" in case.name]
    assert code == int(any(one["share"] > one["most"] for one in found))
    shown = capsys.readouterr().out
    assert all(one["name"] in shown and one["cpu"] > 0 and one["wall"] > 0 for one in found)


def test_an_answer_that_differs_is_no_contestant() -> None:
    import dask.array as da

    x = da.ones((64, 4096), chunks=(16, 4096), dtype="float32")
    for case in cases(64):
        check(case, x)
    wrong = Case("made up", lambda x: x, lambda x: x + 1, 1.0)
    with pytest.raises(AssertionError, match="made up"):
        check(wrong, x)
