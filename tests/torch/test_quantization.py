"""Quantised numbers in ATen graphs: steps as exported graphs have them, and products of bytes, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
from torch.ao.quantization.fx import _decomposed  # noqa: E402, F401 - it registers the operators

from compiled_torch import Compiled, Module  # noqa: E402 - likewise

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own
STEPS = torch.ops.quantized_decomposed
I8, U8 = torch.int8, torch.uint8


@pytest.mark.parametrize(("dtype", "low", "high", "zero"), [(I8, -127, 127, 0), (U8, 0, 255, 113), (I8, -8, 7, 3)])
def test_quantize_and_dequantize(dtype: Any, low: int, high: int, zero: int) -> None:
    scales, zeros = torch.tensor([0.1, 0.03, 0.5]), torch.tensor([zero, 1, 2])

    def work(x: Any) -> Any:
        whole = STEPS.quantize_per_tensor(x, 0.05, zero, low, high, dtype)
        rows = STEPS.quantize_per_channel(x, scales, zeros, 1, low, high, dtype)
        return (
            whole,
            STEPS.dequantize_per_tensor(whole, 0.05, zero, low, high, dtype),
            rows,
            STEPS.dequantize_per_channel(rows, scales, zeros, 1, low, high, dtype),
        )

    x = torch.cat([torch.randn(40, 3) * 5, torch.arange(-60, 60).reshape(40, 3) * 0.025])  # halves of steps, too
    Compiled(work, strict=True).check(x, rtol=0, atol=0)


class Exported(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """A layer as exporters for a quantised backend write it: steps about the input, weights of 8 bits by channel."""

    def __init__(self, is_image: bool) -> None:
        super().__init__()
        self.is_image = is_image
        sizes = (6, 4, 3, 3) if is_image else (6, 20)
        self.register_buffer("weight", torch.randint(-127, 128, sizes, dtype=I8))
        self.register_buffer("scales", torch.rand(6) * 0.02 + 0.01)
        self.register_buffer("zeros", torch.zeros(6, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        x = STEPS.quantize_per_tensor(x, 0.04, 120, 0, 255, U8)
        x = STEPS.dequantize_per_tensor(x, 0.04, 120, 0, 255, U8)
        weight = STEPS.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -127, 127, I8)
        y = torch.conv2d(x, weight) if self.is_image else torch.nn.functional.linear(x, weight)
        return STEPS.quantize_per_tensor(torch.relu(y), 0.1, 0, 0, 255, U8)


@pytest.mark.parametrize("is_image", [True, False], ids=["convolution", "product"])
def test_exported_layers(is_image: bool) -> None:
    torch.manual_seed(2)
    model, x = Exported(is_image), torch.randn(5, 4, 8, 8) if is_image else torch.randn(7, 20)
    with torch.no_grad():
        compiled = Compiled(model, strict=True)
        found, wanted = compiled(x), model(x)
    assert found.dtype is U8
    steps = (found.int() - wanted.int()).abs()
    assert steps.max() <= 1  # sums in another order end on the other side of a half
    assert (steps > 0).float().mean() < 0.01


def test_products_of_bytes_are_exact() -> None:
    a, b = (torch.randint(-128, 128, sizes, dtype=I8) for sizes in ((32, 64), (64, 24)))
    Compiled(torch._int_mm, strict=True).check(a, b, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_8_bits_alone(dtype: Any) -> None:
    torch.manual_seed(2)
    weight, scales = torch.randint(-128, 128, (32, 64), dtype=I8), (torch.rand(32) * 0.02).to(dtype)
    x = torch.randn(16, 64).to(dtype)
    found = Compiled(torch._weight_int8pack_mm, strict=True)(x, weight, scales)
    wanted = x.double() @ (weight.double() * scales.double()[:, None]).T
    assert found.dtype is dtype
    torch.testing.assert_close(found.double(), wanted, rtol=2**-8 if dtype is torch.bfloat16 else 1e-4, atol=1e-4)


def test_weights_of_4_bits_that_the_graph_unpacks() -> None:
    torch.manual_seed(2)
    packed, scales = torch.randint(0, 256, (32, 32), dtype=U8), torch.rand(32, 2) * 0.1

    def work(x: Any) -> Any:
        numbers = torch.stack([packed & 15, packed >> 4], -1).reshape(32, 2, 32).to(torch.float32) - 8
        return x @ (numbers * scales[..., None]).reshape(32, 64).t()

    with torch.no_grad():
        Compiled(work, strict=True).check(torch.randn(3, 64), rtol=1e-4, atol=1e-4)
