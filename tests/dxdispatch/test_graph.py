"""A model as one graph where nodes have several inputs, several outputs, or no input at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from anydml.dxdispatch import load_model
from anydml.dxdispatch.graph import graph_of
from modelling import EXAMPLES, write

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.dxdispatch import Model


def ints(count: int, start: int = 0) -> dict[str, Any]:
    values = {"valueCount": count, "valueStart": start, "valueDelta": 1}
    return {"initialValuesDataType": "INT32", "initialValues": values}


def tensor(size: int, **more: Any) -> dict[str, Any]:
    return {"DataType": "INT32", "Sizes": [size], **more}


def join(*sizes: int, owned: int | None = None) -> dict[str, Any]:
    tensors = [tensor(size, **({"Flags": "OWNED_BY_DML"} if i == owned else {})) for i, size in enumerate(sizes)]
    return {"type": "JOIN", "InputTensors": tensors, "OutputTensor": tensor(sum(sizes)), "Axis": 0}


def split(*sizes: int) -> dict[str, Any]:
    return {"type": "SPLIT", "InputTensor": tensor(sum(sizes)), "OutputTensors": [*map(tensor, sizes)], "Axis": 0}


def copy(size: int) -> dict[str, Any]:
    return {"type": "ELEMENT_WISE_IDENTITY", "InputTensor": tensor(size), "OutputTensor": tensor(size)}


DISPATCHABLES = {
    "join": join(4, 4),
    "twice": join(4, 2, 2),
    "split": split(4, 4),
    "uneven": split(2, 6),
    "copy": copy(4),
    "copy8": copy(8),
    "fill": {"type": "FILL_VALUE_CONSTANT", "OutputTensor": tensor(4), "ValueDataType": "INT32", "Value": -7},
    "table": {**join(4, 2, owned=1), "bindings": {"InputTensors": ["s"]}},
}


def dispatch(name: str, inputs: Any, outputs: Any) -> dict[str, Any]:
    desc = DISPATCHABLES[name]
    names = [name for name in ("InputTensor", "InputTensors") if name in desc]
    bindings = {**dict.fromkeys(names, inputs), next(name for name in desc if name.startswith("Output")): outputs}
    return {"type": "dispatch", "dispatchable": name, "bindings": bindings}


def model(folder: Path, *commands: dict[str, Any]) -> Model:
    eights = {name: ints(8, 10 * i) for i, name in enumerate("abcd")}
    return load_model(
        write(
            folder,
            {
                "resources": {**eights, **{name: ints(4, 100) for name in "wxyz"}, "s": ints(2, 50)},
                "dispatchables": DISPATCHABLES,
                "commands": list(commands),
            },
        )
    )


def edges(desc: dml.GraphDesc) -> list[str]:
    """The edges in short, with the slot after a dot: `a>0.1` into a node, `0.1>1.0` between two, `0.1>b` out."""
    return [
        *(f"{e.name}>{e.to_node_index}.{e.to_node_input_index}" for e in desc.input_edges),
        *(
            f"{e.from_node_index}.{e.from_node_output_index}>{e.to_node_index}.{e.to_node_input_index}"
            for e in desc.intermediate_edges
        ),
        *(f"{e.from_node_index}.{e.from_node_output_index}>{e.name}" for e in desc.output_edges),
    ]


def agree(loaded: Model) -> None:
    """Run the graph and the model: each output is what its resource holds at the end."""
    desc = graph_of(loaded)
    desc.validate("6_4")
    names = {edge.graph_input_index: edge.name for edge in desc.input_edges}
    owned: list[Any] = []
    given: list[Any] = []
    for k, one in enumerate(desc.input_descs or ()):
        assert one is not None
        resource, _, offset = names[k].partition(" from byte ")
        first = loaded.resources[resource].first_values()
        assert first is not None
        array = np.frombuffer(first.tobytes(), one.data_type.dtype, one.element_count, int(offset or 0)).reshape(
            one.sizes
        )
        (owned if one.is_owned_by_dml else given).append(array)
    results = dml.Device("reference").compile_graph(desc).initialize(*owned)(*given)
    expected = loaded.run("reference").resources
    outputs = results if isinstance(results, tuple) else (results,)
    for edge, result in zip(desc.output_edges, outputs, strict=True):
        found = expected[edge.name.partition(" after ")[0]]
        np.testing.assert_array_equal(np.ravel(result), found[: result.size])


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([dispatch("join", ["x", "y"], "a")], ["x>0.0", "y>0.1", "0.0>a"]),
        ([dispatch("join", ["x", "x"], "a")], ["x>0.0", "x>0.1", "0.0>a"]),
        (
            [dispatch("join", ["a", {"name": "a", "elementOffset": 4}], "b")],
            ["a>0.0", "a from byte 16>0.1", "0.0>b"],
        ),
        ([dispatch("split", "a", ["x", "y"])], ["a>0.0", "0.0>x", "0.1>y"]),
        # What is taken apart is put together in another order, and one part is copied as well.
        (
            [dispatch("split", "a", ["x", "y"]), dispatch("join", ["y", "x"], "b"), dispatch("copy", "y", "z")],
            ["a>0.0", "0.1>1.0", "0.0>1.1", "0.1>2.0", "1.0>b", "2.0>z"],
        ),
        # One part alone is read: the other is an output.
        ([dispatch("split", "a", ["x", "y"]), dispatch("copy", "y", "z")], ["a>0.0", "0.1>1.0", "0.0>x", "1.0>z"]),
        # A node without inputs: its number counts, and nothing leads there.
        ([dispatch("fill", None, "x")], ["0.0>x"]),
        (
            [dispatch("fill", None, "x"), dispatch("join", ["y", "x"], "b")],
            ["y>1.0", "0.0>1.1", "1.0>b"],
        ),
        ([dispatch("copy", "x", "x"), dispatch("fill", None, "x")], ["x>0.0", "1.0>x after fill"]),
        # One of several is handed over before anything runs.
        ([dispatch("table", ["x"], "a")], ["x>0.0", "s>0.1", "0.0>a"]),
        ([dispatch("uneven", "a", ["s", "c"]), dispatch("table", ["x"], "b")],
         ["a>0.0", "x>1.0", "s>1.1", "0.0>s after uneven", "0.1>c", "1.0>b"]),
        # From three places: a dispatch, first values, and another dispatch's second output.
        (
            [dispatch("fill", None, "x"), dispatch("uneven", "a", ["s", "c"]), dispatch("twice", ["x", "s", "y"], "b")],
            ["a>1.0", "y>2.2", "0.0>2.0", "1.0>2.1", "1.1>c", "2.0>b"],
        ),
    ],
)  # fmt: skip
def test_every_slot_has_its_edge(tmp_path: Path, commands: list[Any], expected: list[str]) -> None:
    loaded = model(tmp_path, *commands)
    assert edges(graph_of(loaded)) == expected
    agree(loaded)


def test_what_several_wrote_is_refused_by_the_tensors_own_name(tmp_path: Path) -> None:
    part = dispatch("fill", None, {"name": "a", "elementOffset": 4})
    loaded = model(tmp_path, dispatch("fill", None, "a"), part, dispatch("split", "a", ["x", "y"]))
    with pytest.raises(dml.UnsupportedError, match="SPLIT: the model is valid, but no graph can carry it: InputTensor"):
        graph_of(loaded)
    loaded = model(tmp_path, dispatch("split", "a", ["b", "c"]), dispatch("twice", ["x", "s", "b"], "d"))
    assert edges(graph_of(loaded))[-3:] == ["0.0>1.2", "0.1>c", "1.0>d"]
    half = dispatch("join", ["x", {"name": "b", "elementOffset": 4}], "d")
    loaded = model(tmp_path, dispatch("copy8", "a", "b"), half)
    with pytest.raises(dml.UnsupportedError) as caught:
        graph_of(loaded)
    (fault,) = caught.value.faults
    assert fault.field == "InputTensors[1]"
    assert fault.place is not None
    assert fault.place.path == "$.commands[1].bindings.InputTensors[1]"


@pytest.mark.parametrize("name", ["join_and_split", "numbers"])
def test_the_examples_are_graphs(name: str) -> None:
    agree(load_model(EXAMPLES / f"{name}.json"))
