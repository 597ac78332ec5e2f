"""Facts of DirectML's reference on its 177 operators, as data: feature levels, types and dimension counts.

`facts.json` has a line a level, such as `"InputTensor": "1-8; f32 f16"`: the dimension counts, then the types, then
what the sizes are called where the documents name them. A level's line holds from that level upward until a higher one
replaces it; `required` names tensors that are optional later. Fields are the annotations of an operator's class.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from anydml.core.display import Shown, Table
from anydml.core.enums import NUMPY_TYPES, DataType, FeatureLevel
from anydml.core.package_data import read_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from anydml.core.operator_type import OperatorType


# Support tables


T = DataType
_DOCUMENTS_ORDER = (
    T.FLOAT64, T.FLOAT32, T.FLOAT16, T.INT64, T.INT32, T.INT16, T.INT8, T.INT4,
    T.UINT64, T.UINT32, T.UINT16, T.UINT8, T.UINT4,
)  # fmt: skip


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class TensorSupport(Shown):
    """The choices for one tensor."""

    dimension_counts: tuple[int, ...]
    data_types: frozenset[DataType]

    def __str__(self) -> str:
        return f"{write_counts(self.dimension_counts)} dimensions; {write_types(self.data_types)}"

    def _shown(self) -> Iterator[str | Table]:
        yield "one tensor of an operator"
        yield Table("", _HEADS[2:], [(write_counts(self.dimension_counts), write_types(self.data_types))])


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class LevelSupport(Shown):
    """One row of an operator's table: holds from its level upward, until a higher row replaces it."""

    level: FeatureLevel
    tensors: Mapping[str, TensorSupport] = field(hash=False)
    """By DirectML's field name: `InputTensor`."""
    functions: tuple[str, ...] = ()
    """The functions that the row is of, where an operator has several: REDUCE."""
    required: tuple[str, ...] = ()
    """The tensors that must be given, though higher levels have them as optional."""

    def __str__(self) -> str:
        width = max(map(len, self.tensors), default=0)
        head = " ".join([f"from level {self.level}", *self.functions])
        return "\n".join([head, *(f"  {name:<{width}}  {tensor}" for name, tensor in self.tensors.items())])

    def _shown(self) -> Iterator[str | Table]:
        yield str(self).partition("\n")[0]
        yield Table("", _HEADS[1:], [row[1:] for row in _table_rows(self)])


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class SupportTable(Shown):
    """An operator's rows, highest level first as the documents have them."""

    rows: tuple[LevelSupport, ...]
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Earlier answers: each description asks ten times."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    def _shown(self) -> Iterator[str | Table]:
        yield f"from level {self.introduced} on"
        yield Table("", _HEADS, [row for level in self.rows for row in _table_rows(level)])

    def __iter__(self) -> Iterator[LevelSupport]:
        return iter(self.rows)

    @property
    def introduced(self) -> FeatureLevel:
        """The level at which the operator appeared."""
        if (found := self._known.get("introduced")) is None:
            found = self._known["introduced"] = min(row.level for row in self.rows)
        return cast("FeatureLevel", found)

    def at(self, level: FeatureLevel | str) -> LevelSupport | None:
        """The row that holds at a level; None below the operator's first."""
        level = FeatureLevel(level)
        return self.row_at(level) if level >= self.introduced else None

    def row_at(self, level: FeatureLevel) -> LevelSupport:
        """The row that holds at a level which has the operator; of several functions what any of them takes."""
        if (found := self._known.get(level)) is None:
            first, *others = self.rows_at(level)
            found = self._known[level] = functools.reduce(_either, others, first)
        return cast("LevelSupport", found)

    def rows_at(self, level: FeatureLevel) -> list[LevelSupport]:
        """The row that holds at a level, or one for each group of functions."""
        held: dict[tuple[str, ...], LevelSupport] = {}
        for row in sorted(self.rows, key=lambda row: row.level):
            if row.level <= level:
                held[row.functions] = row
        return list(held.values())

    def of(self, function: str) -> SupportTable:
        """The rows of one function."""
        return SupportTable(tuple(row for row in self.rows if function in row.functions))

    def first_with(
        self, tensor: str, *, dimension_count: int | None = None, data_type: DataType | None = None
    ) -> FeatureLevel | None:
        """The lowest level at which a tensor may have this dimension count, or this type."""
        asked = (tensor, dimension_count, data_type)
        if asked in self._known:
            return cast("FeatureLevel | None", self._known[asked])
        levels = (
            row.level
            for row in self.rows
            if (dimension_count is None or dimension_count in row.tensors[tensor].dimension_counts)
            and (data_type is None or data_type in row.tensors[tensor].data_types)
        )
        found = self._known[asked] = min(levels, default=None)
        return found


def _either(one: LevelSupport, other: LevelSupport) -> LevelSupport:
    tensors = {
        name: TensorSupport(
            tuple(sorted({*mine.dimension_counts, *other.tensors[name].dimension_counts})),
            mine.data_types | other.tensors[name].data_types,
        )
        for name, mine in one.tensors.items()
    }
    return LevelSupport(max(one.level, other.level), tensors, (*one.functions, *other.functions))


_HEADS = ("from level", "tensor", "dimensions", "types")


def _table_rows(row: LevelSupport) -> Iterator[tuple[str, ...]]:
    """A row by tensor; the level is told at the first."""
    head = " ".join([str(row.level), *row.functions])
    for name, tensor in row.tensors.items():
        yield head, name, write_counts(tensor.dimension_counts), write_types(tensor.data_types)
        head = ""


def write_counts(counts: tuple[int, ...]) -> str:
    """Word dimension counts: `4`, `4 or 5`, `1 to 8`."""
    if len(counts) > 2 and counts == tuple(range(counts[0], counts[-1] + 1)):
        return f"{counts[0]} to {counts[-1]}"
    return " or ".join(map(str, counts))


def write_types(types: frozenset[DataType]) -> str:
    """Word data types, as the documents order them."""
    if types == set(NUMPY_TYPES):
        return "all but UINT4 and INT4"
    return ", ".join(t.name for t in _DOCUMENTS_ORDER if t in types)


# The file


_NO_TENSORS = ("level", "functions", "required")
_LETTERS = {"f": "FLOAT", "i": "INT", "u": "UINT"}


@functools.cache
def _facts() -> dict[str, Any]:
    found: dict[str, Any] = read_json(__file__, "facts.json")
    return found


def runs_in_place(kind: OperatorType) -> bool:
    """Whether the output may be bound to the very memory of the input."""
    found: bool = _facts()[kind.name]["in_place"]
    return found


def takers_of(data_type: DataType) -> list[str]:
    """The operators that take a type in any tensor at any level."""
    word = f"{data_type.name[0].lower()}{data_type.name.lstrip('FLOATUIN')}"
    return [
        name
        for name, fact in _facts().items()
        if any(
            word in text.split("; ")[1].split() for line in fact["support"] for text in line.values() if "; " in text
        )
    ]


def support_of(kind: OperatorType, others: Collection[DataType] = ()) -> SupportTable:
    """The tensors that an operator takes at each level; `others` are types that it takes besides, at every one."""
    rows = []
    for line in _facts()[kind.name]["support"]:
        tensors = {name: _read(text, tuple(others)) for name, text in line.items() if name not in _NO_TENSORS}
        functions, required = (tuple(line.get(key, "").split()) for key in ("functions", "required"))
        rows.append(LevelSupport(FeatureLevel(line["level"]), tensors, functions, required))
    return SupportTable(tuple(rows))


@functools.cache
def _read(text: str, others: tuple[DataType, ...]) -> TensorSupport:
    counts, types = text.split("; ")[:2]
    first, _, last = counts.partition("-")
    listed = tuple(range(int(first), int(last) + 1)) if last else tuple(map(int, counts.split()))
    named = (_LETTERS[word[0]] + word[1:] for word in types.split())
    return TensorSupport(listed, frozenset((*(DataType[name] for name in named), *others)))
