"""The benchmark itself: what is kept of a row, how it is judged and shown, and the command. No test looks at a time."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import anydml as dml
from benchmarks import __main__ as command
from benchmarks import against, figures, language, models, table, tree
from benchmarks.__main__ import main
from benchmarks.against import HERE, Compared
from benchmarks.chain import chains, twelve
from benchmarks.chart import draw
from benchmarks.cpu.choosing import choosing
from benchmarks.cpu.contestants import limit_numpy, openblas
from benchmarks.cpu.measure import PEERS, measure
from benchmarks.cpu.products import products
from benchmarks.cpu.rows import CpuRow, chain_row, gather_row, rows, scan_row, slice_row
from benchmarks.cpu.windows import windows
from benchmarks.results import judge, marks, result, trouble
from benchmarks.row import Row, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.sampled(6)

NAMES = ("anydml", "torch", "compile", "copy")


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before, ask = dml.get_num_threads(), openblas("get_num_threads")
    asked = ask() if ask is not None else 0
    yield
    dml.set_num_threads(before)
    limit_numpy(asked or 1)


def a_row(**options: Any) -> Row:
    desc = dml.Slice1.infer(
        input_tensor=dml.TensorDesc("float32", (4, 8)),
        input_window_offsets=(0, 0),
        input_window_sizes=(4, 7),
        input_window_strides=(1, 2),
    )
    return Row(name="slice, made up", family="slice", desc=desc, **options)


@pytest.mark.skipif(openblas("get_num_threads") is None, reason="this NumPy brings no OpenBLAS")
def test_numpy_takes_as_many_threads_as_the_others() -> None:
    """OpenBLAS would take all there are, against one of everyone else's."""
    for threads in (2, 1):
        limit_numpy(threads)
        assert openblas("get_num_threads")() == threads


def a_run() -> dict[str, Any]:
    good = result(a_row(share=0.9), {"anydml": 1e-3, "torch": 2e-3, "compile": 1.5e-3, "copy": 0.95e-3})
    slow = result(a_row(share=0.9, goal=3.0), {"anydml": 1e-3, "torch": 2e-3, "copy": 0.5e-3})
    wrong = result(a_row(), {"anydml": 1e-3, "torch": 2e-3}, wrong=True)
    failed = result(a_row(share=0.9), {}, error="RuntimeError: no")
    launch = result(a_row(goal=0.0, device_us=9.0, host_us=15.0), {"anydml": 5e-6}, device_us=5.0, host_us=16.0)
    about = {"engine": "cuda", "version": "9.9", "date": "2030-01-02", "device": "a card", "versions": {"torch": "3.0"}}
    return {**about, "rows": [good, slow, wrong, failed, launch]}


def a_chain(ours: float = 1.1e-3) -> dict[str, Any]:
    times = {"anydml": ours, "torch": 3.3e-3, "compile": 1.65e-3, "single": 1e-3, "copy": 0.9e-3}
    return result(a_row(goal=2.0, vs_single=1.15, vs_compile=0.9), times)


def test_a_result_names_the_best_peer_and_the_share_of_copy_speed() -> None:
    good = a_run()["rows"][0]
    assert (good["best_peer"], good["vs_best_peer"], good["share_of_copy"]) == ("compile", 1.5, 0.95)
    assert good["bytes"] == good["lines"] == 2 * 16 * 4


def test_lines_count_where_they_are_more_than_the_elements() -> None:
    found = result(a_row(lines=192), {"anydml": 2.0, "copy": 1.0})
    assert (found["share_of_copy"], found["share_of_copy_by_elements"]) == (0.5, 0.5 * 128 / 192)


@pytest.mark.parametrize(
    ("row", "judged", "marked", "word"),
    [
        (0, {"vs_best_peer": True, "share_of_copy": True}, "", ""),
        (1, {"vs_best_peer": False, "share_of_copy": False}, "<c", ""),
        (2, {"vs_best_peer": False}, "<", "WRONG"),
        (3, {"vs_best_peer": False, "share_of_copy": False}, "<c", "FAILED"),
        (4, {"device_us": True, "host_us": False}, "h", ""),
    ],
)
def test_goals_are_judged(row: int, judged: dict[str, bool], marked: str, word: str) -> None:
    found = a_run()["rows"][row]
    assert (judge(found), marks(found), trouble(found)) == (judged, marked, word)


def test_a_chain_is_judged_by_its_single_pass_and_torch_compile_apart_from_the_peers() -> None:
    chain, slow = a_chain(), a_chain(2e-3)
    assert (chain["best_peer"], chain["vs_best_peer"]) == ("torch", pytest.approx(3))
    assert (chain["vs_single"], chain["vs_compile"]) == (pytest.approx(1.1), pytest.approx(1.5))
    assert judge(chain) == {"vs_best_peer": True, "vs_compile": True, "vs_single": True}
    assert marks(slow) == "<ts"
    assert table.summary([chain, slow]) == (
        "goals met: 3 of 6; missed: 1 vs_best_peer (<), 1 vs_compile (t), 1 vs_single (s)\n"
        "chains at least twice as fast as torch.compile: 0 of 2"
    )
    assert table.summary([a_chain(0.8e-3)]).endswith("torch.compile: 1 of 1")


def test_compile_time_is_judged_in_milliseconds() -> None:
    row = a_row(goal=0.0, compile_ms=50.0)
    assert judge(result(row, {"anydml": 0.049})) == {"compile_ms": True}
    assert marks(result(row, {"anydml": 0.051})) == "m"
    assert marks(result(row, {}, error="RuntimeError: no")) == "m"


def test_a_goal_without_its_figure_is_not_judged() -> None:
    assert judge(result(a_row(share=0.9), {"anydml": 1e-3})) == {}


def test_the_table_has_a_cell_a_contestant_and_counts_goals() -> None:
    rows = a_run()["rows"]
    head, lines = table.header(rows[0], NAMES), [table.line(row, NAMES) for row in rows]
    assert head.split() == ["row", "ours", "torch", "t.compile", "copy", "vs", "peer", "of", "copy"]
    assert lines[0].split()[3:] == ["1.00", "ms", "2.00", "ms", "1.50", "ms", "0.95", "ms", "1.50", "0.95"]
    assert [line.split()[-1] for line in lines[1:]] == ["<c", "WRONG", "FAILED", "h"]
    assert "host 16.0 us" in lines[4]
    assert table.summary(rows) == (
        "goals met: 3 of 9; missed: 3 vs_best_peer (<), 2 share_of_copy (c), 1 host_us (h)\n"
        "WRONG: slice, made up\nFAILED: slice, made up"
    )


def test_only_a_chain_has_columns_of_its_single_pass() -> None:
    head, line = table.header(a_chain(), NAMES), table.line(a_chain(), NAMES)
    assert head.endswith("copy    single  vs peer  of copy vs single vs t.compile")
    assert line.split()[-10:] == ["1.65", "ms", "0.90", "ms", "1.00", "ms", "3.00", "0.82", "1.10", "1.50"]
    assert len(head) == len(line)
    plain = a_run()
    chained = figures.section({**plain, "rows": [*plain["rows"], a_chain()]})
    assert "| share of copy speed | over single pass | ahead of torch.compile | goals |" in chained
    assert "| slice, made up | 1.10 ms | PyTorch 3.30 ms | 3.00 | 0.82 | 1.10 | 1.50 | met |" in chained
    assert "| slice, made up | 1.00 ms | torch.compile 1.50 ms | 1.50 | 0.95 | - | - | met |" in chained
    assert "single" not in figures.section(plain)
    assert ">single<" in draw([a_chain()])


def test_a_narrow_chart_fits_a_phone() -> None:
    seconds = {"anydml": 1.0, "numpy": 4.0, "torch": 2.0, "onnxruntime": 3.0, "compile": 2.0, "copy": 0.5}
    row = {"name": "a name of more letters than a phone has room for, whatever its owner says", "seconds": seconds}
    drawn = draw([row], is_narrow=True)
    (width,) = map(int, re.findall(r'viewBox="0 0 (\d+)', drawn))
    assert width <= 340
    texts = re.findall(r'<text x="([\d.]+)"(?: text-anchor="end")? y="([\d.]+)"[^>]*>([^<]*)<', drawn)
    assert len({y for _, y, _ in texts}) >= 5  # the title, two lines of contestants, the scale, a name
    assert all(float(x) + len(text) * 6.2 <= width for x, _, text in texts if not text.endswith("x"))


def test_the_chart_leaves_out_a_row_that_failed() -> None:
    picture = draw(a_run()["rows"])
    assert picture.count(">slice, made up<") == 4
    assert ">torch.compile<" in picture
    assert ">CuPy<" not in picture


def test_the_log_gets_a_section_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, run = tmp_path / "figures.md", tmp_path / "run.json"
    log.write_text(figures.FILE.read_text())
    run.write_text(json.dumps(a_run()))
    monkeypatch.setattr(figures.append, "__defaults__", (log,))
    assert main(["--log", str(run)]) == 0
    text = log.read_text()
    assert text.startswith(figures.FILE.read_text().rstrip("\n"))
    section = text.removeprefix(figures.FILE.read_text().rstrip("\n")).strip()
    assert section.startswith("## 9.9, 2030-01-02, cuda engine, a card\n\nWith PyTorch 3.0.\n\n| row | ours |")
    assert "| slice, made up | 1.00 ms | torch.compile 1.50 ms | 1.50 | 0.95 | met |" in section
    assert "| misses vs best peer 3, share of copy 0.9 |" in section
    assert "| slice, made up | - | - | - | - | FAILED |" in section
    assert "goals met: 3 of 9" in section


def test_a_window_is_numpys_slice() -> None:
    x = np.arange(70).reshape(7, 10)
    for slices in [(slice(1, 6, 2), slice(None, None, -3)), (slice(None, None, -2), slice(2, 9))]:
        cut = Window.of(slices, x.shape)
        np.testing.assert_array_equal(dml.slice1(x, *cut), x[slices])
        np.testing.assert_array_equal(np.flip(x[cut.ahead], cut.backwards), x[slices])


def cpu_rows() -> list[CpuRow]:
    x = np.random.default_rng(0).random((6, 8), dtype=np.float32)
    return [
        slice_row("slice", x, (slice(None, None, -2), slice(1, 7, 3))),
        scan_row("running sum", x, 1, "decreasing", True),
        gather_row("gather", x, np.array([[2], [0], [5]])),
        slice_row("tiny", x, (slice(1, 3), slice(0, 4, 2)), family="tiny"),
    ]


def cpu_chains(side: int) -> list[CpuRow]:
    """Those of the whole benchmark, at another size."""
    rng = np.random.default_rng(0)
    return [chain_row(chain, rng, family="chain", vs_single=1.15) for chain in chains(side, side, 2 * side, "raise")]


@pytest.mark.parametrize("row", cpu_chains(32), ids=lambda row: row.name)
def test_a_chain_its_single_pass_and_its_peers_agree(row: CpuRow) -> None:
    found = measure(row, dml.Device("reference"), 1, 1, PEERS)
    assert {"anydml", "single", "numpy", "copy"} <= set(found["seconds"])
    assert found["vs_single"] > 0
    assert found["best_peer"] in ("numpy", "torch")


@pytest.mark.parametrize("row", cpu_chains(32), ids=lambda row: row.name)
def test_a_chain_whose_single_pass_is_another_ends_the_cpu_benchmark(row: CpuRow) -> None:
    assert row.chain is not None
    row.chain = replace(row.chain, steps=row.chain.steps[:-1])
    with pytest.raises((AssertionError, dml.DmlError)):
        measure(row, dml.Device("reference"), 1, 1, [])


def test_compiling_is_measured_alone_and_its_answer_checked() -> None:
    row = chain_row(twelve(), np.random.default_rng(0), family="compile", compile_ms=50.0)
    assert row.chain is not None
    assert len(row.chain.compile(dml.Device("reference")).desc.nodes) == 12
    found = measure(row, dml.Device("reference"), 1, 2, PEERS)
    assert set(found["seconds"]) == {"anydml"}
    assert found["compile_ms"] == found["seconds"]["anydml"] * 1e3
    row.numpy = lambda out: out.fill(7)
    with pytest.raises(AssertionError, match="12 nodes"):
        measure(row, dml.Device("reference"), 1, 1, ["numpy"])


def test_the_cpu_benchmark_has_the_chains() -> None:
    made = [make() for make in rows(True, growth=False, side=64)]
    assert [row.name for row in made if row.family == "chain"] == [row.name for row in cpu_chains(64)]
    assert {row.goals["vs_single"] for row in made if "chain" in row.name} == {1.15}
    assert [row.goals["compile_ms"] for row in made if row.family == "compile"] == [50.0]
    assert not [row.name for row in made if not any(row.goals.values())]


SMALL = (
    *products(np.random.default_rng(0), quick=True, side=24),
    *choosing(np.random.default_rng(0), quick=True, side=24),
    *windows(np.random.default_rng(0), quick=True, pixels=8),
)


@pytest.mark.parametrize("make", SMALL)
def test_a_product_is_checked_and_measured_against_arithmetic_or_reading(make: Callable[[], CpuRow]) -> None:
    row = make()
    found = measure(row, dml.Device("cpu"), 1, 1, PEERS)
    assert {"anydml", "peak" if row.flops else "copy"} <= set(found["seconds"])
    others = [name for name in ("torch", "onnxruntime") if importlib.util.find_spec(name)]
    assert (found["best_peer"] in PEERS) == (row.numpy is not None or bool(others))
    assert ("share_of_peak" in found) == bool(row.flops)


@pytest.mark.parametrize("row", cpu_rows(), ids=lambda row: row.name)
def test_a_cpu_row_is_checked_and_measured(row: CpuRow) -> None:
    found = measure(row, dml.Device("reference"), 1, 1, PEERS)
    assert {"anydml", "numpy"} <= set(found["seconds"])
    assert ("copy" in found["seconds"]) == (row.family != "tiny")
    assert json.loads(json.dumps(found))["name"] == row.name


def test_a_wrong_answer_ends_the_cpu_benchmark() -> None:
    row = cpu_rows()[0]
    row.numpy = lambda out: out.fill(7)
    with pytest.raises(AssertionError, match="slice: numpy"):
        measure(row, dml.Device("reference"), 1, 1, ["numpy"])


@pytest.mark.long
def test_the_command_writes_json_and_a_chart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, picture = tmp_path / "new" / "bench.json", tmp_path / "new" / "bench.svg"
    options = ["--engine", "reference", "--quick", "--no-growth", "--peers", "numpy", "--only", "tiny, slice"]
    assert main([*options, "--json", str(data), "--svg", str(picture)]) == 0
    run = json.loads(data.read_text())
    assert (run["engine"], run["version"]) == ("reference", dml.__version__)
    assert [row["name"] for row in run["rows"]] == ["tiny, slice of 4 x 4"]
    assert "<svg" in picture.read_text()
    assert capsys.readouterr().out.splitlines()[-1].startswith("goals met: ")


def test_the_command_heads_the_chains_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [a_run()["rows"][0], a_run()["rows"][1], a_chain(), a_chain(2e-3)]
    monkeypatch.setattr(command, "on_cpu", lambda _: ({"engine": "cpu"}, iter(found)))
    assert main(["--json", str(tmp_path / "x.json")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.startswith("row ") for line in lines[:6]] == [True, False, False, True, False, False]
    assert [" single" in line for line in lines[:6]] == [False, False, False, True, False, False]
    assert lines[5].endswith("<ts")
    assert json.loads((tmp_path / "x.json").read_text())["rows"][2]["vs_single"] == pytest.approx(1.1)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--peers", "numpy,cupy"], "there is no cupy here; there are numpy, torch, onnxruntime"),
        (["--engine", "cuda", "--peers", "numpy"], "there is no numpy here; there are torch, compile, cupy, jax"),
    ],
)
def test_an_unknown_peer_is_refused(options: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(options)
    assert text in capsys.readouterr().err


# Two trees


def compared(*ratios: float, **options: Any) -> Compared:
    """A row of so many rounds, this tree's a millisecond each."""
    return Compared("slice, made up", 2, [0.001 * ratio for ratio in ratios], [0.001] * len(ratios), **options)


@pytest.mark.parametrize(
    ("ratios", "has_lost", "seems_lost"),
    [
        ((0.95, 0.96, 0.95, 0.94, 0.95), True, True),
        ((0.70, 0.97, 1.20, 0.96, 1.10, 0.80, 0.90), False, True),  # within its spread
        ((0.985, 0.985, 0.985), False, False),
        ((1.5, 0.5, 1.0), False, False),
    ],
)
def test_a_row_has_lost_by_more_than_its_spread(ratios: tuple[float, ...], has_lost: bool, seems_lost: bool) -> None:
    row = compared(*ratios)
    assert (row.has_lost, row.seems_lost) == (has_lost, seems_lost)
    assert str(row).endswith("LOST") == has_lost


def test_a_summary_names_what_lost_and_what_failed() -> None:
    rows = [compared(2.0, 2.0), compared(0.5, 0.5), compared(failed="no such operator"), compared(1.0, 1.0)]
    assert against.summary(rows).splitlines() == [
        (
            "threads 2: 3 rows, the other tree's time over this one's 1.000 on the geometric mean, 0.500 at worst; "
            "1 lost more than 2% beyond its spread"
        ),
        "  LOST: slice, made up (0.500 +- 0.000)",
        "  FAILED: slice, made up",
    ]
    assert str(rows[2]).endswith("FAILED: no such operator")
    assert str(compared(1.0, 1.0, same_bits=False)).endswith("other bits")
    assert json.loads(against.written_rows(rows))[1]["ratio"] == 0.5


def asked(rows: Any, *requests: tuple[Any, ...]) -> list[Any]:
    """What a tree's process answers."""
    answers: list[Any] = []
    tree.serve(rows, map(json.dumps, requests), answers.append)
    return answers


def test_a_tree_finds_rows_in_any_order_and_goes_on_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tree.CpuRows("reference", quick=True, growth=False, only="")
    monkeypatch.setattr(tree.CpuRows, "__iter__", lambda _: iter(cpu_rows()))
    found = asked(made, ("next",), ("find", "tiny"), ("find", "running sum"), ("next",), ("find", "x"), ("next",))
    assert found == ["slice", True, True, "gather", False, None]


def test_a_tree_times_a_row_and_tells_the_bits_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tree.CpuRows("reference", quick=True, growth=False, only="")
    monkeypatch.setattr(tree.CpuRows, "__iter__", lambda _: iter(cpu_rows()))
    once = [("find", "slice"), ("prepare", 1), ("time", 3)]
    found = asked(made, *once, *once, ("find", "gather"), ("prepare", 1))
    assert found[1][0] > 0
    assert found[2] > 0
    assert found[4][1] == found[1][1] != found[7][1]


def test_a_tree_tells_its_errors_and_goes_on() -> None:
    models, path = tree.Models(), "there is no such file"
    found = asked(models, ("prepare", 1, path, path), ("next",))
    assert "no such file" in found[0]["error"]
    assert found[1] is None


def test_a_tree_without_the_row_or_with_an_error_ends_no_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    class Made:
        """A side that answers as it is told."""

        def __init__(self, *answers: object) -> None:
            self.answers = list(answers)

        def ask(self, *_: object) -> None:
            """Nothing is sent."""

        def answer(self) -> Any:
            found = self.answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return found

        def __call__(self, *_: object) -> Any:
            return self.answer()

    old, new = Made(False, True), Made("first", "second", None)
    both: Any = (old, new)
    assert list(against.operators(both, None)) == [("second", ())]
    assert "first" in capsys.readouterr().out
    broken, whole = Made(against.TreeError("an old tree: no")), Made([0.1, 7])
    both = (broken, whole)
    row = Compared("second", 1)
    against.measure(both, row, 3)
    assert row.failed == "an old tree: no"
    assert whole.answers == []  # its answer was taken: the next row begins anew


@pytest.mark.long
def test_networks_of_another_tree_are_timed_beside_this_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A copy of this tree: each process imports its own anydml, and both take the same files."""
    pytest.importorskip("torch", reason="networks are PyTorch's")
    pytest.importorskip("onnx", reason="networks are ONNX models")
    for name in ("src", "benchmarks"):
        shutil.copytree(HERE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(against, "AGAIN", 0)
    found = tmp_path / "rows.json"
    options = ["--small", "--only", "SqueezeNet", "--rounds", "2", "--threads", "1,2", "--json", str(found)]
    assert models.main(["--against", str(tmp_path), *options]) == 0
    rows = json.loads(found.read_text())
    made = [("SqueezeNet, 1", 1), ("SqueezeNet, 1", 2), ("SqueezeNet, 8", 1), ("SqueezeNet, 8", 2)]
    assert [(row["name"], row["threads"]) for row in rows] == made
    assert all(row["same_bits"] and len(row["old"]) == len(row["new"]) == 2 for row in rows)
    assert "threads 2: 2 rows" in capsys.readouterr().out


@pytest.mark.long
def test_decoders_are_timed_beside_onnx_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each contestant in a process of its own; what is not asked for, or not installed, has no row."""
    pytest.importorskip("onnxruntime", reason="the peer")
    pytest.importorskip("onnx", reason="folders are made with it")
    found = tmp_path / "rows.json"
    sizes = ["--prompt", "24", "--tokens", "3", "--rounds", "2", "--prefills", "1", "--threads", "1"]
    assert language.main(["--small", "--only", "level 4", "--peers", "ort", "--json", str(found), *sizes]) == 0
    (row,) = json.loads(found.read_text())
    who = ["anydml generator", "anydml session", "ONNX Runtime session"]
    assert sorted(row["decode"]) == sorted(row["prefill"]) == sorted(row["peak"]) == sorted(who)
    assert all(len(times) == 2 and min(times) > 0 for times in row["decode"].values())
    assert row["read"] > 1e8
    assert row["size"] > 0
    assert "ONNX Runtime session's time over ours: decode" in capsys.readouterr().out


def test_a_commit_becomes_a_folder_and_what_is_none_is_told() -> None:
    inside = subprocess.run(["git", "rev-parse", "HEAD"], cwd=HERE, capture_output=True, check=False)  # noqa: S607 - git of the path
    if inside.returncode == 0:
        with against.tree_of("HEAD") as folder:
            assert (folder / "src" / "anydml" / "__init__.py").is_file()
        assert not folder.exists()
    with pytest.raises(SystemExit, match="'no such tree' is no folder and no commit"), against.tree_of("no such tree"):
        pass


def test_several_numbers_of_threads_are_for_two_trees(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--threads", "1,2"])
    assert "several are for --against" in capsys.readouterr().err
