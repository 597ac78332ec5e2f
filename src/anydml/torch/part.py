"""A part of a model as one graph of DirectML's operators: built, compiled for all sizes or for those that come, run."""

from __future__ import annotations

import copy
import logging
import operator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import anydml
from anydml.arrays.shared import SharedData
from anydml.arrays.tensor import TensorDesc
from anydml.core.errors import BindingError, DmlError, IndexRangeError
from anydml.core.locks import make_lock
from anydml.core.memory import HOST, at_address, packed_strides
from anydml.core.symbolic_sizes import Size, present
from anydml.runtime.profiler_hook import WATCHER
from anydml.torch.bridge import LOW, STORED, Layout, as_stored, on_host
from anydml.torch.lower import LOWERINGS, bfloat16
from anydml.torch.lower.context import BITS, DATA_TYPES, Context, Nothing, NotLoweredError, cast, dml, is_empty
from anydml.torch.lower.empty import OF_NOTHING
from anydml.torch.partition import read_results
from anydml.torch.sizes import evaluate, hint, is_symbolic, symbol, symbols_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from anydml.api.builder import Graph
    from anydml.api.expression import Expression

LOG = logging.getLogger("anydml.torch")


class RefusedError(Exception):
    """A node that turned out not to be ours, and why."""

    def __init__(self, node: Any, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


class _Built(NamedTuple):
    graph: Graph
    outputs: list[Expression]
    order: list[int]
    """The inputs in the order of the graph's."""


class _Runner(NamedTuple):
    run: Callable[..., Any]
    order: list[int]


class GraphPart:
    """Nodes of an FX graph that are one graph of ours."""

    def __init__(
        self,
        nodes: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        device: str,
        disabled: Iterable[str] = (),
    ) -> None:
        self.nodes, self.inputs, self.outputs = list(nodes), list(inputs), list(outputs)
        self._device, self._disabled = device, tuple(disabled)
        values = [node.meta["val"] for node in (*self.inputs, *self.nodes)]
        several = [one for value in values for one in (value if isinstance(value, (list, tuple)) else (value,))]
        self.symbols = sorted(set().union(*map(symbols_of, several)))
        """The symbols of PyTorch that the part depends on."""
        by_strides = not self.symbols
        self._layouts = [Layout.of(node.meta["val"], by_strides=by_strides) for node in self.inputs]
        self._results = [Layout.of(node.meta["val"], by_strides=False) for node in self.outputs]
        self._nothing = frozenset(k for k, node in enumerate(self.outputs) if is_empty(node.meta["val"]))
        """The outputs that have no elements."""
        self.reruns = 0
        """Calls that PyTorch ran, as an index or a divisor was none that the graph has an answer for."""
        self._constants: Mapping[Any, Any] = {}
        self._lock = make_lock()
        self._symbolic: _Runner | None = None
        self._by_sizes: dict[tuple[int, ...], _Runner] = {}
        self._is_symbolic = bool(self.symbols)
        self._read = [k for k, node in enumerate(self.inputs) if not is_empty(node.meta["val"])]
        self.graphs: list[Any] = []
        """What was compiled, for all sizes or for some."""

    def frozen(self, constants: Mapping[Any, Any]) -> GraphPart:
        """The same with inputs whose tensors do not change as part of the graph, which lays them out once."""
        own = {node: tensor for node, tensor in constants.items() if node in self.inputs}
        read = [k for k in self._read if self.inputs[k] not in own]
        made = copy.copy(self)
        vars(made).update(_constants=own, _read=read, _lock=make_lock(), _symbolic=None, _by_sizes={}, graphs=[])
        return made

    # Building

    def check(self, symbols: Mapping[str, int]) -> None:
        """Build the graph, so that a node that turns out not to be ours is known."""
        self._build({name: symbols[name] for name in self.symbols})

    def _build(self, symbols: Mapping[str, Any]) -> _Built:
        """The graph for certain sizes, or with no symbols for all of them."""
        graph = anydml.Graph(self._device)
        known = dict(symbols)
        is_open = bool(self.symbols) and not symbols
        found: dict[Any, Any] = {}
        order: list[int] = []
        waiting = self._read
        while waiting:
            later = []
            for k in waiting:
                value, layout = self.inputs[k].meta["val"], self._layouts[k]
                names = {name for size in value.shape for name in symbols_of(size)}
                own = {symbol(size) for size in value.shape}
                if is_open and not names <= {*known, *own}:
                    later.append(k)
                    continue
                found[self.inputs[k]] = _input(graph, f"x{k}", value, layout, known, is_open=is_open)
                order.append(k)
            if len(later) == len(waiting):
                raise NotLoweredError("sizes that no input has by themselves")
            waiting = later
        for node in self.inputs:
            if is_empty(value := node.meta["val"]):
                found[node] = Nothing(tuple(value.shape), DATA_TYPES[value.dtype])
        for node, tensor in self._constants.items():
            if node not in found:
                found[node] = _constant(graph, tensor)
        for node in self.nodes:
            found[node] = self._lower(graph, node, found, known)
        outputs = []
        for node, layout in zip(self.outputs, self._results, strict=True):
            if is_empty(node.meta["val"]):
                continue
            made = found[node]
            if layout.data_type is BITS:
                made = bfloat16.narrowed(made)
            if layout.is_scalar:  # as inputs are: arrays of a dimension are bound without a closer look
                made = dml.reshape(made, (1,))
            outputs.append(made if layout.order is None else dml.transpose(made, layout.order))
        return _Built(graph, outputs, order)

    def _lower(self, graph: Graph, node: Any, found: Mapping[Any, Any], symbols: Mapping[str, Any]) -> Any:
        if node.target is operator.getitem:
            return found[node.args[0]][node.args[1]]

        name = str(node.target)
        of_bfloat16 = [one for one in node.all_input_nodes if getattr(one.meta["val"], "dtype", None) is torch.bfloat16]
        moves = name in bfloat16.MOVES and all(found[one].data_type is BITS for one in of_bfloat16)
        to_float = bfloat16.rounded if _is_step(node) else bfloat16.widened

        def argument(one: Any) -> Any:
            if not isinstance(one, torch.fx.Node):
                return evaluate(one, symbols)
            if is_symbolic(one.meta["val"]):
                return evaluate(one.meta["val"], symbols)
            is_widened = one in of_bfloat16 and not moves and not isinstance(found[one], Nothing)
            return to_float(found[one]) if is_widened else found[one]

        try:
            args, named = _mapped(argument, list(node.args)), _mapped(argument, dict(node.kwargs))
            context = Context(graph, node, lambda value: evaluate(value, symbols), moves_bits=moves)
            has_nothing = any(isinstance(one, Nothing) for one in _leaves((args, named)))
            made = (OF_NOTHING if has_nothing else LOWERINGS)[name](context, *args, **named)
            made = _checked(context, made)
            is_rounded = name in bfloat16.ROUNDS and context.dtype() is torch.bfloat16
            return bfloat16.narrowed(made) if is_rounded else made
        except NotLoweredError as error:
            raise RefusedError(node, str(error)) from None
        except DmlError as error:
            raise RefusedError(node, str(error).partition("\n")[0]) from None
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, AssertionError, OverflowError) as error:
            # Arguments that a lowering does not know, as a later PyTorch may have: its own operator has them.
            LOG.debug("%s could not be lowered", node.target, exc_info=True)
            raise RefusedError(node, f"{type(error).__name__}: {error}") from None

    # Running

    def __call__(self, tensors: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """The tensors of the outputs, for those of the inputs."""
        arrays = [self._layouts[k].array(tensors[k]) for k in self._read]
        sizes = tuple([symbols[name] for name in self.symbols])
        try:
            found = self._run(arrays, sizes)
        except IndexRangeError:
            return self._by_torch(tensors, symbols)
        except BindingError:  # an operator of PyTorch's made another type than it had foretold
            foretold = [self.inputs[k].meta["val"].dtype for k in self._read]
            given = [tensors[k].to(dtype) for k, dtype in zip(self._read, foretold, strict=True)]
            found = self._run([self._layouts[k].array(one) for k, one in zip(self._read, given, strict=True)], sizes)
        several = found if len(self.outputs) - len(self._nothing) > 1 else (found,)
        if self._nothing:
            return self._with_nothing(several)
        return [layout.tensor(one) for layout, one in zip(self._results, several, strict=True)]

    def _by_torch(self, tensors: Sequence[Any], symbols: Mapping[str, int]) -> list[Any]:
        """The nodes by PyTorch, whose error or answer it is where an index or a divisor is out of range."""
        self.reruns += 1
        found = dict(zip(self.inputs, tensors, strict=True))

        def argument(one: Any) -> Any:
            if not isinstance(one, torch.fx.Node):
                return evaluate(one, symbols)
            return found[one] if one in found else evaluate(one.meta["val"], symbols)

        for node in self.nodes:
            found[node] = node.target(*_mapped(argument, list(node.args)), **_mapped(argument, dict(node.kwargs)))
        return [found[node] for node in self.outputs]

    def _with_nothing(self, several: Sequence[Any]) -> list[Any]:
        """The tensors of the outputs, of which some have no elements."""
        left, found = iter(several), []
        for k, (node, layout) in enumerate(zip(self.outputs, self._results, strict=True)):
            value = node.meta["val"]
            is_nothing = k in self._nothing
            device = value.device
            found.append(
                torch.empty(tuple(value.shape), dtype=value.dtype, device=device)
                if is_nothing
                else layout.tensor(next(left))
            )
        return found

    def _run(self, arrays: Sequence[Any], sizes: tuple[int, ...]) -> Any:
        if self._is_symbolic:
            runner = self._symbolic
            if runner is None:
                runner = self._compile_symbolic()
            if runner is not None:
                try:
                    return runner.run(*[arrays[k] for k in runner.order])
                except IndexRangeError:
                    raise
                except DmlError as error:  # sizes of which something else is found than of those it was built for
                    LOG.debug("compiled for the sizes %s alone: %s", sizes, error)
        runner = self._by_sizes.get(sizes) or self._compile_for(sizes)
        return runner.run(*[arrays[k] for k in runner.order])

    def _compile_symbolic(self) -> _Runner | None:
        with self._lock:
            if self._symbolic is None and self._is_symbolic:
                try:
                    self._symbolic = self._runner(self._build({}))
                except (DmlError, NotLoweredError, RefusedError) as error:
                    LOG.debug("compiled for each set of sizes anew: %s", error)
                    self._is_symbolic = False
            return self._symbolic

    def _compile_for(self, sizes: tuple[int, ...]) -> _Runner:
        with self._lock:
            if sizes not in self._by_sizes:
                built = self._build(dict(zip(self.symbols, sizes, strict=True)))
                self._by_sizes[sizes] = self._runner(built)
            return self._by_sizes[sizes]

    def _runner(self, built: _Built) -> _Runner:
        places = {number: place for place, number in enumerate(self._read)}
        compiled = built.graph.compile(built.outputs, disable_passes=self._disabled)
        self.graphs.append(compiled)
        return _Runner(compiled, [places[number] for number in built.order])

    def direct_call(self, given: Sequence[Any], made: Sequence[Any], places: Sequence[int]) -> Any:
        """The same in one native call, after one with these tensors; None where there is none.

        `places` are the numbers that the inputs have among the tensors of that call.
        """
        runner = self._by_sizes.get(())
        if runner is None or self._nothing or any(one.device is not None for one in (*self._layouts, *self._results)):
            return None
        read = [self._read[place] for place in runner.order]
        inputs = [(places[k], self._layouts[k], given[k]) for k in read]
        return _direct_call(runner.run, inputs, list(zip(self._results, made, strict=True)))


def _direct_call(
    compiled: Any, inputs: Sequence[tuple[int, Layout, Any]], results: Sequence[tuple[Layout, Any]]
) -> Callable[[Sequence[Any]], list[Any] | None] | None:
    """A graph of few steps on the host as one native call on tensors' addresses: no array is made, nothing is bound.

    It takes the tensors of a call, of which `inputs` has the numbers, and those that came there before; None where one
    lies otherwise. A call of a Linear layer outlasts its run: each Python function on the way takes a microsecond.
    """
    series = compiled.series() if getattr(compiled, "memory", None) == HOST else None
    if series is None:
        return None
    if any(strides is not None and tuple(strides) != packed_strides(sizes) for _, sizes, strides in compiled.results):
        return None
    if not all(layout.holds(one) for _, layout, one in inputs):
        return None
    known = [(k, one.shape, one.stride(), one.dtype) for k, _, one in inputs]
    made_as = [(tuple(one.shape), one.stride(), one.dtype) for _, one in results]
    scratch, strided, watched = compiled.temporary_size, torch.strided, WATCHER.get
    empty = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", _empty_strided)  # noqa: SLF001 - PyTorch's name

    def run(tensors: Sequence[Any]) -> list[Any] | None:
        if watched() is not None:
            return None
        places = []
        for k, shape, stride, dtype in known:
            one = tensors[k]
            if one.layout is not strided or one.stride() != stride or one.shape != shape or one.dtype is not dtype:
                return None
            if one.is_neg() or (address := one.data_ptr()) < LOW:
                return None
            places.append(at_address(address))
        made = []
        for shape, stride, dtype in made_as:
            made.append(one := empty(shape, stride, dtype))
            places.append(at_address(one.data_ptr()))
        if scratch:
            own = empty((scratch,), (1,), torch.uint8)
            places.append(at_address(own.data_ptr()))
        # None is what a command list without a fault gives; of others the binding tells.
        return made if series(*places) is None else None

    return run


def _empty_strided(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
    """A tensor of the host: what inductor calls for it takes a tenth of this."""
    return torch.empty_strided(sizes, strides, dtype=dtype, device="cpu")


def _mapped(function: Callable[[Any], Any], given: Any) -> Any:
    """Arguments, and those in lists, each through a function."""
    if isinstance(given, (list, tuple)) and not isinstance(given, Nothing):
        return [_mapped(function, one) for one in given]
    if isinstance(given, dict):
        return {name: _mapped(function, one) for name, one in given.items()}
    return function(given)


def _is_step(node: Any) -> bool:
    """Whether a node's answer jumps with its arguments, as a comparison's does."""
    several = [one for one in read_results(node) if isinstance(one, torch.Tensor)]
    is_whole = any(not one.dtype.is_floating_point for one in several)
    return is_whole or bfloat16.is_step(str(node.target))


def _leaves(given: Any) -> list[Any]:
    found: list[Any] = []
    _mapped(found.append, given)
    return found


def _input(
    graph: Graph, name: str, value: Any, layout: Layout, symbols: dict[str, Any], *, is_open: bool
) -> Expression:
    """An input as it lies in memory, seen with its dimensions in PyTorch's order."""
    sizes = list(value.shape) if layout.order is None else [value.shape[k] for k in layout.order]
    made: Expression
    if layout.strides is not None:
        return graph.input(TensorDesc(layout.data_type, [int(one) for one in sizes], strides=layout.strides), name)
    if is_open and any(map(is_symbolic, sizes)):
        named = [
            Size(own, example=hint(one)) if (own := symbol(one)) and own not in symbols else evaluate(one, symbols)
            for one in sizes
        ]
        made = graph.input(layout.data_type, named, name)
        for k, one in enumerate(sizes):
            if (own := symbol(one)) is not None:
                symbols.setdefault(own, made.sizes[k])
    else:
        made = graph.input(TensorDesc(layout.data_type, [evaluate(one, symbols) for one in sizes] or (1,)), name)
    if layout.is_scalar:
        return dml.reshape(made, ())  # type: ignore[no-any-return]  # an expression, as its argument is
    return made if layout.order is None else dml.transpose(made, layout.inverse)


def _constant(graph: Graph, tensor: Any) -> Expression:
    """A tensor that nobody changes, of the same memory where it is packed."""
    data_type = STORED[tensor.dtype]
    array = as_stored(on_host(tensor.detach()).contiguous()).numpy()
    if array.size <= 1:
        return graph.constant(array)
    shared = SharedData(array.nbytes, lambda: array)
    return graph.constant(shared, desc=TensorDesc(data_type, array.shape))


def _checked(context: Context, made: Any) -> Any:
    """A lowering's result, of the type and sizes that PyTorch says."""
    value = context.node.meta["val"]
    if not isinstance(value, (list, tuple)):
        return _check_one(context, made, None)
    return tuple(None if one is None else _check_one(context, one, k) for k, one in enumerate(made))


def _check_one(context: Context, made: Any, k: int | None) -> Any:
    kind = context.data_type(k)
    if made.data_type is not kind:
        if str(context.dtype(k)) == "torch.bool" or made.data_type.is_float != kind.is_float:
            raise NotLoweredError(f"a result of {made.data_type.name} where PyTorch has {context.dtype(k)}")
        made = cast(made, kind)
    wanted = [present(one) for one in context.sizes(k)]
    found = [present(one) for one in made.sizes]
    if wanted == found:
        return made
    if np.prod(wanted) == np.prod(found) == 1:
        return dml.reshape(made, context.sizes(k))
    raise NotLoweredError(f"a result of sizes {found} where PyTorch has {wanted}")
