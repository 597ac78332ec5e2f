"""A row of the table: what is measured and what is hoped for, whatever the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import anydml as dml

if TYPE_CHECKING:
    from benchmarks.chain import Chain
    from benchmarks.formula import Formula


@dataclass(kw_only=True)
class Row:
    """One line of the table."""

    name: str
    family: str
    """`slice`, `gather`, `scan`, `chain`, `map`, `reduce`, `product`, `image` or `choosing`; `tiny`, `launch` or `compile` of
    a size where only the call counts."""
    desc: dml.OperatorDesc
    """What is computed; of a chain, the one operator that it amounts to."""
    chain: Chain | None = None
    """What ours is then made of: the operators of a graph."""
    formula: Formula | None = None
    """Likewise, for arithmetic."""
    goal: float = 1.0
    """How far ahead of the best peer the row should be."""
    share: float = 0.0
    """The share of copy speed it should reach."""
    device_us: float = 0.0
    """The most microseconds a launch should take by the device's clock; 0 for no goal, as everywhere here."""
    host_us: float = 0.0
    """The most microseconds of the host's time."""
    vs_single: float = 0.0
    """The most times that a chain should take of its single pass's time."""
    vs_compile: float = 0.0
    """How far ahead of torch.compile it should be, which is then no peer among the others."""
    compile_ms: float = 0.0
    """The most milliseconds that a graph should take to be compiled, bound and run once."""
    lines: int = 0
    """Bytes of whole cache lines that memory must deliver and take, where that is more than the elements needed."""
    flops: int = 0
    """Of a product, its additions and multiplications: the machine's arithmetic is its limit, not its memory."""
    peak: float = 0.0
    """The share of the machine's arithmetic it should reach."""
    exact: bool = True
    rtol: float = 2e-2
    """How far answers that are not exact may lie apart, as a part of them."""
    atol: float = 0.0
    """And besides: some peers lose digits near 0."""

    @property
    def output(self) -> dml.TensorDesc:
        """The first, where there are several."""
        tensor: dml.TensorDesc = next(iter(self.desc.outputs().values()))
        return tensor

    @property
    def is_call(self) -> bool:
        """Whether only the call counts."""
        return self.family in ("tiny", "launch", "compile")

    @property
    def bytes(self) -> int:
        """Each element needed read once, each written once."""
        if self.formula is not None:
            return self.formula.bytes
        indices = self.desc.tensors().get("IndicesTensor")
        return 2 * size(self.output) + (size(indices) if indices is not None else 0)

    @property
    def goals(self) -> dict[str, float]:
        return {
            "vs_best_peer": self.goal,
            "share_of_copy": self.share,
            "share_of_peak": self.peak,
            "device_us": self.device_us,
            "host_us": self.host_us,
            "vs_single": self.vs_single,
            "vs_compile": self.vs_compile,
            "compile_ms": self.compile_ms,
        }


def size(tensor: dml.TensorDesc) -> int:
    """The bytes of a tensor's elements, gaps left out."""
    return tensor.element_count * tensor.data_type.size_in_bytes


class Window(NamedTuple):
    """NumPy's slices as SLICE1 has them."""

    offsets: list[int]
    sizes: list[int]
    strides: list[int]

    @classmethod
    def of(cls, slices: Sequence[slice], shape: Sequence[int]) -> Window:
        bounds = [s.indices(n) for s, n in zip(slices, shape, strict=True)]
        counts = [len(range(*b)) for b in bounds]
        return cls(
            [b if step > 0 else b + (n - 1) * step for (b, _, step), n in zip(bounds, counts, strict=True)],
            [(n - 1) * abs(step) + 1 for (_, _, step), n in zip(bounds, counts, strict=True)],
            [step for _, _, step in bounds],
        )

    @property
    def ahead(self) -> tuple[slice, ...]:
        """The same elements, every dimension walked forwards."""
        return tuple(slice(o, o + n, abs(s)) for o, n, s in zip(*self, strict=True))

    @property
    def backwards(self) -> list[int]:
        """The dimensions that are walked from their end."""
        return [d for d, stride in enumerate(self.strides) if stride < 0]
