"""The shared part of a compiled operator and graph: slots, memory of their own, and how both are bound."""

from __future__ import annotations

import abc
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from anydml.arrays import allocate, results_in, view, wait, wrap
from anydml.arrays.cuda import is_capturing, on_callers_stream
from anydml.arrays.fingerprints import as_plain, plain_address, plain_key, wrap_plain
from anydml.arrays.streams import Turns, at_home, in_turns
from anydml.core.device_memory import memories
from anydml.core.errors import BindingError, DmlError, Fault, show
from anydml.core.locks import cached_property, make_lock
from anydml.core.memory import HOST, is_cuda, numpy_address, packed_strides
from anydml.engines.common.program import one_at_a_time
from anydml.runtime.binding import BindingProperties, bind_array, hazards, raise_binding_faults
from anydml.runtime.bound import MOST_KNOWN, BoundOperator, Layout, are_apart, run
from anydml.runtime.call_cache import CallCache
from anydml.runtime.persistent_resource import Persistent, kept_layout
from anydml.runtime.profiler_hook import WATCHER
from anydml.runtime.staging import Staging, is_elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from anydml.arrays import ArrayView
    from anydml.arrays.tensor import TensorDesc
    from anydml.core.enums import ExecutionFlags
    from anydml.core.errors import IndexRangeError
    from anydml.core.memory import Buffer
    from anydml.ir.verbs import IndexFault
    from anydml.runtime.binding import Bound
    from anydml.runtime.device import Device
    from anydml.runtime.persistent_resource import Kept
    from anydml.runtime.prepacked import Layouts


class Common:
    """Scratch memory that several bindings of one graph share, on a GPU.

    Launches take turns with it, from whatever threads and on whatever streams.
    """

    def __init__(self, memory: Buffer, subject: str) -> None:
        self.memory = memory
        self._turns = Turns(memory.owner, memory.device) if is_cuda(memory.device) else None
        self._subject, self._lock = subject, make_lock()

    def taken_by(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """A launch that has the memory to itself."""
        turns = self._turns
        if turns is None:
            return one_at_a_time(launch, self._subject, self._lock)

        def run() -> Any:
            turns.enter()
            try:
                return launch()
            finally:
                turns.leave()

        return one_at_a_time(run, self._subject, self._lock)


class Compiled(abc.ABC):
    """A compiled operator or graph: tensors by the names of their slots, in binding order.

    Inputs flagged OWNED_BY_DML are given once to `initialize`, and are left out of every call.
    """

    name: str
    """The name in errors."""
    word: Callable[[IndexFault], IndexRangeError]
    """Words an index outside its dimension. It holds on to no memory."""
    in_place = False
    """Whether the output may be bound to the very memory of the input."""
    shares: Mapping[str, str] = MappingProxyType({})
    """By output, the input whose very memory it may be bound to beside."""
    temporary_size = 0
    """Bytes of scratch memory that a dispatch needs."""

    def __init__(
        self, device: Device, flags: ExecutionFlags, inputs: dict[str, TensorDesc], outputs: dict[str, TensorDesc]
    ) -> None:
        self.device, self.flags, self.inputs, self.outputs = device, flags, inputs, outputs
        self.memory = device.engine.memory
        self._is_cuda, self._stages = is_cuda(self.memory), self.memory in memories
        """Whether the memory is of CUDA's libraries, and whether what lies elsewhere is staged."""
        self.gaps: dict[str, tuple[int, ...]] = {"inputs": (), "outputs": ()}
        """The numbers, among an operator's inputs and outputs, of optional tensors that are not there."""
        self.free = [field for field, tensor in inputs.items() if not tensor.is_owned_by_dml]
        self.owned = {field: tensor for field, tensor in inputs.items() if tensor.is_owned_by_dml}
        strides = [desc.element_strides for desc in outputs.values()]
        self.results = [
            (desc.data_type, desc.sizes, None if steps == packed_strides(desc.sizes) else steps)
            for desc, steps in zip(outputs.values(), strides, strict=True)
        ]
        """The types, sizes and strides of new arrays for the outputs; no strides where those are packed."""
        self.gather = self.gatherer()
        """Hands results over: one alone, several by their names."""
        self.persistent: Buffer | None = None
        self._stand_ins: dict[int, Buffer] = {}
        """By address, device memory that stands for a persistent resource of the host's."""
        self.is_initialized = False
        self._layouts = [
            Layout.of(field, tensor, self.memory)
            for field, tensor in (*inputs.items(), *outputs.items())
            if not tensor.is_owned_by_dml
        ]
        self._bound_fields = [layout.field for layout in self._layouts]
        self._is_anywhere = self.memory == HOST and not any(layout.alignment for layout in self._layouts)
        self._launches: CallCache[Callable[[], Any]] = CallCache(MOST_KNOWN)
        """Launches on earlier calls' arrays, by their addresses."""

    def plan_owned(self, layouts: Layouts, stores: Mapping[str, str]) -> None:
        """Plan what is kept of owned tensors: all but those that programs read as they are laid out ahead alone.

        `stores` are what a program's views call tensors, by field.
        """
        fields = {stores[field]: field for field in self.owned}
        ahead = {store: layout for store, layout in layouts.maps.items() if layout.sources[0].tensor in fields}
        left = {layout.sources[0].tensor for layout in ahead.values()} - layouts.read
        kept = {field: self.keep(field, tensor) for field, tensor in self.owned.items() if stores[field] not in left}
        kept |= {store: kept_layout(fields[layout.sources[0].tensor], layout) for store, layout in ahead.items()}
        self._owned = Persistent(self.device.engine, kept)

    # What subclasses say

    @abc.abstractmethod
    def keep(self, field: str, tensor: TensorDesc) -> Kept:
        """How an owned tensor is copied."""

    @abc.abstractmethod
    def launch(self, places: Mapping[str, int], temporary: Buffer | None) -> Callable[[], Any]:
        """A function that dispatches, given the address of each tensor's first element, and scratch memory."""

    @abc.abstractmethod
    def gatherer(self) -> Callable[[Sequence[Any]], Any]:
        """What hands results over: one alone, several by their names."""

    # What follows

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        message = f"{self.name}: what is compiled cannot be pickled; pickle its desc, and compile that"
        raise TypeError(message)

    @property
    def binding_properties(self) -> BindingProperties:
        """The memory that a run needs: owned tensors need lasting memory, a graph's intermediates scratch memory."""
        count = len(self.inputs) + len(self.outputs) + bool(self.owned) + bool(self.temporary_size)
        return BindingProperties(count, self.temporary_size, self._owned.size)

    def initialize(self, *owned: object) -> Self:
        """Copy the inputs that are OWNED_BY_DML, in the order of the fields; they need not live on."""
        self.check_count("initialize", list(self.owned), owned, "the inputs flagged OWNED_BY_DML")
        self.check_not_initialized()
        faults: list[Fault] = []
        bound = [
            bind_array(field, self.owned[field], seen, is_output=False, faults=faults)
            for field, seen in zip(self.owned, self.look(list(self.owned), owned), strict=True)
        ]
        raise_binding_faults(self.name, faults)
        self.copy_owned({b.field: b for b in bound}, self.reserve(self._owned.size, "PersistentResource"))
        return self

    def reserve(self, size: int, field: str) -> Buffer | None:
        """Memory of its own; none for a size of 0."""
        try:
            return self.device.engine.reserve(size) if size else None
        except DmlError:  # a device that is lost, or another process's
            raise
        except Exception as error:
            rule = f"{size} bytes of {self.memory} memory could not be allocated ({show(error)})"
            raise BindingError(self.name, Fault(field=field, rule=rule, value=size)) from error

    def reserve_scratch(self) -> Buffer | None:
        """Scratch memory for one binding, which may then run on any stream of a GPU."""
        if not self.temporary_size:
            return None
        with at_home(self.memory):
            return self.reserve(self.temporary_size, "TemporaryResource")

    def again(self, launch: Callable[[], Any]) -> Callable[[], Any]:
        """A launch in turns with the scratch memory of a binding, for those who run it again and again."""
        return launch

    def look(self, fields: Sequence[str], arrays: Sequence[object]) -> list[ArrayView]:
        """Look at arrays for inputs."""
        named = zip(fields, arrays, strict=True)
        return [view(array, self.name, field, memory=self.memory) for field, array in named]

    def several(self, out: object) -> list[object]:
        """The arrays that were given for the outputs: a list of them, where there is more than one output."""
        return list(out) if isinstance(out, (list, tuple)) else [out]

    def handed_back(self, outputs: Sequence[object]) -> Any:
        """What a run into arrays gives: these arrays, one alone, several by their names."""
        return self.gather(outputs) if len(outputs) == len(self.outputs) else None  # of which a closer look tells

    def look_at_outputs(self, outputs: Sequence[object], out: object) -> list[ArrayView]:
        """Look at arrays for outputs, given as `out`."""
        if len(outputs) != len(self.outputs):
            rule = f"out must be {len(self.outputs)} arrays, for {', '.join(self.outputs)}"
            raise BindingError(self.name, Fault(field="out", rule=rule, value=out, found=str(len(outputs))))
        named = zip(self.outputs, outputs, strict=True)
        return [view(array, self.name, field, memory=self.memory, convert=False) for field, array in named]

    def run_anew(self, given: Sequence[object]) -> Any:
        """Run into new arrays of the first input's library: one, or several by their names."""
        like: Any = given[0] if given else None
        memory = results_in(self.memory, like) if self._stages else self.memory
        results = [
            allocate(data_type, sizes, strides, memory=memory, like=like) for data_type, sizes, strides in self.results
        ]
        if (plain := self.bind_plain(given, results, None, is_fresh=self._is_anywhere)) is not None:
            plain.dispatch()
            return self.gather([wrap_plain(result, like) for result in results] if given else results)
        seen = self.look(self.free, given)
        targets = [
            view(result, self.name, field, memory=self.memory)
            for field, result in zip(self.outputs, results, strict=True)
        ]
        self.bind_views(seen, targets, None).dispatch()
        return self.gather([wrap(result, seen[0].array) for result in results] if seen else results)

    def bind_plain(
        self, inputs: Sequence[Any], outputs: Sequence[Any], out: object, *, is_fresh: bool = False
    ) -> BoundOperator | None:
        """Attach arrays laid out to the letter as described and well apart; None where a closer look is due."""
        layouts = self._layouts
        if len(inputs) + len(outputs) != len(layouts) or (self.owned and self.persistent is None):
            return None
        arrays = []
        for layout, array in zip(layouts, (*inputs, *outputs), strict=True):
            plain = array if type(array) is np.ndarray else as_plain(array)
            if plain is None or plain_key(plain) != layout.key:
                return None
            arrays.append(plain)
        return self.bind_known(arrays, out, is_fresh=is_fresh)

    def bind_known(self, arrays: Sequence[Any], out: object, *, is_fresh: bool = False) -> BoundOperator | None:
        """Attach plain arrays of layouts known to fit, the outputs last; None for a closer look.

        With `is_fresh` the outputs were allocated a moment ago: nothing else lies there.
        """
        is_host = self.memory == HOST
        if is_fresh and is_host and not self.temporary_size:  # most calls: nothing else matters
            places = dict(zip(self._bound_fields, map(numpy_address, arrays), strict=True))
            fresh = self.launch(self.with_owned(places, self.persistent) if self.owned else places, None)
            return BoundOperator(self.name, self.word, fresh, (arrays, self.persistent), out)
        addresses = tuple([plain_address(array) for array in arrays])
        is_cuda = self._is_cuda
        memory = [array.untyped_storage() for array in arrays] if is_cuda else arrays  # set_() leaves it to its holders
        launch = self._launches.get(addresses)
        if launch is not None and not (
            (self.temporary_size and is_cuda and is_capturing())  # a capture has scratch memory alone
            or (self._stages and WATCHER.get() is not None)
        ):
            return BoundOperator(self.name, self.word, launch, (memory, self.persistent), out)
        if not is_fresh:
            is_writable = not is_host or all(array.flags.writeable for array in arrays[-len(self.outputs) :])
            if not is_writable or not are_apart(self._layouts, addresses, self.outputs, self.shares, self.in_place):
                return None
        places = dict(zip(self._bound_fields, addresses, strict=True))
        # PyTorch gives one tensor's memory to the next, as does a device's own: addresses come back.
        is_kept = not is_capturing() if is_cuda else self._stages and WATCHER.get() is None
        common = self._common if is_fresh and (is_kept or self._stages) else None
        arena = self.reserve_scratch() if common is None else common.memory
        launch = self.launch(self.with_owned(places, self.persistent) if self.owned else places, arena)
        if common is not None:
            launch = common.taken_by(self.again(launch))
        elif arena is not None:
            launch, is_kept = one_at_a_time(in_turns(self.again(launch), arena), self.name), False
        else:
            if self._stages:
                launch = self.again(launch)
            if (self.in_place or self.shares) and len(set(addresses)) < len(addresses):
                launch, is_kept = one_at_a_time(launch, self.name), False
        if is_kept:
            self._launches.keep(addresses, launch)
        return BoundOperator(self.name, self.word, launch, (memory, self.persistent, arena), out)

    def run_known(self, arrays: Sequence[Any], out: object, *, is_fresh: bool = False) -> bool:
        """Run on arrays as `bind_known` takes them; False for a closer look."""
        if self._stages and WATCHER.get() is None:
            launch = self._launches.get(tuple([array.address for array in arrays]))
            if launch is not None:
                run(launch, self.name, self.word)
                return True
        bound = self.bind_known(arrays, out, is_fresh=is_fresh)
        if bound is not None:
            bound.dispatch()
        return bound is not None

    @cached_property
    def _common(self) -> Common | None:
        """Scratch memory of all runs into fresh arrays of a GPU, where they need any."""
        memory = self.reserve_scratch()
        return None if memory is None else Common(memory, self.name)

    def bind_views(self, inputs: Sequence[ArrayView], outputs: Sequence[ArrayView], out: object) -> BoundOperator:
        """Attach arrays that were looked at already, and scratch memory; a dispatch returns `out`."""
        if self.owned and self.persistent is None:
            rule = f"{', '.join(self.owned)} must be given to initialize() first, being OWNED_BY_DML"
            raise BindingError(self.name, Fault(field=next(iter(self.owned)), rule=rule))
        faults: list[Fault] = []
        sources = [
            bind_array(field, self.inputs[field], seen, is_output=False, faults=faults)
            for field, seen in zip(self.free, inputs, strict=True)
        ]
        targets = [
            bind_array(field, desc, seen, is_output=True, faults=faults)
            for (field, desc), seen in zip(self.outputs.items(), outputs, strict=True)
        ]
        if not faults:
            faults += hazards(sources, targets, in_place=self.in_place, shares=self.shares)
        raise_binding_faults(self.name, faults)
        arena = self.reserve_scratch()
        return self.attach((*sources, *targets), self.persistent, arena, out, is_reserved=True)

    def attach(
        self,
        bound: Sequence[Bound],
        persistent: Buffer | None,
        temporary: Buffer | None,
        out: object = None,
        *,
        is_reserved: bool = False,
    ) -> BoundOperator:
        """Attach memory that was checked, to be run on the stream that its library works on.

        With `is_reserved` the scratch memory is this binding's own. What lies elsewhere is staged, where that is done.
        """
        places, staging = {b.field: b.address for b in bound}, None
        if self._stages:
            if temporary is not None and temporary.device != self.memory:
                temporary, is_reserved = self.reserve_scratch(), True
            if persistent is not None:
                persistent = self.at_device(persistent)
            if (staging := self._stage(bound)) is not None:
                places |= staging.places
        launch = self.launch(self.with_owned(places, persistent), temporary)
        if is_reserved and temporary is not None:
            launch = in_turns(self.again(launch), temporary)
        elif self._stages:
            launch = self.again(launch)
        launch = on_callers_stream(launch, [b.memory for b in bound]) if staging is None else staging.around(launch)
        is_shared = (self.in_place or self.shares) and len({b.address for b in bound}) < len(bound)
        if temporary is not None or staging is not None or is_shared:
            launch = one_at_a_time(launch, self.name)
        return BoundOperator(self.name, self.word, launch, (bound, persistent, temporary, staging), out)

    @property
    def kept(self) -> Collection[str]:
        """The outputs that are read before they are written, and go on from what they hold."""
        return ()

    def _stage(self, bound: Sequence[Bound]) -> Staging | None:
        """Device memory for what lies elsewhere; None where nothing does."""
        away = [one for one in bound if is_elsewhere(one, self.memory)]
        if not away:
            return None
        tensors = {**self.inputs, **self.outputs}
        is_written = any(one.field in self.outputs for one in away)
        kept = self.kept if is_written else ()
        return Staging(
            away, tensors, self.outputs, self.memory, lambda size: self._reserved(size, "staged tensors"), kept
        )

    def _brought(self, sources: Mapping[str, Bound]) -> dict[str, Bound]:
        """What is bound to be read once, where the device works."""
        named = {field: replace(one, field=field) for field, one in sources.items()}
        if (staging := self._stage(list(named.values()))) is not None:
            staging.bring()
            named |= {field: staging.moved(named[field]) for field in staging.places}
        return named

    def _reserved(self, size: int, field: str) -> Buffer:
        found = self.reserve(size, field)
        assert found is not None  # noqa: S101 - for type checkers: some is asked for
        return found

    def at_device(self, persistent: Buffer) -> Buffer:
        """A persistent resource where the device works: one of the host's has memory there that stands for it."""
        if not self._stages or persistent.device == self.memory:
            return persistent
        if (found := self._stand_ins.get(persistent.address)) is None:
            found = self._stand_ins[persistent.address] = self._reserved(self._owned.size, "PersistentResource")
        return found

    def with_owned(self, places: dict[str, int], persistent: Buffer | None) -> dict[str, int]:
        """The addresses of the tensors that are bound, and of those that are owned."""
        if persistent is None:
            return places
        return {**places, **self._owned.places(persistent)}

    def check_count(self, call: str, fields: list[str], given: Sequence[object], what: str) -> None:
        """Check that a call gave an array for each field."""
        if len(fields) != len(given):
            rule = f"{call}() takes {what}: {', '.join(fields) or 'none'}"
            fault = Fault(field="inputs", rule=rule, value=len(given), found=f"{len(given)} arrays")
            raise BindingError(self.name, fault)

    def check_not_initialized(self) -> None:
        """An owner of tensors is initialized exactly once: bindings rely on them."""
        if self.owned and self.is_initialized:
            rule = "the operator is initialized already, which happens exactly once"
            raise BindingError(self.name, Fault(field="", rule=rule, way_out="compile it again for other data"))

    def copy_owned(self, sources: Mapping[str, Bound], persistent: Buffer | None) -> None:
        """Fill the persistent resource; the operator is initialized from then on."""
        if persistent is not None:
            persistent = self.at_device(persistent)
            if self._stages:
                sources = self._brought(sources)
            self._owned.fill(persistent, sources)
            if self._owned.has_layouts and self._is_cuda and not is_capturing():
                wait(self.memory)  # kernels may read layouts before their turn
        self.persistent = persistent
        self.is_initialized = True
