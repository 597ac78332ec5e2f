"""What a model's author cannot make grow: the findings, the memory of small things, the files half written."""

from __future__ import annotations

import cProfile
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

import anydml as dml
from anydml.core.errors import ModelFileError
from anydml.dxdispatch import Timing, check_file, load_model
from anydml.dxdispatch.findings import MOST_FAULTS, MOST_REMARKS
from anydml.dxdispatch.writes import Writes
from modelling import DISPATCH, SUM, changed, floats, lines, model, program, run, write

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sampled(3)

STOPPED = f"only the first {MOST_FAULTS} faults are reported"


@pytest.mark.parametrize(
    "sections",
    [
        {"commands": [1] * (2 * MOST_FAULTS)},
        {"commands": [{"type": "print", "resource": "x"}] * (2 * MOST_FAULTS)},
        {"resources": {str(i): 0 for i in range(2 * MOST_FAULTS)}},
    ],
    ids=["read", "checked", "resources"],
)
def test_faults_are_told_up_to_a_number(tmp_path: Path, sections: dict[str, Any]) -> None:
    """A fault takes a hundred times the memory of the text that it is about."""
    path = write(tmp_path, model(**sections))
    report = check_file(path)
    assert len(report.faults) == MOST_FAULTS + 1
    assert STOPPED in str(report.findings[-1])
    assert not report
    result = program("check", path)
    assert result.exit_code == report.status
    found = lines(run(path), path)
    assert len(found) == MOST_FAULTS + 2
    assert STOPPED in found[-1]


def test_a_name_given_twice_is_told_up_to_a_number(tmp_path: Path) -> None:
    path = write(tmp_path, "{" + '"a":0,' * (2 * MOST_FAULTS) + "}")
    with pytest.raises(ModelFileError) as caught:
        load_model(path)
    assert len(caught.value.faults) == MOST_FAULTS + 1
    assert STOPPED in str(caught.value.faults[-1])


def test_remarks_do_not_keep_a_model_from_running(tmp_path: Path) -> None:
    command = {"type": "print", "resource": "in", "unknown": 1}
    path = write(tmp_path, model(commands=[DISPATCH, *[command] * (2 * MOST_REMARKS)]))
    report = check_file(path)
    assert report
    assert len(report.remarks) == MOST_REMARKS
    assert run(path).exit_code == 0


def test_remarks_that_are_not_kept_take_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def ask(*given: object) -> str:
        asked.append(given)
        return ""

    monkeypatch.setattr("anydml.dxdispatch.remarks.suggest", ask)
    command = {"type": "print", "resource": "in", "unknown": 1}
    check_file(write(tmp_path, model(commands=[command] * (3 * MOST_REMARKS))))
    assert len(asked) <= MOST_REMARKS + 1


def test_faults_of_one_dispatchable_are_not_looked_for_in_every_other(tmp_path: Path) -> None:
    """Each was held against each, which is a minute for a model of some megabytes."""

    def calls(count: int) -> float:
        bad = {f"bad{i}": changed(SUM, "desc.Axis", 9) for i in range(count)}
        good = {f"good{i}": SUM for i in range(count)}
        loaded = load_model(write(tmp_path, model(dispatchables={**bad, **good}, commands=[])))
        profile = cProfile.Profile()
        report = profile.runcall(loaded.check)
        levels = {found.name: found.lowest_level for found in report.dispatchables}
        assert [levels["bad0"], levels["good0"]] == [None, dml.FeatureLevel.LEVEL_2_1]
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(400) < 10 * calls(50)


def test_a_tensor_of_many_is_not_looked_for_among_all_of_them_again_and_again() -> None:
    """A JOIN of a thousand took 16 seconds to check."""

    def calls(count: int) -> float:
        one, whole = dml.TensorDesc("float32", (2,)), dml.TensorDesc("float32", (2 * count,))
        profile = cProfile.Profile()
        for desc in (
            dml.Join(input_tensors=[one] * count, output_tensor=whole, axis=0),
            dml.Split(input_tensor=whole, output_tensors=[one] * count, axis=0),
        ):
            assert profile.runcall(desc.check)
        return sum(entry.callcount for entry in profile.getstats())

    assert calls(200) < 10 * calls(25)


def test_small_resources_take_little_more_than_their_text(tmp_path: Path) -> None:
    """Nothing counts what they take beside their bytes: a page for each would be megabytes."""
    resources = {str(i): {"initialValuesDataType": "INT8", "initialValues": [1]} for i in range(1000)}
    loaded = load_model(write(tmp_path, {"resources": resources, "dispatchables": {}, "commands": []}))
    loaded.run("reference")
    tracemalloc.start()
    result = loaded.run("reference")
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.resources) == 1000
    assert taken < 2_000_000


@pytest.mark.parametrize("targets", [["a", "z", "z/b"], ["z/b", "a", "z"]])
def test_files_that_cannot_all_be_written_are_none_of_them(tmp_path: Path, targets: list[str]) -> None:
    commands = [{"type": "writeFile", "resource": "in", "targetPath": target} for target in targets]
    path = write(tmp_path, model(commands=commands))
    result = run(path)
    assert result.exit_code == 2
    assert "$.commands[2]: a path must not be that of a file and of a folder" in result.stderr.replace("files: ", "")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("target", ["b" * 300, "model.json/b"])
def test_a_name_that_cannot_be_is_refused_before_anything_is_written(tmp_path: Path, target: str) -> None:
    commands = [{"type": "writeFile", "resource": "in", "targetPath": name} for name in ("a", target)]
    path = write(tmp_path, model(commands=commands))
    result = run(path)
    assert result.exit_code == 2
    assert "$.commands[1].targetPath: " in result.stderr
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_written_again_and_again_is_kept_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short model would fill the disk otherwise."""
    commands = [{"type": "writeFile", "resource": "in", "targetPath": "a"}] * 50
    path = write(tmp_path, model(commands=commands))
    most = []
    commit = Writes.commit

    def count(self: Writes) -> None:
        most.append(len(list(tmp_path.iterdir())))
        commit(self)

    monkeypatch.setattr(Writes, "commit", count)
    assert run(path).exit_code == 0
    assert most == [2]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "model.json"]


@pytest.mark.parametrize(
    "given",
    [{"iterations": 0}, {"repeat": 0}, {"repeat": 1.5}, {"warmup": -1}, {"milliseconds": float("nan")},
     {"milliseconds": -1}, {"interval": float("inf")}, {"interval": "1"}],
)  # fmt: skip
def test_timings_that_cannot_be(given: dict[str, Any]) -> None:
    """`nan` milliseconds would never end."""
    with pytest.raises(ValueError, match=next(iter(given))):
        Timing(**given)


def test_a_number_too_large_to_write_out_is_no_crash(tmp_path: Path) -> None:
    text = json.dumps(model(resources={"in": floats(1, 2, 3, 4), "out": floats(0, 0, 0, 0)}))
    path = write(tmp_path, text.replace('"Axis": 3', '"Axis": 1' + "0" * 900))
    assert check_file(path).status in (1, 2)
