"""A small convolution network, trained by DirectML's own gradient and optimiser operators, as PyTorch trains it.

Two convolutions, a largest and a mean pooling, one product: pictures of bars, in four directions, are told apart. The
whole step is one graph, compiled once: forward, the loss, every gradient, and Adam.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

import anydml as dml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COUNT, SIDE, CHANNELS, KINDS, STEPS, RATE = 32, 12, 8, 4, 30, 0.01
SHAPES = {
    "w1": (CHANNELS, 1, 3, 3),
    "b1": (1, CHANNELS, 1, 1),
    "w2": (CHANNELS, CHANNELS, 3, 3),
    "b2": (1, CHANNELS, 1, 1),
    "w3": (CHANNELS * (SIDE // 4) ** 2, KINDS),
    "b3": (1, KINDS),
}
SAME = {"start_padding": 1, "end_padding": 1}
"""The padding with which a window of 3 leaves the sizes as they are."""


def make_parameters() -> list[Any]:
    """Small random numbers, by the inputs that each is multiplied by."""
    rng = np.random.default_rng(0)
    inputs = {"w1": 9, "w2": 9 * CHANNELS, "w3": SHAPES["w3"][0]}
    return [
        (rng.standard_normal(shape) / math.sqrt(inputs[name]) if name in inputs else np.zeros(shape)).astype("float32")
        for name, shape in SHAPES.items()
    ]


def draw_batch(rng: Any) -> tuple[Any, Any]:
    """Pictures of a bar that lies, stands or leans, with noise; and which of these each shows."""
    kinds = rng.integers(0, KINDS, COUNT)
    down, right = np.mgrid[:SIDE, :SIDE] - SIDE // 2
    lines = np.stack([down, right, down - right, down + right])
    distances = lines[kinds] - rng.integers(-2, 3, (COUNT, 1, 1))
    pictures = (np.abs(distances) < 1.5) + 0.3 * rng.standard_normal((COUNT, SIDE, SIDE))
    return pictures.astype("float32")[:, None], kinds.astype("uint32")[:, None]


def compile_step(device: str = "cpu") -> dml.CompiledGraph:
    """Pictures, kinds, the step's number, the parameters and two moments of each make the loss and the next ones."""
    graph: Any = dml.Graph(device)
    ops: Any = dml
    pictures = graph.input(dml.TensorDesc("float32", (COUNT, 1, SIDE, SIDE)), "pictures")
    kinds = graph.input(dml.TensorDesc("uint32", (COUNT, 1)), "kinds")
    number = graph.input(dml.TensorDesc("uint32", (1,)), "step")
    state = [
        [graph.input(dml.TensorDesc("float32", shape), name + what) for name, shape in SHAPES.items()]
        for what in ("", "_mean", "_square")
    ]
    w1, b1, w2, b2, w3, b3 = state[0]

    first = ops.convolution(pictures, w1, b1, **SAME)
    bent1 = ops.relu(first)
    largest = ops.max_pooling(bent1, 2, strides=2)
    second = ops.convolution(largest, w2, b2, **SAME)
    bent2 = ops.relu(second)
    means = ops.average_pooling(bent2, 2, strides=2)
    flat = means.reinterpret((COUNT, SHAPES["w3"][0]))
    scores = ops.gemm(flat, w3) + b3

    wanted = ops.one_hot(kinds, graph.constant(np.array([0, 1], "float32")), (COUNT, KINDS), axis=1)
    loss = ops.reduce(ops.log_softmax(scores, axis=1) * wanted, "SUM") * (-1 / COUNT)

    to_scores = (ops.softmax(scores, axis=1) - wanted) * (1 / COUNT)  # of the two functions above together
    to_w3, to_b3 = ops.gemm(flat, to_scores, trans_a=True), ops.reduce(to_scores, "SUM", axes=0)
    to_means = ops.gemm(to_scores, w3, trans_b=True).reinterpret(means.sizes)
    to_bent2 = ops.average_pooling_grad(to_means, 2, strides=2, output_sizes=bent2.sizes)
    to_second = ops.relu_grad(second, to_bent2)
    to_largest = ops.convolution(to_second, w2, direction="BACKWARD", output_sizes=largest.sizes, **SAME)
    to_bent1 = ops.max_pooling_grad(bent1, to_largest, 2, strides=2)
    to_first = ops.relu_grad(first, to_bent1)

    def to_filter(x: Any, gradient: Any) -> Any:
        """The elements where the filter looked, times the gradient there: a convolution whose channels are pictures."""
        found = ops.convolution(turned(x), turned(gradient), **SAME)
        return turned(found)

    def to_channels(gradient: Any) -> Any:
        return ops.reduce(gradient, "SUM", axes=[0, 2, 3])

    gradients = [
        to_filter(pictures, to_first), to_channels(to_first), to_filter(largest, to_second), to_channels(to_second),
        to_w3, to_b3,
    ]  # fmt: skip
    steps = [
        ops.adam_optimizer(*own, gradient, number.reinterpret((1,) * len(own[0].sizes)), learning_rate=RATE)
        for *own, gradient in zip(*state, gradients, strict=True)
    ]
    compiled: dml.CompiledGraph = graph.compile([loss, *(one for kind in zip(*steps, strict=True) for one in kind)])
    return compiled


def turned(x: Any) -> Any:
    """The same memory with the first two dimensions exchanged."""
    (first, second, *rest), (one, two, *others) = x.sizes, x.strides
    return x.reinterpret((second, first, *rest), strides=(two, one, *others))


def train(step: Callable[..., Any]) -> Iterator[tuple[float, list[Any]]]:
    """The loss at each step, and the parameters after it."""
    rng, parameters = np.random.default_rng(1), make_parameters()
    state = [*parameters, *(np.zeros_like(one) for one in parameters * 2)]
    for number in range(STEPS):
        loss, *state = step(*draw_batch(rng), np.array([number + 1], "uint32"), *state)
        yield loss.item(), state[: len(SHAPES)]


def train_by_torch(torch: Any) -> Iterator[tuple[float, list[Any]]]:
    """The same by PyTorch's functions, automatic gradients and optimiser."""
    functions, rng = torch.nn.functional, np.random.default_rng(1)
    parameters = [torch.tensor(one, requires_grad=True) for one in make_parameters()]
    w1, b1, w2, b2, w3, b3 = parameters
    optimiser = torch.optim.Adam(parameters, lr=RATE)
    for number in range(STEPS):
        # DirectML adds Epsilon to the root before that is corrected for the first steps, PyTorch after.
        optimiser.param_groups[0]["eps"] = 1e-8 / math.sqrt(1 - 0.999 ** (number + 1))
        pictures, kinds = map(torch.from_numpy, draw_batch(rng))
        largest = functions.max_pool2d(functions.conv2d(pictures, w1, b1.reshape(-1), padding=1).relu(), 2)
        means = functions.avg_pool2d(functions.conv2d(largest, w2, b2.reshape(-1), padding=1).relu(), 2)
        loss = functions.cross_entropy(means.reshape(COUNT, -1) @ w3 + b3, kinds[:, 0].long())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        yield loss.item(), [one.detach().numpy() for one in parameters]


def main() -> None:
    """Train, and compare where PyTorch is there."""
    steps = [*train(compile_step())]
    losses = [loss for loss, _ in steps]
    print(f"the loss of {STEPS} steps: " + ", ".join(f"{loss:.3f}" for loss in losses[::5]) + f" … {losses[-1]:.3f}")
    try:
        import torch
    except ImportError:
        print("PyTorch is not here to compare with")
        return
    others = [loss for loss, _ in train_by_torch(torch)]
    print(f"PyTorch's differs by {np.abs(np.subtract(losses, others)).max():.0e} at most")


if __name__ == "__main__":
    main()
