"""The boxes, edges and frames of a graph's drawing, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anydml.explain.graph_picture import Became, group_passes
from anydml.explain.graph_words import short, word_list
from anydml.explain.layered import lay_out
from anydml.explain.view_words import word_sizes
from anydml.memory import word_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anydml.explain.graph_picture import GraphPicture, Tensor
    from anydml.explain.layered import Vertical

LETTER = 0.62
"""The width of a monospaced letter, in its size."""
BOX_HEIGHT, STEM, ROW_GAP, COLUMN_GAP, LANE = 62, 44, 90, 28, 14
"""In pixels; a stem is what goes straight down from a box, beside its label, before an edge turns anywhere."""
_LEAST_WIDTH, _MOST_IN_ROW = 120, 8
_NAME_SIZE, _SMALL = 14, 11
_LONGEST_TOLD, _MOST_TOLD = 200, 3
"""Of a name in the sentence that a box says of itself, and of the passes that it tells."""


@dataclass(slots=True, eq=False)
class Box:
    """A node, or an input, a constant or an output of the graph."""

    kind: str
    """`node`, `input`, `constant` or `output`."""
    name: str
    lines: tuple[str, ...]
    says: str
    hue: int = 0
    """That of the pass that it shares with others, from 1 to 6."""
    home: int | None = None
    """The first of the passes that do a node's work, by number."""
    label: tuple[str, ...] = ()
    """Its output: sizes, then type and bytes."""
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0

    def measure(self) -> None:
        """Take the width that its words need, and half of what its label does on either side."""
        letters = max([len(self.name) * _NAME_SIZE, *(len(line) * _SMALL for line in self.lines)])
        label = max((len(line) for line in self.label), default=0) * _SMALL * LETTER + 10
        self.width = max(_LEAST_WIDTH, letters * LETTER + 24, 2 * label)


class Edge(NamedTuple):
    """Data on its way."""

    source: Box
    target: Box
    slot: int
    """Which of the target's inputs it is."""
    slots: int
    path: tuple[Vertical, ...]
    """Where it passes the rows between its ends."""


@dataclass(slots=True)
class Plan:
    """A drawing's boxes, edges and frames, from a corner at 0, 0."""

    boxes: list[Box]
    edges: list[Edge]
    frames: list[tuple[int, float, float, float, float]]
    """Hue, x, y, width and height around nodes that became one pass and stand together."""
    width: float
    height: float


def arrange(picture: GraphPicture) -> Plan:
    """A box for each node, input, used constant and output, with edges from where data is made to where it is read."""
    hues = _hues(picture)
    groups = group_passes(picture.before)
    nodes = [_node_box(picture, numbers, hues) for numbers in groups]
    writers = {
        store: box
        for box, numbers in zip(nodes, groups, strict=True)
        for n in numbers
        for store in picture.before[n].writes
    }
    reads = {
        box: [store for store in _read(picture, numbers) if writers.get(store) is not box]
        for box, numbers in zip(nodes, groups, strict=True)
    }
    sources: dict[str, Box] = {}
    used = {store for one in picture.before for store in one.reads}
    for store, tensor in picture.tensors.items():
        if tensor.kind == "input" or (tensor.kind == "constant" and store in used and store not in writers):
            sources[store] = _plain_box(tensor.kind, tensor)
    outputs = {s: _plain_box("output", t) for s, t in picture.tensors.items() if t.kind == "output" and s in writers}
    givers = {**sources, **writers}
    given: dict[Box, list[Tensor]] = {}
    taken = {*outputs, *(store for stores in reads.values() for store in stores)}
    for store, box in givers.items():
        if store in taken or store in sources:  # others a node keeps between its own passes
            given.setdefault(box, []).append(picture.tensors[store])
    for box, tensors in given.items():
        box.label = _label(tensors)
    links: list[tuple[str, Box, int, int]] = [
        (store, box, slot, len(stores)) for box, stores in reads.items() for slot, store in enumerate(stores)
    ]
    links += [(store, box, 0, 1) for store, box in outputs.items()]
    boxes = [*sources.values(), *nodes, *outputs.values()]
    for box in boxes:
        box.measure()
    numbers = {box: number for number, box in enumerate(boxes)}
    ends = [(numbers[givers[store]], numbers[box]) for store, box, _, _ in links]
    found = lay_out([box.width for box in boxes], ends, gap=COLUMN_GAP, lane=LANE, most_in_row=_MOST_IN_ROW)
    for box, middle, row in zip(boxes, found.middles, found.rows, strict=True):
        box.x, box.y = middle - box.width / 2, row * (BOX_HEIGHT + ROW_GAP)
    edges = [
        Edge(givers[store], box, slot, slots, path)
        for (store, box, slot, slots), path in zip(links, found.paths, strict=True)
    ]
    height = found.row_count * (BOX_HEIGHT + ROW_GAP) - ROW_GAP
    return Plan(boxes, edges, _frames(nodes, boxes, hues), found.width, height)


def _hues(picture: GraphPicture) -> dict[int, int]:
    """A colour for each pass that does the work of several nodes."""
    shared = [number for number, one in enumerate(picture.after) if len(one.nodes) > 1]
    return {number: k % 6 + 1 for k, number in enumerate(shared)}


def _node_box(picture: GraphPicture, numbers: Sequence[int], hues: Mapping[int, int]) -> Box:
    passes, became = [picture.before[n] for n in numbers], _merged([picture.became[n] for n in numbers])
    one, said = passes[0], str(became)
    if len(became.passes) == 1 and not became.is_once:
        home = picture.after[became.passes[0]]
        is_last = home.nodes[-1] in one.nodes  # the first may be part of several passes
        said = f"{said}: {word_bytes(home.bytes_moved)}" if is_last else f"in {said}"
    hue = next((hues[k] for k in became.passes if k in hues), 0)
    does = "; ".join(each.does for each in passes[:_MOST_TOLD])
    more = f"; and {len(passes) - _MOST_TOLD} more" if len(passes) > _MOST_TOLD else ""
    size = word_bytes(sum(each.bytes_moved for each in passes))
    says = f"{short(', '.join(one.nodes), _LONGEST_TOLD)}: {does}{more}; {size} by itself; {became}"
    first = became.passes[0] if became.passes else None
    return Box("node", short(", ".join(one.nodes)), (one.operator, said), says, hue, first)


def _merged(several: Sequence[Became]) -> Became:
    """The fate of all of a node's passes together."""
    numbers = sorted({number for one in several for number in one.passes})
    return Became(tuple(numbers), any(one.is_once for one in several))


def _read(picture: GraphPicture, numbers: Sequence[int]) -> list[str]:
    """The stores that passes read, each once."""
    return list(dict.fromkeys(store for n in numbers for store in picture.before[n].reads))


def _plain_box(kind: str, tensor: Tensor) -> Box:
    what = f"{word_sizes(tensor.sizes)} {tensor.data_type.name}"
    lines = (kind, what) if kind == "output" else (kind,)
    return Box(kind, tensor.name, lines, f"{kind} {tensor.name}: {what}, {word_bytes(tensor.size_in_bytes)}")


def _label(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    """Sizes, type and bytes of what leaves a box, which may be several tensors of one type."""
    sizes = word_list([word_sizes(tensor.sizes) for tensor in tensors], 2)
    size = word_bytes(sum(tensor.size_in_bytes for tensor in tensors))
    return sizes, f"{tensors[0].data_type.name} {size}"


def _frames(
    nodes: Sequence[Box], boxes: Sequence[Box], hues: Mapping[int, int]
) -> list[tuple[int, float, float, float, float]]:
    """A frame around the boxes of a pass, where nothing else would be inside."""
    members: dict[int, list[Box]] = {}
    for box in nodes:
        if box.home is not None and box.home in hues:
            members.setdefault(box.home, []).append(box)
    frames = []
    for number, inside in members.items():
        left, right = min(box.x for box in inside), max(box.x + box.width for box in inside)
        top, bottom = min(box.y for box in inside), max(box.y for box in inside) + BOX_HEIGHT
        own = set(inside)
        is_clear = not any(
            box.x < right and left < box.x + box.width and top <= box.y < bottom and box not in own for box in boxes
        )
        if len(inside) > 1 and is_clear:
            frames.append((hues[number], left - 8, top - 8, right - left + 16, bottom - top + 16))
    return frames
