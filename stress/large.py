"""Descriptions of any operator and any size, made from what its fields are called, with arrays for them.

Large ones are the point: work above 128 KiB goes to several threads, and a row of more than 131,584 elements is scanned
in parts. Floats are whole and small, so that a sum is the same in whatever order it is added up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    import random

    from stress.work import Array

MOST = 600_000
"""Elements of a tensor."""
SMALL_BATCHES = 64
"""The reference engine gathers batch by batch."""


class UnknownFieldError(Exception):
    """An operator has a field that nothing here knows: its random cases of the tests are what there is."""


def draw_shape(rng: random.Random) -> tuple[int, ...]:
    """Tiny, or for several threads: long rows, planes, thin columns and blocks."""
    kind = rng.choice(("tiny", "tiny", "row", "plane", "plane", "thin", "block"))
    if kind == "row":
        return (rng.randint(1, 2), rng.randint(131_585, 260_000))
    if kind == "plane":
        return (rng.randint(100, 700), rng.randint(100, 700))
    if kind == "thin":
        return (rng.randint(10_000, 40_000), rng.randint(1, 12))
    if kind == "block":
        return tuple(rng.randint(8, 24) for _ in range(rng.randint(3, 4)))
    return tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))


class Maker:
    """One description in the making, field by field."""

    def __init__(self, cls: type[dml.OperatorDesc], rng: random.Random, *, is_packed: bool) -> None:
        self.cls, self.rng, self.is_packed = cls, rng, is_packed
        self.names = cls.field_types()
        row = dml.support(cls)
        assert row is not None  # noqa: S101 - the highest level has every operator
        self.allowed = {name: sorted(tensor.data_types) for name, tensor in row.tensors.items()}
        self.data_type = rng.choice(next(iter(self.allowed.values())))
        self.numbers = np.random.default_rng(rng.getrandbits(32))
        self.shape = draw_shape(rng)
        self.axis = rng.randrange(len(self.shape))
        self.batch = 0
        self.mode = rng.choice(tuple(dml.IndexMode))
        self.arrays: list[Array] = []
        self.windows = [self._window(size) for size in self.shape]

    def make(self) -> tuple[dml.OperatorDesc, list[Array]]:
        """The description, and an array for each input at its own rank."""
        if "batch_dimension_count" in self.names and len(self.shape) > 1 and self.shape[0] <= SMALL_BATCHES:
            self.batch = self.rng.randint(0, 1)
        sources = self._sources()
        rank = max([len(self.shape), *(array.ndim for array in self.arrays), self._result_rank()])
        fields: dict[str, Any] = {
            name: tuple(dml.TensorDesc.of(a).padded(rank) for a in held)
            if self.names[name].is_tensor_array
            else dml.TensorDesc.of(held[0]).padded(rank)
            for name, held in sources.items()
        }
        for name, kind in self.names.items():
            if kind.kind in ("attribute", "addition"):
                fields[name] = self._attribute(name)
        if self.cls.implies_output:
            return self.cls.infer(**fields), self.arrays
        return self.cls(**fields, **self._outputs()), self.arrays

    # Inputs

    def _sources(self) -> dict[str, list[Array]]:
        found = {}
        for name in self.cls.input_names():
            if name == "indices_tensor":
                made = [self._indices()]
            elif name == "sequence_lengths_tensor":
                made = [self._lengths()]
            elif self.names[name].is_tensor_array:
                made = [self._data(self._along(length)) for length in self._lengths_of_parts()]
            else:
                made = [self._data(self.shape)]
            found[name] = made
            self.arrays += made
        return found

    def _data(self, shape: tuple[int, ...]) -> Array:
        dtype = self.data_type.dtype
        if not self.data_type.is_float:
            limits = np.iinfo(dtype)
            values = self.numbers.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        elif "has_exclusive_product" in self.names:
            values = self.numbers.choice(np.array([1, -1], dtype), shape)
        else:
            values = self.numbers.integers(-9, 10, shape).astype(dtype)
        layout = "packed" if self.is_packed else self.rng.choice(("packed", "packed", "turned", "gaps"))
        if layout == "turned":
            return np.ascontiguousarray(values.T).T
        if layout == "gaps":
            room = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
            room[...] = values
            return room
        return values

    def _lengths_of_parts(self) -> list[int]:
        most = max(1, self.shape[self.axis] // 2)
        return [self.rng.randint(1, most) for _ in range(self.rng.randint(1, 4))]

    def _along(self, size: int) -> tuple[int, ...]:
        return (*self.shape[: self.axis], size, *self.shape[self.axis + 1 :])

    def _indices(self) -> Array:
        dtype = self.rng.choice(self.allowed["IndicesTensor"]).dtype
        if "input_dimension_count" in self.names:
            depth = self.rng.randint(1, len(self.shape) - self.batch)
            limits = self.shape[self.batch : self.batch + depth]
            rest = math.prod(self.shape[: self.batch]) * math.prod(self.shape[self.batch + depth :])
            shape = (*self.shape[: self.batch], self._count(rest), depth)
        else:
            limits = (self.shape[self.axis],)
            count = self._count(math.prod(self.shape) // self.shape[self.axis])
            shape = (count,) if "index_dimensions" in self.names else self._along(count)
        low = [0 if dtype.kind == "u" else -limit for limit in limits]
        found = self.numbers.integers(low, limits, shape)
        if self.rng.random() < 0.1:
            found.ravel()[self.rng.randrange(found.size)] = limits[-1] + self.rng.randint(0, 9)
        return found.astype(dtype)

    def _count(self, each: int) -> int:
        return self.rng.randint(1, max(1, min(200_000, MOST // each)))

    def _lengths(self) -> Array:
        dtype = self.rng.choice(self.allowed["SequenceLengthsTensor"]).dtype
        return self.numbers.integers(0, self.shape[self.axis] + 2, self._along(1)).astype(dtype)

    # Attributes and outputs

    def _window(self, limit: int) -> tuple[int, int, int, int]:
        stride = self.rng.choice((1, 1, 1, 2, 3))
        count = 1 + (limit - 1) // stride
        count = self.rng.randint(max(1, count // 2), count)
        reach = (count - 1) * stride + 1
        return self.rng.randint(0, limit - reach), count, stride, reach

    def _attribute(self, name: str) -> Any:
        offsets, counts, strides, reaches = zip(*self.windows, strict=True)
        known: dict[str, Any] = {
            "axis": self.axis,
            "axis_direction": self.rng.choice(tuple(dml.AxisDirection)),
            "offsets": offsets,
            "sizes": counts,
            "strides": strides,
            "input_window_offsets": offsets,
            "input_window_sizes": reaches,
            "input_window_strides": [stride * self.rng.choice((1, -1)) for stride in strides],
            "input_dimension_count": len(self.shape),
            "indices_dimension_count": self.arrays[-1].ndim if self.arrays else 0,
            "batch_dimension_count": self.batch,
            "index_dimensions": 1,
            "index_mode": self.mode,
            "scale_bias": self.rng.choice((None, (2.0, -1.0), (-0.5, 0.25))),
            "value_data_type": self.data_type,
            "value": 3,
            "value_start": self.rng.randint(0, 9),
            "value_delta": self.rng.randint(0, 3),
            "allow_float64": False,
        }
        if name.startswith("has_"):
            return self.rng.random() < 0.5
        if name not in known:
            raise UnknownFieldError(f"{self.cls.type.name}: {name}")
        return known[name]

    def _result_rank(self) -> int:
        if "input_dimension_count" not in self.names:
            return 1
        indices = self.arrays[-1]
        return indices.ndim - 1 + len(self.shape) - self.batch - int(indices.shape[-1])

    def _outputs(self) -> dict[str, Any]:
        (name,) = self.cls.output_names()
        if not self.names[name].is_tensor_array:
            types = self.allowed.get("OutputTensor", [self.data_type]) if self.arrays else [self.data_type]
            return {name: dml.TensorDesc(self.rng.choice(types), self.shape)}
        left = self.shape[self.axis]
        parts: list[int] = []
        while left and len(parts) < 5:
            parts.append(self.rng.randint(1, left))
            left -= parts[-1]
        parts += [left] if left else []
        return {name: tuple(dml.TensorDesc(self.data_type, self._along(part)) for part in parts)}
