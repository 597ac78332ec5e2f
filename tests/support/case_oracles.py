"""Cases whose results are an oracle's: element-wise operators, folds, products and windows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import anydml as dml
from anydml.api.describing import argument_name
from anydml.core.operator_type import function_name
from anydml.operators.attention import Attention
from anydml.operators.convolution import Windowed
from anydml.operators.schema.fields import dml_name
from case_kinds import FLOAT32, UINT32, Case, by_field
from families import folding
from families.elementwise import data_types, describe, expected, small_example
from families.products import SMALL as FIXED
from families.products import in_order, infer
from families.products import small_example as fixed_example
from families.recurrent import GATES


class ElementWiseCase(Case):
    """An element-wise operator, whose results are the oracle's; for a type that it does not take it has its first."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description: results of UINT8 or UINT32 are of UINT8, if not told."""
        taken = data_types(self.operator)
        own = data_type if data_type in taken else taken[0]
        name = self.operator.output_names()[0]
        is_result = (
            result_type in self.operator.support.row_at(dml.FeatureLevel.highest()).tensors[dml_name(name)].data_types
        )
        results: dict[str, Any] = {name: result_type} if result_type is not None and is_result else {}
        return describe(self.operator, own, self.x.shape, self.attributes, **results)

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        tensors = self.desc(data_type).inputs().values()
        return [x.astype(tensor.data_type.dtype) for x, tensor in zip(self.sources, tensors, strict=True)]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        data_type = data_type or result_type
        return [expected(self.desc(data_type, result_type=result_type), self.inputs(data_type))]

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function."""
        return getattr(dml, function_name(self.operator.type))(*arrays, **self.attributes, **options)


class FixedCase(Case):
    """An operator whose tensors are of types that the case says, whichever is asked for."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description."""
        return infer(self.operator, dict(zip(self.fields, self.sources, strict=True)), self.attributes)

    @property
    def fields(self) -> list[str]:
        """The inputs that are there."""
        return list(in_order(self.operator, FIXED[self.operator.type.name][0]))

    def inputs(self, data_type: dml.DataType, index_type: dml.DataType = UINT32) -> list[np.ndarray]:
        """The input arrays in binding order."""
        return [x.copy() for x in self.sources]

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        return [y.copy() for y in self.results]

    def bare(self) -> Case:
        """The same without the first two dimensions, where those are not its own."""
        if issubclass(self.operator, (Windowed, Attention)) or self.operator.type.name in GATES:
            return self
        sources, results = (tuple(x.reshape(x.shape[2:]) for x in some) for some in (self.sources, self.results))
        return replace(self, sources=sources, results=results)

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function, which takes optional inputs last."""
        names = {"quantization_tensors[0]": "scale", "quantization_tensors[1]": "zero_point"}
        inputs = {names.get(name, argument_name(name)): x for name, x in zip(self.fields, arrays, strict=True)}
        attributes = {argument_name(name): x for name, x in self.attributes.items() if name != "quantization_type"}
        return getattr(dml, function_name(self.operator.type))(**inputs, **attributes, **options)


def fixed_case(operator: type[dml.OperatorDesc]) -> FixedCase:
    _, arrays, results = fixed_example(operator)
    attributes = FIXED[operator.type.name][1]
    name = f"{operator.type.name} of small numbers"
    return FixedCase(name, operator, tuple(arrays), tuple(results), attributes)


def element_wise_case(operator: type[dml.OperatorDesc]) -> ElementWiseCase:
    sources, attributes = small_example(operator)
    case = ElementWiseCase(f"{operator.type.name} of small numbers", operator, sources, sources[:1], attributes)
    return replace(case, results=tuple(case.outputs(FLOAT32)))


class FoldingCase(ElementWiseCase):
    """An operator that folds, whose results are the oracle's."""

    def desc(
        self, data_type: dml.DataType, index_type: dml.DataType = UINT32, result_type: dml.DataType | None = None
    ) -> dml.OperatorDesc:
        """The description, with the outputs that it implies."""
        row = self.row(dml.FeatureLevel.highest())
        own = data_type if row and data_type in row.tensors["InputTensor"].data_types else FLOAT32
        inputs = [dml.TensorDesc(own, x.shape) for x in self.sources]
        return self.operator.infer(**by_field(self.operator, "input", inputs), **self.attributes)

    def call(self, *arrays: Any, result_type: dml.DataType = FLOAT32, **options: Any) -> Any:
        """The derived function, its inputs by name: what must be given stands before what need not."""
        inputs = dict(zip(map(argument_name, self.operator.input_names()), arrays, strict=True))
        return getattr(dml, function_name(self.operator.type))(**inputs, **self.attributes, **options)

    def outputs(self, result_type: dml.DataType, data_type: dml.DataType | None = None) -> list[np.ndarray]:
        """What the oracle says."""
        desc = self.desc(data_type or result_type)
        answers = folding.expected(desc, self.inputs(data_type or result_type))
        return [
            np.ascontiguousarray(answer, output.data_type.dtype)
            for (answer, _), output in zip(answers, desc.outputs().values(), strict=True)
        ]

    def row(self, level: dml.FeatureLevel) -> dml.LevelSupport | None:
        """What the level takes, of the function where there are several."""
        table = self.operator.support
        return (table.of(self.attributes["function"]) if "function" in self.attributes else table).at(level)

    def bare(self) -> Case:
        """The same: what is folded is counted from the first dimension."""
        return self

    @property
    def rank(self) -> int:
        """The input's."""
        return self.x.ndim


def folding_case(operator: type[dml.OperatorDesc], name: str, sources: Any, attributes: dict[str, Any]) -> FoldingCase:
    case = FoldingCase(f"{operator.type.name} {name}", operator, sources, sources[:1], attributes)
    return replace(case, results=tuple(case.outputs(FLOAT32)))
