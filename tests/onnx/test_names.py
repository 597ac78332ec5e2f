"""Names of a file reach a terminal as text, whatever is in them; what a comparison says of infinities."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from onnx_models import helper, info, model, node  # isort: skip - it asks for onnx

import anydml as dml
import anydml.onnx
import anydml.onnx.library as library
import anydml.onnx.tools.compare as comparing
from anydml.cli.app import app
from anydml.onnx.program import Program
from anydml.onnx.tools.compare import differ

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVIL = "\x1b[31m\x07\u202e\n"
X = np.zeros((2, 2), "float32")


def named() -> Any:
    """A model each name of which would do something to a terminal."""
    proto = model(
        [
            helper.make_node("Transpose", [f"x{EVIL}"], [f"t{EVIL}"], name=f"turn{EVIL}"),
            helper.make_node("Gather", [f"t{EVIL}", f"i{EVIL}"], [f"y{EVIL}"], name=f"pick{EVIL}"),
        ],
        {},
        "",
    )
    proto.graph.input.append(info(f"x{EVIL}", "float32", [f"n{EVIL}", 2]))
    proto.graph.input.append(info(f"i{EVIL}", "int64", [1]))
    proto.graph.output.append(info(f"y{EVIL}", "float32", [1, f"m{EVIL}"]))
    proto.doc_string = proto.graph.name = EVIL
    return proto


def raised(act: Callable[[], object]) -> str:
    with pytest.raises(dml.DmlError) as found:
        act()
    return str(found.value)


def clean(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


def test_names_reach_no_terminal() -> None:
    proto = named()
    loaded = dml.onnx.load(proto)
    inputs = {f"x{EVIL}": X, f"i{EVIL}": np.array([0])}
    far = {**inputs, f"i{EVIL}": np.array([9])}
    report = dml.onnx.check(proto)
    program = loaded._program({f"x{EVIL}": (2, 2), f"i{EVIL}": (1,)}, {})
    assert isinstance(program, Program)
    texts = [
        repr(loaded),
        *map(str, loaded.inputs.values()),
        *map(str, loaded.outputs.values()),
        *map(repr, loaded.inputs.values()),
        repr(report),
        str(loaded.explain()),
        repr(program.compiled),
        raised(lambda: loaded(X, X, X)),
        raised(lambda: loaded(X, **{f"x{EVIL}": X})),
        raised(lambda: loaded.run({})),
        raised(lambda: loaded.run({EVIL: X})),
        raised(lambda: loaded.run(far)),
        raised(lambda: loaded.run({**inputs, f"x{EVIL}": X[0]})),
        raised(lambda: loaded.run({**inputs, f"x{EVIL}": X.astype("float64")})),
        raised(lambda: loaded.run(inputs, out={EVIL: X})),
        raised(lambda: loaded.run(inputs, out={f"y{EVIL}": X})),
        raised(lambda: loaded.run(inputs, out=[])),  # type: ignore[arg-type]  # that it is none is what is told
        raised(lambda: dml.onnx.load(proto, shapes={EVIL: 2})),
        raised(lambda: dml.onnx.load(proto, shapes={f"n{EVIL}": -2})),
        raised(lambda: dml.onnx.check(proto, values={EVIL: X})),
        raised(lambda: dml.onnx.load(proto, max_memory=1).run(inputs)),
    ]
    proto.graph.input[0].type.tensor_type.ClearField("shape")
    texts.append(raised(lambda: dml.onnx.load(proto).explain()))
    texts.append(raised(lambda: dml.onnx.load(proto).run(inputs | {f"x{EVIL}": np.zeros((2, 2, 2))})))
    proto.graph.node[0].op_type = f"No{EVIL}"
    proto.graph.node[0].attribute.append(helper.make_attribute(f"a{EVIL}", 1))
    texts += [
        raised(lambda: dml.onnx.load(proto)),
        str(dml.onnx.check(proto, shapes={f"x{EVIL}": (2, 2)}).nodes[0].error),
    ]
    proto.graph.node[0].op_type = "Transpose"
    texts.append(raised(lambda: dml.onnx.load(proto)))
    proto.graph.node[0].ClearField("attribute")
    proto.graph.output.append(info(f"z{EVIL}", "float32"))
    texts.append(raised(lambda: dml.onnx.load(proto)))
    assert [text for text in texts if not clean(text)] == []


def test_names_reach_no_terminal_by_commands(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(named().SerializeToString())
    for command in (["check"], ["check", "--json"], ["run"], ["explain"], ["run", "--shape", f"{EVIL}=2"]):
        result = CliRunner().invoke(app, [command[0], str(path), *command[1:]])
        assert clean(result.output), command


def test_two_names_that_look_the_same() -> None:
    proto = model(helper.make_node("Concat", ["a\x1b", "a\\x1b"], ["y"], axis=0), {}, "y")
    proto.graph.input.extend([info("a\x1b", "float32", [1]), info("a\\x1b", "float32", [1])])
    found = dml.onnx.load(proto).run({"a\x1b": np.ones(1, "float32"), "a\\x1b": np.zeros(1, "float32")})
    assert found["y"].tolist() == [1, 0]


# Comparisons

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("here", "there", "largest", "told"),
    [
        ([1, INF], [1, 2], INF, "1 of 2 elements differ, by inf at most, too far off"),
        (
            [1, -INF],
            [1, INF],
            INF,
            "by inf at most, too far off; the first at [1]: -inf by anydml, inf by ONNX Runtime",
        ),
        ([1, NAN], [1, 2], None, "1 of 2 elements differ, too far off"),
        ([3, NAN], [1, 2], 2.0, "2 of 2 elements differ, by 2 at most, too far off"),
        ([0.0, 1], [-0.0, 1], 0.0, "1 of 2 elements differ, by 0 at most, within the tolerance"),
    ],
)
def test_differences_that_are_no_numbers(here: Any, there: Any, largest: Any, told: str) -> None:
    found = differ("y", np.array(here, "float32"), np.array(there, "float32"), 1e-3, 1e-7)
    assert found.largest == largest
    assert told in str(found)


def test_differences_of_large_whole_numbers() -> None:
    for dtype, here, there, largest in (
        ("int64", 2**63 - 1, 2**63 - 2, 1),
        ("int64", -(2**63), 2**63 - 1, 2**64 - 1),
        ("uint64", 2**64 - 1, 2**64 - 4, 3),
        ("int8", -128, 127, 255),
        ("bool", True, False, 1),
    ):
        found = differ("y", np.array([here], dtype), np.array([there], dtype), 1e-3, 1e-7)
        assert found.largest == float(largest)


def test_a_comparison_with_an_infinity_is_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="comparing needs ONNX Runtime: make test EXTRAS=onnx")
    path = tmp_path / "model.onnx"
    path.write_bytes(model(node("Transpose", "x", "y"), {"x": ("float32", [2, 2])}).SerializeToString())
    real = library.run_onnxruntime
    monkeypatch.setattr(
        comparing,
        "run_onnxruntime",
        lambda *given, **_: {name: value + np.float32(INF) for name, value in real(*given).items()},
    )
    result = CliRunner().invoke(app, ["compare", str(path), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (found["outputs"][0]["largest"], found["outputs"][0]["there"]) == (None, "inf")
