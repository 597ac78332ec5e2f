"""The values of a resource as DxDispatch prints them: six digits of a float, and in pieces, however many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np

    from anydml.models import Printed

_CHUNK = 1 << 14


def write_values(event: Printed) -> Iterator[str]:
    """The text after a resource's name, in pieces."""
    count, lines = 0, event.verbose
    total = len(event.types) or event.values.size
    width = len(str(total))
    for values in _chunks(event):
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values.tolist()]
        if lines:
            bits = values.view(f"u{values.dtype.itemsize}").tolist()
            digits = values.dtype.itemsize * 2
            rows = zip(texts, bits, strict=True)
            yield "".join(f"[{count + i:{width}}] {text} (0x{bit:0{digits}X})\n" for i, (text, bit) in enumerate(rows))
        else:
            yield (", " if count else "") + ", ".join(texts)
        count += len(texts)
    if not lines:
        yield "\n"


def _chunks(event: Printed) -> Iterator[np.ndarray[Any, Any]]:
    if event.types:
        at = 0
        for data_type in event.types:
            yield event.values[at : at + data_type.size_in_bytes].view(data_type.dtype)
            at += data_type.size_in_bytes
        return
    for at in range(0, event.values.size, _CHUNK):
        yield event.values[at : at + _CHUNK]
