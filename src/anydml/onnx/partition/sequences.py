"""Sequences and optional values, which the host holds: lists of arrays, and None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays import DeviceArray
from anydml.arrays.cuda import load_torch
from anydml.arrays.view import is_tensor
from anydml.core.errors import Fault, ModelError
from anydml.onnx.partition.control_flow import Flow
from anydml.onnx.partition.part import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from anydml.onnx.ir import Node
    from anydml.onnx.partition.scope import Scope


class Listed(list[Any]):
    """A sequence that knows how many bytes its arrays have: a Loop may grow one without end."""

    def __init__(self, values: Any = (), size: int | None = None) -> None:
        super().__init__(values)
        self.size = sum(getattr(value, "nbytes", 0) for value in self) if size is None else size


@part_of(
    "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceLength",
    "ConcatFromSequence", "SplitToSequence", "Optional", "OptionalHasElement", "OptionalGetElement",
)  # fmt: skip
class Listing(Flow):
    """A node that makes, changes or reads a sequence or an optional value."""

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._act: Callable[[list[Any]], Any] = getattr(self, f"_{node.op_type}")
        self._integer: Callable[..., Any] = node.value

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Do what the node type says."""
        inputs = self._inputs(values)
        result = self._act(inputs)
        if isinstance(result, Listed):
            self._limit.check(result.size, f"a sequence, of {self._label}", self._source.name)
        return (result,) if self.gives else ()

    def _list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            self._refuse("input_sequence", "input_sequence must be a sequence", found=type(value).__name__)
        return value

    def _place(self, value: Any, count: int, most: int) -> int:
        """An index into a sequence, negative from the end."""
        found = self._number(value, "position")
        if not -count <= found < most:
            self._refuse("position", f"position must lie in {-count} .. {most - 1}", found=str(found))
        return found + count if found < 0 else found

    # Each is a node type

    def _SequenceConstruct(self, inputs: list[Any]) -> Any:  # noqa: N802 - ONNX's name
        return Listed(inputs)

    def _SequenceEmpty(self, _inputs: list[Any]) -> Any:  # noqa: N802 - as above
        return Listed()

    def _SequenceInsert(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        several, value = self._list(inputs[0]), inputs[1]
        count = len(several)
        at = self._place(inputs[2], count, count + 1) if len(inputs) > 2 and self._names[2] else count
        found = Listed(several, size_of(several) + getattr(value, "nbytes", 0))
        found.insert(at, value)
        return found

    def _SequenceErase(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        several = self._list(inputs[0])
        if not several:
            self._refuse("input_sequence", "input_sequence must have an element to be erased")
        at = self._place(inputs[1], len(several), len(several)) if len(inputs) > 1 and self._names[1] else -1
        found = Listed(several, size_of(several))
        found.size -= getattr(found.pop(at), "nbytes", 0)
        return found

    def _SequenceAt(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        several = self._list(inputs[0])
        return several[self._place(inputs[1], len(several), len(several))]

    def _SequenceLength(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        return np.array(len(self._list(inputs[0])), np.int64)

    def _ConcatFromSequence(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        several, axis = self._list(inputs[0]), self._integer("axis", 0)
        if not several:
            self._refuse("input_sequence", "input_sequence must have an element")
        is_new = bool(self._integer("new_axis", 0))
        self._limit.check(size_of(several), f"the result of {self._label}", self._source.name)
        try:
            if not all(map(is_tensor, several)):
                held = [self._array(value, "input_sequence") for value in several]
                return np.ascontiguousarray((np.stack if is_new else np.concatenate)(held, axis))
            torch = load_torch()
            return (torch.stack if is_new else torch.cat)(several, axis).contiguous()
        except (ValueError, TypeError, RuntimeError, IndexError) as error:
            shapes = [getattr(value, "shape", ()) for value in several[:8]]
            rule = f"the sequence's tensors must have shapes that can be put together along axis {axis}"
            raise ModelError(self._label, Fault(field="input_sequence", rule=rule, found=str(shapes))) from error

    def _SplitToSequence(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        self._array(inputs[0], "input")
        value, rank = inputs[0], len(inputs[0].shape)
        axis = self._integer("axis", 0)
        if not -rank <= axis < rank:
            self._refuse("axis", f"axis must lie in {-rank} .. {rank - 1}", found=str(axis))
        axis %= rank
        length, is_given = int(value.shape[axis]), len(inputs) > 1 and bool(self._names[1])
        sizes = [1] * length
        if is_given:
            sizes = self._numbers(inputs[1], "split")
            if len(inputs[1].shape) > 1:
                self._refuse("split", "split must be a number, or a row of them", found=str(tuple(inputs[1].shape)))
            if not len(inputs[1].shape):
                if sizes[0] < 1:
                    self._refuse("split", "split must be at least 1", found=str(sizes[0]))
                sizes = [min(sizes[0], length - at) for at in range(0, length, sizes[0])]
        if any(n < 0 for n in sizes) or sum(sizes) != length:
            self._refuse("split", f"split must be sizes that come to {length}", found=str(sizes[:8]))
        found, at = [], 0
        for size in sizes:
            index: list[Any] = [slice(None)] * rank
            # ONNX: keepdims holds where no split is given.
            index[axis] = slice(at, at + size) if is_given or self._integer("keepdims", 1) else at
            piece = value[tuple(index)]
            found.append(np.array(piece, order="C") if isinstance(value, np.ndarray) else _packed(piece))
            at += size
        return Listed(found)

    def _Optional(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        return inputs[0] if inputs else None

    def _OptionalHasElement(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        return np.array(bool(inputs) and inputs[0] is not None)

    def _OptionalGetElement(self, inputs: list[Any]) -> Any:  # noqa: N802 - as above
        if inputs[0] is None:
            self._refuse("input", "input must have an element: it is an empty optional")
        return inputs[0]


@part_of("SequenceMap")
class Mapped(Flow):
    """A body run on each element of sequences, and on tensors as they are."""

    def __init__(self, node: Node, scope: Scope) -> None:
        super().__init__(node, scope)
        self._expect("body", "inputs, as many as the SequenceMap", len(self._names), len(self.bodies["body"].inputs))
        found = len(self._graphs["body"].output)
        self._expect("body", "outputs, as many as the SequenceMap", len(self._outputs), found)

    def run(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Run the body for each element of the first sequence."""
        inputs, body = self._inputs(values), self.bodies["body"]
        known = {name: values[name] for name in body.captures}
        lengths = {len(value) for value in inputs if isinstance(value, list)}
        if not isinstance(inputs[0], list) or len(lengths) > 1:
            self._refuse(
                "inputs", "sequences must have the same length, and the first input must be one", found=str(lengths)
            )
        found: list[Listed] = [Listed() for _ in self._outputs]
        with self._steps as steps:
            for i in range(len(inputs[0])):
                steps.add(self._label)
                each = [value[i] if isinstance(value, list) else value for value in inputs]
                known.update(zip(body.inputs, each, strict=True))
                for several, value in zip(found, body.run(known), strict=True):
                    several.append(value)
                    several.size += getattr(value, "nbytes", 0)
                    self._limit.check(several.size, f"a sequence, of {self._label}", self._source.name)
        return tuple(several for name, several in zip(self._outputs, found, strict=True) if name)


def _packed(piece: Any) -> Any:
    """A part of a device's array by itself."""
    return piece.copy() if isinstance(piece, DeviceArray) else piece.contiguous()


def size_of(several: list[Any]) -> int:
    """The bytes of a sequence's arrays."""
    return several.size if isinstance(several, Listed) else Listed(several).size
