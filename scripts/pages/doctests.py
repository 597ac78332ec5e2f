"""An extension of the reference: examples in docstrings are code, whatever stands around them."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class Doctests(Extension):  # type: ignore[misc]  # where griffe is not installed
    """Fences every example."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Called for each object that is read."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", obj.docstring.value)
