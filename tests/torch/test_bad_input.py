"""What models should not be given: PyTorch's own errors, or clear ones, by `torch.compile`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
import torch.nn.functional as F  # noqa: E402, N812 - it needs PyTorch, and everybody has this name for it

import anydml  # noqa: E402 - likewise
from compiled_torch import Compiled  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's own


INDICES: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "gather": (lambda x, i: x.gather(0, i), (3, -1)),
    "index_select": (lambda x, i: x.index_select(0, i), (3, -1)),
    "x[i]": (lambda x, i: x[i], (3, -4)),
    "x[i, j]": (lambda x, i: x[:, None][i, i * 0], (3, -4)),
    "embedding": (lambda x, i: F.embedding(i, x[:, None]), (3, -1)),
    "scatter": (lambda x, i: x.scatter(0, i, 1.0), (3, -1)),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, torch.ones(1)), (3, -1)),
    "index_put": (lambda x, i: x.index_put((i,), torch.ones(1)), (3, -4)),
}


@pytest.mark.parametrize(("function", "outside"), INDICES.values(), ids=INDICES)
def test_indices_outside_are_pytorchs_errors(function: Callable[..., Any], outside: tuple[int, ...]) -> None:
    compiled, x = Compiled(function, strict=True), torch.arange(3.0)
    compiled.check(x, torch.tensor([2]))
    for number in outside:
        with pytest.raises((IndexError, RuntimeError)) as expected:
            function(x, torch.tensor([number]))
        with pytest.raises(expected.type) as found:
            compiled(x, torch.tensor([number]))
        assert str(found.value) == str(expected.value)
    compiled.check(x, torch.tensor([0]))  # nothing is left of it


def test_indices_outside_are_pytorchs_errors_for_symbolic_sizes() -> None:
    compiled = Compiled(lambda x, i: (x * x.shape[0]).gather(0, i), dynamic=True, strict=True)
    for size in (3, 5):
        compiled.check(torch.arange(float(size)), torch.tensor([size - 1, 0]))
    with pytest.raises(RuntimeError, match=r"index 5 is out of bounds for dimension 0 with size 5"):
        compiled(torch.arange(5.0), torch.tensor([5, 0]))


@pytest.mark.parametrize("wrong", [-1, 3])
def test_classes_outside_are_errors(wrong: int) -> None:
    compiled, x = Compiled(F.cross_entropy, strict=True), torch.randn(2, 3)
    compiled.check(x, torch.tensor([1, -100]))
    with pytest.raises(RuntimeError, match=rf"index {wrong} is out of bounds"):
        compiled(x, torch.tensor([0, wrong]))


@pytest.mark.parametrize("function", [lambda x, y: x // y, lambda x, y: x % y], ids=["//", "%"])
def test_divisors_of_0_are_pytorchs_error(function: Callable[..., Any]) -> None:
    compiled, x = Compiled(function, strict=True), torch.tensor([5, 7])
    compiled.check(x, torch.tensor([2, -3]))
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled(x, torch.tensor([1, 0]))


def test_a_view_of_freed_memory_is_a_clear_error() -> None:
    compiled, x = Compiled(lambda x: x * 2 + 1), torch.arange(4.0)
    y = x[1:]
    compiled.check(torch.ones(3))
    x.untyped_storage().resize_(0)
    with pytest.raises(anydml.DescriptionError, match=r"a tensor's storage must have memory.*resize_"):
        compiled(y)


def test_other_layouts() -> None:
    compiled = Compiled(lambda x: x.to_dense() * 2)
    assert compiled(torch.ones(2, 3).to_mkldnn()).to_dense().tolist() == [[2] * 3] * 2
    compiled.check(torch.eye(3).to_sparse())


def test_nested_tensors() -> None:
    given = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    found = Compiled(lambda x: x * 2 + 1)(given)
    assert [one.tolist() for one in found.unbind()] == [[3, 3], [3, 3, 3]]


def test_the_sign_of_no_number_is_0() -> None:
    compiled = Compiled(torch.sign, strict=True)
    compiled.check(torch.tensor([float("nan"), float("inf"), -2.5, -0.0, 0.0]))
    compiled.check(torch.tensor([float("nan"), 2, -2], dtype=torch.float16))
    compiled.check(torch.tensor([-7, 0, 7]))
