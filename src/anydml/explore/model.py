"""The half of a model: what the page asks of it, and a page of one file."""

from __future__ import annotations

import functools
import itertools
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from anydml.cli.onnx_inputs import INPUTS, MOST, SEED, SIZES, STRICT, Given, is_onnx
from anydml.cli.types import ENGINE, LEVEL, SIZE
from anydml.core.errors import DmlError, Fault, ModelError, show
from anydml.explain.layered import find_igraph
from anydml.explore import categories
from anydml.explore.differences import compare_graphs
from anydml.explore.drawing import tell
from anydml.explore.form import contents_of, link
from anydml.explore.jobs import Jobs
from anydml.explore.onnxruntime_profile import read_profile
from anydml.explore.uploads import Uploads, find_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from anydml.arrays.tensor import TensorDesc
    from anydml.explore.dispatch_work import DispatchWork
    from anydml.explore.drawing import ModelGraph
    from anydml.explore.onnx_work import OnnxWork
    from anydml.operators import OperatorDesc

    Work: TypeAlias = DispatchWork | OnnxWork

_SIDES = ("a", "b")
"""The model of the page, and the one beside it."""
_MOST_SIZES = 200
_MOST_SECONDS = 20
"""That weights may take in a page of one file; those that are left have no figures there."""
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
PROFILE = "A profile that ONNX Runtime wrote of the model (SessionOptions.enable_profiling), to lay over its graph."
_IN_A_FILE = ("check", "passes")
"""The work that a page of one file has done."""


@dataclass(slots=True)
class Opened:
    """A model that the page shows."""

    path: Path
    work: Work
    jobs: Jobs
    options: dict[str, Any]
    """Of the command line."""
    profile: Path | None = None
    """One that ONNX Runtime wrote."""
    number: int = field(default_factory=itertools.count().__next__)
    """By which a page sees that another was opened."""

    def overview(self) -> dict[str, Any]:
        """The model as a whole."""
        return {
            "number": self.number,
            "name": tell(self.path.name),
            "kind": self.work.kind,
            "facts": self.work.facts,
            "sizes": self.work.sizes(),
            "categories": categories.ORDER,
            "jobs": self.jobs.names(),
            "graphs": [{"title": tell(one.title), "around": one.around} for one in self.work.graphs],
        }

    def graph(self, asked: Any) -> dict[str, Any]:
        """A graph by its number, laid out."""
        return self._graph(asked).as_data()

    def scene(self, asked: Any) -> dict[str, Any]:
        """A graph with the groups open that are asked for."""
        opened = asked.get("open") if isinstance(asked, dict) else None
        if not isinstance(opened, list) or not all(isinstance(one, int) for one in opened):
            raise _refused("open", "groups are opened by their numbers")
        return self._graph(asked).drawn(opened)

    def _graph(self, asked: Any) -> ModelGraph:
        number = asked.get("graph") if isinstance(asked, dict) else None
        if not isinstance(number, int) or not 0 <= number < len(self.work.graphs):
            raise _refused("graph", f"there is no graph {show(number, 40)}")
        return self.work.graphs[number]

    def weight(self, asked: Any) -> dict[str, Any]:
        """A weight's figures, by its name."""
        name = asked.get("name") if isinstance(asked, dict) else None
        if not isinstance(name, str):
            raise _refused("name", "a weight is asked for by its name")
        return self.work.weight(name)

    def job(self, asked: Any) -> dict[str, Any]:
        """Begin work by its name, or ask how it stands."""
        return self.jobs.start(asked.get("name") if isinstance(asked, dict) else None)

    def stop(self, asked: Any) -> dict[str, Any]:
        """Stop work by its name."""
        return self.jobs.stop(asked.get("name") if isinstance(asked, dict) else None)

    def operators(self, asked: Any) -> list[dict[str, Any]]:
        """The operators that a node becomes: their names, sizes and types, and links to forms of them."""
        place = asked.get("place") if isinstance(asked, dict) else None
        found = self.work.descs(place) if isinstance(place, str) else ()
        return [
            {
                "name": desc.type.name,
                "says": ", ".join(f"{name} {_tensor(tensor)}" for name, tensor in desc.tensors().items()),
                "link": link(type(desc), contents_of(desc)),
            }
            for desc in found
        ]

    def show_profile(self, path: Path) -> None:
        """Lay a profile that ONNX Runtime wrote over the model; one that does not fit is refused."""
        read_profile(path, self.work.graphs)
        self.profile = path
        self.jobs.put("trace", lambda _say: read_profile(path, self.work.graphs))


def _tensor(tensor: TensorDesc) -> str:
    sizes, strides = (",".join(map(str, each)) for each in (tensor.sizes, tensor.strides or ()))
    return f"{tensor.data_type.name.lower()}[{sizes}]" + (f" of strides [{strides}]" if strides else "")


def _refused(field: str, rule: str) -> ModelError:
    return ModelError("explore", Fault(field=field, rule=rule))


class Workspace:
    """The models that a page shows, and what may be asked of them: one, or two side by side."""

    def __init__(self, opened: Sequence[Opened] = (), options: dict[str, Any] | None = None) -> None:
        self.uploads = Uploads()
        self._options = dict(options or {})
        self._models: dict[str, Opened] = dict(zip(_SIDES, opened, strict=False))

    def answers(self) -> dict[str, Callable[[Any], Any]]:
        """The questions that the page's half asks, by name: JSON in, JSON out."""
        asks: dict[str, Callable[[Opened, Any], Any]] = {
            "graph": Opened.graph,
            "scene": Opened.scene,
            "weight": Opened.weight,
            "job": self._job,
            "stop": Opened.stop,
            "node": Opened.operators,
            "sizes": self._resize,
            "profile": self._profile,
        }
        return {name: functools.partial(self._ask, ask) for name, ask in asks.items()} | {
            "model": lambda asked: None if (one := self._models.get(_side(asked))) is None else one.overview(),
            "open": self._open,
            "close": self._close,
            "differences": lambda _asked: self._differences(),
        }

    def desc_of(self, given: str) -> OperatorDesc | None:
        """An operator of a node, as a link says it: the model's side, the node's place, the operator's number."""
        side, _, rest = given.partition("/")
        place, _, number = rest.partition("/")
        opened = self._models.get(side)
        descs = [] if opened is None else list(opened.work.descs(place))
        return descs[int(number)] if number.isdecimal() and len(number) < 5 and int(number) < len(descs) else None

    def _ask(self, ask: Callable[[Opened, Any], Any], asked: Any) -> Any:
        return ask(self._model(asked), asked)

    def _job(self, opened: Opened, asked: Any) -> dict[str, Any]:
        found = opened.job(asked)
        return found | {"says": self.uploads.told(found["says"])} if "says" in found else found

    def _model(self, asked: Any) -> Opened:
        found = self._models.get(_side(asked))
        if found is None:
            raise _refused("model", "no such model is open")
        return found

    def _open(self, asked: Any) -> dict[str, Any]:
        side, given = _side(asked), asked if isinstance(asked, dict) else {}
        if side not in _SIDES:
            raise _refused("model", f"a page has the models {' and '.join(_SIDES)}")
        self._put(side, open_model(find_model(self.uploads.take(given.get("batch"))), dict(self._options)))
        return self._models[side].overview()

    def _resize(self, opened: Opened, asked: Any) -> dict[str, Any]:
        sizes, values = (_texts(key, asked.get(key, [])) for key in ("sizes", "values"))
        for text in values:
            if not _is_literal(text.partition("=")[2]):  # a page reads no files
                raise _refused("values", f"a value is a number or a list such as [1,2]; got {show(text, 60)}")
        names = {text.partition("=")[0] for text in values}
        kept = [text for text in opened.options.get("inputs", ()) if text.partition("=")[0] not in names]
        options = {**opened.options, "sizes": sizes, "inputs": (*kept, *values)}
        Given(sizes=sizes).shapes()  # which says what is wrong with them
        other = open_model(opened.path, options)
        if opened.profile is not None:
            other.show_profile(opened.profile)
        self._models[_side(asked)] = other
        return other.overview()

    def _profile(self, opened: Opened, asked: Any) -> dict[str, Any]:
        files = self.uploads.take(asked.get("batch"))
        if len(files) != 1:
            raise _refused("profile", "a profile is one file")
        opened.show_profile(files[0])
        return opened.overview()

    def _put(self, side: str, opened: Opened | None) -> None:
        before = self._models.pop(side, None)
        if opened is not None:
            self._models[side] = opened
        if before is not None:
            self.uploads.forget(before.path)

    def _close(self, asked: Any) -> None:
        self._put(_side(asked), None)

    def _differences(self) -> dict[str, Any]:
        if len(self._models) < len(_SIDES):
            raise _refused("model", "two models have to be open")
        a, b = (self._models[side] for side in _SIDES)
        return compare_graphs(a.work.graphs[0], b.work.graphs[0], a.work.digest, b.work.digest)


def _texts(field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or len(given) > _MOST_SIZES or not all(isinstance(one, str) for one in given):
        raise _refused(field, f"{field} are given as on the command line: name=2")
    return tuple(given)


def _is_literal(text: str) -> bool:
    try:
        return isinstance(json.loads(text), (int, float, list))
    except (ValueError, RecursionError):
        return False


def _side(asked: Any) -> str:
    side = asked.get("model", _SIDES[0]) if isinstance(asked, dict) else _SIDES[0]
    return side if isinstance(side, str) else ""


def options() -> list[click.Option]:
    """The options of `anydml explore MODEL`, besides those of every page."""
    return [
        click.Option(["--shape", "sizes"], metavar="NAME=SIZES", multiple=True, help=SIZES),
        click.Option(["--input", "inputs"], metavar="[NAME=]FILE", multiple=True, help=INPUTS),
        click.Option(["--ort-profile", "profile"], type=FILE, help=PROFILE),
        click.Option(["--seed"], type=click.IntRange(0, 2**32 - 1), help=SEED),
        click.Option(["--max-memory"], type=SIZE, help=MOST),
        click.Option(["--strict"], is_flag=True, help=STRICT),
        click.Option(["--engine"], type=ENGINE, help="Instead of the best: see `anydml engines`."),
        click.Option(["--feature-level", "level"], type=LEVEL, help="The level that the model is checked for."),
    ]


def open_model(path: Path, given: dict[str, Any]) -> Opened:
    """Open a model; one that cannot be read is an error, as is a want of what lays graphs out."""
    find_igraph()
    options, given = dict(given), dict(given)
    level, engine, profile = (given.pop(name, None) for name in ("level", "engine", "profile"))
    known = Given(**given)
    work: Work
    if is_onnx(path):
        from anydml.explore.onnx_work import OnnxWork

        work = OnnxWork(path, known, engine, level)
    else:
        from anydml.explore.dispatch_work import DispatchWork

        work = DispatchWork(path, known, engine, level)
    found = Opened(path, work, Jobs(work.jobs), options)
    if profile is not None:
        found.show_profile(profile)
    return found


def standalone(opened: Opened) -> tuple[str, str, Sequence[str], Sequence[str], Any]:
    """The title, body, styles, scripts and data of a page in one file."""
    data = {
        **opened.overview(),
        "drawn": [one.as_data(is_alone=True) for one in opened.work.graphs],
        "done": dict(_done(opened)),
        "weights": dict(_weights(opened)),
    }
    body = (
        '<main><section id="model" aria-label="Model"></section></main>\n<p id="said" class="unseen" role="status"></p>'
    )
    return opened.path.name, body, ["colours.css", "page.css", "model.css"], ["model_alone.js"], data


def _done(opened: Opened) -> Iterator[tuple[str, Any]]:
    for name in (*_IN_A_FILE, "trace"):
        if name not in opened.jobs.names():
            continue
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
