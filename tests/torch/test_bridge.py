"""Tensors in and out: the same memory, whatever its strides, and results that PyTorch owns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")

from anydml.torch.bridge import Layout  # noqa: E402 - it needs PyTorch
from compiled_torch import Compiled  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def lying(name: str) -> Any:
    """A tensor that lies in memory as the name says."""
    x = torch.arange(96.0).reshape(2, 3, 4, 4)
    return {
        "packed": x,
        "channels last": x.contiguous(memory_format=torch.channels_last),
        "turned": x.permute(3, 1, 0, 2),
        "a slice": x[:, 1:, ::2],
        "repeated": x[:, :1].expand(2, 5, 4, 4),
        "truths": x > 40,
        "one number": torch.tensor(3.0),
        "one element": x[:1, :1, :1, :1],
        "offset": torch.arange(97.0)[1:],
        "a parameter": torch.nn.Parameter(x),
    }[name]


NAMES = ("packed", "channels last", "turned", "a slice", "repeated", "truths", "one number", "one element", "offset",
         "a parameter")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_copied(name: str) -> None:
    x = lying(name)
    layout = Layout.of(x, by_strides=True)
    array = layout.array(x)
    assert array.ctypes.data == x.data_ptr()
    back = layout.tensor(array)
    assert back.data_ptr() == x.data_ptr()
    assert back.dtype is x.dtype


@pytest.mark.parametrize("name", NAMES)
def test_answers_for_every_layout(name: str) -> None:
    x = lying(name)

    def work(x: Any) -> Any:
        return x * 2 + 1, (x > 5).logical_not(), x.float().mean()

    with torch.no_grad():
        Compiled(work, strict=True).check(x)


def test_channels_last_stays_so() -> None:
    x = lying("channels last")
    with torch.no_grad():
        found = Compiled(torch.nn.Conv2d(3, 4, 3), strict=True)(x)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_results_are_tensors_of_their_own() -> None:
    def work(x: Any) -> Any:
        y = x + 1
        return y, y, x, y.view(-1)

    x = torch.zeros(2, 2)
    found = Compiled(work)(x)
    found[0].resize_(4).fill_(7)
    assert found[2] is x
    assert np.array_equal(x.numpy(), np.zeros((2, 2)))
    assert type(found[0]) is torch.Tensor
