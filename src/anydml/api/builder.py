"""Graphs built as DirectMLX builds them: expressions that stand for tensors, and the functions that take them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from anydml.api.expression import Expression, Source, refuse
from anydml.arrays.tensor import TensorDesc
from anydml.core.display import Shown, Table, counted, describe
from anydml.core.enums import ExecutionFlags
from anydml.core.errors import DescriptionError, DmlError, Fault, show
from anydml.core.late_imports import import_alone
from anydml.core.memory import packed_strides
from anydml.core.symbolic_sizes import OpenSize, Size
from anydml.graph.description import SUBJECT, GraphDesc
from anydml.graph.nodes import ConstantNode, InputEdge, IntermediateEdge, OperatorNode, OutputEdge
from anydml.graph.pass_names import read_disabled
from anydml.operators import Slice
from anydml.runtime.device import Device, device_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from anydml.api.expression import Reference
    from anydml.api.recording import Recording
    from anydml.core.enums import DataType
    from anydml.graph.nodes import Node
    from anydml.operators import OperatorDesc
    from anydml.runtime.device import DeviceName
    from anydml.runtime.graph import CompiledGraph

    AnySize: TypeAlias = int | str | Size

TensorPolicy: TypeAlias = (
    "Literal['default', 'interleaved_channel'] | Callable[[tuple[int, ...], DataType], Sequence[int] | None]"
)


class Graph(Shown):
    """Operators put together for one program: `x = g.input(desc)`, `y = slice1(x, …)`, `model = g.compile(y)`.

    `y.named("crop")` names a node, for errors and for the outputs of the compiled graph. Inputs are named when they are
    made: `g.input(desc, "x")`, then `model(x=array)`.

    A device, or the name of one, says at which feature level and for which engine. The tensor policy gives the strides
    of what the functions infer: packed by default; with `interleaved_channel` the second dimension lies innermost, as
    in NHWC; or what a function of sizes and data type returns.
    """

    def __init__(
        self, device: Device | DeviceName | str | None = None, *, tensor_policy: TensorPolicy = "default"
    ) -> None:
        if device is None or isinstance(device, str):
            device = device_named(device)
        if not isinstance(device, Device):
            rule = "device must be a Device, its name, or None"
            refuse(Fault(field="device", rule=rule, value=device, found=show(device)))
        self.device = device
        if not callable(tensor_policy) and not (isinstance(tensor_policy, str) and tensor_policy in TENSOR_POLICIES):
            rule = f"tensor_policy must be one of {', '.join(map(repr, TENSOR_POLICIES))}, or a function"
            refuse(Fault(field="tensor_policy", rule=rule, value=tensor_policy, found=show(tensor_policy)))
        self._policy = tensor_policy if callable(tensor_policy) else TENSOR_POLICIES[tensor_policy]
        self.policy_name = tensor_policy if isinstance(tensor_policy, str) else None
        """None for a function, which may say another thing each time."""
        self._inputs: list[Source] = []
        self._nodes: list[Source] = []
        self._names: dict[str, Source] = {}
        self.recording: Recording | None = None
        """The calls that built it, where sizes of inputs are symbolic."""

    def input(
        self, desc: TensorDesc | Any, sizes: Sequence[AnySize] | AnySize | None = None, name: str | None = None
    ) -> Expression:
        """An input, described, or by an array that is like those to come; its name is its keyword in a call.

        `g.input("float32", ("batch", 3, 32, 32), "image")` is one by its type and sizes, of which those with names are
        symbolic: the graph compiles once for all of them. A name is the same size wherever it stands. A description has
        sizes, and is followed by the input's name: `g.input(desc, "image")`.
        """
        if isinstance(desc, Expression):
            rule = "input: desc must be a description, an array or a type with sizes"
            way_out = "it is a tensor of a graph already: use it as it is, or write input(x.desc) for one like it"
            refuse(Fault(field="desc", rule=rule, value=desc, found="an Expression", way_out=way_out))
        is_array = hasattr(desc, "shape") and not isinstance(desc, (type, np.dtype))
        if name is None and sizes is not None and (isinstance(sizes, str) or is_array):
            sizes, name = None, sizes
        if sizes is not None or (isinstance(desc, TensorDesc) and _are_symbolic(desc.sizes)):
            return self._described_input(desc, sizes, name)
        if not isinstance(desc, TensorDesc):
            try:
                desc = TensorDesc.of(desc)
            except DmlError as error:
                raise error.within(SUBJECT, "input: ") from error.__cause__
        if self.recording is not None and not self.recording.is_within:
            return self.recording.input(self, (desc, name))
        return self.put_input(desc, name)

    def _described_input(self, data_type: Any, sizes: Any, name: str | None) -> Expression:
        """An input by its type and sizes; with the first that is symbolic the graph begins to keep what is called."""
        if sizes is None:
            sizes = data_type.sizes
        elif isinstance(data_type, TensorDesc):
            rule = "sizes must not be given beside a TensorDesc, which has some"
            refuse(Fault(field="sizes", rule=rule, value=sizes, found=show(sizes)))
        several = sizes if isinstance(sizes, (list, tuple)) else (sizes,)
        if self.recording is None and _are_symbolic(several):
            import_alone("anydml.api.recording")
            from anydml.api.recording import Recording  # which few graphs need

            state = self.__getstate__()
            self.recording = Recording()
            self.recording.begin(state["_inputs"], state["_nodes"])
        if self.recording is None:
            return self.input(_described(data_type, sizes), name)
        return self.recording.input(self, (data_type, self.recording.sizes(sizes), name))

    def put_input(self, desc: TensorDesc, name: str | None) -> Expression:
        """An input of a description that was read."""
        source = Source(is_input=True, number=len(self._inputs), descs=(desc,), name="")
        if name is not None:
            self.rename(source, name)
        self._inputs.append(source)
        return Expression(self, source, desc)

    def constant(self, data: Any, name: str | None = None, *, desc: TensorDesc | None = None) -> Expression:
        """An array that is part of the graph. It is copied, but for data that is shared, which needs a description."""
        if self.recording is not None and not self.recording.is_within:
            return self.recording.constant(self, ConstantNode(data, desc=desc), name)
        node = data if isinstance(data, ConstantNode) else ConstantNode(data, desc=desc)
        if node.desc is None:
            rule = "constant: data must be an array, which says what it is"
            way_out = "np.frombuffer(data, dtype) makes bytes one"
            refuse(Fault(field="data", rule=rule, value=data, found=f"{len(node.data)} bytes", way_out=way_out))
        (made,) = self.put(node, (), (node.desc,), name)
        made.is_scalar = node.is_scalar
        return made

    def add(
        self, desc: OperatorDesc, inputs: tuple[Expression, ...], outputs: Sequence[TensorDesc]
    ) -> list[Expression]:
        """A node of an operator, whose outputs are described as their readers are to see them, leading 1s aside."""
        return self.put(OperatorNode(desc), inputs, tuple(outputs))

    @property
    def policy(self) -> TensorPolicy:
        """The tensor policy, as it was given."""
        return self._policy if self.policy_name is None else self.policy_name

    @property
    def inputs(self) -> list[Expression]:
        """Its inputs."""
        return [Expression(self, source, source.descs[0]) for source in self._inputs]

    @property
    def sources(self) -> Sequence[Source]:
        """Its nodes, in the order in which they were added."""
        return self._nodes

    def put(
        self,
        node: Node,
        inputs: tuple[Expression, ...],
        descs: tuple[TensorDesc, ...],
        name: str | None = None,
    ) -> list[Expression]:
        """A node, whose outputs are described as their readers are to see them."""
        if self.recording is not None and not self.recording.is_within:
            several: list[Expression] = self.recording.call(self, Graph.put, (self, node, inputs, descs, name), {})
            return several
        source = Source(is_input=False, number=len(self._nodes), descs=descs, name="", inputs=inputs, node=node)
        if name is not None:
            self.rename(source, name)
        self._nodes.append(source)
        return [Expression(self, source, desc, slot) for slot, desc in enumerate(descs)]

    def rename(self, source: Source, name: object) -> None:
        """Give a node or an input a name that no other has."""
        if not isinstance(name, str) or not name:
            refuse(Fault(field="name", rule="name must be a string, not empty", value=name, found=show(name)))
        if self._names.get(name, source) is not source:
            refuse(Fault(field="name", rule=f"name must be unique among nodes and inputs; got {name!r}"))
        if source.is_input and name == "out":
            refuse(Fault(field="name", rule="name must not be 'out', which a call has for the outputs", value=name))
        self._names.pop(source.name, None)
        self._names[name], source.name = source, name

    def refer(self, reference: Reference) -> Expression:
        """The expression at a place in this graph."""
        is_input, number, slot, desc, is_scalar, made = reference
        source = (self._inputs if is_input else self._nodes)[number]
        found = Expression(self, source, desc or source.descs[slot], slot, is_scalar=is_scalar)
        found.made = made
        return found

    def __getstate__(self) -> dict[str, Any]:
        """For copies and pickles: nodes by number, for one that held those it reads would be copied by recursion."""
        inputs = [(one.descs, one.name) for one in self._inputs]
        nodes = [(one.node, [x.reference for x in one.inputs], one.descs, one.name) for one in self._nodes]
        return {**vars(self), "_inputs": inputs, "_nodes": nodes, "_names": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _inputs=[], _nodes=[], _names={}, recording=None)
        self.restore(state["_inputs"], state["_nodes"])
        self.recording = state["recording"]

    def restore(self, inputs: Sequence[Any], nodes: Sequence[Any]) -> None:
        """Have inputs and nodes as the state of a graph has them."""
        for descs, name in inputs:
            self._inputs.append(Source(is_input=True, number=len(self._inputs), descs=descs, name=name))
        for node, references, descs, name in nodes:
            self.put(node, tuple(map(self.refer, references)), descs)
            self._nodes[-1].name = name
        self._names = {one.name: one for one in (*self._inputs, *self._nodes) if one.name}

    def strides_for(self, sizes: tuple[int, ...], data_type: DataType) -> Sequence[int] | None:
        """The strides of the tensor policy."""
        return self._policy(sizes, data_type)

    def desc(self, outputs: Expression | Sequence[Expression]) -> GraphDesc:
        """The graph as DirectML describes it, with these outputs."""
        nodes = [self._node(source) for source in self._nodes]
        slots_of = [tuple(node.outputs) for node in nodes]  # an output that is left out has a number too
        input_edges: list[InputEdge] = []
        intermediate_edges: list[IntermediateEdge] = []

        def connect(given: Expression, number: int, slot: int) -> None:
            source, mark = given.source, given.is_reinterpreted
            if source.is_input:
                input_edges.append(InputEdge(source.number, number, slot, source.name, mark))
            else:
                own = slots_of[source.number][given.slot]
                intermediate_edges.append(IntermediateEdge(source.number, own, number, slot, "", mark))

        for source in self._nodes:
            slots = source.node.inputs if source.node is not None else ()
            for slot, given in zip(slots, source.inputs, strict=True):
                connect(given, source.number, slot)
        output_edges, output_descs = [], []
        for k, output in enumerate(self._outputs(outputs)):
            number, desc, name = output.source.number, output.desc, output.name
            if output.source.is_input or output.is_reinterpreted:
                number, slot, name = len(nodes), 0, ""
                nodes.append(OperatorNode(self._copy(output)))
                connect(output, number, 0)
                desc = TensorDesc(desc.data_type, desc.sizes)
            else:
                slot = slots_of[number][output.slot]
            output_edges.append(OutputEdge(number, slot, k, name))
            output_descs.append(desc)
        return GraphDesc(
            len(self._inputs),
            len(output_edges),
            nodes,
            input_edges,
            output_edges,
            intermediate_edges,
            [source.descs[0] for source in self._inputs],
            output_descs,
            [source.name for source in self._inputs],
        )

    def _node(self, source: Source) -> Node:
        node = source.node
        assert node is not None  # noqa: S101 - for type checkers: it is no input
        if not source.name:
            return node
        return node.named(source.name) if isinstance(node, OperatorNode) else replace(node, name=source.name)

    def _outputs(self, outputs: object) -> list[Expression]:
        given: Any = [outputs] if isinstance(outputs, Expression) else outputs
        if hasattr(given, "_fields"):  # a function's results, of which None are those that nobody asked for
            given = [one for one in given if one is not None]
        if not isinstance(given, (list, tuple)) or not given:
            rule = "outputs must be an Expression, or a list of at least one"
            refuse(Fault(field="outputs", rule=rule, value=outputs, found=show(outputs)))
        for i, output in enumerate(given):
            if not isinstance(output, Expression):
                rule = f"outputs[{i}] must be an Expression"
                refuse(Fault(field=f"outputs[{i}]", rule=rule, value=output, found=show(output)))
            if output.graph is not self:
                rule = f"outputs[{i}] must be an Expression of this graph"
                refuse(Fault(field=f"outputs[{i}]", rule=rule, value=output, found=f"{output!r} of another graph"))
        return list(given)

    def _copy(self, given: Expression) -> OperatorDesc:
        """An operator that copies a whole tensor: what an output is of must be a node's, and its memory its own."""
        counts = Slice.support.row_at(self.device.feature_level).tensors["InputTensor"].dimension_counts
        rank = given.desc.dimension_count
        desc = given.desc.padded(min((count for count in counts if count >= rank), default=rank))
        none, ones = (0,) * desc.dimension_count, (1,) * desc.dimension_count
        return Slice.infer(input_tensor=desc, offsets=none, sizes=desc.sizes, strides=ones)

    def compile(
        self,
        outputs: Expression | Sequence[Expression],
        flags: ExecutionFlags | str | int = ExecutionFlags.NONE,
        *,
        optimise: bool = True,
        disable_passes: Iterable[str] = (),
        without: Iterable[str] | None = None,
    ) -> CompiledGraph:
        """Check the graph and make it one program; inputs that are OWNED_BY_DML are then given to `initialize`.

        A graph with symbolic sizes is checked for their examples, and becomes a `SymbolicGraph`, which is planned for
        the sizes of the arrays that come.

        With `optimise=False` every operator is a pass over memory, for the same answers: bit for bit, but for running
        sums and products of floats that are added up in parts for their length. Either way a node that no output
        depends on is not run, and the indices of every other gather are checked. `disable_passes` names single graph
        passes to leave out: `dml.graph_passes()` has them all, and `explain()` says what each did.
        """
        if isinstance(flags, Expression):
            rule = "outputs must be one list: g.compile([a, b])"
            refuse(Fault(field="outputs", rule=rule, value=flags, found="a second Expression by itself"))
        disabled = read_disabled(disable_passes, SUBJECT, without=without)
        if self.recording is not None:
            import_alone("anydml.api.recording")
            from anydml.api.recording import compile_symbolic  # as above

            made: Any = compile_symbolic(self, self._outputs(outputs), flags, optimise=optimise, disabled=disabled)
            return made  # type: ignore[no-any-return]  # of the same methods; a union would ask all callers which
        compiled = self.device.compile_graph(self.desc(outputs), flags, optimise=optimise, disable_passes=disabled)
        for i, output in enumerate(self._outputs(outputs)):
            if output.is_scalar:
                compiled.results[i] = (output.data_type, (), ())
        return compiled if compiled.owned else compiled.initialize()

    def _shown(self) -> Iterator[str | Table]:
        yield str(self)
        inputs = [(k, one.name, describe(one.descs[0])) for k, one in enumerate(self._inputs)]
        yield Table("inputs", ("", "name", "tensor"), inputs)
        nodes = [
            (
                k,
                one.name,
                "" if one.node is None else one.node.kind,
                ", ".join(_label(given.source) for given in one.inputs),
                ", ".join(map(describe, one.descs)),
            )
            for k, one in enumerate(self._nodes)
        ]
        yield Table("nodes", ("", "name", "operator", "reads", "gives"), nodes)

    def __repr__(self) -> str:
        inputs, nodes = counted(len(self._inputs), "input"), counted(len(self._nodes), "node")
        return f"Graph({self.device!r}, {inputs}, {nodes})"


def _are_symbolic(sizes: Sequence[Any]) -> bool:
    """Whether there is one by name among sizes, or one of a graph that is being built."""
    return any(isinstance(one, (str, Size)) or (type(one) is OpenSize and one.tape.is_lasting) for one in sizes)


def _described(data_type: Any, sizes: Any) -> TensorDesc:
    try:
        return TensorDesc(data_type, sizes)
    except DescriptionError as error:
        raise error.within(SUBJECT, "input: ") from None


def _label(source: Source) -> str:
    """An input or a node as a table names it."""
    return source.name or f"{'input' if source.is_input else 'node'} {source.number}"


def _packed(_sizes: tuple[int, ...], _data_type: DataType) -> None:
    """Strides are left out."""


def _interleaved(sizes: tuple[int, ...], _data_type: DataType) -> tuple[int, ...] | None:
    """The second dimension innermost; with fewer than three dimensions that is a packed tensor."""
    if len(sizes) < 3:
        return None
    first, *inner, channels = packed_strides((sizes[0], *sizes[2:], sizes[1]))
    return (first, channels, *inner)


TENSOR_POLICIES: dict[str, Callable[[tuple[int, ...], DataType], Sequence[int] | None]] = {
    "default": _packed,
    "interleaved_channel": _interleaved,
}
"""The strides of each policy that has a name; None for a packed tensor."""
