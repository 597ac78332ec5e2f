"""The stress test itself: a short run finds nothing, planted faults are found and told, and an item is done again."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

import anydml as dml
from stress import items
from stress.plant import EVERY, FAULTS
from stress.report import Report
from stress.watch import Held
from stress.work import Work

ROOT = Path(__file__).parents[2]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and forks are POSIX's")


def stress(*options: str, plant: str = "") -> tuple[int, str]:
    """Run it; the exit status and what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(  # noqa: S603 - the project's own program
        [sys.executable, "-m", "stress", *options],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "ANYDML_STRESS_PLANT": plant},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return result.returncode, result.stdout + result.stderr


def first_item(seed: int, door: str) -> int:
    """An item of a door that a fault is planted in."""
    return next(n for n in range(0, 10_000, EVERY) if items.door_of(seed, n) == door)


@POSIX
@pytest.mark.long
@pytest.mark.parametrize(("plant", "told"), [("wrong", "wrong"), ("bare", "bare"), ("crash", "crash")])
def test_a_planted_fault_is_told_and_its_item_shows_it_again(plant: str, told: str) -> None:
    status, said = stress("--seconds", "1", "--seed", "7", "--threads", "2", "--roles", "steady", plant=plant)
    assert status == 1, said
    assert f"FAULT {told} (steady): " in said
    found = re.search(r"python -m stress --seed 7 --item (\d+)", said)
    assert found, said
    status, said = stress("--seed", "7", "--item", found[1], plant=plant)
    assert status != 0, said
    if plant != "crash":
        assert stress("--seed", "7", "--item", found[1])[0] == 0


@POSIX
@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is told by Linux's /proc")
@pytest.mark.long
@pytest.mark.parametrize("plant", ["memory", "descriptor", "thread"])
def test_a_planted_leak_is_told(plant: str) -> None:
    status, said = stress("--seconds", "3", "--seed", "7", "--threads", "2", "--roles", "steady", plant=plant)
    assert status == 1, said
    assert "FAULT leak (steady): " in said
    assert plant in said


@pytest.mark.long
def test_every_fault_can_be_planted_in_an_item() -> None:
    number = first_item(1, "compiled")
    assert items.make(1, number).judge() == ""
    assert set(FAULTS) >= {"wrong", "bare", "crash", "hang", "memory", "descriptor", "thread"}


@pytest.mark.long
@pytest.mark.parametrize("door", items.DOORS)
def test_an_item_of_every_door_is_the_same_each_time(door: str) -> None:
    number = first_item(3, door)
    first, second = (items.make(3, number) for _ in range(2))
    assert (first.door, first.about) == (second.door, second.about)
    assert first.judge() == ""


@pytest.mark.long
@pytest.mark.parametrize(("position", "is_wrong"), [(3, False), (4, True)])
def test_a_model_refuses_the_index_that_a_call_refuses(position: int, *, is_wrong: bool) -> None:
    """A model's constant indices are checked as it is loaded: another class of error for the same element."""

    def fault(place: int) -> dml.Fault:
        rule = f"indices[{place}] = 9 is outside the axis of size 2"
        return dml.Fault(field="indices", rule=rule, way_out="take 0 .. 1")

    def call() -> NoReturn:
        raise dml.IndexRangeError("GATHER", fault(3))

    def model() -> NoReturn:
        raise dml.ModelError("model.json", replace(fault(position), subject="GATHER"))

    assert bool(Work("model", "", call, model).judge()) is is_wrong


def test_leaks_are_what_there_is_more_of() -> None:
    before = Held(memory=100, descriptors=("x",) * 5, threads=3)
    assert Held(memory=150, descriptors=("x",) * 5, threads=2).leaks(before, most=50) == []
    assert len(Held(memory=151, descriptors=("x",) * 6, threads=4).leaks(before, most=50)) == 3


@pytest.mark.long
def test_a_run_that_did_nothing_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert Report(1).summary() == 1
    assert "proves nothing" in capsys.readouterr().out
