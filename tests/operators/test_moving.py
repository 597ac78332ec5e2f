"""The operators that move and interpolate: what they compute, in every type, layout and at every level."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from case_kinds import FLOAT32
from cases import DOCUMENTS
from families.broken_rules import ALIGNED
from families.moving import MOVING, assert_moved, expected
from places import get, put

if TYPE_CHECKING:
    from case_kinds import Case as Example

pytestmark = [pytest.mark.sampled(6), pytest.mark.check_bounds]

FEW = int(os.environ.get("ANYDML_TEST_EXAMPLES", "0"))


@pytest.mark.parametrize("case", [case for case in DOCUMENTS if case.operator in MOVING], ids=str)
def test_the_oracle_does_as_the_documents_do(case: Example) -> None:
    found = expected(case.desc(FLOAT32), case.inputs(FLOAT32))
    for wanted, one in zip(case.outputs(FLOAT32), found, strict=True):
        assert_moved(wanted, one)


@pytest.mark.judges("ROI_ALIGN_GRAD", "ROI_ALIGN1")
@pytest.mark.parametrize("function", ["AVERAGE", "MAX"])
@pytest.mark.parametrize("corners", [False, True])
def test_the_gradients_of_regions_are_differences(engine: str, function: str, corners: bool) -> None:
    """Of the images and of the regions, one number at a time: ROI_ALIGN1 is linear in each between two elements."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, 2, 6, 7)).astype(np.float32)
    dy = rng.standard_normal((3, 2, 2, 2)).astype(np.float32)
    rois = np.array([[1.1, 0.7, 5.45, 4.2], [4.4, 5.1, 0.6, 0.9], [-0.3, 2.2, 9.7, 7.4]], np.float32)
    images = np.array([1, 0, 1], np.uint32)
    given: dict[str, Any] = {"reduction_function": function, "align_regions_to_corners": corners, "device": engine,
             "spatial_scale_x": 0.75, "minimum_samples_per_output": 2, "maximum_samples_per_output": 2}  # fmt: skip

    def loss(x: np.ndarray, rois: np.ndarray) -> float:
        found = dml.roi_align1(put(x, engine), put(rois, engine), put(images, engine), dy.shape, **given)
        return float((get(found).astype(np.float64) * dy).sum())

    arrays: dict[str, Any] = {"input_gradient": dy, "roi": rois, "batch_indices": images, "x": x}
    there = {name: put(array, engine) for name, array in arrays.items()}
    found: Any = dml.roi_align_grad(**there, output_roi_gradient=True, **given)
    for own, gradient in zip((x, rois), map(get, found), strict=True):
        by = 2.0**-8
        for at in np.ndindex(own.shape):
            kept = own[at]
            own[at] = kept + by
            after = loss(x, rois)
            own[at] = kept - by
            before = loss(x, rois)
            own[at] = kept
            assert abs((after - before) / (2 * by) - gradient[at]) < 1e-3, (at, gradient[at])


def test_an_output_that_is_left_out_has_a_place_too(engine: str) -> None:
    """As DirectML counts the outputs of a binding table and of a node."""
    desc = dml.RoiAlignGrad(**{**ALIGNED, "output_gradient_tensor": None})
    rng = np.random.default_rng(2)
    x, dy = (rng.standard_normal(sizes).astype(np.float32) for sizes in ((1, 3, 4, 5), (2, 3, 2, 2)))
    arrays = [x, dy, np.array([[0, 1, 3, 3], [1, 0, 4, 2]], np.float32), np.zeros(2, np.uint32)]
    device = dml.Device(engine)
    (wanted,) = expected(desc, arrays)
    there = [put(array, device) for array in arrays]
    assert_moved(get(device.compile(desc)(*there)), wanted)
    edges: dict[str, Any] = {
        "input_edges": [dml.InputEdge(k, 0, k) for k in range(4)], "output_edges": [dml.OutputEdge(0, 1, 0)],
    }  # fmt: skip
    graph = dml.GraphDesc(4, 1, [dml.OperatorNode(desc)], **edges)
    assert_moved(get(device.compile_graph(graph)(*there)), wanted)
    edges["output_edges"] = [dml.OutputEdge(0, 0, 0)]
    with pytest.raises(dml.DescriptionError, match=r"must be a tensor that .* has: this one is optional"):
        device.compile_graph(dml.GraphDesc(4, 1, [dml.OperatorNode(desc)], **edges))


@pytest.mark.judges("RANDOM_GENERATOR")
@pytest.mark.parametrize("level", ["3_0", "4_0"])
def test_random_numbers_go_on_from_the_state(engine: str, level: str) -> None:
    """In sizes and dimensions of their own, with a counter that carries, from call to call and inside of a graph."""
    device = dml.Device(engine, feature_level=level)
    state = np.array([2**32 - 2, 2**32 - 1, 2**32 - 1, 0, 7, 9], np.uint32)
    whole = get(dml.random_generator(put(state, device), [28], device=device).output)
    found, after = (get(x) for x in dml.random_generator(put(state, device), [3, 4], output_state=True, device=device))
    np.testing.assert_array_equal(found, whole[:12].reshape(3, 4))
    np.testing.assert_array_equal(after, [1, 0, 0, 1, 7, 9])
    graph = dml.Graph(device)
    before: Any = graph.input(dml.TensorDesc("uint32", (6,)))
    for _ in range(2):
        rest, before = dml.random_generator(before, [2, 1, 4], output_state=True)
    got = [get(x) for x in graph.compile([rest, before])(put(after, device))]
    assert [x.shape for x in got] == [(2, 1, 4), (6,)]
    np.testing.assert_array_equal(got[1], [5, 0, 0, 1, 7, 9])
    np.testing.assert_array_equal(got[0].ravel(), whole[20:])


IMAGES = np.arange(32, dtype=np.float32).reshape(2, 1, 4, 4)
FOUR = np.array([[0, 0, 3, 3], [0, 0, 3, 3], [1, 1, 2, 2]], np.float32)
OUTSIDE: list[tuple[Any, list[Any], dict[str, Any], str]] = [
    *(
        (function, [IMAGES, FOUR, np.array([0, 1, 2], kind)], {"output_sizes": (3, 1, 1, 1)},
         r"BatchIndicesTensor\[2\] = 2 is outside the 2 images of InputTensor; take 0 \.\. 1")
        for function in (dml.roi_align, dml.roi_align1) for kind in ("uint32", "uint64")
    ),
    *(
        (dml.roi_align_grad, [np.ones((3, 1, 2, 2), np.float32), FOUR, np.array([0, 5, 1], "uint32"), IMAGES],
         {"reduction_function": function, "output_roi_gradient": True}, r"BatchIndicesTensor\[1\] = 5 is outside the 2")
        for function in ("AVERAGE", "MAX")
    ),
    *(
        (dml.roi_pooling, [IMAGES, np.array([[0, 0, 0, 3, 3], [image, 0, 0, 3, 3]], np.float32), (1, 1)], {},
         rf"ROITensor\[1, 0\] = {told}.* is outside the 2 images")
        for image, told in ((2, "2"), (-1, "-1"), (np.nan, "NaN"), (np.inf, "a number"), (-np.inf, "NaN, or below"))
    ),
    (dml.max_unpooling, [IMAGES[:1, :, :2, :2], np.array([[[[0, 5], [2, 16]]]], "uint32")],
     {"output_sizes": (1, 1, 4, 4)}, r"indices\[0, 0, 1, 1\] = 16 is outside .* take 0 \.\. 15"),
]  # fmt: skip


@pytest.mark.judges("ROI_ALIGN1", "ROI_POOLING")
@pytest.mark.parametrize(("function", "given", "options", "message"), OUTSIDE, ids=range(len(OUTSIDE)))
def test_an_image_or_an_index_that_is_not_there_is_an_error(
    engine: str, function: Any, given: list[Any], options: dict[str, Any], message: str
) -> None:
    """Which is raised before anything is written."""
    device = dml.Device(engine)
    arrays = [put(x, device) if isinstance(x, np.ndarray) else x for x in given]
    with pytest.raises(dml.IndexRangeError, match=message):
        function(*arrays, device=device, **options)
    if function is dml.roi_pooling:
        out = put(np.full((2, 1, 1, 1), 7, np.float32), device)
        with pytest.raises(dml.IndexRangeError, match=message):
            function(*arrays, device=device, out=out)
        assert (get(out) == 7).all()


@pytest.mark.judges("ROI_POOLING")
def test_the_number_of_an_image_loses_its_fraction(engine: str) -> None:
    regions = put(np.array([[1.75, 0, 0, 3, 3], [-0.5, 0, 0, 3, 3]], np.float32), engine)
    found = dml.roi_pooling(put(IMAGES, engine), regions, (1, 1), device=engine)
    np.testing.assert_array_equal(get(found).ravel(), [31, 15])


@pytest.mark.judges("ROI_ALIGN_GRAD")
def test_the_gradients_of_regions_of_halves(engine: str) -> None:
    """A branch of the kernel was told by what had been computed before the loop around it."""
    wanted: Any = None
    for kind in ("float32", "float16"):
        arrays = [put(x.astype(kind), engine) for x in (np.ones((2, 1, 2, 2)), FOUR[:2], IMAGES)]
        images = put(np.array([0, 1], "uint32"), engine)
        found: Any = dml.roi_align_grad(
            arrays[0], arrays[1], images, arrays[2], output_roi_gradient=True, device=engine
        )
        wanted = wanted or found
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(get(one), get(other), atol=1e-2)


@pytest.mark.judges("NONZERO_COORDINATES")
def test_coordinates_of_one_dimension_are_a_table(engine: str) -> None:
    x = put(np.array([0, 3, 0, 4], np.float32), engine)
    count, places = dml.nonzero_coordinates(x, device=engine)
    np.testing.assert_array_equal(get(count), [2])
    np.testing.assert_array_equal(get(places), [[1], [3], [0], [0]])
    graph = dml.Graph(engine)
    compiled = graph.compile(dml.nonzero_coordinates(graph.input(dml.TensorDesc("float32", (4,)))))
    assert [get(one).tolist() for one in compiled(x)] == [[2], [[1], [3], [0], [0]]]
