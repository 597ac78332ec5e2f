"""`anydml explain MODEL.json --graph`: what edges a model's commands make, what is shown, what no graph can carry."""

from __future__ import annotations

import json
import re
import textwrap
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.dxdispatch import Event, Model, Printed, load_model
from anydml.dxdispatch.graph import graph_of
from anydml.graph.check import byte_span
from anydml.graph.wiring import input_descs, output_descs, slot_names
from counting import count_operations
from modelling import EXAMPLES, program, write
from random_recipes import RANDOM

if TYPE_CHECKING:
    from pathlib import Path


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


# What is shown


def test_three_dispatches_become_one_pass(tmp_path: Path) -> None:
    data = model(dispatch("flip", "a", "b"), dispatch("sum", "b", "c"), dispatch("flip", "c", "d"), shown("d"))
    assert told(tmp_path, data) == textwrap.dedent("""\
        model.json as one graph
        3 operators: one by one 3 passes that move 192 bytes, compiled 1 pass that moves 64 bytes: 2 passes and 128 bytes (66%) less

        before  node                      work                                from → to       moves  becomes
             1  SLICE1 flip               copy [1,1,2,4] from a[..., ::-1]    a → flip     64 bytes  pass 1
             2  CUMULATIVE_SUMMATION sum  running sum along axis 3 of flip    flip → sum   64 bytes  pass 1
             3  SLICE1 flip'              copy [1,1,2,4] from sum[..., ::-1]  sum → d      64 bytes  pass 1
                3 passes                                                                  192 bytes

        after  nodes             work                                        from → to     moves
            1  flip, sum, flip'  running sum along axis 3, decreasing, of a  a → d      64 bytes
               1 pass                                                                   64 bytes

        Between the passes: no scratch memory.
        Rewritten by copy_propagation: 2 steps became 1; store_forwarding: 2 steps became 1; scan_direction: 1 step became 1.
        """)  # fmt: skip # noqa: E501 - as it is printed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_every_example_is_a_graph(path: Path, tmp_path: Path) -> None:
    result = program("explain", path, "--graph")
    assert result.exit_code == 0, result.output
    loaded = load_model(path)
    for name in loaded.dispatchables:
        assert name in result.stdout
    assert program("explain", path, "--graph", "--svg", tmp_path / "x.svg").stdout == ""
    drawing = ElementTree.parse(tmp_path / "x.svg")  # noqa: S314 - our own
    texts = {"".join(element.itertext()) for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
    assert set(loaded.dispatchables) <= texts
    agree(loaded)


def test_drawings_go_to_stdout_and_to_files(tmp_path: Path) -> None:
    data = model(dispatch("flip", "a", "b"), dispatch("sum", "b", "c"))
    svg = told(tmp_path, data, "--svg", "-")
    ElementTree.fromstring(svg)  # noqa: S314 - our own
    assert told(tmp_path, data, "--html", tmp_path / "page.html") == ""
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    assert "model.json as one graph" in page


def test_a_dispatch_whose_result_nobody_sees_does_not_run(tmp_path: Path) -> None:
    data = model(dispatch("flip", "a", "b"), dispatch("sum", "a", "b"))
    text = told(tmp_path, data)
    assert "1 operator:" in text
    assert text.endswith("flip feeds no output, and does not run.\n")


# Edges


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([dispatch("sum", "a", "b")], ["a>0", "0>b"]),
        ([dispatch("sum", "a", "b"), dispatch("flip", "b", "c")], ["a>0", "0>1", "1>c"]),
        ([dispatch("sum", "a", "b"), shown("b"), dispatch("flip", "b", "c")], ["a>0", "0>1", "0>b", "1>c"]),
        ([dispatch("sum", "a", "b"), dispatch("flip", "b", "c"), shown("b")], ["a>0", "0>1", "0>b", "1>c"]),
        ([dispatch("sum", "a", "b"), shown("b"), shown("b"), shown("a")], ["a>0", "0>b"]),
        # What is read was there before it was written over.
        ([dispatch("sum", "a", "b"), dispatch("flip", "c", "a")], ["a>0", "c>1", "0>b", "1>a after flip"]),
        ([dispatch("flip", "c", "a"), dispatch("sum", "a", "b")], ["c>0", "0>1", "1>b"]),
        # In place: another value of the same resource.
        ([dispatch("sum", "a", "a"), dispatch("sum", "a", "a")], ["a>0", "0>1", "1>a after sum"]),
        (
            [dispatch("sum", "a", "a"), shown("a"), dispatch("sum", "a", "a")],
            ["a>0", "0>1", "0>a after sum", "1>a after sum'"],
        ),
        # Written again: the first is seen where it was printed, or not at all.
        ([dispatch("sum", "a", "b"), dispatch("flip", "a", "b")], ["a>0", "a>1", "1>b"]),
        ([dispatch("sum", "a", "b"), shown("b"), dispatch("flip", "a", "b")], ["a>0", "a>1", "0>b", "1>b after flip"]),
        # Parts: each is an input or an output of its own.
        (
            [dispatch("half", "a", "b"), dispatch("half", at("a", 4), at("b", 4))],
            ["a>0", "a from byte 16>1", "0>b", "1>b from byte 16"],
        ),
        ([dispatch("half", "a", "b"), dispatch("half", at("b", 4), "c")], ["a>0", "b from byte 16>1", "0>b", "1>c"]),
        ([dispatch("sum", "a", "b"), dispatch("half", "b", "c")], ["a>0", "0~>1", "1>c"]),
        ([dispatch("half", "a", "b"), dispatch("sum", "a", "c")], ["a~>0", "a>1", "0>b", "1>c"]),
    ],
)
def test_edges_follow_the_commands(tmp_path: Path, commands: list[Any], expected: list[str]) -> None:
    loaded = load(tmp_path, model(*commands))
    assert edges(graph_of(loaded)) == expected
    agree(loaded)


def test_the_same_memory_in_another_description_is_marked(tmp_path: Path) -> None:
    rows, floats = running_sum(1, 1, 4, 2), {"DataType": "FLOAT32", "Sizes": [1, 1, 2, 4]}
    as_floats = crop([0, 0, 0, 0], [1, 1, 2, 4], [1, 1, 1, 1], floats, floats)
    data = model(
        dispatch("sum", "a", "b"), dispatch("rows", "b", "c"), dispatch("float", "b", "d"), rows=rows, float=as_floats
    )
    loaded = load(tmp_path, data)
    assert edges(graph_of(loaded)) == ["a>0", "0~>1", "0~>2", "1>c", "2>d"]
    agree(loaded)


def test_columns_that_lie_between_one_another_are_apart(tmp_path: Path) -> None:
    half = tensor(1, 1, 2, 2, Strides=[8, 8, 4, 2])
    data = model(
        dispatch("even", "a", "b"), dispatch("even", "a", at("c", 0)), even=running_sum(source=half, target=half)
    )
    assert edges(graph_of(load(tmp_path, data))) == ["a>0", "a>1", "0>b", "1>c"]
    data = model(dispatch("even", "a", "b"), dispatch("sum", "b", "c"), even=running_sum(source=half, target=half))
    assert "'even' wrote some, and no dispatch wrote some of it" in refusal(tmp_path, data, status=3)
    data = model(dispatch("even", "a", "b"), dispatch("half", "b", "c"), even=running_sum(source=half, target=half))
    assert "'even' wrote some, and no dispatch wrote some of it" in refusal(tmp_path, data, status=3)


def test_an_owned_tensor_has_the_first_values_whatever_is_written_later(tmp_path: Path) -> None:
    owned = tensor(1, 1, 2, 4, Flags="DML_TENSOR_FLAG_OWNED_BY_DML")
    table = {**running_sum(source=owned, target=tensor(1, 1, 2, 4)), "bindings": {"InputTensor": "a"}}
    run_table = {"type": "dispatch", "dispatchable": "table", "bindings": {"OutputTensor": "c"}}
    data = model(dispatch("sum", "b", "a"), run_table, dispatch("flip", "a", "d"), table=table)
    desc = graph_of(load(tmp_path, data))
    assert edges(desc) == ["b>0", "a>1", "0>2", "1>c", "2>d"]
    assert [one.is_owned_by_dml for one in desc.input_descs or () if one] == [False, True]
    assert desc.check()
    assert "CUMULATIVE_SUMMATION table" in told(tmp_path, data)


def test_names_of_strangers_are_told_on_one_line(tmp_path: Path) -> None:
    name = "</text>\x1b[31m\n" + "x" * 10_000
    data = model(dispatch(name, "a", "b"), **{name: SUM})
    text = told(tmp_path, data)
    assert "\x1b" not in text
    assert len(text) < 3_000
    ElementTree.fromstring(told(tmp_path, data, "--svg", "-"))  # noqa: S314 - our own


def test_names_that_turn_text_around_are_cleaned_and_cut(tmp_path: Path) -> None:
    names = [f"{first}\x1b\x85\u2028\u202e\u2066\u061c\r\n" + "y" * 100_000 for first in "abcd"]
    data = model(dispatch(names[0], names[1], names[2]), dispatch("sum", names[2], names[3]), **{names[0]: SUM})
    data["resources"] = {name: ints(8) for name in names}
    page = tmp_path / "page.html"
    assert told(tmp_path, data, "--html", page) == ""
    for shown_text in (told(tmp_path, data), told(tmp_path, data, "--svg", "-"), page.read_text("utf-8")):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", shown_text)
        assert "y" * 250 not in shown_text
        assert len(shown_text) < 20_000


# The graph does what the commands do


def agree(loaded: Model) -> None:
    """Run the graph and the model: each output is what its resource held when it was shown, or at the end."""
    desc = graph_of(loaded)
    desc.validate("6_4")
    names_in, names_out = slot_names(desc)
    held: dict[str, list[bytes]] = {name: [] for name in loaded.resources}

    def keep(event: Event) -> None:
        if isinstance(event, Printed):
            held[event.name].append(event.values.tobytes())

    for name, values in loaded.run("reference", on_event=keep).resources.items():
        held[name].append(values.tobytes())
    compiled = dml.Device("reference").compile_graph(desc)
    arrays, owned = [], []
    for k, name in enumerate(names_in):
        given, first = input_descs(desc)[k], loaded.resources[resource_of(name)].first_values()
        assert given is not None
        assert first is not None
        arrays.append(part(first.tobytes(), name, given))
        owned.append(given.is_owned_by_dml)
    ready = compiled.initialize(*(array for array, is_owned in zip(arrays, owned, strict=True) if is_owned))
    results = ready(*(array for array, is_owned in zip(arrays, owned, strict=True) if not is_owned))
    results = results if isinstance(results, tuple) else (results,)
    for k, (name, result) in enumerate(zip(names_out, results, strict=True)):
        found = [part(data, name, output_descs(desc)[k]) for data in held[resource_of(name)]]
        assert any(np.array_equal(result, one) for one in found), name


def resource_of(name: str) -> str:
    return re.split(" from byte | after ", name.rstrip("'"))[0]


def part(data: bytes, name: str, desc: dml.TensorDesc | None) -> np.ndarray[Any, Any]:
    assert desc is not None
    start = int((re.findall(" from byte ([0-9]+)", name) or ["0"])[0])
    assert start + byte_span(desc)[1] <= len(data) + 3
    steps = [stride * desc.data_type.size_in_bytes for stride in desc.element_strides]
    return np.ndarray(desc.sizes, desc.data_type.dtype, data + bytes(4), start, steps)


@RANDOM
@given(data=st.data())
def test_a_random_model_is_the_same_as_a_graph(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    commands = []
    for _ in range(data.draw(st.integers(1, 6), "commands")):
        if data.draw(st.booleans(), "show"):
            commands.append(shown(data.draw(st.sampled_from("abcd"))))
        name = data.draw(st.sampled_from(("sum", "flip", "half", "rows", "even")))
        starts = st.sampled_from((0, 0, 4)) if name == "half" else st.just(0)
        source, target = (at(data.draw(st.sampled_from("abc")), data.draw(starts)) for _ in range(2))
        commands.append(dispatch(name, source, target))
    gaps = tensor(1, 1, 2, 2, Strides=[8, 8, 4, 2])
    made = model(*commands, rows=running_sum(1, 1, 4, 2), even=running_sum(source=gaps, target=gaps))
    path = tmp_path_factory.mktemp("random") / "model.json"
    path.write_text(json.dumps(made))
    loaded = load_model(path)
    if not loaded.check():
        return
    try:
        graph_of(loaded)
    except dml.UnsupportedError:
        return
    agree(loaded)


VALID = "the model is valid, but no graph can carry it"
EDGE = f"{VALID}: InputTensor must be what one dispatch wrote, from its first element on, to be an edge of a graph"
OUTPUT = f"{VALID}: 'b' must be what one dispatch wrote to be an output of a graph"
WAY_OUT = "give each result a resource of its own, or leave the dispatches apart"


@pytest.mark.parametrize(
    ("commands", "rule", "found"),
    [
        (
            [dispatch("half", "a", "b"), dispatch("half", "a", at("b", 4)), dispatch("sum", "b", "c")],
            EDGE,
            "'half' wrote some, and 'half' wrote some of it",
        ),
        (
            [dispatch("half", "a", "b"), dispatch("sum", "b", "c")],
            EDGE,
            "'half' wrote some, and no dispatch wrote some of it",
        ),
        (
            [dispatch("sum", "a", "b"), dispatch("half", at("b", 4), "c")],
            EDGE,
            "byte 16 of what 'sum' wrote from byte 0 on",
        ),
        (
            [dispatch("sum", "a", "b"), dispatch("half", "a", "b")],
            OUTPUT,
            "'half' wrote over some of what 'sum' wrote",
        ),
    ],
)
def test_what_no_edge_can_carry_is_refused(tmp_path: Path, commands: list[Any], rule: str, found: str) -> None:
    said = refusal(tmp_path, model(*commands), status=3)
    assert program("check", tmp_path / "model.json").exit_code == 0
    place = re.fullmatch(r"Error: model\.json:[0-9]+:[0-9]+: \$\.commands\[([12])\]\.bindings\.[A-Za-z]+: (.*)\n", said)
    assert place, said
    assert int(place[1]) == len(commands) - 1
    assert place[2] == f"CUMULATIVE_SUMMATION: {rule}; got {found}; {WAY_OUT}"


def test_a_model_without_a_dispatch_one_at_fault_and_one_that_is_not_built(tmp_path: Path, unbuilt: str) -> None:
    said = refusal(tmp_path, model(shown("a")), status=3)
    assert said == f"Error: model.json: {VALID}: there must be a dispatch to make a graph of\n"
    assert program("check", tmp_path / "model.json").exit_code == 0
    wrong = model(dispatch("sum", "a", "nowhere"))
    assert "there is no resource 'nowhere'" in refusal(tmp_path, wrong)
    other = model(dispatch("sum", "a", "b"), gemm={"type": f"DML_OPERATOR_{unbuilt}"})
    assert unbuilt in refusal(tmp_path, other, status=3)
    low = refusal(tmp_path, model(dispatch("sum", "a", "b")), "--feature-level", "2_0")
    assert "CUMULATIVE_SUMMATION: the operator needs DML_FEATURE_LEVEL_2_1" in low


def fan(count: int) -> dict[str, Any]:
    """One resource is read by every dispatch, and another written by all of them in turn."""
    return model(*(dispatch(("sum", "flip")[n % 2], "ab"[n % 2], "cd"[n % 2]) for n in range(count)))


def test_a_model_of_very_many_dispatches_is_refused(tmp_path: Path) -> None:
    said = refusal(tmp_path, fan(2_001), status=3)
    assert said == (
        "Error: model.json: the model is valid, but has too many dispatches for a graph: there must be at most 2000;"
        " got 2001; leave the dispatches apart, or make several models of it\n"
    )


def many(count: int) -> list[dict[str, Any]]:
    """Models of so many dispatches: one reads another, or the same, or nothing of the others."""
    data = model()
    data["resources"] |= {f"r{n}": ints(8) for n in range(count)}
    data["commands"] = [dispatch("sum", f"r{n // 2 - 1}" if n > 1 else "a", f"r{n}") for n in range(count)]
    apart = model()
    apart["resources"] |= {"wide": ints(4 * count)}
    apart["commands"] = [dispatch("half", "a", at("wide", 4 * n)) for n in range(count)]
    return [data, apart, fan(count)]


@pytest.mark.long
def test_as_many_dispatches_as_are_taken_are_followed(tmp_path: Path) -> None:
    for data in many(2_000):
        assert len(graph_of(load(tmp_path, data)).nodes) == 2_000


@pytest.mark.long
def test_twice_the_dispatches_are_no_four_times_the_work(tmp_path: Path) -> None:
    """Writes to one resource are looked at for every other: a little more than twice, and 4 if that were all."""
    for few, more in zip(many(60), many(120), strict=True):
        counts = []
        for data in (few, more):
            loaded = load(tmp_path, data)
            graph_of(loaded)  # what is done once is done by now
            counts.append(count_operations(lambda: graph_of(loaded)))  # noqa: B023 - called at once
        assert counts[1] < 2.8 * counts[0]


def test_one_dispatchable_is_no_graph(tmp_path: Path) -> None:
    said = refusal(tmp_path, model(dispatch("sum", "a", "b")), "--dispatchable", "sum", status=2)
    assert said.endswith("Error: --graph shows all dispatches together: leave --dispatchable out.\n")
