"""ONNX models and sessions on a double of a device whose memory no library knows: the host's arrays and its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from onnx_flow import MODELS, flow_model
from onnx_models import model, node

pytestmark = pytest.mark.usefixtures("doubles")

X = np.arange(16, dtype="float32").reshape(4, 4)


def there(x: Any) -> Any:
    return dml.to_device(x, "webgpu")


def put(inputs: dict[str, Any]) -> dict[str, Any]:
    return {name: there(x) for name, x in inputs.items()}


def check(found: dict[str, Any], wanted: dict[str, Any], kind: Any) -> None:
    assert found.keys() == wanted.keys()
    for name, one in found.items():
        assert type(one) is kind
        assert one.dtype == wanted[name].dtype
        np.testing.assert_allclose(np.asarray(one), wanted[name], 1e-5, 1e-6)


def small_model() -> Any:
    nodes = [
        node("MatMul", "x w", "product"),
        node("Relu", "product", "y"),
        node("Greater", "y limit", "is_large"),
        node("Identity", "x", "same"),
        node("Constant", "", "fixed", value_ints=[1, 2]),
    ]
    constants = {"w": np.eye(4, dtype="float32") - 0.5, "limit": np.array(2, "float32")}
    return model(nodes, {"x": ("float32", (4, 4))}, "y is_large same fixed", constants=constants)


def test_a_model_runs_where_its_inputs_lie() -> None:
    wanted = dml.onnx.load(small_model(), device="cpu").run({"x": X})
    loaded = dml.onnx.load(small_model(), device="webgpu")
    for _ in range(2):  # the second run takes the short way
        check(loaded.run({"x": X}), wanted, np.ndarray)
        check(loaded.run({"x": there(X)}), wanted, dml.DeviceArray)
    check(loaded.run({"x": there(X.T.copy()).T}), wanted, dml.DeviceArray)  # which is packed first
    found = loaded.run({"x": there(X)})
    again = loaded.run({"x": found["same"]})
    check(again, wanted, dml.DeviceArray)
    assert np.asarray(found["is_large"]).dtype == np.bool_


def test_results_go_into_arrays_of_either_kind() -> None:
    wanted = dml.onnx.load(small_model(), device="cpu").run({"x": X})
    loaded = dml.onnx.load(small_model(), device="webgpu")
    for place in ("cpu", "webgpu"):
        for given in (X, there(X)):
            out = {name: dml.to_device(np.zeros_like(wanted[name]), place) for name in ("y", "same", "is_large")}
            found = loaded.run({"x": given}, out=out)
            assert all(found[name] is array for name, array in out.items())
            for name, array in out.items():
                np.testing.assert_allclose(np.asarray(array), wanted[name], 1e-5)
    with pytest.raises(dml.BindingError, match=r"must begin where programs may be bound to.*copy"):
        loaded.run({"x": X}, out={"y": there(np.zeros(17, "float32"))[1:].reshape(4, 4)})
    with pytest.raises(dml.BindingError, match="must be of float32"):
        loaded.run({"x": there(X.astype("int32"))})


@pytest.mark.parametrize("name", MODELS)
def test_control_flow_and_sequences(name: str) -> None:
    proto = flow_model(name)
    on_cpu, loaded = (dml.onnx.load(proto, device=device) for device in ("cpu", "webgpu"))
    for inputs in MODELS[name][1]:
        if any(isinstance(x, list) for x in inputs.values()):
            continue
        wanted = on_cpu.run(inputs)
        for given in (inputs, put(inputs)):
            for _ in range(2):
                found = loaded.run(given)
                for key, one in found.items():
                    for a, b in zip(one, wanted[key], strict=True) if isinstance(one, list) else [(one, wanted[key])]:
                        np.testing.assert_allclose(np.asarray(a), b, 1e-5, 1e-6)


def test_nodes_on_the_host_between_those_on_the_device() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Det", "a", "b"),
        node("Add", "b a", "y"),
        node("NonZero", "a", "z"),
    ]
    made = model(nodes, {"x": ("float32", (4, 4))}, "y z")
    wanted = dml.onnx.load(made, device="cpu").run({"x": X})
    loaded = dml.onnx.load(made, device="webgpu")
    for _ in range(2):
        check(loaded.run({"x": X}), wanted, np.ndarray)
        check(loaded.run({"x": there(X)}), wanted, dml.DeviceArray)


def test_a_profile_and_a_picture() -> None:
    loaded = dml.onnx.load(small_model(), device="webgpu")
    profile = loaded.profile({"x": X}, runs=1)
    assert profile.device == "webgpu"
    assert profile.passes
    assert "RELU" in str(loaded.explain()).upper()


def test_compare() -> None:
    found = dml.onnx.compare(small_model(), {"x": X}, device="webgpu", against="reference", every=True)
    assert found, found
    assert len(found.nodes) >= 3


# Sessions


def test_a_session_by_its_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    ort = dml.onnxruntime
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", str)
    assert ort.get_available_providers()[-2:] == ["WebGpuExecutionProvider", "CPUExecutionProvider"]
    session = ort.InferenceSession(small_model().SerializeToString(), providers=["WebGpuExecutionProvider"])
    assert session.get_providers() == ["WebGpuExecutionProvider", "CPUExecutionProvider"]
    assert session.get_provider_options()["WebGpuExecutionProvider"] == {"device_id": "0", "device": "webgpu"}
    wanted = dml.onnx.load(small_model(), device="cpu").run({"x": X})
    for _ in range(2):
        for one, expected in zip(session.run(None, {"x": X}), wanted.values(), strict=True):
            assert type(one) is np.ndarray
            np.testing.assert_allclose(one, expected, 1e-5)
    second = [("WebGpuExecutionProvider", {"device_id": 1})]
    assert ort.InferenceSession(small_model().SerializeToString(), providers=second).device.name == "webgpu:1"
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", lambda: "there is none")
    assert "WebGpuExecutionProvider" not in ort.get_available_providers()
    with pytest.warns(UserWarning, match="'WebGpuExecutionProvider' is not in available provider names"):
        ort.InferenceSession(small_model().SerializeToString(), providers=["WebGpuExecutionProvider"])


def test_values_and_bindings_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    ort = dml.onnxruntime
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", str)
    session = ort.InferenceSession(small_model().SerializeToString(), providers=["WebGpuExecutionProvider"])
    (y, *_) = session.run(None, {"x": X})
    value = ort.OrtValue.ortvalue_from_numpy(X, "webgpu", 0)
    assert (value.device_name(), value.shape(), value.data_type()) == ("webgpu", [4, 4], "tensor(float)")
    assert isinstance(value.held, dml.DeviceArray)
    assert value.data_ptr() == value.held.address
    np.testing.assert_array_equal(value.numpy(), X)
    found = session.run_with_ort_values(["y"], {"x": value})
    assert found[0].device_name() == "webgpu"
    np.testing.assert_allclose(found[0].numpy(), y)
    value.update_inplace(X + 1)
    np.testing.assert_array_equal(value.numpy(), X + 1)
    value.update_inplace(ort.OrtValue.ortvalue_from_numpy(X, "webgpu"))

    binding = session.io_binding()
    target = ort.OrtValue.ortvalue_from_shape_and_type((4, 4), np.float32, "webgpu", 0)
    binding.bind_ortvalue_input("x", value)
    binding.bind_ortvalue_output("y", target)
    binding.bind_output("same", "webgpu", 0)
    binding.bind_output("fixed")
    for _ in range(2):
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()
        np.testing.assert_allclose(target.numpy(), y)
        first, same, fixed = binding.get_outputs()
        assert first.held is target.held
        assert (same.device_name(), fixed.device_name()) == ("webgpu", "cpu")
        np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[1], X)
    with pytest.raises(dml.DmlError, match="has no DLPack"):
        value.to_dlpack()
    with pytest.raises(dml.DmlError, match="is not known by its address"):
        binding.bind_input("x", "webgpu", 0, np.float32, (4, 4), 4096)
