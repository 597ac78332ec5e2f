"""What would become of each node of a model, without compiling anything: for those who check one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.errors import DmlError, Fault, ModelError, printable
from anydml.onnx.graphs import check_names, describe
from anydml.onnx.reading import read_model
from anydml.onnx.shapes import Binder
from anydml.onnx.tracing import trace
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from anydml.onnx.graphs import TensorInfo
    from anydml.onnx.reading import Given, Source
    from anydml.onnx.tracing import Trace


def survey(
    model: Given,
    *,
    device: Device | str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    values: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Trace:
    """Walk through a model to the end: each node's record has the operators that it becomes, or what is wrong with it.

    Every open size must be bound by `shapes`; `values` gives the elements of inputs that a shape hangs on.
    """
    source = read_model(model)
    check_names(source)
    inputs = _readable_inputs(source)
    binder = Binder(source.name, inputs, {**(shapes or {}), **{name: a.shape for name, a in (values or {}).items()}})
    found = binder.known(list(inputs))
    if found is None:
        raise ModelError(
            source.name, [Fault(field=name, rule=_open(info)) for name, info in _open_ones(inputs, binder)]
        )
    if not isinstance(device, Device):
        device = device_named(device)
    return trace(source, found, values or {}, device, keep_going=True)


def _readable_inputs(source: Source) -> dict[str, TensorInfo]:
    """The inputs of types that there are; what reads the others is told of in its record."""
    own = {tensor.name for tensor in source.proto.graph.initializer}
    found = {}
    for info in source.proto.graph.input:
        if info.name not in own:
            try:
                found[info.name] = describe(info, source, "input")
            except DmlError:
                continue
    return found


def _open_ones(inputs: Mapping[str, TensorInfo], binder: Binder) -> list[tuple[str, TensorInfo]]:
    return [(name, info) for name, info in inputs.items() if binder.known([name]) is None]


def _open(info: TensorInfo) -> str:
    return f"input '{printable(info.name)}' must have its sizes bound; it is {printable(str(info))}"
