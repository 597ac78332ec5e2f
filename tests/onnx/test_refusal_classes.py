"""What steers the package inside is told to nobody: whatever is refused, users meet with errors of public classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from onnx_models import helper, info, model, node, onnx

import anydml as dml  # isort: skip - after the models, which leave this out where onnx is missing
import anydml.onnx  # isort: skip - likewise
import anydml.onnxruntime as ort  # isort: skip - likewise

if TYPE_CHECKING:
    from collections.abc import Callable

X = np.arange(12, dtype="float32").reshape(3, 4)
WHOLE = {"x": ("float32", [3, 4])}
OPEN = {"x": ("float32", ["n", 4])}


def whole(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


def _segmented() -> Any:
    made = model(node("Add", "x w", "y"), WHOLE, "y", {"w": X})
    made.graph.initializer[0].segment.begin = 1
    return made


def _loop(body: list[Any]) -> Any:
    graph = helper.make_graph(
        body, "body",
        [info("i", "int64", []), info("c", "bool", []), info("h", "float32", None)],
        [info("c2", "bool", []), info("h2", "float32", None)],
    )  # fmt: skip
    nodes = [helper.make_node("Loop", ["m", "", "x"], ["y"], body=graph)]
    return model(nodes, {"m": ("int64", []), **WHOLE, "t": ("int64", [2])}, "y")


T, S = {"t": ("int64", [2])}, {"s": ("int64", [1]), "e": ("int64", [1])}
MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "a shape by values": (model(node("Reshape", "x t", "y"), {**WHOLE, **T}), {"x": X, "t": whole(4, 3)}),
    "a shape that is wrong": (model(node("Reshape", "x t", "y"), {**WHOLE, **T}), {"x": X, "t": whole(5, 3)}),
    "a shape of a type for the host": (
        model([node("NonZero", "x", "z"), node("Reshape", "x t", "y")], {**WHOLE, **T}, "y z"),
        {"x": X, "t": whole(4, 3)},
    ),
    "axes by values": (
        model(node("ReduceL2", "x t", "y"), {"x": ("int64", [3, 4]), "t": ("int64", [1])}, opset=18),
        {"x": X.astype(np.int64), "t": whole(1)},
    ),
    "INT64 that DirectML does not reduce": (
        model(node("ReduceL2", "x", "y", axes=[1]), {"x": ("int64", [3, 4])}), {"x": X.astype(np.int64)},
    ),
    "bounds that a run gives": (
        model([node("Add", "s one", "e"), node("Slice", "x s e zero", "y")], {**WHOLE, "s": ("int64", [1])},
              constants={"one": whole(1), "zero": whole(0)}),
        {"x": X, "s": whole(-1)},
    ),
    "bounds of any size": (model(node("Slice", "x s e", "y"), {**WHOLE, **S}), {"x": X, "s": whole(1), "e": whole(9)}),
    "a tensor in segments": (_segmented(), {"x": X}),
    "an input of too many elements": (
        model(node("Relu", "x", "y"), {"x": ("float32", [2**40, 2**40])}), {"x": X},
    ),
    "too many dimensions": (
        model(node("Unsqueeze", "x t", "y"), {**WHOLE, "t": ("int64", [70])}), {"x": X, "t": np.arange(70)},
    ),
    "a size past all": (
        model(node("ConstantOfShape", "t", "y"), T), {"t": whole(2**40, 2**40)},
    ),
    "a range by values": (
        model(node("Range", "a b d", "y"), {name: ("int64", []) for name in "abd"}),
        {"a": np.array(0), "b": np.array(5), "d": np.array(0)},
    ),
    "a loop with bounds of its steps": (
        _loop([
            *(node("Identity", "c", "c2"), node("Unsqueeze", "i", "k", axes=[0]), node("Reshape", "h t", "r")),
            node("Reshape", "r t", "h2"),
        ]),
        {"m": np.array(3), "x": X, "t": whole(4, 3)},
    ),
    "a node of no operator": (model(node("StringNormalizer", "x", "y"), {"x": ("float32", ["n"])}), {"x": X[0]}),
    "an open size that does not go": (
        model(node("Add", "x w", "y"), OPEN, constants={"w": np.ones((5, 4), "float32")}), {"x": X},
    ),
}  # fmt: skip


def _check(proto: Any, _fed: dict[str, Any]) -> None:
    for is_strict in (False, True):
        for each in dml.onnx.check(proto, strict=is_strict).nodes:
            if each.error is not None:
                raise each.error


def _bind(proto: Any, fed: dict[str, Any]) -> None:
    session = ort.InferenceSession(proto.SerializeToString())
    binding = session.io_binding()
    for name, array in fed.items():
        binding.bind_cpu_input(name, array)
    for output in session.get_outputs():
        binding.bind_output(output.name)
    for _ in range(3):
        session.run_with_iobinding(binding)


def _run(proto: Any, fed: dict[str, Any]) -> None:
    loaded = dml.onnx.load(proto)
    for _ in range(3):
        loaded.run(fed)


ENTRIES: dict[str, Callable[[Any, dict[str, Any]], object]] = {
    "load strictly": lambda proto, _fed: dml.onnx.load(proto, strict=True),
    "run": _run,
    "run strictly": lambda proto, fed: dml.onnx.load(proto, strict=True).run(fed),
    "outputs": lambda proto, _fed: dml.onnx.load(proto).outputs,
    "check": _check,
    "explain": lambda proto, _fed: dml.onnx.load(proto).explain(),
    "compare": lambda proto, fed: dml.onnx.compare(proto, fed, every=True, alone=True),
    "session": lambda proto, fed: ort.InferenceSession(proto.SerializeToString()).run(None, fed),
    "bound": _bind,
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("name", MODELS)
def test_errors_are_of_classes_that_users_know(name: str, entry: str) -> None:
    proto, fed = MODELS[name]
    found: Exception | None = None
    try:
        ENTRIES[entry](onnx.ModelProto.FromString(proto.SerializeToString()), dict(fed))
    except Exception as error:  # noqa: BLE001 - whatever is raised is looked at
        found = error
    if isinstance(found, dml.DmlError):
        kind = type(found).__name__
        assert getattr(dml, kind, getattr(ort, kind, None)) is type(found), f"{kind} is of the inside"
    assert found is None or str(found)
    assert isinstance(found, dml.DmlError | None), repr(found)
