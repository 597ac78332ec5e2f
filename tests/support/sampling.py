"""Which tests a run takes and leaves out, and what it says of them at its end: hooks that `conftest.py` imports.

Outside of CI a test marked `long` is left out, and of those marked `sampled(60)` all but one in sixty, the same ones at
every run; where Triton's kernels are interpreted, and on the webgpu engine, all but one in five of those marked
`sampled(interpreted=5)`. A test that is named by its id runs.
"""

from __future__ import annotations

import gc
import os
import re
import zlib
from collections import Counter
from typing import Any

import pytest

from anydml.engines.cuda import is_interpreted
from places import why_not_interpreted

LEFT_OUT = pytest.StashKey[int]()
REASON = "left_out"
"""What a process of pytest-xdist tells the one that reports."""


def _is_on(engine: str) -> bool:
    return engine in os.environ.get("ANYDML_TEST_ENGINES", "").split()


def _is_quick() -> bool:
    return not os.environ.get("CI") and not _is_on("cuda") and not _is_on("webgpu")


def every(item: pytest.Item) -> int:
    """Of how many tests like this one runs here; 0 where none does."""
    if _is_quick() and item.get_closest_marker("long"):
        return 0
    marker = item.get_closest_marker("sampled")
    return _sampled(*marker.args, **marker.kwargs) if marker else 1


def _sampled(one_in: int = 1, *, interpreted: int = 1) -> int:
    if _is_quick():
        return one_in
    if _is_on("webgpu"):  # on a CPU that stands in for a GPU: `make test-webgpu` runs every one
        return 1 if os.environ.get("ANYDML_TEST_EVERY") else interpreted
    return interpreted if _is_on("cuda") and is_interpreted() else 1


def _runs(item: pytest.Item) -> bool:
    one_in = every(item)
    return bool(one_in) and zlib.crc32(item.name.encode()) % one_in == 0


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have -k find a test by the operators that it is marked with."""
    for marker in item.iter_markers("judges"):
        item.extra_keyword_matches.update(marker.args)


def _part(items: list[pytest.Item]) -> list[pytest.Item]:
    """A sixteenth with ANYDML_TEST_PART=3/16; a case at different levels, which has the same kernels, stays in one."""
    part, _, parts = os.environ.get("ANYDML_TEST_PART", "1/1").partition("/")
    kinds: dict[str, int] = {}
    numbers = [kinds.setdefault(re.sub(r"-\d_\d]$", "", item.nodeid), len(kinds)) for item in items]
    return [item for item, k in zip(items, numbers, strict=True) if k % int(parts) == int(part) - 1]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """After -k and -m have chosen; on a GPU nothing is left out in silence."""
    items[:] = _part(items)
    if reason := why_not_interpreted():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
    if any("::" in argument for argument in config.args):
        return
    left_out = [item for item in items if not _runs(item)]
    config.stash[LEFT_OUT] = len(left_out)
    if left_out:
        items[:] = [item for item in items if _runs(item)]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish() -> None:
    """Have `gc.collect()` pass by what was imported and collected: 770,000 objects take 1.5 s of each call of it."""
    gc.freeze()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a process of pytest-xdist."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[REASON] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every process has collected the same."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get(REASON, 0)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> Any:
    """Each reason of a skip once, and what was left out in a line, after all that pytest says."""
    result = yield
    reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:,} skipped: {reason}")
    if count := config.stash.get(LEFT_OUT, 0):
        tests = "1 test was" if count == 1 else f"{count:,} tests were"
        all_of_them = "left to CI: CI=1 make test runs all" if _is_quick() else "left to a GPU: make test-gpu runs all"
        terminalreporter.write_line(f"{tests} {all_of_them}, pytest FILE::TEST one")
    return result


def _reason(report: Any) -> str:
    found = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(found).removeprefix("Skipped: ")
