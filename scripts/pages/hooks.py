"""Called by MkDocs: adds pages of operators, changelog, notebook and drawings' style, and fills in runs and tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

from anydml.operators import OPERATORS
from anydml.operators.slice import Slice1
from benchmarks.chart import draw
from scripts.pages.cheat_sheets import fill_tables
from scripts.pages.drawing import CHART, PICTURE, draw_operator, style_of
from scripts.pages.families import families, page_of
from scripts.pages.index import index_page
from scripts.pages.notebook import NOTEBOOK, PAGE, write_notebook
from scripts.pages.operator import operator_page
from scripts.pages.runs import written_run

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parent.parent.parent
INDEX = "operators/index.md"
_RUN = re.compile(r"^<!-- run: ([\w-]+) -->$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put every operator in the navigation, below its family."""
    pages = {title: [f"operators/{page_of(cls)}" for cls in classes] for title, classes in families().items()}
    entries: list[Any] = [INDEX, *({title: several} for title, several in pages.items())]
    config.nav = [{"Operators": entries} if "Operators" in entry else entry for entry in config.nav or ()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are made."""
    made = {f"operators/{page_of(cls)}": operator_page(cls) for cls in OPERATORS.values()}
    made |= {INDEX: index_page(is_linked=True), "changelog.md": changelog()}
    made[NOTEBOOK] = write_notebook((ROOT / "docs" / PAGE).read_text(encoding="utf-8"))
    made["assets/drawings.css"] = style_of(draw_operator(Slice1).svg(), PICTURE) + style_of(draw([]), CHART)
    for path, content in made.items():
        if (there := files.get_file_from_path(path)) is not None:
            files.remove(there)
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the table and the chart of a logged run, and tables of names, where a page asks for them."""
    return fill_tables(_RUN.sub(lambda found: written_run(found[1]), markdown))


def changelog() -> str:
    """The changelog, with links that hold from a page of the site; a search would find it before the guides."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return "---\nsearch:\n  exclude: true\n---\n" + text.replace("](docs/", "](")
