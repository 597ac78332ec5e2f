"""Every gradient operator: against finite differences of the operator it belongs to, and against PyTorch's autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import anydml as dml
from anydml.operators import OPERATORS
from doors import as_list
from places import get, put

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.sampled(5)

Array = np.ndarray[Any, Any]
STEP = 2.0**-8
"""Of finite differences: no number below lies so near to where a function bends, or to its neighbour."""


class Row(NamedTuple):
    """A gradient, by the first of the inputs or several of them."""

    operator: str
    inputs: list[Array]
    forward: Callable[..., Any]
    """Of `run`, which calls a function on an engine, and the inputs: what is differentiated."""
    backward: Callable[..., Any]
    """Of `run`, the incoming gradient and the inputs: the gradients."""
    torch: Callable[..., Any]
    """Of PyTorch's functions, `torch` and the inputs: what is differentiated."""
    by: int = 1
    """The inputs, from the first on, that there are gradients of."""


def apart(*sizes: int) -> Array:
    """Numbers that are all different, and whose nearest lie 0.05 apart; of both signs, and none near 0."""
    count = int(np.prod(sizes))
    found = np.random.default_rng(count).permutation(count) - count // 2
    return ((found * 0.05) + 0.02).astype("float32").reshape(sizes)


def near_one(*sizes: int) -> Array:
    return 1 + apart(*sizes) / 4


def pooling(operator: str, forward: Any, backward: Any, torch: Any, **more: Any) -> Row:
    given = {"strides": 2, "start_padding": 1, "end_padding": 1, **more}
    return Row(
        operator,
        [apart(2, 2, 6, 7)],
        lambda run, x: run(forward, x, 3, **given),
        lambda run, dy, x: backward(run, dy, x, given),
        torch,
    )


def resampling(
    number: str, kind: str, offsets: tuple[float, float], scales: list[float], torch: Any, sizes: Any = None
) -> Row:
    """Of 4 x 5 elements, in the last two dimensions."""
    given = {
        "scales": [1, 1, *scales],
        "input_pixel_offsets": [offsets[0]] * 4,
        "output_pixel_offsets": [offsets[1]] * 4,
        "interpolation_mode": kind,
    }
    back, forth = f"resample_grad{number}", f"resample{int(number or 0) + 1}"
    return Row(
        back.upper(),
        [apart(1, 2, 4, 5)],
        lambda run, x: run(getattr(dml, forth), x, **given, output_sizes=sizes),
        lambda run, dy, x: run(getattr(dml, back), dy, x.shape, **given),
        torch,
    )


def normalised(operator: str, size: int, **more: Any) -> Row:
    """PyTorch's own function takes one more before, of an even size, and knows no region of pixels."""
    given = {"local_size": size, "alpha": 0.3, "beta": 0.75, "bias": 1.5, **more}

    def by_torch(functions: Any, torch: Any, x: Any) -> Any:
        before, after = (size - 1) // 2, size // 2
        squares = x.square()
        if given.get("cross_channel", True):
            sums = functions.pad(squares.movedim(1, -1), (before, after)).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
        else:
            padded = functions.pad(squares, (before, after, before, after))
            sums = padded.unfold(2, size, 1).unfold(3, size, 1).sum((-1, -2))
        return x / (1.5 + 0.3 / size * sums) ** 0.75

    return Row(
        operator,
        [apart(1, 3, 4, 3)],
        lambda run, x: run(dml.local_response_normalization, x, **given),
        lambda run, dy, x: run(dml.local_response_normalization_grad, x, dy, **given),
        by_torch,
    )


def aligned(kind: str, **more: Any) -> Row:
    """Two regions, in which every sample lies inside of the image, and none on an element."""
    regions = np.array([[0.83, 0.97, 4.16, 4.07], [1.37, 0.71, 4.81, 3.57]], "float32")
    images = np.array([1, 0], "uint32")
    given = {"minimum_samples_per_output": 2, "maximum_samples_per_output": 2, "reduction_function": kind, **more}

    def by_torch(functions: Any, torch: Any, x: Any, roi: Any) -> Any:
        parts = (torch.arange(4, dtype=x.dtype) + 0.5) / 4  # two outputs of two samples each
        found = []
        for (left, top, right, bottom), image in zip(roi, images, strict=True):
            across, down = left - 0.5 + (right - left) * parts, top - 0.5 + (bottom - top) * parts
            at = torch.stack(torch.meshgrid(across / (6 - 1) * 2 - 1, down / (5 - 1) * 2 - 1, indexing="xy"), -1)
            samples = functions.grid_sample(x[int(image)][None], at[None], align_corners=True)
            pool = functions.avg_pool2d if kind == "AVERAGE" else functions.max_pool2d
            found.append(pool(samples, 2))
        return torch.cat(found)

    return Row(
        "ROI_ALIGN_GRAD",
        [apart(2, 1, 5, 6), regions],
        lambda run, x, roi: run(dml.roi_align1, x, roi, images, (2, 1, 2, 2), **given),
        lambda run, dy, x, roi: run(dml.roi_align_grad, dy, roi, images, x, **given, output_roi_gradient=True),
        by_torch,
        2,
    )


def in_batches(*, is_training: bool) -> Row:
    mean, variance = apart(1, 3, 1, 1), near_one(1, 3, 1, 1) + 0.5

    def forward(run: Any, x: Array, scale: Array, bias: Array) -> Any:
        if is_training:
            return run(dml.batch_normalization_training, x, scale, bias, epsilon=1e-3)[0]
        return run(dml.batch_normalization, x, mean, variance, scale, bias, epsilon=1e-3)

    def backward(run: Any, dy: Array, x: Array, scale: Array, bias: Array) -> Any:
        del bias
        if is_training:
            own = [found(x, (0, 2, 3), keepdims=True) for found in (np.mean, np.var)]
            return run(dml.batch_normalization_training_grad, x, dy, *own, scale, epsilon=1e-3)
        return run(dml.batch_normalization_grad, x, dy, mean, variance, scale, epsilon=1e-3)

    def by_torch(functions: Any, torch: Any, x: Any, *others: Any) -> Any:
        own = (None, None) if is_training else (torch.tensor(one.ravel(), dtype=x.dtype) for one in (mean, variance))
        flat = (one.reshape(-1) for one in others)
        return functions.batch_norm(x, *own, *flat, is_training, 0.1, 1e-3)

    name = f"BATCH_NORMALIZATION{'_TRAINING' * is_training}_GRAD"
    inputs = [apart(2, 3, 2, 4), near_one(1, 3, 1, 1), apart(1, 3, 1, 1)]
    return Row(name, inputs, forward, backward, by_torch, 3)


def clipped(number: str) -> Row:
    return Row(
        f"ELEMENT_WISE_CLIP_GRAD{number}",
        [apart(3, 7)],
        lambda run, x: run(getattr(dml, f"clip{number}"), x, min=-0.2, max=0.3),
        lambda run, dy, x: run(getattr(dml, f"clip_grad{number}"), x, dy, min=-0.2, max=0.3),
        lambda _, torch, x: torch.clip(x, -0.2, 0.3),
    )


WINDOW = {"input_window_offsets": [0, 1], "input_window_sizes": [4, 5], "input_window_strides": [-2, 3]}
ROWS = [
    Row(
        "ACTIVATION_RELU_GRAD",
        [apart(3, 7)],
        lambda run, x: run(dml.relu, x),
        lambda run, dy, x: run(dml.relu_grad, x, dy),
        lambda functions, _, x: functions.relu(x),
    ),
    clipped(""),
    clipped("1"),
    Row(
        "SLICE_GRAD",
        [apart(4, 7)],
        lambda run, x: run(dml.slice1, x, **WINDOW),
        lambda run, dy, x: run(dml.slice_grad, dy, x.shape, **WINDOW),
        lambda _, torch, x: torch.flip(x[1::2, 1:6:3], [0]),
    ),
    *(
        pooling(
            "AVERAGE_POOLING_GRAD", dml.average_pooling,
            lambda run, dy, x, given: run(dml.average_pooling_grad, dy, 3, **given, output_sizes=x.shape),
            lambda functions, _, x, include=include: functions.avg_pool2d(x, 3, 2, 1, count_include_pad=include),
            include_padding=include,
        )
        for include in (True, False)
    ),
    *(
        pooling(
            "MAX_POOLING_GRAD", dml.max_pooling2,
            lambda run, dy, x, given: run(dml.max_pooling_grad, x, dy, 3, **given),
            lambda functions, _, x, by=by: functions.max_pool2d(x, 3, 2, 1, by),
            dilations=by,
        )
        for by in (1, 2)
    ),
    *(
        resampling(
            number, "LINEAR", (0.5, -0.5), [2, 1.5],
            lambda functions, _, x: functions.interpolate(x, scale_factor=(2, 1.5), mode="bilinear"),
        )
        for number in ("", "1")
    ),
    *(
        resampling(
            number, "LINEAR", (0, 0), [7 / 3, 9 / 4], sizes=(1, 2, 8, 10),
            torch=lambda functions, _, x: functions.interpolate(x, (8, 10), mode="bilinear", align_corners=True),
        )
        for number in ("", "1")
    ),
    *(
        resampling(
            number, "NEAREST_NEIGHBOR", (offset, -0.5), [3, 0.8],
            lambda functions, _, x: functions.interpolate(x, scale_factor=(3, 0.8), mode="nearest-exact"),
        )
        for number, offset in (("", 0.5), ("1", 1))  # RESAMPLE2 takes the next one up, not the nearest
    ),
    in_batches(is_training=False),
    in_batches(is_training=True),
    *(normalised("LOCAL_RESPONSE_NORMALIZATION_GRAD", size) for size in (1, 2, 3, 4, 5)),
    *(normalised("LOCAL_RESPONSE_NORMALIZATION_GRAD", size, cross_channel=False) for size in (2, 3)),
    aligned("AVERAGE"),
    aligned("MAX"),
]  # fmt: skip
IDS = [f"{row.operator}-{[other.operator for other in ROWS[:k]].count(row.operator)}" for k, row in enumerate(ROWS)]


def calls_on(engine: str) -> Callable[..., Any]:
    """What calls a function with arrays on an engine."""
    device = dml.Device(engine)

    def run(function: Any, *arguments: Any, **attributes: Any) -> Any:
        given = (put(x, device) if isinstance(x, np.ndarray) else x for x in arguments)
        found = [get(one) for one in as_list(function(*given, **attributes, device=device))]
        return found if len(found) > 1 else found[0]

    return run


def test_there_is_a_row_for_every_gradient() -> None:
    assert {row.operator for row in ROWS} == {kind.name for kind in OPERATORS if "_GRAD" in kind.name}


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_gradient_is_what_differences_say(row: Row, engine: str) -> None:
    run, forward = calls_on(engine), calls_on("reference")
    y = row.forward(forward, *row.inputs)
    dy = np.random.default_rng(5).standard_normal(y.shape).astype("float32")
    found = as_list(row.backward(run, dy, *row.inputs))
    assert len(found) == row.by
    for k, got in enumerate(found):
        wanted = np.empty(got.shape)
        for place in np.ndindex(got.shape):
            ends = []
            for step in (STEP, -STEP):
                moved = [x.copy() for x in row.inputs]
                moved[k][place] += step
                ends.append((row.forward(forward, *moved).astype("float64"), moved[k][place].astype("float64")))
            (above, high), (below, low) = ends
            wanted[place] = ((above - below) * dy).sum() / (high - low)
        np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_a_gradient_is_pytorchs(row: Row, engine: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    run = calls_on(engine)
    tensors = [torch.tensor(x.astype("float64"), requires_grad=True) for x in row.inputs]
    y = row.torch(torch.nn.functional, torch, *tensors)
    np.testing.assert_allclose(row.forward(run, *row.inputs), y.detach().numpy(), rtol=1e-5, atol=1e-5)
    dy = np.random.default_rng(5).standard_normal(y.shape)
    y.backward(torch.tensor(dy))
    found = as_list(row.backward(run, dy.astype("float32"), *row.inputs))
    for got, tensor in zip(found, tensors[: row.by], strict=True):
        np.testing.assert_allclose(got, tensor.grad.numpy(), rtol=2e-5, atol=2e-5)
