"""Images in other sizes by `torch.compile(model, backend="anydml")`: one operator forward and one backward."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn.functional as F  # noqa: E402, N812 - it needs PyTorch, by the name that everybody has for it

from compiled_torch import Compiled  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own
WHOLE: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7, 5), {"size": (20, 11), "mode": "bilinear"}),
    ((1, 3, 7, 5), {"size": 6, "mode": "bilinear", "align_corners": True}),
    ((2, 3, 7, 5), {"scale_factor": 2, "mode": "bilinear"}),
    ((1, 3, 7, 5), {"scale_factor": (2.0, 3.0), "mode": "bilinear", "align_corners": True}),
    ((1, 3, 8, 8), {"size": (3, 5), "mode": "bilinear"}),
    ((1, 3, 8, 4), {"scale_factor": 0.5, "mode": "bilinear", "recompute_scale_factor": True}),
    ((2, 3, 9), {"scale_factor": 2, "mode": "linear"}),
    ((2, 3, 3, 4, 5), {"size": (6, 3, 9), "mode": "trilinear"}),
    ((1, 3, 4, 4), {"scale_factor": 2}),
    ((2, 3, 3, 4, 2), {"size": (3, 12, 4)}),
]
OTHERS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 9), {"scale_factor": 1.5, "mode": "linear"}),
    ((1, 3, 4, 4), {"size": (7, 8)}),
    ((1, 3, 1, 4), {"size": (5, 6), "mode": "bilinear", "align_corners": True}),
    ((1, 3, 6, 6), {"size": (3, 4), "mode": "bilinear", "antialias": True}),
    ((1, 3, 6, 6), {"scale_factor": 2, "mode": "bicubic"}),
    ((1, 3, 4, 4), {"scale_factor": 2, "mode": "nearest-exact"}),
]


def _kinds(compiled: Compiled) -> list[str]:
    return [str(node.target) for program in compiled.programs for part in program.parts for node in part.nodes]


@pytest.mark.parametrize(
    ("shape", "named", "memory_format"),
    [
        (shape, named, order)
        for shape, named in WHOLE
        for order in (torch.contiguous_format, torch.channels_last)
        if order is torch.contiguous_format or len(shape) == 4
    ],
)
def test_one_operator_resizes(shape: tuple[int, ...], named: dict[str, Any], memory_format: Any) -> None:
    torch.manual_seed(1)
    x = torch.randn(shape).to(memory_format=memory_format)
    compiled = Compiled(lambda x: F.interpolate(x, **named))
    with torch.no_grad():
        found = compiled.check(x)
    assert found.is_contiguous(memory_format=memory_format)
    assert _kinds(compiled) == ["anydml.resample.default"]


@pytest.mark.parametrize(("shape", "named"), [*WHOLE, *OTHERS])
def test_gradients(shape: tuple[int, ...], named: dict[str, Any]) -> None:
    torch.manual_seed(2)
    x = torch.randn(shape)
    compiled = Compiled(lambda x: F.interpolate(x, **named))

    def gradient(function: Any) -> Any:
        own = x.clone().requires_grad_()
        function(own).square().sum().backward()
        return own.grad

    torch.testing.assert_close(gradient(compiled), gradient(compiled.model))
    assert ("anydml.resample.default" in _kinds(compiled)) is ((shape, named) in WHOLE)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_types(dtype: Any) -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 4, 5, 6).to(dtype)
    compiled = Compiled(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"))
    with torch.no_grad():
        compiled.check(x)
    assert bool(compiled.fallbacks) is (dtype is torch.float64)


def test_a_size_that_changes_is_not_a_number() -> None:
    compiled = Compiled(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), dynamic=True)
    with torch.no_grad():
        for size in (4, 5, 7):
            compiled.check(torch.randn(1, 2, size, 6))
    assert len(compiled.programs) == 1


@pytest.mark.parametrize("named", [{"size": (2, 2), "scale_factor": 2}, {"scale_factor": (2, 2, 2)}, {}])
def test_errors_are_pytorchs(named: dict[str, Any]) -> None:
    x = torch.randn(1, 2, 4, 4)
    with pytest.raises((ValueError, RuntimeError)) as wanted:
        F.interpolate(x, mode="bilinear", **named)
    with pytest.raises((ValueError, RuntimeError, torch._dynamo.exc.BackendCompilerFailed)) as found:
        Compiled(lambda x: F.interpolate(x, mode="bilinear", **named))(x)
    assert str(wanted.value).partition("\n")[0][:40] in str(found.value)
