"""A recording as a page: one file that a browser runs it from, weights inside or beside it."""

from __future__ import annotations

import base64
import html
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anydml.engines.webgpu.recording import Copy, Dispatched, Write

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anydml.core.enums import DataType
    from anydml.engines.webgpu.recording import Place, Recording

_FOLDER = Path(__file__).parent


def runner() -> str:
    """The script that carries a recording out in a browser."""
    return (_FOLDER / "runner.js").read_text("utf-8")


class Port(NamedTuple):
    """An input or an output of a run."""

    name: str
    data_type: DataType
    sizes: tuple[int, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a page, and its weights."""

    recording: dict[str, Any]
    weights: bytes
    title: str

    def html(self, beside: str = "") -> str:
        """The page; with a name in `beside` it loads the weights from there, and has none inside."""
        text = (_FOLDER / "page.html").read_text("utf-8")
        inside = "" if beside else base64.b64encode(self.weights).decode()
        # In JSON a < may be written so: what is in a script must not end it.
        parts = {
            "TITLE": html.escape(self.title),
            "RUNNER": runner(),
            "RECORDING": json.dumps(self.recording, separators=(",", ":")).replace("<", "\\u003c"),
            "WEIGHTS": inside,
            "BESIDE": json.dumps(beside)[1:-1].replace("<", "\\u003c"),
        }
        pieces = text.split("{")
        found = [pieces[0]]
        for piece in pieces[1:]:
            name, brace, rest = piece.partition("}")
            found.append(parts[name] + rest if brace and name in parts else "{" + piece)
        return "".join(found)


def page_of(recording: Recording, inputs: Sequence[Port], outputs: Sequence[Port], title: str) -> Page:
    """The page of a recording."""
    kernels: dict[tuple[str, int], int] = {}
    weights = bytearray()

    def told(step: Write | Copy | Dispatched) -> dict[str, Any]:
        if isinstance(step, Dispatched):
            kernel = kernels.setdefault((step.text, len(step.bindings)), len(kernels))
            numbers = [number & 0xFFFFFFFF for number in step.numbers]
            return {"kernel": kernel, "bindings": step.bindings, "numbers": numbers, "groups": step.groups}
        if isinstance(step, Copy):
            size = -(-step.source.size // 4) * 4
            return {"copy": (step.source.buffer, step.source.offset, size), "to": step.target}
        at = len(weights)
        weights.extend(step.data)
        return {"write": step.place, "at": at, "size": len(step.data)}

    whole = {
        "sizes": recording.sizes,
        "setup": [told(step) for step in recording.setup],
        "steps": [told(step) for step in recording.steps],
        "inputs": [_port(port) for port in inputs],
        "outputs": [_port(port) for port in outputs],
    }
    whole["kernels"] = [{"text": text, "bindings": bindings} for text, bindings in kernels]
    return Page(whole, bytes(weights), title)


def _port(port: Port) -> dict[str, Any]:
    return {"name": port.name, "type": port.data_type.name, "sizes": port.sizes, "place": port.place}
