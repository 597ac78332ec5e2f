"""Recurrent networks against PyTorch's layers, by any number of threads, and ONNX's nodes beyond its own tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.engines.common.repeat import RepeatProgram
from doors import as_list
from families.recurrent import GATES
from places import get, put

if TYPE_CHECKING:
    from collections.abc import Iterator

ACTIVATIONS = {"RNN": ["TANH"], "LSTM": ["SIGMOID", "TANH", "TANH"], "GRU": ["SIGMOID", "TANH"]}
ORDER = {"RNN": (0,), "LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2)}
"""The gates of DirectML in the order of PyTorch's."""


def drawn(kind: str, ways: int, steps: int, batch: int, inputs: int, size: int) -> dict[str, Any]:
    rng, rows = np.random.default_rng(5), GATES[kind] * size
    sizes = {"x": (1, steps, batch, inputs), "weight": (1, ways, rows, inputs), "recurrence": (1, ways, rows, size)}
    sizes |= {"bias": (1, 1, ways, 2 * rows), "hidden_init": (1, ways, batch, size)}
    if kind == "LSTM":
        sizes["cell_mem_init"] = (1, ways, batch, size)
    return {name: (rng.standard_normal(own) / 4).astype(np.float32) for name, own in sizes.items()}


@pytest.mark.parametrize("kind", GATES)
def test_sequences_of_several_lengths_are_pytorchs(engine: str, kind: str) -> None:
    """Both directions, first states, and sequences in any order of their lengths."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test EXTRAS=torch")
    given, lengths = drawn(kind, 2, 5, 3, 4, 6), [3, 5, 1]
    layer = getattr(torch.nn, kind)(4, 6, bidirectional=True)
    rows = GATES[kind] * 6
    with torch.no_grad():
        for way in range(2):
            weights = [given[name][0, way] for name in ("weight", "recurrence")]
            weights += [given["bias"][0, 0, way, :rows], given["bias"][0, 0, way, rows:]]
            for own, one in zip(list(layer.parameters())[4 * way :], weights, strict=False):
                gates = one.reshape(GATES[kind], 6, -1)[list(ORDER[kind])]
                own.copy_(torch.from_numpy(gates.reshape(tuple(own.shape))))
        first = [torch.from_numpy(given[name][0]) for name in ("hidden_init", "cell_mem_init") if name in given]
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.from_numpy(given["x"][0]), torch.tensor(lengths), enforce_sorted=False
        )
        sequence, last = layer(packed, tuple(first) if kind == "LSTM" else first[0])
        padded = torch.nn.utils.rnn.pad_packed_sequence(sequence)[0].numpy()
    wanted = [
        padded.reshape(5, 3, 2, 6).transpose(0, 2, 1, 3),
        *(one.numpy()[None] for one in (last if kind == "LSTM" else [last])),
    ]
    options: dict[str, Any] = {"LSTM": {"output_cell_single": True}, "GRU": {"linear_before_reset": True}}.get(kind, {})
    device = dml.Device(engine)
    found = getattr(dml, kind.lower())(
        **{name: put(one, device) for name, one in given.items()},
        sequence_lengths=put(np.array(lengths, np.uint32).reshape(1, 1, 1, 3), device),
        direction="bidirectional", output_single=True, device=device, **options,  # the usual functions
    )  # fmt: skip
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(get(got), want, rtol=1e-5, atol=1e-6)


@pytest.fixture
def threads_kept() -> Iterator[None]:
    """The number of threads is what it was afterwards."""
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


@pytest.mark.usefixtures("threads_kept")
@pytest.mark.parametrize("kind", GATES)
def test_one_call_gives_the_bits_of_step_by_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps, which stay on a thread, and large ones, which threads share; weights laid out ahead or not."""
    for size, is_constant in ((8, True), (160, True), (160, False)):
        given = drawn(kind, 1, 4, 8, 8, size)
        found = []
        for threads, is_by_step in ((1, False), (2, False), (2, True)):
            dml.set_num_threads(threads)
            with monkeypatch.context() as patched:
                if is_by_step:
                    patched.setattr("anydml.engines.cpu.launch.loops.LoopProgram._programs", lambda _: [])
                graph = dml.Graph("cpu")
                inputs = {
                    name: graph.constant(one) if is_constant and name in ("weight", "recurrence") else graph.input(one)
                    for name, one in given.items()
                }
                function = getattr(dml, kind.lower())
                model = graph.compile(function(**inputs, activation_descs=ACTIVATIONS[kind]))
                free = [one for name, one in given.items() if not is_constant or name not in ("weight", "recurrence")]
                found.append(model(*free))
        assert all(one.tobytes() == found[0].tobytes() for one in found), (kind, size)


def test_a_repeat_is_one_program() -> None:
    """However many steps there are, as many kernels are compiled and one call is made."""
    given = drawn("LSTM", 1, 500, 1, 4, 8)
    descs = {f"{'input' if name == 'x' else name}_tensor": dml.TensorDesc.of(one) for name, one in given.items()}
    compiled = dml.Device("cpu").compile(dml.Lstm.infer(**descs, activation_descs=ACTIVATIONS["LSTM"]))
    programs = [one for one in compiled._programs if isinstance(one, RepeatProgram)]
    assert [len(one.parts) for one in programs] == [2]


@pytest.mark.parametrize("lengths", [[4, 1], [-1, 2]])
def test_lengths_of_a_run_lie_within_the_steps(lengths: list[int]) -> None:
    """As ONNX Runtime has it: what is fed is checked, and nothing is computed."""
    onnx = pytest.importorskip("onnx", reason="ONNX is not installed: make test EXTRAS=onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    load = pytest.importorskip("anydml.onnx").load
    sizes = {"X": (3, 2, 4), "W": (1, 5, 4), "R": (1, 5, 5)}
    inputs = [helper.make_tensor_value_info(name, kind.FLOAT, own) for name, own in sizes.items()]
    inputs.append(helper.make_tensor_value_info("lengths", kind.INT32, (2,)))
    node = helper.make_node("RNN", ["X", "W", "R", "", "lengths"], ["Y"], hidden_size=5)
    outputs = [helper.make_tensor_value_info("Y", kind.FLOAT, (3, 1, 2, 5))]
    model = load(helper.make_model(helper.make_graph([node], "g", inputs, outputs)))
    feeds: dict[str, Any] = {name: np.ones(own, np.float32) for name, own in sizes.items()}
    with pytest.raises(dml.DmlError, match=r"sequence_lens must lie in 0 \.\. 3"):
        model.run({**feeds, "lengths": np.array(lengths, np.int32)})
    found = model.run({**feeds, "lengths": np.array([3, 1], np.int32)})["Y"]
    assert not found[1:, 0, 1].any()
    assert found[0, 0, 1].all()


def test_functions_take_sequences_of_three_dimensions() -> None:
    """Steps, batch and inputs; the result has the directions beside them, as DirectML's has."""
    rng = np.random.default_rng(3)
    x, weight = rng.random((5, 2, 4), np.float32), rng.random((1, 16, 4), np.float32)
    found = as_list(dml.lstm(x, weight, weight, output_single=True))
    usual = ACTIVATIONS["LSTM"]
    wanted = as_list(dml.lstm(x[None], weight[None], weight[None], activation_descs=usual, output_single=True))
    assert [y.shape for y in found] == [(5, 1, 2, 4), (1, 1, 2, 4)]
    for y, z in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(y, z)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("cell", [False, True])
def test_a_graph_numbers_the_outputs_that_are_left_out_too(engine: str, single: bool, cell: bool) -> None:
    """OutputCellSingleTensor is the third, whether or not there is an OutputSingleTensor before it."""
    rng = np.random.default_rng(4)
    x, weight = rng.random((3, 2, 4), np.float32), rng.random((1, 16, 4), np.float32)
    asked: dict[str, Any] = {"output_single": single, "output_cell_single": cell}
    there: list[Any] = [put(array, engine) for array in (x, weight)]
    wanted: Any = dml.lstm(there[0], there[1], there[1], **asked, device=engine)
    graph = dml.Graph(engine)
    given = [graph.input(dml.TensorDesc.of(array)) for array in (x, weight)]
    made: Any = dml.lstm(given[0], given[1], given[1], **asked)
    made = as_list(made)
    found: Any = graph.compile([*made, dml.negate(made[-1])])(*there)
    wanted = as_list(wanted)
    for y, z in zip(found, [*wanted, -wanted[-1]], strict=True):
        np.testing.assert_array_equal(get(y), get(z))
