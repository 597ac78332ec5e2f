"""bfloat16, which DirectML lacks: computed in FLOAT32, as near to FLOAT64 as PyTorch computes it or nearer."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn as nn  # noqa: E402 - it needs PyTorch
import torch.nn.functional as F  # noqa: E402, N812 - likewise, by the name that everybody has for it

from anydml.torch import backend  # noqa: E402 - likewise
from compiled_torch import Compiled  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own
BF16 = torch.bfloat16


def bits(x: Any) -> Any:
    return x.view(torch.int16)


def error(found: Any, wanted: Any) -> float:
    """The relative error, of a list of tensors the largest."""
    if isinstance(found, (list, tuple)):
        return max(error(a, b) for a, b in zip(found, wanted, strict=True))
    return float((found.double() - wanted).norm() / wanted.norm())


# Bits


def test_each_number_is_widened_and_rounded_as_pytorch_does() -> None:
    every = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(BF16)
    torch.testing.assert_close(Compiled(lambda x: x.float() * 1, strict=True)(every), every.float(), equal_nan=True)
    some = torch.arange(-(1 << 31), 1 << 31, 65521).to(torch.int32)
    ties = (torch.arange(-(1 << 15), 1 << 15) * 65536 + 0x8000).to(torch.int32)
    numbers = torch.cat([one + more for one in (some, ties) for more in (-1, 0, 1)]).view(torch.float32)
    found, wanted = Compiled(lambda x: x.to(BF16), strict=True)(numbers), numbers.to(BF16)
    is_nan = wanted.isnan()
    assert torch.equal(found.isnan(), is_nan)
    assert torch.equal(bits(found)[~is_nan], bits(wanted)[~is_nan])


def test_what_is_moved_keeps_its_bits() -> None:
    x = torch.arange(-(1 << 15), 1 << 15).to(torch.int16).view(BF16).reshape(256, 256)
    compiled = Compiled(lambda x, i: torch.cat([x.flip(0)[i], x.t()], 1).roll(3, 0), strict=True)
    i = torch.arange(255, -1, -1)
    assert torch.equal(bits(compiled(x, i)), bits(compiled.model(x, i)))
    made = {view.data_type.name for step in graph_of(compiled).recipe.steps for view in step.targets}
    assert "UINT16" in made
    assert "FLOAT32" not in made


def graph_of(compiled: Compiled) -> Any:
    (program,) = compiled.programs
    (part,) = program.parts
    return part.graphs[-1]


@pytest.mark.parametrize(
    "work",
    [
        lambda a, b: (a + b) == (a + b).to(BF16, copy=True),
        lambda a, b: (a * b).floor(),
        lambda a, b: (a * b).argmax(-1),
        lambda a, b: (a * b * 8).to(torch.int32),
        lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        lambda a, b: (a * b).remainder(0.5),
    ],
    ids=["equal", "floor", "argmax", "integers", "trunc", "remainder"],
)
def test_answers_that_jump_are_those_of_rounded_numbers(work: Callable[..., Any]) -> None:
    torch.manual_seed(4)
    a, b = (torch.rand(64, 128).to(BF16) + 1 for _ in range(2))
    found, wanted = Compiled(work, strict=True)(a, b), work(a, b)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("numbers", [(), (3,), (2, 0)])
def test_numbers_without_dimensions_and_nothing(numbers: tuple[int, ...]) -> None:
    x = torch.randn(numbers).to(BF16)
    Compiled(lambda x: (x * 2).sum() + torch.full((), 0.1, dtype=BF16)).check(x, rtol=2e-2, atol=1e-2)


def test_sequences_and_constants_are_numbers_of_bfloat16() -> None:
    def work(x: Any) -> Any:
        return torch.arange(0, 3, 0.1, dtype=BF16).float() + x, torch.full((30,), 0.1, dtype=BF16).float() + x

    Compiled(work, strict=True).check(torch.zeros(30), atol=0, rtol=0)


def test_bits_of_what_lies_otherwise() -> None:
    def work(x: Any) -> Any:
        return x.t() * 2, x.float().t().to(BF16), (x.t() * 2).to(torch.int32)

    Compiled(work, strict=True).check(torch.randn(3, 5).to(BF16), atol=0, rtol=0)


def test_layouts_and_a_size_that_changes() -> None:
    compiled = Compiled(lambda x, w: (x.permute(0, 2, 1) @ w).relu(), dynamic=True, strict=True)
    w = torch.randn(5, 4).to(BF16).t().contiguous().t()
    for batch in (3, 7, 4):
        x = torch.randn(batch, 5, 6).to(BF16)
        compiled.check(x, w)
    assert len(compiled.programs) == 1
    assert graph_of(compiled).plans == 1


# Networks


class Block(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    def __init__(self, width: int, *, is_causal: bool) -> None:
        super().__init__()
        self.first, self.second, self.is_causal = nn.LayerNorm(width), nn.LayerNorm(width), is_causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, count, width = x.shape
        several = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (one.view(batch, count, 2, width // 2).transpose(1, 2) for one in several)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)
        x = x + self.out(y.transpose(1, 2).reshape(batch, count, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Language(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    def __init__(self, *, is_causal: bool) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(60, 32), nn.Embedding(20, 32)
        self.blocks = nn.Sequential(*(Block(32, is_causal=is_causal) for _ in range(2)))
        self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 60, bias=False)

    def forward(self, tokens: Any) -> Any:
        return self.out(self.norm(self.blocks(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1])))))


class Residual(nn.Module):  # type: ignore[misc]  # PyTorch's types are not looked at
    def __init__(self, channels: int, more: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, more, 3, 2, 1), nn.Conv2d(more, more, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(more) for _ in range(2))
        self.short = nn.Conv2d(channels, more, 1, 2)

    def forward(self, x: Any) -> Any:
        y = self.norms[1](self.second(F.relu(self.norms[0](self.first(x)))))
        return F.relu(y + self.short(x))


def network(name: str) -> tuple[Any, Any]:
    torch.manual_seed(3)
    if name == "residual":
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), Residual(8, 16), Residual(16, 24),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
        )  # fmt: skip
        return model, torch.randn(4, 3, 32, 32).to(BF16)
    return Language(is_causal=name == "gpt"), torch.randint(0, 60, (3, 17))


NAMES = ("bert", "gpt", "residual")


@pytest.mark.parametrize("name", NAMES)
def test_networks_of_bfloat16_are_nearer_to_float64_than_pytorchs(name: str) -> None:
    model, x = network(name)
    model = model.to(BF16).eval()
    wide = copy.deepcopy(model).double()
    compiled = Compiled(model, strict=True)
    with torch.no_grad():
        wanted = wide(x.double() if x.is_floating_point() else x)
        found, own = compiled(x), model(x)
    assert found.dtype is BF16
    assert len(compiled.programs[0].parts) == 1
    assert error(found, wanted) <= error(own, wanted)


@pytest.mark.parametrize("name", NAMES)
def test_autocast(name: str) -> None:
    model, x = network(name)
    x = x.float() if x.is_floating_point() else x
    wide = copy.deepcopy(model.eval()).double()
    compiled = Compiled(model, strict=True)
    with torch.no_grad():
        wanted = wide(x.double() if x.is_floating_point() else x)
        with torch.autocast("cpu", dtype=BF16):
            found, own = compiled(x), model(x)
    assert found.dtype is own.dtype is BF16
    assert error(found, wanted) <= 1.1 * error(own, wanted)  # the same casts round both


def loss_of(model: Any, x: Any) -> Any:
    found = model(x)
    found = found if found.dtype is torch.float64 else found.float()
    return found.square().mean() + F.log_softmax(found, -1)[..., 3].mean()


@pytest.mark.long
@pytest.mark.parametrize("is_cast", [False, True], ids=["bfloat16", "autocast"])
@pytest.mark.parametrize("name", ["gpt", "residual"])
def test_training(name: str, is_cast: bool) -> None:
    model, x = network(name)
    model = model if is_cast else model.to(BF16)
    x = x.float() if is_cast and x.is_floating_point() else x
    wide = copy.deepcopy(model).double()

    def gradients(run: Callable[..., Any], model: Any, x: Any) -> list[Any]:
        model.zero_grad()
        with torch.autocast("cpu", dtype=BF16, enabled=is_cast and model is not wide):
            loss = run(model, x)
        with backend.watching(compiled.programs.append):
            loss.backward()
        return [loss.detach(), *(one.grad.clone() for one in model.parameters())]

    compiled = Compiled(loss_of, strict=True)
    wanted = gradients(loss_of, wide, x.double() if x.is_floating_point() else x)
    own = gradients(loss_of, copy.deepcopy(model), x)
    found = gradients(compiled, model, x)
    assert len(compiled.programs) == 2  # forward and backward
    assert not compiled.fallbacks
    assert all(one.grad.dtype is one.dtype for one in model.parameters())

    def whole(several: list[Any]) -> Any:
        return torch.cat([one.double().flatten() for one in several])

    assert error(whole(found), whole(wanted)) <= (1.5 if is_cast else 1) * error(whole(own), whole(wanted))
