"""The report of a description's check, and the wording of types and dimension counts that a level does not have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anydml.core.display import Shown, Table, counted, listed
from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.operators.schema.facts import takers_of, write_counts
from anydml.operators.schema.fields import bare_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.core.enums import FeatureLevel
    from anydml.operators.schema.records import OperatorDesc


CONVERT = ", so convert the data first"
"""The way out for a data type that no level takes, of which a caller with arrays is told more."""


@dataclass(frozen=True, slots=True, weakref_slot=True, repr=False)
class Report(Shown):
    """The result of checking a description. It is true where nothing is wrong."""

    subject: str
    level: FeatureLevel
    faults: tuple[Fault, ...]
    remarks: tuple[str, ...]
    """Remarks on a valid description."""
    lowest_level: FeatureLevel | None
    """The lowest level at which the description is valid; None where it is valid at none."""

    def __bool__(self) -> bool:
        return not self.faults

    def __str__(self) -> str:
        since = f", from level {self.lowest_level} on" if self.lowest_level else ""
        faults = f"{counted(len(self.faults), 'fault')} at level {self.level}"
        found = f"valid{since}" if self else f"{faults}; valid{since}" if since else faults
        return "\n  ".join([f"{self.subject}: {found}", *map(str, self.faults), *self.remarks])

    def _shown(self) -> Iterator[str | Table]:
        yield str(self).partition("\n")[0]
        yield Table("", ("field", "fault"), [(fault.field, str(fault)) for fault in self.faults])
        yield from self.remarks


def own_faults(desc: OperatorDesc) -> Iterator[Fault]:
    """Find what is wrong with a description at any level."""
    faults = [] if desc.rules_hold else list(desc.rules())
    yield from faults
    for field, tensor in desc.outputs().items():
        if tensor.is_owned_by_dml:
            rule = f"{field}.Flags must not have OWNED_BY_DML, which is for inputs"
            yield Fault(field=f"{field}.Flags", rule=rule, value=tensor.flags)
        if tensor.overlaps_itself:
            rule = f"{field}.Strides must give every coordinate an element of its own"
            found = f"strides {tensor.element_strides} for sizes {tensor.sizes}"
            yield Fault(field=f"{field}.Strides", rule=rule, value=tensor.element_strides, found=found)
    if not faults and (desc.rules_hold or not has_odd_input(desc)):
        yield from desc.output_rules()


def has_odd_input(desc: OperatorDesc) -> bool:
    """Whether an input has a dimension count of no level, which implies no output: a check of a level tells it."""
    support = desc.own_support()
    return any(
        support.first_with(bare_name(field), dimension_count=tensor.dimension_count) is None
        for field, tensor in desc.inputs().items()
    )


def level_faults(desc: OperatorDesc, level: FeatureLevel, where: str, *, adds_float64: bool) -> Iterator[Fault]:
    """Find the types, dimension counts and missing tensors that a level does not take; `where` says whose it is."""
    first = desc.introduced()
    if level < first:
        yield Fault(field="", rule=f"the operator needs {first.dml_name}", way_out=where, level=first)
    row = desc.own_support().row_at(max(level, first))
    reported: set[object] = set()  # most tensors share their type and dimension count: the first one is named
    for field, tensor in desc.tensors().items():
        allowed = row.tensors[bare_name(field)]
        is_taken = tensor.data_type in allowed.data_types or (tensor.data_type is DataType.FLOAT64 and adds_float64)
        if not is_taken and (tensor.data_type, allowed.data_types) not in reported:
            reported.add((tensor.data_type, allowed.data_types))
            yield type_fault(desc, field, tensor.data_type, where)
        count = tensor.dimension_count
        if count not in allowed.dimension_counts and count not in reported:
            reported.add(count)
            takes = f", which takes {write_counts(allowed.dimension_counts)}" if level >= first else ""
            yield count_fault(desc, field, count, where + takes)
    for field in row.required:
        if field not in desc.tensors() and level >= first:
            later = min(other.level for other in desc.support if field not in other.required)
            rule = f"{field} must be given before {later.dml_name}"
            yield Fault(field=field, rule=rule, found="none", way_out=where, level=later)


def type_fault(desc: OperatorDesc, field: str, data_type: DataType, where: str) -> Fault:
    """A tensor's type that the level does not take; `where` says whose level it is."""
    first = desc.own_support().first_with(bare_name(field), data_type=data_type)
    name = f"{field}.DataType"
    if first is None:
        known = sorted({t for row in desc.own_support() for t in row.tensors[bare_name(field)].data_types})
        rule = f"{field} must be of {listed(t.name for t in known)}"
        way_out = f"no feature level takes it{CONVERT}"
        if data_type is DataType.FLOAT64 and "allow_float64" in desc.field_types():
            way_out += ", or take it as an extension with allow_float64=True"
        if data_type.is_half_byte:
            way_out = f"DirectML takes it in {' and '.join(takers_of(data_type))} alone"
        return Fault(field=name, rule=rule, value=data_type, found=data_type.name, way_out=way_out)
    rule = f"{field} of {data_type.name} needs {first.dml_name}"
    return Fault(field=name, rule=rule, value=data_type, way_out=where, level=first)


def count_fault(desc: OperatorDesc, field: str, count: int, where: str) -> Fault:
    """A tensor's dimension count that the level does not take."""
    first = desc.own_support().first_with(bare_name(field), dimension_count=count)
    name = f"{field}.DimensionCount"
    if first is None:
        known = sorted({n for row in desc.own_support() for n in row.tensors[bare_name(field)].dimension_counts})
        rule = f"{field} must have {write_counts(tuple(known))} dimensions"
        return Fault(field=name, rule=rule, value=count, found=str(count))
    rule = f"{field} of {count} dimension{'s' if count > 1 else ''} needs {first.dml_name}"
    return Fault(field=name, rule=rule, value=count, way_out=where, level=first)
