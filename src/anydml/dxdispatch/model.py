"""A DxDispatch model as frozen values: resources, dispatchables and commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.nibbles import numbers_in
from anydml.core.display import Shown, Table, counted
from anydml.core.enums import FeatureLevel
from anydml.core.errors import show
from anydml.core.late_imports import import_alone
from anydml.core.memory import word_bytes
from anydml.dxdispatch.serialized import GraphProgram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from typing import TypeAlias

    from anydml.core.enums import DataType, ExecutionFlags, LevelName
    from anydml.core.operator_type import OperatorType
    from anydml.dxdispatch.check import ModelReport
    from anydml.dxdispatch.events import Event
    from anydml.dxdispatch.findings import Finding
    from anydml.dxdispatch.onnx_programs import OnnxProgram
    from anydml.dxdispatch.operators import PartialDesc
    from anydml.dxdispatch.run import RunResult
    from anydml.dxdispatch.source import Node, Source
    from anydml.dxdispatch.timing import Timing
    from anydml.dxdispatch.values import Values
    from anydml.operators import OperatorDesc


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Resource:
    """A buffer."""

    name: str
    node: Node = field(repr=False, compare=False)
    data_type: DataType | None
    """The type of its first values; None where they are of several."""
    values: Values | None
    """Its first values; None where they could not be read."""
    size_in_bytes: int | None
    values_offset: int = 0
    has_given_size: bool = False
    """Whether the model says the size, which is rounded up to a multiple of 4 bytes otherwise."""
    is_deferred: bool = False
    """Whether it is as large as what an ONNX model gives, and holds nothing before."""

    @property
    def values_size(self) -> int:
        """The bytes of its first values."""
        return self.values.size_in_bytes if self.values else 0

    def as_row(self) -> tuple[str, str, str]:
        """Its name, type and size in words."""
        size = "known at a run" if self.size_in_bytes is None else word_bytes(self.size_in_bytes)
        return self.name, "several" if self.data_type is None else self.data_type.name, size

    def first_values(self) -> np.ndarray[Any, Any] | None:
        """Its first values in memory of their own, read from their file where they have one; None where it cannot be.

        Ask for `values_size` first: nothing here keeps to a limit.
        """
        if self.values is None:
            return None
        data = np.zeros(self.values.size_in_bytes, np.uint8)
        self.values.fill(data)
        return data if self.data_type is None else numbers_in(data, self.data_type)


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Binding:
    """A range of a resource: from an element on, to its end."""

    resource: str
    node: Node = field(repr=False, compare=False)
    element_offset: int = 0
    element_size: int | None = None
    shape: tuple[int, ...] | None = None
    """Of a tensor of an ONNX model."""


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Dispatchable:
    """The object that commands run: an operator, a graph or an ONNX model."""

    name: str
    node: Node = field(repr=False, compare=False)
    operator: OperatorType | None
    """None for what is no operator that is built."""
    desc: OperatorDesc | None
    """None where it could not be read."""
    desc_node: Node = field(repr=False, compare=False)
    flags: ExecutionFlags
    bindings: Mapping[str, tuple[Binding, ...]]
    """The resources of its tensors that are OWNED_BY_DML."""
    program: GraphProgram | OnnxProgram | None = None
    """The program of one that is no operator, and lies in a file of its own."""
    partial: PartialDesc | None = field(default=None, repr=False, compare=False)
    """Of a description that could not be read: the fields that could."""

    def as_row(self) -> tuple[str, str, str, str]:
        """Its name, its operator, and its tensors in words."""
        if self.desc is None:
            return self.name, show(self.program), "", ""
        ends = (self.desc.inputs(), self.desc.outputs())
        inputs, outputs = ("; ".join(f"{one.data_type.name} {one.sizes}" for one in end.values()) for end in ends)
        return self.name, self.desc.type.name, inputs, outputs

    @property
    def bound(self) -> OperatorDesc | GraphProgram | None:
        """The part that resources are bound to as they lie."""
        return self.program if isinstance(self.program, GraphProgram) else self.desc


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Dispatch:
    """A command: run a dispatchable."""

    node: Node = field(repr=False, compare=False)
    dispatchable: str
    bindings: Mapping[str, tuple[Binding, ...]]
    """By the tensor's name; some operators take several resources for one name."""

    @property
    def text(self) -> str:
        """The command in words."""
        return f"dispatch {show(self.dispatchable, 60)}"


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Print:
    """A command: show a resource."""

    node: Node = field(repr=False, compare=False)
    resource: str
    verbose: bool

    @property
    def text(self) -> str:
        """The command in words."""
        return f"print {show(self.resource, 60)}"


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class WriteFile:
    """A command: write a resource to a file."""

    node: Node = field(repr=False, compare=False)
    resource: str
    target: Path | None
    """None where the path may not be used."""
    path: str
    """As the model has it."""
    dimensions: tuple[int, ...]

    @property
    def text(self) -> str:
        """The command in words."""
        return f"write {show(self.resource, 60)} to {show(self.path, 60)}"


if TYPE_CHECKING:
    Command: TypeAlias = Dispatch | Print | WriteFile


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True, repr=False)
class Model(Shown):
    """A model that was read. What is at fault in it is told by `check`, and keeps it from running."""

    file: str
    source: Source = field(repr=False, compare=False)
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable]
    commands: tuple[Command, ...]
    findings: tuple[Finding, ...] = ()
    """The findings of reading it."""
    max_memory: int = 0
    """The bytes that it may take when it runs."""
    max_output: int = 0
    """The bytes that it may write, each file and folder being a block of 4 KiB at least."""

    def __str__(self) -> str:
        lines = [f"{self.file}: resources {', '.join(self.resources) or 'none'}"]
        lines += [f"  {name}: {show(one.bound or one.program)}" for name, one in self.dispatchables.items()]
        return "\n".join(
            [*lines, f"  commands: {len(self.commands)}; run() runs them, and check() reports every fault"]
        )

    def _shown(self) -> Iterator[str | Table]:
        has = (counted(len(self.dispatchables), "dispatchable"), counted(len(self.resources), "resource"))
        yield f"{self.file}: {', '.join(has)}"
        yield Table("resources", ("name", "type", "size"), [one.as_row() for one in self.resources.values()])
        heads = ("name", "operator", "inputs", "outputs")
        yield Table("dispatchables", heads, [one.as_row() for one in self.dispatchables.values()])
        yield Table("commands", ("", "command"), [(k, one.text) for k, one in enumerate(self.commands, 1)])

    def check(self, feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest()) -> ModelReport:  # noqa: B008 - a constant
        """Find every fault of every dispatchable, binding and command; takes no memory for the resources."""
        import_alone("anydml.dxdispatch.check")
        from anydml.dxdispatch.check import check_model

        return check_model(self, FeatureLevel(feature_level))

    def run(
        self,
        engine: str | None = None,
        *,
        feature_level: FeatureLevel | LevelName | str = FeatureLevel.highest(),  # noqa: B008 - a constant
        timing: Timing | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> RunResult:
        """Run every command in order, or raise what `check` finds; files are written once all has gone well."""
        import_alone("anydml.dxdispatch.run")
        from anydml.dxdispatch.run import run_model

        return run_model(self, engine, FeatureLevel(feature_level), timing, on_event)
