"""Files that lie beside the package's modules."""

from __future__ import annotations

import json
import os
from typing import Any


def read_json(module: str, name: str) -> Any:
    """The file of a name in the folder of a module, which is given by its `__file__`."""
    path = os.path.join(os.path.dirname(module), name)  # noqa: PTH118, PTH120 - pathlib takes 8 ms of `import anydml`
    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - as above
        return json.load(file)
