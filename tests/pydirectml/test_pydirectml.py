"""PyDirectML's module: its whole surface, small graphs against NumPy, and wrong arguments refused in words."""

from __future__ import annotations

import contextlib
import copy
import importlib.machinery
import inspect
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml
import anydml.pydirectml as dml
import pydirectml
from anydml.core.memory import HOST
from anydml.engines.webgpu import why_missing
from anydml.operators import OPERATORS
from anydml.pydirectml import enums, functions
from scripts import write_stub

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = dml.TensorDataType.FLOAT32
WHY = why_missing()
GENERATOR = np.random.default_rng(17)


class Net:
    """A graph with made-up inputs: `x = net(2, 3)` is one of these sizes, whose array is `net.arrays[-1]`."""

    def __init__(self) -> None:
        self.device = dml.Device(False)
        self.builder = dml.GraphBuilder(self.device)
        self.bindings: list[dml.Binding] = []
        self.arrays: list[Any] = []

    def __call__(self, *sizes: int, kind: dml.TensorDataType = F32, array: Any = None) -> dml.Expression:
        found = GENERATOR.uniform(-2, 2, sizes).astype("float32") if array is None else array
        made = dml.input_tensor(self.builder, len(self.bindings), dml.TensorDesc(kind, list(sizes)))
        self.arrays.append(found)
        self.bindings.append(dml.Binding(made, found))
        return made

    def run(self, *outputs: dml.Expression) -> list[Any]:
        model = self.builder.build(dml.ExecutionFlags.NONE, list(outputs))
        return [np.array(x) for x in self.device.compute(model, self.bindings, list(outputs))]


def test_the_module_is_anydmls_and_has_everything() -> None:
    public: list[str] = vars(dml)["__all__"]
    names = {name for name in dir(pydirectml) if not name.startswith("_")}
    own_modules = {name for name in names if isinstance(getattr(pydirectml, name), type(sys))}
    assert names - own_modules - {"Path"} == set(public)
    assert all(getattr(pydirectml, name) is getattr(dml, name) for name in public)
    classes = [name for name in public if isinstance(getattr(dml, name), type) and name not in enums.ENUMS]
    assert len(functions.__all__) == 26
    assert len(set(classes) - {"ArgumentError"}) == 13
    assert len(enums.ENUMS) == 11
    assert all(getattr(dml, name).__doc__ for name in [*functions.__all__, *classes, *enums.ENUMS])


def test_enumerations_are_pybind11s() -> None:
    assert repr(dml.TensorDataType.FLOAT16) == "<TensorDataType.FLOAT16: 2>"
    assert str(dml.ExecutionFlags.DISABLE_META_COMMANDS) == "ExecutionFlags.DISABLE_META_COMMANDS"
    assert (dml.TensorDataType(11), int(dml.INT64), [0, 1][dml.FLOAT32]) == (dml.INT64, 11, 1)
    assert not isinstance(dml.TensorDataType.FLOAT32, int)
    assert dml.ExecutionFlags.DESCRIPTORS_VOLATILE | 1 == 5
    # Later enumerations win, and one is not exported.
    assert (dml.NONE, dml.FORWARD) == (dml.ExecutionFlags.NONE, dml.ConvolutionDirection.FORWARD)
    assert dml.CONVOLUTION is dml.OperatorType.CONVOLUTION
    assert not hasattr(dml, "Both")
    assert len(dml.OperatorType) == 97
    assert len(dml.TensorDataType) == 12
    assert pickle.loads(pickle.dumps(dml.INT8)) is dml.INT8  # noqa: S301 - our own
    for kind in dml.OperatorType:
        assert anydml.OperatorType[kind.name] == kind.value


def test_the_stub_is_what_is_written() -> None:
    assert write_stub.ENUMS_STUB.read_text() == write_stub.enums_stub(), "write it anew with `make written`"


def test_every_argument_is_a_field_of_its_operator() -> None:
    source = inspect.getsource(functions)
    for kind in set(anydml.OperatorType):
        if f'"{kind.name}"' in source and kind in OPERATORS:
            fields = OPERATORS[kind].field_types()
            name = next(line for line in source.split("def ") if f'"{kind.name}"' in line).partition("(")[0]
            for argument in inspect.signature(getattr(functions, name)).parameters:
                spellings = {argument, f"{argument}_tensor", f"{argument}_tensors", argument.removesuffix("s")}
                assert spellings & set(fields) or argument.startswith("output_"), (name, argument)


def test_a_description_has_four_forms_and_its_fields() -> None:
    owned = dml.TensorFlags.OWNED_BY_DML
    packed = dml.TensorDesc(F32, owned, [2, 3, 4, 5])
    assert (packed.sizes, packed.strides, packed.flags, packed.data_type) == ([2, 3, 4, 5], None, owned, F32)
    assert (packed.total_tensor_size_in_bytes, packed.guaranteed_base_offset_alignment) == (480, 0)
    assert repr(packed) == "dml.TensorDesc of type 1 and shape [2,3,4,5] with flags 1"
    inner = dml.TensorDesc(F32, [2, 3, 4, 5], tensor_policy=dml.TensorPolicy.interleaved_channel)
    assert inner.strides == [60, 1, 15, 3]
    assert dml.TensorDesc(F32, [2, 3], dml.TensorPolicy.default).strides is None
    assert dml.TensorDesc(F32, np.array([1, 3, 9, 9]).tolist(), strides=(3, 1, 0, 0)).total_tensor_size_in_bytes == 12
    assert dml.TensorDesc(F32, [4], None).strides is None
    whole = dml.TensorDesc(F32, owned, [4], [2], total_tensor_size_in_bytes=64, guaranteed_base_offset_alignment=16)
    assert (whole.total_tensor_size_in_bytes, whole.guaranteed_base_offset_alignment) == (64, 16)


def test_arithmetic_of_expressions_and_numbers() -> None:
    net = Net()
    a, b = net(1, 1, 2, 5), net(1, 1, 2, 5)
    x, y = net.arrays
    changed, other = a + 0.0, a + 0.0
    same = changed
    changed += b
    same *= 2.0
    other -= b
    other /= np.float32(4)
    quotient = a * 1
    quotient /= b
    found = net.run(
        a + b, a - b, a * b, a / b, a % b, -a, a + 2, 2 - a, a * 3, 3 / a, a / 4.0, changed, other, quotient
    )
    expected = [x + y, x - y, x * y, x / y, np.fmod(x, y), -x, x + 2, 2 - x, x * 3, 3 / x, x / 4]
    expected += [(x + y) * 2, (x - y) / 4, x / y]
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-6)
    with pytest.raises(TypeError, match="unsupported operand"):
        a % 2.0  # type: ignore[operator]  # which is what is refused
    with pytest.raises(TypeError, match="unsupported operand"):
        a + "1"  # type: ignore[operator]  # as above


def test_functions_give_what_numpy_gives() -> None:
    net = Net()
    x, m = net(2, 3, 4, 4), net(1, 3, 1, 1, array=GENERATOR.uniform(1, 2, 3))
    a, _ = net.arrays
    s = np.float32(net.arrays[1]).reshape(1, 3, 1, 1)
    relu = dml.FusedActivation(dml.OperatorType.ACTIVATION_RELU)
    linear = dml.FusedActivation(dml.OperatorType.ACTIVATION_LINEAR, 2, param_2=0.5)
    indices = net(1, 1, 1, 2, kind=dml.TensorDataType.UINT32, array=np.array([3, 0], "uint32"))
    rows = dml.reinterpret(x, F32, [1, 1, 24, 4], [96, 96, 4, 1])
    centred = a - a.mean((0, 2, 3), keepdims=True)
    powers = np.exp(a - a.max(-1, keepdims=True))
    normal = (a - s) / np.sqrt(s + 1e-5) * s + s
    cases = {
        "relu": (dml.activation_relu(x), np.maximum(a, 0)),
        "sigmoid": (dml.activation_sigmoid(input=x), 1 / (1 + np.exp(-a))),
        "identity": (dml.activation_identity(x), a),
        "tanh": (dml.activation_tanh(x), np.tanh(a)),
        "softmax": (dml.activation_soft_max(rows), (powers / powers.sum(-1, keepdims=True)).reshape(1, 1, 24, 4)),
        "linear": (dml.activation_linear(x, 2, beta=1), 2 * a + 1),
        "add": (dml.add(x, x, fused_activation=relu), np.maximum(2 * a, 0)),
        "add with parameters": (dml.add(x, x, linear), 4 * a + 0.5),
        "subtract": (dml.subtract(x, x), a - a),
        "multiply": (dml.multiply(x, b=x), a * a),
        "divide": (dml.divide(x, x), a / a),
        "mean": (dml.mean_variance_normalization(x, axes=[0, 2, 3], normalize_variance=0, epsilon=0), centred),
        "normal": (dml.batch_normalization(x, m, m, m, m, 1, 1e-5), normal),
        "slice": (dml.slice(x, [0, 0, 1, 0], [2, 3, 3, 4], [1, 2, 1, -1]), a[:, ::2, 1:, ::-1]),
        "gemm": (dml.gemm(x, x, x, dml.MatrixTransform.TRANSPOSE, beta=2), a.swapaxes(-1, -2) @ a + 2 * a),
        "join": (dml.join([x, x], 1), np.concatenate([a, a], 1)),
        "gather": (dml.gather(x, indices, 3, 1), a[..., [3, 0]]),
        "reinterpret": (dml.reinterpret(x, F32, [1, 1, 6, 16], None) * 2, 2 * a.reshape(1, 1, 6, 16)),
        "response": (dml.local_response_normalization(x, 1, 1, 0.5, 1.0, 2.0), a / (2 + 0.5 * a * a)),
    }
    for name, mine in zip(cases, net.run(*(case[0] for case in cases.values())), strict=True):
        np.testing.assert_allclose(mine, cases[name][1], rtol=2e-5, atol=2e-6, err_msg=name)


def test_inputs_stand_in_the_order_of_their_indices_and_owned_ones_may_change() -> None:
    device = dml.Device(use_gpu=False, use_debug_layer=True)
    assert repr(device) == "dml.Device on CPU"
    builder = dml.GraphBuilder(device=device)
    a = dml.input_tensor(builder, 1, dml.TensorDesc(F32, [1, 1, 2, 3], [3, 3, 0, 1]))
    b = dml.input_tensor(builder, 0, dml.TensorDesc(F32, dml.TensorFlags.OWNED_BY_DML, [1, 1, 2, 3]))
    out = a - b
    model = builder.build(dml.ExecutionFlags.NONE, [out])
    rows, table = np.array([1, 2, 3]), np.arange(6.0).reshape(2, 3)[:, ::-1]
    weights = dml.Binding(b, table)
    for _ in range(2):
        (found,) = device.compute(model, [weights, dml.Binding(a, rows)], [out])
        np.testing.assert_array_equal(np.array(found), (rows - table)[None, None])
    (found,) = device.compute(model, [dml.Binding(expr=b, data=table * 2), dml.Binding(a, rows)], [out])
    np.testing.assert_array_equal(found, (rows - 2 * table)[None, None])
    assert isinstance(found, dml.TensorData)
    data: Any = dml.TensorData(np.arange(4)[::2])
    assert (memoryview(data).format, data.tolist()) == ("f", [0, 2])


@pytest.mark.skipif(bool(WHY), reason=WHY)
def test_a_name_chooses_a_device() -> None:
    found = {}
    for name in ("webgpu", "cpu"):
        device = dml.Device(name)
        assert repr(device) == f"dml.Device on {'CPU' if name == 'cpu' else 'GPU'}"
        assert copy.deepcopy(device).inner.engine is device.inner.engine
        builder = dml.GraphBuilder(device)
        a = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [1, 1, 2, 3], [3, 3, 0, 1]))
        b = dml.input_tensor(builder, 1, dml.TensorDesc(F32, dml.TensorFlags.OWNED_BY_DML, [1, 1, 2, 3]))
        out = dml.activation_relu(a - b * 2)
        model = builder.build(dml.ExecutionFlags.NONE, [out])
        bindings = [dml.Binding(a, np.arange(3)), dml.Binding(b, np.arange(-3, 3))]
        (found[name],) = device.compute(model, bindings, [out])
    np.testing.assert_array_equal(found["webgpu"], found["cpu"])
    with pytest.raises(anydml.MissingDependencyError, match="there is no device 'webgpu:none of this name'"):
        dml.Device("webgpu:none of this name")


def test_several_threads_may_compute_with_weights_of_their_own() -> None:
    device = dml.Device(False)
    builder = dml.GraphBuilder(device)
    x = dml.input_tensor(builder, 0, dml.TensorDesc(F32, [64]))
    weight = dml.input_tensor(builder, 1, dml.TensorDesc(F32, dml.OWNED_BY_DML, [64]))
    out = x * weight
    model = builder.build(dml.NONE, [out])
    given = dml.Binding(x, np.arange(64))

    def compute(k: int) -> bool:
        (found,) = device.compute(model, [given, dml.Binding(weight, np.full(64, k))], [out])
        return np.array_equal(found, k * np.arange(64))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(compute, range(40)))


def test_data_of_other_types_is_of_the_type_or_its_bytes() -> None:
    net = Net()
    x = net(1, 1, 1, 4)
    numbers = np.array([3, 0, 3], "uint32")
    for data in (numbers, numbers.view("float32")):
        indices = net(1, 1, 1, 3, kind=dml.TensorDataType.UINT32, array=data)
        (found,) = net.run(dml.gather(x, indices, 3, 1))
        np.testing.assert_array_equal(found[0, 0, 0], net.arrays[0][0, 0, 0, numbers])
    half = net(1, 1, 1, 2, kind=dml.TensorDataType.FLOAT16, array=np.array([1, 2], "float16"))
    (found,) = net.run(half + half)
    assert (found.dtype, found.ravel().tolist()) == (np.float16, [2, 4])


def test_a_gpu_is_taken_where_there_is_one(gpus: list[Any]) -> None:
    assert repr(dml.Device()) == "dml.Device on GPU"
    assert repr(dml.Device(False)) == "dml.Device on CPU"
    assert dml.Device(True).inner.engine.memory != HOST


def test_microsofts_module_is_not_shadowed(tmp_path: Path) -> None:
    """An extension of the name is taken with a warning, and anydml's where the environment says so."""
    fake = tmp_path / f"pydirectml{importlib.machinery.EXTENSION_SUFFIXES[0]}"
    math = importlib.machinery.PathFinder.find_spec("_struct")
    if math is None or math.origin is None or not Path(math.origin).is_file():
        pytest.skip("no extension module of Python's own lies in a file here")
    fake.write_bytes(Path(math.origin).read_bytes())
    source = Path(pydirectml.__file__).parent.parent

    def run(**environment: str) -> subprocess.CompletedProcess[str]:
        paths = os.pathsep.join([str(source), str(tmp_path)])
        code = "import pydirectml; print(hasattr(pydirectml, 'GraphBuilder'))"
        return subprocess.run(  # noqa: S603 - our own code
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": paths, **environment},
        )

    taken = run()
    assert f"pydirectml is Microsoft's module, {fake}" in taken.stderr
    assert "PyInit_pydirectml" in taken.stderr  # what was loaded is the other module, here none at all
    asked = run(ANYDML_PYDIRECTML="1")
    assert (asked.stdout, asked.stderr) == ("True\n", "")


def refusals() -> dict[str, tuple[Callable[[], Any], type[Exception], str]]:
    net = Net()
    x, y = net(1, 1, 2, 3), net(1, 1, 3, 2)
    binding = dml.Binding(x, np.zeros(6))
    other = Net()(1, 1, 2, 3)
    model = net.builder.build(dml.NONE, [x + x])
    device = net.device
    unused: Any = None
    add: Any = dml.add
    return {
        "an array": (lambda: add(x, np.zeros(3)), TypeError, "b must be an Expression; got a ndarray"),
        "nothing": (lambda: add(x), TypeError, "missing 1 required positional argument"),
        "an empty one": (lambda: add(x, dml.Expression()), TypeError, "b must not be an empty Expression"),
        "another graph's": (lambda: add(x, other), TypeError, "must be of one GraphBuilder"),
        "sizes": (lambda: add(x, y), ValueError, r"BTensor.Sizes must be \(1, 1, 2, 3\)"),
        "a number": (lambda: dml.activation_linear(x, "1", 2), TypeError, "Alpha"),  # type: ignore[arg-type]  # wrong on purpose
        "no list": (lambda: dml.join(x, 1), TypeError, "input must be a list of Expression"),  # type: ignore[arg-type]  # wrong on purpose
        "an empty list": (lambda: dml.join([], 1), TypeError, "not an empty one"),
        "a name": (lambda: dml.gemm(x, y, trans_a="no"), TypeError, "TransA must be one of"),  # type: ignore[arg-type]  # wrong on purpose
        "left out": (lambda: dml.mean_variance_normalization(x, epsilon=1), TypeError, "variance must be given"),
        "a description": (lambda: dml.TensorDesc(1, [2]), TypeError, r"one of these.*got \(int, list\)"),  # type: ignore[call-overload]  # wrong on purpose
        "a size": (lambda: dml.TensorDesc(F32, [0]), TypeError, r"Sizes\[0\] must be at least 1"),
        "an unknown type": (lambda: dml.TensorDesc(dml.UNKNOWN, [1]), TypeError, "DataType must be one of"),
        "constructors": (dml.Model, TypeError, "GraphBuilder.build makes one"),
        "dimensions": (dml.Dimensions, TypeError, "lists of numbers"),
        "policies": (dml.TensorPolicy, TypeError, "TensorPolicy.default"),
        "an activation": (lambda: dml.FusedActivation(1), TypeError, "an OperatorType"),  # type: ignore[arg-type]  # wrong on purpose
        "no activation": (lambda: dml.FusedActivation(dml.OperatorType.GEMM), ValueError, "Type must be one of"),
        "flags": (lambda: net.builder.build("x", [x]), TypeError, "flags must be an ExecutionFlags"),  # type: ignore[arg-type]  # wrong on purpose
        "no outputs": (lambda: net.builder.build(dml.NONE, []), ValueError, "at least one"),
        "an index twice": (lambda: dml.input_tensor(net.builder, 0, dml.TensorDesc(F32, [1])), TypeError, "no other"),
        "no index": (lambda: dml.input_tensor(net.builder, -1, dml.TensorDesc(F32, [1])), TypeError, "at least 0"),
        "too few": (lambda: device.compute(model, [binding], [x + x]), ValueError, "inputs must be a list of 2"),
        "another order": (lambda: device.compute(model, net.bindings[::-1], [x + x]), ValueError, "order of input"),
        "another output": (lambda: device.compute(model, net.bindings, [y]), ValueError, r"outputs\[0\] must be of"),
        "no model": (lambda: device.compute(unused, [], []), TypeError, "model must be a Model"),
        "elements": (lambda: dml.Binding(x, np.zeros(5)), ValueError, "must have 6 elements.*got 5"),
        "text": (lambda: dml.Binding(x, "abc"), TypeError, "data must be an array of numbers"),
        "ragged": (lambda: dml.Binding(x, [[1], [2, 3]]), TypeError, "data must be an array of numbers"),
        "a width": (lambda: dml.Size2D(-1, 2), TypeError, "width must be at least 0"),
    }  # fmt: skip


@pytest.mark.parametrize("name", refusals())
def test_what_is_refused_says_why(name: str) -> None:
    call, kind, message = refusals()[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert isinstance(caught.value, anydml.DmlError) or name == "nothing"


class Evil:
    """Raises whatever it is asked."""

    def _raise(self, *_: object, **__: object) -> Any:
        raise RuntimeError

    __len__ = __getitem__ = __index__ = __float__ = __bool__ = __repr__ = __array__ = _raise


ODD: list[Any] = [
    None, 3, -1, 2**40, 10**400, 1.5, float("nan"), True, "x", b"x", [], {}, [None], ["a"], [-1, 1], [[1]], object(),
    np.zeros(2), np.zeros((2, 2, 2)), dml.Expression(), dml.FLOAT32, dml.Size2D(0, 0), Evil(),
]  # fmt: skip


@pytest.mark.parametrize(
    "name", [*functions.__all__, "TensorDesc", "Binding", "TensorData", "Size2D", "FusedActivation"]
)
def test_whatever_is_given_is_taken_or_refused_in_words(name: str) -> None:
    net = Net()
    x = net(1, 1, 2, 3)
    function: Any = getattr(dml, name)
    parameters = ["data_type", "sizes", "strides"] if name == "TensorDesc" else inspect.signature(function).parameters
    usual = {"scope": net.builder, "input_index": 7, "tensor_desc": dml.TensorDesc(F32, [1]), "data_type": F32}
    tensors = ("input", "filter", "a", "b", "c", "mean", "variance", "scale", "bias", "indices", "weight", "recurrence")
    given = {one: x if one in tensors else usual.get(one, [1, 1]) for one in parameters}
    for one in parameters:
        for odd in ODD:
            with contextlib.suppress(anydml.DmlError):
                function(**{**given, one: odd})


def test_gaps_between_indices_are_refused_when_the_graph_is_built() -> None:
    builder = dml.GraphBuilder(dml.Device(False))
    x = dml.input_tensor(builder, 1, dml.TensorDesc(F32, [4]))
    with pytest.raises(dml.ArgumentError, match=r"input_index of 1 inputs must be 0 \.\. 0; got 1"):
        builder.build(dml.NONE, [x + 1])


def test_an_operator_that_is_not_built_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(OPERATORS, anydml.OperatorType.GRU, raising=False)
    x = Net()(1, 1, 2, 3)
    direction = dml.RecurrentNetworkDirection.FORWARD
    with pytest.raises(anydml.UnsupportedError, match="GRU: the operator is not built yet"):
        dml.gru(x, x, x, activation_descs=[], direction=direction, output_options=dml.OutputOptions.Both)
