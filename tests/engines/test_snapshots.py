"""What planning makes is what was kept: whoever changes a route or a kernel on purpose writes the snapshots anew.

`python tests/support/snapshots.py` compares every target, networks included; here some targets are, without them.
"""

from __future__ import annotations

import pytest

import snapshots


@pytest.mark.long
@pytest.mark.parametrize("target", ["vnni", "neoverse", "sm_90"])
def test_planning_is_as_it_was(target: str) -> None:
    if target in snapshots.GPUS:
        pytest.importorskip("triton", reason="Triton is not installed: make test EXTRAS='torch triton'")
    kept, now = snapshots.kept(target), snapshots.taken(target, is_quick=True)
    assert len(now["works"]) > 150
    found = snapshots.differences({"works": {name: kept["works"].get(name) for name in now["works"]}}, now)
    assert not found, "\n".join(
        [*found[:20], f"python tests/support/snapshots.py --write {target} keeps what is meant"]
    )


def test_a_difference_is_told() -> None:
    before = {"works": {"a": ["plan_copy", "1", "2"], "b": ["plan_map", "3", "4"], "c": ["plan_map", "5", "6"]}}
    now = {"works": {"a": ["plan_copy", "1", "2"], "b": ["plan_copy", "3", "5"], "d": ["plan_map", "5", "6"]}}
    assert snapshots.differences(before, now) == [
        "b: route plan_map -> plan_copy, records 4 -> 5",
        "c: added or removed",
        "d: added or removed",
    ]
    assert not snapshots.differences(before, before)
