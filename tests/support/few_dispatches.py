"""Models of a few dispatches, as files and as graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.dxdispatch import Model, load_model
from anydml.graph.wiring import slot_names
from modelling import program, write

if TYPE_CHECKING:
    from pathlib import Path

    import anydml as dml


def ints(count: int, start: int = 1) -> dict[str, Any]:
    values = {"valueCount": count, "valueStart": start, "valueDelta": 1}
    return {"initialValuesDataType": "INT32", "initialValues": values}


def tensor(*sizes: int, **more: Any) -> dict[str, Any]:
    return {"DataType": "INT32", "Sizes": list(sizes), **more}


def running_sum(*sizes: int, axis: int = 3, source: Any = None, target: Any = None) -> dict[str, Any]:
    return {
        "type": "CUMULATIVE_SUMMATION",
        "InputTensor": source or tensor(*sizes),
        "OutputTensor": target or tensor(*sizes),
        "Axis": axis,
        "AxisDirection": "INCREASING",
        "HasExclusiveSum": False,
    }


def crop(offsets: list[int], sizes: list[int], strides: list[int], source: Any, target: Any) -> dict[str, Any]:
    window = {"InputWindowOffsets": offsets, "InputWindowSizes": sizes, "InputWindowStrides": strides}
    return {"type": "SLICE1", "InputTensor": source, "OutputTensor": target, "DimensionCount": 4, **window}


FLIP = crop([0, 0, 0, 0], [1, 1, 2, 4], [1, 1, 1, -1], tensor(1, 1, 2, 4), tensor(1, 1, 2, 4))
SUM = running_sum(1, 1, 2, 4)
HALF = running_sum(1, 1, 1, 4)


def dispatch(name: str, source: Any, target: Any) -> dict[str, Any]:
    return {"type": "dispatch", "dispatchable": name, "bindings": {"InputTensor": source, "OutputTensor": target}}


def at(resource: str, element: int) -> dict[str, Any]:
    return {"name": resource, "elementOffset": element}


def shown(resource: str) -> dict[str, Any]:
    return {"type": "print", "resource": resource}


def model(*commands: dict[str, Any], **dispatchables: Any) -> dict[str, Any]:
    return {
        "resources": {name: ints(8, start) for name, start in (("a", 1), ("b", 20), ("c", 40), ("d", 60))},
        "dispatchables": {"flip": FLIP, "sum": SUM, "half": HALF, **dispatchables},
        "commands": list(commands),
    }


def load(folder: Path, data: Any) -> Model:
    return load_model(write(folder, data))


def told(folder: Path, data: Any, *options: object) -> str:
    path = write(folder, data)
    result = program("explain", path, "--graph", *options)
    assert result.exit_code == 0, result.output
    assert not result.stderr
    return result.stdout.replace(str(path), path.name)


def refusal(folder: Path, data: Any, *options: object, status: int = 1) -> str:
    path = write(folder, data)
    result = program("explain", path, "--graph", *options)
    assert result.exit_code == status, result.output
    assert not result.stdout
    return result.stderr.replace(str(path), path.name)


def edges(desc: dml.GraphDesc) -> list[str]:
    """The edges in short: `a>0` for an input, `0>1` between nodes, `0>b` for an output; ~ where one is marked."""
    names_in, names_out = slot_names(desc)
    mark = ("", "~")
    return [
        *(f"{names_in[e.graph_input_index]}{mark[e.reinterpret]}>{e.to_node_index}" for e in desc.input_edges),
        *(f"{e.from_node_index}{mark[e.reinterpret]}>{e.to_node_index}" for e in desc.intermediate_edges),
        *(f"{e.from_node_index}>{names_out[e.graph_output_index]}" for e in desc.output_edges),
    ]
