"""The differences of two models: which nodes of one are nodes of the other, and what differs between those."""

from __future__ import annotations

import difflib
from collections import Counter
from typing import TYPE_CHECKING, Any

from anydml.explore.drawing import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from anydml.explore.drawing import GraphNode, ModelGraph

    Digest = Callable[[str], str]

_MOST_ROWS = 500
_MOST_ALIGNED = 2_000
"""Nodes without a counterpart that are put beside one another by their order, which takes time by their square."""


def compare_graphs(a: ModelGraph, b: ModelGraph, digest_a: Digest, digest_b: Digest) -> dict[str, Any]:
    """Pairs of nodes, those without a counterpart, and in words what differs; digests tell weights apart by names."""
    pairs = _pair(a, b)
    backward = {j: i for i, j in pairs.items()}
    rows: list[dict[str, Any]] = []
    for i, j in sorted(pairs.items()):
        told = list(_differ(a.nodes[i], b.nodes[j], a, b, digest_a, digest_b))
        if told:
            rows.append({"state": "changed", "a": i, "b": j, "says": told})
    rows += [{"state": "a", "a": i} for i, node in enumerate(a.nodes) if i not in pairs]
    rows += [{"state": "b", "b": j} for j, node in enumerate(b.nodes) if j not in backward]
    counts = Counter(row["state"] for row in rows)
    same = len(pairs) - counts["changed"]
    kinds = _kinds(a, b)
    return {
        "pairs": sorted(pairs.items()),
        "counts": {"same": same, "changed": counts["changed"], "a": counts["a"], "b": counts["b"]},
        "kinds": kinds,
        "rows": rows[:_MOST_ROWS],
        "marks": {
            "a": {row["a"]: row["state"] for row in rows if "a" in row},
            "b": {row["b"]: row["state"] for row in rows if "b" in row},
        },
    }


def _kinds(a: ModelGraph, b: ModelGraph) -> list[list[Any]]:
    """Types of nodes of which one model has more, with both counts."""
    counts = [Counter(node.kind for node in graph.nodes if not node.end) for graph in (a, b)]
    found = [[tell(kind, 80), counts[0][kind], counts[1][kind]] for kind in counts[0].keys() | counts[1].keys()]
    return sorted((row for row in found if row[1] != row[2]), key=lambda row: (-abs(row[1] - row[2]), row[0]))


def _pair(a: ModelGraph, b: ModelGraph) -> dict[int, int]:
    """Nodes by their names, those left by what they make, then by their order between pairs."""
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    keys: tuple[Callable[[GraphNode], Hashable], ...] = (
        lambda node: (node.kind, node.end, node.name) if node.name else None,
        lambda node: (node.kind, *(slot.tensor for slot in node.outputs)) if node.outputs else None,
        lambda node: (node.end, node.name) if node.name else None,
    )
    for key in keys:
        known = _once(b, key, taken)
        for value, i in _once(a, key, set(pairs)).items():
            j = known.get(value)
            if j is not None:
                pairs[i] = j
                taken.add(j)
    left = [i for i in range(len(a.nodes)) if i not in pairs], [j for j in range(len(b.nodes)) if j not in taken]
    if all(left) and max(map(len, left)) <= _MOST_ALIGNED:
        words = [[(g.nodes[k].kind, g.nodes[k].end) for k in own] for g, own in zip((a, b), left, strict=True)]
        for block in difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks():
            for k in range(block.size):
                pairs[left[0][block.a + k]] = left[1][block.b + k]
    return pairs


def _once(graph: ModelGraph, key: Callable[[GraphNode], Hashable], taken: set[int]) -> dict[Hashable, int]:
    """By key the nodes that have one of their own."""
    found: dict[Hashable, int] = {}
    several: set[Hashable] = {None}
    for number, node in enumerate(graph.nodes):
        if number in taken:
            continue
        value = key(node)
        if value in found:
            several.add(value)
        found[value] = number
    return {value: number for value, number in found.items() if value not in several}


def _differ(
    one: GraphNode, other: GraphNode, a: ModelGraph, b: ModelGraph, digest_a: Digest, digest_b: Digest
) -> Iterator[str]:
    if one.kind != other.kind:
        yield f"type: {tell(one.kind, 60)} → {tell(other.kind, 60)}"
    mine, theirs = dict(one.attributes), dict(other.attributes)
    for name in dict.fromkeys((*mine, *theirs)):
        if mine.get(name) != theirs.get(name):
            yield f"{tell(name, 60)}: {tell(mine.get(name, 'none'), 60)} → {tell(theirs.get(name, 'none'), 60)}"
    for what, several in (("input", (one.inputs, other.inputs)), ("output", (one.outputs, other.outputs))):
        if len(several[0]) != len(several[1]):
            yield f"{len(several[0])} {what}s → {len(several[1])}"
        for left, right in zip(*several, strict=False):
            name = left.name or right.name or what
            types = a.types.get(left.tensor, ""), b.types.get(right.tensor, "")
            if left.is_weight != right.is_weight:
                kinds = ["a weight" if slot.is_weight else "computed" for slot in (left, right)]
                yield f"{tell(name, 40)}: {kinds[0]} → {kinds[1]}"
            elif types[0] != types[1] and all(types):
                yield f"{tell(name, 40)}: {types[0]} → {types[1]}"
            elif left.is_weight and digest_a(left.tensor) != digest_b(right.tensor):
                yield f"{tell(name, 40)}: other values"
