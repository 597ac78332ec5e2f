"""Running models from Python: the documents' examples, bindings, events and times."""

from __future__ import annotations

import doctest
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
import anydml.dxdispatch
from anydml.dxdispatch import Commanded, Dispatched, Printed, Progress, Started, Timing, Written, load_model
from anydml.dxdispatch.timing import Figures, Samples
from cases import CASES
from modelling import DISPATCH, EXAMPLES, ZEROS, changed, floats, model, write

if TYPE_CHECKING:
    from pathlib import Path

    from anydml.dxdispatch import Event

# What each example's outputs are to show: the case of the document, or the values.
SHOWN: dict[str, dict[str, Any]] = {
    "slice": {"output": "SLICE example 1", "strided_output": "SLICE example 2"},
    "slice1": {"output": "SLICE1 example 1", "backward_output": "SLICE1 example 2"},
    "gather_nd": {"output": "GATHER_ND example 1", "rows": "GATHER_ND example 2"},
    "cumulative_summation": {
        "plain_sums": "CUMULATIVE_SUMMATION example 1",
        "exclusive_sums": "CUMULATIVE_SUMMATION example 2",
        "decreasing_sums": "CUMULATIVE_SUMMATION example 3",
        "columns_sums": "CUMULATIVE_SUMMATION example 4",
    },
    "owned_gather": {"output": "GATHER_ND example 1 padded"},
    "write_npy": {"output": "CUMULATIVE_PRODUCT example 4"},
    "join_and_split": {
        "joined": [1, 2, 100, 5, 6, 3, 4, 99, 7, 8],
        "left": [1, 2, 3, 4],
        "right": [100, 5, 6, 99, 7, 8],
    },
    "numbers": {"scaled": [-1, -0.5, 0, 0.9921875], "lowest": [-np.inf] * 4},
}


def test_every_example_is_shown() -> None:
    assert set(SHOWN) == {path.stem for path in EXAMPLES.glob("*.json")}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_gives_what_the_document_says(name: str, engine: str, tmp_path: Path) -> None:
    loaded = load_model(EXAMPLES / f"{name}.json", output_path=tmp_path)
    report = loaded.check()
    assert report.findings == ()
    found = loaded.run(engine).resources
    cases = {case.name: case.expected.ravel().tolist() for case in CASES}
    for resource, expected in SHOWN[name].items():
        assert found[resource].tolist() == (cases[expected] if isinstance(expected, str) else expected)
    for command in loaded.commands:  # and every output is printed, or written
        assert getattr(command, "resource", None) in (None, *SHOWN[name])


def test_the_written_example_can_be_loaded(tmp_path: Path) -> None:
    load_model(EXAMPLES / "write_npy.json", output_path=tmp_path).run("reference")
    expected = next(case.expected for case in CASES if case.name == "CUMULATIVE_PRODUCT example 4").reshape(3, 4)
    assert np.load(tmp_path / "products.npy").tolist() == expected.tolist()
    assert np.fromfile(tmp_path / "products.dat", np.float32).tolist() == expected.ravel().tolist()


def test_events_come_in_order(tmp_path: Path) -> None:
    commands = [
        {"type": "writeFile", "resource": "in", "targetPath": "x.dat"},
        DISPATCH,
        {"type": "print", "resource": "out", "verbose": True},
    ]
    events: list[Event] = []
    result = load_model(write(tmp_path, model(commands=commands))).run("reference", on_event=events.append)
    around = [event.text for event in events if isinstance(event, Commanded) and not event.is_done]
    assert around == ["write 'in' to 'x.dat'", "dispatch 'sum'", "print 'out'"]
    others = [event for event in events if not isinstance(event, Commanded)]
    assert len(events) - len(others) == 2 * len(commands)
    kinds = [type(event).__name__ for event in others]
    assert kinds == ["Started", "Initialised", "Dispatched", "Printed", "Written"]
    started, _, dispatched, printed, written = others
    assert isinstance(started, Started)
    assert started.device.engine.name == "reference"
    assert isinstance(printed, Printed)
    assert printed.verbose
    assert printed.values.tolist() == [1, 3, 6, 10]
    assert (result.dispatches, result.written) == ([dispatched], [written])
    assert isinstance(written, Written)
    assert written.path == (tmp_path / "x.dat").resolve()


def test_what_check_finds_is_raised_as_the_most_serious(tmp_path: Path, unbuilt: str) -> None:
    wrong = changed(model(), "dispatchables.sum.desc.Axis", 4)
    with pytest.raises(dml.ModelError, match=r"Axis must be below InputTensor.DimensionCount, 4; got 4$") as caught:
        load_model(write(tmp_path, wrong)).run("reference")
    assert caught.value.faults[0].place is not None
    with pytest.raises(dml.UnsupportedError, match=unbuilt):
        load_model(write(tmp_path, changed(model(), "dispatchables.sum", {"type": unbuilt}))).run("reference")
    both = changed(wrong, "dispatchables.gemm", {"type": unbuilt})
    with pytest.raises(dml.ModelError, match="2 faults"):
        load_model(write(tmp_path, both)).run("reference")
    with pytest.raises(dml.ModelFileError, match="3 faults"):
        load_model(write(tmp_path, changed(both, "commands.1", 5))).run("reference")


def test_a_level_is_kept_to(tmp_path: Path) -> None:
    loaded = load_model(write(tmp_path, model()))
    assert loaded.run("reference", feature_level="2_1").resources["out"].tolist() == [1, 3, 6, 10]
    with pytest.raises(dml.ModelError, match="the operator needs DML_FEATURE_LEVEL_2_1"):
        loaded.run("reference", feature_level="2_0")


def test_an_operator_may_run_in_place_and_again(tmp_path: Path) -> None:
    both = {**DISPATCH, "bindings": {"InputTensor": "in", "OutputTensor": "in"}}
    loaded = load_model(write(tmp_path, model(commands=[both, both])))
    assert loaded.run("reference").resources["in"].tolist() == [1, 4, 10, 20]


def test_each_iteration_and_repeat_is_a_dispatch(tmp_path: Path) -> None:
    both = {**DISPATCH, "bindings": {"InputTensor": "in", "OutputTensor": "in"}}
    loaded = load_model(write(tmp_path, model(commands=[both])))
    result = loaded.run("reference", timing=Timing(iterations=2, repeat=3))
    assert result.resources["in"].tolist() == [1, 8, 36, 120]  # running sums, six times over
    assert len(result.dispatches[0].samples.milliseconds) == 2


def test_offsets_are_in_elements_of_the_resources_type_or_of_the_size_given(tmp_path: Path) -> None:
    long = {"initialValuesDataType": "FLOAT32", "initialValues": list(range(12))}
    for binding in ({"name": "in", "elementOffset": 4}, {"name": "in", "elementOffset": 2, "elementSizeInBytes": 8}):
        bindings = {"InputTensor": binding, "OutputTensor": ["out"]}
        data = model(resources={"in": long, "out": ZEROS}, commands=[{**DISPATCH, "bindings": bindings}])
        assert load_model(write(tmp_path, data)).run("reference").resources["out"].tolist() == [4, 9, 15, 22]


def test_a_resource_may_be_bound_as_another_type(tmp_path: Path) -> None:
    bits = {"initialValuesDataType": "UINT32", "initialValues": [0x3F800000] * 4}
    data = model(resources={"in": bits, "out": ZEROS})
    assert load_model(write(tmp_path, data)).run("reference").resources["out"].tolist() == [1, 2, 3, 4]


def test_running_for_a_time(tmp_path: Path) -> None:
    events: list[Event] = []
    loaded = load_model(write(tmp_path, model()))
    loaded.run("reference", timing=Timing(milliseconds=250, interval=1), on_event=events.append)
    (done,) = [event for event in events if isinstance(event, Dispatched)]
    told = [event for event in events if isinstance(event, Progress)]
    assert 2 < len(done.samples.milliseconds) <= 251
    assert told
    assert told[0].name == "sum"
    loaded.run("reference", timing=Timing(milliseconds=0), on_event=events.append)
    last = next(event for event in reversed(events) if isinstance(event, Dispatched))
    assert len(last.samples.milliseconds) == 1


@pytest.mark.parametrize(("count", "cold", "hot"), [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (5, 2, 3)])
def test_one_sample_at_least_is_hot(count: int, cold: int, hot: int) -> None:
    samples = Samples(array("d", range(1, count + 1)), warmup=2)
    assert (samples.cold.count if samples.cold else 0, samples.hot.count if samples.hot else 0) == (cold, hot)


def test_figures() -> None:
    assert Figures.of(array("d", [3, 1, 2, 10])) == Figures(count=4, average=4.0, least=1.0, median=3.0, most=10.0)
    assert Figures.of(array("d")) is None


@pytest.mark.parametrize(("mode", "expected"), [("clamp", [4]), ("CLAMP", [4])])
def test_an_index_outside_can_be_clamped(tmp_path: Path, mode: str, expected: list[float]) -> None:
    desc = {
        "InputTensor": {"DataType": "FLOAT32", "Sizes": [4]},
        "IndicesTensor": {"DataType": "UINT32", "Sizes": [1]},
        "OutputTensor": {"DataType": "FLOAT32", "Sizes": [1]},
        "InputDimensionCount": 1,
        "IndicesDimensionCount": 1,
        "IndexMode": mode,
    }
    indices = {"initialValuesDataType": "UINT32", "initialValues": [9]}
    data = model(
        resources={"in": floats(1, 2, 3, 4), "i": indices, "out": floats(0)},
        dispatchables={"gather": {"type": "GATHER_ND", "desc": desc}},
        commands=[
            {
                "type": "dispatch",
                "dispatchable": "gather",
                "bindings": {"InputTensor": "in", "IndicesTensor": "i", "OutputTensor": "out"},
            }
        ],
    )
    loaded = load_model(write(tmp_path, data))
    assert loaded.check().findings == ()
    assert loaded.run("reference").resources["out"].tolist() == expected


def test_an_operator_compiled_with_flags(tmp_path: Path) -> None:
    data: Any = changed(model(), "dispatchables.sum.executionFlags", ["DISABLE_META_COMMANDS", "DESCRIPTORS_VOLATILE"])
    loaded = load_model(write(tmp_path, data))
    flags = dml.ExecutionFlags.DISABLE_META_COMMANDS | dml.ExecutionFlags.DESCRIPTORS_VOLATILE
    assert loaded.dispatchables["sum"].flags == flags
    assert loaded.run("reference").resources["out"].tolist() == [1, 3, 6, 10]


def test_the_packages_own_example_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent.parent)
    assert doctest.testmod(anydml.dxdispatch) == (0, 4)


def test_what_is_public_has_a_docstring() -> None:
    for name in set(anydml.dxdispatch.__all__) - {"Event"}:
        assert getattr(anydml.dxdispatch, name).__doc__, name


def test_a_missing_engine_is_named(tmp_path: Path) -> None:
    with pytest.raises(dml.MissingDependencyError, match="there is no device 'tpu'"):
        load_model(write(tmp_path, model())).run("tpu")


def test_a_file_that_shrinks_between_reading_and_running(tmp_path: Path) -> None:
    (tmp_path / "x.dat").write_bytes(np.ones(4, np.float32).tobytes())
    source = {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "x.dat"}}
    loaded = load_model(write(tmp_path, model(resources={"in": source, "out": floats(0, 0, 0, 0)})))
    (tmp_path / "x.dat").write_bytes(b"")
    with pytest.raises(dml.ModelFileError, match=r"\$\.resources\.in: x\.dat: the file became shorter"):
        loaded.run("reference")
