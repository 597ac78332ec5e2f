"""A model that is not one program, run in parts: compiled segments, nodes on the host, control flow.

`Parts(graph, scope)` is made of a model's graph, or of a body of control flow, which is a graph as well. `run(values)`
takes an environment of values by name and gives the graph's outputs in order. Within, each `Part` has `takes` (names
that it reads), `gives` (names that it makes) and `run(values)`, which gives a tuple of what it makes.

A value is an array: NumPy's, or PyTorch's in the memory of a GPU, where a segment left it there; `on_host` has it as
NumPy's. Strings are NumPy arrays of objects. A sequence is a list of arrays, and an empty optional is None.

`planner.py` says which nodes are a stage, where it runs and what passes between stages; `partitioned_graph.py` makes
parts of them and runs those in order: compiled programs (`segment.py`), nodes on the host (`host.py`), control flow
(`control_flow.py`, whose steps are `repeated_body.py`) and sequences (`sequences.py`). A part that cannot run as it is
gives a `Recut`, by which the planner plans anew. `scope.py` and `constants.py` have what is made of constants alone: it
belongs to every part that reads it, and is folded there; what the device cannot make of them is found before the first
plan, so that a part learns of nodes of its own alone. `partitioned_model.py` is a caller's side of it.

Another kind of part registers itself; every module of this package is imported before the first model is cut:

    @part_of("If")
    class Choice(Part):
        def __init__(self, node, scope):  # the node, and where it stands
            self.branches = [Parts(node.value(name), scope) for name in ("then_branch", "else_branch")]
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
