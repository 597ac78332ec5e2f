"""The benchmark of the cuda engine, on small tensors of the host: its rows, its peers' answers, its checks."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

from benchmarks import __main__ as command  # noqa: E402 - what follows needs PyTorch
from benchmarks.cuda import run as running  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.check import fault, is_roughly, units_off  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.clock import Clock, time_limit  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.contestants import Contestant, cupy, eager, ours, single  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.kinds import scan_row  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.measure import Bench, measure  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.pool import Pool, signed  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.rows import SIDE, rows  # noqa: E402 - it needs PyTorch
from benchmarks.row import size  # noqa: E402 - it needs PyTorch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.cuda.kinds import CudaRow

SMALL = 64


def named(name: str, pool: Pool | None = None) -> CudaRow:
    return next(row for row in rows(pool or Pool("cpu"), SMALL) if row.name == name)


def bench(**options: Any) -> Bench:
    return Bench(dml.Device("reference"), Pool("cpu"), Clock("cpu"), ("torch",), cache=1000, rounds=2, **options)


def test_full_rows_are_of_the_sizes_that_are_promised() -> None:
    full = {row.name: row for row in rows(Pool("cpu"), SIDE)}
    assert len(full) == len(rows(Pool("cpu"), SIDE))
    assert full["slice, last axis reversed"].output.sizes == (32768, 32768)
    assert full["running sum, [64,1024,1024], axis 1"].bytes == 2 * 2**28
    assert full["running sum, [1,1048576,1024], axis 1"].output.sizes == (1, 2**20, 1024)
    assert full["running sum, one row"].output.sizes == (2**28,)
    assert full["gather rows of 128, clamp"].output.sizes == (2**22, 128)
    assert full["gather rows of 8, raise"].output.sizes == (40 * 2**20, 8)
    assert full["gather scalars by 2-D index, clamp"].bytes == 2**26 * (4 + 4 + 16)
    assert full["slice, every second column"].lines == 2**32 + 2**31
    assert full["growth, running sum, 1 MiB"].output.sizes == (256, 1024)
    assert full["growth, last axis reversed, 8 GiB"].output.sizes == (65536, 32768)
    for width in ("uint8", "float16", "uint64"):
        assert size(full[f"slice, last axis reversed, {width}"].output) == (2**31 if width == "uint8" else 2**32)
    assert full["chain, flip, running sum, flip"].output.sizes == (32768, 32768)
    assert full["chain, crop, running sum"].bytes == 2 * 2**30
    assert full["chain, two crops, gather rows of 128"].output.sizes == (2**21, 128)
    quick = {row.name for row in rows(Pool("cpu"), 8192, quick=True)}
    assert quick < set(full)
    assert max(size(row.output) for row in full.values()) == 2**33


def test_every_row_has_a_goal_and_growth_can_be_left_out() -> None:
    made = rows(Pool("cpu"), SMALL, growth=False)
    assert not [row.name for row in made if row.name.startswith("growth")]
    assert [row.name for row in made if not any(row.goals.values())] == ["launch, slice1(...) of 4 x 4"]


@pytest.mark.parametrize("name", [row.name for row in rows(Pool("cpu"), SMALL)])
def test_the_answers_agree_and_ours_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", np)  # the functions of it that are used are NumPy's
    pool = Pool("cpu")
    row = named(name, pool)
    sets = row.sets(2)
    outs = pool.room(row.output.data_type.name.lower(), row.output.sizes, 2)
    made = ours(row, sets, outs, dml.Device("reference"))
    for out, call in zip(outs, made.calls, strict=True):
        out.view(torch.uint8).fill_(0xA5)
        call()
    assert [fault(row, inputs, out) for inputs, out in zip(sets, outs, strict=True)] == ["", ""]
    right = outs[0].clone()
    theirs, targets = [[signed(x) for x in inputs] for inputs in sets], [signed(out) for out in outs]
    for enter in (eager, cupy, partial(single, engine=dml.Device("reference"))):
        peer = enter(row, theirs, targets)
        if peer is not None:
            outs[0].view(torch.uint8).fill_(0xA5)
            assert is_roughly(row, peer.answer(targets[0]), signed(right))
    outs[0].view(torch.uint8).fill_(0xA5)
    assert ("elements differ, the first at 0" if row.exact else " off") in fault(row, sets[0], outs[0])


def test_sets_lie_apart_and_are_the_same_from_run_to_run() -> None:
    first, second = (Pool("cpu", seed=3) for _ in range(2))
    parts = first.values("float32", (5, 3), 4)
    assert len({part.data_ptr() for part in parts}) == 4
    assert torch.equal(torch.stack(parts), torch.stack(second.values("float32", (5, 3), 4)))
    assert first.bits("uint64", (2,))[0].data_ptr() == parts[0].data_ptr()
    assert int(first.indices(7, (100, 2), "int32").max()) < 7


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("options", [{}, {"decreasing": True}, {"exclusive": True}])
def test_a_sum_may_be_off_in_the_last_place_and_no_further(axis: int, options: dict[str, Any]) -> None:
    row = scan_row("sum", Pool("cpu"), (3, 5), axis, **options)
    x = torch.tensor(np.random.default_rng(0).random((3, 5), dtype="float32"))
    sums = dml.cumulative_summation(
        x.numpy(), axis, "decreasing" if "decreasing" in options else "increasing", "exclusive" in options
    )
    assert units_off(row, x, torch.from_numpy(sums)) <= 0.5
    sums[1, 1] = np.nextafter(sums[1, 1], np.float32(9))
    assert 0.5 < units_off(row, x, torch.from_numpy(sums)) <= 1.5
    sums[1, 1] = np.nan
    assert fault(row, [x], torch.from_numpy(sums)) == "nan units in the last place off"


def test_a_row_is_measured() -> None:
    found = measure(named("running sum, one row"), bench())
    assert set(found["seconds"]) == set(found["least"]) == {"anydml", "torch", "copy"}
    assert found["wrong"] is False
    assert found["best_peer"] == "torch"
    json.dumps(found)


def test_a_launch_is_measured_on_both_clocks() -> None:
    found = measure(named("launch, bound slice of 4 x 4"), bench())
    assert {"anydml", "torch"} == set(found["seconds"]) == set(found["host_seconds"])
    assert found["device_us"] > 0
    assert found["host_us"] > 0


def test_a_wrong_answer_is_said_and_the_row_still_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    row = named("slice, every second row")
    monkeypatch.setattr(row, "function", lambda _, out: lambda: out.zero_())
    found = measure(row, bench())
    assert found["wrong"] is True
    assert "elements differ" in found["fault"]
    assert "torch" in found["seconds"]


def test_ours_failing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ValueError("no kernel\nmore")

    row = named("slice, every second row")
    row.function = lambda *_: fail
    found = measure(row, bench())
    assert found["error"] == "ValueError: no kernel"
    assert found["seconds"] == {}
    assert "ours failed" in capsys.readouterr().err


def failing(when: int) -> Any:
    """A peer that fails at its so-many-th call."""
    counted = []

    def call() -> None:
        counted.append(1)
        if len(counted) >= when:
            raise RuntimeError("out of memory")

    return call


@pytest.mark.parametrize("when", [1, 2, 3])
def test_a_peer_that_fails_is_left_out(when: int, capsys: pytest.CaptureFixture[str]) -> None:
    row = named("slice, last axis reversed")
    call, flip = failing(when), row.torch
    row.torch = lambda x, out: lambda: (call(), flip(x, out)())[1]
    found = measure(row, bench())
    assert set(found["seconds"]) == {"anydml", "copy"}
    assert "torch is left out: RuntimeError: out of memory" in capsys.readouterr().err


def test_a_peer_that_answers_otherwise_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    row = named("slice, last axis reversed")
    row.torch = lambda _, out: lambda: out.zero_()
    assert set(measure(row, bench())["seconds"]) == {"anydml", "copy"}
    assert "its answer is not ours" in capsys.readouterr().err


def test_a_peer_whose_time_is_spent_is_left_out() -> None:
    found = measure(named("slice, last axis reversed"), bench(allowances={"torch": 0.0}))
    assert set(found["seconds"]) == {"anydml", "copy"}


def test_what_takes_too_long_is_cut_off() -> None:
    with pytest.raises(TimeoutError), time_limit(0.01):
        time.sleep(10)
    time.sleep(0.02)


def go(**options: Any) -> Iterator[dict[str, Any]]:
    return running.run("reference", True, False, "slice", place="cpu", side=SMALL, **options)


def test_the_run_goes_through_the_rows_and_tells_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "CACHE", 1000)
    monkeypatch.setitem(sys.modules, "cupy", None)
    found = list(go(peers=["torch", "cupy"]))
    quick = rows(Pool("cpu"), SMALL, quick=True, growth=False)
    assert [row["name"] for row in found] == [row.name for row in quick if "slice" in row.name]
    assert all("torch" in row["seconds"] for row in found)
    said = capsys.readouterr().err
    assert "cupy is left out of every row: ModuleNotFoundError" in said
    assert "slice, last axis reversed" in said
    assert "in all" in said


def test_rows_are_left_out_when_the_time_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(go(peers=[], seconds=0.0)) == []
    assert "left out, 0 s are over" in capsys.readouterr().err


def test_a_row_that_cannot_be_measured_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no memory for the copy")

    monkeypatch.setattr("benchmarks.cuda.contestants.copy", fail)
    monkeypatch.setattr(running, "CACHE", 1000)
    found = list(go(peers=[]))
    assert len(found) > 3
    assert {row.get("error") for row in found if row["family"] == "slice"} == {"RuntimeError: no memory for the copy"}


def on_the_host(_: argparse.Namespace) -> tuple[dict[str, Any], Iterator[dict[str, Any]]]:
    return running.machine("cpu"), go(peers=[])


def test_a_device_that_is_lost_ends_the_run_and_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: str) -> None:
        raise RuntimeError("an illegal memory access")

    monkeypatch.setattr(running, "_free", fail)
    monkeypatch.setattr(command, "on_cuda", on_the_host)
    assert command.main(["--engine", "cuda", "--json", str(tmp_path / "x.json")]) == 1
    assert len(json.loads((tmp_path / "x.json").read_text())["rows"]) == 1
    assert "no longer answers after 'launch, bound slice of 4 x 4'" in capsys.readouterr().err


def test_without_a_gpu_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="needs a GPU"):
        command.main(["--engine", "cuda"])


def test_the_machine_is_named() -> None:
    about = running.machine("cpu")
    assert about["device"] == "cpu"
    assert about["versions"]["torch"] == str(torch.__version__)


class FakeEvent:
    """An event of a stream that is never behind; each is a millisecond after the one before."""

    made = 0

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        FakeEvent.made += 1
        self.at = FakeEvent.made

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, other: FakeEvent) -> float:
        return float(other.at - self.at)


def test_events_are_recorded_around_the_calls_behind_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: log.append("synchronize"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: log.append("wait"))
    contestant = Contestant([lambda: log.append("a"), lambda: log.append("b")])
    device, host = Clock("cuda").time(contestant, 5)
    assert log == ["synchronize", "wait", "a", "b", "a", "b", "a"]
    assert device == pytest.approx(1e-3 / 5)
    assert host > 0
    log.clear()
    Clock("cuda").time(contestant, 1, hide_launch=False)
    assert log == ["synchronize", "a"]
    log.clear()
    Clock("cuda").time(Contestant(contestant.calls, on_own_stream=True), 1)
    assert log == ["synchronize", "a"]
