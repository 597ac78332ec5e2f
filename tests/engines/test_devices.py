"""Devices by name: which there are, and what a name that none has gets."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from click.testing import CliRunner

import anydml as dml
from anydml.cli.app import app
from anydml.core.errors import Fault
from anydml.engines import ENGINES, find_gpu, is_engine_name
from anydml.engines.webgpu import why_missing

if TYPE_CHECKING:
    from device_double import DoubleEngine


def adapter(index: int, name: str, vendor: str) -> Any:
    """One as the webgpu engine tells of it."""
    from anydml.engines.webgpu.device import AdapterInfo

    return AdapterInfo(index, name, vendor, "Vulkan", "DiscreteGPU", 2**30, ("shader-f16", "subgroup"))


@pytest.fixture
def two(doubles: list[DoubleEngine], monkeypatch: pytest.MonkeyPatch) -> list[DoubleEngine]:
    """Two adapters, in whose places the doubles run."""
    found = (adapter(0, "Radeon RX 7600", "AMD"), adapter(1, "GeForce RTX 4060", "NVIDIA"))
    monkeypatch.setattr("anydml.engines.webgpu.adapters", lambda: found)
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", str)
    return doubles


def test_a_device_by_its_number_or_a_part_of_its_name(two: list[DoubleEngine]) -> None:
    for name, index in (("webgpu", 0), ("webgpu:1", 1), ("webgpu:nvidia", 1), ("webgpu:radeon rx", 0), ("webgpu:R", 0)):
        device = dml.Device(name)
        assert device.engine is two[index]
        assert device.name == ("webgpu:1" if index else "webgpu")
        assert dml.Device(device.name).engine is two[index]
        assert is_engine_name(name)


@pytest.mark.usefixtures("two")
def test_a_name_that_no_device_has() -> None:
    there_are = "there are 'webgpu:0', Radeon RX 7600, Vulkan; 'webgpu:1', GeForce RTX 4060, Vulkan"
    with pytest.raises(dml.MissingDependencyError, match="no adapter has 'intel' in its name") as caught:
        dml.Device("webgpu:intel")
    assert there_are in str(caught.value)


def test_a_number_that_no_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.engines.webgpu.adapters", lambda: (adapter(0, "Radeon RX 7600", "AMD"),))
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", str)
    with pytest.raises(dml.MissingDependencyError, match="there is no device 'webgpu:97' on this machine; there are"):
        dml.Device("webgpu:97")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("webgpu:", "or of webgpu a part of its name, as in 'webgpu:intel'"),
        ("webgpu: ", "or of webgpu a part of its name"),
        ("gpu", "did you mean 'webgpu'?"),
        ("vulkan", "did you mean 'webgpu'?"),
        ("nvidia", "did you mean 'cuda'?"),
    ],
)
def test_what_is_no_name_is_told_of_those_that_are(name: str, said: str) -> None:
    with pytest.raises(dml.MissingDependencyError, match=re.escape(said)):
        dml.Device(name)


def test_any_gpu_is_cudas_or_one_that_is_no_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise dml.MissingDependencyError("Device", Fault(field="name", rule="none"))

    found = [adapter(0, "Radeon RX 7600", "AMD")]
    monkeypatch.setattr("anydml.engines.webgpu.adapters", lambda: tuple(found))
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", str)
    monkeypatch.setitem(ENGINES, "cuda", missing)
    assert find_gpu() == "webgpu:0"
    found[0] = replace(found[0], kind="CPU")
    assert find_gpu() is None
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", lambda: "the webgpu engine needs a GPU")
    assert find_gpu() is None
    monkeypatch.setitem(ENGINES, "cuda", object)
    assert find_gpu() == "cuda"


def test_opengl_alone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wgpu")
    monkeypatch.setattr("anydml.engines.webgpu.adapters", tuple)
    monkeypatch.setattr("anydml.engines.webgpu.device.passed_over", lambda: ("Radeon HD 5450",))
    assert "wgpu finds only Radeon HD 5450 by OpenGL: install" in why_missing()


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anydml.engines.webgpu.why_missing", lambda: "the webgpu engine needs a GPU")
    for name in ("webgpu:98", "webgpu:nvidia"):
        with pytest.raises(dml.MissingDependencyError, match="the webgpu engine needs a GPU"):
            dml.Device(name)
    assert not [one for one in dml.devices() if one.engine == "webgpu"]


@pytest.mark.usefixtures("two")
def test_every_device_is_listed() -> None:
    found = {one.name: one for one in dml.devices()}
    assert list(found)[-2:] == ["cpu", "reference"] or "cpu" not in found
    one = found["webgpu:1"]
    assert (one.engine, one.vendor, one.backend, one.memory) == ("webgpu", "NVIDIA", "Vulkan", 2**30)
    assert one.features == ("shader-f16", "subgroup")
    assert found["reference"].memory > 2**28
    for each in found.values():
        if each.engine != "cuda":
            assert dml.Device(each.name).engine.name == each.engine

    shown = CliRunner().invoke(app, ["engines"], terminal_width=200).output
    assert "webgpu:1: GeForce RTX 4060, Vulkan, buffers up to 1 GiB" in " ".join(shown.split())
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["engines", "--json"]).output)}
    assert rows["webgpu"]["details"][1]["vendor"] == "NVIDIA"
    assert rows["webgpu"]["devices"][0] == "webgpu:0: Radeon RX 7600, Vulkan"
    assert "webgpu:1: GeForce RTX 4060, Vulkan" in CliRunner().invoke(app, ["run", "--show_adapters"]).output
