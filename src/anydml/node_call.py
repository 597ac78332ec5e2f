"""One call of a function on the expressions of a graph: a node is described and checked, and added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.arrays.view import describe
from anydml.broadcasting import is_number, numbers_of, read_plain, spread
from anydml.describing import Call, described, name_slots
from anydml.errors import DescriptionError, Fault
from anydml.expression import Expression
from anydml.opened import exact
from anydml.tapes import own_cache, tape_on
from anydml.tensor import TensorDesc

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from anydml.builder import Graph
    from anydml.operators import OperatorDesc
    from anydml.operators.sizes import Sizes


_described: dict[Hashable, tuple[OperatorDesc, int, list[TensorDesc]]] = {}
"""Calls that were described before, by everything that a description comes of, with the results and their rank."""
_MOST_DESCRIBED = 4096


def _is_packed(tensor: TensorDesc) -> bool:
    """Whether a tensor is what its type and sizes alone say."""
    return tensor.strides is None and tensor == TensorDesc(tensor.data_type, tensor.sizes)


class NodeCall(Call):
    """A call on expressions, which adds a node to their graph."""

    inputs: list[Expression]
    _found: Hashable = None
    """By what the description is to be found again."""

    def __init__(
        self,
        cls: type[OperatorDesc],
        graph: Graph,
        device: object,
        out: object,
        inputs: Sequence[object],
        output_sizes: Any,
        spreading: dict[str, Any] | None,
        names: Sequence[str] | None,
        results: Sequence[str] | None,
    ) -> None:
        self._graph, self.name = graph, cls.type.name
        faults = []
        for option, value in (("out", out), ("device", device)):
            if value is not None:
                rule = f"{option} must not be given with an Expression, which nothing is run for"
                way_out = "the compiled graph takes out" if option == "out" else "the graph has a device of its own"
                faults.append(Fault(field=option, rule=rule, value=value, found=describe(value), way_out=way_out))
        fields = name_slots(cls, cls.input_names() if names is None else names, len(inputs))
        given: list[Any] = []
        for field, value in zip(fields, inputs, strict=True):
            if is_number(value) or numbers_of(value) is not None:
                given.append(value)
            elif not isinstance(value, Expression):
                rule, found = f"{field} must be an Expression, as another tensor is", describe(value)
                way_out = "Graph.constant(array) makes it part of the graph, Graph.input(array) an input"
                faults.append(Fault(field=field, rule=rule, value=value, found=found, way_out=way_out))
            elif value.graph is not graph:
                rule = f"{field} must be an Expression of the same graph as the others"
                faults.append(Fault(field=field, rule=rule, value=value, found=f"{value!r} of another graph"))
            else:
                given.append(value)
        if faults:
            raise DescriptionError(cls.type.name, faults)
        read = read_plain(cls, graph.device.feature_level, fields, given, in_graph=True)
        wanted = None
        if spreading is not None:
            sizes = {field: read[i].shape if i in read else given[i].sizes for i, field in enumerate(fields)}
            wanted = cls.spread(sizes, **spreading)
            self.scalars = tuple(fields)
        given = [graph.constant(read[i]) if i in read else x for i, x in enumerate(given)]
        if wanted is not None:
            given = [self._spread(x, *wanted[field], field) for x, field in zip(given, fields, strict=True)]
        super().__init__(cls, graph.device, given, output_sizes, names, results)

    def _spread(self, x: Expression, seen: Sizes, sizes: Sizes, field: str) -> Expression:
        if x.sizes == sizes:
            return x
        strides, signed = spread(x.sizes, x.strides, seen, sizes), x.desc.signed_strides
        try:
            other = TensorDesc(x.data_type, sizes, strides=strides, flags=x.desc.flags, signed_strides=signed)
        except DescriptionError as error:
            raise error.within(self.name, f"{field}.") from None
        return x.seen_as(other)

    def run(
        self, fills: Mapping[str, float] | None = None, outputs: Sequence[TensorDesc] | None = None, **attributes: Any
    ) -> Any:
        """Describe and check, and add the node; an equal call has been described before: models repeat their layers."""
        told = (*(fills or {}).items(), outputs, *attributes.items())
        key = None if self.faults or self._graph.policy_name is None else self._key(told, outputs or ())
        if key is not None and (known := own_cache(_described).get(key)) is not None:
            desc, self.result_rank, outputs = known
            return self._add(desc, outputs)
        self._found = key
        return super().run(fills, outputs, **attributes)

    def _key(self, told: object, outputs: Sequence[TensorDesc]) -> Hashable:
        """Everything that a description comes of; None where that cannot be told."""
        inputs = tuple((x.desc, x.is_scalar) for x in self.inputs)
        ranks = (self.rank, self.result_rank, self.common_rank, self.has_room)
        graph = (self._graph.device.feature_level, self._graph.policy_name)
        try:
            names: tuple[Hashable, ...] = (self.cls, tuple(self.names), tuple(self.results))
            if tape_on() is not None:  # descriptions are equal whose sizes are, be some of them open
                names += tuple(exact((one.sizes, one.strides)) for one in (*(x.desc for x in self.inputs), *outputs))
            key = (names, graph, inputs, ranks, exact(self.output_sizes), exact(told))
            hash(key)
        except TypeError:
            return None
        return key

    def describe(self, field: str, tensor: Expression) -> TensorDesc:
        """Its description in the graph."""
        if tensor.is_scalar and field not in self.scalars:
            return described(self.cls, field, tensor.data_type, ())  # which says what is wrong
        return tensor.desc

    def lay_out(self, desc: OperatorDesc) -> OperatorDesc:
        """The output with the strides of the graph's tensor policy."""
        names = desc.outputs()
        if self._graph.policy_name == "default" and all(map(_is_packed, names.values())):
            return desc
        if any(desc.rules()):
            return desc
        return desc.with_tensors(lambda name, tensor: self._laid_out(name, tensor) if name in names else tensor)

    def _laid_out(self, name: str, tensor: TensorDesc) -> TensorDesc:
        output = self._bare(name, tensor)
        try:
            strides = self._graph.strides_for(output.sizes, output.data_type)
            laid_out = TensorDesc(output.data_type, output.sizes, strides=strides)
        except DescriptionError as error:
            raise error.within(self.name, f"tensor_policy: {name}.") from None
        return laid_out.padded(tensor.dimension_count)

    def _bare(self, name: str, output: TensorDesc) -> TensorDesc:
        """An output as the caller has it: without the dimensions that were added."""
        first = output.dimension_count - max(self.rank_of(name), 1)
        strides = None if output.strides is None else output.strides[first:]
        return TensorDesc(output.data_type, output.sizes[first:], strides=strides)

    def finish(self, desc: OperatorDesc) -> Expression | list[Expression]:
        """Add the node."""
        outputs = [self._bare(*output) for output in desc.outputs().items()]
        if self._found is not None:
            described_before = own_cache(_described)
            if len(described_before) >= _MOST_DESCRIBED:
                described_before.clear()
            described_before[self._found] = (desc, self.result_rank, outputs)
        return self._add(desc, outputs)

    def _add(self, desc: OperatorDesc, outputs: Sequence[TensorDesc]) -> Expression | list[Expression]:
        found = self._graph.add(desc, tuple(self.inputs), outputs)
        for expression in found:
            expression.is_scalar = self.result_rank == 0
        return found if self.cls.gives_several() or len(found) > 1 else found[0]
