"""Write what pages derive from the source: the index of operators by family, their number, the drawing of the layers.

python -m scripts.write_operators
"""

from __future__ import annotations

import re
from pathlib import Path

from anydml.operators import OPERATORS
from scripts.pages import layers
from scripts.pages.index import index_page

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "operators" / "index.md"
COUNTING = (ROOT / "README.md", ROOT / "docs" / "index.md")
"""The texts that say how many operators there are."""


def count(text: str) -> str:
    """A text with the number of operators as it is now."""
    return re.sub(r"\bAll \d+ (?=are there|operators)", f"All {len(OPERATORS)} ", text)


if __name__ == "__main__":
    PAGE.write_text(index_page(is_linked=False), encoding="utf-8")
    for file in COUNTING:
        file.write_text(count(file.read_text(encoding="utf-8")), encoding="utf-8")
    layers.PAGE.write_text(layers.put_layers(layers.PAGE.read_text(encoding="utf-8")), encoding="utf-8")
