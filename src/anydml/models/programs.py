"""Dispatchables that are no operators: ONNX models, serialized graphs, and shaders, which are refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anydml.errors import DmlError, UnsupportedError
from anydml.models.findings import FILE, REMARK, UNSUPPORTED
from anydml.models.onnx_programs import OnnxProgram
from anydml.models.remarks import remark_unknown
from anydml.models.serialized import read_graph
from anydml.operators import OPERATORS
from anydml.parse import UINT32_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anydml.files import Files
    from anydml.models.findings import Findings
    from anydml.models.serialized import GraphProgram
    from anydml.models.source import Node

_OVERRIDES = "freeDimensionNameOverrides"
_RUNTIMES = ("sessionOptionsConfigEntries", "graphOptimizationLevel", "loggingLevel")
"""Options of ONNX Runtime's."""
PROGRAMS: dict[str, tuple[str, ...]] = {
    "onnx": ("sourcePath", _OVERRIDES, "freeDimensionDenotationOverrides", *_RUNTIMES),
    "dmlserializedgraph": ("sourcePath", "executionFlags", "bindings"),
    "hlsl": (),
}
"""The kinds, in lower case, and their fields."""


class ProgramReader:
    """Reads what is no operator."""

    def __init__(
        self, files: Files, findings: Findings, shapes: Mapping[str, tuple[int, ...]], max_memory: int
    ) -> None:
        self._files, self._findings, self._shapes, self._most = files, findings, shapes, max_memory

    def read(self, kind: str, where: Node, node: Node) -> OnnxProgram | GraphProgram | None:
        """A dispatchable of one of the kinds; None where it cannot be used."""
        if kind == "hlsl":
            rule = f"HLSL shaders are not run; {len(OPERATORS)} operators are, which `anydml support` lists"
            self._findings.add(UNSUPPORTED, where, rule, found="")
            return None
        remark_unknown(node, ("type", *PROGRAMS[kind]), self._findings)
        path = node.get("sourcePath")
        if path is None or not isinstance(path.raw, str):
            rule = "sourcePath must be a string"
            self._findings.add(FILE, path or node, rule, found="nothing" if path is None else None)
            return None
        try:
            found = self._files.find_source(path.raw)
            return read_graph(found, path.raw, self._files) if kind != "onnx" else self._onnx(found, path, node)
        except DmlError as error:
            for fault in error.faults:
                self._findings.put(UNSUPPORTED if isinstance(error, UnsupportedError) else FILE, path, fault)
            return None

    def _onnx(self, found: Path, path: Node, node: Node) -> OnnxProgram:
        for name in _RUNTIMES:
            if (option := node.get(name)) is not None:
                self._findings.add(REMARK, option, f"{name} is ONNX Runtime's, and has no effect here", found="")
        if (option := node.get("freeDimensionDenotationOverrides")) is not None:
            rule = "open sizes are bound by their names, and not by what they denote"
            self._findings.add(UNSUPPORTED, option, rule, found="", way_out=f"see {_OVERRIDES}")
        sizes: dict[str, int] = {}
        given = node.get(_OVERRIDES)
        if given is not None and not given.is_object:
            self._findings.add(FILE, given, f"{_OVERRIDES} must be an object")
        for name, child in given.members() if given is not None else ():
            if type(child.raw) is not int or not 0 <= child.raw <= UINT32_MAX:
                self._findings.add(FILE, child, f"a size must be a whole number in 0 .. {UINT32_MAX}")
            else:
                sizes[name] = child.raw
        sizes |= {name: shape[0] for name, shape in self._shapes.items() if len(shape) == 1}
        return OnnxProgram(found, path, sizes, self._shapes, self._most)
