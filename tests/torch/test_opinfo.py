"""A sample of what `make test-torch` judges: OpInfos and ModuleInfos, forward and backward."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from tests.torch import opinfo  # noqa: E402 - it imports PyTorch

WHOLE = (
    "bitwise_left_shift", "cummax", "diagonal_scatter", "erfinv", "floor_divide",
    "lgamma", "median", "nn.functional.adaptive_max_pool2d", "nn.functional.avg_pool2d", "nn.functional.pad.replicate",
    "pow", "remainder", "scatter_reduce.mean", "searchsorted", "sort", "nn.BatchNorm1d", "nn.GELU", "nn.Linear",
)  # fmt: skip
PARTLY = {"fft.fft": "_fft", "linalg.inv": "linalg_inv", "double": "float64"}
"""With a part of a reason that is told."""


def _judge(name: str) -> tuple[set[str], dict[str, int]]:
    verdicts, reasons = set(), dict[str, int]()
    for dtype, backward in opinfo.modes_of(name):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict, told = opinfo.judge(name, getattr(torch, dtype), backward=backward, most=2)
        assert verdict in ("whole", "partly"), f"{name} {dtype}: {dict(told)}"
        verdicts.add(verdict)
        reasons |= told
    return verdicts, reasons


@pytest.mark.parametrize("name", WHOLE)
def test_operators_and_modules_that_are_whole(name: str) -> None:
    verdicts, reasons = _judge(name)
    assert verdicts == {"whole"}, reasons


@pytest.mark.parametrize("name", PARTLY)
def test_what_goes_to_pytorch_is_told_with_its_reason(name: str) -> None:
    verdicts, reasons = _judge(name)
    assert "partly" in verdicts
    assert any(PARTLY[name] in why for why in reasons)


def test_a_wrong_answer_and_an_error_are_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    from anydml.torch.lower import LOWERINGS

    def wrong(context: Any, x: Any, *_: Any) -> Any:
        return context.full(7, context.data_type(), x.sizes)

    monkeypatch.setitem(LOWERINGS, "aten.sin.default", wrong)
    assert opinfo.judge("sin", torch.float32, backward=False, most=1)[0] == "wrong"

    def stumble(*_: Any) -> Any:
        raise RuntimeError("stumbled")

    monkeypatch.setitem(LOWERINGS, "aten.sin.default", stumble)
    assert opinfo.judge("sin", torch.float32, backward=False, most=1)[0] == "crash"
