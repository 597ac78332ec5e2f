"""Which nodes of an FX graph are ours, and the parts that run one after the other: ours and PyTorch's by turns."""

from __future__ import annotations

import operator
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from anydml.torch.lower import LOWERINGS
from anydml.torch.lower.context import DATA_TYPES, MOST_DIMENSIONS, is_empty
from anydml.torch.lower.empty import OF_NOTHING
from anydml.torch.lower.movement import FREE
from anydml.torch.sizes import is_symbolic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SIZES, IDLE, OF_ANOTHER = "sizes", "nothing to compute", "a part of PyTorch's"
"""Reasons that cost nothing."""
BY_DATA = "sizes that depend on data"


class Part(NamedTuple):
    """Nodes that run together."""

    is_ours: bool
    nodes: list[Any]
    inputs: list[Any]
    outputs: list[Any]


def find_reasons(graph: Any, device: str) -> dict[Any, str]:
    """The nodes that are PyTorch's by their operator or their tensors, with the reason."""
    reasons: dict[Any, str] = {}
    for node in _calls(graph):
        if node.target is operator.getitem and node.args[0] not in reasons and _is_several(node.args[0]):
            continue
        if (why := _reason(node, device)) is not None:
            reasons[node] = why
    return reasons


def _calls(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "call_function"]


def _is_several(node: Any) -> bool:
    return isinstance(node.meta.get("val"), (list, tuple))


def _reason(node: Any, device: str) -> str | None:
    if node.target is operator.getitem:
        return OF_ANOTHER
    made = [one for one in read_results(node) if isinstance(one, torch.Tensor)]
    if made and all(map(is_empty, made)):
        return IDLE
    if str(node.target) not in LOWERINGS:
        is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        return SIZES if is_symbolic(node.meta.get("val")) else "random numbers" if is_random else "no lowering"
    read = [one.meta.get("val") for one in node.all_input_nodes]
    if str(node.target) in OF_NOTHING:
        read = [one for one in read if not (isinstance(one, torch.Tensor) and is_empty(one))]
    if len(made) > 1:
        made = [one for one in made if not is_empty(one)]
    for value in (*read, *made):
        if isinstance(value, torch.Tensor) and (why := _tensor_reason(value, device)) is not None:
            return why
    return None


def read_results(node: Any) -> list[Any]:
    """The results that somebody reads."""
    made = node.meta.get("val")
    if not isinstance(made, (list, tuple)):
        return [made]
    return [made[user.args[1]] for user in node.users if user.target is operator.getitem]


def _tensor_reason(value: Any, device: str) -> str | None:
    """Why a tensor is none of ours."""
    if value.dtype not in DATA_TYPES:
        return str(value.dtype).removeprefix("torch.")
    if value.layout is not torch.strided or value.device.type != device:
        return f"{value.layout} on {value.device}"
    if len(value.shape) > MOST_DIMENSIONS:
        return f"{len(value.shape)} dimensions"
    for size in value.shape:
        if is_symbolic(size) and not size.node.has_hint():
            return BY_DATA
    return "no elements" if is_empty(value) else None


def partition(graph: Any, reasons: Mapping[Any, str]) -> list[Part]:
    """The parts in the order in which they run.

    A node's level is the least that is not below what it reads, even for ours and odd for PyTorch's: as few parts as
    the longest way through the graph changes hands. PyTorch's nodes that draw random numbers, or write, keep their
    order.
    """
    levels: dict[Any, int] = {}
    last, unread = -1, _unread_sizes(graph, reasons)
    for node in _nodes(graph):
        if node in unread:
            continue
        is_ours = node not in reasons and node.op == "call_function"
        level = 0 if is_ours else -1
        for one in node.all_input_nodes:
            if one in levels and not (is_ours and is_symbolic(one.meta.get("val"))):
                level = max(level, levels[one] + (levels[one] % 2 == is_ours))
        if not is_ours and _keeps_order(node):
            level = last = max(level, last)
        levels[node] = level
    return [_part(graph, level, levels) for level in sorted(set(levels.values()))]


def _unread_sizes(graph: Any, reasons: Mapping[Any, str]) -> set[Any]:
    """Computations of sizes that only our nodes read, which have sizes of their own."""
    found: set[Any] = set()
    for node in reversed(_calls(graph)):
        if is_symbolic(node.meta.get("val")) and all(
            user in found or (user.op == "call_function" and user not in reasons) for user in node.users
        ):
            found.add(node)
    return found


def _nodes(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op not in ("placeholder", "output")]


def _keeps_order(node: Any) -> bool:
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or node.is_impure()


def _part(graph: Any, level: int, levels: Mapping[Any, int]) -> Part:
    nodes = [node for node in graph.nodes if levels.get(node) == level]
    inside, is_ours = set(nodes), level % 2 == 0
    inputs: dict[Any, None] = {}
    outputs = []
    for node in nodes:
        for one in node.all_input_nodes:
            if one not in inside and not (is_ours and is_symbolic(one.meta.get("val"))):
                inputs.setdefault(one)
        outside = [user for user in node.users if user not in inside and (user in levels or user.op == "output")]
        if is_symbolic(node.meta.get("val")):
            outside = [user for user in outside if levels.get(user, 1) % 2]
        if outside:
            outputs.append(node)
    return Part(is_ours, nodes, list(inputs), outputs)


def is_idle(part: Part) -> bool:
    """Whether a part of ours does nothing but look at memory anew."""
    return part.is_ours and all(node.target is operator.getitem or str(node.target) in FREE for node in part.nodes)


def torch_part(owner: Any, part: Part) -> Any:
    """PyTorch's nodes as a module of its own."""
    graph = torch.fx.Graph()
    made: dict[Any, Any] = {}
    for k, node in enumerate(part.inputs):
        made[node] = graph.placeholder(f"x{k}")
    for node in part.nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output(tuple(made[node] for node in part.outputs))
    return torch.fx.GraphModule(owner, graph)


def count_fallbacks(reasons: Mapping[Any, str]) -> dict[str, int]:
    """How many nodes are PyTorch's that might be ours, by operator and reason."""
    counted = Counter(f"{node.target} ({why})" for node, why in reasons.items() if why not in (SIZES, IDLE, OF_ANOTHER))
    return dict(counted.most_common())


def summary(parts: Sequence[Part], fallbacks: Mapping[str, int], device: str) -> str:
    """One line that counts the nodes, PyTorch's by operator and reason."""
    ours = sum(len(part.nodes) for part in parts if part.is_ours)
    graphs = sum(part.is_ours for part in parts)
    rest = "".join(f"; {count} {name}" for name, count in fallbacks.items())
    return f"{ours} nodes in {graphs} graphs on {device}, {sum(fallbacks.values())} by PyTorch{rest}"
