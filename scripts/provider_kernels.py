"""Derive `src/anydml/onnx/tools/provider_kernels.json` from a checkout of ONNX Runtime: which nodes its providers take.

    python -m scripts.provider_kernels CHECKOUT v1.29.0

Of that version it reads OperatorKernels.md of its documents (CUDA, DirectML: node types, opsets, data types),
js/web/docs/webgpu-operators.md (WebGPU: node types and opsets; data types are not published), and in the registrations
of kernels which inputs and outputs lie in the CPU's memory.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "src/anydml/onnx/tools/provider_kernels.json"
_SECTIONS = {"CUDAExecutionProvider": "cuda", "DmlExecutionProvider": "dml"}
_DOCUMENTS = "docs"
_KERNELS = f"{_DOCUMENTS}/OperatorKernels.md"
_WEBGPU = f"js/web/{_DOCUMENTS}/webgpu-operators.md"
_DML = "onnxruntime/core/providers/dml/DmlExecutionProvider/src/Operators/OperatorRegistration.cpp"
_SOURCES = {
    name: [f"onnxruntime/{part}/{name}" for part in ("core/providers", "contrib_ops")] for name in ("cuda", "webgpu")
}
_DOMAINS = {"kOnnxDomain": "", "kMSDomain": "com.microsoft", "kMSInternalNHWCDomain": "com.ms.internal.nhwc"}
_CPU_SHAPES = ("Shape", "Size")
"""Of DirectML's kernels, those whose output lies in the CPU's memory; no table of its registrations says so."""
_TYPES = {"float": "float32", "double": "float64"}

Table = dict[str, dict[str, dict[str, Any]]]
"""By provider, node type and opsets: the types, and the inputs and outputs in the CPU's memory."""


class _Checkout:
    def __init__(self, folder: str, version: str) -> None:
        self._folder, self._version = folder, version

    def git(self, *words: str) -> str:
        command = ["git", "-C", self._folder, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own

    def read(self, path: str) -> str:
        return self.git("show", f"{self._version}:{path}")

    def sources(self, folders: list[str]) -> list[str]:
        listed = self.git("ls-tree", "-r", "--name-only", self._version, *folders).split()
        return [self.read(path) for path in listed if path.endswith((".cc", ".cpp"))]


def documented(text: str) -> tuple[Table, dict[str, list[list[str]]]]:
    """The tables of OperatorKernels.md; of node types that are not ONNX's own the type variables of their slots too."""
    found: Table = defaultdict(dict)
    slots: dict[str, list[list[str]]] = {}
    provider, domain, kind = "", "", ""
    for line in text.splitlines():
        if heading := re.match(r"## Operators implemented by (\w+)", line):
            provider = _SECTIONS.get(heading[1], "")
        elif told := re.match(r"\|\*\*Operator Domain:\*\* \*([\w.]+)\*", line):
            domain = "" if told[1] == "ai.onnx" else told[1]
        elif provider and line.startswith("|") and len(cells := line[1:-1].split("|")) == 4:
            name, parameters, opsets, types = cells
            if not re.fullmatch(r"\d+\+?|\[\d+, \d+\]", opsets):
                continue
            kind = _named(domain, name) if name else kind
            if name and domain:
                slots[kind] = _slots(parameters)
            found[provider].setdefault(kind, {})[_opsets(opsets)] = {"types": _types(types)}
    return found, slots


def _slots(parameters: str) -> list[list[str]]:
    """The type variables of inputs and of outputs, of the first of several forms."""
    form = parameters.partition("<br><br>or<br><br>")[0]
    return [re.findall(rf"\*{side}\* [^:]+:\*\*([^*]+)\*\*", form) for side in ("in", "out")]


def _named(domain: str, name: str) -> str:
    return f"{domain}.{name}" if domain else name


def _opsets(text: str) -> str:
    """`13+`, or the first and the last: `7-12`."""
    numbers = re.findall(r"\d+", text)
    return f"{numbers[0]}+" if text.endswith("+") else f"{numbers[0]}-{numbers[-1]}"


def _types(text: str) -> dict[str, list[str]]:
    """By type variable, the names of element types; sequences and optionals by their own."""
    found = {}
    for part in text.split("<br/>"):
        name, _, listed = part.partition("=")
        found[name.strip(" *")] = sorted(_type(one.strip()) for one in listed.split(","))
    return found


def _type(text: str) -> str:
    inner = text.removeprefix("tensor(").removesuffix(")") if text.startswith("tensor(") else text
    return _TYPES.get(inner, inner)


def webgpu(text: str) -> dict[str, dict[str, Any]]:
    """The table of webgpu-operators.md, which has no types."""
    found: dict[str, dict[str, Any]] = {}
    for kind, opsets in re.findall(r"^\| (\w+) \| (.*?) \|", text, re.MULTILINE):
        for domain, several in re.findall(r"([\w.]+)\(([^)]*)\)", opsets):
            named = (one if one.endswith("+") or "-" in one else f"{one}-{one}" for one in several.split(","))
            rows: dict[str, Any] = {opsets: {} for opsets in named}
            found.setdefault(_named("" if domain == "ai.onnx" else domain, kind), {}).update(rows)
    return found


_KERNEL = re.compile(r"ONNX_OPERATOR_(VERSIONED_)?(TWO_)?(TYPED_)?KERNEL_EX\(")
_PLACE = re.compile(r"(Input|Output)MemoryType\(OrtMemTypeCPU(?:Input|Output)?, (\d+)\)")


def registered(texts: list[str]) -> dict[tuple[str, str], dict[str, list[int]]]:
    """By node type and opsets, inputs and outputs in the CPU's memory, as kernels are registered."""
    found = {}
    for text in texts:
        for match in _KERNEL.finditer(text):
            words = _arguments(text, match.end())
            kind, domain, first = words[0], _DOMAINS.get(words[1]), words[2]
            if domain is None or not first.isdigit():
                continue
            opsets = f"{first}-{words[3]}" if match[1] else f"{first}+"
            if places := _PLACE.findall(",".join(words)):
                found[_named(domain, kind), opsets] = _placed(places)
    return found


def _arguments(text: str, start: int) -> list[str]:
    """What stands in parentheses, cut at the commas that lie in no others."""
    depth, words, word = 1, [], ""
    for letter in text[start:]:
        depth += (letter == "(") - (letter == ")")
        if not depth:
            break
        if letter == "," and depth == 1:
            words.append(word.strip())
            word = ""
        else:
            word += letter
    return [*words, word.strip()]


def _placed(places: list[tuple[str, str]]) -> dict[str, list[int]]:
    named = {"Input": "cpu_in", "Output": "cpu_out"}
    return {key: sorted({int(k) for what, k in places if what == side}) for side, key in named.items()}


def directml(text: str) -> dict[tuple[str, str], dict[str, list[int]]]:
    """The constant inputs that DirectML's kernels read on the CPU."""
    found: dict[tuple[str, str], dict[str, list[int]]] = {}
    rows: list[tuple[str, str, str, str]] = re.findall(r"\{REG_INFO(\w*)\(\s*(\d+),\s*(\w+),(.*)", text)
    for suffix, version, kind, rest in rows:
        domain = "com.microsoft" if suffix.startswith("_MS") and suffix != "_MSDML" else ""
        read = re.search(r"requiredConstantCpuInputs\(([\d, ]*)\)", rest)
        inputs = [int(one) for one in re.findall(r"\d+", read[1])] if read else []
        outputs = [0] if kind in _CPU_SHAPES else []
        if inputs or outputs:
            found[_named(domain, kind), f"{version}+"] = {"cpu_in": inputs, "cpu_out": outputs}
    return found


def by_row(
    registered: dict[tuple[str, str], dict[str, list[int]]], rows: dict[str, dict[str, Any]]
) -> dict[tuple[str, str], dict[str, list[int]]]:
    """The same by the documented rows, which have the node type's own opset: 5 for a Reshape of opset 7."""
    found = {}
    for (kind, opsets), places in registered.items():
        firsts = [int(row.rstrip("+")) for row in rows.get(kind, {}) if int(row.rstrip("+")) <= int(opsets.rstrip("+"))]
        if firsts:
            found[kind, f"{max(firsts)}+"] = places
    return found


def derive(folder: str, version: str) -> dict[str, Any]:
    """All of it, as it is kept."""
    checkout = _Checkout(folder, version)
    table, slots = documented(checkout.read(_KERNELS))
    table["webgpu"] = webgpu(checkout.read(_WEBGPU))
    placed = {name: registered(checkout.sources(folders)) for name, folders in _SOURCES.items()}
    near = {kind: places for name in ("cuda", "webgpu") for (kind, _), places in placed[name].items()}
    for kind, rows in table["webgpu"].items():  # some are registered by macros, or for opsets that are not documented
        if kind in near:
            placed["webgpu"] = {(kind, opsets): near[kind] for opsets in rows} | placed["webgpu"]
    placed["dml"] = by_row(directml(checkout.read(_DML)), table["dml"])
    kept: list[list[str]] = []
    providers: dict[str, Any] = {}
    for provider, kinds in sorted(table.items()):
        kept_rows: dict[str, Any] = {}
        providers[provider] = kept_rows
        for kind, several in sorted(kinds.items()):
            kept_rows[kind] = {}
            for opsets, row in sorted(several.items(), key=lambda one: int(re.findall(r"\d+", one[0])[0])):
                packed: dict[str, Any] = {}
                for name, types in row.get("types", {}).items():
                    if types not in kept:
                        kept.append(types)
                    packed[name] = kept.index(types)
                places = {key: found for key, found in placed[provider].get((kind, opsets), {}).items() if found}
                kept_rows[kind][opsets] = [packed, places] if places else [packed]
    commit = checkout.git("rev-parse", f"{version}^{{commit}}").strip()
    return {
        "version": version.removeprefix("v"),
        "commit": commit,
        "type_sets": kept,
        "slots": slots,
        "providers": providers,
    }


def main() -> None:
    """Write the file."""
    found = derive(*sys.argv[1:3])
    lines = [
        f'{{"version": {json.dumps(found["version"])}, "commit": {json.dumps(found["commit"])},',
        ' "type_sets": [',
    ]
    lines.append(",\n".join(f"  {json.dumps(types)}" for types in found["type_sets"]) + "],")
    slots = ",\n".join(f"  {json.dumps(kind)}: {json.dumps(named)}" for kind, named in sorted(found["slots"].items()))
    lines += [' "slots": {', slots + "},", ' "providers": {']
    parts = []
    for provider, rows in found["providers"].items():
        kinds = ",\n".join(f"   {json.dumps(kind)}: {json.dumps(row)}" for kind, row in rows.items())
        parts.append(f"  {json.dumps(provider)}: {{\n{kinds}}}")
    TARGET.write_text("\n".join([*lines, ",\n".join(parts) + "}}"]) + "\n")


if __name__ == "__main__":
    main()
