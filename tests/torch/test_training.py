"""Training: gradients and steps of optimisers by our graphs, with the losses of eager PyTorch."""

from __future__ import annotations

import copy
import statistics
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn as nn  # noqa: E402 - it needs PyTorch
import torch.nn.functional as F  # noqa: E402, N812 - likewise, by the name that everybody has for it

from anydml.torch import backend  # noqa: E402 - likewise
from compiled_torch import Compiled  # noqa: E402 - likewise
from torch_models import GPT, ResNet18  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


def check_gradients(function: Callable[..., Any], *args: Any, rtol: float = 1e-4, atol: float = 1e-5) -> Compiled:
    """Hold results and gradients against PyTorch's; the second run is planned already."""
    compiled = Compiled(function, strict=True)
    for _ in range(2):
        found = []
        for run in (compiled, function):
            leaves = [one.detach().clone().requires_grad_(one.is_floating_point()) for one in args]
            y = run(*leaves)
            torch.manual_seed(4)
            with backend.watching(compiled.programs.append):  # the backward graph is planned here
                y.backward(torch.randn_like(y))
            found.append([y.detach(), *(one.grad for one in leaves if one.requires_grad)])
        for one, other in zip(*found, strict=True):
            torch.testing.assert_close(one, other, rtol=rtol, atol=atol, check_stride=False)
    assert len(compiled.programs) == 2  # forward and backward
    return compiled


CONVOLUTIONS = {
    "plain": ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
    "stride": ((2, 4, 9, 8), (6, 4, 3, 2), {"stride": (2, 3), "padding": (1, 0)}),
    "dilation": ((2, 4, 9, 10), (6, 4, 3, 3), {"dilation": 2, "padding": 2}),
    "groups": ((2, 4, 9, 8), (6, 2, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 4, 9, 8), (8, 1, 3, 3), {"groups": 4, "stride": 2}),
    "depthwise, a filter a channel": ((2, 4, 9, 8), (4, 1, 5, 3), {"groups": 4, "padding": (2, 1)}),
    "depthwise, strides": ((2, 4, 10, 8), (4, 1, 3, 2), {"groups": 4, "padding": (0, 1), "stride": (3, 2)}),
    "of a picture": ((2, 3, 11, 8), (6, 3, 5, 3), {"padding": (2, 0), "stride": (2, 3)}),
    "of a picture, places in no window": ((2, 3, 12, 9), (6, 3, 2, 3), {"padding": 1, "stride": 4}),
    "one by one": ((2, 4, 9, 8), (6, 4, 1, 1), {"stride": 2}),
    "a signal": ((2, 4, 19), (6, 4, 5), {"stride": 2, "padding": 2}),
    "a volume": ((2, 4, 5, 6, 4), (3, 4, 2, 3, 2), {"padding": 1}),
}


@pytest.mark.parametrize("case", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_gradients_of_convolutions(case: Any) -> None:
    torch.manual_seed(1)
    image, weights, named = case
    convolution = (F.conv1d, F.conv2d, F.conv3d)[len(image) - 3]
    work = lambda x, w, b: convolution(x, w, b, **named)  # noqa: E731 - three times the same
    check_gradients(work, torch.randn(image), torch.randn(weights), torch.randn(weights[0]))


def test_transposed_convolutions_to_a_picture() -> None:
    model = torch.nn.ConvTranspose2d(8, 3, (5, 4), stride=(2, 3), padding=(2, 1), output_padding=(1, 2))
    with torch.no_grad():
        compiled = Compiled(model, strict=True)
        compiled.check(torch.randn(2, 8, 5, 6), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("groups", [1, 2])
def test_gradients_of_transposed_convolutions(groups: int) -> None:
    torch.manual_seed(1)

    def work(x: Any, w: Any, b: Any) -> Any:
        return F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1, groups=groups)

    check_gradients(work, torch.randn(2, 4, 5, 6), torch.randn(4, 3, 3, 3), torch.randn(3 * groups))


POOLS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max, in other images": lambda x: F.max_pool2d(x, (2, 3), ceil_mode=True),
    "max, by gaps": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "average": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average without padding": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "all": lambda x: F.adaptive_avg_pool2d(x, 1),
    "upsampled": lambda x: F.interpolate(x, scale_factor=(2.0, 3.0), mode="nearest"),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
}


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_gradients_of_pools(pool: Callable[[Any], Any]) -> None:
    torch.manual_seed(1)
    check_gradients(pool, torch.randn(2, 3, 8, 10))


def test_places_of_maxima() -> None:
    torch.manual_seed(1)
    work = lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)  # noqa: E731 - beside its arguments
    Compiled(work, strict=True).check(torch.randn(2, 3, 7, 9))


NORMS: dict[str, Callable[..., Any]] = {
    "batch": lambda x, w, b: F.batch_norm(x, torch.zeros(6), torch.ones(6), w, b, training=True),
    "learnt": lambda x, w, b: F.batch_norm(x, torch.full((6,), 0.5), torch.full((6,), 2.0), w, b),
    "layer": lambda x, w, b: F.layer_norm(x.transpose(1, -1), (6,), w, b),
    "group": lambda x, w, b: F.group_norm(x, 3, w, b),
    "instance": lambda x, w, b: F.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
def test_gradients_of_norms(norm: Callable[..., Any]) -> None:
    torch.manual_seed(1)
    check_gradients(norm, torch.randn(3, 6, 5, 4), torch.randn(6), torch.randn(6))


def test_gradients_of_embeddings() -> None:
    tokens = torch.tensor([[1, 4, 4, 0], [2, 4, 1, 1]])  # rows that several read, and one of padding
    check_gradients(lambda table: F.embedding(tokens, table, padding_idx=2) * 3, torch.randn(7, 5))


def test_an_embedding_of_many_rows_is_pytorchs() -> None:
    table, tokens = torch.randn(3000, 64, requires_grad=True), torch.randint(0, 3000, (512,))
    compiled = Compiled(lambda table: F.embedding(tokens, table))
    with backend.watching(compiled.programs.append):
        compiled(table).sum().backward()
    assert [name.partition(" ")[0] for name in compiled.fallbacks] == ["aten.embedding_dense_backward.default"]
    counts = torch.bincount(tokens, minlength=3000).float()
    torch.testing.assert_close(table.grad, counts[:, None].expand(3000, 64))


@pytest.mark.parametrize("kind", ["plain", "causal", "mask", "added"])
def test_gradients_of_attention(kind: str) -> None:
    torch.manual_seed(1)
    mask = torch.rand(2, 1, 6, 6) > 0.3
    mask[0, 0, 2] = False  # a query that sees nothing
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"scale": 0.3}, "causal": {"is_causal": True}, "mask": {"attn_mask": mask},
        "added": {"attn_mask": torch.randn(6, 6)},
    }  # fmt: skip
    more = kinds[kind]
    work = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, **more)  # noqa: E731 - beside its arguments
    check_gradients(work, *(torch.randn(2, 3, 6, 4) for _ in range(3)))


OPTIMISERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda several: torch.optim.SGD(several, lr=0.05),
    "SGD with momentum": lambda several: torch.optim.SGD(several, lr=0.02, momentum=0.9, nesterov=True, foreach=True),
    "Adam": lambda several: torch.optim.Adam(several, lr=1e-2, foreach=True),
    "AdamW": lambda several: torch.optim.AdamW(several, lr=1e-2, weight_decay=0.1),
}


@pytest.mark.parametrize("make", OPTIMISERS.values(), ids=OPTIMISERS)
def test_compiled_optimisers(make: Callable[[Any], Any]) -> None:
    torch.manual_seed(1)
    weights = [torch.randn(3, 4), torch.randn(5)]
    gradients = [[torch.randn_like(one) for one in weights] for _ in range(5)]
    found = []
    programs: list[Any] = []
    for is_compiled in (True, False):
        torch._dynamo.reset()
        several = [one.clone().requires_grad_() for one in weights]
        optimiser = make(several)
        step = torch.compile(optimiser.step, backend=backend.compile_graph) if is_compiled else optimiser.step
        with backend.watching(programs.append):
            for given in gradients:
                for one, gradient in zip(several, given, strict=True):
                    one.grad = gradient.clone()
                step()
        found.append(several)
    assert programs
    assert not [one.fallbacks for one in programs if one.fallbacks]
    torch.testing.assert_close(*found, rtol=1e-5, atol=1e-6)


def train(model: Any, data: list[Any], make: Callable[[Any], Any], steps: int, *, compiled: bool) -> list[float]:
    """The losses of so many steps."""
    model = copy.deepcopy(model)
    optimiser = make(model.parameters())
    run, step = model, optimiser.step
    if compiled:
        torch._dynamo.reset()
        run = torch.compile(model, backend=backend.compile_graph, dynamic=False)
        step = torch.compile(optimiser.step, backend=backend.compile_graph)
    losses = []
    for k in range(steps):
        x, y = data[k % len(data)]
        loss = F.cross_entropy(run(x).flatten(0, -2), y.flatten())
        optimiser.zero_grad()
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


@pytest.mark.long
def test_resnet18_trains_as_eager() -> None:
    torch.manual_seed(1)
    data = [(torch.randn(4, 3, 64, 64), torch.randint(0, 5, (4,))) for _ in range(2)]
    check_losses(ResNet18(4, 5), data, lambda several: torch.optim.SGD(several, lr=0.01, momentum=0.9), 1e-3)


@pytest.mark.long
def test_a_gpt_trains_as_eager() -> None:
    torch.manual_seed(1)
    data = [(torch.randint(0, 31, (2, 12)), torch.randint(0, 31, (2, 12))) for _ in range(2)]
    model = GPT(31, 16, 2, 2, 12)
    check_losses(model, data, lambda several: torch.optim.AdamW(several, lr=1e-3), 1e-4)


def check_losses(model: nn.Module, data: list[Any], make: Callable[[Any], Any], rtol: float) -> None:
    programs: list[Any] = []
    with backend.watching(programs.append):
        losses = train(model, data, make, 10, compiled=True)
    assert not any(one.fallbacks for one in programs)
    assert losses == pytest.approx(train(model, data, make, 10, compiled=False), rel=rtol)
    assert losses[-1] < losses[0]


def gradients(model: Any, run: Any, x: Any, y: Any) -> dict[str, Any]:
    """The gradient of each weight."""
    model.zero_grad()
    F.cross_entropy(run(x), y).backward()
    return {name: one.grad.double() for name, one in model.named_parameters()}


@pytest.mark.long
def test_gradients_are_as_near_to_those_of_float64_as_eager_ones() -> None:
    """Beside eager's in two layouts, which are by a factor of two apart themselves."""
    torch.manual_seed(1)
    torch._dynamo.reset()
    data = [(torch.randn(4, 3, 64, 64), torch.randint(0, 5, (4,))) for _ in range(2)]
    model = ResNet18(4, 5)
    own = copy.deepcopy(model)
    compiled = torch.compile(own, backend=backend.compile_graph, dynamic=False)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    programs: list[Any] = []
    for k in range(3):
        x, y = data[k % 2]
        exact = copy.deepcopy(model).double()
        wanted = gradients(exact, exact, x.double(), y)
        own.load_state_dict(model.state_dict())
        with backend.watching(programs.append):
            several = [gradients(own, compiled, x, y)]
        other = copy.deepcopy(model).to(memory_format=torch.channels_last)
        several.append(gradients(other, other, x.contiguous(memory_format=torch.channels_last), y))
        several.append(gradients(model, model, x, y))
        found, *eager = (
            {name: float((one[name] - wanted[name]).norm() / wanted[name].norm()) for name in wanted} for one in several
        )
        assert statistics.median(found.values()) <= 1.25 * max(statistics.median(one.values()) for one in eager)
        assert not {name: far for name, far in found.items() if far > 3 * max(one[name] for one in eager)}
        optimiser.step()
    assert not any(one.fallbacks for one in programs)
