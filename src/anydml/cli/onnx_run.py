"""`anydml run MODEL.onnx`: inputs from files or made up, outputs to files, and how long it took."""

from __future__ import annotations

import io
import time
from array import array
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from anydml.cli.console import write_json
from anydml.cli.onnx_inputs import Given, feed, file_name, made_up_told
from anydml.cli.profile import tell_profile
from anydml.cli.progress import working
from anydml.cli.run_json import device_data, plain, times
from anydml.cli.types import printable
from anydml.core.errors import Fault, ModelFileError
from anydml.core.files import real_path
from anydml.core.memory import word_bytes
from anydml.dxdispatch.timing import Samples
from anydml.dxdispatch.writes import Writes
from anydml.engines import describe_engine
from anydml.runtime.device import Device

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anydml.core.enums import FeatureLevel
    from anydml.dxdispatch.timing import Timing

_MOST_SHOWN = 8
"""Elements of an output that are printed."""


def run_onnx(
    path: Path,
    given: Given,
    engine: str | None,
    level: FeatureLevel,
    timing: Timing,
    output_path: Path | None,
    *,
    shows: bool = False,
    profile: str | None = None,
    top: int | None = None,
    as_json: bool = False,
) -> None:
    """Load, run as often as asked, show the outputs, and write them where a folder is given."""
    from anydml.onnx import load
    from anydml.onnx.program import peak_of_process

    before = peak_of_process()
    device = Device(engine, feature_level=level)
    start = time.perf_counter()
    options: dict[str, Any] = {
        "max_memory": given.max_memory,
        "strict": given.strict,
        "disable_passes": given.disable_passes,
    }
    with working(f"Compiling {printable(path.name)}"):
        model = load(path, device=device, shapes=given.shapes(), **options)
    loaded = (time.perf_counter() - start - model.compile_seconds) * 1000
    if not as_json:
        click.echo(f"Running on '{device.name} ({describe_engine(device.engine)})'")
    arrays = given.arrays(lambda: model.inputs)
    inputs = feed(model, given, arrays)
    with working(f"Running {printable(path.name)}"), made_up_told(inputs, arrays):
        outputs, samples = _repeat(model, inputs, timing)
    after = peak_of_process()
    grown = None if before is None or after is None else after - before
    if as_json:
        data: dict[str, Any] = {"model": str(path), "device": device_data(device), "load_ms": loaded}
        data |= {"compile_ms": model.compile_seconds * 1000, "first_ms": samples.milliseconds[0], **times(samples)}
        data |= {"process_grew_by": grown, "outputs": {name: _as_data(np.asarray(v)) for name, v in outputs.items()}}
        data["written"] = (
            [
                {"output": name, "path": str(output_path / file)}
                for name, file in zip(outputs, _write(outputs, output_path), strict=True)
            ]
            if output_path is not None
            else []
        )
        write_json(data)
    else:
        if shows:
            _show_bindings(model, inputs, outputs, arrays)
        _show_run(model, outputs, samples, loaded, grown)
        for name, file in zip(outputs, _write(outputs, output_path), strict=True) if output_path is not None else ():
            click.echo(f"Output '{printable(name)}' written to '{printable(file)}'")
    if profile is not None:
        tell_profile(model.profile(inputs, runs=len(samples.milliseconds)), profile, top=top, is_quiet=as_json)


def _show_run(model: Any, outputs: Mapping[str, Any], samples: Samples, loaded: float, grown: int | None) -> None:
    """The times, the memory and the outputs."""
    hot = samples.hot
    assert hot is not None  # noqa: S101 - for type checkers: there is one sample at least
    first = samples.milliseconds[0]
    click.echo(f"Load: {loaded:.4f} ms, compile: {model.compile_seconds * 1000:.4f} ms, first run: {first:.4f} ms")
    count = len(samples.milliseconds)
    if count == 1:
        click.echo(f"Run: {first:.4f} ms, the first run (CPU); --dispatch_iterations N for a median")
    else:
        click.echo(f"Run: {count} iterations, {hot.median:.4f} ms median, {hot.least:.4f} ms min (CPU)")
    told = "" if grown is None else f"; the process took {word_bytes(grown)} more"
    click.echo(f"Memory: {model.memory} planned{told}")
    for name, values in outputs.items():
        click.echo(_describe(name, np.asarray(values)))


def _as_data(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An output: its first elements, as --output_path writes them all."""
    first = plain(values.reshape(-1)[:_MOST_SHOWN].tolist())
    return {"type": values.dtype.name, "shape": list(values.shape), "first": first}


def _show_bindings(model: Any, inputs: Mapping[str, Any], outputs: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """The tensors, as DxDispatch shows them."""
    for what, infos, values in (("Input", model.inputs, inputs), ("Output", model.outputs, outputs)):
        for name, value in values.items():
            click.echo(f"{what} Tensor '{printable(name)}':")
            click.echo(f"  Resource  = {'given' if name in given else 'implicit'}")
            click.echo(f"  Data Type = {infos[name].element.name}")
            click.echo(f"  Shape     = [{','.join(map(str, np.shape(value)))}]\n")


def _repeat(model: Any, inputs: dict[str, Any], timing: Timing) -> tuple[dict[str, Any], Samples]:
    """Run for so many iterations, or for so long; what is compiled meanwhile is no part of a sample."""
    milliseconds: array[float] = array("d")
    began = time.perf_counter()
    outputs: dict[str, Any] = {}
    while True:
        start, compiled = time.perf_counter(), model.compile_seconds
        for _ in range(timing.repeat):
            outputs = model.run(inputs)
        end = time.perf_counter()
        spent = end - start - (model.compile_seconds - compiled)
        milliseconds.append(spent * 1000 / timing.repeat)
        if timing.milliseconds is not None:
            if (end - began) * 1000 >= timing.milliseconds:
                break
        elif len(milliseconds) >= timing.iterations:
            break
        time.sleep(max(timing.interval / 1000 - (end - start), 0))
    return outputs, Samples(milliseconds, timing.warmup)


def _describe(name: str, values: np.ndarray[Any, Any]) -> str:
    shown = [f"{v:g}" if isinstance(v, float) else str(v) for v in values.reshape(-1)[:_MOST_SHOWN].tolist()]
    more = ", …" if values.size > _MOST_SHOWN else ""
    sizes = ",".join(map(str, values.shape))
    return f"Output '{printable(name)}': {values.dtype.name}[{sizes}] {', '.join(shown)}{more}"


def _write(outputs: Mapping[str, Any], folder: Path) -> list[str]:
    """Write an .npy for each output, all of them or none, into a folder that is made; gives the files' names."""
    names = {name: f"{file_name(name)}.npy" for name in outputs}
    if len(set(map(str.lower, names.values()))) < len(names):
        names = {name: f"{i}_{file}" for i, (name, file) in enumerate(names.items())}
    for name, file in names.items():
        target = folder / file
        if target.exists() and not target.is_file():
            rule = f"{file} must be a file, and is something else"
            raise ModelFileError("--output_path", Fault(field=name, rule=rule, value=str(target)))
    with Writes() as writes:
        for name, file in names.items():
            data = io.BytesIO()
            np.save(data, np.asarray(outputs[name]), allow_pickle=False)
            writes.stage(real_path(folder / file), [data.getvalue()])  # a view of it may outlive it
        writes.commit()
    return list(names.values())
