"""Boxes in rows, each below those that feed it: igraph orders them, and they are moved apart by their own widths."""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from itertools import accumulate, pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.core.errors import Fault, UnsupportedError
from anydml.core.late_imports import import_alone

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDS = 24
"""Of igraph's that untangle links; more make no visible difference."""
_LONGEST = 24
"""Rows that a link may pass between boxes. A longer one has a lane beside them, or layout time would be quadratic."""
_CLOSE = 0.7
"""Of a usual box, the distance that igraph keeps: what needs more is moved apart afterwards."""
_NEAR = 1e-6


class Vertical(NamedTuple):
    """A stretch on which a link goes straight down past rows."""

    first: int
    last: int
    x: float


class Layout(NamedTuple):
    """Where boxes stand, from a corner at 0."""

    middles: list[float]
    """By box, the x of its middle."""
    rows: list[int]
    paths: list[tuple[Vertical, ...]]
    """By link, where it passes the rows between its ends."""
    width: float
    row_count: int


def lay_out(
    widths: Sequence[float], links: Sequence[tuple[int, int]], *, gap: float, lane: float, most_in_row: int
) -> Layout:
    """Place boxes of these widths, `gap` apart, that links join from above to below; `lane` is the room of a link."""
    rows = _rows(len(widths), links, most_in_row)
    bundles = _bundles(links, rows)
    points, steps, places = _points(links, bundles, rows)
    sizes = [*(width + gap for width in widths), *[lane] * (len(places) - len(rows))]
    usual = median(sizes[: len(rows)]) if rows else 0.0
    middles = _part(sizes, places, _untangle(places, steps, usual * _CLOSE))
    left = min((x - size / 2 for x, size in zip(middles, sizes, strict=True)), default=0.0) + gap / 2
    middles = [x - left for x in middles]
    right = max((x + size / 2 for x, size in zip(middles, sizes, strict=True)), default=0.0) - gap / 2
    lanes = _lanes(links, bundles, rows)
    paths: list[tuple[Vertical, ...]] = []
    for (source, target), bundle in zip(links, bundles, strict=True):
        first, last = rows[source] + 1, rows[target] - 1
        if rows[target] - rows[source] > _LONGEST:
            paths.append((Vertical(first, last, right + gap + lanes[bundle] * lane),))
        else:
            paths.append(_straightened(first, [middles[points[bundle, row]] for row in range(first, last + 1)]))
    width = right + (gap + max(lanes.values()) * lane if lanes else 0.0)
    return Layout(middles[: len(rows)], rows, paths, width, max(rows, default=-1) + 1)


def _bundles(links: Sequence[tuple[int, int]], rows: Sequence[int]) -> list[int]:
    """By link, the end that it has in common with more of those that pass rows; a target is told by its complement."""
    passing = [link for link in links if rows[link[1]] - rows[link[0]] > 1]
    leaving, coming = (Counter(link[end] for link in passing) for end in (0, 1))
    return [source if leaving[source] >= coming[target] else ~target for source, target in links]


def _points(
    links: Sequence[tuple[int, int]], bundles: Sequence[int], rows: Sequence[int]
) -> tuple[dict[tuple[int, int], int], list[tuple[int, int]], list[int]]:
    """Links as steps from row to row; those of a bundle share a point in each row that they pass.

    The points are numbered after the boxes, and found by bundle and row; the third part is the row of each of all.
    """
    points: dict[tuple[int, int], int] = {}
    places = list(rows)
    steps: dict[tuple[int, int], None] = {}
    for (source, target), bundle in zip(links, bundles, strict=True):
        if not 0 < rows[target] - rows[source] <= _LONGEST:
            continue
        at = source
        for row in range(rows[source] + 1, rows[target]):
            if (bundle, row) not in points:
                points[bundle, row] = len(places)
                places.append(row)
            steps[at, points[bundle, row]] = None
            at = points[bundle, row]
        steps[at, target] = None
    return points, list(steps), places


def _rows(count: int, links: Sequence[tuple[int, int]], most: int) -> list[int]:
    """Each box below its feeders, in the first row that has room; one without feeders just above its first reader."""
    feeders, readers = ([set[int]() for _ in range(count)] for _ in range(2))
    for source, target in links:
        if source != target:
            feeders[target].add(source)
            readers[source].add(target)
    rows: dict[int, int] = {}
    room = _Room(most)
    late = [box for box in range(count) if readers[box] and not feeders[box]]
    for box in late:
        rows[box] = -1
    for box in _order(feeders, readers):
        if box not in rows:
            rows[box] = room.take(max((1 + rows.get(feeder, -1) for feeder in feeders[box]), default=0), 1)
    for box in late:
        rows[box] = room.take(min(rows[reader] for reader in readers[box]) - 1, -1)
    top = min(rows.values(), default=0)
    return [rows[box] - top for box in range(count)]


class _Room:
    """Rows that hold so many boxes each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: Counter[int] = Counter()
        self._next: dict[tuple[int, int], int] = {}
        """By row and direction, for full rows, one further on that may have room."""

    def take(self, row: int, step: int) -> int:
        """The first row with room from this one on, up or down, which has one box more then."""
        passed = []
        while self._held[row] >= self._most:
            passed.append(row)
            row = self._next.get((row, step), row + step)
        for each in passed:
            self._next[each, step] = row
        self._held[row] += 1
        return row


def _order(feeders: Sequence[set[int]], readers: Sequence[set[int]]) -> list[int]:
    """Feeders first; those on a cycle, which a broken model may have, come last."""
    waiting = [len(several) for several in feeders]
    ready = [box for box, count in enumerate(waiting) if not count][::-1]
    found = []
    while ready:  # the newest first: readers stand below their feeders before other feeders fill those rows
        found.append(box := ready.pop())
        for reader in sorted(readers[box], reverse=True):
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return [*found, *(box for box, count in enumerate(waiting) if count)]


def _untangle(rows: Sequence[int], steps: Sequence[tuple[int, int]], space: float) -> list[float]:
    """An x for each box and point, by steps that lead to the next row; those without any come last in theirs."""
    igraph = find_igraph()
    joined = sorted({end for step in steps for end in step})
    numbers = {end: number for number, end in enumerate(joined)}
    graph = igraph.Graph(len(joined), [(numbers[a], numbers[b]) for a, b in steps], directed=True)
    made = graph.layout_sugiyama(layers=[rows[end] for end in joined], hgap=space, vgap=1, maxiter=_ROUNDS)
    found = dict(zip(joined, (x for x, _ in made.coords), strict=True))
    widths: dict[int, float] = {}
    for end, x in found.items():
        widths[rows[end]] = max(widths.get(rows[end], 0.0), x + space)
    for end, row in enumerate(rows):
        if end not in found:
            found[end] = widths.get(row, 0.0)
            widths[row] = found[end] + space
    return [found[end] for end in range(len(rows))]


def find_igraph() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import_alone("igraph")
        import igraph
    except ImportError as error:
        fault = Fault(field="igraph", rule="drawing graphs needs igraph", way_out="pip install 'anydml[graph]'")
        raise UnsupportedError("graph", fault) from error
    return igraph


def _part(sizes: Sequence[float], rows: Sequence[int], wanted: Sequence[float]) -> list[float]:
    """Move what stands in a row apart, as little as can be: the sum of the squares is least."""
    found = list(wanted)
    held: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        held.setdefault(row, []).append(number)
    for several in held.values():
        several.sort(key=lambda number: wanted[number])
        offsets = list(accumulate(((sizes[a] + sizes[b]) / 2 for a, b in pairwise(several)), initial=0.0))
        placed = _never_falling([wanted[n] - offset for n, offset in zip(several, offsets, strict=True)])
        for number, x, offset in zip(several, placed, offsets, strict=True):
            found[number] = x + offset
    return found


def _never_falling(wanted: Sequence[float]) -> list[float]:
    """The numbers nearest to these of which none is below the one before: neighbours that would be share their mean."""
    pools: list[tuple[float, int]] = []
    for one in wanted:
        mean, count = one, 1
        while pools and pools[-1][0] > mean:
            other, many = pools.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def _lanes(links: Sequence[tuple[int, int]], bundles: Sequence[int], rows: Sequence[int]) -> dict[int, int]:
    """By bundle of the longest links, the number of a lane beside the boxes, which is free again below the last."""
    spans: dict[int, tuple[int, int]] = {}
    for (source, target), bundle in zip(links, bundles, strict=True):
        if rows[target] - rows[source] > _LONGEST:
            start, end = spans.get(bundle, (rows[source], rows[target]))
            spans[bundle] = min(start, rows[source]), max(end, rows[target])
    ends: list[tuple[int, int]] = []
    lanes: dict[int, int] = {}
    for bundle, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        lane = heappop(ends)[1] if ends and ends[0][0] <= start else len(ends)
        heappush(ends, (end, lane))
        lanes[bundle] = lane
    return lanes


def _straightened(first: int, bend: Sequence[float]) -> tuple[Vertical, ...]:
    """A link's places in rows one after another, those at the same x as one stretch."""
    found: list[Vertical] = []
    for row, x in enumerate(bend, first):
        if found and abs(found[-1].x - x) < _NEAR:
            found[-1] = found[-1]._replace(last=row)
        else:
            found.append(Vertical(row, row, x))
    return tuple(found)
