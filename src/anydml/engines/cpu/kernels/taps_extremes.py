"""Poolings that take the largest or the smallest: lines of a window first, then what lies side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.engines.cpu.kernels.folds import combine
from anydml.engines.cpu.kernels.taps import TapsText

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.taps_shape import Group, Taps


def make_extremes(taps: Taps) -> str:
    """The text of the kernel, for taps that are `is_by_line`."""
    return ExtremesText(taps).write()


class ExtremesText(TapsText):
    """Vectors of lines are folded as they lie; every other element is taken apart, and elements are shifted, after it.

    The largest of 3 x 3 by 2 of 64 planes of 112 x 112 takes 267 us so, and 362 tap by tap (one thread of an Arm
    Neoverse-N1).
    """

    def write_block(self, groups: list[Group]) -> None:
        """Some rows of some vectors."""
        for group in groups:
            self._write_group(group)

    def _write_group(self, group: Group) -> None:
        taps, lanes = self.taps, self.taps.lanes
        count = group.vectors * taps.step
        # The last vector ends with the last element that is needed.
        starts = [lanes * i for i in range(count)]
        if taps.columns > taps.step:
            starts.append(lanes * count + taps.columns - taps.step - lanes)
        read: dict[tuple[int, int], str] = {}
        for r in range(taps.together):
            folded = [self._down(read, r, start, group) for start in starts]
            streams = [folded[:count]] if taps.step == 1 else self._apart(folded[:count])
            sums = {}
            for v in range(group.vectors):
                found = [self._shifted(streams, folded, starts, b, v) for b in range(taps.columns)]
                total = found[0]
                for one in found[1:]:
                    total = combine(self.text, self.fold, total, one, lanes)
                sums[r, group.first + v] = total
            self.put(sums, [group])

    def _down(self, read: dict[tuple[int, int], str], r: int, start: int, group: Group) -> str:
        """A vector folded over the lines of a window; lines are read once for all rows."""
        total = ""
        for a in range(self.taps.rows):
            i = r * self.taps.down + a * self.taps.below
            if (i, start) not in read:
                read[i, start] = self.load(group, i, start, self.taps.lanes)
            one = read[i, start]
            total = combine(self.text, self.fold, total, one, self.taps.lanes) if total else one
        return total

    def _apart(self, folded: list[str]) -> list[list[str]]:
        """Every other element of vectors, from the first on and from the second on."""
        lanes = self.taps.lanes
        pairs = list(zip(folded[::2], folded[1::2], strict=True))
        return [[self.pick(pair, lanes, list(range(phase, 2 * lanes, 2))) for pair in pairs] for phase in (0, 1)]

    def _shifted(self, streams: list[list[str]], folded: list[str], starts: list[int], b: int, v: int) -> str:
        """The elements under a tap of the results of a vector."""
        lanes, step = self.taps.lanes, self.taps.step
        stream, shift = streams[b % step], b // step
        if not shift:
            return stream[v]
        places = [k + shift for k in range(lanes)]
        if v + 1 < len(stream):
            return self.pick((stream[v], stream[v + 1]), lanes, places)
        last = [k if k < lanes else lanes + (lanes * v + k) * step + b % step - starts[-1] for k in places]
        return self.pick((stream[v], folded[-1]), lanes, last)
