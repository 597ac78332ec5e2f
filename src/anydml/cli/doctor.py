"""`anydml doctor`: what a report of a fault should say of the machine, and whether each engine works on it."""

from __future__ import annotations

import os
import platform
import re
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import anydml
from anydml.cli.cache import list_kept
from anydml.cli.console import write_json
from anydml.cli.types import printable
from anydml.cli.wording import as_options
from anydml.core.display import counted
from anydml.core.errors import FAULT
from anydml.core.memory import word_bytes
from anydml.engines import list_engines
from anydml.engines.common.cache import find_folder
from anydml.engines.common.nvidia import find_nvidia
from anydml.engines.common.threads import get_num_threads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from anydml.engines import EngineInfo

_FEATURES = (
    *("sse4.2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vnni", "avxvnni", "amx-int8", "amx-bf16"),
    *("neon", "dotprod", "i8mm", "fullfp16", "bf16", "sve", "sve2"),
)
"""Features of CPUs that kernels are chosen by."""
_SETTINGS = re.compile("ANYDML_|TRITON_INTERPRET$|VK_DRIVER_FILES$|VK_ICD_FILENAMES$|CUDA_VISIBLE_DEVICES$|NO_COLOR$")
_REQUIREMENT = re.compile(r"""([\w.-]+)[^;]*(?:;.*extra\s*==\s*["'](\w+)["'])?""")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
def doctor(as_json: bool) -> None:
    """Show versions, engines, CPU, GPUs, threads, caches and extras, and try each engine: text for a report.

    The exit status is 1 where an engine that is installed gives a wrong result or none.

    \b
    Example:
      anydml doctor
    """
    found = _examine()
    if as_json:
        write_json(found)
    else:
        click.echo("\n".join(_lines(found)))
    if any(engine["fault"] for engine in found["engines"] if engine["is_present"]):
        raise click.exceptions.Exit(FAULT)


def _examine() -> dict[str, Any]:
    """All that there is to tell."""
    own, extras = _packages()
    folder = find_folder()
    kept = {one.kind: {"files": len(one.files), "bytes": one.size} for one in list_kept(folder)}
    return {
        "anydml": anydml.__version__,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": platform.platform(),
        "packages": own,
        "cpu": _cpu(),
        "threads": get_num_threads(),
        "gpus": _gpus(found := list_engines()),
        "engines": [_tried(engine) for engine in found],
        "extras": extras,
        "cache": {"folder": None if folder is None else _short(folder), "kept": kept},
        "settings": {name: value for name, value in sorted(os.environ.items()) if _SETTINGS.match(name)},
    }


def _packages() -> tuple[dict[str, str | None], dict[str, dict[str, str | None]]]:
    """The versions of required packages, and of those of each extra; None for one that is not installed."""
    own: dict[str, str | None] = {}
    extras: dict[str, dict[str, str | None]] = {}
    try:
        required = metadata.requires("anydml") or []
    except metadata.PackageNotFoundError:  # a folder of sources on the path
        required = ["numpy", "llvmlite", "click", "rich"]
    for line in required:
        if (found := _REQUIREMENT.match(line)) is not None:
            name, extra = found.groups()
            (own if extra is None else extras.setdefault(extra, {}))[name] = _version(name)
    return own, extras


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> dict[str, Any]:
    """The CPU as LLVM names it, with the features that kernels are chosen by."""
    try:
        from anydml.engines.cpu.features import find_cpu

        name, features = find_cpu()
    except Exception as error:  # noqa: BLE001 - of a library that cannot be loaded: the engine says why
        return {"name": platform.processor() or platform.machine(), "features": [], "fault": str(error)}
    there = {one[1:] for one in features.split(",") if one.startswith("+")}
    return {"name": name, "features": [one for one in _FEATURES if one in there], "cores": os.cpu_count()}


def _gpus(engines: list[EngineInfo]) -> list[dict[str, str]]:
    """Every GPU that a driver shows, also one that no engine can use yet, with the driver's version."""
    nvidia = find_nvidia()
    found = [] if nvidia is None else [{"name": name, "driver": f"NVIDIA {nvidia.driver}"} for name in nvidia.gpus]
    adapters = [info for engine in engines if engine.name == "webgpu" for info in engine.infos]
    return found + [{"name": info.what, "driver": info.driver} for info in adapters]


def _tried(engine: EngineInfo) -> dict[str, Any]:
    """An engine, and whether it computes."""
    row: dict[str, Any] = {"name": engine.name, "is_present": engine.is_present, "devices": engine.devices}
    row |= {"way_out": engine.way_out, "fault": "", "seconds": None}
    if not engine.is_present:
        return row
    given, begun = np.linspace(-2, 2, 9, dtype=np.float32), time.perf_counter()
    try:
        device = anydml.Device(engine.name)
        found = anydml.activation_relu(given, device=device) if engine.name != "cuda" else _on_gpu(given)
        if not np.array_equal(found, np.maximum(given, 0)):
            row["fault"] = f"relu of {given.tolist()} gave {np.asarray(found).tolist()}"
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it is what is to be told
        row["fault"] = str(error)
    row["seconds"] = round(time.perf_counter() - begun, 3)
    return row


def _on_gpu(given: np.ndarray[Any, Any]) -> Any:
    """The same of a tensor on a GPU; of the host's memory where kernels are interpreted."""
    from anydml.engines.cuda import is_interpreted

    if is_interpreted():
        return anydml.activation_relu(given, device=anydml.Device("cuda"))
    import torch

    return anydml.activation_relu(torch.from_numpy(given).cuda()).cpu().numpy()


def _short(path: Path) -> str:
    """A path without the user's name."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):
        return str(path)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"anydml {found['anydml']}, {found['python']}, {found['system']}"
    yield f"packages: {_versions(found['packages'])}"
    cpu = found["cpu"]
    yield f"cpu: {cpu['name']}, {' '.join(cpu['features']) or 'no features known'}; threads: {found['threads']}"
    gpus = [f"{one['name']} ({one['driver'] or 'driver unknown'})" for one in found["gpus"]]
    yield f"gpus: {printable('; '.join(gpus)) or 'no driver shows one'}"
    yield "engines:"
    for engine in found["engines"]:
        yield f"  {engine['name']}: {'; '.join(engine['devices']) or 'not available'}"
        if engine["fault"]:
            yield f"    does not work: {printable(as_options(engine['fault']))}"
        elif engine["is_present"]:
            yield f"    works: one call took {engine['seconds']} s"
        else:
            yield f"    why: {printable(as_options(engine['way_out']))}"
    yield "extras:"
    for extra, packages in sorted(found["extras"].items()):
        missing = [name for name, version in packages.items() if version is None]
        told = f"missing {', '.join(missing)}: pip install 'anydml[{extra}]'" if missing else _versions(packages)
        yield f"  {extra}: {told}"
    cache = found["cache"]
    yield f"cache: {printable(cache['folder'] or 'none: nothing is kept')}"
    for kind, kept in cache["kept"].items():
        yield f"  {kind}: {counted(kept['files'], 'file')}, {word_bytes(kept['bytes'])}"
    if found["settings"]:
        yield "settings:"
        yield from (f"  {name}={printable(value)}" for name, value in found["settings"].items())


def _versions(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'is missing'}" for name, version in packages.items())
