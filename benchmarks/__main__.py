"""Measures an engine against its peers, after checking that their answers agree; or against another tree's."""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anydml as dml
from anydml.cli.progress import working
from benchmarks import against, figures, table
from benchmarks.chart import draw
from benchmarks.results import DeviceLostError, Result, trouble

PEERS = {"cpu": ("numpy", "torch", "onnxruntime"), "cuda": ("torch", "compile", "cupy", "jax")}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--engine", default="cpu", help="the engine to measure: cpu, reference or cuda (cpu)")
    against.add_options(parser, "cpu: threads for every contestant that can thread (2)")
    parser.add_argument("--quick", action="store_true", help="smaller arrays, fewer rounds, on cuda fewer rows")
    parser.add_argument("--only", default="", help="rows whose name has this in it")
    parser.add_argument("--no-growth", action="store_true", help="without the rows of growing size")
    parser.add_argument("--peers", help="these peers, with commas: numpy,torch,onnxruntime; on cuda torch,compile,cupy,jax (all; in a quick run on cuda torch,cupy)")  # fmt: skip
    parser.add_argument("--seconds", type=float, help="cuda: rows that have not begun after so long are left out")
    parser.add_argument("--json", type=Path, help="write the rows here, after each one anew")
    parser.add_argument("--svg", type=Path, help="draw a chart here")
    parser.add_argument("--log", type=Path, metavar="JSON", help=f"append the rows of an earlier --json to {figures.FILE.name}; nothing is run")  # fmt: skip
    options = parser.parse_args(arguments)
    if options.log:
        figures.append(json.loads(options.log.read_text()))
        return 0
    kind = "cuda" if options.engine.startswith("cuda") else "cpu"
    if options.against:
        given = {
            "engine": options.engine,
            "quick": options.quick,
            "growth": not options.no_growth,
            "only": options.only,
        }
        against.compare(against.operators, kind, given, options)
        return 0
    options.threads = against.only_one(parser, options)
    default = ("torch", "cupy") if kind == "cuda" and options.quick else PEERS[kind]
    options.peers = tuple(options.peers.split(",")) if options.peers else default
    if unknown := set(options.peers) - set(PEERS[kind]):
        parser.error(f"--peers: there is no {', '.join(sorted(unknown))} here; there are {', '.join(PEERS[kind])}")
    about, found = on_cuda(options) if kind == "cuda" else on_cpu(options)
    for file in filter(None, (options.json, options.svg)):
        file.parent.mkdir(parents=True, exist_ok=True)
    shown = ("anydml", *options.peers, "copy")
    results: list[Result] = []
    lost = False
    head = ""
    try:
        while (result := take(found, len(results) + 1)) is not None:
            results.append(result)
            if (columns := table.header(result, shown)) != head:
                print(head := columns)
            print(table.line(result, shown), flush=True)
            if options.json:
                options.json.write_text(json.dumps({**about, "rows": results}, indent=1))
    except dml.MissingDependencyError as error:
        sys.exit(str(error))
    except DeviceLostError as error:
        lost = True
        print(error, file=sys.stderr)
    if options.only and not results and not lost:
        parser.error(f"--only: no row has {options.only!r} in its name")
    print(table.summary(results))
    if options.svg:
        options.svg.write_text(draw(results))
    return int(lost or any(map(trouble, results)))


def take(found: Iterator[Result], number: int) -> Result | None:
    """The next row; a terminal shows that it is measured, since one may take half a minute."""
    with working(f"Measuring row {number}"):
        return next(found, None)


def on_cpu(options: argparse.Namespace) -> tuple[dict[str, Any], Iterator[Result]]:
    from benchmarks.cpu.measure import run

    found = run(options.engine, options.threads, options.quick, not options.no_growth, options.only, options.peers)
    return about(options.engine, threads=options.threads), found


def on_cuda(options: argparse.Namespace) -> tuple[dict[str, Any], Iterator[Result]]:
    if importlib.util.find_spec("torch") is None:
        sys.exit("the benchmark of the cuda engine needs PyTorch: pip install torch")
    import torch

    from benchmarks.cuda.run import machine, run

    if not torch.cuda.is_available():
        sys.exit("the benchmark of the cuda engine needs a GPU that PyTorch sees, and it sees none")
    torch.cuda.set_device(torch.device(options.engine).index or 0)
    found = run(options.engine, options.quick, not options.no_growth, options.only, options.peers, options.seconds)
    return about(options.engine, **machine()), found


def about(engine: str, **more: Any) -> dict[str, Any]:
    """What the figures are of."""
    return {
        "engine": engine,
        "version": dml.__version__,
        "date": str(datetime.datetime.now(datetime.UTC).date()),
        **more,
    }


if __name__ == "__main__":
    sys.exit(main())
