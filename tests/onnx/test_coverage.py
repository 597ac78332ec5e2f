"""Node types that ONNX Runtime has on the CPU: none is refused, and all of their forms give its answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import anydml as dml
from onnx_answers import ENGINE, session_of
from onnx_models import onnx

import anydml.onnx  # isort: skip - after the models, which leave this out where onnx is missing
from anydml.onnx.contrib_schemas import CONTRIB  # isort: skip
from anydml.onnx.library import OPSET_VERSION, node_rules  # isort: skip

ml_dtypes: Any = pytest.importorskip("ml_dtypes", reason="onnx gives numbers of 4 bits as ml_dtypes has them")
ort: Any = pytest.importorskip("onnxruntime", reason="the node types and the answers are ONNX Runtime's")
helper, TensorProto = onnx.helper, onnx.TensorProto
THERE: Any = ort.capi.onnxruntime_pybind11_state
RNG = np.random.default_rng(31)
MICROSOFT = "com.microsoft."


def _floats(*shape: int, dtype: str = "float32") -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def _bytes(*shape: int, dtype: str = "uint8") -> Any:
    low, high = (-64, 64) if dtype == "int8" else (0, 256)
    return RNG.integers(low, high, shape).astype(dtype)


def _model(kind: str, inputs: dict[str, Any], outputs: list[str], opset: int, **attributes: Any) -> Any:
    """A model of one node, of arrays by name; None for an input that is left out."""
    domain, _, name = kind.rpartition(".")
    names = [key if value is not None else "" for key, value in inputs.items()]
    node = helper.make_node(name, names, outputs, domain=domain, **attributes)
    infos = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for key, value in inputs.items()
        if value is not None
    ]
    results = [helper.make_empty_tensor_value_info(key) for key in outputs if key]
    opsets = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    graph = helper.make_graph([node], "node", infos, results)
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if opset < 21 else 10)


class Case(NamedTuple):
    """A node that runs here and there."""

    kind: str
    inputs: list[Any]
    attributes: dict[str, Any]
    opset: int = 17
    outputs: int = 1
    is_hosted: bool = False

    def __str__(self) -> str:
        shapes = " ".join("-" if x is None else f"{x.dtype}{list(x.shape)}" for x in map(_array, self.inputs))
        return f"{self.kind} {self.opset} {shapes} {self.attributes}"


def _array(value: Any) -> Any:
    return None if value is None else np.asarray(value)


def _compare(case: Case, engine: str = ENGINE) -> None:
    inputs = {f"x{i}": _array(value) for i, value in enumerate(case.inputs)}
    outputs = [f"y{i}" for i in range(case.outputs)]
    proto = _model(case.kind, inputs, outputs, case.opset, **case.attributes)
    feeds = {name: value for name, value in inputs.items() if value is not None}
    wanted = session_of(proto).run(None, feeds)
    found = dml.onnx.load(proto, device=engine, strict=not case.is_hosted).run(feeds)
    for mine, theirs in zip(found.values(), wanted, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        most = np.abs(theirs.astype(np.float64)).max(initial=0)
        room = {"f2": 2e-3, "f4": 4e-6, "f8": 1e-12}.get(theirs.dtype.str[1:], 0)
        np.testing.assert_allclose(mine.astype(np.float64), theirs.astype(np.float64), rtol=0, atol=room * most)


# Every type


def _declared(name: str, text: str) -> Any:
    """An input of a type by ONNX's name: `seq(tensor(float))`."""
    text = text.strip()
    if text.startswith("tensor("):
        return helper.make_tensor_value_info(name, TensorProto.DataType.Value(text[7:-1].upper()), None)
    wrapped = text[:-1].partition("(")
    if wrapped[0] == "sparse_tensor":
        kind = TensorProto.DataType.Value(wrapped[2].upper())
        return helper.make_value_info(name, helper.make_sparse_tensor_type_proto(kind, None))
    if wrapped[0] == "map":
        key, value = wrapped[2].split(",", 1)
        inner = _declared(name, value if "(" in value else f"tensor({value.strip()})").type
        proto = onnx.TypeProto()
        proto.map_type.key_type = TensorProto.DataType.Value(key.upper())
        proto.map_type.value_type.CopyFrom(inner)
        return helper.make_value_info(name, proto)
    inner = _declared(name, wrapped[2]).type
    make = helper.make_sequence_type_proto if wrapped[0] == "seq" else helper.make_optional_type_proto
    return helper.make_value_info(name, make(inner))


_GIVEN = {"INT": 1, "FLOAT": 0.5, "STRING": "x", "INTS": [1], "FLOATS": [0.5], "STRINGS": ["x"]}


def _given(name: str, kind: str) -> Any:
    """A value for an attribute that must be given; a body that makes a constant."""
    if kind == "TENSOR":
        return onnx.numpy_helper.from_array(np.zeros(1, np.float32))
    if kind == "GRAPH":
        made = f"{name}_made"
        return helper.make_graph(
            [helper.make_node("Constant", [], [made], value=_given(name, "TENSOR"))],
            name,
            [],
            [helper.make_empty_tensor_value_info(made)],
        )
    return _GIVEN[kind]


def _there() -> list[tuple[Any, int]]:
    """The schemas of ONNX Runtime's that it has kernels for on the CPU, each with the opset of its domain."""
    ranges: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for kernel in THERE.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider":
            ranges.setdefault((kernel.domain, kernel.op_name), []).append(kernel.version_range)
    return [
        (schema, schema.since_version)
        for schema in THERE.get_all_operator_schema()
        if not schema.deprecated
        and any(a <= schema.since_version <= b for a, b in ranges.get((schema.domain, schema.name), []))
        and (schema.domain or schema.since_version <= OPSET_VERSION)
    ]


def test_no_node_type_that_onnx_runtime_has_is_refused() -> None:
    """Each version of each is loaded, which looks at types, attributes and who is to run it."""
    refused = {}
    there = _there()
    assert len({(schema.domain, schema.name) for schema, _ in there}) > 250
    for schema, version in there:
        variables = {each.type_param_str: sorted(each.allowed_type_strs) for each in schema.type_constraints}
        infos = [
            _declared(f"x{i}", variables.get(slot.typeStr, [slot.typeStr])[0])
            for i, slot in enumerate(schema.inputs[: max(schema.min_input, 0)])
        ]
        outputs = [f"y{i}" for i in range(max(schema.min_output, 1))]
        kind = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        rules = node_rules(kind, version) if not schema.domain or kind in CONTRIB else None
        required = [] if rules is None else rules.required  # which kernels ask for
        attributes = {
            name: _given(name, each.type.name)
            for name, each in schema.attributes.items()
            if each.required or name in required
        }
        node = helper.make_node(schema.name, [info.name for info in infos], outputs, domain=schema.domain, **attributes)
        graph = helper.make_graph([node], "node", infos, [helper.make_empty_tensor_value_info(y) for y in outputs])
        opsets = {"": version if not schema.domain else 17, schema.domain: version}
        proto = helper.make_model(graph, opset_imports=[helper.make_opsetid(*one) for one in opsets.items()])
        try:
            dml.onnx.load(proto)
        except dml.UnsupportedError as error:
            refused[f"{schema.domain}.{schema.name} {version}"] = str(error)
    assert not refused


def test_what_onnx_runtimes_node_types_take_is_what_it_says() -> None:
    """Inputs, outputs, attributes and types: what ONNX Runtime allows reaches an engine or the host."""
    schemas: dict[str, Any] = {}
    for schema in THERE.get_all_operator_schema():
        kind = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
        if not schema.deprecated and schema.since_version < schemas.get(kind, schema).since_version + 1:
            schemas[kind] = schema
    for kind in CONTRIB:
        theirs, mine = schemas[kind], node_rules(kind, 1)
        assert mine is not None
        variables = {each.type_param_str: each.allowed_type_strs for each in theirs.type_constraints}
        for slots, rules in ((theirs.inputs, mine.inputs), (theirs.outputs, mine.outputs)):
            assert len(slots) == len(rules), kind
            shared: dict[str, str] = {}
            for slot, rule in zip(slots, rules, strict=True):
                names = [text[7:-1].upper() for text in variables.get(slot.typeStr, [slot.typeStr])]
                known = {name for name in names if name in KNOWN}
                assert known <= set(rule.allowed), (kind, slot.name)
                if rule.shared:
                    assert shared.setdefault(rule.shared, slot.typeStr) == slot.typeStr, (kind, slot.name)
        assert mine.attributes == {name: each.type.name for name, each in theirs.attributes.items()}, kind


KNOWN = {element.name for element in dml.onnx.element_types.ELEMENT_TYPES.values()}


# Types that ONNX has dropped


SCALED = [_floats(2, 3, 8), _floats(8), _floats(8)]
HALVES = [_floats(2, 3, 8, dtype="float16"), _floats(8), _floats(8)]
DOUBLES = [_floats(2, 3, 8, dtype="float64"), _floats(8, dtype="float64"), _floats(8, dtype="float64")]
IMAGES = _floats(2, 3, 6, 7)
LINE = np.array([-40, -3, -0.4, -0.0, 0.3, 0.4, 1, 5, 60], np.float32)
OLD: list[Case] = [
    *(Case("LayerNormalization", SCALED, {"epsilon": 0.01}, opset) for opset in (1, 7, 13, 16)),
    Case("LayerNormalization", [SCALED[0], _floats(3, 8)], {"axis": 1}, 12, 3),
    Case("LayerNormalization", HALVES, {}, 13),
    Case("LayerNormalization", [x.astype(np.float16) for x in SCALED], {}, 13),
    Case("LayerNormalization", DOUBLES, {}, 13, is_hosted=True),
    Case("SimplifiedLayerNormalization", HALVES[:2], {}, 13),
    Case("SimplifiedLayerNormalization", DOUBLES[:2], {}, 13, is_hosted=True),
    *(Case("Affine", [_floats(5, 7)], {"alpha": 0.3, "beta": 2.0}, opset) for opset in (1, 9)),
    Case("Affine", [_floats(5)], {}, 6),
    Case("Crop", [IMAGES], {"border": [1, 2, 0, 1]}, 7),
    Case("Crop", [IMAGES], {"border": [1, 2, 0, 1], "scale": [3, 2]}, 9),
    Case("Crop", [IMAGES], {"border": [7, 0, 0, 0]}, 9),
    Case("ImageScaler", [IMAGES], {"bias": [0.1, 0.2, 0.3], "scale": 0.4}, 1),
    Case("ImageScaler", [_floats(1, 2, 3, 3)], {"bias": [0.1, -0.2]}, 8),
    *(Case("ScaledTanh", [LINE], {"alpha": 0.4, "beta": 0.7}, opset) for opset in (1, 9)),
    *(Case("ParametricSoftplus", [LINE], {"alpha": 0.4, "beta": 0.7}, opset) for opset in (1, 9)),
    *(Case("ThresholdedRelu", [LINE], {"alpha": 0.4}, opset) for opset in (1, 7, 9, 10)),
    Case("Scale", [LINE], {"scale": -1.5}, 6),
    Case("DynamicSlice", [_floats(5, 7), np.array([1, -3]), np.array([4, 100])], {}, 4),
    Case("DynamicSlice", [_bytes(5, 7), *(np.array([i], np.int32) for i in (1, 4, -1))], {}, 9),
    Case("MeanVarianceNormalization", [IMAGES], {}, 6),
    Case("MeanVarianceNormalization", [IMAGES], {"across_channels": 1}, 8),
    Case("MeanVarianceNormalization", [IMAGES], {"normalize_variance": 0}, 8),
    Case("MeanVarianceNormalization", [IMAGES[0]], {}, 9),
    Case("MeanVarianceNormalization", [IMAGES[0]], {"axes": [-1]}, 13),
    Case("MemcpyFromHost", [IMAGES], {}, 13),
]


@pytest.mark.parametrize("case", OLD, ids=str)
def test_types_that_onnx_has_dropped(case: Case) -> None:
    _compare(case)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "message"),
    [
        ("ScaledTanh", [LINE], {"alpha": 1.0}, "beta must be given"),
        ("Crop", [IMAGES], {"border": [4, 0, 4, 0]}, r"border and scale must lie within \(2, 3, 6, 7\)"),
        ("Crop", [IMAGES], {"border": [1, 1]}, "border must be four numbers"),
        ("ImageScaler", [IMAGES], {"bias": [1.0]}, "bias must have a number for each channel"),
    ],
)
def test_what_those_refuse(kind: str, inputs: list[Any], attributes: dict[str, Any], message: str) -> None:
    feeds = {f"x{i}": value for i, value in enumerate(inputs)}
    proto = _model(kind, feeds, ["y"], 7, **attributes)
    with pytest.raises(dml.DmlError, match=message):
        dml.onnx.load(proto)
    with pytest.raises(Exception, match=r"\[ONNXRuntimeError\]"):
        session_of(proto).run(None, feeds)
    newer = _model("Affine", {"x": LINE}, ["y"], 10)
    with pytest.raises(dml.UnsupportedError, match="Affine is not supported at opset 10"):
        dml.onnx.load(newer)


# Forms of others


VOLUME, FILTERS = _bytes(2, 4, 6, 5, 4), _bytes(6, 4, 3, 2, 2, dtype="int8")
QUANTISED = [np.float32(0.1), np.uint8(5)]
SCALES = np.array([0.1, 0.2, 0.05, 0.3, 0.15, 0.25], np.float32)
BIAS = RNG.integers(-999, 999, 6).astype(np.int32)
PADDED = {"pads": [1, 0, 1, 1, 2, 0], "strides": [1, 2, 1], "dilations": [2, 1, 1]}
IMAGE = [_floats(1, 3, 8, 8), _floats(4, 3, 3, 3)]
ROWS, COLUMNS = _bytes(2, 3, 8), _bytes(2, 8, 4, dtype="int8")
POINTS = _bytes(2, 1, 4, dtype="int8")
BY = np.abs(_floats(2, 1, 4)) + np.float32(0.01)
NONE = np.zeros((2, 0), np.int64)
QUERY, NO_KEYS = _floats(2, 5, 12), _floats(2, 0, 12)
PAST = [_floats(2, 3, 3, 4), _floats(2, 3, 3, 4)]
MHA = MICROSOFT + "MultiHeadAttention"
FORMS: list[Case] = [
    Case("ConvInteger", [VOLUME, FILTERS, np.uint8(7)], PADDED),
    Case("ConvInteger", [VOLUME, _bytes(6, 2, 3, 2, 2), np.uint8(7), np.uint8(9)], {"group": 2, "pads": [2] * 6}),
    Case("ConvInteger", [_bytes(1, 2, 3, 3, 4, 3), _bytes(2, 2, 2, 2, 2, 2)], {"pads": [1] * 8}),
    Case("QLinearConv", [VOLUME, *QUANTISED, FILTERS, SCALES[0], np.int8(0), np.float32(3), np.uint8(9)], PADDED),
    Case(
        "QLinearConv",
        [VOLUME, *QUANTISED, FILTERS[:, :2], SCALES, np.zeros(6, np.int8), np.float32(3), np.uint8(9), BIAS],
        {"group": 2, "auto_pad": "SAME_UPPER"},
    ),
    *(
        Case("MatMulInteger", [a, b, *zeros], {})
        for a, b, zeros in (
            (ROWS, COLUMNS, [np.uint8(3), POINTS]),
            (ROWS[:1], COLUMNS, [np.array([3], np.uint8), POINTS]),
            (ROWS[0], COLUMNS, [np.uint8(3), POINTS]),
            (ROWS[0, 0], COLUMNS, [np.uint8(3), POINTS]),
            (_bytes(3, 3, 3), _bytes(3, 3, 3), [np.uint8(3), _bytes(3, 1, 3)]),
            (_bytes(5, 2, 3, 8), _bytes(5, 2, 8, 4), [np.uint8(0), _bytes(5, 2, 1, 4)]),
        )
    ),
    *(
        Case("QLinearMatMul", [a, *QUANTISED, COLUMNS, BY, POINTS, np.float32(40), np.uint8(4)], {}, opset)
        for a, opset in ((ROWS, 10), (ROWS[0], 17), (ROWS[0, 0], 21))
    ),
    Case(MICROSOFT + "MatMulIntegerToFloat", [ROWS[0, 0], COLUMNS, QUANTISED[0], BY, QUANTISED[1], POINTS], {}),
    Case(MICROSOFT + "FusedMatMul", [DOUBLES[0], DOUBLES[0]], {"transB": 1, "alpha": 0.3}, is_hosted=True),
    Case("Conv", [_floats(1, 2, 4, 4, 3, 3), _floats(2, 2, 2, 2, 2, 2)], {"pads": [1] * 8}, is_hosted=True),
    *(Case("ScatterND", [_floats(3, 4), NONE[0], _floats(3, 4)], {}, opset) for opset in (11, 13, 16)),
    Case("ScatterND", [_floats(3, 4), NONE, _floats(2, 3, 4)], {}),
    Case("ScatterND", [_floats(3, 4), NONE, _floats(2, 3, 4)], {"reduction": "add"}, 16),
    Case("ScatterND", [_floats(3, 4), NONE[:0], _floats(0, 3, 4)], {}),
    Case("GatherND", [_floats(3, 4), NONE], {}),
    Case("GatherND", [_floats(3, 4), np.zeros((3, 2, 0), np.int64)], {"batch_dims": 1}),
    Case("Conv", IMAGE, {"auto_pad": "", "pads": [1, 1, 0, 1]}),
    Case("ConvTranspose", [IMAGE[0], _floats(3, 4, 3, 3)], {"auto_pad": ""}),
    Case("ConvInteger", [_bytes(1, 3, 8, 8), _bytes(4, 3, 3, 3)], {"auto_pad": "", "pads": [1, 1, 0, 1]}),
    *(
        Case(kind, IMAGE[:1], {"auto_pad": "", "kernel_shape": [3, 3], "pads": [1, 1, 0, 1]})
        for kind in ("MaxPool", "AveragePool", "LpPool")
    ),
    Case(MICROSOFT + "FusedConv", IMAGE, {"auto_pad": "", "activation": "Relu"}),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS], {"num_heads": 3}),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS, _floats(36)], {"num_heads": 3}),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS, None, np.zeros((2, 0), np.int32)], {"num_heads": 3}),
    Case(MHA, [QUERY, _floats(2, 3, 0, 4), _floats(2, 3, 0, 4)], {"num_heads": 3}),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS, None, None, None, *PAST], {"num_heads": 3}, outputs=3),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS, _floats(36), None, _floats(1, 3, 5, 3), *PAST], {"num_heads": 3}, outputs=3),
    Case(MHA, [QUERY, NO_KEYS, NO_KEYS, None, None, None, *(x[:, :, :0] for x in PAST)], {"num_heads": 3}, outputs=3),
    Case(
        MICROSOFT + "Attention",
        [_floats(2, 0, 8), _floats(8, 24), _floats(24), None, _floats(2, 2, 2, 3, 4)],
        {"num_heads": 2},
        outputs=2,
    ),
]


@pytest.mark.parametrize("case", FORMS, ids=str)
def test_forms_that_were_refused(case: Case) -> None:
    _compare(case)


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 2)])
def test_what_a_pool_took_is_put_back(sizes: tuple[int, ...]) -> None:
    """MaxUnpool of one, two and three spatial dimensions."""
    x = _floats(1, 2, *(2 * size for size in sizes))
    windows = {"kernel_shape": [2] * len(sizes), "strides": [2] * len(sizes)}
    largest, places = session_of(_model("MaxPool", {"x": x}, ["y", "places"], 12, **windows)).run(None, {"x": x})
    _compare(Case("MaxUnpool", [largest, places], windows))


@pytest.mark.parametrize("engine", ["reference", ENGINE])
def test_zero_points_of_each_matrix_and_row(engine: str) -> None:
    """ONNX has them for A too, which ONNX Runtime does not; they are exact, as INT32 wraps."""
    a, b = _bytes(3, 2, 70), _bytes(3, 70, 4, dtype="int8")
    for left, right in (((3, 2, 1), (3, 1, 4)), ((3, 1, 1), ()), ((2,), (3, 1, 1)), ((1, 2, 1), (4,))):
        zeros = _bytes(*left), _bytes(*right, dtype="int8")
        feeds = {"a": a, "b": b, "za": np.asarray(zeros[0]), "zb": np.asarray(zeros[1])}
        found = dml.onnx.load(_model("MatMulInteger", feeds, ["y"], 17), device=engine, strict=True).run(feeds)["y"]
        shaped = [feeds["za"].reshape(-1, 1) if len(left) == 1 else feeds["za"], feeds["zb"]]
        exact = (a.astype(int) - shaped[0].astype(int)) @ (b.astype(int) - shaped[1].astype(int))
        np.testing.assert_array_equal(found, exact)
    feeds["zb"] = _bytes(4, 1, dtype="int8")
    with pytest.raises(dml.ModelError, match=r"b_zero_point must be one number, or one for each column, or of a shape"):
        dml.onnx.load(_model("MatMulInteger", feeds, ["y"], 17)).run(feeds)


@pytest.mark.parametrize("kind", ["int4", "uint4"])
@pytest.mark.parametrize(
    ("shape", "axes", "block"),
    [
        *(((9, 32), (0, 1), 16), ((9, 40), (0, -1), 32), ((4, 9, 32), (1, 2), 16), ((4, 40, 9), (2, 1), 16)),
        *(((3, 40), (1, 1), 16), ((20, 9, 2), (1, 0), 16)),
    ],
)
def test_data_of_4_bits_that_a_run_gives(kind: str, shape: tuple[int, ...], axes: tuple[int, int], block: int) -> None:
    """ONNX Runtime has no arrays of 4 bits: there the data are a constant."""
    low, high = (-8, 8) if kind == "int4" else (0, 16)
    sizes = list(shape)
    sizes[axes[1]] = -(-sizes[axes[1]] // block)
    data, points = (RNG.integers(low, high, each).astype(getattr(ml_dtypes, kind)) for each in (shape, sizes))
    attributes = {"gather_axis": axes[0], "quantize_axis": axes[1], "block_size": block}
    feeds = {"data": data, "indices": RNG.integers(-9, 9, (2, 3)), "scales": _floats(*sizes), "points": points}
    fed = _model(MICROSOFT + "GatherBlockQuantized", feeds, ["y"], 21, **attributes)
    constant = onnx.ModelProto.FromString(fed.SerializeToString())
    for name in ("data", "points"):
        constant.graph.input.remove(next(info for info in constant.graph.input if info.name == name))
        constant.graph.initializer.append(onnx.numpy_helper.from_array(feeds[name], name))
    (wanted,) = session_of(constant).run(None, {name: feeds[name] for name in ("indices", "scales")})
    np.testing.assert_allclose(dml.onnx.load(fed, strict=True).run(feeds)["y"], wanted, rtol=1e-6)


def test_fed_numbers_of_4_bits_keep_their_type_in_parts() -> None:
    x = RNG.integers(-8, 8, (3, 3)).astype(ml_dtypes.int4)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["d"]),
        helper.make_node("Det", ["d"], ["y"]),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    constants = {"scale": np.float32(0.5), "zero": np.array(1, ml_dtypes.int4)}
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.INT4, [3, 3])],
        [helper.make_tensor_value_info("y", 1, []), helper.make_tensor_value_info("same", TensorProto.INT4, [3, 3])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    found = dml.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)).run(
        {"x": x}
    )
    assert found["same"].dtype == x.dtype
    np.testing.assert_array_equal(found["same"], x)
    np.testing.assert_allclose(found["y"], np.linalg.det((x.astype(np.float64) - 1) / 2), rtol=1e-5)


# Caches of GroupQueryAttention


class Cache(NamedTuple):
    """A run of it: queries, new keys, keys in the past, those of each batch, and all."""

    queries: int
    new: int
    past: int
    counts: tuple[int, ...]
    total: int


GQA = MICROSOFT + "GroupQueryAttention"
SIZE, HEADS = 16, {"num_heads": 4, "kv_num_heads": 2}


def _cached(run: Cache, dtype: Any = np.float32, width: int = SIZE) -> dict[str, Any]:
    batch = len(run.counts)
    low, high = (0, 256) if dtype is np.uint8 else (-128, 128)
    past = [
        RNG.integers(low, high, (batch, 2, run.past, width)).astype(dtype)
        if np.dtype(dtype).kind in "iu"
        else _floats(batch, 2, run.past, width).astype(dtype)
        for _ in range(2)
    ]
    new = [_floats(batch, count, heads * SIZE) for count, heads in ((run.queries, 4), (run.new, 2), (run.new, 2))]
    return {
        **dict(zip(("query", "key", "value", "past_key", "past_value"), [*new, *past], strict=True)),
        "seqlens_k": np.array(run.counts, np.int32) - 1,
        "total": np.array([run.total], np.int32),
    }


def _compare_cached(inputs: dict[str, Any], run: Cache, **attributes: Any) -> None:
    """What is asked of keys that are there; where a cache has room for more, ONNX Runtime leaves memory as it was."""
    proto = _model(GQA, inputs, ["y", "present_key", "present_value"], 17, **HEADS, **attributes)
    feeds = {name: value for name, value in inputs.items() if value is not None}
    output, *wanted = session_of(proto).run(None, feeds)
    found = dml.onnx.load(proto, strict=True).run(feeds)
    for b, count in enumerate(run.counts):  # beyond them are the padding's
        np.testing.assert_allclose(found["y"][b, :count], output[b, :count], rtol=0, atol=4e-6 * np.abs(output).max())
    for name, there in zip(("present_key", "present_value"), wanted, strict=True):
        assert (found[name].dtype, found[name].shape) == (there.dtype, there.shape)
        for b, count in enumerate(run.counts):
            np.testing.assert_allclose(found[name][b, :, :count], there[b, :, :count], rtol=0, atol=4e-6)


ROOMY = [
    Cache(4, 4, 16, (4, 4), 4), Cache(1, 1, 16, (7, 4), 7), Cache(3, 3, 16, (9,), 9), Cache(1, 1, 6, (7, 7), 7),
    Cache(2, 2, 4, (6,), 6),
]  # fmt: skip
"""Prompts and steps, in caches that have room for them, and in those that grow."""
SHARED = [Cache(1, 0, 16, (7, 4), 7), Cache(4, 0, 16, (4, 4), 4), Cache(2, 0, 9, (9,), 9), Cache(3, 0, 9, (7,), 7)]
"""No new keys: another layer's are attended to."""


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("run", [*ROOMY, *SHARED])
def test_caches_with_room_and_shared_ones(run: Cache, is_turned: bool) -> None:
    """By themselves, and with rotated queries and a bias."""
    inputs = _cached(run)
    if is_turned:
        bias = _floats(1, 4, run.queries, run.total)
        inputs |= {"cos": _floats(20, 8), "sin": _floats(20, 8), "position_ids": None, "attention_bias": bias}
    _compare_cached(inputs, run, do_rotary=int(is_turned))


SCORES: dict[str, dict[str, Any]] = {
    "window": {"local_window_size": 3},
    "cap": {"softcap": 1.5},
    "cap and window": {"softcap": 0.5, "local_window_size": 2},
    "smooth": {"smooth_softmax": 1},
    "sink": {"head_sink": np.array([-1, 0, 0.5, 2], np.float32)},
    "sink and window": {"head_sink": np.array([9, 0, -0.5, 2], np.float32), "local_window_size": 4, "scale": 0.3},
}  # fmt: skip
"""What Gemma and gpt-oss do with scores."""


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("change", SCORES.values(), ids=SCORES)
@pytest.mark.parametrize("run", [*ROOMY, *SHARED, Cache(9, 9, 0, (9, 6), 9)])
def test_scores_of_caches_that_are_changed(run: Cache, change: dict[str, Any], is_turned: bool) -> None:
    """A window, a cap, and a sink: by themselves, and with rotated queries and a bias."""
    attributes = {name: value for name, value in change.items() if name != "head_sink"}
    inputs: dict[str, Any] = {**_cached(run), **dict.fromkeys(("cos", "sin", "position_ids", "attention_bias"))}
    if is_turned:
        bias = _floats(1, 4, run.queries, run.total)
        inputs |= {"cos": _floats(20, 8), "sin": _floats(20, 8), "attention_bias": bias}
    inputs["head_sink"] = change.get("head_sink")
    _compare_cached(inputs, run, do_rotary=int(is_turned), **attributes)


@pytest.mark.parametrize("change", [{}, {"softcap": 2.0}])
def test_heads_are_normalised_before_they_are_turned(change: dict[str, Any]) -> None:
    """As Qwen 3 and Gemma 3 have them: the same as a node whose queries and keys were normalised before."""
    run = Cache(3, 3, 16, (9,), 9)
    none = dict.fromkeys(("position_ids", "attention_bias", "head_sink", "k_scale", "v_scale"))
    inputs: dict[str, Any] = {**_cached(run), "cos": _floats(20, 8), "sin": _floats(20, 8), **none}
    weights = {"q_norm_weight": _floats(SIZE), "k_norm_weight": _floats(SIZE)}
    before = dict(inputs)
    for name, weight in zip(("query", "key"), weights.values(), strict=True):
        heads = inputs[name].reshape(1, 3, -1, SIZE).astype(np.float64)
        heads = heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-5) * weight
        before[name] = heads.reshape(inputs[name].shape).astype(np.float32)
    found = []
    for given in ({**inputs, **weights}, before):
        options = {"qk_norm_epsilon": 1e-5} if "q_norm_weight" in given else {}
        proto = _model(GQA, given, ["y", "present_key", "present_value"], 17, **HEADS, do_rotary=1, **change, **options)
        feeds = {name: value for name, value in given.items() if value is not None}
        found.append(dml.onnx.load(proto, strict=True).run(feeds))
    for name, wanted in found[1].items():
        np.testing.assert_allclose(found[0][name], wanted, rtol=0, atol=4e-6 * np.abs(wanted).max())
    proto = _model(GQA, {**inputs, "q_norm_weight": weights["q_norm_weight"]}, ["y"], 17, **HEADS, do_rotary=1)
    with pytest.raises(dml.ModelError, match="q_norm_weight and k_norm_weight must both be given"):
        dml.onnx.load(proto, strict=True).run(
            {**{k: v for k, v in inputs.items() if v is not None}, "q_norm_weight": weights["q_norm_weight"]}
        )


def test_no_queries_attend_to_nothing() -> None:
    inputs = _cached(Cache(0, 0, 16, (7,), 7))
    for change in ({}, {"softcap": 1.5, "local_window_size": 3}):
        found = dml.onnx.load(_model(GQA, inputs, ["y", "k", "v"], 17, **HEADS, **change), strict=True).run(inputs)
        assert found["y"].shape == (1, 0, 4 * SIZE)
        np.testing.assert_array_equal(found["k"], inputs["past_key"])


def test_what_is_in_a_cache_after_the_last_key_counts_for_nothing() -> None:
    run = Cache(1, 1, 16, (7, 4), 7)
    inputs = _cached(run)
    proto = _model(GQA, inputs, ["y"], 17, **HEADS, softcap=1.5, local_window_size=5)
    loaded = dml.onnx.load(proto, strict=True)
    wanted = loaded.run(inputs)["y"]
    for name in ("past_key", "past_value"):
        for b, count in enumerate(run.counts):
            inputs[name][b, :, count:] = np.nan
    np.testing.assert_array_equal(loaded.run(inputs)["y"], wanted)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("kind", ["PER_TENSOR", "PER_CHANNEL"])
@pytest.mark.parametrize("run", [Cache(1, 1, 16, (7, 4), 7), Cache(4, 4, 0, (4, 4), 4)])
def test_caches_of_few_bits(run: Cache, kind: str, bits: int) -> None:
    dtype, width = (np.int8, SIZE) if bits == 8 else (np.uint8, SIZE // 2)
    sizes = (1,) if kind == "PER_TENSOR" else (2, 1, SIZE)
    scales = {name: np.abs(_floats(*sizes)) / 20 + np.float32(0.01) for name in ("k_scale", "v_scale")}
    none = dict.fromkeys(("cos", "sin", "position_ids", "attention_bias", "head_sink"))
    attributes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits}
    _compare_cached({**_cached(run, dtype, width), **none, **scales}, run, **attributes)
    if run.past:
        change = {"head_sink": np.array([-1, 0, 0.5, 2], np.float32)}
        _compare_cached({**_cached(run, dtype, width), **none, **change, **scales}, run, softcap=1.5, **attributes)


@pytest.mark.parametrize("run", [*ROOMY, SHARED[1], Cache(4, 4, 0, (4, 2), 4)])
def test_queries_that_see_all_keys(run: Cache) -> None:
    _compare_cached(_cached(run), run, causal=0)


@pytest.mark.parametrize("run", [ROOMY[0], ROOMY[1], ROOMY[4]])
@pytest.mark.parametrize("shown", [1, 2])
def test_scores_as_an_output(run: Cache, shown: int) -> None:
    inputs = _cached(run)
    outputs = ["y", "present_key", "present_value", "scores"]
    proto = _model(GQA, inputs, outputs, 17, **HEADS, qk_output=shown, softcap=1.5)
    wanted = session_of(proto).run(["scores"], inputs)[0]
    found = dml.onnx.load(proto, strict=True).run(inputs)["scores"]
    assert found.shape == (len(run.counts), 4, run.queries, run.total)
    for b, count in enumerate(run.counts):
        np.testing.assert_allclose(found[b, ..., :count], wanted[b, ..., :count], rtol=0, atol=4e-6)


@pytest.mark.parametrize("run", [Cache(3, 3, 0, (3, 2), 3), Cache(1, 1, 16, (7, 4), 7)])
def test_positions_of_a_prompt_begin_with_the_first_that_is_given(run: Cache) -> None:
    """ONNX Runtime looks at no other; of a step at all."""
    positions = np.array([[5, 7, 2], [3, 1, 9]])[:, : run.queries]
    inputs = {**_cached(run), "cos": _floats(20, 8), "sin": _floats(20, 8), "position_ids": positions}
    _compare_cached(inputs, run, do_rotary=1)


@pytest.mark.parametrize("steps", [[1] * 12, [3, 1, 5, 1, 1, 1]])
@pytest.mark.parametrize(("window", "room", "bits"), [(3, 3, 0), (3, 5, 0), (2, 6, 8), (4, 4, 4)])
def test_a_cache_that_slides_holds_what_the_window_reads(steps: list[int], window: int, room: int, bits: int) -> None:
    """The same answers as by a cache of all keys; ONNX Runtime's cache, but for rows that are nobody's."""
    attributes: dict[str, Any] = {**HEADS, "local_window_size": window, "do_rotary": 1}
    dtype, width = (np.float32, 32) if not bits else (np.int8, 32) if bits == 8 else (np.uint8, 16)
    more: dict[str, Any] = {"cos": _floats(20, 8), "sin": _floats(20, 8)}
    if bits:
        attributes |= {"k_quant_type": "PER_TENSOR", "v_quant_type": "PER_TENSOR", "kv_cache_bit_width": bits}
        scale = np.array([0.05 if bits == 8 else 0.4], np.float32)
        more |= {**dict.fromkeys(("position_ids", "attention_bias", "head_sink")), "k_scale": scale, "v_scale": scale}
    caches = [np.zeros((1, 2, size, width), dtype) for size in (16, 16, room, room)]
    total, gap = 0, room - window + 1
    outputs = ["y", "k", "v"]
    for count in steps:
        total += count
        given = {"query": _floats(1, count, 128), "key": _floats(1, count, 64), "value": _floats(1, count, 64)}
        said = {"seqlens_k": np.array([total - 1], np.int32), "total": np.array([total], np.int32)}
        answers = []
        for first, options in ((0, {}), (2, {"sliding_window_cache": 1})):
            past = dict(zip(("past_key", "past_value"), caches[first : first + 2], strict=True))
            inputs = {**given, **past, **said, **more}
            feeds = {name: value for name, value in inputs.items() if value is not None}
            proto = _model(GQA, inputs, outputs, 17, **attributes, **options)
            answers.append(dml.onnx.load(proto, strict=True, device="reference").run(feeds))
            caches[first : first + 2] = answers[-1]["k"], answers[-1]["v"]
        np.testing.assert_allclose(answers[1]["y"], answers[0]["y"], rtol=0, atol=4e-6)
        held = total - gap * max(-(-(total - room) // gap), 0)
        for name, wanted in zip(outputs, session_of(proto).run(None, feeds), strict=True):
            sizes = (slice(None), slice(None), slice(held if name != "y" else None))
            np.testing.assert_allclose(answers[1][name][sizes], wanted[sizes], rtol=0, atol=4e-6)
            if name != "y":
                np.testing.assert_array_equal(answers[1][name][sizes], answers[0][name][:, :, total - held : total])


@pytest.mark.parametrize(
    "run",
    [
        Cache(4, 4, 0, (9,), 9), Cache(4, 4, 2, (4,), 4), Cache(1, 1, 6, (8,), 8), Cache(4, 4, 6, (7,), 7),
        Cache(4, 4, 6, (3,), 3), Cache(1, 0, 6, (7,), 7),
    ],
)  # fmt: skip
def test_a_total_that_is_not_that_of_the_keys(run: Cache) -> None:
    """It gave misplaced rows, and memory that nobody had written to."""
    for has_past in (True, False) if not run.past else (True,):
        inputs = _cached(run) | ({} if has_past else {"past_key": None, "past_value": None})
        proto = _model(GQA, inputs, ["y"], 17, **HEADS)
        feeds = {name: value for name, value in inputs.items() if value is not None}
        with pytest.raises(Exception, match=r"\[ONNXRuntimeError\]"):
            session_of(proto).run(None, feeds)
        with pytest.raises(dml.ModelError, match=f"total_sequence_length must be {run.past + run.new}, the"):
            dml.onnx.load(proto).run(feeds)


# Nodes with bodies


def _decoder(table: Any) -> Any:
    """A body as ONNX Runtime's searches take one: scores of the next token by the last one, and a cache that grows."""
    info, node = helper.make_tensor_value_info, helper.make_node
    nodes = [
        node("Gather", ["table", "input_ids"], ["logits"]),
        node("Cast", ["input_ids"], ["f"], to=1),
        node("Unsqueeze", ["f", "axes"], ["u"]),
        node("Concat", ["u", "u"], ["w"], axis=-1),
        node("Concat", ["w", "w"], ["new"], axis=0),
        node("Concat", ["past_0", "new"], ["present_0"], axis=3),
    ]
    ids = [info(name, TensorProto.INT32, ["b", "s"]) for name in ("input_ids", "position_ids", "attention_mask")]
    tensors = {"axes": np.array([0, 2, 4]), **({} if table is None else {"table": table})}
    return helper.make_graph(
        nodes,
        "decoder",
        [*ids, info("past_0", 1, [2, "b", 1, "p", 2])],
        [info("logits", 1, ["b", "s", 8]), info("present_0", 1, [2, "b", 1, "t", 2])],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )


@pytest.mark.parametrize("is_captured", [False, True])
@pytest.mark.parametrize(("kind", "beams"), [("GreedySearch", []), ("BeamSearch", ["beams", "one", "p"])])
def test_searches_run_their_bodies_on_the_host(kind: str, beams: list[str], is_captured: bool) -> None:
    table = _floats(8, 8)
    table[:, 7] = -9  # the end, after which ONNX Runtime leaves memory as it was
    options = {"decoder": _decoder(None if is_captured else table), "eos_token_id": 7, "pad_token_id": 7}
    nodes = [
        helper.make_node("Add", ["ids", "one"], ["next"]),
        helper.make_node(kind, ["next", "most", "one", *beams, "p"], ["y"], domain="com.microsoft", **options),
    ]
    constants: dict[str, Any] = {"most": [8], "one": [1], "beams": [2]}
    tensors = {name: np.array(value, np.int32) for name, value in constants.items()} | {"p": np.ones(1, np.float32)}
    if is_captured:
        tensors["table"] = table
    graph = helper.make_graph(
        nodes,
        "search",
        [helper.make_tensor_value_info("ids", TensorProto.INT32, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [onnx.numpy_helper.from_array(value, name) for name, value in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    ids = RNG.integers(0, 6, (2, 3)).astype(np.int32)
    found = dml.onnx.load(proto).run({"ids": ids})["y"]
    np.testing.assert_array_equal(found, session_of(proto).run(None, {"ids": ids})[0])
    held = proto.graph.node[1].attribute[0].g.initializer[0]
    held.ClearField("raw_data")
    held.data_location = TensorProto.EXTERNAL
    held.external_data.add(key="location", value="elsewhere.bin")
    with pytest.raises(dml.ModelFileError, match="must have its elements in the model, for a node on the host"):
        dml.onnx.load(proto).run({"ids": ids})
