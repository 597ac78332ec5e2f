"""The chains of the cuda engine's benchmark, on small tensors of the host, beside their single pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import anydml as dml
from benchmarks.chain import Sum, twelve

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

from benchmarks.cuda.clock import Clock  # noqa: E402 - what follows needs PyTorch
from benchmarks.cuda.measure import Bench, measure  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.pool import Pool  # noqa: E402 - it needs PyTorch
from benchmarks.cuda.rows import rows  # noqa: E402 - it needs PyTorch

if TYPE_CHECKING:
    from benchmarks.cuda.kinds import CudaRow

SMALL = 64
BENCH = Bench(dml.Device("reference"), Pool("cpu"), Clock("cpu"), ("torch",), cache=1000, rounds=2)


def chains(family: str = "chain") -> list[CudaRow]:
    return [row for row in rows(BENCH.pool, SMALL, growth=False) if row.family == family]


every_chain = pytest.mark.parametrize("row", chains(), ids=lambda row: row.name)


def test_the_chains_are_those_that_people_write() -> None:
    names = {row.name.removeprefix("chain, ") for row in chains()}
    assert {"crop, running sum", "flip, running sum, flip", "two crops, gather rows of 128"} < names
    assert len(names) == 6
    assert {(row.vs_single, row.vs_compile, row.compiled) for row in chains()} == {(1.15, 0.9, True)}
    assert [row.goal for row in chains() if "sum" in row.name or "gather" in row.name] == [2.0] * 5


@every_chain
def test_a_chain_is_measured_beside_its_single_pass(row: CudaRow) -> None:
    found = measure(row, BENCH)
    assert set(found["seconds"]) == {"anydml", "single", "torch", "copy"}
    assert found["wrong"] is False
    assert found["vs_single"] > 0
    assert found["vs_compile"] is None


@every_chain
def test_torch_compile_takes_a_chain_whole(row: CudaRow) -> None:
    (inputs,) = row.sets(1)
    whole = torch.compile(row.expression, backend="eager", dynamic=False, fullgraph=True)
    assert torch.equal(whole(*inputs), row.expression(*inputs))


def test_what_a_chain_should_give_is_told_by_its_single_pass(capsys: pytest.CaptureFixture[str]) -> None:
    row = next(row for row in chains() if "flip, running sum" in row.name)
    assert row.chain is not None
    row.desc = replace(row.chain, single=Sum(1)).desc
    assert measure(row, BENCH)["wrong"] is True
    assert "OUR ANSWER IS WRONG" in capsys.readouterr().err


def test_compiling_is_measured_without_peers() -> None:
    (row,) = chains("compile")
    found = measure(row, BENCH)
    assert set(found["seconds"]) == {"anydml"}
    assert found["wrong"] is False
    assert found["compile_ms"] == found["seconds"]["anydml"] * 1e3
    assert len(twelve().compile(dml.Device("reference")).desc.nodes) == 12
