"""Write `docs/operators/index.md`: every operator by family, with its function and what it does.

python -m scripts.write_operators
"""

from __future__ import annotations

from pathlib import Path

from scripts.pages.index import index_page

PAGE = Path(__file__).parent.parent / "docs" / "operators" / "index.md"

if __name__ == "__main__":
    PAGE.write_text(index_page(is_linked=False), encoding="utf-8")
