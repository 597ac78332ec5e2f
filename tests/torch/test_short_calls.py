"""Graphs of few steps are one native call on tensors' addresses, and tensors that lie otherwise go the long way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

import anydml  # noqa: E402 - after PyTorch, as above
from anydml.core.errors import DescriptionError  # noqa: E402 - likewise
from anydml.core.memory import HOST  # noqa: E402 - likewise
from anydml.runtime.profiler_hook import WATCHER, Recorder  # noqa: E402 - likewise
from anydml.torch import part  # noqa: E402 - it needs PyTorch
from compiled_torch import Compiled  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def _short(function: Any, *given: Any) -> tuple[Compiled, Any]:
    compiled = Compiled(function)
    compiled.check(*given)
    (program,) = compiled.programs
    if not program._state.direct:
        pytest.skip("this engine has no such calls")
    return compiled, program


def _long_calls(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """An element for each call that arrays are made for."""
    made: list[None] = []
    call = part.GraphPart.__call__

    def counted(self: part.GraphPart, *args: Any) -> Any:
        made.append(None)
        return call(self, *args)

    monkeypatch.setattr(part.GraphPart, "__call__", counted)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_a_short_graph_is_one_call(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    torch.manual_seed(1)
    x = torch.randn(4, 3).mul(3).to(dtype)
    compiled, _ = _short(lambda x: (x[1:] == x[:-1], x.t() & x.t() if dtype is torch.bool else x.t() * 3), x)
    made = _long_calls(monkeypatch)
    first, second = compiled.check(x), compiled.check(x.roll(1, 0))
    assert not made
    assert first[0].data_ptr() != second[0].data_ptr()
    first[1].untyped_storage().resize_(1 << 10)  # it is PyTorch's own memory


def test_results_lie_as_pytorchs(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    compiled, _ = _short(lambda x: (x * 2, x.sum(), x.permute(2, 0, 1, 3) + 1), x)
    made = _long_calls(monkeypatch)
    for one, other in zip(compiled.check(x), compiled.model(x), strict=True):
        assert (one.shape, one.stride()) == (other.shape, other.stride())
    assert not made


def test_weights_that_are_written_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = torch.nn.Linear(8, 8)
    compiled, program = _short(layer, torch.randn(2, 8))
    made = _long_calls(monkeypatch)
    compiled.check(torch.randn(2, 8))
    assert not made
    layer.weight.mul_(2)
    compiled.check(torch.randn(2, 8))
    assert len(made) == 1  # laid out anew
    compiled.check(torch.randn(2, 8))
    assert len(made) == 1
    assert program._state.direct


def test_what_lies_otherwise_goes_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    _, program = _short(lambda x: x * 2 + 1, torch.randn(3, 3))
    made = _long_calls(monkeypatch)
    x = torch.randn(3, 3)
    several = [x.t(), torch._neg_view(x), x.double(), x[:, ::2].expand(3, 2)]
    for given in several[:3]:
        (found,) = program([given])
        torch.testing.assert_close(found, (given * 2 + 1).float())
    assert len(made) == 3
    with pytest.raises(anydml.DmlError):
        program([several[3]])
    freed = torch.randn(3, 3)
    freed.untyped_storage().resize_(0)
    with pytest.raises(DescriptionError, match="storage must have memory"):
        program([freed])


def test_a_profile_sees_short_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, _ = _short(lambda x: x * 2 + 1, torch.randn(3, 3))
    made = _long_calls(monkeypatch)
    recorder = Recorder(HOST)
    token = WATCHER.set(recorder)
    try:
        compiled.check(torch.randn(3, 3))
    finally:
        WATCHER.reset(token)
    assert len(made) == 1
    assert len(recorder.passes) == 1
