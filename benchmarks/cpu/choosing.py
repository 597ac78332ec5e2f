"""The rows of what chooses and what trains: the largest elements, rows scattered, random numbers, a step of Adam."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.cpu.rows import CpuRow
from benchmarks.row import size

T = dml.TensorDesc


@dataclass(kw_only=True)
class ChoosingRow(CpuRow):
    """A row of an operator that reads and writes each of its tensors once."""

    family: str = "choosing"
    exact: bool = True
    numpy: Any = None
    torch: Any = None
    ignored: frozenset[str] = field(default_factory=frozenset)
    """Tensors that are not worth counting."""

    @property
    def bytes(self) -> int:
        return sum(size(tensor) for name, tensor in self.desc.tensors().items() if name not in self.ignored)


def top_row(name: str, shape: tuple[int, ...], count: int, rng: np.random.Generator) -> ChoosingRow:
    """The largest along the last axis, the largest first, and where they lie."""
    x = rng.random(shape, np.float32)
    desc = dml.TopK.infer(input_tensor=T.of(x), axis=x.ndim - 1, k=count)

    def by_numpy(_out: np.ndarray) -> np.ndarray:
        places = np.argpartition(x, -count, -1)[..., -count:]
        found: np.ndarray = -np.sort(-np.take_along_axis(x, places, -1), -1)
        return found

    def by_torch(torch: Any) -> Any:
        tensor = torch.from_numpy(x)
        return lambda _out: torch.topk(tensor, count)[0]

    onnx = {"op": "TopK", "constants": [[count]], "outputs": ["y", "places"]}
    return ChoosingRow(name=name, inputs=[x], desc=desc, numpy=by_numpy, torch=by_torch, onnx=onnx)


def scatter_row(name: str, shape: tuple[int, int], count: int, rng: np.random.Generator) -> ChoosingRow:
    """Rows written over some of a matrix's, the rest copied."""
    x, rows = rng.random(shape, np.float32), rng.random((count, shape[1]), np.float32)
    places = rng.permutation(shape[0])[:count, None]  # each once: which of two stays is nobody's promise but ours
    tensors = zip(("input_tensor", "indices_tensor", "updates_tensor"), map(T.of, (x, places, rows)), strict=True)
    desc = dml.ScatterND.infer(**dict(tensors), input_dimension_count=2, indices_dimension_count=2)

    def by_numpy(out: np.ndarray) -> None:
        np.copyto(out, x)
        out[places[:, 0]] = rows

    def by_torch(torch: Any) -> Any:
        tensor, at, new = map(torch.from_numpy, (x, places[:, 0].copy(), rows))
        return lambda out: torch.index_copy(tensor, 0, at, new, out=out)

    onnx = {"op": "ScatterND", "constants": []}
    return ChoosingRow(name=name, inputs=[x, places, rows], desc=desc, numpy=by_numpy, torch=by_torch, onnx=onnx)


def random_row(name: str, count: int) -> ChoosingRow:
    """Random words, of which any others are as right."""
    state = np.arange(6, dtype=np.uint32)
    desc = dml.RandomGenerator(input_state_tensor=T.of(state), output_tensor=T("uint32", (count,)))
    generator = np.random.default_rng(0)

    def by_numpy(_out: np.ndarray) -> np.ndarray:
        return generator.integers(0, 2**32, count, np.uint32)

    def by_torch(torch: Any) -> Any:
        tensor = torch.empty(count, dtype=torch.int32)
        return lambda _out: tensor.random_()

    return ChoosingRow(
        name=name, inputs=[state], desc=desc, numpy=by_numpy, torch=by_torch, exact=False, atol=2.0**32
    )  # fmt: skip


def adam_row(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> ChoosingRow:
    """A step of a rate of 0, so that parameters stay what they are: PyTorch's are updated in place."""
    x, mean, square, gradient = (rng.random(shape, np.float32) for _ in range(4))
    step = np.full((1,) * len(shape), 3, np.uint32)
    fields = ("input_parameters", "input_first_moment", "input_second_moment", "gradient", "training_step")
    inputs = [x, mean, square, gradient, step]
    tensors = {f"{field}_tensor": T.of(one) for field, one in zip(fields, inputs, strict=True)}
    desc = dml.AdamOptimizer.infer(**tensors, learning_rate=0.0)

    def by_torch(torch: Any) -> Any:
        parameter = torch.nn.Parameter(torch.from_numpy(x.copy()))
        parameter.grad = torch.from_numpy(gradient)
        optimiser = torch.optim.Adam([parameter], lr=0.0, fused=True)

        def run(_out: Any) -> Any:
            optimiser.step()
            return parameter.detach()

        return run

    return ChoosingRow(
        name=name, inputs=inputs, desc=desc, torch=by_torch, ignored=frozenset(["TrainingStepTensor"])
    )  # fmt: skip


def choosing(
    rng: np.random.Generator, quick: bool, side: int | None = None, only: str = ""
) -> list[partial[ChoosingRow]]:
    """Every row."""
    many, rows, wide = (side * side, side, side) if side else (2**20, 4096 if quick else 16_384, 1024)
    tall, few = (side, side // 2) if side else (65_536, 16_384)
    made = [
        partial(top_row, f"choosing, 16 largest of {many}", (many,), 16, rng),
        partial(top_row, f"choosing, 16 largest of rows of {wide}", (rows, wide), 16, rng),
        partial(scatter_row, f"choosing, {few} rows of {wide // 4} scattered", (tall, wide // 4), few, rng),
        partial(random_row, f"training, {4 * many} random numbers", 4 * many),
        partial(adam_row, f"training, Adam, {4 * many} parameters", (1, 1, 4, many), rng),
    ]
    return [make for make in made if only in make.args[0]]
