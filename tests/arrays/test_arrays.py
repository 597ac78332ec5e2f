"""Arrays of any library go in and come out, without a copy: NumPy, PyTorch, and whatever speaks DLPack."""

from __future__ import annotations

import array
import mmap
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from cases import CASES
from doors import as_list

if TYPE_CHECKING:
    from case_kinds import Case

pytestmark = pytest.mark.sampled(2)

X = np.arange(12, dtype="float32").reshape(3, 4)


class Tensor:
    """An array of a library that speaks DLPack and nothing else."""

    def __init__(self, data: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.data, self.device = data, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array_namespace__(self) -> Any:
        return Namespace


class Namespace:
    """What the array API standard says such a library has."""

    @staticmethod
    def from_dlpack(x: Any) -> Tensor:
        return Tensor(np.from_dlpack(x))


class OldTensor(Tensor):
    """One that knows DLPack before version 1, where nothing says whether memory may be written."""

    def __dlpack__(self, *, stream: Any = None) -> Any:  # type: ignore[override]  # the old signature is the point
        return self.data.__dlpack__()


def test_the_result_is_of_the_callers_library() -> None:
    result = dml.slice(Tensor(X), (1, 1), (2, 2))
    assert type(result) is Tensor
    np.testing.assert_array_equal(result.data, X[1:3, 1:3])
    assert type(dml.slice(X, (1, 1), (2, 2))) is np.ndarray
    desc = dml.CumulativeSummation(input_tensor=dml.TensorDesc.of(X), output_tensor=dml.TensorDesc.of(X), axis=0)
    assert type(dml.Device().compile(desc)(Tensor(X))) is Tensor


@pytest.mark.parametrize("kind", [Tensor, OldTensor])
def test_out_is_written_where_it_lies(kind: type[Tensor]) -> None:
    out = kind(np.zeros((3, 4), "float32"))
    assert dml.cumulative_summation(X, 0, out=out) is out
    np.testing.assert_array_equal(out.data, np.cumsum(X, axis=0))
    assert dml.cumulative_summation(out, 0, out=out) is out
    np.testing.assert_array_equal(out.data, np.cumsum(np.cumsum(X, axis=0), axis=0))


@pytest.fixture
def strict() -> Any:
    """The array API and nothing else."""
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed")


@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8"])
def test_arrays_of_the_array_api_alone(strict: Any, dtype: str) -> None:
    """Their data types are no other library's, and have no name but in their text: DLPack says what they are."""
    x = strict.asarray(X.astype(dtype))
    result = dml.gather(x, strict.asarray([2, 0]), 0)
    assert type(result) is type(x)
    np.testing.assert_array_equal(np.from_dlpack(result), X[[2, 0]].astype(dtype))
    out = strict.zeros((3, 4), dtype=x.dtype)
    assert dml.slice1(x, (0, 0), (3, 4), (-1, 1), out=out) is out
    np.testing.assert_array_equal(np.from_dlpack(out), X[::-1].astype(dtype))
    assert dml.TensorDesc.of(x) == dml.TensorDesc.of(X.astype(dtype))


def test_booleans_of_the_array_api_are_refused_by_name(strict: Any) -> None:
    with pytest.raises(dml.DescriptionError, match=r"got dtype\('bool'\); DirectML has no booleans"):
        dml.slice(strict.asarray([True]), (0,), (1,))


def test_read_only_memory_of_another_library() -> None:
    frozen = np.zeros((3, 4), "float32")
    frozen.flags.writeable = False
    with pytest.raises(dml.BindingError, match="OutputTensor must be writable"):
        dml.cumulative_summation(X, 0, out=Tensor(frozen))


def test_an_array_on_another_device_is_not_moved_in_silence() -> None:
    for device, name in (((2, 1), "cuda:1"), ((10, 0), "rocm:0"), ((99, 0), "DLPack device 99:0")):
        with pytest.raises(
            dml.BindingError, match=f"InputTensor lies in the memory of {name}, and this device works in"
        ):
            dml.slice(Tensor(X, device), (0, 0), (1, 1), device="cpu")


class Array:
    """Has no memory of its own to show: every look at it is a copy."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return X.copy()


def test_a_copy_cannot_be_written_to() -> None:
    np.testing.assert_array_equal(dml.slice(Array(), (1, 0), (1, 4)), X[1:2])
    with pytest.raises(dml.DescriptionError, match="OutputTensor must be an array that can be written to; got a Array"):
        dml.slice(X, (0, 0), (3, 4), out=Array())


def test_hostile_and_closed_arrays() -> None:
    class Hostile:
        def __getattr__(self, name: str) -> Any:
            raise ValueError("no " + name)

    closed = mmap.mmap(-1, 64)
    closed.close()
    released = memoryview(bytearray(4))
    released.release()
    for wrong in (Hostile(), closed, released):
        with pytest.raises(dml.DescriptionError, match=r"InputTensor (must be|could not be)"):
            dml.slice(wrong, 0, 1)


def test_a_library_without_from_dlpack_gets_numpy() -> None:
    class Exporter:
        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

        def __dlpack__(self, **options: Any) -> Any:
            return X.__dlpack__(**options)

    assert type(dml.slice(Exporter(), (0, 0), (1, 1))) is np.ndarray


def test_a_library_that_cannot_take_the_result() -> None:
    class Odd(Tensor):
        def __array_namespace__(self) -> Any:
            return object()

    with pytest.raises(dml.BindingError, match=r"could not be made a Odd .*; pass an array of yours as out="):
        dml.slice(Odd(X), (0, 0), (1, 1))


@pytest.mark.parametrize(
    "plain", [[[1, 2], [3, 4]], ((1, 2), (3, 4)), array.array("i", [1, 2, 3, 4]), bytearray([1, 2, 3, 4])]
)
def test_what_numpy_takes_for_an_array(plain: Any) -> None:
    expected = np.asarray(plain)
    zeros, sizes = (0,) * expected.ndim, expected.shape
    result = dml.slice(plain, zeros, sizes)
    assert isinstance(result, np.ndarray)
    np.testing.assert_array_equal(result, expected)


def test_a_subclass_of_ndarray_is_read_as_memory(tmp_path: Any) -> None:
    mapped = np.memmap(tmp_path / "x", "float32", "w+", shape=(3, 4))
    mapped[...] = X
    dml.cumulative_summation(mapped, 1, out=mapped)
    np.testing.assert_array_equal(mapped, np.cumsum(X, axis=1))


def test_strided_arrays_are_honoured() -> None:
    x = np.arange(120, dtype="int16").reshape(2, 3, 4, 5)
    for strided in (x.transpose(3, 1, 0, 2), x[:, ::-1, ::2], np.broadcast_to(x[:, :1], x.shape), x[..., ::-1, 1:3]):
        result = dml.slice1(strided, (0, 0, 0, 0), strided.shape, (1, -1, 1, -1))
        np.testing.assert_array_equal(result, strided[:, ::-1, :, ::-1])
        out = np.empty(strided.shape[::-1], "int16").T
        dml.slice(strided, (0,) * 4, strided.shape, out=out)
        np.testing.assert_array_equal(out, strided)


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (1.5, "float32"),
        ([1.5, 2], "float32"),
        ([[1, 2.5], (3.0, 4)], "float32"),
        ([0.1, float("inf"), float("nan"), -1e-60, 3.4028235e38], "float32"),
        ([1, 2], "int64"),
        (np.float64(1.5), "float64"),
        ([np.float64(1.5), 2.5], "float64"),
        ([[1.5], np.ones(1)], "float64"),
        ([np.float16(1.5)], "float16"),
        (np.array([1.5]), "float64"),
    ],
)
def test_python_floats_are_float32_and_what_has_a_type_keeps_it(given: Any, dtype: str) -> None:
    wanted = np.asarray(given).astype(dtype)
    np.testing.assert_array_equal(dml.identity(given), wanted, strict=True)
    g = dml.Graph()
    assert g.constant(given).data_type.dtype == dtype


def test_a_python_float_that_float32_lacks_is_refused() -> None:
    for given in (1e300, [1.0, -3.5e38]):
        with pytest.raises(dml.DescriptionError) as caught:
            dml.identity(given)
        assert "must have numbers that FLOAT32, which Python's floats are taken for, can hold; got" in str(caught.value)
        assert str(caught.value).endswith("""; np.array(x, "float64") keeps them""")


def test_what_helps_with_float64_is_told_first() -> None:
    types = "FLOAT32, FLOAT16, UINT32, UINT16, INT32, UINT64 or INT64"
    for x, way_out in ((np.arange(4.0), 'x.astype("float32")'), (torch_ones("float64"), "x.float()")):
        with pytest.raises(dml.DescriptionError) as caught:
            dml.cumulative_summation(x, 0)
        assert str(caught.value) == (
            f"CUMULATIVE_SUMMATION: InputTensor must be of {types}; got FLOAT64; pass {way_out}: no feature level takes"
            " it; or take it as an extension with allow_float64=True"
        )
        with pytest.raises(dml.FeatureLevelError) as refused:
            dml.slice(x, [0], [1], device=dml.Device("reference", feature_level="4_0"))
        needs = "SLICE: InputTensor of FLOAT64 needs DML_FEATURE_LEVEL_4_1"
        assert str(refused.value) == f"{needs}; pass {way_out}: this device is 4_0"


def torch_ones(dtype: str) -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    return torch.ones(4, dtype=getattr(torch, dtype))


def test_ranks_follow_numpy() -> None:
    x = np.arange(24, dtype="int64").reshape(2, 3, 4)
    assert dml.gather_nd(x, [1, 2, 3]) == 23  # one tuple, no dimension left
    assert dml.gather_nd(x, [1, 2, 3]).shape == ()
    np.testing.assert_array_equal(dml.gather_nd(x, [[1], [-2]]), x[[1, -2]])
    np.testing.assert_array_equal(
        dml.gather_nd(x, np.zeros((1, 1, 5, 2), "int32")), np.broadcast_to(x[0, 0], (1, 1, 5, 4))
    )
    np.testing.assert_array_equal(dml.gather_nd(x, [[[2]], [[0]]], 1), [[x[0, 2]], [x[1, 0]]])
    np.testing.assert_array_equal(dml.slice(x[0, 0], 1, 2), x[0, 0, 1:3])
    np.testing.assert_array_equal(dml.slice1(x, (0, 0, 0), (2, 3, 4), output_sizes=(1, 2, 3)), x[:1, :2, :3])
    for axis in range(-3, 3):
        np.testing.assert_array_equal(dml.cumulative_summation(x, axis), np.cumsum(x, axis))
    out = np.empty((), "int64")
    assert dml.gather_nd(x, [0, 0, 1], out=out) is out
    assert out == 1


# PyTorch


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pytorch_tensors(torch: Any, case: Case) -> None:
    row = dml.support(case.operator)
    assert row is not None
    for data_type in next(iter(row.tensors.values())).data_types:
        arrays = [torch.from_numpy(array) for array in case.inputs(data_type)]
        run = dml.Device().compile(case.desc(data_type))
        outs = [torch.from_numpy(np.zeros_like(array)) for array in case.outputs(data_type)]
        bound = run.bind(*arrays, out=outs if len(outs) > 1 else outs[0])
        for back, out, expected in zip(as_list(bound.dispatch()), outs, case.outputs(data_type), strict=True):
            assert back is out
            np.testing.assert_array_equal(out.numpy(), expected)
        for result, out in zip(as_list(run(*arrays)), outs, strict=True) if arrays else ():
            assert isinstance(result, torch.Tensor)
            assert result.dtype == out.dtype
            assert torch.equal(out.view(torch.uint8), result.view(torch.uint8))


def test_pytorch_through_the_functions(torch: Any) -> None:
    x = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    result = dml.slice1(x.T, (0, 0), (4, 3), (-1, 2))
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, x.T.flip(0)[:, ::2])
    assert dml.cumulative_summation(x, -1, out=x) is x
    assert torch.equal(x[0], torch.tensor([0.0, 1, 3, 6]))
    assert torch.equal(dml.gather_nd(x, torch.tensor([[2], [0]])), x[[2, 0]])
    assert torch.equal(dml.gather_nd(x, [[2], [0]]), x[[2, 0]])
    assert dml.TensorDesc.of(x.expand(2, 3, 4)).element_strides == (0, 4, 1)
    assert isinstance(dml.slice(X, (0, 0), (2, 2), out=torch.empty(2, 2)), torch.Tensor)


def test_pytorch_tensors_that_cannot_be_taken(torch: Any) -> None:
    for wrong, message in (
        (
            torch.zeros(3, requires_grad=True),
            r"could not be read in place \(it requires a gradient\); .*; pass x.detach\(\)(?m:$)",
        ),
        (torch.zeros(3, dtype=torch.bfloat16), r"one of .*; got torch.bfloat16; pass x.float\(\)(?m:$)"),
        (torch.zeros(3, device="meta"), "could not be read in place"),
        (torch.zeros(3).to_sparse(), "could not be read in place"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            dml.slice(wrong, [0], [1])


def test_a_pytorch_tensor_stays_where_it_is_while_bound(torch: Any) -> None:
    x, out = torch.arange(1000.0), torch.zeros(1000)
    desc = dml.CumulativeSummation(input_tensor=dml.TensorDesc.of(x), output_tensor=dml.TensorDesc.of(out), axis=0)
    bound = dml.Device().compile(desc).bind(x, out=out)
    with pytest.raises(RuntimeError, match="resize"):
        out.resize_(10**6)
    assert bound.dispatch() is out


def test_a_pytorch_tensor_of_negated_memory_is_refused(torch: Any) -> None:
    imaginary = torch.imag(torch.tensor([1 + 2j, 3 + 4j]).conj())
    with pytest.raises(dml.DescriptionError, match=r"could not be read in place .*resolve_neg\(\)"):
        dml.slice(imaginary, 0, 2)


def test_a_subclass_of_a_pytorch_tensor(torch: Any) -> None:
    class Mine(torch.Tensor):  # type: ignore[misc]  # torch may be absent
        pass

    assert isinstance(dml.slice(torch.ones(4).as_subclass(Mine), 0, 2), torch.Tensor)
