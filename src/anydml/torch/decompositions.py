"""Decompositions: PyTorch's own of all but core ATen, and those of operators of lists, of which optimisers are made."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch._decomp import core_aten_decompositions, decomposition_table

from anydml.torch.lower import LOWERINGS, resampling

if TYPE_CHECKING:
    from collections.abc import Callable

_MORE = (
    "_batch_norm_with_update_functional.default", "batch_norm_backward.default", "_native_batch_norm_legit.default",
    "_native_batch_norm_legit.no_stats", "dist.default", "grid_sampler_2d.default", "linalg_vector_norm.default",
    "narrow_copy.default", "native_batch_norm.default", "permute_copy.default", "rrelu_with_noise_backward.default",
    "unbind_copy.int", "view_copy.default",
)  # fmt: skip
"""Operators of which PyTorch has a decomposition that it does not count among those to core ATen."""
_LISTS = "_foreach_"
_BY_VALUE = ("addcmul", "addcdiv")
"""Those whose last number has a name where tensors come one by one."""


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """By operator, of those that have no lowering; PyTorch takes 0.2 s to list its own, more than most graphs do.

    Attention stays whole, as its decomposition gives the weights where its gradient reads logarithms of sums.
    """
    wanted = {f"aten.{name}" for name in _MORE}
    more = {target: function for target, function in decomposition_table.items() if str(target) in wanted}
    several = {**core_aten_decompositions(), **more}
    found = {target: function for target, function in several.items() if str(target) not in LOWERINGS}
    return {**_of_lists(), **found, **_mended(found)}


def _mended(known: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Those of PyTorch's that give something else than its kernels do."""
    made: dict[Any, Callable[..., Any]] = {}
    for target, function in known.items():
        name = str(target)
        if name.startswith("aten.linspace.") and "Tensor" in name and not name.endswith("out"):
            made[target] = functools.partial(_spaced, function)
        elif name == "aten.multilabel_margin_loss_forward.default":
            made[target] = _multilabel_margin
    return made


def _spaced(function: Callable[..., Any], start: Any, end: Any, steps: int, *, dtype: Any = None, **named: Any) -> Any:
    """Of integers from ends without fractions, and the middle from the end."""
    if dtype is None or dtype.is_floating_point or dtype.is_complex or steps < 2:
        return function(start, end, steps, dtype=dtype, **named)
    first, last = (
        one.to(dtype).to(torch.float64) if isinstance(one, torch.Tensor) else float(int(one)) for one in (start, end)
    )
    step = (last - first) / (steps - 1)
    number = torch.arange(steps, dtype=torch.float64, device=named.get("device"))
    return torch.where(number < steps // 2, first + step * number, last - step * (steps - 1 - number)).to(dtype)


def _multilabel_margin(x: Any, labels: Any, reduction: int) -> tuple[Any, Any]:
    """The loss, and which classes are labels: those before a row's first -1.

    PyTorch's own takes what follows the -1 for labels too, and gives a single row's loss a dimension.
    """
    rows, several = torch.atleast_2d(x), torch.atleast_2d(labels)
    count = rows.shape[1]
    counts = torch.cumsum(several < 0, 1) == 0
    chosen = torch.gather(rows, 1, torch.where(counts, several, 0))
    number = torch.arange(count, device=labels.device)
    is_label = ((several.unsqueeze(2) == number) & counts.unsqueeze(2)).any(1)
    margins = torch.relu(1 - chosen.unsqueeze(2) + rows.unsqueeze(1))
    losses = torch.where(counts.unsqueeze(2) & ~is_label.unsqueeze(1), margins, 0).sum((1, 2)) / count
    if reduction:
        losses = losses.mean() if reduction == 1 else losses.sum()
    elif x.dim() < 2:
        losses = losses.reshape(())
    return losses, is_label.to(x.dtype).reshape(labels.shape)


def _multilabel_margin_loss(x: Any, labels: Any, reduction: int = 1) -> Any:
    return _multilabel_margin(x, labels, reduction)[0]


def _multilabel_margin_function(
    x: Any, labels: Any, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Any:
    ways = torch.nn._reduction  # noqa: SLF001 - PyTorch's name
    is_legacy = size_average is not None or reduce is not None
    number = ways.legacy_get_enum(size_average, reduce) if is_legacy else ways.get_enum(reduction)
    return _multilabel_margin_loss(x, labels, number)


_CALLS = {
    torch.nn.functional.multilabel_margin_loss: _multilabel_margin_function,
    torch._C._nn.multilabel_margin_loss: _multilabel_margin_loss,  # noqa: SLF001 - likewise
    **resampling.CALLS,
}


def mend_calls(module: Any) -> None:
    """Replace calls in Dynamo's graphs that PyTorch decomposes ahead of all tables, to another answer than its own."""
    for one in module.modules():
        for node in list(one.graph.nodes) if isinstance(one, torch.fx.GraphModule) else ():
            if node.op == "call_function" and node.target in _CALLS:
                node.target = _CALLS[node.target]
            elif node.target is torch.add and len(node.args) == 2 and not node.kwargs:
                _rejoin(node)


def _rejoin(node: Any) -> None:
    """Dynamo's x + a/b·value is `addcdiv` again, where FLOAT16 would be rounded three times instead of once."""
    x, product = node.args
    if not _is_alone(product, torch.mul):
        return
    quotient, value = product.args
    if not _is_alone(quotient, torch.div) or isinstance(value, torch.fx.Node):
        return
    several = (x, *quotient.args)
    kinds = [getattr(one.meta.get("example_value"), "dtype", None) for one in several if isinstance(one, torch.fx.Node)]
    if kinds != [torch.float16] * 3:
        return
    node.target, node.args, node.kwargs = torch.addcdiv, several, {"value": value}
    node.graph.erase_node(product)
    node.graph.erase_node(quotient)


def _is_alone(node: Any, target: Any) -> bool:
    """Whether a node calls a function of two arguments, for one reader."""
    if not isinstance(node, torch.fx.Node) or node.target is not target or len(node.users) != 1:
        return False
    return len(node.args) == 2 and not node.kwargs


def _of_lists() -> dict[Any, Callable[..., Any]]:
    """Each functional operator of lists as the one of tensors, one by one."""
    found: dict[Any, Callable[..., Any]] = {}
    for whole in torch._C._dispatch_get_all_op_names():  # noqa: SLF001 - the one list of operators that there is
        name, _, overload = whole.removeprefix("aten::").partition(".")
        single = name.removeprefix(_LISTS)
        if not whole.startswith(f"aten::{_LISTS}") or single.endswith("_") or not hasattr(torch.ops.aten, single):
            continue
        target = getattr(getattr(torch.ops.aten, name), overload or "default")
        schema = target._schema  # noqa: SLF001 - PyTorch's name
        if [str(one.type) for one in schema.returns] == ["List[Tensor]"] and not any(
            one.is_out for one in schema.arguments
        ):
            found[target] = _one_by_one(single, getattr(torch.ops.aten, single))
    return found


def _one_by_one(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def work(*args: Any, **named: Any) -> list[Any]:
        count = next(len(one) for one in args if isinstance(one, (list, tuple)))
        found = []
        for k in range(count):
            own = [one[k] if isinstance(one, (list, tuple)) else one for one in args]
            more = {"value": own.pop()} if name in _BY_VALUE and len(own) > 3 else {}
            found.append(function(*own, **named, **more))
        return found

    return work
