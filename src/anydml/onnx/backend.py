"""ONNX's own backend interface, by which its test runner drives any runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.view import describe
from anydml.core.errors import BindingError, DescriptionError, DmlError, Fault, UnsupportedError, printable, show
from anydml.engines import find_engine
from anydml.onnx.library import backend_base, make_node_model, not_supposed
from anydml.onnx.model import load
from anydml.runtime.device import device_named

if TYPE_CHECKING:
    from anydml.onnx.model import Model

_base: Any = backend_base()


class BackendRep(_base.BackendRep):  # type: ignore[misc]  # onnx has no types
    """A model, as a backend prepares one."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **_options: Any) -> tuple[Any, ...]:
        """Run on arrays in the order of the inputs, or by name."""
        names = list(self.model.inputs)
        if isinstance(inputs, Mapping):
            named = dict(inputs)
        else:
            arrays = _several(inputs, self.model.name)
            if len(arrays) > len(names):
                rule = f"a run takes {len(names)} arrays, for {', '.join(map(printable, names)) or 'none'}"
                raise BindingError(self.model.name, Fault(field="inputs", rule=rule, found=str(len(arrays))))
            named = dict(zip(names, arrays, strict=False))
        with _Refusals():
            return tuple(self.model.run(named).values())


class Backend(_base.Backend):  # type: ignore[misc]  # as above
    """anydml as ONNX's tools drive it: `Backend.prepare(model, device="CPU").run(inputs)`."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", *, strict: bool = False, **_options: Any) -> BackendRep:
        """Load a model; one that is beyond anydml is refused in the way that ONNX's test runner knows."""
        with _Refusals():
            return BackendRep(load(model, device=device_named(_name(device)), strict=strict))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """Run one node on arrays."""
        arrays = [_array(array) for array in _several(inputs, "run_node")]
        names = [name for name in getattr(node, "input", ()) if name]
        if len(arrays) != len(names):
            rule = f"the node takes {len(names)} arrays, for {', '.join(map(printable, names)) or 'none'}"
            raise BindingError("run_node", Fault(field="inputs", rule=rule, found=str(len(arrays))))
        try:
            infos = [(np.dtype(dtype), tuple(shape)) for dtype, shape in outputs_info or ()]
        except Exception as error:
            rule = f"outputs_info must be a type and a shape for each output ({show(error)})"
            raise DescriptionError("run_node", Fault(field="outputs_info", rule=rule, value=outputs_info)) from error
        try:
            model = make_node_model(node, arrays, infos, options.get("opset_version"))
        except Exception as error:
            rule = f"the node could not be made a model ({show(error)})"
            raise DescriptionError("run_node", Fault(field="node", rule=rule, value=node)) from error
        return cls.prepare(model, device, strict=options.get("strict", False)).run(arrays)

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **_options: Any) -> bool:
        """Whether a model can be run."""
        try:
            load(model, device=device_named(_name(device)))
        except DmlError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the engine of a device is there."""
        try:
            find_engine(_name(device))
        except (DmlError, ValueError):
            return False
        return True


def _several(inputs: Any, subject: str) -> list[Any]:
    """The arrays of a list, or one array alone."""
    if isinstance(inputs, (list, tuple)):
        return list(inputs)
    if isinstance(inputs, (np.ndarray, np.generic)) or hasattr(type(inputs), "__dlpack__"):
        return [inputs]
    rule = "inputs must be a list of arrays, in the order of the inputs"
    raise BindingError(subject, Fault(field="inputs", rule=rule, value=inputs, found=describe(inputs)))


def _array(given: Any) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(given)
    except Exception as error:
        rule = f"inputs must be host arrays ({show(error)})"
        raise BindingError("run_node", Fault(field="inputs", rule=rule, value=given, found=describe(given))) from error


def _name(device: str) -> str:
    """A device by our name: `cpu` for `CPU`, `cuda:1` for `CUDA:1`."""
    if not isinstance(device, str):
        rule = "device must be the name of one, such as CPU or CUDA:1"
        raise DescriptionError("Backend", Fault(field="device", rule=rule, value=device, found=show(device)))
    return device.lower().removesuffix(":0") if device.lower().startswith("cpu") else device.lower()


class _Refusals:
    """Words a refusal as ONNX's runner takes it; every other error is an error."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, UnsupportedError):
            raise not_supposed()(str(error)) from error
