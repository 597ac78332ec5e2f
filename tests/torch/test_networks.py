"""Networks as people write them, by `torch.compile(model, backend="anydml")`: whole, and with PyTorch's own answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn as nn  # noqa: E402 - it needs PyTorch
import torch.nn.functional as F  # noqa: E402, N812 - likewise, by the name that everybody has for it

from compiled_torch import Compiled  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


class Residual(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """Two convolutions beside a shorter way, as ResNet has them; the second depthwise."""

    def __init__(self, channels: int, more: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, more, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(more)
        self.second = nn.Conv2d(more, more, 3, padding=1, groups=more)
        self.short = nn.Conv2d(channels, more, 1, stride=2)

    def forward(self, x: Any) -> Any:
        y = self.second(F.relu(self.norm(self.first(x))))
        return F.relu(y + self.short(x))


def image_network() -> tuple[Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2),
        nn.Hardswish(),
        nn.MaxPool2d(3, stride=2, padding=1, ceil_mode=True),
        Residual(8, 12),
        nn.AvgPool2d(2),
        nn.Upsample(scale_factor=2, mode="nearest"),
        nn.GroupNorm(3, 12),
        nn.ConvTranspose2d(12, 6, 3, stride=2, padding=1, output_padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
        nn.LogSoftmax(-1),
    )
    return model, (torch.randn(2, 3, 22, 18),)


def signal_network() -> tuple[Any, Any]:
    model = nn.Sequential(
        nn.Conv1d(2, 6, 5, stride=2, padding=2), nn.GELU(approximate="tanh"), nn.Conv1d(6, 6, 3, dilation=2), nn.ELU()
    )
    return model, (torch.randn(2, 2, 30),)


def transformer() -> tuple[Any, Any]:
    layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 7, 16),)


class Recurrent(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(5, 6)
        self.gated = nn.GRUCell(6, 4)

    def forward(self, x: Any) -> Any:
        h, c, g = (x.new_zeros(x.shape[1], n) for n in (6, 6, 4))
        found = []
        for t in range(x.shape[0]):
            h, c = self.cell(x[t], (h, c))
            g = self.gated(h, g)
            found.append(g)
        return torch.stack(found)


class Decoder(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """A step of a language model: an embedding, attention to what was before, and the logits of the next token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 16), nn.Embedding(32, 16)
        self.norm, self.last = nn.LayerNorm(16), nn.LayerNorm(16, bias=False)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)

    def forward(self, tokens: Any, mask: Any) -> Any:
        batch, count = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(count))
        q, k, v = (one.view(batch, count, 2, 8).transpose(1, 2) for one in self.qkv(self.norm(x)).split(16, -1))
        whole = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out((whole + masked).transpose(1, 2).reshape(batch, count, 16))
        x = x + self.down(F.silu(self.up(self.last(x))))
        return F.linear(x[:, -1], self.tokens.weight).softmax(-1)


def decoder() -> tuple[Any, Any]:
    mask = torch.rand(2, 1, 9, 9) > 0.3
    mask[0, 0, 4] = False  # a query that sees nothing
    return Decoder(), (torch.randint(0, 50, (2, 9)), mask)


NETWORKS = (image_network, signal_network, transformer, lambda: (Recurrent(), (torch.randn(4, 3, 5),)), decoder)
NAMES = ("image", "signal", "transformer", "recurrent", "decoder")


@pytest.mark.parametrize("make", NETWORKS, ids=NAMES)
def test_whole_networks_give_what_pytorch_gives(make: Callable[[], tuple[Any, Any]]) -> None:
    torch.manual_seed(3)
    model, args = make()
    model.eval()
    with torch.no_grad():
        compiled = Compiled(model, strict=True)
        for _ in range(2):  # planned, and run again
            compiled.check(*args, rtol=1e-4, atol=1e-5)
    assert compiled.programs
    assert not compiled.fallbacks


@pytest.mark.parametrize("make", NETWORKS[:2], ids=NAMES[:2])
def test_networks_of_float16(make: Callable[[], tuple[Any, Any]]) -> None:
    torch.manual_seed(3)
    model, args = make()
    model = model.eval().half()
    with torch.no_grad():
        Compiled(model, strict=True).check(*(one.half() for one in args), rtol=2e-2, atol=2e-2)


def test_attention_is_one_pass() -> None:
    def attend(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    args = [torch.randn(1, 2, 64, 32) for _ in range(3)]
    with torch.no_grad():
        compiled, precise = Compiled(attend), Compiled(attend, precise=True)
        compiled.check(*args, rtol=1e-4, atol=1e-5)
        precise.check(*args, rtol=1e-4, atol=1e-5)
    counts = [len(one.programs[0].parts[0].graphs[0].recipe.steps) for one in (compiled, precise)]
    assert counts[0] == 1 < counts[1]


def test_pictures_behind_hardswish_stay_channels_last() -> None:
    """Written plane by plane, a depthwise convolution of 672 channels took 1.1 ms on one thread, and .2 so."""
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.Hardswish(), nn.Conv2d(32, 32, 3, padding=1, groups=32),
        nn.BatchNorm2d(32), nn.Hardswish(),
    ]  # fmt: skip
    picked = nn.Sequential(nn.Conv2d(32, 32, 1), nn.Hardsigmoid())

    class Squeezed(nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.picked, self.last = nn.Sequential(*layers), picked, nn.Conv2d(32, 16, 1)

        def forward(self, x: Any) -> Any:
            x = self.wide(x)
            return self.last(x * self.picked(x.mean((2, 3), keepdim=True)))

    compiled = Compiled(Squeezed().eval())
    with torch.no_grad():
        compiled.check(torch.randn(1, 16, 14, 14))
    (program,) = compiled.programs
    steps = program.parts[0].graphs[0].recipe.steps
    written = [step.target for step in steps if step.primitive.target.sizes[:4] == (1, 32, 14, 14)]
    assert written
    assert all(view.strides[1] == 1 for view in written), written
