"""What is not ours goes to PyTorch, by parts, and answers stay right."""

from __future__ import annotations

import logging
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

import anydml as dml  # noqa: E402 - after the question whether PyTorch is there
from anydml.torch import backend  # noqa: E402 - it needs PyTorch
from compiled_torch import Compiled, Module  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def test_what_has_no_lowering_runs_on_pytorch_between_our_graphs(caplog: pytest.LogCaptureFixture) -> None:
    def work(x: Any) -> Any:
        y = torch.relu(x) * 2
        wide = (y.double() + 1e-9).float()
        return torch.tanh(wide) + y

    compiled = Compiled(work)
    with caplog.at_level(logging.INFO, "anydml.torch"):
        compiled.check(torch.randn(4, 6))
    (program,) = compiled.programs
    assert len(program.parts) == 2
    assert {name.partition(" ")[0] for name in program.fallbacks} == {"aten._to_copy.default", "aten.add.Tensor"}
    (told,) = [one.message for one in caplog.records if one.name == "anydml.torch"]
    assert "3 by PyTorch" in told
    assert "aten.add.Tensor (float64)" in told


def test_strict_names_what_pytorch_would_run() -> None:
    with pytest.raises(
        dml.UnsupportedError, match=r"torch\.compile: every node must be lowered.*aten\._fft_r2c.*no low"
    ):
        Compiled(lambda x: torch.fft.rfft(x).abs(), strict=True)(torch.randn(8))


def test_results_of_one_node_that_both_read() -> None:
    def work(x: Any) -> Any:
        low, high = torch.aminmax(x)  # PyTorch's
        first, second = x.split(2)  # ours
        return first * high + torch.linalg.inv(second @ second.T + 3 * torch.eye(2)).sum() - low

    Compiled(work).check(torch.rand(4, 5), rtol=1e-4, atol=1e-4)


def test_random_numbers_are_those_of_pytorch_in_its_order() -> None:
    def work(x: Any) -> Any:
        first = torch.rand_like(torch.exp(x))
        second = torch.randn(3)
        return torch.nn.functional.dropout(first * 2, 0.5) + torch.bernoulli(first).sum() + second

    compiled = Compiled(work)
    found = []
    for run in (compiled, torch.compile(work, backend="aot_eager"), compiled):
        torch.manual_seed(5)
        found.append(run(torch.zeros(2, 3)))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


@pytest.mark.parametrize(
    "x", [torch.zeros(0, 3), torch.zeros((), dtype=torch.float64), torch.zeros(3, dtype=torch.bfloat16)]
)
def test_tensors_that_directml_lacks(x: Any) -> None:
    Compiled(lambda x: torch.relu(x + 1) * 2).check(x)


def test_inputs_and_buffers_are_written() -> None:
    class Counting(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x: Any) -> Any:
            self.seen.add_(x.sum(0))
            x.mul_(2)
            return x + self.seen

    model, other = Counting(), Counting()
    compiled = Compiled(model, strict=True)
    with torch.no_grad():
        for _ in range(3):
            x = torch.rand(2, 3)
            y = x.clone()
            torch.testing.assert_close(compiled(x), other(y))
            torch.testing.assert_close(x, y)
            torch.testing.assert_close(model.seen, other.seen)


def test_an_index_outside_is_an_error() -> None:
    compiled = Compiled(lambda x, i: x[i] * 2, strict=True)
    compiled.check(torch.randn(4, 2), torch.tensor([3, -4]))
    with pytest.raises(IndexError, match=r"index 4 is out of bounds for dimension 0 with size 4"):
        compiled(torch.randn(4, 2), torch.tensor([4, 0]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 3}, r"torch\.compile: options must have no 'speed'.*there are engine, threads, strict"),
        ({"strict": 1}, r"torch\.compile: strict must be True or False; got 1"),
        ({"threads": "two"}, r"torch\.compile: threads must be a whole number; got 'two'"),
        ({"engine": 3}, r"torch\.compile: engine must be an engine's name; got 3"),
    ],
)
def test_options_that_are_none(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.DescriptionError, match=message):
        backend.read_options(options)
