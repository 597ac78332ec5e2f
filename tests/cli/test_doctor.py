"""`anydml doctor`: what a report says of a machine, and whether each engine works."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from anydml.engines import list_engines
from anydml.engines.common import nvidia

if TYPE_CHECKING:
    import pytest


def told(*options: str) -> Any:
    result = CliRunner().invoke(app, ["doctor", *options])
    return result.exit_code, json.loads(result.output) if options else result.output


def test_it_tells_of_the_machine_and_tries_its_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANYDML_SOMETHING", "set")
    status, found = told("--json")
    assert (status, found["anydml"]) == (0, dml.__version__)
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] == dml.get_num_threads()
    assert found["settings"]["ANYDML_SOMETHING"] == "set"
    engines = {row["name"]: row for row in found["engines"]}
    for engine in list_engines():
        row = engines[engine.name]
        assert row["is_present"] is engine.is_present
        assert bool(row["way_out"]) is not engine.is_present
        assert (row["seconds"] is not None) is engine.is_present, row
        assert row["fault"] == ""


def test_its_text_says_what_is_missing_and_not_who_uses_it() -> None:
    status, text = told()
    assert status == 0
    assert f"anydml {dml.__version__}, CPython" in text
    assert "  reference: " in text
    assert "    works: one call took " in text
    assert str(Path.home()) not in text.partition("settings:")[0]


class FakeNvml:
    """NVIDIA's management library with two GPUs, of which the second does not answer."""

    def __init__(self, name: str) -> None:
        assert "nvml" in name.replace("nvidia-ml", "nvml")
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            if name == "nvmlSystemGetDriverVersion":
                arguments[0].value = b"570.86"
            if name == "nvmlDeviceGetCount_v2":
                ctypes.cast(arguments[0], ctypes.POINTER(ctypes.c_uint))[0] = 2
            if name == "nvmlDeviceGetName":
                arguments[1].value = b"NVIDIA H200"
            return int(name == "nvmlDeviceGetHandleByIndex_v2" and arguments[0] == 1)

        return call


def test_gpus_are_told_with_their_driver_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", FakeNvml)
    assert nvidia.find_nvidia() == nvidia.Nvidia("570.86", ("NVIDIA H200",))
    _, found = told("--json")
    assert found["gpus"][0] == {"name": "NVIDIA H200", "driver": "NVIDIA 570.86"}
    assert "gpus: NVIDIA H200 (NVIDIA 570.86)" in told()[1]


def test_a_machine_without_a_driver_has_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert nvidia.find_nvidia() is None


def test_an_engine_that_does_not_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    relu = dml.activation_relu

    def broken(given: Any, *, device: Any) -> Any:
        if device.name == "reference":
            raise RuntimeError("it fell over")
        return relu(given, device=device) + (device.name == "cpu")

    monkeypatch.setattr(dml, "activation_relu", broken)
    status, text = told()
    assert status == 1
    assert "    does not work: it fell over" in text
    status, found = told("--json")
    if any(engine.name == "cpu" and engine.is_present for engine in list_engines()):
        assert "gave [1.0, 1.0" in next(row["fault"] for row in found["engines"] if row["name"] == "cpu")
