"""ADAM_OPTIMIZER: parameters moved along their gradients, by moments that are kept from step to step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.arrays.tensor import TensorDesc
from anydml.core.enums import DataType
from anydml.core.errors import Fault
from anydml.ir.expressions import call, fma, given, load, sqrt
from anydml.ir.trees import rewrite
from anydml.ir.verbs import Map
from anydml.ir.views import View
from anydml.operators.lowering import temporary, walked, wide
from anydml.operators.schema.fields import Float, Input, Output, dml_name
from anydml.operators.schema.records import Computed
from anydml.operators.schema.rules import exact_sizes, fault, same_data_type, same_sizes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.ir.expressions import Expr
    from anydml.operators.schema.sizes import Sizes


F32, F64 = DataType.FLOAT32, DataType.FLOAT64
_LIKE_PARAMETERS = ("InputFirstMomentTensor", "InputSecondMomentTensor", "GradientTensor")


class AdamOptimizer(Computed):
    """A step of Adam: the parameters x and the moments m and v, updated by the gradient g.

    m = Beta1·m + (1 - Beta1)·g, v = Beta2·v + (1 - Beta2)·g², and then
    x = x - LearningRate·√(1 - Beta2ᵗ)/(1 - Beta1ᵗ)·m/(√v + Epsilon), where t is the number of the step, from 1 on.
    """

    # The page has the step start at 0, where its formula is 0/0; its text has it as UINT32, and its table as the floats
    # that the parameters are: both are taken.

    shares_rank = True

    input_parameters_tensor: Input
    input_first_moment_tensor: Input
    input_second_moment_tensor: Input
    gradient_tensor: Input
    training_step_tensor: Input
    output_parameters_tensor: Output
    output_first_moment_tensor: Output
    output_second_moment_tensor: Output
    learning_rate: Float
    beta1: Float = 0.9
    beta2: Float = 0.999
    epsilon: Float = 1e-8

    def rules(self) -> Iterator[Fault]:
        """The moments and the gradient are like the parameters; the step is one number."""
        for field in _LIKE_PARAMETERS:
            yield from self._like_parameters(field)
        step = self.training_step_tensor
        ones = (1,) * self.input_parameters_tensor.dimension_count
        yield from exact_sizes(self, "TrainingStepTensor", ones, "a single number")
        if step.data_type.is_float:
            yield from same_data_type(self, "TrainingStepTensor", "InputParametersTensor")
        for name in ("beta1", "beta2"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                yield fault(dml_name(name), "must lie in 0 .. 1", value)

    def output_rules(self) -> Iterator[Fault]:
        """So are the outputs."""
        for field in self.outputs():
            yield from self._like_parameters(field)

    def _like_parameters(self, field: str) -> Iterator[Fault]:
        yield from same_data_type(self, field, "InputParametersTensor")
        yield from same_sizes(self, field, "InputParametersTensor")

    def implied_outputs(self) -> tuple[TensorDesc, ...]:
        """Three like the parameters."""
        like = self.input_parameters_tensor
        return (TensorDesc(like.data_type, like.sizes),) * 3

    @classmethod
    def usual_tensor(cls, field: str, first: TensorDesc) -> tuple[DataType, Sizes]:
        """The step is a number."""
        if field == "TrainingStepTensor":
            return DataType.UINT32, (1,) * first.dimension_count
        return first.data_type, first.sizes

    def lower(self) -> tuple[Map, ...]:
        """The rate, which is one number, then a map for each output, which graphs make one of."""
        kind, sizes = self.input_parameters_tensor.data_type, self.input_parameters_tensor.sizes
        step = View.of("TrainingStepTensor", self.training_step_tensor)
        number = wide(load(0, step.data_type)).to(F64)
        first, second = (self._rest(beta, number) for beta in (self.beta1, self.beta2))
        rate = temporary("rate", F32, step.sizes)
        find = Map((step,), rate, sqrt(second) / first * given(self.learning_rate, F32))
        x, m, v, g = (View.of(field, self.tensors()[field]) for field in ("InputParametersTensor", *_LIKE_PARAMETERS))
        sources = (x, m, v, g, walked(rate, sizes, (0,) * len(sizes)))
        old, mean, square, gradient = (wide(load(slot, kind)) for slot in range(4))
        mean = _mixed(self.beta1, mean, gradient)
        square = _mixed(self.beta2, square, gradient * gradient)
        moved = old - load(4, F32) * mean / (sqrt(square) + given(self.epsilon, F32))
        made = zip(self.outputs().items(), (moved, mean, square), ((0, 1, 2, 3, 4), (1, 3), (2, 3)), strict=True)
        return (find, *(_map(sources, slots, View.of(field, desc), value) for (field, desc), value, slots in made))

    def _rest(self, beta: float, step: Expr) -> Expr:
        """1 - βᵗ, without the digits that a difference from 1 would lose."""
        logarithm = math.log(beta) if beta > 0 else -math.inf
        return -call("expm1", (step * given(logarithm, F64)).to(F32))


def _mixed(beta: float, old: Expr, new: Expr) -> Expr:
    """β·old + (1 - β)·new."""
    return fma(old, given(beta, F32), new * given(1 - beta, F32))


def _map(sources: tuple[View, ...], slots: tuple[int, ...], target: View, value: Expr) -> Map:
    """A map of some of the sources."""
    places = {slot: place for place, slot in enumerate(slots)}
    value = rewrite(value, lambda node: load(places[int(node.value)], node.type) if node.op == "load" else node)  # type: ignore[arg-type]  # a load has a type
    return Map(tuple(sources[slot] for slot in slots), target, value.to(target.data_type))
