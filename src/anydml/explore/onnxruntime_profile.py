"""A profile that ONNX Runtime wrote (`enable_profiling`), by the nodes of the model that it ran."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anydml.core.errors import Fault, ModelError, show
from anydml.core.memory import word_bytes
from anydml.explore.drawing import tell
from anydml.explore.statistics import word_milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anydml.explore.drawing import ModelGraph

_MOST_BYTES = 256 << 20
_KERNEL = "_kernel_time"
_ADDED = re.compile(r"(_nchwc|_nhwc|_token_\d+|_quant|_fp16)$")
"""What ONNX Runtime puts after the name of a node's output as it makes another node of it."""
_MOST_FUSED = 8
"""Nodes that are looked back at for one of the type that a fused node has."""


@dataclass(slots=True)
class _Kernel:
    """The events of one node of ONNX Runtime's."""

    kind: str
    provider: str
    microseconds: float = 0.0
    calls: int = 0
    nodes: list[str] = field(default_factory=list)


def read_profile(path: Path, graphs: Sequence[ModelGraph]) -> dict[str, Any]:
    """The times of a profile, laid over a model: as a job of the page gives them."""
    events = _events(path)
    runs = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"] == "model_run" and e["cat"] == "Session")
    after = runs[0][1] if len(runs) > 1 else 0.0  # the first run allocates, and is left out where there are others
    kernels: dict[str, _Kernel] = {}
    for event in events:
        args = event["args"]
        if event["cat"] != "Node" or not event["name"].endswith(_KERNEL) or event["ts"] < after:
            continue
        kind, provider = (str(args.get(key, "")) for key in ("op_name", "provider"))
        one = kernels.setdefault(f"{event['name']}\n{args.get('node_index')}", _Kernel(kind, provider))
        one.microseconds += event["dur"]
        one.calls += 1
    if not kernels:
        raise _refused(path, "it has no times of nodes; ONNX Runtime writes it with SessionOptions.enable_profiling")
    counted = len(runs) - 1 if len(runs) > 1 else len(runs) or max(one.calls for one in kernels.values())
    find = _Finder(graphs)
    for key, one in kernels.items():
        one.nodes = find(key.partition("\n")[0].removesuffix(_KERNEL), one.kind)
    whole = sum(one.microseconds for one in kernels.values()) / counted / 1000
    own = sum(one.microseconds for one in kernels.values() if one.nodes) / counted / 1000
    providers = ", ".join(sorted({one.provider.removesuffix("ExecutionProvider") for one in kernels.values()}))
    says = f"{word_milliseconds(whole)} a run in nodes on {tell(providers, 80)}, the mean of {counted}"
    if own < whole:
        says += f"; {100 * own / whole:.3g} % in nodes that the model has, the rest in those that ONNX Runtime added"
    if not own:
        raise _refused(path, "none of its nodes is in this model: is it the profile of another?")
    passes = [
        {
            "nodes": one.nodes,
            "ms": one.microseconds / counted / 1000,
            "calls": max(1, round(one.calls / counted)),
            "where": tell(one.provider, 60),
            "does": tell(f"{one.kind} {key.partition(chr(10))[0].removesuffix(_KERNEL)}"),
        }
        for key, one in kernels.items()
    ]
    return {"passes": passes, "ms": whole, "says": says}


class _Finder:
    """The nodes of a model that one of ONNX Runtime's stands for."""

    def __init__(self, graphs: Sequence[ModelGraph]) -> None:
        self._graphs = graphs
        self._named: dict[str, tuple[int, int]] = {}
        self._made: dict[str, tuple[int, int]] = {}
        for number, graph in enumerate(graphs):
            for k, node in enumerate(graph.nodes):
                if node.end:
                    continue
                self._named.setdefault(node.name, (number, k))
                for slot in node.outputs:
                    self._made.setdefault(slot.tensor, (number, k))

    def __call__(self, name: str, kind: str) -> list[str]:
        """By its name, or by the output that it is called by: that and what is fused into it, back to its type."""
        while name:
            if name in self._named:
                number, k = self._named[name]
                return [f"{number}.{k}"]
            if name in self._made:
                return list(self._fused(*self._made[name], kind))
            bare = _ADDED.sub("", name)
            if bare == name:
                return []
            name = bare
        return []

    def _fused(self, number: int, k: int, kind: str) -> Iterator[str]:
        nodes, chain = self._graphs[number].nodes, [k]
        while nodes[chain[-1]].kind.rpartition(".")[2] != kind and len(chain) < _MOST_FUSED:
            feeders = [self._made.get(slot.tensor) for slot in nodes[chain[-1]].inputs if not slot.is_weight]
            own = [found[1] for found in feeders if found is not None and found[0] == number]
            if len(own) != 1:
                break
            chain.append(own[0])
        is_found = nodes[chain[-1]].kind.rpartition(".")[2] == kind
        yield from (f"{number}.{one}" for one in (reversed(chain) if is_found else chain[:1]))


def _events(path: Path) -> list[dict[str, Any]]:
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise _refused(path, f"it has {word_bytes(size)}, and a profile may have {word_bytes(_MOST_BYTES)}")
    text = path.read_text("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:  # a session that was not ended leaves the list open
            found = json.loads(f"{text.rstrip(',')}]")
        except (ValueError, RecursionError):
            raise _refused(path, "it is no JSON") from None
    if not isinstance(found, list) or not all(map(_is_event, found)):
        raise _refused(path, "it is no profile of ONNX Runtime's, which is a list of events")
    return [{"cat": "", **event, "args": event.get("args") or {}} for event in found]


def _is_event(event: Mapping[str, Any]) -> bool:
    if not isinstance(event, dict) or not isinstance(event.get("args") or {}, dict):
        return False
    numbers = [event.get("ts"), event.get("dur")]
    return isinstance(event.get("name"), str) and all(isinstance(n, (int, float)) and 0 <= n < 1e18 for n in numbers)


def _refused(path: Path, rule: str) -> ModelError:
    return ModelError(show(path.name, 80), Fault(field="profile", rule=rule))
