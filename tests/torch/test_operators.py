"""Operators whose answers turn on NaN, ties, divisors, signs of 0 and tensors without elements."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import anydml.torch  # noqa: E402 - it imports PyTorch
from anydml.torch import backend  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

NAN, INF = math.nan, math.inf


def _check(function: Callable[..., Any], *args: Any) -> None:
    """Hold the compiled function, of which no node is PyTorch's, against PyTorch's own."""
    told: dict[str, int] = {}
    torch._dynamo.reset()
    with backend.watching(lambda program: told.update(program.fallbacks)):
        found = torch.compile(function, backend=anydml.torch.compile_graph)(*args)
    assert not told
    torch.testing.assert_close(found, function(*args), equal_nan=True)


FLOATS = (-0.0, 0.0, 1.5, -1.5, NAN, INF, -INF, 7.0, -7.0, 1e-30)


def test_orders_have_nan_last_and_keep_ties() -> None:
    x = torch.tensor([[3.0, NAN, 1.0, 3.0, -INF, NAN], [0.0, -0.0, 2.0, INF, 2.0, 1.0]])
    _check(lambda x: torch.sort(x, stable=True), x)
    _check(lambda x: torch.sort(x, stable=True, descending=True), x)
    _check(lambda x: torch.topk(x, 3)[0], x)
    _check(lambda x: torch.cummax(x, 1), x)
    _check(lambda x: torch.median(x, 1)[0], x)
    _check(lambda x: torch.nanmedian(x, 1), x)


@pytest.mark.parametrize("function", ["floor_divide", "remainder", "fmod", "fmax", "copysign", "hypot"])
def test_pairs_of_numbers_that_are_special(function: str) -> None:
    a, b = torch.meshgrid(torch.tensor(FLOATS), torch.tensor(FLOATS), indexing="ij")
    _check(getattr(torch, function), a.contiguous(), b.contiguous())


def test_signs() -> None:
    _check(torch.signbit, torch.tensor(FLOATS))
    _check(torch.frexp, torch.tensor([0.0, -0.0, 1.0, 0.75, -3.0, 1e-40, 3e38, INF, 2.0**-149]))


def test_the_next_number_toward_another() -> None:
    a, b = torch.meshgrid(
        torch.tensor((*FLOATS, 1.0, 3.4028234663852886e38, 1e-45)), torch.tensor(FLOATS), indexing="ij"
    )
    _check(torch.nextafter, a.contiguous(), b.contiguous())
    found = torch.compile(torch.nextafter, backend=anydml.torch.compile_graph)(a, b)
    assert torch.equal(found.view(torch.int32)[~found.isnan()], torch.nextafter(a, b).view(torch.int32)[~found.isnan()])


def test_a_product_that_is_added_is_rounded_once() -> None:
    """In float16, where PyTorch's decomposition rounds the quotient too: 3 of these 25 sums were off by a unit."""
    torch.manual_seed(0)
    x = torch.empty(5, 5).uniform_(-9, 9).half()
    a, b = torch.tensor(4.3203).half(), torch.tensor(-0.8691).half()
    for add in (torch.addcdiv, torch.addcmul):
        found = torch.compile(lambda x, a, b, add=add: add(x, a, b, value=3.14), backend=anydml.torch.compile_graph)
        wide = add(x.double(), a.double(), b.double(), value=3.14)
        assert torch.equal(found(x, a, b), wide.half())
    _check(lambda x, a, b: torch.addcmul(x, a, b, value=-3), *torch.randint(-9, 9, (3, 7)))


def test_groups_of_float16_are_rounded_once() -> None:
    torch.manual_seed(0)
    x, weight, bias = (torch.empty(sizes).uniform_(-9, 9).half() for sizes in ((2, 6, 3), 6, 6))
    found = torch.compile(torch.group_norm, backend=anydml.torch.compile_graph)(x, 2, weight, bias)
    wide = torch.group_norm(x.double(), 2, weight.double(), bias.double())
    assert (found - wide).abs().max() <= (torch.group_norm(x, 2, weight, bias) - wide).abs().max()


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_float16_has_scores_that_are_not_rounded(is_causal: bool) -> None:
    torch.manual_seed(0)
    query, key, value = (torch.empty(2, 2, 5, 16).uniform_(-9, 9).half() for _ in range(3))

    def attend(query: Any, key: Any, value: Any) -> Any:
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal)

    told: dict[str, int] = {}
    torch._dynamo.reset()
    with backend.watching(lambda program: told.update(program.fallbacks)):
        found = torch.compile(attend, backend=anydml.torch.compile_graph)(query, key, value)
    assert not told
    wide = attend(query.double(), key.double(), value.double())
    assert (found - wide).abs().max() <= 2 * (attend(query, key, value) - wide).abs().max()


BAGS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 5])
SEGMENTS = torch.tensor([1.0, 0.0, 0.0, 3.0, 4.0, 4.0, NAN])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings(mode: str) -> None:
    """By offsets, of which the second bag is empty, and of one length; with padding, weights and renorming."""
    torch.manual_seed(0)
    weight, offsets = torch.randn(6, 3), torch.tensor([0, 3, 3, 6])

    def bag(indices: Any, offsets: Any = None, **named: Any) -> Callable[..., Any]:
        return lambda weight: torch.nn.functional.embedding_bag(indices, weight, offsets, mode=mode, **named)

    functions = [bag(BAGS, offsets), bag(BAGS, offsets, padding_idx=2), bag(BAGS.reshape(2, 4), padding_idx=4)]
    functions.append(bag(BAGS.reshape(2, 4), max_norm=0.5))
    if mode == "sum":
        functions.append(bag(BAGS, offsets, per_sample_weights=torch.randn(8)))
    for function in functions:
        given = weight.clone()
        _check(lambda weight, function=function: function(weight.clone()), given)
        slopes = []
        torch._dynamo.reset()
        for call in (function, torch.compile(function, backend=anydml.torch.compile_graph)):
            own = weight.clone().requires_grad_()
            found = call(own)
            slopes += torch.autograd.grad(found, own, torch.ones_like(found).cumsum(0))
        torch.testing.assert_close(slopes[1], slopes[0])


def test_bags_behind_the_indices_are_an_error_and_many_are_pytorchs() -> None:
    call = torch.compile(torch.nn.functional.embedding_bag, backend=anydml.torch.compile_graph)
    with pytest.raises(RuntimeError, match="offset"):
        call(BAGS, torch.randn(6, 3), torch.tensor([0, 9]))
    told: dict[str, int] = {}
    with backend.watching(lambda program: told.update(program.fallbacks)):
        call(torch.arange(4096) % 6, torch.randn(6, 64), torch.arange(4).repeat_interleave(16).sort()[0])
    assert any("many rows" in why for why in told)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments(reduce: str, initial: float | None) -> None:
    lengths = torch.tensor([3, 0, 3, 1])
    for named in ({"lengths": lengths}, {"offsets": torch.tensor([0, 3, 3, 6, 7])}):

        def function(x: Any, named: Any = named) -> Any:
            return torch.segment_reduce(x, reduce, **named, axis=0, initial=initial)

        _check(function, SEGMENTS)
        slopes = []
        for call in (function, torch.compile(function, backend=anydml.torch.compile_graph)):
            x = SEGMENTS.clone().requires_grad_()
            slopes += torch.autograd.grad(call(x).sum(), x)
        torch.testing.assert_close(slopes[1], slopes[0], equal_nan=True)


def test_gradients_of_an_embedding_by_frequency() -> None:
    slopes = []
    for compiled in (False, True):
        layer = torch.nn.Embedding(6, 3, padding_idx=2, scale_grad_by_freq=True)
        call = torch.compile(layer, backend=anydml.torch.compile_graph) if compiled else layer
        seen: list[Any] = []
        with backend.watching(seen.append):
            slopes += torch.autograd.grad(call(BAGS.reshape(2, 4)).sum(), layer.weight)
        assert not any(program.fallbacks for program in seen)
    torch.testing.assert_close(slopes[1], slopes[0])


def test_labels_end_at_the_first_that_is_less_than_0() -> None:
    """PyTorch's own decomposition takes those behind it too, and gives one row's loss a dimension."""
    x = torch.tensor([[0.2, -1.5, 0.7, 1.1], [0.3, 0.9, -0.4, 0.1]])
    labels = torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2]])
    for way in ("none", "sum", "mean"):
        loss = torch.nn.MultiLabelMarginLoss(reduction=way)
        _check(loss, x, labels)
        _check(loss, x[0], labels[0])
    _check(lambda x, labels: torch._C._nn.multilabel_margin_loss(x, labels, 0), x[1], labels[1])
    slopes = []
    for function in (loss, torch.compile(loss, backend=anydml.torch.compile_graph)):
        given = x.clone().requires_grad_()
        slopes += torch.autograd.grad(function(given, labels), given)
    torch.testing.assert_close(slopes[1], slopes[0])


def test_the_zeta_function() -> None:
    x, q = torch.meshgrid(
        torch.tensor([1.0, 1.001, 1.5, 2.0, 3.0, 9.5, 60.0, 0.5, -2.0, NAN, INF]),
        torch.tensor([0.25, 1.0, 1.5, 7.0, 40.0, 1e4, -0.5, -2.5, -3.0, -11.7, NAN]),
        indexing="ij",
    )
    _check(torch.special.zeta, x.contiguous(), q.contiguous())


def test_places_of_triangles() -> None:
    _check(lambda: (torch.tril_indices(4, 3, -1), torch.triu_indices(3, 4, 1)))


def test_the_airy_function() -> None:
    _check(torch.special.airy_ai, torch.tensor([*torch.linspace(-12, 12, 97).tolist(), 60.0, 200.0, INF, -INF, NAN]))


def test_integers_wrap_and_divide_as_pytorch_has_it() -> None:
    a = torch.tensor([7, -7, 2**62, -(2**63), 5, 0])
    b = torch.tensor([2, 2, 3, -2, -3, 9])
    for mode in ("floor", "trunc"):
        _check(lambda a, b, mode=mode: torch.div(a, b, rounding_mode=mode), a, b)
    _check(torch.remainder, a, b)
    _check(torch.pow, torch.tensor([3, -3, 2, -1, 1, 0, 5]), torch.tensor([41, 41, 64, 7, 3, 0, 2**40]))
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        _check(shift, a, torch.tensor([1, 1, 2, 63, 64, 3]))


@pytest.mark.parametrize("dynamic", [False, True])
def test_divisors_of_0_and_indices_out_of_range_are_pytorchs_errors(dynamic: bool) -> None:
    a, b = torch.tensor([1, 2, 5]), torch.tensor([1, 0, 7])
    functions: list[Any] = [
        torch.remainder, torch.floor_divide, torch.fmod, lambda a, b: (a + 1)[b],
        lambda a, b: torch.gather(a * 2, 0, b), lambda a, b: a.index_put((b,), a), lambda a, b: a.scatter_add(0, b, a),
    ]  # fmt: skip
    for function in functions:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=anydml.torch.compile_graph, dynamic=dynamic)
        with pytest.raises((RuntimeError, IndexError)) as wanted:
            function(a, b)
        with pytest.raises(type(wanted.value), match=re.escape(str(wanted.value).partition("\n")[0])):
            compiled(a, b)


def test_degrees_of_polynomials_beyond_those_of_a_graph_are_pytorchs() -> None:
    x, n = torch.linspace(-1, 1, 12), torch.tensor([-1.0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 64])
    for name in ("legendre_polynomial_p", "laguerre_polynomial_l", "hermite_polynomial_h", "hermite_polynomial_he"):
        function = getattr(torch.special, name)
        _check(function, x, n)
        _check(lambda x, function=function: function(x, 7), x)
        _check(function, x, n * 3)
        _check(function, x, torch.where(n == 8, math.inf, n)) if "hermite" in name else None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_greatest_divisors_and_least_multiples(dtype: Any) -> None:
    limits = torch.iinfo(dtype)
    numbers = torch.tensor([0, 1, 2, 12, 18, 97, limits.max, limits.max - 1, limits.min + 1, 89, 55], dtype=dtype)
    a, b = (one.contiguous() for one in torch.meshgrid(numbers, numbers, indexing="ij"))
    _check(torch.gcd, a, b)
    _check(torch.lcm, a, b)
    if dtype is torch.int64:  # two Fibonacci numbers take the most steps
        _check(torch.gcd, torch.tensor([7540113804746346429, 3 * 2**60]), torch.tensor([4660046610375530309, 2**62]))


def test_numbers_between_two_are_those_of_pytorch() -> None:
    for dtype in (torch.float32, torch.float16, torch.int64):
        _check(lambda dtype=dtype: torch.linspace(4.3, -5.7, 50, dtype=dtype) + 1)
        _check(lambda dtype=dtype: torch.logspace(-1.3, 4.2, 9, dtype=dtype) + 1)


def test_what_several_updates_are_for_is_folded() -> None:
    x, index = torch.randn(3, 4), torch.tensor([[0, 1, 0, 2], [2, 2, 2, 2]])
    source = torch.randn(2, 4)
    for how in ("sum", "prod", "mean", "amax", "amin"):
        for include in (True, False):
            _check(
                lambda x, i, s, how=how, include=include: x.scatter_reduce(0, i, s, how, include_self=include),
                x,
                index,
                source,
            )
    _check(lambda x, i: x.index_put((i[0], i[1]), torch.ones(4), accumulate=True), x, index)

    def put(x: Any, i: Any) -> Any:
        y = x.clone()
        y[i[0], :, i[1]] = torch.ones(4, 5)
        return y

    _check(put, torch.randn(3, 5, 4), index)


def test_histograms_count_as_pytorch_does_at_edges_and_beyond() -> None:
    x = torch.cat([torch.randint(-30, 31, (200,)) / 10.0, torch.tensor([NAN, 3.0, -3.0])])
    _check(lambda x: torch.histc(x, 20, -3, 3), x)
    _check(lambda x, w: torch.histogram(x, 7, weight=w, density=True), x[:200], torch.rand(200))
    unordered = [torch.tensor([-1.0, 2.0, 0.5, 1.0]), torch.tensor([-2.0, 0.0, 2.0])]
    _check(lambda x, a, b: torch.histogramdd(x, [a, b]).hist, x[:200].reshape(100, 2), *unordered)


def _check_by_double(function: Callable[..., Any], *args: Any) -> None:
    """Hold sums of many terms against FLOAT64's: as near as PyTorch's own are, or twice as far."""
    torch._dynamo.reset()
    found = torch.compile(function, backend=anydml.torch.compile_graph, options={"strict": True})(*args)
    exact = function(*(one.double() for one in args))
    for ours, theirs, wanted in zip(found, function(*args), exact, strict=True):
        rounding = 4 * torch.finfo(torch.float32).eps * wanted.abs().max()
        assert (ours - wanted).abs().max() <= 2 * (theirs - wanted).abs().max() + rounding


@pytest.mark.parametrize(("mode", "padding", "rank"), [("bicubic", "zeros", 2), ("bilinear", "reflection", 3)])
def test_images_at_places_of_a_grid_have_gradients(mode: str, padding: str, rank: int) -> None:
    x, grid = torch.randn(2, 3, 5, 4, 3)[(...,) + (0,) * (3 - rank)], torch.randn(2, 6, 3, *[2] * (rank - 2), rank)

    def gradients(x: Any, grid: Any) -> Any:
        given = [x.detach().requires_grad_(), grid.detach().requires_grad_()]
        found = torch.nn.functional.grid_sample(*given, mode, padding, align_corners=False)
        return torch.autograd.grad(found.square().sum(), given)

    _check_by_double(gradients, x.contiguous(), grid * 1.2)


def test_resizing_with_antialiasing() -> None:
    for size in ((3, 9), (8, 2)):
        _check(
            lambda x, size=size: torch.nn.functional.interpolate(x, size, mode="bilinear", antialias=True),
            torch.randn(2, 3, 5, 7),
        )


def test_integers_between_tensors_are_those_of_pytorchs_kernel() -> None:
    def spaced(a: Any, b: Any) -> Any:
        return torch.linspace(a, b, 51, dtype=torch.int64), torch.linspace(a, 9.7, 6, dtype=torch.int64)

    torch._dynamo.reset()
    ends = torch.tensor(4.3), torch.tensor(-5)
    found = torch.compile(spaced, backend=anydml.torch.compile_graph)(*ends)
    torch.testing.assert_close(found, spaced(*ends))


def test_tensors_without_elements() -> None:
    nothing = torch.empty(0, 3)
    _check(lambda x, y: (torch.cat([x, y]), x.sum(), x.sum(0), x.exp(), x.t() @ x, y + 1), nothing, torch.randn(2, 3))
    _check(lambda x: torch.split(x + 1, [0, 2, 0], 0), torch.randn(2, 3))


def test_strides_of_which_some_share_memory_are_laid_out() -> None:
    x = torch.randn(2, 1, 4, 5, requires_grad=True)
    torch._dynamo.reset()
    compiled = torch.compile(torch.nn.functional.normalize, backend=anydml.torch.compile_graph)
    weights = torch.randn(2, 1, 4, 5)
    found, wanted = (
        torch.autograd.grad((one(x, p=1.0, dim=2) * weights).sum(), x)[0]
        for one in (compiled, torch.nn.functional.normalize)
    )
    torch.testing.assert_close(found, wanted)
