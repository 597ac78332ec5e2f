"""The half of a model: what the page asks of it, and a page of one file."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from anydml.cli.onnx_inputs import INPUTS, MOST, SEED, SIZES, STRICT, Given, is_onnx
from anydml.cli.types import ENGINE, LEVEL, SIZE
from anydml.core.errors import DmlError, Fault, ModelError, show
from anydml.explain.layered import find_igraph
from anydml.explore.drawing import tell
from anydml.explore.jobs import Jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from anydml.explore.dispatch_work import DispatchWork
    from anydml.explore.onnx_work import OnnxWork

    Work: TypeAlias = DispatchWork | OnnxWork

_MOST_SECONDS = 20
"""That weights may take in a page of one file; those that are left have no figures there."""
_IN_A_FILE = ("check", "passes")
"""The work that a page of one file has done."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model that the page shows."""

    path: Path
    work: Work
    jobs: Jobs

    def overview(self) -> dict[str, Any]:
        """The model as a whole."""
        return {
            "name": tell(self.path.name),
            "kind": self.work.kind,
            "facts": self.work.facts,
            "jobs": list(self.work.jobs),
            "graphs": [{"title": tell(one.title), "around": one.around} for one in self.work.graphs],
        }

    def graph(self, asked: Any) -> dict[str, Any]:
        """A graph by its number, laid out."""
        number = asked.get("graph") if isinstance(asked, dict) else None
        if not isinstance(number, int) or not 0 <= number < len(self.work.graphs):
            raise ModelError("explore", Fault(field="graph", rule=f"there is no graph {show(number, 40)}"))
        return self.work.graphs[number].as_data()

    def weight(self, asked: Any) -> dict[str, Any]:
        """A weight's figures, by its name."""
        name = asked.get("name") if isinstance(asked, dict) else None
        if not isinstance(name, str):
            raise ModelError("explore", Fault(field="name", rule="a weight is asked for by its name"))
        return self.work.weight(name)

    def job(self, asked: Any) -> dict[str, Any]:
        """Begin work by its name, or ask how it stands."""
        return self.jobs.start(asked.get("name") if isinstance(asked, dict) else None)


def options() -> list[click.Option]:
    """The options of `anydml explore MODEL`, besides those of every page."""
    return [
        click.Option(["--shape", "sizes"], metavar="NAME=SIZES", multiple=True, help=SIZES),
        click.Option(["--input", "inputs"], metavar="[NAME=]FILE", multiple=True, help=INPUTS),
        click.Option(["--seed"], type=click.IntRange(0, 2**32 - 1), help=SEED),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        click.Option(["--strict"], is_flag=True, help=STRICT),
        click.Option(["--engine"], type=ENGINE, help="Instead of the best: see `anydml engines`."),
        click.Option(["--feature-level", "level"], type=LEVEL, help="The level that the model is checked for."),
    ]


def open_model(path: Path, given: dict[str, Any]) -> Opened:
    """Open a model; one that cannot be read is an error, as is a want of what lays graphs out."""
    find_igraph()
    level, engine = given.pop("level", None), given.pop("engine", None)
    known = Given(**given)
    work: Work
    if is_onnx(path):
        from anydml.explore.onnx_work import OnnxWork

        work = OnnxWork(path, known, engine, level)
    else:
        from anydml.explore.dispatch_work import DispatchWork

        work = DispatchWork(path, known, engine, level)
    return Opened(path, work, Jobs(work.jobs))


def answers(opened: Opened | None) -> dict[str, Callable[[Any], Any]]:
    """The questions that the page's half asks, by name: JSON in, JSON out."""
    if opened is None:
        return {"model": lambda _asked: None}
    return {
        "model": lambda _asked: opened.overview(),
        "graph": opened.graph,
        "weight": opened.weight,
        "job": opened.job,
    }


def standalone(opened: Opened) -> tuple[str, str, Sequence[str], Sequence[str], Any]:
    """The title, body, styles, scripts and data of a page in one file."""
    data = {
        **opened.overview(),
        "drawn": [one.as_data() for one in opened.work.graphs],
        "done": dict(_done(opened)),
        "weights": dict(_weights(opened)),
    }
    body = (
        '<main><section id="model" aria-label="Model"></section></main>\n<p id="said" class="unseen" role="status"></p>'
    )
    return opened.path.name, body, ["colours.css", "page.css", "model.css"], ["model_alone.js"], data


def _done(opened: Opened) -> Iterator[tuple[str, Any]]:
    for name in _IN_A_FILE:
        try:
            yield name, {"state": "done", "result": opened.jobs.result(name)}
        except DmlError as error:
            yield name, {"state": "failed", "says": str(error)}


def _weights(opened: Opened) -> Iterator[tuple[str, Any]]:
    end = time.monotonic() + _MOST_SECONDS
    names = {
        slot.tensor for graph in opened.work.graphs for node in graph.nodes for slot in node.inputs if slot.is_weight
    }
    for name in sorted(names):
        if time.monotonic() > end:
            return
        try:
            yield tell(name), opened.work.weight(name)
        except DmlError as error:
            yield tell(name), {"error": str(error)}
