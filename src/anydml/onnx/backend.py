"""ONNX's own backend interface, by which its test runner drives any runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.engines import find_engine
from anydml.errors import DmlError, UnsupportedError
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
        given: Any = [inputs] if isinstance(inputs, np.ndarray) else inputs
        named = dict(given) if hasattr(given, "keys") else dict(zip(names, given, strict=False))
        with _Refusals():
            return tuple(self.model.run(named).values())


class Backend(_base.Backend):  # type: ignore[misc]  # as above
    """anydml as ONNX's tools drive it: `Backend.prepare(model, device="CPU").run(inputs)`."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_options: Any) -> BackendRep:
        """Load a model; one that is beyond anydml is refused in the way that ONNX's test runner knows."""
        with _Refusals():
            return BackendRep(load(model, device=device_named(_name(device))))

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None, **options: Any
    ) -> tuple[Any, ...]:
        """Run one node on arrays."""
        arrays = [np.asarray(array) for array in inputs]
        model = make_node_model(node, arrays, outputs_info, options.get("opset_version"))
        return cls.prepare(model, device).run(arrays)

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


def _name(device: str) -> str:
    """A device by our name: `cpu` for `CPU`, `cuda:1` for `CUDA:1`."""
    return device.lower().removesuffix(":0") if device.lower().startswith("cpu") else device.lower()


class _Refusals:
    """Words a refusal as ONNX's runner takes it; every other error is an error."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, UnsupportedError):
            raise not_supposed()(str(error)) from error
