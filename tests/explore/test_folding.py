"""Groups of nodes that fold, by scopes and by repetition, and where boxes stand while some are open."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import Any

from anydml.explore.drawing import GraphNode, ModelGraph, Slot
from anydml.explore.folding import Group, fold
from anydml.explore.scene import Scenes


def chain(kinds: list[str], names: list[str] | None = None) -> ModelGraph:
    """Nodes that each read the one before."""
    nodes = [GraphNode("Input", "x", outputs=[Slot("", "t0")], end="input")]
    for k, kind in enumerate(kinds, 1):
        name = f"n{k}" if names is None else names[k - 1]
        nodes.append(GraphNode(kind, name, [Slot("A", f"t{k - 1}")], [Slot("B", f"t{k}")]))
    return ModelGraph("chain", [*nodes, GraphNode("Output", "y", [Slot("", f"t{len(kinds)}")], end="output")])


def transformer(layers: int) -> ModelGraph:
    kinds, names = ["Gather"], ["/embed/Gather"]
    for layer in range(layers):
        for scope, kind in (
            ("attn/q", "MatMul"),
            ("attn/q", "Add"),
            ("attn", "Softmax"),
            ("mlp", "MatMul"),
            ("mlp", "Gelu"),
        ):
            kinds.append(kind)
            names.append(f"/layers.{layer}/{scope}/{kind}")
    return chain([*kinds, "MatMul"], [*names, "/head/MatMul"])


def groups(root: Group) -> list[Group]:
    found = [one for one in root.members if isinstance(one, Group)]
    return found + [inner for one in found for inner in groups(one)]


def test_layers_fold_by_scope_and_by_repetition() -> None:
    (layers,) = [one for one in fold(transformer(12)).members if isinstance(one, Group)]
    assert (layers.title, layers.count, len(layers.nodes())) == ("layers.0 … layers.11", 12, 60)
    blocks = [one for one in layers.members if isinstance(one, Group)]
    assert [one.title for one in blocks] == [f"layers.{k}" for k in range(12)]
    assert [one.title for one in groups(blocks[3])] == ["attn", "mlp", "q"]


def test_a_layer_that_differs_is_no_repetition() -> None:
    graph = transformer(6)
    odd = next(node for node in graph.nodes if node.name == "/layers.2/mlp/Gelu")
    odd.attributes = [("approximate", "tanh")]
    top = [(one.title, one.count) for one in fold(graph).members if isinstance(one, Group)]
    assert top == [("layers.0 … layers.1", 2), ("layers.2", 1), ("layers.3 … layers.5", 3)]


def test_blocks_without_scopes_fold_by_repetition() -> None:
    kinds = ["Conv", *(["Conv", "Relu", "Add", "MaxPool"] * 5), "Gemm"]
    (whole,) = [one for one in fold(chain(kinds)).members if isinstance(one, Group)]
    assert (whole.title, whole.count, whole.nodes()) == ("Conv, Relu, Add …", 5, list(range(2, 22)))
    assert [one.title for one in whole.members if isinstance(one, Group)][:2] == [
        "#1 Conv, Relu, Add …",
        "#2 Conv, Relu, Add …",
    ]


def test_nodes_in_random_order_do_not_fold() -> None:
    draw = random.Random(3)  # noqa: S311 - the same at every run
    kinds = [draw.choice(("Conv", "Relu", "Add", "Mul", "MaxPool")) for _ in range(2_000)]
    assert len(groups(fold(chain(kinds)))) <= 3  # by chance
    assert groups(fold(chain(["Relu"] * 100))) == []


def test_names_that_say_types_are_no_scopes() -> None:
    kinds = ["Conv", "Relu", "Gemm"] * 2
    assert groups(fold(chain(kinds, [f"p2o.{kind}.{k}" for k, kind in enumerate(kinds)]))) == []


def boxes_of(drawn: dict[str, Any]) -> dict[int, tuple[float, float, float, float]]:
    return {item: (x, y, x + w, y + drawn["box"]) for item, x, y, w in drawn["boxes"]}


def test_boxes_stand_apart_and_inside_their_frames_whatever_is_open() -> None:
    graph = transformer(4)
    scenes = Scenes(graph)
    number = {group.title: k for k, group in enumerate(scenes.groups)}
    whole, third = number["layers.0 … layers.3"], number["layers.2"]
    for opened in ([], [whole], [whole, third], range(len(scenes.groups))):
        drawn = scenes.draw(opened)
        boxes = boxes_of(drawn)
        for (a, b, c, d), (e, f, g, h) in combinations(boxes.values(), 2):
            assert c <= e or g <= a or d <= f or h <= b
        for group, x, y, w, h in drawn["frames"]:
            inner = set(scenes.groups[group].nodes())
            for item, (left, top, right, bottom) in boxes.items():
                is_in = set(scenes.groups[~item].nodes() if item < 0 else [item]) <= inner
                apart = right <= x or left >= x + w or bottom <= y or top >= y + h
                assert apart if not is_in else x <= left and right <= x + w and y <= top and bottom <= y + h
        seen = {node for item in boxes for node in (scenes.groups[~item].nodes() if item < 0 else [item])}
        assert seen == set(range(len(graph.nodes)))
        assert len(drawn["edges"]) == len(boxes) - 1  # of a chain
        for source, target, path, tensors in drawn["edges"]:
            places = list(boxes.values())
            heights = [places[source][3], *(y for stretch in path for y in stretch[1:]), places[target][1]]
            assert all(a <= b + 0.2 for a, b in pairwise(heights))
            assert tensors
    assert scenes.draw([third])["open"] == []  # what lies in a closed group is not to be seen
    assert len(boxes_of(scenes.draw([whole, third]))) == 2 + 2 + 3 + 2
