"""Where the boxes of a graph stand while some groups are open: each open one is laid out by itself, in a frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from anydml.explain.layered import lay_out
from anydml.explore.folding import Group, fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from anydml.explore.drawing import ModelGraph

HEIGHT, ROW = 46, 84
"""Of a box, and from one row to the next, in pixels."""
_GAP, _LANE, _MOST_IN_ROW = 22, 9, 24
_PORT, _PORT_GAP = 6, 12
"""The width of a place where a link enters or leaves a frame, and the room above and below a row of those alone."""
_HEAD, _PADDING = 30, 16
"""Of a frame: the line with its title, and the room around what is in it."""
_LEAST_WIDTH, _MOST_WIDTH = 84, 260
_KIND_LETTER, _LARGER, _NAME_LETTER, _MARGIN, _SIGN = 8.4, 1.8, 6.6, 24, 26
_MOST_BOXES = 150
"""With which a graph is unfolded at first."""

Item: TypeAlias = int
"""A node by its number, or a group by the complement of its own."""
Place: TypeAlias = "Item | tuple[str, Item]"
"""A box in a frame: an item, or the place where the links of one outside enter or those of one inside leave."""
Stretch: TypeAlias = "tuple[float, float, float]"
"""An x at which a link goes straight down, and from where to where."""

_SOURCE: Place = ("source", 0)
"""Above the places where links enter, so that they stand in the first row."""


@dataclass(slots=True)
class _Frame:
    """What is laid out together: the whole, or an open group."""

    items: list[Item] = field(default_factory=list)
    links: dict[tuple[Place, Place], None] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0
    corners: dict[Place, tuple[float, float]] = field(default_factory=dict)
    paths: dict[tuple[Place, Place], list[Stretch]] = field(default_factory=dict)
    left: float = 0.0
    top: float = 0.0


class Scenes:
    """The drawings of a graph."""

    def __init__(self, graph: ModelGraph) -> None:
        self._graph = graph
        self.groups: list[Group] = []
        self._outer: list[int | None] = []
        """By group, the number of the one around it."""
        self._home: dict[int, list[int]] = {number: [] for number in range(len(graph.nodes))}
        """By node, the groups around it, the outermost first."""
        self._collect(fold(graph))
        self.links = _links(graph)

    def _collect(self, root: Group) -> None:
        waiting: list[tuple[Group, list[int]]] = [(root, [])]
        while waiting:
            group, around = waiting.pop()
            for one in group.members:
                if isinstance(one, Group):
                    self.groups.append(one)
                    self._outer.append(around[-1] if around else None)
                    waiting.append((one, [*around, len(self.groups) - 1]))
                else:
                    self._home[one] = around

    @property
    def first(self) -> list[int]:
        """The groups that are open at first: all of a small graph."""
        return list(range(len(self.groups))) if len(self._graph.nodes) <= _MOST_BOXES else []

    def told(self) -> list[dict[str, Any]]:
        """The groups for a page."""
        from anydml.explore.drawing import tell

        return [
            {"title": tell(one.title), "count": one.count, "outer": outer, "nodes": one.nodes()}
            for one, outer in zip(self.groups, self._outer, strict=True)
        ]

    def draw(self, opened: Iterable[int]) -> dict[str, Any]:
        """The graph with some groups open, which those around them have to be as well."""
        asked = {number for number in opened if 0 <= number < len(self.groups)}
        is_open = [False] * len(self.groups)
        for number, outer in enumerate(self._outer):  # outer ones come first
            is_open[number] = number in asked and (outer is None or is_open[outer])
        return _Drawing(self._graph, self.groups, self._seen(is_open), self.links).as_data(is_open)

    def _seen(self, is_open: Sequence[bool]) -> list[tuple[Item, list[int]]]:
        """By node, the box that it is seen as, and the open groups around that."""
        found = []
        for number, around in self._home.items():
            depth = next((k for k, group in enumerate(around) if not is_open[group]), None)
            found.append((number, around) if depth is None else (~around[depth], around[:depth]))
        return found


class _Drawing:
    def __init__(
        self,
        graph: ModelGraph,
        groups: Sequence[Group],
        seen: Sequence[tuple[Item, list[int]]],
        links: dict[tuple[int, int], list[str]],
    ) -> None:
        self._graph, self._groups = graph, groups
        self._frames: dict[int | None, _Frame] = {None: _Frame()}
        self._around: dict[Item, list[int]] = {}
        for item, around in seen:
            if item in self._around:
                continue
            self._around[item] = around
            for depth, group in enumerate(around):
                if group not in self._frames:
                    self._frames[group] = _Frame()
                    self._frames[around[depth - 1] if depth else None].items.append(~group)
            self._frames[around[-1] if around else None].items.append(item)
        self._links: dict[tuple[Item, Item], dict[str, None]] = {}
        for (source, target), tensors in links.items():
            ends = seen[source][0], seen[target][0]
            if ends[0] != ends[1]:
                self._links.setdefault(ends, {}).update(dict.fromkeys(tensors))
        for ends in self._links:
            for home, a, b in self._steps(*ends):
                self._frames[home].links[a, b] = None
        self._widths = {item: self._width(item) for item in self._around}
        for number, frame in reversed(self._frames.items()):  # inner ones come last
            self._lay_out(frame, "" if number is None else title_of(groups[number]))
        for frame in self._frames.values():
            for one in frame.items:
                if one < 0 and ~one in self._frames:
                    inner, (x, y) = self._frames[~one], frame.corners[one]
                    inner.left, inner.top = frame.left + x, frame.top + y

    def _steps(self, source: Item, target: Item) -> list[tuple[int | None, Place, Place]]:
        """The links within frames that make a link, in its order."""
        out, into = self._around[source], self._around[target]
        shared = next((k for k, (a, b) in enumerate(zip(out, into, strict=False)) if a != b), min(len(out), len(into)))
        ends = [*(~group for group in out), source], [*(~group for group in into), target]
        steps: list[tuple[int | None, Place, Place]] = [
            *((out[k], ends[0][k + 1], ("out", source)) for k in range(len(out) - 1, shared - 1, -1)),
            (out[shared - 1] if shared else None, ends[0][shared], ends[1][shared]),
            *((into[k], ("in", source), ends[1][k + 1]) for k in range(shared, len(into))),
        ]
        return steps

    def _lay_out(self, frame: _Frame, title: str) -> None:
        is_whole = frame is self._frames[None]
        ports = list(dict.fromkeys(end for link in frame.links for end in link if isinstance(end, tuple)))
        entries = [port for port in ports if port[0] == "in"]
        places: list[Place] = [*frame.items, *ports, *([_SOURCE] if entries else [])]
        numbers = {place: number for number, place in enumerate(places)}
        links = dict(frame.links)
        feeding = {source for source, target in links if not isinstance(target, tuple)}
        ends = [one for one in frame.items if one not in feeding]
        links.update(dict.fromkeys((_SOURCE, port) for port in entries))
        links.update(dict.fromkeys((one, port) for port in ports if port[0] == "out" for one in ends))
        pairs = [(numbers[a], numbers[b]) for a, b in links]
        sizes = [self._size(place) for place in places]
        found = lay_out([width for width, _ in sizes], pairs, gap=_GAP, lane=_LANE, most_in_row=_MOST_IN_ROW)
        heights = [0.0] * found.row_count
        for (_, height), row in zip(sizes, found.rows, strict=True):
            heights[row] = max(heights[row], height)
        tops, y = [], 0.0 if is_whole else float(_HEAD)
        for row, height in enumerate(heights):
            tops.append(y)
            is_thin = not height or (row + 1 < len(heights) and not heights[row + 1])
            y += height + (_PORT_GAP if is_thin else ROW - HEIGHT)
        wanted = len(title) * _NAME_LETTER + 3 * _MARGIN
        side = 0.0 if is_whole else max(_PADDING, (wanted - found.width) / 2)
        for number, place in enumerate(places):
            width = sizes[number][0]
            frame.corners[place] = (found.middles[number] - width / 2 + side, tops[found.rows[number]])
        for (a, b), path in zip(links, found.paths, strict=True):
            row = found.rows[numbers[a]]
            (_, height), x = sizes[numbers[a]], found.middles[numbers[a]] + side
            stretches = [(x, tops[row] + height, tops[row] + heights[row])] if height < heights[row] else []
            stretches += [(one.x + side, tops[one.first], tops[one.last] + heights[one.last]) for one in path]
            frame.paths[a, b] = stretches
        last = tops[-1] + heights[-1] if tops else 0.0
        frame.width, frame.height = found.width + 2 * side, last + (0 if is_whole else _PADDING)

    def _size(self, place: Place) -> tuple[float, float]:
        if isinstance(place, tuple):
            return _PORT, 0
        if place < 0 and ~place in self._frames:
            return self._frames[~place].width, self._frames[~place].height
        return self._widths[place], HEIGHT

    def _width(self, item: Item) -> int:
        if item < 0:
            kind, name, more = title_of(self._groups[~item]), "", _SIGN
        else:
            kind, name, more = self._graph.nodes[item].kind, self._graph.nodes[item].name, 0
        letters = len(kind) * _KIND_LETTER + sum(letter.isupper() for letter in kind) * _LARGER
        wanted = max(letters, min(len(name), 30) * _NAME_LETTER) + _MARGIN + more
        return round(min(max(wanted, _LEAST_WIDTH), _MOST_WIDTH))

    def _path(self, source: Item, target: Item) -> list[list[float]]:
        found: list[list[float]] = []
        for group, a, b in self._steps(source, target):
            frame = self._frames[group]
            if isinstance(a, tuple):  # from the frame's top to the place where it enters
                x, y = frame.corners[a]
                found.append([frame.left + x + _PORT / 2, frame.top, frame.top + y])
            found += [[frame.left + x, frame.top + y, frame.top + to] for x, y, to in frame.paths[a, b]]
            if isinstance(b, tuple):
                x, y = frame.corners[b]
                found.append([frame.left + x + _PORT / 2, frame.top + y, frame.top + frame.height])
        return [[round(one, 1) for one in stretch] for stretch in found]

    def as_data(self, is_open: Sequence[bool]) -> dict[str, Any]:
        """The drawing for a page."""
        numbers = {item: number for number, item in enumerate(self._around)}
        boxes = []
        for item, around in self._around.items():
            frame = self._frames[around[-1] if around else None]
            x, y = frame.corners[item]
            boxes.append([item, round(frame.left + x, 1), round(frame.top + y, 1), self._widths[item]])
        edges = [
            [numbers[source], numbers[target], self._path(source, target), list(tensors)]
            for (source, target), tensors in self._links.items()
        ]
        frames = [
            [group, *(round(one, 1) for one in (frame.left, frame.top, frame.width, frame.height))]
            for group, frame in self._frames.items()
            if group is not None
        ]
        whole = self._frames[None]
        return {
            "open": [group for group, held in enumerate(is_open) if held],
            "boxes": boxes,
            "frames": frames,
            "edges": edges,
            "width": round(whole.width, 1),
            "height": round(whole.height, 1),
            "box": HEIGHT,
            "row": ROW,
        }


def title_of(group: Group) -> str:
    """A group's name, and how often its block is in it."""
    return f"{group.count} x {group.title}" if group.count > 1 else group.title


def _links(graph: ModelGraph) -> dict[tuple[int, int], list[str]]:
    """From where a tensor is made to where it is read; of several that make one, the last before the reader."""
    made: dict[str, int] = {}
    for number, node in enumerate(graph.nodes):
        for slot in node.outputs:
            made.setdefault(slot.tensor, number)
    links: dict[tuple[int, int], list[str]] = {}
    for number, node in enumerate(graph.nodes):
        for slot in node.inputs:
            if slot.tensor in made and made[slot.tensor] != number:
                links.setdefault((made[slot.tensor], number), []).append(slot.tensor)
        for slot in node.outputs:
            made[slot.tensor] = number  # a resource may be written again
    return links
