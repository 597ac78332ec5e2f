"""`anydml run --json`: what a run gave, as one JSON object."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from anydml.cli.console import write_json
from anydml.dxdispatch import Dispatched, Printed, Started, Written
from anydml.engines import describe_engine

if TYPE_CHECKING:
    from anydml.dxdispatch import Event
    from anydml.dxdispatch.timing import Samples
    from anydml.runtime.device import Device


class JsonListener:
    """Collects the events of a run, and writes them once all has gone well."""

    def __init__(self, model: str) -> None:
        self._data: dict[str, Any] = {"model": model, "device": None, "dispatches": [], "resources": {}, "written": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            write_json(self._data)

    def __call__(self, event: Event) -> None:
        """Keep what happened."""
        if isinstance(event, Started):
            self._data["device"] = device_data(event.device)
        elif isinstance(event, Dispatched):
            self._data["dispatches"].append({"name": event.name, **times(event.samples)})
        elif isinstance(event, Printed):
            self._data["resources"][event.name] = _values(event)
        elif isinstance(event, Written):
            self._data["written"].append({"resource": event.name, "path": str(event.path)})


def device_data(device: Device) -> dict[str, str]:
    """The device of a run."""
    return {"name": device.name, "description": describe_engine(device.engine)}


def times(samples: Samples) -> dict[str, Any]:
    """The figures of samples; the first ones, which are cold, are left out."""
    hot = samples.hot
    found: dict[str, Any] = {"iterations": len(samples.milliseconds)}
    if hot is not None:
        found |= {"median_ms": hot.median, "min_ms": hot.least, "average_ms": hot.average, "max_ms": hot.most}
    return found


def plain(values: list[Any]) -> list[Any]:
    """Numbers that JSON has; the others are the strings that DxDispatch's models have for them."""
    return [str(x) if isinstance(x, float) and not math.isfinite(x) else x for x in values]


def _values(event: Printed) -> list[Any]:
    if not event.types:
        return plain(event.values.tolist())
    found, at = [], 0
    for data_type in event.types:
        found += event.values[at : at + data_type.size_in_bytes].view(data_type.dtype).tolist()
        at += data_type.size_in_bytes
    return plain(found)
