"""Weights: laid out once where nobody asks for a gradient, read in place otherwise, and never stale."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

from compiled_torch import Compiled, Module  # noqa: E402 - it needs PyTorch

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def model_and_input() -> tuple[Any, Any]:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    return model, torch.randn(3, 6)


def test_frozen_weights_are_part_of_the_graph() -> None:
    model, x = model_and_input()
    compiled, reading = Compiled(model), None
    with torch.no_grad():
        compiled.check(x)
        (graph,) = compiled.programs[0].parts[0].graphs
        assert list(graph.inputs) == ["x0"] or len(graph.inputs) == 1
        reading = Compiled(model, freeze=False)
        reading.check(x)
    assert len(reading.programs[0].parts[0].graphs[0].inputs) == 5


def test_what_is_written_into_frozen_weights_is_seen() -> None:
    model, x = model_and_input()
    compiled = Compiled(model)
    with torch.no_grad():
        for _ in range(6):  # laid out anew some times, then read in place
            compiled.check(x)
            model[0].weight.add_(0.5)
        model[0].weight.data = torch.ones(5, 6)
        compiled.check(x)
        other, _ = model_and_input()
        model.load_state_dict(other.state_dict())
        compiled.check(x)
    assert len(compiled.programs) == 1


def test_weights_are_laid_out_once_for_all_calls() -> None:
    model, x = model_and_input()
    compiled = Compiled(model)
    with torch.no_grad():
        compiled.check(x)
        (program,) = compiled.programs
        state = program._state
        compiled.check(x)
        assert program._state is state
        model[0].weight.mul_(2)
        compiled.check(x)
    assert program._state is not state
    assert state.steps[0].run is not program.parts[0]  # a call that began with it ends with it


def test_frozen_weights_of_another_module() -> None:
    first, x = model_and_input()
    second, _ = model_and_input()
    with torch.no_grad():
        second[0].bias.fill_(3.0)
        run = Compiled(lambda model, x: model(x))
        for model in (first, second, first):
            run.check(model, x)


def test_a_step_of_an_optimiser_is_seen() -> None:
    model, x = model_and_input()
    compiled = Compiled(model, strict=True)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        loss = compiled.check(x).square().sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert len({*losses}) == 4
    with torch.no_grad():
        compiled.check(x)


def test_weights_that_share_memory_and_lie_otherwise() -> None:
    class Tied(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(7, 4)
            self.out = torch.nn.Linear(4, 7, bias=False)
            self.out.weight = self.table.weight
            self.turned = torch.nn.Parameter(torch.randn(4, 4).t())

        def forward(self, tokens: Any) -> Any:
            return self.out(self.table(tokens) @ self.turned)

    with torch.no_grad():
        Compiled(Tied(), strict=True).check(torch.tensor([[1, 6, 0]]))


def test_inference_mode_has_weights_without_versions() -> None:
    with torch.inference_mode():
        model, x = model_and_input()
        compiled = Compiled(model)
        compiled.check(x)
        model[0].weight.add_(1)
        compiled.check(x)
