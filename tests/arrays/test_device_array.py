"""DeviceArray: an array in memory that no library knows, on a double of such a device."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml

if TYPE_CHECKING:
    from device_double import DoubleEngine

pytestmark = pytest.mark.usefixtures("doubles")

X = np.arange(24, dtype="float32").reshape(2, 3, 4)


def there(x: Any, device: str = "webgpu") -> dml.DeviceArray:
    found: dml.DeviceArray = dml.to_device(x, device)
    assert type(found) is dml.DeviceArray
    return found


# There and back


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int64", "uint16", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 0), (2, 3, 4)], ids=str)
def test_there_and_back(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.arange(24)[: int(np.prod(shape))].astype(dtype).reshape(shape)
    d = there(x)
    assert (d.dtype, d.shape, d.ndim, d.size) == (x.dtype, x.shape, x.ndim, x.size)
    assert d.strides == x.strides or not x.size
    assert (d.nbytes, d.itemsize, d.device) == (x.nbytes, x.itemsize, "webgpu:0")
    for back in (d.numpy(), np.asarray(d), dml.to_device(d, "cpu")):
        assert type(back) is np.ndarray
        assert back.dtype == x.dtype
        np.testing.assert_array_equal(back, x)
    assert d.tolist() == x.tolist()


def test_a_host_array_in_any_layout() -> None:
    for x in (X[:, ::-2, 1:], X.T, np.broadcast_to(X[0, 0], (3, 4))):
        np.testing.assert_array_equal(there(x).numpy(), x)
        assert there(x).is_packed
    assert there([1.5, 2]).dtype == np.float32  # as elsewhere
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    np.testing.assert_array_equal(there(torch.arange(6).reshape(2, 3).T).numpy(), np.arange(6).reshape(2, 3).T)


def test_what_lies_there_is_itself() -> None:
    d = there(X)
    assert dml.to_device(d, "webgpu") is d
    assert dml.to_device(d, dml.Device("webgpu")) is d
    assert dml.to_device(X, "cpu") is X
    other = there(d[:, 1:], "webgpu:1")
    assert other.device == "webgpu:1"
    np.testing.assert_array_equal(other.numpy(), X[:, 1:])


def test_numpy_makes_copies_and_no_sums_by_itself() -> None:
    d = there(X)
    assert np.array(d, "int8").dtype == np.int8
    assert np.asarray(d, dtype="float64").dtype == np.float64
    with pytest.raises(ValueError, match="copy"):
        np.array(d, copy=False)
    with pytest.raises(TypeError):
        np.add(X, d)
    d.numpy()[...] = 0
    np.testing.assert_array_equal(d.numpy(), X)


# Views


INDICES: list[Any] = [
    0,
    -1,
    np.int64(1),
    slice(1, None),
    (slice(None), slice(None, None, -1), slice(3, None, -2)),
    (1, 2, 3),
    (..., 2),
    (None, 1, ..., None),
    (slice(None), slice(2, 2)),
    (),
    ...,
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_an_index_gives_a_view(index: Any, doubles: list[DoubleEngine]) -> None:
    d = there(X)
    copied = len(doubles[0].own.copied)
    found, wanted = d[index], X[(*index, ...) if isinstance(index, tuple) and ... not in index else index]
    assert len(doubles[0].own.copied) == copied
    np.testing.assert_array_equal(found.numpy(), wanted)
    if wanted.size:
        d[index] = 77
        changed = X.copy()
        changed[index] = 77
        np.testing.assert_array_equal(d.numpy(), changed)
        assert (found.numpy() == 77).all()


def test_shapes_of_the_same_memory(doubles: list[DoubleEngine]) -> None:
    d = there(X)
    copied = len(doubles[0].own.copied)
    views = [
        (d.reshape(6, 4), X.reshape(6, 4)),
        (d.reshape((4, -1)), X.reshape(4, 6)),
        (d.reshape(-1), X.reshape(-1)),
        (d.T, X.T),
        (d.transpose(1, 0, 2), X.transpose(1, 0, 2)),
        (d.transpose((2, 0, 1)), X.transpose(2, 0, 1)),
        (d[:, 1:].reshape(2, 2, 2, 2), X[:, 1:].reshape(2, 2, 2, 2)),
        (d.view("int32"), X.view("int32")),
        (d.view("uint8"), X.view("uint8")),
    ]
    assert len(doubles[0].own.copied) == copied
    for view, wanted in views:
        np.testing.assert_array_equal(view.numpy(), wanted)
        assert view.strides == wanted.strides
    np.testing.assert_array_equal(d.T.reshape(8, 3).numpy(), X.T.reshape(8, 3))  # which is a copy
    d[...] = 0
    assert not views[0][0].numpy().any()


def test_a_view_keeps_the_memory(doubles: list[DoubleEngine]) -> None:
    part = there(X)[1]
    np.testing.assert_array_equal(part.numpy(), X[1])
    address = part.address
    del part
    with pytest.raises(AssertionError, match="gone"):
        doubles[0].own.read(address, 4)


def test_writing_leaves_what_is_between() -> None:
    d = there(X)
    strided = d[:, :, ::2]
    assert strided.copy_from(X[:, :, ::2] + 100) is strided
    wanted = X.copy()
    wanted[:, :, ::2] += 100
    np.testing.assert_array_equal(d.numpy(), wanted)
    d[0] = there(X[1])  # an array of the device, and repeated rows
    d[1] = np.arange(4, dtype="int16")
    np.testing.assert_array_equal(d.numpy(), np.stack([X[1], np.broadcast_to(np.arange(4), (3, 4))]))
    copy = strided.copy()
    assert copy.is_packed
    copy[...] = 0
    assert d.numpy().any()


# As Python's


def test_one_element_is_a_number() -> None:
    one = there(np.array([[3]], "int32"))
    assert (int(one), float(one), bool(one), one.item(), range(5)[one]) == (3, 3.0, True, 3, 3)
    assert not there(np.float32(0))
    d = there(X)
    assert d.item(1, 2, 3) == d.item((1, 2, 3)) == 23.0
    assert len(d) == 2
    assert [row.tolist() for row in d] == X.tolist()


def test_pythons_operators(doubles: list[DoubleEngine]) -> None:
    x, d, e = X - 5, there(X - 5), there(X + 1)
    doubles[0].own.copied.clear()
    found = [d + e, d - 1.5, 2 - d, d * e, d / e, 3 / e, d**2, d % 3, -d, abs(d), d @ e.transpose(0, 2, 1)]
    assert {kind for kind, _ in doubles[0].own.copied} <= {"write"}  # of numbers
    y = X + 1
    wanted = [x + y, x - 1.5, 2 - x, x * y, x / y, 3 / y, x**2, x % 3, -x, abs(x), x @ y.swapaxes(1, 2)]
    for one, expected in zip(found, wanted, strict=True):
        assert type(one) is dml.DeviceArray
        np.testing.assert_allclose(one.numpy(), expected, 1e-6)
    for truths, expected in ((d < e, x < y), (d <= 3, x <= 3), (d > 0, x > 0), (d == 2, x == 2), (d != e, x != y)):
        assert truths.dtype == np.bool_
        np.testing.assert_array_equal(truths.numpy(), expected)
    for both in (d + y, y + d, np.float32(2) + d):  # a host array beside it goes to the device
        assert type(both) is dml.DeviceArray
    less: Any = y - d
    np.testing.assert_array_equal(less.numpy(), y - x)
    with pytest.raises(TypeError):
        d + "text"  # type: ignore[operator]
    assert d in {d: 1}
    assert not d == "text"  # noqa: SIM201 - == and != are two methods
    assert d != "text"


def test_it_prints_its_elements_and_where_they_lie() -> None:
    assert repr(there(np.array([[1, 2], [3, 4]], "int16"))) == (
        "DeviceArray([[1, 2],\n             [3, 4]], dtype=int16, device='webgpu:0')"
    )
    assert repr(there(np.zeros((0, 2), "float32"))) == "DeviceArray(shape=(0, 2), dtype=float32, device='webgpu:0')"
    assert str(there([1, 2])) == "[1 2]"


# What bad input gets


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda d: d[[0, 1]], "an index must be an integer, a slice, None or ...; no array"),
        (lambda d: d[True], "an index must be"),
        (lambda d: d[np.array([0])], "dml.gather"),
        (lambda d: d[5], "index 5 is out of bounds"),
        (lambda d: d[0, 0, 0, 0], "too many indices"),
        (lambda d: d.reshape(5, 5), "shape must be one of 24 elements"),
        (lambda d: d.reshape("x"), "shape must be one of 24 elements"),
        (lambda d: d.transpose(0, 0, 1), "axes must name each of the 3 dimensions once"),
        (lambda d: d.view("float64")[0].view("complex64x"), "dtype must be a type"),
        (lambda d: d.copy_from(np.zeros(5)), "array must have elements that float32 holds|sizes"),
        (lambda d: d.copy_from(np.zeros((5,), "float32")), "array must be of sizes that"),
        (lambda d: d.copy_from(["x"]), "array must have elements that float32 holds"),
        (lambda d: d.item(), r"item\(\) takes an array of one element"),
        (bool, r"bool\(\) takes an array of one element"),
    ],
)
def test_what_bad_use_gets(break_it: Any, message: str) -> None:
    with pytest.raises((dml.DmlError, IndexError), match=message):
        break_it(there(X))


def test_what_is_no_array_goes_nowhere() -> None:
    for x, message in (
        (np.zeros(2, "complex64"), "x must have a data type that is one of"),
        ("text", "x must be an array"),
        (np.ma.masked_equal([1], 1), "x is a masked array"),  # type: ignore[no-untyped-call]  # NumPy's own
    ):
        with pytest.raises(dml.DmlError, match=message) as caught:
            dml.to_device(x, "webgpu")
        assert caught.value.subject == "to_device"
    with pytest.raises(TypeError, match="to_device"):
        dml.DeviceArray()
    with pytest.raises(TypeError, match="can be pickled"):
        pickle.dumps(there(X))
    with pytest.raises(TypeError, match=r"no len\(\)"):
        len(there(np.float32(1)))


def test_other_devices_say_where_it_lies() -> None:
    d = there(X)
    with pytest.raises(
        dml.BindingError, match="lies in the memory of webgpu:0, and this device works in the host's"
    ) as e:
        dml.add(d, d, device="cpu")
    assert "x.numpy()" in str(e.value)
    assert "Device('webgpu:0')" in str(e.value)
    with pytest.raises(dml.BindingError, match="and this device works in that of webgpu:1"):
        dml.add(d, d, device="webgpu:1")
    with pytest.raises(dml.BindingError, match="lies in the memory of webgpu:0"):
        dml.add(X, d)
