"""`anydml support`, `anydml engines`, and what all commands have in common."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

import anydml as dml
from anydml import engines
from anydml.cli.app import COMMANDS, app
from anydml.cli.engines import engines as engines_command
from anydml.cli.wording import as_options

ROOT = Path(__file__).parents[2]
HAS_ONNX = all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime"))


def run(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line), prog_name="anydml")


def printed(line: str) -> str:
    result = run(line)
    assert result.exit_code == 0, result.output
    return result.stdout


# support


def test_support_has_a_line_for_each_operator_within_80_columns() -> None:
    lines = printed("support").splitlines()
    assert sorted(line.split()[0] for line in lines[1:-1]) == sorted(kind.name for kind in dml.OPERATORS)
    assert lines[-1].startswith(f"{len(dml.OPERATORS)} operators; ")
    assert max(map(len, lines)) <= 80
    low = printed("support --feature-level 1_0").splitlines()
    assert len(low) - 3 == sum(cls.introduced() == min(dml.FeatureLevel) for cls in dml.OPERATORS.values())
    assert low[-1].endswith("operators need a higher feature level than 1_0")


def test_support_of_one_operator_has_every_row() -> None:
    for cls in list(dml.OPERATORS.values())[::10]:
        lines = printed(f"support {cls.type.name}").splitlines()
        assert sum(line.split()[0] == cls.type.name for line in lines) == len(list(cls.support))


@pytest.mark.skipif(not HAS_ONNX, reason="needs onnx: make test EXTRAS=onnx")
def test_support_lists_the_types_of_onnx_nodes() -> None:
    from anydml.onnx.lower.registry import lowered_kinds

    text = printed("support --onnx")
    assert "Softmax, " in text
    assert max(map(len, text.splitlines())) <= 80
    names = json.loads(printed("support --onnx --json"))
    assert text.splitlines()[-1].startswith(f"{len(names)} types of nodes; ")
    assert names == sorted(lowered_kinds(), key=str.lower)
    assert printed("support --onnx gathern").startswith("GatherND\n1 type of nodes; ")
    result = CliRunner().invoke(app, ["support", "--onnx", "Softmx"])
    assert (result.exit_code, "did you mean Softmax?" in result.output) == (2, True)


def test_support_at_a_level() -> None:
    assert "INT64" not in printed("support cumulative_summation --feature-level 4_0")
    assert "INT64" in printed("support DML_OPERATOR_CUMULATIVE_SUMMATION --feature-level DML_FEATURE_LEVEL_5_0")
    assert "INT8" not in printed("support reduce --feature-level 2_0")
    assert printed("support reduce --feature-level 2_1").count("REDUCE") == 5  # groups of functions
    assert printed("support slice1 --feature-level 1.0") == "SLICE1 needs DML_FEATURE_LEVEL_2_1\n"


def test_support_for_machines_is_the_descriptions_own() -> None:
    found = json.loads(printed("support --json"))
    assert {row["operator"] for row in found} == {kind.dml_name for kind in dml.OPERATORS}
    for row in found:
        table = dml.OPERATORS[dml.OperatorType(row["operator"])].support
        support = (table.of(row["functions"][0]) if "functions" in row else table).at(row["feature_level"])
        assert support is not None
        for name, allowed in support.tensors.items():
            data = row["tensors"][name]
            assert tuple(data["dimension_counts"]) == allowed.dimension_counts
            assert {dml.DataType(t) for t in data["data_types"]} == allowed.data_types
    assert json.loads(printed("support slice1 --json --feature-level 1_0")) == []


# engines


def test_engines_are_those_that_a_device_takes() -> None:
    found = json.loads(printed("engines --json"))
    assert [engine["name"] for engine in found] == list(engines.ENGINES)
    for engine in found:
        if engine["is_present"]:
            assert dml.Device(engine["name"]).engine.name == engine["name"]
            assert engine["devices"]
        else:
            assert engine["name"] in ("cuda", "webgpu")
            assert engine["way_out"].startswith(f"the {engine['name']} engine needs")
    lines = [line.split()[:2] for line in printed("engines").splitlines()]
    for engine in found:
        assert [engine["name"], "yes" if engine["is_present"] else "no"] in lines


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> NoReturn:
        raise dml.MissingDependencyError(
            "cpu", dml.Fault(field="llvmlite", rule="it needs llvmlite", way_out="pip install 'anydml[cpu]'")
        )

    monkeypatch.setitem(engines.ENGINES, "cpu", missing)
    assert ["cpu", "no", "-", "it", "needs", "llvmlite;", "pip", "install", "'anydml[cpu]'"] in [
        line.split() for line in printed("engines").splitlines()
    ]
    (_, _, cpu, _) = json.loads(printed("engines --json"))
    assert not cpu["is_present"]
    assert cpu["way_out"] == "it needs llvmlite; pip install 'anydml[cpu]'"


# All commands


def test_the_help_of_explain_says_what_a_graph_shows() -> None:
    text = " ".join(printed("explain --help").split())
    assert "With --graph its dispatches are shown together, as the one graph that they could be compiled as" in text
    assert "anydml explain examples/models/slice1.json --graph" in text
    text = " ".join(printed(f"explain {ROOT}/examples/models/slice1.json --help").split())
    assert "or, with --graph, all of its dispatches as one graph" in text
    assert "Show all dispatches as one compiled graph: its passes over memory" in text


def test_a_report_does_not_take_the_place_of_the_model(tmp_path: Path) -> None:
    mine, link = tmp_path / "mine.json", tmp_path / "link.json"
    mine.write_bytes((ROOT / "examples/models/slice1.json").read_bytes())
    link.symlink_to(mine)
    for target in (mine, link):
        result = run(f"check {mine} --sarif {target}")
        assert result.exit_code == 2, result.output
        assert "Invalid value for '--sarif'" in result.stderr
        assert mine.read_bytes() == (ROOT / "examples/models/slice1.json").read_bytes()


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in ("explore", "bench", "chat", "serve")])  # of folders
def test_every_command_has_help_with_examples_that_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = printed(f"{name} --help")
    examples = re.findall(r"^ +anydml (.+)$", text.partition("Example")[2], re.MULTILINE)
    assert examples, text
    for example in examples:
        # 1: `check` shows a fault; 3: a model needs onnx.
        assert run(example).exit_code in ((0, 1) if HAS_ONNX else (0, 1, 3)), example


def test_the_list_of_commands_has_their_first_sentences_and_imports_none() -> None:
    ctx = click.Context(app)
    assert {name: app.get_command(ctx, name).get_short_help_str(200) for name in COMMANDS} == COMMANDS  # type: ignore[union-attr]  # all are there
    script = "import sys; from anydml.cli.app import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    imported = done.stdout.splitlines()[-1].split()
    assert "anydml.cli.app" in imported
    assert not {"anydml.cli.run", "anydml.explain", "anydml.explore", "anydml.dxdispatch"} & set(imported)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("chekc", "No such command 'chekc'; did you mean check?"),
        ("help", "No such command 'help'; write `anydml --help`"),
        ("a/model.JSON", "No such command 'a/model.JSON'; write `anydml run a/model.JSON`"),
        ("explain cumulative_sumation", "did you mean cumulative_summation?"),
        ("explain cumsum", "use cumulative_summation"),
        ("support concat", "use join"),
        ("explain qqqq", "`anydml support` lists them"),
    ],
)
def test_a_name_that_is_misspelt_or_of_another_library(line: str, message: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    assert " ".join(result.stderr.split()).endswith(message)
    assert result.stderr.count("did you mean") <= 1


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("support adam_optimizer", 3, "ADAM_OPTIMIZER: the operator is not built yet; there are"),
        ("support slice9", 2, "must be the name or the number of a DirectML operator"),
        ("support slice --feature-level 9_9", 2, "must be one of 1_0, 2_0"),
        ("explain adam_optimizer", 3, "ADAM_OPTIMIZER: the operator is not built yet"),
        ("run nowhere.json", 2, "nowhere.json: the file cannot be read"),
        ("run model.onnx", *((2, "the file cannot be read") if HAS_ONNX else (3, "needs onnx"))),
        ("walk", 2, "No such command 'walk'"),
        ("engines --loud", 2, "No such option"),
    ],
)
@pytest.mark.usefixtures("unbuilt")
def test_what_is_wrong_is_said_in_one_message_with_its_status(line: str, status: int, message: str) -> None:
    result = run(line)
    assert result.exit_code == status, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_it_runs_as_a_module_and_says_its_version() -> None:
    command = [sys.executable, "-m", "anydml", "-V"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert done.stdout == f"anydml, version {dml.__version__}\n"


def test_a_pipe_that_closes_early_is_no_traceback() -> None:
    command = f"{shlex.quote(sys.executable)} -m anydml support --json | head -c 10"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - our own
    assert "Traceback" not in done.stderr
    assert len(done.stdout) == 10


def test_an_interrupt_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(engines_command, "callback", lambda **_: interrupted())
    assert run("engines").exit_code == 130


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full here")
def test_an_output_that_is_full_is_said() -> None:
    command = f"{shlex.quote(sys.executable)} -m anydml support --json > /dev/full"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602 - our own
    assert "Traceback" not in done.stderr
    assert "could not be written" in done.stderr
    assert done.returncode == 2


def test_piped_tables_have_no_blanks_at_their_ends() -> None:
    for line in (printed("support") + printed("engines")).splitlines():
        assert line == line.rstrip()


def test_shells_complete_operators_and_levels() -> None:
    complete = ShellComplete(app, {}, "anydml", "_ANYDML_COMPLETE")
    assert [item.value for item in complete.get_completions(["support"], "GATHER_ND")] == ["gather_nd", "gather_nd1"]
    assert [item.value for item in complete.get_completions(["support", "--feature-level"], "5")] == [
        "5_0",
        "5_1",
        "5_2",
    ]
    assert [item.value for item in complete.get_completions(["explain"], "rel")] == ["relu", "relu_grad"]
    assert "--input-data" in [item.value for item in complete.get_completions(["explain", "relu"], "--")]
    assert "explain" in [item.value for item in complete.get_completions([], "")]
    assert [item.value for item in complete.get_completions(["explain", "bogus"], "--")] == ["--help"]


def test_the_help_names_onnx_and_cuts_no_sentence() -> None:
    text = printed("--help")
    assert "ONNX" in text
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell"])
def test_completion_scripts(shell: str) -> None:
    text = printed(f"completion {shell}")
    assert f"_ANYDML_COMPLETE={shell}_complete" in text.replace(" = '", "=")
    assert "anydml" in text
    if shell == "zsh":
        assert "compinit && compinit" in text, "compdef is there without a line of the user's"
    if shell == "fish":
        assert 'string split --max 1 ","' in text, "a description keeps its commas"
    assert run("completion tcsh").exit_code == 2


@pytest.mark.parametrize(
    ("words", "word", "lines"),
    [
        ("anydml", "explai", ["plain\texplain\t"]),
        ("anydml\nexplain", "rel", ["plain\trelu\t", "plain\trelu_grad\t"]),
        ("anydml\nsupport\n--feature-level", "5_1", ["plain\t5_1\t5_1"]),
        ("anydml\nrun", "", ["file\t\t"]),
    ],
)
def test_powershell_is_answered_in_lines_of_its_own(words: str, word: str, lines: list[str]) -> None:
    """PowerShell itself is not here: this is what its script asks, and reads."""
    asked = {**os.environ, "_ANYDML_COMPLETE": "powershell_complete", "COMP_WORDS": words, "COMP_WORD": word}
    command = [sys.executable, "-m", "anydml"]
    done = subprocess.run(command, env=asked, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert done.stderr == ""
    for found, expected in zip(done.stdout.splitlines(), lines, strict=True):
        assert found.startswith(expected)


def test_messages_speak_of_options() -> None:
    assert "--index-mode clamp" in run("explain gather --sizes 3 --indices 9 --axis 0").output + as_options(
        'take 0 .. 2, or index_mode="clamp" for the nearest element'
    )
    assert as_options('use Device("cpu")') == "use --engine cpu"
    result = run("explain cumulative_summation --sizes 1,1,1,4 --type float64 --axis 3")
    assert result.exit_code == 1
    assert "--allow-float64" in result.stderr
    assert "=True" not in result.stderr
