"""`torch.compile(model, backend="anydml")`: AOTAutograd's graphs of core ATen, lowered, and run by parts."""

from __future__ import annotations

import contextlib
import logging
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._guards import TracingContext

from anydml.core.errors import DescriptionError, DmlError, Fault, UnsupportedError, show
from anydml.core.late_imports import import_alone
from anydml.core.locks import make_lock
from anydml.engines.common.threads import set_num_threads
from anydml.torch.bridge import HOSTS
from anydml.torch.decompositions import decompositions, mend_calls
from anydml.torch.part import GraphPart, RefusedError
from anydml.torch.partition import (
    IDLE,
    OF_ANOTHER,
    count_fallbacks,
    find_reasons,
    is_idle,
    partition,
    summary,
    torch_part,
)
from anydml.torch.sizes import find_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LOG = logging.getLogger("anydml.torch")
_SUBJECT = "torch.compile"
_MOST_FREEZES = 3
"""How often weights that were thought frozen are laid out anew, before they are read in place."""


_watchers: list[Callable[[Program], object]] = []


@contextlib.contextmanager
def watching(see: Callable[[Program], object]) -> Iterator[None]:
    """Meanwhile have each program seen once it is planned."""
    _watchers.append(see)
    try:
        yield
    finally:
        _watchers.remove(see)


class Options(NamedTuple):
    """What `torch.compile(..., options={...})` may say."""

    engine: str | None = None
    """The engine's name; None for the one that works where the tensors lie."""
    threads: int | None = None
    """Threads of a dispatch, of the whole process as `set_num_threads` has it."""
    strict: bool = False
    """Whether a node that PyTorch would run is an error."""
    precise: bool = False
    """Without the graph pass that changes bits by more than the order of sums."""
    freeze: bool = True
    """Whether weights are laid out once where no gradient is asked for."""


def read_options(given: Mapping[str, Any] | None) -> Options:
    """The options, or an error that names each that is none."""
    faults = []
    kinds = {"engine": (str, type(None)), "threads": (int, type(None))}
    for name, value in (given or {}).items():
        if name not in Options._fields:
            way_out = f"there are {', '.join(Options._fields)}"
            faults.append(Fault(field=name, rule=f"options must have no {name!r}", value=value, way_out=way_out))
        elif not isinstance(value, kinds.get(name, bool)) or (name == "threads" and isinstance(value, bool)):
            wanted = {"engine": "an engine's name", "threads": "a whole number"}.get(name, "True or False")
            faults.append(Fault(field=name, rule=f"{name} must be {wanted}", value=value, found=show(value)))
    if faults:
        raise DescriptionError(_SUBJECT, faults)
    return Options(**(given or {}))


def compile_graph(module: Any, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None) -> Any:
    """The backend, as PyTorch's entry point has it: a graph that Dynamo took, compiled."""
    read = read_options(options)
    if read.threads is not None:
        set_num_threads(read.threads)
    import_alone("torch._dynamo.backends.common")
    from torch._dynamo.backends.common import aot_autograd  # most of the time that `import torch_directml` would take

    mend_calls(module)
    compiler = aot_autograd(
        fw_compiler=lambda graph, _: Program(graph, read, ()),
        inference_compiler=lambda graph, _: Program(graph, read, _unchanged()),
        decompositions=decompositions(),
    )
    return compiler(module, example_inputs)


def _unchanged() -> tuple[int, ...]:
    """The numbers of the arguments that are weights and buffers, and that the graph does not write."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return ()
    written = set(context.fw_metadata.mutated_inp_runtime_indices)
    return tuple(k for k in context.fw_metadata.static_input_indices if k not in written)


class _Frozen(NamedTuple):
    """Weights as they were when they were laid out."""

    tensors: list[tuple[int, Any, int, int]]
    """Of each its argument's number, itself, its version and its address."""

    def holds(self, args: Sequence[Any]) -> bool:
        """Whether these are the arguments, and nothing was written since."""
        for k, tensor, version, address in self.tensors:
            if args[k] is not tensor or tensor._version != version or tensor.data_ptr() != address:  # noqa: SLF001 - PyTorch's name
                return False
        return True


class _Step(NamedTuple):
    """A part as it runs: what it reads and writes by places, and the places that nobody reads afterwards."""

    run: Any
    is_ours: bool
    reads: list[int]
    writes: list[int]
    drops: list[int]


@dataclass(slots=True)
class _State:
    """What a call runs: a call that began with it ends with it, whatever is laid out anew meanwhile."""

    steps: list[_Step]
    frozen: _Frozen | None
    direct: Any = None
    """The only step as one native call; None until it is known whether there is one, False where there is none."""


class Program:
    """An FX graph of ATen operators as parts, ours and PyTorch's by turns: planned when it is first called."""

    def __init__(self, module: Any, options: Options, static: Sequence[int]) -> None:
        self._boxed_call = True  # AOTAutograd then gives a list of arguments, which may be emptied
        self._module, self._options = module, options
        self._static = static if options.freeze else ()
        self._placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._symbols = find_symbols(node.meta.get("val") for node in self._placeholders)
        self._lock = make_lock()
        self._steps: list[_Step] | None = None
        self._results: list[Any] = []
        self._count = 0
        self._state: _State | None = None
        self._freezes = 0
        self.parts: list[GraphPart] = []
        """Those of ours."""
        self.fallbacks: dict[str, int] = {}
        """How many nodes are PyTorch's, by operator and reason."""

    def __call__(self, args: list[Any]) -> list[Any]:
        """Run on arguments."""
        state = self._state
        if state is not None and state.direct and (state.frozen is None or state.frozen.holds(args)):
            found: list[Any] | None = state.direct(args)
            if found is not None:
                args.clear()
                return found
        values: list[Any] = list(args)
        args.clear()
        symbols = {}
        for name, (k, dim) in self._symbols.items():
            size = values[k] if dim is None else values[k].shape[dim]
            if not isinstance(size, torch.SymInt):  # a nested tensor's, which is no number
                symbols[name] = int(size)
        state = self._state
        if state is None or (state.frozen is not None and not state.frozen.holds(values)):
            with self._lock:
                state = self._prepare(values, symbols)
        values += [None] * (self._count - len(values))
        for step in state.steps:
            given = [values[k] for k in step.reads]
            made = step.run(given, symbols) if step.is_ours else step.run(*given)
            if state.direct is None:
                is_only = len(state.steps) == 1 and step.is_ours and self._results == step.writes
                state.direct = is_only and (step.run.direct_call(given, made, step.reads) or False)
            del given
            for k, one in zip(step.writes, made, strict=True):
                values[k] = one
            for k in step.drops:
                values[k] = None
        return [values[one] if type(one) is _Place else one for one in self._results]

    # Planning

    def _prepare(self, values: Sequence[Any], symbols: Mapping[str, int]) -> _State:
        """Plan the parts once, and lay out frozen weights, anew where they changed."""
        if self._steps is None:
            self._plan(symbols)
        state = self._state
        if state is not None and (state.frozen is None or state.frozen.holds(values)):
            return state  # another thread was here first
        self._freezes += 1
        several = []
        if self._freezes <= _MOST_FREEZES:
            for k in self._static:
                one = values[k]
                if isinstance(one, torch.Tensor) and self._is_of_host(one) and not one.is_inference():
                    several.append((k, one, one._version, one.data_ptr()))  # noqa: SLF001 - PyTorch's name
        constants = {self._placeholders[k]: tensor for k, tensor, _, _ in several}
        assert self._steps is not None  # noqa: S101 - for type checkers: it was planned above
        steps = [step._replace(run=step.run.frozen(constants)) if step.is_ours else step for step in self._steps]
        self.parts = [step.run for step in steps if step.is_ours]
        self._state = state = _State(steps, _Frozen(several) if several else None)
        return state

    def _plan(self, symbols: Mapping[str, int]) -> None:
        graph, device = self._module.graph, self._device()
        engine = self._options.engine or (HOSTS[device][2](self._number()) if device in HOSTS else device)
        reasons = find_reasons(graph, device)
        disabled = ("attention",) if self._options.precise else ()
        while True:
            parts = partition(graph, reasons)
            ours: list[Any] = []
            refused: dict[Any, str] = {}
            for part in parts:
                if is_idle(part):
                    refused |= dict.fromkeys(part.nodes, IDLE)
                elif part.is_ours:
                    made = GraphPart(part.nodes, part.inputs, part.outputs, engine, disabled)
                    try:
                        made.check(symbols)
                    except RefusedError as error:
                        refused[error.node] = error.why
                    except DmlError as error:
                        refused |= dict.fromkeys(part.nodes, str(error).partition("\n")[0])
                    ours.append(made)
            if not refused:
                break
            reasons |= refused
            reasons |= _with_results(refused)
        self.fallbacks = count_fallbacks(reasons)
        LOG.info("%s: %s", _SUBJECT, told := summary(parts, self.fallbacks, engine))
        if self._options.strict and self.fallbacks:
            rule = f"every node must be lowered, as strict asks; {told}"
            way_out = "without strict PyTorch runs the others"
            raise UnsupportedError(_SUBJECT, Fault(field="options", rule=rule, value="strict", way_out=way_out))
        self._place(parts, ours)
        for see in _watchers:
            see(self)

    def plan(self) -> None:
        """Plan it before the first call, so that it is known what is ours."""
        self._plan({})

    @staticmethod
    def _is_of_host(tensor: Any) -> bool:
        return tensor.device.type == "cpu" or tensor.device.type in HOSTS

    def _number(self) -> Any:
        """The device's number."""
        for node in self._module.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                return value.device.index or 0
        return None

    def _device(self) -> str:
        """The kind of device that the tensors lie on."""
        for node in self._module.graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                return str(value.device.type)
        return "cpu"

    def _place(self, parts: Sequence[Any], ours: Sequence[GraphPart]) -> None:
        """Give each value a place, and let go of it after its last reader."""
        places = {node: k for k, node in enumerate(self._placeholders)}
        graphs = iter(ours)
        steps: list[_Step] = []
        for part in parts:
            for node in part.outputs:
                places[node] = len(places)
            run = next(graphs) if part.is_ours else torch_part(self._module, part)
            reads, writes = ([places[node] for node in several] for several in (part.inputs, part.outputs))
            steps.append(_Step(run, part.is_ours, reads, writes, []))
        (output,) = (node for node in self._module.graph.nodes if node.op == "output")
        results = output.args[0]
        self._results = [_Place(places[one]) if isinstance(one, torch.fx.Node) else one for one in results]
        kept = {int(one) for one in self._results if type(one) is _Place} | set(self._static)
        for number in range(len(places)):
            last = max((k for k, step in enumerate(steps) if number in step.reads), default=-1)
            if last >= 0 and number not in kept:
                steps[last].drops.append(number)
        self.parts, self._count = list(ours), len(places)
        self._steps = steps


class _Place(int):
    """Where a value is found."""


def _with_results(refused: Mapping[Any, str]) -> dict[Any, str]:
    """The parts of results that are PyTorch's too."""
    return {user: OF_ANOTHER for node in refused for user in node.users if user.target is operator.getitem}
