"""Examples of operators that choose places and elements, and of those that train."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import anydml as dml
from anydml.api.describing import argument_name
from anydml.operators.schema.fields import dml_name
from case_kinds import UINT32, Case


@dataclass(frozen=True)
class MixedCase(Case):
    """An operator whose inputs come in any order of types."""

    kinds: tuple[str, ...] = ()
    """Of each input and output: `data`, `index`, or a type of its own."""

    def _types(self, data_type: dml.DataType, index_type: dml.DataType) -> list[dml.DataType]:
        return [{"data": data_type, "index": index_type}.get(kind) or dml.DataType(kind) for kind in self.kinds]

    @property
    def data_field(self) -> str:
        """The first that is of the data's type."""
        fields = (*self.operator.input_names(), *self.operator.output_names())
        return dml_name(fields[self.kinds.index("data") if "data" in self.kinds else 0])

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description, as the document has it."""
        arrays = (*self.sources, *self.results)
        kinds = self._types(data_type, index_type)
        tensors = [dml.TensorDesc(kind, x.shape) for kind, x in zip(kinds, arrays, strict=True)]
        names = (*self.operator.input_names(), *self.operator.output_names())
        return self.operator(**dict(zip(names, tensors, strict=False)), **self.attributes)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        pairs = zip(self.sources, self._types(data_type, index_type), strict=False)
        return [x.astype(kind.dtype) for x, kind in pairs]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the document says."""
        kinds = self._types(data_type or result_type, UINT32)[len(self.sources) :]
        return [y.astype(kind.dtype) for y, kind in zip(self.results, kinds, strict=True)]

    def call(self, *arrays: Any, **options: Any) -> Any:
        """The function, asked for the outputs that are optional too."""
        names = {*self.operator.output_names()[: len(self.results)]}.intersection(self.operator.optional_outputs())
        asked: dict[str, Any] = dict.fromkeys(map(argument_name, names), True)
        return super().call(*arrays, **asked, **options)

    def bare(self) -> Case:
        """Without leading 1s; those of a scatter by tuples have ranks of their own."""
        if self.operator is dml.NonzeroCoordinates:  # of which a row has as many columns as the input has dimensions
            found = super().bare()
            count, rows = found.results
            return replace(found, results=(count, rows[..., rows.shape[-1] - found.x.ndim :]))
        if "input_dimension_count" not in self.attributes:
            return super().bare()
        counts = [self.attributes[f"{name}_dimension_count"] for name in ("input", "indices")]
        arrays: list[Any] = list(self.sources)
        x, indices = [one.reshape(one.shape[one.ndim - rank :]) for one, rank in zip(arrays, counts, strict=False)]
        updates = arrays[2].reshape(*indices.shape[:-1], *x.shape[indices.shape[-1] :])
        return replace(self, sources=(x, indices, updates), results=(self.expected.reshape(x.shape),))


def _mixed(
    operator: type[dml.OperatorDesc], name: str, sources: Any, results: Any, kinds: str, **attributes: Any
) -> Case:
    given, wanted = (tuple(map(np.array, some)) for some in (sources, results))
    return MixedCase(f"{operator.type.name} {name}", operator, given, wanted, attributes, kinds=tuple(kinds.split()))


SCATTERED = "data index data data"
TEN = [[[[0, 1, 10, 11], [3, 2, 9, 8], [4, 5, 6, 7]]]]
TIED = [[[[1, 2, 2, 3], [3, 4, 5, 5], [6, 6, 6, 6]]]]
_ROWS = ([[[[11, 10], [9, 8], [7, 6]]]], [[[[3, 2], [2, 3], [3, 2]]]], 3, 2)
_COLUMNS = ([[[[4, 5, 10, 11], [3, 2, 9, 8]]]], [[[[2, 2, 0, 0], [1, 1, 1, 1]]]], 2, 2)
_TIES = ([[[[3, 2, 2], [5, 5, 4], [6, 6, 6]]]], [[[[3, 1, 2], [2, 3, 1], [0, 1, 2]]]], 3, 3)
_RISING = ([[[[1, 2, 2], [3, 4, 5], [6, 6, 6]]]], [[[[0, 1, 2]] * 3]], 3, 3)
TOPS: list[Any] = [
    *((cls, number, x, *found, {}) for cls in (dml.TopK, dml.TopK1)
      for number, x, found in ((1, TEN, _ROWS), (2, TEN, _COLUMNS), (3, TIED, _TIES))),
    (dml.TopK1, 4, TIED, *_RISING, {"axis_direction": "DML_AXIS_DIRECTION_INCREASING"}),
]  # fmt: skip
_ONES, _PI = [2**32 - 1], [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]
VECTORS: list[Any] = [
    ("zeros", [0] * 6, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [1, *[0] * 5]),
    ("ones", _ONES * 6, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD], [0] * 4 + _ONES * 2),
    ("the digits of pi", _PI, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1], [_PI[0] + 1, *_PI[1:]]),
]
SELECTING = [
    # The page of SCATTER has this input and these indices, of which one is there twice.
    _mixed(dml.Scatter, "example 1", [[0, 1, 2, 3, 4], [3, 1, 3, 0], [5, 6, 7, 8]], [[8, 6, 2, 7, 4]], SCATTERED,
           axis=0),
    _mixed(dml.Scatter, "of columns", [[[[[1, 2, 3], [4, 5, 6]]]], [[[[1, 0, 1]]]], [[[[7, 8, 9]]]]],
           [[[[[1, 8, 3], [7, 5, 9]]]]], SCATTERED, axis=2),
    _mixed(dml.ScatterND, "example 1", [[[1, 2, 3, 4, 5, 6, 7, 8]], [[4], [3], [1], [7]], [[9, 10, 11, 12]]],
           [[[1, 11, 3, 10, 9, 6, 7, 12]]], SCATTERED, input_dimension_count=1, indices_dimension_count=2),
    _mixed(dml.ScatterND, "of rows", [[[[[1, 2], [3, 4], [5, 6]]]], [[[[2], [0]]]], [[[[7, 8], [9, 10]]]]],
           [[[[[9, 10], [3, 4], [7, 8]]]]], SCATTERED, input_dimension_count=2, indices_dimension_count=2),
    _mixed(dml.OneHot, "example 1", [[[[[0], [3], [2]]]], [[[[0, 1]]]]],
           [[[[[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]]]], "index data data", axis=3),
    _mixed(dml.OneHot, "example 2", [[[[[0, 2, 1, 0]]]], [[[[0, 1]]]]],
           [[[[[1, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0]]]]], "index data data", axis=2),
    _mixed(dml.OneHot, "example 3", [[[[[0], [3], [2]]]], [[[[4], [2], [9]]]]],
           [[[[[2, 4, 4, 4], [4, 4, 4, 2], [4, 4, 2, 4]]]]], "index data data", axis=3),
    *(_mixed(cls, f"example {number}", [x], [values, places], "data data uint32", axis=axis, k=k, **more)
      for cls, number, x, values, places, axis, k, more in TOPS),
    _mixed(dml.NonzeroCoordinates, "example 1", [[[[[1, 0, 0, 2], [0, 3, 0, 5]]]]],
           [[[[[4]]]], [[[[0, 0, 0], [0, 0, 3], [0, 1, 1], [0, 1, 3], *[[0, 0, 0]] * 4]]]], "data uint32 uint32"),
    # Its fourth example, of negative indices, which unsigned types have not, is in test_document_examples.py.
    # The page of this one has a formula, and no example.
    _mixed(dml.AdamOptimizer, "of a first step", [[[[[1, 2]]]], [[[[0, 0]]]], [[[[0, 0]]]], [[[[4, -8]]]], [[[[1]]]]],
           [[[[[-1, 4]]]], [[[[4, -8]]]], [[[[16, 64]]]]], "data data data data uint32 data data data",
           learning_rate=2.0, beta1=0.0, beta2=0.0, epsilon=0.0),
    # The page of this one names the paper, whose library Random123 has these vectors.
    *(_mixed(dml.RandomGenerator, f"of {name}", [[[[state]]]], [[[[numbers]]], [[[after]]]], "uint32 uint32 uint32")
      for name, state, numbers, after in VECTORS),
]  # fmt: skip
