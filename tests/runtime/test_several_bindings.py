"""Bindings of operators with several inputs, several outputs, or none to bind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind

T = dml.TensorDesc
PARTS = [T("float32", (2,)), T("float32", (3,))]
WHOLE = T("float32", (5,))
OWNED = T("float32", (2,), flags="OWNED_BY_DML")
DEVICE = dml.Device("cpu")
X = np.arange(5, dtype="float32")


def joiner(*parts: dml.TensorDesc) -> dml.OperatorDesc:
    return dml.Join(input_tensors=parts or PARTS, output_tensor=WHOLE, axis=0)


def splitter() -> dml.OperatorDesc:
    return dml.Split(input_tensor=WHOLE, output_tensors=PARTS, axis=0)


def filler() -> dml.OperatorDesc:
    return dml.FillValueSequence(output_tensor=WHOLE, value_data_type="float32", value_start=1, value_delta=2)


def record(dispatchable: Any, inputs: Any, outputs: Any, persistent: Any = None) -> dml.CommandList:
    commands = DEVICE.create_command_list()
    table = DEVICE.create_binding_table(dispatchable)
    table.bind_inputs(inputs)
    table.bind_outputs(outputs)
    table.bind_persistent_resource(persistent)
    DEVICE.create_command_recorder().record_dispatch(commands, dispatchable, table)
    return commands


def prepared(desc: dml.OperatorDesc, inputs: Any = None, outputs: Any = None) -> dml.CompiledOperator:
    compiled = DEVICE.compile_operator(DEVICE.create_operator(desc))
    DEVICE.execute(record(DEVICE.create_operator_initializer([compiled]), inputs, outputs))
    return compiled


def raw(values: np.ndarray) -> bytearray:
    return bytearray(values.astype("float32").tobytes())


def floats(memory: bytearray) -> list[float]:
    found: list[float] = np.frombuffer(memory, "float32").tolist()
    return found


# Raw buffers


@pytest.mark.parametrize(
    ("desc", "inputs", "outputs", "message"),
    [
        (joiner(), [Bind(raw(X))], [Bind(raw(X))],
         r"JOIN: inputs must be 2 bindings, for InputTensors\[0\], InputTensors\[1\]; got 1"),
        (joiner(), [Bind(raw(X[:2])), None], [Bind(raw(X))],
         r"JOIN: InputTensors\[1\] must be given a BufferBinding; got None"),
        (joiner(), [Bind(raw(X[:2])), Bind(raw(X[:2]))], [Bind(raw(X))],
         r"JOIN: InputTensors\[1\]: SizeInBytes must be at least 12"),
        (splitter(), [Bind(raw(X))], [Bind(raw(X))],
         r"SPLIT: outputs must be 2 bindings, for OutputTensors\[0\], OutputTensors\[1\]; got 1"),
        (splitter(), [Bind(raw(X))], [Bind(raw(X)), None],
         r"SPLIT: OutputTensors\[1\] must be given a BufferBinding; got None"),
        (filler(), [Bind(raw(X))], [Bind(raw(X))], "FILL_VALUE_SEQUENCE: inputs must be 0 bindings"),
        (filler(), None, None, "FILL_VALUE_SEQUENCE: outputs must be bound; call bind_outputs"),
    ],
)  # fmt: skip
def test_bindings_must_be_complete(desc: dml.OperatorDesc, inputs: Any, outputs: Any, message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        record(prepared(desc), inputs, outputs)


@pytest.mark.parametrize("inputs", [None, []])
def test_what_has_no_inputs_needs_none_bound(inputs: Any) -> None:
    out = raw(X)
    DEVICE.execute(record(prepared(filler()), inputs, [Bind(out)]))
    assert floats(out) == [1, 3, 5, 7, 9]


def test_outputs_must_not_meet() -> None:
    memory = raw(np.zeros(12))
    with pytest.raises(dml.BindingError, match=r"OutputTensors\[1\] must not overlap OutputTensors\[0\]: both are wri"):
        record(prepared(splitter()), [Bind(raw(X))], [Bind(memory, 0, 32), Bind(memory, 16, 16)])
    with pytest.raises(dml.BindingError, match=r"OutputTensor must not overlap InputTensors\[1\]"):
        record(prepared(joiner()), [Bind(raw(X)), Bind(memory, 16, 12)], [Bind(memory, 0, 20)])
    DEVICE.execute(record(prepared(splitter()), [Bind(raw(X))], [Bind(memory, 16, 8), Bind(memory, 0, 12)]))
    assert floats(memory) == [2, 3, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0]


def test_one_of_several_inputs_is_owned() -> None:
    desc = joiner(T("float32", (3,)), OWNED)
    compiled = DEVICE.compile_operator(DEVICE.create_operator(desc))
    assert compiled.binding_properties == dml.BindingProperties(4, 0, 256)
    persistent, given, out = bytearray(256), raw(X[:2]), raw(np.zeros(5))
    initializer = DEVICE.create_operator_initializer([compiled])
    with pytest.raises(dml.BindingError, match=r"InputTensors\[0\] must be None: it is not OWNED_BY_DML"):
        record(initializer, [[Bind(raw(X)), Bind(given)]], [Bind(persistent)])
    DEVICE.execute(record(initializer, [[None, Bind(given)]], [Bind(persistent)]))
    given[:] = bytes(8)
    with pytest.raises(dml.BindingError, match=r"InputTensors\[1\] must be None: it is OWNED_BY_DML"):
        record(compiled, [Bind(raw(X[2:])), Bind(given)], [Bind(out)], Bind(persistent))
    DEVICE.execute(record(compiled, [Bind(raw(X[2:])), None], [Bind(out)], Bind(persistent)))
    assert floats(out) == [2, 3, 4, 0, 1]


# Arrays


def test_arrays_for_several_outputs() -> None:
    run = DEVICE.compile(splitter())
    first, second = np.zeros(2, "float32"), np.zeros(3, "float32")
    back = run(X, out=[first, second])
    assert back[0] is first
    assert back[1] is second
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3, 4])
    bound = run.bind(X, out=(first, second))
    first[...] = second[...] = 9
    bound.dispatch()
    assert (first.tolist(), second.tolist()) == ([0, 1], [2, 3, 4])
    for out, message in (
        (first, r"out must be 2 arrays, for OutputTensors\[0\], OutputTensors\[1\]; got 1"),
        ([first], "out must be 2 arrays, .*; got 1"),
        ([first, second, first], "out must be 2 arrays, .*; got 3"),
        (
            [second, first],
            r"2 rules are broken\n  OutputTensors\[0\] must be an array of sizes \(2,\).*\n  OutputTensors\[1\]",
        ),
        ([first, second.astype("int32")], r"OutputTensors\[1\] must be an array of FLOAT32"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            run(X, out=out)


def test_a_list_is_no_array_for_one_output() -> None:
    out = np.zeros(5, "float32")
    with pytest.raises(dml.DescriptionError, match="OutputTensor must be an array that can be written to; got a list"):
        DEVICE.compile(joiner())(X[:2], X[2:], out=[out])


def test_how_many_inputs_there_are() -> None:
    with pytest.raises(
        dml.BindingError, match=r"call\(\) takes the inputs: InputTensors\[0\], InputTensors\[1\]; got 1"
    ):
        DEVICE.compile(joiner())(X[:2])
    with pytest.raises(dml.BindingError, match=r"call\(\) takes the inputs: none; got 1"):
        DEVICE.compile(filler())(X)
    assert DEVICE.compile(filler())().tolist() == [1, 3, 5, 7, 9]
    owned = DEVICE.compile(joiner(OWNED, T("float32", (3,))))
    with pytest.raises(dml.BindingError, match=r"InputTensors\[0\] must be given to initialize\(\) first"):
        owned(X[2:])
    with pytest.raises(dml.BindingError, match=r"flagged OWNED_BY_DML: InputTensors\[0\]; got 2 arrays"):
        owned.initialize(X[:2], X[2:])
    assert owned.initialize(X[:2])(X[2:]).tolist() == X.tolist()


def test_an_identity_in_place_and_its_known_call(engine: str) -> None:
    """The second call finds the arrays of the first bound."""
    tensor = T("float32", (5,))
    run = dml.Device(engine).compile(
        dml.ElementWiseIdentity(input_tensor=tensor, output_tensor=tensor, scale_bias=dml.ScaleBias(2, 1))
    )
    x = X.copy()
    for wanted in (X * 2 + 1, (X * 2 + 1) * 2 + 1):
        assert run(x, out=x) is x
        np.testing.assert_array_equal(x, wanted)
