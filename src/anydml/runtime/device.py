"""Device: an engine at a feature level, where operators are created and compiled."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np

from anydml.arrays import DeviceArray, elements_of, place_of, send, view
from anydml.arrays.host import as_numpy
from anydml.arrays.view import read_data_type
from anydml.core.device_memory import on_loss
from anydml.core.enums import DataType, ExecutionFlags, Feature, FeatureLevel
from anydml.core.errors import DescriptionError, DmlError, Fault, FeatureLevelError, show
from anydml.core.memory import HOST
from anydml.core.parse import read_bool, read_enum
from anydml.engines import find_engine
from anydml.engines.common.threads import number_cell
from anydml.graph.pass_names import read_disabled
from anydml.operators import OperatorDesc
from anydml.runtime.commands import CommandList, CommandRecorder
from anydml.runtime.compiled import CompiledOperator, Operator
from anydml.runtime.graph import CompiledGraph
from anydml.runtime.initializer import OperatorInitializer
from anydml.runtime.table import BindingTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from anydml.core.enums import LevelName
    from anydml.engines.common.engine import Engine
    from anydml.graph.description import GraphDesc
    from anydml.runtime.dispatchable import Compiled
    from anydml.runtime.table import Dispatchable

DeviceName: TypeAlias = Literal["cpu", "cuda", "webgpu", "reference"]
"""The usual names, for editors to offer: others are read as well, such as `cuda:1`."""


class Device:
    """IDMLDevice: `Device()` is the best engine for the host's memory, at the highest feature level.

    `Device("cuda")` is the first GPU, and works in its memory; `Device("cuda:1")` is the second. `Device("webgpu")` is
    the first GPU that Vulkan, Metal or Direct3D 12 reaches, `Device("webgpu:intel")` the first with that in its name;
    it takes arrays of the host too, which are copied at each call, and `to_device` has them there. A device of a
    lower level accepts what DirectML accepts at that level, and no more.

    `Device("webgpu", precise=False)` trades bits for speed: the driver may contract products and sums, and divides and
    takes roots as it likes.
    """

    def __init__(
        self,
        name: DeviceName | str | None = None,
        *,
        feature_level: FeatureLevel | LevelName | str | None = None,
        precise: bool = True,
    ) -> None:
        faults: list[Fault] = []
        highest = FeatureLevel.highest()
        self.feature_level = (
            highest
            if feature_level is None
            else read_enum(FeatureLevel, feature_level, "feature_level", faults, highest)
        )
        precise = read_bool(precise, "precise", faults)
        if faults:
            raise DescriptionError("Device", faults)
        self.engine = find_engine(name, is_precise=precise)
        # The functions describe their arrays anew at each call; most calls repeat an earlier description.
        self._compile_once = functools.lru_cache(maxsize=512)(lambda desc, _threads: self.compile(desc))

    @classmethod
    def over(cls, engine: Engine) -> Device:
        """A device of an engine that no name finds."""
        made = cls("reference")
        made.engine = engine
        return made

    @property
    def name(self) -> str:
        """The name: `cpu`, `cuda`, or `cuda:1` for a GPU that is not the first."""
        index = self.engine.memory.partition(":")[2]
        return self.engine.name if index in ("", "0") else f"{self.engine.name}:{index}"

    def create_operator(self, desc: OperatorDesc) -> Operator:
        """Check a description against everything the documents say of it at this device's level."""
        return Operator(self, desc)

    def compile_operator(
        self, operator: Operator, flags: ExecutionFlags | str | int = ExecutionFlags.NONE
    ) -> CompiledOperator:
        """Make an operator ready for the engine. It must be initialized before it runs from a command list."""
        faults: list[Fault] = []
        if not isinstance(operator, Operator) or operator.device is not self:
            rule = "operator must be an Operator of this device"
            faults.append(
                Fault(
                    field="operator",
                    rule=rule,
                    value=operator,
                    found=show(operator),
                    way_out="see create_operator",
                )
            )
        flags = read_enum(ExecutionFlags, flags, "flags", faults, ExecutionFlags.NONE)
        if faults:
            raise DescriptionError("Device", faults)
        return CompiledOperator(operator, flags)

    def compile(self, desc: OperatorDesc, flags: ExecutionFlags | str | int = ExecutionFlags.NONE) -> CompiledOperator:
        """Create and compile in one step: the result is called with arrays, again and again."""
        compiled = self.compile_operator(self.create_operator(desc), flags)
        if not compiled.owned:
            compiled.initialize()
        return compiled

    def compile_graph(
        self,
        desc: GraphDesc,
        flags: ExecutionFlags | str | int = ExecutionFlags.NONE,
        *,
        optimise: bool = True,
        disable_passes: Iterable[str] = (),
        without: Iterable[str] | None = None,
    ) -> CompiledGraph:
        """IDMLDevice1::CompileGraph: check a graph at this device's level, and make it ready for the engine as one.

        The documents name no feature level for it; each of its operators has its own. It must be initialized before it
        runs from a command list. With `optimise=False` every operator is a pass over memory, for the same
        answers: bit for bit, but for running sums and products of floats that are added up in parts for their length.
        `disable_passes` names single graph passes to leave out: `dml.graph_passes()` has them all.
        """
        faults: list[Fault] = []
        flags = read_enum(ExecutionFlags, flags, "flags", faults, ExecutionFlags.NONE)
        optimise = read_bool(optimise, "optimise", faults)
        if faults:
            raise DescriptionError("Device", faults)
        disabled = read_disabled(disable_passes, "Device", without=without)
        return CompiledGraph(self, desc, flags, optimise=optimise, disabled_passes=disabled)

    def compile_cached(self, desc: OperatorDesc) -> CompiledOperator:
        """The same compiled operator for the same description: for those whose tensors are all bound at each run.

        Another for another number of threads, for which its work is divided otherwise.
        """
        return self._compile_once(desc, number_cell.value) if isinstance(desc, OperatorDesc) else self.compile(desc)

    def create_operator_initializer(self, operators: Sequence[Compiled] = ()) -> OperatorInitializer:
        """An initializer for compiled operators."""
        return OperatorInitializer(operators)

    def create_binding_table(self, dispatchable: Dispatchable | None = None) -> BindingTable:
        """A binding table for a compiled operator or an initializer. There are no descriptor heaps to name here."""
        return BindingTable(dispatchable)

    def create_command_recorder(self) -> CommandRecorder:
        """A recorder."""
        return CommandRecorder()

    def create_command_list(self) -> CommandList:
        """A list to record into."""
        return CommandList()

    def execute(self, command_list: CommandList | Sequence[CommandList]) -> None:
        """Close a command list, or several, and run the recorded dispatches in order.

        They are done when this returns; on a GPU they are on the caller's stream then, as any other work of the
        caller's.
        """
        lists = [command_list] if isinstance(command_list, CommandList) else command_list
        if not isinstance(lists, (list, tuple)) or not all(isinstance(one, CommandList) for one in lists):
            rule = "command_list must be a CommandList, or a list of them"
            fault = Fault(field="command_list", rule=rule, value=command_list, found=show(command_list))
            raise DescriptionError("Device", fault)
        for one in lists:
            one.close()
            one.run()

    def check_feature_support(self, feature: Feature | str | int, query: object) -> FeatureLevel | bool:
        """Ask what the device supports.

        `("FEATURE_LEVELS", [levels])` gives the highest of the levels that the device has;
        `("TENSOR_DATA_TYPE_SUPPORT", type)` whether a tensor may have the type.
        """
        faults: list[Fault] = []
        kind = read_enum(Feature, feature, "feature", faults, Feature.FEATURE_LEVELS)
        if faults:
            raise DescriptionError("Device", faults)
        if kind is Feature.TENSOR_DATA_TYPE_SUPPORT:
            data_type = read_enum(DataType, query, "query", faults, DataType.FLOAT32)
            if faults:
                raise DescriptionError("Device", faults)
            return data_type.introduced <= self.feature_level
        asked = query if isinstance(query, (list, tuple, set, frozenset)) else [query]
        levels = [read_enum(FeatureLevel, level, "query", faults, FeatureLevel.LEVEL_1_0) for level in asked]
        if faults:
            raise DescriptionError("Device", faults)
        supported = [level for level in levels if level <= self.feature_level]
        if not supported:
            rule = f"query must have a level that the device supports, up to {self.feature_level}"
            raise FeatureLevelError("Device", Fault(field="query", rule=rule, value=query, found=show(query)))
        return max(supported)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Callable[..., Device], tuple[str, str, bool]]:
        return _remade, (self.name, str(self.feature_level), self.engine.is_precise)

    def __repr__(self) -> str:
        loose = "" if self.engine.is_precise else ", precise=False"
        return f"Device({self.name!r}, feature_level={str(self.feature_level)!r}{loose})"


def _remade(name: str, feature_level: str, precise: bool) -> Device:
    """A device as it is pickled: by what it is made of."""
    return Device(name, feature_level=feature_level, precise=precise)


def to_device(x: Any, device: Device | DeviceName | str) -> Any:
    """An array in the memory that a device works in: a copy, or the array itself where it lies there.

    On the host it is NumPy's, in the memory of an NVIDIA GPU PyTorch's, and else a `DeviceArray`.

    >>> import numpy as np
    >>> to_device([1, 2], "cpu")
    array([1, 2])
    """
    found = (
        device if isinstance(device, Device) else device_named(device) if isinstance(device, str) else Device(device)
    )
    memory, place = found.engine.memory, place_of(x)
    if place != HOST:
        if place == memory:
            return x
        is_own = isinstance(x, DeviceArray)
        return send(x.numpy() if is_own else elements_of(view(x, "to_device", "x", memory=None)), memory)
    try:
        array = as_numpy(x)
        if array.dtype != np.bool_:
            read_data_type(array.dtype)
    except DmlError as error:
        raise error.within("to_device", "x ") from error.__cause__
    if memory == HOST:
        return x if hasattr(x, "dtype") else array
    return send(array, memory)


@functools.cache
def device_named(name: str | None) -> Device:
    """The device that a function runs on where it is given a name, or nothing: at the highest feature level."""
    return Device(name)


on_loss.append(device_named.cache_clear)
