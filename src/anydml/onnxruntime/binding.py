"""IOBinding: arrays and memory bound to a session's inputs and outputs ahead of its runs."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anydml.arrays import wait
from anydml.arrays.cuda import bytes_at, load_torch
from anydml.arrays.fingerprints import as_plain, plain_address, plain_key
from anydml.core.device_memory import memories
from anydml.core.errors import printable, show
from anydml.core.memory import HOST
from anydml.onnxruntime.ort_device import OrtDevice
from anydml.onnxruntime.ort_errors import refuse, refuse_type
from anydml.onnxruntime.ort_value import OrtValue, dtype_in, on_host, placed
from anydml.onnxruntime.type_names import number_of, read_dtype

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anydml.onnx.model import Model
    from anydml.onnx.steps import Steps
    from anydml.onnxruntime.inference import InferenceSession


_SMALL = 65_536
"""Bytes of a bound output up to which a run's own result is copied into it: looking at it closely takes 60 us."""


class IOBinding:
    """The arrays that `session.run_with_iobinding` reads and writes: pointers, arrays or OrtValues, on any device."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self.inputs: dict[str, Any] = {}
        """The arrays to be read, by name."""
        self.outputs: dict[str, Any] = {}
        """By name, the arrays to be written; the name of a memory for one that each run makes."""
        self._results: dict[str, Any] = {}
        self._direct: dict[str, Any] | None = None
        self._launch: tuple[Model, Callable[[], object] | None, list[Any], list[Any]] | None = None
        """Of a model, what runs on the arrays that are bound, the arrays, and where they lay; None before a run."""
        self._steps: tuple[Model, Steps] | None = None
        """Of a model, what runs on these arrays, and on others in the stead of inputs; None before a run."""
        self._changed: set[str] = set()
        """Inputs that were bound since the last run."""
        self.keeps_layouts = False
        """Whether nobody lays the bound arrays out anew: they need not be looked at in each run."""

    def __reduce__(self) -> NoReturn:
        rule = "what is bound is the very memory of arrays, and can be neither copied nor pickled"
        raise TypeError(f"IOBinding: {rule}; bind the arrays, or copies of them, to another session.io_binding()")

    # Inputs

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to a NumPy array; a run reads what it holds then."""
        if not isinstance(arr_on_cpu, np.ndarray):
            raise refuse_type("IOBinding", name, "a NumPy array", arr_on_cpu, "np.array(x) is one")
        self._bind_input(name, arr_on_cpu)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to an OrtValue."""
        self._bind_input(name, _held(name, ortvalue))

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to memory at an address, which must stay as long as the binding."""
        self._bind_input(name, _seen(name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr))

    def _bind_input(self, name: str, array: Any) -> None:
        self.inputs[name] = self._session.read_input(name, array)
        self._changed.add(name)
        self._launch = None

    def clear_binding_inputs(self) -> None:
        """Let go of what is bound to inputs."""
        self.inputs = {}
        self._direct = self._launch = self._steps = None

    def synchronize_inputs(self) -> None:
        """Wait for copies of inputs to a GPU."""
        self._synchronize()

    # Outputs

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to an OrtValue, which runs write."""
        self._bind_output(name, _held(name, ortvalue))

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to memory at an address, or, without one, to a device whose memory each run takes anew."""
        device = OrtDevice.make(device_type, device_id)
        if buffer_ptr is None:
            # A result for a device that this session does not have stays on the host, as ONNX Runtime's does.
            self._bind_output(name, device.memory if self._session.device.engine.memory != HOST else HOST)
        elif element_type is None or shape is None:
            raise refuse("IOBinding", name, "element_type and shape must be given with buffer_ptr")
        else:
            self._bind_output(name, _seen(name, device, element_type, shape, buffer_ptr))

    def _bind_output(self, name: str, target: Any) -> None:
        self._session.read_names([name])
        if isinstance(target, np.ndarray) and not target.flags.writeable:
            raise refuse("IOBinding", name, f"output '{printable(name)}' must be bound to memory that may be written")
        self.outputs[name] = target
        self._results = {}
        self._direct = self._launch = self._steps = None

    def clear_binding_outputs(self) -> None:
        """Let go of what is bound to outputs, and of their results."""
        self.outputs, self._results = {}, {}
        self._direct = self._launch = self._steps = None

    def synchronize_outputs(self) -> None:
        """Wait until outputs on a GPU are there."""
        self._synchronize()

    def _synchronize(self) -> None:
        wait(self._session.device.engine.memory)

    # Runs

    def written(self) -> dict[str, Any]:
        """The arrays that a run writes itself; found once for what is bound. The others are copied into afterwards."""
        if self._direct is None:
            if not self.outputs:
                raise refuse("InferenceSession", "iobinding", "at least one output must be bound")
            arrays = {name: target for name, target in self.outputs.items() if not isinstance(target, str)}
            both = {id(array) for array in self.inputs.values()}
            self._direct = {name: x for name, x in arrays.items() if x.nbytes > _SMALL or id(x) in both}
        return self._direct

    def launch(self, model: Model) -> Callable[[], object] | None:
        """A function that runs on the bound arrays, where it was found, and model and arrays are as they were then."""
        if self._launch is None or self._launch[1] is None:
            return None
        own, launch, arrays, lay = self._launch
        if model is own and (self.keeps_layouts or [_place(array) for array in arrays] == lay):
            return launch
        self._launch = None
        return None

    def run_step(self, model: Model) -> bool:
        """Run where inputs that were bound since the last run are all that is new; whether that could be done."""
        if self._steps is None or self._steps[0] is not model or not self._changed:
            return False
        own = self._steps[1]
        results = own.run({name: self.inputs[name] for name in self._changed})
        if results is None:
            self._steps = None
            return False
        self._changed = set()
        for place, name in own.made:
            self._results[name] = results[place]
        return True

    def prepare(self, model: Model) -> None:
        """After a run: look once for what the next ones can do at once, where all is arrays."""
        changed, self._changed = self._changed, set()
        is_host = self._session.device.engine.memory == HOST
        if is_host and changed and changed != self.inputs.keys():  # others are bound at each run
            outs = {
                name: target for name, target in self.outputs.items() if not isinstance(target, str) or target != HOST
            }
            is_plain = all(type(array) is np.ndarray for array in (*self.inputs.values(), *outs.values()))
            steps = model.steps(self.inputs, outs) if is_plain else None
            self._steps = None if steps is None else (model, steps)
        elif self._launch is None and (is_host or not changed):
            arrays = [*self.inputs.values(), *self.outputs.values()]
            is_plain = all((type(array) is np.ndarray) is is_host and as_plain(array) is array for array in arrays)
            launch = model.bound(self.inputs, self.outputs) if is_plain else None
            self._launch = model, launch, arrays, [_place(array) for array in arrays] if launch else []

    def take(self, results: dict[str, Any]) -> None:
        """Keep a run's results, each where its output is bound to."""
        for name, target in self.outputs.items():
            found = results[name]
            if isinstance(target, str):
                self._results[name] = found if target == HOST and type(found) is np.ndarray else placed(found, target)
            else:
                if found is not target:
                    _write(name, target, found)
                self._results[name] = target

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order in which outputs were bound."""
        return [OrtValue(self._results.get(name)) for name in self.outputs]

    def results(self) -> dict[str, Any]:
        """The arrays of the last run, by name, as they lie: 45 OrtValues take 25 us."""
        return {name: self._results.get(name) for name in self.outputs}

    def copy_outputs_to_cpu(self) -> list[Any]:
        """The results of the last run as NumPy arrays, which the next run leaves alone."""
        found = [on_host(self._results.get(name)) for name in self.outputs]
        bound = self.outputs.values()
        return [np.array(x) if x is target else x for x, target in zip(found, bound, strict=True)]


def _place(array: Any) -> tuple[Any, ...]:
    return plain_address(array), plain_key(array)


def _write(name: str, target: Any, found: Any) -> None:
    if type(target) is type(found) is np.ndarray and target.shape == found.shape and target.dtype == found.dtype:
        target[...] = found
        return
    wanted = dtype_in(found), tuple(found.shape)
    if (given := (dtype_in(target), tuple(target.shape))) != wanted:
        rule = f"output '{printable(name)}' must be of {wanted[0].name} and shape {wanted[1]}"
        raise refuse("IOBinding", name, rule, f"{given[0].name} of {given[1]}")
    OrtValue(target).update_inplace(OrtValue(found))


def _held(name: str, value: Any) -> Any:
    if not isinstance(value, OrtValue):
        raise refuse_type("IOBinding", name, "an OrtValue", value, "see OrtValue.ortvalue_from_numpy")
    return value.held


def _seen(name: str, device: OrtDevice, element_type: Any, shape: Any, address: Any) -> Any:
    """Memory at an address as an array."""
    dtype = read_dtype(element_type)
    number_of(dtype)
    if dtype.hasobject:
        raise refuse("IOBinding", name, f"'{printable(name)}' must be of numbers", dtype.name)
    try:
        sizes, at = tuple(int(size) for size in shape), int(address)
    except (TypeError, ValueError) as error:
        raise refuse("IOBinding", name, f"shape and buffer_ptr must be numbers ({show(error)})") from None
    size = math.prod(sizes) * dtype.itemsize
    if min(sizes, default=0) < 0 or at < 0 or (size and not at):
        rule = f"'{printable(name)}' must have sizes and an address that are not negative, and no null pointer"
        raise refuse("IOBinding", name, rule, f"{sizes} at {at}")
    if not size:
        return placed(np.empty(sizes, dtype), device.memory)
    if device.memory == HOST:
        return np.frombuffer(memoryview((ctypes.c_byte * size).from_address(at)), dtype).reshape(sizes)
    if device.memory in memories:
        way_out = "bind an OrtValue, or a NumPy array"
        raise refuse("IOBinding", name, f"memory of {device.memory} is not known by its address", way_out=way_out)
    return bytes_at(at, size).view(getattr(load_torch(), dtype.name)).reshape(sizes)
