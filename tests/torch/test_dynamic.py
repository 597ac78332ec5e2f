"""Symbols of PyTorch are symbolic sizes: a changed batch is neither compiled nor planned again."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn.functional as F  # noqa: E402, N812 - by the name that everybody has for it

from anydml.torch.part import GraphPart  # noqa: E402 - it needs PyTorch
from compiled_torch import Compiled  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def test_a_batch_that_changes_has_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    build = GraphPart._build

    def building(part: GraphPart, symbols: Any) -> Any:
        built.append(symbols)
        return build(part, symbols)

    monkeypatch.setattr(GraphPart, "_build", building)
    torch.manual_seed(2)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(4, 2),
    )
    compiled = Compiled(model, dynamic=None, strict=True)
    with torch.no_grad():
        for batch in (40, 48, 100, 64):
            x = torch.randn(batch, 3, 9, 9)
            torch._dynamo.mark_dynamic(x, 0)
            compiled.check(x, rtol=1e-4, atol=1e-5)
    (program,) = compiled.programs
    (part,) = program.parts
    (graph,) = part.graphs
    assert graph.plans == 1
    assert len(built) == 2  # to find out what is ours, and for all sizes
    assert type(graph).__name__ == "SymbolicGraph"


def test_lengths_that_change_in_attention() -> None:
    def attend(x: Any, table: Any, places: Any) -> Any:
        batch, count, width = x.shape
        x = x + table[places][None, :count]
        q = x.view(batch, count, 2, width // 2).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, q, q, is_causal=True)
        mask = torch.ones(count, count, dtype=torch.bool).tril()
        y = y + F.softmax((q @ q.mT).masked_fill(~mask, float("-inf")), -1) @ q
        return torch.cat([y.transpose(1, 2).reshape(batch, count, width), x[:, : count // 2]], 1) * count

    compiled = Compiled(attend, dynamic=True)
    with torch.no_grad():
        for batch, count in ((3, 20), (5, 33), (2, 64), (3, 20)):
            args = torch.randn(batch, count, 8), torch.randn(70, 8), torch.arange(count)
            compiled.check(*args, rtol=1e-4, atol=1e-5)
    assert len(compiled.programs) == 1


def test_a_cache_that_grows_has_one_plan() -> None:
    def step(x: Any, keys: Any, table: Any) -> Any:
        past = keys.shape[2]
        x = x + table[torch.arange(past, past + 1)]
        keys = torch.cat([keys, x.view(1, 1, 2, 16).transpose(1, 2)], 2)
        y = F.scaled_dot_product_attention(x.view(1, 1, 2, 16).transpose(1, 2), keys, keys)
        return y.transpose(1, 2).reshape(1, 1, 32), keys

    compiled = Compiled(step, dynamic=True, strict=True)
    keys, table = torch.randn(1, 2, 5, 16), torch.randn(300, 32)
    torch._dynamo.utils.counters.clear()
    with torch.no_grad():
        for _ in range(40):
            _, keys = compiled.check(torch.randn(1, 1, 32), keys.contiguous(), table, rtol=1e-4, atol=1e-5)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    (part,) = compiled.programs[0].parts
    (graph,) = part.graphs
    assert graph.plans <= 3


def test_sizes_that_decide_are_compiled_for_each() -> None:
    def work(x: Any) -> Any:
        y = torch.zeros(x.shape[0] // 3, 2) + 1
        return x.sum() * y, x.shape[0] * 2

    compiled = Compiled(work, dynamic=True)
    for count in (9, 14, 30):
        compiled.check(torch.rand(count), rtol=1e-5, atol=1e-5)
    assert len(compiled.programs) == 1


def test_what_depends_on_data_is_pytorchs() -> None:
    compiled = Compiled(lambda x: x[x > 0].exp().sum() + x.sum(), dynamic=True)
    for count in (5, 8):
        compiled.check(torch.randn(count), rtol=1e-4, atol=1e-5)
