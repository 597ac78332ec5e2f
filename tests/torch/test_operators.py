"""Operators whose answers turn on NaN, ties, divisors, signs of 0 and tensors without elements."""

from __future__ import annotations

import math
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


def test_integers_wrap_and_divide_as_pytorch_has_it() -> None:
    a = torch.tensor([7, -7, 2**62, -(2**63), 5, 0])
    b = torch.tensor([2, 2, 3, -2, -3, 9])
    for mode in ("floor", "trunc"):
        _check(lambda a, b, mode=mode: torch.div(a, b, rounding_mode=mode), a, b)
    _check(torch.remainder, a, b)
    _check(torch.pow, torch.tensor([3, -3, 2, -1, 1, 0, 5]), torch.tensor([41, 41, 64, 7, 3, 0, 2**40]))
    for shift in (torch.bitwise_left_shift, torch.bitwise_right_shift):
        _check(shift, a, torch.tensor([1, 1, 2, 63, 64, 3]))


@pytest.mark.parametrize("function", [torch.remainder, torch.floor_divide])
def test_a_divisor_of_0_is_an_error(function: Any) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=anydml.torch.compile_graph)
    with pytest.raises(anydml.IndexRangeError):
        compiled(torch.tensor([1, 2]), torch.tensor([1, 0]))


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
