"""The results of a Loop's or a Scan's steps, put together at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.cuda import load_torch
from anydml.core.errors import Fault, ModelError, UnsupportedError, printable
from anydml.onnx.element_types import read_element_type

if TYPE_CHECKING:
    from anydml.onnx.read import Source


class Gathered:
    """The values of one scan output, of one shape and type, within the model's memory limit."""

    def __init__(self, info: Any, label: str, source: Source) -> None:
        self._info, self._label, self._source = info, label, source
        self._blocks: list[Any] = []
        """Rows of values, one for each step."""
        self._size = 0

    def add(self, value: Any) -> None:
        """Take what a step gives."""
        if not hasattr(value, "nbytes"):
            rule = f"'{printable(self._info.name)}' must be a tensor: it is one for each step, put together"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule))
        self.add_rows(value[None])

    def add_rows(self, rows: Any) -> None:
        """Take what several steps give, one beside the other."""
        if self._blocks and (rows.shape[1:] != self._blocks[0].shape[1:] or rows.dtype != self._blocks[0].dtype):
            said = _said(self._blocks[0][0])
            rule = f"'{printable(self._info.name)}' must have one shape and type in every step, {said}"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule, found=_said(rows[0])))
        self._blocks.append(rows)
        self._size += rows.nbytes
        if 2 * self._size > (limit := self._source.beside.limit).left:  # they are there twice while put together
            limit.check(2 * self._size, f"results of steps, '{printable(self._info.name)}'", self._source.name)

    def stacked(self, axis: int = 0, *, is_back: bool = False) -> Any:
        """All of them as one array, the steps along an axis."""
        if not self._blocks:
            return self._none(axis)
        rank = len(self._blocks[0].shape)
        if not -rank <= axis < rank:
            rule = f"scan_output_axes must be an axis of {rank} dimensions"
            raise ModelError(self._label, Fault(field="scan_output_axes", rule=rule, found=str(axis)))
        if isinstance(self._blocks[0], np.ndarray):
            is_one = len(self._blocks) == 1 and self._blocks[0].base is None
            whole = self._blocks[0] if is_one else np.concatenate(self._blocks)
            if axis in (0, -rank) and not is_back:
                return whole
            return np.ascontiguousarray(np.moveaxis(whole[::-1] if is_back else whole, 0, axis))
        whole = load_torch().cat(self._blocks)
        return (whole.flip(0) if is_back else whole).movedim(0, axis).contiguous()

    def _none(self, axis: int) -> Any:
        """The result of no steps: of the declared type and sizes, an open size being 0."""
        declared, name = self._info.type.tensor_type, printable(self._info.name)
        try:
            dtype = read_element_type(declared.elem_type, self._label, f"'{name}'").dtype
        except UnsupportedError:
            rule = f"'{name}' must be declared with an element type, as no step gives one"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule)) from None
        sizes = [max(int(dim.dim_value), 0) for dim in declared.shape.dim]
        sizes.insert(axis if axis >= 0 else len(sizes) + 1 + axis, 0)
        try:
            return np.empty(sizes, dtype)
        except ValueError as error:
            rule = f"'{name}' must have sizes that an array can have"
            raise ModelError(self._label, Fault(field=self._info.name, rule=rule, found=str(sizes))) from error


def _said(value: Any) -> str:
    return f"{tuple(value.shape)} of {value.dtype}"
