"""How often a dispatch is run, and what the times say."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field

from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.parse import read_int


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Timing:
    """How often each dispatch command runs its dispatchable."""

    iterations: int = 1
    """Samples taken."""
    repeat: int = 1
    """Dispatches in each sample, which is their mean."""
    milliseconds: float | None = None
    """Run for so long instead of so many iterations."""
    interval: float = 0
    """The least milliseconds from one sample to the next."""
    warmup: int = 1
    """The most samples that count as cold, and are left out of the figures; one at least is always kept."""

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        for name, low in (("iterations", 1), ("repeat", 1), ("warmup", 0)):
            read_int(getattr(self, name), name, faults, low=low)
        for name in ("milliseconds", "interval"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value is None and name == "milliseconds") and not (is_number and 0 <= value < math.inf):
                rule = f"{name} must be a number of milliseconds, 0 at least"
                faults.append(Fault(field=name, rule=rule, value=value, found=show(value)))
        if faults:
            raise DescriptionError("Timing", faults)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Figures:
    """Samples in milliseconds, summed up."""

    count: int
    average: float
    least: float
    median: float
    most: float

    @classmethod
    def of(cls, samples: array[float]) -> Figures | None:
        """Sum samples up; None where there are none."""
        if not samples:
            return None
        ordered = sorted(samples)
        count = len(ordered)
        return cls(count, sum(ordered) / count, ordered[0], ordered[count // 2], ordered[-1])


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Samples:
    """The time of each iteration, in milliseconds."""

    milliseconds: array[float] = field(default_factory=lambda: array("d"))
    warmup: int = 1

    @property
    def _cold_count(self) -> int:
        return max(min(len(self.milliseconds) - 1, self.warmup), 0)

    @property
    def cold(self) -> Figures | None:
        """The first samples, which pay for what is not in a cache yet."""
        return Figures.of(self.milliseconds[: self._cold_count])

    @property
    def hot(self) -> Figures | None:
        """The samples that count: one at least, so that there is a figure to show."""
        return Figures.of(self.milliseconds[self._cold_count :])
