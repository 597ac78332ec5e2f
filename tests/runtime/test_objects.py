"""DirectML's own objects: the order in which they are used, and what happens out of order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anydml as dml
from anydml import BufferBinding as Bind

T = dml.TensorDesc
OWNED = T("float32", (4,), flags="OWNED_BY_DML")
PLAIN = T("float32", (4,))
DEVICE = dml.Device("cpu", feature_level="5_0")


def running_sum(tensor: dml.TensorDesc = PLAIN, flags: Any = 0) -> dml.CompiledOperator:
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=PLAIN, axis=0)
    return DEVICE.compile_operator(DEVICE.create_operator(desc), flags)


def bytes_of(*values: float) -> bytearray:
    return bytearray(np.array(values, "float32").tobytes())


def floats(memory: bytearray) -> list[float]:
    values: list[float] = np.frombuffer(memory, "float32").tolist()
    return values


def record(
    dispatchable: Any, inputs: Any, outputs: Any, persistent: Any = None, temporary: Any = None
) -> dml.CommandList:
    commands = DEVICE.create_command_list()
    table = DEVICE.create_binding_table(dispatchable)
    table.bind_inputs(inputs)
    table.bind_outputs(outputs)
    table.bind_persistent_resource(persistent)
    table.bind_temporary_resource(temporary)
    DEVICE.create_command_recorder().record_dispatch(commands, dispatchable, table)
    return commands


def initialize(*operators: dml.CompiledOperator, inputs: Any = None, outputs: Any = None) -> None:
    DEVICE.execute(record(DEVICE.create_operator_initializer(list(operators)), inputs, outputs))


def test_an_operator_must_be_initialized_before_it_runs() -> None:
    compiled = running_sum()
    out = bytes_of(0, 0, 0, 0)
    commands = record(compiled, [Bind(bytes_of(1, 2, 3, 4))], [Bind(out)])
    with pytest.raises(dml.BindingError, match="CUMULATIVE_SUMMATION: the operator must be initialized before it runs"):
        DEVICE.execute(commands)
    assert floats(out) == [0, 0, 0, 0]
    initialize(compiled)
    DEVICE.execute(commands)
    assert floats(out) == [1, 3, 6, 10]


def test_one_initializer_for_several_operators() -> None:
    first, second, third = running_sum(OWNED), running_sum(), running_sum(OWNED)
    sizes = [op.binding_properties.persistent_resource_size for op in (first, second, third)]
    assert sizes == [256, 0, 256]
    memory = bytearray(512)
    initializer = DEVICE.create_operator_initializer([first, second, third])
    assert initializer.binding_properties == dml.BindingProperties(4, 0, 0)
    inputs = [[Bind(bytes_of(1, 1, 1, 1))], None, [Bind(bytes_of(2, 2, 2, 2))]]
    DEVICE.execute(record(initializer, inputs, [Bind(memory, 0, 256), None, Bind(memory, 256, 256)]))
    for operator, offset, expected in ((first, 0, [1, 2, 3, 4]), (third, 256, [2, 4, 6, 8])):
        out = bytes_of(0, 0, 0, 0)
        DEVICE.execute(record(operator, [None], [Bind(out)], Bind(memory, offset, 256)))
        assert floats(out) == expected
    with pytest.raises(dml.BindingError, match="PersistentResource must be the memory that the initializer filled"):
        DEVICE.execute(record(first, [None], [Bind(out)], Bind(memory, 256, 256)))
    with pytest.raises(dml.BindingError, match="is initialized already, which happens exactly once"):
        initialize(first, inputs=[inputs[0]], outputs=[Bind(memory, 0, 256)])


def test_an_owned_tensor_may_be_strided() -> None:
    tensor = T("float32", (2, 3), strides=(0, 2), flags="OWNED_BY_DML")
    desc = dml.CumulativeSummation(input_tensor=tensor, output_tensor=T("float32", (2, 3)), axis=1)
    compiled = DEVICE.compile_operator(DEVICE.create_operator(desc))
    persistent, out = bytearray(256), bytearray(24)
    initialize(compiled, inputs=[[Bind(bytes_of(1, -9, 2, -9, 3, -9))]], outputs=[Bind(persistent)])
    DEVICE.execute(record(compiled, [None], [Bind(out)], Bind(persistent)))
    assert floats(out) == [1, 3, 6, 1, 3, 6]


def test_a_recorded_dispatch_keeps_its_bindings() -> None:
    compiled = running_sum()
    initialize(compiled)
    out, other = bytes_of(0, 0, 0, 0), bytes_of(0, 0, 0, 0)
    commands, recorder = DEVICE.create_command_list(), DEVICE.create_command_recorder()
    table = DEVICE.create_binding_table(compiled)
    table.bind_inputs([Bind(bytes_of(1, 1, 1, 1))])
    table.bind_outputs([Bind(out)])
    recorder.record_dispatch(commands, compiled, table)
    table.bind_outputs([Bind(other)])
    table.reset()
    DEVICE.execute(commands)
    assert (floats(out), floats(other)) == ([1, 2, 3, 4], [0, 0, 0, 0])


def test_volatile_descriptors_are_bound_late() -> None:
    compiled = running_sum(flags="DESCRIPTORS_VOLATILE")
    initialize(compiled)
    out = bytes_of(0, 0, 0, 0)
    commands, recorder = DEVICE.create_command_list(), DEVICE.create_command_recorder()
    table = DEVICE.create_binding_table(compiled)
    recorder.record_dispatch(commands, compiled, table)
    with pytest.raises(
        dml.BindingError, match=r"2 rules are broken\n  inputs must be bound.*\n  outputs must be bound"
    ):
        DEVICE.execute(commands)
    table.bind_inputs([Bind(bytes_of(1, 1, 1, 1))])
    table.bind_outputs([Bind(out)])
    DEVICE.execute(commands)
    assert floats(out) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("inputs", "outputs", "persistent", "message"),
    [
        (None, None, None, "inputs must be bound; call bind_inputs"),
        ([Bind(bytearray(16))], None, None, "outputs must be bound; call bind_outputs"),
        ([], [Bind(bytearray(16))], None, "inputs must be 1 binding, for InputTensor; got 0"),
        ([Bind(bytearray(16))] * 2, [Bind(bytearray(16))], None, "inputs must be 1 binding, for InputTensor; got 2"),
        ([Bind(bytearray(16))], [], None, "outputs must be 1 binding, for OutputTensor; got 0"),
        (Bind(bytearray(16)), [Bind(bytearray(16))], None, "inputs must be a list"),
        ([Bind(bytearray(16))], [Bind(bytearray(16))], Bind(bytearray(512), 16), "Offset must be a multiple of 256"),
    ],
)  # fmt: skip
def test_bindings_must_be_complete(inputs: Any, outputs: Any, persistent: Any, message: str) -> None:
    with pytest.raises(dml.BindingError, match=message):
        record(running_sum(), inputs, outputs, persistent)


def test_owned_inputs_are_bound_for_the_initializer_alone() -> None:
    owned, plain = running_sum(OWNED), running_sum()
    full, memory = Bind(bytearray(16)), Bind(bytearray(256))
    with pytest.raises(
        dml.BindingError, match="InputTensor must be None: it is OWNED_BY_DML, and is bound for the init"
    ):
        record(owned, [full], [full], memory)
    with pytest.raises(dml.BindingError, match="PersistentResource must be bound, because an input is OWNED_BY_DML"):
        record(owned, [None], [full])
    with pytest.raises(dml.BindingError, match=r"operators\[0\].InputTensor must be None: it is not OWNED_BY_DML"):
        initialize(plain, inputs=[[full]])
    with pytest.raises(dml.BindingError, match=r"operators\[0\]: its inputs that are OWNED_BY_DML must be bound"):
        initialize(owned, outputs=[memory])
    with pytest.raises(dml.BindingError, match=r"operators\[0\]: its persistent resource must be bound"):
        initialize(owned, inputs=[[full]])
    with pytest.raises(dml.BindingError, match=r"inputs for operators\[0\] must be a list, for InputTensor"):
        initialize(owned, inputs=[full], outputs=[memory])
    with pytest.raises(dml.BindingError, match=r"inputs for operators\[0\] must be 1 binding, for InputTensor; got 0"):
        initialize(owned, inputs=[[]], outputs=[memory])
    with pytest.raises(dml.BindingError, match="inputs must be 1 binding, one for each operator; got 2"):
        initialize(owned, inputs=[[full], [full]], outputs=[memory])
    with pytest.raises(dml.BindingError, match=r"operators\[0\].PersistentResource: SizeInBytes must be at least 256"):
        initialize(owned, inputs=[[full]], outputs=[full])


def test_resources_must_not_collide() -> None:
    owned = running_sum(OWNED)
    memory = bytearray(1024)
    with pytest.raises(dml.BindingError, match="must not be in the buffer of a persistent resource"):
        initialize(owned, inputs=[[Bind(memory, 512, 16)]], outputs=[Bind(memory, 0, 256)])
    both = [[Bind(bytearray(16))], [Bind(bytearray(16))]]
    with pytest.raises(dml.BindingError, match=r"operators\[1\].PersistentResource must not overlap operators\[0\]"):
        initialize(owned, running_sum(OWNED), inputs=both, outputs=[Bind(memory, 0, 256), Bind(memory, 0, 256)])
    crossed = [[Bind(bytearray(16))], [Bind(memory, 512, 16)]]
    with pytest.raises(dml.BindingError, match=r"operators\[1\].InputTensor must not be in the buffer of a persistent"):
        initialize(owned, running_sum(OWNED), inputs=crossed, outputs=[Bind(memory, 0, 256), Bind(bytearray(256))])
    initialize(owned, inputs=[[Bind(bytearray(16))]], outputs=[Bind(memory, 0, 256)])
    with pytest.raises(dml.BindingError, match="PersistentResource must not overlap OutputTensor"):
        record(owned, [None], [Bind(memory, 128, 16)], Bind(memory, 0, 256))
    with pytest.raises(dml.BindingError, match="TemporaryResource must not overlap PersistentResource"):
        record(owned, [None], [Bind(bytearray(16))], Bind(memory, 0, 256), Bind(memory, 0, 256))
    with pytest.raises(dml.BindingError, match="TemporaryResource must not overlap InputTensor"):
        record(running_sum(), [Bind(memory, 0, 16)], [Bind(bytearray(16))], None, Bind(memory, 0, 256))


@pytest.mark.parametrize("wrong", [5, "x"])
def test_objects_used_wrongly(wrong: Any) -> None:
    compiled = running_sum()
    table, commands = DEVICE.create_binding_table(compiled), DEVICE.create_command_list()
    recorder = DEVICE.create_command_recorder()
    for act, message in (
        (lambda: DEVICE.create_binding_table(wrong), "dispatchable must be a CompiledOperator or an OperatorIni"),
        (lambda: DEVICE.create_operator_initializer(wrong), "operators must be a list of CompiledOperators"),
        (lambda: DEVICE.create_operator_initializer([wrong]), "operators must be a list of CompiledOperators"),
        (lambda: recorder.record_dispatch(wrong, compiled, table), "command_list must be a CommandList"),
        (lambda: recorder.record_dispatch(commands, compiled, wrong), "bindings must be a BindingTable"),
        (lambda: recorder.record_dispatch(commands, running_sum(), table), "bindings must be a table made for this"),
        (lambda: DEVICE.create_binding_table().bind_inputs([]), "the table serves no dispatchable"),
        (lambda: DEVICE.execute(wrong), "command_list must be a CommandList"),
    ):
        with pytest.raises(dml.DmlError, match=message):
            act()


def test_a_closed_list_takes_no_more() -> None:
    compiled = running_sum()
    table, commands = DEVICE.create_binding_table(compiled), DEVICE.create_command_list()
    commands.close()
    with pytest.raises(dml.BindingError, match=r"the command list is closed; reset\(\) it first"):
        DEVICE.create_command_recorder().record_dispatch(commands, compiled, table)
    commands.reset()
    assert not commands.is_closed


def test_inputs_that_are_all_owned_need_no_binding() -> None:
    compiled, memory, out = running_sum(OWNED), bytearray(256), bytes_of(0, 0, 0, 0)
    initialize(compiled, inputs=[[Bind(bytes_of(1, 1, 1, 1))]], outputs=[Bind(memory)])
    DEVICE.execute(record(compiled, None, [Bind(out)], Bind(memory)))
    assert floats(out) == [1, 2, 3, 4]


def test_a_volatile_table_given_to_another_operator() -> None:
    compiled = running_sum(flags="DESCRIPTORS_VOLATILE")
    commands, table = DEVICE.create_command_list(), DEVICE.create_binding_table(compiled)
    DEVICE.create_command_recorder().record_dispatch(commands, compiled, table)
    table.reset(running_sum())
    with pytest.raises(dml.BindingError, match="bindings must be a table made for this dispatchable"):
        DEVICE.execute(commands)


def test_feature_support() -> None:
    assert DEVICE.check_feature_support("FEATURE_LEVELS", ["1_0", "DML_FEATURE_LEVEL_4_1", "6_0"]) == dml.FeatureLevel(
        "4_1"
    )
    assert DEVICE.check_feature_support(dml.Feature.FEATURE_LEVELS, "5_0") == dml.FeatureLevel("5_0")
    assert DEVICE.check_feature_support("DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT", "float64") is True
    low = dml.Device(feature_level="3_0")
    assert low.check_feature_support("TENSOR_DATA_TYPE_SUPPORT", np.float64) is False
    assert low.check_feature_support("TENSOR_DATA_TYPE_SUPPORT", "int64") is True
    for query in ("float8", None):
        with pytest.raises(dml.DescriptionError, match="query must be one of FLOAT32"):
            low.check_feature_support("TENSOR_DATA_TYPE_SUPPORT", query)


def test_binding_properties() -> None:
    gather = dml.GatherND.infer(
        input_tensor=T("float32", (100, 3), flags="OWNED_BY_DML"),
        indices_tensor=T("uint32", (5, 1)),
        input_dimension_count=2,
        indices_dimension_count=2,
    )
    compiled = DEVICE.compile_operator(DEVICE.create_operator(gather), "DISABLE_META_COMMANDS")
    assert compiled.binding_properties == dml.BindingProperties(4, 0, 1280)  # 1,200 bytes in whole units of 256
    assert running_sum().binding_properties == dml.BindingProperties(2, 0, 0)


def test_reprs_say_what_they_are() -> None:
    assert repr(DEVICE) == "Device('cpu', feature_level='5_0')"
    assert repr(running_sum()).startswith(
        "CompiledOperator(CumulativeSummation(input_tensor=TensorDesc('float32', (4,))"
    )
