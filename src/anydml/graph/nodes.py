"""The nodes and edges that a `GraphDesc` is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from anydml.arrays import elements_of, view
from anydml.arrays.shared import SharedData
from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import DescriptionError, Fault, show
from anydml.core.parse import UINT32_MAX, read_bool, read_int
from anydml.operators import OperatorDesc
from anydml.operators.schema.fields import dml_name


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OperatorNode:
    """DML_OPERATOR_GRAPH_NODE_DESC: an operator in a graph, by its description, or an Operator as DirectML has it."""

    desc: OperatorDesc
    name: str = ""
    """The name in errors."""
    inputs: dict[int, tuple[str, TensorDesc]] = field(init=False, repr=False, compare=False)
    """Its inputs with DirectML's names, by their numbers: optional tensors that are not there have one too."""
    outputs: dict[int, tuple[str, TensorDesc]] = field(init=False, repr=False, compare=False)
    """Its outputs likewise."""

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        if isinstance(described := getattr(self.desc, "desc", None), OperatorDesc):  # of an Operator, a layer above
            object.__setattr__(self, "desc", described)
        if not isinstance(self.desc, OperatorDesc):
            rule = "desc must be an operator description, such as Slice1(...)"
            faults.append(Fault(field="desc", rule=rule, value=self.desc, found=show(self.desc)))
        _read_name(self.name, faults)
        if faults:
            raise DescriptionError("OperatorNode", faults)
        # Asked for at each edge: of a JOIN of thousands, to list them anew would be a square.
        for name, slots in (("inputs", self.desc.input_slots()), ("outputs", self.desc.output_slots())):
            there = {slot: given for slot, given in enumerate(slots.items()) if given[1] is not None}
            object.__setattr__(self, name, there)

    def named(self, name: str) -> OperatorNode:
        """The same by a name that was read already."""
        made = object.__new__(OperatorNode)
        for field_name in ("desc", "inputs", "outputs"):
            object.__setattr__(made, field_name, getattr(self, field_name))
        object.__setattr__(made, "name", name)
        return made

    @property
    def kind(self) -> str:
        """The operator's name: `SLICE1`."""
        return self.desc.type.name


@dataclass(frozen=True, slots=True, weakref_slot=True)
class ConstantNode:
    """DML_CONSTANT_DATA_GRAPH_NODE_DESC: data that is part of the graph. It is copied.

    The data is bytes, which have the description of whichever input they feed, or one that is given; or an array of
    any library, which is packed and says itself what it is. Shared data, which nobody changes, is not copied.
    """

    data: Any = field(repr=False)
    name: str = ""
    desc: TensorDesc | None = None
    is_scalar: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether the array had no dimensions, where its description has one."""

    def __post_init__(self) -> None:
        faults: list[Fault] = []
        _read_name(self.name, faults)
        if self.desc is not None and not isinstance(self.desc, TensorDesc):
            rule = "desc must be a TensorDesc, or None"
            faults.append(Fault(field="desc", rule=rule, value=self.desc, found=show(self.desc)))
        if faults:
            raise DescriptionError("ConstantNode", faults)
        if isinstance(self.data, (bytes, bytearray, memoryview)):
            object.__setattr__(self, "data", bytes(self.data))
        elif not isinstance(self.data, SharedData):
            self._read_array()
        needed = 1 if self.desc is None else self.desc.data_type.bytes_of(self.desc.extent)
        if self.size_in_bytes < needed:
            rule = f"data must have at least {needed} bytes"
            faults.append(Fault(field="data", rule=rule, value=self.data, found=str(len(self.data))))
        if self.desc is not None and any(stride < 0 for stride in self.desc.element_strides):
            rule = "desc must have no negative strides: data starts at the first element"
            faults.append(Fault(field="desc", rule=rule, value=self.desc.strides, found=str(self.desc.strides)))
        if faults:
            raise DescriptionError("ConstantNode", faults)

    def _read_array(self) -> None:
        seen = view(self.data, "ConstantNode", "data", memory=None)
        if self.desc is None:
            object.__setattr__(self, "desc", TensorDesc(seen.data_type, seen.sizes or (1,)))
            object.__setattr__(self, "is_scalar", not seen.sizes)
        object.__setattr__(self, "data", elements_of(seen).tobytes())

    @property
    def size_in_bytes(self) -> int:
        """Of the data."""
        return self.data.size if isinstance(self.data, SharedData) else len(self.data)

    @property
    def kind(self) -> str:
        """The kind of a node, or an operator's name."""
        return "constant"

    @property
    def inputs(self) -> dict[int, tuple[str, TensorDesc]]:
        """None."""
        return {}

    @property
    def outputs(self) -> dict[int, tuple[str, TensorDesc | None]]:
        """The data; without a description where it is but bytes."""
        return {0: ("data", self.desc)}


Node: TypeAlias = OperatorNode | ConstantNode


def _read_name(name: object, faults: list[Fault]) -> None:
    if not isinstance(name, str):
        faults.append(Fault(field="Name", rule="Name must be a string", value=name, found=show(name)))


_KINDS: dict[str, type] = {"name": str, "reinterpret": bool}
"""The types of an edge's fields that are no numbers."""


def _is_plain(name: str, value: object) -> bool:
    """Whether a field of an edge needs no reading: of the graphs that are built here none does."""
    kind = type(value)
    return kind is _KINDS.get(name, int) and (kind is not int or 0 <= value <= UINT32_MAX)  # type: ignore[operator]  # it is


class _Edge:
    """The shared part of the edges: numbers that are read, a name, and for some a mark."""

    __slots__ = ()

    def __post_init__(self) -> None:
        names: tuple[str, ...] = self.__match_args__  # type: ignore[attr-defined]  # every edge is a dataclass
        if all(_is_plain(name, getattr(self, name)) for name in names):
            return
        faults: list[Fault] = []
        for name in (one.name for one in fields(self)):  # type: ignore[arg-type]  # every edge is a dataclass
            value = getattr(self, name)
            if name == "name":
                _read_name(value, faults)
            elif name == "reinterpret":
                object.__setattr__(self, name, read_bool(value, name, faults))
            else:
                object.__setattr__(self, name, read_int(value, dml_name(name), faults))
        if faults:
            raise DescriptionError(type(self).__name__, faults)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class InputEdge(_Edge):
    """DML_INPUT_GRAPH_EDGE_DESC: an input of the graph feeds an input of a node.

    The first name among an input's edges is the input's. With `reinterpret` the node reads the same memory in a
    description of its own.
    """

    graph_input_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""
    reinterpret: bool = False


@dataclass(frozen=True, slots=True, weakref_slot=True)
class OutputEdge(_Edge):
    """DML_OUTPUT_GRAPH_EDGE_DESC: an output of a node is an output of the graph, which takes the edge's name."""

    from_node_index: int
    from_node_output_index: int
    graph_output_index: int
    name: str = ""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class IntermediateEdge(_Edge):
    """DML_INTERMEDIATE_GRAPH_EDGE_DESC: an output of a node feeds an input of another.

    With `reinterpret` the other reads the same memory in a description of its own.
    """

    from_node_index: int
    from_node_output_index: int
    to_node_index: int
    to_node_input_index: int
    name: str = ""
    reinterpret: bool = False
