"""A choice between two graphs that is known before anything runs: the nodes of the one taken are put in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.onnx.nodes import Node
    from anydml.onnx.values import Value


def choose(node: Node) -> list[Value | None]:
    """If."""
    cond = node.input(0)
    if cond.count != 1:
        node.refuse("cond", "cond must have one element", value=cond.shape, found=str(cond.shape))
    return node.inline("then_branch" if cond.values("cond").reshape(-1)[0] else "else_branch")
