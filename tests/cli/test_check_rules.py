"""The codes of `anydml check`: selecting and ignoring, remarks as errors, and the form that GitHub reads."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from anydml.cli.app import app
from anydml.cli.check_rules import Rules, as_github, rule_table
from anydml.core.errors import Fault, Place
from anydml.dxdispatch.findings import DESCRIPTION, FILE, KINDS, LEVEL, REMARK, Finding
from paths import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def check(*words: object) -> Result:
    return CliRunner().invoke(app, ["check", *map(str, words)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model that is valid, one with a slip, one that is cut short, and a file that is no model."""
    text = (ROOT / "examples/models/slice1.json").read_text()
    (tmp_path / "valid.json").write_text(text)
    (tmp_path / "remark.json").write_text(text.replace('"commands"', '"comands": [], "commands"'))
    (tmp_path / "cut.json").write_text(text[:200])
    (tmp_path / "other.json").write_text('{"name": "no model"}')
    (tmp_path / "cut.onnx").write_bytes((ROOT / "examples/models/crop.onnx").read_bytes()[:300])
    return tmp_path


def test_files_of_a_folder_that_do_not_parse_are_told_by_name(folder: Path) -> None:
    pytest.importorskip("onnx", reason="checking ONNX models needs onnx: make test EXTRAS=onnx")
    found = check(folder)
    assert found.exit_code == 2
    assert f"{folder / 'cut.onnx'}: E101 the file must be an ONNX model" in found.output
    assert f"{folder / 'cut.json'}:4:" in found.output
    assert "4 models: 2 valid, 2 unusable (2 faults)" in found.output


def test_findings_are_selected_and_ignored(folder: Path) -> None:
    (folder / "cut.onnx").unlink()
    assert check(folder, "--ignore", "E").exit_code == 0
    assert check(folder, "--ignore", "E101").exit_code == 0
    assert check(folder, "--select", "e2,E3").exit_code == 0
    assert check(folder, "--select", "E", "--ignore", "E2").exit_code == 2
    slip = folder / "remark.json"
    assert "comands" in check(slip).output
    assert "comands" not in check(slip, "--ignore", "R").output
    assert check(slip).exit_code == 0
    assert check(slip, "--remarks-as-errors").exit_code == 1
    assert check(slip, "--remarks-as-errors", "--ignore", "R101").exit_code == 0
    refused = check(slip, "--select", "E9")
    assert refused.exit_code == 2
    assert "'E9' is no code and no beginning of one: there are E101" in refused.output


def test_the_longer_beginning_decides() -> None:
    rules = Rules(("E2", "R"), ("E202",))
    assert [kind for kind in (DESCRIPTION, LEVEL, FILE, REMARK) if rules.takes(kind)] == [DESCRIPTION, REMARK]
    assert Rules((), ("ALL",)).takes(DESCRIPTION) is False
    assert Rules(("E202",), ("E",)).takes(LEVEL)


def test_formats(folder: Path) -> None:
    slip = folder / "remark.json"
    (line,) = check(slip, "--output-format", "github").stdout.splitlines()
    assert re.match(r"::warning title=anydml \(R101\),file=.*remark\.json,line=\d+,col=\d+::R101 ", line)
    assert check(slip, "--output-format", "concise").stdout == check(slip, "--concise").stdout
    assert ": R101 remark: " in check(slip, "--concise").stdout
    (found,) = json.loads(check(slip, "--output-format", "json").stdout)["findings"]
    assert found["code"] == "R101"
    assert check(slip, "--json", "--output-format", "github").exit_code == 2
    finding = Finding(FILE, Fault(field="", rule="50% of it", place=Place("$", 3, 7)))
    assert as_github(finding, "a,b.json") == (
        "::error title=anydml (E101),file=a%2Cb.json,line=3,col=7::E101 50%25 of it"
    )


def test_an_onnx_models_findings_have_codes(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="checking ONNX models needs onnx: make test EXTRAS=onnx")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("MatMul", ["x", "x"], ["y"], name="product"), make("Unique", ["x"], ["z"], name="hosted")]
    ends = [info("x", 1, [2, 3])], [info("y", 1, None), info("z", 1, None)]
    model = onnx.helper.make_model(
        onnx.helper.make_graph(nodes, "g", *ends), opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10
    )
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    assert check(path).exit_code == 1
    ignored = check(path, "--ignore", "E201")
    assert ignored.exit_code == 0
    assert "1 finding not told, as --select and --ignore have it" in ignored.output
    assert check(path, "--ignore", "E201", "--remarks-as-errors").exit_code == 1
    lines = check(path, "--output-format", "github").stdout.splitlines()
    assert [line.split("::")[2][:4] for line in lines] == ["E201", "R201"]


def test_the_table_of_codes_is_that_of_the_guide() -> None:
    rows = list(rule_table())
    assert [code for code, *_ in rows] == sorted({kind.code for kind in KINDS})
    printed = check("--rules").stdout
    guide = (ROOT / "docs/guides/command_line.md").read_text()
    for code, what, text in rows:
        assert f"{code}  {what}" in printed
        assert f"| `{code}` | {what} | {text} |" in guide


def test_misspellings_have_one_status() -> None:
    pytest.importorskip("onnx", reason="checking ONNX models needs onnx: make test EXTRAS=onnx")
    crop, slice1 = ROOT / "examples/models/crop.onnx", ROOT / "examples/models/slice1.json"
    for words in (
        ["check", crop, "--shape", "bach=2"],
        ["run", crop, "--shape", "bach=2"],
        ["run", crop, "--input", "rws=1"],
        ["check", crop, "--input", "rws=1"],
        ["explain", crop, "--shape", "bach=2"],
        ["explain", crop, "--disable-passes", "fuson"],
        ["explain", slice1, "--dispatchable", "crp"],
        ["explain", "slise1"],
        ["support", "slise1"],
        ["run", crop, "--engine", "cpuu"],
        ["check", crop, "--select", "Z"],
        ["check", crop, "--provider", "dmll"],
        ["chek", crop],
    ):
        assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 2, words


@pytest.fixture
def gelu(tmp_path: Path) -> Path:
    """A node for which ONNX Runtime's DirectML provider has no kernel."""
    onnx = pytest.importorskip("onnx", reason="checking ONNX models needs onnx: make test EXTRAS=onnx")
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Gelu", ["x"], ["y"], name="it")], "g", [info("x", 1, [2])], [info("y", 1, [2])]
    )
    opset = onnx.helper.make_opsetid("", 20)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "gelu.onnx")
    return tmp_path / "gelu.onnx"


def test_a_node_that_a_provider_leaves_on_the_cpu_is_a_remark_in_every_format(gelu: Path) -> None:
    (line,) = check(gelu, "--provider", "dml", "--output-format", "github").stdout.splitlines()
    assert line.startswith("::warning title=anydml (R203),file=")
    assert "no kernel for Gelu" in line
    concise = check(gelu, "--provider", "dml", "--concise").stdout
    assert f"{gelu}: R203 remark: node 'it' (Gelu): " in concise
    (node,) = json.loads(check(gelu, "--provider", "dml", "--json").stdout)["provider"]["on_cpu"]
    assert node["code"] == "R203"
    (result,) = json.loads(check(gelu, "--provider", "dml", "--sarif", "-").stdout)["runs"][0]["results"]
    assert result["ruleId"] == "provider"
    assert check(gelu, "--provider", "dml").exit_code == 0
    failed = check(gelu, "--provider", "dml", "--remarks-as-errors")
    assert failed.exit_code == 1
    assert "1 remark R203, an error as --remarks-as-errors has it" in failed.output
    ignored = check(gelu, "--provider", "dml", "--remarks-as-errors", "--ignore", "R203")
    assert ignored.exit_code == 0
    assert "no kernel for Gelu" not in ignored.output
    assert check(gelu, "--remarks-as-errors").exit_code == 0


def test_a_model_whose_faults_are_ignored_is_not_said_to_run(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx", reason="checking ONNX models needs onnx: make test EXTRAS=onnx")
    make, info = onnx.helper.make_node, onnx.helper.make_tensor_value_info
    nodes = [make("MatMul", ["x", "w"], ["y"], name="product"), make("Relu", ["y"], ["z"])]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, ["n", 4]), info("w", 1, [3, 2])], [info("z", 1, None)])
    opset = onnx.helper.make_opsetid("", 20)
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), path)
    for words in (["--ignore", "E"], ["--select", "R"]):
        found = check(path, *words)
        assert found.exit_code == 0
        assert f"{path}: 1 node cannot run (E201, ignored); 1 node is not known" in found.output
        assert "runs" not in found.output
        assert "which run" not in found.output
        assert "known at a run" not in found.output
        data = json.loads(check(path, "--json", *words).stdout)
        assert (data["valid"], data["ignored"]) == (False, ["E201"])
    assert "1 model: 0 valid, 1 with faults that are ignored" in check(tmp_path, "--ignore", "E").output


def test_a_dxdispatch_model_whose_faults_are_ignored_is_not_valid(folder: Path) -> None:
    found = check(folder / "cut.json", "--ignore", "E")
    assert found.exit_code == 0
    assert "1 fault (E101, ignored) at feature level" in found.output
    assert "valid" not in found.output
