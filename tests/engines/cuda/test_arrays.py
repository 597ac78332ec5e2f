"""Arrays on a GPU through every door: PyTorch's, CuPy's, and any that show their memory. Skipped without a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from anydml.explain import explain
from anydml.operators.schema.fields import dml_name
from cases import CASES
from doors import all_through_objects, as_list

pytestmark = pytest.mark.check_bounds

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no GPU here", allow_module_level=True)

from libraries import Cupy, Torch  # noqa: E402 - it needs PyTorch

if TYPE_CHECKING:
    from case_kinds import Case
    from libraries import Library

EXAMPLES = Path(__file__).parents[3] / "examples" / "models"
X = np.arange(12, dtype="float32").reshape(3, 4)


@pytest.fixture(params=[Torch, Cupy], ids=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return request.param()


def through_raw_buffers(library: Library, *args: Any, **options: Any) -> list[np.ndarray]:
    return all_through_objects(
        *args,
        **options,
        put=lambda data: library.put(np.array(data, np.uint8)),
        get=lambda memory: bytearray(library.get(memory).tobytes()),
    )


def running_sum(x: Any, axis: int = 0) -> dml.CompiledOperator:
    tensor = dml.TensorDesc.of(x)
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=replace(tensor, strides=None), axis=axis)
    return dml.Device("cuda").compile(desc)


def type_of_first(case: Case) -> dml.DataType:
    """FLOAT32, or for a first input that cannot be of it the type that it has."""
    found: dml.DataType = next(iter(case.desc(dml.DataType.FLOAT32).inputs().values())).data_type
    return found


# Doors


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_door(library: Library, case: Case) -> None:
    row = dml.support(case.operator)
    assert row is not None
    device = dml.Device("cuda")
    options = {} if case.sources else {"device": device}  # nothing else says where

    kind: Any = library.array if case.sources else torch.Tensor

    def agrees(found: Any, expected: list[np.ndarray]) -> None:
        for result, wanted in zip(as_list(found), expected, strict=True):
            assert isinstance(result, kind)
            seen = library.get(result) if case.sources else result.cpu().numpy()
            np.testing.assert_array_equal(seen.reshape(wanted.shape), wanted)

    for data_type in row.tensors[dml_name(case.operator.output_names()[0])].data_types:
        desc, expected = case.desc(data_type, result_type=data_type), case.outputs(data_type)
        arrays = [library.put(x) for x in case.inputs(data_type)]
        run = device.compile(desc)
        for _ in range(2):  # the second call finds what the first one left
            agrees(run(*arrays), expected)
            bare = case.bare()
            found = bare.call(*(library.put(x) for x in bare.inputs(data_type)), result_type=data_type, **options)
            agrees(found, bare.outputs(data_type))
        types = [tensor.data_type.dtype for tensor in desc.outputs().values()]
        outs = [library.put(np.full(y.shape, 77, each)) for y, each in zip(expected, types, strict=True)]
        out = outs if len(outs) > 1 else outs[0]
        bound = run.bind(*arrays, out=out)
        for _ in range(2):
            assert all(back is given for back, given in zip(as_list(bound.dispatch()), outs, strict=True))
        for given, wanted in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(library.get(given), wanted)
        raw = through_raw_buffers(library, device, desc, case.inputs(data_type))
        for found, wanted in zip(raw, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case.operator.in_place and case.sources], ids=str)
def test_in_place(library: Library, case: Case) -> None:
    device, own = dml.Device("cuda"), type_of_first(case)
    desc, inputs, expected = case.desc(own, result_type=own), case.inputs(own), case.outputs(own)
    for run in (device.compile(desc), case.call):
        arrays = [library.put(x) for x in inputs]
        outs = arrays[: len(expected)]
        assert as_list(run(*arrays, out=outs if len(outs) > 1 else outs[0]))[0] is arrays[0]
        for out, wanted in zip(outs, expected, strict=True):
            np.testing.assert_array_equal(library.get(out), wanted)
    raw = through_raw_buffers(library, device, desc, inputs, in_place=True)
    for found, wanted in zip(raw, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("case", [case for case in CASES if case.sources], ids=str)
def test_an_input_owned_by_dml(library: Library, case: Case) -> None:
    device = dml.Device("cuda")
    owned = dml.TensorDesc(type_of_first(case), case.x.shape, flags="OWNED_BY_DML")
    plain = case.desc(dml.DataType.FLOAT32)
    first = next(iter(plain.inputs()))
    desc = plain.with_tensors(lambda name, tensor: owned if name == first else tensor)
    x, *others = case.inputs(dml.DataType.FLOAT32)
    raw = through_raw_buffers(library, device, desc, [x, *others], owned=True)
    given = library.put(x)
    run = device.compile(desc).initialize(given)
    given[...] = 0  # the operator has a copy of its own
    results = as_list(run(*(library.put(other) for other in others)))
    for result, alike, expected in zip(results, raw, case.outputs(dml.DataType.FLOAT32), strict=True):
        found = library.get(result) if others else result.cpu().numpy()  # without an input, nobody's library but ours
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(alike, expected)


def test_layouts_are_honoured(library: Library) -> None:
    x = np.arange(120, dtype="int16").reshape(2, 3, 4, 5)
    there = library.put(x)
    for strided, y in (
        (there.swapaxes(1, 3), x.swapaxes(1, 3)),
        (there[:, 1:, ::2], x[:, 1:, ::2]),
        (there[..., 1:3], x[..., 1:3]),
    ):
        result = dml.slice1(strided, (0,) * 4, y.shape, (1, -1, 1, -1))
        np.testing.assert_array_equal(library.get(result), y[:, ::-1, :, ::-1])
        out = library.put(np.zeros_like(y.swapaxes(1, 2), order="C")).swapaxes(1, 2)
        assert dml.slice(strided, (0,) * 4, y.shape, out=out) is out
        np.testing.assert_array_equal(library.get(out), y)


def test_a_result_has_the_described_layout(library: Library) -> None:
    columns = dml.TensorDesc("float32", (3, 4), strides=(1, 5))
    desc = dml.CumulativeSummation(input_tensor=dml.TensorDesc.of(X), output_tensor=columns, axis=1)
    result = dml.Device("cuda").compile(desc)(library.put(X))
    assert dml.TensorDesc.of(result).element_strides == (1, 5)
    np.testing.assert_array_equal(library.get(result), np.cumsum(X, axis=1))


def test_cupy_arrays_that_run_backwards() -> None:
    library = Cupy()
    there = library.put(X)[::-1, ::-2]
    np.testing.assert_array_equal(library.get(dml.cumulative_summation(there, 0)), np.cumsum(X[::-1, ::-2], axis=0))


class Interface:
    """Shows `__cuda_array_interface__` and nothing else."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__


class Exporter:
    """Speaks DLPack and nothing else."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("kind", [Interface, Exporter])
def test_arrays_that_show_their_memory(kind: Any) -> None:
    there, out = torch.from_numpy(X).cuda(), torch.zeros(3, 4, device="cuda")
    result = dml.cumulative_summation(kind(there), 1)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.cpu().numpy(), np.cumsum(X, axis=1))
    given = kind(out)
    assert dml.cumulative_summation(kind(there), 1, out=given) is given
    np.testing.assert_array_equal(out.cpu().numpy(), np.cumsum(X, axis=1))


def test_indices_outside(library: Library) -> None:
    x, indices, out = (library.put(a) for a in (X, np.array([[0], [3], [7]]), np.full((3, 4), 5, "float32")))
    with pytest.raises(dml.IndexRangeError, match=r"indices\[1\] = \(3,\) is outside dimension 0 of size 3"):
        dml.gather_nd(x, indices, out=out)
    assert (library.get(out) == 5).all()
    clamped = dml.gather_nd(x, indices, index_mode="clamp")
    np.testing.assert_array_equal(library.get(clamped), X[[0, 2, 2]])


# Places


def test_nothing_is_moved_in_silence(library: Library) -> None:
    there, out = library.put(X), library.put(np.zeros_like(X))
    run = running_sum(X)
    for wrong in (X, torch.from_numpy(X), X.tolist()):
        with pytest.raises(
            dml.BindingError, match="InputTensor lies in the host's memory, and this device works in that"
        ):
            run(wrong, out=out)
    for wrong in (X, torch.from_numpy(X)):
        with pytest.raises(dml.BindingError, match="InputTensor lies in the host's memory"):
            dml.cumulative_summation(wrong, 0, device="cuda")
    for host in ("cpu", "reference"):
        with pytest.raises(
            dml.BindingError, match=r"InputTensor lies in the memory of cuda:0, and this device works in"
        ):
            dml.cumulative_summation(there, 0, device=host)
    with pytest.raises(dml.BindingError, match="OutputTensor lies in the host's memory"):
        dml.cumulative_summation(there, 0, out=np.zeros_like(X))
    with pytest.raises(dml.BindingError, match="IndicesTensor lies in the host's memory"):
        dml.gather_nd(there, np.array([[0]]))
    assert not library.get(out).any()
    with pytest.raises(dml.MissingDependencyError, match="there is no device 'cuda:99' on this machine"):
        dml.Device("cuda:99")


def test_numbers_without_a_memory_are_put_where_the_device_works(library: Library) -> None:
    """A list or a number lies nowhere, so that a function takes it to the GPU and gives a tensor there."""
    result = dml.cumulative_summation(X.tolist(), 0, device="cuda")
    assert result.is_cuda
    np.testing.assert_array_equal(result.cpu().numpy(), np.cumsum(X, axis=0))
    picked = dml.gather_nd(library.put(X), [[1], [0]])
    assert isinstance(picked, library.array)
    np.testing.assert_array_equal(library.get(picked), X[[1, 0]])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU here")
def test_the_second_gpu(library: Library) -> None:
    there = torch.from_numpy(X).to("cuda:1")
    result = dml.cumulative_summation(there, 0)
    assert result.get_device() == 1
    np.testing.assert_array_equal(result.cpu().numpy(), np.cumsum(X, axis=0))
    with pytest.raises(dml.BindingError, match="lies in the memory of cuda:1, and this device works in that of cuda:0"):
        dml.cumulative_summation(there, 0, device="cuda")


def test_tensors_that_cannot_be_taken() -> None:
    for wrong, message in (
        (torch.zeros(3, requires_grad=True, device="cuda"), r"could not be read in place .*\.detach\(\)"),
        (torch.zeros(3, dtype=torch.bfloat16, device="cuda"), "must have a data type that is one of .*torch.bfloat16"),
        (torch.zeros(3, device="cuda").to_sparse(), r"could not be read in place .*\.to_dense\(\)"),
        (torch.imag(torch.tensor([1 + 2j, 3 + 4j], device="cuda").conj()), r"could not be read .*\.resolve_neg\(\)"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            dml.slice(wrong, [0], [1])
        with pytest.raises(dml.DmlError, match=message):
            dml.Device("cuda").compile(
                dml.Slice.infer(input_tensor=dml.TensorDesc("float32", (3,)), offsets=[0], sizes=[1], strides=[1])
            )(wrong)


# Models and pictures


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_models(path: Path, tmp_path: Path) -> None:
    model = load_model(path, output_path=tmp_path)
    expected, found = model.run("reference").resources, model.run("cuda:0").resources
    assert {name: values.tolist() for name, values in found.items()} == {
        name: values.tolist() for name, values in expected.items()
    }


def test_a_picture_of_what_lies_there(library: Library) -> None:
    tensor = dml.TensorDesc.of(X)
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=tensor, axis=1)
    assert explain(desc, library.put(X)).sentences == explain(desc, X).sentences
