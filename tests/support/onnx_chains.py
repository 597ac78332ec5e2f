"""Random chains of ONNX nodes that move elements."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from onnx_models import node

LIMITS = [-(2**63), 2**63 - 1, -(2**31), 2**31 - 1]


class Chain:
    """A model that grows by a node at a time, and the shape of what it gives."""

    def __init__(self, draw: Any, dtype: str, shape: tuple[int, ...]) -> None:
        self.draw, self.dtype, self.shape = draw, dtype, shape
        self.x = np.arange(np.prod(shape)).reshape(shape) * 7 % 23
        self.x = self.x.astype(dtype) if dtype != "bool" else self.x % 3 == 0
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.last = "x"

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, kind: str, inputs: str, result: Any, outputs: int = 1, **attributes: Any) -> None:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(node(kind, f"{self.last} {inputs}", " ".join(names), **attributes))
        self.last, self.shape = names[-1], tuple(result)

    def axis(self) -> int:
        return int(self.draw(st.integers(0, len(self.shape) - 1)))

    def draw_from(self, low: int, high: int, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
        count = int(np.prod(sizes))
        values = self.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
        return np.array(values, self.draw(st.sampled_from(["int32", "int64"]))).reshape(sizes)

    # Each makes one node

    def slice(self) -> None:
        axes = self.draw(st.permutations(range(len(self.shape))))[: self.draw(st.integers(1, len(self.shape)))]
        bounds = st.one_of(st.integers(-6, 6), st.sampled_from(LIMITS))
        steps = [self.draw(st.sampled_from([1, 1, 2, 3, -1, -2, 2**40])) for _ in axes]
        starts, ends = ([self.draw(bounds) for _ in axes] for _ in range(2))
        given = [self.constant(np.array(values, "int64")) for values in (starts, ends, axes, steps)]
        shape = list(self.shape)
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            shape[axis] = count_taken(start, end, step, shape[axis])
        self.add("Slice", " ".join(given), shape)

    def transpose(self) -> None:
        order = self.draw(st.permutations(range(len(self.shape))))
        self.add("Transpose", "", [self.shape[k] for k in order], perm=order)

    def reshape(self) -> None:
        self.add("Reshape", self.constant(np.array([0, -1])), [self.shape[0], int(np.prod(self.shape[1:]))])

    def unsqueeze(self) -> None:
        axis = self.axis()
        self.add("Unsqueeze", self.constant([axis]), [*self.shape[:axis], 1, *self.shape[axis:]])

    def flatten(self) -> None:
        axis = self.axis()
        shape = [int(np.prod(self.shape[:axis])), int(np.prod(self.shape[axis:]))]
        self.add("Flatten", "", shape, axis=axis - len(self.shape) if axis else 0)

    def expand(self) -> None:
        self.add("Expand", self.constant([2, *([1] * len(self.shape))]), [2, *self.shape])

    def concat(self) -> None:
        axis = self.axis()
        shape = [2 * n if k == axis else n for k, n in enumerate(self.shape)]
        self.add("Concat", self.last, shape, axis=axis)

    def split(self) -> None:
        axis, n = self.axis(), 0
        n = int(self.draw(st.integers(0, self.shape[axis])))
        sizes = self.constant([n, self.shape[axis] - n])
        shape = [self.shape[axis] - n if k == axis else m for k, m in enumerate(self.shape)]
        self.add("Split", sizes, shape, outputs=2, axis=axis)

    def gather(self) -> None:
        axis = self.axis()
        n = self.shape[axis]
        indices = self.draw_from(-n, n - 1, self.draw(st.sampled_from([(), (3,), (2, 1)])))
        shape = [*self.shape[:axis], *indices.shape, *self.shape[axis + 1 :]]
        self.add("Gather", self.constant(indices), shape, axis=axis)

    def gather_elements(self) -> None:
        axis = self.axis()
        sizes = tuple(3 if k == axis else max(n - 1, 1) for k, n in enumerate(self.shape))
        indices = self.draw_from(-self.shape[axis], self.shape[axis] - 1, sizes)
        self.add("GatherElements", self.constant(indices), sizes, axis=axis)

    def gather_nd(self) -> None:
        indices = self.draw_from(-self.shape[0], self.shape[0] - 1, (2, 2, 1)).astype("int64")
        self.add("GatherND", self.constant(indices), [2, 2, *self.shape[1:]])

    def cum_sum(self) -> None:
        axis, flags = self.axis(), [self.draw(st.integers(0, 1)) for _ in range(2)]
        self.add("CumSum", self.constant(np.array(axis)), self.shape, exclusive=flags[0], reverse=flags[1])

    def reverse_sequence(self) -> None:
        lengths = self.draw_from(1, self.shape[0], (self.shape[1],)).astype("int64")
        self.add("ReverseSequence", self.constant(lengths), self.shape)

    def grow(self) -> None:
        moves = [self.transpose, self.unsqueeze, self.flatten, self.expand, self.concat, self.split]
        if 0 not in self.shape:
            moves += [self.slice, self.slice, self.reshape, self.gather, self.gather_elements, self.gather_nd]
            moves += [self.cum_sum] * (self.dtype in ("int64", "int32"))
            moves += [self.reverse_sequence] * (len(self.shape) > 1)
        if self.shape:
            self.draw(st.sampled_from(moves))()


def count_taken(start: int, end: int, step: int, size: int) -> int:
    """The count of elements that ONNX's Slice takes, by walking; backwards the greatest ends are open ones."""
    if step < 0 and end in LIMITS[1::2]:
        end = LIMITS[0]
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    start = min(max(start, 0), size if step > 0 else size - 1)
    end = min(max(end, 0 if step > 0 else -1), size if step > 0 else size - 1)
    return len(range(start, end, step))
