"""A model here and on ONNX Runtime: whether the outputs agree, and which node is the first that does not."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.errors import DescriptionError, DmlError, Fault, printable, show
from anydml.onnx.feeding import hold
from anydml.onnx.library import run_onnxruntime, with_outputs
from anydml.onnx.model import load
from anydml.onnx.nodes import label_of
from anydml.onnx.reading import read_model
from anydml.onnx.tensors import decode_tensor, is_external

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from anydml.onnx.reading import Given, Source
    from anydml.runtime.device import Device

RTOL, ATOL = 1e-3, 1e-7
"""Within which floats agree: those of ONNX's own backend tests."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One tensor on both sides."""

    name: str
    count: int
    """Elements that it has."""
    differing: int
    """Elements whose bits differ; two NaNs are the same."""
    agrees: bool
    """Whether all of them are close enough; whole numbers must be equal."""
    where: tuple[int, ...] | None
    """The first element that is too far off, or else the first that differs."""
    here: Any
    there: Any
    largest: float | None
    """The largest difference, an infinity's included; None where none is a number."""
    problem: str = ""
    """Why elements could not be compared: another shape or type."""

    def __str__(self) -> str:
        if self.problem:
            return f"'{printable(self.name)}': {self.problem}"
        if not self.differing:
            return f"'{printable(self.name)}': all {self.count} elements are the same"
        most = "" if self.largest is None else f" by {self.largest:.3g} at most,"
        verdict = "within the tolerance" if self.agrees else "too far off"
        return (
            f"'{printable(self.name)}': {self.differing} of {self.count} elements differ,"
            f"{most} {verdict};"
            f" the first at {list(self.where or ())}: {self.here} here, {self.there} there"
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model on both sides. It is true where every output agrees."""

    outputs: tuple[Difference, ...]
    first_node: str = ""
    """The first node that makes something that does not agree."""
    first: Difference | None = None

    def __bool__(self) -> bool:
        return all(output.agrees for output in self.outputs)


def compare(
    model: Given,
    inputs: Mapping[str, Any],
    *,
    device: Device | str | None = None,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    rtol: float = RTOL,
    atol: float = ATOL,
    max_memory: int | None = None,
    without: Iterable[str] = (),
) -> Comparison:
    """Run a model here and on ONNX Runtime; where outputs do not agree, find the first node that does not.

    `without` names rewritings of the graph to leave out, as `load` takes them.
    """
    rtol, atol = _tolerance(rtol, "rtol"), _tolerance(atol, "atol")
    source = read_model(model, max_memory=max_memory)
    options: dict[str, Any] = {"device": device, "shapes": shapes, "max_memory": max_memory, "without": without}
    inputs = hold(inputs, source.name)
    mine = {name: np.asarray(value) for name, value in load(model, **options).run(inputs).items()}
    given = {name: np.asarray(array) for name, array in inputs.items()}
    is_path = isinstance(model, (str, os.PathLike))
    theirs = run_onnxruntime(os.fspath(model) if is_path else source.whole, given, list(mine))
    outputs = tuple(_differ(name, mine[name], theirs[name], rtol, atol) for name in mine)
    if all(output.agrees for output in outputs):
        return Comparison(outputs)
    whole = _whole(source)
    made = {name: None for node in whole.graph.node for name in node.output if name}
    try:
        mine = load(with_outputs(whole, made), **options).run(inputs)
        every = with_outputs(whole, {name: np.asarray(mine[name]).dtype for name in made})
        theirs = run_onnxruntime(every, given, [info.name for info in every.graph.output])
    except DmlError:  # that the outputs differ is known, if not since when
        return Comparison(outputs)
    for node in every.graph.node:
        for name in node.output:
            if name in mine:
                found = _differ(name, np.asarray(mine[name]), theirs[name], rtol, atol)
                if not found.agrees:
                    return Comparison(outputs, label_of(node), found)
    return Comparison(outputs)


def _tolerance(given: Any, name: str) -> float:
    """What elements may be off by."""
    try:
        found = math.nan if isinstance(given, (bool, str, bytes)) else float(given)
    except Exception:  # noqa: BLE001 - no number, whatever it is
        found = math.nan
    if not (math.isfinite(found) and found >= 0):
        rule = f"{name} must be a number, 0 or more"
        raise DescriptionError("compare", Fault(field=name, rule=rule, value=given, found=show(given)))
    return found


def _whole(source: Source) -> Any:
    """The model with the tensors that lie beside it in itself."""
    whole = source.whole
    for tensor in whole.graph.initializer:
        if is_external(tensor):
            values = decode_tensor(tensor, source.name, f"initializer '{printable(tensor.name)}'", source.beside)
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = values.values("").tobytes()
    return whole


def _differ(name: str, here: Any, there: Any, rtol: float, atol: float) -> Difference:
    for what, a, b in (("type", here.dtype, there.dtype), ("shape", here.shape, there.shape)):
        if a != b:
            problem = f"{what} {a} here, {b} there"
            return Difference(name, here.size, here.size, False, None, None, None, None, problem)
    both_nan = np.isnan(here) & np.isnan(there) if here.dtype.kind == "f" else np.zeros(here.shape, bool)
    same = (_bits(here) == _bits(there)).reshape(here.shape) | both_nan
    if same.all():
        return Difference(name, here.size, 0, True, None, None, None, 0.0)
    with np.errstate(all="ignore"):
        close = same | (np.isclose(here, there, rtol, atol) if here.dtype.kind == "f" else False)
        largest = _largest(here[~same], there[~same])
    wrong = ~close if not close.all() else ~same
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    mine, theirs = (show(side[where].item()) for side in (here, there))
    return Difference(name, here.size, int(np.sum(~same)), bool(close.all()), where, mine, theirs, largest)


def _largest(here: Any, there: Any) -> float | None:
    """The largest difference; whole numbers are subtracted as such, which no float could tell apart."""
    if here.dtype.kind != "f":
        low, high = (side.astype(np.uint64) for side in (np.minimum(here, there), np.maximum(here, there)))
        return float(np.max(high - low))
    apart = np.abs(here.astype(np.float64) - there.astype(np.float64))
    return None if np.isnan(apart).all() else float(np.nanmax(apart))


def _bits(array: Any) -> Any:
    """The elements as whole numbers, in which 0.0 and -0.0 differ."""
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")
