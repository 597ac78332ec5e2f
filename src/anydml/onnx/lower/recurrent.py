"""RNN, LSTM and GRU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.core.enums import DataType
from anydml.core.memory import packed_strides
from anydml.onnx.element_types import element_of
from anydml.onnx.lower.cumulative import within
from anydml.operators import FusedActivation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from anydml.onnx.lower.bound_node import BoundNode
    from anydml.onnx.lower.values import Value

    Lowering = Callable[[BoundNode], list[Value | None]]

_ACTIVATIONS: dict[str, tuple[str, dict[str, float]]] = {
    "affine": ("LINEAR", {"alpha": 1.0, "beta": 0.0}),
    "elu": ("ELU", {"alpha": 1.0}),
    "hardsigmoid": ("HARD_SIGMOID", {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": ("LEAKY_RELU", {"alpha": 0.01}),
    "relu": ("RELU", {}),
    "scaledtanh": ("SCALED_TANH", {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": ("SIGMOID", {}),
    "softplus": ("SOFTPLUS", {}),
    "softsign": ("SOFTSIGN", {}),
    "tanh": ("TANH", {}),
    "thresholdedrelu": ("THRESHOLDED_RELU", {"alpha": 1.0}),
}
"""By ONNX's name in any case: DirectML's, and what ONNX has where alpha and beta are not given."""
_DIRECTIONS = {"forward": "FORWARD", "reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}
_USUAL = {"RNN": ("Tanh",), "LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh")}
_GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}


def layer(function: Callable[..., Any]) -> Lowering:
    """A recurrent layer, of DirectML's function."""

    def lower(node: BoundNode) -> list[Value | None]:
        return _Layer(node, function).lower()

    return lower


class _Layer:
    def __init__(self, node: BoundNode, function: Callable[..., Any]) -> None:
        self._node, self._function = node, function
        self._x, self._weight, self._recurrence = (node.input(i) for i in range(3))
        for name, value in zip("XWR", (self._x, self._weight, self._recurrence), strict=True):
            node.check_rank(name, value, 3)
        self._direction = node.one_of("direction", _DIRECTIONS)
        self._ways = 2 if self._direction == "bidirectional" else 1
        self._is_by_batch = "layout" in node.rules.attributes and bool(node.integer("layout"))
        first, second, self._inputs = self._x.shape
        self._times, self._batch = (second, first) if self._is_by_batch else (first, second)
        self._size = self._recurrence.shape[2]
        if node.has("hidden_size") and node.integer("hidden_size") != self._size:
            rule = f"hidden_size must be {self._size}, the last size of R"
            node.refuse("hidden_size", rule, found=str(node.integer("hidden_size")))

    # Inputs

    def _states_first(self, value: Value) -> Value:
        """A tensor with a batch first, with its second dimension first: packed anew."""
        if not self._is_by_batch:
            return value
        sizes, strides = value.shape, packed_strides(value.shape)
        order = (1, 0, *range(2, len(sizes)))
        return self._node.tracer.restride(value, tuple(sizes[k] for k in order), tuple(strides[k] for k in order))

    def _given(self) -> Iterator[tuple[str, Value, tuple[int, ...]]]:
        """The inputs that there are: the function's argument, the value, and the sizes that DirectML asks for."""
        node, rows, is_lstm = self._node, _GATES[self._node.kind] * self._size, self._node.kind == "LSTM"
        state = (self._ways, self._batch, self._size)
        yield "x", self._states_first(self._x), (1, self._times, self._batch, self._inputs)
        yield "weight", self._shaped("W", 1, (self._ways, rows, self._inputs)), (1, self._ways, rows, self._inputs)
        yield "recurrence", self._shaped("R", 2, (self._ways, rows, self._size)), (1, self._ways, rows, self._size)
        if node.optional(3) is not None:
            yield "bias", self._shaped("B", 3, (self._ways, 2 * rows)), (1, 1, self._ways, 2 * rows)
        for index, name, argument in ((5, "initial_h", "hidden_init"), (6, "initial_c", "cell_mem_init")):
            if node.optional(index) is not None and (index == 5 or is_lstm):
                value = self._shaped(name, index, (self._batch, *state[::2]) if self._is_by_batch else state)
                yield argument, self._states_first(value), (1, *state)
        if node.optional(4) is not None:
            lengths = self._shaped("sequence_lens", 4, (self._batch,))
            yield "sequence_lengths", within(node, lengths, self._times, _UINT32), (1, 1, 1, self._batch)
        if is_lstm and node.optional(7) is not None:
            yield "peephole", self._shaped("P", 7, (self._ways, 3 * self._size)), (1, 1, self._ways, 3 * self._size)

    def _shaped(self, name: str, index: int, shape: tuple[int, ...]) -> Value:
        value = self._node.input(index)
        self._node.check_shape(name, value, shape)
        return value

    # Attributes

    def _activations(self) -> list[FusedActivation]:
        node = self._node
        usual = list(_USUAL[node.kind]) * self._ways
        names = node.texts("activations") if node.has("activations") else usual  # ONNX says two for any RNN
        if len(names) != len(usual):
            node.refuse("activations", f"activations must have {len(usual)} names", value=names)
        given = {key: f"activation_{key}" for key in ("alpha", "beta")}
        numbers = {key: iter(node.reals(name) if node.has(name) else ()) for key, name in given.items()}
        return [self._activation(name, numbers) for name in names]

    def _activation(self, name: str, numbers: dict[str, Iterator[float]]) -> FusedActivation:
        """Numbers are taken in the order of the functions that have them."""
        if name.lower() not in _ACTIVATIONS:
            known = ", ".join(sorted(_ACTIVATIONS))
            self._node.refuse("activations", f"activations must be of {known}, in any case", value=name)
        kind, usual = _ACTIVATIONS[name.lower()]
        return FusedActivation(kind, **{key: next(numbers[key], default) for key, default in usual.items()})

    def _options(self) -> dict[str, Any]:
        node = self._node
        direction = _DIRECTIONS[self._direction]
        options: dict[str, Any] = {"activation_descs": self._activations(), "direction": direction}
        if node.has("clip"):
            if node.kind != "LSTM":
                node.unsupported("clip", f"clip is not supported: DirectML's {node.kind} has none")
            options |= {"clip_threshold": node.real("clip"), "use_clip_threshold": True}
        if node.kind == "LSTM":
            options["couple_input_forget"] = bool(node.integer("input_forget"))
        if node.kind == "GRU" and "linear_before_reset" in node.rules.attributes:
            options["linear_before_reset"] = bool(node.integer("linear_before_reset"))
        return options

    # Outputs

    def lower(self) -> list[Value | None]:
        """Every output that the node may have, those that are not asked for left to whoever drops them."""
        node = self._node
        times, batch, size, ways = self._times, self._batch, self._size, self._ways
        state = (1, ways, batch, size)
        shapes = [(times, ways, batch, size), state, *([state] if node.kind == "LSTM" else [])]
        if 0 in (batch, size, ways) or not times:
            node.unsupported("X", "a sequence must have at least one step, and states at least one element")
        names, values, sizes = zip(*self._given(), strict=True)
        values = tuple(node.tracer.reshape(value, own) for value, own in zip(values, sizes, strict=True))

        def call(*tensors: Any, **options: Any) -> Any:
            single = {"output_single": True, **({"output_cell_single": True} if node.kind == "LSTM" else {})}
            return self._function(**dict(zip(names, tensors, strict=True)), **single, **options)

        sequence, *states = node.tracer.apply_for_list(call, values, shapes, **self._options())
        found: list[Value | None] = [self._sequence(sequence)]
        for one in states:
            own = node.tracer.reshape(one, (ways, batch, size))
            if self._is_by_batch:
                own = node.tracer.restride(own, (batch, ways, size), (size, batch * size, 1))
            found.append(own)
        return found[: node.output_count]

    def _sequence(self, value: Value) -> Value:
        if not self._is_by_batch:
            return value
        times, ways, batch, size = value.shape
        strides = (size, ways * batch * size, batch * size, 1)
        return self._node.tracer.restride(value, (batch, times, ways, size), strides)


_UINT32 = element_of(DataType.UINT32)
