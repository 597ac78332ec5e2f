"""Staging, on a double: a device whose memory no library knows takes the host's arrays, by every way of binding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.runtime.chunked_scan import scan_with_carry
from cases import CASES
from doors import all_through_objects, as_list, through_compiled

if TYPE_CHECKING:
    from case_kinds import Case
    from device_double import DoubleEngine

pytestmark = pytest.mark.usefixtures("doubles")

X = np.arange(24, dtype="float32").reshape(4, 6)
FLOAT32 = dml.DataType.FLOAT32


def there(x: Any) -> dml.DeviceArray:
    found: dml.DeviceArray = dml.to_device(x, "webgpu")
    return found


def negated(x: Any, *, in_place: bool = False) -> dml.CompiledOperator:
    tensor = dml.TensorDesc.of(x)
    output = tensor if in_place else replace(tensor, strides=None)
    return dml.Device("webgpu").compile(dml.ElementWiseNegate(input_tensor=tensor, output_tensor=output))


# Every operator, by every door


def type_of_first(case: Case) -> dml.DataType:
    return next(iter(case.desc(FLOAT32).inputs().values())).data_type


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_door(case: Case) -> None:
    device, own = dml.Device("webgpu"), type_of_first(case) if case.sources else FLOAT32
    desc, inputs, wanted = case.desc(own, result_type=own), case.inputs(own), case.outputs(own)

    def agrees(found: list[Any], kind: type) -> None:
        for one, expected in zip(found, wanted, strict=True):
            assert type(one) is kind
            np.testing.assert_array_equal(np.asarray(one).reshape(expected.shape), expected)

    agrees(through_compiled(device, desc, inputs), np.ndarray)
    agrees(all_through_objects(device, desc, inputs), np.ndarray)
    compiled, moved = device.compile(desc), [there(x) for x in inputs]
    kind = dml.DeviceArray if inputs else np.ndarray
    for _ in range(2):  # the second call finds what the first one left
        agrees(as_list(compiled(*moved)), kind)
        bare = case.bare()
        for given in (bare.inputs(own), [there(x) for x in bare.inputs(own)]):
            found = as_list(bare.call(*given, result_type=own, device=device))
            for one, expected in zip(found, bare.outputs(own), strict=True):
                assert type(one) is (type(given[0]) if given else np.ndarray)
                np.testing.assert_array_equal(np.asarray(one), expected)
    outs = [there(np.zeros(y.sizes, y.data_type.dtype)) for y in desc.outputs().values()]
    back = compiled.bind(*moved, out=outs if len(outs) > 1 else outs[0]).dispatch()
    assert all(one is out for one, out in zip(as_list(back), outs, strict=True))
    agrees(outs, dml.DeviceArray)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [case for case in CASES if case.operator.in_place and case.sources], ids=str)
def test_in_place(case: Case) -> None:
    device, own = dml.Device("webgpu"), type_of_first(case)
    desc, inputs, wanted = case.desc(own, result_type=own), case.inputs(own), case.outputs(own)
    for put in (np.array, there):
        arrays = [put(x) for x in inputs]
        outs = arrays[: len(wanted)]
        assert as_list(device.compile(desc)(*arrays, out=outs if len(outs) > 1 else outs[0]))[0] is arrays[0]
        for out, expected in zip(outs, wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(out), expected)
    raw = all_through_objects(device, desc, inputs, in_place=True)
    for found, expected in zip(raw, wanted, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", [case for case in CASES if case.sources], ids=str)
def test_an_input_owned_by_dml(case: Case) -> None:
    device = dml.Device("webgpu")
    owned = dml.TensorDesc(type_of_first(case), case.x.shape, flags="OWNED_BY_DML")
    plain = case.desc(FLOAT32)
    first = next(iter(plain.inputs()))
    desc = plain.with_tensors(lambda name, tensor: owned if name == first else tensor)
    x, *others = case.inputs(FLOAT32)
    raw = all_through_objects(device, desc, [x, *others], owned=True)
    for put in (np.array, there):
        given = put(x)
        run = device.compile(desc).initialize(given)
        given[...] = 0  # the operator has a copy of its own
        results = as_list(run(*(put(other) for other in others)))
        for result, alike, expected in zip(results, raw, case.outputs(FLOAT32), strict=True):
            np.testing.assert_array_equal(np.asarray(result), expected)
            np.testing.assert_array_equal(alike, expected)


# What is copied, and when


def test_a_binding_copies_at_each_dispatch(doubles: list[DoubleEngine]) -> None:
    memory, x, y = doubles[0].own, X.copy(), np.zeros_like(X)
    bound = negated(x).bind(x, out=y)
    for number in (1, 2):
        x[...] = number
        memory.copied.clear()
        assert bound.dispatch() is y
        assert memory.copied == [("write", x.nbytes), ("read", y.nbytes)]
        assert (y == -number).all()


def test_arrays_of_the_device_are_not_copied(doubles: list[DoubleEngine]) -> None:
    memory, x = doubles[0].own, there(X)
    memory.copied.clear()
    y = dml.negate(x)  # on the array's device
    z = dml.negate(y)
    assert not memory.copied
    assert type(z) is dml.DeviceArray
    np.testing.assert_array_equal(z.numpy(), X)


def test_memory_that_stands_for_arrays_goes_with_the_binding(doubles: list[DoubleEngine]) -> None:
    x, y = X.copy(), np.zeros_like(X)
    bound = negated(x).bind(x, out=y)
    assert len(doubles[0].own._blocks) == 2
    del bound
    assert not len(doubles[0].own._blocks)


def test_gaps_keep_their_bytes() -> None:
    base = np.full((4, 12), 7, "float32")
    for out in (base[:, ::2], base[::-1, 1::2]):
        before = base.copy()
        dml.negate(X, out=out, device="webgpu")
        np.testing.assert_array_equal(out, -X)
        out[...] = before[:, ::2]
        np.testing.assert_array_equal(base, before)
    device_base = there(base)
    dml.negate(there(X), out=device_base[:, ::2])
    np.testing.assert_array_equal(device_base.numpy()[:, ::2], -X)
    assert (device_base.numpy()[:, 1::2] == 7).all()


def test_layouts_of_the_host() -> None:
    for x in (X.T, X[::-1, ::2], np.broadcast_to(X[1], X.shape), X[1:, 1:-1]):
        np.testing.assert_array_equal(dml.negate(x, device="webgpu"), -x)


def test_the_very_same_memory_is_one(doubles: list[DoubleEngine]) -> None:
    x = X.copy()
    bound = negated(x, in_place=True).bind(x, out=x)
    doubles[0].own.copied.clear()
    bound.dispatch()
    bound.dispatch()
    np.testing.assert_array_equal(x, X)
    assert doubles[0].own.copied == [("write", x.nbytes), ("read", x.nbytes)] * 2
    assert len(doubles[0].own._blocks) == 1


def test_inputs_may_overlap() -> None:
    x = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(dml.subtract(x[1:], x[:-1], device="webgpu"), np.ones(9))
    with pytest.raises(dml.BindingError, match="overlap"):
        dml.slice(x, (0,), (9,), out=x[1:], device="webgpu")


def test_what_begins_askew_is_staged(doubles: list[DoubleEngine]) -> None:
    x, y = there(X), there(np.zeros_like(X))
    part, out = x[1:, 1:], y[1:, 1:]
    assert not part.is_aligned
    assert x.is_aligned
    doubles[0].own.copied.clear()
    assert dml.negate(part, out=out) is out
    assert doubles[0].own.copied
    wanted = np.zeros_like(X)
    wanted[1:, 1:] = -X[1:, 1:]
    np.testing.assert_array_equal(y.numpy(), wanted)
    for _ in range(2):
        np.testing.assert_array_equal(dml.negate(x[0, 1:]).numpy(), -X[0, 1:])


def test_an_index_outside_writes_nothing() -> None:
    y = np.full((2, 6), 7, "float32")
    with pytest.raises(dml.IndexRangeError, match="9"):
        dml.gather(X, np.array([0, 9]), 0, out=y, device="webgpu")
    assert (y == 7).all()


def test_halves_of_a_byte() -> None:
    x, scale = np.arange(8, dtype="float32").reshape(2, 4), np.ones((1, 1), "float32")
    outs = []
    for device in ("reference", "webgpu"):
        y = np.full(6, 0xFF, np.uint8)  # of which the third and the fourth byte are between the rows
        desc = dml.Quantize(
            quantization_type="SCALE_ZERO_POINT",
            input_tensor=dml.TensorDesc.of(x),
            quantization_tensors=[dml.TensorDesc.of(scale), dml.TensorDesc("uint4", (1, 1))],
            output_tensor=dml.TensorDesc("uint4", (2, 4), strides=(8, 1)),
        )
        dml.Device(device).compile(desc)(x, scale, np.zeros((1, 1), np.uint8), out=y)
        outs.append(y.tolist())
    assert outs[0] == outs[1] == [0x10, 0x32, 0xFF, 0xFF, 0x54, 0x76]


# Where results lie


def test_results_lie_where_the_first_input_lies() -> None:
    d = there(X)
    for given, kind in (((X, d), np.ndarray), ((d, X), dml.DeviceArray), ((X, 2.0), np.ndarray)):
        for _ in range(2):
            found = dml.add(*given, device="webgpu")
            assert type(found) is kind
            np.testing.assert_array_equal(np.asarray(found), X + np.asarray(given[1]))
    assert type(dml.add(d, 2.0)) is dml.DeviceArray
    assert type(dml.add(2.0, d, device="webgpu")) is dml.DeviceArray
    assert type(dml.add([1.0], [2.0], device="webgpu")) is np.ndarray
    assert type(dml.fill_value_constant((2,), 1.0, device="webgpu")) is np.ndarray
    out = np.zeros_like(X)
    assert dml.add(d, d, out=out) is out
    np.testing.assert_array_equal(out, 2 * X)
    target = there(np.zeros_like(X))
    assert dml.add(X, X, out=target, device="webgpu") is target
    np.testing.assert_array_equal(target.numpy(), 2 * X)


def test_truths_and_shapes_of_the_device() -> None:
    d = there(X)
    truths = dml.greater(d, 5.0)
    assert (type(truths), truths.dtype) == (dml.DeviceArray, np.bool_)
    np.testing.assert_array_equal(dml.where(truths, d, 0.0).numpy(), np.where(X > 5, X, 0))
    np.testing.assert_array_equal(dml.transpose(d).numpy(), X.T)
    np.testing.assert_array_equal(dml.reshape(d, (6, 4)).numpy(), X.reshape(6, 4))
    np.testing.assert_array_equal(dml.gather(d, [1, 0], 0).numpy(), X[[1, 0]])


def test_another_library_of_the_host() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    found = dml.negate(torch.from_numpy(X), device="webgpu")
    assert type(found) is torch.Tensor
    np.testing.assert_array_equal(found.numpy(), -X)


# Graphs


def test_graphs(doubles: list[DoubleEngine]) -> None:
    graph = dml.Graph("webgpu")
    x = graph.input(X)
    model = graph.compile(dml.softmax(dml.gemm(x, graph.constant(there(X)), trans_b=True)) - 1.0)
    wanted = dml.softmax(dml.gemm(X, X, trans_b=True)) - 1
    d = there(X)
    for _ in range(2):
        np.testing.assert_allclose(model(X), wanted, 1e-6)
        found = model(d)
        assert type(found) is dml.DeviceArray
        np.testing.assert_allclose(found.numpy(), wanted, 1e-6)
    y = np.zeros_like(wanted)
    assert model.bind(X, out=y).dispatch() is y
    np.testing.assert_allclose(y, wanted, 1e-6)
    assert model.temporary_size == 0 or doubles[0].own.copied


def test_a_graph_with_scratch_memory_and_owned_tensors() -> None:
    results = []
    for device in ("reference", "webgpu"):
        graph = dml.Graph(device)
        x = graph.input(dml.TensorDesc("float32", X.shape))
        w = graph.input(dml.TensorDesc("float32", X.shape, flags="OWNED_BY_DML"))
        model = graph.compile(dml.softmax(dml.cumsum(dml.gemm(x, w, trans_b=True), 1)), optimise=False)
        assert model.temporary_size
        model.initialize(X / 100)
        results.append(
            [np.asarray(model(put(X))) for put in (np.array, there) if device == "webgpu" or put is np.array]
        )
    for found in results[1]:
        np.testing.assert_array_equal(found, results[0][0])


def test_symbolic_sizes() -> None:
    graph = dml.Graph("webgpu")
    x = graph.input("float32", ("rows", 6))
    model = graph.compile(dml.softmax(x))
    np.testing.assert_allclose(model(there(X)).numpy(), model(X), 1e-6)


# Others that bind


def test_running_sums_in_blocks() -> None:
    for put in (np.array, there):
        first, carry = scan_with_carry(put(X[:2]), 0, device="webgpu")
        second, carry = scan_with_carry(put(X[2:]), 0, carry, device="webgpu")
        assert type(second) is type(put(X))
        whole = np.concatenate([np.asarray(first), np.asarray(second)])
        np.testing.assert_array_equal(whole, np.cumsum(X, 0))
        np.testing.assert_array_equal(np.asarray(carry), [X.sum(0)])


def test_a_profile(doubles: list[DoubleEngine]) -> None:
    from anydml.runtime.profiler_hook import Recorder, watching

    recorder = Recorder("webgpu:0")
    waited = doubles[0].own.waited
    with watching(recorder), recorder.run():
        dml.negate(there(X))
    assert [one.calls for one in recorder.passes] == [1]
    assert recorder.runs[0] >= recorder.passes[0].seconds[0] > 0
    assert doubles[0].own.waited >= waited + 4
