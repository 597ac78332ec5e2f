"""Reading an ONNX model, to be run on a device."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from anydml.graph.without import read_without
from anydml.onnx.arguments import memory_told
from anydml.onnx.checks import check_graph
from anydml.onnx.model import Model
from anydml.onnx.partition.partitioned_model import hosts
from anydml.onnx.read import read_model
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.onnx.read import Given


def load(
    model: Given,
    *,
    device: Device | str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    max_memory: int | None = None,
    max_steps: int | None = None,
    strict: bool = False,
    without: Iterable[str] = (),
) -> Model:
    """Read an ONNX model, and compile it where every shape is known.

    `shapes` binds the model's open sizes: by the name of an input, to a shape, or by the name of a size, to a number.
    Whatever is left open is bound by the arrays of a run. `max_memory` is in bytes, and half of what is free where it
    is not given: the model, its results and what passes between its operators must fit. `max_steps` is how many steps
    a Loop or a Scan may take in a run, those of loops within it included: a million where it is not given.

    A node without a DirectML operator, or of types that DirectML lacks, runs on the host: by ONNX Runtime where that is
    installed, else by onnx's reference evaluator. With `strict` it is refused. `without` names rewritings of the graph
    to leave out: `dml.rewritings()` has them all, and `explain()` says what each did.
    """
    if not isinstance(device, Device):
        device = device_named(device) if device is None or isinstance(device, str) else Device(device)
    left_out = read_without(without, "load")
    with memory_told("load"):
        source = read_model(model, max_memory=max_memory, max_steps=max_steps, is_kept=True)
        source = replace(source, without=left_out) if left_out else source
        is_whole = check_graph(source, hosts(source, is_strict=bool(strict)), is_strict=bool(strict))
        return Model(source, device, {} if shapes is None else shapes, is_strict=bool(strict), is_whole=is_whole)
