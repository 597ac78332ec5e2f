"""Networks of torch-directml's samples, small and with weights made up, as their authors write them: on the device."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn as nn  # noqa: E402 - it needs PyTorch
import torch.nn.functional as F  # noqa: E402, N812 - likewise, by the name that everybody has for it
from torch.utils import backend_registration  # noqa: E402 - likewise

if not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this PyTorch lets no Python be a backend", allow_module_level=True)

import torch_directml  # noqa: E402 - likewise
from anydml.torch import backend  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.long]  # PyTorch's own
Module: Any = nn.Module


class InvertedResidual(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """MobileNetV2's: wider, by channel, narrower."""

    def __init__(self, channels: int, more: int, stride: int) -> None:
        super().__init__()
        wide = channels * 3
        self.has_short = stride == 1 and channels == more
        self.conv = nn.Sequential(
            nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, more, 1, bias=False), nn.BatchNorm2d(more),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.conv(x) if self.has_short else self.conv(x)


def mobilenet() -> tuple[Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True), InvertedResidual(8, 8, 1),
        InvertedResidual(8, 12, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.0), nn.Linear(12, 5),
    )  # fmt: skip
    return model, (torch.randn(4, 3, 24, 24),)


class Fire(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """SqueezeNet's: few channels, and from them many of two sizes."""

    def __init__(self, channels: int, few: int, many: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, few, 1)
        self.expand1, self.expand3 = nn.Conv2d(few, many, 1), nn.Conv2d(few, many, 3, padding=1)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.expand1(x)), torch.relu(self.expand3(x))], 1)


def squeezenet() -> tuple[Any, Any]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, ceil_mode=True), Fire(8, 4, 8),
        Fire(16, 4, 8), nn.Conv2d(16, 5, 1), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(),
    )  # fmt: skip
    return model, (torch.randn(2, 3, 26, 26),)


class Attention(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """'Attention is all you need', with masked_fill and a softmax written out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.w_q, self.w_k, self.w_v, self.fc = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, q: Any, k: Any, v: Any, mask: Any) -> Any:
        residual, batch = q, q.size(0)
        q, k, v = (
            w(x).view(batch, -1, self.heads, self.size).transpose(1, 2)
            for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        scores = torch.matmul(q / self.size**0.5, k.transpose(2, 3)).masked_fill(mask.unsqueeze(1) == 0, -1e9)
        found = (
            torch.matmul(F.softmax(scores, dim=-1), v).transpose(1, 2).contiguous().view(batch, -1, residual.size(2))
        )
        return self.norm(self.fc(found) + residual)


class Translator(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """One layer of an encoder, one of a decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.source, self.target = nn.Embedding(20, 16, padding_idx=0), nn.Embedding(20, 16, padding_idx=0)
        place, rate = torch.arange(30.0)[:, None], torch.exp(torch.arange(0, 16, 2) * (-math.log(1e4) / 16))
        self.register_buffer("places", torch.stack([(place * rate).sin(), (place * rate).cos()], -1).flatten(1))
        self.encoder, self.own, self.other = (Attention(16, 4) for _ in range(3))
        self.out = nn.Linear(16, 20, bias=False)

    def forward(self, source: Any, target: Any) -> Any:
        seen = (source != 0).unsqueeze(-2)
        count = target.size(1)
        later = (1 - torch.triu(torch.ones((1, count, count), device=target.device), diagonal=1)).bool()
        x = self.source(source) + self.places[: source.size(1)]
        x = self.encoder(x, x, x, seen)
        y = self.target(target) + self.places[:count].clone().detach()
        y = self.own(y, y, y, (target != 0).unsqueeze(-2) & later)
        return self.out(self.other(y, x, x, seen))


def translator() -> tuple[Any, Any]:
    source = torch.randint(1, 20, (2, 7))
    source[1, 5:] = 0
    return Translator(), (source, torch.randint(1, 20, (2, 6)))


class Darknet(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """YOLOv3: two sizes of boxes, decoded by a grid."""

    def __init__(self) -> None:
        super().__init__()

        def unit(channels: int, more: int, size: int, stride: int = 1) -> Any:
            convolution = nn.Conv2d(channels, more, size, stride, size // 2, bias=False)
            return nn.Sequential(convolution, nn.BatchNorm2d(more), nn.LeakyReLU(0.1))

        self.stem, self.down1, self.down2 = unit(3, 8, 3), unit(8, 12, 3, 2), unit(12, 16, 3, 2)
        self.narrow, self.wide = unit(16, 8, 1), unit(8, 16, 3)
        self.head1, self.head2 = nn.Conv2d(16, 3 * 7, 1), nn.Conv2d(28, 3 * 7, 1)
        self.upsample = nn.Upsample(scale_factor=2, mode="nearest")
        self.register_buffer("anchors", torch.tensor([[10.0, 13], [16, 30], [33, 23]]))

    def decoded(self, x: Any, stride: int) -> Any:
        batch, _, height, width = x.shape
        x = x.view(batch, 3, 7, height, width).permute(0, 1, 3, 4, 2).contiguous()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        grid = torch.stack((columns, rows), 2).view(1, 1, height, width, 2).float().to(x.device)
        y = x.sigmoid()
        middle = (y[..., 0:2] * 2.0 - 0.5 + grid) * stride
        size = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, 3, 1, 1, 2)
        return torch.cat((middle, size, y[..., 4:]), -1).view(batch, -1, 7)

    def forward(self, x: Any) -> Any:
        early = self.down1(self.stem(x))
        x = self.down2(early)
        x = x + self.wide(self.narrow(x))
        return torch.cat(
            [self.decoded(self.head1(x), 4), self.decoded(self.head2(torch.cat([self.upsample(x), early], 1)), 2)], 1
        )


def darknet() -> tuple[Any, Any]:
    return Darknet(), (torch.rand(1, 3, 16, 16),)


class RMSNorm(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * self.weight


class Llama(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """A decoder with rotary places, fewer heads of keys, SwiGLU, and a cache that it writes in place."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm1, self.norm2, self.last = nn.Embedding(30, 16), RMSNorm(16), RMSNorm(16), RMSNorm(16)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(16, n, bias=False) for n in (16, 8, 8, 16))
        self.w1, self.w2, self.w3 = nn.Linear(16, 24, bias=False), nn.Linear(24, 16, bias=False), nn.Linear(16, 24)
        self.out = nn.Linear(16, 30, bias=False)
        angles = torch.outer(torch.arange(12.0), 1.0 / 10000 ** (torch.arange(0, 4, 2).float() / 4))
        self.register_buffer("turns", torch.stack([angles.cos(), angles.sin()]))
        self.register_buffer("cache", torch.zeros(2, 2, 12, 2, 4), persistent=False)

    def turned(self, x: Any, start: int) -> Any:
        cos, sin = (one[start : start + x.shape[1]][None, :, None] for one in self.turns)
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(3)

    def forward(self, tokens: Any) -> Any:
        found: list[Any] = []
        for start, some in ((0, tokens[:, :6]), (6, tokens[:, 6:7]), (7, tokens[:, 7:8])):  # a prompt, and steps
            h, batch, count = self.tokens(some), some.shape[0], some.shape[1]
            x = self.norm1(h)
            q = self.turned(self.wq(x).view(batch, count, 4, 4), start)
            self.cache[0, :batch, start : start + count] = self.turned(self.wk(x).view(batch, count, 2, 4), start)
            self.cache[1, :batch, start : start + count] = self.wv(x).view(batch, count, 2, 4)
            keys, values = (
                one[:batch, : start + count, :, None].expand(-1, -1, -1, 2, -1).reshape(batch, start + count, 4, 4)
                for one in self.cache
            )
            scores = q.transpose(1, 2) @ keys.transpose(1, 2).transpose(2, 3) / 2.0
            if count > 1:
                scores = scores + torch.triu(torch.full((count, count), float("-inf"), device=h.device), 1)
            weights = F.softmax(scores.float(), dim=-1).type_as(q)
            h = h + self.wo((weights @ values.transpose(1, 2)).transpose(1, 2).contiguous().view(batch, count, -1))
            x = self.norm2(h)
            found.append(self.out(self.last(h + self.w2(F.silu(self.w1(x)) * self.w3(x)))))
        return torch.cat(found, 1)


def llama() -> tuple[Any, Any]:
    return Llama(), (torch.randint(0, 30, (2, 8)),)


class Diffusion(Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    """Stable Diffusion's parts: a step's embedding, a block with it, attention to a text, down and up."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
        self.into, self.down = nn.Conv2d(4, 16, 3, padding=1), nn.Conv2d(16, 16, 3, 2, 1)
        self.norm1, self.norm2, self.norm3 = (nn.GroupNorm(4, 16, eps=1e-6) for _ in range(3))
        self.conv1, self.conv2, self.project = nn.Conv2d(16, 16, 3, 1, 1), nn.Conv2d(16, 16, 3, 1, 1), nn.Linear(16, 16)
        self.q, self.k, self.v, self.o = nn.Linear(16, 16), nn.Linear(12, 16), nn.Linear(12, 16), nn.Linear(16, 16)
        self.gate, self.out = nn.Linear(16, 64), nn.Linear(32, 16)
        self.last = nn.Conv2d(32, 4, 3, padding=1)

    def forward(self, x: Any, steps: Any, text: Any) -> Any:
        rates = torch.exp(-math.log(10000) * torch.arange(4, dtype=torch.float32, device=x.device) / 4)
        angles = steps[:, None].float() * rates[None]
        time = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
        first = self.into(x)
        x = self.down(first)
        y = self.conv1(F.silu(self.norm1(x))) + self.project(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(y)))
        batch, channels, height, width = x.shape
        y = self.norm3(x).permute(0, 2, 3, 1).reshape(batch, height * width, channels)
        q, k, v = (one.view(batch, -1, 4, 4).transpose(1, 2) for one in (self.q(y), self.k(text), self.v(text)))
        y = y + self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, -1, channels))
        wide, gate = self.gate(y).chunk(2, dim=-1)
        y = self.out(wide * F.gelu(gate)).reshape(batch, height, width, channels).permute(0, 3, 1, 2).contiguous()
        return self.last(torch.cat([F.interpolate(x + y, scale_factor=2.0, mode="nearest"), first], 1))


def diffusion() -> tuple[Any, Any]:
    return Diffusion(), (torch.randn(2, 4, 8, 8), torch.tensor([7, 400]), torch.randn(2, 5, 12))


SAMPLES = (mobilenet, squeezenet, translator, darknet, llama, diffusion)


def on(device: Any, several: Any) -> Any:
    return tuple(one.to(device) for one in several)


@pytest.mark.parametrize("make", SAMPLES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_inference(make: Callable[[], tuple[Any, Any]], way: str) -> None:
    torch.manual_seed(5)
    torch._dynamo.reset()
    dml = torch_directml.device(torch_directml.default_device())
    model, args = make()
    other = copy.deepcopy(model).eval().to(dml)
    run = other if way == "eager" else torch.compile(other, backend=backend.compile_graph, dynamic=False)
    with torch.no_grad():
        wanted = model.eval()(*args)
        for _ in range(2):
            found = run(*on(dml, args))
            assert found.device == dml
            torch.testing.assert_close(found.to("cpu"), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [one for one in SAMPLES if one is not llama], ids=lambda make: make.__name__)
def test_training(make: Callable[[], tuple[Any, Any]]) -> None:
    torch.manual_seed(5)
    dml = torch_directml.device()
    model, args = make()
    other = copy.deepcopy(model).to(dml)
    losses = []
    for net, given in ((model, args), (other, on(dml, args))):
        optimiser = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(3):
            optimiser.zero_grad(set_to_none=False)
            loss = net(*given).square().mean()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
    assert losses[3:] == pytest.approx(losses[:3], rel=1e-3)
    assert losses[2] < losses[0]
