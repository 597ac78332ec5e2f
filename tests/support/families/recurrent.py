"""Recurrent networks: what they give in NumPy, step by step in float64, small examples and random descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml
from drawing import Operator, pick, upto
from families.elementwise import Array, activated

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis import strategies as st

GATES = {"RNN": 1, "LSTM": 4, "GRU": 3}
FUNCTIONS = {"RNN": 1, "LSTM": 3, "GRU": 2}
CELLS: dict[str, Callable[..., tuple[Array, Array]]] = {}
ACTIVATIONS: tuple[Any, ...] = (
    "TANH", "SIGMOID", "RELU", "SOFTSIGN", "HARD_SIGMOID", {"Type": "ELU", "Alpha": 0.5}, "SOFTPLUS", "SCALED_TANH",
    {"Type": "LEAKY_RELU", "Alpha": 0.5}, {"Type": "LINEAR", "Alpha": 0.5, "Beta": 0.25}, "IDENTITY",
)  # fmt: skip


MOST = 1e12
"""Of a sum in a step: products of three are still numbers of FLOAT32."""


def expected(desc: Any, arrays: dict[str, Array]) -> list[Array]:
    """The outputs that are asked for: one direction, sequence and step after the other.

    From the step on that passes what FLOAT32 has on its way, or its own type in its states, they are NaN: 0 times an
    infinity here may be 0 times a number there.
    """
    kind, count = desc.type.name, FUNCTIONS[desc.type.name]
    x = arrays["InputTensor"][0].astype(np.float64)
    ways, size = arrays["RecurrenceTensor"].shape[1::2]
    states = np.zeros((2, 1, ways, x.shape[1], size))
    sequence = np.zeros((len(x), *states.shape[2:]))
    lengths = arrays.get("SequenceLengthsTensor", np.full(x.shape[1], len(x))).reshape(-1)
    for way, batch in np.ndindex(ways, x.shape[1]):
        is_back = way == 1 or desc.direction is dml.RecurrentNetworkDirection.BACKWARD
        f = [lambda v, one=one: activated(v, one) for one in desc.activation_descs[count * way : count * (way + 1)]]
        for k, field in enumerate(("HiddenInitTensor", "CellMemInitTensor")):
            states[k, 0, way, batch] = arrays[field][0, way, batch] if field in arrays else 0
        steps = range(min(int(lengths[batch]), len(x)))
        for t in reversed(steps) if is_back else steps:
            gates = _Gates(kind, arrays, way, x[t, batch])
            new = np.array(CELLS[kind](desc, gates, f, *states[:, 0, way, batch]))
            largest = float(np.finfo(arrays["InputTensor"].dtype).max)
            is_known = gates.largest < MOST and (np.abs(new) <= largest).all()
            states[:, 0, way, batch] = new if is_known else np.nan
            sequence[t, way, batch] = states[0, 0, way, batch]
    wanted = {"OutputSequenceTensor": sequence, "OutputSingleTensor": states[0], "OutputCellSingleTensor": states[1]}
    return [wanted[name] for name in desc.outputs()]


class _Gates:
    """The sums of a step."""

    def __init__(self, kind: str, arrays: dict[str, Array], way: int, x: Array) -> None:
        weight, recurrence = (arrays[f"{name}Tensor"][0, way].astype(np.float64) for name in ("Weight", "Recurrence"))
        self.size = recurrence.shape[1]
        bias = arrays["BiasTensor"][0, 0, way] if "BiasTensor" in arrays else np.zeros(2 * len(weight))
        self.own = weight @ x + bias[: len(weight)]
        self.recurrence, self.bias = recurrence, bias[len(weight) :].astype(np.float64)
        self.largest = 0.0
        """Of the sums so far."""
        self.peepholes = arrays["PeepholeTensor"][0, 0, way] if "PeepholeTensor" in arrays else np.zeros(3 * self.size)

    def rows(self, gate: int) -> slice:
        return slice(gate * self.size, (gate + 1) * self.size)

    def by(self, gate: int, hidden: Array) -> Array:
        """The product of a gate's recurrence with a state, and its bias."""
        found = np.asarray(self.recurrence[self.rows(gate)] @ hidden + self.bias[self.rows(gate)])
        self.largest = np.abs(found).max(initial=self.largest)
        return found

    def total(self, gate: int, hidden: Array) -> Array:
        return np.asarray(self.own[self.rows(gate)] + self.by(gate, hidden))


def _rnn(_: Any, gates: _Gates, f: Any, hidden: Array, cell: Array) -> tuple[Array, Array]:
    return f[0](gates.total(0, hidden)), cell


def _lstm(desc: Any, gates: _Gates, f: Any, hidden: Array, cell: Array) -> tuple[Array, Array]:
    most = desc.clip_threshold if desc.use_clip_threshold else np.inf

    def gate(k: int, cell: Array) -> Array:
        return np.asarray(f[0](np.clip(gates.total(k, hidden) + gates.peepholes[gates.rows(k)] * cell, -most, most)))

    let_in = gate(0, cell)
    kept = 1 - let_in if desc.couple_input_forget else gate(2, cell)
    new = kept * cell + let_in * f[1](np.clip(gates.total(3, hidden), -most, most))
    return gate(1, new) * f[2](new), new


def _gru(desc: Any, gates: _Gates, f: Any, hidden: Array, cell: Array) -> tuple[Array, Array]:
    z, r = (f[0](gates.total(k, hidden)) for k in range(2))
    inner = gates.by(2, hidden) * r if desc.linear_before_reset else gates.by(2, r * hidden)
    return (1 - z) * f[1](gates.own[gates.rows(2)] + inner) + z * hidden, cell


CELLS |= {"RNN": _rnn, "LSTM": _lstm, "GRU": _gru}
ORACLE: dict[str, Callable[[Any, dict[str, Array]], Any]] = dict.fromkeys(GATES, expected)


# Small whole numbers, of which sums are exact


def _small(kind: str, functions: list[Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    rows = GATES[kind] * 2
    sizes = {"InputTensor": (1, 3, 2, 2), "WeightTensor": (1, 1, rows, 2), "RecurrenceTensor": (1, 1, rows, 2)}
    sizes |= {"BiasTensor": (1, 1, 1, 2 * rows), "HiddenInitTensor": (1, 1, 2, 2)}
    if kind == "LSTM":
        sizes |= {"CellMemInitTensor": (1, 1, 2, 2), "PeepholeTensor": (1, 1, 1, 6)}
    arrays = {name: (np.arange(np.prod(own)) % 5 - 2.0).astype("float32").reshape(own) for name, own in sizes.items()}
    arrays["SequenceLengthsTensor"] = np.array([2, 3], "uint32").reshape(1, 1, 1, 2)
    return arrays, {"activation_descs": functions, "output_single_tensor": True}


_STEEP = {"Type": "HARD_SIGMOID", "Alpha": 4, "Beta": 0.5}
SMALL = {
    "RNN": _small("RNN", ["RELU"]),
    "LSTM": _small("LSTM", [_STEEP, _STEEP, "IDENTITY"]),
    "GRU": _small("GRU", [_STEEP, {"Type": "LINEAR", "Alpha": 0.25, "Beta": 1}]),
}


def recurrent_sizes(draw: st.DrawFn, cls: Operator) -> tuple[dict[str, tuple[int, ...]], dict[str, Any]]:
    """The sizes of the tensors by DirectML's names, and the attributes."""
    kind, direction = cls.type.name, pick(draw, tuple(dml.RecurrentNetworkDirection))
    ways = 2 if direction is dml.RecurrentNetworkDirection.BIDIRECTIONAL else 1
    steps, batch, inputs, size = (1 + draw(upto(most)) for most in (3, 2, 3, 4))
    rows, state = GATES[kind] * size, (1, ways, batch, size)
    attributes: dict[str, Any] = {
        "direction": direction,
        "activation_descs": [pick(draw, ACTIVATIONS) for _ in range(ways * FUNCTIONS[kind])],
    }
    if kind == "LSTM":
        attributes |= {"clip_threshold": 0.75} | {
            name: pick(draw, (False, True)) for name in ("use_clip_threshold", "couple_input_forget")
        }
    if kind == "GRU":
        attributes["linear_before_reset"] = pick(draw, (False, True))
    return {
        "InputTensor": (1, steps, batch, inputs),
        "WeightTensor": (1, ways, rows, inputs),
        "RecurrenceTensor": (1, ways, rows, size),
        "BiasTensor": (1, 1, ways, 2 * rows),
        "SequenceLengthsTensor": (1, 1, 1, batch),
        "PeepholeTensor": (1, 1, ways, 3 * size),
        "OutputSequenceTensor": (steps, ways, batch, size),
        **dict.fromkeys(
            ("HiddenInitTensor", "CellMemInitTensor", "OutputSingleTensor", "OutputCellSingleTensor"), state
        ),
    }, attributes
