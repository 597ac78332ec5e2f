"""A model that is not one program, run in parts: compiled segments, nodes on the host, control flow.

`Parts(graph, scope)` is made of a model's graph, or of a body of control flow, which is a graph as well. `run(values)`
takes an environment of values by name and gives the graph's outputs in order. Within, each `Part` has `takes` (names
that it reads), `gives` (names that it makes) and `run(values)`, which gives a tuple of what it makes.

A value is an array: NumPy's, or PyTorch's in the memory of a GPU, where a segment left it there; `on_host` has it as
NumPy's. Strings are NumPy arrays of objects. A sequence is a list of arrays, and an empty optional is None.

How parts are cut (`arranging`): nodes that DirectML's operators can do make compiled segments (`Segment`); a node
without an operator, or of types that DirectML lacks, runs on the host (`HostPart`). What a segment meets with when it
is first traced is learnt (`Recut`, which is what it gives then): a node that DirectML refuses goes to the host from
then on, and a node that needs the value of something computed begins a segment of its own, which has that value at
hand. What is made of constants alone belongs to every part that reads it, and is folded there; what the device cannot
make of them is found before the first cut, so that a part learns of nodes of its own alone.

Another kind of part registers itself; every module of this package is imported before the first model is cut:

    @part_of("If")
    class Choice(Part):
        def __init__(self, node, scope):  # the NodeProto, and where it stands
            self.branches = [Parts(graph_of(node, name), scope) for name in ("then_branch", "else_branch")]
            self.takes = tuple_of_once(node.input[0], *captures of the branches)
            self.gives = tuple(name for name in node.output if name)

        def run(self, values):
            branch = self.branches[0 if on_host(values[self.takes[0]]).item() else 1]
            return tuple(branch.run(values))  # in the order of `gives`

Bodies: `Parts(body, scope)` knows constants of the graphs around it, by `scope`, so that weights which a body reads
are constants of its segments. `parts.inputs` are the body's own inputs, `parts.captures` the names that it reads of
the graphs around it; `parts.takes` is both, and `values` must have them all: give it
`{**{n: values[n] for n in body.captures}, **dict(zip(body.inputs, arguments))}`. `scope.source.beside.limit` is the
model's memory limit, and `scope.source.name` what errors call the model.
"""

from anydml.onnx.partition.part import Part, part_of
from anydml.onnx.partition.partitioned_graph import Parts
from anydml.onnx.partition.scope import Scope

__all__ = ["Part", "Parts", "Scope", "part_of"]
