"""Graphs of few steps are called without a binding, and arrays that lie otherwise are bound again."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

from anydml.torch import part  # noqa: E402 - it needs PyTorch
from compiled_torch import Compiled  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def test_a_short_graph_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[part._Short] = []
    find = part._Short.of

    def keep(compiled: object) -> part._Short | None:
        found = find(compiled)
        if found is not None:
            made.append(found)
        return found

    monkeypatch.setattr(part._Short, "of", keep)
    compiled = Compiled(lambda x: torch.relu(x) * 2 + 1)
    torch.manual_seed(1)
    first = compiled.check(torch.randn(4, 3))
    if not made:
        pytest.skip("this engine has no such calls")
    (short,) = made
    monkeypatch.setattr(short, "_compiled", None)  # a binding would fail now
    second = compiled.check(torch.randn(4, 3))
    compiled.check(torch.randn(3, 4).t())
    assert first.data_ptr() != second.data_ptr()
    with pytest.raises(TypeError):
        short(torch.randn(2, 2).double().numpy())  # which lies otherwise than what was bound
