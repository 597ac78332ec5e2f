"""The plan cache: compiled graphs by what they were planned for, those used last.

- Key: all that a plan depends on beside the graph itself: sizes of inputs, and values that sizes depend on.
- Owner: the graph with symbolic sizes, or the ONNX model or part of one (`onnx/program_cache.py`), whose lock whoever
  asks holds. A plan that was found is used without the lock.
- Lifetime: that of its owner. One that was let go of while somebody runs it lives on until that run has ended.
- Limit: 1,024 plans; beyond 64 also 256 MiB of what plans hold for themselves: steps, and constants of no other plan.
- Nothing makes a plan invalid, for a graph does not change. One that was let go of is planned again, and `forget` tells
  the cache of calls in front of this one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


MOST = 1024
"""Plans that are kept: a decoder's cache has another shape at each token."""
_FEW = 64
"""Plans that are kept whatever they hold."""
_MOST_BYTES = 2**28
"""Of what more than a few of them hold, each for itself."""
STEP_BYTES = 16_384
"""Of a plan for each of its passes: 12 to 18 KiB were measured, of a body of 4 nodes and of a BERT of 1,606."""
_MOST_GONE = 4096


class Planned(Protocol):
    """What is kept: something that runs a compiled graph."""

    @property
    def weight(self) -> int:
        """Bytes, about, that it holds for itself beside constants."""

    @property
    def held(self) -> Mapping[int, int]:
        """By address, the bytes of the constants that it reads."""


Kept = TypeVar("Kept", bound=Planned)


class PlanCache(OrderedDict[Any, Kept]):
    """Plans by their keys, the one used last at the end."""

    def __init__(self, forget: Callable[[Kept], object]) -> None:
        super().__init__()
        self._forget = forget
        self._size = 0
        self._weights: dict[int, int] = {}
        """By the id of a plan, its weight when it came."""
        self._holders: Counter[int] = Counter()
        """By the address of a constant, the plans that hold it."""
        self._gone: dict[int, None] = {}
        """The hashes of the keys of plans that were let go of."""

    def use(self, key: Any) -> Kept | None:
        """The plan of a key, which is then the one used last."""
        if (found := self.get(key)) is not None:
            self.move_to_end(key)
        return found

    def add(self, key: Any, plan: Kept) -> None:
        """Keep a plan, and let go of those used longest ago.

        Where one that was let go of is asked for again, the one used last goes: of runs that go through more shapes
        than are kept, time and again, those kept are then found again, and none would be otherwise.
        """
        is_again = hash(key) in self._gone
        while len(self) >= MOST or (len(self) >= _FEW and self._size > _MOST_BYTES):
            old, gone = self.popitem(last=is_again)
            self._count(gone, -1)
            self._gone[hash(old)] = None
            self._forget(gone)
        while len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]
        self[key] = plan
        self._count(plan, 1)

    def empty(self) -> None:
        """Let go of all."""
        for plan in self.values():
            self._forget(plan)
            self._count(plan, -1)
        self.clear()

    def _weigh(self, plan: Kept) -> int:
        found = self._weights[id(plan)] = plan.weight
        return found

    def _count(self, plan: Kept, sign: int) -> None:
        """Count what a plan holds for itself: its steps, and constants that no other one holds."""
        self._size += sign * self._weights.pop(id(plan), 0) if sign < 0 else self._weigh(plan)
        for address, size in plan.held.items():
            before = self._holders[address]
            self._holders[address] = after = before + sign
            self._size += size * ((after == 1) - (before == 1))
            if not after:
                del self._holders[address]
