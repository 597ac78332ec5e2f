"""Which page of the documents has which examples, and those that the table of cases does not have.

A page that contradicts itself is named, with what holds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import anydml as dml
from cases import CASES
from doors import as_list
from places import get, put

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGES = {
    "ACTIVATION_HARDMAX1": 3, "ACTIVATION_LOG_SOFTMAX1": 3, "ARGMAX": 3, "ARGMIN": 3, "AVERAGE_POOLING_GRAD": 1,
    "CUMULATIVE_PRODUCT": 4, "CUMULATIVE_SUMMATION": 4, "DEPTH_TO_SPACE": 1, "DEPTH_TO_SPACE1": 2,
    "DIAGONAL_MATRIX": 4, "DIAGONAL_MATRIX1": 4, "ELEMENT_WISE_BIT_COUNT": 1, "ELEMENT_WISE_BIT_NOT": 1,
    "ELEMENT_WISE_BIT_XOR": 1, "ELEMENT_WISE_IF": 1, "FILL_VALUE_CONSTANT": 1, "FILL_VALUE_SEQUENCE": 2, "FOLD": 3,
    "GATHER": 5, "GATHER_ELEMENTS": 1, "GATHER_ND": 2, "GATHER_ND1": 2, "JOIN": 2, "MAX_POOLING_GRAD": 1,
    "NONZERO_COORDINATES": 1, "ONE_HOT": 4, "PADDING": 4, "PADDING1": 4, "RANDOM_GENERATOR": 1, "REDUCE": 3,
    "RESAMPLE_GRAD": 1, "RESAMPLE_GRAD1": 1, "REVERSE_SUBSEQUENCES": 2, "ROI_ALIGN1": 4, "ROI_ALIGN_GRAD": 1,
    "SCATTER": 2, "SCATTER_ND": 1, "SLICE": 2, "SLICE1": 2, "SLICE_GRAD": 1, "SPACE_TO_DEPTH": 1, "SPACE_TO_DEPTH1": 2,
    "SPLIT": 2, "TILE": 1, "TOP_K": 3, "TOP_K1": 4, "UNFOLD": 2,
}  # fmt: skip
"""How many examples a page has; those of the other operators have formulas."""


class Example(NamedTuple):
    """An example that is no case of the table: those have results of every type."""

    page: str
    number: int
    function: Any
    inputs: Sequence[Any]
    result: Any
    attributes: dict[str, Any]
    says: str = ""
    """What the page has in place of what holds."""


def floats(*values: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(value, "float32") for value in values]


def counted(*sizes: int) -> np.ndarray[Any, Any]:
    return np.arange(np.prod(sizes), dtype="float32").reshape(sizes)


def log_softmax(x: np.ndarray[Any, Any], axes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    low = x.astype("float64") - x.max(axes, keepdims=True)
    found: np.ndarray[Any, Any] = low - np.log(np.exp(low).sum(axes, keepdims=True))
    return found


def next_state(state: Any, device: dml.Device) -> Any:
    """Without the numbers, which nobody asks for."""
    graph = dml.Graph(device)
    found: Any = dml.random_generator(graph.input(dml.TensorDesc("uint32", (6,))), (3, 3, 20, 7219), output_state=True)
    return graph.compile(found[1])(state)


FIVES, SIXES = counted(1, 1, 5, 5), 10 * np.arange(6)[:, None] + np.arange(6)
PADS = {"start_padding": [0, 0, 1, 2], "end_padding": [0, 0, 3, 4]}
FOURS = floats([[[[1, 2, 3, 4], [5, 6, 7, 8], [1, 2, 3, 4], [5, 6, 7, 8]]]])
EDGE, SYMMETRIC = (
    [[1, 1, 1, 2, 3, 4, 4, 4, 4, 4], [5, 5, 5, 6, 7, 8, 8, 8, 8, 8]],
    [[2, 1, 1, 2, 3, 4, 4, 3, 2, 1], [6, 5, 5, 6, 7, 8, 8, 7, 6, 5]],
)
REFLECTED = [[7, 6, 5, 6, 7, 8, 7, 6, 5, 6], [3, 2, 1, 2, 3, 4, 3, 2, 1, 2]]
NINES, INSIDE = [9] * 10, [[9, 9, 1, 2, 3, 4, 9, 9, 9, 9], [9, 9, 5, 6, 7, 8, 9, 9, 9, 9]]
PADDED: list[tuple[dict[str, Any], Any]] = [
    ({"padding_mode": "CONSTANT", "padding_value": 9}, [NINES, *INSIDE * 2, NINES, NINES, NINES]),
    ({"padding_mode": "EDGE"}, [EDGE[0], *EDGE * 2, EDGE[1], EDGE[1], EDGE[1]]),
    ({"padding_mode": "REFLECTION"}, REFLECTED * 4),
    ({"padding_mode": "SYMMETRIC"}, [SYMMETRIC[0], *SYMMETRIC * 2, SYMMETRIC[1], *SYMMETRIC]),
]
FOLDED = [[26, 70, 102, 60], [78, 183, 231, 129], [84, 195, 243, 135], [82, 182, 214, 116]]
SECOND = [[170, 358, 390, 204], [294, 615, 663, 345], [300, 627, 675, 351], [226, 470, 502, 260]]
WINDOW: dict[str, Any] = {"window_sizes": [3, 3]}
TALL = {**WINDOW, "start_padding": [1, 0], "end_padding": [1, 0]}
CUBE = floats([[[12, 0], [-101, 11]], [[3, 234], [0, -101]]])
BYTES = np.array([[0, 128], [42, 255]], "uint8")
IS_HARDMAX = "what HARDMAX1 gives: the page's numbers are that one's"
REGION = [*floats([[[SIXES]]][0], [[1, 1, 3, 3]]), np.array([0], "uint32")]
STARTS = {(0.5, -0.5, False): (8.25, 0.5), (0, -0.5, False): (13.75, 0.5), (0, 0, False): (11, 0.5),
          (0, 0, True): (11, 2 / 3)}  # fmt: skip
"""By the offsets and whether corners are aligned, what the picture has first, and how far the next is on."""
COUNTER = [0x746F776E, 0x6D536561, 0x6F46726F, 0x48656C6C]
EXAMPLES = [
    *(Example("ACTIVATION_LOG_SOFTMAX1", k + 1, dml.log_softmax1, CUBE, log_softmax(CUBE[0], axes), {"axes": axes},
             IS_HARDMAX) for k, axes in enumerate(((1,), (0,), (0, 2)))),
    Example("AVERAGE_POOLING_GRAD", 1, dml.average_pooling_grad, floats([[[[1, 2], [3, 4]]]]),
            [[[[0.25, 0.75, 0.5], [1, 2.5, 1.5], [0.75, 1.75, 1]]]], {"window_size": [2, 2]}),
    Example("MAX_POOLING_GRAD", 1, dml.max_pooling_grad,
            floats([[[[1, 2, 3], [2, 4, 2], [5, 6, 7]]]], [[[[1, 2], [4, 5]]]]),
            [[[[0, 0, 0], [0, 3, 0], [0, 4, 5]]]], {"window_size": [2, 2]}),
    Example("DIAGONAL_MATRIX1", 1, dml.diagonal_matrix1, [], 7 * np.eye(4, 5),
            {"sizes": [4, 5], "value": 7.0, "diagonal_fill_begin": 0, "diagonal_fill_end": 1},
            "1 on the diagonal, for a Value of 7"),
    Example("ELEMENT_WISE_BIT_COUNT", 1, dml.bit_count, [np.array([[0, 123], [456, 789]], "uint32")],
            [[0, 6], [4, 5]], {}),
    Example("ELEMENT_WISE_BIT_NOT", 1, dml.bit_not, [BYTES],
            [[255, 127], [213, 0]], {}),
    Example("ELEMENT_WISE_BIT_XOR", 1, dml.bit_xor, [BYTES, np.full((2, 2), 255, "uint8")],
            [[255, 127], [213, 0]], {}, "one input: the page's numbers are BIT_NOT's, which is XOR with all ones"),
    Example("ELEMENT_WISE_IF", 1, dml.if_,
            [np.array([[1, 0], [1, 1]], "uint8"), *floats([[1, 2], [3, 4]], [[9, 8], [7, 6]])], [[1, 8], [3, 4]], {}),
    Example("FOLD", 1, dml.fold, [counted(1, 9, 4)],
            [[[[0, 5, 13, 9], [14, 38, 54, 32], [38, 86, 102, 56], [26, 57, 65, 35]]]],
            {**WINDOW, "output_sizes": [1, 1, 4, 4]}),
    Example("FOLD", 2, dml.fold, [counted(1, 9, 8)], [[FOLDED]], {**TALL, "output_sizes": [1, 1, 4, 4]}),
    Example("FOLD", 3, dml.fold, [counted(1, 18, 8)], [[FOLDED, SECOND]], {**TALL, "output_sizes": [1, 2, 4, 4]}),
    Example("UNFOLD", 1, dml.unfold, [FIVES],
            [[[place + 5 * i + j for i in range(3) for j in range(3)] for place in (0, 1, 2, 5, 6, 7, 10, 11, 12)]],
            WINDOW),
    Example("UNFOLD", 2, dml.unfold, [FIVES],
            [[[k + j if 0 <= k < 25 else 0 for i in range(5) for j in range(3) for k in [place + 5 * i]]
              for place in (-5, -4, -3, 0, 1, 2, 5, 6, 7)]], TALL),
    Example("ONE_HOT", 4, dml.one_hot, [np.array([[[[-3], [100], [3]]]], "int32"), *floats([[[[0, 1]]]])],
            [[[[0, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]]], {"output_sizes": [1, 1, 3, 4], "axis": 3}),
    *(Example(name, k + 1, function, FOURS, [[result]], {**PADS, **more})
      for name, function in (("PADDING", dml.padding), ("PADDING1", dml.padding1))
      for k, (more, result) in enumerate(PADDED)),
    Example("RANDOM_GENERATOR", 1, next_state, [np.array([*COUNTER, 1, 2], "uint32")],
            [0x74746C65, *COUNTER[1:], 1, 2], {},
            "the counter before for the one after"),
    *(Example("ROI_ALIGN1", k + 1, dml.roi_align1, REGION,
              [[first + step * (10 * np.arange(4)[:, None] + np.arange(4))]],
              {"output_sizes": [1, 1, 4, 4], "input_pixel_offset": start, "output_pixel_offset": end,
               "align_regions_to_corners": aligned})
      for k, ((start, end, aligned), (first, step)) in enumerate(STARTS.items())),
    Example("SCATTER", 2, dml.scatter,
            [*floats([[0] * 3] * 3), np.array([[1, 0, 2], [0, 2, 1]], "uint32"),
             *floats([[10, 11, 12], [20, 21, 22]])],
            [[20, 11, 0], [10, 0, 22], [0, 21, 12]], {"axis": 0}, "sizes of {2,3} for an input of 3 rows"),
]  # fmt: skip


def test_every_example_is_here() -> None:
    found: dict[str, set[int]] = {}
    for case in CASES:
        if number := re.search(r" example (\d+)", case.name):
            found.setdefault(case.operator.type.name, set()).add(int(number[1]))
    for example in EXAMPLES:
        assert example.number not in found.setdefault(example.page, set())
        found[example.page].add(example.number)
    assert found == {page: {*range(1, count + 1)} for page, count in PAGES.items()}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page}-{example.number}")
def test_what_the_page_shows_holds(example: Example, engine: str) -> None:
    device = dml.Device(engine)
    inputs = [put(x, device) for x in example.inputs]
    (found,) = as_list(example.function(*inputs, **example.attributes, device=device))
    np.testing.assert_allclose(get(found), np.array(example.result), rtol=1e-6, atol=1e-7)
