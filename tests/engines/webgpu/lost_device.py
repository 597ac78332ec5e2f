"""A device that is lost: an error that says so, and a new device in the same process.

`test_loss.py` runs these in a process of their own: other tests keep their device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.webgpu import why_missing

WHY = why_missing()
pytestmark = pytest.mark.skipif(bool(WHY), reason=WHY)
LOST = r"was lost, with all that lay in its memory.*; Device\(\"webgpu:0\"\) makes it anew"
X = np.arange(4, dtype=np.float32)


def lose() -> Any:
    """Lose the device that there is."""
    gpu = dml.Device("webgpu").engine._memory.gpu  # type: ignore[attr-defined]  # the engine's own
    gpu.lib.wgpuDeviceDestroy(gpu.handle)
    return gpu


def graph_of(weights: Any, device: Any) -> Any:
    """A graph with a constant."""
    graph = dml.Graph(device)
    return graph.compile(dml.gemm(graph.input("float32", (2, 2), "x"), graph.constant(weights)))


def test_everything_of_a_lost_device_says_so_and_the_next_one_works() -> None:
    device, weights = dml.Device("webgpu"), np.full((2, 2), 3, np.float32)
    x, out = dml.to_device(X, device), dml.to_device(X, device)
    tensor = dml.TensorDesc("float32", (4,))
    compiled = device.compile(dml.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor))
    bound, graph = compiled.bind(x, out=out), graph_of(weights, device)
    dml.add1(x, x, out=out), dml.add1(x, x, out=out)
    before = graph(X.reshape(2, 2))
    lose()
    with pytest.raises(dml.DeviceLostError, match=LOST):
        out.numpy()
    for use in (
        x.numpy,
        lambda: x.copy_from(X),
        lambda: dml.add1(x, x),
        lambda: dml.add1(x, x, out=out),
        bound.dispatch,
        lambda: compiled(x),
        lambda: graph(X.reshape(2, 2)),
        lambda: device.compile(dml.ElementWiseAbs(input_tensor=tensor, output_tensor=tensor)),
    ):
        with pytest.raises(dml.DeviceLostError, match=LOST):
            use()
    again = dml.Device("webgpu")
    assert again.engine is not device.engine
    y = dml.to_device(X, "webgpu")
    for _ in range(3):
        assert dml.add1(y, y).tolist() == [0, 2, 4, 6]
    np.testing.assert_array_equal(graph_of(weights, again)(X.reshape(2, 2)), before)
    for use in (x.numpy, lambda: dml.add1(x, y), lambda: dml.add1(y, y, out=out), lambda: graph(X.reshape(2, 2))):
        with pytest.raises(dml.DeviceLostError, match=LOST):
            use()
    assert dml.add1(y, y).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    "use",
    [
        lambda x: dml.sigmoid(x),
        lambda x: dml.to_device(np.zeros(5000, np.float32), "webgpu"),
        lambda x: x[1:].copy(),
        lambda x: x.copy_from(X),
    ],
)
def test_whatever_meets_the_loss_first_is_told(use: Any) -> None:
    x = dml.to_device(X, "webgpu")
    x.numpy()
    lose()
    with pytest.raises(dml.DeviceLostError, match=LOST):
        use(x), x.numpy()
    assert dml.sigmoid(dml.to_device(np.zeros(1, np.float32), "webgpu")).tolist() == [0.5]


def test_a_device_that_is_asked_for_after_an_unseen_loss_is_a_new_one() -> None:
    gpu = lose()
    device = dml.Device("webgpu")
    assert device.engine._memory.gpu is not gpu  # type: ignore[attr-defined]  # the engine's own
    assert dml.add1(X, X, device=device).tolist() == [0, 2, 4, 6]


def test_memory_that_ran_out_names_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = dml.Device("webgpu").engine._memory  # type: ignore[attr-defined]  # the engine's own

    def refuse(*_: object) -> None:
        raise RuntimeError("Not enough memory left")

    kept = own.reserve(2**20)
    monkeypatch.setattr(own.gpu.checked, "wgpuDeviceCreateBuffer", refuse, raising=False)
    with pytest.raises(MemoryError, match=r"has no 3 MiB more: [\d.]+ (MiB|GiB) are held in webgpu:0.*Not enough"):
        own.reserve(3 * 2**20)
    with pytest.raises(dml.BindingError, match=r"has no 3 MiB more"):
        dml.sigmoid(np.zeros(3 * 2**18, np.float32), device="webgpu")
    assert own.find(kept.address)[2] == 0
